/** Messages of all kinds as content blocks of the thread event protocol. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ContentBlocks, type MessageEvent } from "../../../lib/executor/content-blocks.ts";
import type { Json, JsonObject } from "../../../lib/json.ts";

const at = { langgraph_checkpoint_ns: "agent:t1", langgraph_node: "agent" };

/** Returns the data of events, after a check of the members that all events of a message share. */
function toEventData(
  events: readonly MessageEvent[],
  run_id = "m",
  namespace: readonly string[] = ["agent:t1"],
): Json[] {
  return events.map(({ data: { run_id: id, ...data }, ...event }) => {
    assert.deepEqual([id, event.namespace, event.node], [run_id, namespace, "agent"]);
    return data;
  });
}

/** Returns the events of a message that streams in these chunks and ends with `close`. */
function streamed(...chunks: readonly JsonObject[]): Json[] {
  const blocks = new ContentBlocks();
  const events = chunks.flatMap((chunk) => blocks.addMessage({ type: "AIMessageChunk", id: "m", ...chunk }, at));
  assert.equal(blocks.hasOpenMessages, true);
  events.push(...blocks.close(["agent:t1"]));
  assert.equal(blocks.hasOpenMessages, false);
  return toEventData(events);
}

/** Returns the events of a complete message. */
function whole(message: JsonObject): Json[] {
  return toEventData(new ContentBlocks().addMessage({ id: "m", ...message }, at));
}

const started = { event: "message-start", id: "m", role: "ai" };
const ended = (reason = "stop"): JsonObject => ({ event: "message-finish", reason });
const block = (index: number, start: JsonObject, deltas: readonly JsonObject[], content: JsonObject): Json[] => [
  { event: "content-block-start", index, content: start },
  ...deltas.map((delta) => ({ event: "content-block-delta", index, delta })),
  { event: "content-block-finish", index, content },
];
const text = (index: number, ...parts: readonly string[]): Json[] =>
  block(
    index,
    { type: "text", text: "" },
    parts.map((part) => ({ type: "text-delta", text: part })),
    { type: "text", text: parts.join("") },
  );
const reasoning = (index: number, parts: readonly string[], extraFields: JsonObject = {}): Json[] =>
  block(
    index,
    { type: "reasoning", reasoning: "" },
    parts.map((part) => ({ type: "reasoning-delta", reasoning: part })),
    { type: "reasoning", reasoning: parts.join(""), ...extraFields },
  );
const call = (index: number, id: string, name: string, args: readonly string[], content?: JsonObject): Json[] =>
  block(
    index,
    { type: "tool_call_chunk", id, name, args: "" },
    args.map((fragment) => ({ type: "block-delta", fields: { type: "tool_call_chunk", id, name, args: fragment } })),
    content ?? { type: "tool_call", id, name, args: JSON.parse(args.at(-1) ?? "{}") as Json },
  );

describe("content blocks: streamed text", () => {
  it("starts with the first chunk, and ends with usage, finish reason and provider metadata", () => {
    const usage_metadata = { input_tokens: 3, output_tokens: 1, total_tokens: 4 };
    const response_metadata = { model_provider: "openai", model_name: "gpt" };
    assert.deepEqual(
      streamed(
        { content: "", response_metadata },
        { content: "Hi ", usage_metadata },
        { content: "you" },
        { content: "", usage_metadata: { input_tokens: 0, output_tokens: 1, total_tokens: 1 } },
        { content: "", response_metadata: { finish_reason: "length" } },
      ),
      [
        { ...started, metadata: { provider: "openai", model: "gpt" } },
        ...text(0, "Hi ", "you"),
        {
          event: "message-finish",
          reason: "length",
          usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 },
          metadata: { ...response_metadata, finish_reason: "length" },
        },
      ],
    );
  });

  it("accepts lists of blocks with and without an index", () => {
    const parts = [
      { content: [{ type: "text", text: "a", index: 0 }] },
      { content: [{ type: "text", text: "b", index: 0 }] },
      { content: [{ type: "text", text: "c", index: 1 }] },
    ];
    assert.deepEqual(streamed(...parts), [
      started,
      ...block(
        0,
        { type: "text", text: "" },
        [
          { type: "text-delta", text: "a" },
          { type: "text-delta", text: "b" },
        ],
        { type: "text", text: "ab" },
      ),
      ...text(1, "c"),
      ended(),
    ]);
    const loose = [{ content: [{ type: "text", text: "a" }] }, { content: "b" }];
    assert.deepEqual(streamed(...loose), [started, ...text(0, "a", "b"), ended()]);
  });

  it("keeps the other members of the message", () => {
    const annotations = [{ type: "citation", url: "https://a.example" }];
    assert.deepEqual(streamed({ content: [{ type: "text", text: "a", annotations }] }), [
      started,
      ...block(0, { type: "text", text: "" }, [{ type: "text-delta", text: "a" }], {
        type: "text",
        text: "a",
        annotations,
      }),
      ended(),
    ]);
  });

  it("has only a start and an end for a message without content", () => {
    assert.deepEqual(streamed({ content: "" }), [started, ended()]);
  });
});

describe("content blocks: reasoning", () => {
  it("has the signature of Anthropic's thinking", () => {
    assert.deepEqual(
      streamed(
        { content: [{ type: "thinking", thinking: "Let ", index: 0 }] },
        { content: [{ type: "thinking", thinking: "me see", index: 0 }] },
        { content: [{ type: "thinking", signature: "s1", index: 0 }] },
        { content: [{ type: "text", text: "Yes", index: 1 }] },
      ),
      [started, ...reasoning(0, ["Let ", "me see"], { signature: "s1" }), ...text(1, "Yes"), ended()],
    );
  });

  it("comes from OpenAI, DeepSeek, Groq, Bedrock, Google and the standard form", () => {
    const forms: JsonObject[] = [
      { content: [], additional_kwargs: { reasoning: { id: "r1", summary: [{ index: 0, text: "Hm" }] } } },
      { content: "", additional_kwargs: { reasoning_content: "Hm" } },
      { content: "", additional_kwargs: { reasoning: "Hm" } },
      { content: [{ type: "reasoning_content", reasoningText: { text: "Hm" }, index: 0 }] },
      { content: [{ type: "text", text: "Hm", thought: true }] },
      { content: [{ type: "reasoning", reasoning: "Hm", index: 0 }] },
      { content: [{ type: "reasoning", reasoning: "Hm" }], additional_kwargs: { reasoning_content: "Hm" } },
    ];
    for (const [form, chunk] of forms.entries()) {
      assert.deepEqual(streamed(chunk, { content: "Yes" }), [
        started,
        ...reasoning(0, ["Hm"], form === 0 ? { id: "r1" } : {}),
        ...text(1, "Yes"),
        ended(),
      ]);
    }
  });
});

describe("content blocks: tool calls", () => {
  it("streams as growing arguments, and ends with the parsed arguments", () => {
    assert.deepEqual(
      streamed(
        { content: "Wait", tool_call_chunks: [{ index: 0, id: "c1", name: "search", args: "" }] },
        { content: "", tool_call_chunks: [{ index: 0, args: '{"q":' }] },
        { content: "", tool_call_chunks: [{ index: 0, args: '"a"}' }] },
        { content: "", tool_call_chunks: [{ index: 1, id: "c2", name: "now" }] },
      ),
      [
        started,
        ...text(0, "Wait"),
        ...call(1, "c1", "search", ['{"q":', '{"q":"a"}']),
        ...call(2, "c2", "now", []),
        ended("tool_use"),
      ],
    );
  });

  it("separates calls without an index, and calls with the same index", () => {
    for (const indexFields of [{}, { index: 0 }] as JsonObject[]) {
      assert.deepEqual(
        streamed(
          { content: "", tool_call_chunks: [{ ...indexFields, id: "c1", name: "a", args: '{"x":' }] },
          { content: "", tool_call_chunks: [{ ...indexFields, args: "1}" }] },
          { content: "", tool_call_chunks: [{ ...indexFields, id: "c2", name: "b", args: "{}" }] },
        ),
        [started, ...call(0, "c1", "a", ['{"x":', '{"x":1}']), ...call(1, "c2", "b", ["{}"]), ended("tool_use")],
      );
    }
  });

  it("ends interleaved calls with all of their arguments", () => {
    const events = streamed(
      { content: "", tool_call_chunks: [{ index: 0, id: "c1", name: "a", args: '{"x":' }] },
      { content: "", tool_call_chunks: [{ index: 1, id: "c2", name: "b", args: '{"y":' }] },
      { content: "", tool_call_chunks: [{ index: 0, args: "1}" }] },
      { content: "", tool_call_chunks: [{ index: 1, args: "2}" }] },
    ) as JsonObject[];
    const last = new Map(
      events.filter(({ event }) => event === "content-block-finish").map(({ index, content }) => [index, content]),
    );
    assert.deepEqual(
      [...last.values()],
      [
        { type: "tool_call", id: "c1", name: "a", args: { x: 1 } },
        { type: "tool_call", id: "c2", name: "b", args: { y: 2 } },
      ],
    );
  });

  it("does not repeat Anthropic's calls from the content", () => {
    assert.deepEqual(
      streamed(
        {
          content: [{ type: "tool_use", id: "c1", name: "a", input: "", index: 1 }],
          tool_call_chunks: [{ index: 1, id: "c1", name: "a", args: "" }],
        },
        {
          content: [{ type: "input_json_delta", input: "{}", index: 1 }],
          tool_call_chunks: [{ index: 1, args: "{}" }],
        },
      ),
      [started, ...call(0, "c1", "a", ["{}"]), ended("tool_use")],
    );
  });

  it("marks arguments that are no object as invalid", () => {
    const invalid = (args: string): JsonObject => ({
      type: "invalid_tool_call",
      id: "c1",
      name: "a",
      args,
      error: "The arguments are not a JSON object",
    });
    for (const args of ['{"x":', "[1]", "null"]) {
      assert.deepEqual(streamed({ content: "", tool_call_chunks: [{ index: 0, id: "c1", name: "a", args }] }), [
        started,
        ...call(0, "c1", "a", [args], invalid(args)),
        ended("tool_use"),
      ]);
    }
  });

  it("emits long arguments less often, and completely at the end", () => {
    const pieces = Array.from(
      { length: 5000 },
      (_, at) => `${at === 0 ? '{"x":"' : ""}0123456789${at === 4999 ? '"}' : ""}`,
    );
    const events = streamed(
      { content: "", tool_call_chunks: [{ index: 0, id: "c1", name: "a", args: "" }] },
      ...pieces.map((args) => ({ content: "", tool_call_chunks: [{ index: 0, args }] })),
    );
    const finish = events.at(-2) as { content: { args: { x: string } } };
    assert.equal(finish.content.args.x.length, 50_000);
    const length = JSON.stringify(events).length;
    assert.ok(length < 40 * 50_000, `${length} characters for arguments of 50,000`);
  });
});

describe("content blocks: media and others", () => {
  it("streams the data, and ends with all of it", () => {
    assert.deepEqual(
      streamed(
        { content: [{ type: "image", mimeType: "image/png", data: "AAAA", index: 0 }] },
        { content: [{ type: "image", mimeType: "image/png", data: "BBBB", index: 0 }] },
      ),
      [
        started,
        ...block(
          0,
          { type: "image", mime_type: "image/png" },
          ["AAAA", "BBBB"].map((data) => ({ type: "data-delta", data, encoding: "base64" })),
          { type: "image", mime_type: "image/png", data: "AAAABBBB" },
        ),
        ended(),
      ],
    );
  });

  it("reads the forms of all providers", () => {
    const forms: readonly (readonly [JsonObject, JsonObject])[] = [
      [
        { type: "image", source_type: "base64", mime_type: "image/png", data: "AA==" },
        { mime_type: "image/png", data: "AA==" },
      ],
      [
        { type: "image", source: { type: "base64", media_type: "image/png", data: "AA==" } },
        { mime_type: "image/png", data: "AA==" },
      ],
      [
        { type: "image_url", image_url: { url: "data:image/png;base64,AA==" } },
        { mime_type: "image/png", data: "AA==" },
      ],
      [{ type: "image_url", image_url: "https://a.example/b.png" }, { url: "https://a.example/b.png" }],
      [
        { type: "image", url: "https://a.example/b.png", mimeType: "image/png" },
        { mime_type: "image/png", url: "https://a.example/b.png" },
      ],
      [
        { type: "inlineData", inlineData: { mimeType: "image/png", data: "AA==" } },
        { mime_type: "image/png", data: "AA==" },
      ],
      [{ type: "image", fileId: "f1" }, { file_id: "f1" }],
    ];
    for (const [part, expected] of forms) {
      const finish = whole({ type: "ai", content: [part] }).at(-2) as { content: Json };
      assert.deepEqual(finish.content, { type: "image", ...expected });
    }
    const audio = whole({
      type: "ai",
      content: [{ type: "input_audio", input_audio: { format: "wav", data: "AA==" } }],
    });
    assert.deepEqual((audio.at(-2) as JsonObject).content, { type: "audio", mime_type: "audio/wav", data: "AA==" });
    const file = whole({
      type: "human",
      content: [{ type: "document", source: { type: "url", url: "https://a.example" } }],
    });
    assert.deepEqual((file.at(-2) as JsonObject).content, { type: "file", url: "https://a.example" });
  });

  it("reads OpenAI's additional members", () => {
    const image = { type: "image_generation_call", id: "i1", result: "AA==", output_format: "webp" };
    assert.deepEqual(streamed({ content: "", additional_kwargs: { tool_outputs: [image] } }).slice(1, -1), [
      ...block(
        0,
        { type: "image", id: "i1", mime_type: "image/webp" },
        [{ type: "data-delta", data: "AA==", encoding: "base64" }],
        { type: "image", id: "i1", mime_type: "image/webp", data: "AA==" },
      ),
    ]);
    const spoken = streamed(
      { content: "", additional_kwargs: { audio: { id: "a1", transcript: "Hel" } } },
      { content: "", additional_kwargs: { audio: { transcript: "lo" } } },
      { content: "", additional_kwargs: { audio: { data: "AAAA" } } },
    );
    assert.deepEqual((spoken.at(-2) as JsonObject).content, {
      type: "audio",
      id: "a1",
      mime_type: "audio/wav",
      transcript: "Hello",
      data: "AAAA",
    });
  });

  it("keeps unknown blocks unchanged", () => {
    const part = { type: "server_tool_call", id: "s1", name: "web_search", args: { query: "a" } };
    assert.deepEqual(whole({ type: "ai", content: [part] }), [started, ...block(0, part, [], part), ended()]);
  });
});

describe("content blocks: whole messages", () => {
  it("emits each block of a whole message with one delta", () => {
    const usage_metadata = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
    const message = {
      type: "ai",
      content: "Hi",
      tool_calls: [{ type: "tool_call", id: "c1", name: "a", args: { x: 1 } }],
      invalid_tool_calls: [{ type: "invalid_tool_call", id: "c2", name: "b", args: "{", error: "no" }],
      usage_metadata,
    };
    assert.deepEqual(whole(message), [
      started,
      ...text(0, "Hi"),
      ...call(1, "c1", "a", ['{"x":1}']),
      ...call(2, "c2", "b", ["{"], { type: "invalid_tool_call", id: "c2", name: "b", args: "{", error: "no" }),
      { event: "message-finish", reason: "tool_use", usage: usage_metadata },
    ]);
  });

  it("uses the role of the message type", () => {
    const roles = { human: "human", system: "system", ai: "ai", tool: "tool", function: "tool" };
    for (const [type, role] of Object.entries(roles)) {
      const [start] = whole({ type, content: "a", tool_call_id: "c1" });
      const tool_call_id = role === "tool" ? { tool_call_id: "c1" } : {};
      assert.deepEqual(start, { event: "message-start", id: "m", role, ...tool_call_id });
    }
    assert.deepEqual(whole({ type: "remove", content: "" }), []);
  });
});

describe("content blocks: ends of messages", () => {
  const chunk = (id: string, content = "Hi"): JsonObject => ({ type: "AIMessageChunk", id, content });

  it("come once with the whole message and its usage", () => {
    for (const end of ["chunk", "finish"] as const) {
      const blocks = new ContentBlocks();
      const first = blocks.addMessage(chunk("m"), at);
      const usage_metadata = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
      const message = {
        type: "ai",
        id: "m",
        content: "Hi",
        usage_metadata,
        response_metadata: { finish_reason: "stop" },
      };
      const last =
        end === "chunk" ? blocks.addMessage(message, at) : blocks.finish([message, { type: "human", id: "x" }]);
      assert.deepEqual(toEventData([...first, ...last]), [
        started,
        ...text(0, "Hi"),
        { event: "message-finish", reason: "stop", usage: usage_metadata, metadata: { finish_reason: "stop" } },
      ]);
      assert.deepEqual(
        [...blocks.finish([message]), ...blocks.addMessage(message, at), ...blocks.addMessage(chunk("m"), at)],
        [],
      );
      assert.equal(blocks.hasOpenMessages, false);
    }
  });

  it("come with the end of the task, and of no other task", () => {
    const blocks = new ContentBlocks();
    blocks.addMessage(chunk("a"), { langgraph_checkpoint_ns: "agent:t1|inner:t2", langgraph_node: "agent" });
    blocks.addMessage(chunk("b"), { langgraph_checkpoint_ns: "agent:t3", langgraph_node: "agent" });
    const finished = toEventData(blocks.close(["agent:t1"]), "a", ["agent:t1", "inner:t2"]);
    assert.deepEqual(finished.at(-1), ended());
    assert.equal(blocks.hasOpenMessages, true);
    assert.equal(blocks.close([]).length, 2);
  });

  it("come with a failure", () => {
    const blocks = new ContentBlocks();
    blocks.addMessage(chunk("m"), at);
    assert.deepEqual(toEventData(blocks.close(["agent:t1"], "boom")), [{ event: "error", message: "boom" }]);
    assert.deepEqual(
      [...blocks.close(["agent:t1"], "boom"), ...blocks.addMessage(chunk("m"), at), ...blocks.close([])],
      [],
    );
  });

  it("keep concurrent messages apart", () => {
    const blocks = new ContentBlocks();
    const events = ["run-a", "b", "run-a", "b"].flatMap((id) => blocks.addMessage(chunk(id, id), at));
    events.push(...blocks.close([]));
    const of = (run_id: string): MessageEvent[] => events.filter(({ data }) => data.run_id === run_id);
    assert.deepEqual(toEventData(of("a"), "a"), [{ ...started, id: "run-a" }, ...text(0, "run-a", "run-a"), ended()]);
    assert.deepEqual(toEventData(of("b"), "b"), [{ ...started, id: "b" }, ...text(0, "b", "b"), ended()]);
  });

  it("are missing for messages without an id", () => {
    assert.deepEqual(new ContentBlocks().addMessage({ type: "AIMessageChunk", content: "a" }, at), []);
  });

  it("are in the root namespace for agents without tasks", () => {
    const [start] = new ContentBlocks().addMessage(chunk("m"), {
      langgraph_checkpoint_ns: "",
      langgraph_node: "agent",
    });
    assert.deepEqual(start?.namespace, []);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type MessageFrame, MessageFrames } from "../../../lib/executor/message-frames.ts";
import { coerceMessage, coerceMessages, reduceMessages } from "../../../lib/executor/messages.ts";
import type { Json, JsonObject } from "../../../lib/json.ts";
import { testService } from "../../suite/kit.ts";

const coerce = (value: Json, fallback: "human" | "ai" = "human"): JsonObject =>
  coerceMessage(value, () => "new", fallback);
const bare = { additional_kwargs: {}, response_metadata: {} };

describe("coerceMessage", () => {
  it("accepts every role and type", () => {
    const names = [
      ["user", "human"],
      ["human", "human"],
      ["assistant", "ai"],
      ["ai", "ai"],
      ["system", "system"],
      ["developer", "system"],
      ["tool", "tool"],
      ["AIMessageChunk", "ai"],
    ];
    for (const [name = "", type = ""] of names) {
      const expected = { type, content: "x", id: "m", ...bare };
      assert.deepEqual(coerce({ role: name, content: "x", id: "m" }), expected);
      assert.deepEqual(coerce({ type: name, content: "x", id: "m" }), expected);
    }
  });

  it("accepts strings, pairs and serialized LangChain messages", () => {
    assert.deepEqual(coerce("hi"), { type: "human", content: "hi", id: "new", ...bare });
    assert.deepEqual(coerce("hi", "ai").type, "ai");
    assert.deepEqual(coerce(["user", "hi"]), { type: "human", content: "hi", id: "new", ...bare });
    const kwargs = { content: "yo", id: "m1", tool_calls: [] };
    assert.deepEqual(coerce({ lc: 1, type: "constructor", id: ["langchain_core", "messages", "AIMessage"], kwargs }), {
      type: "ai",
      content: "yo",
      id: "m1",
      tool_calls: [],
      ...bare,
    });
  });

  it("keeps other members and an own __proto__ key", () => {
    const message = coerce(
      JSON.parse('{"role":"user","content":[{"type":"text","text":"x"}],"name":"Ann","__proto__":{"a":1}}'),
    );
    assert.equal(message.name, "Ann");
    assert.deepEqual(Object.getOwnPropertyDescriptor(message, "__proto__")?.value, { a: 1 });
    assert.equal(Object.getPrototypeOf(message), Object.prototype);
  });

  it("converts OpenAI's tool calls", () => {
    const call = (text: string): Json => ({ id: "c", type: "function", function: { name: "add", arguments: text } });
    const message = coerce({ role: "assistant", content: null, tool_calls: [call('{"a":1}'), call("{oops}")] });
    assert.equal(message.content, "");
    assert.deepEqual(message.tool_calls, [{ name: "add", args: { a: 1 }, id: "c", type: "tool_call" }]);
    assert.equal((message.invalid_tool_calls as JsonObject[])[0]!.args, "{oops}");
    const ours = [{ name: "add", args: {}, id: "c", type: "tool_call" }];
    assert.deepEqual(coerce({ type: "ai", content: "", tool_calls: ours }).tool_calls, ours);
  });

  it("refuses everything else with a reason", () => {
    const wrong: readonly (readonly [Json, RegExp])[] = [
      [null, /not null/],
      [5, /not 5/],
      [{ content: "x" }, /role or a type/],
      [{ role: "wizard", content: "x" }, /"wizard"/],
      [{ role: "constructor", content: "x" }, /"constructor"/],
      [{ role: "user" }, /content/],
      [{ role: "user", content: 1 }, /content/],
      [{ role: "user", content: "x", id: 7 }, /id must be a string/],
      [["user"], /\[role, content\]/],
      [{ type: "remove" }, /id of the message/],
    ];
    for (const [value, text] of wrong) assert.throws(() => coerce(value), text);
  });
});

describe("coerceMessages", () => {
  it("flattens run inputs inside a list", () => {
    const run = { messages: [{ role: "user", content: "a" }, "b"] };
    const contents = (value: Json): Json[] =>
      coerceMessages(value, () => "new", "ai").map((message) => [message.type!, message.content!]);
    assert.deepEqual(contents([run, "c"]), [
      ["human", "a"],
      ["ai", "b"],
      ["ai", "c"],
    ]);
    assert.deepEqual(contents({ role: "user", content: "one" }), [["human", "one"]]);
    assert.deepEqual(contents(null), []);
  });
});

describe("reduceMessages", () => {
  const message = (id: string, content = id): JsonObject => ({ type: "ai", content, id });
  const remove = (id: string): JsonObject => ({ type: "remove", content: "", id });
  const ids = (messages: Json[]): Json[] => messages.map((item) => (item as JsonObject).id as Json);

  it("appends, replaces in place and removes without changing its arguments", () => {
    const frozenMessages = Object.freeze([message("a"), message("b"), "odd"]);
    const right = Object.freeze([message("c"), message("a", "new"), remove("b"), message("c", "newer")]);
    const merged = reduceMessages(frozenMessages, right);
    assert.deepEqual(merged, [message("a", "new"), "odd", message("c", "newer")]);
    assert.equal(reduceMessages(frozenMessages, [])[0], frozenMessages[0]);
  });

  it("removes all messages before `remove all`", () => {
    assert.deepEqual(ids(reduceMessages([message("a")], [message("b"), remove("__remove_all__"), message("c")])), [
      "c",
    ]);
    assert.deepEqual(reduceMessages([message("a")], [remove("__remove_all__")]), []);
  });

  it("refuses to remove an unknown message", () => {
    assert.throws(() => reduceMessages([message("a")], [remove("z")]), /"z"/);
    assert.throws(() => reduceMessages([message("a")], [remove("a"), remove("a")]), /"a"/);
  });
});

describe("MessageFrames", () => {
  const chunk = (delta: JsonObject): JsonObject => ({ type: "AIMessageChunk", id: "m", content: "", ...delta });
  const last = (deltas: readonly JsonObject[]): JsonObject => {
    const frames = new MessageFrames();
    const frameList = deltas.flatMap((delta) => frames.addMessage(chunk(delta), {}));
    return (frameList.at(-1) as { data: JsonObject[] }).data[0] as JsonObject;
  };

  it("emits the metadata once, every partial, and the complete message once", () => {
    const frames = new MessageFrames();
    const metadata = { langgraph_node: "chat" };
    const content = (frame: MessageFrame | undefined): Json | undefined =>
      (frame?.data as JsonObject[] | undefined)?.[0]?.content;
    const first = frames.addMessage(chunk({ content: "He" }), metadata);
    const second = frames.addMessage(chunk({ content: "llo" }), metadata);
    assert.deepEqual(first, [
      { event: "messages/metadata", namespace: [], data: { m: { metadata } } },
      { event: "messages/partial", namespace: [], data: [{ type: "ai", id: "m", content: "He" }] },
    ]);
    assert.equal(second.length, 1);
    assert.equal(content(second[0]), "Hello");
    // The arguments are unchanged.
    assert.equal(content(first[1]), "He");

    const full = { type: "ai", id: "m", content: "Hello" };
    for (const nothing of [undefined, null, "x", [], [{ type: "human", id: "h", content: "x" }, "odd"]]) {
      assert.deepEqual(frames.finish(nothing), []);
    }
    assert.deepEqual(frames.finish([full]), [{ event: "messages/complete", namespace: [], data: [full] }]);
    assert.deepEqual(frames.finish([full]), []);
  });

  it("keeps the namespace in which a message began", () => {
    const frames = new MessageFrames();
    const namespaces = (frameList: readonly MessageFrame[]): Json[] =>
      frameList.map(({ event, namespace }) => [event, ...namespace]);
    const inner = ["child:1"];
    assert.deepEqual(namespaces(frames.addMessage(chunk({ content: "a" }), {}, inner)), [
      ["messages/metadata", "child:1"],
      ["messages/partial", "child:1"],
    ]);
    frames.addMessage(chunk({ id: "n", content: "b" }), {}, inner);
    frames.addMessage(chunk({ id: "root", content: "c" }), {});
    const whole = (id: string): JsonObject => ({ type: "ai", id, content: id });
    assert.deepEqual(namespaces(frames.finish([whole("m"), whole("root")])), [
      ["messages/complete", "child:1"],
      ["messages/complete"],
    ]);
    assert.deepEqual(namespaces(frames.addMessage(whole("n"), {})), [["messages/complete", "child:1"]]);
  });

  it("completes a full message at once, also after its chunks", () => {
    const frames = new MessageFrames();
    const full = { type: "tool", id: "m", content: "42" };
    frames.addMessage(chunk({ content: "4" }), {});
    assert.deepEqual(frames.addMessage(full, {}), [{ event: "messages/complete", namespace: [], data: [full] }]);
    assert.deepEqual(frames.finish([full]), []);
    assert.deepEqual(frames.addMessage({ type: "AIMessageChunk", content: "no id" }, {}), []);
  });

  it("merges content blocks by index", () => {
    const block = (index: number, text: string): JsonObject => ({ index, type: "text", text });
    assert.deepEqual(
      last([{ content: [block(0, "a")] }, { content: [block(1, "x")] }, { content: [block(0, "b")] }]).content,
      [block(0, "ab"), block(1, "x")],
    );
    assert.deepEqual(last([{ content: "a" }, { content: [{ type: "text", text: "b" }] }, { content: "c" }]).content, [
      { type: "text", text: "abc" },
    ]);
  });

  it("merges tool call chunks into tool calls", () => {
    const piece = (delta: JsonObject): JsonObject => ({
      tool_call_chunks: [{ type: "tool_call_chunk", index: 0, ...delta }],
    });
    const deltas = [
      piece({ name: "add", id: "c1", args: "" }),
      piece({ name: null, id: null, args: '{"a":{"b":1}' }),
      { tool_call_chunks: [{ index: 1, name: "now", id: "c2", args: "{}" }] },
    ];
    const second = { name: "now", args: {}, id: "c2", type: "tool_call" };
    assert.deepEqual(last(deltas).tool_calls, [{ name: "add", args: {}, id: "c1", type: "tool_call" }, second]);
    const whole = last([...deltas, piece({ args: ',"c":2}' })]);
    assert.deepEqual(whole.tool_calls, [
      { name: "add", args: { a: { b: 1 }, c: 2 }, id: "c1", type: "tool_call" },
      second,
    ]);
    assert.equal("tool_call_chunks" in whole, false);
  });

  it("sums usage and joins the strings of providers", () => {
    const merged = last([
      { usage_metadata: { input_tokens: 5, output_tokens: 1, input_token_details: { cache_read: 2 } } },
      { additional_kwargs: { reasoning_content: "Hm" }, response_metadata: { model_name: "m1" } },
      {
        usage_metadata: { input_tokens: 0, output_tokens: 3, input_token_details: { cache_read: 1 } },
        additional_kwargs: { reasoning_content: "m" },
        response_metadata: { model_name: "m1" },
      },
    ]);
    assert.deepEqual(merged.usage_metadata, {
      input_tokens: 5,
      output_tokens: 4,
      input_token_details: { cache_read: 3 },
    });
    assert.deepEqual(merged.additional_kwargs, { reasoning_content: "Hmm" });
    assert.deepEqual(merged.response_metadata, { model_name: "m1" });
  });
});

describe("stream mode `messages` of a function", () => {
  it("completes each reply before the next one begins, and the replies in the state before the run's error", async () => {
    await using kit = await testService({
      agents: {
        async *twice() {
          yield "one";
          yield { messages: [{ role: "tool", content: "between", tool_call_id: "c", id: "t" }] };
          yield "two";
        },
        async *fails() {
          yield "kept";
          yield {};
          yield "lost";
          throw new Error("boom");
        },
      },
    });
    const readFrames = async (assistant_id: string): Promise<string[]> => {
      const { frames } = await kit.service.runs.stream(null, { assistant_id, input: {}, stream_mode: "messages" });
      const received: string[] = [];
      for await (const { event, data } of frames) {
        const [message] =
          event === "messages/metadata" || !event.startsWith("messages/") ? [] : JSON.parse(String(data));
        received.push([event, ...(message ? [message.content] : [])].join(" "));
      }
      return received;
    };
    assert.deepEqual(await readFrames("twice"), [
      "metadata",
      "messages/metadata",
      "messages/partial one",
      "messages/complete one",
      "messages/complete between",
      "messages/metadata",
      "messages/partial two",
      "messages/complete two",
      "end",
    ]);
    assert.deepEqual(await readFrames("fails"), [
      "metadata",
      "messages/metadata",
      "messages/partial kept",
      "messages/complete kept",
      "messages/metadata",
      "messages/partial lost",
      "error",
      "end",
    ]);
  });
});

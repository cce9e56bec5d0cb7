import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AIMessage, AIMessageChunk, HumanMessage } from "@langchain/core/messages";
import type { LangGraphRunnableConfig } from "@langchain/langgraph";
import type { Json, JsonObject } from "../../../lib/json.ts";
import {
  createCallingNode,
  createHost,
  createParallelGraph,
  formatEvents,
  getEventData,
  hello,
  type ProtocolEvent,
  type State,
  Streams,
} from "./protocol-events.harness.ts";

describe("langgraph: protocol events of messages", () => {
  const chunk = (fields: object): AIMessageChunk => new AIMessageChunk(fields as never);
  const readFinished = (events: readonly ProtocolEvent[]): Json[] =>
    events.flatMap(({ data }) => {
      const { event, content } = data as JsonObject;
      return event === "content-block-finish" ? [content ?? null] : [];
    });

  it("have reasoning, text and tool calls", async () => {
    const call = (args: string, fields = {}): object => ({
      content: "",
      tool_call_chunks: [{ index: 2, args, type: "tool_call_chunk", ...fields }],
    });
    const graph = createParallelGraph({
      agent: createCallingNode(
        chunk({
          id: "msg_1",
          content: [{ type: "thinking", thinking: "Hm", index: 0 }],
          response_metadata: { model_provider: "anthropic" },
        }),
        chunk({ content: [{ type: "thinking", thinking: "m", index: 0 }] }),
        chunk({ content: [{ type: "text", text: "Wait", index: 1 }] }),
        chunk(call("", { id: "c1", name: "search" })),
        chunk(call('{"q":')),
        chunk(call('"a"}')),
        chunk({
          content: "",
          usage_metadata: { input_tokens: 1, output_tokens: 2, total_tokens: 3 },
          response_metadata: { stop_reason: "tool_use" },
        }),
      ),
    });
    const { events } = await createHost(graph)({ input: hello });
    const messages = events.filter(({ method }) => method === "messages");
    assert.deepEqual(readFinished(messages), [
      { type: "reasoning", reasoning: "Hmm" },
      { type: "text", text: "Wait" },
      { type: "tool_call", id: "c1", name: "search", args: { q: "a" } },
    ]);
    const [first, last] = [messages[0], messages.at(-1)].map(getEventData);
    assert.deepEqual([first?.id, first?.role, first?.run_id], ["msg_1", "ai", "msg_1"]);
    assert.deepEqual(
      [last?.event, last?.reason, (last?.usage as JsonObject | undefined)?.total_tokens],
      ["message-finish", "tool_use", 3],
    );
    assert.deepEqual(new Set(messages.map(({ data }) => (data as JsonObject).run_id)).size, 1);
  });

  it("are separate for nodes that run in parallel", async () => {
    const graph = createParallelGraph({ a: createCallingNode("A", "a"), b: createCallingNode("B", "b") });
    const { events } = await createHost(graph)({ input: hello });
    for (const [node, text] of [
      ["a", "Aa"],
      ["b", "Bb"],
    ]) {
      const nodeEvents = events.filter((event) => event.method === "messages" && event.node === node);
      assert.deepEqual(
        nodeEvents.map(({ data }) => (data as JsonObject).event),
        [
          "message-start",
          "content-block-start",
          "content-block-delta",
          "content-block-delta",
          "content-block-finish",
          "message-finish",
        ],
      );
      assert.deepEqual(readFinished(nodeEvents), [{ type: "text", text }]);
      assert.equal(new Set(nodeEvents.map(({ namespace }) => namespace.join("|"))).size, 1);
    }
  });

  it("have different run ids for models that one node calls in parallel", async () => {
    const both = async (_state: State, config: LangGraphRunnableConfig) => ({
      messages: await Promise.all(["x", "y"].map((text) => new Streams([text, text]).invoke("x", config))),
    });
    const { events } = await createHost(createParallelGraph({ both }))({ input: hello });
    const messages = events.filter(({ method }) => method === "messages");
    const runs = Map.groupBy(messages, ({ data }) => (data as JsonObject).run_id);
    assert.deepEqual(
      [...runs.values()]
        .flatMap(readFinished)
        .toSorted((first, second) => JSON.stringify(first).localeCompare(JSON.stringify(second))),
      [
        { type: "text", text: "xx" },
        { type: "text", text: "yy" },
      ],
    );
  });

  it("come for messages that a node returns whole, does not return, or hides", async () => {
    const node = async (_state: State, config: LangGraphRunnableConfig) => {
      await new Streams(["not kept"]).invoke("x", config);
      await new Streams(["hidden"]).invoke("x", { ...config, tags: ["nostream"] });
      return { messages: [new HumanMessage({ id: "h", content: "a" }), new AIMessage({ id: "i", content: "b" })] };
    };
    const { events } = await createHost(createParallelGraph({ node }))({ input: hello });
    const messages = events.filter(({ method }) => method === "messages");
    const starts = messages.map(({ data }) => data as JsonObject).filter(({ event }) => event === "message-start");
    assert.deepEqual(
      starts.slice(1).map(({ id, role }) => [id, role]),
      [
        ["h", "human"],
        ["i", "ai"],
      ],
    );
    const texts = readFinished(messages).map((content) => (content as JsonObject).text);
    assert.deepEqual(texts.toSorted(), ["a", "b", "not kept"]);
    const ends = messages.filter(({ data }) => (data as JsonObject).event === "message-finish");
    assert.equal(ends.length, 3);
    const taskEnd = events.findIndex(({ method, data }) => method === "tasks" && "result" in (data as JsonObject));
    assert.ok(events.lastIndexOf(ends.at(-1) as ProtocolEvent) < taskEnd);
  });

  it("end with an error if a failure aborts them", async () => {
    const node = async (_state: State, config: LangGraphRunnableConfig) => ({
      messages: [await new Streams(["Hi ", "y"], new Error("boom")).invoke("x", config)],
    });
    const inside = createParallelGraph({ inner: node });
    const { events, error } = await createHost(createParallelGraph({ outer: inside }))({ input: hello });
    assert.equal((error as Error).message, "boom");
    assert.deepEqual(formatEvents(events, ["messages", "lifecycle"]), [
      'lifecycle [outer:A] started {"graph_name":"outer"}',
      'lifecycle [outer:A|inner:B] started {"graph_name":"inner"}',
      "messages [outer:A|inner:B] inner message-start",
      "messages [outer:A|inner:B] inner content-block-start 0",
      "messages [outer:A|inner:B] inner content-block-delta 0",
      "messages [outer:A|inner:B] inner error",
      'lifecycle [outer:A|inner:B] failed {"graph_name":"inner","error":"boom"}',
      'lifecycle [outer:A] failed {"graph_name":"outer","error":"boom"}',
    ]);
    assert.equal(getEventData(events.find(({ data }) => (data as JsonObject).event === "error")).message, "boom");
  });

  it("end without a further event if a stop aborts them", async () => {
    const stop = new AbortController();
    const waits = Promise.withResolvers<void>();
    const node = async (_state: State, config: LangGraphRunnableConfig) => ({
      messages: [await new Streams(["Hi ", "you"], undefined, () => waits.promise).invoke("x", config)],
    });
    const { events, error } = await createHost(createParallelGraph({ node }))(
      { input: hello },
      ({ data }) => {
        if ((data as JsonObject).event !== "content-block-delta") return;
        stop.abort(new Error("cancelled"));
        waits.resolve();
      },
      stop,
    );
    assert.ok(error);
    assert.deepEqual(formatEvents(events, ["messages", "lifecycle"]), [
      'lifecycle [node:A] started {"graph_name":"node"}',
      "messages [node:A] node message-start",
      "messages [node:A] node content-block-start 0",
      "messages [node:A] node content-block-delta 0",
    ]);
  });
});

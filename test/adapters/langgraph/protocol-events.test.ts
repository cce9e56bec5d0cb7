/** The events of the thread event protocol that a LangGraph graph shows: their order, their namespaces and their content. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, AIMessageChunk, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import { ChatGenerationChunk, type ChatResult } from "@langchain/core/outputs";
import { tool } from "@langchain/core/tools";
import {
  Annotation,
  Command,
  interrupt,
  type LangGraphRunnableConfig,
  MessagesAnnotation,
  Send,
  START,
  StateGraph,
  StreamChannel,
} from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { z } from "zod";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { systemEnvironment } from "../../../lib/environment.ts";
import type { ExecutorEvent, Job, StreamMode } from "../../../lib/executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../../lib/json.ts";
import { aJob, aThread, type JobChanges } from "./executor.harness.ts";

type Graph = Parameters<typeof langgraph>[0][string];
type ProtocolEvent = Extract<ExecutorEvent, { type: "event" }>;

interface Shown {
  readonly events: readonly ProtocolEvent[];
  readonly frames: readonly ExecutorEvent[];
  readonly error?: unknown;
}

/** A thread, and runs of a graph on it; what they show is kept also where they fail. */
function host(graph: Graph) {
  const executor = langgraph({ graph });
  const thread = aThread();
  return async (
    changes: JobChanges,
    onEvent?: (event: ProtocolEvent) => void,
    stop = new AbortController(),
  ): Promise<Shown> => {
    const events: ProtocolEvent[] = [];
    const frames: ExecutorEvent[] = [];
    try {
      for await (const event of executor.execute(
        aJob(thread, "graph", { events: "all", ...changes }),
        stop.signal,
        systemEnvironment(),
      )) {
        if (event.type !== "event") frames.push(event);
        else {
          events.push(event);
          onEvent?.(event);
        }
      }
      return { events, frames };
    } catch (error) {
      return { events, frames, error };
    }
  };
}

const dataOf = (event?: ProtocolEvent): JsonObject => (event?.data ?? {}) as JsonObject;

/** Names of tasks in the order they are met: their ids are a matter of chance. */
function namer(): (namespace: readonly string[]) => string {
  const ids: string[] = [];
  return (namespace) =>
    namespace
      .join("|")
      .replace(/[0-9a-f-]{36}/g, (id) =>
        String.fromCharCode(65 + (ids.includes(id) ? ids.indexOf(id) : ids.push(id) - 1)),
      );
}

/** One line for each event: its method, its namespace, and what tells it from others. Series of deltas are one line. */
function lines(events: readonly ProtocolEvent[], methods?: readonly string[]): string[] {
  const name = namer();
  const all = events.map(({ method, namespace, node, data }) => {
    const at = `${method} [${name(namespace)}]${node === undefined ? "" : ` ${node}`}`;
    return { method, line: `${at} ${about(method, data as JsonObject)}`.trimEnd() };
  });
  const wanted = all.filter(({ method }) => methods?.includes(method) ?? true).map(({ line }) => line);
  return wanted.filter((line, at) => !line.includes("delta") || line !== wanted[at - 1]);
}

function about(method: string, data: JsonObject): string {
  switch (method) {
    case "checkpoints":
      return `step ${data.step} ${data.source}`;
    case "values":
      if (data === null) return "of the checkpoint";
      return Object.entries(data)
        .map(([key, value]) => `${key} ${Array.isArray(value) ? value.length : JSON.stringify(value)}`)
        .join(" ");
    case "tasks":
      return `${"input" in data ? "start" : "end"} ${data.name}${(data.interrupts as Json[])?.length ? " interrupted" : ""}`;
    case "updates":
      return Object.keys(data.values as JsonObject).join(" ");
    case "lifecycle": {
      const { event, ...more } = data;
      return `${event} ${JSON.stringify(more)}`;
    }
    case "messages": {
      const { event, index, content, id, reason } = data;
      const what = isObject(content) ? JSON.stringify(content) : (reason ?? (event === "message-start" ? "" : id));
      return [event, index, event === "content-block-finish" ? what : reason]
        .filter((part) => part !== undefined)
        .join(" ");
    }
    case "tools":
      return [data.event, data.tool_call_id, data.tool_name, data.input, data.message].filter(Boolean).join(" ");
    default:
      return JSON.stringify(data.payload === undefined ? data : { name: data.name, payload: data.payload });
  }
}

/** A model that streams these chunks, and then fails if there is an error. */
class Streams extends BaseChatModel {
  private readonly pieces: readonly AIMessageChunk[];
  private readonly error: Error | undefined;
  private readonly onPiece: (() => unknown) | undefined;

  constructor(pieces: readonly (AIMessageChunk | string)[], error?: Error, onPiece?: () => unknown) {
    super({ maxRetries: 0 });
    this.pieces = pieces.map((piece) => (typeof piece === "string" ? new AIMessageChunk({ content: piece }) : piece));
    this.error = error;
    this.onPiece = onPiece;
  }

  override _llmType(): string {
    return "streams";
  }

  override async *_streamResponseChunks(
    _messages: BaseMessage[],
    _options: this["ParsedCallOptions"],
    runManager?: Parameters<BaseChatModel["_streamResponseChunks"]>[2],
  ): AsyncGenerator<ChatGenerationChunk> {
    for (const message of this.pieces) {
      const chunk = new ChatGenerationChunk({ text: message.text, message });
      yield chunk;
      await runManager?.handleLLMNewToken(message.text, undefined, undefined, undefined, undefined, { chunk });
      await this.onPiece?.();
      // LangGraph drops what is not read yet when it fails.
      await new Promise((resolve) => setTimeout(resolve));
    }
    if (this.error) throw this.error;
  }

  override async _generate(messages: BaseMessage[], options: this["ParsedCallOptions"]): Promise<ChatResult> {
    const chunks: ChatGenerationChunk[] = [];
    for await (const chunk of this._streamResponseChunks(messages, options)) chunks.push(chunk);
    return { generations: [chunks.reduce((whole, chunk) => whole.concat(chunk))] };
  }
}

const Log = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => [...left, ...right], default: () => [] }),
});
type State = typeof MessagesAnnotation.State;

/** A node that calls a model. */
const calls =
  (...pieces: readonly (AIMessageChunk | string)[]) =>
  async (_state: State, config: LangGraphRunnableConfig): Promise<{ messages: BaseMessage[] }> => ({
    messages: [await new Streams(pieces).invoke("x", config)],
  });

/** A graph of one node, or of several side by side. */
function beside(nodes: Readonly<Record<string, unknown>>, schema: unknown = MessagesAnnotation, options = {}) {
  const graph = new StateGraph(schema as typeof MessagesAnnotation) as unknown as {
    addNode(name: string, body: unknown): void;
    addEdge(from: string, to: string): void;
    compile(options: object): {
      readonly nodes: object;
      readonly channels: object;
      stream(): never;
      invoke(...parts: unknown[]): Promise<unknown>;
    };
  };
  for (const [name, body] of Object.entries(nodes)) {
    graph.addNode(name, body);
    graph.addEdge(START, name);
  }
  return graph.compile(options);
}

const search = tool(async ({ q }: { q: string }) => JSON.stringify({ found: q }), {
  name: "search",
  description: "Searches",
  schema: z.object({ q: z.string() }),
});

/** Calls a tool, runs a subgraph, asks. */
function journey() {
  const inside = beside({ inner: calls("Hi ", "you") });
  return new StateGraph(MessagesAnnotation)
    .addNode("plan", async (_state, config) => {
      config.writer?.({ progress: 1 });
      config.writer?.({ name: "notes", payload: { n: 1 } });
      config.writer?.({ name: "notes", n: 2 });
      const tool_calls = [{ id: "call_1", name: "search", args: { q: "a" } }];
      return { messages: [new AIMessage({ id: "m-plan", content: "", tool_calls })] };
    })
    .addNode("tools", new ToolNode([search]))
    .addNode("research", inside as never)
    .addNode("ask", () => ({
      messages: [new HumanMessage({ id: "h2", content: String(interrupt({ question: "ok?" })) })],
    }))
    .addEdge(START, "plan")
    .addEdge("plan", "tools")
    .addEdge("tools", "research")
    .addEdge("research", "ask");
}

const hello = { messages: [{ type: "human", content: "hello", id: "u1" }] };

describe("langgraph: protocol events of a whole run", () => {
  it("tell of states, tasks, nodes, messages, tools, subgraphs and questions in order", async () => {
    const go = host(journey());
    const { events } = await go({ input: hello });
    assert.deepEqual(lines(events), [
      "checkpoints [] step 0 loop",
      "values [] messages 1",
      "tasks [] start plan",
      'custom [] {"payload":{"progress":1}}',
      'custom [] {"name":"notes","payload":{"n":1}}',
      'custom [] {"name":"notes","n":2}',
      'lifecycle [plan:A] started {"graph_name":"plan"}',
      "messages [plan:A] plan message-start",
      "messages [plan:A] plan content-block-start 0",
      "messages [plan:A] plan content-block-delta 0",
      'messages [plan:A] plan content-block-finish 0 {"type":"tool_call","id":"call_1","name":"search","args":{"q":"a"}}',
      "messages [plan:A] plan message-finish tool_use",
      "updates [] plan messages",
      "tasks [] end plan",
      'lifecycle [plan:A] completed {"graph_name":"plan"}',
      "checkpoints [] step 1 loop",
      "values [] messages 2",
      "tasks [] start tools",
      'lifecycle [tools:B] started {"graph_name":"tools"}',
      'tools [tools:B] tool-started call_1 search {"q":"a"}',
      "tools [tools:B] tool-finished call_1",
      "updates [] tools messages",
      "tasks [] end tools",
      'lifecycle [tools:B] completed {"graph_name":"tools"}',
      "checkpoints [] step 2 loop",
      "values [] messages 3",
      "tasks [] start research",
      'lifecycle [research:C] started {"graph_name":"research"}',
      "checkpoints [research:C] step 0 loop",
      "values [research:C] messages 3",
      "tasks [research:C] start inner",
      'lifecycle [research:C|inner:D] started {"graph_name":"inner"}',
      "messages [research:C|inner:D] inner message-start",
      "messages [research:C|inner:D] inner content-block-start 0",
      "messages [research:C|inner:D] inner content-block-delta 0",
      'messages [research:C|inner:D] inner content-block-finish 0 {"type":"text","text":"Hi you"}',
      "messages [research:C|inner:D] inner message-finish stop",
      "updates [research:C] inner messages",
      "tasks [research:C] end inner",
      'lifecycle [research:C|inner:D] completed {"graph_name":"inner"}',
      "checkpoints [research:C] step 1 loop",
      "values [research:C] messages 4",
      "updates [] research messages",
      "tasks [] end research",
      'lifecycle [research:C] completed {"graph_name":"research"}',
      "checkpoints [] step 3 loop",
      "values [] messages 4",
      "tasks [] start ask",
      'input.requested [] {"payload":{"question":"ok?"}}',
      "tasks [] end ask interrupted",
    ]);
    const answered = await go({ command: { resume: "yes" } });
    assert.deepEqual(lines(answered.events), [
      "checkpoints [] step 3 loop",
      "values [] messages 4",
      "tasks [] start ask",
      'lifecycle [ask:A] started {"graph_name":"ask"}',
      "messages [ask:A] ask message-start",
      "messages [ask:A] ask content-block-start 0",
      "messages [ask:A] ask content-block-delta 0",
      'messages [ask:A] ask content-block-finish 0 {"type":"text","text":"yes"}',
      "messages [ask:A] ask message-finish stop",
      "updates [] ask messages",
      "tasks [] end ask",
      'lifecycle [ask:A] completed {"graph_name":"ask"}',
      "checkpoints [] step 4 loop",
      "values [] messages 5",
    ]);
  });

  it("hold flat messages, the ids of the state, and each state's checkpoint", async () => {
    const { events, frames } = await host(journey())({ input: hello, modes: ["checkpoints"], subgraphs: true });
    const of = (method: string): readonly ProtocolEvent[] => events.filter((event) => event.method === method);
    const stored = frames.flatMap((frame) =>
      frame.type === "stream" && frame.mode === "checkpoints" ? [frame.data as JsonObject] : [],
    );
    const notes = new Map(of("checkpoints").map(({ data }) => [(data as JsonObject).id, data as JsonObject]));
    for (const { checkpoint, parent_checkpoint, metadata } of stored as Record<string, JsonObject>[]) {
      const { step, source } = metadata as JsonObject;
      const note = notes.get(checkpoint?.checkpoint_id as Json);
      if (source === "input") assert.equal(note, undefined);
      else
        assert.deepEqual(note, {
          id: checkpoint?.checkpoint_id,
          parent_id: parent_checkpoint?.checkpoint_id,
          step,
          source,
        });
    }
    for (const [at, { method, namespace, checkpoint_id, data }] of events.entries()) {
      if (method !== "values") continue;
      assert.deepEqual([events[at - 1]?.method, events[at - 1]?.namespace], ["checkpoints", namespace]);
      assert.equal(checkpoint_id, dataOf(events[at - 1]).id);
      for (const message of (data as { messages: JsonObject[] }).messages) {
        assert.ok(typeof message.id === "string" && !("lc" in message) && "content" in message);
      }
    }
    const final = (dataOf(of("values").at(-1)) as { messages: JsonObject[] }).messages.map(({ id }) => id);
    const starts = of("messages").filter(({ data }) => (data as JsonObject).event === "message-start");
    assert.deepEqual(
      starts.map(({ data }) => (data as JsonObject).id),
      [final[1], final[3]],
    );
    const [finished] = of("tools").slice(-1);
    assert.deepEqual((dataOf(finished).output as JsonObject).tool_call_id, "call_1");
    const { interrupt_id, payload, value } = dataOf(of("input.requested")[0]);
    assert.match(String(interrupt_id), /^[0-9a-f]{32}$/);
    assert.deepEqual([payload, value], [{ question: "ok?" }, { question: "ok?" }]);
    assert.deepEqual(dataOf(of("updates")[0]).node, "plan");
  });

  it("name no checkpoints that are not stored", async () => {
    const { events } = await host(journey())({ input: hello, durability: "exit" });
    assert.ok(events.some(({ method }) => method === "values"));
    assert.deepEqual(
      events.filter(({ checkpoint_id }) => checkpoint_id !== undefined),
      [],
    );
  });

  it("are those of the root's states alone with `state`, and none without", async () => {
    for (const modes of [[], ["messages-tuple"], ["events"], ["checkpoints", "debug"]] as const) {
      const go = host(journey());
      assert.deepEqual(lines((await go({ input: hello, events: "state", modes })).events), [
        ...[0, 1, 2, 3].flatMap((step) => [`checkpoints [] step ${step} loop`, "values [] of the checkpoint"]),
        'input.requested [] {"payload":{"question":"ok?"}}',
      ]);
      assert.deepEqual(lines((await go({ command: { resume: "yes" }, events: "state", modes })).events), [
        ...[3, 4].flatMap((step) => [`checkpoints [] step ${step} loop`, "values [] of the checkpoint"]),
      ]);
    }
    assert.deepEqual((await host(journey())({ input: hello, events: "none" })).events, []);
  });

  const asked: readonly (readonly StreamMode[])[] = [
    ["values", "updates", "messages-tuple", "tasks", "checkpoints", "debug", "custom", "tools", "lifecycle"],
    ["values"],
    ["checkpoints"],
    ["debug"],
    ["events", "values", "messages-tuple"],
  ];
  for (const modes of asked) {
    it(`change nothing of the frames of ${modes.join(", ")}`, async () => {
      for (const subgraphs of [false, true]) {
        const frames = async (events: Job["events"]): Promise<string[]> => {
          const name = namer();
          const shown = await host(journey())({ input: hello, modes, subgraphs, events });
          return shown.frames.map((frame) => {
            if (frame.type !== "stream") return JSON.stringify(Object.keys(frame));
            const keys = isObject(frame.data)
              ? Object.entries(frame.data).map(([key, value]) => (key === "event" || key === "type" ? value : key))
              : [];
            return `${frame.mode} ${frame.namespace === undefined ? "" : `[${name(frame.namespace)}]`} ${keys.join(" ")}`;
          });
        };
        const usual = await frames("none");
        assert.ok(usual.length > 1);
        for (const events of ["all", "state"] as const) {
          const same = await frames(events);
          // Mode `events` shows what callbacks tell, in the order in which they come to it.
          if (modes.includes("events")) assert.deepEqual(same.toSorted(), usual.toSorted());
          else assert.deepEqual(same, usual);
        }
      }
    });
  }
});

describe("langgraph: protocol events of messages", () => {
  const chunk = (fields: object): AIMessageChunk => new AIMessageChunk(fields as never);
  const finished = (events: readonly ProtocolEvent[]): Json[] =>
    events.flatMap(({ data }) => {
      const { event, content } = data as JsonObject;
      return event === "content-block-finish" ? [content ?? null] : [];
    });

  it("that reason, speak and call tools", async () => {
    const call = (args: string, more = {}): object => ({
      content: "",
      tool_call_chunks: [{ index: 2, args, type: "tool_call_chunk", ...more }],
    });
    const graph = beside({
      agent: calls(
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
    const { events } = await host(graph)({ input: hello });
    const messages = events.filter(({ method }) => method === "messages");
    assert.deepEqual(finished(messages), [
      { type: "reasoning", reasoning: "Hmm" },
      { type: "text", text: "Wait" },
      { type: "tool_call", id: "c1", name: "search", args: { q: "a" } },
    ]);
    const [first, last] = [messages[0], messages.at(-1)].map(dataOf);
    assert.deepEqual([first?.id, first?.role, first?.run_id], ["msg_1", "ai", "msg_1"]);
    assert.deepEqual(
      [last?.event, last?.reason, (last?.usage as JsonObject | undefined)?.total_tokens],
      ["message-finish", "tool_use", 3],
    );
    assert.deepEqual(new Set(messages.map(({ data }) => (data as JsonObject).run_id)).size, 1);
  });

  it("of nodes that run side by side are told apart", async () => {
    const graph = beside({ a: calls("A", "a"), b: calls("B", "b") });
    const { events } = await host(graph)({ input: hello });
    for (const [node, text] of [
      ["a", "Aa"],
      ["b", "Bb"],
    ]) {
      const own = events.filter((event) => event.method === "messages" && event.node === node);
      assert.deepEqual(
        own.map(({ data }) => (data as JsonObject).event),
        [
          "message-start",
          "content-block-start",
          "content-block-delta",
          "content-block-delta",
          "content-block-finish",
          "message-finish",
        ],
      );
      assert.deepEqual(finished(own), [{ type: "text", text }]);
      assert.equal(new Set(own.map(({ namespace }) => namespace.join("|"))).size, 1);
    }
  });

  it("of models that one node calls side by side have different run ids", async () => {
    const both = async (_state: State, config: LangGraphRunnableConfig) => ({
      messages: await Promise.all(["x", "y"].map((text) => new Streams([text, text]).invoke("x", config))),
    });
    const { events } = await host(beside({ both }))({ input: hello });
    const messages = events.filter(({ method }) => method === "messages");
    const runs = Map.groupBy(messages, ({ data }) => (data as JsonObject).run_id);
    assert.deepEqual(
      [...runs.values()]
        .flatMap(finished)
        .toSorted((one, other) => JSON.stringify(one).localeCompare(JSON.stringify(other))),
      [
        { type: "text", text: "xx" },
        { type: "text", text: "yy" },
      ],
    );
  });

  it("that a node returns whole, or does not return, or hides", async () => {
    const node = async (_state: State, config: LangGraphRunnableConfig) => {
      await new Streams(["not kept"]).invoke("x", config);
      await new Streams(["hidden"]).invoke("x", { ...config, tags: ["nostream"] });
      return { messages: [new HumanMessage({ id: "h", content: "a" }), new AIMessage({ id: "i", content: "b" })] };
    };
    const { events } = await host(beside({ node }))({ input: hello });
    const messages = events.filter(({ method }) => method === "messages");
    const starts = messages.map(({ data }) => data as JsonObject).filter(({ event }) => event === "message-start");
    assert.deepEqual(
      starts.slice(1).map(({ id, role }) => [id, role]),
      [
        ["h", "human"],
        ["i", "ai"],
      ],
    );
    const texts = finished(messages).map((content) => (content as JsonObject).text);
    assert.deepEqual(texts.toSorted(), ["a", "b", "not kept"]);
    const ends = messages.filter(({ data }) => (data as JsonObject).event === "message-finish");
    assert.equal(ends.length, 3);
    const taskEnd = events.findIndex(({ method, data }) => method === "tasks" && "result" in (data as JsonObject));
    assert.ok(events.lastIndexOf(ends.at(-1) as ProtocolEvent) < taskEnd);
  });

  it("that are broken off by a failure end with it", async () => {
    const node = async (_state: State, config: LangGraphRunnableConfig) => ({
      messages: [await new Streams(["Hi ", "y"], new Error("boom")).invoke("x", config)],
    });
    const inside = beside({ inner: node });
    const { events, error } = await host(beside({ outer: inside }))({ input: hello });
    assert.equal((error as Error).message, "boom");
    assert.deepEqual(lines(events, ["messages", "lifecycle"]), [
      'lifecycle [outer:A] started {"graph_name":"outer"}',
      'lifecycle [outer:A|inner:B] started {"graph_name":"inner"}',
      "messages [outer:A|inner:B] inner message-start",
      "messages [outer:A|inner:B] inner content-block-start 0",
      "messages [outer:A|inner:B] inner content-block-delta 0",
      "messages [outer:A|inner:B] inner error",
      'lifecycle [outer:A|inner:B] failed {"graph_name":"inner","error":"boom"}',
      'lifecycle [outer:A] failed {"graph_name":"outer","error":"boom"}',
    ]);
    assert.equal(dataOf(events.find(({ data }) => (data as JsonObject).event === "error")).message, "boom");
  });

  it("that are broken off by a stop show nothing more", async () => {
    const stop = new AbortController();
    const waits = Promise.withResolvers<void>();
    const node = async (_state: State, config: LangGraphRunnableConfig) => ({
      messages: [await new Streams(["Hi ", "you"], undefined, () => waits.promise).invoke("x", config)],
    });
    const { events, error } = await host(beside({ node }))(
      { input: hello },
      ({ data }) => {
        if ((data as JsonObject).event !== "content-block-delta") return;
        stop.abort(new Error("cancelled"));
        waits.resolve();
      },
      stop,
    );
    assert.ok(error);
    assert.deepEqual(lines(events, ["messages", "lifecycle"]), [
      'lifecycle [node:A] started {"graph_name":"node"}',
      "messages [node:A] node message-start",
      "messages [node:A] node content-block-start 0",
      "messages [node:A] node content-block-delta 0",
    ]);
  });
});

describe("langgraph: protocol events of subgraphs", () => {
  it("in subgraphs start from the outside and end from the inside", async () => {
    const graph = beside({ a: beside({ b: beside({ c: calls("Hi") }) }) });
    const { events } = await host(graph)({ input: hello });
    assert.deepEqual(lines(events, ["lifecycle", "values"]), [
      "values [] messages 1",
      'lifecycle [a:A] started {"graph_name":"a"}',
      "values [a:A] messages 1",
      'lifecycle [a:A|b:B] started {"graph_name":"b"}',
      "values [a:A|b:B] messages 1",
      'lifecycle [a:A|b:B|c:C] started {"graph_name":"c"}',
      'lifecycle [a:A|b:B|c:C] completed {"graph_name":"c"}',
      "values [a:A|b:B] messages 2",
      'lifecycle [a:A|b:B] completed {"graph_name":"b"}',
      "values [a:A] messages 2",
      'lifecycle [a:A] completed {"graph_name":"a"}',
      "values [] messages 2",
    ]);
  });

  it("that are sent to are told apart", async () => {
    const inside = beside({ inner: ({ log }: { log: string[] }) => ({ log: [`${log[0]}!`] }) }, Log);
    const graph = new StateGraph(Log)
      .addNode("map", () => ({}))
      .addNode("work", inside as never)
      .addEdge(START, "map")
      .addConditionalEdges("map", () => ["x", "y"].map((one) => new Send("work", { log: [one] })));
    const { events } = await host(graph)({ input: {} });
    const lives = events.filter(({ method }) => method === "lifecycle");
    const byTask = Map.groupBy(lives, ({ namespace }) => namespace.join("|"));
    assert.equal(byTask.size, 2);
    for (const own of byTask.values()) {
      assert.deepEqual(
        own.map(({ data }) => data),
        [
          { event: "started", graph_name: "work" },
          { event: "completed", graph_name: "work" },
        ],
      );
    }
    const inner = events.filter(({ method, namespace }) => method === "values" && namespace.length === 1);
    assert.deepEqual(new Set(inner.map(({ namespace }) => namespace.join("|"))), new Set(byTask.keys()));
    assert.equal(events.filter(({ method, node }) => method === "updates" && node === "work").length, 2);
  });

  it("that are agents have their name and the tool call that they answer", async () => {
    const agent = beside({ model: calls("Hi") }) as unknown as {
      withConfig(config: object): { invoke(...parts: unknown[]): unknown };
    };
    const named = agent.withConfig({ metadata: { lc_agent_name: "researcher" } });
    const task = async (_state: State, config: LangGraphRunnableConfig) => named.invoke(hello, config);
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("model", () => ({}))
      .addNode("tools", task)
      .addNode("plain", task)
      .addEdge(START, "model")
      .addEdge("tools", "plain")
      .addConditionalEdges("model", (state) => [
        new Send("tools", { ...state, tool_call: { name: "task", args: {}, id: "call-1", type: "tool_call" } }),
      ]);
    const { events } = await host(graph)({ input: hello });
    const cause = '"cause":{"type":"toolCall","tool_call_id":"call-1"}';
    assert.deepEqual(lines(events, ["lifecycle"]), [
      `lifecycle [tools:A] started {"graph_name":"researcher",${cause}}`,
      'lifecycle [tools:A|model:B] started {"graph_name":"model"}',
      'lifecycle [tools:A|model:B] completed {"graph_name":"model"}',
      'lifecycle [tools:A] completed {"graph_name":"researcher"}',
      'lifecycle [plain:C] started {"graph_name":"researcher"}',
      'lifecycle [plain:C|model:D] started {"graph_name":"model"}',
      'lifecycle [plain:C|model:D] completed {"graph_name":"model"}',
      'lifecycle [plain:C] completed {"graph_name":"researcher"}',
    ]);
  });

  it("that ask end as interrupted, after the question in their namespace", async () => {
    const inside = beside({ inner: () => ({ log: [interrupt("q")] }) }, Log);
    const go = host(beside({ outer: inside }, Log));
    const { events } = await go({ input: {} });
    assert.deepEqual(lines(events, ["lifecycle", "input.requested", "updates"]), [
      'lifecycle [outer:A] started {"graph_name":"outer"}',
      'input.requested [outer:A] {"payload":"q"}',
      'lifecycle [outer:A] interrupted {"graph_name":"outer"}',
    ]);
    const answered = await go({ command: { resume: "a" } });
    assert.deepEqual(lines(answered.events, ["lifecycle", "input.requested"]), [
      'lifecycle [outer:A] started {"graph_name":"outer"}',
      'lifecycle [outer:A] completed {"graph_name":"outer"}',
    ]);
  });
});

describe("langgraph: protocol events of questions, tools and others", () => {
  it("of a node that asks twice come one by one", async () => {
    const go = host(beside({ ask: () => ({ log: [interrupt("one"), interrupt("two")] }) }, Log));
    const asked = async (changes: JobChanges): Promise<string[]> =>
      lines((await go(changes)).events, ["input.requested"]);
    assert.deepEqual(await asked({ input: {} }), ['input.requested [] {"payload":"one"}']);
    assert.deepEqual(await asked({ command: { resume: "a" } }), ['input.requested [] {"payload":"two"}']);
    assert.deepEqual(await asked({ command: { resume: "b" } }), []);
  });

  it("of nodes that ask side by side have different ids", async () => {
    const graph = beside({ a: () => ({ log: [interrupt("qa")] }), b: () => ({ log: [interrupt("qb")] }) }, Log);
    const { events } = await host(graph)({ input: {} });
    const asked = events.filter(({ method }) => method === "input.requested").map(({ data }) => data as JsonObject);
    assert.deepEqual(asked.map(({ payload }) => payload).toSorted(), ["qa", "qb"]);
    assert.equal(new Set(asked.map(({ interrupt_id }) => interrupt_id)).size, 2);
  });

  it("of breakpoints are none", async () => {
    const graph = beside({ a: () => ({ log: ["a"] }) }, Log, { interruptBefore: ["a"] });
    assert.deepEqual(lines((await host(graph)({ input: { log: ["x"] } })).events), [
      "checkpoints [] step 0 loop",
      "values [] log 1",
    ]);
  });

  it("of tools that run side by side, and fail", async () => {
    const fails = tool(
      () => {
        throw new Error("boom");
      },
      { name: "fails", description: "Fails", schema: z.object({}) },
    );
    const tool_calls = [
      { id: "c1", name: "search", args: { q: "a" } },
      { id: "c2", name: "fails", args: {} },
    ];
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("plan", () => ({ messages: [new AIMessage({ content: "", tool_calls })] }))
      .addNode("tools", new ToolNode([search, fails]))
      .addEdge(START, "plan")
      .addEdge("plan", "tools");
    const { events } = await host(graph)({ input: hello });
    const shown = lines(events, ["tools"]);
    assert.deepEqual(shown.toSorted(), [
      "tools [tools:B] tool-error c2 boom",
      "tools [tools:B] tool-finished c1",
      'tools [tools:B] tool-started c1 search {"q":"a"}',
      "tools [tools:B] tool-started c2 fails {}",
    ]);
  });

  it("of tools inside subgraphs are in the namespace of their task", async () => {
    const tool_calls = [{ id: "c1", name: "search", args: { q: "a" } }];
    const inside = new StateGraph(MessagesAnnotation)
      .addNode("plan", () => ({ messages: [new AIMessage({ content: "", tool_calls })] }))
      .addNode("tools", new ToolNode([search]))
      .addEdge(START, "plan")
      .addEdge("plan", "tools")
      .compile();
    const { events } = await host(beside({ agent: inside }))({ input: hello });
    for (const { namespace } of events.filter(({ method }) => method === "tools")) {
      assert.deepEqual(
        namespace.map((one) => one.split(":")[0]),
        ["agent", "tools"],
      );
    }
  });

  it("of updates that are no objects, and of commands", async () => {
    const graph = new StateGraph(Log)
      .addNode("nothing", () => null as never)
      .addNode("goes", () => new Command({ update: { log: ["x"] }, goto: "last" }), { ends: ["last"] })
      .addNode("last", () => ({ log: ["y"] }))
      .addEdge(START, "nothing")
      .addEdge("nothing", "goes");
    const { events } = await host(graph)({ input: {} });
    const updates = events.filter(({ method }) => method === "updates").map(({ data }) => data);
    assert.deepEqual(updates.slice(-2), [
      { node: "goes", values: { log: ["x"] } },
      { node: "last", values: { log: ["y"] } },
    ]);
    assert.deepEqual(
      updates.slice(0, -2).filter((data) => (data as JsonObject).node !== "nothing"),
      [],
    );
  });

  it("of a command that goes to the end are the state with its checkpoint", async () => {
    const go = host(beside({ ask: () => ({ log: [interrupt("q")] }) }, Log));
    await go({ input: {} });
    const { events, frames } = await go({ command: { goto: ["__end__"], update: { log: ["x"] } } });
    assert.deepEqual(lines(events), ["checkpoints [] step 1 update", "values [] log 1"]);
    const state = frames.at(-1) as Extract<ExecutorEvent, { type: "state" }>;
    assert.equal(dataOf(events[0]).id, state.checkpoint?.checkpoint_id);
  });

  it("refuse answers to questions that are not open, where asked to", async () => {
    const go = host(beside({ ask: () => ({ log: [interrupt("q")] }) }, Log));
    const { events: first } = await go({ input: {} });
    const pending = dataOf(first.find(({ method }) => method === "input.requested")).interrupt_id;
    const id = "0".repeat(32);
    const { events, error } = await go({ command: { resume: { [id]: 1 } }, strict_resume: true });
    assert.deepEqual(events, []);
    const { ResumeRefused } = await import("../../../lib/executor/contract.ts");
    assert.ok(error instanceof ResumeRefused);
    assert.deepEqual([error.reason, error.interrupt_ids, error.pending_ids], ["not_pending", [id], [pending]]);
  });

  it("of transformers are named, and see what the graph shows", async () => {
    const seen: string[] = [];
    const transformer = () => {
      const notes = StreamChannel.remote<string>("notes");
      const total = Promise.withResolvers<number>();
      const never = new Promise(() => {});
      return {
        init: () => ({ notes, total: total.promise, never, inside: StreamChannel.local() }),
        process({ method, params }: { readonly method: string; readonly params: { readonly data: unknown } }) {
          seen.push(method);
          if (method === "values") {
            const { messages } = params.data as { messages: BaseMessage[] };
            notes.push(`${messages.length} ${messages.at(-1)?.getType()}`);
          }
          return method !== "tasks";
        },
        finalize: () => total.resolve(seen.length),
      };
    };
    const graph = new StateGraph(MessagesAnnotation).addNode("agent", calls("Hi")).addEdge(START, "agent");
    const compiled = graph.compile({ transformers: [transformer] } as never);
    const { events } = await host(compiled)({ input: hello });
    assert.deepEqual(lines(events, ["values", "custom", "tasks"]), [
      'custom [] {"name":"notes","payload":"1 human"}',
      "values [] messages 1",
      'custom [] {"name":"notes","payload":"2 ai"}',
      "values [] messages 2",
      `custom [] {"name":"total","payload":${seen.length}}`,
    ]);
    assert.deepEqual(new Set(seen), new Set(["checkpoints", "values", "tasks", "lifecycle", "messages", "updates"]));
  });
});

/** Checks the events of the thread event protocol that a LangGraph graph emits: their order, their namespaces and their content. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AIMessage, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { Command, interrupt, MessagesAnnotation, START, StateGraph, StreamChannel } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { z } from "zod";
import type { ExecutorEvent, Job, StreamMode } from "../../../lib/executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../../lib/json.ts";
import type { JobChanges } from "./executor.harness.ts";
import {
  createCallingNode,
  createHost,
  createNamer,
  createParallelGraph,
  formatEvents,
  getEventData,
  hello,
  Log,
  type ProtocolEvent,
} from "./protocol-events.harness.ts";

const search = tool(async ({ q }: { q: string }) => JSON.stringify({ found: q }), {
  name: "search",
  description: "Searches",
  schema: z.object({ q: z.string() }),
});

/** Calls a tool, runs a subgraph, asks. */
function createJourney() {
  const inside = createParallelGraph({ inner: createCallingNode("Hi ", "you") });
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

describe("langgraph: protocol events of a whole run", () => {
  it("are states, tasks, nodes, messages, tools, subgraphs and interrupts in order", async () => {
    const go = createHost(createJourney());
    const { events } = await go({ input: hello });
    assert.deepEqual(formatEvents(events), [
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
    assert.deepEqual(formatEvents(answered.events), [
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

  it("have flat messages, the ids of the state, and each state's checkpoint", async () => {
    const { events, frames } = await createHost(createJourney())({
      input: hello,
      modes: ["checkpoints"],
      subgraphs: true,
    });
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
      assert.equal(checkpoint_id, getEventData(events[at - 1]).id);
      for (const message of (data as { messages: JsonObject[] }).messages) {
        assert.ok(typeof message.id === "string" && !("lc" in message) && "content" in message);
      }
    }
    const final = (getEventData(of("values").at(-1)) as { messages: JsonObject[] }).messages.map(({ id }) => id);
    const starts = of("messages").filter(({ data }) => (data as JsonObject).event === "message-start");
    assert.deepEqual(
      starts.map(({ data }) => (data as JsonObject).id),
      [final[1], final[3]],
    );
    const [finished] = of("tools").slice(-1);
    assert.deepEqual((getEventData(finished).output as JsonObject).tool_call_id, "call_1");
    const { interrupt_id, payload, value } = getEventData(of("input.requested")[0]);
    assert.match(String(interrupt_id), /^[0-9a-f]{32}$/);
    assert.deepEqual([payload, value], [{ question: "ok?" }, { question: "ok?" }]);
    assert.deepEqual(getEventData(of("updates")[0]).node, "plan");
  });

  it("name no checkpoints that are not stored", async () => {
    const { events } = await createHost(createJourney())({ input: hello, durability: "exit" });
    assert.ok(events.some(({ method }) => method === "values"));
    assert.deepEqual(
      events.filter(({ checkpoint_id }) => checkpoint_id !== undefined),
      [],
    );
  });

  it("are those of the root's states alone with `state`, and none without", async () => {
    for (const modes of [[], ["messages-tuple"], ["events"], ["checkpoints", "debug"]] as const) {
      const go = createHost(createJourney());
      assert.deepEqual(formatEvents((await go({ input: hello, events: "state", modes })).events), [
        ...[0, 1, 2, 3].flatMap((step) => [`checkpoints [] step ${step} loop`, "values [] of the checkpoint"]),
        'input.requested [] {"payload":{"question":"ok?"}}',
      ]);
      assert.deepEqual(formatEvents((await go({ command: { resume: "yes" }, events: "state", modes })).events), [
        ...[3, 4].flatMap((step) => [`checkpoints [] step ${step} loop`, "values [] of the checkpoint"]),
      ]);
    }
    assert.deepEqual((await createHost(createJourney())({ input: hello, events: "none" })).events, []);
  });

  const modeLists: readonly (readonly StreamMode[])[] = [
    ["values", "updates", "messages-tuple", "tasks", "checkpoints", "debug", "custom", "tools", "lifecycle"],
    ["values"],
    ["checkpoints"],
    ["debug"],
    ["events", "values", "messages-tuple"],
  ];
  for (const modes of modeLists) {
    it(`change no frame of ${modes.join(", ")}`, async () => {
      for (const subgraphs of [false, true]) {
        const frames = async (events: Job["events"]): Promise<string[]> => {
          const name = createNamer();
          const result = await createHost(createJourney())({ input: hello, modes, subgraphs, events });
          return result.frames.map((frame) => {
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
          // Mode `events` emits the events of callbacks, in their order of arrival.
          if (modes.includes("events")) assert.deepEqual(same.toSorted(), usual.toSorted());
          else assert.deepEqual(same, usual);
        }
      }
    });
  }
});

describe("langgraph: protocol events of interrupts, tools and updates", () => {
  it("come one by one for a node that interrupts twice", async () => {
    const go = createHost(createParallelGraph({ ask: () => ({ log: [interrupt("one"), interrupt("two")] }) }, Log));
    const readLines = async (changes: JobChanges): Promise<string[]> =>
      formatEvents((await go(changes)).events, ["input.requested"]);
    assert.deepEqual(await readLines({ input: {} }), ['input.requested [] {"payload":"one"}']);
    assert.deepEqual(await readLines({ command: { resume: "a" } }), ['input.requested [] {"payload":"two"}']);
    assert.deepEqual(await readLines({ command: { resume: "b" } }), []);
  });

  it("have different ids for nodes that interrupt in parallel", async () => {
    const graph = createParallelGraph(
      { a: () => ({ log: [interrupt("qa")] }), b: () => ({ log: [interrupt("qb")] }) },
      Log,
    );
    const { events } = await createHost(graph)({ input: {} });
    const requests = events.filter(({ method }) => method === "input.requested").map(({ data }) => data as JsonObject);
    assert.deepEqual(requests.map(({ payload }) => payload).toSorted(), ["qa", "qb"]);
    assert.equal(new Set(requests.map(({ interrupt_id }) => interrupt_id)).size, 2);
  });

  it("do not exist for breakpoints", async () => {
    const graph = createParallelGraph({ a: () => ({ log: ["a"] }) }, Log, { interruptBefore: ["a"] });
    assert.deepEqual(formatEvents((await createHost(graph)({ input: { log: ["x"] } })).events), [
      "checkpoints [] step 0 loop",
      "values [] log 1",
    ]);
  });

  it("come for tools that run in parallel, and for those that fail", async () => {
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
    const { events } = await createHost(graph)({ input: hello });
    const result = formatEvents(events, ["tools"]);
    assert.deepEqual(result.toSorted(), [
      "tools [tools:B] tool-error c2 boom",
      "tools [tools:B] tool-finished c1",
      'tools [tools:B] tool-started c1 search {"q":"a"}',
      "tools [tools:B] tool-started c2 fails {}",
    ]);
  });

  it("have the namespace of their task for tools inside subgraphs", async () => {
    const tool_calls = [{ id: "c1", name: "search", args: { q: "a" } }];
    const inside = new StateGraph(MessagesAnnotation)
      .addNode("plan", () => ({ messages: [new AIMessage({ content: "", tool_calls })] }))
      .addNode("tools", new ToolNode([search]))
      .addEdge(START, "plan")
      .addEdge("plan", "tools")
      .compile();
    const { events } = await createHost(createParallelGraph({ agent: inside }))({ input: hello });
    for (const { namespace } of events.filter(({ method }) => method === "tools")) {
      assert.deepEqual(
        namespace.map((segment) => segment.split(":")[0]),
        ["agent", "tools"],
      );
    }
  });

  it("come for updates that are no objects, and for commands", async () => {
    const graph = new StateGraph(Log)
      .addNode("nothing", () => null as never)
      .addNode("goes", () => new Command({ update: { log: ["x"] }, goto: "last" }), { ends: ["last"] })
      .addNode("last", () => ({ log: ["y"] }))
      .addEdge(START, "nothing")
      .addEdge("nothing", "goes");
    const { events } = await createHost(graph)({ input: {} });
    const updates = events.filter(({ method }) => method === "updates").map(({ data }) => data);
    assert.deepEqual(updates.slice(-2), [
      { node: "goes", values: { log: ["x"] } },
      { node: "last", values: { log: ["y"] } },
    ]);
    assert.deepEqual(
      updates.slice(0, -2).filter((update) => (update as JsonObject).node !== "nothing"),
      [],
    );
  });

  it("have the state with its checkpoint for a command that goes to the end", async () => {
    const go = createHost(createParallelGraph({ ask: () => ({ log: [interrupt("q")] }) }, Log));
    await go({ input: {} });
    const { events, frames } = await go({ command: { goto: ["__end__"], update: { log: ["x"] } } });
    assert.deepEqual(formatEvents(events), ["checkpoints [] step 1 update", "values [] log 1"]);
    const state = frames.at(-1) as Extract<ExecutorEvent, { type: "state" }>;
    assert.equal(getEventData(events[0]).id, state.checkpoint?.checkpoint_id);
  });

  it("do not exist for a resume with strict_resume whose interrupts are not pending: it fails with not_pending", async () => {
    const go = createHost(createParallelGraph({ ask: () => ({ log: [interrupt("q")] }) }, Log));
    const { events: first } = await go({ input: {} });
    const pending = getEventData(first.find(({ method }) => method === "input.requested")).interrupt_id;
    const id = "0".repeat(32);
    const { events, error } = await go({ command: { resume: { [id]: 1 } }, strict_resume: true });
    assert.deepEqual(events, []);
    const { ResumeError } = await import("../../../lib/executor/contract.ts");
    assert.ok(error instanceof ResumeError);
    assert.deepEqual([error.reason, error.interrupt_ids, error.pending_ids], ["not_pending", [id], [pending]]);
  });

  it("have the names of transformers, which receive the events of the graph", async () => {
    const texts: string[] = [];
    const createTransformer = () => {
      const notes = StreamChannel.remote<string>("notes");
      const total = Promise.withResolvers<number>();
      const never = new Promise(() => {});
      return {
        init: () => ({ notes, total: total.promise, never, inside: StreamChannel.local() }),
        process({ method, params }: { readonly method: string; readonly params: { readonly data: unknown } }) {
          texts.push(method);
          if (method === "values") {
            const { messages } = params.data as { messages: BaseMessage[] };
            notes.push(`${messages.length} ${messages.at(-1)?.getType()}`);
          }
          return method !== "tasks";
        },
        finalize: () => total.resolve(texts.length),
      };
    };
    const graph = new StateGraph(MessagesAnnotation).addNode("agent", createCallingNode("Hi")).addEdge(START, "agent");
    const compiled = graph.compile({ transformers: [createTransformer] } as never);
    const { events } = await createHost(compiled)({ input: hello });
    assert.deepEqual(formatEvents(events, ["values", "custom", "tasks"]), [
      'custom [] {"name":"notes","payload":"1 human"}',
      "values [] messages 1",
      'custom [] {"name":"notes","payload":"2 ai"}',
      "values [] messages 2",
      `custom [] {"name":"total","payload":${texts.length}}`,
    ]);
    assert.deepEqual(new Set(texts), new Set(["checkpoints", "values", "tasks", "lifecycle", "messages", "updates"]));
  });
});

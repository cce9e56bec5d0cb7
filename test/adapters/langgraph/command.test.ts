/** Interrupts and commands, on every LangGraph that the peer range takes (test/versions). */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AIMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { Annotation, END, interrupt, MessagesAnnotation, START, StateGraph, StateSchema } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { z } from "zod";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { createSingleThreadAccess, Saver } from "../../../adapters/langgraph/saver.ts";
import { Serde } from "../../../adapters/langgraph/serde.ts";
import { systemEnvironment } from "../../../lib/environment.ts";
import type { Interrupt } from "../../../lib/executor/contract.ts";
import type { Json, JsonObject } from "../../../lib/json.ts";
import {
  createJob,
  createThread,
  type JobChanges,
  run,
  type StateEvent,
  type StreamEvent,
} from "./executor.harness.ts";

interface Step {
  readonly events: readonly StreamEvent[];
  readonly state: StateEvent;
  readonly values: JsonObject;
  readonly pendingInterrupts: readonly Interrupt[];
}

function createHost(graph: Parameters<typeof langgraph>[0][string]) {
  const executor = langgraph({ graph });
  const thread = createThread();
  return {
    executor,
    thread,
    async run(changes: JobChanges = {}): Promise<Step> {
      const { events, state } = await run(executor, createJob(thread, "graph", changes));
      const pendingInterrupts = state.tasks.flatMap(({ interrupts }) => interrupts);
      return { events, state, values: state.values as JsonObject, pendingInterrupts };
    },
  };
}

const Log = Annotation.Root({
  log: Annotation<string[]>({ reducer: (current, update) => [...current, ...update], default: () => [] }),
  told: Annotation<unknown>,
});

/** Builds a graph of two nodes that ask at once, one of them twice. */
const createAskingGraph = () =>
  new StateGraph(Log)
    .addNode("once", () => ({ log: [`once ${JSON.stringify(interrupt("once?"))}`] }))
    .addNode("twice", () => {
      const answers = [interrupt("first?"), interrupt("second?")];
      return { log: [`twice ${JSON.stringify(answers)}`] };
    })
    .addEdge(START, "once")
    .addEdge(START, "twice")
    .compile();

const buildGraph = () =>
  new StateGraph(Log)
    .addNode("ask", () => ({ log: [`answer ${JSON.stringify(interrupt("ok?"))}`] }), { ends: ["tell", END] })
    .addNode("tell", ({ told }) => ({ log: [`told ${JSON.stringify(told)}`] }))
    .addEdge(START, "ask")
    .compile();

const getInterruptId = (step: Step, question: string): string => {
  const interrupt = step.pendingInterrupts.find(({ value }) => value === question);
  assert.ok(interrupt, `${question} of ${JSON.stringify(step.pendingInterrupts)}`);
  return interrupt.id;
};

describe("langgraph: resume values", () => {
  it("reach a tool that interrupts", async () => {
    const createToolCaller: Json[] = [];
    const send = tool(
      ({ to }) => {
        const answer = interrupt({ send: to }) as Json;
        createToolCaller.push(answer);
        return `sent to ${to}: ${JSON.stringify(answer)}`;
      },
      { name: "send", description: "Sends", schema: z.object({ to: z.string() }) },
    );
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("model", ({ messages }) => ({
        messages: [
          messages.length > 1
            ? new AIMessage("done")
            : new AIMessage({
                content: "",
                tool_calls: [{ name: "send", args: { to: "Ann" }, id: "c1", type: "tool_call" }],
              }),
        ],
      }))
      .addNode("tools", new ToolNode([send]))
      .addEdge(START, "model")
      .addConditionalEdges("model", ({ messages }) =>
        (messages.at(-1) as AIMessage).tool_calls?.length ? "tools" : END,
      )
      .addEdge("tools", "model")
      .compile();
    const at = createHost(graph);
    const stopped = await at.run({ input: { messages: [{ role: "user", content: "write" }] } });
    assert.deepEqual(
      [stopped.state.next, stopped.pendingInterrupts.map(({ value }) => value)],
      [["tools"], [{ send: "Ann" }]],
    );
    const { values } = await at.run({ command: { resume: { approved: true } } });
    assert.deepEqual(createToolCaller, [{ approved: true }]);
    const contents = (values.messages as JsonObject[]).map(({ content }) => content);
    assert.deepEqual(contents, ["write", "", 'sent to Ann: {"approved":true}', "done"]);
  });

  it("reach several pending interrupts by their ids, and the next interrupt of one", async () => {
    const at = createHost(createAskingGraph());
    const both = await at.run({ input: {} });
    const next = await at.run({
      command: { resume: { [getInterruptId(both, "once?")]: 1, [getInterruptId(both, "first?")]: 2 } },
    });
    assert.deepEqual(next.values.log, ["once 1"]);
    const { values, state } = await at.run({ command: { resume: { [getInterruptId(next, "second?")]: 3 } } });
    assert.deepEqual([values.log, state.next], [["once 1", "twice [2,3]"], []]);
  });

  for (const answer of [false, 0, "", null]) {
    it(`may be ${JSON.stringify(answer)}, by value and by id`, async () => {
      const expected = { log: [`answer ${JSON.stringify(answer)}`] };
      const plain = createHost(buildGraph());
      await plain.run({ input: {} });
      assert.deepEqual((await plain.run({ command: { resume: answer } })).values, expected);
      const named = createHost(buildGraph());
      const id = getInterruptId(await named.run({ input: {} }), "ok?");
      assert.deepEqual((await named.run({ command: { resume: { [id]: answer } } })).values, expected);
    });
  }

  it("have a response schema, which is emitted unchanged", async () => {
    const graph = new StateGraph(Log)
      .addNode("ask", () => ({
        // LangGraph 1.4 does not know the option.
        log: [
          String((interrupt as (value: unknown, options: object) => unknown)("age?", { responseSchema: z.number() })),
        ],
      }))
      .addEdge(START, "ask")
      .compile();
    const { pendingInterrupts, events } = await createHost(graph).run({ input: {}, modes: ["values", "updates"] });
    const emittedInterrupts = events.flatMap(
      ({ data }) => ((data as JsonObject).__interrupt__ ?? []) as unknown as Interrupt[],
    );
    assert.equal(emittedInterrupts.length, 2);
    for (const emittedInterrupt of emittedInterrupts) assert.deepEqual(emittedInterrupt, pendingInterrupts[0]);
    const { response_schema: schema } = pendingInterrupts[0] as Interrupt;
    assert.ok(schema === undefined || (schema as JsonObject).type === "number");
  });
});

describe("langgraph: strict resume values", () => {
  const unknown = "0123456789abcdef0123456789abcdef";
  for (const [reason, resume, pattern] of [
    ["not_pending", { [unknown]: 1 }, new RegExp(`no open interrupt ${unknown}; open: [0-9a-f]{32}, [0-9a-f]{32}$`)],
    ["empty_map", {}, /names no interrupt; open: /],
    ["ambiguous", "yes", /2 interrupts are open, give a map of their ids/],
  ] as const) {
    it(`fail the run before it writes anything: ${reason}`, async () => {
      const at = createHost(createAskingGraph());
      const { pendingInterrupts } = await at.run({ input: {} });
      const written = at.thread.checkpoints.steps.length;
      await assert.rejects(at.run({ command: { resume }, strict_resume: true }), (error) => {
        const { name, message, ...details } = error as Error & { reason?: unknown; pending_ids?: unknown };
        assert.deepEqual([name, details.reason], ["UnknownInterruptError", reason]);
        assert.deepEqual(details.pending_ids, pendingInterrupts.map(({ id }) => id).sort());
        assert.match(message, pattern);
        return true;
      });
      assert.equal(at.thread.checkpoints.steps.length, written);
    });
  }

  it("fail the run if a single value has no pending interrupt", async () => {
    const at = createHost(createAskingGraph());
    await assert.rejects(at.run({ command: { resume: "yes" }, strict_resume: true }), {
      name: "UnknownInterruptError",
      reason: "not_pending",
      message: "command.resume: there is no open interrupt; none is open",
    });
    assert.equal(at.thread.checkpoints.steps.length, 0);
  });

  it("are consumed once if they match their interrupts", async () => {
    const at = createHost(createAskingGraph());
    const both = await at.run({ input: {} });
    const resume = { [getInterruptId(both, "once?")]: 1, [getInterruptId(both, "first?")]: 2 };
    const { values } = await at.run({ command: { resume }, strict_resume: true });
    assert.deepEqual(values.log, ["once 1"]);
    await assert.rejects(at.run({ command: { resume }, strict_resume: true }), { name: "UnknownInterruptError" });
  });
});

describe("langgraph: commands", () => {
  it("update the state and go to a node", async () => {
    const at = createHost(buildGraph());
    await at.run({ input: {} });
    const { values } = await at.run({ command: { update: { told: "x" }, goto: ["tell"] } });
    assert.deepEqual(values, { log: ['told "x"'], told: "x" });
    const otherHost = createHost(buildGraph());
    await otherHost.run({ input: {} });
    const pairs = await otherHost.run({ command: { update: [["told", "y"]], goto: ["tell"] } });
    assert.deepEqual(pairs.values, { log: ['told "y"'], told: "y" });
  });

  const schemas: readonly (readonly [string, () => unknown])[] = [
    ["annotations", () => Log],
    ["zod", () => z.object({ log: z.array(z.string()).default([]), told: z.unknown() })],
    ["a StateSchema", () => new StateSchema({ log: z.array(z.string()).default([]), told: z.unknown() })],
  ];
  for (const [name, schema] of schemas) {
    for (const update of [undefined, { log: ["first"] }]) {
      it(`send a node its own input, state by ${name}, ${update ? "with" : "without"} an update`, async () => {
        const graph = new StateGraph(schema() as typeof Log)
          .addNode("rest", () => ({}), { ends: ["tell", END] })
          .addNode("tell", (state) => ({ told: [state.told, update ? state.log : null] }))
          .addEdge(START, "rest")
          .compile();
        const at = createHost(graph);
        await at.run({ input: { log: [] } });
        const goto = [{ node: "tell", input: { told: { deep: [1] }, log: ["own"] } }];
        const { values } = await at.run({ command: { goto, ...(update ? { update } : {}) } });
        assert.deepEqual(values, { log: update?.log ?? [], told: [{ deep: [1] }, update ? ["own"] : null] });

        const updated = await at.executor
          .state?.("graph")
          ?.update?.(
            { thread_id: at.thread.thread_id, ns: "" },
            "graph",
            [[{ values: null, as_node: "rest", command: { goto: [{ node: "tell", input: { told: 7, log: [] } }] } }]],
            at.thread.checkpoints,
            { metadata: {}, environment: systemEnvironment() },
          );
        assert.deepEqual(updated?.state.next, ["tell"]);
        assert.deepEqual((await at.run()).values.told, [7, update ? [] : null]);
      });
    }
  }

  it("answer, update and go to a node at once", async () => {
    const at = createHost(buildGraph());
    await at.run({ input: {} });
    const goto = [{ node: "tell", input: { told: 5, log: [] } }];
    const { values } = await at.run({ command: { resume: true, update: { log: ["u"] }, goto } });
    assert.deepEqual([...(values.log as string[])].sort(), ["answer true", "told 5", "u"]);
  });
});

describe("langgraph: pending writes", () => {
  it("are in the order of their tasks' paths, those without one first", async () => {
    const thread = createThread();
    const saver = new Saver({
      threads: createSingleThreadAccess(thread.thread_id, thread.checkpoints),
      serde: new Serde(null),
    });
    const checkpoint = { v: 4, id: "1", ts: "", channel_values: {}, channel_versions: {}, versions_seen: {} };
    const config = await saver.put({ configurable: { thread_id: thread.thread_id } }, checkpoint, {}, {});
    await saver.putWrites(config, [["c", 1]], "b", "~__pregel_pull, b");
    await saver.putWrites(config, [["c", 2]], "a", "~__pregel_pull, c");
    await saver.putWrites(
      config,
      [
        ["c", 3],
        ["c", 4],
      ],
      "z",
      "",
    );
    await saver.putWrites(config, [["c", 5]], "y");
    await saver.putWrites(config, [["c", new Uint8Array([6])]], "q", "~__pregel_pull, \u{1f600} x");
    await saver.putWrites(config, [["c", 7]], "p", "~__pregel_pull, \uffff");
    const tuple = await saver.getTuple(config);
    assert.deepEqual(
      tuple?.pendingWrites.map(([task, , value]) => [task, value]),
      [
        ["y", 5],
        ["z", 3],
        ["z", 4],
        ["b", 1],
        ["a", 2],
        ["p", 7],
        ["q", new Uint8Array([6])],
      ],
    );
  });
});

describe("langgraph: tools inside a subgraph", () => {
  it("are emitted under the graph that calls them", async () => {
    const look = tool(() => "seen", { name: "look", description: "Looks", schema: z.object({}) });
    const createToolCaller = (id: string) => () => ({
      messages: [new AIMessage({ content: "", tool_calls: [{ name: "look", args: {}, id, type: "tool_call" }] })],
    });
    const createFlow = (id: string) =>
      new StateGraph(MessagesAnnotation)
        .addNode("model", createToolCaller(id))
        .addNode("tools", new ToolNode([look]))
        .addEdge(START, "model")
        .addEdge("model", "tools");
    const graph = createFlow("outer")
      .addNode("child", createFlow("inner").compile())
      .addEdge("tools", "child")
      .compile();
    const { events } = await createHost(graph).run({ input: { messages: [] }, modes: ["tools"], subgraphs: true });
    const lines = events.map(({ namespace, data }) => {
      const { toolCallId, event } = data as JsonObject;
      return [toolCallId, event, (namespace ?? []).map((part) => part.split(":")[0]).join("|")];
    });
    assert.deepEqual(lines, [
      ["outer", "on_tool_start", ""],
      ["outer", "on_tool_end", ""],
      ["inner", "on_tool_start", "child"],
      ["inner", "on_tool_end", "child"],
    ]);
  });
});

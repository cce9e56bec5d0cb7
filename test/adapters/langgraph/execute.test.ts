import assert from "node:assert/strict";
import { cp, mkdir, mkdtemp, readdir, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import { AIMessage, AIMessageChunk, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import {
  Annotation,
  DeltaValue,
  END,
  entrypoint,
  interrupt,
  type LangGraphRunnableConfig,
  MemorySaver,
  MessagesAnnotation,
  Send,
  START,
  StateGraph,
  StateSchema,
  task,
} from "@langchain/langgraph";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { systemEnvironment } from "../../../lib/environment.ts";
import { LeaseLost } from "../../../lib/errors.ts";
import type { Executor, GraphState, StreamMode, ThreadState } from "../../../lib/executor/contract.ts";
import type { Json, JsonObject } from "../../../lib/json.ts";
import { aJob, aThread, type JobChanges, run, type Thread } from "./executor.harness.ts";

const Log = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => [...left, ...right], default: () => [] }),
  data: Annotation<unknown>,
});

const steps = () =>
  new StateGraph(Log)
    .addNode("one", () => ({ log: ["one"] }))
    .addNode("two", () => ({ log: ["two"] }), { ends: ["told", END] })
    .addNode("told", (state: typeof Log.State) => ({ log: [`told ${state.data}`] }))
    .addEdge(START, "one")
    .addEdge("one", "two");

/** Keeps what it is sent, and what it wrote itself. */
const keeps = (data: unknown = undefined) =>
  new StateGraph(Log)
    .addNode("keep", () => (data === undefined ? { log: ["kept"] } : { log: ["kept"], data }))
    .addEdge(START, "keep")
    .compile();

const asks = () =>
  new StateGraph(Log)
    .addNode("ask", () => ({ log: [`answer ${JSON.stringify(interrupt({ question: "ok?" }))}`] }))
    .addNode("after", () => ({ log: ["after"] }))
    .addEdge(START, "ask")
    .addEdge("ask", "after")
    .compile();

const asksTwice = (log: string[] = []) =>
  new StateGraph(Log)
    .addNode("left", () => ({ log: [`left ${interrupt("left?")}`] }))
    .addNode("right", () => ({ log: [`right ${interrupt("right?")}`] }))
    .addNode("quiet", () => {
      log.push("quiet");
      return { log: ["quiet"] };
    })
    .addEdge(START, "left")
    .addEdge(START, "right")
    .addEdge(START, "quiet")
    .compile();

const chat = () => {
  const model = new FakeListChatModel({ responses: ["Hello"] });
  return new StateGraph(MessagesAnnotation)
    .addNode("agent", async (state) => ({ messages: [await model.invoke(state.messages)] }))
    .addEdge(START, "agent")
    .compile();
};

interface Hosted {
  readonly executor: Executor;
  readonly thread: Thread;
  run(changes?: JobChanges): ReturnType<typeof run>;
  state(checkpoint_id?: string): Promise<ThreadState>;
  history(): Promise<ThreadState[]>;
}

function host(graph: Parameters<typeof langgraph>[0][string]): Hosted {
  const executor = langgraph({ graph });
  const thread = aThread();
  const states = executor.state?.("graph") as GraphState;
  const state = async (checkpoint_id?: string): Promise<ThreadState> => {
    const at = { thread_id: thread.thread_id, ns: "", ...(checkpoint_id === undefined ? {} : { checkpoint_id }) };
    const found = await states.get(at, thread.checkpoints, { subgraphs: false });
    assert.ok(found);
    return found;
  };
  return {
    executor,
    thread,
    run: (changes) => run(executor, aJob(thread, "graph", changes)),
    state,
    async history() {
      const stored = await Array.fromAsync(thread.checkpoints.list({ ns: "" }));
      return await Promise.all(stored.map(({ checkpoint_id }) => state(checkpoint_id)));
    },
  };
}

const log = (values: Json): Json => (values as JsonObject).log as Json;
const dataOf = (events: readonly { mode: string; data: Json }[], mode: StreamMode): Json[] =>
  events.filter((event) => event.mode === mode).map((event) => event.data);

const MODULES: Readonly<Record<string, string>> = {
  "@langchain/langgraph": "langgraph/dist/index.js",
  "@langchain/core/messages": "core/dist/messages/index.js",
  "@langchain/core/callbacks/manager": "core/dist/callbacks/manager.js",
};

/** The packages as another program's installation would have them. */
async function copyOfLangGraph(): Promise<AsyncDisposable & { load<Module>(specifier: string): Promise<Module> }> {
  const installed = join(import.meta.dirname, "../../../node_modules");
  const folder = await mkdtemp(join(tmpdir(), "greenroom-langgraph-"));
  const packages = join(folder, "node_modules");
  await mkdir(packages);
  for (const name of await readdir(installed)) {
    if (!name.startsWith(".") && name !== "@langchain") await symlink(join(installed, name), join(packages, name));
  }
  for (const name of ["core", "langgraph", "langgraph-checkpoint", "langgraph-sdk", "protocol"]) {
    const filter = (path: string): boolean => !/\.(map|cjs|cts)$/.test(path);
    await cp(join(installed, "@langchain", name), join(packages, "@langchain", name), { recursive: true, filter });
  }
  return {
    load: (specifier) => import(pathToFileURL(join(packages, "@langchain", MODULES[specifier] as string)).href),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  };
}

describe("langgraph: streams", () => {
  it("ends with the state it left, and the checkpoint that holds it", async () => {
    const { run, state } = host(steps().compile());
    const { events, state: last } = await run({ input: { log: ["in"] } });
    assert.deepEqual(events, []);
    assert.deepEqual(last.values, { log: ["in", "one", "two"] });
    assert.deepEqual([last.next, last.tasks], [[], []]);
    const stored = await state();
    assert.deepEqual(stored.values, last.values);
    assert.equal(stored.checkpoint?.checkpoint_id, last.checkpoint?.checkpoint_id);
  });

  it("shows values and updates of each step", async () => {
    const { events } = await host(steps().compile()).run({ input: { log: ["in"] }, modes: ["values", "updates"] });
    assert.deepEqual(dataOf(events, "values").map(log), [["in"], ["in", "one"], ["in", "one", "two"]]);
    assert.deepEqual(dataOf(events, "updates"), [{ one: { log: ["one"] } }, { two: { log: ["two"] } }]);
  });

  it("shows tasks, checkpoints, debug and custom events", async () => {
    const graph = new StateGraph(Log)
      .addNode("one", (_state, config: LangGraphRunnableConfig) => {
        config.writer?.({ progress: 1 });
        return { log: ["one"] };
      })
      .addEdge(START, "one")
      .compile();
    const { events } = await host(graph).run({ input: {}, modes: ["tasks", "checkpoints", "debug", "custom"] });
    const [started, finished] = dataOf(events, "tasks") as JsonObject[];
    assert.equal(started?.name, "one");
    assert.deepEqual(started?.input, { log: [] });
    assert.deepEqual([finished?.id, finished?.result], [started?.id, { log: ["one"] }]);
    const checkpoints = dataOf(events, "checkpoints") as JsonObject[];
    assert.deepEqual(
      checkpoints.map(({ next }) => next),
      [["__start__"], ["one"], []],
    );
    const [first, second] = checkpoints as [JsonObject, JsonObject];
    assert.deepEqual(second.parent_checkpoint, first.checkpoint);
    assert.equal((first.metadata as JsonObject).source, "input");
    assert.deepEqual(
      dataOf(events, "debug").map((item) => (item as JsonObject).type),
      ["checkpoint", "checkpoint", "task", "task_result", "checkpoint"],
    );
    assert.deepEqual(dataOf(events, "custom"), [{ progress: 1 }]);
    assert.ok(!JSON.stringify(events).includes("__pregel_checkpointer"));
  });

  it("keeps secrets out of what it shows and stores", async () => {
    const { run, thread } = host(steps().compile());
    const { events } = await run({
      input: {},
      modes: ["tasks", "checkpoints", "debug", "events"],
      config: { configurable: { langgraph_auth_user: { token: "s3cret" }, langgraph_auth_user_id: "s3cret" } },
    });
    assert.ok(events.length > 0);
    assert.ok(!JSON.stringify(events).includes("s3cret"));
    assert.ok(!JSON.stringify(thread.checkpoints.puts).includes("s3cret"));
  });

  it("takes messages with role or type, and keeps their ids", async () => {
    const { run } = host(chat());
    const { state } = await run({
      input: {
        messages: [
          { role: "user", content: "a", id: "A" },
          { type: "human", content: "b", id: "B" },
        ],
      },
    });
    const messages = (state.values as { messages: JsonObject[] }).messages;
    assert.deepEqual(messages.map(({ type, content, id }) => [type, content, id]).slice(0, 2), [
      ["human", "a", "A"],
      ["human", "b", "B"],
    ]);
    assert.equal(messages.length, 3);
    assert.deepEqual([messages[2]?.type, messages[2]?.content], ["ai", "Hello"]);
  });

  it("streams tokens under the id that the message has in the state", async () => {
    const { run } = host(chat());
    const { events, state } = await run({
      input: { messages: [{ role: "user", content: "hi" }] },
      modes: ["messages-tuple"],
    });
    const chunks = dataOf(events, "messages-tuple") as [JsonObject, JsonObject][];
    const answer = (state.values as { messages: JsonObject[] }).messages[1];
    assert.equal(chunks.map(([chunk]) => chunk.content).join(""), "Hello");
    assert.deepEqual(new Set(chunks.map(([chunk]) => chunk.type)), new Set(["AIMessageChunk"]));
    assert.deepEqual(new Set(chunks.map(([chunk]) => chunk.id)), new Set([answer?.id]));
    const metadata = chunks[0]?.[1];
    assert.equal(metadata?.langgraph_node, "agent");
    for (const name of [
      "langgraph_step",
      "langgraph_checkpoint_ns",
      "run_id",
      "thread_id",
      "graph_id",
      "assistant_id",
    ]) {
      assert.ok(metadata?.[name] !== undefined, name);
    }
  });

  it("keeps all messages that one node returns without ids, though they are watched", async () => {
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("two", () => ({ messages: [new AIMessage("a"), new AIMessage("b")] }))
      .addEdge(START, "two")
      .compile();
    const { events, state } = await host(graph).run({ input: { messages: [] }, modes: ["messages-tuple"] });
    const shown = dataOf(events, "messages-tuple").map((tuple) => (tuple as JsonObject[])[0]);
    const kept = (state.values as { messages: JsonObject[] }).messages;
    assert.deepEqual(
      kept.map(({ content }) => content),
      ["a", "b"],
    );
    assert.deepEqual(shown, kept);
  });

  it("runs the graph once where events and other modes are asked for together", async () => {
    let calls = 0;
    const graph = new StateGraph(Log)
      .addNode("count", () => {
        calls++;
        return { log: ["counted"] };
      })
      .addEdge(START, "count")
      .compile();
    const { events, state } = await host(graph).run({ input: { log: ["in"] }, modes: ["events", "values", "updates"] });
    assert.equal(calls, 1);
    assert.deepEqual(dataOf(events, "values").map(log), [["in"], ["in", "counted"]]);
    assert.deepEqual(dataOf(events, "updates"), [{ count: { log: ["counted"] } }]);
    const kinds = dataOf(events, "events").map((event) => [(event as JsonObject).event, (event as JsonObject).name]);
    assert.deepEqual(kinds[0], ["on_chain_start", "LangGraph"]);
    assert.deepEqual(kinds.at(-1), ["on_chain_end", "LangGraph"]);
    assert.ok(kinds.some(([event, name]) => event === "on_chain_end" && name === "count"));
    assert.deepEqual(log(state.values), ["in", "counted"]);
  });

  it("names the namespace of subgraphs when they are asked for", async () => {
    const child = new StateGraph(Log)
      .addNode("inner", () => ({ log: ["inner"] }))
      .addEdge(START, "inner")
      .compile();
    const graph = new StateGraph(Log).addNode("child", child).addEdge(START, "child").compile();
    const shown = await host(graph).run({ input: {}, modes: ["updates"], subgraphs: true });
    const [inner, outer] = shown.events;
    assert.equal(shown.events.length, 2);
    assert.match(inner?.namespace?.join("|") ?? "", /^child:[0-9a-f-]{36}$/);
    assert.deepEqual(inner?.data, { inner: { log: ["inner"] } });
    assert.deepEqual(outer?.namespace, []);
    const hidden = await host(graph).run({ input: {}, modes: ["updates"] });
    assert.deepEqual(
      hidden.events.map(({ data }) => Object.keys(data as object)),
      [["child"]],
    );
  });

  it("names the graph, not the task, as the namespace of messages", async () => {
    const { events } = await host(
      new StateGraph(MessagesAnnotation).addNode("child", chat()).addEdge(START, "child"),
    ).run({
      input: { messages: [{ role: "user", content: "hi" }] },
      modes: ["messages-tuple"],
      subgraphs: true,
    });
    const chunks = events.filter(({ mode }) => mode === "messages-tuple");
    assert.ok(chunks.length > 0);
    for (const { namespace } of chunks) assert.match(namespace?.join("|") ?? "", /^child:[^|]+$/);
  });
});

describe("langgraph: interrupts and commands", () => {
  it("stops at an interrupt and goes on with its answer", async () => {
    const { run, state } = host(asks());
    const stopped = await run({ input: {}, modes: ["values", "updates"] });
    const { next, tasks } = stopped.state;
    assert.deepEqual(next, ["ask"]);
    const [interrupted] = tasks[0]?.interrupts ?? [];
    assert.deepEqual(interrupted?.value, { question: "ok?" });
    assert.match(interrupted?.id ?? "", /^[0-9a-f]{32}$/);
    assert.deepEqual(dataOf(stopped.events, "updates"), [{ __interrupt__: [interrupted] }]);
    assert.deepEqual(dataOf(stopped.events, "values").at(-1), { __interrupt__: [interrupted] });
    const stored = await state();
    assert.deepEqual(stored.interrupts, [interrupted]);
    assert.deepEqual(stored.next, ["ask"]);

    const answered = await run({ command: { resume: "yes" } });
    assert.deepEqual(log(answered.state.values), ['answer "yes"', "after"]);
    assert.deepEqual(answered.state.next, []);
  });

  for (const answer of [false, null, 0, ""]) {
    it(`takes ${JSON.stringify(answer)} for an answer`, async () => {
      const { run } = host(asks());
      await run({ input: {} });
      const { state } = await run({ command: { resume: answer } });
      assert.deepEqual(log(state.values), [`answer ${JSON.stringify(answer)}`, "after"]);
    });
  }

  it("answers several interrupts by their ids", async () => {
    const { run } = host(asksTwice());
    const { state } = await run({ input: {} });
    const interrupts = state.tasks.flatMap((pending) => pending.interrupts);
    assert.equal(interrupts.length, 2);
    assert.deepEqual(log(state.values), ["quiet"]);
    const resume = Object.fromEntries(interrupts.map(({ id, value }) => [id, `to ${value}`]));
    const answered = await run({ command: { resume } });
    assert.deepEqual(log(answered.state.values), ["left to left?", "quiet", "right to right?"]);
  });

  it("does not run finished tasks again when the head is named as the checkpoint", async () => {
    const calls: string[] = [];
    const { run } = host(asksTwice(calls));
    const { state } = await run({ input: {} });
    const resume = Object.fromEntries(state.tasks.flatMap((pending) => pending.interrupts).map(({ id }) => [id, "x"]));
    await run({ command: { resume }, from: state.checkpoint ?? null });
    assert.deepEqual(calls, ["quiet"]);
  });

  it("goes on from an answer that an attempt before it left behind", async () => {
    const { run, thread } = host(asks());
    const { state } = await run({ input: {} });
    const at = state.checkpoint as { ns: string; checkpoint_id: string };
    const write = { channel: "__resume__", idx: -4, type: "json", data: '"stored"' };
    await thread.checkpoints.putWrites(at, "00000000-0000-0000-0000-000000000000", [write]);
    const { state: resumed } = await run({ attempt: 2, resumed: true, command: { resume: "again" } });
    assert.deepEqual(log(resumed.values), ['answer "stored"', "after"]);
  });

  it("goes on from the newest checkpoint in a second attempt", async () => {
    let broken = true;
    const graph = new StateGraph(Log)
      .addNode("one", () => ({ log: ["one"] }))
      .addNode("two", () => {
        if (broken) throw new Error("broken");
        return { log: ["two"] };
      })
      .addEdge(START, "one")
      .addEdge("one", "two")
      .compile();
    const { executor, thread } = host(graph);
    const job = aJob(thread, "graph", { input: { log: ["in"] } });
    await assert.rejects(run(executor, job), /broken/);
    broken = false;
    const { state } = await run(executor, { ...job, attempt: 2, resumed: true });
    assert.deepEqual(log(state.values), ["in", "one", "two"]);
  });

  it("updates the state and goes where a command says", async () => {
    const { run } = host(steps().compile());
    await run({ input: { data: 1 } });
    const { state } = await run({ command: { update: { log: ["changed"] }, goto: ["told"] } });
    assert.deepEqual(log(state.values), ["one", "two", "changed", "told 1"]);
    const pairs = await run({ command: { update: [["log", ["pairs"]]], goto: ["__end__"] } });
    assert.deepEqual(log(pairs.state.values), ["one", "two", "changed", "told 1", "pairs"]);
  });

  it("sends a node an input of its own", async () => {
    const { run } = host(steps().compile());
    await run({ input: {} });
    const { state } = await run({ command: { goto: [{ node: "told", input: { data: "this" } }] } });
    assert.deepEqual(log(state.values), ["one", "two", "told this"]);
  });

  it("stops at static breakpoints and goes on from them", async () => {
    for (const [changes, next] of [
      [{ interrupt_before: ["two"] }, ["two"]],
      [{ interrupt_after: ["one"] }, ["two"]],
      [{ interrupt_before: "*" }, ["one"]],
    ] as const) {
      const { run } = host(steps().compile());
      const { state, events } = await run({ input: {}, modes: ["values"], ...changes });
      assert.deepEqual(state.next, next);
      assert.deepEqual(events.at(-1)?.data, { __interrupt__: [] });
      assert.deepEqual(log((await run()).state.values), ["one", "two"]);
    }
  });

  it("keeps sends that wait at a breakpoint", async () => {
    const graph = new StateGraph(Log)
      .addNode("work", (state: typeof Log.State) => ({ log: [`work ${state.data}`] }))
      .addConditionalEdges(START, () => ["a", "b"].map((data) => new Send("work", { data })))
      .compile();
    const { run } = host(graph);
    const { state } = await run({ input: { log: ["in"] }, interrupt_before: ["work"] });
    assert.deepEqual(state.next, ["work", "work"]);
    assert.deepEqual(log((await run()).state.values), ["in", "work a", "work b"]);
  });

  it("interrupts inside a subgraph that was compiled with a saver of its own, and keeps everything itself", async () => {
    const own = new MemorySaver();
    const child = new StateGraph(Log)
      .addNode("inner", () => ({ log: [`inner ${interrupt("in?")}`] }))
      .addEdge(START, "inner")
      .compile({ checkpointer: own });
    const graph = new StateGraph(Log).addNode("child", child).addEdge(START, "child").compile({ checkpointer: own });
    const { run, executor, thread } = host(graph);
    const { state } = await run({ input: {} });
    assert.deepEqual(state.next, ["child"]);
    const at = { thread_id: thread.thread_id, ns: "" };
    const deep = await executor.state?.("graph")?.get(at, thread.checkpoints, { subgraphs: true });
    assert.deepEqual(deep?.tasks[0]?.state?.next, ["inner"]);
    const ns = deep?.tasks[0]?.state?.checkpoint?.checkpoint_ns as string;
    assert.match(ns, /^child:/);
    const inner = await executor.state?.("graph")?.get({ ...at, ns }, thread.checkpoints, { subgraphs: false });
    assert.deepEqual(inner?.next, ["inner"]);
    const answered = await run({ command: { resume: "yes" } });
    assert.deepEqual(log(answered.state.values), ["inner yes"]);
    assert.deepEqual(Object.keys(own.storage), []);
  });

  it("hosts functional graphs", async () => {
    const double = task("double", async (value: number) => value * 2);
    const flow = entrypoint("flow", async (value: number) => (await double(value)) + (interrupt("add?") as number));
    const { run } = host(flow);
    const { state } = await run({ input: 4 });
    assert.equal(state.tasks[0]?.interrupts[0]?.value, "add?");
    assert.equal((await run({ command: { resume: 1 } })).state.values, 9);
  });
});

describe("langgraph: checkpoints", () => {
  it("leaves one before the input, one with it, one per step, with the run's metadata", async () => {
    const { run, history } = host(steps().compile());
    await run({ input: { log: ["in"] }, metadata: { tenant: "acme" } });
    const states = await history();
    assert.deepEqual(
      states.map(({ next }) => next),
      [[], ["two"], ["one"], ["__start__"]],
    );
    assert.deepEqual(
      states.map(({ metadata }) => metadata?.step),
      [2, 1, 0, -1],
    );
    assert.deepEqual(
      states.map(({ metadata }) => metadata?.source),
      ["loop", "loop", "loop", "input"],
    );
    assert.deepEqual(new Set(states.map(({ metadata }) => metadata?.tenant)), new Set(["acme"]));
    assert.deepEqual(
      states.map((state) => state.parent_checkpoint),
      [...states.slice(1).map((state) => state.checkpoint), null],
    );
    assert.match(states[0]?.created_at ?? "", /^\d{4}-.*Z$/);
  });

  it("are not there before the first run", async () => {
    const { executor, thread } = host(steps().compile());
    const at = { thread_id: thread.thread_id, ns: "", checkpoint_id: "1f000000-0000-6000-8000-000000000000" };
    assert.equal(await executor.state?.("graph")?.get(at, thread.checkpoints, { subgraphs: false }), null);
  });

  it("are forked, and no branch takes the other's values", async () => {
    const { run, state, history } = host(keeps());
    await run({ input: { log: ["first"] } });
    const start = (await history()).at(-1)?.checkpoint?.checkpoint_id as string;
    const from = { ns: "", checkpoint_id: start };
    const heads = [];
    for (const name of ["a", "b", "c"]) {
      const forked = await run({ input: { log: [name] }, from });
      assert.deepEqual(log(forked.state.values), [name, "kept"]);
      heads.push(forked.state.checkpoint?.checkpoint_id);
    }
    for (const [at, name] of ["a", "b", "c"].entries()) {
      assert.deepEqual(log((await state(heads[at])).values), [name, "kept"]);
    }
  });

  it("of a stateful subgraph are found from a fork", async () => {
    const child = new StateGraph(Log)
      .addNode("inner", ({ log }) => ({ log: [`${log.length}`] }))
      .addEdge(START, "inner")
      .compile({ checkpointer: true });
    const graph = new StateGraph(Log)
      .addNode("child", async (_state, config: LangGraphRunnableConfig) => ({
        log: [(await child.invoke({ log: ["in"] }, config)).log.join()],
      }))
      .addEdge(START, "child")
      .compile();
    const { run } = host(graph);
    const { state } = await run({ input: {} });
    assert.deepEqual(log(state.values), ["in,1"]);
    assert.deepEqual(log((await run({ input: {} })).state.values), ["in,1", "in,1,in,3"]);
    const forked = await run({ input: {}, from: state.checkpoint ?? null });
    assert.deepEqual(log(forked.state.values), ["in,1", "in,1,in,3,in,5"]);
  });

  it("put channels together that are stored as their writes", async () => {
    const { z } = await import("zod");
    const items = new DeltaValue(z.array(z.string()).default([]), {
      inputSchema: z.array(z.string()),
      reducer: (state, writes) => [...state, ...writes.flat()],
      snapshotFrequency: 3,
    });
    const graph = new StateGraph(new StateSchema({ items }))
      .addNode("a", () => ({ items: ["a"] }))
      .addEdge(START, "a")
      .compile();
    for (const durability of ["async", "exit"] as const) {
      const { run, state } = host(graph);
      for (const input of ["1", "2", "3"]) await run({ input: { items: [input] }, durability });
      assert.deepEqual((await state()).values, { items: ["1", "a", "2", "a", "3", "a"] });
    }
  });

  it("go on from a fork without input", async () => {
    const { run, history } = host(steps().compile());
    await run({ input: {} });
    const before = (await history()).find(({ next }) => next[0] === "two")?.checkpoint?.checkpoint_id as string;
    const { state } = await run({ from: { ns: "", checkpoint_id: before } });
    assert.deepEqual(log(state.values), ["one", "two"]);
    assert.notEqual(state.checkpoint?.checkpoint_id, before);
  });

  it("write only what is new, and lists so that they can be stored as tails", async () => {
    const { run, thread } = host(chat());
    await run({ input: { messages: [{ role: "user", content: "1" }] } });
    await run({ input: { messages: [{ role: "user", content: "2" }] } });
    const texts = thread.checkpoints.puts
      .flatMap(({ values }) => values)
      .filter(({ channel }) => channel === "messages")
      .map(({ type, data }) => {
        assert.equal(type, "json");
        return data as string;
      });
    assert.equal(texts.length, 4);
    for (const [at, text] of texts.entries()) {
      if (at > 0) assert.ok(text.startsWith(`${texts[at - 1]?.slice(0, -1)},`), text);
    }
    const untouched = thread.checkpoints.puts.at(-1)?.values.map(({ channel }) => channel);
    assert.ok(!untouched?.includes("__start__"));
  });

  it("give messages back as messages", async () => {
    const seen: unknown[] = [];
    const Parts = Annotation.Root({ ...MessagesAnnotation.spec, part: Annotation<AIMessageChunk> });
    const graph = new StateGraph(Parts)
      .addNode("look", ({ messages, part }) => {
        const all = part ? [...messages, part] : messages;
        seen.push(all.map((message) => [message.constructor.name, message.getType(), message.content]));
        return {
          // Lists of messages need not keep chunks as what they are.
          part: new AIMessageChunk({ content: [{ type: "text", text: "x" }] }),
          messages: [
            new AIMessage({ content: "", tool_calls: [{ name: "t", args: { a: 1 }, id: "c", type: "tool_call" }] }),
            new ToolMessage({ content: "done", tool_call_id: "c", artifact: { big: 1n }, status: "success" }),
          ],
        };
      })
      .addEdge(START, "look")
      .compile();
    const { run, state } = host(graph);
    const { state: last } = await run({ input: { messages: [{ role: "user", content: "hi" }] } });
    const stored = await state();
    assert.deepEqual(stored.values, last.values);
    const [, calls, result] = (stored.values as { messages: JsonObject[] }).messages;
    assert.deepEqual(calls?.tool_calls, [{ name: "t", args: { a: 1 }, id: "c", type: "tool_call" }]);
    assert.deepEqual([result?.tool_call_id, result?.status, result?.artifact], ["c", "success", { big: "1" }]);
    await run({ input: { messages: [] } });
    assert.deepEqual(seen[1], [
      ["HumanMessage", "human", "hi"],
      ["AIMessage", "ai", ""],
      ["ToolMessage", "tool", "done"],
      ["AIMessageChunk", "ai", [{ type: "text", text: "x" }]],
    ]);
  });

  it("give hostile data back as it was sent, and construct nothing from it", async () => {
    const data = JSON.parse(`{
      "lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "HumanMessage"], "kwargs": {"content": "x"},
      "__proto__": {"polluted": true}, "constructor": {"prototype": {"polluted": true}},
      "nested": [{"lc": 2, "type": "constructor", "id": ["Map"], "args": [[]]}, {"$lg": "message", "v": {"type": "human"}}],
      "$lg": "undefined", "v": 1, "nul": "\\u0000", "lone": "\\ud800", "lg_name": "Send", "toJSON": 1
    }`) as JsonObject;
    const { run, state } = host(keeps());
    const { state: last } = await run({ input: { data, log: [] } });
    const stored = (await state()).values as JsonObject;
    for (const values of [last.values as JsonObject, stored]) {
      assert.equal(JSON.stringify(values.data), JSON.stringify(data));
      assert.ok(Object.hasOwn(values.data as object, "__proto__"));
    }
    assert.equal(({} as { polluted?: unknown }).polluted, undefined);
  });

  it("give back what JSON does not have", async () => {
    class Point {
      x = 1;
      next: unknown = undefined;
    }
    const values = {
      at: new Date(0),
      bytes: new Uint8Array([0, 255]),
      big: 10n,
      map: new Map([["k", { v: 1 }]]),
      set: new Set([1]),
      none: undefined,
      nan: Number.NaN,
      pattern: /a+/gi,
      wrong: new RangeError("far"),
      point: new Point(),
      message: { deep: [new HumanMessage({ content: "m", id: "m" })] },
    };
    let seen: typeof values | undefined;
    const graph = new StateGraph(Log)
      .addNode("write", () => ({ data: values }))
      .addNode("read", (state) => {
        seen = state.data as typeof values;
        return {};
      })
      .addEdge(START, "write")
      .addEdge("write", "read")
      .compile();
    const { run } = host(graph);
    await run({ input: { log: [] }, interrupt_before: ["read"] });
    const { state } = await run();
    assert.deepEqual(seen?.at, values.at);
    assert.deepEqual([...(seen?.bytes ?? [])], [0, 255]);
    assert.deepEqual(
      [seen?.big, seen?.map, seen?.set, seen?.nan, seen?.pattern],
      [10n, values.map, values.set, Number.NaN, /a+/gi],
    );
    assert.ok(seen && "none" in seen && seen.none === undefined);
    assert.deepEqual([seen.wrong.name, seen.wrong.message, seen.point.x], ["RangeError", "far", 1]);
    assert.ok(HumanMessage.isInstance(seen.message.deep[0]));
    const shown = (state.values as { data: JsonObject }).data;
    assert.deepEqual(shown, {
      at: "1970-01-01T00:00:00.000Z",
      bytes: "AP8=",
      big: "10",
      map: { k: { v: 1 } },
      set: [1],
      nan: null,
      pattern: "/a+/gi",
      wrong: { name: "RangeError", message: "far" },
      point: { x: 1 },
      message: { deep: [{ type: "human", content: "m", id: "m", additional_kwargs: {}, response_metadata: {} }] },
    });
  });

  it("fail the run, naming the channel, for what cannot be stored", async () => {
    await assert.rejects(
      host(keeps({ f: () => 1 })).run({ input: {} }),
      /channel "data" cannot be stored: it contains a function/i,
    );
    const circle: { self?: unknown } = {};
    circle.self = circle;
    await assert.rejects(host(keeps(circle)).run({ input: {} }), /channel "data" cannot be stored.*contains itself/i);
  });

  it("are written with every durability", async () => {
    for (const [durability, count] of [
      ["sync", 4],
      ["async", 4],
      ["exit", 1],
    ] as const) {
      const { run, state, thread } = host(steps().compile());
      const { state: last } = await run({ input: {}, durability });
      assert.equal(thread.checkpoints.puts.length, count);
      assert.deepEqual(log((await state()).values), ["one", "two"]);
      assert.equal((await state()).checkpoint?.checkpoint_id, last.checkpoint?.checkpoint_id);
    }
  });

  it("written on exit keep an interrupt and take its answer", async () => {
    const { run, thread } = host(asks());
    const { state } = await run({ input: {}, durability: "exit" });
    assert.deepEqual(state.next, ["ask"]);
    const again = await run({ durability: "exit" });
    assert.deepEqual(again.state.next, ["ask"]);
    assert.deepEqual(log((await run({ command: { resume: 1 }, durability: "exit" })).state.values), [
      "answer 1",
      "after",
    ]);
    for (const { checkpoint_id, parent_id } of thread.checkpoints.puts) assert.notEqual(checkpoint_id, parent_id);
  });
});

describe("langgraph: runs that leave nothing", () => {
  const bare = { stateless: true, durability: "exit" } as const;

  it("write no checkpoint, and end with their state alone", async () => {
    const { run, thread } = host(chat());
    const { state } = await run({ ...bare, input: { messages: ["Hi"] } });
    assert.deepEqual(
      ((state.values as JsonObject).messages as JsonObject[]).map(({ type, content }) => [type, content]),
      [
        ["human", "Hi"],
        ["ai", "Hello"],
      ],
    );
    assert.ok(!("checkpoint" in state));
    assert.deepEqual(thread.checkpoints.puts, []);
  });

  it("show their interrupts, those of subgraphs too", async () => {
    const child = new StateGraph(Log)
      .addNode("inner", () => ({ log: [`inner ${interrupt("in?")}`] }))
      .addEdge(START, "inner")
      .compile();
    const nested = new StateGraph(Log).addNode("child", child).addEdge(START, "child").compile();
    for (const [graph, node, value] of [
      [asks(), "ask", { question: "ok?" }],
      [nested, "child", "in?"],
    ] as const) {
      const { run, thread } = host(graph);
      const { state } = await run({ ...bare, input: { log: ["in"] } });
      assert.deepEqual([state.next, state.values], [[node], { log: ["in"] }]);
      assert.deepEqual(
        state.tasks.map((task) => task.interrupts.map((one) => one.value)),
        [[value]],
      );
      assert.ok(!("checkpoint" in state));
      assert.deepEqual(thread.checkpoints.puts, []);
    }
  });

  it("remember what a stateful subgraph did within the run", async () => {
    const child = new StateGraph(Log)
      .addNode("inner", (state) => ({ log: [`inner ${state.log.length}`] }))
      .addEdge(START, "inner")
      .compile({ checkpointer: true });
    const graph = new StateGraph(Log)
      .addNode("child", child)
      .addEdge(START, "child")
      .addConditionalEdges("child", ({ log }) => (log.length < 4 ? "child" : END))
      .compile();
    const kept = await host(graph).run({ input: {} });
    const { run, thread } = host(graph);
    const { state } = await run({ ...bare, input: {} });
    assert.deepEqual(state.values, kept.state.values);
    // The second time it has its own first log and, from its input, the same again.
    assert.deepEqual(log(state.values), ["inner 0", "inner 0", "inner 0", "inner 2"]);
    assert.deepEqual(thread.checkpoints.puts, []);
  });

  it("put channels together that are kept as their writes", async () => {
    const { z } = await import("zod");
    const items = new DeltaValue(z.array(z.string()).default([]), {
      inputSchema: z.array(z.string()),
      reducer: (state, writes) => [...state, ...writes.flat()],
      snapshotFrequency: 3,
    });
    const graph = new StateGraph(new StateSchema({ items }))
      .addNode("a", () => ({ items: ["a"] }))
      .addNode("ask", () => ({ items: [String(interrupt("?"))] }))
      .addEdge(START, "a")
      .addEdge("a", "ask")
      .compile();
    const { state } = await host(graph).run({ ...bare, input: { items: ["1"] } });
    assert.deepEqual([state.next, state.values], [["ask"], { items: ["1", "a"] }]);
  });

  it("write checkpoints where the request asks for them, and read those of an attempt before", async () => {
    const { run, thread } = host(steps().compile());
    const { state } = await run({ ...bare, durability: "async", input: {} });
    assert.equal(state.checkpoint?.checkpoint_id, thread.checkpoints.puts.at(-1)?.checkpoint_id);
    const again = await run({ ...bare, resumed: true });
    assert.deepEqual(again.state.values, state.values);
  });
});

describe("langgraph: graphs", () => {
  it("are left as they were, and serve two executors at once", async () => {
    const graph = steps().compile();
    const before = new Map(Object.entries(graph));
    const hosts = [host(graph), host(graph)];
    const ended = await Promise.all(
      hosts.map((each, at) => each.run({ input: { log: [`${at}`] }, modes: ["values"] })),
    );
    assert.deepEqual(
      ended.map(({ state }) => log(state.values)),
      [
        ["0", "one", "two"],
        ["1", "one", "two"],
      ],
    );
    assert.deepEqual(new Map(Object.entries(graph)), before);
    assert.equal(graph.checkpointer, undefined);
  });

  it("are taken as builders, factories and entries", async () => {
    const configs: unknown[] = [];
    const executor = langgraph({
      builder: steps(),
      factory: async (config) => {
        configs.push(config.configurable.model);
        return steps().compile();
      },
      entry: { graph: steps(), description: "two steps", max_attempts: 7, timeout_ms: 9, abandon_ms: 5 },
      agent: { graph: steps().compile() },
    });
    assert.deepEqual(executor.graphs(), [
      { graph_id: "builder", resumes: true, protocol_events: true },
      { graph_id: "factory", resumes: true, protocol_events: true },
      {
        graph_id: "entry",
        resumes: true,
        protocol_events: true,
        description: "two steps",
        max_attempts: 7,
        timeout_ms: 9,
        abandon_ms: 5,
      },
      { graph_id: "agent", resumes: true, protocol_events: true },
    ]);
    for (const { graph_id } of executor.graphs()) {
      const job = aJob(aThread(), graph_id, { input: {}, config: { configurable: { model: "m" } } });
      assert.deepEqual(log((await run(executor, job)).state.values), ["one", "two"]);
    }
    assert.deepEqual(configs, ["m"]);
  });

  it("are refused at once when they are none", () => {
    assert.throws(() => langgraph({ wrong: { nodes: [] } as never }), /Graph wrong is neither/);
  });

  it("get context, configuration and ids", async () => {
    let seen: LangGraphRunnableConfig | undefined;
    const graph = new StateGraph(Log)
      .addNode("look", (_state, config: LangGraphRunnableConfig) => {
        seen = config;
        return { log: [] };
      })
      .addEdge(START, "look")
      .compile();
    const { executor, thread } = host(graph);
    const job = aJob(thread, "graph", {
      input: {},
      context: { tone: "kind" },
      config: { configurable: { model: "m", checkpoint_id: "forged", __pregel_resuming: true }, tags: ["t"] },
    });
    await run(executor, job);
    assert.deepEqual(seen?.context, { tone: "kind" });
    const { model, thread_id, run_id, graph_id, assistant_id } = seen?.configurable ?? {};
    assert.deepEqual(
      { model, thread_id, run_id, graph_id, assistant_id },
      {
        model: "m",
        thread_id: thread.thread_id,
        run_id: job.run_id,
        graph_id: "graph",
        assistant_id: job.assistant_id,
      },
    );
    assert.ok(seen?.tags?.includes("t"));
    assert.equal(seen?.metadata?.run_id, job.run_id);
  });

  it("are drawn, with subgraphs where asked", async () => {
    const graph = new StateGraph(Log)
      .addNode("child", steps().compile())
      .addEdge(START, "child")
      .addEdge("child", END)
      .compile();
    const state = host(graph).executor.state?.("graph") as GraphState;
    const drawn = await state.drawn("graph", false);
    assert.deepEqual(
      drawn.nodes.map(({ id }) => id),
      ["__start__", "child", "__end__"],
    );
    assert.deepEqual(
      drawn.edges.map(({ source, target }) => [source, target]),
      [
        ["__start__", "child"],
        ["child", "__end__"],
      ],
    );
    const deep = await state.drawn("graph", true);
    assert.ok(deep.nodes.some(({ id }) => id === "child:one"));
    assert.deepEqual(Object.keys(await state.subgraphs("graph", null, true)), ["child"]);
  });

  it("say what their state looks like where they know", async () => {
    const { z } = await import("zod");
    const graph = new StateGraph({ state: z.object({ count: z.number() }), context: z.object({ tone: z.string() }) })
      .addNode("one", () => ({}))
      .addEdge(START, "one")
      .compile();
    const states = host(graph).executor.state?.("graph") as GraphState;
    const { state_schema, input_schema, context_schema } = await states.schemas("graph");
    assert.deepEqual(Object.keys(state_schema?.properties as object), ["count"]);
    assert.deepEqual(Object.keys(input_schema?.properties as object), ["count"]);
    assert.deepEqual(Object.keys(context_schema?.properties as object), ["tone"]);
  });

  it("may come from another copy of LangGraph", async () => {
    await using copy = await copyOfLangGraph();
    const { Annotation, StateGraph } = await copy.load<typeof import("@langchain/langgraph")>("@langchain/langgraph");
    const { HumanMessage: CopiedMessage } =
      await copy.load<typeof import("@langchain/core/messages")>("@langchain/core/messages");
    assert.notEqual(CopiedMessage, HumanMessage);
    const seen: unknown[] = [];
    const Shared = Annotation.Root({ kept: Annotation<unknown>, told: Annotation<unknown> });
    const graph = new StateGraph(Shared)
      .addNode("look", ({ kept }) => {
        seen.push((kept as object | undefined)?.constructor);
        return { kept: new CopiedMessage("hi") };
      })
      .addNode("tell", ({ told }) => ({ told: `${told}!` }))
      .addEdge(START, "look")
      .addConditionalEdges("look", () => END, ["tell", END])
      .compile();
    const resolve = (specifier: string): Promise<unknown> => {
      // Which copy of LangGraph runs the graph nobody but the graph knows.
      if (specifier === "@langchain/langgraph") throw new Error("Nothing of LangGraph is needed");
      return copy.load(specifier);
    };
    const executor = langgraph({ graph }, { resolve });
    const thread = aThread();
    for (const input of [{ told: "a" }, { told: "b" }]) await run(executor, aJob(thread, "graph", { input }));
    assert.deepEqual(seen, [undefined, CopiedMessage]);
    const sent = await run(
      executor,
      aJob(thread, "graph", { command: { goto: [{ node: "tell", input: { told: "c" } }] } }),
    );
    assert.equal((sent.state.values as JsonObject).told, "c!");
    const updated = await executor
      .state?.("graph")
      ?.update?.(
        { thread_id: thread.thread_id, ns: "" },
        "graph",
        [[{ values: null, as_node: "look", command: { goto: [{ node: "tell", input: { told: "d" } }] } }]],
        thread.checkpoints,
        { metadata: {}, environment: systemEnvironment() },
      );
    assert.deepEqual(updated?.state.next, ["tell"]);
    const told = await run(executor, aJob(thread, "graph"));
    assert.equal((told.state.values as JsonObject).told, "d!");
  });
});

describe("langgraph: ends", () => {
  it("with the error of a node", async () => {
    class Odd extends Error {
      override name = "Odd";
    }
    const graph = new StateGraph(Log)
      .addNode("one", () => ({ log: ["one"] }))
      .addNode("bad", () => {
        throw new Odd("boom");
      })
      .addEdge(START, "one")
      .addEdge("one", "bad")
      .compile();
    const { run, state } = host(graph);
    await assert.rejects(run({ input: {} }), (error) => error instanceof Odd && error.message === "boom");
    const stored = await state();
    assert.deepEqual(log(stored.values), ["one"]);
    assert.deepEqual([stored.tasks[0]?.name, stored.tasks[0]?.error], ["bad", "boom"]);
  });

  it("at the recursion limit", async () => {
    const graph = new StateGraph(Log)
      .addNode("loop", () => ({ log: ["x"] }))
      .addEdge(START, "loop")
      .addEdge("loop", "loop")
      .compile();
    const { run, state } = host(graph);
    await assert.rejects(run({ input: {}, config: { recursion_limit: 3, configurable: {} } }), {
      name: "GraphRecursionError",
    });
    assert.deepEqual(log((await state()).values), ["x", "x", "x"]);
  });

  it("when nobody reads on", async () => {
    const calls: string[] = [];
    const graph = new StateGraph(Log)
      .addNode("one", () => ({ log: ["one"] }))
      .addNode("slow", (_state, config: LangGraphRunnableConfig) => {
        calls.push("slow");
        return new Promise<never>((_resolve, reject) => {
          config.signal?.addEventListener("abort", () => reject(new Error("stopped")));
        });
      })
      .addEdge(START, "one")
      .addEdge("one", "slow")
      .compile();
    const { executor, thread } = host(graph);
    for await (const event of executor.execute(
      aJob(thread, "graph", { input: {}, modes: ["updates"] }),
      new AbortController().signal,
      systemEnvironment(),
    )) {
      assert.equal(event.type, "stream");
      break;
    }
    assert.ok(calls.length <= 1);
  });

  for (const durability of ["async", "sync", "exit"] as const) {
    it(`with the very error of a lost lease (${durability})`, async () => {
      const graph = new StateGraph(Log)
        .addNode("lose", () => {
          thread.checkpoints.fails = lost;
          return { log: ["x"] };
        })
        .addNode("hang", (_state, config: LangGraphRunnableConfig) => {
          return new Promise((resolve) => config.signal?.addEventListener("abort", () => resolve({})));
        })
        .addEdge(START, "lose")
        .addConditionalEdges("lose", () => (durability === "exit" ? END : "hang"))
        .compile();
      const { executor, thread } = host(graph);
      const lost = new LeaseLost("run");
      await assert.rejects(run(executor, aJob(thread, "graph", { input: {}, durability })), (error) => error === lost);
    });
  }
});

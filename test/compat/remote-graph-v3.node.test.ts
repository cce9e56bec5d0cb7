/** `RemoteGraph.streamEvents` with `version: "v3"`, alone and inside a node of a local graph. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { BaseMessage } from "@langchain/core/messages";
import {
  Annotation,
  Command,
  END,
  interrupt,
  type LangGraphRunnableConfig,
  MemorySaver,
  MessagesAnnotation,
  START,
  StateGraph,
} from "@langchain/langgraph";
import { RemoteGraph } from "@langchain/langgraph/remote";
import { serve } from "../../adapters/node/mod.ts";
import { testService } from "../suite/kit.ts";
import { createGates, type Gates, testExecutor } from "../support/graphs.ts";
import { until } from "../support/until.ts";

type Input = Parameters<RemoteGraph["invoke"]>[0];

const v3 = (remote: RemoteGraph, input: Input, config: object) =>
  remote.streamEvents(input, { version: "v3", ...config });
type Run = Awaited<ReturnType<typeof v3>>;

interface Harness extends AsyncDisposable {
  readonly remote: (graphId: string) => RemoteGraph;
  /** Starts a run, whose streams stay open until the end of the test. */
  readonly stream: (graphId: string, input: Input, config?: object) => Promise<Run>;
  /** Resolves once this many streams have answered: one that opens after the end of a run gets nothing of it from the SDK. */
  readonly opened: (streams: number) => Promise<void>;
  /** Waits for the thread's last run, and returns its messages. The SDK ends new streams at the end of any earlier run. */
  readonly ended: (thread_id: string) => Promise<unknown[]>;
  readonly gates: Gates;
}

async function open(): Promise<Harness> {
  const gates = createGates();
  const host = await testService({ executor: testExecutor(gates) });
  let streams = 0;
  const listener = await serve(
    async (request) => {
      const response = await host.fetch(request);
      if (request.url.endsWith("/stream/events")) streams++;
      return response;
    },
    { hostname: "127.0.0.1", port: 0 },
  );
  const remote = (graphId: string): RemoteGraph =>
    new RemoteGraph({ graphId, url: `http://127.0.0.1:${listener.port}`, apiKey: "none" });
  const runs: Run[] = [];
  return {
    gates,
    remote,
    opened: (count) => until(() => streams >= count),
    async ended(thread_id) {
      const [run] = await host.service.runs.list(thread_id, { limit: 1 });
      await (await host.service.runs.join(thread_id, run?.run_id ?? "")).result;
      return readContents((await host.service.threads.state(thread_id)).values);
    },
    async stream(graphId, input, config = {}) {
      const run = await v3(remote(graphId), input, config);
      runs.push(run);
      return run;
    },
    async [Symbol.asyncDispose]() {
      for (const { thread } of runs) await thread.close();
      await host[Symbol.asyncDispose]();
      await listener.close();
    },
  };
}

const hi = { messages: [{ role: "user", content: "hi" }] };
const onThread = () => ({ configurable: { thread_id: crypto.randomUUID() } });
const readContents = (values: unknown): unknown[] =>
  (values as { messages: { content: unknown }[] }).messages.map((message) => message.content);

async function collect<Item>(stream: AsyncIterable<Item>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const item of stream) items.push(item);
  return items;
}

async function spoken(run: Run): Promise<unknown[]> {
  const all: unknown[] = [];
  for await (const message of run.messages) all.push([message.node, ...(await collect(message.text))]);
  return all;
}

describe("RemoteGraph.streamEvents v3", () => {
  it("streams values and messages, and has the output", async () => {
    await using world = await open();
    const config = onThread();
    const run = await world.stream("gated-chat", hi, config);
    const [messages, values] = [spoken(run), collect(run.values)];
    await world.opened(2);
    world.gates.open("token 1", "token 2", "token 3");
    assert.deepEqual(readContents(await run.output), ["hi", "You said: hi"]);
    assert.equal(run.interrupted, false);
    assert.deepEqual(await messages, [["model", "You ", "said: ", "hi"]]);
    assert.deepEqual((await values).map(readContents), [["hi"], ["hi", "You said: hi"]]);
  });

  it("has subgraphs", async () => {
    await using world = await open();
    const run = await world.stream("team", hi);
    const { value: graph } = await run.subgraphs[Symbol.asyncIterator]().next();
    assert.equal(graph.name, "research");
    const output = Promise.resolve(graph.output);
    await world.opened(3);
    world.gates.open("deep 1", "deep 2", "deep 3", "report");
    assert.deepEqual(readContents(await output), ["hi", "Deep thought here", "Checked"]);
    assert.deepEqual(readContents(await run.output), ["hi", "Deep thought here", "Checked", "Reported"]);
  });

  it("has the error of the run in its lifecycle", async () => {
    await using world = await open();
    const run = await world.stream("failing", hi);
    const last = (await collect(run.lifecycle)).at(-1);
    assert.deepEqual([last?.event, last?.error], ["failed", "boom happened"]);
  });

  it("stops at an interrupt and continues with a command", async () => {
    await using world = await open();
    const config = onThread();
    const run = await world.stream("approval", hi, config);
    assert.deepEqual(readContents(await run.output), ["hi", "One moment."]);
    assert.equal(run.interrupted, true);
    assert.deepEqual(
      run.interrupts.map(({ payload }) => payload),
      [{ question: "Book seat 7A?", tool: "book" }],
    );
    await world.stream("approval", new Command({ resume: "yes" }), config);
    const all = ["hi", "One moment.", "seat 7A is booked", "Done: seat 7A is booked"];
    assert.deepEqual(await world.ended(config.configurable.thread_id), all);
  });

  it("accepts a command that updates the state and chooses the node", async () => {
    await using world = await open();
    const run = await world.stream("chat", new Command({ update: hi, goto: "model" }), onThread());
    assert.deepEqual(readContents(await run.output), ["hi", "You said: hi"]);
  });

  it("cancels the run when it is aborted", async () => {
    await using world = await open();
    const config = onThread();
    const run = await v3(world.remote("gated-chat"), hi, config);
    await world.gates.reached("token 1");
    run.abort();
    assert.equal(await world.gates.stopped("token 1"), "cancelled");
  });

  it("runs in a node of a local graph, and passes its tokens and interrupts on", async () => {
    await using world = await open();
    const config = onThread();
    const remote = world.remote("approval");
    const state = Annotation.Root({ ...MessagesAnnotation.spec, heard: Annotation<string> });
    const speak = async ({ messages }: typeof state.State, { writer }: LangGraphRunnableConfig): Promise<object> => {
      const run = await world.stream("gated-chat", { messages });
      const tokens = spoken(run);
      await world.opened(2);
      world.gates.open("token 1", "token 2", "token 3");
      for (const message of await tokens) writer?.(message);
      return { messages: [{ role: "ai", content: readContents(await run.output).at(-1) }] };
    };
    const ask = async ({ messages }: typeof state.State): Promise<object> => {
      const { thread_id } = config.configurable;
      if ((await remote.getState(config).catch(() => null)) === null) {
        const run = await world.stream("approval", { messages }, config);
        await run.output;
      }
      const answer = interrupt((await remote.getState(config)).tasks[0]?.interrupts[0]?.value);
      await world.stream("approval", new Command({ resume: answer }), config);
      return { heard: (await world.ended(thread_id)).at(-1) };
    };
    const local = new StateGraph(state)
      .addNode("speak", speak)
      .addNode("ask", ask)
      .addEdge(START, "speak")
      .addEdge("speak", "ask")
      .addEdge("ask", END)
      .compile({ checkpointer: new MemorySaver() });
    const first = await local.streamEvents(hi as unknown as { messages: BaseMessage[] }, { version: "v3", ...config });
    const written = (await collect(first)).flatMap(({ method, params }) => (method === "custom" ? [params.data] : []));
    assert.deepEqual(
      written.map((data) => (data as { payload: unknown }).payload),
      [["model", "You ", "said: ", "hi"]],
    );
    assert.equal(first.interrupted, true);
    const second = await local.streamEvents(new Command({ resume: "yes" }), { version: "v3", ...config });
    assert.equal(((await second.output) as { heard: string }).heard, "Done: seat 7A is booked");
  });

  it("is a node of a local graph that streams v3", async () => {
    await using world = await open();
    const local = new StateGraph(MessagesAnnotation)
      .addNode("remote", world.remote("chat"))
      .addEdge(START, "remote")
      .addEdge("remote", END)
      .compile();
    const run = await local.streamEvents(hi as unknown as { messages: BaseMessage[] }, { version: "v3" });
    const events = await collect(run);
    assert.deepEqual(readContents(await run.output).at(-1), "You said: hi");
    assert.ok(events.some(({ method, params }) => method === "values" && params.namespace.length > 0));
  });
});

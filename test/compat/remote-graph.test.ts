/** `RemoteGraph` of LangGraph.js: a graph that is served here is used as if it were at hand. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { BaseMessage } from "@langchain/core/messages";
import { Annotation, Command, END, MemorySaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { RemoteGraph, type RemoteGraphParams } from "@langchain/langgraph/remote";
import type { Client } from "langgraph-sdk-2";
import { testService } from "../suite/kit.ts";
import { createGates, testExecutor } from "../support/graphs.ts";
import { inProcess, SDKS } from "./sdk/reach.ts";

/** Some of the graphs fail, or name what is not there. */
const EXPECTED: ReadonlySet<string> = new Set(["a run failed", "a route was called that is not built yet"]);

interface Harness extends AsyncDisposable {
  readonly remote: (graphId: string) => RemoteGraph;
  /** Resolves when the thread's last run has ended: a RemoteGraph leaves at the interrupt, before that. */
  readonly ended: (thread_id: string) => Promise<unknown>;
}

async function open(Sdk: typeof Client): Promise<Harness> {
  const host = await testService({ executor: testExecutor(createGates()) });
  const { apiUrl, fetch, close } = await inProcess(host.fetch);
  const client = new Sdk({ apiUrl, apiKey: null, callerOptions: { fetch, maxRetries: 0 } });
  return {
    remote: (graphId) =>
      new RemoteGraph({ graphId, client: client as unknown as RemoteGraphParams["client"] & object }),
    async ended(thread_id) {
      const [run] = await client.runs.list(thread_id, { limit: 1 });
      return await client.runs.join(thread_id, run?.run_id ?? "");
    },
    async [Symbol.asyncDispose]() {
      await close();
      await host[Symbol.asyncDispose]();
      assert.deepEqual(
        host.log.filter(({ level, message }) => level !== "info" && !EXPECTED.has(message)),
        [],
        "nothing went wrong unseen",
      );
    },
  };
}

const input = { messages: [{ role: "user", content: "hi" }] };
const onThread = (n = 1) => ({ configurable: { thread_id: `7f1c9c6e-3f5b-4f0a-9d59-3a2f5f0c0b0${n}` } });
const readContents = (values: unknown): unknown[] =>
  (values as { messages: { content: unknown }[] }).messages.map((message) => message.content);

async function collect<Item>(stream: AsyncIterable<Item> | Promise<AsyncIterable<Item>>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const item of await stream) items.push(item);
  return items;
}

for (const [name, Sdk] of Object.entries(SDKS)) {
  describe(`RemoteGraph over ${name}`, () => {
    it("is a node of a graph that is served elsewhere", async () => {
      await using world = await open(Sdk);
      const graph = new StateGraph(MessagesAnnotation)
        .addNode("far", world.remote("chat") as never)
        .addEdge(START, "far" as typeof START)
        .compile();
      await using elsewhere = await testService({ agents: { near: graph } });
      assert.deepEqual(readContents(await elsewhere.service.runs.run("near", { messages: "hi" })), [
        "hi",
        "You said: hi",
      ]);
    });

    it("is invoked with a thread, which it creates, and without one", async () => {
      await using world = await open(Sdk);
      const chat = world.remote("chat");
      assert.deepEqual(readContents(await chat.invoke(input)), ["hi", "You said: hi"]);
      assert.deepEqual(readContents(await chat.invoke(input, onThread())), ["hi", "You said: hi"]);
      const again = await chat.invoke({ messages: [{ role: "user", content: "more" }] }, onThread());
      assert.deepEqual(readContents(again), ["hi", "You said: hi", "more", "You said: more"]);
      await assert.rejects(world.remote("failing").invoke(input), /boom happened/);
    });

    it("streams values, updates and messages, also of subgraphs", async () => {
      await using world = await open(Sdk);
      const family = world.remote("family");
      assert.deepEqual(await collect(family.stream({}, { streamMode: "updates" })), [
        { child: { steps: ["inner", "last"] } },
        { after: { steps: ["after"] } },
      ]);
      const values = await collect(family.stream({}, { streamMode: ["values"] }));
      assert.deepEqual(values.at(-1), ["values", { steps: ["inner", "last", "after"] }]);
      const nested = await collect(family.stream({}, { streamMode: "updates", subgraphs: true }));
      const updates = nested.map(([namespace, data]: [string[], object]) => [
        namespace.map((part) => part.split(":")[0]).join("|"),
        Object.keys(data).join(),
      ]);
      assert.deepEqual(updates, [
        ["child", "inner"],
        ["child", "last"],
        ["", "child"],
        ["", "after"],
      ]);
      const modes = await collect(world.remote("chat").stream(input, { streamMode: ["messages", "updates"] }));
      assert.ok(modes.some(([mode, data]) => mode === "updates" && Object.hasOwn(data, "model")));
    });

    it("reads and changes a thread's state", async () => {
      await using world = await open(Sdk);
      const family = world.remote("family");
      await family.invoke({}, onThread());
      const state = await family.getState(onThread());
      assert.deepEqual([state.values, state.next], [{ steps: ["inner", "last", "after"] }, []]);
      assert.equal(state.config.configurable?.thread_id, onThread().configurable.thread_id);
      assert.equal(state.metadata?.source, "loop");
      const changed = await family.updateState(onThread(), { steps: ["told"] }, "after");
      const now = await family.getState(changed);
      assert.deepEqual(now.values, { steps: ["inner", "last", "after", "told"] });
      assert.deepEqual(now.parentConfig?.configurable?.checkpoint_id, state.config.configurable?.checkpoint_id);
      const forked = await family.updateState(state.config, { steps: ["forked"] }, "after");
      assert.deepEqual((await family.getState(forked)).values, { steps: ["inner", "last", "after", "forked"] });

      const history = await collect(family.getStateHistory(onThread(), { limit: 3 }));
      assert.deepEqual(
        history.map((state) => state.metadata?.source),
        ["update", "update", "loop"],
      );
      const updates = await collect(family.getStateHistory(onThread(), { filter: { source: "update" } }));
      assert.equal(updates.length, 2);
      const before = await collect(family.getStateHistory(onThread(), { before: changed }));
      assert.deepEqual(before[0]?.config, state.config);
    });

    it("is drawn, with its subgraphs", async () => {
      await using world = await open(Sdk);
      const family = world.remote("family");
      const graph = await family.getGraphAsync();
      assert.deepEqual(Object.keys(graph.nodes).sort(), ["__end__", "__start__", "after", "child"]);
      assert.ok(graph.edges.some((edge) => edge.source === "child" && edge.target === "after"));
      assert.match(graph.drawMermaid(), /child/);
      const subgraphs = await collect(family.getSubgraphsAsync());
      assert.deepEqual(
        subgraphs.map(([namespace]) => namespace),
        ["child"],
      );
    });

    it("stops at an interrupt and continues with a command", async () => {
      await using world = await open(Sdk);
      const approval = world.remote("approval");
      await assert.rejects(
        approval.invoke(input, onThread()),
        (error: Error & { interrupts?: { value: unknown }[] }) => {
          assert.equal(error.name, "GraphInterrupt");
          assert.deepEqual(error.interrupts?.[0]?.value, { question: "Book seat 7A?", tool: "book" });
          return true;
        },
      );
      await world.ended(onThread().configurable.thread_id);
      const waiting = await approval.getState(onThread());
      assert.deepEqual(waiting.next, ["approve"]);
      assert.deepEqual(waiting.tasks[0]?.interrupts[0]?.value, { question: "Book seat 7A?", tool: "book" });
      const done = await approval.invoke(new Command({ resume: "yes" }), onThread());
      assert.deepEqual(readContents(done).slice(-2), ["seat 7A is booked", "Done: seat 7A is booked"]);
      assert.deepEqual((await approval.getState(onThread())).next, []);
      const chat = world.remote("chat").withConfig(onThread(2));
      const resumed = await chat.invoke(new Command({ update: input, goto: "model" }));
      assert.deepEqual(readContents(resumed), ["hi", "You said: hi"]);
    });

    it("is a node of a local graph", async () => {
      await using world = await open(Sdk);
      const outer = (graphId: string) =>
        new StateGraph(MessagesAnnotation)
          .addNode("greet", () => ({ messages: [{ role: "user", content: "greeting" }] }))
          .addNode("remote", world.remote(graphId))
          .addEdge(START, "greet")
          .addEdge("greet", "remote")
          .addEdge("remote", END);
      const local = outer("chat").compile();
      const { messages }: { messages: BaseMessage[] } = await local.invoke({ messages: [] });
      assert.deepEqual(
        messages.map((message) => message.content),
        ["greeting", "You said: greeting"],
      );

      const steps = Annotation.Root({
        steps: Annotation<string[]>({ reducer: (_, right) => right, default: () => [] }),
      });
      const parent = new StateGraph(steps)
        .addNode("remote", world.remote("family"))
        .addEdge(START, "remote")
        .addEdge("remote", END)
        .compile();
      const nested = await collect(parent.stream({}, { streamMode: "updates", subgraphs: true }));
      const updates = nested.map(([namespace, data]) => [
        namespace.map((part) => part.split(":")[0]).join("|"),
        Object.keys(data).join(),
      ]);
      assert.ok(
        updates.some(([namespace, node]) => namespace?.startsWith("remote") && node === "after"),
        JSON.stringify(updates),
      );
      assert.deepEqual(updates.at(-1), ["", "remote"]);

      const asking = outer("approval").compile({ checkpointer: new MemorySaver() });
      await asking.invoke({ messages: [] }, onThread(3));
      const { tasks } = await asking.getState(onThread(3));
      assert.deepEqual(tasks[0]?.interrupts[0]?.value, { question: "Book seat 7A?", tool: "book" });
    });
  });
}

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { AIMessage } from "@langchain/core/messages";
import {
  Annotation,
  entrypoint,
  interrupt,
  type LangGraphRunnableConfig,
  MessagesAnnotation,
  START,
  StateGraph,
} from "@langchain/langgraph";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { combine, fromFunctions, type JsonObject } from "../../../lib/mod.ts";
import { testService } from "../../suite/kit.ts";

const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

describe("a LangGraph graph in a service", () => {
  it("continues the thread from the node where it was stopped", async () => {
    const waits = Promise.withResolvers<void>();
    const graph = new StateGraph(Log)
      .addNode("first", () => ({ log: ["first"] }))
      .addNode("second", async (_state, { signal }: LangGraphRunnableConfig) => {
        waits.resolve();
        await new Promise<void>((resolve) => signal?.addEventListener("abort", () => resolve()));
        return { log: ["never"] };
      })
      .addEdge(START, "first")
      .addEdge("first", "second")
      .compile();
    await using kit = await testService({ executor: langgraph({ graph }) });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const request = { assistant_id: "graph", input: { log: ["in"] }, on_disconnect: "cancel" as const };
    const { frames, run } = await runs.stream(thread_id, request);
    for await (const _ of frames) {
      await waits.promise;
      break;
    }
    const result = await (await runs.join(thread_id, run.run_id)).result;
    assert.deepEqual(result, { log: ["in", "first"] });
    assert.equal((await runs.get(thread_id, run.run_id)).status, "interrupted");
    const thread = await threads.get(thread_id);
    assert.deepEqual([thread.status, thread.values], ["interrupted", { log: ["in", "first"] }]);
    assert.deepEqual((await threads.state(thread_id)).next, ["second"]);
  });

  it("waits for the second interrupt of a node, also in a subgraph and beside another node", async () => {
    const createTwiceAskingGraph = (name: string) => () => ({
      log: [`${name} ${interrupt(`${name} 1`)} ${interrupt(`${name} 2`)}`],
    });
    const ask = new StateGraph(Log).addNode("ask", createTwiceAskingGraph("ask")).addEdge(START, "ask");
    const parent = new StateGraph(Log).addNode("child", ask.compile()).addEdge(START, "child");
    const both = new StateGraph(Log)
      .addNode("a", createTwiceAskingGraph("a"))
      .addNode("b", createTwiceAskingGraph("b"));
    const graphs = { single: ask, parent, both: both.addEdge(START, "a").addEdge(START, "b") };
    await using kit = await testService({ executor: langgraph(graphs) });
    const { runs, threads } = kit.service;
    for (const [assistant_id, next] of [
      ["single", ["ask"]],
      ["parent", ["child"]],
      ["both", ["a", "b"]],
    ] as const) {
      const { thread_id } = await threads.create();
      const open = async (request: object): Promise<{ readonly id: string; readonly value: string }[]> => {
        const { result } = await runs.wait(thread_id, { assistant_id, ...request });
        return ((await result) as { __interrupt__?: [] }).__interrupt__ ?? [];
      };
      const [first, ...laterThreads] = await open({ input: { log: [] } });
      const waiting = await open({ command: { resume: { [String(first?.id)]: "yes" } } });
      const values = [first?.value.replace("1", "2"), ...laterThreads.map(({ value }) => value)];
      assert.deepEqual(waiting.map(({ value }) => value).sort(), values.sort());
      const { status, interrupts } = await threads.get(thread_id);
      assert.deepEqual([status, Object.values(interrupts).flat().length], ["interrupted", next.length]);
      assert.deepEqual([...(await threads.state(thread_id)).next].sort(), next);
      assert.equal(
        (await threads.inbox({})).items.some((thread) => thread.thread_id === thread_id),
        true,
      );
    }
  });

  it("stores the configuration of runs with its checkpoints, without secrets, as functions do", async () => {
    const graph = new StateGraph(Log)
      .addNode("only", () => ({ log: ["only"] }))
      .addEdge(START, "only")
      .compile();
    const executor = combine(langgraph({ graph }), fromFunctions({ plain: () => ({ log: ["only"] }) }));
    await using kit = await testService({ executor });
    const { runs, threads } = kit.service;
    const user = { identity: "ann", permissions: [], display_name: "Ann", is_authenticated: true };
    const expectedConfig = { user_id: "u1", model_name: "m", temperature: 0.5, verbose: false, run_attempt: 9 };
    const configurable = {
      ...{
        ...expectedConfig,
        graph_id: "forged",
        model_api_key: "s",
        githubToken: "s",
        db_password: "s",
        authorization: "s",
      },
      ...{ langgraph_auth_user_id: "forged", session_jwt: "s", __internal: "s", tools: ["s"], nothing: null },
      prompt: "s".repeat(1_001),
    };
    for (const assistant_id of ["graph", "plain"]) {
      const { thread_id } = await threads.create();
      const request = {
        assistant_id,
        input: { log: [] },
        config: { configurable },
        metadata: { model_name: "of the run" },
      };
      await (await runs.wait(thread_id, request, { user })).result;
      const history = await threads.history(thread_id);
      assert.ok(history.length > 1, assistant_id);
      for (const { metadata } of history) {
        const { source, step, ...userMetadata } = metadata as JsonObject;
        const {
          run_id: _run,
          assistant_id: _assistant,
          thread_id: of,
          graph_id,
          parents,
          created_by: _by,
          ...ownMetadata
        } = userMetadata;
        assert.deepEqual(
          [typeof source, typeof step, of, graph_id, parents],
          ["string", "number", thread_id, assistant_id, {}],
        );
        assert.deepEqual(ownMetadata, { ...expectedConfig, model_name: "of the run" }, assistant_id);
      }
    }
  });

  it("accepts several resume values in the form of the AG-UI bridge", async () => {
    const createAskingGraph = (name: string) => () => ({ log: [`${name} ${JSON.stringify(interrupt(name))}`] });
    const graph = new StateGraph(Log)
      .addNode("first", createAskingGraph("first"))
      .addNode("second", createAskingGraph("second"))
      .addEdge(START, "first")
      .addEdge(START, "second")
      .compile();
    await using kit = await testService({ executor: langgraph({ graph }) });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    await (await runs.wait(thread_id, { assistant_id: "graph", input: { log: [] } })).result;
    const { interrupts } = await threads.state(thread_id);
    const getInterruptId = (name: string): string => String(interrupts.find(({ value }) => value === name)?.id);
    const resumeMap: JsonObject = {
      [getInterruptId("first")]: { status: "resolved", payload: { approved: true } },
      [getInterruptId("second")]: { status: "cancelled" },
    };
    const command = { resume: { __agui_resume_map__: resumeMap } };
    const { result } = await runs.wait(thread_id, { assistant_id: "graph", command });
    const { log } = (await result) as { log: string[] };
    assert.deepEqual(log, [
      'first {"approved":true}',
      `second {"__agui_cancelled__":true,"interrupt_id":"${getInterruptId("second")}"}`,
    ]);
    // A graph that asks once, and gives several ids of its own, reads the map itself.
    await (await runs.wait(thread_id, { assistant_id: "graph", input: { log: [] } })).result;
    const resumeCommand = { resume: { __agui_resume_map__: { mine: { status: "resolved", payload: 1 } } } };
    await assert.rejects(runs.wait(thread_id, { assistant_id: "graph", command: resumeCommand }), { code: "invalid" });
  });

  it("gives its threads titles: the first message, stored as a message or as the whole value", async () => {
    const stored = new StateGraph(MessagesAnnotation)
      .addNode("say", () => ({ messages: [new AIMessage("Hi")] }))
      .addEdge(START, "say")
      .compile();
    const functional = entrypoint("whole", async ({ messages }: { messages: unknown[] }) => ({ messages }));
    await using kit = await testService({ executor: langgraph({ stored, functional }) });
    const { runs, threads } = kit.service;
    for (const assistant_id of ["stored", "functional"]) {
      const { thread_id } = await threads.create();
      const content = `Hello ${assistant_id}${" and more".repeat(2_000)}`;
      await (await runs.wait(thread_id, { assistant_id, input: { messages: [{ role: "user", content }] } })).result;
      const { items } = await threads.list({ graph_id: assistant_id });
      assert.equal(items[0]?.title, content.slice(0, 200));
    }
  });

  it("continues its unfinished tasks after a shutdown, and its readers receive every frame once", async () => {
    const folder = await mkdtemp(join(tmpdir(), "greenroom-langgraph-"));
    const alive = setInterval(() => {}, 60_000);
    const calls: string[] = [];
    const waits = Promise.withResolvers<void>();
    let stops = true;
    const node = (name: string) => () => {
      calls.push(name);
      return { log: [name] };
    };
    const graph = new StateGraph(Log)
      .addNode("first", node("first"))
      .addNode("quick", node("quick"))
      .addNode("slow", async (_state, { signal }: LangGraphRunnableConfig) => {
        calls.push("slow");
        if (!stops) return { log: ["slow"] };
        waits.resolve();
        await new Promise<void>((resolve) => signal?.addEventListener("abort", () => resolve()));
        return { log: ["never"] };
      })
      .addEdge(START, "first")
      .addEdge("first", "quick")
      .addEdge("first", "slow")
      .compile();
    try {
      const open = (): ReturnType<typeof testService> =>
        testService({ storage: nodeSqlite(join(folder, "graphs.db")), executor: langgraph({ graph }) });
      const request = {
        assistant_id: "graph",
        input: { log: ["in"] },
        stream_mode: ["values", "updates"] as const,
        stream_resumable: true,
      };
      const before = await open();
      const { thread_id } = await before.service.threads.create();
      const run = await before.service.runs.create(thread_id, request);
      await waits.promise;
      // What is shown is stored.
      const watched = await before.service.runs.joinStream(thread_id, run.run_id, { after: 0 });
      for await (const { event, data } of watched.frames) if (event === "updates" && data.includes("quick")) break;
      await before[Symbol.asyncDispose]();
      assert.deepEqual([...calls].sort(), ["first", "quick", "slow"]);

      calls.length = 0;
      stops = false;
      await using after = await open();
      const { runs, threads } = after.service;
      const { frames } = await runs.joinStream(thread_id, run.run_id, { after: 0 });
      const receivedFrames: { id: unknown; event: string; data: JsonObject }[] = [];
      for await (const { id, event, data } of frames)
        receivedFrames.push({ id, event, data: JSON.parse(data) as JsonObject });
      assert.deepEqual(calls, ["slow"]);
      assert.deepEqual(
        receivedFrames.map(({ id }) => id),
        receivedFrames.map((_, n) => n + 1),
      );
      const [startMetadata, resumed] = receivedFrames
        .filter(({ event }) => event === "metadata")
        .map(({ data }) => data);
      assert.deepEqual([startMetadata?.attempt, resumed?.attempt], [1, 1]);
      const at = receivedFrames.findIndex(({ data }) => data === resumed);
      assert.equal(resumed?.resumed_after, at);
      const logs = (list: typeof receivedFrames): unknown[] =>
        list.filter(({ event }) => event === "values").map(({ data }) => data.log);
      assert.deepEqual(logs(receivedFrames.slice(0, at)), [["in"], ["in", "first"]]);
      assert.deepEqual(logs(receivedFrames.slice(at)), [
        ["in", "first"],
        ["in", "first", "quick", "slow"],
      ]);
      assert.deepEqual((await threads.get(thread_id)).values, { log: ["in", "first", "quick", "slow"] });
      assert.equal((await threads.history(thread_id)).length, 4);
    } finally {
      clearInterval(alive);
      await rm(folder, { recursive: true });
    }
  });

  it("rejects the state of another kind of graph, and both states stay readable", async () => {
    const graph = new StateGraph(Log)
      .addNode("one", () => ({ log: ["one"] }))
      .addEdge(START, "one")
      .compile();
    const executor = combine(langgraph({ graph }), fromFunctions({ plain: async () => ({ log: ["plain"] }) }));
    await using kit = await testService({ executor });
    const { runs, threads } = kit.service;
    for (const [first, second] of [
      ["plain", "graph"],
      ["graph", "plain"],
    ] as const) {
      const { thread_id } = await threads.create();
      await (await runs.wait(thread_id, { assistant_id: first, input: {} })).result;
      const { values } = await threads.get(thread_id);
      const refused = await (await runs.wait(thread_id, { assistant_id: second, input: {} })).result;
      assert.match(JSON.stringify(refused), /written by another kind of graph/);
      assert.deepEqual((await threads.get(thread_id)).values, values);
      assert.ok((await threads.history(thread_id)).length > 0);
    }
  });

  it("rejects a resume value whose interrupt is not pending yet, and the interrupt stays pending", async () => {
    const gate = Promise.withResolvers<void>();
    const graph = new StateGraph(Log)
      .addNode("wait", async () => {
        await gate.promise;
        return {};
      })
      .addNode("ask", () => ({ log: [`answer ${interrupt("graph?")}`] }))
      .addEdge(START, "wait")
      .addEdge("wait", "ask")
      .compile();
    const functions = fromFunctions({
      async *plain({ command, interrupt: ask }) {
        await gate.promise;
        if (command?.resume === undefined) yield ask("plain?");
        else yield { log: [`answer ${String(command.resume)}`] };
      },
    });
    await using kit = await testService({ executor: combine(langgraph({ graph }), functions) });
    const { runs, threads } = kit.service;
    const nobody = "0".repeat(32);
    const waiting = [];
    for (const assistant_id of ["graph", "plain"]) {
      const { thread_id } = await threads.create();
      const { run_id } = await runs.create(thread_id, { assistant_id, input: { log: [] } });
      const late = { assistant_id, command: { resume: { [nobody]: "yes" } }, strict_resume: true };
      await assert.rejects(runs.create(thread_id, late), { reason: "no_open_interrupt" });
      waiting.push({ assistant_id, thread_id, run_id });
    }
    gate.resolve();
    for (const { assistant_id, thread_id, run_id } of waiting) {
      await (await runs.join(thread_id, run_id)).result;
      const [open] = (await threads.state(thread_id)).interrupts;
      assert.deepEqual([open?.value, assistant_id], [`${assistant_id}?`, assistant_id]);
      const answer = { assistant_id, command: { resume: { [String(open?.id)]: "yes" } }, strict_resume: true };
      const { run, result } = await runs.wait(thread_id, answer);
      assert.equal((run.kwargs as JsonObject).strict_resume, true);
      assert.deepEqual(((await result) as { log: string[] }).log, ["answer yes"]);
    }
  });

  it("reports the version of LangGraph that its graphs were built with", async () => {
    const graph = new StateGraph(Log)
      .addNode("one", () => ({}))
      .addEdge(START, "one")
      .compile();
    const { default: installed } = (await import("@langchain/langgraph/package.json", { with: { type: "json" } })) as {
      default: { version: string };
    };
    const functions = fromFunctions({ plain: async () => ({}) });
    await using kit = await testService({ executor: combine(functions, langgraph({ graph, made: () => graph })) });
    assert.equal((await kit.service.info()).langgraph_js_version, installed.version);
    // A graph of a copy that is not the one that is found.
    const foreign = { ...graph, lg_is_pregel: true };
    assert.deepEqual(await langgraph({ foreign: foreign as unknown as typeof graph }).versions?.(), {});
    const resolve = async (): Promise<never> => {
      throw new Error("not installed");
    };
    assert.deepEqual(await langgraph({ graph }, { resolve }).versions?.(), {});
  });
});

/** `span()` in graphs: what it records, where its spans and those in it lie, and which arguments it refuses. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AIMessage } from "@langchain/core/messages";
import { RunnableLambda } from "@langchain/core/runnables";
import { tool } from "@langchain/core/tools";
import { entrypoint, interrupt, MessagesAnnotation, START, StateGraph, task } from "@langchain/langgraph";
import { createAgent } from "langchain";
import { z } from "zod";
import { span } from "../../../adapters/langgraph/mod.ts";
import { testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";
import { hasToolResult, TimedModel } from "../../support/timed-model.ts";
import { FOLLOWED, type Graph, record } from "./graph-spans.harness.ts";

keepAlive();

const model = new TimedModel("large", [], () => ({ text: "Yes." }));
type State = typeof MessagesAnnotation.State;

/** Creates a graph of one node. */
const createGraph = (node: (state: State) => Promise<object>): Graph =>
  new StateGraph(MessagesAnnotation).addNode("work", node).addEdge(START, "work").compile() as Graph;

const wait = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

describe("span() in a node", () => {
  it("records its work with kind, attributes, parameter, times and result, and returns that", async () => {
    const times: number[] = [];
    let result: unknown;
    const graph = createGraph(async () => {
      const work = async () => {
        times.push(performance.now());
        await wait();
        times.push(performance.now());
        return { found: 2 };
      };
      result = await span("search", work, { kind: "retriever", attributes: { top_k: 5, index: "a", cached: false } });
      return { messages: [] };
    });
    const { trace, error } = await record(graph);
    assert.deepEqual([error, result], [undefined, { found: 2 }]);
    const { kind, attributes, params, started, ended = 0, outputCopy } = trace.only("search");
    assert.deepEqual([kind, attributes], ["retriever", { top_k: 5, index: "a", cached: false }]);
    assert.deepEqual(params, { top_k: 5 });
    assert.deepEqual(outputCopy, { found: 2 });
    assert.ok(started <= (times[0] ?? 0) && (times[1] ?? Number.NaN) <= ended);
    assert.deepEqual(trace.describe(), ["node work", "node work > retriever search"]);
  });

  for (const [way, changes] of Object.entries(FOLLOWED)) {
    it(`contains the models, chains, tools and spans that its work calls if ${way}`, async () => {
      const chain = RunnableLambda.from((messages: State["messages"]) => messages).pipe(model);
      const look = tool(async () => String(await span("deep", async () => (await model.invoke("Hi")).text)), {
        ...{ name: "look", schema: z.object({}) },
      });
      const graph = createGraph(async ({ messages }) => {
        await model.invoke(messages);
        await span("outer", async () => {
          await Promise.all([
            span("left", async () => await model.invoke(messages)),
            span("right", async () => await chain.invoke(messages)),
          ]);
          await look.invoke({});
        });
        await model.invoke(messages);
        return { messages: [] };
      });
      const { trace, error } = await record(graph, changes);
      assert.equal(error, undefined);
      assert.deepEqual(trace.describe().sort(), [
        "node work",
        "node work > custom outer",
        "node work > custom outer > custom left",
        "node work > custom outer > custom left > model large",
        "node work > custom outer > custom right",
        "node work > custom outer > custom right > model large",
        "node work > custom outer > tool look",
        "node work > custom outer > tool look > custom deep",
        "node work > custom outer > tool look > custom deep > model large",
        "node work > model large",
        "node work > model large",
      ]);
    });
  }

  it("throws the error of its work and keeps it; an interrupt in it is no error", async () => {
    const failing = createGraph(async () => {
      await span("fails", () => Promise.reject(new RangeError("no")));
      return {};
    });
    const { trace, error } = await record(failing);
    assert.equal((error as Error).name, "RangeError");
    const { status, error: kept } = trace.only("fails").result ?? {};
    assert.deepEqual([status, (kept as Error).name], ["error", "RangeError"]);
    const asking = createGraph(async () => await span("asks", async () => ({ messages: [interrupt("Really?")] })));
    const interrupted = await record(asking);
    assert.deepEqual([interrupted.error, interrupted.trace.only("asks").result?.status], [undefined, "interrupted"]);
  });

  it("lies in tasks of the functional API, in tools of an agent, and in the nodes of a subagent", async () => {
    const load = task("load", async () => await span("in task", () => 1));
    const functional = entrypoint("functional", async () => {
      await load();
      return { messages: [await span("after", () => new AIMessage("Done"))] };
    });
    const first = await record(functional as unknown as Graph);
    assert.deepEqual(first.trace.describe().sort(), [
      "node functional",
      "node functional > custom after",
      "node functional > node load",
      "node functional > node load > custom in task",
    ]);
    const weather = tool(() => span("read", () => "warm"), { name: "weather", schema: z.object({}) });
    const calls = { c1: { name: "weather", args: {} } };
    const replies = new TimedModel("large", [], (messages) => (hasToolResult(messages) ? { text: "Yes." } : { calls }));
    const inner = createAgent({ name: "inner", model: replies, tools: [weather] });
    const second = await record(
      createGraph(async ({ messages }) => await span("delegate", async () => await inner.invoke({ messages }))),
    );
    assert.equal(second.error, undefined);
    const paths = second.trace.describe();
    const path = "node work > custom delegate > agent inner > node tools > tool weather > custom read";
    assert.ok(paths.includes(path), paths.join("\n"));
  });

  it("is recorded by the run of its node only, where runs execute at once", async () => {
    const graph = createGraph(async ({ messages }) => {
      const [first] = messages;
      await span(String(first?.content), wait);
      return { messages: [] };
    });
    await using test = await testService({ agents: { graph: graph as never } });
    const names = ["a", "b", "c"];
    const runs = await Promise.all(
      names.map(async (content) => {
        const input = { messages: [{ role: "user", content }] };
        const { run, result } = await test.service.runs.wait(null, { assistant_id: "graph", input });
        await result;
        return run.run_id;
      }),
    );
    for (const [index, run_id] of runs.entries()) {
      const { spans } = await test.service.traces.get(null, run_id);
      const custom = spans.filter(({ kind }) => kind === "custom");
      assert.deepEqual(
        custom.map(({ name }) => name),
        [names[index]],
      );
      assert.equal(spans.find(({ kind }) => kind === "node")?.span_id, custom[0]?.parent_id);
    }
  });
});

describe("span() elsewhere", () => {
  it("only calls its work outside of runs and in runs without traces", async () => {
    assert.equal(await span("search", () => 1), 1);
    await assert.rejects(
      span("search", () => Promise.reject(new RangeError("no"))),
      RangeError,
    );
    await assert.rejects(
      span("search", () => {
        throw new RangeError("no");
      }),
      RangeError,
    );
    const { error } = await record(
      createGraph(async () => await span("search", () => ({ messages: [] }))),
      { trace: undefined } as never,
    );
    assert.equal(error, undefined);
  });

  it("lies in the innermost span of a function, as job.span does", async () => {
    await using test = await testService({
      agents: {
        plain: async (job: { span(name: string, work: () => Promise<string>): Promise<string> }) =>
          await job.span("outer", async () => await span("inner", () => "done")),
      },
    });
    const { run, result } = await test.service.runs.wait(null, { assistant_id: "plain", input: {} });
    await result;
    const { spans } = await test.service.traces.get(null, run.run_id);
    const [outer, inner] = ["outer", "inner"].map((name) => spans.find((found) => found.name === name));
    assert.ok(outer && inner);
    assert.equal(inner.parent_id, outer.span_id);
  });

  it("throws a TypeError for a name that is no text, an unknown kind, and an attribute that is no scalar", () => {
    const wrong: readonly (readonly unknown[])[] = [
      [7, () => 1],
      ["", () => 1],
      ["search", 7],
      ["search", () => 1, { kind: "node" }],
      ["search", () => 1, { attributes: { list: [] } }],
      ["search", () => 1, { colour: "red" }],
    ];
    for (const args of wrong) assert.throws(() => span(...(args as Parameters<typeof span>)), TypeError);
  });
});

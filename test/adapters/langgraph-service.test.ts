import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Annotation, type LangGraphRunnableConfig, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../adapters/langgraph/mod.ts";
import { combine, fromFunctions } from "../../lib/mod.ts";
import { testService } from "../suite/kit.ts";

const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

describe("a LangGraph graph in a service", () => {
  it("leaves the thread where it was stopped", async () => {
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
    assert.deepEqual(result, { log: ["in", "first"], __interrupt__: [] });
    assert.equal((await runs.get(thread_id, run.run_id)).status, "interrupted");
    const thread = await threads.get(thread_id);
    assert.deepEqual([thread.status, thread.values], ["interrupted", { log: ["in", "first"] }]);
    assert.deepEqual((await threads.state(thread_id)).next, ["second"]);
  });

  it("says so when a thread's state is another kind of graph's, and both stay readable", async () => {
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
});

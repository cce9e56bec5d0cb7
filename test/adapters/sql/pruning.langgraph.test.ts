/** States of LangGraph graphs that were pruned or copied go on as if they had not been. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  Annotation,
  DeltaValue,
  interrupt,
  type LangGraphRunnableConfig,
  START,
  StateGraph,
  StateSchema,
} from "@langchain/langgraph";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import type { Json, JsonObject } from "../../../lib/mod.ts";
import { serviceInternals } from "../../../lib/service.ts";
import { testService } from "../../suite/kit.ts";

const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

type Graph = Parameters<typeof langgraph>[0][string];

/** Asks two levels below the root. */
function createAskingGraph(): Graph {
  const deep = new StateGraph(Log)
    .addNode("ask", () => ({ log: [`deep ${interrupt("deep?")}`] }))
    .addEdge(START, "ask")
    .compile();
  const child = new StateGraph(Log)
    .addNode("before", () => ({ log: ["before"] }))
    .addNode("deep", deep)
    .addNode("after", () => ({ log: [`after ${interrupt("after?")}`] }))
    .addEdge(START, "before")
    .addEdge("before", "deep")
    .addEdge("deep", "after")
    .compile();
  return new StateGraph(Log)
    .addNode("first", () => ({ log: ["first"] }))
    .addNode("child", child)
    .addEdge(START, "first")
    .addEdge("first", "child")
    .compile();
}

/** Creates a graph with a subgraph that keeps its state over several runs. */
function createRememberingGraph(): Graph {
  const child = new StateGraph(Log)
    .addNode("inner", ({ log }) => ({ log: [`${log.length}`] }))
    .addEdge(START, "inner")
    .compile({ checkpointer: true });
  return new StateGraph(Log)
    .addNode("child", async (_state, config: LangGraphRunnableConfig) => ({
      log: [(await child.invoke({ log: ["in"] }, config)).log.join()],
    }))
    .addEdge(START, "child")
    .compile();
}

/** Creates a graph with a channel that is stored whole at intervals. */
async function createDeltaGraph(): Promise<Graph> {
  const { z } = await import("zod");
  const log = new DeltaValue(z.array(z.string()).default([]), {
    inputSchema: z.array(z.string()),
    reducer: (state, writes) => [...state, ...writes.flat()],
    snapshotFrequency: 5,
  });
  return new StateGraph(new StateSchema({ log }))
    .addNode("a", ({ log }) => ({ log: [`a${log.length}`] }))
    .addEdge(START, "a")
    .compile();
}

/** Ids of questions follow from those of checkpoints, so each thread has its own. */
const removeIds = (state: Json): Json =>
  JSON.parse(JSON.stringify(state, (key, value) => (key === "id" ? undefined : value))) as Json;

type Step = { readonly input?: Json; readonly command?: { readonly resume: Json }; readonly values?: JsonObject };

const say = (...log: string[]): Step => ({ input: { log } });
const answer = (resume: string): Step => ({ command: { resume } });
/** Returns a step that updates the state. */
const put = (...log: string[]): Step => ({ values: { log } });

interface Story {
  readonly graph: () => Graph | Promise<Graph>;
  readonly steps: readonly Step[];
  /** Every checkpoint holds all of its state: one is kept at the end. */
  readonly whole: boolean;
}

const stories: Record<string, Story> = {
  "asked in a subgraph of a subgraph": {
    graph: createAskingGraph,
    whole: true,
    steps: [say("one"), answer("x"), answer("y"), say("two"), answer("z"), answer("end")],
  },
  "with a subgraph that remembers": {
    graph: createRememberingGraph,
    whole: true,
    steps: [say("1"), put("a"), say("2"), say("3"), say("4")],
  },
  "with a channel that is kept as its writes": {
    graph: createDeltaGraph,
    whole: false,
    steps: Array.from({ length: 9 }, (_, i) => (i % 4 === 2 ? put(`${i}`) : say(`${i}`))),
  },
};

for (const durability of ["async", "exit"] as const) {
  describe(`a thread of a graph, durability ${durability}`, () => {
    for (const [name, { graph, steps, whole }] of Object.entries(stories)) {
      it(`continues after it was pruned, and as a copy: ${name}`, async () => {
        await using kit = await testService({ executor: langgraph({ graph: await graph() }) });
        const { runs, threads, deployment, options } = serviceInternals(kit.service);
        const { storage } = options;
        const scope = { deployment: deployment.name };
        const run = async (thread_id: string, { values, ...step }: Step): Promise<Json> => {
          if (values) {
            await threads.updateState(thread_id, { values });
            return null;
          }
          const { result } = await runs.wait(thread_id, { assistant_id: "graph", durability, ...step });
          return await result;
        };
        const readState = async (thread_id: string): Promise<JsonObject> => {
          const { values, next, tasks } = await threads.state(thread_id, { subgraphs: true });
          const inner = tasks.map(({ name, interrupts, state }) => [name, interrupts, state?.values, state?.next]);
          return JSON.parse(JSON.stringify({ values, next, inner })) as JsonObject;
        };
        const plain = (await threads.create()).thread_id;
        const pruned = (await threads.create()).thread_id;
        let copied = (await threads.create()).thread_id;
        let checkpointCount = 0;
        for (const step of steps) {
          const expected = removeIds(await run(plain, step));
          assert.deepEqual(removeIds(await run(pruned, step)), expected);
          assert.deepEqual(removeIds(await run(copied, step)), expected);
          const before = [await readState(pruned), await readState(copied)];
          assert.deepEqual(await storage.pruneThreads(scope, { thread_ids: [pruned], strategy: "keep_latest" }, 1), [
            pruned,
          ]);
          checkpointCount = (await threads.history(pruned, { limit: 100 })).length;
          const row = await storage.getThread(scope, copied);
          const copy = {
            from: copied,
            expected_revision: row?.revision ?? 0,
            thread_id: crypto.randomUUID(),
            metadata: {},
          };
          assert.equal((await storage.copyThread(scope, copy, 1)).kind, "copied");
          assert.equal(await storage.deleteThread(scope, copied), true);
          copied = copy.thread_id;
          assert.deepEqual([await readState(pruned), await readState(copied)], before);
        }
        const all = (await threads.history(plain, { limit: 100 })).length;
        assert.equal((await threads.history(copied, { limit: 100 })).length, all);
        assert.ok(checkpointCount < all, `${checkpointCount} of ${all}`);
        if (whole) assert.equal(checkpointCount, 1);
      });
    }
  });
}

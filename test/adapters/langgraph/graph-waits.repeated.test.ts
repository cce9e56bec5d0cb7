/** Several waits of one node of LangGraph, which have the same interrupt id before LangGraph 1.5.0. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { wait } from "../../../adapters/steps.ts";
import type { Json } from "../../../lib/mod.ts";
import { type TestService, testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";
import { until } from "../../support/until.ts";

keepAlive();
const Log = Annotation.Root({ log: Annotation<Json[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

const isOver = (kit: TestService, thread_id: string, run_id: string) => async (): Promise<boolean> =>
  !["pending", "running"].includes((await kit.service.runs.get(thread_id, run_id)).status);
const readLog = async (kit: TestService, thread_id: string): Promise<Json[]> =>
  ((await kit.service.threads.state(thread_id)).values as { log: Json[] }).log;
/** Resolves once the run waits for this event, as its n-th step. */
const untilWaiting = (kit: TestService, thread_id: string, run_id: string, name: string, n: number): Promise<void> =>
  until(async () => {
    const { waiting_for = [], status } = await kit.service.runs.get(thread_id, run_id);
    assert.ok(["pending", "running"].includes(status), status);
    const { steps } = await kit.service.runs.steps(thread_id, run_id);
    return steps.length === n && waiting_for.map((wait) => wait.name).join() === name;
  });

/** Waits three times for the same event and twice for one whose address it hands out: with LangGraph 1.4.17 all have one interrupt id. */
const createRepeatingGraph = (opened: string[]) =>
  new StateGraph(Log)
    .addNode("waits", async () => {
      const log: Json[] = [];
      for (let i = 0; i < 3; i++) log.push(await wait("go"));
      for (const name of ["a", "b"])
        log.push(await wait(name, { begin: ({ key }) => void opened.push(`${name} ${key}`) }));
      return { log };
    })
    .addEdge(START, "waits")
    .compile();

describe("a node that waits several times", () => {
  for (const location of ["of a graph", "of a subgraph"]) {
    it(`${location} receives each event once, in its order`, async () => {
      const opened: string[] = [];
      const node = createRepeatingGraph(opened);
      const agent =
        location === "of a graph" ? node : new StateGraph(Log).addNode("inner", node).addEdge(START, "inner");
      await using kit = await testService({
        executor: langgraph({ agent: agent instanceof StateGraph ? agent.compile() : agent }),
        public_base_url: "http://greenroom.test",
      });
      const { runs, threads } = kit.service;
      const { thread_id } = await threads.create();
      const { run_id } = await runs.create(thread_id, { assistant_id: "agent", input: {} });
      const events: [name: string, value: Json][] = [
        ["go", 1],
        ["go", { n: 2 }],
        ["go", false],
        ["a", "A"],
        ["b", "B"],
      ];
      for (const [at, [name, value]] of events.entries()) {
        await untilWaiting(kit, thread_id, run_id, name, at + 1);
        await threads.send(thread_id, name, value);
      }
      await until(isOver(kit, thread_id, run_id));
      assert.deepEqual(await readLog(kit, thread_id), [1, { n: 2 }, false, "A", "B"]);
      // LangGraph 1.4.17 repeats the tasks of a subgraph's node when it continues. Each wait keeps its key.
      assert.equal(new Set(opened).size, 2);
      if (location === "of a graph") assert.equal(opened.length, 2);
    });
  }

  it("receives no event twice if the process stops between two of its waits", async (context) => {
    const folder = mkdtempSync(join(tmpdir(), "graph-waits-"));
    context.after(() => rmSync(folder, { recursive: true, force: true }));
    const file = join(folder, "waits.db");
    let holds = 0;
    const node = async (_state: unknown, { signal }: { readonly signal?: AbortSignal }) => {
      const first = await wait("first");
      // Only the attempt that got the event first stays here until it is stopped.
      if (holds++ === 0) {
        await new Promise((_, stopped) => signal?.addEventListener("abort", () => stopped(new Error("stopped"))));
      }
      return { log: [first, await wait("second")] };
    };
    const agent = () => new StateGraph(Log).addNode("node", node).addEdge(START, "node").compile();
    const start = () => testService({ executor: langgraph({ agent: agent() }), storage: nodeSqlite(file) });
    let ids: { thread_id: string; run_id: string };
    {
      await using kit = await start();
      const { thread_id } = await kit.service.threads.create();
      const { run_id } = await kit.service.runs.create(thread_id, { assistant_id: "agent", input: {} });
      await untilWaiting(kit, thread_id, run_id, "first", 1);
      await kit.service.threads.send(thread_id, "first", 1);
      await until(() => holds > 0);
      await kit.service.stop(0);
      ids = { thread_id, run_id };
    }
    await using kit = await start();
    const { thread_id, run_id } = ids;
    await untilWaiting(kit, thread_id, run_id, "second", 2);
    await kit.service.threads.send(thread_id, "second", 2);
    await until(isOver(kit, thread_id, run_id));
    assert.deepEqual(await readLog(kit, thread_id), [1, 2]);
  });
});

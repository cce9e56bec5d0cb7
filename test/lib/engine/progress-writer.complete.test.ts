/** Stored frames and thread events of a run are complete up to the end, with one end for each message. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { ExecutorEvent, Job } from "../../../lib/executor/contract.ts";
import { recordStates } from "../../../lib/executor/state-recorder.ts";
import type { Executor } from "../../../lib/mod.ts";
import { testService } from "../../suite/kit.ts";
import {
  ALL,
  finalState,
  formatOutline,
  getTokenNumbers,
  readStoredEvents,
  startReading,
} from "../../support/event-reading.ts";
import { createFaultyStorage } from "../../support/faulty.ts";
import { until } from "../../support/until.ts";

// Timers of services keep no process alive.
let alive: ReturnType<typeof setInterval>;
before(() => {
  alive = setInterval(() => {}, 1_000);
});
after(() => clearInterval(alive));

const acting = (execute: (job: Job, signal: AbortSignal) => AsyncIterable<ExecutorEvent>): Executor => ({
  graphs: () => [{ graph_id: "g" }],
  execute: recordStates(execute),
});
const token = (n: number): ExecutorEvent => ({ type: "stream", mode: "custom", data: { n } });
const tick = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));

describe("reads of a thread while its run ends", () => {
  it("lose no frame and no event of the run", async () => {
    const go = Promise.withResolvers<void>();
    const firstSave = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    const { storage, faults, calls } = createFaultyStorage();
    const executor = acting(async function* () {
      yield token(1);
      await go.promise;
      yield token(2);
      yield finalState;
    });
    await using kit = await testService({ storage, executor });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const live = startReading(kit.service, thread_id);
    // On Postgres a save that is sent first may commit after the end that is sent second.
    faults.saveProgress = async (call) => {
      await (calls.saveProgress === 1 ? firstSave.promise : ended.promise);
      return await call();
    };
    faults.finishRun = async (call) => await (call() as Promise<unknown>).finally(ended.resolve);
    const request = { assistant_id: "g", input: {}, stream_resumable: true, stream_mode: ["custom" as const] };
    const { run_id } = await runs.create(thread_id, request);
    await until(() => calls.saveProgress === 1);
    const state = threads.state(thread_id);
    go.resolve();
    for (let ticks = 0; ticks < 5; ticks++) await tick();
    firstSave.resolve();
    const { values } = await state;
    const { frames } = await runs.joinStream(thread_id, run_id, { after: 0 });
    const storedNames: string[] = [];
    for await (const { event, data } of frames) storedNames.push(event === "custom" ? data : event);
    assert.deepEqual(storedNames, ["metadata", '{"n":1}', '{"n":2}', "end"]);
    await live.ends();
    assert.deepEqual(getTokenNumbers(live.events), [1, 2]);
    assert.deepEqual(await readStoredEvents(kit.service, thread_id, ALL), live.events);
    assert.equal(formatOutline(live.events).at(-1), "completed");
    assert.deepEqual([values, (await threads.state(thread_id)).values], [{ done: true }, { done: true }]);
    await live.close();
  });
});

describe("a requeued run without stored output", () => {
  const start: ExecutorEvent = {
    ...{ type: "event", method: "messages", namespace: ["a:1"], node: "a" },
    data: { event: "message-start", id: "m", role: "ai", run_id: "m" },
  };
  const ask = { assistant_id: "g", input: {} };

  for (const way of ["it is cancelled", "a newer run interrupts it"]) {
    it(`ends the open message of its attempt when ${way}`, async () => {
      const shared = createFaultyStorage();
      const executor: Executor = {
        graphs: () => [{ graph_id: "g", protocol_events: true }, { graph_id: "other" }],
        async *execute({ graph_id, attempt }, signal) {
          if (graph_id === "g" && attempt === 1) yield start;
          await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
        },
      };
      const firstProcess = await testService({ storage: shared.share().storage, executor });
      const { thread_id } = await firstProcess.service.threads.create();
      const early = startReading(firstProcess.service, thread_id);
      const { run_id } = await firstProcess.service.runs.create(thread_id, ask);
      await until(() => early.events.some(({ method }) => method === "messages"));
      await early.close();
      await firstProcess.service.stop(0);
      // This process leaves the run in the queue, and the next one claims it.
      const worker = { concurrency: 0 };
      await using two = await testService({ storage: shared.share().storage, executor, worker });
      const { runs } = two.service;
      if (way === "it is cancelled") await runs.cancel(thread_id, run_id);
      else await runs.create(thread_id, { ...ask, assistant_id: "other", multitask_strategy: "interrupt" });
      await using three = await testService({ storage: shared.storage, executor });
      const live = startReading(three.service, thread_id);
      await live.ends();
      assert.equal((await runs.get(thread_id, run_id)).status, "interrupted");
      const liveNames = live.events
        .map(({ params }) => params.data as { event: string; message?: string })
        .map(({ event, message }) => (message === undefined ? event : `${event}: ${message}`));
      const ended = ["running", "message-start", "error: The run was stopped", "interrupted"];
      assert.deepEqual(liveNames.slice(0, ended.length), ended);
      await live.close();
    });
  }
});

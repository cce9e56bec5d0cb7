/** What is stored of a run is complete: its frames and its thread events up to the end, and one end for each message. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ExecutorEvent, Job } from "../../lib/executor/contract.ts";
import { recordStates } from "../../lib/executor/recorded-states.ts";
import type { Executor } from "../../lib/mod.ts";
import { testService } from "../suite/kit.ts";
import { until } from "../support/until.ts";
import { ALL, finalState, keptOf, outline, reading, tokensOf } from "./event-reading.ts";
import { faulty } from "./faulty.ts";

const acting = (execute: (job: Job, signal: AbortSignal) => AsyncIterable<ExecutorEvent>): Executor => ({
  graphs: () => [{ graph_id: "g" }],
  execute: recordStates(execute),
});
const token = (n: number): ExecutorEvent => ({ type: "stream", mode: "custom", data: { n } });
const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));

describe("a thread that is read while its run ends", () => {
  it("costs no frame and no event of the run", async () => {
    const go = Promise.withResolvers<void>();
    const firstSave = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    const { storage, faults, calls } = faulty();
    const executor = acting(async function* () {
      yield token(1);
      await go.promise;
      yield token(2);
      yield finalState;
    });
    await using kit = await testService({ storage, executor });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const live = reading(kit.service, thread_id);
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
    for (let turns = 0; turns < 5; turns++) await turn();
    firstSave.resolve();
    const { values } = await state;
    const { frames } = await runs.joinStream(thread_id, run_id, { after: 0 });
    const kept: string[] = [];
    for await (const { event, data } of frames) kept.push(event === "custom" ? data : event);
    assert.deepEqual(kept, ["metadata", '{"n":1}', '{"n":2}', "end"]);
    await live.ends();
    assert.deepEqual(tokensOf(live.events), [1, 2]);
    assert.deepEqual(await keptOf(kit.service, thread_id, ALL), live.events);
    assert.equal(outline(live.events).at(-1), "completed");
    assert.deepEqual([values, (await threads.state(thread_id)).values], [{ done: true }, { done: true }]);
    await live.close();
  });
});

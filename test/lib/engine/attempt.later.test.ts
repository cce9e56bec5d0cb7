import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type Executor, type FunctionJob, fromFunctions } from "../../../lib/mod.ts";
import { testClock } from "../../suite/kit.ts";
import { advanceUntil, collect, createClockedService, createFaultyStorage, kill } from "../../support/faulty.ts";
import { aborted, ask, graph, hasState, ids, state, toPairs } from "./attempt.harness.ts";

describe("a later attempt", () => {
  const stepping = (log: string[], waits: (job: FunctionJob) => Promise<void>): Executor =>
    fromFunctions({
      async *g(job: FunctionJob) {
        log.push(`attempt ${job.attempt}${job.state.step === undefined ? "" : " resumed"}`);
        yield { step: 1 };
        await waits(job);
        yield { step: 2 };
      },
    });

  it("continues the frame numbers, emits a metadata frame and emits once the state from which it continues", async () => {
    const clock = testClock();
    const first = createFaultyStorage();
    const second = first.share();
    const log: string[] = [];
    const request = { ...ask("g"), stream_resumable: true, stream_mode: ["values", "updates"] as const };
    const hang = { executor: stepping(log, () => new Promise(() => {})) };
    const dead = await createClockedService(clock, { ...hang, storage: first.storage });
    const { thread_id } = await dead.service.threads.create();
    const { run, frames } = await dead.service.runs.stream(thread_id, {
      ...request,
      stream_mode: ["values", "updates"],
    });
    const before = collect(frames);
    await advanceUntil(clock, () => before.list.some(({ event }) => event === "updates"));
    kill(first);
    await using alive = await createClockedService(clock, {
      storage: second.storage,
      executor: stepping(log, async () => {}),
    });
    const joined = await alive.service.runs.joinStream(thread_id, run.run_id);
    const read = collect(joined.frames);
    await advanceUntil(clock, read.ended);
    assert.deepEqual(log, ["attempt 1", "attempt 2 resumed"]);
    assert.deepEqual(
      ids(read.list),
      read.list.map((_, i) => i + 1),
    );
    const again = read.list.findIndex(({ event }, i) => i > 0 && event === "metadata");
    assert.deepEqual(read.list.slice(0, again), before.list, "the same bytes for every reader");
    assert.deepEqual(JSON.parse(read.list[again]?.data as string), {
      run_id: run.run_id,
      attempt: 2,
      thread_id,
      resumed_after: again,
    });
    assert.deepEqual(
      toPairs(read.list.slice(again + 1, again + 3)).map((entry) => (entry as [string])[0]),
      ["values", "updates"],
      "the state it goes on from comes once",
    );
  });

  it("emits the state from which it continues when the executor does not", async () => {
    const clock = testClock();
    const first = createFaultyStorage();
    const second = first.share();
    const silent = graph(async function* (job, signal) {
      if (!job.resumed) {
        yield state({ at: 1 }, ["more"]);
        await aborted(signal);
      } else {
        yield { type: "stream", mode: "updates", data: { more: null } };
        yield state({ at: 2 });
      }
    });
    const dead = await createClockedService(clock, { executor: silent, storage: first.storage });
    const { thread_id } = await dead.service.threads.create();
    const run = await dead.service.runs.create(thread_id, { ...ask("g"), stream_mode: ["values", "updates"] });
    await advanceUntil(clock, () => hasState(first, thread_id));
    kill(first);
    await using alive = await createClockedService(clock, { executor: silent, storage: second.storage });
    const read = collect((await alive.service.runs.joinStream(thread_id, run.run_id)).frames);
    await advanceUntil(clock, read.ended);
    assert.deepEqual(toPairs(read.list), [
      ["metadata", { run_id: run.run_id, attempt: 2, thread_id, resumed_after: 2 ** 32 }],
      ["values", { at: 1 }],
      ["updates", { more: null }],
      ["end", { run_id: run.run_id, status: "success" }],
    ]);
  });

  it("is not charged after a shutdown, which readers do not see", async () => {
    const clock = testClock();
    const first = createFaultyStorage();
    const second = first.share();
    first.faults.close = async () => {};
    const log: string[] = [];
    const hang = stepping(log, (job) => aborted(job.signal).then(() => job.signal.throwIfAborted()));
    const stoppedProcess = await createClockedService(clock, { executor: hang, storage: first.storage });
    const { thread_id } = await stoppedProcess.service.threads.create();
    const request = { ...ask("g"), stream_resumable: true };
    const { run, frames } = await stoppedProcess.service.runs.stream(thread_id, request);
    const before = collect(frames);
    await advanceUntil(clock, () => before.list.length >= 3);
    let stopped = false;
    void stoppedProcess.service.stop(1_000).then(() => {
      stopped = true;
    });
    await advanceUntil(clock, () => stopped && before.ended());
    assert.ok(before.list.every(({ event }) => event !== "end" && event !== "error"));
    const row = await second.storage.getRun({ deployment: "default" }, run.run_id);
    assert.equal(row?.status, "pending");
    await using two = await createClockedService(clock, {
      storage: second.storage,
      executor: stepping(log, async () => {}),
    });
    const after = before.list.at(-1)?.id as number;
    const read = collect((await two.service.runs.joinStream(thread_id, run.run_id, { after })).frames);
    await advanceUntil(clock, read.ended);
    assert.deepEqual(log, ["attempt 1", "attempt 1 resumed"]);
    assert.deepEqual(
      ids(read.list),
      read.list.map((_, i) => after + i + 1),
    );
    assert.deepEqual(JSON.parse(read.list[0]?.data as string)["resumed_after"], after);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { recordStates } from "../../../lib/executor/state-recorder.ts";
import type { Executor, Frame, Service } from "../../../lib/mod.ts";
import { testClock, testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";
import { advanceUntil, collect, type Faulty, kill } from "../../support/faulty.ts";
import { ask, counter, executing, processes } from "./run-subscription.harness.ts";

keepAlive();

const readIds = (frames: readonly Frame[]): unknown[] => frames.map(({ id }) => id);

const upTo = (last: number, first = 1): number[] => Array.from({ length: last + 1 - first }, (_, i) => first + i);

describe("a resumable run", () => {
  it("gives every joiner every frame after the last one seen, with the same ids live and afterwards", async () => {
    const { executor, say } = counter();
    await using kit = await testService({ executor });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { run, frames } = await runs.stream(thread_id, ask());
    say(5);
    const live = frames[Symbol.asyncIterator]();
    const first: Frame[] = [];
    while (first.length < 6) first.push((await live.next()).value);
    const join = async (after?: number): Promise<Frame[]> =>
      await Array.fromAsync(
        (await runs.joinStream(thread_id, run.run_id, after === undefined ? {} : { after })).frames,
      );
    const joins = [join(), join(-1), join(3), join(1_000), join(6), ...Array.from({ length: 20 }, () => join(0))];
    say(5, "end");
    const all = [...first];
    for (let step = await live.next(); !step.done; step = await live.next()) all.push(step.value);
    assert.deepEqual(readIds(all), upTo(12));
    assert.deepEqual([all[0]?.event, all.at(-1)?.event], ["metadata", "end"]);
    const [none, minus, three, unknown, six, ...many] = await Promise.all(joins);
    assert.deepEqual([none, minus, unknown], [all, all, all]);
    assert.deepEqual([three, six], [all.slice(3), all.slice(6)]);
    for (const each of many) assert.deepEqual(each, all);
    // The run has ended.
    assert.deepEqual([await join(), await join(9), await join(1_000)], [all, all.slice(9), all]);
    const [end, ...laterFrames] = await join(12);
    assert.deepEqual([end?.event, laterFrames.length], ["end", 0]);
    const some = await runs.joinStream(thread_id, run.run_id, { modes: ["updates"] });
    assert.deepEqual(
      (await Array.fromAsync(some.frames)).map(({ event }) => event),
      ["metadata", "end"],
    );
  });

  it("is replayed after a restart with the same ids", async () => {
    const clock = testClock();
    for (const word of ["end", "fail"] as const) {
      const { executor, say } = counter();
      const { services, stop } = await processes(clock, executor, 1, 0);
      const [first, second] = services as [Service, Service];
      const { thread_id } = await first.threads.create();
      const { run, frames } = await first.runs.stream(thread_id, ask());
      const read = collect(frames);
      say(3, word);
      await advanceUntil(clock, read.ended, 10);
      assert.deepEqual(readIds(read.list), upTo(word === "end" ? 5 : 6));
      const join = async (after?: number): Promise<Frame[]> =>
        await Array.fromAsync(
          (await second.runs.joinStream(thread_id, run.run_id, after === undefined ? {} : { after })).frames,
        );
      assert.deepEqual(await join(), read.list);
      assert.deepEqual(await join(2), read.list.slice(2));
      assert.deepEqual(await join(4), read.list.slice(4));
      assert.deepEqual(await join(99), read.list);
      await stop();
    }
  });

  it("continues after the frames of another process while reads are behind", async () => {
    const { clock, say, second, stores, thread_id, run_id, here, stop } = await executing();
    const { faults } = stores[1];
    const before = await stores[0].storage.getRun({ deployment: "default" }, run_id);
    let behind = true;
    faults.getRun = (call) => (behind ? before : call());
    faults.readFrames = async (call) => {
      const page = (await call()) as readonly Frame[];
      return behind ? page.filter(({ id }) => (id as number) <= 2) : page;
    };
    faults.refresh = () => {
      behind = false;
    };
    const join = async (after: number): Promise<ReturnType<typeof collect>> =>
      collect((await second.runs.joinStream(thread_id, run_id, { after })).frames);
    const live = await join(4);
    say(1, "end");
    await advanceUntil(clock, () => here.ended() && live.ended());
    assert.deepEqual([readIds(here.list), readIds(live.list)], [upTo(6), [5, 6]]);
    await stop();
  });

  it("is read during its execution in another process", async () => {
    const clock = testClock();
    const { executor, say } = counter();
    const { services, stop } = await processes(clock, executor, 1, 0);
    const [first, second] = services as [Service, Service];
    const { thread_id } = await first.threads.create();
    const { run, frames } = await first.runs.stream(thread_id, ask());
    const here = collect(frames);
    say(4);
    await advanceUntil(clock, () => here.list.length === 5, 10);
    const joined = async (after: number): Promise<ReturnType<typeof collect>> =>
      collect((await second.runs.joinStream(thread_id, run.run_id, { after })).frames);
    // Only the first process knows their ids until the second one reads.
    const there = [await joined(5), await joined(2), await joined(0), await joined(1_000)];
    await advanceUntil(clock, () => there.every(({ list }, i) => list.length >= [0, 3, 5, 5][i]!));
    say(4);
    await advanceUntil(clock, () => there.every(({ list }) => list.at(-1)?.id === 9));
    say("end");
    await advanceUntil(clock, () => here.ended() && there.every(({ ended }) => ended()));
    const [five, two_, zero, unknown] = there.map(({ list }) => list);
    assert.deepEqual(readIds(here.list), upTo(10));
    assert.deepEqual([zero, unknown], [here.list, here.list]);
    assert.deepEqual([five, two_], [here.list.slice(5), here.list.slice(2)]);
    assert.deepEqual(await (await second.runs.join(thread_id, run.run_id)).result, { count: 8 });
    await stop();
  });

  it("continues for the same readers when another process claims it", async () => {
    const clock = testClock();
    const { executor, say } = counter();
    const { services, stores, stop } = await processes(clock, executor, 1, 0, 1);
    const [first, second] = services as [Service, Service];
    const { thread_id } = await first.threads.create();
    const { run, frames } = await first.runs.stream(thread_id, ask());
    const here = collect(frames);
    say(3);
    await advanceUntil(clock, () => here.list.length === 4, 10);
    const there = collect((await second.runs.joinStream(thread_id, run.run_id)).frames);
    await advanceUntil(clock, () => there.list.length === 4);
    kill(stores[0] as Faulty);
    await advanceUntil(clock, () => there.list.length === 5);
    say(2, "end");
    await advanceUntil(clock, there.ended);
    assert.deepEqual(readIds(there.list), upTo(8));
    assert.equal(JSON.parse(there.list[4]?.data ?? "").attempt, 2);
    assert.equal(there.list[4]?.event, "metadata");
    await stop();
  });

  it("is not sent from its start again after a loss if another process has ended it", async () => {
    const clock = testClock();
    const executor: Executor = {
      graphs: () => [{ graph_id: "count" }],
      execute: recordStates(async function* ({ attempt }) {
        yield { type: "stream", mode: "custom", data: attempt };
        // The first process receives no signal, so that it retains its frames for a while after it has lost the run.
        if (attempt === 1) await new Promise<void>(() => {});
        yield { type: "state", values: { attempt }, next: [], tasks: [] };
      }),
    };
    const { services, stores, stop } = await processes(clock, executor, 1, 1);
    const [first, second] = services as [Service, Service];
    const store = stores[0] as Faulty;
    const { thread_id } = await first.threads.create();
    const { run, frames } = await first.runs.stream(thread_id, ask());
    const stale = collect(frames);
    await advanceUntil(clock, () => stale.list.length === 2, 10);
    store.faults.renewLease = () => new Promise(() => {});
    await advanceUntil(clock, async () => (await second.runs.get(thread_id, run.run_id)).status === "success");
    const all = await Array.fromAsync((await second.runs.joinStream(thread_id, run.run_id)).frames);
    const end = all.at(-1)?.id as number;
    assert.deepEqual([all.at(-1)?.event, end > 2, stale.ended()], ["end", true, false]);
    const join = async (after: number): Promise<ReturnType<typeof collect>> =>
      collect((await first.runs.joinStream(thread_id, run.run_id, { after })).frames);
    const joined = [await join(end), await join(end - 1), await join(2)];
    delete store.faults.renewLease;
    await advanceUntil(clock, () => stale.ended() && joined.every(({ ended }) => ended()));
    const [last, before, two_] = joined.map(({ list }) => list);
    assert.deepEqual([last?.length, last?.[0]?.event], [1, "end"]);
    assert.deepEqual([before, two_, stale.list], [all.slice(-1), all.slice(2), all]);
    await stop();
  });

  it("whose frames were deleted reports the gap and its end", async () => {
    const clock = testClock();
    const { executor, say } = counter();
    await using kit = await testService({ executor, environment: clock, retention: { frames_ms: 100_000 } });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { run, frames } = await runs.stream(thread_id, ask());
    const read = collect(frames);
    say(3, "fail");
    await advanceUntil(clock, read.ended, 10);
    await clock.advance(300_000);
    // An ended run stays in memory until another one ends.
    const otherRun = collect((await runs.stream(null, ask())).frames);
    say("end");
    await advanceUntil(clock, otherRun.ended, 10);
    const [gap, ...laterFrames] = await Array.fromAsync(
      (await runs.joinStream(thread_id, run.run_id, { after: 2 })).frames,
    );
    assert.deepEqual([gap?.id, gap?.event], [null, "metadata"]);
    assert.deepEqual(JSON.parse(gap?.data ?? ""), { run_id: run.run_id, attempt: 1, missing_before: 5 });
    assert.deepEqual(laterFrames, read.list.slice(-2));
  });

  it("is not polled without readers", async () => {
    const clock = testClock();
    const { executor, say } = counter();
    const { services, stores, stop } = await processes(clock, executor, 1, 0);
    const [firstProcess, secondProcess] = services as [Service, Service];
    const { run_id } = await firstProcess.runs.create(null, ask());
    say(3);
    await clock.advance(100);
    const reader = (await secondProcess.runs.joinStream(null, run_id)).frames[Symbol.asyncIterator]();
    let first: Frame | undefined;
    void reader.next().then(({ value }) => {
      first = value;
    });
    await advanceUntil(clock, () => first !== undefined);
    await reader.return?.();
    await clock.advance(5_000);
    const { calls } = stores[1] as Faulty;
    const before = calls.getRun;
    await clock.advance(10_000);
    assert.equal(calls.getRun, before);
    // A later reader gets all frames.
    say("end");
    await clock.advance(100);
    const again = collect((await secondProcess.runs.joinStream(null, run_id)).frames);
    await advanceUntil(clock, again.ended);
    assert.deepEqual(readIds(again.list), upTo(5));
    await stop();
  });
});

describe("a reader whose position cannot be found", () => {
  it("leaves no subscription", async () => {
    const { clock, say, second, stores, thread_id, run_id, stop } = await executing();
    const { faults, calls } = stores[1];
    faults.readFrames = () => Promise.reject(new Error("down"));
    await assert.rejects(second.runs.joinStream(thread_id, run_id, { after: 4 }));
    await clock.advance(1_000);
    // A run log in memory needs no read of the row.
    const looks = async (): Promise<number> => {
      const before = calls.getRun ?? 0;
      await assert.rejects(second.runs.joinStream(thread_id, run_id, { after: 4 }));
      return (calls.getRun ?? 0) - before;
    };
    const [again, atOnce] = [await looks(), await looks()];
    assert.equal(again - atOnce, 1);
    say("end");
    await clock.advance(1_000);
    await stop();
  });
});

describe("a run that is not resumable", () => {
  it("is replayed from the ring of its process, and has only an end in others", async () => {
    const clock = testClock();
    const { executor, say } = counter();
    const { services, stop } = await processes(clock, executor, 1, 0);
    const [first, second] = services as [Service, Service];
    const { run, frames } = await first.runs.stream(null, ask({ stream_resumable: false }));
    const here = collect(frames);
    const there = collect((await second.runs.joinStream(null, run.run_id)).frames);
    say(3, "end");
    await advanceUntil(clock, () => here.ended() && there.ended());
    assert.equal(here.list.length, 5);
    const end = here.list.at(-1) as Frame;
    assert.deepEqual(there.list, [end]);
    const join = async (service: Service, after?: number): Promise<Frame[]> =>
      await Array.fromAsync(
        (await service.runs.joinStream(null, run.run_id, after === undefined ? {} : { after })).frames,
      );
    assert.deepEqual(await join(first), here.list);
    assert.deepEqual(await join(first, 2), here.list.slice(2));
    assert.deepEqual(await join(second), [end]);
    await stop();
  });

  it("reports a rollback to readers in another process", async () => {
    const clock = testClock();
    const { executor } = counter();
    const { services, stop } = await processes(clock, executor, 1, 0);
    const [first, second] = services as [Service, Service];
    const { thread_id } = await first.threads.create();
    const { run_id } = await first.runs.create(thread_id, ask());
    await clock.advance(100);
    const there = collect((await second.runs.joinStream(thread_id, run_id)).frames);
    await first.runs.cancel(thread_id, run_id, { action: "rollback" });
    await advanceUntil(clock, there.ended);
    const [error, end] = there.list.slice(-2);
    assert.deepEqual([error?.event, JSON.parse(error?.data ?? "").error], ["error", "RunRolledBack"]);
    assert.deepEqual(JSON.parse(end?.data ?? ""), { run_id, status: "rollback" });
    await stop();
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Executor } from "../../../lib/mod.ts";
import { testClock } from "../../suite/kit.ts";
import { advanceUntil, collect, createClockedService, createFaultyStorage } from "../../support/faulty.ts";
import { aborted, ask, graph, state } from "./attempt.harness.ts";

describe("a lease of a run", () => {
  const waiting = (signals: AbortSignal[]): Executor =>
    graph(async function* (_job, signal) {
      signals.push(signal);
      yield state({ at: 1 }, ["more"]);
      await aborted(signal);
      throw signal.reason;
    });

  for (const [how, fault] of [
    ["fails", () => Promise.reject(new Error("no"))],
    ["is not answered", () => new Promise<never>(() => {})],
  ] as const) {
    it(`counts as lost shortly before its end when its renewal ${how}`, async () => {
      const clock = testClock();
      const { storage, faults } = createFaultyStorage();
      const signals: AbortSignal[] = [];
      await using kit = await createClockedService(clock, { storage, executor: waiting(signals) });
      const { thread_id } = await kit.service.threads.create();
      const run = await kit.service.runs.create(thread_id, ask("g"));
      await clock.advance(5_000);
      const renewed = clock.now() - 5_000 + 10_000 / 3;
      faults.renewLease = fault;
      await clock.advance(renewed + 8_500 - clock.now());
      assert.equal(signals[0]?.aborted, false, "too early");
      await clock.advance(1_400);
      assert.equal(signals[0]?.reason, "lease_lost");
      assert.equal((await kit.service.metrics()).worker.leases_lost, 1);
      delete faults.renewLease;
      await advanceUntil(clock, () => signals.length === 2);
      assert.equal((await storage.getRun({ deployment: "default" }, run.run_id))?.attempt, 2);
      await kit.service.runs.cancel(thread_id, run.run_id);
      await clock.advance(1_000);
    });
  }

  it("is kept while some renewals fail", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    const signals: AbortSignal[] = [];
    await using kit = await createClockedService(clock, { storage, executor: waiting(signals) });
    const { thread_id } = await kit.service.threads.create();
    const run = await kit.service.runs.create(thread_id, ask("g"));
    for (let i = 0; i < 5; i++) {
      faults.renewLease = () => Promise.reject(new Error("no"));
      await clock.advance(5_000);
      delete faults.renewLease;
      await clock.advance(5_000);
    }
    assert.equal(signals.length, 1);
    assert.equal(signals[0]?.aborted, false);
    await kit.service.runs.cancel(thread_id, run.run_id, { wait: true });
    assert.equal(signals[0]?.reason, "cancelled");
  });

  it("survives an event loop stall during its renewal", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    let skew = 0;
    const signals: AbortSignal[] = [];
    const environment = { ...clock, now: () => clock.now() + skew };
    await using kit = await createClockedService(clock, { storage, executor: waiting(signals), environment });
    const { thread_id } = await kit.service.threads.create();
    const run = await kit.service.runs.create(thread_id, ask("g"));
    await clock.advance(1_000);
    faults.renewLease = async (call) => {
      delete faults.renewLease;
      skew = 60_000;
      // The response arrives after all timers that became due during the stall.
      await clock.advance(2_000);
      return call();
    };
    await advanceUntil(clock, () => skew > 0);
    await clock.advance(20_000);
    assert.equal(signals.length, 1);
    assert.equal(signals[0]?.aborted, false);
    assert.equal((await kit.service.metrics()).worker.leases_lost, 0);
    await kit.service.runs.cancel(thread_id, run.run_id, { wait: true });
  });

  it("is claimed again if it ended before the claim's result arrived, unless another process has claimed the run", async () => {
    const clock = testClock();
    const first = createFaultyStorage();
    const second = first.share();
    const executed: string[] = [];
    const named = (name: string): Executor =>
      graph(async function* () {
        executed.push(name);
        yield state({});
      });
    await using late = await createClockedService(clock, { storage: first.storage, executor: named("late") });
    await using otherProcess = await createClockedService(clock, { storage: second.storage, executor: named("other") });
    await clock.advance(1_000);
    assert.ok(otherProcess.service.healthy());
    for (const isTakenOver of [false, true]) {
      const { thread_id } = await late.service.threads.create();
      const gate = Promise.withResolvers<void>();
      first.faults.createRun = async (call) => {
        const outcome = await call();
        first.faults.claimRun = () => Promise.reject(new Error("no"));
        await gate.promise;
        delete first.faults.claimRun;
        return outcome;
      };
      second.faults.claimRun = (call) => (isTakenOver ? call() : Promise.reject(new Error("no")));
      const creating = late.service.runs.create(thread_id, ask("g"));
      await clock.advance(9_000);
      await advanceUntil(clock, () => !isTakenOver || executed.at(-1) === "other", 1_000);
      await clock.advance(3_000);
      gate.resolve();
      const { run_id } = await creating;
      await advanceUntil(clock, async () => (await late.service.runs.get(thread_id, run_id)).status === "success");
      await clock.advance(1_000);
    }
    assert.deepEqual(executed, ["late", "other"]);
  });

  it("ends the readers of a deleted run when it is lost, and no others", async () => {
    const clock = testClock();
    const first = createFaultyStorage();
    const second = first.share();
    const signals: AbortSignal[] = [];
    await using kit = await createClockedService(clock, { storage: first.storage, executor: waiting(signals) });
    // This process has no worker, so the other one sees its changes in the database only.
    await using otherProcess = await createClockedService(clock, {
      storage: second.storage,
      executor: waiting(signals),
      worker: { concurrency: 0 },
    });
    const { thread_id } = await kit.service.threads.create();
    const read = collect((await kit.service.runs.stream(thread_id, ask("g"))).frames);
    await advanceUntil(clock, () => signals.length === 1);
    const [run] = await kit.service.runs.list(thread_id);
    await otherProcess.service.runs.cancel(thread_id, run?.run_id as string, { action: "rollback" });
    await advanceUntil(clock, read.ended);
    assert.equal(signals[0]?.reason, "lease_lost");
    assert.deepEqual(
      read.list.slice(-2).map(({ event }) => event),
      ["error", "end"],
    );
    assert.equal((await second.storage.getThread({ deployment: "default" }, thread_id))?.lock, null);
  });
});

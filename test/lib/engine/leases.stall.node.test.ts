/** A process that stalled for longer than its leases claims no run of its own active executors. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { systemEnvironment } from "../../../lib/environment.ts";
import type { Job } from "../../../lib/executor/contract.ts";
import { recordStates } from "../../../lib/executor/state-recorder.ts";
import type { Executor, Run, Service } from "../../../lib/mod.ts";
import type { Storage } from "../../../lib/storage/types.ts";
import { testClock } from "../../suite/kit.ts";
import { createClockedService, createFaultyStorage, type Faulty } from "../../support/faulty.ts";

/** The duration of a stall. A lease has 10,000 ms. */
const STILL_MS = 60_000;

/** Creates a clock that can jump without firing timers, and an executor whose runs end on demand. */
function world(): {
  readonly clock: ReturnType<typeof testClock>;
  readonly environment: ReturnType<typeof testClock>;
  readonly faulty: Faulty;
  readonly executor: Executor;
  readonly startedJobs: Job[];
  standStill(): void;
  settle(run_id: string): void;
  /** Settles these runs and lets time pass. */
  end(...runs: readonly { readonly run_id: string }[]): Promise<void>;
} {
  const clock = testClock();
  let skew = 0;
  const startedJobs: Job[] = [];
  const gates = new Map<string, PromiseWithResolvers<void>>();
  const settle = (run_id: string): void => gates.get(run_id)?.resolve();
  const executor: Executor = {
    graphs: () => [{ graph_id: "g" }],
    execute: recordStates(async function* (job) {
      startedJobs.push(job);
      const gate = Promise.withResolvers<void>();
      gates.set(job.run_id, gate);
      await gate.promise;
      yield { type: "state", values: {}, next: [], tasks: [] };
    }),
  };
  return {
    clock,
    environment: { ...clock, now: () => clock.now() + skew },
    faulty: createFaultyStorage(),
    executor,
    startedJobs,
    standStill() {
      skew += STILL_MS;
    },
    settle,
    async end(...runs) {
      for (const { run_id } of runs) settle(run_id);
      await pass(clock);
    },
  };
}

/** Lets a second pass, with enough ticks of the event loop for all started work. */
async function pass(clock: ReturnType<typeof testClock>): Promise<void> {
  for (let i = 0; i < 100; i++) await clock.advance(10);
}

/** Claims the only run in another process. */
async function claimedBy(storage: Storage, now: number): Promise<void> {
  const terms = { token: "other", lease_until: now + STILL_MS, graph_ids: ["g"], now };
  assert.equal((await storage.claimRun({ deployment: "default" }, terms)).kind, "claimed");
}

/** Holds back the result of the next creation, which has taken effect, until the returned function is called. Calls `then` first. */
function holdCreation(faults: Faulty["faults"], then: () => void = () => {}): () => void {
  const answered = Promise.withResolvers<void>();
  faults.createRun = async (call) => {
    delete faults.createRun;
    const outcome = await call();
    then();
    await answered.promise;
    return outcome;
  };
  return answered.resolve;
}

const request = { assistant_id: "g", input: {} };

/** Creates a run whose claim result is held back while the process stalls for longer than its lease, then another run. */
async function createLate(
  { runs, threads }: Service,
  clock: ReturnType<typeof testClock>,
  faults: Faulty["faults"],
  standStill: () => void,
): Promise<{ readonly creating: Promise<Run>; readonly laterRun: Run; readonly answer: () => void }> {
  await pass(clock);
  const answer = holdCreation(faults);
  const creating = runs.create((await threads.create()).thread_id, request);
  for (let i = 0; i < 5; i++) await clock.advance(1);
  standStill();
  const laterRun = await runs.create((await threads.create()).thread_id, request);
  return { creating, laterRun, answer };
}

const ids = (jobs: readonly Job[]): string[] => jobs.map(({ run_id }) => run_id);

/**
 * Streams a run and stands still at a tick of the event loop after its claim. `inTime`: its executor had not started by then.
 * `renewed`: its lease was renewed between that and the start.
 */
async function startStandingStill(
  at: number,
  isTakenOver: boolean,
  stream_resumable: boolean,
): Promise<{ readonly inTime: boolean; readonly startedCount: number; readonly renewed: boolean }> {
  const { clock, environment, faulty, executor, startedJobs, standStill, settle } = world();
  const { storage, faults, calls } = faulty;
  const another = faulty.share().storage;
  const { defer } = systemEnvironment();
  let ticksLeft = Number.POSITIVE_INFINITY;
  let inTime = false;
  let renewals = 0;
  let renewed = false;
  faults.createRun = async (call) => {
    const outcome = await call();
    ticksLeft = at;
    return outcome;
  };
  const watching: Executor = {
    ...executor,
    execute(...attempt) {
      renewed = (calls.renewLease ?? 0) > renewals;
      return executor.execute(...attempt);
    },
  };
  const ticks = (fn: () => void): void => {
    if (--ticksLeft !== 0) defer(fn);
    else void stand().then(fn);
  };
  async function stand(): Promise<void> {
    standStill();
    inTime = startedJobs.length === 0;
    renewals = calls.renewLease ?? 0;
    if (isTakenOver) await claimedBy(another, environment.now());
    // Work that was ready before runs first.
    await new Promise<void>((resolve) => defer(resolve));
  }
  await using kit = await createClockedService(clock, {
    storage,
    executor: watching,
    environment: { ...environment, defer: ticks },
  });
  const { runs, threads } = kit.service;
  const { thread_id } = await threads.create();
  await pass(clock);
  const { run } = await runs.stream(thread_id, { ...request, stream_resumable });
  await pass(clock);
  settle(run.run_id);
  await pass(clock);
  return { inTime, startedCount: startedJobs.length, renewed };
}

describe("a process that stalled", () => {
  it("does not claim the run that it executes if a renewal was in flight", async () => {
    const { clock, environment, faulty, executor, startedJobs, standStill, settle } = world();
    const { storage, faults } = faulty;
    await using kit = await createClockedService(clock, { storage, executor, environment });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const run = await runs.create(thread_id, request);
    await pass(clock);
    standStill();
    let renewals = 0;
    faults.renewLease = async (call) => {
      const answer = await call();
      if (renewals++ === 0) standStill();
      return answer;
    };
    const laterRun = await runs.create((await threads.create()).thread_id, request);
    await pass(clock);
    assert.deepEqual(ids(startedJobs), [run.run_id, laterRun.run_id]);
    assert.ok(renewals >= 2);
    settle(run.run_id);
    settle(laterRun.run_id);
    await pass(clock);
    assert.equal((await storage.getRun({ deployment: "default" }, run.run_id))?.attempt, 1);
    assert.equal((await runs.get(thread_id, run.run_id)).status, "success");
  });

  it("does not claim the run that it executes, wherever it stalled before a claim", async () => {
    for (let at = 1; at <= 16; at++) {
      const { clock, environment, faulty, executor, startedJobs, standStill, settle } = world();
      let callsLeft = Number.POSITIVE_INFINITY;
      const now = (): number => {
        if (--callsLeft === 0) standStill();
        return environment.now();
      };
      await using kit = await createClockedService(clock, {
        storage: faulty.storage,
        executor,
        environment: { ...environment, now },
      });
      const { runs, threads } = kit.service;
      const run = await runs.create((await threads.create()).thread_id, request);
      await pass(clock);
      callsLeft = at;
      const laterRun = await runs.create((await threads.create()).thread_id, request);
      await pass(clock);
      await clock.advance(2_000);
      await pass(clock);
      assert.deepEqual(ids(startedJobs), [run.run_id, laterRun.run_id], `it stood still at look ${at} at the clock`);
      settle(run.run_id);
      settle(laterRun.run_id);
      await pass(clock);
    }
  });

  it("starts no new run on the thread of a rolled-back run before the old executor has settled", async () => {
    const { clock, environment, faulty, executor, startedJobs, standStill, settle } = world();
    await using kit = await createClockedService(clock, { storage: faulty.storage, executor, environment });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const old = await runs.create(thread_id, request);
    await pass(clock);
    await runs.cancel(thread_id, old.run_id, { action: "rollback" });
    standStill();
    const fresh = await runs.create(thread_id, request);
    await pass(clock);
    assert.deepEqual(ids(startedJobs), [old.run_id]);
    settle(old.run_id);
    await pass(clock);
    assert.deepEqual(ids(startedJobs), [old.run_id, fresh.run_id]);
    settle(fresh.run_id);
  });

  it("starts no run with the end of another while an old executor of its thread is active", async () => {
    const { clock, environment, faulty, executor, startedJobs, standStill, settle } = world();
    const worker = { concurrency: 2 };
    await using kit = await createClockedService(clock, { storage: faulty.storage, executor, environment, worker });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const old = await runs.create(thread_id, request);
    const laterRun = await runs.create((await threads.create()).thread_id, request);
    await pass(clock);
    const fresh = await runs.create(thread_id, { ...request, multitask_strategy: "rollback" });
    await pass(clock);
    standStill();
    settle(laterRun.run_id);
    await pass(clock);
    assert.deepEqual(ids(startedJobs), [old.run_id, laterRun.run_id]);
    settle(old.run_id);
    await pass(clock);
    assert.deepEqual(ids(startedJobs), [old.run_id, laterRun.run_id, fresh.run_id]);
    settle(fresh.run_id);
  });

  it("keeps a run whose renewals fail for long if no other process can claim it", async () => {
    const { clock, environment, executor, startedJobs, standStill, settle } = world();
    const { storage, faults } = createFaultyStorage(Object.assign(nodeSqlite(":memory:"), { single_process: true }));
    await using kit = await createClockedService(clock, { storage, executor, environment });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const run = await runs.create(thread_id, request);
    await pass(clock);
    faults.renewLease = () => Promise.reject(new Error("no"));
    standStill();
    for (let i = 0; i < 30; i++) await pass(clock);
    delete faults.renewLease;
    for (let i = 0; i < 5; i++) await pass(clock);
    assert.deepEqual(ids(startedJobs), [run.run_id]);
    assert.equal((await kit.service.metrics()).worker.leases_lost, 0);
    settle(run.run_id);
    await pass(clock);
    assert.equal((await runs.get(thread_id, run.run_id)).status, "success");
  });

  for (const isTakenOver of [true, false]) {
    const then = isTakenOver
      ? "does not start a run that another process has claimed"
      : "renews its lease before it starts a run";
    it(`${then} after a stall between the claim and the start, with a reader waiting`, async () => {
      for (const stream_resumable of [true, false]) {
        let at = 1;
        for (; ; at++) {
          const { inTime, startedCount, renewed } = await startStandingStill(at, isTakenOver, stream_resumable);
          if (!inTime) break;
          const where = `it stood still at tick ${at}${stream_resumable ? " of a resumable stream" : ""}`;
          assert.equal(startedCount, isTakenOver ? 0 : 1, where);
          assert.equal(renewed, !isTakenOver, where);
        }
        assert.ok(at > 2, "it never stood still in time");
      }
    });
  }

  it("starts a run once if the result of its claim arrived after the stall", async () => {
    const { clock, environment, faulty, executor, startedJobs, standStill, end } = world();
    const { storage, faults } = faulty;
    await using kit = await createClockedService(clock, { storage, executor, environment });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    await pass(clock);
    const answer = holdCreation(faults, standStill);
    const creating = runs.create(thread_id, request);
    for (let i = 0; i < 5; i++) await clock.advance(1);
    const laterRun = await runs.create((await threads.create()).thread_id, request);
    for (let i = 0; i < 20; i++) await clock.advance(1);
    answer();
    const run = await creating;
    await pass(clock);
    assert.deepEqual(ids(startedJobs).sort(), [run.run_id, laterRun.run_id].sort());
    assert.equal((await storage.getRun({ deployment: "default" }, run.run_id))?.attempt, 1);
    await end(run, laterRun);
    assert.equal((await runs.get(thread_id, run.run_id)).status, "success");
  });

  it("waits longer for the result of a claim after another stall", async () => {
    const { clock, environment, faulty, executor, startedJobs, standStill, end } = world();
    const { storage, faults } = faulty;
    // Another process could claim the run, so this one does not wait for ever.
    const shared = { ...storage, single_process: false };
    await using kit = await createClockedService(clock, { storage: shared, executor, environment });
    const { creating, laterRun, answer } = await createLate(kit.service, clock, faults, standStill);
    await clock.advance(50);
    standStill();
    await clock.advance(60);
    answer();
    const run = await creating;
    await pass(clock);
    assert.deepEqual(ids(startedJobs).sort(), [run.run_id, laterRun.run_id].sort());
    assert.equal((await storage.getRun({ deployment: "default" }, run.run_id))?.attempt, 1);
    await end(run, laterRun);
  });

  it("waits a limited time for the result of a claim if each timer is late", async () => {
    const { clock, environment, faulty, executor, startedJobs, standStill, end } = world();
    const { storage, faults } = faulty;
    const busy = { ...environment, timer: (ms: number, fn: () => void) => environment.timer(ms + 50, fn) };
    await using kit = await createClockedService(clock, {
      storage: { ...storage, single_process: false },
      executor,
      environment: busy,
    });
    const { creating, laterRun, answer } = await createLate(kit.service, clock, faults, standStill);
    for (let i = 0; i < 5; i++) await pass(clock);
    assert.ok(ids(startedJobs).includes(laterRun.run_id));
    answer();
    await end(await creating, laterRun);
  });
});

/** A process that stood still for longer than its leases last takes nothing from under its own executors. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../adapters/node-sqlite.ts";
import type { Executor, Job } from "../../lib/mod.ts";
import { testClock } from "../suite/kit.ts";
import { clockedService, type Faulty, faulty } from "./faulty.ts";

/** How long the process stands still; a lease is 10,000. */
const STILL_MS = 60_000;

/** A clock that can be set forward without a timer firing, and executors that end when they are told to. */
function world(): {
  readonly clock: ReturnType<typeof testClock>;
  readonly ambient: ReturnType<typeof testClock>;
  readonly faulty: Faulty;
  readonly executor: Executor;
  readonly begun: Job[];
  standStill(): void;
  settle(run_id: string): void;
} {
  const clock = testClock();
  let skew = 0;
  const begun: Job[] = [];
  const gates = new Map<string, PromiseWithResolvers<void>>();
  const executor: Executor = {
    graphs: () => [{ graph_id: "g", checkpoints: "worker" }],
    async *execute(job) {
      begun.push(job);
      const gate = Promise.withResolvers<void>();
      gates.set(job.run_id, gate);
      await gate.promise;
      yield { type: "state", values: {}, next: [], tasks: [] };
    },
  };
  return {
    clock,
    ambient: { ...clock, now: () => clock.now() + skew },
    faulty: faulty(),
    executor,
    begun,
    standStill() {
      skew += STILL_MS;
    },
    settle: (run_id) => gates.get(run_id)?.resolve(),
  };
}

/** A second, and the event loop often enough for all that was begun. */
async function pass(clock: ReturnType<typeof testClock>): Promise<void> {
  for (let i = 0; i < 100; i++) await clock.advance(10);
}

const request = { assistant_id: "g", input: {} };
const ids = (jobs: readonly Job[]): string[] => jobs.map(({ run_id }) => run_id);

describe("a process that stood still", () => {
  it("does not take up its own run when a renewal was on its way meanwhile", async () => {
    const { clock, ambient, faulty, executor, begun, standStill, settle } = world();
    const { storage, faults } = faulty;
    await using kit = await clockedService(clock, { storage, executor, ambient });
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
    const other = await runs.create((await threads.create()).thread_id, request);
    await pass(clock);
    assert.deepEqual(ids(begun), [run.run_id, other.run_id]);
    assert.ok(renewals >= 2);
    settle(run.run_id);
    settle(other.run_id);
    await pass(clock);
    assert.equal((await storage.getRun({ deployment: "default" }, run.run_id))?.attempt, 1);
    assert.equal((await runs.get(thread_id, run.run_id)).status, "success");
  });

  it("does not take up its own run wherever it stood still on its way to a claim", async () => {
    for (let at = 1; at <= 16; at++) {
      const { clock, ambient, faulty, executor, begun, standStill, settle } = world();
      let left = Number.POSITIVE_INFINITY;
      const now = (): number => {
        if (--left === 0) standStill();
        return ambient.now();
      };
      await using kit = await clockedService(clock, {
        storage: faulty.storage,
        executor,
        ambient: { ...ambient, now },
      });
      const { runs, threads } = kit.service;
      const run = await runs.create((await threads.create()).thread_id, request);
      await pass(clock);
      left = at;
      const other = await runs.create((await threads.create()).thread_id, request);
      await pass(clock);
      await clock.advance(2_000);
      await pass(clock);
      assert.deepEqual(ids(begun), [run.run_id, other.run_id], `it stood still at look ${at} at the clock`);
      settle(run.run_id);
      settle(other.run_id);
      await pass(clock);
    }
  });

  it("gives the thread of a rolled-back run to no new run before the old executor has settled", async () => {
    const { clock, ambient, faulty, executor, begun, standStill, settle } = world();
    await using kit = await clockedService(clock, { storage: faulty.storage, executor, ambient });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const old = await runs.create(thread_id, request);
    await pass(clock);
    await runs.cancel(thread_id, old.run_id, { action: "rollback" });
    standStill();
    const fresh = await runs.create(thread_id, request);
    await pass(clock);
    assert.deepEqual(ids(begun), [old.run_id]);
    settle(old.run_id);
    await pass(clock);
    assert.deepEqual(ids(begun), [old.run_id, fresh.run_id]);
    settle(fresh.run_id);
  });

  it("nor with the end of another run", async () => {
    const { clock, ambient, faulty, executor, begun, standStill, settle } = world();
    const worker = { concurrency: 2 };
    await using kit = await clockedService(clock, { storage: faulty.storage, executor, ambient, worker });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const old = await runs.create(thread_id, request);
    const other = await runs.create((await threads.create()).thread_id, request);
    await pass(clock);
    const fresh = await runs.create(thread_id, { ...request, multitask_strategy: "rollback" });
    await pass(clock);
    standStill();
    settle(other.run_id);
    await pass(clock);
    assert.deepEqual(ids(begun), [old.run_id, other.run_id]);
    settle(old.run_id);
    await pass(clock);
    assert.deepEqual(ids(begun), [old.run_id, other.run_id, fresh.run_id]);
    settle(fresh.run_id);
  });

  it("keeps a run whose renewals fail for long, where nobody else can take it", async () => {
    const { clock, ambient, executor, begun, standStill, settle } = world();
    const { storage, faults } = faulty(Object.assign(nodeSqlite(":memory:"), { alone: true }));
    await using kit = await clockedService(clock, { storage, executor, ambient });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const run = await runs.create(thread_id, request);
    await pass(clock);
    faults.renewLease = () => Promise.reject(new Error("no"));
    standStill();
    for (let i = 0; i < 30; i++) await pass(clock);
    delete faults.renewLease;
    for (let i = 0; i < 5; i++) await pass(clock);
    assert.deepEqual(ids(begun), [run.run_id]);
    assert.equal((await kit.service.metrics()).worker.leases_lost, 0);
    settle(run.run_id);
    await pass(clock);
    assert.equal((await runs.get(thread_id, run.run_id)).status, "success");
  });

  it("starts a run once whose claim was not answered meanwhile", async () => {
    const { clock, ambient, faulty, executor, begun, standStill, settle } = world();
    const { storage, faults } = faulty;
    await using kit = await clockedService(clock, { storage, executor, ambient });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const answered = Promise.withResolvers<void>();
    await pass(clock);
    faults.createRun = async (call) => {
      delete faults.createRun;
      const outcome = await call();
      standStill();
      await answered.promise;
      return outcome;
    };
    const creating = runs.create(thread_id, request);
    for (let i = 0; i < 5; i++) await clock.advance(1);
    const other = await runs.create((await threads.create()).thread_id, request);
    for (let i = 0; i < 20; i++) await clock.advance(1);
    answered.resolve();
    const run = await creating;
    await pass(clock);
    assert.deepEqual(ids(begun).sort(), [run.run_id, other.run_id].sort());
    assert.equal((await storage.getRun({ deployment: "default" }, run.run_id))?.attempt, 1);
    settle(run.run_id);
    settle(other.run_id);
    await pass(clock);
    assert.equal((await runs.get(thread_id, run.run_id)).status, "success");
  });
});

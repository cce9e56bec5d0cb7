/** Tests of stopping pending and running runs, by new runs and by requests. */
import assert from "node:assert/strict";
import type { ClaimedRun, StopAction, Storage, ThreadRow } from "../../../lib/storage/mod.ts";
import {
  checkpoint,
  claimNext,
  claimTerms,
  create,
  createAssistant,
  createClaimedRun,
  createFinishedRun,
  createPendingRun,
  createThread,
  finish,
  formatOutcomes,
  frames,
  here,
  progress,
  requireCreated,
  type StorageTest,
  type SuiteApi,
  stateless,
  statuses,
  write,
} from "./material.ts";

/** Thread `t` with everything a run can store: r1 has ended at c1; r2 has answered it, saved c2 and holds the thread lock. */
async function answering(
  storage: Storage,
): Promise<{ assistant: Awaited<ReturnType<typeof createAssistant>>; r2: ClaimedRun }> {
  const assistant = await createAssistant(storage);
  await createThread(storage, "t");
  const first = progress([checkpoint("c1", { x: 1 })], [write("c1", "task", 0, "asked")]);
  const interrupts = { task: [{ value: 1 }] };
  await createFinishedRun(
    storage,
    assistant,
    "t",
    "r1",
    { head: "c1", status: "interrupted", interrupts },
    { progress: first },
  );
  const { claimed: r2 } = await requireCreated(storage, assistant, "t", "r2", {
    run: { resumable: true },
    claim: { token: "token-r2", lease_until: 5000 },
  });
  assert.ok(r2);
  const answer = [write("c1", "task", 0, "answered"), write("c2", "task", 0, "more")];
  await storage.saveProgress(here, r2.lease, progress([checkpoint("c2", { x: 2 }, "c1")], answer), 1200);
  await storage.saveProgress(here, r2.lease, frames(1, "metadata", "values"), 1200);
  return { assistant, r2 };
}

/** Checks that nothing of r2 is left, and that the state of r1 is unchanged. */
async function assertAsBefore(storage: Storage, { lease }: ClaimedRun): Promise<void> {
  assert.equal(await storage.getRun(here, "r2"), null);
  assert.deepEqual(await storage.readFrames(here, "r2", 0), []);
  const [stored, ...otherCheckpoints] = await storage.listCheckpoints(here, "t", { limit: 10 });
  assert.deepEqual([stored?.checkpoint_id, otherCheckpoints], ["c1", []]);
  assert.deepEqual(
    stored?.writes.map(({ data }) => data),
    ['"asked"'],
    "the older answer shows again",
  );
  const thread = (await storage.getThread(here, "t")) as ThreadRow;
  assert.deepEqual([thread.head, thread.interrupts], ["c1", { task: [{ value: 1 }] }]);
  assert.equal(thread.running, null);

  const late = { ...progress([checkpoint("c3", { x: 3 })], [write("c1", "task", 0, "late")]), ...frames(3, "late") };
  assert.equal(await storage.renewLease(here, lease, 9000), null);
  assert.equal(
    await storage.saveProgress(here, lease, { ...late, checkpoints: [checkpoint("c3", { x: 3 })] }, 1300),
    false,
  );
  assert.equal(await storage.finishRun(here, lease, finish({ progress: late })), null);
  assert.equal(await storage.finishRun(here, lease, finish({ discard: true })), null);
  assert.equal(await storage.requeueRun(here, lease, 1300), false);
  assert.equal((await storage.listCheckpoints(here, "t", { limit: 10 })).length, 1);
  assert.deepEqual(await storage.readFrames(here, "r2", 0), []);
}

/** Checks for leftover values with a new checkpoint of the same versions, which would show them. */
async function assertNoValueLeft(storage: Storage, { lease }: ClaimedRun): Promise<void> {
  const again = { ...checkpoint("c2", { x: 2 }, "c1"), values: [] };
  assert.equal(await storage.saveProgress(here, lease, progress([again]), 6100), true);
  const stored = await storage.getCheckpoint(here, "t", { ns: "", checkpoint_id: "c2" });
  assert.deepEqual([stored?.values, stored?.writes], [[], []]);
}

export function stoppingTests(api: SuiteApi, test: StorageTest): void {
  api.describe("the reason of a cancel", () => {
    test("stays with the run that it stops first, whatever it executes", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const stop = (run_id: string, reason?: string) =>
        storage.stopRuns(here, { thread_id: "t", run_ids: [run_id] }, "interrupt", 2000, reason);
      const reasons = async () =>
        Promise.all(["r1", "r2", "r3"].map(async (id) => (await storage.getRun(here, id))?.cancel_reason));
      const { claimed: r1 } = await requireCreated(storage, assistant, "t", "r1", {
        claim: { token: "w", lease_until: 5000 },
      });
      assert.ok(r1);
      await requireCreated(storage, assistant, "t", "r2");
      await requireCreated(storage, assistant, "t", "r3");
      assert.equal(formatOutcomes(await stop("r1", "taken: elsewhere")), "r1 flagged");
      assert.equal(formatOutcomes(await stop("r2", "no need")), "r2 ended");
      assert.deepEqual(await reasons(), ["taken: elsewhere", "no need", undefined]);
      await stop("r1", "again");
      await stop("r2", "again");
      await stop("r3");
      assert.deepEqual(await reasons(), ["taken: elsewhere", "no need", undefined]);
    });
  });

  api.describe("a run that rolls back", () => {
    test("removes running and pending runs; the thread lock stays until it is released", async (storage) => {
      const { assistant, r2 } = await answering(storage);
      await createPendingRun(storage, assistant, "t", "r3");
      const outcome = await requireCreated(storage, assistant, "t", "r4", {
        run: { multitask_strategy: "rollback" },
        claim: { token: "token-r4", lease_until: 5000 },
      });
      assert.equal(outcome.claimed, null);
      assert.equal(outcome.run.seq, 4);
      assert.deepEqual(
        [...outcome.stopped].sort((a, b) => (a.run_id < b.run_id ? -1 : 1)),
        [
          { run_id: "r2", thread_id: "t", kind: "deleted", end_frame: null, lock_token: "token-r2" },
          { run_id: "r3", thread_id: "t", kind: "deleted", end_frame: null, lock_token: null },
        ],
      );
      assert.equal(await statuses(storage, "t"), "r1 success,r4 pending");
      await assertAsBefore(storage, r2);
      assert.deepEqual((await storage.getThread(here, "t"))?.lock, { token: "token-r2", until: 5000 });
      assert.equal((await storage.getThread(here, "t"))?.status, "busy");
      assert.equal((await storage.claimRun(here, claimTerms("early"))).kind, "blocked");
      await storage.releaseThreadLock(here, r2.lease);
      assert.equal((await storage.getThread(here, "t"))?.lock, null);
      const next = (await claimNext(storage, here, claimTerms("w"))) as ClaimedRun;
      assert.equal(next.run.run_id, "r4");
      await assertNoValueLeft(storage, next);
    });

    test("continues without a release after the thread lock has expired", async (storage) => {
      const { assistant, r2 } = await answering(storage);
      await requireCreated(storage, assistant, "t", "r3", { run: { multitask_strategy: "rollback" } });
      assert.equal(await claimNext(storage, here, { ...claimTerms("w"), now: 4999 }), null);
      const next = await claimNext(storage, here, { ...claimTerms("w"), now: 5000 });
      assert.equal(next?.run.run_id, "r3");
      await storage.releaseThreadLock(here, r2.lease);
      assert.equal((await storage.getThread(here, "t"))?.lock?.token, "w", "the slot is another's now");
    });

    test("is claimed at once if no run was running", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      for (const id of ["r1", "r2"]) await createPendingRun(storage, assistant, "t", id);
      const outcome = await requireCreated(storage, assistant, "t", "r3", {
        run: { multitask_strategy: "rollback" },
        claim: { token: "w", lease_until: 5000 },
      });
      assert.equal(formatOutcomes(outcome.stopped), "r1 deleted,r2 deleted");
      assert.equal(outcome.claimed?.run.status, "running");
      assert.equal(await statuses(storage, "t"), "r3 running");
    });

    test("removes the checkpoints of an attempt that is to be retried", async (storage) => {
      const { assistant, r2 } = await answering(storage);
      await storage.requeueRun(here, r2.lease, 1300);
      const outcome = await requireCreated(storage, assistant, "t", "r3", { run: { multitask_strategy: "rollback" } });
      assert.equal(formatOutcomes(outcome.stopped), "r2 deleted");
      await assertAsBefore(storage, r2);
      const next = (await claimNext(storage, here, claimTerms("w"))) as ClaimedRun;
      assert.equal(next.run.run_id, "r3");
      await assertNoValueLeft(storage, next);
    });

    test("removes nothing if it is rejected", async (storage) => {
      const { assistant, r2 } = await answering(storage);
      const stale = { ...assistant, revision: assistant.revision - 1 };
      for (const multitask_strategy of ["rollback", "interrupt"] as const) {
        assert.deepEqual(await create(storage, stale, "t", "r3", { run: { multitask_strategy } }), { kind: "stale" });
      }
      assert.equal(await statuses(storage, "t"), "r1 success,r2 running");
      assert.deepEqual(await storage.renewLease(here, r2.lease, 6000), { cancelled: false });
      assert.equal((await storage.readFrames(here, "r2", 0)).length, 2);
    });

    test("changes no other thread", async (storage) => {
      const { assistant } = await answering(storage);
      await createThread(storage, "u");
      const otherClaim = await createClaimedRun(storage, assistant, "u", "u1");
      await storage.saveProgress(here, otherClaim.lease, progress([checkpoint("c2", { x: 9 })]), 1200);
      await requireCreated(storage, assistant, "t", "r3", { run: { multitask_strategy: "rollback" } });
      assert.equal((await storage.getCheckpoint(here, "u", { ns: "" }))?.values[0]?.data, "9");
      assert.deepEqual(await storage.renewLease(here, otherClaim.lease, 6000), { cancelled: false });
    });
  });

  api.describe("a run that interrupts", () => {
    test("ends pending runs and flags running ones", async (storage) => {
      const { assistant, r2 } = await answering(storage);
      await requireCreated(storage, assistant, "t", "r3", { run: { resumable: true } });
      const outcome = await requireCreated(storage, assistant, "t", "r4", {
        run: { multitask_strategy: "interrupt" },
        claim: { token: "w", lease_until: 5000 },
      });
      assert.equal(outcome.claimed, null);
      assert.deepEqual(
        [...outcome.stopped].sort((a, b) => (a.run_id < b.run_id ? -1 : 1)),
        [
          { run_id: "r2", thread_id: "t", kind: "flagged", end_frame: null, lock_token: "token-r2" },
          { run_id: "r3", thread_id: "t", kind: "ended", end_frame: 1, lock_token: null },
        ],
      );
      assert.equal(await statuses(storage, "t"), "r1 success,r2 running,r3 interrupted,r4 pending");
      assert.deepEqual(await storage.renewLease(here, r2.lease, 6000), { cancelled: true });
      assert.equal((await storage.claimRun(here, claimTerms("early"))).kind, "blocked");
      const end = finish({ status: "interrupted", thread: { ...finish().thread, head: "c2" } });
      assert.deepEqual(await storage.finishRun(here, r2.lease, end), { next: null });
      assert.equal((await storage.getThread(here, "t"))?.head, "c2", "finished steps are kept");
      assert.equal((await claimNext(storage, here, claimTerms("w")))?.run.run_id, "r4");
    });

    test("is claimed at once if no run was running", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      await createPendingRun(storage, assistant, "t", "r1");
      const outcome = await requireCreated(storage, assistant, "t", "r2", {
        run: { multitask_strategy: "interrupt" },
        claim: { token: "w", lease_until: 5000 },
      });
      assert.equal(formatOutcomes(outcome.stopped), "r1 ended");
      assert.equal(outcome.claimed?.run.status, "running");
      assert.equal(await statuses(storage, "t"), "r1 interrupted,r2 running");
    });

    test("waits for a worker to end a requeued run that has finished some steps", async (storage) => {
      const { assistant, r2 } = await answering(storage);
      await storage.requeueRun(here, r2.lease, 1300);
      const outcome = await requireCreated(storage, assistant, "t", "r3", {
        run: { multitask_strategy: "interrupt" },
        claim: { token: "w", lease_until: 5000 },
      });
      assert.equal(outcome.claimed, null);
      assert.deepEqual(outcome.stopped, [
        { run_id: "r2", thread_id: "t", kind: "flagged", end_frame: null, lock_token: null },
      ]);
      const last = (await claimNext(storage, here, claimTerms("w2"))) as ClaimedRun;
      assert.deepEqual([last.run.run_id, last.cancelled, last.resumed, last.run.attempt], ["r2", true, true, 0]);
      await storage.finishRun(here, last.lease, finish({ status: "interrupted" }));
      assert.equal((await claimNext(storage, here, claimTerms("w3")))?.run.run_id, "r3");
    });
  });

  api.describe("stopRuns", () => {
    const named = (storage: Storage, action: StopAction, ...run_ids: readonly string[]) =>
      storage.stopRuns(here, { thread_id: "t", run_ids }, action, 2000);

    test("interrupts a pending run at once, a running one by its worker, an ended one not", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const { lease } = await createClaimedRun(storage, assistant, "t", "r1");
      await createPendingRun(storage, assistant, "t", "r2");
      assert.deepEqual(await named(storage, "interrupt", "r2", "r9"), [
        { run_id: "r2", thread_id: "t", kind: "ended", end_frame: 1, lock_token: null },
      ]);
      const waiting = await storage.getRun(here, "r2");
      assert.deepEqual([waiting?.status, waiting?.ended_at, waiting?.end_frame], ["interrupted", 2000, 1]);
      assert.deepEqual(await storage.renewLease(here, lease, 5000), { cancelled: false });
      const flagged = [{ run_id: "r1", thread_id: "t", kind: "flagged", end_frame: null, lock_token: "token-r1" }];
      assert.deepEqual(await named(storage, "interrupt", "r1", "r2"), flagged);
      assert.deepEqual(await named(storage, "interrupt", "r1"), flagged, "and again");
      assert.deepEqual(await storage.renewLease(here, lease, 5000), { cancelled: true });
      assert.equal((await storage.getThread(here, "t"))?.running, "r1");
      await storage.finishRun(here, lease, finish({ thread: { ...finish().thread, status: "interrupted" } }));
      for (const action of ["interrupt", "rollback"] as const) assert.deepEqual(await named(storage, action, "r1"), []);
      assert.equal(await statuses(storage, "t"), "r1 success,r2 interrupted");
      await createPendingRun(storage, assistant, "t", "r3");
      await named(storage, "interrupt", "r3");
      assert.equal((await storage.getThread(here, "t"))?.status, "interrupted", "the state is unchanged");
      await createThread(storage, "u");
      await createPendingRun(storage, assistant, "u", "u1");
      for (const action of ["interrupt", "rollback"] as const) assert.deepEqual(await named(storage, action, "u1"), []);
      assert.deepEqual(await named(storage, "rollback"), []);
    });

    test("rolls back the named runs, and keeps the thread lock", async (storage) => {
      const { assistant, r2 } = await answering(storage);
      await createPendingRun(storage, assistant, "t", "r3");
      await createPendingRun(storage, assistant, "t", "r4");
      const stopped = await named(storage, "rollback", "r1", "r2", "r3");
      assert.equal(formatOutcomes(stopped), "r2 deleted,r3 deleted");
      assert.equal(stopped.find(({ run_id }) => run_id === "r2")?.lock_token, "token-r2");
      assert.equal(await statuses(storage, "t"), "r1 success,r4 pending");
      await assertAsBefore(storage, r2);
      assert.equal((await storage.claimRun(here, claimTerms("early"))).kind, "blocked");
      await storage.releaseThreadLock(here, r2.lease);
      const next = (await claimNext(storage, here, claimTerms("w"))) as ClaimedRun;
      assert.equal(next.run.run_id, "r4");
      await assertNoValueLeft(storage, next);
    });

    test("stops the runs of a list, on every thread", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const id of ["t", "u", "v"]) {
        await createThread(storage, id);
        await createClaimedRun(storage, assistant, id, `${id}a`);
        await createPendingRun(storage, assistant, id, `${id}b`);
      }
      const stop = async (action: StopAction, ...run_ids: string[]) =>
        formatOutcomes(await storage.stopRuns(here, { run_ids }, action, 2000));
      assert.equal(await stop("interrupt", "tb", "ub", "unknown"), "tb ended,ub ended");
      assert.equal(await stop("interrupt", "ta", "tb"), "ta flagged");
      assert.equal(await stop("rollback", "va", "vb", "ub"), "va deleted,vb deleted");
      assert.equal((await storage.getThread(here, "v"))?.lock?.token, "token-va");
      assert.equal(await stop("rollback", "ta", "ua"), "ta deleted,ua deleted");
      assert.equal(await stop("rollback"), "");
      assert.equal(await statuses(storage, "t"), "tb interrupted");
      assert.equal((await storage.countActiveRuns(here, 9000)).running, 0);
    });

    test("leaves no hidden thread", async (storage) => {
      const assistant = await createAssistant(storage);
      const there = async (id: string) => (await storage.getThread(here, `thread-${id}`)) !== null;
      const r1 = await stateless(storage, assistant, "r1");
      const r2 = await stateless(storage, assistant, "r2");
      await storage.requeueRun(here, r2.lease, 1300);
      await storage.stopRuns(here, { run_ids: ["r1", "r2"] }, "rollback", 2000);
      assert.deepEqual([await there("r1"), await there("r2")], [true, false], "the executor of r1 still has the slot");
      await storage.releaseThreadLock(here, r1.lease);
      assert.equal(await there("r1"), false);

      await stateless(storage, assistant, "r3");
      await storage.stopRuns(here, { thread_id: "thread-r3", run_ids: ["r3"] }, "rollback", 2000);
      const ages = { stateless_before: 0, frames_before: 0, keys_before: 0, features: { feedback: 0, webhooks: 0 } };
      const terms = { ...ages, limit: 10 };
      assert.equal(await storage.deleteExpired(here, { ...terms, now: 4999 }), 0);
      assert.equal(await there("r3"), true);
      assert.equal(await storage.deleteExpired(here, { ...terms, now: 5000 }), 1, "its worker is dead");
      assert.equal(await there("r3"), false);

      const r4 = await stateless(storage, assistant, "r4");
      await storage.requeueRun(here, r4.lease, 1300);
      assert.equal(await storage.deleteRun(here, "thread-r4", "r4", 9_000), "deleted");
      assert.equal(await there("r4"), false);
      await stateless(storage, assistant, "r5");
      await storage.stopRuns(here, { run_ids: ["r5"] }, "interrupt", 2000);
      assert.equal(await there("r5"), true);
      assert.equal(await storage.deleteRun(here, "thread-r5", "r5", 9_000), "running");
      assert.equal(await there("r5"), true);
    });

    test("takes effect after the death of a worker, and the last claim is no attempt", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const first = await createClaimedRun(storage, assistant, "t", "r1");
      await named(storage, "interrupt", "r1");
      assert.equal(await claimNext(storage, here, { ...claimTerms("w2"), now: 4999 }), null);
      const terms = { ...claimTerms("w2"), now: 5000, lease_until: 6000 };
      const second = (await claimNext(storage, here, terms)) as ClaimedRun;
      assert.deepEqual([second.cancelled, second.run.attempt, second.run.claims], [true, 1, 2]);
      assert.equal(await storage.finishRun(here, first.lease, finish()), null);
      assert.equal(await storage.requeueRun(here, second.lease, 5100), true);
      assert.equal((await storage.getRun(here, "r1"))?.attempt, 1, "the claim did not count as an attempt");
      const third = (await claimNext(storage, here, { ...claimTerms("w3"), now: 5200 })) as ClaimedRun;
      assert.deepEqual([third.cancelled, third.run.attempt, third.run.claims], [true, 1, 3]);
      await storage.requeueRun(here, third.lease, 5300);
      assert.equal(
        formatOutcomes(await named(storage, "interrupt", "r1")),
        "r1 flagged",
        "an attempt ends what others have begun",
      );
    });

    test("returns the attempt that a shutdown took from a run that was to stop", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const { lease } = await createClaimedRun(storage, assistant, "t", "r1");
      await storage.saveProgress(here, lease, progress([checkpoint("c1", {})]), 1200);
      await named(storage, "interrupt", "r1");
      await storage.requeueRun(here, lease, 1300);
      const again = (await claimNext(storage, here, claimTerms("w"))) as ClaimedRun;
      assert.deepEqual([again.cancelled, again.resumed, again.run.attempt, again.run.claims], [true, true, 0, 2]);
    });
  });
}

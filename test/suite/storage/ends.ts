/** Tests of the end of runs. */
import assert from "node:assert/strict";
import type { Json } from "../../../lib/json.ts";
import type { ClaimedRun, Lease, Storage, ThreadRow } from "../../../lib/storage/mod.ts";
import {
  checkpoint,
  claimNext,
  claimTerms,
  createAssistant,
  createClaimedRun,
  createFinishedRun,
  createPendingRun,
  createThread,
  finish,
  here,
  progress,
  requireCreated,
  type StorageTest,
  type SuiteApi,
  statuses,
  write,
} from "./material.ts";

export function endTests(api: SuiteApi, test: StorageTest): void {
  api.describe("the end of a run", () => {
    test("changes run, thread and thread lock together, once", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const { lease } = await createClaimedRun(storage, assistant, "t", "r1");
      await createPendingRun(storage, assistant, "t", "r2");
      const end = finish({
        status: "interrupted",
        error: { error: "E", message: "m" },
        stack: "E: m\n    at agent",
        result: [1],
        progress: progress([checkpoint("c1", { x: "v" })]),
        thread: { head: "c1", status: "error", interrupts: { task: [{ value: 1 }] }, error: { error: "E" } },
        now: 3000,
      });
      assert.deepEqual(await storage.finishRun(here, lease, end), { next: null });
      const run = await storage.getRun(here, "r1");
      assert.equal(run?.status, "interrupted");
      assert.deepEqual([run?.error, run?.result, run?.ended_at, run?.updated_at], [end.error, [1], 3000, 3000]);
      assert.equal(run?.stack, end.stack);
      assert.equal(run?.end_frame, 9);
      const thread = (await storage.getThread(here, "t")) as ThreadRow;
      assert.equal(thread.status, "busy", "r2 waits");
      assert.equal(thread.running, null);
      assert.deepEqual([thread.head, thread.interrupts, thread.error], ["c1", end.thread.interrupts, end.thread.error]);
      assert.deepEqual([thread.updated_at, thread.state_updated_at], [3000, 3000]);
      assert.equal((await storage.getCheckpoint(here, "t", { ns: "" }))?.run_id, "r1");

      assert.equal(await storage.finishRun(here, lease, finish({ now: 4000 })), null, "a second end changes nothing");
      assert.equal(await storage.saveProgress(here, lease, progress([checkpoint("c2", {})]), 4000), false);
      assert.equal((await storage.getRun(here, "r1"))?.status, "interrupted");
      const next = (await claimNext(storage, here, claimTerms("w2"))) as ClaimedRun;
      assert.equal(next.run.run_id, "r2");
      const idle = { status: "idle", interrupts: {}, error: null } as const;
      await storage.finishRun(here, next.lease, finish({ thread: { head: null, ...idle } }));
      assert.equal((await storage.getThread(here, "t"))?.head, "c1", "null keeps the head");
      assert.deepEqual((await storage.getThread(here, "t"))?.interrupts, {});
      assert.equal((await storage.getThread(here, "t"))?.status, "idle");
    });

    test("distinguishes a result of null from none, and keeps every other value", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const [i, result] of ([null, false, 0, "", [], {}] as Json[]).entries()) {
        await createThread(storage, `t${i}`);
        await createFinishedRun(storage, assistant, `t${i}`, `r${i}`, {}, { result });
        assert.deepEqual((await storage.getRun(here, `r${i}`))?.result, result);
      }
    });

    test("deletes the checkpoints of a temporary run", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const thread of ["t", "u"]) {
        await createThread(storage, thread);
        const { lease } = await createClaimedRun(storage, assistant, thread, `run-${thread}`);
        const saved = progress([checkpoint("c1", { x: 1 })], [write("c1", "task", 0, "y")]);
        assert.equal(await storage.saveProgress(here, lease, saved, 1200), true);
        await storage.finishRun(here, lease, finish({ discard: thread === "t", result: { x: 1 } }));
      }
      assert.equal(await storage.getCheckpoint(here, "t", { ns: "" }), null);
      assert.deepEqual((await storage.getRun(here, "run-t"))?.result, { x: 1 });
      assert.equal((await storage.getCheckpoint(here, "u", { ns: "" }))?.writes.length, 1);
    });

    test("requeues the run without charging the attempt", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const { lease } = await createClaimedRun(storage, assistant, "t", "r1");
      await createPendingRun(storage, assistant, "t", "r2");
      await storage.saveProgress(here, lease, progress([checkpoint("c1", {})]), 1200);
      assert.equal(await storage.requeueRun(here, lease, 1300), true);
      assert.equal(await storage.requeueRun(here, lease, 1300), false);
      const run = await storage.getRun(here, "r1");
      assert.deepEqual([run?.status, run?.attempt], ["pending", 0]);
      assert.equal(await storage.saveProgress(here, lease, progress([checkpoint("c2", {})]), 1300), false);
      const again = (await claimNext(storage, here, { ...claimTerms("w2"), now: 1300 })) as ClaimedRun;
      assert.deepEqual([again.run.run_id, again.run.attempt, again.resumed], ["r1", 1, true]);
    });

    test("claims the next run in the same batch", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const id of ["t", "u"]) await createThread(storage, id);
      const { lease } = await createClaimedRun(storage, assistant, "t", "t1");
      const later = (thread: string, id: string, now: number) =>
        requireCreated(storage, assistant, thread, id, { run: { created_at: now }, now });
      await later("t", "t2", 1300);
      await later("u", "u1", 1200);
      const order: string[] = [];
      for (let current = lease; ; ) {
        const token = `w${order.length}`;
        const outcome = await storage.finishRun(here, current, finish({ next: claimTerms(token) }));
        assert.ok(outcome);
        if (!outcome.next) break;
        const { run, thread } = outcome.next;
        order.push(run.run_id);
        current = outcome.next.lease;
        assert.deepEqual(current, { run_id: run.run_id, thread_id: run.thread_id, token });
        assert.deepEqual(
          [run.status, run.attempt, outcome.next.cancelled, outcome.next.last_frame],
          ["running", 1, false, 0],
        );
        assert.deepEqual(run, await storage.getRun(here, run.run_id));
        assert.deepEqual(thread, await storage.getThread(here, run.thread_id));
        assert.deepEqual(thread.lock, { token, until: 90000 });
      }
      assert.deepEqual(order, ["u1", "t2"], "what was due longest is first, whatever its thread");
    });

    test("claims no next run if the lease is lost, or no run is due or free", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const id of ["t", "u", "v"]) await createThread(storage, id);
      const { lease } = await createClaimedRun(storage, assistant, "t", "t1");
      const otherClaim = await createClaimedRun(storage, assistant, "u", "u1");
      await createPendingRun(storage, assistant, "u", "u2");
      await requireCreated(storage, assistant, "v", "v1", { run: { created_at: 8000 } });
      await requireCreated(storage, assistant, "v", "v2", { run: { graph_id: "other" } });
      assert.equal(await storage.finishRun(here, { ...lease, token: "x" }, finish({ next: claimTerms("w") })), null);
      const ended = await storage.finishRun(here, lease, finish({ next: claimTerms("w") }));
      assert.ok(ended);
      assert.equal(ended.next, null);
      assert.ok(ended.blocked ?? true, "u2 waits for its thread");
      assert.equal(await statuses(storage, "u"), "u1 running,u2 pending");
      await createPendingRun(storage, assistant, "t", "t2");
      assert.equal(await storage.finishRun(here, lease, finish({ next: claimTerms("w"), end_frame: 10 })), null);
      assert.equal(await statuses(storage, "t"), "t1 success,t2 pending");
      await storage.stopRuns(here, { thread_id: "u", run_ids: ["u1"] }, "rollback", 2000);
      assert.equal(await storage.finishRun(here, otherClaim.lease, finish({ next: claimTerms("w") })), null);
      assert.equal(await statuses(storage, "t"), "t1 success,t2 pending", "a run that is gone ends nothing");
    });

    test("claims a next run also if the end is repeated after a lost response", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const id of ["t", "u"]) await createThread(storage, id);
      const { lease } = await createClaimedRun(storage, assistant, "t", "t1");
      await createPendingRun(storage, assistant, "t", "t2");
      await createPendingRun(storage, assistant, "u", "u1");
      const end = (token: string) => storage.finishRun(here, lease, finish({ next: claimTerms(token) }));
      assert.equal((await end("w1"))?.next?.run.run_id, "u1");
      assert.equal((await end("w2"))?.next?.run.run_id, "t2");
      assert.equal(await end("w3"), null);
      assert.equal(await statuses(storage, "t"), "t1 success,t2 running");
    });

    test("claims no next run for a worker whose run another worker has ended at the same moment", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const id of ["t", "u"]) await createThread(storage, id);
      const { lease } = await createClaimedRun(storage, assistant, "t", "t1");
      assert.equal(await storage.requeueRun(here, lease, 2000), true);
      const again = await claimNext(storage, here, claimTerms("w2"));
      assert.ok(again?.lease.run_id === "t1");
      await createPendingRun(storage, assistant, "u", "u1");
      const end = (by: Lease, claims: number, token: string) =>
        storage.finishRun(here, by, finish({ claims, next: claimTerms(token) }));
      assert.equal((await end(again.lease, 2, "w3"))?.next?.run.run_id, "u1");
      await createPendingRun(storage, assistant, "t", "t2");
      assert.equal(await end(lease, 1, "w4"), null);
      assert.equal(await statuses(storage, "t"), "t1 success,t2 pending");
    });

    test("releases only the run's thread lock, not that of a deleted thread's successor", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const { lease } = await createClaimedRun(storage, assistant, "t", "r1");
      await storage.releaseThreadLock(here, lease);
      await createPendingRun(storage, assistant, "t", "r2");
      assert.equal(await claimNext(storage, here, claimTerms("w2")), null, "a running run keeps its slot");
      await storage.finishRun(here, lease, finish());
      await claimNext(storage, here, claimTerms("w2"));
      await storage.releaseThreadLock(here, lease);
      await createPendingRun(storage, assistant, "t", "r3");
      assert.equal(await claimNext(storage, here, claimTerms("w3")), null, "the slot is w2's");
    });
  });

  api.describe("runs", () => {
    test("are listed newest first, by status and page", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      await createFinishedRun(storage, assistant, "t", "r1");
      for (const id of ["r2", "r3", "r4"]) await createPendingRun(storage, assistant, "t", id);
      const ids = async (query: Parameters<Storage["listRuns"]>[2]) =>
        (await storage.listRuns(here, "t", query)).map((run) => run.run_id).join();
      assert.equal(await ids({ limit: 10, offset: 0 }), "r4,r3,r2,r1");
      assert.equal(await ids({ limit: 2, offset: 1 }), "r3,r2");
      assert.equal(await ids({ limit: 10, offset: 0, status: "success" }), "r1");
      const below = (await storage.getRun(here, "r4"))?.seq as number;
      assert.equal(await ids({ limit: 2, offset: 0, below }), "r3,r2");
      assert.equal(await ids({ limit: 2, offset: 1, below, status: "pending" }), "r2");
      assert.equal(await ids({ limit: 10, offset: 0, status: "running" }), "");
      assert.deepEqual(await storage.listRuns(here, "u", { limit: 10, offset: 0 }), []);
    });

    test("are deleted while they do not run, and the state stays", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      await createFinishedRun(
        storage,
        assistant,
        "t",
        "r1",
        { head: "c1" },
        { progress: progress([checkpoint("c1", { x: 1 })]) },
      );
      const { lease } = await createClaimedRun(storage, assistant, "t", "r2");
      await createPendingRun(storage, assistant, "t", "r3");
      assert.equal(await storage.deleteRun(here, "u", "r1", 9_000), "not_found");
      assert.equal(await storage.deleteRun(here, "t", "r1", 9_000), "deleted");
      assert.equal(await storage.deleteRun(here, "t", "r1", 9_000), "not_found");
      assert.equal(await storage.deleteRun(here, "t", "r2", 9_000), "running");
      assert.equal(await storage.deleteRun(here, "t", "r3", 9_000), "deleted");
      assert.deepEqual(await storage.finishRun(here, lease, finish({ thread: { ...finish().thread, head: null } })), {
        next: null,
      });
      assert.equal((await storage.getThread(here, "t"))?.head, "c1");
      assert.equal((await storage.getCheckpoint(here, "t", { ns: "" }))?.checkpoint_id, "c1");
      assert.equal((await storage.getThread(here, "t"))?.status, "idle");
    });

    test("are deleted after a requeue with all that they have stored", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      await createFinishedRun(
        storage,
        assistant,
        "t",
        "r1",
        { head: "c1" },
        { progress: progress([checkpoint("c1", { x: 1 })]) },
      );
      const { lease } = await createClaimedRun(storage, assistant, "t", "r2");
      const remaining = progress([checkpoint("c2", { x: 2 })], [write("c1", "task", 0, "late")]);
      assert.equal(await storage.saveProgress(here, lease, remaining, 3000), true);
      assert.equal(await storage.requeueRun(here, lease, 3000), true);
      assert.equal(await storage.deleteRun(here, "t", "r2", 9_000), "deleted");
      const [only, ...otherCheckpoints] = await storage.listCheckpoints(here, "t", { limit: 10 });
      assert.deepEqual([only?.checkpoint_id, only?.writes, otherCheckpoints], ["c1", [], []]);
    });
  });
}

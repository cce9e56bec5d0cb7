/** Tests of thread events: what saves store, what stopped runs leave, and what a reader gets. */
import assert from "node:assert/strict";
import {
  type EventMethod,
  FIRST_EVENT_NUMBER,
  type Lease,
  type Storage,
  type ThreadEvent,
} from "../../../lib/storage/mod.ts";
import {
  claimNext,
  claimTerms,
  createAssistant,
  createClaimedRun,
  createPendingRun,
  createThread,
  finish,
  here,
  newRun,
  progress,
  requireCreated,
  type StorageTest,
  type SuiteApi,
  there,
} from "./material.ts";

const TURN = 2 ** 32;
const END = TURN - 1;
const NOTHING = progress([]);

const event = (seq: number, method: EventMethod = "messages", changes: Partial<ThreadEvent> = {}): ThreadEvent => ({
  seq,
  method,
  namespace: [],
  timestamp: 1200,
  data: `{"at":${seq}}`,
  ...changes,
});

/** Everything that a reader gets behind `after`, as turn and number. */
async function readSummary(storage: Storage, after = 0, methods?: ReadonlySet<EventMethod>): Promise<string> {
  const list: string[] = [];
  for (let at: number | null = after; at !== null; ) {
    const page = await storage.readEvents(here, "t", { after: at, ...(methods ? { methods } : {}) });
    for (const { seq, run_id, method } of page.events) {
      list.push(`${Math.floor(seq / TURN)}.${seq % TURN === END ? "end" : seq % TURN} ${run_id} ${method}`);
    }
    at = page.read_to;
  }
  return list.join();
}

async function createRunningRun(storage: Storage): Promise<Lease> {
  const assistant = await createAssistant(storage);
  await createThread(storage, "t");
  return (await createClaimedRun(storage, assistant, "t", "r1")).lease;
}

export function eventTests(api: SuiteApi, test: StorageTest): void {
  api.describe("thread events", () => {
    test("are returned in order, whole, and a second save doubles none", async (storage) => {
      const lease = await createRunningRun(storage);
      const save = (...events: ThreadEvent[]) => storage.saveProgress(here, lease, { ...NOTHING, events }, 1200);
      const full = event(TURN + 1, "custom", {
        namespace: ["a:1", "b"],
        node: "a",
        name: "notes",
        data: '"\\u0000é😀"',
      });
      const values = event(TURN + 2, "values", { data: null, checkpoint_id: "c1" });
      assert.equal(await save(full, values), true);
      assert.equal(await save(full, values), true);
      assert.equal(await save(event(TURN + 9)), true);
      assert.equal(await save(event(TURN + 9), event(TURN + 10)), true, "with more than the first time");
      assert.equal(await save(event(TURN + 9)), true, "and with less");
      const { events } = await storage.readEvents(here, "t", { after: 0 });
      assert.deepEqual(events.slice(0, 2), [
        { ...full, run_id: "r1" },
        { ...values, run_id: "r1" },
      ]);
      assert.equal(await readSummary(storage), "1.1 r1 custom,1.2 r1 values,1.9 r1 messages,1.10 r1 messages");
      assert.equal(await readSummary(storage, TURN + 1), "1.2 r1 values,1.9 r1 messages,1.10 r1 messages");
      assert.equal(await readSummary(storage, TURN + 9), "1.10 r1 messages");
      assert.equal(await readSummary(storage, TURN + 10), "");
      assert.equal(await readSummary(storage, 0, new Set(["values"])), "1.2 r1 values");
      assert.equal(await readSummary(storage, 0, new Set(["tools"])), "");
      assert.equal(await storage.getLastEventSeq(here, "t"), TURN + 10);
    });

    test("are read in pages", async (storage) => {
      const lease = await createRunningRun(storage);
      const largeText = JSON.stringify("x".repeat(100_000));
      for (let at = 1; at <= 40; at++) {
        await storage.saveProgress(
          here,
          lease,
          { ...NOTHING, events: [event(TURN + at, "messages", { data: largeText })] },
          1200,
        );
      }
      const first = await storage.readEvents(here, "t", { after: 0 });
      assert.ok(first.events.length >= 10 && first.events.length <= 20, `${first.events.length} of 100 KB each`);
      assert.equal((await readSummary(storage)).split(",").length, 40);
    });

    test("of a lost lease, of another deployment or of an excluded thread are not stored or returned", async (storage) => {
      const lease = await createRunningRun(storage);
      const events = [event(TURN + 1)];
      assert.equal(await storage.saveProgress(here, { ...lease, token: "other" }, { ...NOTHING, events }, 1200), false);
      assert.equal(await readSummary(storage), "");
      await storage.saveProgress(here, lease, { ...NOTHING, events }, 1200);
      const filter = [{ key: "owner", equals: "eve" }];
      assert.deepEqual(await storage.readEvents({ ...here, filter }, "t", { after: 0 }), {
        events: [],
        read_to: null,
        has_more: false,
      });
      assert.equal(await storage.getLastEventSeq({ ...here, filter }, "t"), 0);
      assert.deepEqual(await storage.readEvents(there, "t", { after: 0 }), {
        events: [],
        read_to: null,
        has_more: false,
      });
      assert.equal(await storage.recordAllEvents({ ...here, filter }, "t"), false);
      assert.equal(await storage.recordAllEvents(here, "unknown"), false);
      assert.equal((await storage.getThread(here, "t"))?.records_all, false);
      assert.equal(await storage.recordAllEvents(here, "t"), true);
      assert.equal((await storage.getThread(here, "t"))?.records_all, true);
    });

    test("are stored with the end of their run", async (storage) => {
      const lease = await createRunningRun(storage);
      const events = [event(TURN + 1), event(TURN + END, "lifecycle")];
      await storage.finishRun(here, lease, finish({ progress: { ...NOTHING, events } }));
      assert.equal(await readSummary(storage), "1.1 r1 messages,1.end r1 lifecycle");
    });

    test("of a deleted run are deleted, except for its end", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const { lease } = await createClaimedRun(storage, assistant, "t", "r1");
      await storage.saveProgress(here, lease, { ...NOTHING, events: [event(TURN + FIRST_EVENT_NUMBER)] }, 1200);
      const events = [event(TURN + FIRST_EVENT_NUMBER + 1), event(TURN + END, "lifecycle")];
      await storage.finishRun(here, lease, finish({ progress: { ...NOTHING, events } }));
      assert.equal(await storage.deleteRun(here, "t", "r1", 9_000), "deleted");
      assert.equal(await readSummary(storage), "1.end r1 lifecycle");
      for (const id of ["r2", "r3"]) await createPendingRun(storage, assistant, "t", id);
      const second = (await claimNext(storage, here, claimTerms("second")))?.lease as Lease;
      await storage.saveProgress(here, second, { ...NOTHING, events: [event(2 * TURN + FIRST_EVENT_NUMBER)] }, 3200);
      assert.equal(await storage.deleteRun(here, "t", "r2", 9_100), "running");
      await storage.requeueRun(here, second, 1300);
      for (const id of ["r2", "r3"]) assert.equal(await storage.deleteRun(here, "t", id, 9_200), "deleted");
      assert.equal(await readSummary(storage), "1.end r1 lifecycle,3.2 r2 lifecycle,4.3 r3 lifecycle");
      const keptEvents = await storage.readEvents(here, "t", { after: 0 });
      const interrupted = '{"event":"interrupted"}';
      assert.deepEqual(
        keptEvents.events.map(({ data, timestamp }) => [data, timestamp]),
        [9_000, 9_200, 9_200].map((at) => [interrupted, at]),
      );
      assert.equal(await storage.deleteRun(here, "t", "r3", 9_300), "not_found");
      assert.equal(await readSummary(storage), "1.end r1 lifecycle,3.2 r2 lifecycle,4.3 r3 lifecycle");
    });

    test("of a rolled-back run are replaced by its end", async (storage) => {
      const lease = await createRunningRun(storage);
      await storage.saveProgress(here, lease, { ...NOTHING, events: [event(TURN + 1)] }, 1200);
      await storage.stopRuns(here, { thread_id: "t", run_ids: ["r1"] }, "rollback", 1300);
      assert.equal(await readSummary(storage), "2.1 r1 lifecycle");
      const { events } = await storage.readEvents(here, "t", { after: 0 });
      assert.deepEqual(
        events.map(({ data, timestamp }) => [data, timestamp]),
        [['{"event":"interrupted"}', 1300]],
      );
    });

    test("have the end of a run that never started, after the end of the run before it", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const { lease } = await createClaimedRun(storage, assistant, "t", "r1");
      for (const id of ["r2", "r3"]) await createPendingRun(storage, assistant, "t", id);
      await storage.stopRuns(here, { thread_id: "t", run_ids: ["r2"] }, "interrupt", 1300);
      await storage.stopRuns(here, { thread_id: "t", run_ids: ["r3"] }, "rollback", 1300);
      await storage.saveProgress(here, lease, { ...NOTHING, events: [event(TURN + 1)] }, 1400);
      assert.equal(await readSummary(storage), "1.1 r1 messages", "the run that executes may store more before them");
      assert.equal(await storage.getLastEventSeq(here, "t"), TURN + 1);
      const end = [event(TURN + END, "lifecycle")];
      await storage.finishRun(here, lease, finish({ progress: { ...NOTHING, events: end } }));
      assert.equal(await readSummary(storage), "1.1 r1 messages,1.end r1 lifecycle,2.2 r2 lifecycle,3.3 r3 lifecycle");
      const { claimed: next } = await requireCreated(storage, assistant, "t", "r4", {
        claim: { token: "token-r4", lease_until: 5000 },
      });
      assert.equal(next?.run.claim_number, 4, "a claim takes a later turn");
    });

    test("of a run that is stopped before its first attempt come after those that readers may have", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const { lease } = await createClaimedRun(storage, assistant, "t", "r1");
      await createPendingRun(storage, assistant, "t", "r2");
      await storage.saveProgress(here, lease, { ...NOTHING, events: [event(TURN + 1)] }, 1200);
      await storage.requeueRun(here, lease, 1300);
      await storage.stopRuns(here, { thread_id: "t", run_ids: ["r2"] }, "interrupt", 1400);
      assert.equal(await readSummary(storage), "1.1 r1 messages,2.2 r2 lifecycle");
      // Only an attempt can close what the one before has left open.
      const [stopped] = await storage.stopRuns(here, { thread_id: "t", run_ids: ["r1"] }, "interrupt", 1500);
      assert.equal(stopped?.kind, "flagged");
      assert.equal(await readSummary(storage, 2 * TURN + 2), "");
    });

    test("of runs that a new run evicts come before those of the new run", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      await createPendingRun(storage, assistant, "t", "r1");
      const { claimed: run } = await requireCreated(storage, assistant, "t", "r2", {
        run: { multitask_strategy: "interrupt" },
        claim: { token: "token-r2", lease_until: 5000 },
      });
      assert.ok(run);
      const { claim_number } = run.run;
      const events = [event(claim_number * TURN + 65_536)];
      await storage.saveProgress(here, run.lease, { ...NOTHING, events }, 1200);
      assert.equal(await readSummary(storage), `${claim_number}.1 r1 lifecycle,${claim_number}.65536 r2 messages`);
    });

    test("of a retried run follow those of the attempt before", async (storage) => {
      const lease = await createRunningRun(storage);
      await storage.saveProgress(here, lease, { ...NOTHING, events: [event(TURN + 1)] }, 1200);
      await storage.requeueRun(here, lease, 1300);
      const again = await claimNext(storage, here, claimTerms("token-again"));
      assert.equal(again?.run.claim_number, 2);
      await storage.saveProgress(here, again?.lease as Lease, { ...NOTHING, events: [event(2 * TURN + 1)] }, 1500);
      assert.equal(await readSummary(storage), "1.1 r1 messages,2.1 r1 messages");
    });

    test("of a recreated thread come after those of its predecessor, whatever both were created by", async (storage) => {
      let assistant = await createAssistant(storage);
      const deletions: Record<string, () => Promise<unknown>> = {
        "by itself": () => storage.deleteThread(here, "t"),
        "with others": () => storage.pruneThreads(here, { thread_ids: ["t", "u"], strategy: "delete" }, 2000),
        "in time": () => storage.pruneThreads(here, { max_expired: 10 }, 1e12),
        "with its assistant": () => storage.deleteAssistant(here, "a", { delete_threads: true }),
      };
      const ttl = { strategy: "delete", ttl_ms: 1 } as const;
      const metadata = { assistant_id: "a" };
      const thread = { thread_id: "t", metadata, config: {}, stateless: false, ttl };
      const creations: Record<string, () => Promise<unknown>> = {
        "by itself": () => storage.createThread(here, thread, 1000),
        "as a copy": async () => {
          const { revision: expected_revision } = await createThread(storage, "u", metadata);
          return await storage.copyThread(here, { from: "u", expected_revision, thread_id: "t", metadata }, 1000);
        },
        "by a run": async () => {
          const expected = { assistant_revision: assistant.revision, thread_revision: null };
          const run = newRun("t", `first ${turn}`);
          const claim = { token: `first ${turn}`, lease_until: 5000 };
          const outcome = await storage.createRun(here, { run, expected, create_thread: thread, claim, now: 1100 });
          assert.ok(outcome.kind === "created" && outcome.claimed);
          assert.equal(outcome.claimed.run.claim_number, ++turn, "the run that creates the thread");
          await storage.finishRun(here, outcome.claimed.lease, finish());
        },
      };
      let turn = 0;
      for (const [deleted, remove] of Object.entries(deletions)) {
        for (const [creation, create] of Object.entries(creations)) {
          await create();
          if (deleted === "in time" && creation === "as a copy") {
            await storage.updateThread(here, "t", () => ({ metadata, ttl }), 1000);
          }
          const { run, lease } = await createClaimedRun(storage, assistant, "t", `run ${turn}`);
          assert.equal(run.claim_number, ++turn, `made ${creation}, to be deleted ${deleted}`);
          await storage.finishRun(here, lease, finish());
          await remove();
          assert.equal(await storage.getThread(here, "t"), null, deleted);
          await storage.deleteThread(here, "u");
          assistant = await createAssistant(storage);
        }
      }
    });

    test("are deleted after their retention", async (storage) => {
      const lease = await createRunningRun(storage);
      await storage.saveProgress(here, lease, { ...NOTHING, events: [event(TURN + 1)] }, 1200);
      const ages = {
        stateless_before: 0,
        keys_before: 0,
        features: { feedback: 0, webhooks: 0 },
        limit: 10,
        now: 9000,
      };
      assert.equal(await storage.deleteExpired(here, { ...ages, frames_before: 1200 }), 0);
      assert.equal(await storage.deleteExpired(there, { ...ages, frames_before: 1e15 }), 0);
      assert.equal(await storage.deleteExpired(here, { ...ages, frames_before: 1201 }), 1);
      assert.equal(await readSummary(storage), "");
    });
  });
}

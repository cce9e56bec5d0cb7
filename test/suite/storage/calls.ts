/** Tests of the calls of durable functions: journals, suspended runs, events. */
import assert from "node:assert/strict";
import type { AssistantRow, ClaimedRun, DurableCallProgress, Progress, Storage } from "../../../lib/storage/mod.ts";
import {
  checkpoint,
  claimNext,
  claimTerms,
  createAssistant,
  createClaimedRun,
  createPendingRun,
  createThread,
  finish,
  here,
  progress,
  request,
  type StorageTest,
  type SuiteApi,
  there,
} from "./material.ts";

const start = { graph_id: "echo", origin: '{"input":1}' };

const createAddition = (call: Partial<DurableCallProgress>): Progress => ({
  ...progress([]),
  call: { call_id: "c1", entries: [], ...call },
});

const entry = (idx: number): { idx: number; entry: string } => ({ idx, entry: JSON.stringify({ idx }) });

/** Claims a run on thread `t` and opens a durable call for it. */
async function openCall(storage: Storage): Promise<ClaimedRun> {
  const assistant = await createAssistant(storage);
  await createThread(storage, "t");
  const run = await createClaimedRun(storage, assistant, "t", "r1");
  const first = { ...createAddition({ start, entries: [entry(0)] }), ...progress([checkpoint("k1", { x: "v" })]) };
  assert.equal(await storage.saveProgress(here, run.lease, first, 2000), true);
  return run;
}

const suspend = (
  storage: Storage,
  { lease }: ClaimedRun,
  due_at: number | null,
  last_event_seq = 0,
): Promise<{ due_at: number } | null> =>
  storage.suspendRun(
    here,
    lease,
    { progress: createAddition({ entries: [entry(1)] }), due_at, waiting_for: [{ kind: "wait" }], last_event_seq },
    3000,
  );

const readJournal = async (storage: Storage, thread_id = "t", call_id = "c1"): Promise<number[]> =>
  (await storage.readJournalEntries(here, thread_id, call_id, 0)).map(({ idx }) => idx);

export function callTests(api: SuiteApi, test: StorageTest): void {
  api.describe("a durable call", () => {
    test("grows with the saves of its run, and not without the lease", async (storage) => {
      const { lease } = await openCall(storage);
      const call = await storage.getCall(here, "t", "c1");
      assert.deepEqual(
        [call?.run_id, call?.graph_id, call?.origin, call?.due_at, call?.ended_at],
        ["r1", "echo", start.origin, null, null],
      );
      assert.equal((await storage.getRun(here, "r1"))?.call_id, "c1");
      assert.equal((await storage.getNewestCall(here, "t"))?.call_id, "c1");
      const addition = createAddition({ entries: [entry(1), entry(2)] });
      assert.equal(await storage.saveProgress(here, lease, addition, 2000), true);
      assert.equal(await storage.saveProgress(here, lease, addition, 2000), true, "again");
      const stranger = { ...lease, token: "other" };
      assert.equal(await storage.saveProgress(here, stranger, createAddition({ entries: [entry(3)] }), 2000), false);
      assert.deepEqual(await readJournal(storage), [0, 1, 2]);
      assert.deepEqual(await storage.readJournalEntries(here, "t", "c1", 2), [entry(2)]);
      assert.equal(await storage.getCall(there, "t", "c1"), null);
      await storage.finishRun(
        here,
        lease,
        finish({ progress: createAddition({ release: { due_at: null, ended: true, last_event_seq: 0 } }), now: 5000 }),
      );
      assert.equal((await storage.getCall(here, "t", "c1"))?.ended_at, 5000);
    });

    test("returns long journals in parts, in order", async (storage) => {
      const { lease } = await openCall(storage);
      const entries = Array.from({ length: 2_600 }, (_, i) => entry(i + 1));
      await storage.saveProgress(here, lease, createAddition({ entries }), 2000);
      const first = await storage.readJournalEntries(here, "t", "c1", 0);
      const remainingEntries = await storage.readJournalEntries(here, "t", "c1", first.length);
      assert.deepEqual(
        [...first, ...remainingEntries].map(({ idx }) => idx),
        Array.from({ length: 2_601 }, (_, i) => i),
      );
    });
  });

  api.describe("a suspended run", () => {
    test("releases its thread lock, and is claimed when it is due", async (storage) => {
      const run = await openCall(storage);
      assert.deepEqual(await suspend(storage, run, 9_000), { due_at: 9_000 });
      const row = await storage.getRun(here, "r1");
      assert.deepEqual(
        [row?.status, row?.attempt, row?.claims, row?.waiting_for],
        ["pending", 0, 1, [{ kind: "wait" }]],
      );
      const thread = await storage.getThread(here, "t");
      assert.deepEqual([thread?.status, thread?.lock, thread?.running], ["busy", null, null]);
      assert.equal(await storage.countSuspended(here), 1);
      assert.equal(await suspend(storage, run, 9_000), null, "the lease is gone");
      assert.equal(await claimNext(storage, here, { ...claimTerms("w2"), now: 8_999 }), null);
      const next = await claimNext(storage, here, { ...claimTerms("w3"), now: 9_000 });
      assert.deepEqual(
        [next?.run.run_id, next?.run.attempt, next?.resumed, next?.run.waiting_for],
        ["r1", 1, true, undefined],
      );
      assert.equal(await storage.countSuspended(here), 0);
    });

    test("keeps its thread, and does not count as pending", async (storage) => {
      const assistant = await createAssistant(storage);
      const run = await openCall(storage);
      await suspend(storage, run, null);
      await createPendingRun(storage, assistant, "t", "r2");
      assert.equal(await claimNext(storage, here, { ...claimTerms("w2"), now: 1e12 }), null);
      await createThread(storage, "t2");
      const limits = { pending_per_thread: 10, pending: 2 };
      const outcome = await storage.createRun(here, { ...(await request(storage, assistant, "t2", "r3")), limits });
      assert.equal(outcome.kind, "created", "one run is pending");
    });

    test("is due at once after an event that its attempt has not received, and after a stop", async (storage) => {
      const run = await openCall(storage);
      const event = { name: "go", occurrence: null, payload: { a: 1 } };
      assert.equal(await storage.addCallEvent(here, { thread_id: "t", call_id: "c1" }, event, 2500), "stored");
      assert.deepEqual(await suspend(storage, run, null), { due_at: 3000 });
      const next = (await claimNext(storage, here, { ...claimTerms("w2"), now: 3000 })) as ClaimedRun;
      assert.deepEqual(await storage.readCallEvents(here, "t", "c1", 0), [{ seq: 1, ...event }]);
      const asleep = await suspend(storage, next, null, 1);
      assert.ok(asleep && asleep.due_at > 1e15);
      await storage.addCallEvent(here, { thread_id: "t", call_id: "c1" }, event, 4000);
      // The clock is set back meanwhile, here and below.
      const woken = (await claimNext(storage, here, { ...claimTerms("w3"), now: 3500 })) as ClaimedRun;
      assert.equal(woken.run.run_id, "r1");
      await suspend(storage, woken, null, 2);
      await storage.stopRuns(here, { thread_id: "t", run_ids: ["r1"] }, "interrupt", 5000);
      const stopped = await claimNext(storage, here, { ...claimTerms("w4"), now: 3500 });
      assert.deepEqual([stopped?.run.run_id, stopped?.cancelled], ["r1", true]);
    });

    test("is deleted with its journal by a rollback or a deletion", async (storage) => {
      const run = await openCall(storage);
      await suspend(storage, run, null);
      await storage.stopRuns(here, { thread_id: "t", run_ids: ["r1"] }, "rollback", 5000);
      assert.equal(await storage.getCall(here, "t", "c1"), null);
      assert.deepEqual(await readJournal(storage), []);
    });
  });

  api.describe("the events of a durable call", () => {
    test("are stored once by their token", async (storage) => {
      const { lease } = await openCall(storage);
      const tokens = [{ token_hash: "h", name: "go", occurrence: 1 }];
      await storage.saveProgress(here, lease, createAddition({ tokens }), 2000);
      assert.equal(await storage.findToken(here, "other"), null);
      assert.equal(await storage.findToken(there, "h"), null);
      const storedToken = await storage.findToken(here, "h");
      assert.deepEqual(
        [storedToken?.call.call_id, storedToken?.name, storedToken?.occurrence, storedToken?.answer],
        ["c1", "go", 1, undefined],
      );
      const to = { thread_id: "t", call_id: "c1" };
      assert.equal(
        await storage.addCallEvent(here, to, { name: "go", occurrence: 1, payload: "\u0000" }, 3000),
        "stored",
      );
      assert.equal(await storage.addCallEvent(here, to, { name: "go", occurrence: 1, payload: 2 }, 3000), null);
      assert.equal((await storage.findToken(here, "h"))?.answer, "\u0000");
      await storage.finishRun(
        here,
        lease,
        finish({ progress: createAddition({ release: { due_at: null, ended: true, last_event_seq: 0 } }) }),
      );
      assert.equal(
        await storage.addCallEvent(here, to, { name: "go", occurrence: null, payload: 3 }, 9000),
        null,
        "ended",
      );
    });

    test("make a call due that has no active run", async (storage) => {
      const { lease } = await openCall(storage);
      await storage.finishRun(
        here,
        lease,
        finish({ progress: createAddition({ release: { due_at: 9000, ended: false, last_event_seq: 0 } }) }),
      );
      assert.deepEqual(await storage.listDueCalls(here, 8999, 10), []);
      const [dueCall] = await storage.listDueCalls(here, 9000, 10);
      assert.equal(dueCall?.call_id, "c1");
      await storage.addCallEvent(
        here,
        { thread_id: "t", call_id: "c1" },
        { name: "go", occurrence: null, payload: 1 },
        4000,
      );
      const [now] = await storage.listDueCalls(here, 4000, 10);
      assert.equal(now?.due_at, 4000);
      await storage.setCallDue(here, dueCall as NonNullable<typeof dueCall>, null, null);
      assert.equal((await storage.listDueCalls(here, 4000, 10)).length, 1, "it is not due as seen");
      await storage.setCallDue(here, now as NonNullable<typeof now>, null, 4500);
      assert.equal((await storage.getCall(here, "t", "c1"))?.ended_at, 4500);
    });

    test("hide no due call behind those of busy threads", async (storage) => {
      const { lease } = await openCall(storage);
      const release = { due_at: 9000, ended: false, last_event_seq: 0 };
      await storage.finishRun(here, lease, finish({ progress: createAddition({ release }) }));
      const assistant = (await storage.getAssistant(here, "a")) as AssistantRow;
      const { lease: otherLease } = await createClaimedRun(storage, assistant, "t", "r2");
      assert.deepEqual(await storage.listDueCalls(here, 9000, 10), []);
      await storage.finishRun(here, otherLease, finish());
      assert.equal((await storage.listDueCalls(here, 9000, 10)).length, 1);
    });
  });

  api.describe("a copy of a thread", () => {
    test("has the durable calls of its ended runs", async (storage) => {
      const { lease } = await openCall(storage);
      const copy = async (thread_id: string): Promise<void> => {
        const thread = await storage.getThread(here, "t");
        const expected_revision = thread?.revision as number;
        const outcome = await storage.copyThread(here, { from: "t", expected_revision, thread_id, metadata: {} }, 6000);
        assert.equal(outcome.kind, "copied");
      };
      await copy("early");
      assert.equal(await storage.getCall(here, "early", "c1"), null);
      await storage.finishRun(
        here,
        lease,
        finish({ progress: createAddition({ release: { due_at: 9000, ended: false, last_event_seq: 0 } }) }),
      );
      await copy("late");
      assert.deepEqual(await readJournal(storage, "late"), [0]);
      assert.equal((await storage.getCall(here, "late", "c1"))?.due_at, null);
      await storage.deleteThread(here, "t");
      assert.deepEqual([await readJournal(storage), await readJournal(storage, "late")], [[], [0]]);
    });
  });
}

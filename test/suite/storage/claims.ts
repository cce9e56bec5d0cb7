/** Tests of claims: which worker may execute a run. */
import assert from "node:assert/strict";
import type { ClaimedRun, ClaimRequest, Storage } from "../../../lib/storage/mod.ts";
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
  newRun,
  progress,
  request,
  type StorageTest,
  type SuiteApi,
  write,
} from "./material.ts";

const claimLog = async (storage: Storage, run_id: string): Promise<unknown> =>
  (await storage.searchRuns(here, { run_id, limit: 1 })).rows[0]?.claim_log;

export function claimTests(api: SuiteApi, test: StorageTest): void {
  api.describe("claimRun", () => {
    test("returns whether runs wait for their threads, or none is due", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const kind = async (now: number): Promise<string> =>
        (await storage.claimRun(here, { token: `at ${now}`, lease_until: now + 5000, graph_ids: ["echo"], now })).kind;
      assert.equal(await kind(2000), "none");
      for (const run of ["t1", "t2"]) await storage.createRun(here, await request(storage, assistant, "t", run));
      assert.equal(await kind(2001), "claimed");
      assert.equal(await kind(2002), "blocked");
      assert.equal(await kind(7001), "claimed", "the first lease is over");
    });

    test("takes the oldest run of the thread that is due longest", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const id of ["t", "u"]) await createThread(storage, id);
      for (const [i, [thread, run]] of [
        ["t", "t1"],
        ["t", "t2"],
        ["u", "u1"],
        ["t", "t3"],
        ["u", "u2"],
      ].entries()) {
        await storage.createRun(here, {
          ...(await request(storage, assistant, thread as string, run as string)),
          run: newRun(thread as string, run as string, { created_at: 1100 + i }),
          now: 1100 + i,
        });
      }
      const order: string[] = [];
      for (;;) {
        const claim = await claimNext(storage, here, claimTerms(`token-${order.length}`));
        if (!claim) break;
        order.push(claim.run.run_id);
        await storage.finishRun(here, claim.lease, finish());
      }
      assert.deepEqual(order, ["t1", "t2", "u1", "t3", "u2"]);
    });

    test("never puts a run before an earlier one, even if its request was prepared first", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const first = await request(storage, assistant, "t", "r1");
      await storage.createRun(here, { ...first, run: newRun("t", "r1", { created_at: 1300 }), now: 1300 });
      const second = await request(storage, assistant, "t", "r2");
      const outcome = await storage.createRun(here, {
        ...second,
        run: newRun("t", "r2", { created_at: 1200 }),
        claim: { token: "early", lease_until: 5000 },
        now: 1200,
      });
      assert.ok(outcome.kind === "created" && outcome.claimed === null, "it waits");
      assert.equal((await claimNext(storage, here, { ...claimTerms("late"), now: 1250 }))?.run.run_id, "r1");
    });

    test("reads no clock for a run that was due at its creation, because the clock may be set back", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const [thread, created_at] of [
        ["t", 5000],
        ["u", 6000],
      ] as const) {
        await createThread(storage, thread);
        const terms = await request(storage, assistant, thread, `${thread}1`);
        await storage.createRun(here, { ...terms, run: newRun(thread, `${thread}1`, { created_at }), now: 5000 });
      }
      const now = 2000;
      const { oldest_due, pending, scheduled } = await storage.countActiveRuns(here, now);
      assert.deepEqual([pending, scheduled, oldest_due], [1, 1, 5000]);
      const claim = await claimNext(storage, here, { ...claimTerms("back"), now });
      assert.equal(claim?.run.run_id, "t1");
      const early = { token: "early", lease_until: 9000, graph_ids: ["echo"], now: 5999 };
      assert.equal((await storage.claimRun(here, early)).kind, "none", "the other one waits for its time");
      // A requeued run is due at once.
      assert.ok(claim && (await storage.requeueRun(here, claim.lease, now)));
      const again = await claimNext(storage, here, { ...claimTerms("again"), now: now - 1 });
      assert.equal(again?.run.run_id, "t1");
      await storage.finishRun(here, again?.lease as NonNullable<typeof again>["lease"], finish());
      assert.equal((await claimNext(storage, here, { ...claimTerms("in time"), now: 6000 }))?.run.run_id, "u1");
    });

    test("orders runs with a start time and others by how long they are due", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const [run_id, created_at, now] of [
        ["a1", 1500, 1500],
        ["b1", 1400, 1100],
        ["c1", 1300, 1300],
        ["d1", 1200, 1100],
      ] as const) {
        const thread = run_id.slice(0, 1);
        await createThread(storage, thread);
        const terms = await request(storage, assistant, thread, run_id);
        await storage.createRun(here, { ...terms, run: newRun(thread, run_id, { created_at }), now });
      }
      const order: (string | undefined)[] = [];
      for (let i = 0; i < 4; i++) {
        order.push((await claimNext(storage, here, { ...claimTerms(`w${i}`), now: 1600 }))?.run.run_id);
      }
      assert.deepEqual(order, ["d1", "c1", "b1", "a1"]);
    });

    test("keeps the order of a thread for any clocks and graphs of its runs", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      for (const [run_id, graph_id, now] of [
        ["r1", "other", 1300],
        ["r2", "echo", 1200],
      ] as const) {
        const terms = await request(storage, assistant, "t", run_id);
        await storage.createRun(here, { ...terms, run: newRun("t", run_id, { graph_id, created_at: now }), now });
      }
      assert.equal(await claimNext(storage, here, claimTerms("w")), null, "r1 is first, and not for this worker");
      const first = await claimNext(storage, here, { ...claimTerms("w"), graph_ids: ["other", "echo"] });
      assert.equal(first?.run.run_id, "r1");
    });

    test("gives each of many workers a different thread", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const thread of ["t", "u", "v"]) {
        await createThread(storage, thread);
        for (const n of [1, 2]) await createPendingRun(storage, assistant, thread, `${thread}${n}`);
      }
      const claims = await Promise.all(
        Array.from({ length: 8 }, (_, i) => claimNext(storage, here, claimTerms(`w${i}`))),
      );
      const successful = claims.filter((claim) => claim !== null);
      assert.deepEqual(successful.map((claim) => claim.run.run_id).sort(), ["t1", "u1", "v1"]);
      for (const claim of successful) {
        assert.equal(claim.run.status, "running");
        assert.deepEqual(claim.run, await storage.getRun(here, claim.run.run_id));
        assert.deepEqual(claim.thread, await storage.getThread(here, claim.run.thread_id));
      }
      assert.equal(await claimNext(storage, here, claimTerms("more")), null);
    });

    test("counts the claim number of its thread, also for a run that is claimed again or only ended", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const id of ["t", "u"]) await createThread(storage, id);
      const turns = async (...run_ids: readonly string[]) =>
        Promise.all(run_ids.map(async (run_id) => (await storage.getRun(here, run_id))?.claim_number));
      const first = await createClaimedRun(storage, assistant, "t", "t1");
      assert.equal(first.run.claim_number, 1);
      for (const id of ["t2", "t3"]) await createPendingRun(storage, assistant, "t", id);
      assert.deepEqual(await turns("t1", "t2", "t3"), [1, 0, 0]);
      const next = (await storage.finishRun(here, first.lease, finish({ next: claimTerms("w2") })))?.next as ClaimedRun;
      assert.deepEqual([next.run.run_id, next.run.claim_number], ["t2", 2]);
      assert.equal(await storage.requeueRun(here, next.lease, 2000), true);
      assert.deepEqual(await turns("t2"), [2]);
      const again = (await claimNext(storage, here, claimTerms("w3"))) as ClaimedRun;
      assert.deepEqual([again.run.run_id, again.run.attempt, again.run.claim_number], ["t2", 1, 3]);
      await storage.stopRuns(here, { thread_id: "t", run_ids: ["t2"] }, "interrupt", 2100);
      const late = { ...claimTerms("w4"), now: 9e9, lease_until: 1e10 };
      const stopped = (await claimNext(storage, here, late)) as ClaimedRun;
      assert.deepEqual([stopped.cancelled, stopped.run.claim_number], [true, 4]);
      assert.equal((await createClaimedRun(storage, assistant, "u", "u1")).run.claim_number, 1);
      const outcome = await storage.createRun(here, {
        run: newRun("v", "v1"),
        expected: { assistant_revision: assistant.revision, thread_revision: null },
        create_thread: { thread_id: "v", metadata: {}, config: {}, stateless: false },
        claim: { token: "w5", lease_until: 5000 },
        now: 1100,
      });
      assert.ok(outcome.kind === "created");
      assert.deepEqual([outcome.run.claim_number, outcome.claimed?.run.claim_number], [1, 1]);
      await storage.finishRun(here, (outcome.claimed as ClaimedRun).lease, finish());
      assert.equal((await createClaimedRun(storage, assistant, "v", "v2")).run.claim_number, 2);
    });

    test("is logged with its worker, for every kind of claim", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const log = (run_id: string) => claimLog(storage, run_id);
      const create = async (run_id: string, worker: string) =>
        storage.createRun(here, {
          ...(await request(storage, assistant, "t", run_id)),
          claim: { token: `at ${run_id}`, lease_until: 5000, worker },
        });
      const first = await create("r1", "a");
      assert.ok(first.kind === "created" && first.claimed);
      const expectedAttempts = [{ at: 1100, worker: "a" }];
      assert.deepEqual(await log("r1"), expectedAttempts);
      const second = await create("r2", "a");
      assert.ok(second.kind === "created" && !second.claimed);
      assert.deepEqual(await log("r2"), [], "r1 is running");

      // The lease is over.
      const over = (await claimNext(storage, here, { ...claimTerms("over"), now: 5000, worker: "b" })) as ClaimedRun;
      const both = [...expectedAttempts, { at: 5000, worker: "b" }];
      assert.deepEqual(await log("r1"), both);
      const next = { ...claimTerms("next"), now: 6000, worker: "b" };
      const end = finish({ claims: over.run.claims, next });
      assert.equal((await storage.finishRun(here, over.lease, end))?.next?.run.run_id, "r2");
      await storage.finishRun(here, over.lease, end);
      assert.deepEqual([await log("r1"), await log("r2")], [both, [{ at: 6000, worker: "b" }]]);
    });

    test("drops the oldest claims from a long log", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      let { lease } = await createClaimedRun(storage, assistant, "t", "r1");
      const worker = "w".repeat(900);
      for (let now = 2001; now <= 2009; now++) {
        assert.ok(await storage.requeueRun(here, lease, now));
        lease = ((await claimNext(storage, here, { ...claimTerms(`${now}`), now, worker })) as ClaimedRun).lease;
      }
      assert.deepEqual(
        await claimLog(storage, "r1"),
        [2006, 2007, 2008, 2009].map((at) => ({ at, worker })),
      );
    });

    test("takes only runs of the requested graphs", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      await createPendingRun(storage, assistant, "t", "r1");
      assert.equal(await claimNext(storage, here, { ...claimTerms("w"), graph_ids: [] }), null);
      assert.equal(await claimNext(storage, here, { ...claimTerms("w"), graph_ids: ["other"] }), null);
      assert.equal(
        (await claimNext(storage, here, { ...claimTerms("w"), graph_ids: ["other", "echo"] }))?.run.run_id,
        "r1",
      );
    });

    test("a late claim starts its run no earlier than the thread's last change", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      for (const run_id of ["r1", "r2"]) await createPendingRun(storage, assistant, "t", run_id);
      await storage.stopRuns(here, { thread_id: "t", run_ids: ["r1"] }, "interrupt", 1300);
      const late = await claimNext(storage, here, { ...claimTerms("w"), now: 1200 });
      assert.deepEqual([late?.run.run_id, late?.run.started_at], ["r2", 1300]);
    });

    test("takes over after the lease has expired; the first worker writes nothing more", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const { lease } = await createClaimedRun(storage, assistant, "t", "r1");
      assert.equal(await claimNext(storage, here, { ...claimTerms("w2"), now: 4999 }), null);
      assert.deepEqual(await storage.renewLease(here, lease, 7000), { cancelled: false });
      // A renewal that was sent earlier arrives later.
      assert.deepEqual(await storage.renewLease(here, lease, 6500), { cancelled: false });
      assert.equal((await storage.getThread(here, lease.thread_id))?.lock?.until, 7000);
      assert.equal(await claimNext(storage, here, { ...claimTerms("w2"), now: 6999 }), null);
      const second = (await claimNext(storage, here, { ...claimTerms("w2"), now: 7000 })) as ClaimedRun;
      assert.equal(second.run.run_id, "r1");
      assert.equal(second.run.attempt, 2);
      assert.equal(second.run.started_at, 1100);
      assert.equal(second.resumed, false);

      assert.equal(await storage.renewLease(here, lease, 99000), null);
      const late = progress([checkpoint("late", { x: 1 })], [write("late", "task", 0, "y")]);
      assert.equal(await storage.saveProgress(here, lease, late, 7100), false);
      assert.equal(await storage.finishRun(here, lease, finish({ progress: late })), null);
      assert.equal(await storage.finishRun(here, lease, finish({ discard: true })), null);
      assert.equal(await storage.requeueRun(here, lease, 7100), false);
      await storage.releaseThreadLock(here, lease);
      assert.deepEqual(await storage.listCheckpoints(here, "t", { limit: 10 }), []);
      assert.equal((await storage.getThread(here, "t"))?.running, "r1");
      assert.equal(await claimNext(storage, here, { ...claimTerms("w3"), now: 7200 }), null, "the slot is still taken");
      assert.deepEqual(await storage.finishRun(here, second.lease, finish()), { next: null });
    });

    test("returns whether an earlier attempt has stored a root checkpoint", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const first = await createClaimedRun(storage, assistant, "t", "r1");
      const inner = { ...checkpoint("s1", {}), ns: "sub" };
      await storage.saveProgress(here, first.lease, progress([inner]), 1200);
      const second = (await claimNext(storage, here, { ...claimTerms("w2"), now: 5000 })) as ClaimedRun;
      assert.equal(second.resumed, false);
      await storage.saveProgress(here, second.lease, progress([checkpoint("c1", {})]), 5100);
      const third = (await claimNext(storage, here, {
        ...claimTerms("w3"),
        now: 95000,
        lease_until: 99000,
      })) as ClaimedRun;
      assert.equal(third.resumed, true);
      assert.equal(third.run.attempt, 3);
    });

    /** Claims the run after each expired lease until its attempts are exhausted. Returns the number of starts. */
    async function starts(
      storage: Storage,
      terms: Partial<ClaimRequest>,
      store: (claim: ClaimedRun, now: number) => Promise<unknown>,
    ): Promise<number> {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      let claim = await createClaimedRun(storage, assistant, "t", "r1");
      for (let now = 5000; ; now += 1000) {
        await store(claim, now - 500);
        const next = { ...claimTerms(`w${now}`), now, lease_until: now + 1000, ...terms };
        claim = (await claimNext(storage, here, next)) as ClaimedRun;
        if (claim.exhausted || claim.run.attempt === 20) return claim.run.attempt;
      }
    }
    const step =
      (storage: Storage, ns = "") =>
      ({ lease, run }: ClaimedRun, now: number) =>
        storage.saveProgress(here, lease, progress([{ ...checkpoint(`c${run.attempt}`, {}), ns }]), now);
    const three = { max_attempts: { echo: 3 } };
    // It starts at 1100.
    const long = { ...three, progress_ms: { echo: 1e9 } };

    test("counts attempts from the last one that has stored a root checkpoint", async (storage) => {
      assert.equal(await starts(storage, long, step(storage)), 20);
    });

    test("counts attempts without progress: the first one with progress, and the others", async (storage) => {
      const forward = step(storage);
      const four = async (claim: ClaimedRun, now: number): Promise<unknown> =>
        claim.run.attempt <= 4 && (await forward(claim, now));
      assert.equal(await starts(storage, long, four), 6);
    });

    test("counts every attempt without a root checkpoint", async (storage) => {
      assert.equal(await starts(storage, long, step(storage, "sub")), 3);
    });

    test("starts a run once whose maximum is one attempt, whatever it has stored", async (storage) => {
      assert.equal(await starts(storage, { ...long, max_attempts: { echo: 1 } }, step(storage)), 1);
    });

    test("counts every attempt if progress does not count, or no more", async (storage) => {
      assert.equal(await starts(storage, { ...three, progress_ms: { other: 1e9 } }, step(storage)), 3);
    });

    test("counts every attempt after the timeout of a run", async (storage) => {
      // The claim at 11000 is the first that comes too late: the seven attempts before it are more than three.
      assert.equal(await starts(storage, { ...three, progress_ms: { echo: 9_500 } }, step(storage)), 7);
    });
  });
}

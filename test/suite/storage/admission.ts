/** Tests of admission: idempotency keys, limits, and runs with a later start. */

import assert from "node:assert/strict";
import type { ClaimedRun, Storage } from "../../../lib/storage/mod.ts";
import { countThreads } from "../counts.ts";
import {
  checkpoint,
  claimNext,
  claimTerms,
  create,
  createAssistant,
  createClaimedRun,
  createPendingRun,
  createThread,
  finish,
  formatOutcomes,
  here,
  newRun,
  progress,
  requireCreated,
  type StorageTest,
  type SuiteApi,
  stateless,
  statuses,
} from "./material.ts";

const idempotency = { route: "/threads/t/runs", key: "k", body_hash: "h" };

export function admissionTests(api: SuiteApi, test: StorageTest): void {
  api.describe("an idempotency key", () => {
    test("creates one run, and returns it to repeated requests", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const options = { idempotency, run: { multitask_strategy: "reject" } } as const;
      const before = await storage.getThread(here, "t");
      const outcomes = await Promise.all(
        Array.from({ length: 10 }, (_, i) => create(storage, assistant, "t", `r${i}`, options)),
      );
      const winners = outcomes.filter((outcome) => outcome.kind === "created");
      assert.equal(winners.length, 1);
      const run = await storage.getRun(here, winners[0]?.run.run_id ?? "");
      for (const outcome of outcomes) {
        if (outcome.kind !== "created") assert.deepEqual(outcome, { kind: "repeated", run, same_body: true });
      }
      assert.equal((await storage.listRuns(here, "t", { above: 0, limit: 10, offset: 0 })).length, 1);
      const otherRequest = { ...idempotency, body_hash: "other" };
      const update_thread = { metadata: { lost: 1 }, config: {} };
      assert.deepEqual(await create(storage, assistant, "t", "r10", { idempotency: otherRequest, update_thread }), {
        kind: "repeated",
        run,
        same_body: false,
      });
      const thread = await storage.getThread(here, "t");
      assert.deepEqual([thread?.metadata, thread?.revision], [before?.metadata, before?.revision]);
      assert.equal(await countThreads(storage, here, { metadata: { lost: 1 } }), 0);
      for (const fresh of [
        { ...idempotency, key: "l" },
        { ...idempotency, route: "/runs" },
      ]) {
        await requireCreated(storage, assistant, "t", `fresh-${fresh.key}${fresh.route}`, { idempotency: fresh });
      }
    });

    test("outlives its run", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const repeated = { kind: "repeated", run: null, same_body: true };
      const { lease } = (await requireCreated(storage, assistant, "t", "r1", {
        idempotency,
        claim: { token: "w", lease_until: 5000 },
      }).then((outcome) => outcome.claimed)) as ClaimedRun;
      const second = { ...idempotency, key: "second" };
      const rollback = { run: { multitask_strategy: "rollback" }, idempotency: second } as const;
      assert.equal(
        formatOutcomes((await requireCreated(storage, assistant, "t", "r2", rollback)).stopped),
        "r1 deleted",
      );
      assert.deepEqual(await create(storage, assistant, "t", "r3", { idempotency }), repeated);
      assert.deepEqual(await create(storage, assistant, "t", "r3", { ...rollback, idempotency }), repeated);
      const again = await create(storage, assistant, "t", "r3", rollback);
      assert.ok(again.kind === "repeated" && again.run?.run_id === "r2");
      assert.equal(await statuses(storage, "t"), "r2 pending", "a repeated rollback removes nothing");
      await storage.releaseThreadLock(here, lease);
      await storage.deleteThread(here, "t");
      await createThread(storage, "t");
      assert.deepEqual(await create(storage, assistant, "t", "r3", { idempotency: second }), repeated);
      assert.equal((await storage.getThread(here, "t"))?.status, "idle");
    });

    test("is not stored if its run is not created, and works without a thread", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      await createClaimedRun(storage, assistant, "t", "r1");
      const reject = { idempotency, run: { multitask_strategy: "reject" } } as const;
      assert.deepEqual(await create(storage, assistant, "t", "r2", reject), { kind: "thread_busy" });
      await requireCreated(storage, assistant, "t", "r3", { idempotency });
      const key = { ...idempotency, key: "stateless" };
      const { run } = await stateless(storage, assistant, "r4", { idempotency: key });
      const outcome = await storage.createRun(here, {
        run: newRun("thread-r5", "r5", { stateless: true }),
        expected: { assistant_revision: assistant.revision, thread_revision: null },
        create_thread: { thread_id: "thread-r5", metadata: {}, config: {}, stateless: true },
        idempotency: key,
        now: 1100,
      });
      assert.deepEqual(outcome, { kind: "repeated", run, same_body: true });
      assert.equal(await storage.getThread(here, "thread-r5"), null);
    });

    test("is deleted after its retention", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const ages = { stateless_before: 0, frames_before: 0, features: { feedback: 0, webhooks: 0 } };
      const terms = { ...ages, limit: 10, now: 9000 };
      await requireCreated(storage, assistant, "t", "r1", { idempotency });
      assert.equal(await storage.deleteExpired(here, { ...terms, keys_before: 1100 }), 0);
      assert.equal((await create(storage, assistant, "t", "r2", { idempotency })).kind, "repeated");
      assert.equal(await storage.deleteExpired(here, { ...terms, keys_before: 1101 }), 1);
      await requireCreated(storage, assistant, "t", "r2", { idempotency });
    });
  });

  api.describe("an interrupt that a run answers", () => {
    const answer = (...resume_targets: string[]) => ({ run: { resume_targets } });
    const createAnsweringRun = (run_id: string) => ({ kind: "interrupt_answered", run_id }) as const;

    test("is bound to one pending or running run", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const id of ["t", "u"]) await createThread(storage, id);
      await requireCreated(storage, assistant, "t", "r1", answer("a", "b"));
      for (const multitask_strategy of ["enqueue", "interrupt", "reject"] as const) {
        const otherTerms = { run: { resume_targets: ["c", "b"], multitask_strategy } };
        assert.deepEqual(
          await create(storage, assistant, "t", `no ${multitask_strategy}`, otherTerms),
          createAnsweringRun("r1"),
        );
      }
      assert.equal((await storage.getRun(here, "r1"))?.status, "pending");
      await requireCreated(storage, assistant, "t", "r2", answer("c"));
      await requireCreated(storage, assistant, "t", "r3");
      await requireCreated(storage, assistant, "u", "r4", answer("a"));
      const next = (await claimNext(storage, here, claimTerms("first"))) as ClaimedRun;
      assert.equal(next.run.run_id, "r1");
      assert.deepEqual(await create(storage, assistant, "t", "no", answer("a")), createAnsweringRun("r1"));
      await storage.finishRun(here, next.lease, finish());
      await requireCreated(storage, assistant, "t", "r5", answer("a"));
      assert.deepEqual(await create(storage, assistant, "t", "no", answer("b", "c")), createAnsweringRun("r2"));
    });

    test("is free after a rollback and a deletion; an idempotency key takes precedence", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const idempotency = { route: "/runs", key: "k", body_hash: "1" };
      const first = await requireCreated(storage, assistant, "t", "r1", { ...answer("a"), idempotency });
      assert.equal(await storage.findFirstRunByKey(here, { ...idempotency, key: "l" }), null);
      const { run } = first;
      const repeatedRun = await storage.findFirstRunByKey(here, idempotency);
      assert.deepEqual([repeatedRun?.run, repeatedRun?.same_body], [run, true]);
      assert.equal((await storage.findFirstRunByKey(here, { ...idempotency, body_hash: "2" }))?.same_body, false);
      const again = await create(storage, assistant, "t", "r2", { ...answer("a"), idempotency });
      assert.deepEqual(again, { kind: "repeated", run, same_body: true });
      const replacing = { run: { resume_targets: ["a"], multitask_strategy: "rollback" } } as const;
      const { stopped } = await requireCreated(storage, assistant, "t", "r3", replacing);
      assert.equal(formatOutcomes(stopped), "r1 deleted");
      assert.deepEqual(await create(storage, assistant, "t", "no", answer("a")), createAnsweringRun("r3"));
      assert.equal(await storage.deleteRun(here, "t", "r3", 1000), "deleted");
      await requireCreated(storage, assistant, "t", "r4", answer("a"));
    });

    test("accepts one of twenty concurrent resume values", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const outcomes = await Promise.all(
        Array.from({ length: 20 }, (_, i) => create(storage, assistant, "t", `r${i}`, answer("a", `own ${i}`))),
      );
      const won = outcomes.flatMap((outcome) => (outcome.kind === "created" ? [outcome.run.run_id] : []));
      assert.equal(won.length, 1);
      const lost = outcomes.filter(({ kind }) => kind !== "created");
      assert.deepEqual(lost, Array(19).fill(createAnsweringRun(String(won[0]))));
    });
  });

  api.describe("limits on pending runs", () => {
    const limits = { pending_per_thread: 2, pending: 4 };

    test("apply to a thread and to the deployment", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const id of ["t", "u", "v"]) await createThread(storage, id);
      await createClaimedRun(storage, assistant, "t", "t0");
      for (const id of ["t1", "t2"]) await requireCreated(storage, assistant, "t", id, { limits });
      assert.deepEqual(await create(storage, assistant, "t", "t3", { limits, idempotency }), {
        kind: "thread_full",
        pending: 2,
      });
      for (const id of ["u1", "u2"]) await requireCreated(storage, assistant, "u", id, { limits });
      const full = { kind: "deployment_full", pending: 4 };
      assert.deepEqual(await create(storage, assistant, "v", "v1", { limits, idempotency }), full);
      const outcome = await storage.createRun(here, {
        run: newRun("w", "w1"),
        expected: { assistant_revision: assistant.revision, thread_revision: null },
        create_thread: { thread_id: "w", metadata: {}, config: {}, stateless: false },
        limits,
        now: 1100,
      });
      assert.deepEqual(outcome, full);
      assert.equal(await storage.getThread(here, "w"), null);
      const reject = { limits, run: { multitask_strategy: "reject" } } as const;
      assert.deepEqual(await create(storage, assistant, "t", "t3", reject), { kind: "thread_busy" });
      assert.deepEqual(await create(storage, assistant, "v", "v1", reject), full);
      const interrupt = { limits, run: { multitask_strategy: "interrupt" } } as const;
      assert.deepEqual(await create(storage, assistant, "v", "v1", interrupt), full);
      const { stopped } = await requireCreated(storage, assistant, "u", "u3", interrupt);
      assert.equal(formatOutcomes(stopped), "u1 ended,u2 ended", "what waited on the thread makes room");
      await requireCreated(storage, assistant, "v", "v1", { limits, idempotency });
    });

    test("apply to many concurrent runs", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const many = { pending_per_thread: 1000, pending: 50 };
      const kinds = await Promise.all(
        Array.from(
          { length: 80 },
          async (_, i) => (await create(storage, assistant, "t", `r${i}`, { limits: many })).kind,
        ),
      );
      assert.equal(kinds.filter((kind) => kind === "created").length, 50);
      assert.equal(kinds.filter((kind) => kind === "deployment_full").length, 30);
      await storage.stopRuns(here, { run_ids: kinds.map((_, i) => `r${i}`) }, "rollback", 2000);
      await requireCreated(storage, assistant, "t", "more", { limits: many });
    });
  });

  api.describe("a run with a start time", () => {
    const claimDue = (storage: Storage, now: number) => claimNext(storage, here, { ...claimTerms(`at ${now}`), now });

    test("waits for its time, and later runs may start before it", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const later = { run: { created_at: 4000 }, claim: { token: "w", lease_until: 5000 } };
      const outcome = await requireCreated(storage, assistant, "t", "r1", later);
      assert.deepEqual([outcome.run.status, outcome.claimed], ["pending", null]);
      assert.deepEqual([outcome.run.created_at, outcome.run.updated_at], [4000, 1100]);
      assert.deepEqual(await storage.getRun(here, "r1"), outcome.run);
      assert.equal((await storage.getThread(here, "t"))?.status, "busy");
      assert.equal((await storage.claimRun(here, { ...claimTerms("early"), now: 3999 })).kind, "none");
      const reject = { run: { multitask_strategy: "reject" } } as const;
      assert.deepEqual(await create(storage, assistant, "t", "r2", reject), { kind: "thread_busy" });
      const { lease } = await createClaimedRun(storage, assistant, "t", "r2");
      assert.equal((await storage.claimRun(here, { ...claimTerms("early"), now: 4000 })).kind, "blocked");
      await storage.finishRun(here, lease, finish());
      await createPendingRun(storage, assistant, "t", "r3");
      const first = (await claimDue(storage, 4000)) as ClaimedRun;
      assert.equal(first.run.run_id, "r1", "of those that are due, the oldest of the thread is first");
      await storage.finishRun(here, first.lease, finish({ now: 4100 }));
      assert.equal((await claimDue(storage, 4100))?.run.run_id, "r3");
    });

    test("waits for a requeued run that has stored checkpoints", async (storage) => {
      const assistant = await createAssistant(storage);
      const order: string[] = [];
      for (const thread of ["t", "u"]) {
        await createThread(storage, thread);
        await requireCreated(storage, assistant, thread, `${thread}1`, { run: { created_at: 4000 } });
        const { lease } = await createClaimedRun(storage, assistant, thread, `${thread}2`);
        if (thread === "t") await storage.saveProgress(here, lease, progress([checkpoint("c1", {})]), 1200);
        await storage.requeueRun(here, lease, 4100);
        for (let next = await claimDue(storage, 4200); next; next = await claimDue(storage, 4200 + order.length)) {
          order.push(next.run.run_id);
          await storage.finishRun(here, next.lease, finish({ now: 4200 }));
        }
      }
      assert.deepEqual(order, ["t2", "t1", "u1", "u2"]);
    });

    test("is stopped as any other run", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      for (const id of ["r1", "r2", "r3"])
        await requireCreated(storage, assistant, "t", id, { run: { created_at: 4000 } });
      const named = (run_id: string) => ({ thread_id: "t", run_ids: [run_id] });
      assert.equal(formatOutcomes(await storage.stopRuns(here, named("r1"), "interrupt", 2000)), "r1 ended");
      assert.equal(formatOutcomes(await storage.stopRuns(here, named("r2"), "rollback", 2000)), "r2 deleted");
      const claim = { token: "w", lease_until: 5000 };
      const outcome = await requireCreated(storage, assistant, "t", "r4", {
        run: { multitask_strategy: "interrupt" },
        claim,
      });
      assert.equal(formatOutcomes(outcome.stopped), "r3 ended");
      assert.ok(outcome.claimed);
    });
  });

  api.describe("activity", () => {
    test("counts due, scheduled and running runs", async (storage) => {
      const assistant = await createAssistant(storage);
      assert.deepEqual(await storage.countActiveRuns(here, 1000), {
        pending: 0,
        scheduled: 0,
        running: 0,
        oldest_due: null,
      });
      await createThread(storage, "t");
      const { lease } = await createClaimedRun(storage, assistant, "t", "r1");
      await requireCreated(storage, assistant, "t", "r2", { run: { created_at: 1500 } });
      await requireCreated(storage, assistant, "t", "r3", { run: { created_at: 1200 }, now: 1200 });
      assert.deepEqual(await storage.countActiveRuns(here, 1400), {
        pending: 1,
        scheduled: 1,
        running: 1,
        oldest_due: 1200,
      });
      assert.deepEqual(await storage.countActiveRuns(here, 1500), {
        pending: 2,
        scheduled: 0,
        running: 1,
        oldest_due: 1200,
      });
      await storage.finishRun(here, lease, finish());
      assert.equal((await storage.countActiveRuns(here, 1500)).running, 0);
    });

    test("lists the runs of a thread after one of them", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      for (const id of ["r3", "r1", "r2"]) await createPendingRun(storage, assistant, "t", id);
      const runs = await storage.listRuns(here, "t", { above: 0, limit: 10, offset: 0 });
      assert.deepEqual(
        runs.map(({ run_id, seq }) => [run_id, seq]),
        [
          ["r3", 1],
          ["r1", 2],
          ["r2", 3],
        ],
      );
      assert.deepEqual(await storage.listRuns(here, "t", { above: 1, limit: 1, offset: 0 }), [runs[1]]);
      assert.deepEqual(await storage.listRuns(here, "t", { above: 3, limit: 10, offset: 0 }), []);
      assert.deepEqual(await storage.listRuns(here, "u", { above: 0, limit: 10, offset: 0 }), []);
    });
  });
}

/** Tests of the webhook outbox: deliveries of ended runs, and claims of the senders. */
import assert from "node:assert/strict";
import type { ClaimedRun, DeliveryClaim, DeliveryRow, NewWebhook, Storage } from "../../../lib/storage/mod.ts";
import {
  claimNext,
  claimTerms,
  createAssistant,
  createThread,
  findDelivery,
  finish,
  here,
  requireCreated,
  type StorageTest,
  type SuiteApi,
  stateless,
  there,
} from "./material.ts";

const hook = (host = "a.example:443"): NewWebhook => ({ url: `https://${host}/in?key=1`, host, depth: 0 });

const claim = (token: string, now: number, changes: Partial<DeliveryClaim> = {}): DeliveryClaim => ({
  token,
  until: now + 1000,
  now,
  limit: 10,
  per_host: 2,
  ...changes,
});

const attempt = (delivery_id: string, number: number, error: string | null = null) => ({
  delivery_id,
  number,
  at: 3000,
  status: error === null ? 204 : null,
  error,
  duration_ms: 12,
  address: "192.0.2.1",
});

const ids = (rows: readonly DeliveryRow[]): string => rows.map(({ delivery_id }) => delivery_id).join();

/** Ends runs with webhooks, each on a separate thread. */
async function endWithWebhooks(
  storage: Storage,
  runs: Readonly<Record<string, NewWebhook>>,
  now = 2000,
): Promise<void> {
  const assistant = await createAssistant(storage);
  for (const [id, webhook] of Object.entries(runs)) {
    const { lease } = await stateless(storage, assistant, id, { run: { webhook } });
    await storage.finishRun(here, lease, finish({ now: now++ }));
  }
}

export function deliveryTests(api: SuiteApi, test: StorageTest): void {
  api.describe("the outbox", () => {
    test("has the run as it ended, and outlives it", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const request = { metadata: { m: 1 }, kwargs: { input: { a: [1, "é"] } }, assistant_version: 4 };
      const run = { webhook: { ...hook(), depth: 3 }, ...request };
      const creation = await requireCreated(storage, assistant, "t", "r1", {
        run,
        claim: { token: "w", lease_until: 5000 },
      });
      const { lease } = creation.claimed as ClaimedRun;
      assert.equal(await findDelivery(storage, here, "r1"), null);
      const lost = { ...lease, token: "another" };
      assert.equal(await storage.finishRun(here, lost, finish()), null);
      assert.equal(await findDelivery(storage, here, "r1"), null, "an end that did not count tells nothing");
      const error = { error: "Odd", message: "It is odd" };
      const values = { json: '{"a":2}', omitted: false };
      await storage.finishRun(here, lease, finish({ status: "error", error, values, now: 2000 }));
      const stored: DeliveryRow = {
        delivery_id: "r1",
        url: "https://a.example:443/in?key=1",
        host: "a.example:443",
        state: "pending",
        attempts: 0,
        series_attempts: 0,
        due_at: 2000,
        sent_at: null,
        depth: 3,
        created_at: 2000,
        run: {
          run_id: "r1",
          thread_id: "t",
          assistant_id: "a",
          assistant_version: 4,
          status: "error",
          metadata: { m: 1 },
          kwargs: { input: { a: [1, "é"] } },
          multitask_strategy: "enqueue",
          attempt: 1,
          stateless: false,
          created_at: 1100,
          started_at: 1100,
          ended_at: 2000,
          error,
          values: '{"a":2}',
          values_omitted: false,
        },
      };
      assert.deepEqual(await findDelivery(storage, here, "r1"), stored);
      await storage.finishRun(here, lease, finish({ now: 2500 }));
      await storage.deleteThread(here, "t");
      assert.equal(await storage.getRun(here, "r1"), null);
      assert.deepEqual(await findDelivery(storage, here, "r1"), stored);
      assert.equal(await findDelivery(storage, there, "r1"), null);
    });

    test("has no state of temporary runs, and marks an omitted state", async (storage) => {
      const assistant = await createAssistant(storage);
      const { lease } = await stateless(storage, assistant, "r1", { run: { webhook: hook() } });
      await storage.finishRun(here, lease, finish({ values: { json: "{}", omitted: false } }));
      const first = await findDelivery(storage, here, "r1");
      assert.deepEqual([first?.run.stateless, first?.run.values, first?.run.values_omitted], [true, null, false]);
      await createThread(storage, "t");
      const claim = { token: "w", lease_until: 5000 };
      const creation = await requireCreated(storage, assistant, "t", "r2", { run: { webhook: hook() }, claim });
      const end = finish({ values: { json: null, omitted: true } });
      await storage.finishRun(here, (creation.claimed as ClaimedRun).lease, end);
      const second = await findDelivery(storage, here, "r2");
      assert.deepEqual([second?.run.stateless, second?.run.values, second?.run.values_omitted], [false, null, true]);
    });

    test("has runs that are interrupted before they start, and none that is rolled back or has no webhook", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      await requireCreated(storage, assistant, "t", "r1", { claim: { token: "w", lease_until: 5000 } });
      for (const id of ["r2", "r3"]) await requireCreated(storage, assistant, "t", id, { run: { webhook: hook() } });
      await requireCreated(storage, assistant, "t", "r4");
      const stop = (run_id: string, action: "interrupt" | "rollback") =>
        storage.stopRuns(here, { thread_id: "t", run_ids: [run_id] }, action, 1500);
      await stop("r2", "interrupt");
      await stop("r2", "interrupt");
      await stop("r3", "rollback");
      await stop("r4", "interrupt");
      const [only, ...otherDeliveries] = await storage.listDeliveries(here, { limit: 10 });
      assert.deepEqual(otherDeliveries, []);
      assert.deepEqual(
        [only?.delivery_id, only?.run.status, only?.run.started_at, only?.run.ended_at, only?.run.values],
        ["r2", "interrupted", null, 1500, null],
      );
    });
  });

  api.describe("deliveries", () => {
    test("are claimed when they are due, oldest first, and each claim is an attempt", async (storage) => {
      await endWithWebhooks(storage, { r1: hook(), r2: hook("b.example:80"), r3: hook("c.example:80") });
      assert.deepEqual(await storage.claimDeliveries(here, claim("c", 1999)), []);
      assert.deepEqual(await storage.claimDeliveries(there, claim("c", 3000)), []);
      const [first, second, ...none] = await storage.claimDeliveries(here, claim("c", 3000, { limit: 2 }));
      assert.deepEqual(none, []);
      for (const [row, id] of [
        [first, "r1"],
        [second, "r2"],
      ] as const) {
        assert.deepEqual([row?.delivery_id, row?.attempts, row?.series_attempts, row?.sent_at], [id, 1, 1, 3000]);
        assert.deepEqual(row, await findDelivery(storage, here, id));
      }
      assert.equal(ids(await storage.claimDeliveries(here, claim("d", 3001))), "r3");
      assert.equal(ids(await storage.claimDeliveries(here, claim("e", 3002))), "");
    });

    test("of one host are limited over all claims together", async (storage) => {
      await endWithWebhooks(storage, { r1: hook(), r2: hook(), r3: hook(), r4: hook(), other: hook("b.example:443") });
      assert.equal(ids(await storage.claimDeliveries(here, claim("c", 3000, { limit: 1 }))), "r1");
      assert.equal(ids(await storage.claimDeliveries(here, claim("d", 3001))), "r2,other");
      assert.equal(ids(await storage.claimDeliveries(here, claim("e", 3002))), "");
      assert.equal(await storage.recordDeliveryAttempt(here, "c", attempt("r1", 1), { state: "delivered" }), true);
      assert.equal(ids(await storage.claimDeliveries(here, claim("f", 3003))), "r3");
      // The claims of d and f expire at 4001 and 4003: their deliveries are due again and leave the per-host limit.
      assert.equal(ids(await storage.claimDeliveries(here, claim("g", 4001))), "r2,other");
      assert.equal(ids(await storage.claimDeliveries(here, claim("h", 4003))), "r3");
      assert.equal(ids(await storage.claimDeliveries(here, claim("i", 5003))), "r2,r3,other");
    });

    test("with an expired claim are due again, and the old claim writes nothing", async (storage) => {
      await endWithWebhooks(storage, { r1: hook() });
      await storage.claimDeliveries(here, claim("dead", 3000));
      assert.equal(await storage.getNextDeliveryTime(here), null);
      assert.deepEqual(await storage.claimDeliveries(here, claim("c", 3999)), []);
      const [again] = await storage.claimDeliveries(here, claim("c", 4000));
      assert.deepEqual([again?.attempts, again?.series_attempts, again?.sent_at], [2, 2, 3000]);
      assert.equal(await storage.recordDeliveryAttempt(here, "dead", attempt("r1", 1), { state: "failed" }), false);
      assert.deepEqual(await findDelivery(storage, here, "r1"), again);
      assert.deepEqual(await storage.listAttempts(here, "r1"), []);
      assert.equal(await storage.recordDeliveryAttempt(there, "c", attempt("r1", 2), { state: "failed" }), false);
      // An expired claim is valid until another process claims the delivery.
      assert.equal(await storage.recordDeliveryAttempt(here, "c", attempt("r1", 2), { state: "delivered" }), true);
      assert.equal(await storage.recordDeliveryAttempt(here, "c", attempt("r1", 2), { state: "delivered" }), false);
      assert.deepEqual(await storage.listAttempts(here, "r1"), [attempt("r1", 2)]);
      assert.deepEqual(await storage.listAttempts(there, "r1"), []);
    });

    test("are claimed by one of several concurrent requests", async (storage) => {
      await endWithWebhooks(storage, { r1: hook() });
      const claims = await Promise.all(
        ["c", "d", "e"].map((token) => storage.claimDeliveries(here, claim(token, 3000))),
      );
      assert.equal(ids(claims.flat()), "r1");
    });

    test("wait for the next attempt, or end", async (storage) => {
      await endWithWebhooks(storage, { r1: hook(), r2: hook("b.example:80") });
      assert.equal(await storage.getNextDeliveryTime(here), 2000);
      assert.equal(await storage.getNextDeliveryTime(there), null);
      await storage.claimDeliveries(here, claim("c", 3000));
      const retry = { state: "pending", due_at: 8000 } as const;
      await storage.recordDeliveryAttempt(here, "c", attempt("r1", 1, "timeout"), retry);
      await storage.recordDeliveryAttempt(here, "c", attempt("r2", 1, "bad_status"), { state: "failed" });
      assert.equal(await storage.getNextDeliveryTime(here), 8000);
      assert.deepEqual(await storage.claimDeliveries(here, claim("d", 7999)), []);
      const [second] = await storage.claimDeliveries(here, claim("d", 8000));
      assert.deepEqual([second?.delivery_id, second?.attempts, second?.sent_at], ["r1", 2, 3000]);
      await storage.recordDeliveryAttempt(here, "d", attempt("r1", 2), { state: "delivered" });
      assert.equal(await storage.getNextDeliveryTime(here), null);
      assert.deepEqual(await storage.claimDeliveries(here, claim("e", 99000)), []);
      assert.equal((await findDelivery(storage, here, "r1"))?.state, "delivered");
      assert.equal((await findDelivery(storage, here, "r2"))?.state, "failed");
      assert.deepEqual(await storage.listAttempts(here, "r1"), [attempt("r1", 1, "timeout"), attempt("r1", 2)]);
    });

    test("wait without an attempt that does not count", async (storage) => {
      await endWithWebhooks(storage, { r1: hook() });
      await storage.claimDeliveries(here, claim("c", 3000));
      const retry = { state: "pending", due_at: 8000, uncounted: true } as const;
      assert.equal(await storage.recordDeliveryAttempt(here, "c", attempt("r1", 1, "aborted"), retry), true);
      assert.equal(await storage.recordDeliveryAttempt(here, "c", attempt("r1", 1, "aborted"), retry), false);
      const { attempts, series_attempts } = (await findDelivery(storage, here, "r1")) ?? {};
      assert.deepEqual([attempts, series_attempts], [1, 0]);
      const [again] = await storage.claimDeliveries(here, claim("d", 8000));
      assert.deepEqual([again?.attempts, again?.series_attempts], [2, 1]);
    });

    test("are listed newest first, by state and run", async (storage) => {
      await endWithWebhooks(storage, { r1: hook(), r2: hook("b.example:80"), r3: hook("c.example:80") });
      await storage.claimDeliveries(here, claim("c", 2000));
      await storage.recordDeliveryAttempt(here, "c", attempt("r1", 1), { state: "delivered" });
      const list = async (query: Partial<Parameters<Storage["listDeliveries"]>[1]>) =>
        ids(await storage.listDeliveries(here, { limit: 10, ...query }));
      assert.equal(await list({}), "r3,r2,r1");
      const { created_at = 0 } = (await findDelivery(storage, here, "r3")) ?? {};
      assert.equal(await list({ limit: 1, after: { created_at, id: "r3" } }), "r2");
      assert.equal(await list({ state: "pending" }), "r3,r2");
      assert.equal(await list({ state: "delivered" }), "r1");
      assert.equal(await list({ state: "failed" }), "");
      assert.equal(await list({ run_id: "r2" }), "r2");
      assert.deepEqual(await storage.listDeliveries(there, { limit: 10 }), []);
    });

    test("are repeated on request, with their body and a new series", async (storage) => {
      await endWithWebhooks(storage, { r1: hook() });
      assert.equal(await storage.redeliver(here, "r9", 3000), false);
      assert.equal(await storage.redeliver(there, "r1", 3000), false);
      await storage.claimDeliveries(here, claim("c", 3000));
      assert.equal(await storage.redeliver(here, "r1", 3001), false, "an attempt is under way");
      await storage.recordDeliveryAttempt(here, "c", attempt("r1", 1, "gone"), { state: "failed" });
      assert.equal(await storage.redeliver(here, "r1", 3002), true);
      assert.equal(await storage.getNextDeliveryTime(here), 3002);
      const [again] = await storage.claimDeliveries(here, claim("d", 3002));
      assert.deepEqual(
        [again?.state, again?.attempts, again?.series_attempts, again?.sent_at],
        ["pending", 2, 1, 3000],
      );
      await storage.recordDeliveryAttempt(here, "d", attempt("r1", 2), { state: "pending", due_at: 9000 });
      assert.equal(await storage.redeliver(here, "r1", 4000), true, "one that waits need not wait");
      assert.equal(await storage.getNextDeliveryTime(here), 4000);
      await storage.claimDeliveries(here, claim("dead", 4000));
      assert.equal(await storage.redeliver(here, "r1", 5000), true, "its claim is over");
      assert.equal(await storage.recordDeliveryAttempt(here, "dead", attempt("r1", 3), { state: "delivered" }), false);
      assert.equal((await storage.listAttempts(here, "r1")).length, 2);
    });

    test("are created for runs without attempts left", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const run = { webhook: hook() };
      await requireCreated(storage, assistant, "t", "r1", { run, claim: { token: "w", lease_until: 2000 } });
      const last = await claimNext(storage, here, { ...claimTerms("x"), max_attempts: { echo: 1 } });
      assert.equal(last?.exhausted, true);
      const error = { error: "AttemptsExhausted", message: "It came to no end" };
      await storage.finishRun(here, last.lease, finish({ status: "error", error, now: 3000 }));
      assert.deepEqual((await findDelivery(storage, here, "r1"))?.run.error, error);
    });
  });
}

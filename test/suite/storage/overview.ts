/** Tests of the operations that read all runs of a deployment, and all its feedback. */

import assert from "node:assert/strict";
import type { FeedbackRow, RunRow, RunSearch, Scope, Storage } from "../../../lib/storage/mod.ts";
import { getFeedback } from "../records.ts";
import {
  createAssistant,
  createFinishedRun,
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

/** Returns the ids that a search finds, in order. */
async function findRunIds(storage: Storage, query: Partial<RunSearch> = {}, scope: Scope = here): Promise<string> {
  const { rows } = await storage.searchRuns(scope, { limit: 100, ...query });
  return rows.map(({ run }) => run.run_id).join();
}

/** Threads t (of Ann) and u (of Bob): r1 succeeded, r2 failed, r3 runs, r4 waits; r5 is stateless and runs. */
async function createRuns(storage: Storage): Promise<void> {
  const assistant = await createAssistant(storage);
  const otherAssistant = await createAssistant(storage, { assistant_id: "b", graph_id: "other" });
  await createThread(storage, "t", { owner: "ann" });
  await createThread(storage, "u", { owner: "bob" });
  await createFinishedRun(storage, assistant, "t", "r1");
  const error = { error: "Odd", message: "It is odd" };
  await createFinishedRun(storage, assistant, "u", "r2", {}, { status: "error", error, now: 2500 });
  const claim = { token: "w", lease_until: 5000 };
  const run = { created_at: 1200, metadata: { team: "a", n: 1 }, user_id: "ann", api_key: "gr_…1", cron_id: "c1" };
  const trace = { workspace_id: "w1", project_id: "p1", counted: true };
  await requireCreated(storage, assistant, "t", "r3", { now: 1200, run, claim: { ...claim, trace } });
  await storage.addTraceUsage("r3", { tokens_in: 3, tokens_out: 4, cost_usd: 0.5 });
  const later = { created_at: 9000, assistant_id: "b", graph_id: "other", metadata: { team: "b", n: 1 } };
  await requireCreated(storage, otherAssistant, "u", "r4", { now: 1300, run: later });
  await stateless(storage, assistant, "r5", { now: 1200, run: { created_at: 1200, cron_id: "c1" } });
}

function createRecordRow(id: string, options: Partial<FeedbackRow>): FeedbackRow {
  const owner = { run_id: "r1", workspace_id: "w1", project_id: "p1", thread_id: null };
  const content = { score: null, value: null, comment: null, correction: null, extra: null };
  const origin = { source: "api", source_metadata: null, user_id: null, run_started_at: null };
  return { id, ...owner, key: "k", ...content, ...origin, created_at: 2000, modified_at: 2000, ...options };
}

/** Reads the figures of runs created at a time or later. */
const readFigures = (storage: Storage, scope: Scope, since: number, limit = 9) =>
  storage.readRunTimes(scope, { counted_since: since, timed_since: since, limit });

export function overviewTests(api: SuiteApi, test: StorageTest): void {
  api.describe("runs of all threads", () => {
    test("are found newest first, then by id, and by each condition", async (storage) => {
      await createRuns(storage);
      assert.equal(await findRunIds(storage), "r4,r5,r3,r2,r1");
      assert.equal(await findRunIds(storage, { status: ["error", "pending"] }), "r4,r2");
      assert.equal(await findRunIds(storage, { status: ["running", "running"] }), "r5,r3");
      assert.equal(await findRunIds(storage, { status: [] }), "");
      assert.equal(await findRunIds(storage, { assistant_id: "b" }), "r4");
      assert.equal(await findRunIds(storage, { graph_id: "echo" }), "r5,r3,r2,r1");
      assert.equal(await findRunIds(storage, { thread_id: "t" }), "r3,r1");
      assert.equal(await findRunIds(storage, { thread_id: "t", status: ["success"] }), "r1");
      assert.equal(await findRunIds(storage, { cron_id: "c1" }), "r5,r3");
      assert.equal(await findRunIds(storage, { run_id: "r2" }), "r2");
      assert.equal(await findRunIds(storage, { run_id: "r9" }), "");
      assert.equal(await findRunIds(storage, { user_id: "ann" }), "r3");
      assert.equal(await findRunIds(storage, { metadata: { n: 1 } }), "r4,r3");
      assert.equal(await findRunIds(storage, { metadata: { n: 1, team: "a" } }), "r3");
      assert.equal(await findRunIds(storage, { metadata: { n: "1" } }), "");
      assert.equal(await findRunIds(storage, { created_after: 1200, created_before: 9000 }), "r5,r3");
      assert.equal(await findRunIds(storage, { started_after: 1200 }), "r5,r3");
      assert.equal(await findRunIds(storage, { started_before: 1200 }), "r2,r1");
      assert.equal(await findRunIds(storage, {}, there), "");
    });

    test("are read page by page, each once", async (storage) => {
      await createRuns(storage);
      for (const query of [{}, { status: ["success", "error", "running"] as const }, { thread_id: "u" }]) {
        const pages: string[] = [];
        for (let after: RunSearch["after"] | null; after !== null; ) {
          const { rows, next } = await storage.searchRuns(here, { ...query, limit: 1, ...(after ? { after } : {}) });
          assert.ok(rows.length <= 1);
          pages.push(...rows.map(({ run }) => run.run_id));
          after = next;
        }
        assert.equal(pages.join(), await findRunIds(storage, query));
      }
    });

    test("have their lease, stop, tokens and cost", async (storage) => {
      await createRuns(storage);
      await storage.stopRuns(here, { thread_id: "t", run_ids: ["r3"] }, "interrupt", 1400);
      const [r3] = (await storage.searchRuns(here, { run_id: "r3", limit: 1 })).rows;
      const { run, ...beside } = r3 ?? {};
      // Nothing that may be large.
      const {
        kwargs: _k,
        result: _r,
        auth_user: _a,
        feedback: _f,
        ...head
      } = (await storage.getRun(here, "r3")) as RunRow;
      assert.deepEqual(run, head);
      const usage = { tokens_in: 3, tokens_out: 4, cost_usd: 0.5 };
      assert.deepEqual(beside, { lease_until: 5000, cancel_requested: true, usage, claim_log: [] });
      const [r4] = (await storage.searchRuns(here, { run_id: "r4", limit: 1 })).rows;
      assert.deepEqual([r4?.lease_until, r4?.cancel_requested, r4?.usage], [null, false, null]);
    });

    test("are visible with their threads only, if there is a filter", async (storage) => {
      await createRuns(storage);
      const ann: Scope = { ...here, filter: [{ key: "owner", equals: "ann" }] };
      assert.equal(await findRunIds(storage, {}, ann), "r3,r1");
      assert.equal(await findRunIds(storage, { run_id: "r2" }, ann), "");
      const none = { pending: 0, running: 0, success: 0, error: 0, timeout: 0, interrupted: 0 };
      const { counts, times } = await readFigures(storage, ann, 0);
      assert.deepEqual(counts, { ...none, running: 1, success: 1 });
      assert.equal(times.length, 2);
    });

    test("are counted by status, active ones of any age", async (storage) => {
      await createRuns(storage);
      const counts = { pending: 1, running: 2, success: 1, error: 1, timeout: 0, interrupted: 0 };
      assert.deepEqual((await readFigures(storage, here, 1100)).counts, counts);
      assert.deepEqual((await readFigures(storage, here, 1101)).counts, { ...counts, success: 0, error: 0 });
      assert.deepEqual((await readFigures(storage, here, 99_999)).counts, { ...counts, success: 0, error: 0 });
      assert.equal((await readFigures(storage, there, 0)).counts.running, 0);
      const { times } = await readFigures(storage, here, 1100, 3);
      assert.deepEqual(times.map(({ status, created_at }) => `${status} ${created_at}`).sort(), [
        "pending 9000",
        "running 1200",
        "running 1200",
      ]);
      const [end] = (await readFigures(storage, here, 1100)).times.filter(({ status }) => status === "error");
      assert.deepEqual(end, { status: "error", created_at: 1100, started_at: 1100, ended_at: 2500 });
    });
  });

  api.describe("deliveries of a tenant", () => {
    test("are those of visible threads, page by page", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const [i, [thread_id, owner]] of [
        ["t", "ann"],
        ["u", "bob"],
        ["v", "ann"],
      ].entries()) {
        await createThread(storage, thread_id as string, { owner: owner as string });
        const webhook = { url: "https://a.example/", host: "a.example:443", depth: 0 };
        const claim = { token: `w${i}`, lease_until: 5000 };
        const { claimed } = await requireCreated(storage, assistant, thread_id as string, `r${i}`, {
          run: { webhook },
          claim,
        });
        await storage.finishRun(here, claimed?.lease as never, finish());
      }
      const ann: Scope = { ...here, filter: [{ key: "owner", equals: "ann" }] };
      const page = { limit: 10 };
      const list = async (scope: Scope, query = {}): Promise<string> =>
        (await storage.listDeliveries(scope, { ...page, ...query })).map(({ delivery_id }) => delivery_id).join();
      assert.equal(await list(here), "r2,r1,r0");
      assert.equal(await list(ann), "r2,r0");
      assert.equal(await list(here, { thread_id: "u" }), "r1");
      assert.equal(await list(here, { state: ["pending", "failed"] }), "r2,r1,r0");
      assert.equal(await list(here, { state: ["delivered", "failed"] }), "");
      assert.equal(await list(here, { after: { created_at: 2000, id: "r1" } }), "r0");
      assert.equal((await findDelivery(storage, ann, "r0"))?.delivery_id, "r0");
      assert.equal(await findDelivery(storage, ann, "r1"), null);
      assert.equal(await storage.redeliver(ann, "r1", 3000), false);
      assert.equal(await storage.redeliver(ann, "r0", 3000), true);
      const claim = { token: "c", until: 9000, now: 4000, limit: 9, per_host: 9 };
      await storage.claimDeliveries(here, claim);
      const attempt = { number: 1, at: 4000, status: 500, error: "bad_status", duration_ms: 1, address: null };
      for (const delivery_id of ["r0", "r1"]) {
        await storage.recordDeliveryAttempt(
          here,
          "c",
          { delivery_id, ...attempt, answer: "Oh no: ü" },
          { state: "failed" },
        );
      }
      assert.deepEqual(await storage.listAttempts(ann, "r1"), []);
      assert.equal((await storage.listAttempts(ann, "r0"))[0]?.answer, "Oh no: ü");
      assert.equal(await list(here, { state: "failed" }), "r1,r0");
      assert.equal(await list(here, { state: ["failed"], after: { created_at: 2000, id: "r1" } }), "r0");
    });
  });

  api.describe("feedback of a tenant", () => {
    test("is summarized by key and bucket", async (storage) => {
      const records: [string, Partial<FeedbackRow>][] = [
        ["f1", { score: 1, created_at: 1000 }],
        ["f2", { score: 0.5, created_at: 1999 }],
        ["f3", { comment: "no score", created_at: 1500 }],
        ["f4", { score: true, created_at: 2000 }],
        ["f5", { key: "a", comment: "none", created_at: 3500 }],
        ["f6", { score: 9, created_at: 4000 }],
        ["f7", { score: 9, created_at: 1500, workspace_id: "w2" }],
      ];
      for (const [id, record] of records) await storage.createFeedback(createRecordRow(id, record));
      const range = { min_created_at: 1000, max_created_at: 3999, origin: 1000, stride_ms: 1000 };
      assert.deepEqual(await storage.feedbackBuckets({ workspace_ids: ["w1"], ...range }), [
        { key: "a", bucket: 2, n: 1, avg: null, min: null, max: null },
        { key: "k", bucket: 0, n: 3, avg: 0.75, min: 0.5, max: 1 },
        { key: "k", bucket: 1, n: 1, avg: 1, min: 1, max: 1 },
      ]);
      assert.deepEqual(await storage.feedbackBuckets({ workspace_ids: ["w1"], keys: ["z"], ...range }), []);
    });

    test("has links that are listed over all runs, and revoked", async (storage) => {
      await createRuns(storage);
      const at = { workspace_id: "w1", project_id: "p1", feedback_key: "k", config: null, expires_at: 5000 };
      const token = (token_id: string, run_id: string, created_at: number) => ({ token_id, run_id, created_at, ...at });
      const three = [token("k1", "r1", 1000), token("k2", "r2", 2000), token("k3", "r3", 2000)];
      await storage.createFeedbackTokens(here, three);
      const ids = async (scope: Scope, query = {}): Promise<string> => {
        const fullQuery = { workspace_ids: ["w1"], sort_order: "desc" as const, limit: 10, ...query };
        return (await storage.listFeedbackTokens({ scope, ...fullQuery })).map(({ token_id }) => token_id).join();
      };
      assert.equal(await ids(here), "k3,k2,k1");
      assert.equal(await ids(here, { limit: 1 }), "k3");
      assert.equal(await ids(here, { after: { created_at: 2000, id: "k3" } }), "k2,k1");
      assert.equal(await ids(here, { workspace_ids: ["w2"] }), "");
      assert.equal(await ids(there), "");
      const ann: Scope = { ...here, filter: [{ key: "owner", equals: "ann" }] };
      assert.equal(await ids(ann), "k3,k1");
      const submission = { token_id: "k1", feedback: createRecordRow("f1", { score: 1 }), limit: 9, now: 2000 };
      await storage.submitFeedback(here, submission);
      const [, , k1] = await storage.listFeedbackTokens({
        scope: here,
        workspace_ids: ["w1"],
        sort_order: "desc",
        limit: 9,
      });
      assert.deepEqual(k1, { ...token("k1", "r1", 1000), submissions: 1 });

      assert.equal(await storage.deleteFeedbackToken(ann, ["w1"], "k2"), false);
      assert.equal(await storage.deleteFeedbackToken(here, ["w2"], "k2"), false);
      assert.equal(await storage.deleteFeedbackToken(there, ["w1"], "k2"), false);
      assert.equal(await storage.deleteFeedbackToken(here, ["w1"], "k1"), true);
      assert.equal(await storage.deleteFeedbackToken(here, ["w1"], "k1"), false);
      assert.equal(await storage.getFeedbackToken("k1"), null);
      assert.equal((await getFeedback(storage, ["w1"], "f1"))?.id, "f1", "its records stay");
      assert.equal(await ids(here), "k3,k2");
    });
  });
}

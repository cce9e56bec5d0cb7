/** Tests of feedback tokens, submissions and records. */

import assert from "node:assert/strict";
import type { JsonObject } from "../../../lib/json.ts";
import type {
  FeedbackQuery,
  FeedbackRow,
  FeedbackTokenRow,
  NewRun,
  Scope,
  Storage,
  SubmitFeedbackResult,
} from "../../../lib/storage/mod.ts";
import { getFeedback } from "../records.ts";
import {
  createAssistant,
  createClaimedRun,
  createFinishedRun,
  createThread,
  finish,
  here,
  newRun,
  requireCreated,
  type StorageTest,
  type SuiteApi,
  stateless,
  there,
} from "./material.ts";

function createTokenRow(token_id: string, options: Partial<FeedbackTokenRow> = {}): FeedbackTokenRow {
  const origin = { run_id: "r1", workspace_id: "w1", project_id: "p1" };
  return { token_id, ...origin, feedback_key: "k", config: null, expires_at: 5000, created_at: 1000, ...options };
}

function createRecordRow(id: string, options: Partial<FeedbackRow> = {}): FeedbackRow {
  const owner = { run_id: "r1", workspace_id: "w1", project_id: "p1", thread_id: null };
  const content = { score: 1, value: null, comment: null, correction: null, extra: null };
  const origin = { source: "api", source_metadata: null, user_id: null, run_started_at: null };
  return { id, ...owner, key: "k", ...content, ...origin, created_at: 2000, modified_at: 2000, ...options };
}

const everything = { limit: 100, offset: 0 };

async function ids(storage: Storage, query: Partial<FeedbackQuery & { limit: number; offset: number }> = {}) {
  const feedback = await storage.listFeedback({ workspace_ids: ["w1"], ...everything, ...query });
  return feedback.map(({ id }) => id).join();
}

async function readTokens(storage: Storage, run_id: string): Promise<string> {
  const tokens = await storage.listFeedbackTokens({
    scope: here,
    sort_order: "asc",
    workspace_ids: ["w1"],
    run_id,
    ...everything,
  });
  return tokens.map(({ token_id, expires_at }) => `${token_id} ${expires_at}`).join();
}

export function feedbackTests(api: SuiteApi, test: StorageTest): void {
  /** Submits a record with this id. */
  const submit = async (
    storage: Storage,
    token_id: string,
    id: string,
    {
      key,
      body_hash = "one",
      limit = 100,
      now = 2000,
    }: { key?: string; body_hash?: string; limit?: number; now?: number } = {},
    scope = here,
  ): Promise<SubmitFeedbackResult> => {
    const idempotency = key === undefined ? {} : { idempotency: { route: `tokens/${token_id}`, key, body_hash } };
    return await storage.submitFeedback(scope, { token_id, feedback: createRecordRow(id), limit, now, ...idempotency });
  };

  api.describe("feedback tokens", () => {
    test("are stored unchanged, and listed oldest first", async (storage) => {
      const config = { type: "categorical", min: 0, categories: [{ value: 1, label: null }] } as const;
      const keys = ["", "__proto__", "é😀", "'; drop table feedback; --"];
      const tokens = [
        createTokenRow("t2", { config, created_at: 1001, feedback_key: "other" }),
        createTokenRow("t1", { created_at: 1001 }),
        createTokenRow("t3"),
        createTokenRow("elsewhere", { workspace_id: "w2" }),
        createTokenRow("another", { run_id: "r2" }),
        ...keys.map((feedback_key, i) => createTokenRow(`key${i}`, { feedback_key, run_id: "keys" })),
        ...Array.from({ length: 20 }, (_, i) => createTokenRow(`many${i}`, { run_id: "many", created_at: 1000 + i })),
      ];
      await storage.createFeedbackTokens(here, tokens);
      await storage.createFeedbackTokens(here, []);
      for (const token of tokens) assert.deepEqual(await storage.getFeedbackToken(token.token_id), token);
      assert.equal(await storage.getFeedbackToken("t4"), null);
      const list = async (run_id: string, workspace_ids: string[], page = {}) => {
        const storedTokens = await storage.listFeedbackTokens({
          scope: here,
          sort_order: "asc",
          workspace_ids,
          run_id,
          ...everything,
          ...page,
        });
        return storedTokens.map(({ token_id }) => token_id).join();
      };
      assert.equal(await list("r1", ["w1"]), "t3,t1,t2");
      assert.equal(await list("r1", ["w2", "w1"]), "elsewhere,t3,t1,t2");
      assert.equal(await list("r1", []), "");
      assert.equal(await list("r1", ["w1"], { limit: 1, offset: 1 }), "t1");
      assert.equal(await list("many", ["w1"], { limit: 2, offset: 18 }), "many18,many19");
      assert.equal(await list("many", ["w1"], { offset: 20 }), "");
    });

    test("are all created or none", async (storage) => {
      await storage.createFeedbackTokens(here, [createTokenRow("t1")]);
      const manyTokens = Array.from({ length: 30 }, (_, i) => createTokenRow(`m${i}`));
      await assert.rejects(storage.createFeedbackTokens(here, [...manyTokens, createTokenRow("t1")]));
      assert.equal(await readTokens(storage, "r1"), "t1 5000");
    });
  });

  api.describe("feedback tokens of a run", () => {
    const feedback: NonNullable<NewRun["feedback"]> = {
      tokens: [
        ["k", "t1"],
        ["__proto__", "t2"],
      ],
      life_ms: 500,
      workspace_id: "w1",
      project_id: "p1",
    };

    test("are created with it, and live from its end on", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const claim = { token: "w", lease_until: 5000 };
      const { claimed } = await requireCreated(storage, assistant, "t", "r1", { run: { feedback }, claim });
      assert.deepEqual(claimed?.run.feedback, feedback.tokens);
      assert.equal(await readTokens(storage, "r1"), "t1 null,t2 null");
      assert.equal((await storage.getFeedbackToken("t2"))?.feedback_key, "__proto__");
      assert.equal((await submit(storage, "t1", "f1", { now: 1e12 })).kind, "recorded");
      await storage.createFeedbackTokens(here, [createTokenRow("own", { created_at: 1200 })]);
      assert.ok(claimed && (await storage.finishRun(here, claimed.lease, finish())));
      assert.equal(await readTokens(storage, "r1"), "t1 2500,t2 2500,own 5000");
    });

    test("are not created if the run is not", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const idempotency = { route: "/runs", key: "k", body_hash: "h" };
      await requireCreated(storage, assistant, "t", "r1", { idempotency });
      const before = (await storage.getThread(here, "t"))?.revision as number;
      const outcome = await storage.createRun(here, {
        run: newRun("t", "r2", { feedback }),
        expected: { assistant_revision: assistant.revision, thread_revision: before },
        idempotency,
        now: 1100,
      });
      assert.equal(outcome.kind, "repeated");
      assert.equal(await storage.getFeedbackToken("t1"), null);
    });

    test("start their lifetime at any end of the run, and are deleted with it after a rollback or a deletion", async (storage) => {
      const assistant = await createAssistant(storage);
      const keyed = (n: number) => ({ run: { feedback: { ...feedback, tokens: [["k", `t${n}`] as const] } } });
      for (const n of [1, 2, 3, 4]) await createThread(storage, `thread${n}`);
      for (const n of [1, 2, 3, 4]) await requireCreated(storage, assistant, `thread${n}`, `r${n}`, keyed(n));
      // Tokens that were created separately are deleted with the run, too.
      for (const n of [2, 3, 4])
        await storage.createFeedbackTokens(here, [createTokenRow(`own${n}`, { run_id: `r${n}` })]);
      const named = (n: number) => ({ thread_id: `thread${n}`, run_ids: [`r${n}`] });
      await storage.stopRuns(here, named(1), "interrupt", 3000);
      assert.equal(await readTokens(storage, "r1"), "t1 3500");
      await storage.stopRuns(here, named(2), "rollback", 3000);
      assert.equal(await storage.deleteRun(here, "thread3", "r3", 9_000), "deleted");
      assert.equal(await storage.deleteThread(here, "thread4"), true);
      for (const n of [2, 3, 4]) assert.equal(await readTokens(storage, `r${n}`), "", `r${n}`);
      // A run without feedback keys can have tokens.
      for (const action of ["delete", "rollback"] as const) {
        await requireCreated(storage, assistant, "thread3", action);
        await storage.createFeedbackTokens(here, [createTokenRow(action, { run_id: action })]);
        if (action === "delete") await storage.deleteRun(here, "thread3", action, 9_000);
        else await storage.stopRuns(here, { thread_id: "thread3", run_ids: [action] }, action, 3000);
        assert.equal(await readTokens(storage, action), "", action);
      }
      assert.equal((await submit(storage, "t2", "f1")).kind, "token_not_found");
    });

    test("of a stateless run stay after it is deleted", async (storage) => {
      const assistant = await createAssistant(storage);
      const { lease } = await stateless(storage, assistant, "r1", { run: { feedback } });
      await storage.finishRun(here, lease, finish());
      const ages = { stateless_before: 9000, frames_before: 9000, keys_before: 9000 };
      await storage.deleteExpired(here, { ...ages, features: { feedback: 0, webhooks: 0 }, limit: 10, now: 9000 });
      assert.equal(await storage.getRun(here, "r1"), null);
      assert.equal(await readTokens(storage, "r1"), "t1 2500,t2 2500");
    });
  });

  api.describe("submissions", () => {
    test("are recorded until the token expires", async (storage) => {
      await storage.createFeedbackTokens(here, [createTokenRow("t1"), createTokenRow("t2")]);
      assert.equal((await submit(storage, "t1", "f1", { now: 4999 })).kind, "recorded");
      assert.equal((await submit(storage, "t1", "f2", { now: 5000 })).kind, "token_expired");
      assert.equal((await submit(storage, "t3", "f2")).kind, "token_not_found");
      assert.equal(await ids(storage), "f1");
      assert.deepEqual(await getFeedback(storage, ["w1"], "f1"), createRecordRow("f1"));
    });

    test("on one token never exceed the limit, also concurrently", async (storage) => {
      await storage.createFeedbackTokens(here, [createTokenRow("t1"), createTokenRow("t2")]);
      const outcomes = await Promise.all(
        Array.from({ length: 8 }, (_, i) => submit(storage, "t1", `f${i}`, { limit: 3 })),
      );
      assert.deepEqual(outcomes.map(({ kind }) => kind).sort(), [
        ...Array(3).fill("recorded"),
        ...Array(5).fill("token_full"),
      ]);
      assert.equal((await ids(storage)).split(",").length, 3);
      assert.equal((await submit(storage, "t2", "other", { limit: 1 })).kind, "recorded");
    });

    test("with one idempotency key are one, also concurrently and if the token is full", async (storage) => {
      await storage.createFeedbackTokens(here, [createTokenRow("t1"), createTokenRow("t2")]);
      const outcomes = await Promise.all(
        Array.from({ length: 5 }, (_, i) => submit(storage, "t1", `f${i}`, { key: "k", limit: 1 })),
      );
      assert.equal(outcomes.filter(({ kind }) => kind === "recorded").length, 1);
      const feedback_id = await ids(storage);
      const repeats = outcomes.filter(({ kind }) => kind !== "recorded");
      for (const outcome of repeats) assert.deepEqual(outcome, { kind: "repeated", feedback_id, same_body: true });
      assert.deepEqual(await submit(storage, "t1", "g", { key: "k", body_hash: "two", limit: 1 }), {
        kind: "repeated",
        feedback_id,
        same_body: false,
      });
      assert.equal((await submit(storage, "t1", "g", { key: "k2", limit: 1 })).kind, "token_full");
      assert.equal((await submit(storage, "t2", "g", { key: "k", limit: 1 })).kind, "recorded");
      assert.equal((await submit(storage, "t1", "h", { key: "k", now: 5000 })).kind, "token_expired");
      assert.equal((await submit(storage, "t1", "h", { key: "k", limit: 2 }, there)).kind, "recorded");
    });

    test("are possible again after their key is deleted", async (storage) => {
      await storage.createFeedbackTokens(here, [createTokenRow("t1", { expires_at: 1e9 })]);
      assert.equal((await submit(storage, "t1", "f1", { key: "k", now: 2000 })).kind, "recorded");
      const ages = { stateless_before: 0, frames_before: 0, features: { feedback: 0, webhooks: 0 } };
      await storage.deleteExpired(here, { ...ages, keys_before: 2001, limit: 10, now: 9000 });
      assert.equal((await submit(storage, "t1", "f2", { key: "k", now: 9000 })).kind, "recorded");
    });

    test("do not count if the record cannot be created", async (storage) => {
      await storage.createFeedbackTokens(here, [createTokenRow("t1")]);
      await submit(storage, "t1", "f1", { limit: 2 });
      await assert.rejects(submit(storage, "t1", "f1", { key: "k", limit: 2 }));
      assert.equal((await submit(storage, "t1", "f2", { key: "k", limit: 2 })).kind, "recorded");
    });
  });

  api.describe("feedback within a filter", () => {
    const ann = { ...here, filter: [{ key: "owner", equals: "ann" }] } as const;
    const bob = { ...here, filter: [{ key: "owner", equals: "bob" }] } as const;

    /** Ann's run `r1` with a record and a token, and records on a project and on a deleted run. */
    async function annsFeedback(storage: Storage): Promise<void> {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t", { owner: "ann" });
      await createClaimedRun(storage, assistant, "t", "r1");
      await storage.createFeedback(createRecordRow("f1"));
      await storage.createFeedback(createRecordRow("project", { run_id: null }));
      await storage.createFeedback(createRecordRow("gone", { run_id: "r9", thread_id: "t" }));
      await storage.createFeedbackTokens(here, [createTokenRow("t1"), createTokenRow("t9", { run_id: "r9" })]);
    }

    test("is that on runs whose thread it permits", async (storage) => {
      await annsFeedback(storage);
      const stats = async (scope: Scope): Promise<readonly number[]> =>
        (await storage.feedbackStats({ workspace_ids: ["w1"], scope })).map(({ n }) => n);
      const tokens = async (scope: Scope, run_id: string): Promise<number> =>
        (await storage.listFeedbackTokens({ scope, sort_order: "asc", workspace_ids: ["w1"], run_id, ...everything }))
          .length;
      const elsewhere = { ...ann, deployment: there.deployment };
      for (const [scope, visible] of [
        [ann, "f1"],
        [bob, ""],
        [elsewhere, ""],
      ] as const) {
        const expectedCount = visible === "" ? 0 : 1;
        assert.equal(await ids(storage, { scope }), visible);
        assert.equal(await ids(storage, { scope, run_ids: ["r1", "r9"] }), visible);
        assert.deepEqual(await stats(scope), visible === "" ? [] : [1]);
        assert.deepEqual([await tokens(scope, "r1"), await tokens(scope, "r9")], [expectedCount, 0]);
        assert.equal((await getFeedback(storage, ["w1"], "f1", scope))?.id, visible === "" ? undefined : visible);
        for (const id of ["project", "gone"]) assert.equal(await getFeedback(storage, ["w1"], id, scope), null);
      }
      assert.equal(await ids(storage, { scope: here }), "f1,gone,project");
    });

    test("is changed and deleted only by its owner", async (storage) => {
      await annsFeedback(storage);
      assert.equal(await storage.updateFeedback(["w1"], "f1", { score: 2 }, 3000, bob), null);
      assert.equal(await storage.updateFeedback(["w1"], "gone", { score: 2 }, 3000, ann), null);
      assert.equal(await storage.deleteFeedback(["w1"], "f1", bob), false);
      assert.equal(await storage.deleteFeedback(["w1"], "project", ann), false);
      assert.deepEqual(await getFeedback(storage, ["w1"], "f1"), createRecordRow("f1"));
      assert.equal((await storage.updateFeedback(["w1"], "f1", { score: 2 }, 3000, ann))?.score, 2);
      assert.equal(await storage.deleteFeedback(["w1"], "f1", ann), true);
    });

    test("is created only on runs that the filter permits, tokens all or none", async (storage) => {
      await annsFeedback(storage);
      assert.equal(await storage.createFeedback(createRecordRow("f2"), bob), null);
      assert.equal(await storage.createFeedback(createRecordRow("f1"), bob), null, "not that it exists");
      assert.equal(await storage.createFeedback(createRecordRow("f3", { run_id: null }), ann), null);
      assert.equal(await ids(storage), "f1,gone,project");
      assert.equal((await storage.createFeedback(createRecordRow("f4"), ann))?.kind, "created");
      assert.equal((await storage.createFeedback(createRecordRow("f4"), ann))?.kind, "exists");
      assert.equal(await storage.createFeedbackTokens(bob, [createTokenRow("t2")]), false);
      assert.equal(
        await storage.createFeedbackTokens(ann, [createTokenRow("t2"), createTokenRow("t3", { run_id: "r9" })]),
        false,
      );
      assert.equal(await readTokens(storage, "r1"), "t1 5000");
      assert.equal(await storage.createFeedbackTokens(ann, [createTokenRow("t2"), createTokenRow("t3")]), true);
      assert.equal(await readTokens(storage, "r1"), "t1 5000,t2 5000,t3 5000");
    });
  });

  api.describe("feedback", () => {
    test("is stored unchanged", async (storage) => {
      const odd = JSON.parse('{"__proto__":{"a":[1,null]},"nul\\u0000":"\\ud800","":""}') as JsonObject;
      const rows = [
        createRecordRow("f1", { score: true, value: "1", comment: "c", correction: "text", source: "model" }),
        createRecordRow("f2", { score: 1, value: 1, correction: odd, source_metadata: odd, extra: odd }),
        createRecordRow("f3", {
          score: null,
          value: odd,
          thread_id: "t",
          user_id: "u",
          run_started_at: 1500,
          run_id: null,
        }),
        createRecordRow("f4", { score: false, value: false, comment: "", correction: {} }),
        createRecordRow("f5", { score: 0.1, value: "true" }),
        createRecordRow("f6", { score: -1e300, value: "", comment: "'; drop table feedback; --" }),
      ];
      for (const row of rows) {
        assert.deepEqual(await storage.createFeedback(row), { kind: "created", feedback: row });
        assert.deepEqual(await getFeedback(storage, ["w2", "w1"], row.id), row);
      }
    });

    test("has one record of an id, which a second create returns", async (storage) => {
      const first = createRecordRow("f1");
      const outcomes = await Promise.all(
        [first, first, first].map((row, i) => storage.createFeedback({ ...row, score: i })),
      );
      const creations = outcomes.filter((outcome) => outcome?.kind === "created").map((outcome) => outcome?.feedback);
      assert.equal(creations.length, 1);
      for (const outcome of outcomes) assert.deepEqual(outcome?.feedback, creations[0]);
      assert.equal((await storage.createFeedback(createRecordRow("f1", { workspace_id: "w2" })))?.kind, "exists");
      assert.equal(await getFeedback(storage, ["w2"], "f1"), null);
    });

    test("changes the members of a patch, in the given workspaces", async (storage) => {
      const row = createRecordRow("f1", { value: "v", comment: "c", correction: { a: 1 }, source_metadata: { m: 1 } });
      await storage.createFeedback(row);
      assert.equal(await storage.updateFeedback(["w2"], "f1", { score: 2 }, 3000), null);
      assert.equal(await storage.updateFeedback([], "f1", { score: 2 }, 3000), null);
      assert.equal(await storage.updateFeedback(["w1"], "f2", { score: 2 }, 3000), null);
      assert.deepEqual(await getFeedback(storage, ["w1"], "f1"), row);
      const scored = { ...row, score: false, modified_at: 3000 };
      assert.deepEqual(await storage.updateFeedback(["w1"], "f1", { score: false }, 3000), scored);
      const cleared = { score: null, value: null, comment: null, correction: null, source_metadata: null };
      const after = { ...row, ...cleared, modified_at: 3001 };
      assert.deepEqual(await storage.updateFeedback(["w1"], "f1", cleared, 3001), after);
      assert.deepEqual(await getFeedback(storage, ["w1"], "f1"), after);
    });

    test("is deleted once, in the given workspaces", async (storage) => {
      await storage.createFeedback(createRecordRow("f1"));
      assert.equal(await storage.deleteFeedback(["w2"], "f1"), false);
      assert.equal(await storage.deleteFeedback(["w1"], "f1"), true);
      assert.equal(await storage.deleteFeedback(["w1"], "f1"), false);
      assert.equal(await getFeedback(storage, ["w1"], "f1"), null);
    });

    test("outlives its run", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      await createFinishedRun(storage, assistant, "t", "r1");
      await storage.createFeedback(createRecordRow("f1"));
      assert.equal(await storage.deleteThread(here, "t"), true);
      assert.equal(await ids(storage), "f1");
      assert.equal(
        (await createClaimedRun(storage, assistant, (await createThread(storage, "t")).thread_id, "r2")).run.run_id,
        "r2",
      );
    });

    test("is listed newest first, by any filter", async (storage) => {
      const user = { user_id: "u", source: "app" };
      const rows = [
        createRecordRow("b", { created_at: 2001, key: "k1" }),
        createRecordRow("a", { created_at: 2001, key: "k2", score: null, comment: "c" }),
        createRecordRow("c", { created_at: 2000, run_id: "r2", score: false }),
        createRecordRow("d", { created_at: 2003, run_id: null, project_id: "p2", comment: "" }),
        createRecordRow("e", { created_at: 2002, ...user }),
        createRecordRow("z", { workspace_id: "w2" }),
      ];
      for (const row of rows) await storage.createFeedback(row);
      const cases: readonly (readonly [Partial<FeedbackQuery & { limit: number; offset: number }>, string])[] = [
        [{}, "d,e,a,b,c"],
        [{ workspace_ids: [] }, ""],
        [{ workspace_ids: ["w2", "w1"] }, "d,e,a,b,c,z"],
        [{ limit: 2, offset: 1 }, "e,a"],
        [{ offset: 5 }, ""],
        [{ run_ids: ["r2"] }, "c"],
        [{ run_ids: ["r2", "r1"] }, "e,a,b,c"],
        [{ run_ids: [] }, ""],
        [{ project_ids: ["p2"] }, "d"],
        [{ keys: ["k1", "k2"] }, "a,b"],
        [{ keys: ["k1", "k2"], has_score: true }, "b"],
        [{ keys: ["k1"], run_ids: ["r2"] }, ""],
        [{ sources: ["app", "model"] }, "e"],
        [{ user_ids: ["u"] }, "e"],
        [{ has_score: false }, "a"],
        [{ has_comment: true }, "a"],
        [{ has_comment: false }, "d,e,b,c"],
        [{ level: "run" }, "e,a,b,c"],
        [{ level: "session" }, "d"],
        [{ min_created_at: 2001, max_created_at: 2002 }, "e,a,b"],
      ];
      for (const [query, expected] of cases) assert.equal(await ids(storage, query), expected, JSON.stringify(query));
    });

    test("has figures per key", async (storage) => {
      const scores = [true, false, 0.5, null];
      const values = ["good", "__proto__", { an: "object" }, "good"];
      for (const [i, score] of scores.entries()) {
        await storage.createFeedback(createRecordRow(`f${i}`, { key: "b", score, value: values[i] ?? null }));
      }
      await storage.createFeedback(createRecordRow("f4", { key: "a", score: null }));
      await storage.createFeedback(createRecordRow("f5", { key: "c", score: -3, value: 7, run_id: "r2" }));
      await storage.createFeedback(createRecordRow("f6", { key: "c", score: 1e300, run_id: "r2" }));
      await storage.createFeedback(createRecordRow("f7", { key: "c", workspace_id: "w2" }));
      const values_b = JSON.parse('{"__proto__":1,"good":2}') as JsonObject;
      const [a, b, c] = [
        { key: "a", n: 1, avg: null, min: null, max: null, values: {} },
        { key: "b", n: 4, avg: 0.5, min: 0, max: 1, values: values_b },
        { key: "c", n: 2, avg: 5e299, min: -3, max: 1e300, values: {} },
      ];
      assert.deepEqual(await storage.feedbackStats({ workspace_ids: ["w1"] }), [a, b, c]);
      assert.deepEqual(await storage.feedbackStats({ workspace_ids: ["w1"], run_ids: ["r1"] }), [a, b]);
      assert.deepEqual(await storage.feedbackStats({ workspace_ids: ["w1"], run_ids: ["r3"] }), []);
    });
  });
}

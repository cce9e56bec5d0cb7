/** Creations of feedback tokens beyond the case file. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { FeedbackToken } from "../../../../lib/feedback/mod.ts";
import {
  type Answer,
  ask,
  BASE,
  type FeedbackKit,
  FOREIGN_RUN,
  feedbackKit,
  NOW,
  RUN,
  type Sent,
  UNKNOWN,
} from "../../feedback/feedback.harness.ts";

const TOKENS = "/api/v1/feedback/tokens";

describe("POST /api/v1/feedback/tokens", () => {
  const create = (kit: FeedbackKit, body: unknown, by?: Sent["by"]): Promise<Answer> =>
    ask(kit, "POST", TOKENS, { body, ...(by && { by }) });
  const tokenRequest = { run_id: RUN, feedback_key: "k" };

  it("accepts the valid bodies of the table, and names the invalid member of the others", async () => {
    await using kit = await feedbackKit();
    const hours = (n: number): string => new Date(NOW + n * 3_600_000).toISOString().replace(".000Z", "Z");
    const config = (of: object): object => ({ ...tokenRequest, feedback_config: of });
    const table: readonly (readonly [sent: unknown, expected: string])[] = [
      [{ ...tokenRequest, id: UNKNOWN, feedback_config: null, expires_at: null, expires_in: null }, hours(3)],
      [{ ...tokenRequest, run_id: RUN.toUpperCase() }, hours(3)],
      [{ ...tokenRequest, expires_in: { days: 0, hours: 3, minutes: 0 }, expires_at: null }, hours(3)],
      [{ ...tokenRequest, expires_in: { minutes: 1 } }, "2026-11-20T12:01:00Z"],
      [{ ...tokenRequest, expires_in: { hours: null, minutes: 1 } }, "2026-11-20T12:01:00Z"],
      [{ ...tokenRequest, expires_in: { days: 1, hours: -1 } }, hours(23)],
      [{ ...tokenRequest, expires_in: null, expires_at: "2026-11-20T13:00:00.5+01:00" }, "2026-11-20T12:00:00.500Z"],
      [{ ...tokenRequest, expires_at: "2026-12-01" }, "2026-12-01T00:00:00Z"],
      [{ ...tokenRequest, expires_at: "2026-12-01T02:00:00 02:00" }, "2026-12-01T00:00:00Z"],
      [{ ...tokenRequest, expires_at: "2026-11-20T12:00:00.0001Z" }, "2026-11-20T12:00:00.001Z"],
      [{ ...tokenRequest, expires_at: "2027-11-20T12:00:00Z" }, "2027-11-20T12:00:00Z"],
      [{ ...tokenRequest, feedback_key: "é😀/?#{}" }, hours(3)],
      [{ ...tokenRequest, feedback_key: "😀".repeat(255) }, hours(3)],
      [config({ type: "continuous", min: 0, max: 1, categories: null }), hours(3)],
      [config({ type: "continuous", min: null }), hours(3)],
      [config({ type: "categorical", categories: [{ value: 1, label: "a" }, { value: 2 }] }), hours(3)],
      [config({ type: "freeform", else: 1 }), hours(3)],
      [{ ...tokenRequest, expires_in: {} }, "body.expires_in"],
      [{ ...tokenRequest, expires_in: { hours: 0 } }, "body.expires_in"],
      [{ ...tokenRequest, expires_in: 3 }, "body.expires_in"],
      [{ ...tokenRequest, expires_in: "3h" }, "body.expires_in"],
      [{ ...tokenRequest, expires_in: [1] }, "body.expires_in"],
      [{ ...tokenRequest, expires_in: { days: "1" } }, "body.expires_in.days"],
      [{ ...tokenRequest, expires_in: { days: 365, minutes: 1 } }, "body.expires_in"],
      [{ ...tokenRequest, expires_in: { days: 1e300 } }, "body.expires_in"],
      [{ ...tokenRequest, expires_in: { minutes: true } }, "body.expires_in.minutes"],
      [{ ...tokenRequest, expires_at: "2026-11-20T12:00:00Z" }, "body.expires_at"],
      [{ ...tokenRequest, expires_at: "2026-11-20T11:59:59Z" }, "body.expires_at"],
      [{ ...tokenRequest, expires_at: "2027-11-20T12:00:00.001Z" }, "body.expires_at"],
      [{ ...tokenRequest, expires_at: "tomorrow" }, "body.expires_at"],
      [{ ...tokenRequest, expires_at: "" }, "body.expires_at"],
      [{ ...tokenRequest, expires_at: 1_800_000_000 }, "body.expires_at"],
      [{ ...tokenRequest, expires_at: "1800000000" }, "body.expires_at"],
      [{ ...tokenRequest, expires_at: "2026-12-01T00:00:00Z", expires_in: { hours: 1 } }, "body.expires_at"],
      [{ feedback_key: "k", run_id: null }, "body.run_id"],
      [{ feedback_key: "k", run_id: "abc" }, "body.run_id"],
      [{ feedback_key: "k", run_id: 1 }, "body.run_id"],
      [{ run_id: RUN }, "body.feedback_key"],
      [{ ...tokenRequest, feedback_key: null }, "body.feedback_key"],
      [{ ...tokenRequest, feedback_key: "" }, "body.feedback_key"],
      [{ ...tokenRequest, feedback_key: 5 }, "body.feedback_key"],
      [{ ...tokenRequest, feedback_key: "😀".repeat(256) }, "body.feedback_key"],
      [{ ...tokenRequest, feedback_key: "nul\0" }, "body.feedback_key"],
      [config([]), "body.feedback_config"],
      [{ ...tokenRequest, feedback_config: "continuous" }, "body.feedback_config"],
      [config({}), "body.feedback_config.type"],
      [config({ type: "Continuous" }), "body.feedback_config.type"],
      [config({ type: "continuous", min: "0" }), "body.feedback_config.min"],
      [config({ type: "continuous", max: true }), "body.feedback_config.max"],
      [config({ type: "continuous", min: 1, max: 0 }), "body.feedback_config"],
      [config({ type: "categorical" }), "body.feedback_config.categories"],
      [config({ type: "categorical", categories: [] }), "body.feedback_config.categories"],
      [config({ type: "categorical", categories: {} }), "body.feedback_config.categories"],
      [config({ type: "categorical", categories: ["a"] }), "body.feedback_config.categories.0"],
      [config({ type: "categorical", categories: [{ label: "a" }] }), "body.feedback_config.categories.0.value"],
      [config({ type: "categorical", categories: [{ value: "1" }] }), "body.feedback_config.categories.0.value"],
      [
        config({ type: "categorical", categories: [{ value: 1, label: 1 }] }),
        "body.feedback_config.categories.0.label",
      ],
      [[tokenRequest, { ...tokenRequest, expires_in: { hours: 1.5 } }], "body.1.expires_in.hours"],
      [[tokenRequest, 5], "body.1"],
      [[tokenRequest, { ...tokenRequest, run_id: "x" }, {}], "body.1.run_id"],
      [Array(101).fill(tokenRequest), "body"],
      [5, "body"],
      [null, "body"],
      ["text", "body"],
    ];
    for (const [tokenBody, expected] of table) {
      const { status, json, loc } = await create(kit, tokenBody);
      const about = `${JSON.stringify(tokenBody).slice(0, 200)}`;
      if (expected.startsWith("body")) assert.deepEqual([status, loc], [422, expected], about);
      else assert.deepEqual([status, (json as FeedbackToken).expires_at], [200, expected], about);
    }
    for (const raw of ["", "{", "run_id=1", "\u0000", '{"run_id":']) {
      assert.equal((await ask(kit, "POST", TOKENS, { raw })).loc, "body", raw);
    }
  });

  it("returns one token for one request and a list for a list in its order, and lists the same tokens", async () => {
    await using kit = await feedbackKit();
    const keys = ["c", "a", "b", "a"];
    const { json } = await create(
      kit,
      keys.map((feedback_key) => ({ ...tokenRequest, feedback_key })),
    );
    const createdTokens = json as FeedbackToken[];
    assert.deepEqual(
      createdTokens.map(({ feedback_key }) => feedback_key),
      keys,
    );
    assert.equal(new Set(createdTokens.map(({ id }) => id)).size, 4);
    for (const { id, url, ...otherFields } of createdTokens) {
      assert.equal(url, `${BASE}${TOKENS}/${id}`);
      assert.deepEqual(Object.keys(otherFields), ["expires_at", "feedback_key"]);
    }
    assert.deepEqual((await create(kit, [])).json, []);
    assert.equal(((await create(kit, Array(100).fill(tokenRequest))).json as unknown[]).length, 100);
    const listed = (await ask(kit, "GET", `${TOKENS}?run_id=${RUN.toUpperCase()}&limit=100&offset=8`)).json;
    assert.equal((listed as unknown[]).length, 100, "a full page");
    const lastPage = (await ask(kit, "GET", `${TOKENS}?run_id=${RUN}&limit=100&offset=108`)).json as unknown[];
    assert.equal(lastPage.length, 4);
    assert.deepEqual((await ask(kit, "GET", `${TOKENS}?run_id=${UNKNOWN}`)).json, []);
    // Tokens of one millisecond are sorted by id: these come after those that count up from 1.
    const all = (await ask(kit, "GET", `${TOKENS}?run_id=${RUN}&offset=100`)).json as FeedbackToken[];
    assert.ok(
      all.some(({ expires_at }) => expires_at === "2026-11-20T11:59:59Z"),
      "expired ones too",
    );
    for (const query of ["", "run_id=", "run_id=x", `run_id=${RUN}&limit=0`, `run_id=${RUN}&offset=-1`]) {
      assert.equal((await ask(kit, "GET", `${TOKENS}?${query}`)).status, 422, query);
    }
  });

  it("creates nothing for an unknown or excluded run", async () => {
    await using kit = await feedbackKit();
    for (const run_id of [UNKNOWN, FOREIGN_RUN]) {
      for (const body of [{ ...tokenRequest, run_id }, [tokenRequest, { ...tokenRequest, run_id }]]) {
        const { status, json } = await create(kit, body);
        assert.deepEqual([status, json], [404, { detail: "Run not found", code: "run_not_found" }]);
      }
    }
    const { json } = await ask(kit, "GET", `${TOKENS}?run_id=${RUN}`);
    assert.equal((json as unknown[]).length, 8, "those that were there before");
    assert.deepEqual((await ask(kit, "GET", `${TOKENS}?run_id=${FOREIGN_RUN}`)).json, []);
  });

  it("requires public_base_url", async () => {
    await using kit = await feedbackKit({ base_url: () => undefined });
    const { status, json } = await create(kit, tokenRequest);
    assert.deepEqual([status, json], [422, { detail: "public_base_url is not set", code: "public_base_url_missing" }]);
    assert.equal(
      (
        await kit.storage.listFeedbackTokens({
          scope: { deployment: "default" },
          sort_order: "asc",
          workspace_ids: [],
          run_id: RUN,
          limit: 9,
          offset: 0,
        })
      ).length,
      0,
    );
  });
});

describe("the routes of a feedback link", () => {
  it("accept the id of a token, and answer 404 to every other path below the list", async () => {
    await using kit = await feedbackKit();
    const table: readonly (readonly [path: string, status: number])[] = [
      [`${TOKENS}/{plain}`, 200],
      [`${TOKENS}/{plain}/`, 404],
      [`${TOKENS}/{plain}/more`, 404],
      [`${TOKENS}/`, 404],
      [`${TOKENS}//{plain}`, 404],
      [`${TOKENS}//`, 404],
      [`${TOKENS}/%2F{plain}`, 404],
      [`${TOKENS}/{plain}%0A`, 404],
      [`${TOKENS}/a.b`, 404],
    ];
    for (const [path, status] of table) {
      for (const [method, request] of [["GET", {}] as const, ["POST", { body: { score: 1 } }] as const]) {
        const answer = await ask(kit, method, method === "GET" ? `${path}?score=1` : path, request);
        assert.equal(answer.status, status, `${method} ${path}`);
        assert.equal(answer.headers.get("access-control-allow-origin"), "*", `${method} ${path}`);
      }
    }
    assert.equal(((await ask(kit, "GET", "/api/v1/feedback")).json as unknown[]).length, 2);
    assert.equal((await ask(kit, "GET", `${TOKENS}?run_id=${RUN}`)).status, 200);
  });
});

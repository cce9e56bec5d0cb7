import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemEnvironment, uuidV7 } from "../../../lib/environment.ts";
import { ServiceError } from "../../../lib/errors.ts";
import { readFeedbackKeys } from "../../../lib/feedback/feature.ts";
import type { FeedbackRecord } from "../../../lib/feedback/mod.ts";
import { VERSION } from "../../../lib/service.ts";
import type { Caller, IdentityStore, ProjectRow, UnitKind } from "../../../lib/storage/identity.ts";
import {
  ask,
  BASE,
  caller,
  editor,
  type FeedbackKit,
  FOREIGN_RUN,
  feedbackKit,
  NOW,
  P1,
  P2,
  RUN,
  RUN2,
  reader,
  type Sent,
  THREAD,
  UNKNOWN,
  W1,
  W2,
} from "./feedback.harness.ts";

const FEEDBACK = "/api/v1/feedback";

async function make(kit: FeedbackKit, body: object, by: Caller = reader): Promise<FeedbackRecord> {
  const { status, json } = await ask(kit, "POST", FEEDBACK, { body: { run_id: RUN, key: "k", ...body }, by });
  assert.equal(status, 200, JSON.stringify(json));
  return json as FeedbackRecord;
}

const project: ProjectRow = { id: P2, workspace_id: W1, name: "second", created_at: 1, deleted_at: null };
const identity = {
  getDeployment: async () => ({
    name: "default",
    project_id: P2,
    workspace_id: W1,
    organization_id: "o",
    owner_user_id: null,
    shared: false,
  }),
  listUnits: (async (_kind: UnitKind, ids: readonly string[]) =>
    [project].filter(({ workspace_id }) => ids.includes(workspace_id))) as unknown as IdentityStore["listUnits"],
};

describe("the feedback keys of a run", () => {
  it("are a list without duplicates", () => {
    assert.deepEqual(readFeedbackKeys(undefined), []);
    assert.deepEqual(readFeedbackKeys(null), []);
    assert.deepEqual(readFeedbackKeys([]), []);
    assert.deepEqual(readFeedbackKeys("one"), ["one"]);
    assert.deepEqual(readFeedbackKeys(["b", "a", "b", "__proto__", "constructor"]), [
      "b",
      "a",
      "__proto__",
      "constructor",
    ]);
    const fifty = Array.from({ length: 50 }, (_, i) => `k${i}`);
    assert.deepEqual(readFeedbackKeys([...fifty, ...fifty]), fifty);
    assert.deepEqual(readFeedbackKeys(["😀".repeat(255)]), ["😀".repeat(255)]);
    const bad = [
      "",
      [""],
      ["a", ""],
      [...fifty, "k50"],
      ["😀".repeat(256)],
      [1],
      [null],
      [["a"]],
      5,
      true,
      { a: 1 },
      ["\0"],
    ];
    for (const value of bad) {
      assert.throws(
        () => readFeedbackKeys(value),
        (error) =>
          error instanceof ServiceError && error.code === "invalid" && error.message.startsWith("feedback_keys"),
        JSON.stringify(value).slice(0, 80),
      );
    }
    assert.throws(() => readFeedbackKeys(["a", "a", ""]), /feedback_keys\.2:/);
  });
});

describe("the id of a feedback record", () => {
  it("is a UUID of version 7 with the creation time", () => {
    const uuid = () => "ffffffff-ffff-4abc-9def-0123456789ab";
    const id = uuidV7({ now: () => 0x0123456789ab, uuid });
    assert.equal(id, "01234567-89ab-7abc-9def-0123456789ab");
    const environment = systemEnvironment();
    assert.ok(uuidV7(environment, NOW) < uuidV7(environment, NOW + 1));
  });
});

describe("creations of feedback records", () => {
  it("store all members under the sent id", async () => {
    await using kit = await feedbackKit();
    const id = "019AA0B0-0000-7000-8000-00000000ABCD";
    const source = { type: "model", metadata: { m: 1 }, user_id: "ignored" };
    const content = { score: 0.5, value: { v: 1 }, comment: "c\0", correction: "text", extra: { e: [1] } };
    const record = await make(kit, {
      id,
      ...content,
      feedback_source: source,
      created_at: "2020-01-01",
      session_id: P2,
    });
    assert.deepEqual(record, {
      id: id.toLowerCase(),
      run_id: RUN,
      trace_id: RUN,
      session_id: P1,
      key: "k",
      ...content,
      comment: "c",
      created_at: "2026-11-20T12:00:00.000Z",
      modified_at: "2026-11-20T12:00:00.000Z",
      start_time: "2026-11-20T11:59:00.000Z",
      feedback_source: { type: "model", metadata: { m: 1 }, user_id: null, user_name: null },
      comparative_experiment_id: null,
      feedback_group_id: null,
      feedback_thread_id: THREAD,
      extra: { e: [1] },
      is_root: true,
    });
    assert.deepEqual((await ask(kit, "GET", `${FEEDBACK}/${id}`)).json, record);
    const plain = await make(kit, {}, { ...reader, user_id: "u" });
    assert.match(plain.id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    assert.deepEqual(plain.feedback_source, { type: "api", metadata: null, user_id: "u", user_name: null });
  });

  it("create one record for an id with the same content", async () => {
    await using kit = await feedbackKit();
    const id = UNKNOWN;
    const first = await make(kit, { id, score: 1, value: { a: 1, b: 2 } });
    await kit.clock.advance(1000);
    assert.deepEqual(await make(kit, { id, score: 1, value: { b: 2, a: 1 }, comment: null }), first);
    const otherRecords = [{ score: true }, { score: 2 }, {}, { score: 1, key: "other" }, { score: 1, run_id: RUN2 }];
    for (const record of otherRecords) {
      const body = { run_id: RUN, key: "k", value: { a: 1, b: 2 }, ...record, id };
      assert.equal((await ask(kit, "POST", FEEDBACK, { body })).status, 409, JSON.stringify(record));
    }
    assert.deepEqual((await ask(kit, "GET", FEEDBACK)).json, [first]);
  });

  it("are refused with 422 for invalid members and 404 for unknown runs and sessions", async () => {
    await using kit = await feedbackKit();
    const record = { run_id: RUN, key: "k", score: 1 };
    const table: readonly (readonly [body: unknown, expected: string])[] = [
      [{ ...record, key: undefined }, "422 body.key"],
      [{ ...record, key: "" }, "422 body.key"],
      [{ ...record, key: "k".repeat(256) }, "422 body.key"],
      [{ ...record, run_id: null }, "422 body.run_id"],
      [{ ...record, run_id: "x" }, "422 body.run_id"],
      [{ ...record, id: "x" }, "422 body.id"],
      [{ ...record, run_id: null, session_id: "x" }, "422 body.session_id"],
      [{ ...record, score: "1" }, "422 body.score"],
      [{ ...record, value: [1] }, "422 body.value"],
      [{ ...record, comment: 1 }, "422 body.comment"],
      [{ ...record, correction: 1 }, "422 body.correction"],
      [{ ...record, extra: 1 }, "422 body.extra"],
      [{ ...record, feedback_source: "api" }, "422 body.feedback_source"],
      [{ ...record, feedback_source: { type: "other" } }, "422 body.feedback_source.type"],
      [{ ...record, feedback_source: { metadata: [] } }, "422 body.feedback_source.metadata"],
      [[record], "422 body"],
      [{ ...record, run_id: UNKNOWN }, "404"],
      [{ ...record, run_id: FOREIGN_RUN }, "404"],
      [{ ...record, run_id: null, session_id: UNKNOWN }, "404"],
    ];
    for (const [body, expected] of table) {
      const { status, loc } = await ask(kit, "POST", FEEDBACK, { body });
      assert.equal(`${status} ${loc ?? ""}`.trim(), expected, JSON.stringify(body));
    }
    assert.deepEqual((await ask(kit, "GET", FEEDBACK)).json, []);
  });

  it("accept a session without a run", async () => {
    await using kit = await feedbackKit({ identity });
    const record = await make(kit, { run_id: null, session_id: P2, score: 1 });
    assert.deepEqual([record.run_id, record.trace_id, record.session_id, record.start_time], [null, null, P2, null]);
    const { status } = await ask(kit, "POST", FEEDBACK, { body: { key: "k", session_id: P1 } });
    assert.equal(status, 404, "of another workspace, or gone");
  });
});

describe("a feedback record", () => {
  it("is updated in the members of the patch", async () => {
    await using kit = await feedbackKit();
    const first = await make(kit, { score: 1, value: "v", comment: "c", correction: { a: 1 } });
    const path = `${FEEDBACK}/${first.id.toUpperCase()}`;
    await kit.clock.advance(1500);
    const patch = async (body: unknown): Promise<unknown> => (await ask(kit, "PATCH", path, { body })).json;
    assert.deepEqual(await patch({}), first);
    assert.deepEqual(await patch({ key: "other", run_id: RUN2 }), first);
    const second = { ...first, score: false, modified_at: "2026-11-20T12:00:01.500Z" };
    assert.deepEqual(await patch({ score: false }), second);
    const third = { ...second, value: null, comment: null, correction: null, score: null };
    assert.deepEqual(await patch({ value: null, comment: null, correction: null, score: null }), third);
    const source = { ...third.feedback_source, metadata: { m: 1 } };
    assert.deepEqual(await patch({ feedback_source: { metadata: { m: 1 } } }), { ...third, feedback_source: source });
    assert.equal((await ask(kit, "PATCH", path, { body: { score: "x" } })).loc, "body.score");
    assert.equal((await ask(kit, "PATCH", path, { raw: '{"value":1e999}' })).loc, "body.value");
    assert.equal((await ask(kit, "PATCH", path, { raw: "" })).loc, "body");
  });

  it("is deleted once", async () => {
    await using kit = await feedbackKit();
    const { id } = await make(kit, {});
    const remove = () => ask(kit, "DELETE", `${FEEDBACK}/${id}`, { by: editor });
    const { status, json } = await remove();
    assert.deepEqual([status, json], [200, {}]);
    assert.equal((await remove()).status, 404);
    assert.equal((await ask(kit, "GET", `${FEEDBACK}/${id}`)).status, 404);
  });

  it("answers 404 for an unknown id, a malformed one and one of another workspace", async () => {
    await using kit = await feedbackKit();
    const elsewhere: Caller = { ...editor, workspaces: new Map([[W2, editor.workspaces.get(W1) ?? new Set()]]) };
    const { id } = await make(kit, { run_id: FOREIGN_RUN }, elsewhere);
    for (const unknown of [UNKNOWN, "x", "__proto__", id]) {
      for (const method of ["GET", "PATCH", "DELETE"]) {
        const body = method === "PATCH" ? { body: { score: 1 } } : {};
        const { status, json } = await ask(kit, method, `${FEEDBACK}/${unknown}`, { by: editor, ...body });
        assert.deepEqual(
          [status, json],
          [404, { detail: "Feedback not found", code: "not_found" }],
          `${method} ${unknown}`,
        );
      }
    }
    assert.equal((await ask(kit, "GET", `${FEEDBACK}/${id}`, { by: elsewhere })).status, 200);
    const existingRecord = { id, run_id: RUN, key: "k" };
    assert.equal((await ask(kit, "POST", FEEDBACK, { body: existingRecord })).status, 409);
  });
});

describe("lists of records", () => {
  it("are filtered by every parameter", async () => {
    await using kit = await feedbackKit({ identity });
    const ids: string[] = [];
    const user = "44444444-0000-4000-8000-000000000001";
    const bodies = [
      { key: "a", score: 1 },
      { key: "b", comment: "c" },
      { key: "a", run_id: RUN2, score: null, feedback_source: { type: "app" } },
      { key: "c", run_id: null, session_id: P2, score: 0 },
    ];
    for (const [i, body] of bodies.entries()) {
      ids.push((await make(kit, body, { ...reader, user_id: i === 1 ? user : null })).id);
      await kit.clock.advance(1000);
    }
    const findIndexes = async (query: string): Promise<string> => {
      const { status, json } = await ask(kit, "GET", `${FEEDBACK}?${query}`);
      assert.equal(status, 200, query);
      return (json as FeedbackRecord[]).map(({ id }) => ids.indexOf(id)).join("");
    };
    const table: Readonly<Record<string, string>> = {
      "": "3210",
      "run={run}": "10",
      "run={run}&run={run2}": "210",
      "run=": "3210",
      "key=a&key=c": "320",
      "key=a&source=app&source=model": "2",
      "run={run}&key=c": "",
      [`session=${P2}`]: "3",
      [`session=${P1.toUpperCase()}&session=${P2}`]: "3210",
      [`user=${user}`]: "1",
      "has_score=true": "30",
      "has_score=False": "21",
      "has_comment=1": "1",
      "level=run": "210",
      "level=session": "3",
      "min_created_at=2026-11-20T12:00:01Z&max_created_at=2026-11-20T12:00:02Z": "21",
      "min_created_at=2026-11-20T13:00:02+01:00": "32",
      "max_created_at=2026-11-20T12:00:00": "0",
      "limit=2&offset=1": "21",
      "offset=4": "",
      "unknown=1": "3210",
    };
    for (const [query, expected] of Object.entries(table)) assert.equal(await findIndexes(query), expected, query);
    const bad = [
      "limit=0",
      "limit=1.5",
      "limit=x",
      "limit=-1",
      "offset=-1",
      "offset=x",
      "run.0=x",
      "session.0=x",
      "user.0=x",
    ];
    const worse = ["source.0=web", "has_score=maybe", "has_comment=2", "level=trace", "min_created_at=1800000000"];
    for (const parameter of [...bad, ...worse, "max_created_at=x"]) {
      const [loc, value] = parameter.split("=") as [string, string];
      const query = `${loc.replace(".0", "")}=${value}`;
      assert.equal((await ask(kit, "GET", `${FEEDBACK}?${query}`)).loc, `query.${loc}`, query);
    }
    assert.equal((await ask(kit, "GET", `${FEEDBACK}?run={run}&run=x`)).loc, "query.run.1");
  });

  it("have statistics per key", async () => {
    await using kit = await feedbackKit();
    for (const [score, value] of [
      [true, "good"],
      [0, "bad"],
      [null, "good"],
      [0.5, { a: 1 }],
    ])
      await make(kit, { score, value });
    await make(kit, { key: "__proto__", run_id: RUN2 });
    const { json } = await ask(kit, "GET", `${FEEDBACK}/stats?run={run}`);
    assert.deepEqual(json, { k: { n: 4, avg: 0.5, min: 0, max: 1, values: { good: 2, bad: 1 } } });
    const { json: all } = await ask(kit, "GET", `${FEEDBACK}/stats`);
    assert.deepEqual(Object.keys(all as object), ["__proto__", "k"]);
    assert.equal((await ask(kit, "GET", `${FEEDBACK}/stats?run=x`)).loc, "query.run.0");
  });
});

describe("permissions of feedback", () => {
  it("are required by operation", async () => {
    await using kit = await feedbackKit();
    const { id } = await make(kit, {});
    const body = { run_id: RUN, key: "k", feedback_key: "k" };
    const calls: readonly (readonly [method: string, path: string, sent: Sent, permission: string])[] = [
      ["POST", `${FEEDBACK}/tokens`, { body }, "feedback:create"],
      ["POST", FEEDBACK, { body }, "feedback:create"],
      ["PATCH", `${FEEDBACK}/${id}`, { body: { score: 1 } }, "feedback:create"],
      ["GET", `${FEEDBACK}/tokens?run_id={run}`, {}, "feedback:read"],
      ["GET", FEEDBACK, {}, "feedback:read"],
      ["GET", `${FEEDBACK}/${id}`, {}, "feedback:read"],
      ["GET", `${FEEDBACK}/stats`, {}, "feedback:read"],
      ["DELETE", `${FEEDBACK}/${id}`, {}, "feedback:delete"],
    ];
    const permissions = ["feedback:read", "feedback:create", "feedback:delete", "runs:create"] as const;
    for (const [method, path, request, permission] of calls) {
      const otherPermissions = permissions.filter((otherPermission) => otherPermission !== permission);
      const refused = caller(...otherPermissions);
      const { status, json } = await ask(kit, method, path, { ...request, by: refused });
      assert.deepEqual(
        [status, json],
        [403, { detail: `This needs the permission ${permission}`, code: "permission_missing" }],
        `${method} ${path}`,
      );
      // In another workspace the permission has no effect.
      const workspaces = new Map([...refused.workspaces, [W2, new Set(permissions)]]);
      const elsewhere = await ask(kit, method, path, { ...request, by: { ...refused, workspaces } });
      const lists = method === "GET" && !path.endsWith(id);
      assert.equal(elsewhere.status, lists ? 200 : 403, `${method} ${path}`);
      if (lists) assert.equal(Object.keys(elsewhere.json as object).length, 0);
    }
    for (const [method, path, request, permission] of calls) {
      const by = caller(permission as (typeof permissions)[number]);
      assert.equal((await ask(kit, method, path, { ...request, by })).status, 200, `${method} ${path}`);
    }
  });
});

describe("feedback on unknown runs", () => {
  it("is accepted with `external_runs`", async () => {
    await using kit = await feedbackKit({ external_runs: true });
    const body = { run_id: UNKNOWN, feedback_key: "k" };
    const { status, json } = await ask(kit, "POST", `${FEEDBACK}/tokens`, { body });
    assert.equal(status, 200);
    const { id, url } = json as { id: string; url: string };
    assert.equal(url, `${BASE}${FEEDBACK}/tokens/${id}`);
    assert.equal((await ask(kit, "POST", `${FEEDBACK}/tokens/${id}`, { body: { score: 1 } })).status, 200);
    const [record] = (await ask(kit, "GET", `${FEEDBACK}?run=${UNKNOWN}`)).json as FeedbackRecord[];
    assert.deepEqual([record?.start_time, record?.session_id, record?.feedback_thread_id], [null, P1, null]);
    assert.equal((await make(kit, { run_id: UNKNOWN })).session_id, P1);
    for (const path of [`${FEEDBACK}/tokens`, FEEDBACK]) {
      const foreign = { ...body, key: "k", run_id: FOREIGN_RUN };
      assert.equal((await ask(kit, "POST", path, { body: foreign })).status, 404, "that one is known");
      const by = caller("feedback:read");
      assert.equal((await ask(kit, "POST", path, { body: { ...body, key: "k" }, by })).status, 403);
    }
  });

  it("is accepted with the session of the deployment before the run has started", async () => {
    for (const stateless of [false, true]) {
      await using kit = await feedbackKit({ identity });
      const scope = { deployment: "default" };
      const content = { graph_id: "g", name: "g", description: null, config: {}, context: {}, metadata: {} };
      const { assistant } = await kit.storage.createAssistant(scope, { assistant_id: "a", ...content }, NOW);
      const run = { run_id: UNKNOWN, thread_id: THREAD, assistant_id: "a", graph_id: "g", metadata: {}, kwargs: {} };
      const outcome = await kit.storage.createRun(scope, {
        run: { ...run, multitask_strategy: "enqueue", stateless, resumable: false, created_at: NOW },
        expected: { assistant_revision: assistant.revision, thread_revision: null },
        create_thread: { thread_id: THREAD, metadata: {}, config: {}, stateless },
        now: NOW,
      });
      assert.equal(outcome.kind, "created");
      const record = await make(kit, { run_id: UNKNOWN });
      assert.deepEqual([record.session_id, record.start_time], [P2, null]);
      assert.equal(record.feedback_thread_id, stateless ? null : THREAD);
    }
  });
});

describe("GET /api/v1/info", () => {
  it("makes clients send feedback to its route", async () => {
    await using kit = await feedbackKit();
    const answer = await kit.send("GET", "/api/v1/info");
    const info = (await answer.json()) as { version: string; batch_ingest_config: object };
    assert.deepEqual(Object.keys(info), [
      "version",
      "license_expiration_time",
      "instance_flags",
      "batch_ingest_config",
    ]);
    assert.equal(info.version, VERSION);
    assert.deepEqual(info.batch_ingest_config, {
      use_multipart_endpoint: false,
      size_limit: 100,
      size_limit_bytes: 20971520,
      scale_up_nthreads_limit: 16,
      scale_up_qsize_trigger: 1000,
      scale_down_nempty_trigger: 4,
    });
  });
});

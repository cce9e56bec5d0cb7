/** The cron routes: requests, calls and responses. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { anonymousPrincipal } from "../../../../lib/auth/principal.ts";
import type { Json, JsonObject } from "../../../../lib/json.ts";
import { testClock, testService } from "../../../suite/kit.ts";
import { ASSISTANT, fake, RUN, THREAD } from "../fake-service.ts";

const C = `/runs/crons/${RUN}`;
const T = `/threads/${THREAD}/runs/crons`;
const page = { limit: 10, offset: 0 };
const cronRequest = { assistant_id: "g", schedule: "* * * * *" };
const ORIGIN = { user_id: null };

/** method, path, body, expected call */
const CALLS: readonly (readonly [string, string, unknown, readonly unknown[]])[] = [
  ["POST", "/runs/crons", cronRequest, ["crons.create", null, cronRequest, ORIGIN]],
  [
    "POST",
    "/runs/crons",
    { ...cronRequest, assistant_id: ASSISTANT.toUpperCase(), end_time: null, enabled: null, unknown: 1, command: {} },
    ["crons.create", null, { ...cronRequest, assistant_id: ASSISTANT }, ORIGIN],
  ],
  [
    "POST",
    T,
    { ...cronRequest, if_not_exists: "create", multitask_strategy: "reject", input: null, metadata: { a: 1 } },
    [
      "crons.create",
      THREAD,
      { ...cronRequest, if_not_exists: "create", multitask_strategy: "reject", metadata: { a: 1 } },
      ORIGIN,
    ],
  ],
  [
    "POST",
    "/runs/crons",
    { ...cronRequest, timezone: "Europe/Berlin", end_time: "2030-01-01", enabled: false, on_run_completed: "keep" },
    [
      "crons.create",
      null,
      { ...cronRequest, timezone: "Europe/Berlin", end_time: "2030-01-01", enabled: false, on_run_completed: "keep" },
      ORIGIN,
    ],
  ],
  ["GET", C, undefined, ["crons.get", RUN]],
  ["DELETE", C.replace(RUN, RUN.toUpperCase()), undefined, ["crons.delete", RUN]],
  ["PATCH", C, undefined, ["crons.update", RUN, {}]],
  [
    "PATCH",
    C,
    { schedule: null, enabled: null, metadata: null, on_run_completed: null, end_time: null, webhook: null },
    ["crons.update", RUN, { end_time: null, webhook: null }],
  ],
  [
    "PATCH",
    C,
    { schedule: "@daily", enabled: true, stream_mode: "values", assistant_id: "g" },
    ["crons.update", RUN, { schedule: "@daily", enabled: true, stream_mode: "values" }],
  ],
  ["POST", "/runs/crons/search", undefined, ["crons.search", page]],
  [
    "POST",
    "/runs/crons/search",
    { assistant_id: "g", thread_id: THREAD, enabled: true, metadata: { a: 1 }, sort_by: "next_run_date", select: [] },
    [
      "crons.search",
      { ...page, assistant_id: "g", thread_id: THREAD, enabled: true, metadata: { a: 1 }, sort_by: "next_run_date" },
    ],
  ],
  ["POST", "/runs/crons/count", { assistant_id: "g", limit: 5 }, ["crons.count", { assistant_id: "g" }]],
];

/** method, path, body, invalid field */
const REFUSED: readonly (readonly [string, string, unknown, string])[] = [
  ["POST", "/runs/crons", {}, "assistant_id"],
  ["POST", "/runs/crons", { assistant_id: "g" }, "schedule"],
  ["POST", "/runs/crons", { ...cronRequest, schedule: 5 }, "schedule"],
  ["POST", "/runs/crons", { ...cronRequest, schedule: "" }, "schedule"],
  ["POST", "/runs/crons", { ...cronRequest, timezone: 2 }, "timezone"],
  ["POST", "/runs/crons", { ...cronRequest, timezone: "" }, "timezone"],
  ["POST", "/runs/crons", { ...cronRequest, end_time: 2030 }, "end_time"],
  ["POST", "/runs/crons", { ...cronRequest, enabled: "yes" }, "enabled"],
  ["POST", "/runs/crons", { ...cronRequest, on_run_completed: "drop" }, "on_run_completed"],
  ["POST", "/runs/crons", { ...cronRequest, metadata: [] }, "metadata"],
  ["POST", "/runs/crons", { ...cronRequest, config: 1 }, "config"],
  ["POST", "/runs/crons", { ...cronRequest, webhook: 1 }, "webhook"],
  ["POST", "/runs/crons", { ...cronRequest, multitask_strategy: "wait" }, "multitask_strategy"],
  ["POST", "/runs/crons", { ...cronRequest, stream_mode: "all" }, "stream_mode"],
  ["POST", "/runs/crons", { ...cronRequest, durability: "none" }, "durability"],
  ["POST", T, { ...cronRequest, if_not_exists: "maybe" }, "if_not_exists"],
  ["POST", "/threads/x/runs/crons", cronRequest, "thread_id"],
  ["PATCH", C, { schedule: "" }, "schedule"],
  ["PATCH", C, { enabled: 1 }, "enabled"],
  ["PATCH", "/runs/crons/x", {}, "cron_id"],
  ["GET", "/runs/crons/x", undefined, "cron_id"],
  ["GET", "/runs/crons/a%2Fb", undefined, "cron_id"],
  ["DELETE", "/runs/crons/x", undefined, "cron_id"],
  ["POST", "/runs/crons/search", { limit: 0 }, "limit"],
  ["POST", "/runs/crons/search", { limit: 1001 }, "limit"],
  ["POST", "/runs/crons/search", { sort_by: "schedule" }, "sort_by"],
  ["POST", "/runs/crons/search", { sort_order: "up" }, "sort_order"],
  ["POST", "/runs/crons/search", { select: ["failures"] }, "select"],
  ["POST", "/runs/crons/search", { thread_id: "x" }, "thread_id"],
  ["POST", "/runs/crons/count", { metadata: "x" }, "metadata"],
];

describe("the cron routes", () => {
  for (const [method, path, body, call] of CALLS) {
    it(`${method} ${path} ${JSON.stringify(body)}`, async () => {
      const { send, calls } = fake({ answers: { "crons.search": () => ({ items: [], total: 0, next: null }) } });
      const response = await send(method, path, body);
      assert.equal(response.status, method === "DELETE" ? 204 : 200);
      assert.deepEqual(calls, [call]);
    });
  }

  for (const [method, path, body, field] of REFUSED) {
    it(`${method} ${path} ${JSON.stringify(body)} → 422`, async () => {
      const { send, calls } = fake();
      const response = await send(method, path, body);
      assert.equal(response.status, 422);
      assert.match(((await response.json()) as { detail: string }).detail, new RegExp(`^${field}[.:]`));
      assert.deepEqual(calls, []);
    });
  }

  it("pass the caller and not the key", async () => {
    const user = { identity: "ann", permissions: [], display_name: "ann", is_authenticated: true };
    const { send, calls } = fake({ principal: { ...anonymousPrincipal, user_id: "u", api_key: "lsv2…abcd", user } });
    await send("POST", "/runs/crons", cronRequest, { "x-own": "header" });
    const createCalls = calls.filter(([name]) => name === "crons.create");
    assert.deepEqual(createCalls, [["crons.create", null, cronRequest, { user_id: "u", user }]]);
  });

  it("return a page of a search with the selected members", async () => {
    const cron = { cron_id: RUN, schedule: "* * * * *", payload: {} };
    const { send } = fake({ answers: { "crons.search": () => ({ items: [cron], total: 7, next: 3 }) } });
    const response = await send("POST", "/runs/crons/search", { select: ["cron_id", "payload"] });
    assert.deepEqual(await response.json(), [{ cron_id: RUN, payload: {} }]);
    const { headers } = response;
    assert.deepEqual([headers.get("x-pagination-total"), headers.get("x-pagination-next")], ["7", "3"]);
  });
});

describe("crons over HTTP", () => {
  const open = async () => {
    const clock = testClock(Date.parse("2026-11-20T15:27:30Z"));
    const kit = await testService({ environment: clock, agents: { async *echo() {} } });
    const send = async (method: string, path: string, body?: unknown): Promise<[status: number, answer: Json]> => {
      const init = body === undefined ? { method } : { method, body: JSON.stringify(body) };
      const response = await kit.fetch(`http://x${path}`, init);
      return [response.status, response.status === 204 ? null : ((await response.json()) as Json)];
    };
    return { send, [Symbol.asyncDispose]: () => kit[Symbol.asyncDispose]() };
  };
  const echo = { assistant_id: "echo", schedule: "0 * * * *" };

  it("are created, updated and deleted", async () => {
    await using at = await open();
    const [status, createdCron] = await at.send("POST", "/runs/crons", { ...echo, input: { a: 1 } });
    assert.equal(status, 200);
    const { cron_id, next_run_date } = createdCron as { cron_id: string; next_run_date: string };
    assert.equal(next_run_date, "2026-11-20T16:00:00.000Z");
    const path = `/runs/crons/${cron_id}`;
    assert.deepEqual(await at.send("GET", path), [200, createdCron]);
    assert.deepEqual(await at.send("POST", "/runs/crons/search", { assistant_id: "echo" }), [200, [createdCron]]);
    assert.deepEqual(await at.send("POST", "/runs/crons/count", {}), [200, 1]);
    const [patched, changed] = await at.send("PATCH", path, { end_time: "2026-11-20T15:30:00Z" });
    assert.deepEqual([patched, (changed as JsonObject).next_run_date], [200, null]);
    const [cleared, again] = await at.send("PATCH", path, { end_time: null });
    assert.deepEqual([cleared, (again as JsonObject).next_run_date], [200, next_run_date]);
    assert.deepEqual(await at.send("DELETE", path), [204, null]);
    for (const [method, body] of [
      ["GET", undefined],
      ["PATCH", {}],
      ["DELETE", undefined],
    ] as const) {
      assert.deepEqual(await at.send(method, path, body), [
        404,
        { detail: `Cron ${cron_id} not found`, code: "not_found" },
      ]);
    }
  });

  it("are refused with the invalid field", async () => {
    await using at = await open();
    const [, thread] = await at.send("POST", "/threads", {});
    const threadCrons = `/threads/${(thread as JsonObject).thread_id}/runs/crons`;
    for (const [path, requestFields, status, field] of [
      ["/runs/crons", { schedule: "0 0 30 2 *" }, 422, "schedule"],
      ["/runs/crons", { schedule: "0 0 12 * * *" }, 422, "schedule"],
      ["/runs/crons", { schedule: "2026-12-24T18:00:00" }, 422, "schedule"],
      ["/runs/crons", { schedule: "0/15 * * * *" }, 422, "schedule"],
      ["/runs/crons", { timezone: "Mars/Phobos" }, 422, "timezone"],
      ["/runs/crons", { end_time: "2026-11-20T15:27:30Z" }, 422, "end_time"],
      ["/runs/crons", { end_time: "tomorrow" }, 422, "end_time"],
      ["/runs/crons", { webhook: "https://user:pass@x.example/" }, 422, "Invalid webhook URL"],
      ["/runs/crons", { assistant_id: "nobody" }, 404, "Assistant nobody"],
      ["/runs/crons", { config: { configurable: { a: 1 } }, context: { a: 2 } }, 400, "a has two values"],
      [threadCrons, { on_run_completed: "delete" }, 422, "on_run_completed"],
      [T, {}, 404, `Thread ${THREAD}`],
    ] as const) {
      const [answered, body] = await at.send("POST", path, { ...echo, ...requestFields });
      assert.equal(answered, status, JSON.stringify(requestFields));
      assert.match(String((body as JsonObject).detail), new RegExp(`^${field}`));
    }
    assert.deepEqual(await at.send("POST", "/runs/crons/count", {}), [200, 0]);
    const [createCall] = await at.send("POST", T, { ...echo, if_not_exists: "create" });
    assert.equal(createCall, 200);
    assert.equal((await at.send("GET", `/threads/${THREAD}`))[0], 200);
  });

  it("are reported by /info and /metrics", async () => {
    await using at = await open();
    const [, info] = await at.send("GET", "/info");
    assert.equal(((info as JsonObject).flags as JsonObject).crons, true);
    const text = await (await fake().send("GET", "/metrics")).text();
    assert.match(text, /^greenroom_crons_fired_total 6$/m);
    assert.match(text, /^greenroom_crons_skipped_total\{reason="superseded"\} 3$/m);
  });
});

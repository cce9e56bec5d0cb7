import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, it } from "node:test";
import { until } from "../../../support/until.ts";
import { ASSISTANT, fake, RUN, THREAD } from "../fake-service.ts";

const T = `/threads/${THREAD}`;
const R = `${T}/runs/${RUN}`;
const A = `/assistants/${ASSISTANT}`;
const page = { limit: 10, offset: 0 };
/** The fields that a request without a key adds to its runs. */
const ORIGIN = { configurable: {}, user_id: null, api_key: null, webhook_depth: 0 };

/** method, path, body, expected call */
const CALLS: readonly (readonly [string, string, unknown, readonly unknown[]])[] = [
  ["POST", "/assistants", { graph_id: "g" }, ["assistants.create", { graph_id: "g" }]],
  [
    "POST",
    "/assistants",
    { graph_id: "g", name: null, assistant_id: ASSISTANT.toUpperCase(), if_exists: "do_nothing", unknown: 1 },
    ["assistants.create", { graph_id: "g", assistant_id: ASSISTANT, if_exists: "do_nothing" }],
  ],
  ["POST", "/assistants/search", undefined, ["assistants.search", page]],
  [
    "POST",
    "/assistants/search",
    { metadata: { a: 1 }, sort_by: "name", sort_order: "asc", limit: 1000, offset: 5 },
    ["assistants.search", { metadata: { a: 1 }, limit: 1000, offset: 5, sort_by: "name", sort_order: "asc" }],
  ],
  ["POST", "/assistants/count", { name: "x" }, ["assistants.count", { name: "x" }]],
  ["GET", A, undefined, ["assistants.get", ASSISTANT]],
  ["GET", `${A.toUpperCase().replace("/ASSISTANTS", "/assistants")}`, undefined, ["assistants.get", ASSISTANT]],
  ["GET", "/assistants/my%20graph", undefined, ["assistants.get", "my graph"]],
  ["GET", "/assistants/100%2525", undefined, ["assistants.get", "100%25"]],
  ["GET", `${A}/`, undefined, ["assistants.get", ASSISTANT]],
  [
    "PATCH",
    A,
    { context: null, config: { tags: null, recursion_limit: 5, own: 1 } },
    ["assistants.update", ASSISTANT, { config: { recursion_limit: 5, own: 1 } }],
  ],
  ["DELETE", A, undefined, ["assistants.delete", ASSISTANT, {}]],
  ["DELETE", `${A}?delete_threads=true`, undefined, ["assistants.delete", ASSISTANT, { delete_threads: true }]],
  ["POST", `${A}/versions`, { limit: 2 }, ["assistants.versions", ASSISTANT, { limit: 2, offset: 0 }]],
  ["POST", `${A}/latest`, { version: 3 }, ["assistants.setLatest", ASSISTANT, 3]],
  ["POST", `${A}/latest?version=4`, undefined, ["assistants.setLatest", ASSISTANT, 4]],
  ["GET", `${A}/graph`, undefined, ["assistants.graph", ASSISTANT, undefined]],
  ["GET", `${A}/graph?xray=true`, undefined, ["assistants.graph", ASSISTANT, true]],
  ["GET", `${A}/graph?xray=2`, undefined, ["assistants.graph", ASSISTANT, 2]],
  ["GET", `${A}/schemas`, undefined, ["assistants.schemas", ASSISTANT]],
  ["GET", `${A}/subgraphs?recurse=yes`, undefined, ["assistants.subgraphs", ASSISTANT, null, true]],
  ["GET", `${A}/subgraphs/child%7Cdeeper`, undefined, ["assistants.subgraphs", ASSISTANT, "child|deeper", undefined]],

  ["POST", "/threads", undefined, ["threads.create", {}]],
  [
    "POST",
    "/threads",
    { thread_id: THREAD, metadata: { a: null } },
    ["threads.create", { thread_id: THREAD, metadata: { a: null } }],
  ],
  ["GET", T, undefined, ["threads.get", THREAD, {}]],
  ["PATCH", T, { metadata: { a: 1 } }, ["threads.update", THREAD, { metadata: { a: 1 } }]],
  ["DELETE", T, undefined, ["threads.delete", THREAD]],
  [
    "POST",
    "/threads/search",
    { status: "busy", ids: [THREAD], values: { a: 1 } },
    ["threads.search", { values: { a: 1 }, status: "busy", ids: [THREAD], ...page }],
  ],
  [
    "POST",
    "/threads/search",
    { select: ["thread_id", "values"] },
    ["threads.search", { ...page, select: ["thread_id", "values"] }],
  ],
  ["POST", "/threads/count", {}, ["threads.count", {}]],
  ["GET", `${T}/state`, undefined, ["threads.state", THREAD, {}]],
  ["GET", `${T}/state?subgraphs=True`, undefined, ["threads.state", THREAD, { subgraphs: true }]],
  ["GET", `${T}/state?subgraphs=`, undefined, ["threads.state", THREAD, {}]],
  [
    "GET",
    `${T}/state/cp-1?subgraphs=0`,
    undefined,
    ["threads.stateAt", THREAD, { checkpoint_id: "cp-1" }, { subgraphs: false }],
  ],
  [
    "POST",
    `${T}/state/checkpoint`,
    { checkpoint: { checkpoint_id: "c", checkpoint_ns: "", checkpoint_map: null }, subgraphs: true },
    ["threads.stateAt", THREAD, { checkpoint_id: "c", checkpoint_ns: "" }, { subgraphs: true }],
  ],
  ["GET", `${T}/history?limit=3&before=c`, undefined, ["threads.history", THREAD, { limit: 3, before: "c" }]],
  ["POST", `${T}/history`, { before: "c" }, ["threads.history", THREAD, { limit: 10, before: "c" }]],
  [
    "POST",
    `${T}/history`,
    { before: { checkpoint_id: "c", thread_id: THREAD } },
    ["threads.history", THREAD, { limit: 10, before: "c" }],
  ],
  [
    "POST",
    `${T}/history`,
    { before: { configurable: { checkpoint_id: "c" } } },
    ["threads.history", THREAD, { limit: 10, before: "c" }],
  ],

  ["POST", `${T}/runs`, { assistant_id: "g" }, ["runs.create", THREAD, { assistant_id: "g" }, ORIGIN]],
  [
    "POST",
    "/runs",
    { assistant_id: ASSISTANT.toUpperCase() },
    ["runs.create", null, { assistant_id: ASSISTANT }, ORIGIN],
  ],
  ["GET", `${T}/runs`, undefined, ["runs.list", THREAD, page]],
  [
    "GET",
    `${T}/runs?status=pending&limit=1000&select=run_id,kwargs`,
    undefined,
    ["runs.list", THREAD, { limit: 1000, offset: 0, status: "pending" }],
  ],
  ["GET", R, undefined, ["runs.get", THREAD, RUN]],
  ["DELETE", R, undefined, ["runs.delete", THREAD, RUN]],
  ["GET", `${R}/join?cancel_on_disconnect=1`, undefined, ["runs.join", THREAD, RUN, { cancel_on_disconnect: true }]],
  ["POST", `${R}/cancel`, undefined, ["runs.cancel", THREAD, RUN, { action: "interrupt", wait: false }]],
  [
    "POST",
    `${R}/cancel?wait=1&action=rollback&reason=changed`,
    undefined,
    ["runs.cancel", THREAD, RUN, { action: "rollback", wait: true, reason: "changed" }],
  ],
  ["POST", "/runs/cancel", { status: "all" }, ["runs.cancelMany", { status: "all" }, "interrupt"]],
  [
    "POST",
    "/runs/cancel?action=rollback",
    { thread_id: THREAD.toUpperCase(), run_ids: [RUN], status: null },
    ["runs.cancelMany", { thread_id: THREAD, run_ids: [RUN] }, "rollback"],
  ],
  [
    "POST",
    "/runs/batch",
    [
      { assistant_id: "g", assistantId: "g", input: 1 },
      { assistant_id: ASSISTANT.toUpperCase(), input: null },
    ],
    ["runs.createBatch", [{ assistant_id: "g", input: 1 }, { assistant_id: ASSISTANT }], ORIGIN],
  ],
  ["GET", `${T}/stream`, undefined, ["threads.stream", THREAD, { modes: [], after: undefined }]],
  [
    "GET",
    `${T}/stream?stream_mode=lifecycle&stream_modes=["state_update"]`,
    undefined,
    ["threads.stream", THREAD, { modes: ["lifecycle", "state_update"], after: undefined }],
  ],
  ["GET", `${R}/stream`, undefined, ["runs.joinStream", THREAD, RUN, { after: undefined, modes: undefined }]],
  [
    "GET",
    `${R}/stream?namespace=&namespace=tools:a|b:1&checkpoint_id=c`,
    undefined,
    ["runs.joinStream", THREAD, RUN, { after: undefined, modes: undefined, namespaces: ["", "tools:a|b:1"] }],
  ],
  [
    "GET",
    `${R}/stream?namespace=["","a:1"]`,
    undefined,
    ["runs.joinStream", THREAD, RUN, { after: undefined, modes: undefined, namespaces: ["", "a:1"] }],
  ],
  ["GET", `${T}/storage`, undefined, ["threads.storage", THREAD]],
  ["GET", `/runs/${RUN}/stream`, undefined, ["runs.joinStream", null, RUN, { after: undefined, modes: undefined }]],
];

describe("routes of assistants, threads and runs", () => {
  for (const [method, path, body, call] of CALLS) {
    it(`${method} ${path} ${JSON.stringify(body) ?? ""}`, async () => {
      const { send, calls, result } = fake();
      result.resolve({});
      const response = await send(method, path, body);
      assert.ok(response.ok, String(response.status));
      assert.deepEqual(calls, [call]);
      await response.body?.cancel();
    });
  }

  it("accept every field of a run", async () => {
    const request = {
      assistant_id: "g",
      input: { messages: [{ role: "user", content: "hi" }] },
      command: { resume: null, update: [["a", 1]], goto: [{ node: "n", input: null }, "m"] },
      config: { tags: ["a"], recursion_limit: 3, configurable: { k: 1 }, run_name: "x" },
      context: { c: 1 },
      metadata: { m: 1 },
      checkpoint: { checkpoint_id: "c" },
      checkpoint_id: "c",
      stream_mode: ["values", "messages-tuple"],
      stream_subgraphs: true,
      stream_resumable: true,
      multitask_strategy: "reject",
      if_not_exists: "create",
      on_disconnect: "cancel",
      on_completion: "keep",
      after_seconds: 0.5,
      interrupt_before: "*",
      interrupt_after: ["n"],
      durability: "exit",
      checkpoint_during: false,
      webhook: "https://example.com/",
      feedback_keys: ["k"],
      strict_resume: true,
    };
    const { send, calls } = fake();
    await send("POST", "/runs", { ...request, langsmith_tracer: {} });
    assert.deepEqual(calls, [["runs.create", null, request, ORIGIN]]);
  });

  it("ignore unknown values of on_completion", async () => {
    const { send, calls } = fake();
    await send("POST", "/runs", { assistant_id: "g", on_completion: "complete" });
    assert.equal((calls[0]![2] as { on_completion?: string }).on_completion, undefined);
  });

  it("pass user data on unchanged", async () => {
    const text =
      '{"__proto__":{"polluted":true},"constructor":{"prototype":1},"nul":"a\\u0000b","lone":"\\ud800","lc":{"lc":1,"type":"constructor"},"none":null}';
    const { send, calls } = fake();
    const user = ["input", "context", "metadata", "config"].map((field) => `"${field}":${text}`).join(",");
    await send("POST", "/runs", `{"assistant_id":"g",${user},"command":{"update":${text},"resume":${text}}}`);
    const request = calls[0]?.[2] as Record<string, unknown>;
    for (const field of ["input", "context", "metadata", "config"]) assert.equal(JSON.stringify(request[field]), text);
    assert.equal(JSON.stringify(request.command), `{"update":${text},"resume":${text}}`);
    assert.equal(({} as { polluted?: boolean }).polluted, undefined);
  });

  it("read a body whatever its content type", async () => {
    const { send, calls } = fake();
    await send("POST", "/threads", '{"metadata":{"a":1}}', { "content-type": "text/plain" });
    assert.deepEqual(calls, [["threads.create", { metadata: { a: 1 } }]]);
  });

  const lists = [
    "stream_mode=values&stream_mode=updates",
    'stream_mode=["values","updates"]',
    "stream_mode=values,updates",
  ];
  for (const list of lists) {
    it(`read the list ${list}`, async () => {
      const { send, calls } = fake();
      await (await send("GET", `${R}/stream?${list}`)).body?.cancel();
      assert.deepEqual((calls[0]![3] as { modes: string[] }).modes, ["values", "updates"]);
    });
  }

  it("read one bare value as a list, and an empty one as absent", async () => {
    const { send, calls } = fake();
    await (await send("GET", `${R}/stream?stream_mode=values`)).body?.cancel();
    await (await send("GET", `${R}/stream?stream_mode=`)).body?.cancel();
    assert.deepEqual((calls[0]![3] as { modes: string[] }).modes, ["values"]);
    assert.equal((calls[1]![3] as { modes?: string[] }).modes, undefined);
  });

  for (const [text, value] of Object.entries({
    true: true,
    True: true,
    1: true,
    YES: true,
    false: false,
    False: false,
    0: false,
    no: false,
  })) {
    it(`read the boolean ${text}`, async () => {
      const { send, calls } = fake();
      await send("GET", `${T}/state?subgraphs=${text}`);
      assert.deepEqual(calls[0]?.[2], { subgraphs: value });
    });
  }

  for (const [lastEventId, after] of [
    ["-1", undefined],
    ["-", undefined],
    ["0", 0],
    ["41", 41],
  ] as const) {
    it(`continue after Last-Event-ID ${lastEventId}`, async () => {
      const { send, calls } = fake();
      await (await send("GET", `${R}/stream`, undefined, { "last-event-id": lastEventId })).body?.cancel();
      assert.equal((calls[0]![3] as { after?: number }).after, after);
    });
  }

  for (const [lastEventId, after] of [
    ["-1", { seq: 0, frame: 0, at: 0 }],
    ["-", { seq: 0, frame: 0, at: 0 }],
    ["12-4294967297-1700000000000", { seq: 12, frame: 4294967297, at: 1_700_000_000_000 }],
  ] as const) {
    it(`continue a thread after Last-Event-ID ${lastEventId}`, async () => {
      const { send, calls } = fake();
      await (await send("GET", `${T}/stream`, undefined, { "last-event-id": lastEventId })).body?.cancel();
      assert.deepEqual((calls[0]![2] as { after?: unknown }).after, after);
    });
  }

  it("accept an Idempotency-Key, which applies to the route and the body", async () => {
    const { send, calls, result } = fake();
    result.resolve({});
    const key = `${"!".repeat(254)}~`;
    const body = '{"assistant_id":"g"}';
    for (const [route, text] of [
      [`${T}/runs`, body],
      [`${T}/runs/stream`, body],
      [`${T}/runs/wait`, body],
      ["/runs", body],
      ["/runs/stream", body],
      ["/runs/wait", ` ${body}`],
      ["/runs/batch", `[${body}]`],
    ] as const) {
      await (await send("POST", route, text, { "idempotency-key": key })).body?.cancel();
      const body_hash = createHash("sha256").update(text).digest("hex");
      assert.deepEqual(calls.at(-1)!.at(-1), { ...ORIGIN, idempotency: { route, key, body_hash } });
    }
  });

  it("accept feedback_keys as a text or a list", async () => {
    for (const feedback_keys of ["k", ["k", "__proto__", "k"], []]) {
      const { send, calls } = fake();
      assert.equal((await send("POST", "/runs", { assistant_id: "g", feedback_keys })).status, 200);
      assert.deepEqual(calls, [["runs.create", null, { assistant_id: "g", feedback_keys }, ORIGIN]]);
    }
  });

  it("say for the trace of a run how it was created, with the trace context of the request", async () => {
    const { send, origins } = fake();
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const headers = { traceparent, tracestate: "a=b", "x-request-id": "r-1" };
    const body = { assistant_id: "g" };
    const created = [
      ["/runs", body, "runs.create", "POST /runs"],
      ["/runs/wait", body, "runs.wait", "POST /runs/wait"],
      ["/runs/stream", body, "runs.stream", "POST /runs/stream"],
      ["/runs/batch", [body], "runs.batch", "POST /runs/batch"],
      [`/threads/${THREAD}/runs`, body, "runs.create", "POST /threads/{thread_id}/runs"],
    ] as const;
    for (const [path, request, source, route] of created) {
      origins.splice(0);
      void send("POST", path, request, headers);
      await until(() => origins.length > 0);
      assert.deepEqual(origins[0], { source, route, request_id: "r-1", traceparent, tracestate: "a=b" });
    }
  });

  it("pass on the depth of relative webhooks and the caller", async () => {
    const user_id = "44444444-4444-4444-8444-444444444444";
    const principal = { user_id, api_key: "gr_pt_...abcd", threads: {}, user: null };
    const { send, calls, origins } = fake({ principal });
    await send("POST", "/runs", { assistant_id: "g" }, { "x-webhook-depth": "3" });
    const configurable = {};
    assert.deepEqual(calls[0]?.[3], { configurable, user_id, api_key: "gr_pt_...abcd", webhook_depth: 3 });
    const { source } = (origins[0] ?? {}) as { readonly source?: string };
    assert.equal(source, "webhook");
    for (const depth of ["-1", "1.5", "x", "", "10000"]) {
      assert.equal((await send("POST", "/runs", { assistant_id: "g" }, { "x-webhook-depth": depth })).status, 422);
    }
    assert.equal(calls.length, 1);
  });

  it("copy headers into the run's configurable, but no credentials", async () => {
    const { send, calls } = fake();
    await send(
      "POST",
      "/runs",
      { assistant_id: "g" },
      {
        "user-agent": "test/1",
        "x-user-locale": "de",
        "x-auth-scheme": "service-api-key",
        "x-api-key": "secret",
        "x-tenant-id": "t",
        "x-service-key": "secret",
        "x-auth-token": "secret",
        "x-forwarded-authorization": "secret",
        "x-amz-security-token": "secret",
        "x-custom-api-key": "secret",
        authorization: "Bearer secret",
        cookie: "a=secret",
        accept: "text/event-stream",
      },
    );
    const { configurable } = calls[0]![3] as { configurable: Record<string, string> };
    assert.deepEqual(configurable, {
      "user-agent": "test/1",
      "x-user-locale": "de",
      "x-auth-scheme": "service-api-key",
    });
  });
});

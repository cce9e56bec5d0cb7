import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ASSISTANT, fake, notFound, RUN, THREAD } from "./fake.ts";

const T = `/threads/${THREAD}`;
const R = `${T}/runs/${RUN}`;
const A = `/assistants/${ASSISTANT}`;
const page = { limit: 10, offset: 0 };

/** method, path, body, the call it makes */
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
  ["GET", `${A}/graph`, undefined, ["assistants.drawn", ASSISTANT, undefined]],
  ["GET", `${A}/graph?xray=true`, undefined, ["assistants.drawn", ASSISTANT, true]],
  ["GET", `${A}/graph?xray=2`, undefined, ["assistants.drawn", ASSISTANT, 2]],
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
  ["GET", T, undefined, ["threads.get", THREAD]],
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

  ["POST", `${T}/runs`, { assistant_id: "g" }, ["runs.create", THREAD, { assistant_id: "g" }, { configurable: {} }]],
  [
    "POST",
    "/runs",
    { assistant_id: ASSISTANT.toUpperCase() },
    ["runs.create", null, { assistant_id: ASSISTANT }, { configurable: {} }],
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
  ["GET", `${R}/stream`, undefined, ["runs.joinStream", THREAD, RUN, { after: undefined, modes: undefined }]],
  ["GET", `/runs/${RUN}/stream`, undefined, ["runs.joinStream", null, RUN, { after: undefined, modes: undefined }]],
];

describe("routes", () => {
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

  it("take every field of a run", async () => {
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
    };
    const { send, calls } = fake();
    await send("POST", "/runs", { ...request, strict_resume: true, langsmith_tracer: {} });
    assert.deepEqual(calls, [["runs.create", null, request, { configurable: {} }]]);
  });

  it("ignore values of on_completion they do not know", async () => {
    const { send, calls } = fake();
    await send("POST", "/runs", { assistant_id: "g", on_completion: "complete" });
    assert.equal((calls[0]![2] as { on_completion?: string }).on_completion, undefined);
  });

  it("hand user data on exactly as it was sent", async () => {
    const text =
      '{"__proto__":{"polluted":true},"constructor":{"prototype":1},"nul":"a\\u0000b","lone":"\\ud800","lc":{"lc":1,"type":"constructor"},"none":null}';
    const { send, calls } = fake();
    const user = ["input", "context", "metadata", "config"].map((field) => `"${field}":${text}`).join(",");
    await send("POST", "/runs", `{"assistant_id":"g",${user},"command":{"update":${text},"resume":${text}}}`);
    const sent = calls[0]?.[2] as Record<string, unknown>;
    for (const field of ["input", "context", "metadata", "config"]) assert.equal(JSON.stringify(sent[field]), text);
    assert.equal(JSON.stringify(sent.command), `{"update":${text},"resume":${text}}`);
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

  it("read a list of one bare value, and an empty one as absent", async () => {
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

  for (const [sent, after] of [
    ["-1", undefined],
    ["-", undefined],
    ["0", 0],
    ["41", 41],
  ] as const) {
    it(`continue after Last-Event-ID ${sent}`, async () => {
      const { send, calls } = fake();
      await (await send("GET", `${R}/stream`, undefined, { "last-event-id": sent })).body?.cancel();
      assert.equal((calls[0]![3] as { after?: number }).after, after);
    });
  }

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

describe("answers", () => {
  it("carry the paths of the run, relative to the mount", async () => {
    for (const prefix of ["", "/agents"]) {
      const { send, result } = fake({ prefix });
      result.resolve({});
      const headers = async (method: string, path: string): Promise<(string | null)[]> => {
        const body = method === "POST" ? { assistant_id: "g" } : undefined;
        const response = await send(method, `${prefix}${path}`, body);
        assert.equal(response.status, 200);
        await response.body?.cancel();
        return [response.headers.get("content-location"), response.headers.get("location")];
      };
      assert.deepEqual(await headers("POST", `${T}/runs`), [R, null]);
      assert.deepEqual(await headers("POST", `${T}/runs/stream`), [R, `${R}/stream`]);
      assert.deepEqual(await headers("POST", `${T}/runs/wait`), [R, `${R}/join`]);
      assert.deepEqual(await headers("POST", "/runs"), [`/runs/${RUN}`, null]);
      assert.deepEqual(await headers("POST", "/runs/stream"), [`/runs/${RUN}`, `/runs/${RUN}/stream`]);
      assert.deepEqual(await headers("POST", "/runs/wait"), [`/runs/${RUN}`, null]);
      assert.deepEqual(await headers("GET", `${R}/stream`), [null, `${R}/stream`]);
      assert.deepEqual(await headers("GET", `/runs/${RUN}/stream`), [null, `/runs/${RUN}/stream`]);
    }
  });

  it("page searches", async () => {
    const { send } = fake();
    const assistants = await send("POST", "/assistants/search", {});
    assert.deepEqual(
      [assistants.headers.get("x-pagination-total"), assistants.headers.get("x-pagination-next")],
      ["7", "1"],
    );
    const threads = await send("POST", "/threads/search", {});
    assert.deepEqual(
      [threads.headers.get("x-pagination-total"), threads.headers.get("x-pagination-next")],
      ["1", null],
    );
  });

  it("hold the selected fields alone", async () => {
    const { send } = fake();
    const assistants = await send("POST", "/assistants/search", { select: ["version", "name"] });
    assert.deepEqual(await assistants.json(), [{ name: "one", version: 3 }]);
    const runs = await send("GET", `${T}/runs?select=["run_id"]`);
    assert.deepEqual(await runs.json(), [{ run_id: RUN }]);
  });

  it("hold the selected fields of a state, and single ones of its values", async () => {
    const state = { values: { a: 1, "b.c": 2, ["__proto__"]: 3 }, next: [], tasks: [], metadata: { step: 1 } };
    const get = (): unknown => state;
    const { send } = fake({
      answers: { "threads.state": get, "threads.stateAt": get, "threads.history": () => [state] },
    });
    const read = async (method: string, path: string, body?: unknown): Promise<unknown> =>
      (await send(method, T + path, body)).json();
    assert.deepEqual(await read("GET", "/state"), JSON.parse(JSON.stringify(state)));
    assert.deepEqual(await read("GET", "/state?select=next&select=metadata"), { next: [], metadata: { step: 1 } });
    assert.deepEqual(await read("GET", "/state?select=next,values.b.c"), { next: [], values: { "b.c": 2 } });
    assert.deepEqual(await read("GET", '/state/c?select=["values.a","values"]'), { values: state.values });
    assert.deepEqual(await read("GET", "/history?select=values.nothing"), [{ values: {} }]);
    assert.deepEqual(await read("POST", "/history", { select: ["next"] }), [{ next: [] }]);
    const checkpoint = { checkpoint_id: "c" };
    assert.deepEqual(await read("POST", "/state/checkpoint", { checkpoint, select: ["tasks"] }), { tasks: [] });
  });

  it("are 204 where there is nothing to say", async () => {
    const { send } = fake();
    for (const [method, path, headers] of [
      ["DELETE", T],
      ["DELETE", R],
      ["DELETE", A],
      ["PATCH", T, { prefer: "return=minimal" }],
    ] as const) {
      const response = await send(method, path, undefined, headers);
      assert.deepEqual([response.status, await response.text()], [204, ""]);
    }
  });

  it("count as a bare integer", async () => {
    assert.equal(await (await fake().send("POST", "/assistants/count", {})).text(), "7");
  });

  it("tell about the server", async () => {
    assert.deepEqual(await (await fake().send("GET", "/ok")).json(), { ok: true });
    const ill = await fake({ healthy: false }).send("GET", "/ok");
    assert.equal(ill.status, 503);
    assert.equal(((await ill.json()) as { ok: boolean }).ok, false);
    assert.equal(((await (await fake().send("GET", "/info")).json()) as { version: string }).version, "9.9.9");
  });

  it("show the page at the mount where there is one", async () => {
    const page = (): string => "<p>hello</p>";
    const there = await fake({ page }).send("GET", "/");
    assert.deepEqual([there.headers.get("content-type"), await there.text()], ["text/html; charset=utf-8", page()]);
    assert.equal((await fake({ page, prefix: "/agents" }).send("GET", "/agents")).status, 200);
    assert.equal((await fake().send("GET", "/")).status, 404);
  });

  it("carry a request id: a well-formed one that was sent, or a new one", async () => {
    const { send } = fake();
    const id = async (sent?: string): Promise<string | null> =>
      (await send("GET", "/ok", undefined, sent === undefined ? {} : { "x-request-id": sent })).headers.get(
        "x-request-id",
      );
    assert.equal(await id("abc-123"), "abc-123");
    assert.equal(await id(), "id-1");
    assert.equal(await id('a"b<c>'), "id-2");
    assert.equal(await id("x".repeat(129)), "id-3");
  });

  it("to HEAD are those to GET without the body", async () => {
    const { send, calls, leaves } = fake();
    const response = await send("HEAD", T);
    assert.deepEqual(
      [response.status, response.headers.get("content-type"), await response.text()],
      [200, "application/json", ""],
    );
    assert.equal((await send("HEAD", "/nothing")).status, 404);
    const joined = await send("HEAD", `${R}/join?cancel_on_disconnect=1`);
    assert.equal(joined.status, 200);
    assert.deepEqual(calls.at(-1), ["runs.join", THREAD, RUN, { cancel_on_disconnect: false }]);
    assert.equal(leaves(), 1);
  });

  it("hide what went wrong unexpectedly, and log it", async () => {
    const { send, log } = fake({
      answers: {
        "threads.get": () => {
          throw new Error("password of the database");
        },
      },
    });
    const response = await send("GET", T);
    assert.deepEqual([response.status, await response.json()], [500, { detail: "Internal server error" }]);
    assert.equal(response.headers.get("x-request-id"), log[0]?.request_id);
    assert.equal((log[0]!.error as Error).message, "password of the database");
  });

  it("carry the service's own errors", async () => {
    const response = await fake({ answers: { "threads.get": notFound } }).send("GET", T);
    assert.deepEqual([response.status, await response.json()], [404, { detail: "Thread not found" }]);
    assert.equal(response.headers.get("content-type"), "application/json");
  });
});

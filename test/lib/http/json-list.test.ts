import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fromFunctions, type Json, type JsonObject } from "../../../lib/mod.ts";
import { testService } from "../../suite/kit.ts";
import { fake, THREAD } from "./fake-service.ts";

const T = `/threads/${THREAD}`;
const CHECKPOINT = { thread_id: THREAD, checkpoint_ns: "", checkpoint_id: "c", checkpoint_map: null };

/** method, path, body, expected call */
const CALLS: readonly (readonly [string, string, unknown, readonly unknown[]])[] = [
  ["GET", T, undefined, ["threads.get", THREAD, {}]],
  ["GET", `${T}?include=ttl`, undefined, ["threads.get", THREAD, { include: ["ttl"] }]],
  ["GET", `${T}?include=["ttl"]&other=1`, undefined, ["threads.get", THREAD, { include: ["ttl"] }]],
  ["POST", "/threads", { ttl: 0.5 }, ["threads.create", { ttl: 0.5 }]],
  ["POST", "/threads", { ttl: null, supersteps: null }, ["threads.create", {}]],
  [
    "POST",
    "/threads",
    { ttl: { ttl: 5, strategy: "keep_latest" }, supersteps: [] },
    ["threads.create", { ttl: { ttl: 5, strategy: "keep_latest" }, supersteps: [] }],
  ],
  [
    "POST",
    "/threads",
    { supersteps: [{ updates: [{ as_node: "n", values: [1], command: { goto: ["a", { node: "b", input: 1 }] } }] }] },
    [
      "threads.create",
      { supersteps: [{ updates: [{ as_node: "n", values: [1], command: { goto: ["a", { node: "b", input: 1 }] } }] }] },
    ],
  ],
  ["PATCH", T, { ttl: 5 }, ["threads.update", THREAD, { ttl: 5 }]],
  [
    "POST",
    "/threads/search?include=ttl",
    { extract: { a: "values.b" } },
    ["threads.search", { include: ["ttl"], limit: 10, offset: 0, extract: { a: "values.b" } }],
  ],
  ["POST", "/threads/prune", { thread_ids: [THREAD.toUpperCase()] }, ["threads.prune", [THREAD], undefined]],
  ["POST", "/threads/prune", { thread_ids: [], strategy: "keep_latest" }, ["threads.prune", [], "keep_latest"]],
  [
    "POST",
    `${T}/state`,
    { values: { a: null }, as_node: null, checkpoint: null, checkpoint_id: null, other: 1 },
    ["threads.updateState", THREAD, { values: { a: null } }],
  ],
  ["POST", `${T}/state`, undefined, ["threads.updateState", THREAD, {}]],
  [
    "POST",
    `${T}/state`,
    { values: [{ a: 1 }], as_node: "n", checkpoint: { checkpoint_id: "c", checkpoint_ns: "x:1", checkpoint_map: {} } },
    [
      "threads.updateState",
      THREAD,
      {
        values: [{ a: 1 }],
        as_node: "n",
        checkpoint: { checkpoint_id: "c", checkpoint_ns: "x:1", checkpoint_map: {} },
      },
    ],
  ],
  ["PATCH", `${T}/state`, { metadata: { a: 1 } }, ["threads.patchState", THREAD, { a: 1 }]],
  ["PATCH", `${T}/state`, undefined, ["threads.patchState", THREAD, {}]],
];

/** method, path, body, detail of the 422 */
const REFUSED: readonly (readonly [string, string, unknown, RegExp])[] = [
  ["POST", `${T}/state`, { values: 5 }, /^values: must be an object, a list of objects or null$/],
  ["POST", `${T}/state`, { values: "a" }, /^values: /],
  ["POST", `${T}/state`, { values: [{}, 5] }, /^values: /],
  ["POST", `${T}/state`, '{"values":{"a":1e999}}', /^values: /],
  ["POST", `${T}/state`, { as_node: "" }, /^as_node: /],
  ["POST", `${T}/state`, { as_node: 5 }, /^as_node: /],
  ["POST", `${T}/state`, { checkpoint_id: 5 }, /^checkpoint_id: /],
  ["POST", `${T}/state`, { checkpoint: "c" }, /^checkpoint: /],
  ["POST", `${T}/state`, { checkpoint: { checkpoint_id: 5 } }, /^checkpoint.checkpoint_id: /],
  ["POST", `${T}/state`, [], /^body: /],
  ["POST", "/threads/not-a-uuid/state", {}, /^thread_id: /],
  ["POST", `/threads/${THREAD}%2Fx/state`, {}, /^thread_id: /],
  ["POST", "/threads/..%00/state", {}, /^thread_id: /],
  ["PATCH", `${T}/state`, { metadata: [] }, /^metadata: /],
  ["POST", "/threads/not-a-uuid/copy", undefined, /^thread_id: /],
  ["POST", "/threads/prune", {}, /^thread_ids: is required$/],
  ["POST", "/threads/prune", { thread_ids: THREAD }, /^thread_ids: must be a list$/],
  ["POST", "/threads/prune", { thread_ids: ["x"] }, /^thread_ids.0: must be a UUID$/],
  ["POST", "/threads/prune", { thread_ids: [], strategy: "burn" }, /^strategy: must be one of delete, keep_latest$/],
  ["POST", "/threads/prune", { thread_ids: Array(1001).fill(THREAD) }, /^thread_ids: .*1000/],
  ["POST", "/threads", { supersteps: 5 }, /^supersteps: must be a list$/],
  ["POST", "/threads", { supersteps: [{}] }, /^supersteps.0.updates: is required$/],
  ["POST", "/threads", { supersteps: [{ updates: [] }] }, /^supersteps.0.updates: /],
  [
    "POST",
    "/threads",
    { supersteps: [{ updates: [{ values: {} }] }] },
    /^supersteps.0.updates.0.as_node: is required$/,
  ],
  [
    "POST",
    "/threads",
    { supersteps: [{ updates: [{ as_node: "n", command: { goto: 5 } }] }] },
    /^supersteps.0.updates.0.command.goto: /,
  ],
  ["POST", "/threads", { supersteps: Array(101).fill({ updates: [{ as_node: "n" }] }) }, /^supersteps: .*100/],
  ["POST", "/threads", { ttl: 0 }, /^ttl: must be a number of minutes above 0/],
  ["POST", "/threads", { ttl: -0.1 }, /^ttl: /],
  ["POST", "/threads", { ttl: true }, /^ttl: /],
  ["POST", "/threads", { ttl: { ttl: 0 } }, /^ttl/],
  ["POST", "/threads", { ttl: {} }, /^ttl/],
  ["POST", "/threads", { ttl: { ttl: 1, strategy: "burn" } }, /^ttl/],
  ["PATCH", T, { ttl: 0 }, /^ttl: /],
  ["GET", `${T}?include=state`, undefined, /^include/],
  ["GET", `${T}/state?select=nothing`, undefined, /^select/],
  ["POST", `${T}/state/checkpoint`, {}, /^checkpoint: is required$/],
  ["POST", `${T}/history`, { before: {} }, /^before: /],
  ["POST", `${T}/history`, { limit: 1001 }, /^limit: /],
  ["POST", `${T}/history`, { checkpoint: 5 }, /^checkpoint: /],
  ["POST", "/threads/search", { extract: [] }, /^extract: /],
  ["POST", "/threads/search", { extract: { a: 1 } }, /^extract: /],
  ["POST", "/threads/search", { include: ["all"] }, /^include/],
  ["POST", `${T}/runs`, { assistant_id: "g", strict_resume: 5 }, /^strict_resume: /],
];

describe("routes that change threads and states", () => {
  it("call the resources", async () => {
    for (const [method, path, body, expected] of CALLS) {
      const { send, calls } = fake({ answers: { "threads.prune": () => 0, "threads.updateState": () => CHECKPOINT } });
      const response = await send(method, path, body);
      assert.ok(response.ok, `${method} ${path}: ${await response.text()}`);
      assert.deepEqual(calls, [expected], `${method} ${path}`);
    }
  });

  it("answer 422 with the invalid member before any call", async () => {
    for (const [method, path, body, expected] of REFUSED) {
      const { send, calls } = fake();
      const response = await send(method, path, body);
      const { detail } = (await response.json()) as { detail: string };
      assert.equal(response.status, 422, `${method} ${path} ${JSON.stringify(body)}: ${detail}`);
      assert.match(detail, expected, `${method} ${path} ${JSON.stringify(body)}`);
      assert.deepEqual(calls, []);
    }
    const { send } = fake();
    assert.equal((await send("POST", `${T}/state`, "{")).status, 400);
    assert.equal((await send("PUT", `${T}/state`, {})).headers.get("allow"), "GET, POST, PATCH, HEAD");
  });

  it("respond in the format that clients read", async () => {
    const { send } = fake({ answers: { "threads.prune": () => 3, "threads.updateState": () => CHECKPOINT } });
    const { checkpoint_map: _, ...checkpoint } = CHECKPOINT;
    const update = await send("POST", `${T}/state`, { values: {} });
    assert.deepEqual([update.status, await update.json()], [200, { checkpoint, configurable: checkpoint }]);
    const note = await send("PATCH", `${T}/state`, { metadata: {} });
    assert.deepEqual([note.status, await note.text()], [204, ""]);
    const prune = await send("POST", "/threads/prune", { thread_ids: [] });
    assert.deepEqual([prune.status, await prune.json()], [200, { pruned_count: 3 }]);
  });
});

describe("authorization of state changes", () => {
  it("runs for each change, and its changes of the value take effect", async () => {
    const authorizations: [string, unknown][] = [];
    await using host = await testService({
      executor: fromFunctions({ echo: () => null }),
      auth: {
        custom: {
          authenticate: ({ headers }) => headers.get("x-user") ?? "nobody",
          on: {
            threads: ({ event, value, user }) => {
              authorizations.push([event, structuredClone(value)]);
              if (event === "threads:create") (value.metadata as JsonObject).owner = user.identity;
              return { owner: user.identity };
            },
          },
        },
      },
    });
    const call = async (user: string, method: string, path: string, body?: unknown): Promise<[number, Json]> => {
      authorizations.length = 0;
      const response = await host.fetch(`http://greenroom${path}`, {
        method,
        headers: { "x-user": user, "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      return [response.status, text === "" ? null : (JSON.parse(text) as Json)];
    };
    const [, thread] = await call("ann", "POST", "/threads", { metadata: { graph_id: "echo" } });
    const { thread_id } = thread as { thread_id: string };
    const path = `/threads/${thread_id}`;
    assert.equal((await call("ann", "POST", `${path}/state`, { values: { a: 1 }, as_node: "echo" }))[0], 200);
    assert.deepEqual(authorizations, [["threads:update", { thread_id, values: { a: 1 }, as_node: "echo" }]]);
    assert.equal((await call("ann", "PATCH", `${path}/state`, { metadata: { b: 1 } }))[0], 204);
    assert.deepEqual(authorizations, [["threads:update", { thread_id, metadata: { b: 1 } }]]);
    const [status, copy] = (await call("ann", "POST", `${path}/copy`)) as [number, JsonObject];
    assert.equal(status, 200);
    assert.deepEqual(authorizations, [
      ["threads:read", { thread_id }],
      ["threads:create", { thread_id: copy.thread_id, metadata: { graph_id: "echo", owner: "ann" } }],
    ]);

    for (const [method, at, body] of [
      ["POST", `${path}/state`, { values: { a: 2 } }],
      ["PATCH", `${path}/state`, { metadata: { b: 2 } }],
    ] as const) {
      assert.deepEqual(await call("bob", method, at, body), [
        404,
        { detail: `Thread ${thread_id} not found`, code: "thread_not_found" },
      ]);
    }
    const [refused, { detail }] = (await call("bob", "POST", `${path}/copy`)) as [number, JsonObject];
    const absent = "00000000-0000-4000-8000-00000000dead";
    const [none, foreignCopy] = (await call("bob", "POST", `/threads/${absent}/copy`)) as [number, JsonObject];
    assert.deepEqual([refused, none], [409, 409]);
    assert.equal(String(detail).replace(thread_id, absent), foreignCopy.detail);
    const thread_ids = [thread_id, copy.thread_id];
    assert.deepEqual(await call("bob", "POST", "/threads/prune", { thread_ids }), [200, { pruned_count: 0 }]);
    assert.deepEqual(authorizations, [["threads:delete", { thread_ids }]]);
    assert.deepEqual(await call("ann", "POST", "/threads/prune", { thread_ids }), [200, { pruned_count: 2 }]);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AuthContext, AuthEvent, AuthValues } from "../../../lib/auth/events.ts";
import type { JsonObject } from "../../../lib/json.ts";
import { testService } from "../../suite/kit.ts";
import { UNKNOWN } from "./custom.harness.ts";
import { customWorld } from "./custom-auth.harness.ts";

type Ids = Readonly<Record<"thread_id" | "run_id" | "assistant_id" | "cron_id", string>>;

describe("authorization handlers", () => {
  it("are called by every route with the values of the request", async () => {
    await using world = await customWorld({ on: { "*": () => true } });
    const ask = async (method: string, path: string, body?: unknown): Promise<Ids> => {
      const { status, body: answer, text } = await world.ask("ann", method, path, body);
      assert.ok(status < 300, `${method} ${path}: ${status} ${text}`);
      return answer as unknown as Ids;
    };
    const { thread_id } = await ask("POST", "/threads", {});
    const { run_id } = await ask("POST", `/threads/${thread_id}/runs`, { assistant_id: "agent", input: {} });
    await ask("GET", `/threads/${thread_id}/runs/${run_id}/join`);
    const { assistant_id } = await ask("POST", "/assistants", { graph_id: "agent" });
    const { cron_id } = await ask("POST", "/runs/crons", { assistant_id: "agent", schedule: "0 0 1 1 *" });
    await ask("PUT", "/store/items", { namespace: ["a"], key: "k", value: { v: 1 } });
    const [thread, run, cron] = [
      `/threads/${thread_id}`,
      `/threads/${thread_id}/runs/${run_id}`,
      `/runs/crons/${cron_id}`,
    ];
    const assistant = `/assistants/${assistant_id}`;
    world.takeContexts();

    type Expected = { [E in AuthEvent]: readonly [event: E, value: Partial<AuthValues[E]>] }[AuthEvent];
    const table: readonly (readonly [method: string, path: string, body: unknown, ...asked: Expected[]])[] = [
      ["POST", "/threads", { metadata: { a: 1 } }, ["threads:create", { metadata: { a: 1 } }]],
      ["POST", "/threads", {}, ["threads:create", { metadata: {} }]],
      ["GET", thread, undefined, ["threads:read", { thread_id }]],
      ["PATCH", thread, { metadata: { b: 1 } }, ["threads:update", { thread_id, metadata: { b: 1 } }]],
      ["POST", "/threads/search", { status: "idle", limit: 3 }, ["threads:search", { status: "idle", limit: 3 }]],
      ["POST", "/threads/count", { metadata: { a: 1 } }, ["threads:search", { metadata: { a: 1 } }]],
      ["GET", `${thread}/state`, undefined, ["threads:read", { thread_id }]],
      ["POST", `${thread}/state`, { values: { messages: [] } }, ["threads:update", { thread_id }]],
      ["GET", `${thread}/history`, undefined, ["threads:read", { thread_id }]],
      ["POST", `${thread}/history`, {}, ["threads:read", { thread_id }]],
      ["POST", `${thread}/copy`, undefined, ["threads:read", { thread_id }], ["threads:create", {}]],
      ["GET", `${thread}/runs`, undefined, ["threads:read", { thread_id }]],
      ["GET", run, undefined, ["threads:read", { thread_id, run_id }]],
      ["GET", `${run}/join`, undefined, ["threads:read", { thread_id, run_id }]],
      ["GET", `${run}/stream`, undefined, ["threads:read", { thread_id, run_id }]],
      ["GET", `/runs/${run_id}/stream`, undefined, ["threads:read", { run_id }]],
      [
        "POST",
        `${run}/cancel?action=rollback`,
        undefined,
        ["threads:update", { thread_id, action: "rollback", metadata: { run_ids: [run_id] } }],
      ],
      [
        "POST",
        `${thread}/runs`,
        { assistant_id: "agent", after_seconds: 3600 },
        ["threads:create_run", { thread_id, after_seconds: 3600 }],
      ],
      [
        "POST",
        "/runs/cancel",
        { status: "pending" },
        ["threads:update", { thread_id: null, action: "interrupt", metadata: { status: "pending" } }],
      ],
      [
        "POST",
        "/runs/cancel",
        { thread_id, run_ids: [run_id] },
        ["threads:update", { thread_id, metadata: { run_ids: [run_id] } }],
      ],
      [
        "POST",
        `${thread}/runs/wait`,
        { assistant_id: "agent", input: 1, metadata: { a: 1 }, multitask_strategy: "reject", context: { c: 1 } },
        [
          "threads:create_run",
          {
            thread_id,
            assistant_id: "agent",
            status: "pending",
            metadata: { a: 1 },
            prevent_insert_if_inflight: true,
            multitask_strategy: "reject",
            if_not_exists: "reject",
            after_seconds: 0,
          },
        ],
      ],
      ["POST", "/runs/wait", { assistant_id: "agent" }, ["threads:create_run", { thread_id: null }]],
      [
        "POST",
        "/runs",
        { assistant_id },
        ["assistants:read", { assistant_id }],
        ["threads:create_run", { metadata: {} }],
      ],
      ["POST", "/runs/batch", [{ assistant_id: "agent" }], ["threads:create_run", { assistant_id: "agent" }]],
      ["DELETE", run, undefined, ["threads:delete", { thread_id, run_id }]],
      [
        "POST",
        "/assistants",
        { graph_id: "agent", name: "n" },
        ["assistants:create", { graph_id: "agent", name: "n", metadata: {} }],
      ],
      ["GET", assistant, undefined, ["assistants:read", { assistant_id }]],
      ["PATCH", assistant, { name: "m" }, ["assistants:update", { assistant_id, name: "m" }]],
      ["POST", `${assistant}/versions`, {}, ["assistants:read", { assistant_id }]],
      ["POST", `${assistant}/latest`, { version: 1 }, ["assistants:update", { assistant_id, version: 1 }]],
      ["GET", `${assistant}/graph`, undefined, ["assistants:read", { assistant_id }]],
      ["GET", `${assistant}/schemas`, undefined, ["assistants:read", { assistant_id }]],
      ["GET", `${assistant}/subgraphs`, undefined, ["assistants:read", { assistant_id }]],
      ["POST", "/assistants/search", { graph_id: "agent" }, ["assistants:search", { graph_id: "agent" }]],
      ["POST", "/assistants/count", {}, ["assistants:search", {}]],
      [
        "POST",
        "/runs/crons",
        { assistant_id, schedule: "0 0 1 1 *" },
        ["assistants:read", { assistant_id }],
        ["crons:create", { schedule: "0 0 1 1 *", metadata: {} }],
        ["threads:create_run", { run_id: null }],
      ],
      ["GET", cron, undefined, ["crons:read", { cron_id }]],
      ["PATCH", cron, { enabled: false }, ["crons:update", { cron_id, enabled: false }]],
      ["POST", "/runs/crons/search", {}, ["crons:search", {}]],
      ["POST", "/runs/crons/count", {}, ["crons:search", {}]],
      ["DELETE", cron, undefined, ["crons:delete", { cron_id }]],
      [
        "PUT",
        "/store/items",
        { namespace: ["a"], key: "k", value: {} },
        ["store:put", { namespace: ["a"], key: "k", value: {} }],
      ],
      ["GET", "/store/items?namespace=a&key=k", undefined, ["store:get", { namespace: ["a"], key: "k" }]],
      ["POST", "/store/items/search", { namespace_prefix: ["a"] }, ["store:search", { namespace: ["a"] }]],
      [
        "POST",
        "/store/namespaces",
        { prefix: ["a"], max_depth: 1 },
        ["store:list_namespaces", { namespace: ["a"], max_depth: 1 }],
      ],
      ["DELETE", "/store/items", { namespace: ["a"], key: "k" }, ["store:delete", { namespace: ["a"], key: "k" }]],
      ["POST", "/threads/prune", { thread_ids: [UNKNOWN] }, ["threads:delete", { thread_ids: [UNKNOWN] }]],
      ["DELETE", thread, undefined, ["threads:delete", { thread_id }]],
      [
        "DELETE",
        `${assistant}?delete_threads=true`,
        undefined,
        ["assistants:delete", { assistant_id }],
        ["threads:delete", { assistant_id }],
      ],
    ];
    for (const [method, path, body, ...expected] of table) {
      await ask(method, path, body);
      const contexts = world.takeContexts();
      const about = `${method} ${path}`;
      assert.deepEqual(
        contexts.map(({ event }) => event),
        expected.map(([event]) => event),
        about,
      );
      for (const [i, [, value]] of expected.entries()) {
        const { event, resource, action, value: contextValue, user, permissions } = contexts[i] as AuthContext;
        assert.equal(`${resource}:${action}`, event);
        assert.deepEqual([user.identity, permissions], ["ann", []]);
        const same = Object.fromEntries(
          Object.keys(value).map((key) => [key, contextValue[key as keyof typeof contextValue]]),
        );
        assert.deepEqual(same, value, about);
      }
    }
  });

  it("refuse with 403 before any read", async () => {
    await using world = await customWorld({ on: { "*": () => false } });
    for (const [method, path, body] of [
      ["GET", `/threads/${UNKNOWN}`, undefined],
      ["DELETE", `/threads/${UNKNOWN}`, undefined],
      ["POST", `/threads/${UNKNOWN}/runs`, { assistant_id: "unknown" }],
      ["GET", `/assistants/${UNKNOWN}`, undefined],
      ["POST", "/assistants", { graph_id: "unknown" }],
      ["POST", "/threads/search", {}],
    ] as const) {
      const { status, body: answer } = await world.ask("ann", method, path, body);
      assert.deepEqual([status, answer], [403, { detail: "Forbidden", code: "forbidden" }], `${method} ${path}`);
    }
  });

  it("refuse with 403 the calls on a cron of another caller, which stays as it was", async () => {
    await using world = await customWorld({ on: { crons: ({ user }) => user.identity === "ann" } });
    const created = await world.ask("ann", "POST", "/runs/crons", { assistant_id: "agent", schedule: "0 0 1 1 *" });
    assert.equal(created.status, 200);
    const path = `/runs/crons/${created.body.cron_id}`;
    for (const [method, body] of [
      ["GET", undefined],
      ["PATCH", { schedule: "0 0 2 2 *" }],
      ["DELETE", undefined],
    ] as const) {
      const { status, body: answer } = await world.ask("bob", method, path, body);
      assert.deepEqual([status, answer], [403, { detail: "Forbidden", code: "forbidden" }], method);
    }
    const unchangedCron = await world.ask("ann", "GET", path);
    assert.deepEqual([unchangedCron.status, unchangedCron.body], [200, created.body]);
  });

  it("are not called without authentication", async () => {
    const { custom: _, ...none } = { custom: null };
    await using world = await testService({
      agents: {
        async *agent() {
          yield { messages: [] };
        },
      },
      auth: none,
    });
    assert.equal((await world.fetch("http://greenroom/threads", { method: "POST", body: "{}" })).status, 200);
  });

  it("change the stored values", async () => {
    await using world = await customWorld({
      on: {
        "threads:create": ({ value }) => void Object.assign(value, { metadata: { owner: "ann" } }),
        "threads:update": ({ value }) => void Object.assign(value.metadata as object, { by: "handler" }),
        "threads:search": ({ value }) => void Object.assign(value, { metadata: { owner: "bob" } }),
        "assistants:create": ({ value }) => void Object.assign(value, { name: "Renamed" }),
      },
    });
    const { body } = await world.ask("ann", "POST", "/threads", { metadata: { owner: "eve", a: 1 } });
    assert.deepEqual(body.metadata, { owner: "ann" });
    const patched = await world.ask("ann", "PATCH", `/threads/${body.thread_id}`, { metadata: { b: 2 } });
    assert.deepEqual(patched.body.metadata, { owner: "ann", b: 2, by: "handler" });
    assert.equal((await world.ask("ann", "POST", "/threads/search", {})).text, "[]");
    assert.equal((await world.ask("ann", "POST", "/assistants", { graph_id: "agent" })).body.name, "Renamed");
  });

  it("change metadata, input, command, config and context of runs", async () => {
    const jobs: JsonObject[] = [];
    await using world = await customWorld({
      agents: {
        async *agent(job) {
          const { input, context, config, metadata } = job;
          jobs.push({ input: input ?? null, context, tag: config.tags?.[0] ?? null, owner: metadata.owner ?? null });
          yield { messages: [] };
        },
      },
      on: {
        "threads:create_run"({ value }) {
          const kwargs = value.kwargs as JsonObject;
          (value.metadata as JsonObject).owner = "ann";
          kwargs.input = { changed: kwargs.input ?? null };
          (kwargs.config as JsonObject).tags = ["checked"];
          (kwargs.context as JsonObject).level = 7;
        },
      },
    });
    const body = { assistant_id: "agent", input: "x", context: { c: 1 } };
    assert.equal((await world.ask("ann", "POST", "/runs/wait", body)).status, 200);
    assert.deepEqual(jobs, [{ input: { changed: "x" }, context: { c: 1, level: 7 }, tag: "checked", owner: "ann" }]);
  });

  it("fail the request when they change a run to an invalid one", async () => {
    await using world = await customWorld({
      on: { "threads:create_run": ({ value }) => void Object.assign(value.kwargs as object, { config: "none" }) },
    });
    const { status, body } = await world.ask("ann", "POST", "/runs", { assistant_id: "agent" });
    assert.deepEqual([status, body], [500, { detail: "Internal server error", code: "internal" }]);
  });
});

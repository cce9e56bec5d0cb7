import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AuthContext } from "../../../lib/auth/custom.ts";
import type { JsonObject } from "../../../lib/json.ts";
import { serviceInternals } from "../../../lib/service.ts";
import { testService } from "../../suite/kit.ts";
import { until } from "../../support/until.ts";
import { customWorld, owning } from "./custom-auth.harness.ts";

const UNKNOWN = "99999999-9999-4999-8999-999999999999";

describe("authorization", () => {
  it("is asked by every route, with what the call is about", async () => {
    await using world = await customWorld({ on: { "*": () => true } });
    const ask = async (method: string, path: string, body?: unknown): Promise<JsonObject> => {
      const { status, body: answer, text } = await world.ask("ann", method, path, body);
      assert.ok(status < 300, `${method} ${path}: ${status} ${text}`);
      return answer;
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
    world.asked();

    type Expected = readonly [event: string, value: Readonly<Record<string, unknown>>];
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
      const asked = world.asked();
      const about = `${method} ${path}`;
      assert.deepEqual(
        asked.map(({ event }) => event),
        expected.map(([event]) => event),
        about,
      );
      for (const [i, [, value]] of expected.entries()) {
        const { event, resource, action, value: told, user, permissions } = asked[i] as AuthContext;
        assert.equal(`${resource}:${action}`, event);
        assert.deepEqual([user.identity, permissions], ["ann", []]);
        const same = Object.fromEntries(Object.keys(value).map((key) => [key, told[key]]));
        assert.deepEqual(same, value, about);
      }
    }
  });

  it("that says no is answered with 403 before anything is looked up", async () => {
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

  it("is not asked where nobody is authenticated", async () => {
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

  it("changes what is stored", async () => {
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

  it("changes runs: metadata, input, command, config and context", async () => {
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
    const sent = { assistant_id: "agent", input: "x", context: { c: 1 } };
    assert.equal((await world.ask("ann", "POST", "/runs/wait", sent)).status, 200);
    assert.deepEqual(jobs, [{ input: { changed: "x" }, context: { c: 1, level: 7 }, tag: "checked", owner: "ann" }]);
  });

  it("that leaves a run which cannot be made is broken", async () => {
    await using world = await customWorld({
      on: { "threads:create_run": ({ value }) => void Object.assign(value.kwargs as object, { config: "none" }) },
    });
    const { status, body } = await world.ask("ann", "POST", "/runs", { assistant_id: "agent" });
    assert.deepEqual([status, body], [500, { detail: "Internal server error", code: "internal" }]);
  });
});

describe("what somebody has made", () => {
  it("is theirs alone, as the SDK's documentation shows it", async () => {
    await using world = await customWorld({ on: { "*": owning } });
    const { thread_id } = (await world.ask("ann", "POST", "/threads", {})).body;
    const run = { assistant_id: "agent", input: { a: 1 } };
    assert.equal((await world.ask("ann", "POST", `/threads/${thread_id}/runs/wait`, run)).status, 200);
    for (const strategy of ["reject", "create"]) {
      const sent = { ...run, if_not_exists: strategy };
      const { status } = await world.ask("bob", "POST", `/threads/${thread_id}/runs/wait`, sent);
      assert.equal(status, strategy === "create" ? 409 : 404);
    }
    for (const if_exists of ["raise", "do_nothing"]) {
      const { status } = await world.ask("bob", "POST", "/threads", { thread_id, if_exists });
      assert.equal(status, 409, if_exists);
    }
    assert.equal((await world.ask("ann", "POST", "/threads", { thread_id, if_exists: "do_nothing" })).status, 200);
    assert.equal((await world.ask("bob", "POST", "/threads/count", {})).text, "0");
    assert.equal((await world.ask("ann", "POST", "/threads/count", {})).text, "1");
  });

  it("includes runs without a thread, and threads that runs make", async () => {
    await using world = await customWorld({ on: { "*": owning } });
    for (const on_completion of ["delete", "keep"]) {
      const sent = { assistant_id: "agent", input: { a: 1 }, on_completion };
      const { run_id, thread_id } = (await world.ask("ann", "POST", "/runs", sent)).body;
      const stream = `/runs/${run_id}/stream`;
      assert.match((await world.ask("ann", "GET", stream)).text, /event: end/);
      assert.equal((await world.ask("bob", "GET", stream)).status, 404);
      assert.equal((await world.ask("ann", "GET", `/threads/${thread_id}/runs/${run_id}`)).status, 200);
      assert.equal((await world.ask("bob", "GET", `/threads/${thread_id}/runs/${run_id}`)).status, 404);
      assert.equal(
        (await world.ask("ann", "GET", `/threads/${thread_id}/runs/${run_id}/join`)).body.said !== undefined,
        true,
      );
      const kept = on_completion === "keep" ? 200 : 404;
      assert.equal((await world.ask("ann", "GET", `/threads/${thread_id}`)).status, kept);
    }
    const made = `/threads/${UNKNOWN}`;
    const sent = { assistant_id: "agent", if_not_exists: "create" };
    assert.equal((await world.ask("ann", "POST", `${made}/runs/wait`, sent)).status, 200);
    assert.equal(((await world.ask("ann", "GET", made)).body.metadata as JsonObject).owner, "ann");
    assert.equal((await world.ask("bob", "GET", made)).status, 404);
  });

  it("is marked by the filter where the host says so", async () => {
    const on = { "*": ({ user }: AuthContext) => ({ owner: user.identity, team: { $contains: "a" } }) };
    await using plain = await customWorld({ on });
    assert.deepEqual((await plain.ask("ann", "POST", "/threads", {})).body.metadata, {});
    const equal = { "*": ({ user }: AuthContext) => ({ owner: { $eq: user.identity } }) };
    await using world = await customWorld({ on: equal, auth: { merge_filter_on_create: true } });
    const thread = (await world.ask("ann", "POST", "/threads", { metadata: { owner: "bob", a: 1 } })).body;
    assert.deepEqual(thread.metadata, { owner: "ann", a: 1 });
    assert.equal((await world.ask("ann", "GET", `/threads/${thread.thread_id}`)).status, 200);
    const assistant = (await world.ask("ann", "POST", "/assistants", { graph_id: "agent" })).body;
    assert.deepEqual(assistant.metadata, { owner: "ann" });
    const { run_id } = (await world.ask("ann", "POST", "/runs", { assistant_id: "agent" })).body;
    assert.equal((await world.ask("ann", "GET", `/runs/${run_id}/stream`)).status, 200);
    const cron = { assistant_id: "agent", schedule: "0 0 1 1 *" };
    assert.deepEqual((await world.ask("ann", "POST", "/runs/crons", cron)).body.metadata, { owner: "ann" });
  });

  it("cannot be run by others, but everybody may run the assistant of a graph", async () => {
    await using world = await customWorld({ on: { "*": owning } });
    const { assistant_id } = (await world.ask("ann", "POST", "/assistants", { graph_id: "agent" })).body;
    const run = (as: string, id: unknown) => world.ask(as, "POST", "/runs/wait", { assistant_id: id, input: {} });
    assert.equal((await run("ann", assistant_id)).status, 200);
    const other = await run("bob", assistant_id);
    const absent = await run("bob", UNKNOWN);
    assert.equal(other.status, 404);
    assert.equal(other.text.replace(String(assistant_id), "ID"), absent.text.replace(UNKNOWN, "ID"));
    assert.equal((await run("bob", "agent")).status, 200);
    assert.equal((await world.ask("bob", "GET", "/assistants/agent")).status, 404);
    const batch = [{ assistant_id: "agent" }, { assistant_id }];
    assert.equal((await world.ask("bob", "POST", "/runs/batch", batch)).status, 404);
    assert.equal((await world.ask("ann", "POST", "/runs/batch", batch)).status, 200);
  });

  it("can be made by the assistants of graphs also where assistants are kept from people", async () => {
    await using world = await customWorld({ on: { assistants: () => false, threads: owning } });
    const id = (await world.it.service.assistants.get("agent")).assistant_id;
    for (const assistant_id of ["agent", id, id.toUpperCase()]) {
      const { status } = await world.ask("ann", "POST", "/runs/wait", { assistant_id, input: {} });
      assert.equal(status, 200, assistant_id);
    }
    const { assistant_id } = await world.it.service.assistants.create({ graph_id: "agent" });
    for (const kept of [assistant_id, UNKNOWN]) {
      assert.equal((await world.ask("ann", "POST", "/runs/wait", { assistant_id: kept })).status, 403);
    }
    assert.equal((await world.ask("ann", "GET", "/assistants/agent")).status, 403);
    assert.equal((await world.ask("ann", "POST", "/assistants/search", {})).status, 403);
  });

  it("goes with an assistant only where it may be deleted", async () => {
    await using world = await customWorld({
      on: {
        "threads:create": ({ value, user }) => void Object.assign(value.metadata as object, { owner: user.identity }),
        "threads:delete": ({ user }) => ({ owner: user.identity }),
      },
    });
    const { assistant_id } = (await world.ask("ann", "POST", "/assistants", { graph_id: "agent" })).body;
    const sent = { metadata: { assistant_id } };
    const threads = [
      await world.ask("ann", "POST", "/threads", sent),
      await world.ask("bob", "POST", "/threads", sent),
    ];
    assert.equal((await world.ask("ann", "DELETE", `/assistants/${assistant_id}?delete_threads=true`)).status, 204);
    const left = threads.map(({ body }) => world.ask("ann", "GET", `/threads/${body.thread_id}`));
    assert.deepEqual(
      (await Promise.all(left)).map(({ status }) => status),
      [404, 200],
    );
  });

  it("is not given to others by the same Idempotency-Key", async () => {
    await using world = await customWorld({ on: { "*": owning } });
    const post = (as: string) =>
      world.ask(as, "POST", "/runs", { assistant_id: "agent", input: {} }, { "idempotency-key": "k" });
    const [first, again, other] = [await post("ann"), await post("ann"), await post("bob")];
    assert.equal(again.body.run_id, first.body.run_id);
    assert.equal(other.status, 200);
    assert.notEqual(other.body.run_id, first.body.run_id);
  });

  it("has the id that authorization was told of", async () => {
    await using world = await customWorld({ on: { "threads:create_run": () => true } });
    const { thread_id } = (await world.ask("ann", "POST", "/threads", {})).body;
    const told = (): unknown[] => world.asked().map(({ value }) => value.run_id);
    const run = { assistant_id: "agent", input: {} };
    for (const path of ["/runs", `/threads/${thread_id}/runs`]) {
      const { run_id } = (await world.ask("ann", "POST", path, run)).body;
      assert.deepEqual(told(), [run_id], path);
      for (const verb of ["stream", "wait"]) {
        const { headers } = await world.ask("ann", "POST", `${path}/${verb}`, run);
        assert.deepEqual(told(), [headers.get("content-location")?.split("/").at(-1)], `${path}/${verb}`);
      }
    }
    const batch = (await world.ask("ann", "POST", "/runs/batch", [run, run, run])).body as unknown as JsonObject[];
    assert.deepEqual(
      told(),
      batch.map(({ run_id }) => run_id),
    );
    const key = { "idempotency-key": "k" };
    const [first, again] = [
      await world.ask("ann", "POST", "/runs", run, key),
      await world.ask("ann", "POST", "/runs", run, key),
    ];
    assert.equal(first.body.run_id, again.body.run_id);
    assert.equal(told()[0], first.body.run_id);
  });

  it("is stopped by nobody else, whatever they name", async () => {
    await using world = await customWorld({ on: { "*": owning } });
    const { thread_id } = (await world.ask("ann", "POST", "/threads", {})).body;
    const later = { assistant_id: "agent", after_seconds: 3600 };
    const { run_id } = (await world.ask("ann", "POST", `/threads/${thread_id}/runs`, later)).body;
    const nothing = await world.ask("bob", "POST", "/runs/cancel", { status: "all" });
    assert.deepEqual(
      [nothing.status, nothing.body],
      [404, { detail: "No run is pending or running", code: "not_found" }],
    );
    assert.equal((await world.ask("bob", "POST", "/runs/cancel", { thread_id, run_ids: [run_id] })).status, 404);
    const run = `/threads/${thread_id}/runs/${run_id}`;
    assert.equal((await world.ask("bob", "POST", `${run}/cancel`)).status, 404);
    assert.equal((await world.ask("ann", "GET", run)).body.status, "pending");
    assert.equal((await world.ask("ann", "POST", "/runs/cancel?action=rollback", { status: "all" })).status, 204);
    assert.equal((await world.ask("ann", "GET", run)).status, 404);
  });

  it("is stopped by leaving it only where it may be cancelled", async () => {
    const shared = ({ value }: AuthContext): void => {
      if ("metadata" in value) value.metadata = { ...(value.metadata as JsonObject | null), owner: "ann" };
    };
    const update = ({ user }: AuthContext) => (user.identity === "eve" ? false : { owner: user.identity });
    await using world = await customWorld({ on: { threads: shared, "threads:update": update } });
    const { thread_id } = (await world.ask("ann", "POST", "/threads", {})).body;
    const later = { assistant_id: "agent", after_seconds: 3600 };
    const { run_id } = (await world.ask("ann", "POST", `/threads/${thread_id}/runs`, later)).body;
    const run = `/threads/${thread_id}/runs/${run_id}`;
    const leaves = async (as: string, path: string): Promise<number> => {
      const headers = { authorization: `Bearer ${as}` };
      const answer = await world.it.fetch(`http://greenroom${path}`, { headers });
      await answer.body?.cancel();
      return answer.status;
    };
    for (const path of [`${run}/join`, `${run}/stream`, `/runs/${run_id}/stream`]) {
      assert.equal(await leaves("bob", `${path}?cancel_on_disconnect=1`), 404, path);
      assert.equal(await leaves("eve", `${path}?cancel_on_disconnect=1`), 403, path);
      assert.equal(await leaves("bob", path), 200, path);
    }
    assert.equal((await world.ask("ann", "GET", run)).body.status, "pending");
    world.asked();
    assert.equal(await leaves("ann", `${run}/stream?cancel_on_disconnect=1`), 200);
    const asked: unknown[] = [];
    await until(() => asked.push(...world.asked().map(({ event, value }) => [event, value])) === 3);
    const cancel = ["threads:update", { thread_id, action: "interrupt", metadata: { run_ids: [run_id] } }];
    // When it joins, and when it leaves.
    assert.deepEqual(asked, [["threads:read", { thread_id, run_id }], cancel, cancel]);
  });

  describe("where handlers answer with a filter and write nothing", () => {
    const filtering = ({ user }: AuthContext): JsonObject => ({ owner: user.identity });
    const metadata = { owner: "ann", n: 1 };
    const refused = { detail: "metadata.owner: with this value you could not see it", code: "forbidden" };
    const cron = { assistant_id: "agent", schedule: "0 0 1 1 *" };

    it("is given away by no change", async () => {
      await using world = await customWorld({ on: { "*": filtering } });
      const ann = (method: string, path: string, body?: unknown) => world.ask("ann", method, path, body);
      const { thread_id } = (await ann("POST", "/threads", { metadata })).body;
      const { assistant_id } = (await ann("POST", "/assistants", { graph_id: "agent", metadata })).body;
      const { cron_id } = (await ann("POST", "/runs/crons", { ...cron, metadata })).body;
      for (const path of [`/threads/${thread_id}`, `/assistants/${assistant_id}`, `/runs/crons/${cron_id}`]) {
        for (const owner of ["bob", null, ["ann"]]) {
          const answer = await ann("PATCH", path, { metadata: { owner, n: 2 } });
          assert.deepEqual([answer.status, answer.body], [403, refused], path);
          assert.deepEqual((await ann("GET", path)).body.metadata, { ...metadata }, path);
          assert.equal((await world.ask("bob", "GET", path)).status, 404, path);
        }
        assert.equal((await ann("PATCH", path, { metadata: { owner: "ann", n: 3 } })).status, 200, path);
        assert.equal((await ann("PATCH", path, { metadata: { n: 1 } })).status, 200, path);
        assert.equal((await world.ask("bob", "PATCH", path, { metadata: { owner: "bob" } })).status, 404, path);
      }
    });

    it("is not made for others, by whatever makes it", async () => {
      await using world = await customWorld({ on: { "*": filtering } });
      const ann = (method: string, path: string, body?: unknown) => world.ask("ann", method, path, body);
      const bobs = { metadata: { owner: "bob" } };
      const run = { assistant_id: "agent", ...bobs };
      const thread_id = serviceInternals(world.it.service).environment.uuid();
      for (const [path, body] of [
        ["/threads", bobs],
        ["/assistants", { graph_id: "agent", ...bobs }],
        ["/runs/crons", { ...cron, ...bobs }],
        ["/runs", run],
        ["/runs/wait", { ...run, on_completion: "keep" }],
        ["/runs/batch", [{ assistant_id: "agent" }, run]],
        [`/threads/${thread_id}/runs`, { ...run, if_not_exists: "create" }],
        [`/threads/${thread_id}/runs/crons`, { ...cron, ...bobs, if_not_exists: "create" }],
      ] as const) {
        const answer = await ann("POST", path, body);
        assert.deepEqual([answer.status, answer.body], [403, refused], path);
      }
      assert.deepEqual((await world.ask("bob", "POST", "/threads/search", {})).body, []);
      assert.deepEqual((await world.ask("bob", "POST", "/runs/crons/search", {})).body, []);
      // What says nothing of its owner is nobody's.
      assert.equal((await ann("POST", "/threads", { metadata: { n: 1 } })).status, 200);
      assert.equal((await ann("POST", "/runs", { assistant_id: "agent", metadata })).status, 200);
      // The metadata of a run on a thread is the run's alone.
      const own = (await ann("POST", "/threads", { metadata })).body.thread_id;
      assert.equal((await ann("POST", `/threads/${own}/runs`, run)).status, 200);
      assert.equal(((await ann("GET", `/threads/${own}`)).body.metadata as JsonObject).owner, "ann");
    });

    it("stays with its owner where others may read and copy it", async () => {
      const on = { "*": filtering, "threads:read": () => true };
      await using world = await customWorld({ on });
      const { thread_id } = (await world.ask("ann", "POST", "/threads", { metadata })).body;
      const copied = await world.ask("bob", "POST", `/threads/${thread_id}/copy`);
      assert.deepEqual([copied.status, copied.body], [403, refused]);
      assert.equal((await world.ask("ann", "POST", "/threads/count", {})).text, "1");
      assert.equal((await world.ask("ann", "POST", `/threads/${thread_id}/copy`)).status, 200);
    });

    it("does not go back to a version that was another's", async () => {
      await using world = await customWorld({ on: { "*": filtering } });
      const { assistants } = world.it.service;
      const { assistant_id } = await assistants.create({ graph_id: "agent", metadata: { owner: "bob" } });
      await assistants.update(assistant_id, { metadata: { owner: "ann" } });
      const latest = `/assistants/${assistant_id}/latest`;
      const refused = await world.ask("ann", "POST", latest, { version: 1 });
      assert.equal(refused.status, 403, refused.text);
      assert.equal((await world.ask("ann", "GET", `/assistants/${assistant_id}`)).body.version, 2);
      assert.equal((await world.ask("ann", "POST", latest, { version: 2 })).status, 200);
    });
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Auth as SdkAuth } from "@langchain/langgraph-sdk/auth";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { staticIdentity } from "../../../lib/auth/static-keys.ts";
import type { JsonObject } from "../../../lib/json.ts";
import { createService, type ServiceOptions, serviceInternals } from "../../../lib/service.ts";
import { testService } from "../../suite/kit.ts";
import { getFeedback } from "../../suite/records.ts";
import { createUser } from "../../support/users.ts";
import { customWorld, owning } from "./custom-auth.harness.ts";

const UNKNOWN = "99999999-9999-4999-8999-999999999999";

describe("custom authentication", () => {
  it("refuses with the status, message and headers of the thrown error", async () => {
    await using world = await customWorld();
    const { status, headers, body } = await world.ask(null, "GET", `/threads/${UNKNOWN}`);
    assert.deepEqual([status, body], [401, { detail: "Who are you?", code: "unauthenticated" }]);
    assert.equal(headers.get("www-authenticate"), "Bearer");
    assert.equal(headers.get("content-type"), "application/json");
    assert.ok(headers.get("x-request-id"));
    assert.deepEqual(world.it.log, []);
  });

  it("answers 404 `not_found` when a handler refuses with 404", async () => {
    await using world = await customWorld({
      on: {
        threads() {
          throw { status: 404, message: "Not found" };
        },
      },
    });
    const { status, body } = await world.ask("bob", "GET", `/threads/${UNKNOWN}`);
    assert.deepEqual([status, body], [404, { detail: "Not found", code: "not_found" }]);
    const { threads } = world.it.service.as({ user: createUser("bob") });
    await assert.rejects(threads.get(UNKNOWN), { code: "forbidden", reason: "not_found" });
  });

  for (const [what, thrown] of [
    ["an error", new Error("s3cret")],
    ["a text", "s3cret"],
    ["a wrong shape", null],
  ] as const) {
    it(`reveals nothing of ${what}, and logs it`, async () => {
      await using world = await customWorld({
        authenticate: () => {
          if (thrown === null) return { name: "ann" } as never;
          throw thrown;
        },
      });
      const { status, body } = await world.ask("ann", "GET", `/threads/${UNKNOWN}`);
      assert.deepEqual([status, body], [500, { detail: "Internal server error", code: "internal" }]);
      assert.deepEqual(
        world.it.log.map(({ level }) => level),
        ["error"],
      );
    });
  }

  it("answers 503 when a handler hangs, and serves other requests meanwhile", async () => {
    await using world = await customWorld({
      authenticate: ({ headers }) => {
        const name = headers.get("authorization") ?? "";
        return name.endsWith("slow") ? new Promise<never>(() => {}) : name;
      },
      on: { "threads:read": ({ user }) => (user.identity === "Bearer stuck" ? new Promise(() => {}) : true) },
    });
    const slow = world.ask("slow", "GET", `/threads/${UNKNOWN}`);
    const stuck = world.ask("stuck", "GET", `/threads/${UNKNOWN}`);
    assert.equal((await world.ask("ann", "POST", "/threads", {})).status, 200);
    assert.equal((await world.ask("ann", "GET", `/threads/${UNKNOWN}`)).status, 404);
    world.late();
    assert.deepEqual([(await slow).status, (await stuck).status], [503, 503]);
  });

  it("is not called for public routes, and no header bypasses it", async () => {
    await using world = await customWorld();
    for (const path of ["/ok", "/ready", "/info", "/openapi.json", "/api/v1/info"]) {
      assert.equal((await world.ask(null, "GET", path)).status, 200, path);
    }
    assert.equal((await world.ask(null, "GET", `/api/v1/feedback/tokens/${UNKNOWN}?score=1`)).status, 404);
    assert.equal((await world.ask(null, "OPTIONS", "/threads")).status, 204);
    const closed = ["/metrics", "/threads", "/nothing", "/store/items?namespace=a&key=b", "/api/v1/workspaces"];
    for (const path of closed) {
      for (const scheme of ["langsmith", "service-api-key", "langsmith-api-key"]) {
        const { status } = await world.ask(null, "GET", path, undefined, { "x-auth-scheme": scheme });
        assert.equal(status, 401, `${path} ${scheme}`);
      }
    }
  });

  it("accepts an Auth object of the SDK", async () => {
    const auth = new SdkAuth()
      .authenticate(async (request: Request) => request.headers.get("x-user") ?? "nobody")
      .on("threads", ({ user, event }) => {
        if (event === "threads:create") return user.identity !== "nobody";
        return { owner: user.identity };
      });
    await using world = await testService({
      agents: {
        async *agent() {
          yield { messages: [] };
        },
      },
      auth: { custom: auth },
    });
    const post = (user: string) =>
      world.fetch("http://greenroom/threads", { method: "POST", body: "{}", headers: { "x-user": user } });
    assert.deepEqual([(await post("ann")).status, (await post("nobody")).status], [200, 403]);
  });

  it("is validated at the start, with the key of each problem", async () => {
    const refused = async (auth: unknown, message: RegExp): Promise<void> => {
      const executor = { graphs: () => [{ graph_id: "a" }], execute: () => {} };
      const options = { storage: nodeSqlite(":memory:"), executor, auth } as unknown as ServiceOptions;
      await assert.rejects(createService(options), { name: "ConfigError", message });
    };
    const custom = { authenticate: () => "ann" };
    await refused({ custom: {} }, /^auth\.custom: must have a function authenticate/);
    await refused({ custom: { ...custom, on: { "thread:create": () => {} } } }, /^auth\.custom\.on\.thread:create: /);
    await refused({ mode: "custom" }, /^auth\.custom: mode custom needs it/);
    await refused({ custom, mode: "api_key" }, /^auth\.mode: must be custom beside auth\.custom/);
    await refused({ merge_filter_on_create: true }, /^auth\.merge_filter_on_create: only custom/);
    await refused({ custom, merge_filter_on_create: "yes" }, /^auth\.merge_filter_on_create: must be true or false/);
    await using world = await customWorld({ auth: { mode: "custom", disable_studio_auth: false } });
    assert.equal((await world.ask(null, "GET", "/threads", undefined, { "x-auth-scheme": "langsmith" })).status, 401);
  });
});

describe("usage and the platform with custom authentication", () => {
  it("bill runs to a user for each identity, with the email of the claims", async () => {
    await using world = await customWorld({
      claims: (name) => (name === "bob" ? {} : { email: `${name}@example.com` }),
    });
    for (const name of ["ann", "ann", "bob"]) await world.ask(name, "POST", "/runs/wait", { assistant_id: "agent" });
    const { accounts, deployment, options } = serviceInternals(world.it.service);
    const { identity } = options.storage;
    const ids = await Promise.all(
      ["ann", "bob"].map((name) =>
        identity.ensureUser({ workspace_id: deployment.workspace_id, identity: name }, Date.now()),
      ),
    );
    const [ann, bob] = [await identity.getUser(ids[0] as string), await identity.getUser(ids[1] as string)];
    assert.deepEqual([ann?.email, bob?.email], ["ann@example.com", null]);
    assert.notEqual(ann?.id, bob?.id);
    assert.deepEqual(await accounts.listUsers(), [], "nobody became a member of the organization by that");
    const report = await world.it.service.usage.report(
      {
        organization_id: deployment.organization_id,
        user_id: null,
        api_key: null,
        key_id: null,
        permissions: new Set(["organization:read"]),
        workspaces: new Map([[deployment.workspace_id, new Set(["workspaces:read"])]]),
        projects: new Map(),
      },
      {
        start_time: Date.now() - 3_600_000,
        end_time: Date.now() + 3_600_000,
        workspace_ids: [deployment.workspace_id],
        group_by: "user",
      } as never,
    );
    const traces = report.usage.map(({ dimensions, traces }) => [(dimensions as JsonObject).user_email, traces]);
    assert.deepEqual(
      traces.sort((a, b) => Number(b[1]) - Number(a[1])),
      [
        ["ann@example.com", 2],
        [null, 1],
      ],
    );
  });

  it("grant the permissions of the user in the deployment's workspace", async () => {
    await using world = await customWorld({
      claims: (name) => ({ permissions: name === "ann" ? ["workspaces:read", "feedback:read", "own:thing"] : [] }),
    });
    const { deployment } = world.it.service;
    const response = await world.ask("ann", "GET", "/api/v1/workspaces");
    assert.deepEqual(
      (response.body as unknown as JsonObject[]).map(({ id }) => id),
      [deployment.workspace_id],
    );
    assert.equal((await world.ask("bob", "GET", "/api/v1/workspaces")).text, "[]");
    assert.equal((await world.ask("ann", "GET", "/api/v1/feedback")).status, 200);
    assert.equal((await world.ask("bob", "GET", "/api/v1/feedback")).status, 403);
    assert.equal((await world.ask(null, "GET", "/api/v1/feedback")).status, 401);
    const foreign = { "x-organization-id": UNKNOWN };
    assert.equal((await world.ask("ann", "GET", "/api/v1/workspaces", undefined, foreign)).status, 403);
  });

  it("show users the feedback on their own existing runs only, and call the handlers", async () => {
    const permissions = ["feedback:create", "feedback:read", "feedback:delete"];
    const base = { public_base_url: "https://test.example", claims: () => ({ permissions }) };
    await using world = await customWorld({ ...base, on: { threads: owning } });
    const feedback = "/api/v1/feedback";
    const { thread_id } = (await world.ask("ann", "POST", "/threads", {})).body;
    const ran = { assistant_id: "agent", input: {} };
    const { run_id } = (await world.ask("ann", "POST", `/threads/${thread_id}/runs`, ran)).body;
    await world.ask("ann", "GET", `/threads/${thread_id}/runs/${run_id}/join`);
    world.takeContexts();
    const { id } = (await world.ask("ann", "POST", feedback, { run_id, key: "k", score: 1 })).body;
    const patched = await world.ask("ann", "PATCH", `${feedback}/${id}`, { score: 2 });
    assert.deepEqual([patched.status, patched.body.score], [200, 2]);
    await world.ask("ann", "GET", `${feedback}/${id}`);
    await world.ask("ann", "GET", `${feedback}?run=${run_id}`);
    await world.ask("ann", "GET", `${feedback}/stats`);
    assert.deepEqual(
      world.takeContexts().map(({ event, value }) => [event, value]),
      [
        ["threads:update", { thread_id: null, metadata: { run_ids: [run_id] } }],
        ["threads:update", { thread_id: null, feedback_id: id }],
        ["threads:read", { thread_id: null, feedback_id: id }],
        ["threads:read", { thread_id: null, run_ids: [run_id] }],
        ["threads:read", { thread_id: null, run_ids: null }],
      ],
    );
    // A project has no owner, so only keys create and see feedback on it.
    const { storage } = serviceInternals(world.it.service).options;
    const { project_id } = world.it.service.deployment;
    const onProject = await world.ask("ann", "POST", feedback, { session_id: project_id, key: "k", score: 1 });
    assert.deepEqual([onProject.status, onProject.body], [404, { detail: "Session not found", code: "not_found" }]);
    assert.deepEqual((await world.ask("bob", "GET", feedback)).body, []);
    assert.deepEqual((await world.ask("bob", "GET", `${feedback}/stats`)).body, {});
    assert.equal((await world.ask("ann", "GET", feedback)).body.length, 1);
    await world.ask("ann", "DELETE", `/threads/${thread_id}`);
    assert.deepEqual((await world.ask("ann", "GET", feedback)).body, []);
    const workspace_ids = [world.it.service.deployment.workspace_id];
    assert.equal((await getFeedback(storage, workspace_ids, id as string))?.id, id, "it is still there for a key");
  });

  it("accept a key of the accounts first, and otherwise authenticate by the host", async () => {
    const key = "k".repeat(40);
    await using world = await customWorld({ identity: staticIdentity({ keys: [key] }) });
    const read = (headers: HeadersInit) => world.ask(null, "GET", "/api/v1/workspaces", undefined, headers);
    assert.equal((await read({ "x-api-key": key })).status, 200);
    assert.equal((await read({ "x-api-key": "another" })).status, 401);
    assert.equal((await read({ "x-api-key": "another", authorization: "Bearer ann" })).status, 200);
    assert.equal((await world.ask(null, "POST", "/threads", {}, { "x-api-key": key })).status, 401);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type AccessLevel, type AuthOptions, anonymousPrincipal } from "../../../lib/auth/principal.ts";
import { staticIdentity } from "../../../lib/auth/static-keys.ts";
import { ServiceError } from "../../../lib/errors.ts";
import { createHandler } from "../../../lib/http/handler.ts";
import { serviceInternals } from "../../../lib/service.ts";
import type { Permission } from "../../../lib/storage/identity.ts";
import { PERMISSIONS } from "../../../lib/storage/identity.ts";
import { type TestService, testClock, testService } from "../../suite/kit.ts";
import { createClockedService } from "../../support/faulty.ts";
import { fake } from "../http/fake-service.ts";

const W1 = "11111111-1111-4111-8111-111111111111";
const W2 = "22222222-2222-4222-8222-222222222222";
const OWNER = "aaaaaaaa-0000-4000-8000-000000000001";
const MEMBER = "aaaaaaaa-0000-4000-8000-000000000002";
const STRANGER = "aaaaaaaa-0000-4000-8000-000000000003";
const key = (name: string): string => `${name}-${"0".repeat(32)}`;
const UNKNOWN = "99999999-9999-4999-8999-999999999999";

/** Two workspaces; the deployment is in the first. */
function guarded(auth: AuthOptions): Promise<TestService> {
  const all: readonly Permission[] = PERMISSIONS;
  const identity = staticIdentity({
    workspaces: [
      { id: W1, name: "one" },
      { id: W2, name: "two" },
    ],
    users: [OWNER, MEMBER, STRANGER].map((id) => ({ id })),
    keys: [
      { key: key("all"), permissions: all },
      { key: key("reading"), permissions: ["runs:read", "workspaces:read"] },
      { key: key("other"), permissions: all, workspaces: [W2] },
      { key: key("owner"), permissions: all, user: OWNER },
      { key: key("member"), permissions: all, user: MEMBER },
      { key: key("stranger"), permissions: all, user: STRANGER, workspaces: [W2] },
    ],
  });
  return testService({
    agents: {
      async *echo({ input }) {
        yield { messages: [], said: input };
      },
    },
    identity,
    auth,
    deployment: { workspace: W1 },
  });
}

type Sent = { readonly as?: string; readonly body?: unknown; readonly headers?: Record<string, string> };

function ask(
  { fetch }: TestService,
  method: string,
  path: string,
  { as, body, headers }: Sent = {},
): Promise<Response> {
  return fetch(`http://greenroom${path}`, {
    method,
    headers: { ...(as === undefined ? {} : { "x-api-key": key(as) }), ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

describe("the access level of a request", () => {
  /** Records the access levels of a request, which is then refused. */
  async function recordAccessLevels(method: string, path: string): Promise<readonly AccessLevel[]> {
    const uses: AccessLevel[] = [];
    const { handler } = fake({
      access: {
        async principal(_request, use) {
          uses.push(use);
          throw new ServiceError("forbidden", "Stop here");
        },
      },
    });
    assert.equal((await handler(new Request(`http://127.0.0.1${path}`, { method }))).status, 403);
    return uses;
  }
  const uses: readonly (readonly [method: string, path: string, use: AccessLevel])[] = [
    ["GET", "/threads/t", "read"],
    ["HEAD", "/threads/t/state", "read"],
    ["POST", "/threads/search", "read"],
    ["POST", "/threads/search/", "read"],
    ["POST", "/threads/", "run"],
    ["POST", "/something/search", "change"],
    ["POST", "/assistants/count", "read"],
    ["POST", "/threads/t/history", "read"],
    ["POST", "/threads/t/state/checkpoint", "read"],
    ["POST", "/assistants/a/versions", "read"],
    ["GET", "/threads/t/runs/r/stream", "read"],
    ["GET", "/threads/t/runs/r/join", "read"],
    ["GET", "/threads/t/runs/r/join?cancel_on_disconnect=0", "read"],
    ["GET", "/threads/t/stream?cancel_on_disconnect=1", "read"],
    ["HEAD", "/threads/t/runs/r/join?cancel_on_disconnect=1", "read"],
    ["GET", "/threads/t/runs/r/join?cancel_on_disconnect=1", "run"],
    ["GET", "/threads/t/runs/r/stream?cancel_on_disconnect=True", "run"],
    ["GET", "/runs/r/stream/?cancel_on_disconnect=0&cancel_on_disconnect=yes", "run"],
    ["POST", "/threads", "run"],
    ["POST", "/threads/t/runs", "run"],
    ["POST", "/threads/t/runs/stream", "run"],
    ["POST", "/threads/t/runs/wait", "run"],
    ["POST", "/runs", "run"],
    ["POST", "/runs/batch", "run"],
    ["POST", "/runs/cancel", "run"],
    ["POST", "/threads/t/runs/r/cancel", "run"],
    ["POST", "/assistants", "change"],
    ["POST", "/assistants/a/latest", "change"],
    ["POST", "/threads/t/state", "change"],
    ["PATCH", "/threads/t", "change"],
    ["DELETE", "/threads/t/runs/r", "change"],
    ["POST", "/something/new", "change"],
  ];
  for (const [method, path, use] of uses) {
    it(`${method} ${path}: ${use}`, async () => assert.deepEqual(await recordAccessLevels(method, path), [use]));
  }
});

describe("mode none", () => {
  it("authenticates nobody and ignores keys", async () => {
    await using open = await guarded({});
    assert.equal((await ask(open, "POST", "/threads", { body: {} })).status, 200);
    const anything = { "x-api-key": "anything", "x-tenant-id": UNKNOWN, "x-organization-id": UNKNOWN };
    assert.equal((await ask(open, "POST", "/threads", { body: {}, headers: anything })).status, 200);
    assert.deepEqual([anonymousPrincipal.refresh, anonymousPrincipal.user_id], [undefined, null]);
  });

  it("lets everyone read all workspaces", async () => {
    await using open = await guarded({});
    const read = async (query: string): Promise<unknown> =>
      (await ask(open, "GET", `/api/v1/workspaces${query}`)).json();
    const names = (list: unknown): unknown =>
      (list as { display_name: string }[]).map((workspace) => workspace.display_name);
    assert.deepEqual(names(await read("")), ["one", "two"]);
    assert.deepEqual(names(await read("?limit=1&offset=1")), ["two"]);
  });
});

describe("mode api_key", () => {
  it("answers 401 without a key and with an unknown one, the same on every route", async () => {
    await using service = await guarded({ mode: "api_key" });
    for (const [method, path] of [
      ["GET", "/threads/x"],
      ["POST", "/threads"],
      ["POST", "/runs/stream"],
      ["GET", "/metrics"],
      ["GET", "/api/v1/workspaces"],
      ["GET", "/api/v1/feedback"],
      ["GET", "/api/v1/orgs/current/billing/granular-usage"],
    ] as const) {
      assert.equal((await ask(service, method, path)).status, 401, path);
      const answer = await ask(service, method, path, { as: "unknown" });
      assert.deepEqual([answer.status, typeof (await answer.json()).detail], [401, "string"], path);
    }
  });

  it("requires no key on public routes", async () => {
    await using service = await guarded({ mode: "api_key" });
    for (const path of ["/ok", "/ready", "/info", "/openapi.json", "/api/v1/info"]) {
      assert.equal((await ask(service, "GET", path)).status, 200, path);
    }
    assert.equal(
      (await ask(service, "POST", `/api/v1/feedback/tokens/${UNKNOWN}`, { body: { score: 1 } })).status,
      404,
    );
  });

  it("serves open metrics to the local machine, and not to clients of a local proxy", async () => {
    await using closed = await guarded({ mode: "api_key" });
    const fetch = createHandler(closed.service, { open_metrics: true });
    const status = async (headers: Record<string, string>): Promise<number> =>
      (await fetch(new Request("http://localhost/metrics", { headers }))).status;
    assert.equal(await status({}), 200);
    for (const name of ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via"]) {
      assert.equal(await status({ [name]: "x" }), 401, name);
      assert.equal(await status({ [name]: "" }), 401, name);
      assert.equal(await status({ [name]: "x", "x-api-key": key("reading") }), 200, name);
    }
  });

  it("refuses open metrics for other host names, as a proxy without headers of its own sends them", async () => {
    await using closed = await guarded({ mode: "api_key" });
    const fetch = createHandler(closed.service, { open_metrics: true });
    const status = async (host: string, headers: Record<string, string> = {}): Promise<number> =>
      (await fetch(new Request(`http://${host}/metrics`, { headers }))).status;
    for (const host of ["localhost", "LOCALHOST:2024", "127.0.0.1:2024", "[::1]", "[::1]:2024"])
      assert.equal(await status(host), 200, host);
    for (const host of ["app.example", "app.example:2024", "localhost.example", "10.0.0.1:2024"]) {
      assert.equal(await status(host), 401, host);
      assert.equal(await status(host, { "x-api-key": key("reading") }), 200, host);
    }
  });

  it("serves a key of the deployment's workspace within its permissions", async () => {
    await using service = await guarded({ mode: "api_key" });
    const createResponse = await ask(service, "POST", "/threads", { as: "all", body: {} });
    const { thread_id } = await createResponse.json();
    assert.equal((await ask(service, "GET", `/threads/${thread_id}`, { as: "reading" })).status, 200);
    assert.equal((await ask(service, "POST", "/threads", { as: "reading", body: {} })).status, 403);
    assert.equal((await ask(service, "DELETE", `/threads/${thread_id}`, { as: "reading" })).status, 403);
  });

  it("refuses cancel_on_disconnect to a key that may only read", async () => {
    await using service = await guarded({ mode: "api_key" });
    const { thread_id } = await (await ask(service, "POST", "/threads", { as: "all", body: {} })).json();
    const later = { assistant_id: "echo", input: {}, after_seconds: 3600 };
    const path = `/threads/${thread_id}/runs`;
    const { run_id } = await (await ask(service, "POST", path, { as: "all", body: later })).json();
    const leaves = async (as: string, route: string): Promise<number> => {
      const answer = await ask(service, "GET", route, { as });
      await answer.body?.cancel();
      return answer.status;
    };
    const readStatus = async (): Promise<string> =>
      (await (await ask(service, "GET", `${path}/${run_id}`, { as: "all" })).json()).status;
    for (const route of [`${path}/${run_id}/join`, `${path}/${run_id}/stream`, `/runs/${run_id}/stream`]) {
      assert.equal(await leaves("reading", `${route}?cancel_on_disconnect=1`), 403, route);
      assert.equal(await leaves("reading", `${route}/?cancel_on_disconnect=true`), 403, route);
      assert.equal(await leaves("reading", `${route}?cancel_on_disconnect=0`), 200, route);
    }
    assert.equal(await readStatus(), "pending");
    assert.equal(await leaves("all", `${path}/${run_id}/stream?cancel_on_disconnect=1`), 200);
    await (await ask(service, "GET", `${path}/${run_id}/join`, { as: "reading" })).text();
    assert.equal(await readStatus(), "interrupted");
  });

  it("answers 404 to a key of another workspace", async () => {
    await using service = await guarded({ mode: "api_key" });
    const { thread_id } = await (await ask(service, "POST", "/threads", { as: "all", body: {} })).json();
    const foreignResponse = await ask(service, "GET", `/threads/${thread_id}`, { as: "other" });
    const none = await ask(service, "GET", `/threads/${UNKNOWN}`, { as: "other" });
    assert.deepEqual([foreignResponse.status, await foreignResponse.text()], [none.status, await none.text()]);
    assert.equal(foreignResponse.status, 404);
  });

  it("limits to the named organization and workspace, or answers 403", async () => {
    await using service = await guarded({ mode: "api_key" });
    const listed = async (headers: Record<string, string>): Promise<unknown> => {
      const answer = await ask(service, "GET", "/api/v1/workspaces", { as: "all", headers });
      return answer.status === 200 ? ((await answer.json()) as { id: string }[]).map(({ id }) => id) : answer.status;
    };
    assert.deepEqual(await listed({}), [W1, W2]);
    assert.deepEqual(await listed({ "x-tenant-id": W2.toUpperCase() }), [W2]);
    assert.equal(await listed({ "x-tenant-id": UNKNOWN }), 403);
    assert.equal(await listed({ "x-organization-id": UNKNOWN }), 403);
  });

  it("limits the routes of the deployment to its workspace", async () => {
    await using service = await guarded({ mode: "api_key" });
    const [organization = {}] = await (await ask(service, "GET", "/api/v1/workspaces", { as: "all" })).json();
    const answered = async (as: string | undefined, headers: Record<string, string>): Promise<number[]> => {
      const options = { ...(as ? { as } : {}), headers };
      const answers = [
        await ask(service, "GET", "/assistants/echo", options),
        await ask(service, "POST", "/threads", { ...options, body: {} }),
        await ask(service, "POST", "/runs/wait", { ...options, body: { assistant_id: "echo" } }),
      ];
      return [...new Set(answers.map(({ status }) => status))];
    };
    assert.deepEqual(await answered("all", { "x-tenant-id": W1.toUpperCase() }), [200]);
    assert.deepEqual(await answered("all", { "x-organization-id": organization.organization_id }), [200]);
    for (const header of ["x-tenant-id", "x-organization-id"]) {
      assert.deepEqual(await answered("all", { [header]: UNKNOWN }), [403], header);
      assert.deepEqual(await answered("all", { [header]: "no UUID" }), [403], header);
      assert.deepEqual(await answered("unknown", { [header]: UNKNOWN }), [401], header);
      assert.deepEqual(await answered(undefined, { [header]: UNKNOWN }), [401], header);
    }
    // The key may access this workspace, but the deployment is in another one.
    assert.deepEqual(await answered("all", { "x-tenant-id": W2 }), [404]);
    assert.deepEqual(await answered("other", { "x-tenant-id": W1 }), [403]);
  });

  it("stores the user and the API key with the trace of a run", async () => {
    await using service = await guarded({ mode: "api_key" });
    const answer = await ask(service, "POST", "/runs/wait", {
      as: "owner",
      body: { assistant_id: "echo", input: { a: 1 } },
    });
    assert.equal(answer.status, 200);
    await answer.text();
    const run_id = (answer.headers.get("content-location") ?? "").split("/").at(-1) as string;
    const trace = await serviceInternals(service.service).options.storage.getTrace(run_id);
    assert.equal(trace?.user_id, OWNER);
    assert.equal(trace?.workspace_id, W1);
    assert.ok(trace?.api_key);
    assert.ok(!key("owner").includes(trace?.api_key as string));
  });
});

describe("a key that is revoked", () => {
  it("ends its open streams at the next heartbeat", async () => {
    const clock = testClock();
    const identity = staticIdentity({ keys: [{ key: key("one"), permissions: PERMISSIONS }] });
    await using service = await createClockedService(clock, {
      agents: {
        async *slow({ signal }) {
          yield { messages: [] };
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
        },
      },
      identity,
      auth: { mode: "api_key" },
      environment: { now: clock.now, timer: clock.timer },
    });
    const body = { assistant_id: "slow", input: {} };
    const stream = await ask(service, "POST", "/runs/stream", { as: "one", body });
    assert.equal(stream.status, 200);
    const reader = (stream.body as ReadableStream<Uint8Array>).getReader();
    let broken: Error | undefined;
    const read = (async () => {
      while (!(await reader.read()).done);
    })().catch((error: Error) => {
      broken = error;
    });
    const beats = async (): Promise<void> => {
      for (let i = 0; i < 20; i++) await clock.advance(500);
    };
    await beats();
    assert.equal(broken, undefined);
    const [row] = await service.service.accounts.listKeys();
    await service.service.accounts.revokeKey(row?.id as string);
    await beats();
    await read;
    assert.ok(broken);
    assert.equal((await ask(service, "GET", "/threads/x", { as: "one" })).status, 401);
  });
});

describe("mode agent_builder", () => {
  const scheme = { "x-auth-scheme": "service-api-key" };
  const json = { "content-type": "application/json" };
  const statuses = async (auth: AuthOptions, as: string): Promise<readonly number[]> => {
    await using service = await guarded({ mode: "agent_builder", owner: OWNER, ...auth });
    const owned = { as: "owner", headers: { ...scheme, ...json } };
    const { thread_id } = await (await ask(service, "POST", "/threads", { ...owned, body: {} })).json();
    const options = { as, headers: { ...scheme, ...json } };
    const answers = [
      await ask(service, "GET", `/threads/${thread_id}`, { as, headers: scheme }),
      await ask(service, "POST", "/threads", { ...options, body: {} }),
      await ask(service, "PATCH", `/threads/${thread_id}`, { ...options, body: { metadata: { a: 1 } } }),
    ];
    return answers.map(({ status }) => status);
  };

  it("grants the owner all access", async () => {
    assert.deepEqual(await statuses({}, "owner"), [200, 200, 200]);
  });

  it("lets members read a shared agent, and run it with `shared_agents: use`", async () => {
    assert.deepEqual(await statuses({ shared: true }, "member"), [200, 404, 404]);
    assert.deepEqual(await statuses({ shared: true, shared_agents: "use" }, "member"), [200, 200, 404]);
  });

  it("shows a private agent to its owner only, and none to strangers and service keys", async () => {
    assert.deepEqual(await statuses({}, "member"), [404, 404, 404]);
    assert.deepEqual(await statuses({ shared: true }, "stranger"), [404, 404, 404]);
    assert.deepEqual(await statuses({ shared: true }, "all"), [404, 404, 404]);
  });

  it("lets a member run a shared agent on own threads only", async () => {
    await using service = await guarded({ mode: "agent_builder", owner: OWNER, shared: true, shared_agents: "use" });
    const headers = { ...scheme, ...json };
    const run = (as: string, thread_id: string): Promise<Response> =>
      ask(service, "POST", `/threads/${thread_id}/runs/wait`, {
        as,
        headers,
        body: { assistant_id: "echo", input: {} },
      });
    const make = async (as: string, body: unknown): Promise<string> =>
      (await (await ask(service, "POST", "/threads", { as, headers, body })).json()).thread_id;
    const ownThread = await make("member", { metadata: { owner_user_id: OWNER } });
    const ownerThread = await make("owner", {});
    assert.equal((await run("member", ownThread)).status, 200);
    const refused = await run("member", ownerThread);
    const unknown = await run("member", UNKNOWN);
    assert.deepEqual([refused.status, unknown.status], [404, 404]);
    const text = async (answer: Response, id: string): Promise<string> => (await answer.text()).replace(id, "");
    assert.equal(await text(refused, ownerThread), await text(unknown, UNKNOWN));
    assert.equal((await run("owner", ownThread)).status, 200);
  });

  it("cancels no run of others when a member disconnects", async () => {
    await using service = await guarded({ mode: "agent_builder", owner: OWNER, shared: true, shared_agents: "use" });
    const headers = { ...scheme, ...json };
    const later = { assistant_id: "echo", input: {}, after_seconds: 3600 };
    const leaves = async (as: string, route: string): Promise<number> => {
      const answer = await ask(service, "GET", `${route}?cancel_on_disconnect=1`, { as, headers: scheme });
      await answer.body?.cancel();
      return answer.status;
    };
    const make = async (as: string): Promise<readonly [path: string, run_id: string]> => {
      const { thread_id } = await (await ask(service, "POST", "/threads", { as, headers, body: {} })).json();
      const path = `/threads/${thread_id}/runs`;
      const { run_id } = await (await ask(service, "POST", path, { as, headers, body: later })).json();
      return [`${path}/${run_id}`, run_id];
    };
    const [ownerThread, run_id] = await make("owner");
    const [memberThread] = await make("member");
    assert.deepEqual(
      [await leaves("member", `${ownerThread}/join`), await leaves("member", `${ownerThread}/stream`)],
      [404, 404],
    );
    assert.equal(await leaves("member", `/runs/${run_id}/stream`), 404);
    const response = await ask(service, "GET", ownerThread, { as: "owner", headers: scheme });
    assert.equal((await response.json()).status, "pending");
    assert.equal(await leaves("member", `${memberThread}/join`), 200);
  });

  it("requires X-Auth-Scheme and, with a body, JSON", async () => {
    await using service = await guarded({ mode: "agent_builder", owner: OWNER });
    assert.equal((await ask(service, "GET", "/threads/x", { as: "owner" })).status, 401);
    const wrong = { "x-auth-scheme": "langsmith" };
    assert.equal((await ask(service, "GET", "/threads/x", { as: "owner", headers: wrong })).status, 401);
    const real = { "x-auth-scheme": "langsmith-api-key" };
    assert.equal(
      (await ask(service, "POST", "/threads/search", { as: "owner", headers: { ...real, ...json }, body: {} })).status,
      200,
    );
    const text = { ...real, "content-type": "text/plain" };
    assert.equal((await ask(service, "POST", "/threads", { as: "owner", headers: text, body: {} })).status, 415);
    assert.equal((await ask(service, "GET", `/threads/${UNKNOWN}`, { as: "owner", headers: real })).status, 404);
  });
});

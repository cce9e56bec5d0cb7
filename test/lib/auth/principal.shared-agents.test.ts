/** Members of a workspace use the shared agent of another user. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AuthOptions } from "../../../lib/auth/principal.ts";
import { staticIdentity } from "../../../lib/auth/static-keys.ts";
import { resolveAccess } from "../../../lib/http/access.ts";
import { loadAllRoutes } from "../../../lib/http/routes/mod.ts";
import { PERMISSIONS } from "../../../lib/storage/identity.ts";
import { testService } from "../../suite/kit.ts";
import { createFaultyStorage, type Faulty } from "../../support/faulty.ts";
import { until } from "../../support/until.ts";

const ROUTES = await loadAllRoutes();

const OWNER = "aaaaaaaa-0000-4000-8000-000000000001";
const MEMBER = "aaaaaaaa-0000-4000-8000-000000000002";
const OTHER = "aaaaaaaa-0000-4000-8000-000000000003";
const UNKNOWN = "99999999-9999-4999-8999-999999999999";
const USERS = { owner: OWNER, member: MEMBER, other: OTHER };
type User = keyof typeof USERS;
const key = (name: string): string => `${name}-${"0".repeat(32)}`;

// biome-ignore lint/suspicious/noExplicitAny: answers of many routes
type Answer = { readonly status: number; readonly body: any; readonly text: string };

interface World extends AsyncDisposable {
  readonly faults: Faulty["faults"];
  send(as: User, method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Response>;
  ask(as: User, method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  /** Creates a thread of the user. */
  thread(as: User): Promise<string>;
}

/** Creates a shared agent with an owner and two members, who have all permissions in the workspace. */
async function sharedWorld(auth: AuthOptions = {}): Promise<World> {
  const { storage, faults } = createFaultyStorage();
  const identity = staticIdentity({
    users: Object.values(USERS).map((id) => ({ id })),
    keys: Object.entries(USERS).map(([name, user]) => ({ key: key(name), permissions: PERMISSIONS, user })),
  });
  const { fetch, [Symbol.asyncDispose]: dispose } = await testService({
    agents: { echo: ({ input }) => JSON.stringify(input) },
    storage,
    identity,
    auth: { mode: "agent_builder", owner: OWNER, shared: true, shared_agents: "use", ...auth },
  });
  const world: World = {
    faults,
    send: (as, method, path, body, headers) =>
      fetch(`http://greenroom${path}`, {
        method,
        headers: {
          "x-api-key": key(as),
          "x-auth-scheme": "service-api-key",
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    async ask(...request) {
      const response = await world.send(...request);
      const text = await response.text();
      const json = (response.headers.get("content-type") ?? "").includes("json");
      return { status: response.status, text, body: json ? JSON.parse(text) : null };
    },
    thread: async (as) => (await world.ask(as, "POST", "/threads", {})).body.thread_id,
    [Symbol.asyncDispose]: dispose,
  };
  return world;
}

const RUN = { assistant_id: "echo", input: {} };
const LATER = { ...RUN, after_seconds: 3600 };

/** Joins a run with cancel_on_disconnect, and disconnects. */
async function leave({ send }: World, as: User, path: string): Promise<number> {
  const response = await send(as, "GET", `${path}?cancel_on_disconnect=1`);
  await response.body?.cancel();
  return response.status;
}

const readStatus = async ({ ask }: World, run: { thread_id: string; run_id: string }): Promise<string> =>
  (await ask("owner", "GET", `/threads/${run.thread_id}/runs/${run.run_id}`)).body.status;

const readCreator = async ({ ask }: World, thread_id: string): Promise<unknown> =>
  (await ask("owner", "GET", `/threads/${thread_id}`)).body.metadata.owner_user_id;

describe("members of the workspace", () => {
  it("read everything of a shared agent", async () => {
    await using world = await sharedWorld({ shared_agents: "read" });
    const thread_id = await world.thread("owner");
    const { run_id } = (await world.ask("owner", "POST", `/threads/${thread_id}/runs`, RUN)).body;
    const thread = `/threads/${thread_id}`;
    await world.ask("owner", "GET", `${thread}/runs/${run_id}/join`);
    const { checkpoint } = (await world.ask("owner", "GET", `${thread}/state`)).body;
    const reads: readonly (readonly [method: string, path: string, body?: unknown])[] = [
      ["GET", thread],
      ["GET", `${thread}/state`],
      ["GET", `${thread}/state/${checkpoint.checkpoint_id}`],
      ["POST", `${thread}/state/checkpoint`, { checkpoint }],
      ["GET", `${thread}/history`],
      ["POST", `${thread}/history`, {}],
      ["GET", `${thread}/storage`],
      ["GET", `${thread}/runs`],
      ["GET", `${thread}/runs/${run_id}`],
      ["GET", `${thread}/runs/${run_id}/join`],
      ["GET", `${thread}/runs/${run_id}/stream`],
      ["GET", `/runs/${run_id}/stream`],
      ["POST", "/threads/search", {}],
      ["POST", "/threads/count", {}],
      ["POST", "/assistants/search", {}],
      ["POST", "/runs/crons/search", {}],
      ["POST", "/store/items/search", { namespace_prefix: ["a"] }],
    ];
    for (const [method, path, body] of reads) {
      const [memberResponse, ownerResponse] = [
        await world.ask("member", method, path, body),
        await world.ask("owner", method, path, body),
      ];
      assert.deepEqual([memberResponse.status, memberResponse.text], [200, ownerResponse.text], `${method} ${path}`);
    }
    const stream = await world.send("member", "GET", `${thread}/stream`);
    await stream.body?.cancel();
    assert.equal(stream.status, 200);
    assert.equal((await world.ask("member", "POST", "/threads/count", {})).body, 1);
  });

  it("cannot change anything of an agent that is shared for reading", async () => {
    await using world = await sharedWorld();
    const memberThread = await world.thread("member");
    const ownerThread = await world.thread("owner");
    const { run_id } = (await world.ask("member", "POST", `/threads/${memberThread}/runs`, RUN)).body;
    const requestBody = { metadata: { owner_user_id: OTHER }, thread_ids: [memberThread], schedule: "@daily", ...RUN };
    let changes = 0;
    for (const route of ROUTES) {
      for (const thread_id of [memberThread, ownerThread]) {
        const path = route.path.replace(":thread_id", thread_id).replace(":run_id", run_id).replace(/:\w+/g, UNKNOWN);
        const method = route.method === "all" ? "POST" : route.method.toUpperCase();
        const request = new Request(`http://greenroom${path}`, { method });
        if (resolveAccess(request, { path, route, routes: () => [route] }) !== "change" || !route.handle) continue;
        const body = method === "GET" || method === "DELETE" ? undefined : requestBody;
        const { status, text } = await world.ask("member", method, path, body);
        assert.deepEqual(
          [status, text],
          [404, '{"detail":"There is nothing at this path","code":"route_not_found"}'],
          `${method} ${route.path}`,
        );
        changes++;
      }
    }
    assert.ok(changes > 20, String(changes));
    assert.deepEqual(
      [await readCreator(world, memberThread), await readCreator(world, ownerThread)],
      [MEMBER, undefined],
    );
  });

  it("cannot create or run anything of an agent that is shared for reading", async () => {
    await using world = await sharedWorld({ shared_agents: "read" });
    const thread_id = await world.thread("owner");
    const run = (await world.ask("owner", "POST", `/threads/${thread_id}/runs`, LATER)).body;
    const path = `/threads/${thread_id}/runs`;
    for (const [route, body] of [
      ["/threads", {}],
      [path, RUN],
      [`${path}/stream`, RUN],
      [`${path}/wait`, RUN],
      ["/runs", RUN],
      ["/runs/batch", [RUN]],
      [`${path}/${run.run_id}/cancel`, {}],
      ["/runs/cancel", { status: "all" }],
    ] as const) {
      assert.equal((await world.ask("member", "POST", route, body)).status, 404, route);
    }
    assert.deepEqual(
      [await leave(world, "member", `${path}/${run.run_id}/join`), await readStatus(world, run)],
      [404, "pending"],
    );
    assert.equal((await world.ask("owner", "POST", "/threads/count", {})).body, 1);
  });
});

describe("members of the workspace with `shared_agents: use`", () => {
  it("own the threads that they create, whatever metadata they send", async () => {
    await using world = await sharedWorld();
    const metadata = { owner_user_id: OWNER, a: 1 };
    const createdThread = (await world.ask("member", "POST", "/threads", { metadata })).body;
    assert.deepEqual(createdThread.metadata, { owner_user_id: MEMBER, a: 1 });
    const ran = (
      await world.ask("member", "POST", `/threads/${UNKNOWN}/runs`, { ...RUN, metadata, if_not_exists: "create" })
    ).body;
    assert.deepEqual([ran.metadata.owner_user_id, await readCreator(world, UNKNOWN)], [MEMBER, MEMBER]);
    const body = { ...RUN, metadata, on_completion: "keep" };
    const stateless = (await world.ask("member", "POST", "/runs", body)).body;
    const [batched] = (await world.ask("member", "POST", "/runs/batch", [body])).body;
    for (const { thread_id } of [stateless, batched]) {
      assert.equal(await readCreator(world, thread_id), MEMBER);
      const run = (as: User): Promise<Answer> => world.ask(as, "POST", `/threads/${thread_id}/runs/wait`, RUN);
      assert.deepEqual(
        [(await run("member")).status, (await run("other")).status, (await run("owner")).status],
        [200, 404, 200],
      );
      assert.equal(await readCreator(world, thread_id), MEMBER, "the owner's run leaves it");
    }
    assert.equal(await readCreator(world, await world.thread("owner")), undefined);
  });

  it("get the responses of unknown threads for threads of others", async () => {
    await using world = await sharedWorld();
    const ownerThread = await world.thread("owner");
    const { run_id } = (await world.ask("owner", "POST", `/threads/${ownerThread}/runs`, LATER)).body;
    const calls: readonly (readonly [method: string, path: string, body?: unknown])[] = [
      ["POST", "/threads/:id/runs", RUN],
      ["POST", "/threads/:id/runs", { ...RUN, metadata: { owner_user_id: MEMBER } }],
      ["POST", "/threads/:id/runs/stream", RUN],
      ["POST", "/threads/:id/runs/wait", { ...RUN, multitask_strategy: "rollback" }],
      ["POST", `/threads/:id/runs/${run_id}/cancel`, {}],
      ["POST", `/threads/:id/runs/${run_id}/cancel?action=rollback`, {}],
      ["POST", "/runs/cancel", { thread_id: ":id", run_ids: [run_id] }],
      ["GET", `/threads/:id/runs/${run_id}/join?cancel_on_disconnect=1`],
      ["GET", `/threads/:id/runs/${run_id}/stream?cancel_on_disconnect=1`],
    ];
    for (const [method, path, body] of calls) {
      const answer = async (id: string): Promise<readonly unknown[]> => {
        const requestBody = body === undefined ? undefined : JSON.parse(JSON.stringify(body).replace(":id", id));
        const { status, text } = await world.ask("member", method, path.replace(":id", id), requestBody);
        return [status, text.replace(id, "")];
      };
      const refused = await answer(ownerThread);
      assert.deepEqual([refused[0], refused], [404, await answer(UNKNOWN)], `${method} ${path}`);
    }
    assert.equal(await readStatus(world, { thread_id: ownerThread, run_id }), "pending");
    assert.equal((await world.ask("owner", "GET", `/threads/${ownerThread}/runs`)).body.length, 1);
    // The id, which a client may choose, exists already.
    const create = { ...RUN, if_not_exists: "create" };
    assert.equal((await world.ask("member", "POST", `/threads/${ownerThread}/runs`, create)).status, 409);
    const claim = { thread_id: ownerThread, if_exists: "do_nothing" };
    assert.equal((await world.ask("member", "POST", "/threads", claim)).status, 409);
    assert.equal(await readCreator(world, ownerThread), undefined);
  });

  it("cancel only their own runs, by id, by status and on disconnect", async () => {
    await using world = await sharedWorld();
    const start = async (as: User): Promise<{ thread_id: string; run_id: string }> =>
      (await world.ask(as, "POST", `/threads/${await world.thread(as)}/runs`, LATER)).body;
    const stateless = async (as: User): Promise<{ thread_id: string; run_id: string }> =>
      (await world.ask(as, "POST", "/runs", { ...LATER, on_completion: "keep" })).body;
    const theirs = [await start("owner"), await stateless("owner"), await start("other"), await stateless("other")];
    const ownRequests = [
      await start("member"),
      await start("member"),
      await start("member"),
      await stateless("member"),
    ] as const;
    const path = ({ thread_id, run_id }: { thread_id: string; run_id: string }): string =>
      `/threads/${thread_id}/runs/${run_id}`;
    for (const run of theirs) assert.equal(await leave(world, "member", `/runs/${run.run_id}/stream`), 404);
    assert.equal((await world.ask("member", "POST", `${path(ownRequests[0])}/cancel?wait=1`)).status, 204);
    assert.equal(await leave(world, "member", `${path(ownRequests[1])}/join`), 200);
    assert.equal(await leave(world, "member", `/runs/${ownRequests[3].run_id}/stream`), 200);
    for (const run of [ownRequests[1], ownRequests[3]])
      await until(async () => (await readStatus(world, run)) === "interrupted");
    assert.equal((await world.ask("member", "POST", "/runs/cancel", { status: "all" })).status, 204);
    for (const run of ownRequests) assert.equal(await readStatus(world, run), "interrupted");
    assert.equal((await world.ask("member", "POST", "/runs/cancel", { status: "all" })).status, 404);
    for (const run of theirs) assert.equal(await readStatus(world, run), "pending");
  });

  it("share no Idempotency-Key with the owner or with each other", async () => {
    await using world = await sharedWorld();
    const run = async (as: User): Promise<string> =>
      (await world.ask(as, "POST", "/runs", RUN, { "idempotency-key": "one" })).body.run_id;
    const ids = [await run("owner"), await run("member"), await run("other")];
    assert.equal(new Set(ids).size, 3);
    assert.deepEqual([await run("owner"), await run("member"), await run("other")], ids);
  });

  it("cannot change a thread whose owner changes during their request", async () => {
    await using world = await sharedWorld();
    /** Changes the owner of the thread right before the storage operation. */
    const giveBefore = (verb: "createRun" | "stopRuns", thread_id: string): void => {
      world.faults[verb] = async (call) => {
        delete world.faults[verb];
        const metadata = { owner_user_id: OWNER };
        assert.equal((await world.ask("owner", "PATCH", `/threads/${thread_id}`, { metadata })).status, 200);
        return call();
      };
    };
    const first = await world.thread("member");
    giveBefore("createRun", first);
    assert.equal((await world.ask("member", "POST", `/threads/${first}/runs`, RUN)).status, 404);
    assert.deepEqual((await world.ask("owner", "GET", `/threads/${first}/runs`)).body, []);

    const cancels: readonly ((run: { thread_id: string; run_id: string }) => Promise<unknown>)[] = [
      ({ thread_id, run_id }) => world.ask("member", "POST", `/threads/${thread_id}/runs/${run_id}/cancel`),
      ({ thread_id, run_id }) => world.ask("member", "POST", "/runs/cancel", { thread_id, run_ids: [run_id] }),
      () => world.ask("member", "POST", "/runs/cancel", { status: "pending" }),
    ];
    for (const cancel of cancels) {
      const thread_id = await world.thread("member");
      const run = (await world.ask("member", "POST", `/threads/${thread_id}/runs`, LATER)).body;
      giveBefore("stopRuns", thread_id);
      await cancel(run);
      assert.equal(world.faults.stopRuns, undefined, "the thread was given away");
      assert.equal(await readStatus(world, run), "pending");
    }
  });
});

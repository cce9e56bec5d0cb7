/** Large requests and responses share a byte budget with a limit per caller, and work for disconnected clients stops. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createHandler, type Handler } from "../../../lib/http/handler.ts";
import type { HttpOptions } from "../../../lib/options/http.ts";
import { type TestClock, type TestService, testClock } from "../../suite/kit.ts";
import { createClockedService, createFaultyStorage, type Faulty } from "../../support/faulty.ts";

const MIB = 1024 * 1024;
const STATE_CHARS = 1.5 * MIB;
const WAIT_MS = 2_000;
const STALLED_MS = 5_000;
/** The share of one caller has room for one state. */
const LARGE: NonNullable<HttpOptions["large_bodies"]> = {
  budget_bytes: 8 * MIB,
  caller_share: 0.25,
  wait_ms: WAIT_MS,
  stalled_ms: STALLED_MS,
};

interface World extends AsyncDisposable {
  readonly clock: TestClock;
  readonly at: TestService;
  readonly calls: Faulty["calls"];
  readonly thread_id: string;
  /** Sends a request of a user, or without a credential if null. */
  send(user: string | null, path: string, options?: SendOptions): Promise<Response>;
}

interface SendOptions {
  readonly method?: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly address?: string;
  readonly signal?: AbortSignal;
}

/** Creates a service with one thread of `states` large states. */
async function createWorld({ states = 1, isOpen = false, http = {} as HttpOptions } = {}): Promise<World> {
  const clock = testClock();
  const { storage, calls } = createFaultyStorage();
  const authenticate = ({ headers }: { readonly headers: Headers }): string => headers.get("x-user") ?? "";
  const at = await createClockedService(clock, {
    storage,
    environment: clock,
    agents: { echo: ({ input }) => input as object, slow: () => ({ data: "x".repeat(STATE_CHARS) }) },
    http: { large_bodies: LARGE, ...http },
    ...(isOpen ? {} : { auth: { custom: { authenticate } } }),
  });
  const handler: Handler = createHandler(at.service);
  const send: World["send"] = (user, path, { method = "GET", body, headers = {}, address, signal } = {}) =>
    handler(
      new Request(`http://greenroom${path}`, {
        method,
        headers: {
          ...(user === null ? {} : { "x-user": user }),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        ...(signal ? { signal } : {}),
      }),
      address === undefined ? {} : { address },
    );
  const supersteps = Array.from({ length: states }, (_, n) => ({
    updates: [{ as_node: "echo", values: { data: `${n}${"x".repeat(STATE_CHARS)}` } }],
  }));
  const created = await send("ann", "/threads", {
    method: "POST",
    body: { metadata: { graph_id: "echo" }, ...(states === 1 ? { supersteps } : {}) },
  });
  const { thread_id } = (await created.json()) as { thread_id: string };
  for (let n = 1; n < states; n++) {
    const body = { values: { data: `${n}${"x".repeat(STATE_CHARS)}` }, as_node: "echo" };
    const updated = await send("ann", `/threads/${thread_id}/state`, { method: "POST", body });
    assert.equal(updated.status, 200);
  }
  return { clock, at, calls, thread_id, send, [Symbol.asyncDispose]: () => at[Symbol.asyncDispose]() };
}

/** Advances the clock in steps, between which requests proceed. */
async function pass(clock: TestClock, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 50) await clock.advance(50);
}

/** Tracks the status of a response, null until it arrives. */
function track(response: Promise<Response>): { status: number | null; readonly response: Promise<Response> } {
  const tracked = { status: null as number | null, response };
  response.then(
    ({ status }) => {
      tracked.status = status;
    },
    () => {},
  );
  return tracked;
}

const stateLength = async (response: Response): Promise<number> =>
  ((await response.json()) as { values: { data: string } }).values.data.length;

describe("the byte budget of large responses", () => {
  it("queues a caller over its share, and answers 503 `server_busy` with Retry-After after the limit", async () => {
    await using world = await createWorld();
    const { clock, send, thread_id } = world;
    const path = `/threads/${thread_id}/state`;
    const unreadResponse = await send("ann", path);
    assert.equal(unreadResponse.status, 200);
    const second = track(send("ann", path));
    await pass(clock, WAIT_MS - 100);
    assert.equal(second.status, null);
    await pass(clock, 200);
    const refused = await second.response;
    assert.deepEqual(
      [refused.status, refused.headers.get("retry-after"), ((await refused.json()) as { code: string }).code],
      [503, "5", "server_busy"],
    );
    assert.ok((await stateLength(unreadResponse)) > STATE_CHARS);
  });

  it("sends a queued response after the one before it was read", async () => {
    await using world = await createWorld();
    const { clock, send, thread_id } = world;
    const path = `/threads/${thread_id}/state`;
    const unreadResponse = await send("ann", path);
    const second = track(send("ann", path));
    await pass(clock, 1_000);
    assert.equal(second.status, null);
    await stateLength(unreadResponse);
    assert.ok((await stateLength(await second.response)) > STATE_CHARS);
  });

  it("serves other users, and small responses of the same user, meanwhile", async () => {
    await using world = await createWorld();
    const { clock, send, thread_id } = world;
    const unreadResponse = await send("ann", `/threads/${thread_id}/state`);
    const waiting = Array.from({ length: 50 }, () => track(send("ann", `/threads/${thread_id}/state`)));
    await pass(clock, 1_000);
    assert.ok(waiting.every(({ status }) => status === null));
    assert.ok((await stateLength(await send("bob", `/threads/${thread_id}/state`))) > STATE_CHARS);
    const { thread_id: small } = (await (await send("ann", "/threads", { method: "POST", body: {} })).json()) as {
      thread_id: string;
    };
    assert.equal((await send("ann", `/threads/${small}/state`)).status, 200);
    await unreadResponse.body?.cancel();
    await pass(clock, WAIT_MS);
    await Promise.all(waiting.map(async ({ response }) => (await response).body?.cancel()));
  });

  it("counts by address without authentication, whatever the headers say", async () => {
    await using world = await createWorld({ isOpen: true });
    const { clock, send, thread_id } = world;
    const path = `/threads/${thread_id}/state`;
    const unreadResponse = await send(null, path, { address: "192.0.2.1" });
    const [same, network] = [{ address: "::ffff:192.0.2.1" }, { address: "2001:db8:1:2::1" }];
    const forwarded = { "x-forwarded-for": "198.51.100.7", forwarded: "for=198.51.100.7" };
    const waiting = track(send(null, path, { ...same, headers: forwarded }));
    const otherResponse = await send(null, path, network);
    const neighbour = track(send(null, path, { address: "2001:0db8:1:2:ffff::9" }));
    await pass(clock, 1_000);
    assert.deepEqual([waiting.status, otherResponse.status, neighbour.status], [null, 200, null]);
    await Promise.all([unreadResponse.body?.cancel(), otherResponse.body?.cancel()]);
    for (const { response } of [waiting, neighbour]) assert.ok((await stateLength(await response)) > STATE_CHARS);
  });

  it("takes the bytes back from a stalled reader, and keeps a slow one", async () => {
    await using world = await createWorld();
    const { clock, send, thread_id } = world;
    const path = `/threads/${thread_id}/state`;
    const reader = (await send("ann", path)).body?.getReader();
    for (let n = 0; n < 5; n++) {
      assert.equal((await reader?.read())?.done, false);
      await pass(clock, STALLED_MS - 100);
    }
    await pass(clock, 200);
    await assert.rejects(async () => {
      while (!(await reader?.read())?.done);
    }, /does not read/);
    assert.ok((await stateLength(await send("ann", path))) > STATE_CHARS);
  });

  it("queues a large history between its states", async () => {
    await using world = await createWorld({ states: 6 });
    const { clock, send, thread_id, calls } = world;
    const path = `/threads/${thread_id}/history?limit=1000`;
    const reader = (await send("ann", path)).body?.getReader();
    const decoder = new TextDecoder();
    const first = decoder.decode((await reader?.read())?.value, { stream: true });
    const before = calls.listCheckpoints ?? 0;
    await pass(clock, 1_000);
    assert.ok((calls.listCheckpoints ?? 0) <= before + 1);
    let text = first;
    for (let read = await reader?.read(); read && !read.done; read = await reader?.read())
      text += decoder.decode(read.value, { stream: true });
    const states = JSON.parse(text) as { values: { data: string } }[];
    assert.deepEqual(
      states.map(({ values }) => values.data[0]),
      ["5", "4", "3", "2", "1"],
    );
  });

  it("applies a change once, and responds to it after the wait", async () => {
    await using world = await createWorld();
    const { clock, send, thread_id, at } = world;
    const unreadResponse = await send("ann", `/threads/${thread_id}/state`);
    const patched = track(send("ann", `/threads/${thread_id}`, { method: "PATCH", body: { metadata: { a: 1 } } }));
    await pass(clock, 1_000);
    assert.equal(patched.status, null);
    await unreadResponse.body?.cancel();
    const thread = (await (await patched.response).json()) as { metadata: { a: number }; values: { data: string } };
    assert.deepEqual([thread.metadata.a, thread.values.data.length > STATE_CHARS], [1, true]);
    // The server knows by now that the response is large, so it refuses before the change.
    const again = await send("ann", `/threads/${thread_id}/state`);
    const refused = track(send("ann", `/threads/${thread_id}`, { method: "PATCH", body: { metadata: { a: 2 } } }));
    await pass(clock, WAIT_MS + 100);
    assert.equal((await refused.response).status, 503);
    assert.equal((await at.service.threads.get(thread_id)).metadata.a, 1);
    await again.body?.cancel();
  });

  it("admits few concurrent changes while their responses may be large", async () => {
    await using world = await createWorld();
    const { clock, send, thread_id, calls } = world;
    const unreadResponse = await send("ann", `/threads/${thread_id}/state`);
    const change = () => send("ann", `/threads/${thread_id}`, { method: "PATCH", body: { metadata: { a: 1 } } });
    const changes = Array.from({ length: 20 }, () => track(change()));
    await pass(clock, WAIT_MS + 500);
    const updatesBefore = calls.updateThread ?? 0;
    assert.ok(updatesBefore > 0 && updatesBefore <= 8, `${updatesBefore} changes`);
    assert.ok(changes.filter(({ status }) => status === 503).length >= 12);
    await unreadResponse.body?.cancel();
    for (const { response } of changes) await (await response).body?.cancel();
  });

  it("limits the results of runs", async () => {
    await using world = await createWorld();
    const { clock, send, thread_id } = world;
    const unreadResponse = await send("ann", `/threads/${thread_id}/state`);
    const body = { assistant_id: "slow", input: {} };
    const result = await send("ann", `/threads/${thread_id}/runs/wait`, { method: "POST", body });
    const text = track(result.text() as unknown as Promise<Response>);
    await pass(clock, 500);
    assert.equal(text.status, null);
    await unreadResponse.body?.cancel();
    const { data } = JSON.parse((await text.response) as unknown as string) as { data: string };
    assert.equal(data.length, STATE_CHARS);
  });

  it("refuses invalid options", () => {
    const problems = (large_bodies: object): Promise<unknown> =>
      createClockedService(testClock(), { agents: { echo: () => "" }, http: { large_bodies } });
    return Promise.all([
      assert.rejects(problems({ caller_share: 2 }), /http\.large_bodies\.caller_share.*above 0, at most 1/),
      assert.rejects(problems({ budget_bytes: 10 }), /http\.large_bodies\.budget_bytes/),
      assert.rejects(problems({ stalled_ms: 0 }), /http\.large_bodies\.stalled_ms/),
    ]).then(() => {});
  });
});

describe("large request bodies", () => {
  it("wait for the share of their caller, and are refused before they take effect", async () => {
    await using world = await createWorld();
    const { clock, send, thread_id, at } = world;
    const before = await at.service.threads.count();
    const unreadResponse = await send("ann", `/threads/${thread_id}/state`);
    const body = { metadata: { kind: "new" }, supersteps: [], text: "x".repeat(STATE_CHARS) };
    const request = { method: "POST", body, headers: { "content-length": String(JSON.stringify(body).length) } };
    const waiting = track(send("ann", "/threads", request));
    const chunked = track(send("ann", "/threads", { method: "POST", body }));
    await pass(clock, 1_000);
    assert.deepEqual([waiting.status, chunked.status], [null, null]);
    assert.equal((await send("bob", "/threads", request)).status, 200);
    await pass(clock, WAIT_MS + 100);
    for (const { response } of [waiting, chunked]) assert.equal((await response).status, 503);
    assert.equal(await at.service.threads.count(), before + 1);
    await unreadResponse.body?.cancel();
    assert.equal((await send("ann", "/threads", request)).status, 200);
  });
});

describe("work for a client that has disconnected", () => {
  it("does not start after a wait", async () => {
    await using world = await createWorld();
    const { clock, send, thread_id, calls } = world;
    const path = `/threads/${thread_id}/state`;
    const unreadResponse = await send("ann", path);
    await pass(clock, 1_000);
    const leaving = new AbortController();
    const before = calls.getCheckpoint ?? 0;
    const waiting = Array.from({ length: 20 }, () => track(send("ann", path, { signal: leaving.signal })));
    await pass(clock, 1_000);
    leaving.abort();
    await unreadResponse.body?.cancel();
    await pass(clock, WAIT_MS);
    await Promise.all(waiting.map(async ({ response }) => (await response).body?.cancel()));
    assert.equal(calls.getCheckpoint ?? 0, before);
    assert.ok((await stateLength(await send("ann", path))) > STATE_CHARS);
  });

  it("stops in the middle of a history and of a search with values", async () => {
    await using world = await createWorld({ states: 6 });
    const { clock, send, thread_id, calls } = world;
    const history = await send("ann", `/threads/${thread_id}/history?limit=1000`);
    await history.body?.cancel();
    const listed = calls.listCheckpoints ?? 0;
    await pass(clock, 1_000);
    assert.ok((calls.listCheckpoints ?? 0) <= listed + 1);
    const leaving = new AbortController();
    const body = { values: { data: "none" }, limit: 100 };
    for (let n = 0; n < 10; n++) {
      const supersteps = [{ updates: [{ as_node: "echo", values: { list: ["x".repeat(STATE_CHARS)] } }] }];
      const thread = await send("ann", "/threads", {
        method: "POST",
        body: { metadata: { graph_id: "echo" }, supersteps },
      });
      await thread.body?.cancel();
    }
    const before = calls.getCheckpoint ?? 0;
    const search = send("ann", "/threads/search", {
      method: "POST",
      body: { ...body, values: { list: ["none"] } },
      signal: leaving.signal,
    });
    leaving.abort();
    await search;
    await pass(clock, 1_000);
    assert.ok((calls.getCheckpoint ?? 0) - before <= 2, `${(calls.getCheckpoint ?? 0) - before} states`);
  });
});

/** Commands and event streams show threads of other users as threads that do not exist. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { staticIdentity } from "../../../lib/auth/static-keys.ts";
import type { AgentFunction } from "../../../lib/functions/mod.ts";
import { createHandler } from "../../../lib/http/handler.ts";
import type { JsonObject } from "../../../lib/json.ts";
import { PERMISSIONS } from "../../../lib/storage/identity.ts";
import { testService } from "../../suite/kit.ts";
import { until } from "../../support/until.ts";
import { customWorld, owning } from "../auth/custom-auth.harness.ts";

type Fetch = (input: string, init: RequestInit) => Promise<Response>;
type Headers = Readonly<Record<string, string>>;

/** Creates a function that sends requests of a user to the routes of the protocol. */
function createUser(fetch: Fetch, headers: Headers) {
  const post = (path: string, body: unknown): Promise<Response> =>
    fetch(`http://greenroom/threads/${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
    });
  return {
    post,
    /** Returns the status and the response without the id of the thread. */
    async command(thread: string, method: string, params: object = {}): Promise<[number, JsonObject]> {
      const response = await post(`${thread}/commands`, { id: 1, method, params });
      return [response.status, JSON.parse((await response.text()).replaceAll(thread, ":thread"))];
    },
    /** Opens a stream and reads it. */
    async stream(thread: string) {
      const response = await post(`${thread}/stream/events`, { channels: ["values", "lifecycle", "input"] });
      const opened = { status: response.status, text: "", events: 0, close: async () => {} };
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      const decoder = new TextDecoder();
      opened.close = () => reader.cancel();
      (async () => {
        for (let next = await reader.read(); !next.done; next = await reader.read()) {
          opened.text += decoder.decode(next.value, { stream: true });
          opened.events = opened.text.split("\ndata: ").length - 1;
        }
      })().catch(() => {});
      return opened;
    },
  };
}

const START = { assistant_id: "agent", input: { said: 1 } };
const ASK = { assistant_id: "agent", input: { ask: true } };
const agents: Readonly<Record<string, AgentFunction>> = {
  async *agent({ input, command, interrupt }) {
    if ((input as JsonObject | null)?.ask && command?.resume === undefined) yield interrupt("sure?");
    yield { said: input };
  },
};

/** The commands that name a run or a state. `run.start` is tested separately, because it creates absent threads. */
const COMMANDS: readonly (readonly [method: string, params: (interrupt: string) => object])[] = [
  ["input.respond", (interrupt_id) => ({ interrupt_id, response: "yes" })],
  ["input.respond", (interrupt_id) => ({ responses: [{ interrupt_id, response: "yes" }] })],
  ["agent.getTree", () => ({})],
  ["state.get", () => ({})],
  ["state.get", () => ({ namespace: ["agent:1"], keys: ["said"] })],
];

describe("threads of other users with custom authentication", () => {
  const open = async () => {
    const world = await customWorld({ on: { "*": owning }, agents });
    const user = (name: string) => createUser(world.it.fetch as Fetch, { authorization: `Bearer ${name}` });
    return { world, ann: user("ann"), bob: user("bob"), [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() };
  };

  it("get the responses of threads that do not exist, and do not change", async () => {
    await using at = await open();
    const { ann, bob, world } = at;
    const [theirs, none] = [crypto.randomUUID(), crypto.randomUUID()];
    assert.equal((await ann.command(theirs, "run.start", ASK))[0], 200);
    const path = `/threads/${theirs}`;
    await until(async () => (await world.ask("ann", "GET", path)).body.status === "interrupted");
    const before = (await world.ask("ann", "GET", path)).text;
    const { tasks } = (await world.ask("ann", "GET", `${path}/state`)).body as never as {
      tasks: { interrupts: { id: string }[] }[];
    };
    const id = tasks[0]?.interrupts[0]?.id as string;
    for (const [method, params] of COMMANDS) {
      assert.deepEqual(
        await bob.command(theirs, method, params(id)),
        await bob.command(none, method, params(id)),
        method,
      );
      assert.notDeepEqual(await ann.command(theirs, method, params("x")), await bob.command(none, method, params("x")));
    }
    const [status, answer] = await bob.command(theirs, "run.start", START);
    assert.deepEqual(
      [status, answer],
      [404, { detail: "Thread :thread not found", message: "Thread :thread not found", code: "thread_not_found" }],
    );
    assert.equal((await world.ask("ann", "GET", path)).text, before);
    assert.equal(JSON.parse((await world.ask("ann", "GET", `${path}/runs`)).text).length, 1);
    assert.equal((await ann.command(theirs, "input.respond", { interrupt_id: id, response: "yes" }))[0], 200);
  });

  it("send no events, whether a stream was opened before or after the creation", async () => {
    await using at = await open();
    const { ann, bob } = at;
    const thread = crypto.randomUUID();
    const [early, ownStream] = [await bob.stream(thread), await ann.stream(thread)];
    await ann.command(thread, "run.start", START);
    await until(() => ownStream.text.includes('"event":"completed"'));
    const late = await bob.stream(thread);
    await ann.command(thread, "run.start", START);
    await until(() => ownStream.text.split('"event":"completed"').length === 3);
    const none = await bob.stream(crypto.randomUUID());
    // Later events show that the streams are still open.
    await until(() => [early, late, none].every(({ text }) => text !== ""));
    for (const { status, events } of [early, late, none]) assert.deepEqual([status, events], [200, 0]);
    assert.ok(ownStream.events > 4);
    await Promise.all([early, ownStream, late, none].map(({ close }) => close()));
  });

  it("belong to the user whose run creates them", async () => {
    await using at = await open();
    const { bob, world } = at;
    const thread = crypto.randomUUID();
    const bobStream = await bob.stream(thread);
    await bob.command(thread, "run.start", { ...START, metadata: { owner: "ann" } });
    await until(() => bobStream.text.includes('"event":"completed"'));
    assert.equal((await world.ask("ann", "GET", `/threads/${thread}`)).status, 404);
    await bobStream.close();
  });

  it("are refused with the status of the handler, which is called for each", async () => {
    const refuse = (): never => {
      throw Object.assign(new Error("Not you"), { status: 403 });
    };
    await using world = await customWorld({ on: { threads: refuse }, agents });
    const bob = createUser(world.it.fetch as Fetch, { authorization: "Bearer bob" });
    const thread = crypto.randomUUID();
    const expected = { detail: "Not you", message: "Not you", code: "forbidden" };
    for (const [method, params] of [...COMMANDS, ["run.start", () => START] as const]) {
      assert.deepEqual(await bob.command(thread, method, params("i")), [403, expected], method);
    }
    const response = await bob.post(`${thread}/stream/events`, { channels: ["values"] });
    assert.deepEqual([response.status, await response.json()], [403, expected]);
    const authorizations = world.takeContexts().map(({ resource, action }) => `${resource}:${action}`);
    assert.deepEqual(new Set(authorizations), new Set(["threads:read", "threads:create_run"]));
    assert.equal((await world.it.service.threads.search({})).items.length, 0);
  });
});

describe("threads of a shared agent", () => {
  const [OWNER, MEMBER] = ["aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002"];
  const key = (name: string): string => `${name}-${"0".repeat(32)}`;
  const open = async (shared_agents: "use" | "read") => {
    const users = Object.entries({ owner: OWNER, member: MEMBER });
    const identity = staticIdentity({
      users: users.map(([, id]) => ({ id })),
      keys: users.map(([name, user]) => ({ key: key(name), permissions: PERMISSIONS, user })),
    });
    const auth = { mode: "agent_builder", owner: OWNER, shared: true, shared_agents } as const;
    const { service, fetch, [Symbol.asyncDispose]: dispose } = await testService({ agents, identity, auth });
    const handler = createHandler(service);
    const headers = (name: string): Headers => ({ "x-api-key": key(name), "x-auth-scheme": "service-api-key" });
    const user = (name: string) => createUser(fetch as Fetch, headers(name));
    /** Sends a command as a member over a WebSocket and returns its response. */
    const overSocket = async (thread: string, method: string, params: object): Promise<JsonObject> => {
      const listeners: Record<string, (event: { readonly data?: string }) => void> = {};
      const answer = Promise.withResolvers<JsonObject>();
      const socket = {
        bufferedAmount: 0,
        send: (text: string) => answer.resolve(JSON.parse(text)),
        close() {},
        addEventListener: (type: string, listener: (event: never) => void) => {
          listeners[type] = listener as never;
        },
      };
      const request = new Request(`http://greenroom/threads/${thread}/stream/events`, {
        headers: { ...headers("member"), upgrade: "websocket" },
      });
      const response = await handler(request, { upgradeWebSocket: () => ({ socket: socket as never }) });
      assert.equal(response.status, 101);
      listeners.message?.({ data: JSON.stringify({ id: 1, method, params }) });
      const answered = await answer.promise;
      listeners.close?.({});
      return answered;
    };
    return { owner: user("owner"), member: user("member"), overSocket, [Symbol.asyncDispose]: dispose };
  };

  it("can be run by members only if they own them", async () => {
    await using at = await open("use");
    const { owner, member, overSocket } = at;
    const [theirs, ownId, none] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()];
    const ownerStream = await owner.stream(theirs);
    await owner.command(theirs, "run.start", ASK);
    await until(() => ownerStream.text.includes('"event":"interrupted"'));
    const id = /"interrupt_id":"(\w+)"/.exec(ownerStream.text)?.[1] as string;
    assert.equal((await member.command(theirs, "run.start", START))[0], 404);
    const answer = { interrupt_id: id, response: "yes" };
    const refused = await member.command(theirs, "input.respond", answer);
    assert.equal(refused[1].error, "no_such_run");
    assert.deepEqual(refused, await member.command(none, "input.respond", answer));
    // Opening a WebSocket requires the permission to read.
    assert.equal((await overSocket(theirs, "state.get", {})).type, "success");
    assert.equal((await overSocket(theirs, "run.start", START)).error, "no_such_run");
    assert.equal((await overSocket(theirs, "input.respond", answer)).error, "no_such_run");
    assert.equal((await overSocket(crypto.randomUUID(), "run.start", START)).type, "success");
    assert.equal((await owner.command(theirs, "input.respond", answer))[1].type, "success");
    await until(() => ownerStream.text.includes('"event":"completed"'));

    const mine = await member.stream(ownId);
    assert.equal((await member.command(ownId, "run.start", ASK))[1].type, "success");
    await until(() => mine.text.includes('"event":"interrupted"'));
    const interruptId = /"interrupt_id":"(\w+)"/.exec(mine.text)?.[1];
    const answered = await member.command(ownId, "input.respond", { interrupt_id: interruptId, response: "yes" });
    assert.equal(answered[1].type, "success");
    await until(() => mine.text.includes('"event":"completed"'));
    await Promise.all([ownerStream.close(), mine.close()]);
  });

  it("can only be read by members if the agent is shared for reading", async () => {
    await using at = await open("read");
    const { owner, member } = at;
    const thread = crypto.randomUUID();
    const [ownerStream, read] = [await owner.stream(thread), await member.stream(thread)];
    assert.equal((await owner.command(thread, "run.start", START))[0], 200);
    await until(() => read.text.includes('"event":"completed"'));
    await until(() => ownerStream.text.includes('"event":"completed"'));
    assert.equal(read.events, ownerStream.events);
    for (const id of [thread, crypto.randomUUID()]) {
      assert.equal((await member.command(id, "run.start", START))[0], 404);
      assert.equal((await member.command(id, "input.respond", { interrupt_id: "i", response: 1 }))[0], 404);
      assert.equal((await at.overSocket(id, "run.start", START)).error, "no_such_run");
    }
    await Promise.all([ownerStream.close(), read.close()]);
  });
});

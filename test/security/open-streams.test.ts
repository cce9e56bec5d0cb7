/** Streams that are open while their caller loses the permission to read: they end, and what is said from then on never arrives. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import type { AuthOptions } from "../../lib/auth/principal.ts";
import { staticIdentity } from "../../lib/auth/static-keys.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { Permission } from "../../lib/storage/identity.ts";
import { PERMISSIONS } from "../../lib/storage/identity.ts";
import { owning } from "../lib/auth/custom-auth.harness.ts";
import { type TestClock, type TestService, type TestServiceOptions, testClock } from "../suite/kit.ts";
import { advanceUntil, createClockedService } from "../support/faulty.ts";
import {
  CALLS,
  type Headers,
  KINDS,
  openCall,
  PLATFORM,
  PROTOCOLS,
  Rooms,
  reading,
  startRun,
  type ThreadAndRun,
} from "./open-streams.ts";

/** The time that a stream may stay open without permission, by the test's clock. */
const LIMIT_MS = 3_000;
const STEP_MS = 50;

/** A deployment with a reader, who is about to lose the permission, and a neighbour, who keeps it. */
interface Scene {
  readonly reader: Headers;
  readonly neighbour: Headers;
  /** Makes the thread that both read. Default: the reader. */
  readonly creator?: Headers;
  /** The neighbour reads another thread. */
  readonly apart?: true;
  lose(run: ThreadAndRun): Promise<unknown>;
}

interface Cause {
  readonly options: () => TestServiceOptions;
  readonly scene: (at: TestService, clock: TestClock) => Promise<Scene>;
  /** The code with which a socket closes. */
  readonly code: number;
}

const BY_KEY: TestServiceOptions = { auth: { mode: "api_key" } };
const createKeyHeaders = (key: string): Headers => ({ "x-api-key": key });
const READER = ["runs:read", "runs:create", "threads:read"].filter((name) =>
  (PERMISSIONS as readonly string[]).includes(name),
) as Permission[];

const byKey = (scene: Cause["scene"], code: number): Cause => ({
  options: () => BY_KEY,
  scene,
  code,
});

/** A service key for the neighbour; the reader has the token of a user. */
async function withUser({ service: { accounts } }: TestService) {
  const user = await accounts.createUser({ email: "ann@greenroom.example", permissions: READER });
  const reader = await accounts.createKey({ kind: "pt", user: user.id });
  const neighbour = await accounts.createKey({ kind: "sk" });
  const grant = (permissions: readonly Permission[]) => accounts.grant({ user: user.id, permissions });
  return { user, reader: createKeyHeaders(reader.key), neighbour: createKeyHeaders(neighbour.key), grant };
}

const OWNER = "aaaaaaaa-0000-4000-8000-000000000001";
const MEMBER = "aaaaaaaa-0000-4000-8000-000000000002";
const secret = (name: string): string => `${name}-${"0".repeat(32)}`;
const builder = (name: string): Headers => ({
  ...createKeyHeaders(secret(name)),
  "x-auth-scheme": "service-api-key",
  "content-type": "application/json",
});

/** An agent of the owner, who is no member of the workspace, shared with a member. */
function shared(auth: AuthOptions): TestServiceOptions {
  const identity = staticIdentity({
    users: [{ id: OWNER }, { id: MEMBER }],
    keys: [
      { key: secret("owner"), permissions: ["feedback:create"], user: OWNER },
      { key: secret("member"), permissions: PERMISSIONS, user: MEMBER },
    ],
  });
  return { identity, auth: { mode: "agent_builder", owner: OWNER, shared: true, ...auth } };
}

const readBearer = ({ headers }: Request): string => (headers.get("authorization") ?? "").slice(7);
const bearer = (name: string): Headers => ({ authorization: `Bearer ${name}` });

/** Users see their own threads, and root sees all. `answers`: what the handler gives to some. */
function owned(answers: ReadonlyMap<string, false | JsonObject> = new Map()): TestServiceOptions {
  return {
    auth: {
      custom: {
        authenticate: readBearer,
        on: {
          "*": (context) => {
            const { identity } = context.user;
            return answers.get(identity) ?? (identity === "root" || owning(context));
          },
        },
      },
    },
  };
}

async function byUsers({
  fetch,
}: TestService): Promise<
  Omit<Scene, "lose"> & { send: (method: string, run: ThreadAndRun, body?: object) => Promise<void> }
> {
  return {
    reader: bearer("ann"),
    neighbour: bearer("root"),
    async send(method, { thread_id }, body) {
      const init = { method, headers: { ...bearer("root"), "content-type": "application/json" } };
      const response = await fetch(`http://greenroom/threads/${thread_id}`, {
        ...init,
        ...(body ? { body: JSON.stringify(body) } : {}),
      });
      assert.ok(response.ok, `${method} ${response.status}`);
    },
  };
}

/** The host's handler answers something else from now on. */
function byHandler(answer: false | JsonObject): Cause {
  const answers = new Map<string, false | JsonObject>();
  return {
    options: () => owned(answers),
    scene: async (at) => {
      const { send: _, ...scene } = await byUsers(at);
      return { ...scene, lose: async () => answers.set("ann", answer) };
    },
    code: 4403,
  };
}

const CAUSES: Readonly<Record<string, () => Cause>> = {
  "key revoked": () =>
    byKey(async ({ service: { accounts } }) => {
      const [reader, neighbour] = [await accounts.createKey({ kind: "sk" }), await accounts.createKey({ kind: "sk" })];
      return {
        reader: createKeyHeaders(reader.key),
        neighbour: createKeyHeaders(neighbour.key),
        lose: () => accounts.revokeKey(reader.row.id),
      };
    }, 4401),
  "key expired": () =>
    byKey(async ({ service: { accounts } }, clock) => {
      const expires_at = clock.now() + 61_100;
      const reader = await accounts.createKey({ kind: "sk", expires_at });
      const neighbour = await accounts.createKey({ kind: "sk" });
      return {
        reader: createKeyHeaders(reader.key),
        neighbour: createKeyHeaders(neighbour.key),
        lose: () => clock.advance(expires_at - clock.now()),
      };
    }, 4401),
  "grant removed": () =>
    byKey(async (at) => {
      const { grant, ...scene } = await withUser(at);
      return { ...scene, lose: () => grant([]) };
    }, 4404),
  "scope narrowed": () =>
    byKey(async (at) => {
      const { grant, ...scene } = await withUser(at);
      return { ...scene, lose: () => grant(["runs:create"]) };
    }, 4403),
  "user deleted": () =>
    byKey(async (at) => {
      const { grant: _, user, ...scene } = await withUser(at);
      return { ...scene, lose: () => at.service.accounts.deleteUser(user.id) };
    }, 4401),
  unshared: () => ({
    options: () => shared({}),
    scene: async ({ service }) => ({
      reader: builder("member"),
      neighbour: builder("owner"),
      creator: builder("owner"),
      lose: () => service.accounts.unshareAgent(service.deployment.name),
    }),
    code: 4404,
  }),
  transferred: () => ({
    options: () => shared({}),
    scene: async ({ service }) => ({
      reader: builder("owner"),
      neighbour: builder("member"),
      lose: () => service.accounts.transferAgent(service.deployment.name, MEMBER),
    }),
    code: 4404,
  }),
  "re-owned": () => ({
    options: () => owned(),
    scene: async (at) => {
      const { send, ...scene } = await byUsers(at);
      return { ...scene, lose: (run) => send("PATCH", run, { metadata: { owner: "bob" } }) };
    },
    code: 1001,
  }),
  "refused by the handler": () => byHandler(false),
  "filter narrowed": () => byHandler({ owner: "ann", team: "blue" }),
  deleted: () => ({
    options: () => owned(),
    scene: async (at) => {
      const { send, ...scene } = await byUsers(at);
      return { ...scene, apart: true, lose: (run) => send("DELETE", run) };
    },
    code: 1001,
  }),
};

/** A deployment on a clock of its own; its runs say what the test says in their rooms. */
async function openWorld(options: TestServiceOptions) {
  const clock = testClock();
  const rooms = new Rooms();
  const agents = { agent: rooms.agent, speaker: rooms.speaker };
  const at = await createClockedService(clock, { agents, environment: clock, ...options });
  return { clock, rooms, at };
}

for (const [cause, make] of Object.entries(CAUSES)) {
  describe(`${cause}:`, () => {
    for (const [kind, open] of Object.entries(KINDS)) {
      it(`${kind} ends, and that of the neighbour continues`, async () => {
        const { options, scene, code } = make();
        const { clock, rooms, at } = await openWorld(options());
        await using _ = at;
        const { reader, neighbour, creator = reader, apart, lose } = await scene(at, clock);
        const run = await startRun(at, creator);
        const neighbourRun = apart ? await startRun(at, neighbour) : run;
        const [mine, theirs] = [await open(at, reader, run), await open(at, neighbour, neighbourRun)];
        assert.deepEqual([mine.status, theirs.status], [200, 200]);
        const say = (text: string): void => {
          for (const room of new Set([run.thread_id, neighbourRun.thread_id])) rooms.say(room, text);
        };
        say("before");
        await advanceUntil(clock, () => [mine, theirs].every(({ text }) => text().includes("before")), STEP_MS);
        assert.ok(!mine.ended());

        await lose(run);
        for (let passed = 0; passed < LIMIT_MS; passed += STEP_MS) await clock.advance(STEP_MS);
        const textBefore = mine.text();
        mine.command("state.get");
        mine.command("run.start");
        say("after");
        await advanceUntil(clock, () => theirs.text().includes("after"), STEP_MS);
        assert.ok(mine.ended(), "the stream has ended");
        assert.equal(mine.text(), textBefore, "nothing arrives any more");
        assert.ok(!theirs.ended());
        if (kind === "a WebSocket") assert.equal(mine.code(), code);
        await Promise.all([mine.close(), theirs.close()]);
      });
    }
  });
}

/** A run of an agent protocol, whose caller loses the access. */
const LOSSES: Readonly<
  Record<
    string,
    {
      readonly options: () => TestServiceOptions;
      readonly prepare: (at: TestService) => Promise<{ readonly reader: Headers; lose(): Promise<unknown> }>;
    }
  >
> = {
  "the key is revoked": {
    options: () => BY_KEY,
    async prepare({ service: { accounts } }) {
      const { key, row } = await accounts.createKey({ kind: "sk" });
      return { reader: createKeyHeaders(key), lose: () => accounts.revokeKey(row.id) };
    },
  },
  "the thread gets another owner": {
    // Only threads have owners: the tools and agents are everybody's.
    options: () => ({ auth: { custom: { authenticate: readBearer, on: { threads: owning } } } }),
    prepare: async ({ service: { threads } }) => ({
      reader: bearer("ann"),
      async lose() {
        const [thread] = (await threads.search({})).items;
        assert.ok(thread?.thread_id);
        await threads.update(thread.thread_id, { metadata: { owner: "bob" } });
      },
    }),
  },
};

describe("a stream of an agent protocol", () => {
  for (const [loss, { options, prepare }] of Object.entries(LOSSES)) {
    for (const [protocol, requestBy] of Object.entries(PROTOCOLS)) {
      it(`ends when ${loss}: ${protocol}`, async () => {
        const { clock, rooms, at } = await openWorld(options());
        await using _ = at;
        const { reader, lose } = await prepare(at);
        const mine = await reading(await at.fetch(requestBy(reader)));
        assert.equal(mine.status, 200);
        rooms.say(PLATFORM, "before");
        await advanceUntil(clock, () => mine.text().includes("before"), STEP_MS);
        assert.ok(!mine.ended());
        await lose();
        for (let passed = 0; passed < LIMIT_MS; passed += STEP_MS) await clock.advance(STEP_MS);
        const textBefore = mine.text();
        rooms.say(PLATFORM, "after");
        for (let passed = 0; passed < LIMIT_MS; passed += STEP_MS) await clock.advance(STEP_MS);
        assert.ok(mine.ended(), "the stream has ended");
        assert.equal(mine.text(), textBefore, "nothing arrives any more");
        await mine.close();
      });
    }
  }
});

/** Opens a service that counts the calls of one storage operation. */
async function openCounted(verb: "findKey" | "getThread", options: TestServiceOptions) {
  let count = 0;
  const counting = <Verbs extends object>(verbs: Verbs): Verbs =>
    new Proxy(verbs, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return name === "identity" ? counting(value as object) : value;
        return (...args: unknown[]) => {
          if (name === verb) count++;
          return value.apply(target, args);
        };
      },
    });
  const world = await openWorld({ storage: counting(nodeSqlite(":memory:")), ...options });
  return { ...world, calls: () => count };
}

/** 25 streams of a reader share the reads, and what is said costs none. */
async function checkShared(
  { clock, rooms, at, calls }: Awaited<ReturnType<typeof openCounted>>,
  reader: Headers,
  kinds: readonly (typeof KINDS)[string][],
): Promise<void> {
  const run = await startRun(at, reader);
  const streams = await Promise.all(
    Array.from({ length: 25 }, (_, i) => (kinds[i % kinds.length] as (typeof KINDS)[string])(at, reader, run)),
  );
  const before = calls();
  for (let passed = 0; passed < 10_000; passed += STEP_MS) await clock.advance(STEP_MS);
  const idle = calls() - before;
  assert.ok(idle >= 4 && idle <= 20, `${idle} reads in 10 s for 25 streams`);
  for (let i = 0; i < 100; i++) rooms.say(run.thread_id, `word ${i}.`);
  const callCount = calls();
  await advanceUntil(clock, () => streams.every((stream) => stream.text().includes("word 99.")), 10);
  assert.ok(calls() - callCount <= 2, `${calls() - callCount} reads for 100 words`);
  await Promise.all(streams.map((stream) => stream.close()));
}

describe("open streams", () => {
  for (const [kind, call] of Object.entries(CALLS)) {
    it(`of ${kind} abort when the key is revoked`, async () => {
      const { clock, rooms, at } = await openWorld(BY_KEY);
      await using _ = at;
      const { accounts } = at.service;
      const { key, row } = await accounts.createKey({ kind: "sk" });
      const { thread_id, run_id } = await startRun(at, createKeyHeaders(key));
      const joins = kind === "a run that is joined";
      if (!joins) {
        rooms.say(thread_id, "bye");
        await at.service.runs.join(thread_id, run_id).then(({ result }) => result);
      }
      const mine = await openCall(at, createKeyHeaders(key), call(thread_id, run_id));
      await accounts.revokeKey(row.id);
      await advanceUntil(clock, mine.ended, STEP_MS, LIMIT_MS / STEP_MS);
      rooms.say(thread_id, "after");
      rooms.say(thread_id, "bye");
      await advanceUntil(clock, async () => (await at.service.threads.get(thread_id)).status === "idle", STEP_MS);
      assert.doesNotMatch(mine.text(), /after/);
    });
  }

  it("answer no command after the key was revoked, and close", async () => {
    const { clock, at } = await openWorld(BY_KEY);
    await using _ = at;
    const { accounts } = at.service;
    const { key, row } = await accounts.createKey({ kind: "sk" });
    const run = await startRun(at, createKeyHeaders(key));
    for (const method of ["state.get", "agent.getTree", "run.start", "subscription.subscribe"]) {
      const fresh = await accounts.createKey({ kind: "sk" });
      const socket = await (KINDS["a WebSocket"] as (typeof KINDS)[string])(at, createKeyHeaders(fresh.key), run);
      await advanceUntil(clock, () => socket.text().includes('"id":1'), STEP_MS);
      await accounts.revokeKey(fresh.row.id);
      // The lookup that opened the socket may be shared for a moment.
      await clock.advance(500);
      socket.command(method);
      await advanceUntil(clock, socket.ended, STEP_MS);
      assert.equal(socket.code(), 4401, method);
      assert.doesNotMatch(socket.text(), /"id":2/, method);
      await socket.close();
    }
    await accounts.revokeKey(row.id);
  });

  it("of one key share lookups of the key, and frames need none", async () => {
    const world = await openCounted("findKey", BY_KEY);
    await using at = world.at;
    const { key } = await at.service.accounts.createKey({ kind: "sk" });
    await checkShared(world, createKeyHeaders(key), Object.values(KINDS));
  });

  it("of one user and thread share reads of the thread, and frames need none", async () => {
    const world = await openCounted("getThread", owned());
    await using _ = world.at;
    await checkShared(world, bearer("ann"), [KINDS["a v1 run stream"] as (typeof KINDS)[string]]);
  });

  it("of a thread that their reader cannot see cost nothing while others read it", async () => {
    const { clock, rooms, at, calls } = await openCounted("getThread", owned());
    await using _ = at;
    const run = await startRun(at, bearer("bob"));
    const open = KINDS["v2 server-sent events"] as (typeof KINDS)[string];
    const bobs = await open(at, bearer("bob"), run);
    const strangers = await Promise.all(Array.from({ length: 25 }, () => open(at, bearer("ann"), run)));
    rooms.say(run.thread_id, "before");
    await advanceUntil(clock, () => bobs.text().includes("before"), 10);
    const before = calls();
    for (let i = 0; i < 20; i++) {
      rooms.say(run.thread_id, `word ${i}.`);
      await advanceUntil(clock, () => bobs.text().includes(`word ${i}.`), 5);
    }
    assert.ok(calls() - before < 60, `${calls() - before} reads for 20 words`);
    await Promise.all([bobs, ...strangers].map((stream) => stream.close()));
  });

  for (const kind of ["join", "stream"]) {
    it(`cancel no run on disconnect after their caller lost the permission: ${kind}`, async () => {
      const { clock, at } = await openWorld(BY_KEY);
      await using _ = at;
      const { grant, reader, neighbour } = await withUser(at);
      const run = await startRun(at, neighbour);
      const { thread_id, run_id } = run;
      const path = `/threads/${thread_id}/runs/${run_id}/${kind}?cancel_on_disconnect=1`;
      // One stream ends by itself, the other is left by its reader.
      const [ended, leaving] = [await openCall(at, reader, [path, null]), await openCall(at, reader, [path, null])];
      await clock.advance(500);
      await grant(["runs:read"]);
      await leaving.close();
      await advanceUntil(clock, ended.ended, STEP_MS);
      await clock.advance(1_000);
      assert.equal((await at.service.runs.get(thread_id, run_id)).status, "running");
      await grant(READER);
      const mine = await openCall(at, reader, [path, null]);
      await mine.close();
      await advanceUntil(
        clock,
        async () => (await at.service.runs.get(thread_id, run_id)).status === "interrupted",
        STEP_MS,
      );
    });
  }
});

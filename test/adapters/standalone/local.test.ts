/** A server that its own graphs and routes call by `new Client()`, without a URL. */
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { describe, it } from "node:test";
import { Client } from "@langchain/langgraph-sdk";
import { getLogger } from "@langchain/langgraph-sdk/logging";
import { Hono } from "hono";
import { createLocalApi, type LocalApi } from "../../../adapters/standalone/local.ts";
import { installLogger } from "../../../adapters/standalone/sdk-logger.ts";
import { createHandler } from "../../../lib/http/handler.ts";
import { type AuthContext, fromFunctions, type LogRecord } from "../../../lib/mod.ts";
import { type TestService, testService } from "../../suite/kit.ts";

type Agents = Parameters<typeof fromFunctions>[0];

interface Harness extends AsyncDisposable {
  readonly kit: TestService;
  readonly local: LocalApi;
  /** Sends a request from outside. `as` null: without a credential. */
  send(as: string | null, method: string, path: string, body?: unknown, headers?: HeadersInit): Promise<Response>;
}

/** Stores the user as owner, and filters by owner. */
const addOwner = ({ value, user }: AuthContext): { owner: string } => {
  if ("metadata" in value) value.metadata = { ...(value.metadata as object | null), owner: user.identity };
  return { owner: user.identity };
};

const custom = {
  authenticate({ headers }: Request) {
    const name = /^Bearer (\w+)$/.exec(headers.get("authorization") ?? "")?.[1];
    if (name === undefined) throw Object.assign(new Error("Who are you?"), { status: 401 });
    return name;
  },
  on: { threads: addOwner },
};

async function createHarness(agents: Agents, app?: Hono, auth: object = { custom }): Promise<Harness> {
  const local = createLocalApi();
  const kit = await testService({ executor: local.wrapExecutor(fromFunctions(agents)), auth });
  const options = app ? { app } : {};
  local.serve(createHandler(kit.service, { ...options, acts_for: local.acts_for }));
  const outside = local.wrapHandler(createHandler(kit.service, options));
  return {
    kit,
    local,
    async send(as, method, path, body, headers) {
      return await outside(
        new Request(`http://greenroom${path}`, {
          method,
          headers: { ...(as === null ? {} : { authorization: `Bearer ${as}` }), ...headers },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        }),
      );
    },
    async [Symbol.asyncDispose]() {
      local.close();
      await kit[Symbol.asyncDispose]();
    },
  };
}

const createClient = (): Client => new Client({ callerOptions: { maxRetries: 0 } });
const ownThread = async (sdkClient = createClient()): Promise<string> => (await sdkClient.threads.create()).thread_id;
const wait = async (at: Harness, as: string | null, assistant_id: string): Promise<Record<string, unknown>> => {
  const response = await at.send(as, "POST", "/runs/wait", { assistant_id, input: {} });
  return (await response.json()) as Record<string, unknown>;
};
const readStatus = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => 200,
    (error: { status?: unknown }) => error.status ?? error,
  );

describe("a Client without a URL", () => {
  it("acts in a run as the user of the run, with no more permissions", async () => {
    await using at = await createHarness({
      agent: async () => {
        const thread_id = await ownThread();
        const foreign = (await createClient().threads.search({ limit: 100 })).filter(
          ({ metadata }) => metadata?.owner !== "ann",
        );
        return { thread_id, foreign: foreign.length };
      },
    });
    await at.send("bob", "POST", "/threads", {});
    const { thread_id, foreign } = await wait(at, "ann", "agent");
    assert.equal(foreign, 0);
    assert.equal((await at.send("ann", "GET", `/threads/${thread_id}`)).status, 200);
    assert.equal((await at.send("bob", "GET", `/threads/${thread_id}`)).status, 404);
  });

  it("streams a run of another graph from within one, and stops it by a disconnect", async () => {
    const disconnected = Promise.withResolvers<void>();
    await using at = await createHarness({
      outer: async () => {
        const users: string[] = [];
        const leave = new AbortController();
        const { signal } = leave;
        const options = { input: {}, streamMode: "values", onDisconnect: "cancel", signal } as const;
        try {
          for await (const { event, data } of createClient().runs.stream(null, "inner", options)) {
            if (event === "values") users.push(JSON.stringify(data));
            if (users.some((text) => text.includes("one"))) leave.abort(new Error("Seen enough"));
          }
        } catch (error) {
          if (!signal.aborted) throw error;
        }
        await disconnected.promise;
        return { seen: users.length };
      },
      async *inner({ signal }: { signal: AbortSignal }) {
        yield { said: "one" };
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
        disconnected.resolve();
      },
    });
    assert.ok(Number((await wait(at, "ann", "outer")).seen) > 0);
  });

  it("acts in a route, and in middleware, as the caller of the request, without the server's own key", async () => {
    const app = new Hono()
      .use("/info", async (c, next) => {
        c.header("x-status", String(await readStatus(ownThread())));
        await next();
      })
      .get("/mine", async (c) => {
        const sdkClient = new Client({ apiKey: "the-server's", callerOptions: { maxRetries: 0 } });
        return c.json({ status: await readStatus(ownThread(sdkClient)) });
      });
    await using at = await createHarness({ agent: async () => ({}) }, app);
    assert.deepEqual(await (await at.send("ann", "GET", "/mine")).json(), { status: 200 });
    assert.deepEqual(await (await at.send(null, "GET", "/mine")).json(), { status: 401 });
    assert.equal((await at.send("ann", "GET", "/info")).headers.get("x-status"), "200");
    assert.equal((await at.send(null, "GET", "/info")).headers.get("x-status"), "401");
    const threads = (await (await at.send("ann", "POST", "/threads/search", {})).json()) as unknown[];
    assert.equal(threads.length, 2);
  });

  it("passes the caller's API key on if keys are required, separately for each call", async () => {
    const { testAccounts } = await import("../../suite/kit.ts");
    const { identity, keys } = testAccounts({ keys: { ann: {} } });
    const app = new Hono().get("/runs-twice", async (c) => {
      const sdkClient = new Client({ apiKey: "other", callerOptions: { maxRetries: 0 } });
      const { thread_id } = await sdkClient.threads.create();
      const runs = [await sdkClient.runs.create(thread_id, "agent"), await sdkClient.runs.create(thread_id, "agent")];
      return c.json(new Set(runs.map(({ run_id }) => run_id)).size);
    });
    const local = createLocalApi();
    await using kit = await testService({
      executor: local.wrapExecutor(fromFunctions({ agent: async () => ({}) })),
      identity,
      auth: { mode: "api_key" },
    });
    local.serve(createHandler(kit.service, { app, acts_for: local.acts_for }));
    const outside = local.wrapHandler(createHandler(kit.service, { app }));
    const headers = { "x-api-key": keys.ann as string, "idempotency-key": "one" };
    const answer = await outside(new Request("http://greenroom/runs-twice", { headers }));
    assert.equal(await answer.text(), "2");
    assert.equal((await outside(new Request("http://greenroom/runs-twice"))).status, 500);
    local.close();
  });

  it("has no credential if it was made outside of runs and requests, and acts for no other run if it is shared", async () => {
    const outside: Client[] = [];
    let shared: Client | undefined;
    await using at = await createHarness({
      agent: async () => {
        shared ??= createClient();
        return { outside: await readStatus(ownThread(outside[0])), shared: await readStatus(ownThread(shared)) };
      },
    });
    outside.push(createClient());
    assert.equal(await readStatus(ownThread(outside[0])), 401);
    assert.deepEqual(await wait(at, "ann", "agent"), { outside: 401, shared: 200 });
    assert.deepEqual(await wait(at, "bob", "agent"), { outside: 401, shared: 403 });
    // Its run has ended.
    assert.equal(await readStatus(ownThread(shared)), 403);
  });

  it("never acts for another run whose call was before it in the queue of a shared client", async () => {
    const both = Promise.withResolvers<void>();
    const outside: Client[] = [];
    let runs = 0;
    await using at = await createHarness({
      agent: async () => {
        runs += 1;
        if (runs === 2) both.resolve();
        await both.promise;
        return { said: await Promise.all(Array.from({ length: 8 }, () => readStatus(ownThread(outside[0])))) };
      },
    });
    outside.push(createClient());
    const answers = await Promise.all([wait(at, "ann", "agent"), wait(at, "bob", "agent")]);
    assert.deepEqual(
      answers.flatMap((answer) => answer.said),
      Array(16).fill(401),
    );
  });

  it("works without authentication", async () => {
    const outside: Client[] = [];
    await using at = await createHarness(
      { agent: async () => ({ outside: await readStatus(ownThread(outside[0])) }) },
      undefined,
      {},
    );
    outside.push(createClient());
    assert.deepEqual(await wait(at, null, "agent"), { outside: 200 });
    assert.equal(await readStatus(ownThread(outside[0])), 200);
  });

  it("reaches the server of its run; before the start it fails with a reason, and after the end there is no server", async () => {
    const early = createLocalApi();
    assert.equal(await readStatus(ownThread()), 503);
    early.close();
    const agent = (name: string) => async () => ({
      name,
      graphs: (await createClient().assistants.search()).map((a) => a.graph_id),
    });
    await using server = await createHarness({ one: agent("one") }, undefined, {});
    await using two = await createHarness({ two: agent("two") }, undefined, {});
    assert.deepEqual(await wait(server, null, "one"), { name: "one", graphs: ["one"] });
    assert.deepEqual(await wait(two, null, "two"), { name: "two", graphs: ["two"] });
    two.local.close();
    assert.equal(Object.hasOwn(globalThis, Symbol.for("langgraph_api:fetch")), false);
    assert.equal(Object.hasOwn(globalThis, Symbol.for("langgraph_api:url")), false);
  });

  it("ends its waits by its signal", async () => {
    const go = Promise.withResolvers<void>();
    const runStarted = Promise.withResolvers<void>();
    await using at = await createHarness(
      {
        async agent() {
          runStarted.resolve();
          await go.promise;
          return {};
        },
      },
      undefined,
      {},
    );
    const sdkClient = createClient();
    const stop = new AbortController();
    const waiting = sdkClient.runs.wait(null, "agent", { input: {}, signal: stop.signal });
    await runStarted.promise;
    stop.abort(new Error("enough"));
    await assert.rejects(waiting, /enough|abort/i);
    go.resolve();
    assert.ok(at.kit.service.healthy());
  });
});

/** Deno begins a test in the async context in which the test before it ended, which may be that of a run. */
const outsideRuns = AsyncLocalStorage.snapshot();

describe("getLogger()", () => {
  it("writes to the log, with the run that it is called in", async () => {
    const records: LogRecord[] = [];
    assert.throws(() => getLogger());
    const remove = installLogger((record) => void records.push(record));
    const logger = getLogger();
    {
      await using at = await createHarness(
        {
          agent: async () => {
            logger.info("In a run", { seen: 1, level: "mine" });
            return {};
          },
        },
        undefined,
        {},
      );
      await wait(at, null, "agent");
    }
    outsideRuns(() => {
      logger.warn("Beware", 5).debug({ message: "small", a: 1 });
      logger.error(new Error("it failed"));
    });
    const [first, ...otherRecords] = records;
    assert.deepEqual([first?.level, first?.message, first?.seen], ["info", "In a run", 1]);
    assert.equal(typeof first?.run_id, "string");
    assert.equal(typeof first?.thread_id, "string");
    assert.deepEqual(otherRecords.slice(0, 2), [
      { details: [5], level: "warn", message: "Beware" },
      { a: 1, severity: "debug", level: "info", message: "small" },
    ]);
    assert.deepEqual(
      [otherRecords[2]?.level, otherRecords[2]?.message, otherRecords[2]?.error instanceof Error],
      ["error", "it failed", true],
    );
    remove();
    assert.throws(() => getLogger());
    const circular: Record<string, unknown> = {};
    circular.self = circular;
    const removeFailing = installLogger(() => {
      throw new Error("disk full");
    });
    assert.doesNotThrow(() => getLogger().info("x", circular));
    removeFailing();
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { loadAllRoutes } from "../../../../lib/http/routes/mod.ts";
import { ConfigError, createService, fromFunctions, ServiceError, type ServiceOptions } from "../../../../lib/mod.ts";
import { type TestService, testClock, testService } from "../../../suite/kit.ts";
import { advanceUntil, createFaultyStorage, type Faulty } from "../../../support/faulty.ts";

const at = "http://greenroom";
const ask = { assistant_id: "quick", input: {} };
const send = (kit: TestService, path: string, body?: unknown): Promise<Response> =>
  kit.fetch(at + path, body === undefined ? {} : { method: "POST", body: JSON.stringify(body) });
const services = { worker: { ok: true }, database: { ok: true } };
const answer = async (kit: TestService, path: string): Promise<readonly [number, Record<string, unknown>]> => {
  const response = await send(kit, path);
  return [response.status, (await response.json()) as Record<string, unknown>];
};

/** Creates an agent that continues when the test opens its gate, and ends when its signal aborts. */
function gate(): {
  readonly gated: (job: { readonly signal: AbortSignal }) => Promise<object>;
  open(): void;
  readonly started: Promise<void>;
} {
  const opened = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  return {
    open: opened.resolve,
    started: started.promise,
    async gated({ signal }) {
      started.resolve();
      await Promise.race([opened.promise, new Promise((resolve) => signal.addEventListener("abort", resolve))]);
      return { said: "gated" };
    },
  };
}
const quick = async (): Promise<object> => ({ said: "quick" });

/** Creates a storage whose disk can be full. */
function onDisk(): Faulty & { full: boolean } {
  const store = { ...createFaultyStorage(), full: false };
  for (const verb of [
    "createRun",
    "createRuns",
    "createThread",
    "createAssistant",
    "saveProgress",
    "finishRun",
    "probe",
  ] as const) {
    store.faults[verb] = (call) => {
      if (store.full) throw new ServiceError("storage_full", "The disk of the database is full");
      return call();
    };
  }
  return store;
}

describe("/ready", () => {
  it("answers 503 while the store refuses writes, and checks once a second at most", async () => {
    const clock = testClock();
    const { storage, faults, calls } = createFaultyStorage();
    await using kit = await testService({ storage, agents: { quick }, environment: clock });
    assert.deepEqual(await answer(kit, "/ready"), [200, { ok: true }]);
    await Promise.all(Array.from({ length: 50 }, () => answer(kit, "/ready")));
    assert.equal(calls.probe, 1);
    await clock.advance(1_000);
    faults.probe = () => {
      throw new Error("read-only file system of host x");
    };
    const red = [503, { ok: false, detail: "The storage takes no writes" }];
    assert.deepEqual(await Promise.all([answer(kit, "/ready"), answer(kit, "/ready")]), [red, red]);
    assert.equal(calls.probe, 2);
    assert.deepEqual(await answer(kit, "/ok"), [200, { ok: true, services }]);
    assert.match(String(kit.log.find(({ message }) => message === "the storage takes no writes")?.error), /host x/);
    delete faults.probe;
    assert.deepEqual(await answer(kit, "/ready"), red);
    await clock.advance(1_000);
    assert.deepEqual(await answer(kit, "/ready"), [200, { ok: true }]);
  });

  it("answers 503 when a write has no result for 5 s", async () => {
    const clock = testClock();
    const { storage, faults, calls } = createFaultyStorage();
    await using kit = await testService({ storage, agents: { quick }, environment: clock });
    faults.probe = () => new Promise(() => {});
    let response: readonly [number, unknown] | undefined;
    void answer(kit, "/ready").then((value) => {
      response = value;
    });
    await clock.advance(4_900);
    assert.equal(response, undefined);
    await clock.advance(200);
    await advanceUntil(clock, () => response !== undefined);
    assert.deepEqual(response?.[0], 503);
    assert.equal(calls.probe, 1);
  });

  it("answers 503, and /ok too, when the worker hangs", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    await using kit = await testService({ storage, agents: { quick }, environment: clock });
    await clock.advance(100);
    const blocked = Promise.withResolvers<void>();
    faults.claimRun = (call) => blocked.promise.then(call);
    await clock.advance(20_000);
    const red = { ok: false, detail: "The worker can execute no run any more" };
    assert.deepEqual(await answer(kit, "/ok"), [503, { ...red, services: { ...services, worker: { ok: false } } }]);
    assert.deepEqual(await answer(kit, "/ready"), [503, red]);
    blocked.resolve();
    await advanceUntil(clock, () => kit.service.healthy());
    assert.deepEqual(await answer(kit, "/ready"), [200, { ok: true }]);
  });
});

describe("/metrics", () => {
  it("counts runs by what happened to them", async () => {
    const { gated, open, started: startedRun } = gate();
    const broken = async (): Promise<never> => {
      throw new Error("no");
    };
    await using kit = await testService({ agents: { gated, quick, broken } });
    const { service } = kit;
    await (await service.runs.wait(null, ask)).result;
    await (await service.runs.wait(null, { ...ask, assistant_id: "broken" })).result;
    const { thread_id } = await service.threads.create();
    await service.runs.create(thread_id, { ...ask, assistant_id: "gated" });
    await startedRun;
    await service.runs.create(thread_id, ask);
    await service.runs.create(null, { ...ask, after_seconds: 3_600 });
    const measured = (await (await send(kit, "/metrics?format=json")).json()) as Record<string, unknown>;
    assert.deepEqual(measured.runs, { pending: 1, scheduled: 1, running: 1 });
    assert.ok((measured.oldest_pending_seconds as number) >= 0);
    const { started, ended, retried } = measured.worker as Record<string, unknown>;
    assert.deepEqual([started, retried], [3, 0]);
    assert.deepEqual(ended, { success: 1, error: 1, timeout: 0, interrupted: 0 });
    assert.deepEqual([measured.draining, measured.standby, measured.open_streams], [false, false, 0]);
    const stream = await send(kit, `/threads/${thread_id}/stream`);
    assert.match(await (await send(kit, "/metrics")).text(), /^greenroom_open_streams 1$/m);
    await stream.body?.cancel();
    open();
  });

  it("reports that another process executes the runs", async () => {
    const { storage, faults } = createFaultyStorage();
    faults.becomeWorker = async () => false;
    await using kit = await testService({ storage, agents: { quick } });
    assert.match(await (await send(kit, "/metrics")).text(), /^greenroom_standby 1$/m);
    assert.deepEqual(await answer(kit, "/ready"), [200, { ok: true }]);
  });
});

const JSON_TYPE = { "content-type": "application/json", accept: "application/json, text/event-stream" };
const rpc = (method: string, params: object): object => ({ jsonrpc: "2.0", id: 1, method, params });
const MESSAGE = { messageId: "m", role: "ROLE_USER", parts: [{ text: "Hi" }] };

/** The routes that create a run, with a body that creates one. */
const CREATING: readonly (readonly [route: string, body?: unknown, headers?: Readonly<Record<string, string>>])[] = [
  ["/runs"],
  ["/runs/wait"],
  ["/runs/stream"],
  ["/runs/batch", [ask]],
  ["/threads/:thread_id/runs"],
  ["/threads/:thread_id/runs/wait"],
  ["/threads/:thread_id/runs/stream"],
  ["/threads/:thread_id/commands", { id: 1, method: "run.start", params: ask }],
  ["/greenroom/runs/:run_id/again", {}],
  ["/mcp", rpc("tools/call", { name: "quick", arguments: {} }), JSON_TYPE],
  ["/a2a/:assistant_id", rpc("SendMessage", { message: MESSAGE }), JSON_TYPE],
  ["/a2a/:assistant_id", rpc("SendStreamingMessage", { message: MESSAGE }), JSON_TYPE],
  ["/ag-ui/:assistant_id", { threadId: "t", runId: "r", messages: [{ id: "u", role: "user", content: "Hi" }] }],
  [
    "/ai/:assistant_id/chat",
    {
      id: "c",
      trigger: "submit-message",
      messages: [{ id: "u", role: "user", parts: [{ type: "text", text: "Hi" }] }],
    },
  ],
];
/** Routes with the access level `run` that start no run: they stop runs, send events or create a thread. */
const OTHERS = [
  ...["/threads", "/threads/:thread_id/runs/:run_id/cancel", "/runs/cancel", "/threads/:thread_id/events/:name"],
  "/ai/:assistant_id/chat/:chat_id/stop",
];
const OF_AGENTS = /^\/(?:mcp|ai|ag-ui|a2a)(?:\/|$)/;

describe("a service that is shutting down", () => {
  it("refuses a run on every route that creates one", async () => {
    const routes = (await loadAllRoutes()).filter(
      ({ method, path, access }) => method === "post" && (access === "run" || OF_AGENTS.test(path)),
    );
    const named = new Set([...CREATING.map(([route]) => route), ...OTHERS]);
    assert.deepEqual(
      routes.map(({ path }) => path).filter((path) => !named.has(path)),
      [],
    );
  });

  it("refuses new runs at once, serves all other requests until the last run has ended, and then nothing", async () => {
    const { gated, open, started } = gate();
    await using kit = await testService({ agents: { gated, quick } });
    const { thread_id } = await kit.service.threads.create();
    const { run_id } = (await kit.service.runs.wait(thread_id, ask)).run;
    const wait = await kit.service.runs.wait(thread_id, { ...ask, assistant_id: "gated" });
    await started;
    const stopped = kit.service.stop(60_000);
    for (const [route, body = ask, headers = {}] of CREATING) {
      const path = route.replace(":thread_id", thread_id).replace(":assistant_id", "quick").replace(":run_id", run_id);
      const response = await kit.fetch(at + path, { method: "POST", headers, body: JSON.stringify(body) });
      assert.equal(response.status, 503, `${route}: ${await response.text()}`);
    }
    await assert.rejects(kit.service.runs.create(null, ask), { code: "unavailable" });
    assert.deepEqual(await answer(kit, "/ready"), [503, { ok: false, detail: "The server is stopping" }]);
    assert.equal((await send(kit, "/ok")).status, 200);
    assert.equal((await kit.service.runs.list(thread_id)).length, 2);
    open();
    assert.deepEqual(await wait.result, { said: "gated" });
    await stopped;
    for (const path of [`/threads/${thread_id}`, "/ok", "/ready"]) assert.equal((await send(kit, path)).status, 503);
    assert.equal((await send(kit, "/threads", {})).status, 503);
  });

  it("aborts open streams, and completes writes that were requested before", async () => {
    const { gated, started } = gate();
    const { storage, faults, share } = createFaultyStorage();
    const otherStore = share();
    faults.close = async () => {};
    await using kit = await testService({ storage, agents: { gated, quick } });
    const { thread_id } = await kit.service.threads.create();
    const stream = await send(kit, `/threads/${thread_id}/runs/stream`, {
      ...ask,
      assistant_id: "gated",
      stream_resumable: true,
    });
    const threadStream = await send(kit, `/threads/${thread_id}/stream`);
    const texts = Promise.allSettled([stream.text(), threadStream.text()]);
    await started;
    // A request that has begun gets its response, and its run exists.
    const blocked = Promise.withResolvers<void>();
    faults.createRun = async (call) => {
      await blocked.promise;
      return call();
    };
    const late = kit.service.runs.create(thread_id, ask);
    await kit.service.threads.get(thread_id);
    // Timers of the service keep no process alive, and no other work is pending.
    const alive = setInterval(() => {}, 1_000);
    const stopped = kit.service.stop(0);
    blocked.resolve();
    const { run_id } = await late;
    await stopped;
    clearInterval(alive);
    assert.deepEqual(
      (await texts).map(({ status }) => status),
      ["rejected", "rejected"],
    );
    const rows = await otherStore.storage.listRuns({ deployment: "default" }, thread_id, { limit: 10, offset: 0 });
    assert.deepEqual(
      rows.map((row) => [row.status, row.attempt]),
      [
        ["pending", 0],
        ["pending", 0],
      ],
    );
    assert.equal(rows[0]?.run_id, run_id);
  });
});

describe("a full disk", () => {
  it("is answered with 507, and the service recovers by itself", async () => {
    const store = onDisk();
    const { gated, open, started } = gate();
    await using kit = await testService({ storage: store.storage, agents: { gated, quick } });
    const { thread_id } = await kit.service.threads.create();
    const wait = await kit.service.runs.wait(thread_id, { ...ask, assistant_id: "gated" });
    await started;
    store.full = true;
    for (const [path, body] of [
      [`/threads/${thread_id}/runs`, ask],
      ["/runs/wait", ask],
      ["/runs/batch", [ask, ask]],
      ["/threads", {}],
      ["/assistants", { graph_id: "quick" }],
    ] as const) {
      const response = await send(kit, path, body);
      assert.deepEqual(
        [response.status, await response.json()],
        [507, { detail: "The disk of the database is full", code: "storage_full" }],
      );
    }
    assert.equal((await send(kit, "/ready")).status, 503);
    assert.equal((await kit.service.runs.list(thread_id)).length, 1);
    open();
    store.full = false;
    assert.deepEqual(await wait.result, { said: "gated" });
    assert.equal((await send(kit, `/threads/${thread_id}/runs/wait`, ask)).status, 200);
  });
});

describe("retention", () => {
  it("deletes rows by the configured ages until none is left", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    const queries: unknown[] = [];
    faults.deleteExpired = (_call, args) => {
      queries.push(args[1]);
      return Promise.resolve(queries.length % 3 === 0 ? 0 : 500);
    };
    const retention = { frames_ms: 3_000, stateless_ms: 2_000, tokens_ms: 4_000 };
    await using kit = await testService({ storage, agents: { quick }, retention, environment: clock });
    await advanceUntil(clock, () => queries.length > 0);
    const now = clock.now();
    await advanceUntil(clock, () => queries.length === 3, 0);
    const { limit, ...terms } = queries[0] as Record<string, number>;
    assert.deepEqual(terms, {
      stateless_before: now - 2_000,
      frames_before: now - 3_000,
      keys_before: now - 86_400_000,
      features: { feedback: now - 4_000, webhooks: now - 30 * 86_400_000, traces: now - 7 * 86_400_000 },
      now,
    });
    assert.ok(limit && limit > 0);
    await clock.advance(1_000);
    assert.equal(queries.length, 3);
    assert.equal((await send(kit, "/ok")).status, 200);
  });
});

describe("options of worker, limits and retention", () => {
  const findMessages = async (options: object): Promise<readonly string[]> => {
    const { storage } = createFaultyStorage();
    const executor = fromFunctions({ quick });
    const error = await createService({ storage, executor, ...options } as ServiceOptions).then(
      (service) => service.stop(0),
      (thrown: unknown) => thrown,
    );
    return error instanceof ConfigError ? error.problems : [];
  };

  it("are validated", async () => {
    assert.deepEqual(
      await findMessages({
        deployment: { name: "a.b-c_1" },
        worker: { concurrency: 0, lease_ms: 1_000, run_timeout_ms: 1 },
        limits: { pending_per_thread: 1, pending: undefined },
        retention: { frames_ms: 0, stateless_ms: 0, idempotency_ms: 0 },
        http: { cors: { allow_origins: [] } },
      }),
      [],
    );
    const wrong = {
      deployment: { name: "" },
      worker: { concurrency: 1.5, lease_ms: 999, run_timeout_ms: 2 ** 31, workers: 1 },
      limits: { pending_per_thread: 0, pending: "many" },
      retention: { frames_ms: -1, stateless_ms: null, idempotency_ms: Number.POSITIVE_INFINITY },
      http: { cors: { allow_origins: "*" }, port: 1 },
    };
    const named = (await findMessages(wrong)).map((problem) => problem.split(":")[0]);
    assert.deepEqual(named, [
      "deployment.name",
      "worker.concurrency",
      "worker.lease_ms",
      "worker.run_timeout_ms",
      "worker.workers",
      "limits.pending_per_thread",
      "limits.pending",
      "retention.frames_ms",
      "retention.stateless_ms",
      "retention.idempotency_ms",
      "http.cors.allow_origins",
      "http.port",
    ]);
    assert.deepEqual(await findMessages({ worker: 5, retention: null }), [
      "worker: must be an object",
      "retention: must be an object",
    ]);
  });

  it("limit the number of pending runs, and more are refused with 409", async () => {
    const { gated, open, started } = gate();
    await using kit = await testService({ agents: { gated, quick }, limits: { pending_per_thread: 2, pending: 3 } });
    const [first, second] = [await kit.service.threads.create(), await kit.service.threads.create()];
    const create = (thread_id: string, assistant_id: string): Promise<Response> =>
      send(kit, `/threads/${thread_id}/runs`, { assistant_id, input: {} });
    assert.equal((await create(first.thread_id, "gated")).status, 200);
    await started;
    assert.equal((await create(first.thread_id, "quick")).status, 200);
    assert.equal((await create(first.thread_id, "quick")).status, 200);
    const full = await create(first.thread_id, "quick");
    assert.deepEqual(
      [full.status, await full.json()],
      [409, { detail: `Thread ${first.thread_id} has 2 pending runs`, code: "limit_reached" }],
    );
    const later = { ...ask, after_seconds: 3_600 };
    assert.equal((await send(kit, `/threads/${second.thread_id}/runs`, later)).status, 200);
    assert.equal((await send(kit, `/threads/${second.thread_id}/runs`, later)).status, 409);
    open();
  });
});

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { createService, fromFunctions } from "../../../lib/mod.ts";
import type { RunOrigin } from "../../../lib/runs/mod.ts";
import { testClock, testService } from "../../suite/kit.ts";
import { advanceUntil, createFaultyStorage } from "../../support/faulty.ts";

// Timers of the service keep no process alive, and some tests wait for nothing else.
let alive: ReturnType<typeof setInterval>;
before(() => {
  alive = setInterval(() => {}, 1_000);
});
after(() => clearInterval(alive));

const say = { assistant_id: "ok", input: { a: 1 } };

const keyed = (key: string, body_hash = "one", route = "/runs"): RunOrigin => ({
  idempotency: { route, key, body_hash },
});

/** Agents that answer at once, and one that waits until it is stopped. */
const agents = {
  ok: async () => ({ ok: true }),
  slow: async ({ signal }: { signal: AbortSignal }) => {
    if (!signal.aborted) await new Promise<void>((done) => signal.addEventListener("abort", () => done()));
  },
};

describe("a run with an idempotency key", () => {
  it("is created once, and a repeated request returns or joins the first run", async () => {
    await using kit = await testService({ agents });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const first = await runs.stream(thread_id, say, keyed("k"));
    const frames = await Array.fromAsync(first.frames);
    const again = await runs.stream(thread_id, say, keyed("k"));
    assert.equal(again.run.run_id, first.run.run_id);
    assert.deepEqual(await Array.fromAsync(again.frames), frames);
    const waited = await runs.wait(thread_id, say, keyed("k"));
    assert.deepEqual([waited.run.run_id, await waited.result], [first.run.run_id, { a: 1, ok: true }]);
    const created = await runs.create(thread_id, say, keyed("k"));
    assert.deepEqual([created.run_id, created.status], [first.run.run_id, "success"]);
    assert.equal((await runs.list(thread_id)).length, 1);
    // Another key or another route creates another run.
    await (await runs.wait(thread_id, say, keyed("k", "one", "/other"))).result;
    await (await runs.wait(thread_id, say, keyed("l"))).result;
    assert.equal((await runs.list(thread_id)).length, 3);
  });

  it("is refused if the request differs or the run was deleted", async () => {
    await using kit = await testService({ agents });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const run = await runs.create(thread_id, { ...say, assistant_id: "slow" }, keyed("k"));
    const metadata = (await threads.get(thread_id)).metadata;
    await assert.rejects(
      runs.create(thread_id, { ...say, multitask_strategy: "rollback" }, keyed("k", "two")),
      (error: Error & { code?: string }) => error.code === "invalid" && /Idempotency-Key/.test(error.message),
    );
    assert.deepEqual((await threads.get(thread_id)).metadata, metadata, "nothing changed");
    await runs.cancel(thread_id, run.run_id, { action: "rollback", wait: true });
    for (const call of ["create", "stream", "wait"] as const) {
      await assert.rejects(runs[call](thread_id, say, keyed("k")), { code: "conflict" });
    }
    assert.deepEqual(await runs.list(thread_id), []);
  });

  it("joins a run that is still active, also without a thread", async () => {
    await using kit = await testService({ agents });
    const { runs } = kit.service;
    const request = { ...say, assistant_id: "slow" };
    const first = await runs.wait(null, request, keyed("k"));
    const second = await runs.wait(null, request, keyed("k"));
    assert.equal(second.run.run_id, first.run.run_id);
    assert.equal(second.run.thread_id, first.run.thread_id);
    await runs.cancel(null, first.run.run_id, { wait: true });
    assert.deepEqual(await second.result, await first.result);
  });
});

describe("a run above the limit of pending runs", () => {
  it("is refused with the number of pending runs", async () => {
    await using kit = await testService({ agents, limits: { pending_per_thread: 2, pending: 3 } });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const secondThread = await threads.create();
    const slow = { ...say, assistant_id: "slow" };
    for (let i = 0; i < 3; i++) await runs.create(thread_id, slow);
    await assert.rejects(runs.create(thread_id, slow), {
      code: "conflict",
      message: `Thread ${thread_id} has 2 pending runs`,
    });
    for (let i = 0; i < 2; i++) await runs.create(secondThread.thread_id, slow);
    await assert.rejects(runs.create(secondThread.thread_id, slow), {
      code: "conflict",
      message: "The deployment has 3 pending runs",
    });
    await runs.create(thread_id, { ...slow, multitask_strategy: "rollback" });
  });
});

describe("a delayed run", () => {
  it("waits for its time, and other runs go first", async () => {
    const clock = testClock();
    await using kit = await testService({ agents, environment: clock });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const later = await runs.create(thread_id, { ...say, after_seconds: 90 });
    assert.deepEqual([later.status, later.created_at], ["pending", "2026-01-01T00:01:30.000Z"]);
    assert.equal((await threads.get(thread_id)).status, "busy");
    const wait = await runs.wait(thread_id, say);
    let ended = false;
    void wait.result.then(() => {
      ended = true;
    });
    await advanceUntil(clock, () => ended, 10);
    assert.equal((await runs.get(thread_id, later.run_id)).status, "pending");
    const joined = await runs.join(thread_id, later.run_id);
    ended = false;
    void joined.result.then(() => {
      ended = true;
    });
    await clock.advance(85_000);
    assert.equal(ended, false);
    await clock.advance(6_000);
    await advanceUntil(clock, () => ended, 10);
    assert.equal((await runs.get(thread_id, later.run_id)).status, "success");
  });

  it("is refused for an invalid delay", async () => {
    await using kit = await testService({ agents });
    for (const after_seconds of [-1, Number.NaN, Number.POSITIVE_INFINITY]) {
      await assert.rejects(kit.service.runs.create(null, { ...say, after_seconds }), { code: "invalid" });
    }
  });
});

describe("a batch of runs", () => {
  it("creates stateless runs in the order of its requests", async () => {
    await using kit = await testService({ agents });
    const { runs } = kit.service;
    const createdRuns = await runs.createBatch(Array.from({ length: 20 }, (_, i) => ({ ...say, metadata: { i } })));
    assert.deepEqual(
      createdRuns.map(({ metadata, status }) => [metadata["i"], status]),
      Array.from({ length: 20 }, (_, i) => [i, "pending"]),
    );
    for (const { thread_id, run_id } of createdRuns) {
      assert.deepEqual(await (await runs.join(thread_id, run_id)).result, { a: 1, ok: true });
    }
  });

  it("is created completely or not at all", async () => {
    const { storage, faults } = createFaultyStorage();
    let created = 0;
    faults.createRuns = (call) => {
      created++;
      return call();
    };
    await using kit = await testService({ storage, agents, limits: { pending: 2 }, worker: { concurrency: 0 } });
    const { runs, threads } = kit.service;
    await assert.rejects(runs.createBatch([]), { code: "invalid" });
    const bad = { ...say, config: { configurable: { k: 1 } }, context: { k: 2 } };
    await assert.rejects(runs.createBatch([say, { assistant_id: "unknown" }]), { code: "not_found" });
    await assert.rejects(runs.createBatch([say, bad]), { code: "bad_request" });
    await assert.rejects(runs.createBatch([say, { ...say, checkpoint_id: "c" }]), { code: "bad_request" });
    assert.equal(created, 0, "everything is checked first");
    await assert.rejects(runs.createBatch([say, say, say]), { code: "conflict" });
    assert.equal(created, 1);
    assert.equal(await threads.count(), 0);
    assert.equal((await runs.createBatch([say, say])).length, 2);
  });

  it("leaves no run if the store fails", async () => {
    const { storage, faults } = createFaultyStorage();
    await using kit = await testService({ storage, agents, worker: { concurrency: 2 } });
    const { runs } = kit.service;
    const failure = new Error("the disk is full");
    for (const verb of ["createRun", "createRuns", "stopRuns"] as const) faults[verb] = () => Promise.reject(failure);
    await assert.rejects(runs.createBatch([say, say, say], keyed("k")), failure);
    for (const verb of ["createRun", "createRuns", "stopRuns"] as const) delete faults[verb];
    const { runs: remainingRuns } = await kit.service.metrics();
    assert.deepEqual(remainingRuns, { pending: 0, scheduled: 0, running: 0 });
    // The key and the worker slots are free again.
    const createdRuns = await runs.createBatch([say, say, say], keyed("k"));
    for (const { thread_id, run_id } of createdRuns) {
      assert.deepEqual(await (await runs.join(thread_id, run_id)).result, { a: 1, ok: true });
    }
  });

  it("uses the current state of an assistant that changes during the creation", async () => {
    const { storage, faults } = createFaultyStorage();
    await using kit = await testService({ storage, agents });
    const { assistants, runs } = kit.service;
    const { assistant_id } = await assistants.create({ graph_id: "ok", metadata: { v: 1 } });
    await runs.createBatch([{ assistant_id }]);
    let calls = 0;
    faults.createRuns = async (call) => {
      if (calls++ === 0) await assistants.update(assistant_id, { metadata: { v: 2 } });
      return call();
    };
    const createdRuns = await runs.createBatch([say, { assistant_id }, { assistant_id }]);
    assert.deepEqual(
      createdRuns.map(({ metadata }) => metadata["v"]),
      [undefined, 2, 2],
    );
    assert.equal(calls, 2);
  });

  it("with an idempotency key is created once", async () => {
    await using kit = await testService({ agents });
    const { runs } = kit.service;
    const first = await runs.createBatch([say, say], keyed("k"));
    const again = await runs.createBatch([say, say], keyed("k"));
    assert.deepEqual(
      again.map(({ run_id }) => run_id),
      first.map(({ run_id }) => run_id),
    );
    assert.equal(new Set(first.map(({ run_id }) => run_id)).size, 2);
    await assert.rejects(runs.createBatch([say], keyed("k", "two")), { code: "invalid" });
    await assert.rejects(runs.createBatch([say, say, say], keyed("k")), { code: "conflict" });
  });
});

describe("a run whose assistant changes during the creation", () => {
  it("uses its current state, and is created once", async () => {
    const shared = createFaultyStorage();
    const executor = fromFunctions(agents);
    const service = await createService({ storage: shared.storage, executor, environment: { log: () => {} } });
    const { assistant_id } = await service.assistants.create({ graph_id: "ok", metadata: { v: 1 } });
    await service.runs.create(null, { assistant_id });
    let calls = 0;
    shared.faults.createRun = async (call) => {
      if (calls++ === 0) await service.assistants.update(assistant_id, { metadata: { v: 2 } });
      return call();
    };
    const run = await service.runs.create(null, { assistant_id });
    assert.deepEqual([run.metadata["v"], calls], [2, 2]);
    await service.stop(0);
  });
});

describe("a store that fails after it has created a run", () => {
  const broken = async (call: () => Promise<unknown>): Promise<never> => {
    await call();
    throw new Error("the connection is gone");
  };

  it("does not fail the call, and the run executes once", async () => {
    const store = createFaultyStorage();
    let executions = 0;
    const once = {
      ok: async () => {
        executions++;
        return { ok: true };
      },
    };
    await using kit = await testService({ agents: once, storage: store.storage });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    await (await runs.wait(thread_id, say)).result;
    store.faults.createRun = broken;
    const waited = await runs.wait(thread_id, say);
    delete store.faults.createRun;
    delete store.faults.createRuns;
    assert.deepEqual(await waited.result, { a: 1, ok: true });
    assert.equal(executions, 2);
    assert.equal((await runs.list(thread_id)).length, 2);

    store.faults.createRuns = broken;
    const batch = await runs.createBatch([say, say]);
    delete store.faults.createRun;
    delete store.faults.createRuns;
    for (const { thread_id, run_id } of batch) await (await runs.join(thread_id, run_id)).result;
    assert.equal(executions, 4);
  });

  it("fails the call for a run that was not created", async () => {
    const store = createFaultyStorage();
    await using kit = await testService({ agents, storage: store.storage });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    store.faults.createRun = async () => {
      throw new Error("the connection is gone");
    };
    await assert.rejects(runs.wait(thread_id, say), /connection/);
    assert.deepEqual(await runs.list(thread_id), []);
  });

  it("does not fail the call if the run cannot be read at once", async () => {
    const store = createFaultyStorage();
    await using kit = await testService({ agents, storage: store.storage });
    const { runs } = kit.service;
    store.faults.getRun = async () => {
      throw new Error("the connection is gone");
    };
    const streamed = await runs.stream(null, say);
    const waited = await runs.wait(null, say);
    assert.equal((await Array.fromAsync(streamed.frames)).at(-1)?.event, "end");
    assert.deepEqual(await waited.result, { a: 1, ok: true });
  });
});

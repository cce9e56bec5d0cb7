import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { recordStates } from "../../../lib/executor/state-recorder.ts";
import { type Executor, fromFunctions, type Json, type JsonObject } from "../../../lib/mod.ts";
import { testClock, testService } from "../../suite/kit.ts";
import { advanceUntil, collect, createFaultyStorage } from "../../support/faulty.ts";

const ask = (assistant_id: string): { assistant_id: string; input: JsonObject } => ({ assistant_id, input: {} });

describe("a worker", () => {
  it("does not retry its own run after an event loop stall that outlasts the lease", async () => {
    const clock = testClock();
    let skew = 0;
    let executions = 0;
    const go = Promise.withResolvers<void>();
    const agents = {
      async slow() {
        executions++;
        await go.promise;
        return { done: true };
      },
    };
    await using kit = await testService({ agents, environment: { ...clock, now: () => clock.now() + skew } });
    const { thread_id } = await kit.service.threads.create();
    const { result } = await kit.service.runs.wait(thread_id, ask("slow"));
    await clock.advance(100);
    skew = 60_000;
    // The poll comes first, the heartbeat after it.
    await clock.advance(5_000);
    go.resolve();
    await advanceUntil(clock, () => executions > 0);
    assert.deepEqual(await result, { done: true });
    assert.equal(executions, 1);
    const [run] = await kit.service.runs.list(thread_id);
    assert.equal(run?.status, "success");
  });

  it("stores the end of a run again after one failure instead of executing the run again", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    let executions = 0;
    await using kit = await testService({
      storage,
      agents: { once: async () => ({ executions: ++executions }) },
      environment: clock,
    });
    let failures = 0;
    faults.finishRun = (call) => {
      if (failures++ === 0) throw new Error("disk hiccup");
      return call();
    };
    let result: Json | undefined;
    const wait = await kit.service.runs.wait(null, ask("once"));
    void wait.result.then((value) => {
      result = value;
    });
    await advanceUntil(clock, () => result !== undefined);
    assert.deepEqual(result, { executions: 1 });
    assert.equal(failures, 2);
  });

  it("responds to readers if the end of a run was stored and its result was lost", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    await using kit = await testService({
      storage,
      agents: { once: async () => ({ done: true }) },
      environment: clock,
    });
    let lost = 0;
    faults.finishRun = async (call) => {
      const stored = await call();
      if (lost++ === 0) throw new Error("connection lost after commit");
      return stored;
    };
    const { thread_id } = await kit.service.threads.create();
    const stream = await kit.service.runs.stream(thread_id, ask("once"));
    const frames = collect(stream.frames);
    await advanceUntil(clock, frames.ended);
    assert.equal(frames.list.at(-1)?.event, "end");
    const joined = await kit.service.runs.join(thread_id, stream.run.run_id);
    assert.deepEqual(await joined.result, { done: true });
  });

  it("stops with a run whose progress cannot be stored", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    const waits = Promise.withResolvers<void>();
    const agents = {
      async *steps({ signal }: { signal: AbortSignal }) {
        yield { step: 1 };
        yield { step: 2 };
        waits.resolve();
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      },
    };
    const kit = await testService({ storage, agents, environment: clock });
    faults.saveProgress = () => Promise.reject(new Error("no"));
    const { thread_id } = await kit.service.threads.create();
    await kit.service.runs.create(thread_id, ask("steps"));
    await waits.promise;
    await clock.advance(30_000);
    let stopped = false;
    void kit.service.stop(0).then(() => {
      stopped = true;
    });
    await advanceUntil(clock, () => stopped);
    assert.ok(kit.log.some(({ level }) => level === "error"));
  });

  it("abandons an executor that continues after its signal", async () => {
    const clock = testClock();
    const deaf: Executor = {
      graphs: () => [{ graph_id: "deaf" }],
      execute: recordStates(async function* () {
        yield { type: "state", values: { at: 0 }, next: ["more"], tasks: [] };
        while (true) yield { type: "stream", mode: "custom", data: "still here" };
      }),
    };
    await using kit = await testService({ executor: deaf, environment: clock, worker: { concurrency: 1 } });
    const { thread_id } = await kit.service.threads.create();
    const stream = await kit.service.runs.stream(thread_id, {
      ...ask("deaf"),
      stream_mode: "custom",
      on_disconnect: "cancel",
    });
    for await (const frame of stream.frames) if (frame.event === "custom") break;
    let ended = false;
    void kit.service.runs.join(thread_id, stream.run.run_id).then(async ({ result }) => {
      await result;
      ended = true;
    });
    await advanceUntil(clock, () => ended);
    assert.equal((await kit.service.runs.get(thread_id, stream.run.run_id)).status, "interrupted");
  });

  it("uses a worker slot at once that a refused run gave back", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    await using kit = await testService({
      storage,
      agents: { ok: async () => ({ ok: true }) },
      environment: clock,
      worker: { concurrency: 1 },
    });
    const gate = Promise.withResolvers<void>();
    let first = true;
    faults.createRun = async (call) => {
      if (!first) return call();
      first = false;
      await gate.promise;
      throw new Error("refused");
    };
    const refused = assert.rejects(kit.service.runs.create(null, ask("ok")), /refused/);
    const waiting = await kit.service.runs.wait(null, ask("ok"));
    gate.resolve();
    await refused;
    // No timer is needed: the test's clock does not advance.
    assert.deepEqual(await waiting.result, { ok: true });
  });

  it("starts a new run with its creation while a claim is in flight", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    const gate = Promise.withResolvers<void>();
    let looks = 0;
    faults.claimRun = async (call) => {
      looks++;
      await gate.promise;
      return call();
    };
    await using kit = await testService({
      storage,
      agents: { ok: async () => ({ ok: true }) },
      environment: clock,
      worker: { concurrency: 2 },
    });
    await advanceUntil(clock, () => looks > 0);
    for (let n = 0; n < 5; n++) {
      const { result } = await kit.service.runs.wait(null, ask("ok"));
      assert.deepEqual(await result, { ok: true });
    }
    assert.equal(looks, 1);
    gate.resolve();
  });

  it("keeps a worker slot for each waiting run, which it claims first", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const startedRuns: string[] = [];
    faults.claimRun = async (call) => {
      await gates[0]?.promise;
      return call();
    };
    const agents = {
      async note({ run_id }: { readonly run_id: string }) {
        startedRuns.push(run_id);
        await gates[1]?.promise;
        return {};
      },
    };
    await using kit = await testService({ storage, agents, environment: clock, worker: { concurrency: 3 } });
    const { thread_id } = await kit.service.threads.create();
    const createdRuns: string[] = [];
    const create = async (thread: string | null): Promise<void> => {
      createdRuns.push(
        (await kit.service.runs.create(thread, { ...ask("note"), multitask_strategy: "enqueue" })).run_id,
      );
    };
    // One worker slot is used, one is reserved for the claim in flight, and one for the run that waits for its thread.
    await create(thread_id);
    await create(thread_id);
    await create(null);
    await clock.advance(100);
    assert.deepEqual(startedRuns, createdRuns.slice(0, 1));
    gates[0]?.resolve();
    await advanceUntil(clock, () => startedRuns.length === 2);
    assert.deepEqual(startedRuns, [createdRuns[0], createdRuns[2]]);
    gates[1]?.resolve();
    await advanceUntil(clock, () => startedRuns.length === 3);
  });

  it("returns a StateUnreadable error to readers of a state that cannot be read", async () => {
    const executor = fromFunctions({ ok: async () => ({ ok: true }) });
    const broken: Executor = {
      graphs: () => [{ graph_id: "ok" }],
      execute: (...attempt) => executor.execute(...attempt),
      state: () => ({
        get: () => Promise.reject(new Error("cannot read this")),
        schemas: () => Promise.reject(new Error("no")),
        graph: () => Promise.reject(new Error("no")),
        subgraphs: async () => ({}),
      }),
    };
    const storage = nodeSqlite(":memory:");
    const shared = createFaultyStorage(storage).share().storage;
    const firstProcess = await testService({ storage: shared, executor });
    const { thread_id } = await firstProcess.service.threads.create();
    const { run, result } = await firstProcess.service.runs.wait(thread_id, ask("ok"));
    await result;
    await firstProcess.service.stop(0);
    await using two = await testService({ storage: shared, executor: broken });
    const joined = (await (await two.service.runs.join(thread_id, run.run_id)).result) as { __error__: JsonObject };
    assert.equal(joined.__error__["error"], "StateUnreadable");
    const stream = await two.service.runs.joinStream(thread_id, run.run_id);
    let last = "";
    for await (const frame of stream.frames) last = frame.event;
    assert.equal(last, "end");
    await storage.close();
  });

  it("stands by while another process holds the worker lock, and takes over when that ends", async () => {
    const clock = testClock();
    const { storage, faults, calls } = createFaultyStorage();
    let alone = false;
    faults.becomeWorker = async () => alone;
    await using kit = await testService({ storage, agents: { ok: async () => ({ ok: true }) }, environment: clock });
    const waiting = await kit.service.runs.wait(null, ask("ok"));
    await clock.advance(10_000);
    assert.equal(calls.claimRun, undefined);
    assert.equal((await kit.service.metrics()).standby, true);
    assert.equal((await kit.service.metrics()).runs.pending, 1);
    assert.equal(kit.service.healthy(), true);
    assert.equal(kit.log.filter(({ message }) => message.includes("standby")).length, 1);
    const looks = calls.claimDeliveries ?? 0;
    assert.ok(looks > 0, "what ends through it is told by it");
    alone = true;
    let result: Json | undefined;
    void waiting.result.then((value) => {
      result = value;
    });
    await clock.advance(300);
    assert.equal(calls.claimDeliveries, looks + 1, "what the other one has left is sent at once");
    await advanceUntil(clock, () => result !== undefined);
    assert.deepEqual(result, { ok: true });
    assert.equal((await kit.service.metrics()).standby, false);
  });

  it("logs when claims fail or hang, and when they work again", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    await using kit = await testService({ storage, agents: { ok: async () => ({ ok: true }) }, environment: clock });
    await clock.advance(1_000);
    faults.claimRun = () => Promise.reject(new Error("no"));
    await clock.advance(5_000);
    assert.equal(kit.service.healthy(), true, "not at once");
    await clock.advance(10_000);
    assert.equal(kit.service.healthy(), false);
    delete faults.claimRun;
    await clock.advance(5_000);
    assert.equal(kit.service.healthy(), true);
    const hangs = Promise.withResolvers<void>();
    faults.claimRun = async (call) => {
      await hangs.promise;
      return call();
    };
    await clock.advance(15_000);
    assert.equal(kit.service.healthy(), false);
    delete faults.claimRun;
    hangs.resolve();
    await clock.advance(5_000);
    assert.equal(kit.service.healthy(), true);
  });

  it("logs when its timers stop firing", async () => {
    const clock = testClock();
    let late = 0;
    const environment = { ...clock, now: () => clock.now() + late };
    await using kit = await testService({ agents: { ok: async () => ({ ok: true }) }, environment });
    await clock.advance(3_000);
    assert.equal(kit.service.healthy(), true);
    late = 10_000;
    assert.equal(kit.service.healthy(), false);
    await clock.advance(3_000);
    assert.equal(kit.service.healthy(), true);
  });

  it("claims the longest waiting run in the batch that ends another", async () => {
    const { storage, calls } = createFaultyStorage();
    const gate = Promise.withResolvers<void>();
    const order: unknown[] = [];
    const agents = {
      async note({ input }: { input: Json | undefined }) {
        order.push((input as JsonObject)["n"]);
        await gate.promise;
        return { ok: true };
      },
    };
    // No timer is needed: the test's clock does not advance.
    await using kit = await testService({ storage, agents, worker: { concurrency: 2 }, environment: testClock() });
    const { thread_id } = await kit.service.threads.create();
    const waits = [];
    for (let n = 0; n < 60; n++) {
      // Half of them wait for a worker slot, the others also for their thread.
      waits.push(await kit.service.runs.wait(n % 2 ? thread_id : null, { ...ask("note"), input: { n } }));
    }
    const before = calls.claimRun ?? 0;
    gate.resolve();
    await Promise.all(waits.map(({ result }) => result));
    assert.equal(order.length, 60);
    const ofThread = order.filter((n) => Number(n) % 2 === 1);
    assert.deepEqual(
      ofThread,
      [...ofThread].sort((a, b) => Number(a) - Number(b)),
    );
    const { worker } = await kit.service.metrics();
    assert.equal(worker.started, 60);
    assert.equal(worker.ended.success, 60);
    assert.equal(worker.retried, 0);
    assert.ok((calls.claimRun ?? 0) - before <= 4, `${(calls.claimRun ?? 0) - before} claims for 58 runs`);
  });

  it("starts a delayed run at its time", async () => {
    const clock = testClock();
    const { storage, calls } = createFaultyStorage();
    const started: number[] = [];
    const agents = {
      async note() {
        started.push(clock.now());
        return { ok: true };
      },
    };
    await using kit = await testService({ storage, agents, environment: clock });
    const begin = clock.now();
    for (const after_seconds of [7.1, 3.3, 7.1]) await kit.service.runs.create(null, { ...ask("note"), after_seconds });
    await clock.advance(3_200);
    assert.equal((await kit.service.metrics()).runs.scheduled, 3);
    await advanceUntil(clock, () => started.length === 1, 10, 20);
    await clock.advance(3_500);
    assert.equal(started.length, 1);
    await advanceUntil(clock, () => started.length === 3, 10, 40);
    assert.deepEqual(
      started.map((time) => Math.round((time - begin) / 100)),
      [33, 71, 71],
    );
    assert.ok((calls.claimRun ?? 0) < 20);
  });
});

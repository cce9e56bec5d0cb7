import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../adapters/node-sqlite.ts";
import { type Executor, type Frame, fromFunctions, type Json, type JsonObject, type Storage } from "../../lib/mod.ts";
import { testClock, testService } from "../suite/kit.ts";

const ask = (assistant_id: string): { assistant_id: string; input: JsonObject } => ({ assistant_id, input: {} });

/** A storage on which single verbs can be made to fail. */
function faulty(): {
  readonly storage: Storage;
  readonly faults: Partial<Record<keyof Storage, (call: () => unknown) => unknown>>;
} {
  const real = nodeSqlite(":memory:");
  const faults: Partial<Record<keyof Storage, (call: () => unknown) => unknown>> = {};
  const storage = new Proxy(real, {
    get(target, name) {
      const verb = Reflect.get(target, name) as (...args: unknown[]) => unknown;
      return (...args: unknown[]) => {
        const fault = faults[name as keyof Storage];
        return fault ? fault(() => verb.apply(target, args)) : verb.apply(target, args);
      };
    },
  });
  return { storage, faults };
}

async function framesOf(frames: AsyncIterable<Frame>): Promise<Frame[]> {
  const all: Frame[] = [];
  for await (const frame of frames) all.push(frame);
  return all;
}

/** Moves the clock on until the fact holds; bounded, so that a test fails instead of hanging. */
async function advanceUntil(clock: ReturnType<typeof testClock>, fact: () => boolean): Promise<void> {
  for (let i = 0; i < 500 && !fact(); i++) await clock.advance(100);
  assert.ok(fact(), "it never came");
}

describe("a worker", () => {
  it("does not execute its own run again when the event loop stood still for longer than the lease", async () => {
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
    await using kit = await testService({ agents, ambient: { ...clock, now: () => clock.now() + skew } });
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

  it("stores the end of a run again when the store failed once, instead of executing the run again", async () => {
    const clock = testClock();
    const { storage, faults } = faulty();
    let executions = 0;
    await using kit = await testService({
      storage,
      agents: { once: async () => ({ executions: ++executions }) },
      ambient: clock,
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

  it("answers readers also when the end of a run was stored but its answer was lost", async () => {
    const clock = testClock();
    const { storage, faults } = faulty();
    await using kit = await testService({ storage, agents: { once: async () => ({ done: true }) }, ambient: clock });
    let lost = 0;
    faults.finishRun = async (call) => {
      const stored = await call();
      if (lost++ === 0) throw new Error("connection lost after commit");
      return stored;
    };
    const { thread_id } = await kit.service.threads.create();
    const stream = await kit.service.runs.stream(thread_id, ask("once"));
    let frames: Frame[] | undefined;
    void framesOf(stream.frames).then((all) => {
      frames = all;
    });
    await advanceUntil(clock, () => frames !== undefined);
    assert.equal(frames?.at(-1)?.event, "end");
    const joined = await kit.service.runs.join(thread_id, stream.run.run_id);
    assert.deepEqual(await joined.result, { done: true });
  });

  it("leaves a run whose progress cannot be stored, and can stop", async () => {
    const clock = testClock();
    const { storage, faults } = faulty();
    const waits = Promise.withResolvers<void>();
    const agents = {
      async *steps({ signal }: { signal: AbortSignal }) {
        yield { step: 1 };
        yield { step: 2 };
        waits.resolve();
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      },
    };
    const kit = await testService({ storage, agents, ambient: clock });
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

  it("abandons an executor that goes on after its signal", async () => {
    const clock = testClock();
    const deaf: Executor = {
      graphs: () => [{ graph_id: "deaf", checkpoints: "worker" }],
      async *execute() {
        yield { type: "state", values: { at: 0 }, next: ["more"], tasks: [] };
        while (true) yield { type: "stream", mode: "custom", data: "still here" };
      },
    };
    await using kit = await testService({ executor: deaf, ambient: clock, worker: { concurrency: 1 } });
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

  it("starts at once what waited for a place that a refused run gave back", async () => {
    const clock = testClock();
    const { storage, faults } = faulty();
    await using kit = await testService({
      storage,
      agents: { ok: async () => ({ ok: true }) },
      ambient: clock,
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
    // No timer is needed: the clock stands still.
    assert.deepEqual(await waiting.result, { ok: true });
  });

  it("takes the reader of an unreadable state for what it is", async () => {
    const executor = fromFunctions({ ok: async () => ({ ok: true }) });
    const broken: Executor = {
      graphs: () => [{ graph_id: "ok", checkpoints: "own" }],
      execute: (job, signal) => executor.execute(job, signal),
      state: () => ({
        get: () => Promise.reject(new Error("cannot read this")),
        schemas: () => Promise.reject(new Error("no")),
        drawn: () => Promise.reject(new Error("no")),
        subgraphs: async () => ({}),
      }),
    };
    const storage = nodeSqlite(":memory:");
    const shared = new Proxy(storage, {
      get: (target, name) =>
        name === "close" ? async () => {} : (Reflect.get(target, name) as (...args: unknown[]) => unknown).bind(target),
    });
    const one = await testService({ storage: shared, executor });
    const { thread_id } = await one.service.threads.create();
    const { run, result } = await one.service.runs.wait(thread_id, ask("ok"));
    await result;
    await one.service.stop(0);
    await using two = await testService({ storage: shared, executor: broken });
    const joined = (await (await two.service.runs.join(thread_id, run.run_id)).result) as { __error__: JsonObject };
    assert.equal(joined.__error__["error"], "StateUnreadable");
    const stream = await two.service.runs.joinStream(thread_id, run.run_id);
    assert.equal((await framesOf(stream.frames)).at(-1)?.event, "end");
    await storage.close();
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type Executor, type Frame, fromFunctions, type Service } from "../../../lib/mod.ts";
import { testClock, testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";
import { advanceUntil, collect, createFaultyStorage, type Faulty } from "../../support/faulty.ts";
import { ask, counter, executing, processes } from "./run-subscription.harness.ts";

keepAlive();

describe("a reader of a run that is rolled back during its subscription", () => {
  const ending = (frames: readonly Frame[]): unknown[] =>
    frames.map(({ id, event, data }) => [id, event, JSON.parse(data).error ?? JSON.parse(data).status]);

  /** The run, its readers in the second process, and what removes it by that. */
  async function removable(): Promise<{
    readonly clock: ReturnType<typeof testClock>;
    readonly store: Faulty;
    readonly open: (after: number) => Promise<ReturnType<typeof collect>>;
    readonly join: (after: number) => Promise<Frame[]>;
    readonly rollback: (by?: Service) => Promise<void>;
    /** The first process. */
    readonly first: Service;
    readonly stop: () => Promise<void>;
  }> {
    const { clock, first, second, stores, thread_id, run_id, stop } = await executing();
    const open = async (after: number): Promise<AsyncIterable<Frame>> =>
      (await second.runs.joinStream(thread_id, run_id, { after })).frames;
    return {
      clock,
      store: stores[1],
      open: async (after) => collect(await open(after)),
      join: async (after) => await Array.fromAsync(await open(after)),
      rollback: async (by = second) => await by.runs.cancel(thread_id, run_id, { action: "rollback" }),
      first,
      stop,
    };
  }

  it("receives the rollback with ids above those that it has seen", async () => {
    for (const after of [1, 2, 4, Number.MAX_SAFE_INTEGER]) {
      const { store, join, rollback, stop } = await removable();
      store.faults.readFrames = async (call) => {
        delete store.faults.readFrames;
        await rollback();
        return await call();
      };
      const first = after < 5 ? after + 1 : 2 ** 52 + 1;
      const expectedFrames = [
        [first, "error", "RunRolledBack"],
        [first + 1, "end", "rollback"],
      ];
      assert.deepEqual(ending(await join(after)), expectedFrames);
      await stop();
    }
  });

  it("receives no frame again that was on its way to another reader", async () => {
    const { clock, store, open, rollback, first, stop } = await removable();
    const loaded = Promise.withResolvers<void>();
    let loads = 0;
    store.faults.readFrames = async (call) => {
      loads += 1;
      if (loads === 2) await rollback(first);
      const page = await call();
      if (loads === 1) await loaded.promise;
      return page;
    };
    const otherReader = await open(0);
    await advanceUntil(clock, () => loads === 1);
    const back = await open(3);
    loaded.resolve();
    await advanceUntil(clock, () => otherReader.ended() && back.ended());
    assert.deepEqual(ending(back.list), [
      [4, "error", "RunRolledBack"],
      [5, "end", "rollback"],
    ]);
    await stop();
  });

  it("receives the rollback if it has just found the run", async () => {
    for (const after of [1, 2, 5, 7]) {
      const { clock, store, open, join, rollback, stop } = await removable();
      const otherReaders = [await open(0), await open(3)];
      await advanceUntil(clock, () => otherReaders.every(({ list }) => list.at(-1)?.id === 4));
      let row: unknown;
      store.faults.getRun = async (call) => {
        delete store.faults.getRun;
        row = await call();
        await rollback();
        return row;
      };
      const expectedFrames = ending(await join(after));
      assert.ok(row);
      assert.deepEqual(expectedFrames.slice(-2), [
        [Math.max(5, after + 1), "error", "RunRolledBack"],
        [Math.max(6, after + 2), "end", "rollback"],
      ]);
      for (const otherReader of otherReaders) {
        await advanceUntil(clock, otherReader.ended);
        assert.deepEqual(ending(otherReader.list).slice(-2), [
          [5, "error", "RunRolledBack"],
          [6, "end", "rollback"],
        ]);
      }
      await stop();
    }
  });
});

describe("a store that fails during the read of a run's result", () => {
  it("delays the result until the store works again", async () => {
    const clock = testClock();
    for (const verb of ["getThread", "getCheckpoint"] as const) {
      const { executor, say } = counter();
      const { services, stores, stop } = await processes(clock, executor, 1, 0);
      const [first, second] = services as [Service, Service];
      const { faults, calls } = stores[1] as Faulty;
      const { thread_id } = await first.threads.create();
      const { run_id } = await first.runs.create(thread_id, ask());
      const waiting = await second.runs.join(thread_id, run_id);
      const reader = collect((await second.runs.joinStream(thread_id, run_id)).frames);
      const failure = new Error("the store cannot be reached");
      faults[verb] = () => Promise.reject(failure);
      say(1, "end");
      const before = calls[verb] ?? 0;
      await advanceUntil(clock, () => (calls[verb] ?? 0) > before + 2);
      assert.ok(!reader.ended());
      delete faults[verb];
      await advanceUntil(clock, reader.ended);
      assert.deepEqual(await waiting.result, { count: 1 });
      await stop();
    }
  });

  it("fails the joins at that time, and later joins get the result", async () => {
    const clock = testClock();
    const { executor, say } = counter();
    const { services, stores, stop } = await processes(clock, executor, 1, 0);
    const [first, second] = services as [Service, Service];
    const { faults } = stores[1] as Faulty;
    const { thread_id } = await first.threads.create();
    const { run, result } = await first.runs.wait(thread_id, ask());
    say(1, "end");
    await advanceUntil(clock, async () => (await first.runs.get(thread_id, run.run_id)).status === "success", 10);
    const failure = new Error("the store cannot be reached");
    faults.getCheckpoint = () => Promise.reject(failure);
    await assert.rejects(second.runs.join(thread_id, run.run_id), failure);
    await assert.rejects(second.runs.joinStream(thread_id, run.run_id), failure);
    await assert.rejects(second.threads.get(thread_id), failure);
    await assert.rejects(second.threads.search(), failure);
    delete faults.getCheckpoint;
    assert.deepEqual(await (await second.runs.join(thread_id, run.run_id)).result, await result);
    await stop();
  });
});

describe("a store that fails during a graph's read of a state", () => {
  it("is reported as such, and not as an error of the graph", async () => {
    const { storage, faults } = createFaultyStorage();
    const executor = fromFunctions({ ok: async () => ({ ok: true }) });
    const wrong = new Error("the graph's own");
    const listing: Executor = {
      graphs: () => [{ graph_id: "ok" }],
      execute: (...attempt) => executor.execute(...attempt),
      state: () => ({
        async get(_at, checkpoints) {
          for await (const { ns } of checkpoints.list({})) await checkpoints.get({ ns, checkpoint_id: "other" });
          throw wrong;
        },
        schemas: () => Promise.reject(wrong),
        graph: () => Promise.reject(wrong),
        subgraphs: async () => ({}),
      }),
    };
    await using kit = await testService({ storage, executor: listing });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    await (await runs.wait(thread_id, { assistant_id: "ok" })).result;
    const failure = new Error("the store cannot be reached");
    faults.listCheckpoints = () => Promise.reject(failure);
    await assert.rejects(threads.state(thread_id), failure);
    delete faults.listCheckpoints;
    faults.getCheckpoint = (call, [, , at]) =>
      (at as { checkpoint_id?: string }).checkpoint_id === "other" ? Promise.reject(failure) : call();
    await assert.rejects(threads.state(thread_id), failure);
    delete faults.getCheckpoint;
    await assert.rejects(threads.state(thread_id), (error: Error) => error.cause === wrong);
  });
});

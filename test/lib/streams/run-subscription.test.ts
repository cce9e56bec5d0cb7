import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { recordStates } from "../../../lib/executor/state-recorder.ts";
import {
  createService,
  type Executor,
  type Frame,
  fromFunctions,
  type RunCreate,
  type Service,
} from "../../../lib/mod.ts";
import { testClock, testService } from "../../suite/kit.ts";
import { advanceUntil, collect, type Faulty, faulty, kill } from "../../support/faulty.ts";

// The service's own timers keep no process alive, and some tests wait for nothing else.
let alive: ReturnType<typeof setInterval>;
before(() => {
  alive = setInterval(() => {}, 1_000);
});
after(() => clearInterval(alive));

const ask = (more: Partial<RunCreate> = {}): RunCreate => ({
  assistant_id: "count",
  stream_mode: ["custom", "updates"],
  stream_resumable: true,
  ...more,
});

const idsOf = (frames: readonly Frame[]): unknown[] => frames.map(({ id }) => id);
const upTo = (last: number, first = 1): number[] => Array.from({ length: last + 1 - first }, (_, i) => first + i);

/** Shows as many frames as the test asks for, one by one, until it says `end`, `fail` or `hang`. */
function counter(): { readonly executor: Executor; readonly say: (...words: (number | "end" | "fail")[]) => void } {
  const words: (number | "end" | "fail")[] = [];
  let wake = (): void => {};
  return {
    say(...more) {
      words.push(...more);
      wake();
    },
    executor: {
      graphs: () => [{ graph_id: "count" }],
      execute: recordStates(async function* (_job, signal) {
        let count = 0;
        while (!signal.aborted) {
          const word = words.shift();
          if (word === "fail") throw new RangeError("too far");
          if (word === "end") break;
          for (let i = 0; i < (word ?? 0); i++) yield { type: "stream", mode: "custom", data: ++count };
          if (word !== undefined) continue;
          await new Promise<void>((resolve) => {
            wake = resolve;
            signal.addEventListener("abort", () => resolve());
          });
        }
        yield { type: "state", values: { count }, next: [], tasks: [] };
      }),
    },
  };
}

/** Services on one database, as processes that share it. */
async function processes(
  clock: ReturnType<typeof testClock>,
  executor: Executor,
  ...concurrency: readonly number[]
): Promise<{ readonly services: Service[]; readonly stores: Faulty[]; readonly stop: () => Promise<void> }> {
  const shared = faulty();
  const stores = concurrency.map(() => shared.share());
  const services: Service[] = [];
  for (const [i, { storage }] of stores.entries()) {
    const worker = { concurrency: concurrency[i] as number };
    services.push(await createService({ storage, executor, worker, environment: { ...clock, log: () => {} } }));
  }
  return {
    services,
    stores,
    async stop() {
      for (const service of services) {
        const stopping = service.stop(0);
        await clock.advance(20_000);
        await stopping;
      }
      await shared.storage.close();
    },
  };
}

/** A resumable run that executes in the first of two processes, where it has shown four frames. */
async function executing(): Promise<{
  readonly clock: ReturnType<typeof testClock>;
  readonly say: ReturnType<typeof counter>["say"];
  readonly one: Service;
  readonly two: Service;
  readonly stores: readonly [Faulty, Faulty];
  readonly thread_id: string;
  readonly run_id: string;
  /** What its reader in the first process has been shown. */
  readonly here: ReturnType<typeof collect>;
  readonly stop: () => Promise<void>;
}> {
  const clock = testClock();
  const { executor, say } = counter();
  const { services, stores, stop } = await processes(clock, executor, 1, 0);
  const [one, two] = services as [Service, Service];
  const { thread_id } = await one.threads.create();
  const { run, frames } = await one.runs.stream(thread_id, ask());
  const here = collect(frames);
  say(3);
  await advanceUntil(clock, () => here.list.length === 4, 10);
  return { clock, say, one, two, stores: stores as [Faulty, Faulty], thread_id, run_id: run.run_id, here, stop };
}

describe("a resumable run", () => {
  it("gives every joiner every frame after the one it has seen, with the same ids, live and afterwards", async () => {
    const { executor, say } = counter();
    await using kit = await testService({ executor });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { run, frames } = await runs.stream(thread_id, ask());
    say(5);
    const live = frames[Symbol.asyncIterator]();
    const first: Frame[] = [];
    while (first.length < 6) first.push((await live.next()).value);
    const join = async (after?: number): Promise<Frame[]> =>
      await Array.fromAsync(
        (await runs.joinStream(thread_id, run.run_id, after === undefined ? {} : { after })).frames,
      );
    const joins = [join(), join(-1), join(3), join(1_000), join(6), ...Array.from({ length: 20 }, () => join(0))];
    say(5, "end");
    const all = [...first];
    for (let step = await live.next(); !step.done; step = await live.next()) all.push(step.value);
    assert.deepEqual(idsOf(all), upTo(12));
    assert.deepEqual([all[0]?.event, all.at(-1)?.event], ["metadata", "end"]);
    const [none, minus, three, unknown, six, ...many] = await Promise.all(joins);
    assert.deepEqual([none, minus, unknown], [all, all, all]);
    assert.deepEqual([three, six], [all.slice(3), all.slice(6)]);
    for (const each of many) assert.deepEqual(each, all);
    // It has ended.
    assert.deepEqual([await join(), await join(9), await join(1_000)], [all, all.slice(9), all]);
    const [end, ...more] = await join(12);
    assert.deepEqual([end?.event, more.length], ["end", 0]);
    const some = await runs.joinStream(thread_id, run.run_id, { modes: ["updates"] });
    assert.deepEqual(
      (await Array.fromAsync(some.frames)).map(({ event }) => event),
      ["metadata", "end"],
    );
  });

  it("is replayed after a restart, with the ids that its readers have seen", async () => {
    const clock = testClock();
    for (const word of ["end", "fail"] as const) {
      const { executor, say } = counter();
      const { services, stop } = await processes(clock, executor, 1, 0);
      const [one, two] = services as [Service, Service];
      const { thread_id } = await one.threads.create();
      const { run, frames } = await one.runs.stream(thread_id, ask());
      const read = collect(frames);
      say(3, word);
      await advanceUntil(clock, read.ended, 10);
      assert.deepEqual(idsOf(read.list), upTo(word === "end" ? 5 : 6));
      const join = async (after?: number): Promise<Frame[]> =>
        await Array.fromAsync(
          (await two.runs.joinStream(thread_id, run.run_id, after === undefined ? {} : { after })).frames,
        );
      assert.deepEqual(await join(), read.list);
      assert.deepEqual(await join(2), read.list.slice(2));
      assert.deepEqual(await join(4), read.list.slice(4));
      assert.deepEqual(await join(99), read.list);
      await stop();
    }
  });

  it("is read on after what another process has shown where reads are behind", async () => {
    const { clock, say, two, stores, thread_id, run_id, here, stop } = await executing();
    const { faults } = stores[1];
    const before = await stores[0].storage.getRun({ deployment: "default" }, run_id);
    let behind = true;
    faults.getRun = (call) => (behind ? before : call());
    faults.readFrames = async (call) => {
      const page = (await call()) as readonly Frame[];
      return behind ? page.filter(({ id }) => (id as number) <= 2) : page;
    };
    faults.refresh = () => {
      behind = false;
    };
    const join = async (after: number): Promise<ReturnType<typeof collect>> =>
      collect((await two.runs.joinStream(thread_id, run_id, { after })).frames);
    const live = await join(4);
    say(1, "end");
    await advanceUntil(clock, () => here.ended() && live.ended());
    assert.deepEqual([idsOf(here.list), idsOf(live.list)], [upTo(6), [5, 6]]);
    await stop();
  });

  it("that executes in another process is read there as it goes on", async () => {
    const clock = testClock();
    const { executor, say } = counter();
    const { services, stop } = await processes(clock, executor, 1, 0);
    const [one, two] = services as [Service, Service];
    const { thread_id } = await one.threads.create();
    const { run, frames } = await one.runs.stream(thread_id, ask());
    const here = collect(frames);
    say(4);
    await advanceUntil(clock, () => here.list.length === 5, 10);
    const joined = async (after: number): Promise<ReturnType<typeof collect>> =>
      collect((await two.runs.joinStream(thread_id, run.run_id, { after })).frames);
    // Their ids are known by the first process alone, until the second looks.
    const there = [await joined(5), await joined(2), await joined(0), await joined(1_000)];
    await advanceUntil(clock, () => there.every(({ list }, i) => list.length >= [0, 3, 5, 5][i]!));
    say(4);
    await advanceUntil(clock, () => there.every(({ list }) => list.at(-1)?.id === 9));
    say("end");
    await advanceUntil(clock, () => here.ended() && there.every(({ ended }) => ended()));
    const [five, two_, zero, unknown] = there.map(({ list }) => list);
    assert.deepEqual(idsOf(here.list), upTo(10));
    assert.deepEqual([zero, unknown], [here.list, here.list]);
    assert.deepEqual([five, two_], [here.list.slice(5), here.list.slice(2)]);
    assert.deepEqual(await (await two.runs.join(thread_id, run.run_id)).result, { count: 8 });
    await stop();
  });

  it("is read on by the same readers when another process takes it up", async () => {
    const clock = testClock();
    const { executor, say } = counter();
    const { services, stores, stop } = await processes(clock, executor, 1, 0, 1);
    const [one, two] = services as [Service, Service];
    const { thread_id } = await one.threads.create();
    const { run, frames } = await one.runs.stream(thread_id, ask());
    const here = collect(frames);
    say(3);
    await advanceUntil(clock, () => here.list.length === 4, 10);
    const there = collect((await two.runs.joinStream(thread_id, run.run_id)).frames);
    await advanceUntil(clock, () => there.list.length === 4);
    kill(stores[0] as Faulty);
    await advanceUntil(clock, () => there.list.length === 5);
    say(2, "end");
    await advanceUntil(clock, there.ended);
    assert.deepEqual(idsOf(there.list), upTo(8));
    assert.equal(JSON.parse(there.list[4]?.data ?? "").attempt, 2);
    assert.equal(there.list[4]?.event, "metadata");
    await stop();
  });

  it("is not shown from its start where it was lost, when another process has ended it", async () => {
    const clock = testClock();
    const executor: Executor = {
      graphs: () => [{ graph_id: "count" }],
      execute: recordStates(async function* ({ attempt }) {
        yield { type: "stream", mode: "custom", data: attempt };
        // The first hears no signal, so that its process holds what it has shown for a while after it has lost the run.
        if (attempt === 1) await new Promise<void>(() => {});
        yield { type: "state", values: { attempt }, next: [], tasks: [] };
      }),
    };
    const { services, stores, stop } = await processes(clock, executor, 1, 1);
    const [one, two] = services as [Service, Service];
    const store = stores[0] as Faulty;
    const { thread_id } = await one.threads.create();
    const { run, frames } = await one.runs.stream(thread_id, ask());
    const stale = collect(frames);
    await advanceUntil(clock, () => stale.list.length === 2, 10);
    store.faults.renewLease = () => new Promise(() => {});
    await advanceUntil(clock, async () => (await two.runs.get(thread_id, run.run_id)).status === "success");
    const all = await Array.fromAsync((await two.runs.joinStream(thread_id, run.run_id)).frames);
    const end = all.at(-1)?.id as number;
    assert.deepEqual([all.at(-1)?.event, end > 2, stale.ended()], ["end", true, false]);
    const join = async (after: number): Promise<ReturnType<typeof collect>> =>
      collect((await one.runs.joinStream(thread_id, run.run_id, { after })).frames);
    const joined = [await join(end), await join(end - 1), await join(2)];
    delete store.faults.renewLease;
    await advanceUntil(clock, () => stale.ended() && joined.every(({ ended }) => ended()));
    const [last, before, two_] = joined.map(({ list }) => list);
    assert.deepEqual([last?.length, last?.[0]?.event], [1, "end"]);
    assert.deepEqual([before, two_, stale.list], [all.slice(-1), all.slice(2), all]);
    await stop();
  });

  it("whose frames are not kept any more says so, and how it ended", async () => {
    const clock = testClock();
    const { executor, say } = counter();
    await using kit = await testService({ executor, environment: clock, retention: { frames_ms: 100_000 } });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { run, frames } = await runs.stream(thread_id, ask());
    const read = collect(frames);
    say(3, "fail");
    await advanceUntil(clock, read.ended, 10);
    await clock.advance(300_000);
    // What ended is kept in memory until something else ends.
    const other = collect((await runs.stream(null, ask())).frames);
    say("end");
    await advanceUntil(clock, other.ended, 10);
    const [gap, ...rest] = await Array.fromAsync((await runs.joinStream(thread_id, run.run_id, { after: 2 })).frames);
    assert.deepEqual([gap?.id, gap?.event], [null, "metadata"]);
    assert.deepEqual(JSON.parse(gap?.data ?? ""), { run_id: run.run_id, attempt: 1, missing_before: 5 });
    assert.deepEqual(rest, read.list.slice(-2));
  });

  it("is no longer looked at when nobody reads it", async () => {
    const clock = testClock();
    const { executor, say } = counter();
    const { services, stores, stop } = await processes(clock, executor, 1, 0);
    const [one, two] = services as [Service, Service];
    const { run_id } = await one.runs.create(null, ask());
    say(3);
    await clock.advance(100);
    const reader = (await two.runs.joinStream(null, run_id)).frames[Symbol.asyncIterator]();
    let first: Frame | undefined;
    void reader.next().then(({ value }) => {
      first = value;
    });
    await advanceUntil(clock, () => first !== undefined);
    await reader.return?.();
    await clock.advance(5_000);
    const { calls } = stores[1] as Faulty;
    const before = calls.getRun;
    await clock.advance(10_000);
    assert.equal(calls.getRun, before);
    // Whoever comes then gets everything all the same.
    say("end");
    await clock.advance(100);
    const again = collect((await two.runs.joinStream(null, run_id)).frames);
    await advanceUntil(clock, again.ended);
    assert.deepEqual(idsOf(again.list), upTo(5));
    await stop();
  });
});

describe("a reader whose place cannot be looked up", () => {
  it("leaves nothing behind", async () => {
    const { clock, say, two, stores, thread_id, run_id, stop } = await executing();
    const { faults, calls } = stores[1];
    faults.readFrames = () => Promise.reject(new Error("down"));
    await assert.rejects(two.runs.joinStream(thread_id, run_id, { after: 4 }));
    await clock.advance(1_000);
    // A tape that is kept needs no look at the row.
    const looks = async (): Promise<number> => {
      const before = calls.getRun ?? 0;
      await assert.rejects(two.runs.joinStream(thread_id, run_id, { after: 4 }));
      return (calls.getRun ?? 0) - before;
    };
    const [again, atOnce] = [await looks(), await looks()];
    assert.equal(again - atOnce, 1);
    say("end");
    await clock.advance(1_000);
    await stop();
  });
});

describe("a reader of a run that is rolled back as it comes", () => {
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
    readonly one: Service;
    readonly stop: () => Promise<void>;
  }> {
    const { clock, one, two, stores, thread_id, run_id, stop } = await executing();
    const open = async (after: number): Promise<AsyncIterable<Frame>> =>
      (await two.runs.joinStream(thread_id, run_id, { after })).frames;
    return {
      clock,
      store: stores[1],
      open: async (after) => collect(await open(after)),
      join: async (after) => await Array.fromAsync(await open(after)),
      rollback: async (by = two) => await by.runs.cancel(thread_id, run_id, { action: "rollback" }),
      one,
      stop,
    };
  }

  it("is told so, with ids above what it has seen", async () => {
    for (const after of [1, 2, 4, Number.MAX_SAFE_INTEGER]) {
      const { store, join, rollback, stop } = await removable();
      store.faults.readFrames = async (call) => {
        delete store.faults.readFrames;
        await rollback();
        return await call();
      };
      const first = after < 5 ? after + 1 : 2 ** 52 + 1;
      const told = [
        [first, "error", "RunRolledBack"],
        [first + 1, "end", "rollback"],
      ];
      assert.deepEqual(ending(await join(after)), told);
      await stop();
    }
  });

  it("is shown nothing again that was on its way to another reader", async () => {
    const { clock, store, open, rollback, one, stop } = await removable();
    const loaded = Promise.withResolvers<void>();
    let loads = 0;
    store.faults.readFrames = async (call) => {
      loads += 1;
      if (loads === 2) await rollback(one);
      const page = await call();
      if (loads === 1) await loaded.promise;
      return page;
    };
    const other = await open(0);
    await advanceUntil(clock, () => loads === 1);
    const back = await open(3);
    loaded.resolve();
    await advanceUntil(clock, () => other.ended() && back.ended());
    assert.deepEqual(ending(back.list), [
      [4, "error", "RunRolledBack"],
      [5, "end", "rollback"],
    ]);
    await stop();
  });

  it("is told so when it found the run just before", async () => {
    for (const after of [1, 2, 5, 7]) {
      const { clock, store, open, join, rollback, stop } = await removable();
      const others = [await open(0), await open(3)];
      await advanceUntil(clock, () => others.every(({ list }) => list.at(-1)?.id === 4));
      let row: unknown;
      store.faults.getRun = async (call) => {
        delete store.faults.getRun;
        row = await call();
        await rollback();
        return row;
      };
      const told = ending(await join(after));
      assert.ok(row);
      assert.deepEqual(told.slice(-2), [
        [Math.max(5, after + 1), "error", "RunRolledBack"],
        [Math.max(6, after + 2), "end", "rollback"],
      ]);
      for (const other of others) {
        await advanceUntil(clock, other.ended);
        assert.deepEqual(ending(other.list).slice(-2), [
          [5, "error", "RunRolledBack"],
          [6, "end", "rollback"],
        ]);
      }
      await stop();
    }
  });
});

describe("a store that fails while a run's answer is read", () => {
  it("leaves the answer open: it is read again", async () => {
    const clock = testClock();
    for (const verb of ["getThread", "getCheckpoint"] as const) {
      const { executor, say } = counter();
      const { services, stores, stop } = await processes(clock, executor, 1, 0);
      const [one, two] = services as [Service, Service];
      const { faults, calls } = stores[1] as Faulty;
      const { thread_id } = await one.threads.create();
      const { run_id } = await one.runs.create(thread_id, ask());
      const waiting = await two.runs.join(thread_id, run_id);
      const reader = collect((await two.runs.joinStream(thread_id, run_id)).frames);
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

  it("is told to who asks then, and the next one gets the answer", async () => {
    const clock = testClock();
    const { executor, say } = counter();
    const { services, stores, stop } = await processes(clock, executor, 1, 0);
    const [one, two] = services as [Service, Service];
    const { faults } = stores[1] as Faulty;
    const { thread_id } = await one.threads.create();
    const { run, result } = await one.runs.wait(thread_id, ask());
    say(1, "end");
    await advanceUntil(clock, async () => (await one.runs.get(thread_id, run.run_id)).status === "success", 10);
    const failure = new Error("the store cannot be reached");
    faults.getCheckpoint = () => Promise.reject(failure);
    await assert.rejects(two.runs.join(thread_id, run.run_id), failure);
    await assert.rejects(two.runs.joinStream(thread_id, run.run_id), failure);
    await assert.rejects(two.threads.get(thread_id), failure);
    await assert.rejects(two.threads.search(), failure);
    delete faults.getCheckpoint;
    assert.deepEqual(await (await two.runs.join(thread_id, run.run_id)).result, await result);
    await stop();
  });
});

describe("a store that fails while a graph reads a state", () => {
  it("is told as it is, and not taken for the graph's own error", async () => {
    const { storage, faults } = faulty();
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
        drawn: () => Promise.reject(wrong),
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

describe("a run that is not resumable", () => {
  it("is replayed from the ring of its process, and elsewhere only ends", async () => {
    const clock = testClock();
    const { executor, say } = counter();
    const { services, stop } = await processes(clock, executor, 1, 0);
    const [one, two] = services as [Service, Service];
    const { run, frames } = await one.runs.stream(null, ask({ stream_resumable: false }));
    const here = collect(frames);
    const there = collect((await two.runs.joinStream(null, run.run_id)).frames);
    say(3, "end");
    await advanceUntil(clock, () => here.ended() && there.ended());
    assert.equal(here.list.length, 5);
    const end = here.list.at(-1) as Frame;
    assert.deepEqual(there.list, [end]);
    const join = async (service: Service, after?: number): Promise<Frame[]> =>
      await Array.fromAsync(
        (await service.runs.joinStream(null, run.run_id, after === undefined ? {} : { after })).frames,
      );
    assert.deepEqual(await join(one), here.list);
    assert.deepEqual(await join(one, 2), here.list.slice(2));
    assert.deepEqual(await join(two), [end]);
    await stop();
  });

  it("tells readers in another process that it was rolled back", async () => {
    const clock = testClock();
    const { executor } = counter();
    const { services, stop } = await processes(clock, executor, 1, 0);
    const [one, two] = services as [Service, Service];
    const { thread_id } = await one.threads.create();
    const { run_id } = await one.runs.create(thread_id, ask());
    await clock.advance(100);
    const there = collect((await two.runs.joinStream(thread_id, run_id)).frames);
    await one.runs.cancel(thread_id, run_id, { action: "rollback" });
    await advanceUntil(clock, there.ended);
    const [error, end] = there.list.slice(-2);
    assert.deepEqual([error?.event, JSON.parse(error?.data ?? "").error], ["error", "RunRolledBack"]);
    assert.deepEqual(JSON.parse(end?.data ?? ""), { run_id, status: "rollback" });
    await stop();
  });
});

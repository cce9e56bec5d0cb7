/** Processes that share a database: each serves requests, and any of them executes the runs. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Frame, Run, RunCreate, Service } from "../../lib/mod.ts";
import { serviceInternals } from "../../lib/service.ts";
import type { Storage } from "../../lib/storage/types.ts";
import { collect, createFaultyStorage, type Faulty, kill } from "../support/faulty.ts";
import { type Mode, type Processes, type ProcessesOptions, startProcesses } from "../support/shared-database.ts";

// Timers of services keep no process alive.
let alive: ReturnType<typeof setInterval>;
before(() => {
  alive = setInterval(() => {}, 1_000);
});
after(() => clearInterval(alive));

/** The maximum delay of a reader in another process, in milliseconds. */
const BEHIND: Readonly<Record<Mode, number>> = { normal: 100, doubled: 100, late: 1_000, lost: 1_000 };
/** The maximum time until an executor sees a stop: with its signal, or when it renews its lease. */
const ABORTED: Readonly<Record<Mode, number>> = { normal: 100, doubled: 100, late: 400, lost: 5_000 };
const SCOPE = { deployment: "default" };

const ask = (runFields: Partial<RunCreate> = {}): RunCreate => ({
  assistant_id: "count",
  stream_mode: ["custom"],
  ...runFields,
});
const readIds = (frames: readonly Frame[]): unknown[] => frames.map(({ id }) => id);
const upTo = (last: number): number[] => Array.from({ length: last }, (_, i) => i + 1);
const findEndFrames = (frames: readonly Frame[]): readonly Frame[] => frames.filter(({ event }) => event === "end");
const readStatus = (frames: readonly Frame[]): unknown => JSON.parse(frames.at(-1)?.data ?? "null").status;

interface Two extends Processes {
  readonly first: Service;
  readonly second: Service;
  /** Creates a thread and a run on it, which executes in the first process. */
  started(runFields?: Partial<RunCreate>): Promise<Run>;
}

/** Runs `body` with processes, by default with a worker in the first only, and stops them. */
async function across(options: Partial<ProcessesOptions>, body: (world: Two) => Promise<void>): Promise<void> {
  const world = await startProcesses({ concurrency: [1, 0], ...options });
  const [first, second] = world.services as [Service, Service];
  try {
    await body({
      ...world,
      first,
      second,
      async started(runFields) {
        const { thread_id } = await first.threads.create();
        const run = await first.runs.create(thread_id, ask(runFields));
        await world.until(() => world.happened.some(({ run_id }) => run_id === run.run_id));
        return run;
      },
    });
  } finally {
    await world.stop();
  }
}

for (const mode of ["normal", "lost", "late", "doubled"] as const) {
  const behind = BEHIND[mode];
  const title = { normal: "in time", lost: "never", late: "late", doubled: "twice" }[mode];

  describe(`processes whose signals arrive ${title}`, () => {
    it("show a run that another process executes: every frame with its id and one end", async () => {
      for (const stateless of [false, true]) {
        await across({ mode }, async ({ first, second, say, until, happened }) => {
          const thread_id = stateless ? null : (await second.threads.create()).thread_id;
          const { run, frames } = await second.runs.stream(thread_id, ask());
          const there = collect(frames);
          await until(() => there.list.length === 1, 3_000);
          assert.equal(happened[0]?.process, 0);
          const here = collect((await first.runs.joinStream(thread_id, run.run_id)).frames);
          for (const [i, words] of ([[3], [1], [40], [1, "end"]] as const).entries()) {
            say(...words);
            const expectedCount = [4, 5, 45, 47][i] as number;
            await until(() => here.list.length >= expectedCount);
            await until(() => there.list.length >= expectedCount, behind);
          }
          await until(() => here.ended() && there.ended(), behind);
          assert.deepEqual(there.list, here.list);
          assert.deepEqual(readIds(there.list), upTo(47));
          assert.deepEqual([findEndFrames(there.list).length, readStatus(there.list)], [1, "success"]);
          // Later readers get the same frames in each process.
          const again = collect((await second.runs.joinStream(thread_id, run.run_id)).frames);
          await until(again.ended);
          assert.deepEqual(again.list, here.list);
        });
      }
    });

    it("continue after the frame that a reader has seen in another process", async () => {
      await across({ mode, concurrency: [1, 0, 0] }, async ({ first, second, services, started, say, until }) => {
        const { thread_id, run_id } = await started();
        const here = collect((await first.runs.joinStream(thread_id, run_id)).frames);
        say(9);
        await until(() => here.list.length === 10);
        const resume = async (service: Service, frameCount: number): Promise<ReturnType<typeof collect>> =>
          collect((await service.runs.joinStream(thread_id, run_id, { after: frameCount })).frames);
        const readers = [
          await resume(second, 4),
          await resume(second, 0),
          await resume(services[2] as Service, 10),
          await resume(services[2] as Service, 7),
        ];
        await until(() => readers.every(({ list }, i) => list.length === [6, 10, 0, 3][i]), behind);
        say(5);
        await until(() => here.list.length === 15);
        await until(() => readers.every(({ list }) => list.at(-1)?.id === 15), behind);
        const late = await resume(second, 12);
        say("end");
        await until(() => [here, late, ...readers].every(({ ended }) => ended()));
        for (const [i, frameCount] of [4, 0, 10, 7].entries())
          assert.deepEqual(readers[i]?.list, here.list.slice(frameCount));
        assert.deepEqual(late.list, here.list.slice(12));
      });
    });

    it("return results of runs that another process executes, to waits and joins", async () => {
      await across({ mode }, async ({ first, second, say, until, started }) => {
        const results: unknown[] = [];
        const stateless = await second.runs.wait(null, ask());
        void stateless.result.then((result) => results.push(result));
        say(2, "end");
        await until(() => results.length === 1, 3_000 + behind);
        assert.deepEqual(results[0], { count: 2 });
        const { thread_id, run_id } = await started();
        const joined = await second.runs.join(thread_id, run_id);
        void joined.result.then((result) => results.push(result));
        const here = await first.runs.join(thread_id, run_id);
        say(1, "fail");
        await here.result;
        await until(() => results.length === 2, behind);
        assert.deepEqual(results[1], { __error__: { error: "RangeError", message: "too far" } });
      });
    });

    it("stop a run that another process executes, and abort its signal", async () => {
      await across({ mode }, async ({ second, clock, started, say, until, happened, storage }) => {
        const { thread_id, run_id } = await started();
        const there = collect((await second.runs.joinStream(thread_id, run_id)).frames);
        say(2);
        await until(() => there.list.length === 3);
        const requestedAt = clock.now();
        await second.runs.cancel(thread_id, run_id);
        await until(() => happened.some(({ what }) => what === "aborted"), ABORTED[mode]);
        const { reason, at, process } = happened.at(-1) as (typeof happened)[number];
        assert.deepEqual([reason, process], ["cancelled", 0]);
        assert.ok(at - requestedAt <= ABORTED[mode]);
        await until(there.ended, behind);
        assert.deepEqual([readStatus(there.list), findEndFrames(there.list).length], ["interrupted", 1]);
        assert.equal((await storage.getRun(SCOPE, run_id))?.status, "interrupted");
      });
    });

    it("roll back and delete runs that another process executes, and notify readers in each process", async () => {
      for (const how of ["rollback", "delete"] as const) {
        await across({ mode }, async ({ first, second, started, say, until, happened, storage }) => {
          const { thread_id, run_id } = await started();
          const readers = [first, second].map((service) => service.runs.joinStream(thread_id, run_id));
          const [here, there] = (await Promise.all(readers)).map(({ frames }) => collect(frames));
          say(2);
          await until(() => here?.list.length === 3 && there?.list.length === 3);
          if (how === "delete") await second.threads.delete(thread_id);
          else await second.runs.cancel(thread_id, run_id, { action: "rollback" });
          await until(() => happened.some(({ what }) => what === "aborted"), ABORTED[mode]);
          await until(() => here?.ended() && there?.ended(), behind);
          for (const reader of [here, there]) {
            assert.deepEqual(
              [readStatus(reader?.list ?? []), findEndFrames(reader?.list ?? []).length],
              ["rollback", 1],
            );
          }
          assert.equal(await storage.getRun(SCOPE, run_id), null);
        });
      }
    });

    it("start runs at once that a process without worker created", async () => {
      await across({ mode, concurrency: [0, 2] }, async ({ first, until, happened }) => {
        const { thread_id } = await first.threads.create();
        const { run_id } = await first.runs.create(thread_id, ask());
        await until(() => happened.length === 1, mode === "normal" || mode === "doubled" ? 50 : 2_100);
        assert.deepEqual([happened[0]?.run_id, happened[0]?.process], [run_id, 1]);
        const [batched] = await first.runs.createBatch([ask()]);
        await until(() => happened.length === 2, mode === "normal" || mode === "doubled" ? 50 : 2_100);
        assert.equal(happened[1]?.run_id, batched?.run_id);
      });
    });

    it("start a queued run as soon as its thread is unlocked", async () => {
      await across({ mode, concurrency: [1, 1] }, async ({ second, started, say, until, pass, happened }) => {
        const { thread_id, run_id } = await started();
        const first = happened[0]?.process;
        const next = await second.runs.create(thread_id, ask());
        await pass(50);
        say("end");
        const took = await until(() => happened.length === 2, 2_200);
        assert.equal(happened[1]?.run_id, next.run_id);
        if (mode === "normal") assert.ok(took <= 50, `after ${took} ms`);
        assert.notEqual(run_id, next.run_id);
        assert.equal(first, 0);
        say("end");
      });
    });

    it("show the runs of a thread, wherever they were created and execute", async () => {
      await across({ mode, concurrency: [1, 0, 0] }, async ({ first, second, services, say, until }) => {
        const { thread_id } = await first.threads.create();
        const open = async (service: Service): Promise<ReturnType<typeof collect>> =>
          collect(
            await service.threads.stream(thread_id, {
              modes: ["run_modes", "lifecycle"],
              after: { seq: 0, frame: 0, at: 0 },
            }),
          );
        const readers = [await open(first), await open(second), await open(services[2] as Service)];
        const length = (): number => readers[0]?.list.length ?? 0;
        for (const [i, service] of services.entries()) {
          await service.runs.create(thread_id, ask());
          say(2, "end");
          await until(() => length() === 6 * (i + 1), 5_000);
          await until(() => readers.every(({ list }) => list.length === length()), 2 * behind);
        }
        for (const { list } of readers) assert.deepEqual(list, readers[0]?.list);
        await second.threads.delete(thread_id);
        await until(() => readers.every(({ ended }) => ended()), behind);
      });
    });

    it("show a thread from now on as the executing process does", async () => {
      await across({ mode }, async ({ first, second, started, say, until }) => {
        const { thread_id, run_id } = await started();
        const joined = collect((await second.runs.joinStream(thread_id, run_id)).frames);
        say(4);
        await until(() => joined.list.length === 5);
        const otherProcesses = await collectFromBoth(first, second, thread_id);
        say(2, "end");
        await until(() => otherProcesses.every(({ list }) => list.length === 3), 2 * behind);
        for (const { list } of otherProcesses) assert.deepEqual(list, otherProcesses[0]?.list);
      });
    });

    it("stop a run after its reader left another process, with cancel_on_disconnect", async () => {
      for (const how of ["stream", "wait", "join"] as const) {
        await across({ mode }, async ({ second, say, until, happened }) => {
          const { thread_id } = await second.threads.create();
          const request = ask({ on_disconnect: how === "join" ? "continue" : "cancel" });
          if (how === "wait") {
            const { leave } = await second.runs.wait(thread_id, request);
            await until(() => happened.length === 1);
            leave();
          } else {
            const createdRun = await second.runs.stream(thread_id, request);
            const { run_id } = createdRun.run;
            const { frames } =
              how === "join"
                ? await second.runs.joinStream(thread_id, run_id, { cancel_on_disconnect: true })
                : createdRun;
            const reader = frames[Symbol.asyncIterator]();
            let seenFrames = 0;
            void reader.next().then(() => seenFrames++);
            say(1);
            await until(() => seenFrames === 1 && happened.length === 1);
            await reader.return?.();
          }
          await until(() => happened.length === 2, ABORTED[mode]);
          assert.deepEqual([happened[1]?.what, happened[1]?.reason], ["aborted", "cancelled"]);
        });
      }
    });

    it("claim the requeued runs of a process that stops, and its readers elsewhere continue", async () => {
      await across(
        { mode, concurrency: [1, 1, 0] },
        async ({ first, second: secondProcess, services, started, say, until, happened }) => {
          const { thread_id, run_id } = await started();
          const third = services[2] as Service;
          const readers = [secondProcess, third].map((service) => service.runs.joinStream(thread_id, run_id));
          const [second, last] = (await Promise.all(readers)).map(({ frames }) => collect(frames));
          const ownFrames = collect((await first.runs.joinStream(thread_id, run_id)).frames);
          say(3);
          await until(() => [ownFrames, second, last].every((reader) => reader?.list.length === 4));
          let stopped = false;
          void first.stop(0).then(() => {
            stopped = true;
          });
          await until(() => stopped && ownFrames.ended());
          assert.deepEqual(findEndFrames(ownFrames.list), []);
          const countStarted = (): number => happened.filter(({ what }) => what === "begins").length;
          await until(() => countStarted() === 2, mode === "normal" ? 50 : 2_100);
          assert.equal(happened.at(-1)?.process, 1);
          say(2, "end");
          await until(() => second?.ended() && last?.ended(), 100 + behind);
          assert.deepEqual(last?.list, second?.list);
          assert.deepEqual(readIds(last?.list ?? []), upTo(8));
          assert.deepEqual(
            last?.list.filter(({ event }) => event === "metadata").map(({ data }) => JSON.parse(data).attempt),
            [1, 1],
          );
          assert.equal(readStatus(last?.list ?? []), "success");
        },
      );
    });
  });
}

async function collectFromBoth(
  first: Service,
  second: Service,
  thread_id: string,
): Promise<ReturnType<typeof collect>[]> {
  return [collect(await first.threads.stream(thread_id)), collect(await second.threads.stream(thread_id))];
}

describe("processes that share a database", () => {
  it("start a delayed run in time, also if a process without worker created it", async () => {
    await across({ concurrency: [0, 1] }, async ({ first, until, happened }) => {
      await first.runs.create(null, ask({ after_seconds: 5.01 }));
      const took = await until(() => happened.length === 1);
      assert.ok(took >= 5_000 && took <= 5_100, `after ${took} ms`);
    });
  });

  it("stop a run before the result of its creation has arrived at the executing process", async () => {
    const gate = Promise.withResolvers<void>();
    const storage: ProcessesOptions["storage"] = (real, process) => ({
      ...real,
      async createRun(scope, request) {
        const outcome = await real.createRun(scope, request);
        if (process === 0) await gate.promise;
        return outcome;
      },
    });
    await across({ storage }, async ({ first, second, storage: shared, until, pass, happened }) => {
      const { thread_id } = await first.threads.create();
      void first.runs.create(thread_id, ask());
      await pass(50);
      const [run] = await shared.listRuns(SCOPE, thread_id, { limit: 1, offset: 0 });
      assert.equal(run?.status, "running");
      await second.runs.cancel(thread_id, run.run_id);
      await pass(50);
      gate.resolve();
      await until(() => happened.length === 2, 100);
      assert.deepEqual([happened[1]?.what, happened[1]?.reason], ["aborted", "cancelled"]);
    });
  });

  it("claim the runs of a dead process, although their worker slots are always taken", async () => {
    let first: Faulty | undefined;
    const storage = (real: Storage, process: number): Storage => {
      if (process > 0) return real;
      first = createFaultyStorage(real);
      return first.storage;
    };
    await across({ concurrency: [1, 1], storage }, async ({ second, started, clock, say, pass }) => {
      const remainingRun = await started();
      kill(first as Faulty);
      const isLeft = async (): Promise<boolean> =>
        (await second.runs.get(remainingRun.thread_id, remainingRun.run_id)).status !== "success";
      const began = clock.now();
      // A run ends every second, and others always wait for its worker slot.
      while ((await isLeft()) && clock.now() - began < 60_000) {
        while ((await second.metrics()).runs.pending < 2) await second.runs.create(null, ask());
        await pass(1_000);
        say("end");
      }
      assert.equal(await isLeft(), false);
    });
  });

  it("leave only those runs to others for which they have no worker slot", async () => {
    await across({ concurrency: [2, 2] }, async ({ first, until, happened, hub }) => {
      const offers = (): number => hub.published.filter(([kind]) => kind === "work").length;
      const before = offers();
      for (let n = 1; n <= 2; n++) {
        await first.runs.create(null, ask());
        await until(() => happened.length === n);
        assert.equal(offers(), before, "nobody is to look for what starts here");
      }
      await first.runs.create(null, ask());
      await until(() => happened.length === 3, 50);
      assert.equal(offers(), before + 1);
      assert.deepEqual(
        happened.map(({ process }) => process),
        [0, 0, 1],
      );
    });
  });

  it("ignore their own signals", async () => {
    const calls: string[] = [];
    const storage: ProcessesOptions["storage"] = (real, process) =>
      new Proxy(real, {
        get(target, name) {
          const verb: unknown = Reflect.get(target, name);
          if (typeof verb !== "function") return verb;
          return (...args: unknown[]): unknown => {
            calls.push(`${process} ${String(name)}`);
            return verb(...args);
          };
        },
      });
    await across({ storage }, async ({ first, second, say, until, pass, storage: shared }) => {
      const { thread_id } = await second.threads.create();
      await pass(2_500);
      const { frames } = await first.runs.stream(thread_id, ask());
      const here = collect(frames);
      calls.length = 0;
      for (let i = 1; i <= 5; i++) {
        say(2);
        await until(() => here.list.length === 1 + 2 * i);
      }
      say("end");
      await until(here.ended);
      await pass(100);
      const otherCalls = /^\d (?:saveProgress|finishRun|now)$/;
      assert.deepEqual(
        calls.filter((call) => !otherCalls.test(call)),
        [],
      );
      assert.equal((await shared.listRuns(SCOPE, thread_id, { limit: 1, offset: 0 }))[0]?.status, "success");
    });
  });

  it("check everything after missed signals", async () => {
    await across({ mode: "lost", concurrency: [0, 1] }, async ({ first, second, hub, until, pass, happened, say }) => {
      const { thread_id } = await second.threads.create();
      const { run_id } = await first.runs.create(thread_id, ask());
      hub.missed();
      await until(() => happened.length === 1, 50);
      await pass(30);
      const there = collect((await first.runs.joinStream(thread_id, run_id)).frames);
      await until(() => there.list.length === 1, 50);
      say(2);
      await pass(30);
      hub.missed();
      await until(() => there.list.length === 3, 50);
      await first.runs.cancel(thread_id, run_id);
      hub.missed();
      await until(() => happened.length === 2, 50);
      await pass(30);
      hub.missed();
      await until(there.ended, 50);
    });
  });

  it("use the database clock, however far their own clocks differ", async () => {
    for (const skew of [
      [5_000, -5_000],
      [-5_000, 5_000],
    ]) {
      await across(
        { mode: "lost", concurrency: [1, 1], skew },
        async ({ first, second, clock, until, pass, happened, say }) => {
          assert.ok([first, second].every((it) => Math.abs(serviceInternals(it).environment.now() - clock.now()) <= 1));
          const { thread_id } = await first.threads.create();
          const run = await first.runs.create(thread_id, ask());
          assert.ok(Math.abs(Date.parse(run.created_at) - clock.now()) <= 1);
          await until(() => happened.length === 1);
          // No process takes the run for abandoned, however long it executes.
          await pass(25_000);
          assert.equal(happened.length, 1);
          say("end");
          const later = await second.runs.create(null, ask({ after_seconds: 5.01 }));
          const took = await until(() => happened.length === 2, 8_000);
          assert.equal(happened[1]?.run_id, later.run_id);
          assert.ok(took >= 5_000 && took <= 5_200, `after ${took} ms`);
          say("end");
        },
      );
    }
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import type { ExecutorEvent, Job } from "../../../lib/executor/contract.ts";
import { recordStates } from "../../../lib/executor/state-recorder.ts";
import {
  type Executor,
  type Frame,
  type FunctionJob,
  fromFunctions,
  type Json,
  type JsonObject,
} from "../../../lib/mod.ts";
import type { FinishRun, Progress } from "../../../lib/storage/mod.ts";
import { testClock } from "../../suite/kit.ts";
import { advanceUntil, clockedService, collect, type Faulty, faulty, kill } from "../../support/faulty.ts";

const ask = (assistant_id: string): { assistant_id: string; input: JsonObject } => ({ assistant_id, input: {} });
const resumable = { stream_resumable: true, stream_mode: "custom" } as const;

/** An executor of one graph `g` without checkpoints of its own. */
function graph(
  execute: (job: Job, signal: AbortSignal) => AsyncIterable<ExecutorEvent>,
  info: { max_attempts?: number; timeout_ms?: number; abandon_ms?: number } = {},
): Executor {
  return { graphs: () => [{ graph_id: "g", ...info }], execute: recordStates(execute) };
}

const custom = (data: Json): ExecutorEvent => ({ type: "stream", mode: "custom", data });
const state = (values: Json, next: readonly string[] = []): ExecutorEvent => ({
  type: "state",
  values,
  next,
  tasks: [],
});
const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve());
  });
const hasState = async ({ storage }: Faulty, thread_id: string): Promise<boolean> =>
  (await storage.getCheckpoint({ deployment: "default" }, thread_id, { ns: "" })) !== null;
const shown = (frames: readonly Frame[]): unknown[] => frames.map(({ event, data }) => [event, JSON.parse(data)]);
const ids = (frames: readonly Frame[]): unknown[] => frames.map(({ id }) => id);

describe("frames of a resumable run", () => {
  it("reach readers once they are stored, with the checkpoints made before them", async () => {
    const clock = testClock();
    const { storage, faults } = faulty();
    const go = Promise.withResolvers<void>();
    await using kit = await clockedService(clock, {
      storage,
      executor: graph(async function* () {
        yield state({ at: 1 }, ["more"]);
        yield custom("a");
        yield custom("b");
        await go.promise;
        yield state({ at: 2 });
      }),
    });
    const { thread_id } = await kit.service.threads.create();
    let gate = Promise.withResolvers<void>();
    let saves = 0;
    faults.saveProgress = async (call) => {
      saves++;
      await gate.promise;
      return call();
    };
    const { run, frames } = await kit.service.runs.stream(thread_id, { ...ask("g"), ...resumable });
    const read = collect(frames);
    await advanceUntil(clock, () => saves === 1);
    assert.deepEqual(read.list, []);
    gate.resolve();
    gate = Promise.withResolvers<void>();
    await advanceUntil(clock, () => saves === 2);
    assert.deepEqual(
      read.list.map(({ event }) => event),
      ["metadata"],
    );
    gate.resolve();
    await advanceUntil(clock, () => read.list.length === 3);
    const stored = await storage.readFrames({ deployment: "default" }, run.run_id, 0);
    assert.deepEqual(
      stored.map(({ id, event, data }) => ({ id, event, data })),
      read.list,
    );
    assert.deepEqual((await kit.service.threads.state(thread_id)).values, { at: 1 });
    go.resolve();
    await advanceUntil(clock, read.ended);
    assert.deepEqual(ids(read.list), [1, 2, 3, 4]);
    const again = collect((await kit.service.runs.joinStream(thread_id, run.run_id)).frames);
    await advanceUntil(clock, again.ended);
    assert.deepEqual(again.list, read.list);
  });

  it("are shown once and in order though every verb of the storage fails once, and the run executes once", async () => {
    const clock = testClock();
    const { storage, faults } = faulty();
    let executions = 0;
    await using kit = await clockedService(clock, {
      storage,
      executor: graph(async function* () {
        executions++;
        for (let i = 0; i < 20; i++) {
          yield custom(i);
          yield state({ at: i }, i === 19 ? [] : ["more"]);
          await new Promise<void>((resolve) => void clock.timer(100, resolve));
        }
      }),
    });
    const { thread_id } = await kit.service.threads.create();
    const failed: string[] = [];
    const verbs = ["renewLease", "saveProgress", "finishRun", "getCheckpoint", "claimRun"] as const;
    for (const late of [false, true]) {
      executions = 0;
      for (const verb of verbs) {
        let first = true;
        faults[verb] = async (call) => {
          if (!first) return call();
          first = false;
          failed.push(verb);
          // The last ones took effect, and nobody was told.
          if (late) await call();
          throw new Error(`${verb} failed`);
        };
      }
      const { frames } = await kit.service.runs.stream(thread_id, { ...ask("g"), ...resumable });
      const read = collect(frames);
      await advanceUntil(clock, read.ended);
      for (const verb of verbs) delete faults[verb];
      assert.equal(executions, 1);
      assert.deepEqual(
        ids(read.list),
        read.list.map((_, i) => i + 1),
      );
      assert.deepEqual(
        shown(read.list)
          .slice(1, -1)
          .map((entry) => (entry as [string, number])[1]),
        Array.from({ length: 20 }, (_, i) => i),
      );
      assert.equal(read.list.at(-1)?.event, "end");
      assert.equal(read.list.at(-1)?.data.includes("success"), true);
      assert.deepEqual((await kit.service.threads.state(thread_id)).values, { at: 19 });
    }
    assert.deepEqual(new Set(failed), new Set(verbs));
  });

  it("are not shown when they could not be stored before the lease was lost", async () => {
    const clock = testClock();
    const { storage, faults } = faulty();
    await using kit = await clockedService(clock, {
      storage,
      executor: graph(async function* (_job, signal) {
        yield custom("stored");
        await new Promise<void>((resolve) => void clock.timer(1_000, resolve));
        yield custom("never stored");
        await aborted(signal);
      }),
    });
    const { thread_id } = await kit.service.threads.create();
    const { frames } = await kit.service.runs.stream(thread_id, { ...ask("g"), ...resumable });
    const read = collect(frames);
    await advanceUntil(clock, () => read.list.length === 2);
    faults.saveProgress = async () => false;
    await clock.advance(2_000);
    await kit.service.threads.delete(thread_id);
    await advanceUntil(clock, read.ended);
    assert.deepEqual(
      read.list.map(({ event }) => event),
      ["metadata", "custom", "error", "end"],
    );
  });

  it("make the executor wait when too many are not stored", async () => {
    const clock = testClock();
    const { storage, faults } = faulty();
    let yielded = 0;
    await using kit = await clockedService(clock, {
      storage,
      executor: graph(async function* () {
        const text = "x".repeat(10_000);
        for (; yielded < 500; yielded++) yield custom(text);
        yield state({});
      }),
    });
    const { thread_id } = await kit.service.threads.create();
    const gate = Promise.withResolvers<void>();
    faults.saveProgress = async (call) => {
      await gate.promise;
      return call();
    };
    const { result } = await kit.service.runs.wait(thread_id, { ...ask("g"), ...resumable });
    let over = false;
    void result.then(() => {
      over = true;
    });
    await clock.advance(3_000);
    assert.ok(yielded > 50 && yielded < 250, `${yielded} frames of 10 kB are held`);
    gate.resolve();
    await advanceUntil(clock, () => over);
    assert.equal(yielded, 500);
  });

  it("are stored while the run goes on also where checkpoints wait for its end", async () => {
    const clock = testClock();
    const { storage } = faulty();
    const go = Promise.withResolvers<void>();
    await using kit = await clockedService(clock, {
      storage,
      executor: graph(async function* () {
        yield state({ at: 1 }, ["more"]);
        yield custom("a");
        await go.promise;
        yield state({ at: 2 });
      }),
    });
    const { thread_id } = await kit.service.threads.create();
    const request = { ...ask("g"), ...resumable, durability: "exit" } as const;
    const { run, frames } = await kit.service.runs.stream(thread_id, request);
    const read = collect(frames);
    await advanceUntil(clock, () => read.list.length === 2);
    await clock.advance(1_000);
    assert.equal((await storage.readFrames({ deployment: "default" }, run.run_id, 0)).length, 2);
    assert.equal(await storage.getCheckpoint({ deployment: "default" }, thread_id, { ns: "" }), null);
    go.resolve();
    await advanceUntil(clock, read.ended);
    assert.deepEqual((await kit.service.threads.state(thread_id)).values, { at: 2 });
  });

  it("leaves one checkpoint a run with durability exit, where it ended or failed, and none where it was cut off", async () => {
    const clock = testClock();
    let hangs = false;
    const log = (end: number): string[] => Array.from({ length: end }, (_, n) => `line ${n} of a long enough log`);
    await using kit = await clockedService(clock, {
      executor: graph(async function* (job, signal) {
        const { how, from } = job.input as { how: string; from: number };
        for (let n = from + 1; n <= from + 3; n++) yield state({ log: log(100 * n), n, [how]: n }, ["more"]);
        if (how === "fail") throw new Error("no more");
        hangs = how === "hang";
        if (hangs) await new Promise((resolve) => signal.addEventListener("abort", resolve));
        yield state({ log: log(100 * (from + 4)), how });
      }),
    });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const executed = async (how: string, from: number): Promise<string> => {
      const request = { ...ask("g"), input: { how, from }, durability: "exit" } as const;
      const { run, result } = await runs.wait(thread_id, request);
      if (how === "hang") {
        await advanceUntil(clock, () => hangs);
        await runs.cancel(thread_id, run.run_id);
      }
      let ended = false;
      void result.then(() => {
        ended = true;
      });
      await advanceUntil(clock, () => ended);
      return (await runs.get(thread_id, run.run_id)).status;
    };
    const history = async (): Promise<unknown[]> =>
      (await threads.history(thread_id, { limit: 100 })).map(({ values, parent_checkpoint, checkpoint }) => {
        const { log: lines, ...rest } = values as { log: string[] };
        return [rest, lines.length, parent_checkpoint?.checkpoint_id ?? null, checkpoint?.checkpoint_id];
      });
    assert.equal(await executed("end", 0), "success");
    const [first] = await history();
    assert.deepEqual((first as unknown[]).slice(0, 3), [{ how: "end" }, 400, null]);
    assert.equal(await executed("hang", 4), "interrupted");
    assert.deepEqual([await history(), (await threads.get(thread_id)).status], [[first], "idle"]);
    assert.equal(await executed("fail", 4), "error");
    const [second, ...rest] = await history();
    assert.deepEqual(rest, [first]);
    assert.deepEqual((second as unknown[]).slice(0, 3), [{ n: 7, fail: 7 }, 700, (first as unknown[])[3]]);
    assert.equal(await executed("end", 8), "success");
    const [third, ...others] = await history();
    assert.deepEqual(others, [second, first]);
    assert.deepEqual((third as unknown[]).slice(0, 3), [{ how: "end" }, 1200, (second as unknown[])[3]]);
  });
});

describe("a recorded state", () => {
  it("that has what is not JSON fails the run at once", async () => {
    const clock = testClock();
    await using kit = await clockedService(clock, {
      executor: graph(async function* () {
        yield state({ kept: 1, gone: undefined } as unknown as JsonObject);
      }),
    });
    const { thread_id } = await kit.service.threads.create();
    const { result } = await kit.service.runs.wait(thread_id, ask("g"));
    let values: unknown;
    void result.then((given) => {
      values = given;
    });
    await advanceUntil(clock, () => values !== undefined);
    const message = "values.gone: is undefined, which JSON does not have";
    assert.deepEqual(values, { __error__: { error: "TypeError", message } });
  });

  it("is the newest alone where a run of durability exit is put back", async () => {
    const clock = testClock();
    const first = faulty();
    const second = first.share();
    let taken = false;
    const executor = graph(async function* ({ resumed }, signal) {
      for (const n of resumed ? [3, 4] : [0, 1, 2]) yield state({ n }, ["more"]);
      taken = true;
      if (!resumed) await new Promise((resolve) => signal.addEventListener("abort", resolve));
    });
    const stopped = await clockedService(clock, { storage: second.storage, executor });
    const { thread_id } = await stopped.service.threads.create();
    const { run_id } = await stopped.service.runs.create(thread_id, { ...ask("g"), durability: "exit" });
    await advanceUntil(clock, () => taken);
    await stopped[Symbol.asyncDispose]();
    await using kit = await clockedService(clock, { storage: first.storage, executor });
    await advanceUntil(clock, async () => (await kit.service.runs.get(thread_id, run_id)).status === "success");
    const history = await kit.service.threads.history(thread_id);
    assert.deepEqual(
      history.map(({ values }) => values),
      [{ n: 4 }, { n: 2 }],
    );
  });

  it("is kept with durability exit when its executor ignores the time limit, and dropped when it ignores a cancel", async () => {
    for (const [timeout_ms, expected] of [
      [1_000, { n: 1 }],
      [60_000, null],
    ] as const) {
      const clock = testClock();
      let asked = false;
      const executor = graph(
        async function* () {
          for (const n of [0, 1]) yield state({ n }, ["more"]);
          asked = true;
          await new Promise(() => {});
        },
        { timeout_ms, abandon_ms: 500 },
      );
      await using kit = await clockedService(clock, { executor });
      const { threads, runs } = kit.service;
      const { thread_id } = await threads.create();
      const { run_id } = await runs.create(thread_id, { ...ask("g"), durability: "exit" });
      await advanceUntil(clock, () => asked);
      if (expected === null) await runs.cancel(thread_id, run_id);
      await advanceUntil(
        clock,
        async () => !["pending", "running"].includes((await runs.get(thread_id, run_id)).status),
      );
      assert.deepEqual((await threads.state(thread_id)).values, expected ?? {});
    }
  });

  it("is stored in one batch with the frames that show it", async () => {
    const clock = testClock();
    const { storage, faults } = faulty();
    const text = "x".repeat(100_000);
    await using kit = await clockedService(clock, {
      storage,
      executor: graph(async function* () {
        for (let n = 0; n < 20; n++) {
          const values = { n, text: text + n };
          yield {
            ...state(values, n === 19 ? [] : ["more"]),
            frames: [{ type: "stream", mode: "values", data: values }],
          } as ExecutorEvent;
        }
      }),
    });
    const batches: (readonly [frames: number, states: number])[] = [];
    const count = ({ frames, checkpoints }: Progress): void => {
      const values = frames?.list.filter(({ event }) => event === "values").length ?? 0;
      batches.push([values, checkpoints.length]);
    };
    faults.saveProgress = (call, args) => {
      count(args[2] as Progress);
      return call();
    };
    faults.finishRun = (call, args) => {
      count((args[2] as FinishRun).progress);
      return call();
    };
    const { thread_id } = await kit.service.threads.create();
    const request = { ...ask("g"), stream_resumable: true, stream_mode: "values" } as const;
    const read = collect((await kit.service.runs.stream(thread_id, request)).frames);
    await advanceUntil(clock, read.ended);
    assert.ok(batches.length > 2, "several saves");
    assert.deepEqual(
      batches.map(([frames]) => frames),
      batches.map(([, states]) => states),
    );
    assert.equal(
      batches.reduce((sum, [frames]) => sum + frames, 0),
      20,
    );
  });
});

describe("a later attempt", () => {
  const stepping = (seen: string[], waits: (job: FunctionJob) => Promise<void>): Executor =>
    fromFunctions({
      async *g(job: FunctionJob) {
        seen.push(`attempt ${job.attempt}${job.resumed ? " resumed" : ""}`);
        yield { step: 1 };
        await waits(job);
        yield { step: 2 };
      },
    });

  it("goes on in the same numbers, says so, and shows once the state that it goes on from", async () => {
    const clock = testClock();
    const first = faulty();
    const second = first.share();
    const seen: string[] = [];
    const request = { ...ask("g"), stream_resumable: true, stream_mode: ["values", "updates"] as const };
    const hang = { executor: stepping(seen, () => new Promise(() => {})) };
    const dead = await clockedService(clock, { ...hang, storage: first.storage });
    const { thread_id } = await dead.service.threads.create();
    const { run, frames } = await dead.service.runs.stream(thread_id, {
      ...request,
      stream_mode: ["values", "updates"],
    });
    const before = collect(frames);
    await advanceUntil(clock, () => before.list.some(({ event }) => event === "updates"));
    kill(first);
    await using alive = await clockedService(clock, {
      storage: second.storage,
      executor: stepping(seen, async () => {}),
    });
    const joined = await alive.service.runs.joinStream(thread_id, run.run_id);
    const read = collect(joined.frames);
    await advanceUntil(clock, read.ended);
    assert.deepEqual(seen, ["attempt 1", "attempt 2 resumed"]);
    assert.deepEqual(
      ids(read.list),
      read.list.map((_, i) => i + 1),
    );
    const again = read.list.findIndex(({ event }, i) => i > 0 && event === "metadata");
    assert.deepEqual(read.list.slice(0, again), before.list, "the same bytes for every reader");
    assert.deepEqual(JSON.parse(read.list[again]?.data as string), {
      run_id: run.run_id,
      attempt: 2,
      thread_id,
      resumed_after: again,
    });
    assert.deepEqual(
      shown(read.list.slice(again + 1, again + 3)).map((entry) => (entry as [string])[0]),
      ["values", "updates"],
      "the state it goes on from comes once",
    );
  });

  it("shows the state that it goes on from where the executor does not", async () => {
    const clock = testClock();
    const first = faulty();
    const second = first.share();
    const silent = graph(async function* (job, signal) {
      if (!job.resumed) {
        yield state({ at: 1 }, ["more"]);
        await aborted(signal);
      } else {
        yield { type: "stream", mode: "updates", data: { more: null } };
        yield state({ at: 2 });
      }
    });
    const dead = await clockedService(clock, { executor: silent, storage: first.storage });
    const { thread_id } = await dead.service.threads.create();
    const run = await dead.service.runs.create(thread_id, { ...ask("g"), stream_mode: ["values", "updates"] });
    await advanceUntil(clock, () => hasState(first, thread_id));
    kill(first);
    await using alive = await clockedService(clock, { executor: silent, storage: second.storage });
    const read = collect((await alive.service.runs.joinStream(thread_id, run.run_id)).frames);
    await advanceUntil(clock, read.ended);
    assert.deepEqual(shown(read.list), [
      ["metadata", { run_id: run.run_id, attempt: 2, thread_id, resumed_after: 2 ** 32 }],
      ["values", { at: 1 }],
      ["updates", { more: null }],
      ["end", { run_id: run.run_id, status: "success" }],
    ]);
  });

  it("charges no attempt after a shut-down, and tells readers nothing there", async () => {
    const clock = testClock();
    const first = faulty();
    const second = first.share();
    first.faults.close = async () => {};
    const seen: string[] = [];
    const hang = stepping(seen, (job) => aborted(job.signal).then(() => job.signal.throwIfAborted()));
    const one = await clockedService(clock, { executor: hang, storage: first.storage });
    const { thread_id } = await one.service.threads.create();
    const request = { ...ask("g"), stream_resumable: true };
    const { run, frames } = await one.service.runs.stream(thread_id, request);
    const before = collect(frames);
    await advanceUntil(clock, () => before.list.length >= 3);
    let stopped = false;
    void one.service.stop(1_000).then(() => {
      stopped = true;
    });
    await advanceUntil(clock, () => stopped && before.ended());
    assert.ok(before.list.every(({ event }) => event !== "end" && event !== "error"));
    const row = await second.storage.getRun({ deployment: "default" }, run.run_id);
    assert.equal(row?.status, "pending");
    await using two = await clockedService(clock, {
      storage: second.storage,
      executor: stepping(seen, async () => {}),
    });
    const after = before.list.at(-1)?.id as number;
    const read = collect((await two.service.runs.joinStream(thread_id, run.run_id, { after })).frames);
    await advanceUntil(clock, read.ended);
    assert.deepEqual(seen, ["attempt 1", "attempt 1 resumed"]);
    assert.deepEqual(
      ids(read.list),
      read.list.map((_, i) => after + i + 1),
    );
    assert.deepEqual(JSON.parse(read.list[0]?.data as string)["resumed_after"], after);
  });
});

describe("a run that is stopped", () => {
  it("does not execute when it was cancelled before its worker knew of it", async () => {
    const clock = testClock();
    const { storage, faults } = faulty();
    let executions = 0;
    await using kit = await clockedService(clock, {
      storage,
      executor: graph(async function* () {
        executions++;
        yield state({});
      }),
    });
    const { thread_id } = await kit.service.threads.create();
    const gate = Promise.withResolvers<void>();
    const made = Promise.withResolvers<void>();
    faults.createRun = async (call) => {
      const outcome = await call();
      made.resolve();
      await gate.promise;
      return outcome;
    };
    const creating = kit.service.runs.create(thread_id, ask("g"));
    await made.promise;
    const [run] = await kit.service.runs.list(thread_id);
    assert.equal(run?.status, "running");
    await kit.service.runs.cancel(thread_id, run?.run_id as string);
    gate.resolve();
    await creating;
    await advanceUntil(clock, () => executions > 0, 10, 50).catch(() => {});
    assert.equal(executions, 0);
    assert.equal((await kit.service.runs.get(thread_id, run?.run_id as string)).status, "interrupted");
  });

  it("does not execute when it was rolled back before its worker knew of it, and frees its thread", async () => {
    const clock = testClock();
    const { storage, faults } = faulty();
    const inputs: unknown[] = [];
    await using kit = await clockedService(clock, {
      storage,
      executor: graph(async function* (job) {
        inputs.push(job.input);
        yield state({});
      }),
    });
    const { thread_id } = await kit.service.threads.create();
    const gate = Promise.withResolvers<void>();
    const made = Promise.withResolvers<void>();
    faults.createRun = async (call) => {
      delete faults.createRun;
      const outcome = await call();
      made.resolve();
      await gate.promise;
      return outcome;
    };
    const creating = kit.service.runs.stream(thread_id, { assistant_id: "g", input: "first" });
    await made.promise;
    const request = { assistant_id: "g", input: "second", multitask_strategy: "rollback" } as const;
    const second = await kit.service.runs.wait(thread_id, request);
    gate.resolve();
    const read = collect((await creating).frames);
    await advanceUntil(clock, read.ended);
    // No timer is needed: the clock stands still.
    await second.result;
    assert.deepEqual(inputs, ["second"]);
    assert.deepEqual(
      read.list.map(({ event }) => event),
      ["error", "end"],
    );
  });

  it("has ended when its executor had, even if the service stops before that is stored", async () => {
    const clock = testClock();
    const first = faulty();
    first.faults.close = async () => {};
    const gate = Promise.withResolvers<void>();
    const saving = Promise.withResolvers<void>();
    first.faults.saveProgress = async (call) => {
      saving.resolve();
      await gate.promise;
      return call();
    };
    const kit = await clockedService(clock, {
      storage: first.storage,
      executor: graph(async function* () {
        yield state({ at: 1 }, ["more"]);
        await saving.promise;
        yield state({ at: 2 });
      }),
    });
    const { thread_id } = await kit.service.threads.create();
    const run = await kit.service.runs.create(thread_id, ask("g"));
    await advanceUntil(clock, () => (first.calls.saveProgress ?? 0) > 0);
    const stopped = kit.service.stop(0);
    await clock.advance(100);
    gate.resolve();
    await stopped;
    const row = await first.storage.getRun({ deployment: "default" }, run.run_id);
    assert.equal(row?.status, "success");
    assert.equal(row?.attempt, 1);
  });

  it("ends without executing when its worker is dead", async () => {
    const clock = testClock();
    const first = faulty();
    const second = first.share();
    let executions = 0;
    const executor = graph(async function* (_job, signal) {
      executions++;
      yield state({ at: 1 }, ["more"]);
      await aborted(signal);
    });
    const dead = await clockedService(clock, { executor, storage: first.storage });
    const { thread_id } = await dead.service.threads.create();
    const run = await dead.service.runs.create(thread_id, { ...ask("g"), stream_resumable: true });
    await advanceUntil(clock, () => hasState(first, thread_id));
    kill(first);
    await using alive = await clockedService(clock, { executor, storage: second.storage });
    let cancelled = false;
    void alive.service.runs.cancel(thread_id, run.run_id, { wait: true }).then(() => {
      cancelled = true;
    });
    await advanceUntil(clock, () => cancelled);
    assert.equal(executions, 1);
    assert.equal((await alive.service.runs.get(thread_id, run.run_id)).status, "interrupted");
    const thread = await alive.service.threads.get(thread_id);
    assert.equal(thread.status, "interrupted");
    assert.deepEqual(thread.values, { at: 1 });
    const read = collect((await alive.service.runs.joinStream(thread_id, run.run_id)).frames);
    await advanceUntil(clock, read.ended);
    assert.deepEqual(
      read.list.map(({ id, event }) => [id, event]),
      [
        [1, "metadata"],
        [2, "end"],
      ],
    );
  });

  it("shows nothing and writes nothing after an executor that ignores its signal was abandoned", async () => {
    const clock = testClock();
    const { storage, calls } = faulty();
    const late: unknown[] = [];
    const go = Promise.withResolvers<void>();
    const deaf: Executor = {
      graphs: () => [{ graph_id: "g" }],
      execute: recordStates(async function* (job) {
        yield custom("in time");
        await go.promise;
        try {
          await job.checkpoints.put({
            ns: "",
            checkpoint_id: "1f000000-0000-6000-8000-000000000001",
            parent_id: null,
            payload: { type: "json", data: "{}" },
            metadata: {},
            versions: {},
            values: [],
          });
        } catch (error) {
          late.push((error as Error).name);
        }
        yield custom("late");
        late.push("pulled again");
      }),
    };
    await using kit = await clockedService(clock, { storage, executor: deaf, worker: { concurrency: 1 } });
    const { thread_id } = await kit.service.threads.create();
    const { run, frames } = await kit.service.runs.stream(thread_id, { ...ask("g"), stream_mode: "custom" });
    const read = collect(frames);
    await advanceUntil(clock, () => read.list.length === 2);
    let cancelled = false;
    void kit.service.runs.cancel(thread_id, run.run_id, { wait: true }).then(() => {
      cancelled = true;
    });
    await clock.advance(4_000);
    assert.equal(cancelled, false);
    await advanceUntil(clock, () => cancelled);
    assert.equal((await kit.service.runs.get(thread_id, run.run_id)).status, "interrupted");
    const saves = calls.saveProgress;
    go.resolve();
    await clock.advance(1_000);
    assert.deepEqual(late, ["LeaseLost"]);
    assert.equal(calls.saveProgress, saves);
    assert.deepEqual(
      read.list.map(({ event }) => event),
      ["metadata", "custom", "end"],
    );
  });

  it("keeps its thread until its executor has settled, when it was rolled back", async () => {
    const clock = testClock();
    const log: string[] = [];
    const settle = Promise.withResolvers<void>();
    await using kit = await clockedService(clock, {
      executor: graph(async function* (job, signal) {
        log.push(`begin ${JSON.stringify(job.input)}`);
        yield state({ by: job.input as Json }, ["more"]);
        yield custom("shown");
        if (job.input === "first") {
          await aborted(signal);
          log.push(`${signal.reason}`);
          await settle.promise;
          log.push("settled");
          yield custom("late");
        }
        yield state({ by: job.input as Json });
      }),
    });
    const { thread_id } = await kit.service.threads.create();
    const first = await kit.service.runs.stream(thread_id, { assistant_id: "g", input: "first", ...resumable });
    const read = collect(first.frames);
    await advanceUntil(clock, () => read.list.length === 2);
    const { result } = await kit.service.runs.wait(thread_id, {
      assistant_id: "g",
      input: "second",
      multitask_strategy: "rollback",
    });
    await advanceUntil(clock, read.ended);
    await clock.advance(2_000);
    assert.deepEqual(log, ['begin "first"', "rolled_back"]);
    settle.resolve();
    // No timer is needed: the clock stands still.
    assert.deepEqual(await result, { by: "second" });
    assert.deepEqual(log, ['begin "first"', "rolled_back", "settled", 'begin "second"']);
    assert.deepEqual(
      read.list.map(({ event }) => event),
      ["metadata", "custom", "error", "end"],
    );
    assert.equal(JSON.parse(read.list[2]?.data as string).error, "RunRolledBack");
    await assert.rejects(kit.service.runs.get(thread_id, first.run.run_id), { code: "not_found" });
    assert.equal((await kit.service.metrics()).worker.leases_lost, 0);
  });

  for (const multitask_strategy of ["interrupt", "rollback"] as const) {
    for (const [alone, abandon_ms, waits] of [
      [false, undefined, 5_000],
      [true, undefined, 1_000],
      [true, 3_000, 3_000],
    ] as const) {
      const own = abandon_ms === undefined ? "" : " as its graph says";
      const whose = alone ? "nobody else" : "somebody else";
      it(`holds up the run that stops it by ${multitask_strategy} for ${waits} ms where ${whose} can execute the thread${own}, and its readers learn why`, async () => {
        const clock = testClock();
        const real = nodeSqlite(":memory:");
        const late = Promise.withResolvers<void>();
        const began: Json[] = [];
        await using kit = await clockedService(clock, {
          storage: { ...real, single_process: alone },
          executor: graph(
            async function* (job) {
              began.push(job.input as Json);
              yield state({ by: job.input as Json }, ["more"]);
              if (job.input === "first") await late.promise;
              yield custom("late");
              yield state({ by: `${job.input} at its end` });
            },
            abandon_ms === undefined ? {} : { abandon_ms },
          ),
        });
        const { thread_id } = await kit.service.threads.create();
        const first = await kit.service.runs.create(thread_id, { assistant_id: "g", input: "first" });
        await advanceUntil(clock, () => began.length === 1);
        await clock.advance(100);
        const request = { assistant_id: "g", input: "second", multitask_strategy, stream_mode: "custom" } as const;
        const second = await kit.service.runs.stream(thread_id, request);
        const stopped = clock.now();
        const read = collect(second.frames);
        const { run_id } = second.run;
        await advanceUntil(clock, () => read.list.length === 1, 10);
        assert.deepEqual(read.list, [
          {
            id: null,
            event: "metadata",
            data: JSON.stringify({ run_id, thread_id, waiting_for: first.run_id, reason: "RunStopping" }),
          },
        ]);
        await clock.advance(stopped + waits - 1 - clock.now());
        assert.deepEqual(began, ["first"]);
        await advanceUntil(clock, () => began.length === 2, 1, 20);
        await advanceUntil(clock, read.ended);
        late.resolve();
        await clock.advance(1_000);
        assert.deepEqual(
          read.list.slice(1).map(({ id, event }) => [id, event]),
          [
            [1, "metadata"],
            [2, "custom"],
            [3, "end"],
          ],
        );
        assert.deepEqual((await kit.service.threads.get(thread_id)).values, { by: "second at its end" });
      });
    }
  }

  it("says nothing of it to readers of a run that waits for no longer than a moment", async () => {
    const clock = testClock();
    await using kit = await clockedService(clock, {
      executor: graph(async function* (job, signal) {
        if (job.input === "first") await aborted(signal);
        yield state({ by: job.input as Json });
      }),
    });
    const { thread_id } = await kit.service.threads.create();
    await kit.service.runs.create(thread_id, { assistant_id: "g", input: "first" });
    const request = { assistant_id: "g", input: "second", multitask_strategy: "interrupt" } as const;
    const { frames } = await kit.service.runs.stream(thread_id, request);
    const read = collect(frames);
    await advanceUntil(clock, read.ended);
    await clock.advance(1_000);
    assert.deepEqual(
      read.list.map(({ id, event }) => [id, event]),
      [
        [1, "metadata"],
        [2, "end"],
      ],
    );
  });

  it("gives its thread free after the abandon time, when it was rolled back and does not settle", async () => {
    const clock = testClock();
    const { storage, faults } = faulty();
    await using kit = await clockedService(clock, {
      storage,
      executor: graph(async function* (job) {
        yield state({ by: job.input as Json }, ["more"]);
        if (job.input === "first") await new Promise(() => {});
        yield state({ by: job.input as Json });
      }),
    });
    const { thread_id } = await kit.service.threads.create();
    await kit.service.runs.create(thread_id, { assistant_id: "g", input: "first" });
    await clock.advance(1_000);
    // The store fails when the slot is to be freed: that is tried again.
    let failures = 0;
    faults.releaseThreadLock = (call) => {
      if (failures++ < 2) throw new Error("disk hiccup");
      return call();
    };
    const request = { assistant_id: "g", input: "second", multitask_strategy: "rollback" } as const;
    const { result } = await kit.service.runs.wait(thread_id, request);
    let values: Json | undefined;
    void result.then((value) => {
      values = value;
    });
    await clock.advance(4_900);
    assert.equal(values, undefined);
    await advanceUntil(clock, () => values !== undefined, 100, 20);
    assert.deepEqual(values, { by: "second" });
    assert.equal(failures, 3);
  });

  it("ends as timeout with what its steps have done", async () => {
    const clock = testClock();
    const reasons: unknown[] = [];
    let entered = 0;
    const slow = (info: { timeout_ms?: number }): Executor =>
      graph(async function* (_job, signal) {
        entered++;
        yield state({ at: 1 }, ["more"]);
        await aborted(signal);
        reasons.push(signal.reason);
        throw signal.reason;
      }, info);
    for (const [executor, worker] of [
      [slow({ timeout_ms: 2_000 }), {}],
      [slow({}), { run_timeout_ms: 2_000 }],
    ] as const) {
      await using kit = await clockedService(clock, { executor, worker });
      const { thread_id } = await kit.service.threads.create();
      const { run, frames } = await kit.service.runs.stream(thread_id, ask("g"));
      const read = collect(frames);
      await advanceUntil(clock, () => entered > reasons.length, 1);
      await clock.advance(1_900);
      assert.equal(read.ended(), false);
      await advanceUntil(clock, read.ended);
      assert.deepEqual(shown(read.list.slice(-2)), [
        ["error", { error: "RunTimeout", message: "The run took longer than 2000 ms" }],
        ["end", { run_id: run.run_id, status: "timeout" }],
      ]);
      assert.equal((await kit.service.runs.get(thread_id, run.run_id)).status, "timeout");
      const thread = await kit.service.threads.get(thread_id);
      assert.equal(thread.status, "error");
      assert.deepEqual(thread.values, { at: 1 });
    }
    assert.deepEqual(reasons, ["timed_out", "timed_out"]);
  });
});

describe("an executor whose event cannot be taken", () => {
  it("is stopped and has settled before its run ends", async () => {
    const clock = testClock();
    const order: string[] = [];
    await using kit = await clockedService(clock, {
      executor: graph(async function* (_job, signal) {
        signal.addEventListener("abort", () => order.push("aborted"));
        try {
          yield { type: "nonsense" } as unknown as ExecutorEvent;
        } finally {
          order.push("left");
        }
      }),
    });
    const { result } = await kit.service.runs.wait(null, ask("g"));
    const ended = result.then((value) => {
      order.push("ended");
      return value as { __error__: JsonObject };
    });
    await advanceUntil(clock, () => order.includes("ended"));
    assert.match(String((await ended).__error__["message"]), /yielded something that is neither/);
    assert.deepEqual(order, ["aborted", "left", "ended"]);
  });
});

describe("a lease", () => {
  const waiting = (signals: AbortSignal[]): Executor =>
    graph(async function* (_job, signal) {
      signals.push(signal);
      yield state({ at: 1 }, ["more"]);
      await aborted(signal);
      throw signal.reason;
    });

  for (const [how, fault] of [
    ["fails", () => Promise.reject(new Error("no"))],
    ["is not answered", () => new Promise<never>(() => {})],
  ] as const) {
    it(`counts as lost shortly before it is over, when its renewal ${how}`, async () => {
      const clock = testClock();
      const { storage, faults } = faulty();
      const signals: AbortSignal[] = [];
      await using kit = await clockedService(clock, { storage, executor: waiting(signals) });
      const { thread_id } = await kit.service.threads.create();
      const run = await kit.service.runs.create(thread_id, ask("g"));
      await clock.advance(5_000);
      const renewed = clock.now() - 5_000 + 10_000 / 3;
      faults.renewLease = fault;
      await clock.advance(renewed + 8_500 - clock.now());
      assert.equal(signals[0]?.aborted, false, "too early");
      await clock.advance(1_400);
      assert.equal(signals[0]?.reason, "lease_lost");
      assert.equal((await kit.service.metrics()).worker.leases_lost, 1);
      delete faults.renewLease;
      await advanceUntil(clock, () => signals.length === 2);
      assert.equal((await storage.getRun({ deployment: "default" }, run.run_id))?.attempt, 2);
      await kit.service.runs.cancel(thread_id, run.run_id);
      await clock.advance(1_000);
    });
  }

  it("is kept when renewals fail for a while", async () => {
    const clock = testClock();
    const { storage, faults } = faulty();
    const signals: AbortSignal[] = [];
    await using kit = await clockedService(clock, { storage, executor: waiting(signals) });
    const { thread_id } = await kit.service.threads.create();
    const run = await kit.service.runs.create(thread_id, ask("g"));
    for (let i = 0; i < 5; i++) {
      faults.renewLease = () => Promise.reject(new Error("no"));
      await clock.advance(5_000);
      delete faults.renewLease;
      await clock.advance(5_000);
    }
    assert.equal(signals.length, 1);
    assert.equal(signals[0]?.aborted, false);
    await kit.service.runs.cancel(thread_id, run.run_id, { wait: true });
    assert.equal(signals[0]?.reason, "cancelled");
  });

  it("survives an event loop that stands still while it is renewed", async () => {
    const clock = testClock();
    const { storage, faults } = faulty();
    let skew = 0;
    const signals: AbortSignal[] = [];
    const environment = { ...clock, now: () => clock.now() + skew };
    await using kit = await clockedService(clock, { storage, executor: waiting(signals), environment });
    const { thread_id } = await kit.service.threads.create();
    const run = await kit.service.runs.create(thread_id, ask("g"));
    await clock.advance(1_000);
    faults.renewLease = async (call) => {
      delete faults.renewLease;
      skew = 60_000;
      // Its answer comes after everything that became due meanwhile.
      await clock.advance(2_000);
      return call();
    };
    await advanceUntil(clock, () => skew > 0);
    await clock.advance(20_000);
    assert.equal(signals.length, 1);
    assert.equal(signals[0]?.aborted, false);
    assert.equal((await kit.service.metrics()).worker.leases_lost, 0);
    await kit.service.runs.cancel(thread_id, run.run_id, { wait: true });
  });

  it("that was over before its claim was answered is asked for again, and the run is left to whoever took it", async () => {
    const clock = testClock();
    const first = faulty();
    const second = first.share();
    const executed: string[] = [];
    const named = (name: string): Executor =>
      graph(async function* () {
        executed.push(name);
        yield state({});
      });
    await using late = await clockedService(clock, { storage: first.storage, executor: named("late") });
    await using other = await clockedService(clock, { storage: second.storage, executor: named("other") });
    await clock.advance(1_000);
    assert.ok(other.service.healthy());
    for (const taken of [false, true]) {
      const { thread_id } = await late.service.threads.create();
      const gate = Promise.withResolvers<void>();
      first.faults.createRun = async (call) => {
        const outcome = await call();
        first.faults.claimRun = () => Promise.reject(new Error("no"));
        await gate.promise;
        delete first.faults.claimRun;
        return outcome;
      };
      second.faults.claimRun = (call) => (taken ? call() : Promise.reject(new Error("no")));
      const creating = late.service.runs.create(thread_id, ask("g"));
      await clock.advance(9_000);
      await advanceUntil(clock, () => !taken || executed.at(-1) === "other", 1_000);
      await clock.advance(3_000);
      gate.resolve();
      const { run_id } = await creating;
      await advanceUntil(clock, async () => (await late.service.runs.get(thread_id, run_id)).status === "success");
      await clock.advance(1_000);
    }
    assert.deepEqual(executed, ["late", "other"]);
  });

  it("that was lost ends the readers of a run that is gone, and no others", async () => {
    const clock = testClock();
    const first = faulty();
    const second = first.share();
    const signals: AbortSignal[] = [];
    await using kit = await clockedService(clock, { storage: first.storage, executor: waiting(signals) });
    // It only serves requests: what it does, the other one learns from the database.
    await using other = await clockedService(clock, {
      storage: second.storage,
      executor: waiting(signals),
      worker: { concurrency: 0 },
    });
    const { thread_id } = await kit.service.threads.create();
    const read = collect((await kit.service.runs.stream(thread_id, ask("g"))).frames);
    await advanceUntil(clock, () => signals.length === 1);
    const [run] = await kit.service.runs.list(thread_id);
    await other.service.runs.cancel(thread_id, run?.run_id as string, { action: "rollback" });
    await advanceUntil(clock, read.ended);
    assert.equal(signals[0]?.reason, "lease_lost");
    assert.deepEqual(
      read.list.slice(-2).map(({ event }) => event),
      ["error", "end"],
    );
    assert.equal((await second.storage.getThread({ deployment: "default" }, thread_id))?.lock, null);
  });
});

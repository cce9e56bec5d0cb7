import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ExecutorEvent } from "../../../lib/executor/contract.ts";
import type { JsonObject } from "../../../lib/mod.ts";
import { testClock } from "../../suite/kit.ts";
import { advanceUntil, collect, createClockedService, createFaultyStorage } from "../../support/faulty.ts";
import { aborted, ask, custom, graph, ids, resumable, state, toPairs } from "./attempt.harness.ts";

describe("frames of a resumable run", () => {
  it("are emitted after they are stored with the checkpoints before them", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    const go = Promise.withResolvers<void>();
    await using kit = await createClockedService(clock, {
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

  it("are emitted once and in order when every storage operation fails once, and the run executes once", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    let executions = 0;
    await using kit = await createClockedService(clock, {
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
          // The last operations took effect, but their results were lost.
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
        toPairs(read.list)
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

  it("are not emitted if the lease is lost before they are stored", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    await using kit = await createClockedService(clock, {
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

  it("block the executor while too many are unsaved", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    let yielded = 0;
    await using kit = await createClockedService(clock, {
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

  it("are stored during the run also if checkpoints are stored at its end", async () => {
    const clock = testClock();
    const { storage } = createFaultyStorage();
    const go = Promise.withResolvers<void>();
    await using kit = await createClockedService(clock, {
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

  it("have one checkpoint per run with durability exit, at its end or failure, and none after an abort", async () => {
    const clock = testClock();
    let hangs = false;
    const log = (end: number): string[] => Array.from({ length: end }, (_, n) => `line ${n} of a long enough log`);
    await using kit = await createClockedService(clock, {
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
        const { log: lines, ...otherValues } = values as { log: string[] };
        return [otherValues, lines.length, parent_checkpoint?.checkpoint_id ?? null, checkpoint?.checkpoint_id];
      });
    assert.equal(await executed("end", 0), "success");
    const [first] = await history();
    assert.deepEqual((first as unknown[]).slice(0, 3), [{ how: "end" }, 400, null]);
    assert.equal(await executed("hang", 4), "interrupted");
    assert.deepEqual([await history(), (await threads.get(thread_id)).status], [[first], "idle"]);
    assert.equal(await executed("fail", 4), "error");
    const [second, ...olderStates] = await history();
    assert.deepEqual(olderStates, [first]);
    assert.deepEqual((second as unknown[]).slice(0, 3), [{ n: 7, fail: 7 }, 700, (first as unknown[])[3]]);
    assert.equal(await executed("end", 8), "success");
    const [third, ...earlierStates] = await history();
    assert.deepEqual(earlierStates, [second, first]);
    assert.deepEqual((third as unknown[]).slice(0, 3), [{ how: "end" }, 1200, (second as unknown[])[3]]);
  });
});

describe("an executor with an event that cannot be handled", () => {
  it("is stopped and has settled before its run ends", async () => {
    const clock = testClock();
    const order: string[] = [];
    await using kit = await createClockedService(clock, {
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

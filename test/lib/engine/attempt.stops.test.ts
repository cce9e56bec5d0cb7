import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { recordStates } from "../../../lib/executor/state-recorder.ts";
import type { Executor, Json } from "../../../lib/mod.ts";
import { testClock } from "../../suite/kit.ts";
import { advanceUntil, collect, createClockedService, createFaultyStorage, kill } from "../../support/faulty.ts";
import { aborted, ask, custom, graph, hasState, resumable, state, toPairs } from "./attempt.harness.ts";

describe("a run that is stopped", () => {
  it("is not executed if it was cancelled before its worker had the result of the claim", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    let executions = 0;
    await using kit = await createClockedService(clock, {
      storage,
      executor: graph(async function* () {
        executions++;
        yield state({});
      }),
    });
    const { thread_id } = await kit.service.threads.create();
    const gate = Promise.withResolvers<void>();
    const created = Promise.withResolvers<void>();
    faults.createRun = async (call) => {
      const outcome = await call();
      created.resolve();
      await gate.promise;
      return outcome;
    };
    const creating = kit.service.runs.create(thread_id, ask("g"));
    await created.promise;
    const [run] = await kit.service.runs.list(thread_id);
    assert.equal(run?.status, "running");
    await kit.service.runs.cancel(thread_id, run?.run_id as string);
    gate.resolve();
    await creating;
    await advanceUntil(clock, () => executions > 0, 10, 50).catch(() => {});
    assert.equal(executions, 0);
    assert.equal((await kit.service.runs.get(thread_id, run?.run_id as string)).status, "interrupted");
  });

  it("is not executed if it was rolled back before its worker had the result of the claim, and unlocks its thread", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    const inputs: unknown[] = [];
    await using kit = await createClockedService(clock, {
      storage,
      executor: graph(async function* (job) {
        inputs.push(job.input);
        yield state({});
      }),
    });
    const { thread_id } = await kit.service.threads.create();
    const gate = Promise.withResolvers<void>();
    const created = Promise.withResolvers<void>();
    faults.createRun = async (call) => {
      delete faults.createRun;
      const outcome = await call();
      created.resolve();
      await gate.promise;
      return outcome;
    };
    const creating = kit.service.runs.stream(thread_id, { assistant_id: "g", input: "first" });
    await created.promise;
    const request = { assistant_id: "g", input: "second", multitask_strategy: "rollback" } as const;
    const second = await kit.service.runs.wait(thread_id, request);
    gate.resolve();
    const read = collect((await creating).frames);
    await advanceUntil(clock, read.ended);
    // No timer is needed: the test's clock does not advance.
    await second.result;
    assert.deepEqual(inputs, ["second"]);
    assert.deepEqual(
      read.list.map(({ event }) => event),
      ["error", "end"],
    );
  });

  it("has the end of its executor even if the service stops before that is stored", async () => {
    const clock = testClock();
    const first = createFaultyStorage();
    first.faults.close = async () => {};
    const gate = Promise.withResolvers<void>();
    const saving = Promise.withResolvers<void>();
    first.faults.saveProgress = async (call) => {
      saving.resolve();
      await gate.promise;
      return call();
    };
    const kit = await createClockedService(clock, {
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

  it("ends without another execution if its worker is dead", async () => {
    const clock = testClock();
    const first = createFaultyStorage();
    const second = first.share();
    let executions = 0;
    const executor = graph(async function* (_job, signal) {
      executions++;
      yield state({ at: 1 }, ["more"]);
      await aborted(signal);
    });
    const dead = await createClockedService(clock, { executor, storage: first.storage });
    const { thread_id } = await dead.service.threads.create();
    const run = await dead.service.runs.create(thread_id, { ...ask("g"), stream_resumable: true });
    await advanceUntil(clock, () => hasState(first, thread_id));
    kill(first);
    await using alive = await createClockedService(clock, { executor, storage: second.storage });
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

  it("emits and writes nothing after its executor ignored the signal and was abandoned", async () => {
    const clock = testClock();
    const { storage, calls } = createFaultyStorage();
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
    await using kit = await createClockedService(clock, { storage, executor: deaf, worker: { concurrency: 1 } });
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

  it("locks its thread until its executor has settled, if it was rolled back", async () => {
    const clock = testClock();
    const log: string[] = [];
    const settle = Promise.withResolvers<void>();
    await using kit = await createClockedService(clock, {
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
    // No timer is needed: the test's clock does not advance.
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
      const configured = abandon_ms === undefined ? "" : " as its graph says";
      const whose = alone ? "no other process" : "another process";
      it(`delays the run that stops it by ${multitask_strategy} by ${waits} ms where ${whose} can execute the thread${configured}, and emits the reason`, async () => {
        const clock = testClock();
        const real = nodeSqlite(":memory:");
        const late = Promise.withResolvers<void>();
        const began: Json[] = [];
        await using kit = await createClockedService(clock, {
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

  it("emits no reason to readers of a run that waits for a moment only", async () => {
    const clock = testClock();
    await using kit = await createClockedService(clock, {
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

  it("unlocks its thread after the abandon time, if it was rolled back and does not settle", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    await using kit = await createClockedService(clock, {
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
    // The store fails when the thread is unlocked, which is then retried.
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

  it("ends as timeout with the states of its steps", async () => {
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
      await using kit = await createClockedService(clock, { executor, worker });
      const { thread_id } = await kit.service.threads.create();
      const { run, frames } = await kit.service.runs.stream(thread_id, ask("g"));
      const read = collect(frames);
      await advanceUntil(clock, () => entered > reasons.length, 1);
      await clock.advance(1_900);
      assert.equal(read.ended(), false);
      await advanceUntil(clock, read.ended);
      assert.deepEqual(toPairs(read.list.slice(-2)), [
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

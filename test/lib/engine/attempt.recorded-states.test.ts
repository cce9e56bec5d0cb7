import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ExecutorEvent } from "../../../lib/executor/contract.ts";
import type { JsonObject } from "../../../lib/mod.ts";
import type { FinishRun, Progress } from "../../../lib/storage/mod.ts";
import { testClock } from "../../suite/kit.ts";
import { advanceUntil, collect, createClockedService, createFaultyStorage } from "../../support/faulty.ts";
import { ask, graph, state } from "./attempt.harness.ts";

describe("a recorded state", () => {
  it("fails the run at once when it has values that are not JSON", async () => {
    const clock = testClock();
    await using kit = await createClockedService(clock, {
      executor: graph(async function* () {
        yield state({ kept: 1, gone: undefined } as unknown as JsonObject);
      }),
    });
    const { thread_id } = await kit.service.threads.create();
    const { result } = await kit.service.runs.wait(thread_id, ask("g"));
    let values: unknown;
    void result.then((runResult) => {
      values = runResult;
    });
    await advanceUntil(clock, () => values !== undefined);
    const message = "values.gone: is undefined, which JSON does not have";
    assert.deepEqual(values, { __error__: { error: "TypeError", message } });
  });

  it("is the only one of a requeued run with durability exit", async () => {
    const clock = testClock();
    const first = createFaultyStorage();
    const second = first.share();
    let allYielded = false;
    const executor = graph(async function* ({ resumed }, signal) {
      for (const n of resumed ? [3, 4] : [0, 1, 2]) yield state({ n }, ["more"]);
      allYielded = true;
      if (!resumed) await new Promise((resolve) => signal.addEventListener("abort", resolve));
    });
    const stopped = await createClockedService(clock, { storage: second.storage, executor });
    const { thread_id } = await stopped.service.threads.create();
    const { run_id } = await stopped.service.runs.create(thread_id, { ...ask("g"), durability: "exit" });
    await advanceUntil(clock, () => allYielded);
    await stopped[Symbol.asyncDispose]();
    await using kit = await createClockedService(clock, { storage: first.storage, executor });
    await advanceUntil(clock, async () => (await kit.service.runs.get(thread_id, run_id)).status === "success");
    const history = await kit.service.threads.history(thread_id);
    assert.deepEqual(
      history.map(({ values }) => values),
      [{ n: 4 }, { n: 2 }],
    );
  });

  it("is kept with durability exit when the executor ignores a timeout, and dropped when it ignores a cancel", async () => {
    for (const [timeout_ms, expected] of [
      [1_000, { n: 1 }],
      [60_000, null],
    ] as const) {
      const clock = testClock();
      let allYielded = false;
      const executor = graph(
        async function* () {
          for (const n of [0, 1]) yield state({ n }, ["more"]);
          allYielded = true;
          await new Promise(() => {});
        },
        { timeout_ms, abandon_ms: 500 },
      );
      await using kit = await createClockedService(clock, { executor });
      const { threads, runs } = kit.service;
      const { thread_id } = await threads.create();
      const { run_id } = await runs.create(thread_id, { ...ask("g"), durability: "exit" });
      await advanceUntil(clock, () => allYielded);
      if (expected === null) await runs.cancel(thread_id, run_id);
      await advanceUntil(
        clock,
        async () => !["pending", "running"].includes((await runs.get(thread_id, run_id)).status),
      );
      assert.deepEqual((await threads.state(thread_id)).values, expected ?? {});
    }
  });

  it("is stored in one batch with its frames", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    const text = "x".repeat(100_000);
    await using kit = await createClockedService(clock, {
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

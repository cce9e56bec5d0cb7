/** `onRunFinished` is called once for each run that ends in this process. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { FinishedRun, FunctionJob, RunCreate } from "../../../lib/mod.ts";
import { type TestService, type TestServiceOptions, testService } from "../../suite/kit.ts";

/** Collects finished runs in order, and waits for the next one. */
class FinishedRunLog {
  readonly runs: FinishedRun[] = [];
  readonly add = (run: FinishedRun): void => void this.runs.push(run);
  async count(count: number): Promise<readonly FinishedRun[]> {
    while (this.runs.length < count) await new Promise<void>((resolve) => setTimeout(resolve, 1));
    return this.runs;
  }
}

/** Keeps the runtime alive until `work` has settled: timers of a service do not on every runtime. */
async function keepAlive<Value>(work: PromiseLike<Value>): Promise<Value> {
  const alive = setInterval(() => {}, 1_000);
  try {
    return await work;
  } finally {
    clearInterval(alive);
  }
}

const waitForStop = (job: FunctionJob): Promise<never> =>
  new Promise((_resolve, reject) => {
    job.signal.addEventListener("abort", () => reject(new Error("stopped")), { once: true });
  });

const agents: TestServiceOptions["agents"] = {
  good: () => "done",
  bad: () => Promise.reject(new TypeError("it failed")),
  // Runs until its signal is aborted.
  held: async function* (job) {
    job.emit("begun");
    yield "begun";
    await waitForStop(job);
  },
  asks: async function* (job) {
    yield job.interrupt("really?");
  },
};

interface World extends AsyncDisposable {
  readonly kit: TestService;
  readonly finishedRuns: FinishedRunLog;
}

async function open(options: TestServiceOptions = {}): Promise<World> {
  const finishedRuns = new FinishedRunLog();
  const kit = await testService({ agents, onRunFinished: finishedRuns.add, ...options });
  return { kit, finishedRuns, [Symbol.asyncDispose]: () => keepAlive(kit[Symbol.asyncDispose]()) };
}

/** Starts a run of `held` and waits for its first output. */
async function startHeldRun(
  { service }: TestService,
  thread_id: string,
  request: Partial<RunCreate> = {},
): Promise<string> {
  const { run, frames } = await service.runs.stream(thread_id, { assistant_id: "held", input: {}, ...request });
  for await (const { event } of frames) if (event !== "metadata") break;
  return run.run_id;
}

/** Waits for 20 ticks of the event loop, so that pending work completes. */
const ticks = async (): Promise<void> => {
  for (let tick = 0; tick < 20; tick++) await new Promise<void>((resolve) => setTimeout(resolve, 0));
};

describe("onRunFinished", () => {
  it("is called once with the completion of a run after it was stored", async () => {
    const statuses: unknown[] = [];
    const finishedRuns = new FinishedRunLog();
    await using kit = await testService({
      agents,
      onRunFinished: async (run) => {
        statuses.push((await kit.service.runs.get(run.thread_id, run.run_id)).status);
        finishedRuns.add(run);
      },
    });
    const { thread_id } = await kit.service.threads.create();
    const { run, result } = await kit.service.runs.wait(thread_id, {
      assistant_id: "good",
      input: {},
      metadata: { mine: 1 },
    });
    await result;
    const [finished] = await finishedRuns.count(1);
    const { started_at, ended_at, metadata, ...otherFields } = finished as FinishedRun;
    assert.deepEqual(otherFields, {
      run_id: run.run_id,
      thread_id,
      assistant_id: run.assistant_id,
      graph_id: "good",
      status: "success",
      attempt: 1,
    });
    assert.equal(metadata["mine"], 1);
    assert.ok(started_at !== null && started_at <= ended_at && ended_at.endsWith("Z"));
    await ticks();
    assert.equal(finishedRuns.runs.length, 1);
    assert.deepEqual(statuses, ["success"]);
  });

  it("is called for failed, timed out, interrupted and stateless runs", async () => {
    await using world = await open({ worker: { run_timeout_ms: 1_000 } });
    const { service } = world.kit;
    const status: Record<string, unknown> = {};
    for (const [count, assistant_id] of ["bad", "held", "asks"].entries()) {
      await service.runs.create(null, { assistant_id, input: {} });
      const run = (await world.finishedRuns.count(count + 1))[count] as FinishedRun;
      status[run.graph_id] = [run.status, run.error];
    }
    assert.deepEqual(status, {
      bad: ["error", { error: "TypeError", message: "it failed" }],
      held: ["timeout", { error: "RunTimeout", message: "The run took longer than 1000 ms" }],
      asks: ["success", undefined],
    });
  });

  it("is called for runs that are cancelled during execution and before it", async () => {
    await using world = await open();
    const { service } = world.kit;
    const { thread_id } = await service.threads.create();
    const going = await startHeldRun(world.kit, thread_id);
    const waiting = await service.runs.create(thread_id, { assistant_id: "good", input: {} });
    await service.runs.cancel(thread_id, waiting.run_id);
    const [first] = await world.finishedRuns.count(1);
    assert.deepEqual(
      [first?.run_id, first?.status, first?.attempt, first?.started_at],
      [waiting.run_id, "interrupted", 0, null],
    );
    await service.runs.cancel(thread_id, going, { wait: true });
    const second = (await world.finishedRuns.count(2))[1];
    assert.deepEqual([second?.run_id, second?.status, second?.attempt], [going, "interrupted", 1]);
    // A second cancel ends nothing.
    await service.runs.cancel(thread_id, going);
    await service.runs.cancel(thread_id, waiting.run_id);
    await ticks();
    assert.equal(world.finishedRuns.runs.length, 2);
  });

  it("is called for runs that a new run interrupts", async () => {
    await using world = await open();
    const { service } = world.kit;
    const { thread_id } = await service.threads.create();
    const going = await startHeldRun(world.kit, thread_id);
    const waiting = await service.runs.create(thread_id, { assistant_id: "good", input: {} });
    const { run, result } = await service.runs.wait(thread_id, {
      assistant_id: "good",
      input: {},
      multitask_strategy: "interrupt",
    });
    await result;
    const notified = await world.finishedRuns.count(3);
    const statuses = Object.fromEntries(notified.map(({ run_id, status }) => [run_id, status]));
    assert.deepEqual(statuses, {
      [going]: "interrupted",
      [waiting.run_id]: "interrupted",
      [run.run_id]: "success",
    });
  });

  it("is not called for runs that were rolled back or deleted", async () => {
    await using world = await open();
    const { service } = world.kit;
    const { thread_id } = await service.threads.create();
    const going = await startHeldRun(world.kit, thread_id);
    const waiting = await service.runs.create(thread_id, { assistant_id: "good", input: {} });
    await service.runs.delete(thread_id, waiting.run_id);
    await service.runs.cancel(thread_id, going, { action: "rollback", wait: true });
    const secondThread = (await service.threads.create()).thread_id;
    await startHeldRun(world.kit, secondThread);
    await service.threads.delete(secondThread);
    await (await service.runs.wait(null, { assistant_id: "good", input: {} })).result;
    const notified = await world.finishedRuns.count(1);
    await ticks();
    assert.deepEqual(
      notified.map(({ graph_id }) => graph_id),
      ["good"],
    );
  });

  it("is not called for a run that is requeued at a shutdown", async () => {
    const world = await open();
    const { thread_id } = await world.kit.service.threads.create();
    await startHeldRun(world.kit, thread_id);
    await keepAlive(world.kit.service.stop(0));
    assert.deepEqual(world.finishedRuns.runs, []);
  });

  it("affects nothing when it throws, rejects or hangs", async () => {
    let calls = 0;
    const hooks = [
      () => {
        throw new Error("thrown");
      },
      () => Promise.reject(new Error("rejected")),
      () => new Promise<void>(() => {}),
    ];
    const kit = await testService({
      agents,
      onRunFinished: () => hooks[calls++ % hooks.length]?.(),
    });
    const { thread_id } = await kit.service.threads.create();
    const runs: string[] = [];
    for (let count = 0; count < 3; count++) {
      const { run, result } = await kit.service.runs.wait(thread_id, { assistant_id: "good", input: {} });
      assert.equal(((await result) as { __error__?: unknown }).__error__, undefined);
      runs.push(run.run_id);
    }
    while (calls < 3) await ticks();
    await ticks();
    const failed = kit.log.filter(({ message }) => message === "onRunFinished failed");
    assert.deepEqual(
      failed.map(({ run_id, thread_id, error }) => [run_id, thread_id, (error as Error).message]),
      [
        [runs[0], thread_id, "thrown"],
        [runs[1], thread_id, "rejected"],
      ],
    );
    assert.equal((await kit.service.threads.get(thread_id)).status, "idle");
    await keepAlive(kit.service.stop(0));
  });

  it("is awaited for a moment when the service stops", async () => {
    const ended: string[] = [];
    const kit = await testService({
      agents,
      onRunFinished: async ({ run_id }) => {
        await ticks();
        ended.push(run_id);
      },
    });
    const { run, result } = await kit.service.runs.wait(null, { assistant_id: "good", input: {} });
    await result;
    await keepAlive(kit.service.stop());
    assert.deepEqual(ended, [run.run_id]);
  });

  it("must be a function", async () => {
    await assert.rejects(testService({ agents, onRunFinished: "hook" as never }), /onRunFinished: must be a function/);
  });
});

describe("a log that throws", () => {
  it("affects nothing", async () => {
    const log = (): never => {
      throw new Error("the disk is full");
    };
    await using kit = await testService({
      agents,
      environment: { log },
      onRunFinished: () => {
        throw new Error("thrown");
      },
    });
    const { result } = await kit.service.runs.wait(null, { assistant_id: "good", input: {} });
    assert.equal(((await result) as { __error__?: unknown }).__error__, undefined);
    await ticks();
    assert.equal((await kit.fetch("http://x/ok")).status, 200);
  });
});

/** What attempts store of their spans: with their end, before it, when they are suspended, stopped, lost, or not sampled. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Job } from "../../../lib/executor/contract.ts";
import type { Executor, ServiceOptions } from "../../../lib/mod.ts";
import type { Span, Storage, StoredTrace } from "../../../lib/storage/mod.ts";
import type { TestClock, TestService } from "../../suite/kit.ts";
import { testClock, testService } from "../../suite/kit.ts";
import { advanceUntil, createClockedService, createFaultyStorage, type Faulty, kill } from "../../support/faulty.ts";
import { aborted, ask, graph, state } from "../engine/attempt.harness.ts";

const scope = { deployment: "default" };

/** Returns the spans of a trace: of two records the later one. */
function mergeSpans({ parts, spans }: StoredTrace): readonly Span[] {
  const lists = [...parts.map(({ json }) => json), spans ?? "[]"].map((json) => JSON.parse(json) as Span[]);
  return [...new Map(lists.flat().map((span) => [span.span_id, span])).values()];
}

async function readTrace(storage: Storage, run_id: string): Promise<{ trace: StoredTrace; spans: readonly Span[] }> {
  const trace = await storage.getRunTrace(scope, run_id);
  assert.ok(trace, "the run has a trace");
  return { trace, spans: mergeSpans(trace) };
}

const format = (spans: readonly Span[]): string[] =>
  spans.map(({ kind, name, status }) => `${kind} ${name} ${status}`).sort();

interface Setup {
  readonly clock: TestClock;
  readonly faulty: Faulty;
  readonly kit: TestService;
}

async function setUp(
  execute: Parameters<typeof graph>[0] | Executor,
  traces: NonNullable<ServiceOptions["traces"]> = {},
  options: Partial<ServiceOptions> = {},
): Promise<Setup & AsyncDisposable> {
  const clock = testClock();
  const faulty = createFaultyStorage();
  const executor = typeof execute === "function" ? graph(execute) : execute;
  const kit = await createClockedService(clock, { storage: faulty.storage, executor, traces, ...options });
  return { clock, faulty, kit, [Symbol.asyncDispose]: () => kit[Symbol.asyncDispose]() };
}

/** Executes a run to its end and returns its trace. */
async function runOnce({ kit, faulty, clock }: Setup, stateless = true): ReturnType<typeof readTrace> {
  const thread_id = stateless ? null : (await kit.service.threads.create()).thread_id;
  const { run, result } = await kit.service.runs.wait(thread_id, ask("g"));
  let isDone = false;
  void result.finally(() => {
    isDone = true;
  });
  await advanceUntil(clock, () => isDone);
  await result.catch(() => {});
  return await readTrace(faulty.storage, run.run_id);
}

/** Records a node with a tool in it, for as long as `work` takes. */
async function recordNode({ trace }: Job, name: string, work: () => Promise<void> = async () => {}): Promise<void> {
  assert.ok(trace);
  const node = trace.start({ kind: "node", name });
  const tool = trace.start({ kind: "tool", name: `${name} tool`, parent_id: node });
  await work();
  trace.end(tool, { status: "ok" });
  trace.end(node, { status: "ok" });
}

describe("a run that takes less than five seconds", () => {
  it("stores its spans with its end, without another commit", async () => {
    await using setup = await setUp(async function* (job) {
      await recordNode(job, "agent", () => new Promise((resolve) => void setup.clock.timer(4_000, resolve)));
      yield state({ ok: true });
    });
    const { trace, spans } = await runOnce(setup);
    assert.equal(setup.faulty.calls.saveProgress ?? 0, 0);
    assert.equal(setup.faulty.calls.getTraceProgress ?? 0, 0);
    assert.deepEqual(trace.parts, []);
    assert.deepEqual(format(spans), ["attempt g ok", "node agent ok", "tool agent tool ok"]);
    const [attempt, node, tool] = spans as [Span, Span, Span];
    assert.equal(attempt.parent_id, trace.run_id.replaceAll("-", "").slice(-16));
    assert.deepEqual([node.parent_id, tool.parent_id], [attempt.span_id, node.span_id]);
    assert.deepEqual([node.duration_ms, attempt.counted, attempt.claim, attempt.attempt], [4_000, true, 1, 1]);
    assert.deepEqual(attempt.commits, { count: 0, total_ms: 0, max_ms: 0 });
    assert.equal(trace.active_ms, attempt.duration_ms);
    assert.deepEqual([trace.names, trace.source], [["n:agent", "t:agent tool"], "in_process"]);
    assert.deepEqual([trace.head.totals.spans, trace.head.totals.tool, trace.head.kept], [3, 1, 3]);
  });

  it("has the tokens that it reported as its totals", async () => {
    await using setup = await setUp(async function* (job) {
      const id = job.trace?.start({ kind: "model", name: "m" }) ?? "";
      job.trace?.end(id, { status: "ok", tokens: { in: 7, out: 4 } });
      yield { type: "usage", tokens_in: 7, tokens_out: 4, cost_usd: 0.5 };
      yield state({ ok: true });
    });
    const { trace } = await runOnce(setup);
    const { tokens_in, tokens_out, cost_usd, model } = trace.head.totals;
    assert.deepEqual([tokens_in, tokens_out, cost_usd, model], [7, 4, 0.5, 1]);
    const found = await setup.faulty.storage.searchRunTraces(scope, { min_tokens: 11, limit: 1 });
    assert.equal(found.rows.length, 1);
  });
});

describe("a run that takes longer", () => {
  it("saves its spans once in five seconds, and not if nothing has changed", async () => {
    await using setup = await setUp(async function* (job, signal) {
      await recordNode(job, "early");
      const id = job.trace?.start({ kind: "model", name: "slow" }) ?? "";
      await Promise.race([aborted(signal), new Promise<void>((resolve) => void setup.clock.timer(60_000, resolve))]);
      job.trace?.end(id, { status: "ok" });
      yield state({ ok: true });
    });
    const { kit, clock, faulty } = setup;
    const { run, result } = await kit.service.runs.wait(null, ask("g"));
    await clock.advance(4_900);
    assert.equal(await faulty.storage.getRunTrace(scope, run.run_id), null);
    await clock.advance(1_000);
    const { trace, spans } = await readTrace(faulty.storage, run.run_id);
    assert.deepEqual(format(spans), ["attempt g open", "model slow open", "node early ok", "tool early tool ok"]);
    assert.deepEqual([trace.status, trace.ended_at, trace.head.closed], ["running", null, false]);
    await clock.advance(50_000);
    assert.equal(faulty.calls.saveProgress, 1);
    await clock.advance(10_000);
    await result;
    const ended = await readTrace(faulty.storage, run.run_id);
    assert.deepEqual(format(ended.spans), ["attempt g ok", "model slow ok", "node early ok", "tool early tool ok"]);
    assert.deepEqual([ended.trace.parts.length, ended.trace.head.kept], [1, 4]);
    assert.equal(ended.spans.find(({ kind }) => kind === "attempt")?.commits?.count, 1);
  });

  it("stores many spans in parts of at most 64 KiB", async () => {
    await using setup = await setUp(async function* (job) {
      for (let index = 0; index < 900; index++) await recordNode(job, `${index} ${"x".repeat(100)}`);
      await new Promise<void>((resolve) => void setup.clock.timer(7_000, resolve));
      yield state({ ok: true });
    });
    const { trace, spans } = await runOnce(setup);
    assert.equal(spans.length, 1_801);
    assert.ok(trace.parts.length > 5 && trace.parts.every(({ json }) => json.length <= 65_536));
  });

  it("records saves that take longer than 50 ms, which make no save", async () => {
    await using setup = await setUp(async function* (job) {
      await recordNode(job, "agent");
      await new Promise<void>((resolve) => void setup.clock.timer(30_000, resolve));
      yield state({ ok: true });
    });
    setup.faulty.faults.saveProgress = async (call) => {
      await new Promise<void>((resolve) => void setup.clock.timer(80, resolve));
      return await call();
    };
    const { spans } = await runOnce(setup);
    const commits = spans.filter(({ kind }) => kind === "commit");
    assert.deepEqual(
      commits.map(({ duration_ms, status }) => [duration_ms, status]),
      [[80, "ok"]],
    );
    const attempt = spans.find(({ kind }) => kind === "attempt");
    assert.deepEqual(attempt?.commits, { count: 1, total_ms: 80, max_ms: 80 });
  });
});

describe("the end of an attempt", () => {
  it("ends the spans that are open", async () => {
    await using setup = await setUp(async function* (job) {
      job.trace?.start({ kind: "node", name: "agent" });
      yield state({ ok: true });
      throw new RangeError("marker");
    });
    const { trace, spans } = await runOnce(setup);
    assert.deepEqual(format(spans), ["attempt g error", "node agent lost"]);
    assert.deepEqual(spans[0]?.error, { type: "RangeError" });
    assert.deepEqual([trace.status, trace.failed, trace.error_type], ["error", true, "RangeError"]);
    assert.ok(!JSON.stringify(trace).includes("marker"));
  });

  it("is interrupted if the run was stopped or waits for an answer, and a timeout after its time", async () => {
    await using waiting = await setUp(async function* () {
      yield state({ ok: true }, ["more"]);
    });
    assert.deepEqual(format((await runOnce(waiting, false)).spans), ["attempt g interrupted"]);
    await using late = await setUp(
      graph(
        async function* (job, signal) {
          job.trace?.start({ kind: "node", name: "agent" });
          yield state({ ok: true });
          await aborted(signal);
        },
        { timeout_ms: 1_000 },
      ),
    );
    assert.deepEqual(format((await runOnce(late)).spans), ["attempt g timeout", "node agent timeout"]);
    await using stopped = await setUp(async function* (job, signal) {
      job.trace?.start({ kind: "node", name: "agent" });
      yield state({ ok: true });
      await aborted(signal);
    });
    const { kit, clock, faulty } = stopped;
    const { thread_id } = await kit.service.threads.create();
    const { run_id } = await kit.service.runs.create(thread_id, ask("g"));
    await clock.advance(100);
    const cancelled = kit.service.runs.cancel(thread_id, run_id, { wait: true });
    await clock.advance(100);
    await cancelled;
    const { spans } = await readTrace(faulty.storage, run_id);
    assert.deepEqual(format(spans), ["attempt g interrupted", "node agent interrupted"]);
  });

  it("by a shutdown stores its spans, and the next attempt goes on with their sums", async () => {
    const clock = testClock();
    const first = createFaultyStorage();
    const second = first.share();
    let attempts = 0;
    const executor = graph(async function* (job, signal) {
      await recordNode(job, `node ${++attempts}`);
      await new Promise<void>((resolve) => void clock.timer(1_000, resolve));
      if (attempts === 1) await aborted(signal);
      yield state({ ok: true });
    });
    const kit = await testService({ storage: first.storage, executor, environment: clock });
    const { thread_id } = await kit.service.threads.create();
    const { run_id } = await kit.service.runs.create(thread_id, ask("g"));
    await clock.advance(1_500);
    first.faults.close = async () => {};
    const stopped = kit.service.stop(0);
    await clock.advance(2_000);
    await stopped;
    const { trace } = await readTrace(second.storage, run_id);
    assert.deepEqual([trace.status, trace.head.closed, trace.head.totals.spans], ["pending", true, 3]);
    await using _next = await createClockedService(clock, { storage: second.storage, executor });
    await advanceUntil(clock, async () => (await second.storage.getRun(scope, run_id))?.status === "success");
    const ended = await readTrace(second.storage, run_id);
    assert.deepEqual(format(ended.spans), [
      ...["attempt g interrupted", "attempt g ok", "node node 1 ok", "node node 2 ok"],
      ...["tool node 1 tool ok", "tool node 2 tool ok"],
    ]);
    const [requeued, last] = ended.spans.filter(({ kind }) => kind === "attempt");
    assert.deepEqual([requeued?.counted, last?.counted, last?.claim, last?.attempt], [false, true, 2, 1]);
    assert.deepEqual([ended.trace.head.totals.spans, ended.trace.head.kept], [6, 6]);
    assert.deepEqual(ended.trace.names, ["n:node 1", "t:node 1 tool", "n:node 2", "t:node 2 tool"]);
    const active_ms = (requeued?.duration_ms ?? 0) + (last?.duration_ms ?? 0);
    assert.equal(ended.trace.active_ms, active_ms);
  });

  it("that nobody stores is noted by the claim that takes the run over", async () => {
    const clock = testClock();
    const first = createFaultyStorage();
    const second = first.share();
    let attempts = 0;
    const executor = graph(async function* (job, signal) {
      attempts++;
      await recordNode(job, `node ${attempts}`);
      job.trace?.start({ kind: "model", name: `model ${attempts}` });
      if (attempts === 1) await aborted(signal);
      yield state({ ok: true });
    });
    await using kit = await createClockedService(clock, { storage: first.storage, executor });
    const { thread_id } = await kit.service.threads.create();
    const { run_id } = await kit.service.runs.create(thread_id, ask("g"));
    await clock.advance(8_000);
    kill(first);
    const killedAt = clock.now();
    await using _next = await createClockedService(clock, { storage: second.storage, executor });
    await advanceUntil(clock, async () => (await second.storage.getRun(scope, run_id))?.status === "success");
    const { trace, spans } = await readTrace(second.storage, run_id);
    assert.deepEqual(format(spans), [
      ...["attempt g lost", "attempt g ok", "model model 1 open", "model model 2 lost"],
      ...["node node 1 ok", "node node 2 ok", "tool node 1 tool ok", "tool node 2 tool ok"],
    ]);
    const [lost, last] = spans.filter(({ kind }) => kind === "attempt");
    assert.deepEqual([lost?.claim, lost?.attempt, lost?.counted], [1, 1, true]);
    assert.deepEqual([last?.claim, last?.attempt], [2, 2]);
    const lostAt = trace.created_at + (lost?.start_ms ?? 0) + (lost?.duration_ms ?? 0);
    assert.ok(lostAt <= killedAt && lostAt > killedAt - 4_000, "it ends at its last save or renewal");
    assert.equal(trace.active_ms, (lost?.duration_ms ?? 0) + (last?.duration_ms ?? 0));
    // The save that stored the open span of the lost attempt has counted it.
    assert.deepEqual([trace.head.totals.spans, trace.head.kept], [spans.length, spans.length]);
  });
});

describe("sampling", () => {
  const failing: Parameters<typeof graph>[0] = async function* (job) {
    await recordNode(job, "agent");
    yield state({ ok: true });
    if ((job.input as { fails?: boolean } | null)?.fails) throw new Error("no");
  };

  it("leaves the row of a run that is not sampled, without spans unless it fails or is slow", async () => {
    await using setup = await setUp(failing, { record: { sample: 0, slow_ms: 100_000 } });
    const { trace, spans } = await runOnce(setup);
    assert.deepEqual([spans, trace.head.sampled, trace.head.totals.spans], [[], false, 3]);
    const { run, result } = await setup.kit.service.runs.wait(null, { assistant_id: "g", input: { fails: true } });
    await result.catch(() => {});
    const failed = await readTrace(setup.faulty.storage, run.run_id);
    assert.deepEqual(format(failed.spans), ["attempt g error", "node agent ok", "tool agent tool ok"]);
    await using slow = await setUp(failing, { record: { sample: 0, slow_ms: 0 } });
    assert.equal((await runOnce(slow)).spans.length, 3);
    await using never = await setUp(failing, { record: { sample: 0, failed: false } });
    const other = await never.kit.service.runs.wait(null, { assistant_id: "g", input: { fails: true } });
    await other.result.catch(() => {});
    assert.deepEqual((await readTrace(never.faulty.storage, other.run.run_id)).spans, []);
  });

  it("makes no save of a run that is not sampled", async () => {
    await using setup = await setUp(
      async function* (job) {
        await recordNode(job, "agent");
        await new Promise<void>((resolve) => void setup.clock.timer(20_000, resolve));
        yield state({ ok: true });
      },
      { record: { sample: 0 } },
    );
    const { trace } = await runOnce(setup);
    assert.equal(setup.faulty.calls.saveProgress ?? 0, 0);
    assert.deepEqual([trace.parts, trace.spans], [[], "[]"]);
  });
});

describe("record: none", () => {
  it("records for metrics in memory alone, and stores nothing", async () => {
    const recorders: unknown[] = [];
    await using setup = await setUp(
      async function* (job) {
        recorders.push(job.trace);
        yield state({ ok: true });
      },
      { record: "none" },
    );
    const { run, result } = await setup.kit.service.runs.wait(null, ask("g"));
    await result;
    assert.equal(recorders.length, 1);
    assert.ok(recorders[0]);
    assert.equal(await setup.faulty.storage.getRunTrace(scope, run.run_id), null);
    assert.equal((await setup.faulty.storage.getRun(scope, run.run_id))?.trace_origin, undefined);
  });
});

/** Traces of a service: durable functions, the origin of runs, sinks, redact, the feed of running attempts, and retention. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemEnvironment } from "../../../lib/environment.ts";
import { serviceInternals } from "../../../lib/service.ts";
import type { ClaimedRun, Span, TraceOrigin } from "../../../lib/storage/mod.ts";
import { tracesFeature } from "../../../lib/traces/feature.ts";
import { toAttemptId, toTraceId } from "../../../lib/traces/ids.ts";
import { createSinkGroup, type TracedAttempt, type TracedFeedback, type TraceSink } from "../../../lib/traces/sinks.ts";
import { testClock, testService } from "../../suite/kit.ts";
import { createClockedService, createFaultyStorage } from "../../support/faulty.ts";
import { ask, graph, state } from "../engine/attempt.harness.ts";

const scope = { deployment: "default" };
const settings = { worker: { lease_ms: 1 }, usage: { prices: {} } };

const toolCall = graph(async function* ({ trace }) {
  const id =
    trace?.start({ kind: "tool", name: "weather", attributes: { city: "marker" }, input: () => "marker" }) ?? "";
  trace?.end(id, { status: "error", error: new RangeError("marker") });
  yield state({ ok: true });
});

describe("a durable function that sleeps", () => {
  it("has an attempt before and after its sleep, and active time without it", async () => {
    const clock = testClock();
    const { storage, calls } = createFaultyStorage();
    await using test = await testService({
      storage,
      agents: {
        async mailer({
          step,
          sleep,
        }: {
          step(name: string, work: () => unknown): Promise<unknown>;
          sleep(name: string, time: string): Promise<void>;
        }) {
          await step("prepare", () => 1);
          await sleep("cool_off", "1h");
          await step("send", () => 2);
          return "done";
        },
      },
      environment: clock,
    });
    const { thread_id } = await test.service.threads.create();
    const { run_id } = await test.service.runs.create(thread_id, { assistant_id: "mailer", input: {} });
    await clock.advance("1m");
    const suspended = await storage.getRunTrace(scope, run_id);
    assert.deepEqual([suspended?.waiting, suspended?.head.closed, suspended?.parts.length], [true, true, 1]);
    await clock.advance("1h");
    assert.equal((await storage.getRun(scope, run_id))?.status, "success");
    const trace = await storage.getRunTrace(scope, run_id);
    const spans = [...(trace?.parts.map(({ json }) => json) ?? []), trace?.spans ?? ""].flatMap(
      (json) => JSON.parse(json) as Span[],
    );
    const attempts = spans.filter(({ kind }) => kind === "attempt");
    assert.deepEqual(
      attempts.map(({ status, counted, claim, attempt }) => [status, counted, claim, attempt]),
      [
        ["waiting", false, 1, 1],
        ["ok", true, 2, 1],
      ],
    );
    assert.ok((trace?.active_ms ?? 0) < 60_000);
    assert.ok((attempts[1]?.start_ms ?? 0) >= 3_600_000);
    assert.equal(calls.getTraceProgress, 1);
  });
});

describe("the origin of a run", () => {
  const createOrigin = async (trace: object, options: object = {}): Promise<TraceOrigin | undefined> => {
    const context = { options: { traces: options }, settings, scope, environment: {} };
    const feature = tracesFeature(context as never);
    await feature.load?.();
    return feature.prepare?.({}, { trace }).trace_origin;
  };
  const ids = { trace_id: "0af7651916cd43dd8448eb211c80319c", span_id: "b7ad6b7169203331" };
  const traceparent = `00-${ids.trace_id}-${ids.span_id}-01`;
  const link = { kind: "called_by", ...ids };

  it("continues a traceparent, names it, or drops it, as the option and the caller permit", async () => {
    const source = "runs.wait";
    assert.deepEqual(await createOrigin({ source, traceparent, tracestate: "a=b" }), {
      source,
      traceparent,
      tracestate: "a=b",
    });
    assert.deepEqual(await createOrigin({ source, traceparent }, { parent: "link" }), { source, links: [link] });
    assert.deepEqual(await createOrigin({ source, traceparent, may_continue: false }), { source, links: [link] });
    assert.deepEqual(await createOrigin({ source, traceparent }, { parent: "ignore" }), { source });
    assert.deepEqual(await createOrigin({ source, traceparent: "00-x", tracestate: "a=b" }), { source });
    assert.deepEqual(await createOrigin({ source, traceparent, tracestate: "x".repeat(513) }), { source, traceparent });
    assert.deepEqual(await createOrigin({}), { source: "in_process" });
    assert.equal(await createOrigin({}, { record: "none" }), undefined);
  });

  it("gives the trace the id of the traceparent that it continues", async () => {
    const { storage } = createFaultyStorage();
    await using test = await testService({ storage, executor: toolCall });
    const { internalResources } = serviceInternals(test.service);
    const origin = { trace: { source: "mcp", traceparent } } as const;
    const { run, result } = await internalResources.runs.wait(scope, null, ask("g"), origin);
    await result;
    const trace = await storage.getRunTrace(scope, run.run_id);
    assert.deepEqual([trace?.head.trace_id, trace?.source], [ids.trace_id, "mcp"]);
  });
});

describe("a sink", () => {
  it("gets each span when it starts and ends, also of runs that are not stored", async () => {
    const events: [string, string, TracedAttempt][] = [];
    let flushed = 0;
    const sink: TraceSink = {
      onSpanStarted: ({ name, status }, attempt) => void events.push([name, status, attempt]),
      onSpanEnded: ({ name, status }, attempt) => void events.push([name, status, attempt]),
      flush: async () => void flushed++,
    };
    const { storage } = createFaultyStorage();
    const test = await testService({ storage, executor: toolCall, traces: { record: "none", sinks: [sink] } });
    const { run, result } = await test.service.runs.wait(null, ask("g"));
    await result;
    await test.service.stop();
    assert.deepEqual(
      events.map(([name, status]) => [name, status]),
      [
        ["g", "open"],
        ["weather", "open"],
        ["weather", "error"],
        ["g", "ok"],
      ],
    );
    const attempt = events[0]?.[2];
    assert.equal(attempt?.trace_id, run.run_id.replaceAll("-", ""));
    assert.deepEqual([attempt?.thread_id, attempt?.graph_id, attempt?.claim], [null, "g", 1]);
    assert.equal(flushed, 1);
  });

  it("that throws does not disturb the run, and is logged once a minute", async () => {
    const logged: string[] = [];
    const clock = testClock();
    const fail = (): never => {
      throw new Error("no");
    };
    const sinks = [{ onSpanStarted: fail, onSpanEnded: fail, flush: fail }];
    await using test = await createClockedService(clock, {
      executor: toolCall,
      traces: { sinks },
      environment: { ...clock, log: ({ message }) => void logged.push(message) },
    });
    const run = async (): Promise<void> => {
      const { result } = await test.service.runs.wait(null, ask("g"));
      await clock.advance(1_000);
      assert.deepEqual(await result, { ok: true });
    };
    await run();
    await run();
    const count = (): number => logged.filter((message) => message === "a trace sink failed").length;
    assert.equal(count(), 1);
    await clock.advance(60_000);
    await run();
    assert.equal(count(), 2);
  });
});

describe("a sink that misbehaves", () => {
  const logs: string[] = [];
  const log = ({ message }: { readonly message: string }): void => void logs.push(message);
  const attempt = {} as TracedAttempt;
  const span = { span_id: "1", kind: "tool", name: "t", start_ms: 0, status: "open" } as const;

  it("by methods that reject is logged, and no rejection is left unhandled", async () => {
    logs.length = 0;
    const counters = { sink_failed: 0 };
    const reject = (): Promise<never> => Promise.reject(new Error("no"));
    const sink = {
      onSpanStarted: reject,
      onSpanEnded: reject,
      onCommit: reject,
      onFeedback: reject,
      getActiveTraceParent: reject,
      flush: reject,
    } as unknown as TraceSink;
    const group = createSinkGroup([sink], { now: () => 0, log }, counters);
    group.start(span, attempt);
    group.end(span, attempt, null);
    group.commit(1);
    group.feedback({} as TracedFeedback);
    assert.equal(group.findActiveTraceParent(), undefined);
    await group.flush();
    assert.deepEqual([counters.sink_failed, logs], [6, ["a trace sink failed"]]);
  });

  it("by a call that takes more than a second is logged", () => {
    logs.length = 0;
    const counters = { sink_failed: 0 };
    let now = 0;
    const block = (ms: number) => (): void => {
      now += ms;
    };
    const environment = { now: () => 0, monotonic: () => now, log };
    const group = createSinkGroup([{ onSpanStarted: block(1_000), onSpanEnded: block(1_001) }], environment, counters);
    group.start(span, attempt);
    assert.deepEqual([counters.sink_failed, logs], [0, []]);
    group.end(span, attempt, null);
    assert.deepEqual([counters.sink_failed, logs], [1, ["a trace sink failed"]]);
  });

  it("by a flush without an end does not keep the service from stopping", async () => {
    const clock = testClock();
    const sink: TraceSink = { onSpanEnded() {}, flush: () => new Promise(() => {}) };
    const test = await testService({ agents: { plain: () => "done" }, environment: clock, traces: { sinks: [sink] } });
    let isStopped = false;
    const stopping = test.service.stop().then(() => {
      isStopped = true;
    });
    for (let waited = 0; waited < 60 && !isStopped; waited++) await clock.advance(1_000);
    await stopping;
    assert.ok(isStopped);
  });
});

describe("what a sink may do beside", () => {
  it("runs code of agents inside of spans, and gets commits and feedback", async () => {
    const calls: string[] = [];
    const feedback: TracedFeedback[] = [];
    const sink: TraceSink = {
      onSpanEnded() {},
      runIn({ attempt }, work) {
        calls.push(`in ${attempt.graph_id}`);
        return work();
      },
      onCommit: () => void calls.push("commit"),
      onFeedback: (stored) => void feedback.push(stored),
    };
    const { storage } = createFaultyStorage();
    await using test = await testService({
      storage,
      agents: { plain: () => "done" },
      traces: { sinks: [{ onSpanEnded() {} }, sink] },
    });
    const { thread_id } = await test.service.threads.create();
    const { run, result } = await test.service.runs.wait(thread_id, ask("plain"));
    await result;
    const body = { run_id: run.run_id, key: "helpful", score: 1, value: "yes", comment: "good" };
    const response = await test.fetch("http://greenroom/api/v1/feedback", {
      method: "POST",
      body: JSON.stringify(body),
    });
    assert.equal(response.status, 200);
    assert.ok(calls.includes("in plain"));
    assert.ok(calls.includes("commit"));
    const { created_at, ...stored } = feedback[0] as TracedFeedback;
    assert.deepEqual(stored, {
      ...{ run_id: run.run_id, trace_id: toTraceId(run.run_id), attempt_id: toAttemptId(run.run_id, 1) },
      ...{ key: "helpful", score: 1, value: "yes", comment: "good" },
    });
    assert.ok(created_at >= Date.parse(String(run.created_at)));
    assert.equal(feedback.length, 1);
  });

  it("throws into no run: work is called once, and its error is the one that counts", () => {
    const counters = { sink_failed: 0 };
    const logged: string[] = [];
    const environment = { now: () => 0, log: ({ message }: { message: string }) => void logged.push(message) };
    const before: TraceSink = {
      runIn() {
        throw new Error("sink");
      },
    };
    const after: TraceSink = {
      runIn(_place, work) {
        work();
        throw new Error("sink");
      },
    };
    let count = 0;
    const place = { span_id: "1", attempt: {} as TracedAttempt };
    for (const sink of [before, after]) {
      const group = createSinkGroup([sink], environment, counters);
      assert.equal(group.hasContext, true);
      assert.equal(
        group.runIn(place, () => ++count),
        count,
      );
    }
    assert.deepEqual([count, counters.sink_failed, logged.length], [2, 2, 2]);
    const failing = (): never => {
      throw new RangeError("work");
    };
    assert.throws(() => createSinkGroup([after], environment, counters).runIn(place, failing), RangeError);
    assert.equal(createSinkGroup([{ onSpanEnded() {} }], environment, counters).hasContext, false);
  });

  it("names the span in which a run is created, which the run then continues", async () => {
    const ids = { trace_id: "0af7651916cd43dd8448eb211c80319c", span_id: "b7ad6b7169203331" };
    const traceparent = `00-${ids.trace_id}-${ids.span_id}-01`;
    const { storage } = createFaultyStorage();
    const sinks: TraceSink[] = [{ onSpanEnded() {}, getActiveTraceParent: () => traceparent }];
    await using test = await testService({ storage, executor: toolCall, traces: { sinks } });
    const { run, result } = await test.service.runs.wait(null, ask("g"));
    await result;
    const trace = await storage.getRunTrace(scope, run.run_id);
    assert.equal(trace?.head.trace_id, ids.trace_id);
  });

  it("does not name a span in a trace of a caller that the run may only link", async () => {
    const ids = { trace_id: "0af7651916cd43dd8448eb211c80319c", span_id: "b7ad6b7169203331" };
    const traceparent = `00-${ids.trace_id}-${ids.span_id}-01`;
    // The span that an instrumented HTTP server has started for the request.
    const active = `00-${ids.trace_id}-${"1".repeat(16)}-01`;
    const { storage } = createFaultyStorage();
    const sinks: TraceSink[] = [{ onSpanEnded() {}, getActiveTraceParent: () => active }];
    await using test = await testService({ storage, executor: toolCall, traces: { sinks, parent: "link" } });
    const { internalResources } = serviceInternals(test.service);
    const { run, result } = await internalResources.runs.wait(scope, null, ask("g"), { trace: { traceparent } });
    await result;
    const trace = await storage.getRunTrace(scope, run.run_id);
    assert.equal(trace?.head.trace_id, undefined);
    assert.deepEqual(trace?.head.links, [{ kind: "called_by", ...ids }]);
  });
});

describe("the histograms of a service", () => {
  for (const record of ["all", "none"] as const) {
    it(`count runs, tools and commits if ${record === "all" ? "all runs are" : "nothing is"} stored`, async () => {
      const { storage } = createFaultyStorage();
      await using test = await testService({ storage, executor: toolCall, traces: { record } });
      for (let index = 0; index < 3; index++) await (await test.service.runs.wait(null, ask("g"))).result;
      const { histograms, traces } = await test.service.metrics();
      const counts = Object.fromEntries(
        histograms.map(({ name, samples }) => [name, samples.map(({ labels, count }) => [labels, count])]),
      );
      assert.deepEqual(counts["queue_wait_seconds"], [[{ graph: "g" }, 3]]);
      assert.deepEqual(counts["run_active_seconds"], [[{ graph: "g", status: "success" }, 3]]);
      assert.deepEqual(counts["tool_duration_seconds"], [[{ tool: "weather", outcome: "error" }, 3]]);
      assert.deepEqual(counts["model_duration_seconds"], []);
      assert.ok((histograms.at(-1)?.samples[0]?.count ?? 0) >= 3);
      assert.equal(traces.spans, 3);
    });
  }
});

describe("the content of a trace", () => {
  const readTraces = async (traces: object): Promise<string> => {
    const { storage } = createFaultyStorage();
    await using test = await testService({ storage, executor: toolCall, traces });
    const { run, result } = await test.service.runs.wait(null, ask("g"));
    assert.deepEqual(await result, { ok: true });
    const contents = await storage.readTraceContents(scope, run.run_id);
    return JSON.stringify([await storage.getRunTrace(scope, run.run_id), contents]);
  };

  it("has no argument and no error message by default, all with copies, and none that redact masks", async () => {
    assert.ok(!(await readTraces({})).includes("marker"));
    assert.ok(!(await readTraces({ content: "none" })).includes("marker"));
    const all = (await readTraces({ content: "all" })).replaceAll("\\", "");
    assert.ok(all.includes('"input":{"value":"marker"') && all.includes('"message":"marker"'));
    assert.ok(all.includes('"attributes":{"city":"marker"}'));
    const mask = (value: unknown): unknown => JSON.parse(JSON.stringify(value).replaceAll("marker", "***"));
    assert.ok(!(await readTraces({ content: "all", redact: mask })).includes("marker"));
    const fail = (): never => {
      throw new Error("no");
    };
    const failed = await readTraces({ content: "all", redact: fail });
    assert.ok(!failed.includes("marker") && failed.includes("weather"));
  });
});

describe("the feed of running attempts", () => {
  it("lists the spans of a run and sends those that follow, until the attempt has ended", async () => {
    const context = { options: {}, settings, scope, environment: systemEnvironment() };
    const { resources, load, spans: createSpans } = tracesFeature(context as never);
    await load?.();
    const { traceFeed } = resources;
    const run = { run_id: "r", graph_id: "g", claims: 1, attempt: 1, created_at: 0, updated_at: 0 };
    const attempt = createSpans?.({ claimed: { run } as ClaimedRun, onDue() {} });
    assert.ok(attempt);
    const id = attempt.recorder.start({ kind: "node", name: "agent" });
    assert.deepEqual(
      traceFeed.list("r")?.map(({ name, status }) => `${name} ${status}`),
      ["g open", "agent open"],
    );
    const sent: (string | null)[] = [];
    const unsubscribe = traceFeed.subscribe("r", (span) => void sent.push(span && `${span.name} ${span.status}`));
    attempt.recorder.end(id, { status: "ok" });
    attempt.end({ status: "success", isWaiting: false, counted: true, usage: null });
    attempt.close();
    assert.deepEqual(sent, ["agent ok", "g ok", null]);
    assert.equal(traceFeed.list("r"), null);
    unsubscribe();
    createSpans?.({ claimed: { run } as ClaimedRun, onDue() {} })?.close();
    assert.equal(sent.length, 3);
  });
});

describe("retention", () => {
  for (const [retention_ms, isKept] of [
    [60_000, false],
    [null, true],
  ] as const) {
    it(`of ${retention_ms} ${isKept ? "keeps" : "deletes"} a trace after a day`, async () => {
      const clock = testClock();
      const { storage } = createFaultyStorage();
      await using test = await createClockedService(clock, { storage, executor: toolCall, traces: { retention_ms } });
      const { run, result } = await test.service.runs.wait(null, ask("g"));
      await clock.advance(1_000);
      await result;
      await clock.advance(50_000);
      assert.ok(await storage.getRunTrace(scope, run.run_id));
      await clock.set(clock.now() + 86_400_000);
      await clock.advance(20_000);
      assert.equal((await storage.getRunTrace(scope, run.run_id)) !== null, isKept);
    });
  }
});

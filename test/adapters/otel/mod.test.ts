/** The exporter on an SDK with an exporter in memory: names, attributes, parents, links, content, contexts, feedback and metrics. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type Attributes, SpanKind, SpanStatusCode } from "@opentelemetry/api";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import { type EventLogger, type OtelOptions, otel, traceIds } from "../../../adapters/otel/mod.ts";
import type { Span } from "../../../lib/storage/mod.ts";
import type { TracedAttempt, TraceSink } from "../../../lib/traces/sinks.ts";

const RUN = "019a2f6e-5c11-7a40-9d3e-4b8f21c7e605";
const TRACE = RUN.replaceAll("-", "");
const CREATED = Date.UTC(2026, 0, 2);

const attempt = (members: Partial<TracedAttempt> = {}): TracedAttempt => ({
  ...{ run_id: RUN, thread_id: "thread-1", graph_id: "main", assistant_id: "main", trace_id: TRACE },
  ...{ created_at: CREATED, claim: 1, attempt: 1, previous_attempt_id: null, queued_ms: 2, links: [] },
  origin: { source: "in_process" },
  ...members,
});

const toId = (number: number): string => number.toString(16).padStart(16, "0");

/** An SDK with a sink. `play` starts spans in order, then ends them in the opposite one. */
function createExport(options: OtelOptions = {}, hasIds = true) {
  const exporter = new InMemorySpanExporter();
  const provider = new TracerProvider({
    spanProcessors: [new SimpleSpanProcessor({ exporter })],
    ...(hasIds ? { idGenerator: traceIds() } : {}),
  });
  const sink: TraceSink = otel({ tracer: provider.getTracer("greenroom"), ...options });
  const play = (traced: TracedAttempt, ...spans: readonly (Partial<Span> & Pick<Span, "kind" | "name">)[]): void => {
    const made = spans.map(
      (members, index): Span => ({
        ...{ span_id: toId(traced.claim * 100 + index + 1), start_ms: index, duration_ms: 10, status: "ok" },
        ...(index > 0 ? { parent_id: toId(traced.claim * 100 + index) } : {}),
        claim: traced.claim,
        ...members,
      }),
    );
    for (const { duration_ms: _, tokens: _tokens, output: _output, error: _error, ...span } of made)
      sink.onSpanStarted?.({ ...span, status: "open" }, traced);
    for (const span of made.reverse()) sink.onSpanEnded?.(span, traced, null);
  };
  const list = async (): Promise<readonly ReadableSpan[]> => {
    await provider.forceFlush();
    return exporter.getFinishedSpans();
  };
  const find = async (name: string): Promise<ReadableSpan> => {
    const spans = await list();
    const found = spans.find((span) => span.name === name);
    assert.ok(found, `${name} is not among ${spans.map((span) => span.name).join(", ")}`);
    return found;
  };
  return { sink, play, list, find };
}

const pick = (attributes: Attributes, prefix: string): Attributes =>
  Object.fromEntries(Object.entries(attributes).filter(([name]) => name.startsWith(prefix)));

const ATTEMPT = { kind: "attempt", name: "main" } as const;

describe("exported spans", () => {
  it("have the names, kinds and operations of the conventions", async () => {
    const { play, list } = createExport();
    play(
      attempt(),
      ATTEMPT,
      { kind: "node", name: "research" },
      { kind: "agent", name: "research" },
      { kind: "agent", name: "researcher" },
      { kind: "tool", name: "weather" },
      { kind: "retriever", name: "docs" },
      { kind: "model", name: "ChatOpenAI", model: "gpt-5" },
      { kind: "model", name: "embed-1", operation: "embeddings" },
      { kind: "custom", name: "rank" },
      { kind: "commit", name: "commit" },
    );
    const { CLIENT, INTERNAL } = SpanKind;
    assert.deepEqual(
      (await list()).map(({ name, kind, attributes }) => [name, kind, attributes["gen_ai.operation.name"]]).reverse(),
      [
        ["invoke_agent main", INTERNAL, "invoke_agent"],
        ["node research", INTERNAL, undefined],
        ["invoke_workflow research", INTERNAL, "invoke_workflow"],
        ["invoke_agent researcher", INTERNAL, "invoke_agent"],
        ["execute_tool weather", INTERNAL, "execute_tool"],
        ["retrieval docs", CLIENT, "retrieval"],
        ["chat gpt-5", CLIENT, "chat"],
        ["embeddings embed-1", CLIENT, "embeddings"],
        ["custom rank", INTERNAL, undefined],
        ["commit commit", INTERNAL, undefined],
      ],
    );
  });

  it("have the ids of the run trace, their parents, and their own times", async () => {
    const { play, list, find } = createExport();
    play(attempt(), ATTEMPT, { kind: "node", name: "call" }, { kind: "tool", name: "weather", duration_ms: 1.5 });
    const spans = await list();
    assert.deepEqual(
      spans.map((span) => [span.spanContext().traceId, span.spanContext().spanId, span.parentSpanContext?.spanId]),
      [
        [TRACE, toId(103), toId(102)],
        [TRACE, toId(102), toId(101)],
        [TRACE, toId(101), undefined],
      ],
    );
    const { startTime, endTime } = await find("execute_tool weather");
    assert.deepEqual(
      [startTime, endTime],
      [
        [CREATED / 1000, 2_000_000],
        [CREATED / 1000, 3_500_000],
      ],
    );
  });

  it("have resolvable parents in the trace of an SDK with its own ids", async () => {
    const { play, list } = createExport({}, false);
    play(attempt(), ATTEMPT, { kind: "node", name: "call" }, { kind: "tool", name: "weather" });
    const spans = await list();
    const ids = new Set(spans.map((span) => span.spanContext().spanId));
    assert.equal(new Set(spans.map((span) => span.spanContext().traceId)).size, 1);
    const parents = spans.flatMap(({ parentSpanContext }) => (parentSpanContext ? [parentSpanContext.spanId] : []));
    assert.equal(parents.length, 2);
    assert.ok(parents.every((id) => ids.has(id)));
  });

  it("lie under the attempt if their parent is a step, which sinks do not get", async () => {
    const { play, find } = createExport();
    play(attempt(), ATTEMPT, { kind: "custom", name: "inner", parent_id: "ffffffffffffffff" });
    assert.equal((await find("custom inner")).parentSpanContext?.spanId, toId(101));
  });
});

describe("attributes", () => {
  it("of a model have its request, response and usage", async () => {
    const { play, find } = createExport();
    const params = {
      ...{ temperature: 0.2, top_p: 1, top_k: 4, max_tokens: 9, stop: ["a"], seed: 1, frequency_penalty: 0.5 },
      ...{ presence_penalty: 0.25, reasoning_effort: "low", stream: true, response_format: "json_schema" },
      tools: ["weather"],
    };
    play(attempt(), ATTEMPT, {
      ...{ kind: "model", name: "ChatOpenAI", model: "gpt-5", provider: "openai", params },
      ...{ response_model: "gpt-5-1", response_id: "r1", finish_reasons: ["stop"], first_token_ms: 250 },
      ...{ tokens: { in: 5, out: 6, cache_read: 1, cache_write: 2, reasoning: 3 }, cost_usd: 0.5 },
    });
    const { attributes } = await find("chat gpt-5");
    assert.deepEqual(pick(attributes, "gen_ai."), {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "openai",
      "gen_ai.conversation.id": "thread-1",
      "gen_ai.request.model": "gpt-5",
      "gen_ai.request.temperature": 0.2,
      "gen_ai.request.top_p": 1,
      "gen_ai.request.top_k": 4,
      "gen_ai.request.max_tokens": 9,
      "gen_ai.request.seed": 1,
      "gen_ai.request.frequency_penalty": 0.5,
      "gen_ai.request.presence_penalty": 0.25,
      "gen_ai.request.reasoning.level": "low",
      "gen_ai.request.stream": true,
      "gen_ai.output.type": "json",
      "gen_ai.response.model": "gpt-5-1",
      "gen_ai.response.id": "r1",
      "gen_ai.response.finish_reasons": ["stop"],
      "gen_ai.response.time_to_first_chunk": 0.25,
      "gen_ai.usage.input_tokens": 5,
      "gen_ai.usage.output_tokens": 6,
      "gen_ai.usage.cache_read.input_tokens": 1,
      "gen_ai.usage.cache_write.input_tokens": 2,
      "gen_ai.usage.reasoning.output_tokens": 3,
    });
    assert.equal(attributes["greenroom.cost_usd"], 0.5);
  });

  it("of an attempt have the agent, the conversation and the sums of usage", async () => {
    const { sink, find } = createExport();
    const span: Span = { ...ATTEMPT, span_id: toId(1), start_ms: 2, status: "open", claim: 1 };
    sink.onSpanStarted?.(span, attempt());
    sink.onSpanEnded?.(
      { ...span, status: "ok", duration_ms: 5, counted: true, commits: { count: 2, total_ms: 1, max_ms: 1 } },
      attempt(),
      { tokens_in: 10, tokens_out: 20, cost_usd: 0.25 },
    );
    assert.deepEqual((await find("invoke_agent main")).attributes, {
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.agent.name": "main",
      "gen_ai.conversation.id": "thread-1",
      "gen_ai.usage.input_tokens": 10,
      "gen_ai.usage.output_tokens": 20,
      "greenroom.run_id": RUN,
      "greenroom.graph_id": "main",
      "greenroom.attempt": 1,
      "greenroom.claim": 1,
      "greenroom.kind": "attempt",
      "greenroom.queued_ms": 2,
      "greenroom.source": "in_process",
      "greenroom.status": "ok",
      "greenroom.counted": true,
      "greenroom.commits": 2,
      "greenroom.cost_usd": 0.25,
    });
  });

  it("of a tool and a retriever have the name, the call and top_k", async () => {
    const { play, find } = createExport();
    play(
      attempt(),
      ATTEMPT,
      { kind: "tool", name: "weather", tool_call_id: "c1", namespace: ["tools:1"] },
      { kind: "retriever", name: "docs", params: { top_k: 5 } },
    );
    const tool = (await find("execute_tool weather")).attributes;
    assert.deepEqual(pick(tool, "gen_ai."), {
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": "weather",
      "gen_ai.tool.type": "function",
      "gen_ai.tool.call.id": "c1",
    });
    assert.deepEqual(tool["greenroom.namespace"], ["tools:1"]);
    assert.equal((await find("retrieval docs")).attributes["gen_ai.retrieval.top_k"], 5);
  });

  it("say how a span failed", async () => {
    const { play, find, list } = createExport();
    const error = { type: "RangeError", message: "secret" };
    play(
      attempt(),
      { ...ATTEMPT, status: "timeout" },
      { kind: "tool", name: "broken", status: "error", error },
      { kind: "tool", name: "asks", status: "interrupted" },
      { kind: "node", name: "gone", status: "lost" },
    );
    const broken = await find("execute_tool broken");
    assert.deepEqual([broken.status, broken.attributes["error.type"]], [{ code: SpanStatusCode.ERROR }, "RangeError"]);
    const asks = await find("execute_tool asks");
    assert.deepEqual([asks.status.code, asks.attributes["error.type"]], [SpanStatusCode.UNSET, undefined]);
    assert.equal((await find("node gone")).attributes["error.type"], "lost");
    assert.equal((await find("invoke_agent main")).attributes["error.type"], "timeout");
    assert.ok(!JSON.stringify((await list()).map(({ attributes, status }) => [attributes, status])).includes("secret"));
  });
});

describe("content", () => {
  const value = (content: never) => ({ value: content, bytes: 1, truncated: false });
  const model: Partial<Span> & Pick<Span, "kind" | "name"> = {
    kind: "model",
    ...{ name: "m", params: { stop: ["Stop here"], tools: ["weather"] }, finish_reasons: ["tool_calls"] },
    input: value([
      { type: "system", content: "Be brief" },
      { type: "human", content: [{ type: "text", text: "Weather?" }] },
      { type: "ai", content: "", tool_calls: [{ id: "c1", name: "weather", args: { city: "Paris" } }] },
      { type: "tool", content: "rain", tool_call_id: "c1" },
    ] as never),
    output: value([{ type: "ai", content: "It rains" }] as never),
  };
  const tool: Partial<Span> & Pick<Span, "kind" | "name"> = {
    kind: "tool",
    ...{ name: "weather", input: value({ city: "Paris" } as never), output: value("rain" as never) },
    status: "error",
    ...{ error: { type: "Error", message: "no rain" }, attributes: { rows: 3 } },
  };

  it("is exported as messages, arguments and results only where it is asked for", async () => {
    const { play, find } = createExport({ content: true });
    play(attempt(), ATTEMPT, model, tool);
    const { attributes } = await find("chat m");
    const parse = (name: string): unknown => JSON.parse(String(attributes[name]));
    assert.deepEqual(parse("gen_ai.system_instructions"), [{ type: "text", content: "Be brief" }]);
    assert.deepEqual(parse("gen_ai.input.messages"), [
      { role: "user", parts: [{ type: "text", content: "Weather?" }] },
      { role: "assistant", parts: [{ type: "tool_call", id: "c1", name: "weather", arguments: { city: "Paris" } }] },
      { role: "tool", parts: [{ type: "tool_call_response", id: "c1", response: "rain" }] },
    ]);
    assert.deepEqual(parse("gen_ai.output.messages"), [
      { role: "assistant", parts: [{ type: "text", content: "It rains" }], finish_reason: "tool_calls" },
    ]);
    assert.deepEqual(attributes["gen_ai.request.stop_sequences"], ["Stop here"]);
    assert.deepEqual(parse("gen_ai.tool.definitions"), [{ type: "function", name: "weather" }]);
    const failed = await find("execute_tool weather");
    assert.deepEqual(pick(failed.attributes, "gen_ai.tool.call"), {
      "gen_ai.tool.call.arguments": '{"city":"Paris"}',
      "gen_ai.tool.call.result": "rain",
    });
    assert.equal(failed.attributes["greenroom.attributes.rows"], 3);
    assert.equal(failed.status.message, "no rain");
  });

  it("does not leave the process by default", async () => {
    const { play, list } = createExport();
    play(attempt(), ATTEMPT, model, tool);
    const text = JSON.stringify((await list()).map(({ attributes, status }) => [attributes, status]));
    for (const secret of ["Be brief", "Stop here", "Weather?", "Paris", "rain", "greenroom.attributes"])
      assert.ok(!text.includes(secret), secret);
  });
});

describe("attempts of a run", () => {
  it("share a trace, and link to the attempt before, also one of another process", async () => {
    const { play, list } = createExport();
    play(attempt({ claim: 2, attempt: 2, previous_attempt_id: toId(101) }), ATTEMPT);
    play(attempt({ claim: 3, attempt: 3, previous_attempt_id: toId(201) }), ATTEMPT);
    const [second, third] = await list();
    assert.deepEqual(
      second?.links.map(({ context }) => [context.traceId, context.spanId]),
      [[TRACE, toId(101)]],
    );
    assert.deepEqual(
      third?.links.map(({ context, attributes }) => [context.spanId, attributes]),
      [[toId(201), { "greenroom.link": "retries" }]],
    );
    play(attempt({ run_id: `${RUN.slice(0, -1)}6`, claim: 2, previous_attempt_id: toId(77) }), ATTEMPT);
    assert.deepEqual(
      (await list())[2]?.links.map(({ context }) => context.spanId),
      [toId(77)],
    );
  });

  it("are exported if their process has died, when the next one ends them", async () => {
    const { sink, find } = createExport();
    const lost: Span = { ...ATTEMPT, span_id: toId(9), start_ms: 1, duration_ms: 4, status: "lost", claim: 1 };
    sink.onSpanStarted?.(
      { ...ATTEMPT, span_id: toId(10), start_ms: 20, status: "open", claim: 2 },
      attempt({ claim: 2 }),
    );
    sink.onSpanEnded?.(lost, attempt({ claim: 2 }), null);
    const { attributes, endTime } = await find("invoke_agent main");
    assert.equal(attributes["greenroom.status"], "lost");
    assert.deepEqual(endTime, [CREATED / 1000, 5_000_000]);
  });

  it("continue a traceparent", async () => {
    const ids = { trace_id: "0af7651916cd43dd8448eb211c80319c", span_id: "b7ad6b7169203331" };
    const origin = {
      source: "runs.wait",
      traceparent: `00-${ids.trace_id}-${ids.span_id}-01`,
      tracestate: "a=b",
    } as const;
    const { play, find } = createExport({}, false);
    play(attempt({ trace_id: ids.trace_id, origin }), ATTEMPT);
    const span = await find("invoke_agent main");
    assert.deepEqual(
      [span.spanContext().traceId, span.parentSpanContext?.spanId, span.parentSpanContext?.traceState?.get("a")],
      [ids.trace_id, ids.span_id, "b"],
    );
  });

  it("lie under the request that created the run, unless that has a span", async () => {
    const origin = { source: "runs.wait", route: "POST /runs/wait", request_id: "q1" } as const;
    const { play, list, find } = createExport();
    play(attempt({ origin }), ATTEMPT);
    play(attempt({ origin, claim: 2 }), { ...ATTEMPT, name: "again" });
    const request = await find("POST /runs/wait");
    assert.equal(request.kind, SpanKind.SERVER);
    assert.deepEqual(
      [request.attributes["http.request.method"], request.attributes["http.route"]],
      ["POST", "/runs/wait"],
    );
    for (const name of ["invoke_agent main", "invoke_agent again"])
      assert.equal((await find(name)).parentSpanContext?.spanId, request.spanContext().spanId);
    play(attempt({ run_id: "other", origin: { ...origin, has_request_span: true } }), { ...ATTEMPT, name: "third" });
    assert.equal((await list()).filter(({ kind }) => kind === SpanKind.SERVER).length, 1);
  });
});

describe("feedback", () => {
  const feedback = {
    ...{ run_id: RUN, trace_id: TRACE, attempt_id: toId(101), key: "helpful", score: true, value: "yes" },
    ...{ comment: "good", created_at: CREATED },
  } as const;

  it("is a span under the last attempt, with its comment only in exporters of content", async () => {
    const { play, sink, find } = createExport();
    play(attempt(), ATTEMPT);
    sink.onFeedback?.(feedback);
    const span = await find("gen_ai.evaluation.result");
    assert.equal(span.parentSpanContext?.spanId, toId(101));
    assert.deepEqual(span.startTime, span.endTime);
    assert.deepEqual(span.attributes, {
      "gen_ai.evaluation.name": "helpful",
      "gen_ai.evaluation.score.value": 1,
      "gen_ai.evaluation.score.label": "yes",
      "greenroom.run_id": RUN,
    });
    const withContent = createExport({ content: true });
    withContent.sink.onFeedback?.(feedback);
    const { attributes } = await withContent.find("gen_ai.evaluation.result");
    assert.equal(attributes["gen_ai.evaluation.explanation"], "good");
  });

  it("is an event for a logger", async () => {
    const events: Parameters<EventLogger["emit"]>[0][] = [];
    const { sink, list } = createExport({ logger: { emit: (event) => void events.push(event) } });
    sink.onFeedback?.({ ...feedback, score: null, value: null });
    assert.deepEqual(
      events.map(({ eventName, attributes }) => [eventName, attributes]),
      [["gen_ai.evaluation.result", { "gen_ai.evaluation.name": "helpful", "greenroom.run_id": RUN }]],
    );
    assert.deepEqual(await list(), []);
  });
});

describe("metrics", () => {
  it("are recorded with the buckets of /metrics", async () => {
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
    const reader = new PeriodicExportingMetricReader({ exporter });
    const meters = new MeterProvider({ readers: [reader] });
    const { sink, play } = createExport({ meter: meters.getMeter("greenroom") });
    const model = {
      kind: "model",
      name: "m",
      provider: "openai",
      tokens: { in: 5, out: 6 },
      first_token_ms: 4,
    } as const;
    play(attempt(), ATTEMPT, model, { kind: "tool", name: "weather" }, { ...model, operation: "embeddings" });
    sink.onCommit?.(1.5);
    await meters.forceFlush();
    const metrics = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics));
    const points = metrics.map(({ descriptor, dataPoints }) => [
      descriptor.name,
      dataPoints.map(({ attributes, value }) => [attributes, (value as { readonly count: number }).count]),
    ]);
    const labels = { "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m" };
    assert.deepEqual(Object.fromEntries(points), {
      "greenroom.queue.duration": [[{ "greenroom.graph_id": "main" }, 1]],
      "gen_ai.invoke_agent.duration": [[{ "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "main" }, 1]],
      "gen_ai.client.inference.duration": [[labels, 1]],
      "gen_ai.client.inference.time_to_first_chunk": [[labels, 1]],
      "gen_ai.client.inference.operation.input_tokens": [[labels, 1]],
      "gen_ai.client.inference.operation.output_tokens": [[labels, 1]],
      "gen_ai.execute_tool.duration": [[{ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather" }, 1]],
      "greenroom.commit.duration": [[{}, 1]],
    });
    const tokens = metrics.find(({ descriptor }) => descriptor.name.endsWith("operation.input_tokens"));
    const point = tokens?.dataPoints[0]?.value as { readonly buckets: { readonly boundaries: number[] } } | undefined;
    const { boundaries = [] } = point?.buckets ?? {};
    assert.deepEqual([boundaries[0], boundaries.at(-1)], [1, 4_194_304]);
    await meters.shutdown();
  });
});

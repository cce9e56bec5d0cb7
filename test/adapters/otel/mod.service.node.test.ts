/** The exporter on a service with an SDK that is registered globally: what runs of graphs and functions export, and their contexts. */
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { context, SpanKind, trace } from "@opentelemetry/api";
import { NodeSDK } from "@opentelemetry/sdk-node";
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor } from "@opentelemetry/sdk-trace";
import { otel, traceIds } from "../../../adapters/otel/mod.ts";
import { testService } from "../../suite/kit.ts";

const exporter = new InMemorySpanExporter();
const sdk = new NodeSDK({
  spanProcessors: [new SimpleSpanProcessor({ exporter })],
  ...{ idGenerator: traceIds(), metricReaders: [], logRecordProcessors: [], autoDetectResources: false },
});

const readActiveId = (): string | undefined => trace.getActiveSpan()?.spanContext().spanId;

/** The ids of the spans that were active in code of the agents. */
const active: Record<string, string | undefined> = {};

const State = Annotation.Root({ text: Annotation<string> });
const graph = new StateGraph(State)
  .addNode("inner", async () => {
    active["inner"] = readActiveId();
    await Promise.resolve();
    active["inner, later"] = readActiveId();
    return { text: "done" };
  })
  .addEdge(START, "inner")
  .addEdge("inner", END)
  .compile();
const agents = {
  graph,
  async plain({ span }: { span(name: string, work: () => Promise<string>): Promise<string> }) {
    active["plain"] = readActiveId();
    return await span("rank", async () => {
      active["rank"] = readActiveId();
      return "done";
    });
  },
};

const post = (body: object): RequestInit => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(body),
});

describe("the exporter on a service", () => {
  before(() => sdk.start());
  after(() => sdk.shutdown());
  beforeEach(() => exporter.reset());

  /** Calls an agent by HTTP and returns the exported spans by name. */
  async function run(assistant_id: string): Promise<ReadonlyMap<string, ReadableSpan>> {
    await using test = await testService({ agents, traces: { sinks: [otel()] } });
    const response = await test.fetch("http://greenroom/runs/wait", post({ assistant_id, input: { text: "" } }));
    assert.equal(response.status, 200);
    await response.text();
    const spans = exporter.getFinishedSpans();
    const ids = new Set(spans.map((span) => span.spanContext().spanId));
    const parents = spans.flatMap(({ parentSpanContext }) => parentSpanContext?.spanId ?? []);
    assert.ok(
      parents.every((id) => ids.has(id)),
      "parents resolve",
    );
    assert.equal(new Set(spans.map((span) => span.spanContext().traceId)).size, 1);
    return new Map(spans.map((span) => [span.name, span]));
  }

  const readId = (spans: ReadonlyMap<string, ReadableSpan>, name: string): string | undefined =>
    spans.get(name)?.spanContext().spanId;

  it("exports the request, the attempt and the nodes of a graph, and runs each node in its span", async () => {
    const spans = await run("graph");
    assert.deepEqual([...spans.keys()].sort(), ["POST /runs/wait", "invoke_agent graph", "node inner"]);
    assert.equal(spans.get("POST /runs/wait")?.kind, SpanKind.SERVER);
    assert.equal(spans.get("node inner")?.parentSpanContext?.spanId, readId(spans, "invoke_agent graph"));
    assert.ok(readId(spans, "node inner"));
    assert.deepEqual([active["inner"], active["inner, later"]], Array(2).fill(readId(spans, "node inner")));
  });

  it("exports the spans of a function, and runs their work in them", async () => {
    const spans = await run("plain");
    assert.equal(active["plain"], readId(spans, "invoke_agent plain"));
    assert.equal(active["rank"], readId(spans, "custom rank"));
    assert.ok(active["plain"] && active["rank"]);
  });

  it("continues the span in which a run is created, and then exports no request", async () => {
    const tracer = trace.getTracer("host");
    const outer = tracer.startSpan("host");
    await using test = await testService({ agents, traces: { sinks: [otel()] } });
    const response = await context.with(trace.setSpan(context.active(), outer), () =>
      test.fetch("http://greenroom/runs/wait", post({ assistant_id: "plain", input: {} })),
    );
    await response.text();
    outer.end();
    const spans = exporter.getFinishedSpans();
    const attempt = spans.find(({ name }) => name === "invoke_agent plain");
    assert.equal(attempt?.parentSpanContext?.spanId, outer.spanContext().spanId);
    assert.equal(attempt?.spanContext().traceId, outer.spanContext().traceId);
    assert.ok(!spans.some(({ kind }) => kind === SpanKind.SERVER));
  });
});

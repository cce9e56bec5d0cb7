/** The exporter on a service with an SDK that is registered globally: what runs of graphs and functions export, and their contexts. */
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import { tool } from "@langchain/core/tools";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { context, SpanKind, trace } from "@opentelemetry/api";
import { NodeSDK } from "@opentelemetry/sdk-node";
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor } from "@opentelemetry/sdk-trace";
import { z } from "zod";
import { span } from "../../../adapters/langgraph/mod.ts";
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
const look = tool(
  async () => {
    active["look"] = readActiveId();
    await Promise.resolve();
    active["look, later"] = readActiveId();
    trace.getTracer("instrumented fetch").startSpan("GET").end();
    return "warm";
  },
  { name: "look", schema: z.object({}) },
);
const tooled = new StateGraph(State)
  .addNode("inner", async () => {
    await look.invoke({});
    active["inner"] = readActiveId();
    await span("named", async () => {
      active["named"] = readActiveId();
      await look.invoke({});
      active["named, later"] = readActiveId();
    });
    return { text: "done" };
  })
  .addEdge(START, "inner")
  .compile();
const agents = {
  graph,
  tooled,
  async stepped({ step }: { step(name: string, work: () => string, options?: object): Promise<string> }) {
    let tries = 0;
    await step("save", () => {
      active["save"] = readActiveId();
      return "done";
    });
    return await step(
      "flaky",
      () => {
        tries++;
        active[`try ${tries}`] = readActiveId();
        if (tries === 1) throw new RangeError("Not yet");
        return "done";
      },
      { retries: 1, backoff: 1 },
    );
  },
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

  it("makes the span of a tool and a named span the active one in the node that calls it", async () => {
    const spans = await run("tooled");
    const tools = exporter.getFinishedSpans().filter(({ name }) => name === "execute_tool look");
    const [first, second] = tools.map((exported) => exported.spanContext().spanId);
    assert.ok(first && second);
    assert.deepEqual([active["look"], active["look, later"]], [second, second]);
    assert.equal(active["inner"], readId(spans, "node inner"));
    assert.deepEqual([active["named"], active["named, later"]], Array(2).fill(readId(spans, "custom named")));
    assert.deepEqual(
      tools.map(({ parentSpanContext }) => parentSpanContext?.spanId),
      [readId(spans, "node inner"), readId(spans, "custom named")],
    );
    const requests = exporter.getFinishedSpans().filter(({ name }) => name === "GET");
    assert.deepEqual(
      requests.map(({ parentSpanContext }) => parentSpanContext?.spanId),
      [first, second],
    );
  });

  it("exports each try of a step, and runs its work in it", async () => {
    const spans = await run("stepped");
    assert.ok(active["save"]);
    assert.equal(active["save"], readId(spans, "step save"));
    const tries = exporter.getFinishedSpans().filter(({ name }) => name === "step flaky");
    assert.deepEqual(
      tries.map((exported) => exported.spanContext().spanId),
      [active["try 1"], active["try 2"]],
    );
    assert.deepEqual(
      tries.map(({ attributes }) => [attributes["greenroom.try"], attributes["error.type"]]),
      [
        [1, "RangeError"],
        [2, undefined],
      ],
    );
    const attempt = readId(spans, "invoke_agent stepped");
    assert.ok(tries.every(({ parentSpanContext }) => parentSpanContext?.spanId === attempt));
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

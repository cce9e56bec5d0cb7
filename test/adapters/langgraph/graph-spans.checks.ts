/** Checks of the traces that agents of LangChain and functions leave in a database: their trees, sums, tries, and what they keep of prompts. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type ToolRuntime, tool } from "@langchain/core/tools";
import { Command, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { SpanKind } from "@opentelemetry/api";
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import { createAgent, ToolMessage } from "langchain";
import { z } from "zod";
import { ATTRIBUTES, CUSTOM_PREFIX, OWN_ATTRIBUTES } from "../../../adapters/otel/conventions.ts";
import { otel, traceIds } from "../../../adapters/otel/mod.ts";
import type { SqlDriver } from "../../../adapters/sql/driver.ts";
import type { FunctionJob } from "../../../lib/functions/function-job.ts";
import type { Json } from "../../../lib/json.ts";
import type { ServiceOptions } from "../../../lib/mod.ts";
import type { Span, Storage, TraceUsage } from "../../../lib/storage/mod.ts";
import type { RunTrace } from "../../../lib/traces/run-trace.ts";
import type { TraceSink } from "../../../lib/traces/sinks.ts";
import { type TestService, testService } from "../../suite/kit.ts";
import { CALL_TOKENS, hasToolResult, type TimedCall, TimedModel } from "../../support/timed-model.ts";
import { until } from "../../support/until.ts";
import { createResearchAgent, type Graph, QUESTION } from "./graph-spans.harness.ts";

/** A new database. The service that uses the storage closes it. */
export interface TestDatabase {
  readonly driver: SqlDriver;
  readonly storage: Storage;
}

type OpenDatabase = () => Promise<TestDatabase>;
type Agents = Readonly<Record<string, unknown>>;

async function createTraced(
  storage: Storage,
  agents: Agents,
  traces: ServiceOptions["traces"] = {},
): Promise<TestService> {
  return await testService({ storage, agents, traces } as never);
}

async function send({ fetch }: TestService, path: string, body?: object): Promise<Response> {
  const init = body ? { method: "POST", body: JSON.stringify(body) } : {};
  return await fetch(`http://greenroom${path}`, init);
}

async function read<Answer>(test: TestService, path: string, body?: object): Promise<Answer> {
  const response = await send(test, path, body);
  const text = await response.text();
  assert.ok(response.ok, `${path}: ${response.status} ${text}`);
  return JSON.parse(text) as Answer;
}

/** Returns the trace of the run with this status that a thread has. */
async function readTrace(test: TestService, thread_id: string, status = "success"): Promise<RunTrace> {
  let run_id = "";
  await until(async () => {
    const [run] = await read<{ run_id: string; status: string }[]>(test, `/threads/${thread_id}/runs`);
    run_id = run?.run_id ?? "";
    return run !== undefined && !["pending", "running"].includes(run.status);
  });
  const trace = await read<RunTrace>(test, `/threads/${thread_id}/runs/${run_id}/trace`);
  assert.equal(trace.status, status);
  return trace;
}

/** The ways in which clients follow a run: each starts it, and reads until it has ended. */
const WAYS: Readonly<Record<string, (test: TestService, thread_id: string, assistant_id: string) => Promise<void>>> = {
  async "/runs/wait"(test, thread_id, assistant_id) {
    await read(test, `/threads/${thread_id}/runs/wait`, { assistant_id, input: QUESTION });
  },
  async "a stream of modes"(test, thread_id, assistant_id) {
    const body = { assistant_id, input: QUESTION, stream_mode: ["messages-tuple", "events"], stream_subgraphs: true };
    const text = await (await send(test, `/threads/${thread_id}/runs/stream`, body)).text();
    assert.match(text, /event: messages/);
    assert.match(text, /event: events/);
  },
  async "the event protocol"(test, thread_id, assistant_id) {
    const params = { assistant_id, input: QUESTION };
    await read(test, `/threads/${thread_id}/commands`, { id: 1, method: "run.start", params });
  },
};

/** Returns the spans that executors record as lines: kind and name from below the attempt, and the status if it is not "ok". */
function describeTree({ spans }: Pick<RunTrace, "spans">): string[] {
  const byId = new Map(spans.map((span) => [span.span_id, span]));
  const toPath = (span: Span): string => {
    const parent = byId.get(span.parent_id ?? "");
    assert.ok(parent, `${span.kind} ${span.name} has no parent`);
    return `${parent.kind === "attempt" ? "" : `${toPath(parent)} > `}${span.kind} ${span.name}`;
  };
  return spans
    .filter(({ claim, kind }) => claim !== undefined && kind !== "queue" && kind !== "attempt" && kind !== "commit")
    .map((span) => `${toPath(span)}${span.status === "ok" ? "" : `, ${span.status}`}`);
}

const find = ({ spans }: RunTrace, kindOrName: string): Span[] =>
  spans.filter(({ kind, name }) => kind === kindOrName || name === kindOrName);

const findEnd = ({ start_ms, duration_ms = Number.NaN }: Span): number => start_ms + duration_ms;

const RESEARCH_TREE = [
  "node model_request",
  "node model_request > model large",
  "node model_request",
  "node model_request > model large",
  "node tools",
  "node tools > tool research",
  "node tools > tool research > agent researcher",
  "node tools > tool research > agent researcher > node model_request",
  "node tools > tool research > agent researcher > node model_request > model small",
  "node tools",
  "node tools > tool weather",
];

/** Creates an agent whose tool `task` asks a subagent and answers with a command, as those of Deep Agents do. */
function createDeepAgent(): Graph {
  const writer = createAgent({
    name: "writer",
    model: new TimedModel("small", [], () => ({ text: "A report." })),
    tools: [],
  });
  const task = tool(
    async ({ description }, config: ToolRuntime) => {
      const input = { messages: [{ role: "user" as const, content: description }] };
      const { messages } = await writer.invoke(input, config as object);
      const content = String(messages.at(-1)?.content);
      return new Command({ update: { messages: [new ToolMessage({ content, tool_call_id: config.toolCallId })] } });
    },
    { name: "task", schema: z.object({ description: z.string(), subagent_type: z.string() }) },
  );
  const args = { description: "Write a report", subagent_type: "writer" };
  const model = new TimedModel("large", [], (messages) =>
    hasToolResult(messages) ? { text: "Done." } : { calls: { c1: { name: "task", args } } },
  );
  return createAgent({ model, tools: [task] }) as unknown as Graph;
}

const DEEP_TREE = [
  "node model_request",
  "node model_request > model large",
  "node model_request",
  "node model_request > model large",
  "node tools",
  "node tools > tool task",
  "node tools > tool task > agent writer",
  "node tools > tool task > agent writer > node model_request",
  "node tools > tool task > agent writer > node model_request > model small",
];

/** Checks that the spans of models contain the times that the models have noted, in their order. */
function requireTimes(trace: RunTrace, calls: readonly TimedCall[]): void {
  const models = find(trace, "model").toSorted((a, b) => a.start_ms - b.start_ms);
  assert.deepEqual(
    models.map(({ name }) => name),
    calls.map(({ model }) => model),
  );
  for (const [index, { started, ended }] of calls.entries())
    assert.ok((models[index]?.duration_ms ?? 0) + 0.001 >= ended - started, `call ${index}`);
  for (const span of trace.spans) {
    const parent = trace.spans.find(({ span_id }) => span_id === span.parent_id);
    if (!parent || span.kind === "request" || span.kind === "queue") continue;
    assert.ok(parent.start_ms <= span.start_ms + 0.002, `${span.name} starts before ${parent.name}`);
    assert.ok(findEnd(span) <= findEnd(parent) + 0.002, `${span.name} ends after ${parent.name}`);
  }
}

function registerTreeChecks(open: OpenDatabase): void {
  for (const [way, follow] of Object.entries(WAYS)) {
    it(`of an agent with parallel tools and a subagent form the same tree by ${way}`, async () => {
      const { storage } = await open();
      const calls: TimedCall[] = [];
      await using test = await createTraced(storage, { agent: createResearchAgent(calls), deep: createDeepAgent() });
      const { thread_id } = await read<{ thread_id: string }>(test, "/threads", {});
      await follow(test, thread_id, "agent");
      const trace = await readTrace(test, thread_id);
      assert.deepEqual(describeTree(trace).sort(), RESEARCH_TREE.toSorted());
      requireTimes(trace, calls);
      const [weather, research] = [find(trace, "weather")[0] as Span, find(trace, "research")[0] as Span];
      assert.deepEqual([weather.tool_call_id, research.tool_call_id], ["c1", "c2"]);
      // Each waits for the other one.
      assert.ok(weather.start_ms < findEnd(research) && research.start_ms < findEnd(weather), "they overlap");
      const { thread_id: other } = await read<{ thread_id: string }>(test, "/threads", {});
      await follow(test, other, "deep");
      assert.deepEqual(describeTree(await readTrace(test, other)).sort(), DEEP_TREE.toSorted());
    });
  }

  for (const [way, follow] of Object.entries(WAYS)) {
    it(`of nodes take the time that the nodes took, and not that of the run, by ${way}`, async () => {
      const { storage } = await open();
      const times: { started: number; ended: number }[] = [];
      const work = async (): Promise<object> => {
        const started = performance.now();
        await new Promise((resolve) => setTimeout(resolve, 20));
        times.push({ started, ended: performance.now() });
        return {};
      };
      const graph = new StateGraph(MessagesAnnotation)
        .addNode("before", work)
        .addNode("measured", async (state) => {
          const call = await new TimedModel("large", [], () => ({ text: "Yes." })).invoke(state.messages);
          return { ...(await work()), messages: [call] };
        })
        .addNode("after", work)
        .addEdge(START, "before")
        .addEdge("before", "measured")
        .addEdge("measured", "after")
        .compile();
      await using test = await createTraced(storage, { graph });
      const { thread_id } = await read<{ thread_id: string }>(test, "/threads", {});
      await follow(test, thread_id, "graph");
      const trace = await readTrace(test, thread_id);
      const [before, measured, after] = times as [(typeof times)[0], (typeof times)[0], (typeof times)[0]];
      const { duration_ms = Number.NaN } = find(trace, "measured")[0] as Span;
      assert.ok(duration_ms + 0.002 >= measured.ended - measured.started, "it is as long as its work");
      assert.ok(
        duration_ms - 0.002 <= after.started - before.ended,
        "it is not longer than the time between its neighbours",
      );
    });
  }

  it("have the sums of their tokens, which are those of the run", async () => {
    const { storage } = await open();
    await using test = await createTraced(storage, { agent: createResearchAgent([]) });
    for (const follow of Object.values(WAYS)) {
      const { thread_id } = await read<{ thread_id: string }>(test, "/threads", {});
      await follow(test, thread_id, "agent");
      const { totals, spans, run_id } = await readTrace(test, thread_id);
      const sum = (name: "in" | "out"): number => spans.reduce((total, { tokens }) => total + (tokens?.[name] ?? 0), 0);
      const expected = [3 * CALL_TOKENS.in, 3 * CALL_TOKENS.out];
      assert.deepEqual([sum("in"), sum("out")], expected);
      assert.deepEqual([totals.tokens_in, totals.tokens_out, totals.model, totals.tool], [...expected, 3, 2]);
      assert.equal(totals.spans, spans.length);
      const { usage } = await read<{ usage: TraceUsage }>(test, `/greenroom/runs/${run_id}`);
      assert.deepEqual([usage.tokens_in, usage.tokens_out], expected);
    }
  });

  it("of an interrupt in a tool are interrupted, and their run is not among the failed ones", async () => {
    const { storage } = await open();
    const ask = tool(() => String(interrupt("Really?")), { name: "ask", schema: z.object({}) });
    const model = new TimedModel("large", [], () => ({ calls: { c1: { name: "ask", args: {} } } }));
    await using test = await createTraced(storage, { agent: createAgent({ model, tools: [ask] }) });
    const { thread_id } = await read<{ thread_id: string }>(test, "/threads", {});
    await read(test, `/threads/${thread_id}/runs/wait`, { assistant_id: "agent", input: QUESTION });
    const trace = await readTrace(test, thread_id);
    assert.deepEqual(describeTree(trace), [
      "node model_request",
      "node model_request > model large",
      "node tools, interrupted",
      "node tools > tool ask, interrupted",
    ]);
    assert.deepEqual(
      trace.spans.filter(({ error }) => error !== undefined),
      [],
    );
    assert.deepEqual([find(trace, "attempt")[0]?.status, trace.totals.errors], ["interrupted", 0]);
    const list = async (query: string): Promise<number> =>
      (await read<{ items: unknown[] }>(test, `/greenroom/traces${query}`)).items.length;
    assert.deepEqual([await list("?failed=true"), await list("?failed=false")], [0, 1]);
  });

  it("of a node that is tried again are one for each try, and none for its conditional edge", async () => {
    const { storage } = await open();
    let tries = 0;
    const graph = new StateGraph(MessagesAnnotation)
      .addNode(
        "flaky",
        () => {
          tries++;
          if (tries < 2) throw new RangeError("too busy");
          return {};
        },
        { retryPolicy: { initialInterval: 1, jitter: false, logWarning: false } },
      )
      .addEdge(START, "flaky")
      .addConditionalEdges("flaky", () => "__end__", ["__end__"])
      .compile();
    await using test = await createTraced(storage, { graph });
    const { thread_id } = await read<{ thread_id: string }>(test, "/threads", {});
    await read(test, `/threads/${thread_id}/runs/wait`, { assistant_id: "graph", input: QUESTION });
    const trace = await readTrace(test, thread_id);
    const nodes = find(trace, "node");
    assert.deepEqual(
      nodes.map(({ name, try: number, status, error, links }) => [name, number, status, error?.type, links]),
      [
        ["flaky", 1, "error", "RangeError", undefined],
        ["flaky", 2, "ok", undefined, [{ kind: "retries", span_id: nodes[0]?.span_id }]],
      ],
    );
  });
}

const MARKED = ["system", "prompt", "argument", "result", "error", "attribute", "stop"] as const;
const mark = (what: (typeof MARKED)[number]): string => `MARKER-${what}`;

/** Creates agents that have a marker in each place where a prompt, an answer or a secret may be. */
function createMarkedAgents(): Agents {
  const lookUp = tool(() => mark("result"), { name: "look_up", schema: z.object({ city: z.string() }) });
  const fail = tool(() => Promise.reject(new RangeError(mark("error"))), { name: "fail", schema: z.object({}) });
  const model = new TimedModel("large", [], (messages) =>
    hasToolResult(messages)
      ? { text: mark("result") }
      : {
          calls: { c1: { name: "look_up", args: { city: mark("argument") } }, c2: { name: "fail", args: {} } },
        },
  );
  const invocationParams = (): object => ({ model: "large", temperature: 0.2, stop: [mark("stop")] });
  Object.assign(model, { invocationParams, bindTools: () => model });
  return {
    marked: createAgent({ model, tools: [lookUp, fail], systemPrompt: mark("system") }),
    async plain({ span }: FunctionJob) {
      const attributes = { city: mark("attribute") };
      await span("look up", () => mark("result"), { kind: "tool", attributes });
      await span("fail", () => Promise.reject(new Error(mark("error")))).catch(() => {});
      throw new Error(mark("error"));
    },
  };
}

const TRACE_TABLES = ["run_traces", "run_trace_parts", "run_trace_contents"];

/** Returns everything that the tables of traces have. */
async function readTables(driver: SqlDriver): Promise<string> {
  const tables = await Promise.all(
    TRACE_TABLES.map((table) => driver.read({ sql: `select * from ${table}`, args: [] })),
  );
  assert.ok(tables[0]?.length, "no trace is stored");
  return JSON.stringify(tables, (_, value) => (typeof value === "bigint" ? String(value) : value));
}

const listMarkers = (text: string): string[] => MARKED.filter((what) => text.includes(mark(what)));

/** Returns all texts in a value, also those that its functions return. */
function listTexts(value: unknown): string[] {
  if (typeof value === "function") return listTexts((value as () => unknown)());
  if (typeof value === "object" && value !== null) return Object.values(value).flatMap(listTexts);
  return [String(value)];
}

interface KeptMarkers {
  readonly tables: readonly string[];
  readonly sink: readonly string[];
  readonly exported: readonly string[];
  readonly exportedWithContent: readonly string[];
}

/** Runs the agents, and returns which markers the tables and the sinks have. */
async function findMarkers(
  { driver, storage }: TestDatabase,
  traces: Omit<NonNullable<ServiceOptions["traces"]>, "sinks">,
): Promise<KeptMarkers> {
  const texts: string[] = [];
  const note = (span: Span): void => void texts.push(...listTexts(span));
  const exporters = [new InMemorySpanExporter(), new InMemorySpanExporter()];
  const providers = exporters.map(
    (exporter) =>
      new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })], idGenerator: traceIds() }),
  );
  const [bare, withContent] = providers.map((provider, index) =>
    otel({ tracer: provider.getTracer("greenroom"), content: index === 1 }),
  );
  const sinks = [{ onSpanStarted: note, onSpanEnded: note }, bare as TraceSink, withContent as TraceSink];
  await using test = await createTraced(storage, createMarkedAgents(), { ...traces, sinks });
  for (const [assistant_id, status] of [
    ["marked", "success"],
    ["plain", "error"],
  ] as const) {
    const { thread_id } = await read<{ thread_id: string }>(test, "/threads", {});
    const input = { messages: [{ role: "user", content: mark("prompt") }] };
    await send(test, `/threads/${thread_id}/runs/wait`, { assistant_id, input });
    await readTrace(test, thread_id, status);
  }
  const exported = exporters.map((exporter) => {
    const spans = exporter.getFinishedSpans();
    assert.ok(spans.length > 10);
    return listMarkers(
      JSON.stringify(spans.map(({ name, attributes, events, status }) => [name, attributes, events, status])),
    );
  });
  return {
    tables: listMarkers(await readTables(driver)),
    sink: listMarkers(texts.join("\n")),
    exported: exported[0] ?? [],
    exportedWithContent: exported[1] ?? [],
  };
}

const NOTHING: KeptMarkers = { tables: [], sink: [], exported: [], exportedWithContent: [] };

function registerContentChecks(open: OpenDatabase): void {
  it("keep no prompt, argument, result, error message or attribute by default", async () => {
    assert.deepEqual(await findMarkers(await open(), {}), NOTHING);
    assert.deepEqual(await findMarkers(await open(), { content: "none" }), NOTHING);
  });

  it("keep all of them with copies, and give them to the exporters that ask for content", async () => {
    const { exportedWithContent, ...kept } = await findMarkers(await open(), { content: "all" });
    assert.deepEqual(kept, { tables: MARKED, sink: MARKED, exported: [] });
    assert.deepEqual(exportedWithContent, MARKED);
  });

  it("keep what redact makes of them, and nothing where it fails", async () => {
    const mask = (value: unknown): Json => JSON.parse(JSON.stringify(value).replaceAll("MARKER", "***"));
    assert.deepEqual(await findMarkers(await open(), { content: "all", redact: mask }), NOTHING);
    const fail = (): never => {
      throw new Error("no");
    };
    assert.deepEqual(await findMarkers(await open(), { content: "all", redact: fail }), NOTHING);
    const reject = (() => Promise.resolve(mark("prompt"))) as never;
    assert.deepEqual(await findMarkers(await open(), { content: "all", redact: reject }), NOTHING);
  });
}

const KNOWN_ATTRIBUTES: ReadonlySet<string> = new Set([...Object.values(ATTRIBUTES), ...Object.values(OWN_ATTRIBUTES)]);

/** The form of the names of exported spans. */
const EXPORTED_NAME =
  /^(?:POST \/\S+|(?:invoke_agent|invoke_workflow|execute_tool|retrieval|chat|text_completion|embeddings|node|step|custom|commit) .+)$/;

function registerExportChecks(open: OpenDatabase): void {
  it("are exported with pinned names, each of them ended, and with parents that are exported", async () => {
    const { storage } = await open();
    const exporter = new InMemorySpanExporter();
    let started = 0;
    const counter = { onStart: () => void started++, onEnd() {}, forceFlush: async () => {}, shutdown: async () => {} };
    const spanProcessors = [counter, new SimpleSpanProcessor({ exporter })];
    const tracer = new TracerProvider({ spanProcessors, idGenerator: traceIds() }).getTracer("greenroom");
    const agents = {
      ...createMarkedAgents(),
      research: createResearchAgent([]),
      async sleeper({ step, sleep }: FunctionJob) {
        await step("prepare", () => 1);
        await sleep("night", "12h");
      },
      hanging: ({ span, signal }: FunctionJob) =>
        span("hang", () => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)))),
    };
    const test = await createTraced(storage, agents, { content: "all", sinks: [otel({ tracer, content: true })] });
    for (const assistant_id of ["research", "marked", "plain", "sleeper", "hanging"]) {
      const { thread_id } = await read<{ thread_id: string }>(test, "/threads", {});
      const path = `/threads/${thread_id}/runs`;
      const { run_id } = await read<{ run_id: string }>(test, path, { assistant_id, input: QUESTION });
      await until(async () => {
        const { status, spans } = await read<RunTrace>(test, `${path}/${run_id}/trace`);
        if (assistant_id === "hanging") return spans.some(({ name }) => name === "hang");
        if (assistant_id === "sleeper")
          return spans.some(({ kind, status: state }) => kind === "sleep" && state === "waiting");
        return status === "success" || status === "error";
      }, assistant_id);
    }
    await test[Symbol.asyncDispose]();
    const spans = exporter.getFinishedSpans();
    assert.equal(spans.length, started, "each span that was started has ended");
    const ids = new Set(spans.map((span) => span.spanContext().spanId));
    for (const { name, attributes, parentSpanContext, endTime, startTime, kind } of spans) {
      assert.match(name, EXPORTED_NAME);
      const unknown = Object.keys(attributes).filter(
        (key) => !KNOWN_ATTRIBUTES.has(key) && !key.startsWith(CUSTOM_PREFIX),
      );
      assert.deepEqual(unknown, [], name);
      assert.ok(parentSpanContext === undefined || ids.has(parentSpanContext.spanId), `the parent of ${name}`);
      assert.equal(parentSpanContext === undefined, kind === SpanKind.SERVER, `only requests have no parent: ${name}`);
      assert.ok(endTime[0] * 1e9 + endTime[1] >= startTime[0] * 1e9 + startTime[1], `${name} ends before its start`);
    }
    const names = new Set(spans.map(({ name }) => name));
    for (const name of ["chat large", "chat small", "execute_tool weather", "invoke_agent researcher", "custom hang"])
      assert.ok(names.has(name), name);
  });
}

/** Registers the checks. Each opens a new database. */
export function registerTraceChecks(name: string, open: OpenDatabase): void {
  describe(`the spans that agents leave on ${name}`, () => {
    registerTreeChecks(open);
    registerContentChecks(open);
    registerExportChecks(open);
  });
}

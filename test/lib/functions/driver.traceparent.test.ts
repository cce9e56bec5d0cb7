/** `job.traceparent`, and `configurable.traceparent` of nodes: which span they name, and where they are absent. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { entrypoint, getConfig, MessagesAnnotation, START, StateGraph, task } from "@langchain/langgraph";
import type { FunctionJob } from "../../../lib/mod.ts";
import type { TraceOptions } from "../../../lib/traces/options.ts";
import type { RunTrace } from "../../../lib/traces/run-trace.ts";
import { type TestService, testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";

keepAlive();

const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";

/** What code of the agents has read, by the place where it has. */
const read: Record<string, string | undefined> = {};
const note = (place: string, traceparent: string | undefined): void => {
  read[place] = traceparent;
};
const readConfigurable = (config: { configurable?: Record<string, unknown> } | undefined): string | undefined =>
  config?.configurable?.traceparent as string | undefined;

const load = task("load", async () => {
  await Promise.resolve();
  note("load", readConfigurable(getConfig()));
});
const agents = {
  async plain(job: FunctionJob) {
    const { traceparent } = job;
    note("plain", traceparent);
    await job.span("outer", async () => {
      note("outer", job.traceparent);
      await job.span("inner", () => note("inner", { ...job }.traceparent));
      note("outer, later", job.traceparent);
    });
    await job.step("save", () => note("save", job.traceparent));
    note("plain, later", job.traceparent);
    return "done";
  },
  graph: new StateGraph(MessagesAnnotation)
    .addNode("first", (_state, config) => note("first", readConfigurable(config)) ?? {})
    .addNode("second", (_state, config) => note("second", readConfigurable(config)) ?? {})
    .addEdge(START, "first")
    .addEdge("first", "second")
    .compile(),
  functional: entrypoint("functional", async (_input, config) => {
    note("functional", readConfigurable(config));
    await load();
    return {};
  }),
};

/** Runs an agent. Returns its trace; null if there is none. */
async function run(
  assistant_id: keyof typeof agents,
  traces: TraceOptions = {},
  headers: Record<string, string> = {},
): Promise<RunTrace | null> {
  for (const place of Object.keys(read)) delete read[place];
  await using test: TestService = await testService({ agents: agents as never, traces });
  const response = await test.fetch("http://greenroom/runs/wait", {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ assistant_id, input: { messages: [] }, on_completion: "keep" }),
  });
  assert.equal(response.status, 200, await response.text());
  const { items } = await test.service.traces.search();
  return items[0] ? await test.service.traces.get(null, items[0].run_id) : null;
}

/** Requires that a place has read the `traceparent` of the span with this kind and name. */
function requireSpan(place: string, trace: RunTrace | null, span: string, flags = "01"): void {
  const found = trace?.spans.find(({ kind, name }) => `${kind} ${name}` === span);
  assert.ok(found, span);
  assert.equal(read[place], `00-${trace?.trace_id}-${found.span_id}-${flags}`, place);
}

describe("job.traceparent", () => {
  it("names the innermost span where it is read", async () => {
    const trace = await run("plain");
    requireSpan("plain", trace, "attempt plain");
    requireSpan("outer", trace, "custom outer");
    requireSpan("inner", trace, "custom inner");
    requireSpan("outer, later", trace, "custom outer");
    requireSpan("save", trace, "step save");
    requireSpan("plain, later", trace, "attempt plain");
  });

  it("has the trace and the flag of the caller whose trace the run continues", async () => {
    for (const flags of ["00", "01"]) {
      const traceparent = `00-${TRACE_ID}-b7ad6b7169203331-${flags}`;
      const trace = await run("plain", {}, { traceparent });
      assert.equal(trace?.trace_id, TRACE_ID);
      requireSpan("inner", trace, "custom inner", flags);
    }
  });

  it("says that nothing is recorded of a run that is not sampled, unless a sink gets its spans", async () => {
    const record = { sample: 0 };
    await run("plain", { record });
    assert.match(read["inner"] ?? "", /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
    await run("plain", { record, sinks: [{ onSpanEnded() {} }] });
    assert.match(read["inner"] ?? "", /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
  });

  it("is undefined without traces, and there for sinks alone", async () => {
    assert.equal(await run("plain", { record: "none" }), null);
    assert.deepEqual([Object.hasOwn(read, "inner"), read["inner"], read["save"]], [true, undefined, undefined]);
    await run("plain", { record: "none", sinks: [{ onSpanEnded() {} }] });
    assert.match(read["inner"] ?? "", /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
  });
});

describe("configurable.traceparent", () => {
  it("names the node that reads it, and in a task the task", async () => {
    const trace = await run("graph");
    requireSpan("first", trace, "node first");
    requireSpan("second", trace, "node second");
    const functional = await run("functional");
    requireSpan("functional", functional, "node functional");
    requireSpan("load", functional, "node load");
  });

  it("is absent without traces", async () => {
    await run("graph", { record: "none" });
    assert.deepEqual([Object.hasOwn(read, "first"), read["first"]], [true, undefined]);
  });
});

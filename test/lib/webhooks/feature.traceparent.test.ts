/** The `traceparent` of webhook requests: that of each delivery attempt, unless the configuration has its own, or nothing is recorded. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServiceOptions } from "../../../lib/mod.ts";
import type { RunTrace } from "../../../lib/traces/run-trace.ts";
import { testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";
import { until } from "../../support/until.ts";

keepAlive();

const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const TRACE_PARENT = `00-${TRACE_ID}-b7ad6b7169203331-00`;
type Headers = Readonly<Record<string, string>>;

/** Runs an agent with a webhook, whose receiver answers with these statuses. Returns the headers of the requests, and the trace. */
async function deliver(
  { webhooks, traces }: Pick<ServiceOptions, "webhooks" | "traces"> = {},
  {
    path = "/runs/wait",
    headers = {},
    statuses = [200],
  }: { path?: string; headers?: Headers; statuses?: number[] } = {},
): Promise<{ readonly sent: readonly Headers[]; readonly trace: RunTrace | null }> {
  const sent: Headers[] = [];
  await using test = await testService({
    agents: { echo: () => "Hello" },
    ...(traces ? { traces } : {}),
    webhooks: {
      ...webhooks,
      delivery: { schedule_ms: [1] },
      transport: {
        resolve: async () => ["93.184.215.14"],
        async send(request) {
          sent.push(Object.fromEntries(request.headers));
          return { status: statuses[sent.length - 1] ?? 200, retry_after: null, address: "93.184.215.14" };
        },
      },
    },
  });
  const response = await test.fetch(`http://greenroom${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ assistant_id: "echo", input: {}, webhook: "https://hooks.example.com/" }),
  });
  assert.equal(response.status, 200, await response.text());
  await until(() => sent.length === statuses.length);
  const { items } = await test.service.traces.search();
  const [listed] = items;
  if (!listed) return { sent, trace: null };
  let trace = await test.service.traces.get(null, listed.run_id);
  await until(async () => {
    trace = await test.service.traces.get(null, listed.run_id);
    return trace.spans.filter(({ kind }) => kind === "webhook").length === statuses.length;
  });
  return { sent, trace };
}

describe("the traceparent of a webhook request", () => {
  it("names the delivery attempt in the trace of the run, also in a retry and for a stateless run", async () => {
    const { sent, trace } = await deliver({}, { statuses: [500, 200] });
    const webhooks = trace?.spans.filter(({ kind }) => kind === "webhook") ?? [];
    assert.deepEqual(
      sent.map(({ traceparent }) => traceparent),
      webhooks.map(({ span_id }) => `00-${trace?.trace_id}-${span_id}-01`),
    );
    assert.deepEqual([new Set(webhooks.map(({ span_id }) => span_id)).size, trace?.thread_id], [2, undefined]);
    assert.equal(trace?.trace_id, trace?.run_id.replaceAll("-", ""));
  });

  it("has the trace and the flag of the caller whose trace the run continues, and no tracestate", async () => {
    const { sent, trace } = await deliver({}, { headers: { traceparent: TRACE_PARENT, tracestate: "vendor=1" } });
    assert.equal(trace?.trace_id, TRACE_ID);
    assert.match(sent[0]?.["traceparent"] ?? "", new RegExp(`^00-${TRACE_ID}-[0-9a-f]{16}-00$`));
    assert.equal(sent[0]?.["tracestate"], undefined);
  });

  it("is that of the configuration if it has one", async () => {
    const { sent } = await deliver({ webhooks: { headers: { TraceParent: TRACE_PARENT } } });
    const names = Object.keys(sent[0] ?? {}).filter((name) => name.toLowerCase() === "traceparent");
    assert.deepEqual([names, sent[0]?.["TraceParent"]], [["TraceParent"], TRACE_PARENT]);
  });

  it("is absent if no traces are recorded", async () => {
    const { sent, trace } = await deliver({ traces: { record: "none" } });
    assert.deepEqual([trace, sent.length, sent[0]?.["traceparent"]], [null, 1, undefined]);
  });
});

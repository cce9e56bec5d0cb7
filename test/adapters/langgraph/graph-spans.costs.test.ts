/** Tokens and costs of spans: by the report of the model or by `usage.prices`, and their sums are those of the trace and of usage. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AIMessage } from "@langchain/core/messages";
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import type { Span } from "../../../lib/storage/mod.ts";
import type { RunTrace } from "../../../lib/traces/run-trace.ts";
import { testService } from "../../suite/kit.ts";
import { CALL_TOKENS, type TimedCall, TimedModel } from "../../support/timed-model.ts";
import { createResearchAgent, QUESTION } from "./graph-spans.harness.ts";

const PRICES = {
  large: { tokens_in: 2, tokens_out: 10 },
  small: { tokens_in: 1, tokens_out: 4 },
  written: { tokens_in: 3, tokens_out: 5 },
};
const LARGE_USD = (CALL_TOKENS.in * 2 + CALL_TOKENS.out * 10) / 1e6;
const SMALL_USD = (CALL_TOKENS.in * 1 + CALL_TOKENS.out * 4) / 1e6;

/** Runs an agent with prices. Returns its trace, and the usage that is stored for the run. */
async function run(agent: object, path = "/runs/wait", body: object = {}) {
  await using test = await testService({ agents: { agent } as never, usage: { prices: PRICES } });
  const response = await test.fetch(`http://greenroom${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ assistant_id: "agent", input: QUESTION, ...body }),
  });
  await response.text();
  const { items } = await test.service.traces.search();
  const run_id = items[0]?.run_id ?? "";
  const listed = items[0]?.totals;
  return {
    trace: await test.service.traces.get(null, run_id),
    usage: await test.service.usage.traceUsage(run_id),
    listed,
  };
}

const isClose = (a: number | undefined, b: number): boolean => Math.abs((a ?? Number.NaN) - b) < 1e-12;
const sum = ({ spans }: RunTrace, read: (span: Span) => number | undefined): number =>
  spans.reduce((total, span) => total + (read(span) ?? 0), 0);

/** Requires that the sums of the spans are the totals of the trace and the usage of the run. */
function requireEqualSums({ trace, usage, listed }: Awaited<ReturnType<typeof run>>): void {
  const { totals } = trace;
  assert.equal(
    sum(trace, ({ tokens }) => tokens?.in),
    totals.tokens_in,
  );
  assert.equal(
    sum(trace, ({ tokens }) => tokens?.out),
    totals.tokens_out,
  );
  assert.ok(
    isClose(
      totals.cost_usd,
      sum(trace, ({ cost_usd }) => cost_usd),
    ),
  );
  assert.deepEqual([usage?.tokens_in, usage?.tokens_out], [totals.tokens_in, totals.tokens_out]);
  assert.ok(isClose(usage?.cost_usd, totals.cost_usd));
  assert.deepEqual([listed?.tokens_in, listed?.cost_usd], [totals.tokens_in, totals.cost_usd]);
}

describe("The costs of the spans of a graph", () => {
  for (const [path, body] of [
    ["/runs/wait", {}],
    ["/runs/stream", { stream_mode: ["messages-tuple", "events"] }],
  ] as const) {
    it(`are those of their models by usage.prices, and sum up to the usage of the run, by ${path}`, async () => {
      const calls: TimedCall[] = [];
      const done = await run(createResearchAgent(calls), path, body);
      const models = done.trace.spans.filter(({ kind }) => kind === "model");
      assert.deepEqual(models.map(({ name }) => name).sort(), ["large", "large", "small"]);
      for (const { name, cost_usd } of models) assert.ok(isClose(cost_usd, name === "large" ? LARGE_USD : SMALL_USD));
      assert.ok(isClose(done.trace.totals.cost_usd, 2 * LARGE_USD + SMALL_USD));
      assert.equal(done.trace.totals.tokens_in, 3 * CALL_TOKENS.in);
      requireEqualSums(done);
    });
  }

  it("are those that a model reports, also where its price is known", async () => {
    const usage_metadata = { input_tokens: 100, output_tokens: 20, total_tokens: 120, total_cost: 0.25 };
    const response_metadata = { model_name: "written" };
    const message = new AIMessage({ content: "Yes.", ...({ usage_metadata, response_metadata } as object) });
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("write", () => ({ messages: [message] }))
      .addEdge(START, "write")
      .compile();
    const done = await run(graph);
    const [node] = done.trace.spans.filter(({ kind }) => kind === "node");
    assert.deepEqual([node?.tokens, node?.cost_usd], [{ in: 100, out: 20 }, 0.25]);
    requireEqualSums(done);
  });

  it("are those of messages that a node writes without a call, each counted once", async () => {
    const usage_metadata = { input_tokens: 100, output_tokens: 20, total_tokens: 120 };
    const response_metadata = { model_name: "written" };
    const message = new AIMessage({ id: "1", content: "Yes.", ...({ usage_metadata, response_metadata } as object) });
    const model = new TimedModel("large", [], () => ({ text: "Yes." }));
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("write", async ({ messages }) => ({ messages: [message, await model.invoke(messages)] }))
      .addNode("repeat", ({ messages }) => ({ messages }))
      .addEdge(START, "write")
      .addEdge("write", "repeat")
      .compile();
    const done = await run(graph);
    const [write, repeat] = done.trace.spans.filter(({ kind }) => kind === "node");
    assert.ok(isClose(write?.cost_usd, (100 * 3 + 20 * 5) / 1e6));
    assert.deepEqual([repeat?.tokens, repeat?.cost_usd], [undefined, undefined]);
    assert.equal(done.trace.totals.tokens_in, 100 + CALL_TOKENS.in);
    requireEqualSums(done);
  });

  it("are absent for a model without a price", async () => {
    const model = new TimedModel("free", [], () => ({ text: "Yes." }));
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("call", async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
      .addEdge(START, "call")
      .compile();
    const done = await run(graph);
    assert.deepEqual(
      done.trace.spans.filter(({ kind }) => kind === "model").map(({ tokens, cost_usd }) => [tokens?.in, cost_usd]),
      [[CALL_TOKENS.in, undefined]],
    );
    requireEqualSums(done);
  });

  it("are those that a function spends in its spans", async () => {
    type Spending = {
      span(name: string, work: () => void, options?: object): Promise<void>;
      spend(usage: object): void;
    };
    const done = await run(async ({ span, spend }: Spending) => {
      await span("ask", () => spend({ tokens_in: 1000, tokens_out: 10, model: "large" }), { kind: "model" });
      await span("rank", () => {
        spend({ tokens_in: 50, model: "small" });
        spend({ tokens_in: 1, cost_usd: 0.5, model: "small" });
      });
      return "done";
    });
    const [ask, rank] = ["ask", "rank"].map((name) => done.trace.spans.find((span) => span.name === name));
    assert.deepEqual([ask?.tokens, ask?.response_model], [{ in: 1000, out: 10 }, "large"]);
    assert.ok(isClose(ask?.cost_usd, (1000 * 2 + 10 * 10) / 1e6));
    assert.ok(isClose(rank?.cost_usd, 50 / 1e6 + 0.5));
    requireEqualSums(done);
  });
});

/** Histograms of a process: their buckets, the limit of their label sets, and what of spans they count. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Span } from "../../../lib/storage/mod.ts";
import {
  COMMIT_BUCKETS,
  type HistogramFamily,
  RunHistograms,
  SECONDS_BUCKETS,
  TOKENS_BUCKETS,
} from "../../../lib/traces/histograms.ts";

const findFamily = (histograms: RunHistograms, name: string): HistogramFamily => {
  const family = histograms.read().find((read) => read.name === name);
  assert.ok(family, name);
  return family;
};

const span = (members: Partial<Span> & Pick<Span, "kind" | "name">): Span => ({
  ...{ span_id: "0".repeat(16), start_ms: 0, duration_ms: 1_000, status: "ok" },
  ...members,
});

describe("the buckets", () => {
  it("are those of the contract", () => {
    assert.deepEqual(
      SECONDS_BUCKETS,
      [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600],
    );
    assert.deepEqual(COMMIT_BUCKETS, [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]);
    assert.deepEqual([TOKENS_BUCKETS[0], TOKENS_BUCKETS[1], TOKENS_BUCKETS.at(-1)], [1, 4, 4_194_304]);
  });

  it("are those of one series for names that are sent as the same text", () => {
    const histograms = new RunHistograms();
    const names = ["\ud83d", "\udc00", "\ufffd", `${"x".repeat(200)}1`, `${"x".repeat(200)}2`];
    for (const name of names) histograms.onSpanEnded(span({ kind: "tool", name }));
    assert.deepEqual(
      findFamily(histograms, "tool_duration_seconds").samples.map(({ labels, count }) => [labels["tool"], count]),
      [
        ["\ufffd", 3],
        ["x".repeat(200), 2],
      ],
    );
  });

  it("count values up to their bound, and larger ones only in the count", () => {
    const histograms = new RunHistograms();
    for (const ms of [0.5, 0.6, 5_000, 6_000]) histograms.onCommit(ms);
    const [sample] = findFamily(histograms, "commit_seconds").samples;
    assert.deepEqual(
      sample?.buckets.map(({ count }) => count),
      [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3],
    );
    assert.deepEqual(
      sample?.buckets.map(({ le }) => le),
      COMMIT_BUCKETS,
    );
    assert.equal(sample?.count, 4);
    assert.ok(Math.abs((sample?.sum ?? 0) - 11.0011) < 1e-9);
  });
});

describe("a family", () => {
  it("has a hundred label sets at most, and counts the rest as other", () => {
    const histograms = new RunHistograms();
    for (let index = 0; index < 150; index++) histograms.onRunEnded(`g${index}`, "success", 1_000);
    histograms.onRunEnded("g0", "success", 1_000);
    const { samples } = findFamily(histograms, "run_active_seconds");
    assert.equal(samples.length, 100);
    assert.deepEqual(samples.at(-1)?.labels, { graph: "other", status: "other" });
    assert.deepEqual([samples[0]?.count, samples.at(-1)?.count], [2, 51]);
  });

  it("has no sample before its first value", () => {
    assert.deepEqual(
      new RunHistograms().read().map(({ name, samples }) => [name, samples.length]),
      [
        ["queue_wait_seconds", 0],
        ["run_active_seconds", 0],
        ["model_duration_seconds", 0],
        ["model_first_token_seconds", 0],
        ["model_input_tokens", 0],
        ["model_output_tokens", 0],
        ["tool_duration_seconds", 0],
        ["commit_seconds", 0],
      ],
    );
  });
});

describe("a span that ends", () => {
  it("counts if it is a model or a tool", () => {
    const histograms = new RunHistograms();
    const model = { provider: "openai", model: "gpt-5" };
    histograms.onSpanEnded(span({ kind: "model", name: "m", ...model, tokens: { in: 5, out: 0 }, first_token_ms: 20 }));
    histograms.onSpanEnded(span({ kind: "model", name: "local" }));
    histograms.onSpanEnded(span({ kind: "tool", name: "weather", status: "error" }));
    histograms.onSpanEnded(span({ kind: "node", name: "call" }));
    const read = (name: string) => findFamily(histograms, name).samples.map(({ labels, sum }) => [labels, sum]);
    assert.deepEqual(read("model_duration_seconds"), [
      [model, 1],
      [{ provider: "unknown", model: "local" }, 1],
    ]);
    assert.deepEqual(read("model_first_token_seconds"), [[model, 0.02]]);
    assert.deepEqual(read("model_input_tokens"), [[model, 5]]);
    assert.deepEqual(read("model_output_tokens"), [[model, 0]]);
    assert.deepEqual(read("tool_duration_seconds"), [[{ tool: "weather", outcome: "error" }, 1]]);
  });
});

/** The metrics of a server that has executed runs: the format of Prometheus, and counts that equal the runs. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createMetricsText } from "../../support/metrics-server.ts";
import { parsePrometheusText } from "../../support/prometheus-text.ts";

describe("/metrics of a server that has executed runs", () => {
  it("is text of version 0.0.4 with each HELP and TYPE once, and histograms whose buckets rise to their count", async () => {
    const { text, runs, failed } = await createMetricsText();
    const families = parsePrometheusText(text);
    assert.ok(families.size > 25, `${families.size}`);
    const sum = (name: string, labels: Readonly<Record<string, string>> = {}): number =>
      [...families.values()]
        .flatMap(({ samples }) => samples)
        .filter((sample) => sample.name === name)
        .filter((sample) => Object.entries(labels).every(([label, value]) => sample.labels[label] === value))
        .reduce((total, { value }) => total + value, 0);
    assert.equal(sum("greenroom_runs_started_total"), runs);
    assert.equal(sum("greenroom_runs_ended_total"), runs);
    assert.equal(sum("greenroom_runs_ended_total", { status: "error" }), failed);
    assert.equal(sum("greenroom_queue_wait_seconds_count"), runs);
    assert.equal(sum("greenroom_run_active_seconds_count"), runs);
    assert.equal(sum("greenroom_run_active_seconds_count", { status: "error" }), failed);
    assert.equal(sum("greenroom_model_duration_seconds_count"), runs);
    assert.equal(sum("greenroom_model_input_tokens_sum"), 3 * runs);
    assert.equal(sum("greenroom_model_output_tokens_sum"), 4 * runs);
    assert.equal(sum("greenroom_tool_duration_seconds_count"), runs);
    assert.equal(sum("greenroom_tool_duration_seconds_count", { tool: 'say "hi"\\\n', outcome: "error" }), failed);
  });
});

describe("parsePrometheusText", () => {
  const refuse = (text: string): void =>
    void assert.throws(() => parsePrometheusText(text), { code: "ERR_ASSERTION" }, text);
  const head = "# HELP a_total x\n# TYPE a_total counter\n";
  it("refuses what the format forbids", () => {
    assert.equal(
      parsePrometheusText(`${head}a_total{b="\\"\\\\\\n"} 1\n`).get("a_total")?.samples[0]?.labels["b"],
      '"\\\n',
    );
    refuse(`${head}a_total 1`);
    refuse(`${head}${head}`);
    refuse(`${head}# TYPE a_total counter\n`);
    refuse(`${head}a_total{b="\\x"} 1\n`);
    refuse(`${head}a_total{b="1",b="2"} 1\n`);
    refuse(`${head}a_total 1\na_total 2\n`);
    refuse(`${head}a_total one\n`);
    refuse(`${head}b_total 1\n`);
    refuse("a_total 1\n");
  });
  it("refuses a histogram whose buckets fall, end below its count, or lack +Inf, a sum or a count", () => {
    const histogram = (...lines: readonly string[]): string =>
      ["# HELP h x", "# TYPE h histogram", ...lines, ""].join("\n");
    const [low, high, sum, count] = ['h_bucket{le="1"} 1', 'h_bucket{le="+Inf"} 2', "h_sum 3", "h_count 2"];
    assert.equal(parsePrometheusText(histogram(low, high, sum, count)).size, 1);
    refuse(histogram(high, low, sum, count));
    refuse(histogram('h_bucket{le="1"} 3', high, sum, count));
    refuse(histogram(low, high, sum, "h_count 3"));
    refuse(histogram(low, sum, count));
    refuse(histogram(low, high, count));
    refuse(histogram(low, high, sum));
  });
});

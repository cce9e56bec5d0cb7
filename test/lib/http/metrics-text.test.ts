/** The Prometheus text of metrics. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { formatMetrics } from "../../../lib/http/metrics-text.ts";
import { METRICS } from "./fake-service.ts";

describe("formatMetrics", () => {
  const text = formatMetrics({ ...METRICS, open_streams: 2 });

  it("writes each bucket of a histogram, then its sum and count, and escapes labels", () => {
    const labels = 'tool="say \\"hi\\"\\n",outcome="ok"';
    assert.ok(
      text.includes(
        [
          "# HELP greenroom_tool_duration_seconds Time of executions of tools",
          "# TYPE greenroom_tool_duration_seconds histogram",
          `greenroom_tool_duration_seconds_bucket{${labels},le="0.005"} 1`,
          `greenroom_tool_duration_seconds_bucket{${labels},le="1"} 3`,
          `greenroom_tool_duration_seconds_bucket{${labels},le="+Inf"} 4`,
          `greenroom_tool_duration_seconds_sum{${labels}} 4.5`,
          `greenroom_tool_duration_seconds_count{${labels}} 4`,
          "# HELP greenroom_commit_seconds Time of saves of attempts",
          "# TYPE greenroom_commit_seconds histogram",
          "",
        ].join("\n"),
      ),
      text,
    );
  });

  it("writes the counters of traces", () => {
    assert.deepEqual(
      text.split("\n").filter((line) => line.startsWith("greenroom_trace_")),
      [
        "greenroom_trace_spans_total 12",
        "greenroom_trace_dropped_total 1",
        "greenroom_trace_bytes_total 2048",
        "greenroom_trace_redact_failed_total 3",
        "greenroom_trace_sink_failed_total 4",
      ],
    );
  });

  it("writes lines that Prometheus reads: names, labels and numbers", () => {
    const sample = /^greenroom_[a-z_]+(?:\{(?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+\})? [-+0-9.e]+$/;
    for (const line of text.trimEnd().split("\n"))
      assert.match(line, line.startsWith("#") ? /^# (?:HELP|TYPE) greenroom_[a-z_]+ ./ : sample);
  });
});

/** Formats the metrics of a server as Prometheus text. */
import type { Metrics } from "../service.ts";
import type { HistogramFamily } from "../traces/histograms.ts";
import type { HeaderValues } from "./respond.ts";

/** The metrics of the service and of the handler. */
export interface ServerMetrics extends Metrics {
  readonly open_streams: number;
}

export const PROMETHEUS_HEADERS: HeaderValues = { "content-type": "text/plain; version=0.0.4; charset=utf-8" };

/** A family of samples. `labelName` is the label of a family with several samples. */
type MetricFamily = readonly [
  name: string,
  kind: "gauge" | "counter",
  help: string,
  value: number | Readonly<Record<string, number>>,
  by?: string,
];

/** Formats metrics as Prometheus text, version 0.0.4. */
export function formatMetrics(metrics: ServerMetrics): string {
  const { worker, webhooks, crons } = metrics;
  const families: readonly MetricFamily[] = [
    ["runs", "gauge", "Runs of the deployment that are pending, scheduled or running", metrics.runs, "status"],
    ["oldest_pending_seconds", "gauge", "Age of the pending run that waits longest", metrics.oldest_pending_seconds],
    ["runs_started_total", "counter", "Attempts that this process started", worker.started],
    ["runs_ended_total", "counter", "Runs that this process finished", worker.ended, "status"],
    ["runs_retried_total", "counter", "Attempts after the first of their run", worker.retried],
    [
      "leases_lost_total",
      "counter",
      "Attempts that lost their lease: taken over, rolled back or deleted",
      worker.leases_lost,
    ],
    ["frames_shown_total", "counter", "Frames sent to subscribers", worker.frames_shown],
    ["frames_stored_total", "counter", "Frames written to storage", worker.frames_stored],
    ["webhook_attempts_total", "counter", "Attempts to deliver a webhook", webhooks.attempts],
    ["webhooks_delivered_total", "counter", "Webhooks that were delivered", webhooks.delivered],
    ["webhooks_failed_total", "counter", "Webhooks that failed for good", webhooks.failed],
    ["webhooks_sending", "gauge", "Webhook deliveries in progress", webhooks.sending],
    ["crons_fired_total", "counter", "Runs that this process started for crons", crons.fired],
    ["crons_skipped_total", "counter", "Cron ticks that started no run", crons.skipped, "reason"],
    ["trace_spans_total", "counter", "Spans that this process recorded", metrics.traces.spans],
    [
      "trace_dropped_total",
      "counter",
      "Spans that were not kept, because their run had too many",
      metrics.traces.dropped,
    ],
    ["trace_bytes_total", "counter", "Characters of stored spans and values", metrics.traces.bytes],
    ["trace_redact_failed_total", "counter", "Calls of redact that threw", metrics.traces.redact_failed],
    ["trace_sink_failed_total", "counter", "Calls of trace sinks that failed or blocked", metrics.traces.sink_failed],
    ["open_streams", "gauge", "Open streams and waits of clients", metrics.open_streams],
    ["standby", "gauge", "1 while another process holds the worker lock", Number(metrics.standby)],
    ["draining", "gauge", "1 while this process stops", Number(metrics.draining)],
    ["uptime_seconds", "gauge", "Time since this process started", metrics.uptime_seconds],
  ];
  return [...families.flatMap(formatFamily), ...metrics.histograms.flatMap(formatHistogram)]
    .map((line) => `${line}\n`)
    .join("");
}

/** Returns the lines of a family of counters or gauges. */
const formatFamily = ([name, kind, help, value, labelName]: MetricFamily): string[] => [
  `# HELP greenroom_${name} ${help}`,
  `# TYPE greenroom_${name} ${kind}`,
  ...(typeof value === "number"
    ? [`greenroom_${name} ${value}`]
    : Object.entries(value).map(([label, count]) => `greenroom_${name}{${labelName}="${label}"} ${count}`)),
];

/** Returns the lines of a histogram. Each bucket counts what the ones below it count. */
function formatHistogram({ name, help, samples }: HistogramFamily): string[] {
  const formatSample = (suffix: string, labels: Readonly<Record<string, string>>, value: number): string => {
    const text = Object.entries(labels)
      .map(([label, labelValue]) => `${label}="${escapeLabel(labelValue)}"`)
      .join();
    return `greenroom_${name}_${suffix}${text === "" ? "" : `{${text}}`} ${value}`;
  };
  return [
    `# HELP greenroom_${name} ${help}`,
    `# TYPE greenroom_${name} histogram`,
    ...samples.flatMap(({ labels, buckets, sum, count }) => [
      ...[...buckets, { le: "+Inf", count }].map((bucket) =>
        formatSample("bucket", { ...labels, le: String(bucket.le) }, bucket.count),
      ),
      formatSample("sum", labels, sum),
      formatSample("count", labels, count),
    ]),
  ];
}

const escapeLabel = (value: string): string =>
  value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");

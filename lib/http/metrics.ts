/** Measurements as the text that Prometheus reads. */
import type { Metrics } from "../service.ts";
import type { HeaderValues } from "./respond.ts";

/** What a handler tells: its service's measurements, and its own. */
export interface ServerMetrics extends Metrics {
  readonly open_streams: number;
}

/** How the text is labelled. */
export const PROMETHEUS: HeaderValues = { "content-type": "text/plain; version=0.0.4; charset=utf-8" };

/** One family of samples; `by` names the label of a family that has several. */
type Family = readonly [
  name: string,
  kind: "gauge" | "counter",
  help: string,
  value: number | Readonly<Record<string, number>>,
  by?: string,
];

/** Prometheus text, version 0.0.4. */
export function metricsText(metrics: ServerMetrics): string {
  const { worker, webhooks, crons } = metrics;
  const families: readonly Family[] = [
    [
      "runs",
      "gauge",
      "Runs that are due, to be started later, and executing, in the deployment",
      metrics.runs,
      "status",
    ],
    [
      "oldest_pending_seconds",
      "gauge",
      "How long the run that waits longest has been due",
      metrics.oldest_pending_seconds,
    ],
    ["runs_started_total", "counter", "Attempts that this process has started", worker.started],
    ["runs_ended_total", "counter", "Runs that this process has executed to their end", worker.ended, "status"],
    ["runs_retried_total", "counter", "Attempts after the first of their run", worker.retried],
    ["leases_lost_total", "counter", "Attempts whose run was taken over, rolled back or deleted", worker.leases_lost],
    ["frames_shown_total", "counter", "Frames shown to readers", worker.frames_shown],
    ["frames_stored_total", "counter", "Frames written to the storage", worker.frames_stored],
    ["webhook_attempts_total", "counter", "Attempts to deliver a webhook", webhooks.attempts],
    ["webhooks_delivered_total", "counter", "Webhooks that their receivers took", webhooks.delivered],
    ["webhooks_failed_total", "counter", "Webhooks that were given up", webhooks.failed],
    ["webhooks_sending", "gauge", "Webhooks that are being sent", webhooks.sending],
    ["crons_fired_total", "counter", "Runs that crons have started by this process", crons.fired],
    ["crons_skipped_total", "counter", "Ticks of crons without a run", crons.skipped, "reason"],
    ["open_streams", "gauge", "Streams and waits that clients have open here", metrics.open_streams],
    ["standby", "gauge", "1 while another process executes the runs", Number(metrics.standby)],
    ["draining", "gauge", "1 while this process stops", Number(metrics.draining)],
    ["uptime_seconds", "gauge", "Time since this process started", metrics.uptime_seconds],
  ];
  return families
    .flatMap(([name, kind, help, value, by]) => [
      `# HELP greenroom_${name} ${help}`,
      `# TYPE greenroom_${name} ${kind}`,
      ...(typeof value === "number"
        ? [`greenroom_${name} ${value}`]
        : Object.entries(value).map(([label, count]) => `greenroom_${name}{${by}="${label}"} ${count}`)),
    ])
    .map((line) => `${line}\n`)
    .join("");
}

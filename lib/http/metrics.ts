/** Metrics in the text format of Prometheus. */
import type { Metrics } from "../service.ts";
import type { HeaderValues } from "./respond.ts";

/** The metrics of the service and of the handler. */
export interface ServerMetrics extends Metrics {
  readonly open_streams: number;
}

/** The content type of the text. */
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
    ["open_streams", "gauge", "Open streams and waits of clients", metrics.open_streams],
    ["standby", "gauge", "1 while another process holds the worker lock", Number(metrics.standby)],
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

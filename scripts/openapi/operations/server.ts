/** The server itself. */
import type { OperationTexts } from "./text.ts";

export const serverTexts: OperationTexts = {
  "get /ok": {
    description:
      "Answers 200 while the process works, and 503 when its worker can execute no run any more: restart it then.",
    error_bodies: {
      503: {
        schema: "Unhealthy",
        example: {
          ok: false,
          detail: "The worker can execute no run any more",
          services: { worker: { ok: false }, database: { ok: true } },
        },
      },
    },
  },
  "get /ready": {
    description:
      "Answers 200 when the process takes requests, and 503 while it starts or stops, or cannot reach its database.",
    error_bodies: { 503: { schema: "NotReady", example: { ok: false, detail: "The server is stopping" } } },
  },
  "get /metrics": {
    description:
      "Returns the counters, gauges and histograms of this process and of its deployment, for Prometheus or as JSON.",
    query: { format: "json" },
  },
  "get /info": {
    description: "Returns the versions of the server and of its API, and which groups of routes it has.",
  },
  "get /openapi.json": {
    description:
      "Returns this document, with the routes that the server has enabled and the path at which it is mounted.",
  },
  "get /docs": {
    description: "Returns this document as a page, on which each operation can be sent.",
  },
};

export const operationTexts: OperationTexts = {
  "get /greenroom/runs": {
    description:
      "Returns the runs of all threads that match all filters, with their usage. Status and time of creation are indexed; other filters test at most 5,000 runs of each status for each call, so a page may be short. Send `next` as `cursor` for the next page.",
    query: { status: ["success", "error"], waiting: false, limit: 10 },
  },
  "get /greenroom/runs/stats": {
    description:
      "Returns how many runs of the last hour have each status, and how long they waited and took in each minute.",
  },
  "get /greenroom/runs/:run_id": {
    description: "Returns the run with its attempts, its error, its usage, its interrupts and its webhook.",
  },
  "post /greenroom/runs/:run_id/again": {
    description:
      "Creates a run on the same thread with the request of an earlier one. Credentials of the earlier request are not stored, so the new run has those of this one.",
    codes: {
      404: ["run_not_found", "thread_not_found", "assistant_not_found", "checkpoint_not_found"],
      409: ["thread_busy", "limit_reached", "interrupt_already_answered", "no_open_interrupt", "idempotent_run_gone"],
      422: ["invalid", "idempotency_key_reused"],
    },
  },
  "get /greenroom/traces": {
    description:
      "Returns the traces that match all filters, without their spans. Times and `failed` are indexed; other filters test at most 5,000 traces for each call, so a page may be short. Send `next` as `cursor` for the next page.",
    query: { failed: false, graph_id: "agent", limit: 10 },
  },
  "get /greenroom/traces/:run_id": {
    description: "Returns the trace of a run, also of a stateless run that is no longer stored.",
    codes: { 404: ["run_not_found", "trace_not_found"] },
  },
  "get /greenroom/traces/:run_id/stream": {
    description:
      "Streams the trace of a run: `trace` with all so far, `span` for each span that starts or changes, and `end` with the trace without its spans.",
    codes: { 404: ["run_not_found", "trace_not_found"] },
  },
  "get /greenroom/threads": {
    description:
      "Returns the threads with a title from their first message. `text` searches titles and ids. Send `next` as `cursor` for the next page.",
    query: { limit: 10 },
  },
  "get /greenroom/inbox": {
    description:
      "Returns the threads that wait for a person, with their open interrupts. Send `next` as `cursor` for the next page.",
    query: { limit: 10 },
  },
  "get /greenroom/webhooks": {
    description:
      "Returns the webhooks of runs with the state of their delivery. Send `next` as `cursor` for the next page.",
    query: { state: ["pending", "failed", "delivered"], limit: 10 },
  },
  "get /greenroom/webhooks/:run_id": {
    description: "Returns the delivery of the webhook of a run, with each attempt and what the receiver answered.",
    codes: { 404: ["not_found"] },
  },
  "post /greenroom/webhooks/:run_id/send": {
    description:
      "Sends the webhook of an ended run once more, also if it was delivered, and retries it as if it were new.",
    codes: { 404: ["not_found"], 409: ["delivery_active"] },
  },
  "get /greenroom/crons/preview": {
    description: "Returns the next times at which a schedule would start runs. Nothing is stored.",
    query: { schedule: "0 9 * * 1-5", timezone: "Europe/Berlin", limit: 3 },
  },
  "get /greenroom/crons/:cron_id": {
    description:
      "Returns the next times of the cron, and what came of its last ones: a run, or the reason why none was started.",
    codes: { 404: ["not_found"] },
  },
  "post /greenroom/crons/:cron_id/run": {
    description: "Starts a run of the cron at once, with the rights of the person who created it.",
    codes: {
      404: ["not_found", "assistant_not_found", "thread_not_found"],
      409: ["thread_busy", "limit_reached"],
    },
  },
  "get /greenroom/feedback/scores": {
    description:
      "Returns the number and the average of scores for each feedback key, in buckets of an hour, a day or a week.",
    query: { start: "2026-01-01", end: "2026-01-02", stride: "hour" },
  },
  "get /greenroom/feedback/links": {
    description:
      "Returns the feedback links of all runs with the number of their submissions. Send `next` as `cursor` for the next page.",
    query: { limit: 10 },
  },
  "delete /greenroom/feedback/links/:id": {
    description: "Ends a feedback link at once. What was submitted by it stays.",
    codes: { 404: ["not_found"] },
  },
  "get /greenroom/server": {
    description:
      "Returns the versions of the server, its health, its load and the options that it runs with, without secrets.",
  },
};

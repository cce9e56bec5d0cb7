/** Schemas of the routes under `/greenroom`. */
import type { JsonObject } from "../../lib/json.ts";
import { any, count, list, nullable, object, record, ref, string, time, uuid } from "./schemas.ts";

const boolean: JsonObject = { type: "boolean" };
const number: JsonObject = { type: "number" };
const oneOf = (...values: readonly string[]): JsonObject => ({ type: "string", enum: [...values] });
const runStatus = oneOf("pending", "running", "success", "error", "timeout", "interrupted");
const threadStatus = oneOf("idle", "busy", "interrupted", "error");
const all = (names: readonly string[], schema: JsonObject): JsonObject =>
  record(Object.fromEntries(names.map((name) => [name, schema])));

/** A page may be short, or empty, while `next` is not null. */
const listing = (item: string): JsonObject =>
  record({
    items: list(ref(item)),
    next: { ...nullable(string), description: "The `cursor` of the next page; null at the end. Pages may be short" },
  });

const usage = nullable(record({ tokens_in: count, tokens_out: count, cost_usd: number }));

const run: JsonObject = {
  run_id: uuid,
  thread_id: uuid,
  assistant_id: uuid,
  graph_id: string,
  status: runStatus,
  attempt: count,
  claims: count,
  multitask_strategy: oneOf("reject", "enqueue", "interrupt", "rollback"),
  temporary: { ...boolean, description: "A stateless run: its thread is hidden" },
  lease_until: nullable(time),
  cancel_requested: boolean,
  cancel_reason: nullable(string),
  created_at: time,
  updated_at: time,
  started_at: nullable(time),
  ended_at: nullable(time),
  wait_ms: { ...count, description: "Until its first start, or until now" },
  duration_ms: { ...nullable(count), description: "From its first start to its end, or until now" },
  metadata: object,
  started_by: record({ user_id: nullable(string), api_key: nullable(string), cron_id: nullable(uuid) }),
  usage,
  error: nullable(object),
  webhook: boolean,
};

const thread: JsonObject = {
  thread_id: uuid,
  title: { ...nullable(string), description: "`metadata.title`, or else the text of the first message" },
  graph_id: nullable(string),
  assistant_id: nullable(string),
};

const delivery: JsonObject = {
  run_id: uuid,
  thread_id: uuid,
  assistant_id: uuid,
  run_status: runStatus,
  url: { ...string, description: "With `?…` for its query" },
  host: string,
  state: oneOf("pending", "delivered", "failed"),
  attempts: count,
  created_at: time,
  first_sent_at: nullable(time),
  next_attempt_at: nullable(time),
};

const percentiles = nullable(all(["p50", "p95", "p99"], count));

export const operationSchemas: JsonObject = {
  RunSummary: record(run),
  RunListing: listing("RunSummary"),
  RunDetail: record({
    ...run,
    kwargs: { ...object, description: "The request, without credentials" },
    result: { ...any, description: "The final values of a stateless run; null for others" },
    checkpoint_id: { ...nullable(string), description: "The newest root checkpoint that it stored" },
    frames: record({ stored: boolean, end: nullable(count) }),
    turn: count,
    seq: count,
    delivery: nullable(ref("DeliveryDetail")),
    feedback: list(record({ feedback_key: string, created_at: time, expires_at: nullable(time) })),
    stack: { ...nullable(string), description: "Of its error; null for callers who see a part of the runs" },
    attempts: {
      ...list(record({ at: time, until: time, worker: string })),
      description: "The newest claims. `until`: the end of the lease, the next claim, or the end of the run",
    },
  }),
  RunStats: record({
    since: time,
    until: time,
    statuses: {
      ...all(["pending", "running", "success", "error", "timeout", "interrupted"], count),
      description: "Runs created in the last hour, by their status now; active ones of any age",
    },
    minutes: list(
      record({
        minute: time,
        ...{ created: count, started: count, ended: count, failed: count, queued: count },
        wait_ms: percentiles,
        duration_ms: percentiles,
      }),
    ),
    complete: { ...boolean, description: "False: there were more runs than `minutes` are made of" },
  }),
  ThreadSummary: record({
    ...thread,
    status: threadStatus,
    waiting: { ...boolean, description: "It has open interrupts. A stopped thread can be `interrupted` without" },
    created_at: time,
    updated_at: time,
    state_updated_at: time,
    metadata: object,
  }),
  ThreadListing: listing("ThreadSummary"),
  InboxThread: record({
    ...thread,
    since: time,
    age_ms: count,
    interrupts: list(record({ interrupt_id: nullable(string), task_id: string, node: nullable(string), value: any })),
  }),
  Inbox: record({
    items: list(ref("InboxThread")),
    total: { ...count, description: "Threads with open interrupts" },
    next: nullable(string),
  }),
  DeliverySummary: record(delivery),
  DeliveryListing: listing("DeliverySummary"),
  DeliveryDetail: record({
    ...delivery,
    attempt_list: list(
      record({
        number: count,
        at: time,
        status: nullable(count),
        error: nullable(string),
        duration_ms: count,
        address: nullable(string),
        answer: { ...nullable(string), description: "The first 2 KiB of the answer's body, if it is text" },
      }),
    ),
  }),
  SchedulePreview: record({ next: list(time) }),
  CronDetail: record({
    cron_id: uuid,
    enabled: boolean,
    failures: count,
    max_failures: nullable(count),
    disabled_reason: nullable(string),
    next: list(time),
    firings: list(
      record({
        scheduled_at: time,
        fired_at: time,
        manual: boolean,
        run_id: nullable(uuid),
        run_status: nullable(runStatus),
        thread_id: nullable(uuid),
        skipped: nullable(oneOf("thread_busy", "thread_full", "deployment_full", "missed", "superseded", "refused")),
      }),
    ),
  }),
  ScoreSeries: record({
    start: time,
    end: time,
    stride: oneOf("hour", "day", "week"),
    keys: list(
      record({
        key: string,
        buckets: list(
          record({ start: time, n: count, avg: nullable(number), min: nullable(number), max: nullable(number) }),
        ),
      }),
    ),
  }),
  FeedbackLink: record({
    id: uuid,
    url: { type: "string", format: "uri" },
    run_id: uuid,
    feedback_key: string,
    created_at: time,
    expires_at: nullable(time),
    submissions: count,
  }),
  FeedbackLinks: listing("FeedbackLink"),
  ServerReport: record(
    {
      version: string,
      api_version: string,
      langgraph_js_version: string,
      runtime: nullable(string),
      deployment: string,
      uptime_seconds: number,
      database: record({ kind: nullable(string), ok: boolean, shared: boolean }),
      health: record({ ok: boolean, ready: boolean, detail: nullable(string), draining: boolean, standby: boolean }),
      worker: record({
        ...{ slots: count, executing: count, claims: count, started: count, retried: count, leases_lost: count },
        ended: all(["success", "error", "timeout", "interrupted"], count),
      }),
      queue: record({ pending: count, scheduled: count, running: count, oldest_pending_seconds: number }),
      webhooks: all(["sending", "attempts", "delivered", "retried", "failed"], count),
      crons: record({ fired: count, skipped: object }),
      configuration: { ...object, description: "Options in effect, by name, without secrets" },
    },
    ["langgraph_js_version"],
  ),
};

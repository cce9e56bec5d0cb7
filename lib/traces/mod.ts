/** Reads, searches, streams and deletes the traces of runs. */
import { type Environment, uuidV5 } from "../environment.ts";
import { invalidFieldError, notFoundError, ServiceError } from "../errors.ts";
import type { JournalEntry } from "../executor/journal.ts";
import { formatIsoTime } from "../rfc3339.ts";
import { readEntryTexts } from "../steps/journal.ts";
import { decodeCursor, encodeCursor, parseTime } from "../storage/cursor.ts";
import type { DeploymentRow } from "../storage/identity.ts";
import type { DeliveryRow, RunRow, Scope, Storage, StoredTrace, TraceSearch, TraceSummary } from "../storage/mod.ts";
import { ContentKeeper, readContents } from "./content.ts";
import type { TraceFeed } from "./feed.ts";
import { toTraceId } from "./ids.ts";
import type { TraceSettings } from "./options.ts";
import {
  createRunTrace,
  type IdentifiedOperation,
  selectOperations,
  type TracedRun,
  type WebhookAttempt,
} from "./run-trace.ts";
import type { TraceCounters } from "./sinks.ts";
import { streamTrace, type TraceState } from "./stream.ts";
import type { InternalTraces, TraceListing, TraceListQuery, TraceRead } from "./traces.ts";

export interface TracesOptions {
  readonly storage: Storage;
  readonly environment: Environment;
  readonly deployment: Pick<DeploymentRow, "workspace_id">;
  readonly settings: TraceSettings;
  readonly feed: TraceFeed;
  readonly counters: Pick<TraceCounters, "redact_failed">;
  readonly lease_ms: number;
  /** Returns the id of an assistant, also by the id of its graph; null if it does not exist. */
  findAssistantId(assistant_id: string): Promise<string | null>;
}

/** The maximum number of webhook deliveries and of feedback that a trace has. */
const MAX_DELIVERIES = 20;
const MAX_FEEDBACK = 100;
/** A stream waits so long for the webhooks of a run that has ended. */
const MAX_WEBHOOK_WAIT_MS = 5_000;

const traceNotFoundError = (run_id: string): ServiceError =>
  new ServiceError("trace_not_found", `Run ${run_id} has no trace: none was recorded, or it was deleted`);

/** Creates the internal resource of traces. */
export function createTraces(options: TracesOptions): InternalTraces {
  const { storage, environment, feed, findAssistantId } = options;

  return {
    async get(scope, thread_id, run_id, read = {}) {
      return (await readTrace(options, scope, { thread_id, run_id, ...read })).trace;
    },
    async stream(scope, thread_id, run_id) {
      const read = (): Promise<TraceState> => readTrace(options, scope, { thread_id, run_id });
      return await streamTrace({ environment, feed, run_id: run_id.toLowerCase(), read });
    },
    async search(scope, query = {}) {
      const search: TraceSearch = { ...toTraceSearch(query), ...decodeCursor(query.cursor), limit: query.limit ?? 50 };
      const assistant = query.assistant_id === undefined ? undefined : await findAssistantId(query.assistant_id);
      if (assistant === null) return { items: [], next: null };
      const { rows, next } = await storage.searchRunTraces(scope, {
        ...search,
        ...(assistant === undefined ? {} : { assistant_id: assistant }),
      });
      return { items: rows.map(toListing), next: encodeCursor(next) };
    },
    async delete(scope, thread_id, run_id) {
      const id = run_id.toLowerCase();
      const run = await findRun(storage, scope, thread_id, id);
      const isActive = run?.ended_at === null && options.settings.sampling !== null;
      const result = isActive ? "active" : await storage.deleteRunTrace(scope, id);
      if (result === "active") throw new ServiceError("run_active", `Run ${id} is active: its trace is not complete`);
      if (result === "not_found") throw traceNotFoundError(id);
    },
  };
}

/**
 * Returns the run; null if it does not exist or is not visible, but with a thread throws `not_found` then, and if it is not on
 * that thread.
 */
async function findRun(
  storage: Storage,
  scope: Scope,
  thread_id: string | null,
  run_id: string,
): Promise<RunRow | null> {
  const run = await storage.getRun(scope, run_id);
  if (thread_id !== null && run?.thread_id !== thread_id.toLowerCase()) throw notFoundError("run", run_id);
  return run;
}

/**
 * Reads everything of which a trace is made, and returns it with whether it changes no more. `run_id` may have any case. Throws
 * `not_found` if the run or its trace does not exist or is not visible, or the run is not on the thread.
 */
async function readTrace(
  options: TracesOptions,
  scope: Scope,
  { thread_id, run_id: id, content = true }: TraceRead & { readonly thread_id: string | null; readonly run_id: string },
): Promise<TraceState> {
  const { storage, environment, settings, feed, lease_ms, deployment, counters } = options;
  const run_id = id.toLowerCase();
  // Taken before the rows are read: what a save stores meanwhile is in both.
  const live = feed.list(run_id)?.map((span) => ({ ...span })) ?? null;
  const [run, trace] = await Promise.all([
    findRun(storage, scope, thread_id, run_id),
    storage.getRunTrace(scope, run_id),
  ]);
  requireTraceable(options, run, trace, run_id);
  const hasContents = content && trace?.head.content === "all";
  const [claims, contents, operations, deliveries, feedback] = await Promise.all([
    trace?.claims ?? (await storage.getTraceProgress(scope, run_id)).claims,
    hasContents ? storage.readTraceContents(scope, run_id) : [],
    run ? readOperations(storage, scope, run) : [],
    storage.listDeliveries(scope, { run_id, limit: MAX_DELIVERIES }),
    storage.listFeedback({
      ...{ scope, workspace_ids: [deployment.workspace_id], run_ids: [run_id] },
      ...{ limit: MAX_FEEDBACK, offset: 0 },
    }),
  ]);
  const webhooks = await readWebhookAttempts(storage, scope, deliveries);
  const now = environment.now();
  const keeper = new ContentKeeper({ ...settings, content: trace?.head.content ?? settings.content, counters });
  const runTrace = createRunTrace({
    ...{ trace, run, live, claims, lease_ms, operations, feedback, now },
    traced: toTracedRun(run, trace, settings.content),
    webhooks,
    contents: content ? readContents(contents) : null,
    content: settings.content,
    keepError: (error, operation) => keeper.keepError(error, operation),
    showsWorkers: !scope.filter,
  });
  const ended_at = run ? run.ended_at : (trace?.ended_at ?? null);
  const isSending = deliveries.some(({ state }) => state === "pending");
  const isSettled = ended_at !== null && (!isSending || now - ended_at >= MAX_WEBHOOK_WAIT_MS);
  return { trace: runTrace, isSettled };
}

/** Reads the attempts of all these deliveries, with their hosts, in the order of the deliveries. */
async function readWebhookAttempts(
  storage: Storage,
  scope: Scope,
  deliveries: readonly Pick<DeliveryRow, "delivery_id" | "host">[],
): Promise<readonly WebhookAttempt[]> {
  const lists = await Promise.all(
    deliveries.map(async ({ delivery_id, host }) =>
      (await storage.listAttempts(scope, delivery_id)).map((attempt) => ({ ...attempt, host })),
    ),
  );
  return lists.flat();
}

/**
 * Throws `not_found` if neither run nor trace exists, and `trace_not_found` for a run without a trace. A run needs no row of its
 * trace while it is active, or if it ended before it started, as long as traces are stored.
 */
function requireTraceable(
  { settings }: TracesOptions,
  run: RunRow | null,
  trace: StoredTrace | null,
  id: string,
): void {
  if (!run && !trace) throw notFoundError("run", id);
  const mayBeWithoutRow = run && settings.sampling !== null && (run.ended_at === null || run.claims === 0);
  if (!trace && !mayBeWithoutRow) throw traceNotFoundError(id);
}

/**
 * Reads the journal and returns the operations of the run's durable call that belong to its trace, with the ids that spans in
 * steps name as parent. Returns none for a run without a durable call.
 */
async function readOperations(storage: Storage, scope: Scope, run: RunRow): Promise<readonly IdentifiedOperation[]> {
  const { call_id, thread_id } = run;
  if (call_id === undefined) return [];
  const texts = await readEntryTexts((idx) => storage.readJournalEntries(scope, thread_id, call_id, idx));
  const operations = selectOperations(
    texts.map((text) => JSON.parse(text) as JournalEntry),
    run,
  );
  return await Promise.all(
    operations.map(async (operation) => {
      const { kind, name, occurrence } = operation;
      const id = await uuidV5(call_id, JSON.stringify([kind, name, occurrence]));
      return { ...operation, span_id: id.replaceAll("-", "").slice(0, 16) };
    }),
  );
}

/**
 * Returns the run of a trace: by its row if that is not null, else by what the trace has kept of it. One of them must exist.
 * Without a row there is no error message, no request and no source. A stateless run has a null thread.
 */
function toTracedRun(run: RunRow | null, trace: StoredTrace | null, content: TraceSettings["content"]): TracedRun {
  const links = trace?.head.links;
  if (run) {
    const { run_id, graph_id, assistant_id, status, created_at, started_at, ended_at, cron_id = null, user_id } = run;
    return {
      ...{ run_id, graph_id, assistant_id, status, created_at, started_at, ended_at, cron_id, user_id },
      thread_id: run.stateless ? null : run.thread_id,
      waiting: run.status === "pending" && run.waiting_for != null,
      ...toRunError(run, trace?.head.content ?? content),
      trace_origin: run.trace_origin ?? (links ? { links } : {}),
    };
  }
  const {
    run_id,
    graph_id,
    assistant_id,
    status,
    created_at,
    started_at,
    ended_at,
    cron_id,
    user_id,
    thread_id,
    waiting,
    error_type,
  } = trace as StoredTrace;
  return {
    ...{ run_id, graph_id, assistant_id, status, created_at, started_at, ended_at, cron_id, user_id },
    ...{ thread_id, waiting },
    ...(error_type === null ? {} : { error: { type: error_type } }),
    trace_origin: links ? { links } : {},
  };
}

/**
 * Returns the error of the run's own row, with the first 500 characters of its message unless nothing is kept; empty without an
 * error.
 */
function toRunError({ error }: RunRow, content: TraceSettings["content"]): Pick<TracedRun, "error"> {
  if (!error) return {};
  const { error: type, message } = error;
  const text = typeof message === "string" && content !== "none" ? { message: message.slice(0, 500) } : {};
  return { error: { type: typeof type === "string" ? type : "Error", ...text } };
}

const TIME_FILTERS = ["created_after", "created_before", "started_after", "started_before"] as const;

/**
 * Converts the filters to those of the storage, with times in milliseconds; undefined ones, the limit and the cursor are left
 * out. Throws `invalid` for a malformed time and for nested metadata.
 */
function toTraceSearch({ limit: _, cursor: _cursor, ...query }: TraceListQuery): Omit<TraceSearch, "limit"> {
  for (const [key, value] of Object.entries(query.metadata ?? {}))
    if (typeof value === "object" && value !== null)
      throw invalidFieldError("metadata", `${key} must be a text, a number, a boolean or null`);
  const times = TIME_FILTERS.flatMap((name) =>
    query[name] === undefined ? [] : [[name, parseTime(name, query[name])] as const],
  );
  const present = Object.entries(query).filter(([, value]) => value !== undefined);
  return Object.fromEntries([...present, ...times]) as Omit<TraceSearch, "limit">;
}

/**
 * Converts a row to an element of a list. Members that are null are left out; the id of the trace is made of the run id if none
 * is stored.
 */
function toListing(row: TraceSummary): TraceListing {
  const { run_id, thread_id, graph_id, assistant_id, cron_id, user_id, status, source, head } = row;
  const withKind = (kind: string): readonly string[] =>
    row.names.filter((name) => name.startsWith(`${kind}:`)).map((name) => name.slice(2));
  return {
    ...{ trace_id: head.trace_id ?? toTraceId(run_id), run_id },
    ...(thread_id === null ? {} : { thread_id }),
    ...{ graph_id, assistant_id },
    ...(cron_id === null ? {} : { cron_id }),
    ...(user_id === null ? {} : { user_id }),
    status,
    ...(row.waiting ? { waiting: true as const } : {}),
    ...{ source, created_at: formatIsoTime(row.created_at), started_at: formatIsoTime(row.started_at) },
    ...(row.ended_at === null ? {} : { ended_at: formatIsoTime(row.ended_at) }),
    ...{ active_ms: row.active_ms, failed: row.failed },
    ...(row.error_type === null ? {} : { error_type: row.error_type }),
    ...{ content: head.content, sampled: head.sampled, dropped: head.dropped, totals: head.totals },
    ...(head.links ? { links: head.links } : {}),
    ...{ nodes: withKind("n"), tools: withKind("t"), models: withKind("m") },
  };
}

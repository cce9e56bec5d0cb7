/** The traces of runs: what attempts store of them, and the storage operations on them. */
import { sql } from "kysely";
import type { ListPosition } from "../../lib/storage/cursor.ts";
import type {
  FinishRun,
  RunStatus,
  RunTraceStorage,
  Scope,
  StoredTrace,
  TraceHead,
  TraceSearch,
  TraceSource,
  TraceSummary,
  TraceUpdate,
} from "../../lib/storage/mod.ts";
import { MAX_TRACE_NAME_CHARS, toTraceName } from "../../lib/storage/traces.ts";
import type { Filter, Scalar } from "../../lib/storage/visibility.ts";
import { parseClaims } from "./claim-log.ts";
import { type Database, readAll, readOne } from "./database.ts";
import type { SqlFeatureFor } from "./feature.ts";
import { toFilterArgument } from "./filter-argument.ts";
import type { Statement } from "./query.ts";
import { traceTables } from "./schema/traces.ts";
import type { LeaseFence } from "./statements/checkpoints.ts";
import {
  deleteTrace,
  deleteTracesOfRuns,
  insertTraceContents,
  searchTraces,
  selectLastTestedTrace,
  selectTrace,
  selectTraceContents,
  selectTraceParts,
  selectTraceProgress,
  type TraceCondition,
  type TraceListRow,
  type TraceSearchArguments,
  upsertTrace,
  upsertTraceParts,
} from "./statements/traces.ts";

/** The members of a head that are not stored while they have these values. */
const HEAD_DEFAULTS = { content: "references", sampled: true, content_bytes: 0, closed: true, active_before_ms: 0 };

/** Returns a head as stored: without sums that are 0 and other members that have their default. */
function encodeHead({ totals, dropped, ...head }: TraceHead): string {
  const stored = omitDefaults(head, HEAD_DEFAULTS);
  stored["totals"] = omitDefaults(totals, NO_TOTALS);
  if (Object.keys(dropped).length > 0) stored["dropped"] = dropped;
  return JSON.stringify(stored);
}

/** Returns the members that differ from their default. Every run stores a head, so no list of entries is made. */
function omitDefaults<Members extends object>(
  members: Members,
  defaults: Readonly<Partial<Record<keyof Members, unknown>>>,
): Record<string, unknown> {
  const kept: Record<string, unknown> = {};
  for (const name in members) if (members[name] !== defaults[name]) kept[name] = members[name];
  return kept;
}

const NO_TOTALS = { spans: 0, model: 0, tool: 0, errors: 0, tokens_in: 0, tokens_out: 0, cost_usd: 0 };

/** Returns a head with its defaults from its stored form. Throws for a text that is no JSON. */
function decodeHead(text: string): TraceHead {
  const { totals, dropped = {}, ...head } = JSON.parse(text) as TraceHead;
  return { ...HEAD_DEFAULTS, ...head, totals: { ...NO_TOTALS, ...totals }, dropped } as TraceHead;
}

/** What the row of a trace says about the end of its run. */
interface TraceState {
  readonly status: string;
  readonly ended_at: number | null;
  readonly error_type: string | null;
  readonly spans: string | null;
}

/** Returns the statements that store an update of a trace, its row first. Without the lease they have no effect. */
function traceStatements(fence: LeaseFence, update: TraceUpdate, state: TraceState): Statement[] {
  const { source, head, names, active_ms, parts, contents } = update;
  const row = {
    ...{ source, active_ms, names: JSON.stringify(names), head: encodeHead(head) },
    tokens: Math.min(head.totals.tokens_in + head.totals.tokens_out, Number.MAX_SAFE_INTEGER),
    failed: state.status === "error" || state.status === "timeout" ? 1 : 0,
  };
  return [
    upsertTrace({ ...fence, ...row, ...state }),
    ...upsertTraceParts(
      fence,
      parts.map(({ part, json }) => ({ part, spans: json })),
    ),
    ...insertTraceContents(
      fence,
      contents.map(({ hash, json }) => ({ hash, content: json })),
    ),
  ];
}

/** The state of the trace of a run that has not ended. Lists read the status of such a run itself. */
const ACTIVE_TRACE: TraceState = { status: "running", ended_at: null, error_type: null, spans: null };

/** Returns the statements that store an update of the trace of a run that has not ended; none without one. */
export const activeTraceStatements = (fence: LeaseFence, update: TraceUpdate | undefined): Statement[] =>
  update ? traceStatements(fence, update, ACTIVE_TRACE) : [];

/**
 * Returns the name of an error, cut to 200 characters and as a database can store it: Postgres refuses U+0000 and lone
 * surrogates.
 */
const toStoredName = (name: string): string =>
  name.slice(0, MAX_TRACE_NAME_CHARS).toWellFormed().replaceAll("\0", "\ufffd");

/**
 * Returns the statements that store the trace with the end of its run: none without a trace. The name of the error is cut and
 * made storable.
 */
function onAttemptFinished(fence: LeaseFence, { trace, status, error, now }: FinishRun): Statement[] {
  if (!trace) return [];
  const error_type = typeof error?.["error"] === "string" ? toStoredName(error["error"]) : null;
  return traceStatements(fence, trace, { status, ended_at: now, error_type, spans: trace.spans });
}

export const traces: SqlFeatureFor<"traces", typeof traceTables, { runs: "trace_origin" }> = {
  tables: traceTables,
  runColumns: { trace_origin: ({ trace_origin }) => (trace_origin ? JSON.stringify(trace_origin) : null) },
  onAttemptFinished,
  onProgressSaved: (fence, { spans }) => activeTraceStatements(fence, spans),
  onRunsDeleted: { deleteTracesOfRuns },
  retention: {
    table: "run_traces",
    key: "run_id",
    // A run starts before it ends, so the index by the start bounds the search.
    time: "started_at",
    end: "ended_at",
    condition: sql`ended_at is not null`,
  },
  operations: createTraceStorage,
};

// --------------------------------------------------------- storage operations

/** The members of a query that are conditions by themselves. */
const QUERY_CONDITIONS = [
  ...(["status", "min_active_ms", "min_tokens", "node", "tool", "model", "error_type", "source"] as const),
  ...(["graph_id", "assistant_id", "thread_id", "cron_id", "user_id"] as const),
  ...(["started_after", "started_before", "created_after", "created_before", "after"] as const),
] as const satisfies readonly (keyof TraceSearch & TraceCondition)[];

/** Conditions that an index answers. */
const INDEXED_CONDITIONS: ReadonlySet<TraceCondition> = new Set(["failed", "started_after", "started_before", "after"]);

/** The metadata that is asked for, as a filter. */
const toFilter = ({ metadata = {} }: TraceSearch): Filter =>
  Object.entries(metadata).map(([key, equals]) => ({ key, equals: equals as Scalar }));

/**
 * Returns the conditions of a search: one for each filter that is defined, also with the value false or 0, and that of the scope.
 */
function toConditions({ filter }: Scope, query: TraceSearch): readonly TraceCondition[] {
  const conditions: TraceCondition[] = QUERY_CONDITIONS.filter((name) => query[name] !== undefined);
  if (query.failed !== undefined) conditions.push(query.failed ? "failed" : "succeeded");
  if (query.waiting !== undefined) conditions.push(query.waiting ? "waiting" : "moving");
  if (toFilterArgument(toFilter(query)) !== null) conditions.push("metadata");
  if (toFilterArgument(filter) !== null) conditions.push("filter");
  return conditions;
}

/** Returns the element of `names` for a name, as JSON; empty without one. */
const toElement = (kind: "node" | "tool" | "model", name: string | undefined): string =>
  name === undefined ? "" : JSON.stringify(toTraceName(kind, name));

/** Returns the arguments of a search. A member without a condition is empty or 0, which the statement does not use. */
function toArguments({ deployment, filter }: Scope, query: TraceSearch): TraceSearchArguments {
  const { min_active_ms = 0, min_tokens = 0, error_type = "", status = [], source = "", limit } = query;
  const { graph_id = "", assistant_id = "", thread_id = "", cron_id = "", user_id = "" } = query;
  const { started_after = 0, started_before = 0, created_after = 0, created_before = 0, after } = query;
  return {
    ...{ deployment, limit, min_active_ms, min_tokens, error_type, statuses: JSON.stringify(status), source },
    ...{ graph_id, assistant_id, thread_id, cron_id, user_id },
    ...{ started_after, started_before, created_after, created_before },
    node: toElement("node", query.node),
    tool: toElement("tool", query.tool),
    model: toElement("model", query.model),
    ...{ after_started_at: after?.created_at ?? 0, after_id: after?.id ?? "", tested_started_at: 0, tested_id: "" },
    metadata: toFilterArgument(toFilter(query)) ?? "",
    filter: toFilterArgument(filter) ?? "",
  };
}

const toPosition = ({
  started_at,
  run_id,
}: {
  readonly started_at: number;
  readonly run_id: string;
}): ListPosition => ({
  created_at: started_at,
  id: run_id,
});

/**
 * Reads how far a search goes that tests rows: the position of its last row. Null if it goes to the end, or an index answers all.
 */
async function findLastTested(
  driver: Database,
  conditions: readonly TraceCondition[],
  args: TraceSearchArguments,
): Promise<ListPosition | null> {
  const indexed = conditions.filter((name) => INDEXED_CONDITIONS.has(name));
  if (conditions.includes("thread_id") || indexed.length === conditions.length) return null;
  return await readOne(driver, selectLastTestedTrace({ conditions: indexed }, args), toPosition);
}

function createTraceStorage(driver: Database): RunTraceStorage {
  return {
    /**
     * Reads a trace with its parts. Returns null if it does not exist or is not visible.
     * @statements selectTrace · selectTraceParts
     */
    async getRunTrace({ deployment, filter }, run_id): Promise<StoredTrace | null> {
      const trace = await readOne(driver, selectTrace({ deployment, run_id }, filter), (row) => ({
        ...toSummary(row),
        spans: row.spans,
        claims: parseClaims(row.claim_log, row.claims ?? 0),
      }));
      if (!trace) return null;
      const parts = await readAll(driver, selectTraceParts({ run_id }), ({ part, spans }) => ({ part, json: spans }));
      return { ...trace, parts };
    },

    /** @statements selectTraceContents */
    readTraceContents: ({ deployment, filter }, run_id) =>
      readAll(driver, selectTraceContents({ deployment, run_id }, filter), ({ hash, content }) => ({
        hash,
        json: content,
      })),

    /**
     * Reads what the next attempt continues. The head is null, and the rest empty or 0, if nothing is stored.
     * @statements selectTraceProgress
     */
    async getTraceProgress({ deployment }, run_id) {
      const [row] = await driver.read(selectTraceProgress({ deployment, run_id }));
      return {
        head: row?.head == null ? null : decodeHead(row.head),
        names: row?.names == null ? [] : (JSON.parse(row.names) as readonly string[]),
        active_ms: row?.active_ms ?? 0,
        claims: row ? parseClaims(row.claim_log, row.claims) : [],
      };
    },

    /**
     * Returns a page of traces, newest start first. `next` is null at the end; with filters without an index a page may be short
     * before it.
     * @statements findLastTested · searchTraces
     * @guards reads in the order of the index `run_traces_started`, of failed runs `run_traces_failed`. Filters without an index
     *   test at most 5,000 rows: a first read finds that place, and `next` says where to continue. Traces of one thread are read
     *   by the index of its runs.
     */
    async searchRunTraces(scope, query) {
      const conditions = toConditions(scope, query);
      const args = toArguments(scope, query);
      const lastTested = await findLastTested(driver, conditions, args);
      const search = lastTested
        ? searchTraces(
            { conditions: [...conditions, "tested"] },
            { ...args, tested_started_at: lastTested.created_at, tested_id: lastTested.id },
          )
        : searchTraces({ conditions }, args);
      const rows = await readAll(driver, search, toSummary);
      const full = rows.length === query.limit ? rows.at(-1) : undefined;
      return { rows, next: full ? toPosition(full) : lastTested };
    },

    /**
     * Deletes a trace with its parts and contents. Returns `active` if the run is active, and `not_found` if no trace is visible.
     * @statements deleteTrace · selectTrace
     * @guards delete unless the run is active. Without rows, reads whether there is a trace.
     */
    async deleteRunTrace({ deployment, filter }, run_id) {
      const [deleted] = await driver.batch([deleteTrace({ deployment, run_id }, filter)], []);
      if (deleted.length > 0) return "deleted";
      const found = await driver.read(selectTrace({ deployment, run_id }, filter));
      return found.length > 0 ? "active" : "not_found";
    },
  };
}

const toSummary = (row: TraceListRow): TraceSummary => ({
  run_id: row.run_id,
  thread_id: row.thread_id,
  graph_id: row.graph_id,
  assistant_id: row.assistant_id,
  cron_id: row.cron_id,
  user_id: row.user_id,
  source: row.source as TraceSource,
  status: row.status as RunStatus,
  waiting: row.waiting === 1,
  created_at: row.created_at,
  started_at: row.started_at,
  ended_at: row.ended_at,
  active_ms: row.active_ms,
  failed: row.failed === 1,
  error_type: row.error_type,
  names: JSON.parse(row.names) as readonly string[],
  head: decodeHead(row.head),
});

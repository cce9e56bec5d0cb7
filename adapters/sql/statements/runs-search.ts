/** Statements that read the runs of all threads. */
import { type RawBuilder, sql } from "kysely";
import type { RunStatus } from "../../../lib/storage/mod.ts";
import { joinColumnNames } from "../columns.ts";
import { type FilterParameter, isPermitted, isThreadPermitted } from "../filter.ts";
import { jsonStrings } from "../functions.ts";
import { type ArgumentsFor, bigint, double, type ParametersFor, text } from "../parameters.ts";
import { scopedQuery, shapedQuery } from "../query.ts";
import type { CoreTables, RowsOf } from "../schema/tables.ts";
import type { usageTables } from "../schema/usage.ts";

/** The columns of a run without those that may be large. */
export const HEADER_COLUMNS = [
  ...(["run_id", "thread_id", "assistant_id", "graph_id", "seq", "created_at", "updated_at", "status"] as const),
  ...([
    "metadata",
    "multitask_strategy",
    "attempt",
    "claims",
    "claim_number",
    "stateless",
    "started_at",
    "ended_at",
  ] as const),
  ...(["error", "has_frames", "end_frame", "user_id", "api_key", "webhook", "webhook_host", "webhook_depth"] as const),
  ...(["cron_id", "cancel_reason", "call_id", "waiting_for", "trace_origin", "assistant_version"] as const),
] as const satisfies readonly (keyof CoreTables["runs"])[];

/** The columns of a list of runs. */
const LIST_COLUMNS = [...HEADER_COLUMNS, "lease_until", "cancelled", "claim_log"] as const;

const stable = { stable: true };

/**
 * The statuses as arguments, whose values are their names. With literals SQLite could choose the partial indexes of a status, which are not in
 * the order of the lists.
 */
const statusTypes = {
  pending: text,
  running: text,
  success: text,
  error: text,
  timeout: text,
  interrupted: text,
} satisfies Readonly<Record<RunStatus, typeof text>>;

/** The arguments of the statuses. */
export const STATUS_NAMES = {
  pending: "pending",
  running: "running",
  success: "success",
  error: "error",
  timeout: "timeout",
  interrupted: "interrupted",
} as const satisfies Readonly<Record<RunStatus, RunStatus>>;

export const STATUSES = Object.keys(STATUS_NAMES) as readonly RunStatus[];

// ------------------------------------------------------------------- searches

/** A search needs only the arguments of its conditions; the others may be empty. */
const searchTypes = {
  ...statusTypes,
  ...{ deployment: text, statuses: text, limit: bigint },
  ...{ run_id: text, thread_id: text, cron_id: text, assistant_id: text, graph_id: text, user_id: text },
  ...{ started_after: bigint, started_before: bigint, created_after: bigint, created_before: bigint },
  ...{ after_created_at: bigint, after_id: text, tested_created_at: bigint, tested_id: text },
  ...{ min_active_ms: double, error_type: text, metadata: text, filter: text },
};

type SearchParameters = ParametersFor<typeof searchTypes>;
export type SearchArguments = ArgumentsFor<typeof searchTypes>;

const isWaiting = (p: SearchParameters): RawBuilder<unknown> =>
  sql`(status = ${p.pending} and waiting_for is not null)`;

/** The conditions of searches. */
const CONDITIONS = {
  run_id: (p: SearchParameters) => sql`run_id = ${p.run_id}`,
  thread_id: (p: SearchParameters) => sql`thread_id = ${p.thread_id}`,
  cron_id: (p: SearchParameters) => sql`cron_id = ${p.cron_id}`,
  assistant_id: (p: SearchParameters) => sql`assistant_id = ${p.assistant_id}`,
  graph_id: (p: SearchParameters) => sql`graph_id = ${p.graph_id}`,
  user_id: (p: SearchParameters) => sql`user_id = ${p.user_id}`,
  started_after: (p: SearchParameters) => sql`started_at >= ${p.started_after}`,
  started_before: (p: SearchParameters) => sql`started_at < ${p.started_before}`,
  created_after: (p: SearchParameters) => sql`created_at >= ${p.created_after}`,
  created_before: (p: SearchParameters) => sql`created_at < ${p.created_before}`,
  /** Behind a position in the list. */
  after: (p: SearchParameters) => sql`(created_at, run_id) < (${p.after_created_at}, ${p.after_id})`,
  /** Down to the position that `selectLastTested` has found. */
  tested: (p: SearchParameters) => sql`(created_at, run_id) >= (${p.tested_created_at}, ${p.tested_id})`,
  // Only the trace of a run knows how long it was suspended.
  min_active_ms: (p: SearchParameters) =>
    sql`coalesce((select t.active_ms from run_traces t where t.run_id = runs.run_id), ended_at - started_at) >= ${p.min_active_ms}`,
  error_type: (p: SearchParameters) => isPermitted(sql`runs.error`, p.error_type),
  waiting: (p: SearchParameters) => isWaiting(p),
  moving: (p: SearchParameters) => sql`not ${isWaiting(p)}`,
  metadata: (p: SearchParameters) => isPermitted(sql`runs.metadata`, p.metadata),
  filter: (p: SearchParameters) => isThreadPermitted("runs", p.filter),
} as const;

export type SearchCondition = keyof typeof CONDITIONS;

/** Selects the runs that a search returns. */
export interface RunSearchShape {
  readonly statuses: readonly RunStatus[];
  readonly conditions: readonly SearchCondition[];
  /** The runs of one thread or cron, or one run: they are few, and read by an index of their own. */
  readonly narrow: boolean;
}

const createConditions = (p: SearchParameters, { conditions }: RunSearchShape): RawBuilder<unknown> =>
  sql.join([sql`deployment = ${p.deployment}`, ...conditions.map((name) => CONDITIONS[name](p))], sql` and `);

/** Selects how far a search that tests rows goes: to the newest position at which it has read 5,000 rows of a status. */
export const selectLastTested = shapedQuery(
  (_: RunSearchShape) => searchTypes,
  (p, shape) => {
    const positions = shape.statuses.map(
      (status) => sql`select created_at, run_id from (
        select created_at, run_id from runs where ${createConditions(p, shape)} and status = ${p[status]}
        order by created_at desc, run_id desc limit 1 offset 4999) as ${sql.ref(status)}`,
    );
    return sql<Pick<CoreTables["runs"], "created_at" | "run_id">>`
      select * from (${sql.join(positions, sql` union all `)}) as positions order by created_at desc, run_id desc limit 1`;
  },
  { stable: true, shapes: [{ statuses: ["pending", "success"], conditions: ["after"], narrow: false }] },
);

/**
 * Selects at most `limit` ids for each status, newest first; the caller merges them to a page. Each status is read in the order
 * of its index, so that the page costs as many rows as it has. A narrow search has one list for all statuses, which `status ||
 * ''` keeps out of that index.
 */
function selectPageIds(p: SearchParameters, shape: RunSearchShape): RawBuilder<unknown> {
  const select = (condition: RawBuilder<unknown>, name: string): RawBuilder<unknown> =>
    sql`select run_id from (select run_id from runs where ${createConditions(p, shape)} and ${condition}
      order by created_at desc, run_id desc limit ${p.limit}) as ${sql.ref(name)}`;
  if (shape.narrow) return select(sql`(status || '') in ${jsonStrings(p.statuses)}`, "few");
  return sql.join(
    shape.statuses.map((status) => select(sql`status = ${p[status]}`, status)),
    sql` union all `,
  );
}

type Trace = RowsOf<typeof usageTables>["traces"];

/** A run with the usage in its trace, which is null without a trace. */
export type ListedRow = Pick<CoreTables["runs"], (typeof LIST_COLUMNS)[number]> &
  (Pick<Trace, "trace_id" | "tokens_in" | "tokens_out" | "cost_usd"> | { readonly trace_id: null });

/** Selects a page of runs, the newest first. None of the columns is large: a list of a thousand runs would read all their requests. */
export const searchRuns = shapedQuery(
  (_: RunSearchShape) => searchTypes,
  (p, shape) =>
    sql<ListedRow>`select ${joinColumnNames(LIST_COLUMNS, "runs")}, traces.trace_id, traces.tokens_in, traces.tokens_out, traces.cost_usd
    from (${selectPageIds(p, shape)}) as found join runs on runs.run_id = found.run_id
    left join traces on traces.trace_id = runs.run_id
    order by runs.created_at desc, runs.run_id desc limit ${p.limit}`,
  {
    stable: true,
    shapes: [
      { statuses: ["pending", "success"], conditions: ["after", "metadata", "filter", "tested"], narrow: false },
      { statuses: STATUSES, conditions: ["thread_id", "created_after"], narrow: true },
      { statuses: ["pending"], conditions: ["waiting"], narrow: false },
      { statuses: ["error"], conditions: ["min_active_ms", "error_type", "moving"], narrow: false },
    ],
  },
);

// -------------------------------------------------------------------- figures

const figureTypes = { ...statusTypes, deployment: text, since: bigint };

/**
 * Returns the runs of a status that are counted, for `from`: pending and running ones of any age, others only if they were
 * created at `since` or later.
 */
function countedRuns(
  p: ParametersFor<typeof figureTypes>,
  status: RunStatus,
  filter: FilterParameter,
): RawBuilder<unknown> {
  const isActive = status === "pending" || status === "running";
  return sql`runs where deployment = ${p.deployment} and status = ${p[status]}
    and ${isActive ? sql`true` : sql`created_at >= ${p.since}`} and ${isThreadPermitted("runs", filter)}`;
}

/** Counts runs by status. */
export const countRuns = scopedQuery(
  figureTypes,
  (p, filter) =>
    sql<Record<RunStatus, number>>`select ${sql.join(
      STATUSES.map((status) => sql`(select count(*) from ${countedRuns(p, status, filter)}) as ${sql.ref(status)}`),
    )}`,
  stable,
);

/** Selects the times of runs, the newest first. */
export const selectRunTimes = scopedQuery(
  { ...figureTypes, limit: bigint },
  (p, filter) => {
    const columns = sql`status, created_at, started_at, ended_at`;
    const parts = STATUSES.map(
      (status) => sql`select ${columns} from (
        select ${columns} from ${countedRuns(p, status, filter)} order by created_at desc limit ${p.limit}) as ${sql.ref(status)}`,
    );
    return sql<Pick<CoreTables["runs"], "created_at" | "started_at" | "ended_at"> & { status: RunStatus }>`
      select * from (${sql.join(parts, sql` union all `)}) as times order by created_at desc limit ${p.limit}`;
  },
  stable,
);

/** Statements on the traces of runs. */
import { type RawBuilder, sql } from "kysely";
import { joinColumnNames } from "../columns.ts";
import type { DeletedStatement } from "../feature.ts";
import { type FilterParameter, isPermitted, isThreadPermitted } from "../filter.ts";
import { containsText, jsonStrings, passesFilterTests } from "../functions.ts";
import { type ArgumentsFor, bigint, double, orNull, type ParametersFor, text } from "../parameters.ts";
import { query, rowsQuery, scopedQuery, shapedQuery } from "../query.ts";
import type { CoreTables, RowsOf } from "../schema/tables.ts";
import type { traceTables } from "../schema/traces.ts";
import { holdsLease, whileLeased } from "./checkpoints.ts";

type Rows = RowsOf<typeof traceTables>;

const stable = { stable: true };

// ------------------------------------------------------------------- writing

const leaseTypes = { deployment: text, thread_id: text, run_id: text, token: text };

const traceTypes = {
  ...leaseTypes,
  ...{ source: text, status: text, ended_at: orNull(bigint), active_ms: double, tokens: bigint, failed: bigint },
  ...{ error_type: orNull(text), names: text, head: text, spans: orNull(text) },
};

/** The metadata of the hidden thread of a stateless run, which decides who sees its trace. Null if it has more than 4,096 characters. */
const visibleMetadata = sql`case runs.stateless when 1 then (select h.metadata from threads h
      where h.deployment = runs.deployment and h.thread_id = runs.thread_id and length(h.metadata) <= 4096)
    end`;

/** Inserts the trace of a run, or replaces what changes, while the lease is held. */
export const upsertTrace = query(
  traceTypes,
  (p) =>
    sql<never>`insert into run_traces (run_id, deployment, thread_id, graph_id, assistant_id, cron_id, user_id, source, status,
      created_at, started_at, ended_at, active_ms, tokens, failed, error_type, names, head, spans, visible)
    select run_id, deployment, case stateless when 1 then null else thread_id end, graph_id, assistant_id, cron_id, user_id,
      ${p.source}, ${p.status}, created_at, started_at, ${p.ended_at}, ${p.active_ms}, ${p.tokens}, ${p.failed},
      ${p.error_type}, ${p.names}, ${p.head}, ${p.spans}, ${visibleMetadata}
    from runs where ${holdsLease(p)}
    on conflict (run_id) do update set status = excluded.status, ended_at = excluded.ended_at, active_ms = excluded.active_ms,
      tokens = excluded.tokens, failed = excluded.failed, error_type = excluded.error_type, names = excluded.names,
      head = excluded.head, spans = excluded.spans`,
  stable,
);

/** Inserts parts of a trace, or replaces those with their numbers, while the lease is held. */
export const upsertTraceParts = rowsQuery(
  leaseTypes,
  { part: bigint, spans: text },
  (p, rows) =>
    sql<never>`insert into run_trace_parts (run_id, part, spans) select ${p.run_id}, v.*
    from (values ${sql.join(rows.map((row) => sql`(${row.part}, ${row.spans})`))}) as v where ${whileLeased(p)}
    on conflict (run_id, part) do update set spans = excluded.spans`,
  stable,
);

/** Inserts copied values that the trace does not have yet, while the lease is held. */
export const insertTraceContents = rowsQuery(
  leaseTypes,
  { hash: text, content: text },
  (p, rows) =>
    sql<never>`insert into run_trace_contents (run_id, hash, content) select ${p.run_id}, v.*
    from (values ${sql.join(rows.map((row) => sql`(${row.hash}, ${row.content})`))}) as v where ${whileLeased(p)}
    on conflict do nothing`,
  stable,
);

/** Deletes the traces of runs. Their parts and contents go with them. */
export const deleteTracesOfRuns: DeletedStatement = (run_ids) =>
  sql<never>`delete from run_traces where run_id in (${run_ids})`;

// ------------------------------------------------------------------- reading

/** The columns of a trace in lists. */
const LIST_COLUMNS = [
  ...(["run_id", "thread_id", "graph_id", "assistant_id", "cron_id", "user_id", "source"] as const),
  ...(["created_at", "started_at", "ended_at", "active_ms", "failed", "error_type", "names", "head"] as const),
] as const satisfies readonly (keyof Rows["run_traces"])[];

/** The row of a trace in lists. `status` and `waiting` are those of the run while it is active. */
export type TraceListRow = Pick<Rows["run_traces"], (typeof LIST_COLUMNS)[number]> & {
  readonly status: string;
  readonly waiting: number;
};

/** The present status of a trace's run. */
const status = sql`case when run_traces.ended_at is null then coalesce(runs.status, run_traces.status) else run_traces.status end`;

const isWaiting = sql`(runs.status = 'pending' and runs.waiting_for is not null)`;

const listColumns = sql`${joinColumnNames(LIST_COLUMNS, "run_traces")}, ${status} as status,
  case when ${isWaiting} then 1 else 0 end as waiting`;

/** Traces with their runs, which are null once a stateless run was deleted. */
const tracesWithRuns = sql`run_traces left join runs on runs.run_id = run_traces.run_id`;

/** The condition that the filter permits a trace: by its thread, or for a stateless run by the metadata that the trace keeps. */
const isTracePermitted = (filter: FilterParameter): RawBuilder<boolean> =>
  filter === null
    ? sql<boolean>`true`
    : sql<boolean>`case when run_traces.thread_id is null
      then run_traces.visible is not null and ${passesFilterTests(sql`run_traces.visible`, filter)}
      else ${isThreadPermitted("run_traces", filter)} end`;

const keyTypes = { deployment: text, run_id: text };

const isTrace = (p: ParametersFor<typeof keyTypes>, filter: FilterParameter): RawBuilder<boolean> =>
  sql<boolean>`run_traces.run_id = ${p.run_id} and run_traces.deployment = ${p.deployment} and ${isTracePermitted(filter)}`;

/** Selects a trace. */
export const selectTrace = scopedQuery(
  keyTypes,
  (p, filter) =>
    sql<
      TraceListRow &
        Pick<Rows["run_traces"], "spans"> & { readonly claims: number | null; readonly claim_log: string | null }
    >`select ${listColumns}, run_traces.spans, runs.claims, runs.claim_log from ${tracesWithRuns} where ${isTrace(p, filter)}`,
  stable,
);

/** Selects the parts of a trace, in their order. */
export const selectTraceParts = query(
  { run_id: text },
  (p) =>
    sql<
      Pick<Rows["run_trace_parts"], "part" | "spans">
    >`select part, spans from run_trace_parts where run_id = ${p.run_id} order by part`,
  stable,
);

/** Selects the copied values of a trace. */
export const selectTraceContents = scopedQuery(
  keyTypes,
  (p, filter) =>
    sql<
      Pick<Rows["run_trace_contents"], "hash" | "content">
    >`select hash, content from run_trace_contents where run_id = ${p.run_id}
      and exists (select 1 from run_traces where ${isTrace(p, filter)})`,
  stable,
);

/** Selects what the next attempt of a run continues. All but the claims are null if nothing was stored. */
export const selectTraceProgress = query(
  keyTypes,
  (p) =>
    sql<
      Pick<CoreTables["runs"], "claims" | "claim_log"> & {
        readonly head: string | null;
        readonly names: string | null;
        readonly active_ms: number | null;
      }
    >`select runs.claims, runs.claim_log, run_traces.head, run_traces.names, run_traces.active_ms
    from runs left join run_traces on run_traces.run_id = runs.run_id
    where runs.run_id = ${p.run_id} and runs.deployment = ${p.deployment}`,
  stable,
);

// ------------------------------------------------------------------- searches

/** A search needs only the arguments of its conditions; the others may be empty. */
const searchTypes = {
  ...{ deployment: text, limit: bigint, min_active_ms: double, min_tokens: bigint },
  ...{ node: text, tool: text, model: text, error_type: text, statuses: text, source: text },
  ...{ graph_id: text, assistant_id: text, thread_id: text, cron_id: text, user_id: text },
  ...{ started_after: bigint, started_before: bigint, created_after: bigint, created_before: bigint },
  ...{ after_started_at: bigint, after_id: text, tested_started_at: bigint, tested_id: text },
  ...{ metadata: text, filter: text },
};

type SearchParameters = ParametersFor<typeof searchTypes>;
export type TraceSearchArguments = ArgumentsFor<typeof searchTypes>;

const position = sql`(run_traces.started_at, run_traces.run_id)`;

/** The conditions of searches. `node`, `tool` and `model` are elements of `names` as JSON. */
const CONDITIONS = {
  failed: () => sql`run_traces.failed = 1`,
  succeeded: () => sql`run_traces.failed = 0`,
  min_active_ms: (p: SearchParameters) => sql`run_traces.active_ms >= ${p.min_active_ms}`,
  min_tokens: (p: SearchParameters) => sql`run_traces.tokens >= ${p.min_tokens}`,
  node: (p: SearchParameters) => containsText(sql`run_traces.names`, p.node),
  tool: (p: SearchParameters) => containsText(sql`run_traces.names`, p.tool),
  model: (p: SearchParameters) => containsText(sql`run_traces.names`, p.model),
  error_type: (p: SearchParameters) => sql`run_traces.error_type = ${p.error_type}`,
  status: (p: SearchParameters) => sql`${status} in ${jsonStrings(p.statuses)}`,
  waiting: () => isWaiting,
  moving: () => sql`not coalesce(${isWaiting}, false)`,
  source: (p: SearchParameters) => sql`run_traces.source = ${p.source}`,
  graph_id: (p: SearchParameters) => sql`run_traces.graph_id = ${p.graph_id}`,
  assistant_id: (p: SearchParameters) => sql`run_traces.assistant_id = ${p.assistant_id}`,
  // The runs of a thread are few, and their index finds them.
  thread_id: (p: SearchParameters) =>
    sql`run_traces.run_id in (select r.run_id from runs r where r.deployment = ${p.deployment} and r.thread_id = ${p.thread_id})`,
  cron_id: (p: SearchParameters) => sql`run_traces.cron_id = ${p.cron_id}`,
  user_id: (p: SearchParameters) => sql`run_traces.user_id = ${p.user_id}`,
  started_after: (p: SearchParameters) => sql`run_traces.started_at >= ${p.started_after}`,
  started_before: (p: SearchParameters) => sql`run_traces.started_at < ${p.started_before}`,
  created_after: (p: SearchParameters) => sql`run_traces.created_at >= ${p.created_after}`,
  created_before: (p: SearchParameters) => sql`run_traces.created_at < ${p.created_before}`,
  /** Behind a position in the list. */
  after: (p: SearchParameters) => sql`${position} < (${p.after_started_at}, ${p.after_id})`,
  /** Down to the position that `selectLastTestedTrace` has found. */
  tested: (p: SearchParameters) => sql`${position} >= (${p.tested_started_at}, ${p.tested_id})`,
  metadata: (p: SearchParameters) => isPermitted(sql`coalesce(runs.metadata, run_traces.visible, '{}')`, p.metadata),
  filter: (p: SearchParameters) => isTracePermitted(p.filter),
} as const;

export type TraceCondition = keyof typeof CONDITIONS;

export interface TraceSearchShape {
  readonly conditions: readonly TraceCondition[];
}

/** The traces of a search, in their order. */
const selectSearched = (p: SearchParameters, { conditions }: TraceSearchShape): RawBuilder<unknown> =>
  sql`from ${tracesWithRuns} where ${sql.join(
    [sql`run_traces.deployment = ${p.deployment}`, ...conditions.map((name) => CONDITIONS[name](p))],
    sql` and `,
  )} order by run_traces.started_at desc, run_traces.run_id desc`;

/** Selects how far a search that tests rows goes: to the 5,000th row. */
export const selectLastTestedTrace = shapedQuery(
  (_: TraceSearchShape) => searchTypes,
  (p, { conditions }) =>
    sql<Pick<Rows["run_traces"], "started_at" | "run_id">>`select started_at, run_id from run_traces where ${sql.join(
      [sql`run_traces.deployment = ${p.deployment}`, ...conditions.map((name) => CONDITIONS[name](p))],
      sql` and `,
    )} order by started_at desc, run_id desc limit 1 offset 4999`,
  { stable: true, shapes: [{ conditions: ["failed", "after"] }] },
);

/** Selects a page of traces without their spans, the newest start first. */
export const searchTraces = shapedQuery(
  (_: TraceSearchShape) => searchTypes,
  (p, shape) => sql<TraceListRow>`select ${listColumns} ${selectSearched(p, shape)} limit ${p.limit}`,
  {
    stable: true,
    shapes: [
      { conditions: [] },
      { conditions: ["failed", "started_after"] },
      { conditions: ["tool", "status", "metadata", "filter", "after", "tested"] },
      { conditions: ["thread_id"] },
    ],
  },
);

// ------------------------------------------------------------------ deleting

/** Deletes a trace unless its run is active. Returns it. */
export const deleteTrace = scopedQuery(
  keyTypes,
  (p, filter) =>
    sql<{ run_id: string }>`delete from run_traces where ${isTrace(p, filter)}
    and not exists (select 1 from runs r where r.run_id = run_traces.run_id and r.status in ('pending', 'running'))
    returning run_id`,
  stable,
);

/** Statements on traces and usage counts. */
import { type Expression, type RawBuilder, sql } from "kysely";
import type { UsageGroup } from "../../../lib/storage/mod.ts";
import { jsonStrings } from "../functions.ts";
import { bigint, columns, double, type ParametersFor, text } from "../parameters.ts";
import { createBuilder, query, shapedQuery } from "../query.ts";
import { agentTables } from "../schema/agents.ts";
import type { RowsOf } from "../schema/tables.ts";
import type { usageTables } from "../schema/usage.ts";
import { whileLeased } from "./checkpoints.ts";

const db = createBuilder<RowsOf<typeof usageTables>>();

/** The start of the hour of a time, also before 1970. */
const startOfHour = (time: Expression<number>): RawBuilder<number> =>
  sql<number>`${time} - ((${time} % 3600000) + 3600000) % 3600000`;

/** The end of the last sealed hour; null if no hour is sealed. */
const sealedBefore = sql<number | null>`(select sealed_before from usage_seals where name = 'hourly')`;

const addToSum = sql`on conflict (workspace_id, hour, project_id, user_id, api_key)
  do update set traces = usage_hourly.traces + excluded.traces`;

// ------------------------------------------------------------------- writing

const claimTypes = { deployment: text, token: text, workspace_id: text, project_id: text, counted: bigint };
const creationTypes = { ...claimTypes, run_id: text, started_at: bigint };

type ClaimParameters = ParametersFor<typeof claimTypes>;

/** Run `r` is the first attempt that has this lease. */
const isFirstAttempt = (p: ClaimParameters): RawBuilder<boolean> =>
  sql<boolean>`r.deployment = ${p.deployment} and r.status = 'running' and r.lease_token = ${p.token}
    and r.attempt = 1 and r.counts_as_attempt = 1`;

/**
 * Returns the statement that adds a run's new trace to the sum of its hour, if that hour is sealed. It has no effect if the run
 * has a trace. The seal is read first, because then most runs read nothing else.
 */
const addTraceToSum = (p: ClaimParameters, isRun: Expression<boolean>, isSealed: Expression<boolean>) =>
  sql<never>`insert into usage_hourly (workspace_id, hour, project_id, user_id, api_key, traces)
    select ${p.workspace_id}, ${startOfHour(sql`r.started_at`)}, ${p.project_id}, coalesce(r.user_id, ''),
      coalesce(r.api_key, ''), 1
    from usage_seals s cross join runs r
    where s.name = 'hourly' and ${isSealed} and ${isRun} and r.started_at < s.sealed_before
      and not exists (select 1 from traces t where t.trace_id = r.run_id)
    ${addToSum}`;

/**
 * Returns the statement that inserts the trace of a run; a run that has one keeps it. The trace of a stateless run has no
 * thread.
 */
const insertTraceWhere = (p: ClaimParameters, isRun: Expression<boolean>) =>
  sql<never>`insert into traces (trace_id, deployment, thread_id, workspace_id, project_id, user_id, api_key, started_at, counted)
    select r.run_id, r.deployment, case when r.stateless = 1 then null else r.thread_id end, ${p.workspace_id},
      ${p.project_id}, r.user_id, r.api_key, r.started_at, ${p.counted}
    from runs r where ${isRun} on conflict do nothing`;

const stable = { stable: true };

/** Adds the run that a claim has started to the sum of its hour, if that hour is sealed and the run has no trace. */
export const addClaimedTrace = query(
  claimTypes,
  (p) => addTraceToSum(p, isFirstAttempt(p), sql<boolean>`true`),
  stable,
);

/** Inserts the trace of the run that a claim has started, unless it has one. */
export const insertClaimedTrace = query(claimTypes, (p) => insertTraceWhere(p, isFirstAttempt(p)), stable);

const isCreatedRun = (p: ParametersFor<typeof creationTypes>): RawBuilder<boolean> =>
  sql<boolean>`r.run_id = ${p.run_id} and ${isFirstAttempt(p)}`;

/** Adds a trace like `addClaimedTrace`, for a run that the same batch creates. */
export const addCreatedTrace = query(
  creationTypes,
  (p) => addTraceToSum(p, isCreatedRun(p), sql<boolean>`s.sealed_before > ${p.started_at}`),
  stable,
);

/** Inserts a trace like `insertClaimedTrace`, for a run that the same batch creates. */
export const insertCreatedTrace = query(creationTypes, (p) => insertTraceWhere(p, isCreatedRun(p)), stable);

const reportTypes = { run_id: text, tokens_in: bigint, tokens_out: bigint, cost_usd: double };

/** Returns an update that adds tokens and cost to the trace of a run. Its conditions are added by the caller. */
const addModelUsage = (p: ParametersFor<typeof reportTypes>) =>
  db
    .updateTable("traces")
    .set({
      tokens_in: sql`tokens_in + ${p.tokens_in}`,
      tokens_out: sql`tokens_out + ${p.tokens_out}`,
      cost_usd: sql`cost_usd + ${p.cost_usd}`,
    })
    .where("trace_id", "=", p.run_id);

/** Adds model usage to the trace of a run. Without a trace it has no effect. */
export const addTraceUsage = query(reportTypes, addModelUsage);

/** Adds model usage to the trace of a run while an attempt has its lease. */
export const addLeasedTraceUsage = query(
  { ...reportTypes, ...columns(agentTables.runs, ["deployment", "thread_id"]), token: text },
  (p) => addModelUsage(p).where(whileLeased(p)),
  stable,
);

// ------------------------------------------------------------------- sealing

/** Selects the end of the last sealed hour, and the start of the next counted trace; null for each that does not exist. */
export const selectUnsealed = query(
  {},
  () =>
    sql<{
      sealed: number | null;
      next: number | null;
    }>`select ${sealedBefore} as sealed, (select min(t.started_at) from traces t
    where t.counted = 1 and t.started_at >= coalesce(${sealedBefore}, -8640000000000000)) as next`,
);

const sealTypes = { sealed: bigint, until: bigint };

/** No process has sealed hours since `sealed` was read; otherwise that process has summed the same hours. */
const isSealAsExpected = (p: ParametersFor<typeof sealTypes>): RawBuilder<boolean> =>
  sql<boolean>`coalesce(${sealedBefore}, -8640000000000000) = ${p.sealed}`;

/** Sums the hours between the seal and `until`. Two sums of one hour conflict and fail the batch: they must not add up. */
export const sumHours = query(
  sealTypes,
  (p) =>
    sql<never>`insert into usage_hourly (workspace_id, hour, project_id, user_id, api_key, traces)
    select t.workspace_id, ${startOfHour(sql`t.started_at`)}, t.project_id, coalesce(t.user_id, ''), coalesce(t.api_key, ''),
      count(*)
    from traces t where t.counted = 1 and t.started_at >= ${p.sealed} and t.started_at < ${p.until}
      and ${isSealAsExpected(p)}
    group by 1, 2, 3, 4, 5`,
  stable,
);

/** Moves the seal to `until` if it is where it was read. */
export const moveSeal = query(
  sealTypes,
  (p) =>
    sql<never>`insert into usage_seals (name, sealed_before) select 'hourly', ${p.until} where ${isSealAsExpected(p)}
    on conflict (name) do update set sealed_before = excluded.sealed_before`,
  stable,
);

// ------------------------------------------------------------------ counting

/** The column of each grouping. */
const GROUP_COLUMNS = {
  workspace: sql<string>`workspace_id`,
  project: sql<string>`project_id`,
  user: sql<string>`user_id`,
  api_key: sql<string>`api_key`,
} as const;

interface GroupShape {
  readonly group: UsageGroup;
}

const shapes: readonly GroupShape[] = [{ group: "workspace" }, { group: "user" }];

/** `workspace_ids` is a JSON list. */
const countTypes = { workspace_ids: text, start: bigint, end: bigint, origin: bigint, stride_ms: bigint };

const toBucket = (
  { origin, stride_ms }: Pick<ParametersFor<typeof countTypes>, "origin" | "stride_ms">,
  time: Expression<number>,
): RawBuilder<number> =>
  // Postgres would divide as doubles otherwise.
  sql<number>`(${time} - cast(${origin} as bigint)) / cast(${stride_ms} as bigint)`;

/**
 * Counts traces by bucket and group. The full hours, `hours_from` to `hours_to`, are read from the sums as far as they are sealed.
 * Each part is summed separately: then only a few rows are joined, and the sealed part costs as much as a sum over its table.
 */
export const countTraces = shapedQuery(
  (_: GroupShape) => ({ ...countTypes, hours_from: bigint, hours_to: bigint }),
  (p, { group }) => {
    const dimension = GROUP_COLUMNS[group];
    // The end of the sealed part: the seal, limited to the full hours.
    const edge = sql<number>`(select case when seal < ${p.hours_from} then ${p.hours_from}
      when seal > ${p.hours_to} then ${p.hours_to} else seal end
      from (select coalesce(${sealedBefore}, ${p.hours_from}) as seal) s)`;
    /** Returns a select that counts the counted traces of the workspaces between two times, for each bucket and dimension. */
    const countEvents = (from: Expression<number>, to: Expression<number>): RawBuilder<unknown> =>
      sql`select ${toBucket(p, sql`started_at`)}, coalesce(${dimension}, ''), count(*) from traces
        where counted = 1 and workspace_id in ${jsonStrings(p.workspace_ids)} and started_at >= ${from} and started_at < ${to}
        group by 1, 2`;
    return sql<{ bucket: number; dimension: string | null; traces: number }>`
      select bucket, nullif(dimension, '') as dimension, sum(traces) as traces from (
        select ${toBucket(p, sql`hour`)} as bucket, ${dimension} as dimension, sum(traces) as traces from usage_hourly
          where workspace_id in ${jsonStrings(p.workspace_ids)} and hour >= ${p.hours_from} and hour < ${edge}
          group by 1, 2
        union all ${countEvents(p.start, p.hours_from)}
        union all ${countEvents(edge, p.end)}
      ) c
      group by c.bucket, c.dimension order by c.bucket, c.dimension = '', c.dimension`;
  },
  { stable: true, shapes },
);

/** A sum as a double: drivers refuse integers that are no longer exact. */
const total = (column: RawBuilder<number>): RawBuilder<unknown> =>
  sql`cast(sum(${column}) as double precision) as ${column}`;

/** Sums tokens and cost by bucket and group. Tokens change until a run ends, long after its hour is sealed, so only traces are read. */
export const sumTraceUsage = shapedQuery(
  (_: GroupShape) => countTypes,
  (p, { group }) => {
    const dimension = GROUP_COLUMNS[group];
    return sql<{
      bucket: number;
      dimension: string | null;
      traces: number;
      tokens_in: number;
      tokens_out: number;
      cost_usd: number;
    }>`select bucket, nullif(dimension, '') as dimension, traces, tokens_in, tokens_out, cost_usd from (
        select ${toBucket(p, sql`started_at`)} as bucket, coalesce(${dimension}, '') as dimension, count(*) as traces,
          ${total(sql`tokens_in`)}, ${total(sql`tokens_out`)}, ${total(sql`cost_usd`)} from traces
        where counted = 1 and workspace_id in ${jsonStrings(p.workspace_ids)} and started_at >= ${p.start}
          and started_at < ${p.end}
        group by 1, 2
      ) c
      order by c.bucket, c.dimension = '', c.dimension`;
  },
  { stable: true, shapes },
);

/** Selects a trace. */
export const selectTrace = query({ trace_id: text }, (p) =>
  db.selectFrom("traces").selectAll().where("trace_id", "=", p.trace_id),
);

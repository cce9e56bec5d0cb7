/**
 * Traces and usage counts. Traces are the source; `usage_hourly` has the sums of each hour before the seal. A batch that writes a
 * trace of such an hour also adds it to the sum. '' means null in its key columns.
 */
import type { TraceRow, TraceUsage, UsageGroup, UsageQuery, UsageStorage } from "../../lib/storage/mod.ts";
import { type LeaseFence, whileLeased } from "./checkpoints.ts";
import { each, scalar } from "./dialect.ts";
import type { SqlRow } from "./driver.ts";
import type { Created, Feature } from "./feature.ts";
import { type Database, prepared, readOne, type Statement } from "./statement.ts";
import { type RawBuilder, sql } from "./template.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** Earlier than every time: sums start here while no hour is sealed. */
const NEVER = -8_640_000_000_000_000;

/** The start of an hour, also before 1970. */
const hourOf = (moment: RawBuilder<number>): RawBuilder<number> =>
  sql<number>`${moment} - ((${moment} % 3600000) + 3600000) % 3600000`;

/** The end of the last sealed hour; null if no hour is sealed. */
const sealedBefore = sql<number | null>`(select sealed_before from usage_seals where name = 'hourly')`;

const ADD_UP = sql`on conflict (workspace_id, hour, project_id, user_id, api_key)
  do update set traces = usage_hourly.traces + excluded.traces`;

// -------------------------------------------------------------------- tables

/** Their rows outlive the runs that they refer to. */
export const usageTables = {
  /** A run whose execution has started. */
  traces: {
    columns: {
      trace_id: "text not null primary key",
      deployment: "text not null",
      thread_id: "text",
      workspace_id: "text not null",
      project_id: "text not null",
      user_id: "text",
      /** The short form of the API key. */
      api_key: "text",
      started_at: "bigint not null",
      counted: "integer not null check (counted in (0, 1))",
      tokens_in: "bigint not null default 0",
      tokens_out: "bigint not null default 0",
      cost_usd: "double precision not null default 0",
    },
    indexes: [
      "index traces_billed on traces (workspace_id, started_at) where counted = 1",
      "index traces_started on traces (started_at) where counted = 1",
    ],
  },

  /** Counted traces of one closed hour. A missing user or key is ''. */
  usage_hourly: {
    columns: {
      workspace_id: "text not null",
      /** Start of the hour. */
      hour: "bigint not null",
      project_id: "text not null",
      user_id: "text not null",
      api_key: "text not null",
      traces: "bigint not null check (traces > 0)",
    },
    constraints: ["primary key (workspace_id, hour, project_id, user_id, api_key)"],
    clustered: true,
  },

  /** One row: hours that start before `sealed_before` are summed in usage_hourly. */
  usage_seals: {
    columns: { name: "text not null primary key", sealed_before: "bigint not null" },
  },
} as const;

// ------------------------------------------------------------------- writing

type Claimed = { deployment: string; token: string; workspace_id: string; project_id: string; counted: number };

const firstAttempt = (p: Claimed): RawBuilder<unknown> =>
  sql`r.deployment = ${scalar(p.deployment)} and r.status = 'running' and r.lease_token = ${scalar(p.token)}
    and r.attempt = 1 and r.counts_as_attempt = 1`;

/** `which`: the run. `sealed`: false where its hour is certainly open. The seal is read first: then most runs read nothing else. */
const traceClaimed = <Of extends Claimed>(
  which: (p: Of) => RawBuilder<unknown>,
  sealed: (p: Of) => RawBuilder<unknown>,
) => ({
  add: prepared<Of>(
    (p) =>
      sql`insert into usage_hourly (workspace_id, hour, project_id, user_id, api_key, traces)
      select ${p.workspace_id}, ${hourOf(sql`r.started_at`)}, ${p.project_id}, coalesce(r.user_id, ''),
        coalesce(r.api_key, ''), 1
      from usage_seals s cross join runs r
      where s.name = 'hourly' and ${sealed(p)} and ${which(p)} and r.started_at < s.sealed_before
        and not exists (select 1 from traces t where t.trace_id = r.run_id)
      ${ADD_UP}`,
  ),
  insert: prepared<Of>(
    (p) =>
      sql`insert into traces (trace_id, deployment, thread_id, workspace_id, project_id, user_id, api_key, started_at, counted)
      select r.run_id, r.deployment, case when r.temporary = 1 then null else r.thread_id end, ${p.workspace_id},
        ${p.project_id}, r.user_id, r.api_key, r.started_at, ${p.counted}
      from runs r where ${which(p)} on conflict do nothing`,
  ),
});

const ofClaim = traceClaimed<Claimed>(firstAttempt, () => sql`true`);
const ofCreation = traceClaimed<Claimed & Created>(
  (p) => sql`r.run_id = ${scalar(p.run_id)} and ${firstAttempt(p)}`,
  (p) => sql`s.sealed_before > ${scalar(p.started_at)}`,
);

type Reported = { run_id: string; tokens_in: number; tokens_out: number; cost_usd: number };

/** Adds the usage that an executor has reported to the run's trace, where `when` is true. No effect without a trace. */
const traceReported = <Of extends Reported>(when: (p: Of) => RawBuilder<unknown>): ((of: Of) => Statement) =>
  prepared<Of>(
    (p) =>
      sql`update traces set tokens_in = tokens_in + ${p.tokens_in}, tokens_out = tokens_out + ${p.tokens_out},
        cost_usd = cost_usd + ${p.cost_usd}
      where trace_id = ${p.run_id} and ${when(p)}`,
  );

const addReported = traceReported<Reported>(() => sql`true`);
const reportLeased = traceReported<Reported & LeaseFence>(whileLeased);

export const usage: Feature<keyof typeof usageTables> = {
  name: "usage",
  tables: usageTables,
  /** The trace of a first attempt. No effect if the run has one already. */
  claimed(deployment, { token, trace }, created) {
    if (!trace) return [];
    const { workspace_id, project_id, counted } = trace;
    const claimed = { deployment, token, workspace_id, project_id, counted: counted ? 1 : 0 };
    const [add, insert] = created
      ? [ofCreation.add({ ...claimed, ...created }), ofCreation.insert({ ...claimed, ...created })]
      : [ofClaim.add(claimed), ofClaim.insert(claimed)];
    return counted ? [add, insert] : [insert];
  },
  finished: (fence, { usage: reported }) => (reported ? [reportLeased({ ...fence, ...reported })] : []),
  verbs: usageVerbs,
};

// ------------------------------------------------------------------- sealing

type Sealing = { sealed: number; until: number };

const unsealed = prepared<Record<never, never>>(
  () =>
    sql`select ${sealedBefore} as sealed, (select min(t.started_at) from traces t
    where t.counted = 1 and t.started_at >= coalesce(${sealedBefore}, -8640000000000000)) as next`,
);

/** No process has sealed hours since `sealed` was read: else another process sums the same hours. */
const asSeen = (p: Sealing): RawBuilder<unknown> =>
  sql`coalesce(${sealedBefore}, -8640000000000000) = ${scalar(p.sealed)}`;

// Without `on conflict`: two sums of one hour must fail, not add up.
const sumHours = prepared<Sealing>(
  (p) =>
    sql`insert into usage_hourly (workspace_id, hour, project_id, user_id, api_key, traces)
    select t.workspace_id, ${hourOf(sql`t.started_at`)}, t.project_id, coalesce(t.user_id, ''), coalesce(t.api_key, ''),
      count(*)
    from traces t where t.counted = 1 and t.started_at >= ${scalar(p.sealed)} and t.started_at < ${scalar(p.until)}
      and ${asSeen(p)}
    group by 1, 2, 3, 4, 5`,
);

const moveSeal = prepared<Sealing>(
  (p) =>
    sql`insert into usage_seals (name, sealed_before) select 'hourly', ${p.until} where ${asSeen(p)}
    on conflict (name) do update set sealed_before = excluded.sealed_before`,
);

// ------------------------------------------------------------------ counting

type Counted = {
  workspace_ids: string;
  start: number;
  end: number;
  /** The full hours: `hours_from <= hour < hours_to`. */
  hours_from: number;
  hours_to: number;
  origin: number;
  stride_ms: number;
};

const COLUMN = { workspace: "workspace_id", project: "project_id", user: "user_id", api_key: "api_key" } as const;

// Each part is summed separately: then only a few rows are joined, and the sealed part costs as much as a sum over its table.
const countOf = (group: UsageGroup): ((args: Counted) => Statement) =>
  prepared<Counted>((p) => {
    const dimension = sql.ref(COLUMN[group]);
    const bucket = (moment: RawBuilder<unknown>): RawBuilder<unknown> =>
      sql`(${moment} - (select cast(${p.origin} as bigint))) / (select cast(${p.stride_ms} as bigint))`;
    // The end of the sealed part: the seal, limited to the full hours.
    const edge = sql`(select case when seal < ${p.hours_from} then ${p.hours_from}
      when seal > ${p.hours_to} then ${p.hours_to} else seal end
      from (select coalesce(${sealedBefore}, ${p.hours_from}) as seal) s)`;
    const events = (from: unknown, to: unknown): RawBuilder<unknown> =>
      sql`select ${bucket(sql`started_at`)}, coalesce(${dimension}, ''), count(*) from traces
        where counted = 1 and workspace_id in ${each(p.workspace_ids)} and started_at >= ${from} and started_at < ${to}
        group by 1, 2`;
    return sql`select bucket, nullif(dimension, '') as dimension, sum(traces) as traces from (
        select ${bucket(sql`hour`)} as bucket, ${dimension} as dimension, sum(traces) as traces from usage_hourly
          where workspace_id in ${each(p.workspace_ids)} and hour >= ${scalar(p.hours_from)} and hour < ${edge}
          group by 1, 2
        union all ${events(scalar(p.start), scalar(p.hours_from))}
        union all ${events(edge, scalar(p.end))}
      ) c
      group by c.bucket, c.dimension order by c.bucket, c.dimension = '', c.dimension`;
  });

/** A sum as a double: drivers refuse integers that are no longer exact. */
const total = (column: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`cast(sum(${column}) as double precision) as ${column}`;

/** Tokens change until a run ends, long after its hour is sealed: they are summed from the traces alone. */
const spentOf = (group: UsageGroup): ((args: Counted) => Statement) =>
  prepared<Counted>((p) => {
    const dimension = sql.ref(COLUMN[group]);
    const bucket = sql`(started_at - (select cast(${p.origin} as bigint))) / (select cast(${p.stride_ms} as bigint))`;
    return sql`select bucket, nullif(dimension, '') as dimension, traces, tokens_in, tokens_out, cost_usd from (
        select ${bucket} as bucket, coalesce(${dimension}, '') as dimension, count(*) as traces,
          ${total(sql`tokens_in`)}, ${total(sql`tokens_out`)}, ${total(sql`cost_usd`)} from traces
        where counted = 1 and workspace_id in ${each(p.workspace_ids)} and started_at >= ${scalar(p.start)}
          and started_at < ${scalar(p.end)}
        group by 1, 2
      ) c
      order by c.bucket, c.dimension = '', c.dimension`;
  });

type ByGroup = Readonly<Record<UsageGroup, (args: Counted) => Statement>>;

const byGroup = (statement: typeof countOf): ByGroup => ({
  workspace: statement("workspace"),
  project: statement("project"),
  user: statement("user"),
  api_key: statement("api_key"),
});

const count = byGroup(countOf);
const spent = byGroup(spentOf);

const floor = (moment: number, unit: number): number => Math.floor(moment / unit) * unit;

/** The full hours between two times; none if the buckets would split an hour. */
function fullHours({ start, end, origin, stride_ms }: UsageQuery): { hours_from: number; hours_to: number } {
  const hours_from = floor(start + HOUR - 1, HOUR);
  const hours_to = floor(end, HOUR);
  const onHours = origin % HOUR === 0 && stride_ms % HOUR === 0;
  return onHours && hours_from < hours_to ? { hours_from, hours_to } : { hours_from: start, hours_to: start };
}

// --------------------------------------------------------------------- verbs

const getTrace = prepared<{ trace_id: string }>((p) => sql`select * from traces where trace_id = ${p.trace_id}`);

/** The verbs on traces and usage counts. */
function usageVerbs(driver: Database): UsageStorage {
  return {
    /** @statements getTrace */
    getTrace: (trace_id) => readOne(driver, getTrace({ trace_id }), toTrace),
    /**
     * @statements addReported
     * @guards one update, which has no effect without a trace. The engine calls it for attempts that do not end their
     *   run.
     */
    async addTraceUsage(run_id, { tokens_in, tokens_out, cost_usd }) {
      await driver.batch([addReported({ run_id, tokens_in, tokens_out, cost_usd })], []);
    },
    /**
     * @statements spent · count
     * @guards With `tokens` it sums only traces: an hour is sealed before its last run has ended.
     */
    async countUsage(query) {
      const { workspace_ids, start, end, origin, stride_ms } = query;
      // Division rounds towards zero, so the first bucket must start before every trace.
      const before = Math.max(0, Math.ceil((origin - start) / stride_ms));
      const rows = await driver.read(
        (query.tokens ? spent : count)[query.group_by]({
          workspace_ids: JSON.stringify(workspace_ids),
          start,
          end,
          ...fullHours(query),
          origin: origin - before * stride_ms,
          stride_ms,
        }),
      );
      return rows.map((row) => ({
        bucket: Number(row.bucket) - before,
        dimension: row.dimension as string | null,
        traces: Number(row.traces),
        ...(query.tokens ? toUsage(row) : {}),
      }));
    },
    /**
     * @statements unsealed · sumHours · moveSeal
     * @guards read the seal · sum at most a day of hours where the seal is as seen · move the seal where it is as seen.
     */
    async sealUsage(before) {
      const last = floor(before, HOUR);
      const [row] = await driver.read(unsealed({}));
      const sealed = row?.sealed == null ? NEVER : Number(row.sealed);
      if (sealed >= last) return false;
      // Sums start at the seal, not at the trace that was found: an earlier trace may be written in between.
      const until = row?.next == null ? last : Math.min(last, floor(Number(row.next), HOUR) + DAY);
      await driver.batch([sumHours({ sealed, until }), moveSeal({ sealed, until })]);
      return until < last;
    },
  };
}

const toUsage = ({ tokens_in, tokens_out, cost_usd }: SqlRow): TraceUsage => ({
  tokens_in: Number(tokens_in),
  tokens_out: Number(tokens_out),
  cost_usd: Number(cost_usd),
});

function toTrace(row: SqlRow): TraceRow {
  return {
    trace_id: row.trace_id as string,
    thread_id: row.thread_id as string | null,
    workspace_id: row.workspace_id as string,
    project_id: row.project_id as string,
    user_id: row.user_id as string | null,
    api_key: row.api_key as string | null,
    started_at: Number(row.started_at),
    counted: row.counted === 1,
    usage: toUsage(row),
  };
}

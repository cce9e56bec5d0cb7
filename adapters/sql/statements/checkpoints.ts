/** Statements on checkpoints, their writes, and the values of channels that are stored with them. */
import { type Expression, type RawBuilder, sql } from "kysely";
import { type FilterParameter, isThreadPermitted } from "../filter.ts";
import { jsonRows } from "../functions.ts";
import { bigint, columns, type Operand, type Operands, type ParametersFor, text } from "../parameters.ts";
import { createBuilder, query, rowsQuery, scopedQuery, shapedQuery } from "../query.ts";
import { agentTables } from "../schema/agents.ts";
import type { CoreTables } from "../schema/tables.ts";

const db = createBuilder<CoreTables>();

const stable = { stable: true };

const threadTypes = columns(agentTables.checkpoints, ["deployment", "thread_id"]);

// -------------------------------------------------------------------- leases

/** Identifies a lease and its run. */
export type LeaseFence = { deployment: string; thread_id: string; run_id: string; token: string };

const leaseTypes = { ...threadTypes, run_id: text, token: text };

/** Returns the condition on rows of `runs` that is true for the run while the lease is held. */
export const holdsLease = (p: Operands<LeaseFence>): RawBuilder<boolean> =>
  sql<boolean>`deployment = ${p.deployment} and thread_id = ${p.thread_id}
    and run_id = ${p.run_id} and lease_token = ${p.token} and status = 'running'`;

/** Returns a fence: without the lease the statement selects no row, so it writes nothing. */
export const whileLeased = (p: Operands<LeaseFence>): RawBuilder<boolean> =>
  sql<boolean>`exists (select 1 from runs where ${holdsLease(p)})`;

// ------------------------------------------------------------------- writing

/** The run or the update that stores progress in a thread. */
export interface ProgressAuthor {
  readonly deployment: Expression<string>;
  readonly thread_id: Expression<string>;
  /** The condition: where it does not hold, nothing is stored. */
  readonly isAllowed: Expression<boolean>;
  /** The run whose rollback deletes the progress; null for progress that stays. */
  readonly run_id: Expression<string> | null;
  /** If two authors write the same place, the author with the higher number wins. */
  readonly run_seq: Expression<number>;
}

/** The types of a row of `upsertCheckpoints`. */
export const checkpointTypes = columns(agentTables.checkpoints, [
  "ns",
  "checkpoint_id",
  "parent_id",
  "type",
  "data",
  "bytes",
  "metadata",
  "versions",
  "created_at",
]);

/** The types of a row of `upsertValues`. */
export const valueTypes = columns(agentTables.channel_values, [
  "ns",
  "channel",
  "version",
  "type",
  "data",
  "bytes",
  "extends_version",
]);

/** The types of a row of `upsertWrites`. */
export const writeTypes = columns(agentTables.checkpoint_writes, [
  "ns",
  "checkpoint_id",
  "task_id",
  "idx",
  "channel",
  "type",
  "data",
  "bytes",
]);

type Rows<Types extends typeof checkpointTypes | typeof valueTypes | typeof writeTypes> =
  readonly ParametersFor<Types>[];

/**
 * Inserts checkpoints, or replaces those of the same run. Every row reads the greatest `seq` before the statement. Checkpoints and
 * values of other runs never change: a rollback deletes what its run stored.
 */
export const upsertCheckpoints = (author: ProgressAuthor, rows: Rows<typeof checkpointTypes>): RawBuilder<never> =>
  sql<never>`insert into checkpoints (deployment, thread_id, run_id, seq, ns, checkpoint_id, parent_id, type, data, bytes,
      metadata, versions, created_at)
    select ${author.deployment}, ${author.thread_id}, ${author.run_id ?? sql`null`},
      v.column1 + coalesce((select max(seq) from checkpoints
        where deployment = ${author.deployment} and thread_id = ${author.thread_id}), 0),
      v.column2, v.column3, v.column4, v.column5, v.column6, v.column7, v.column8, v.column9, v.column10
    from (values ${sql.join(
      rows.map(
        (row, index) => sql`(${index + 1}, ${row.ns}, ${row.checkpoint_id}, ${row.parent_id}, ${row.type}, ${row.data},
          ${row.bytes}, ${row.metadata}, ${row.versions}, ${row.created_at})`,
      ),
    )}) as v
    where ${author.isAllowed}
    on conflict (deployment, thread_id, ns, checkpoint_id) do update set
      parent_id = excluded.parent_id, type = excluded.type, data = excluded.data, bytes = excluded.bytes,
      metadata = excluded.metadata, versions = excluded.versions, created_at = excluded.created_at
      where checkpoints.run_id = excluded.run_id`;

/** Inserts values of channels, or replaces those of the same run. */
export const upsertValues = (author: ProgressAuthor, rows: Rows<typeof valueTypes>): RawBuilder<never> =>
  sql<never>`insert into channel_values (deployment, thread_id, run_id, ns, channel, version, type, data, bytes, extends_version)
    select ${author.deployment}, ${author.thread_id}, ${author.run_id ?? sql`null`}, v.*
    from (values ${sql.join(
      rows.map(
        (row) => sql`(${row.ns}, ${row.channel}, ${row.version}, ${row.type}, ${row.data}, ${row.bytes},
          ${row.extends_version})`,
      ),
    )}) as v
    where ${author.isAllowed}
    on conflict (deployment, thread_id, ns, channel, version) do update set type = excluded.type,
      data = excluded.data, bytes = excluded.bytes, extends_version = excluded.extends_version
      where channel_values.run_id = excluded.run_id`;

/** Inserts writes of tasks, or replaces those of the same author. */
export const upsertWrites = (author: ProgressAuthor, rows: Rows<typeof writeTypes>): RawBuilder<never> =>
  sql<never>`insert into checkpoint_writes (deployment, thread_id, run_id, run_seq, ns, checkpoint_id, task_id, idx, channel,
      type, data, bytes)
    select ${author.deployment}, ${author.thread_id}, ${author.run_id ?? sql`''`}, ${author.run_seq}, v.*
    from (values ${sql.join(
      rows.map(
        (row) => sql`(${row.ns}, ${row.checkpoint_id}, ${row.task_id}, ${row.idx}, ${row.channel}, ${row.type},
          ${row.data}, ${row.bytes})`,
      ),
    )}) as v
    where ${author.isAllowed}
    on conflict (deployment, thread_id, ns, checkpoint_id, task_id, idx, run_id) do update set
      run_seq = excluded.run_seq, channel = excluded.channel, type = excluded.type, data = excluded.data,
      bytes = excluded.bytes`;

/** Returns the author of what a run stores: its statements have an effect only while the lease is held. */
const toLeasedAuthor = (p: ParametersFor<typeof leaseTypes>): ProgressAuthor => ({
  deployment: p.deployment,
  thread_id: p.thread_id,
  run_id: p.run_id,
  isAllowed: whileLeased(p),
  run_seq: sql<number>`(select seq from runs where run_id = ${p.run_id})`,
});

/** Inserts or replaces checkpoints of a run while the lease is held. */
export const upsertLeasedCheckpoints = rowsQuery(
  leaseTypes,
  checkpointTypes,
  (p, rows) => upsertCheckpoints(toLeasedAuthor(p), rows),
  stable,
);

/** Inserts or replaces the values of channels that a run has stored, while the lease is held. */
export const upsertLeasedValues = rowsQuery(
  leaseTypes,
  valueTypes,
  (p, rows) => upsertValues(toLeasedAuthor(p), rows),
  stable,
);

/** Inserts or replaces writes of a run while the lease is held. */
export const upsertLeasedWrites = rowsQuery(
  leaseTypes,
  writeTypes,
  (p, rows) => upsertWrites(toLeasedAuthor(p), rows),
  stable,
);

/** The tables with the progress of a thread. */
export const PROGRESS_TABLES = ["checkpoints", "checkpoint_writes", "channel_values"] as const;

/** Deletes the rows of a thread in one of the tables with its progress, while the lease is held. */
export const deleteLeased = shapedQuery(
  (_: { readonly table: (typeof PROGRESS_TABLES)[number] }) => leaseTypes,
  (p, { table }) =>
    sql<never>`delete from ${sql.table(table)} where deployment = ${p.deployment} and thread_id = ${p.thread_id}
    and ${whileLeased(p)}`,
  { ...stable, shapes: PROGRESS_TABLES.map((table) => ({ table })) },
);

// ------------------------------------------------------------------- reading

const namespaceTypes = { ...threadTypes, ns: text };

/** Selects the checkpoints of a namespace if the filter permits their thread. The caller adds the order. */
const selectInNamespace = (p: ParametersFor<typeof namespaceTypes>, filter: FilterParameter) =>
  db
    .selectFrom("checkpoints")
    .selectAll()
    .where("deployment", "=", p.deployment)
    .where("thread_id", "=", p.thread_id)
    .where("ns", "=", p.ns)
    .where(isThreadPermitted("checkpoints", filter));

/** Selects a checkpoint whose thread the filter permits. */
export const selectCheckpoint = scopedQuery(
  { ...namespaceTypes, checkpoint_id: text },
  (p, filter) => selectInNamespace(p, filter).where("checkpoint_id", "=", p.checkpoint_id),
  stable,
);

/** Selects the newest checkpoint of a namespace if the filter permits its thread. */
export const selectNewestCheckpoint = scopedQuery(
  namespaceTypes,
  (p, filter) => selectInNamespace(p, filter).orderBy("seq", "desc").limit(sql.lit(1)),
  stable,
);

/** Selects the newest checkpoint of a namespace that a run has stored, if the filter permits its thread. */
export const selectNewestOfRun = scopedQuery(
  { ...namespaceTypes, run_id: text },
  (p, filter) => selectInNamespace(p, filter).where("run_id", "=", p.run_id).orderBy("seq", "desc").limit(sql.lit(1)),
  stable,
);

/** The number of the newest checkpoint with this id; in any namespace without `ns`. */
const selectSeq = (
  p: Operands<{ deployment: string; thread_id: string; before: string }>,
  ns: Operand<string> | null,
): RawBuilder<number> =>
  sql<number>`(select max(seq) as seq from checkpoints where deployment = ${p.deployment}
    and thread_id = ${p.thread_id} and checkpoint_id = ${p.before}${ns === null ? sql`` : sql` and ns = ${ns}`})`;

/** Selects the checkpoints of a thread that are listed. */
interface CheckpointsShape {
  readonly in_namespace: boolean;
  /** Only those that are older than the checkpoint with the id `before`. */
  readonly before: boolean;
  readonly filtered: boolean;
}

/** Selects checkpoints of a thread below a `seq`, the newest first, if the filter permits the thread. */
export const selectCheckpoints = shapedQuery(
  (_: CheckpointsShape) => ({ ...namespaceTypes, before: text, below: bigint, limit: bigint, filter: text }),
  (p, { in_namespace, before, filtered }) =>
    db
      .selectFrom("checkpoints")
      .selectAll()
      .where("deployment", "=", p.deployment)
      .where("thread_id", "=", p.thread_id)
      .where("seq", "<", p.below)
      .where(isThreadPermitted("checkpoints", filtered ? p.filter : null))
      .$if(in_namespace, (checkpoints) => checkpoints.where("ns", "=", p.ns))
      .$if(before, (checkpoints) => checkpoints.where("seq", "<", selectSeq(p, in_namespace ? p.ns : null)))
      .orderBy("seq", "desc")
      .limit(p.limit),
  {
    ...stable,
    shapes: [
      { in_namespace: false, before: false, filtered: false },
      { in_namespace: true, before: true, filtered: false },
      { in_namespace: false, before: true, filtered: true },
    ],
  },
);

/**
 * Selects the writes of every run on the checkpoints that `wanted` lists as [ns, checkpoint_id]. SQLite keeps the order of a
 * `cross join`: otherwise it would read all writes of the thread and look up each in the short list.
 */
export const selectWrites = query(
  { ...threadTypes, addresses: text },
  (p) =>
    sql<
      CoreTables["checkpoint_writes"]
    >`select w.* from ${jsonRows(p.addresses, { ns: "text", checkpoint_id: "text" })} j
    cross join checkpoint_writes w
    where w.deployment = ${p.deployment} and w.thread_id = ${p.thread_id} and w.ns = j.ns and w.checkpoint_id = j.checkpoint_id`,
  stable,
);

/** Returns the sum of the bytes of these columns over the rows, 0 without rows. A null counts as 0. */
const sumBytes = (...names: readonly string[]): RawBuilder<number> =>
  sql<number>`coalesce(sum(${sql.join(
    names.map((name) => sql`coalesce(octet_length(${sql.ref(name)}), 0)`),
    sql` + `,
  )}), 0)`;

/** The rows of one table of a thread, for channel values those of one channel: how many, and their size. */
export interface SectionRow {
  readonly section: "checkpoints" | "pending_writes" | "channel_values";
  readonly channel: string;
  readonly count: number;
  readonly bytes: number;
}

/** Selects the sizes of what a thread has stored. One statement reads one snapshot, also while a run stores progress. */
export const selectSizes = query(
  threadTypes,
  (p) => {
    const isOfThread = sql`deployment = ${p.deployment} and thread_id = ${p.thread_id}`;
    return sql<SectionRow>`select 'checkpoints' as section, '' as channel, count(*) as count,
      ${sumBytes("data", "bytes", "metadata", "versions")} as bytes from checkpoints where ${isOfThread}
    union all select 'pending_writes', '', count(*), ${sumBytes("data", "bytes")} from checkpoint_writes
      where ${isOfThread}
    union all select 'channel_values', channel, count(*), ${sumBytes("data", "bytes")} from channel_values
      where ${isOfThread} group by channel`;
  },
  stable,
);

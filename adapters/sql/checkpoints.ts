import type { Payload, StoredCheckpoint, StoredWrite } from "../../lib/executor/contract.ts";
import type { JsonObject } from "../../lib/json.ts";
import type {
  CheckpointStorage,
  Lease,
  NewWrites,
  Progress,
  SavedCheckpoint,
  ThreadSize,
} from "../../lib/storage/mod.ts";
import { KnownValues, keyOf, payloadOf, readValues, type ThreadKey, type ValuePlace } from "./channel-values.ts";
import { rowsOf, scalar } from "./dialect.ts";
import type { SqlRow } from "./driver.ts";
import { andOfPermitted, type Bound, scoped } from "./filter.ts";
import { toFilterArgument } from "./filter-argument.ts";
import { isEmpty, matches } from "./labels.ts";
import type { Operands } from "./parameters.ts";
import type { PayloadColumns, Tables } from "./schema/tables.ts";
import { type Database, prepared, preparedRows, type Statement, statement } from "./statement.ts";
import { type RawBuilder, sql } from "./template.ts";

/** How many rows a filtered listing reads at a time. */
const FILTER_STEP = 200;

// ------------------------------------------------------------------ writing

type PayloadArgs = Pick<PayloadColumns, keyof PayloadColumns>;

export type { ThreadKey } from "./channel-values.ts";

/** Identifies a lease and its run. */
export type LeaseFence = ThreadKey & { run_id: string; token: string };

/** True for the run while the lease is held. */
export const holdsLease = (p: Operands<LeaseFence>): RawBuilder<boolean> =>
  sql<boolean>`deployment = ${scalar(p.deployment)} and thread_id = ${scalar(p.thread_id)}
    and run_id = ${scalar(p.run_id)} and lease_token = ${scalar(p.token)} and status = 'running'`;

/** A fence: without the lease the statement selects no row, so it writes nothing. */
export const whileLeased = (p: Operands<LeaseFence>): RawBuilder<boolean> =>
  sql<boolean>`exists (select 1 from runs where ${holdsLease(p)})`;

/** Who stores progress, and the condition: where it does not hold, nothing is stored. */
export interface Author<Of> {
  readonly allowed: (p: Of) => RawBuilder<boolean>;
  /** The run whose rollback deletes the progress; absent for progress that stays. */
  readonly run_id?: (p: Of) => RawBuilder<string>;
  /** If two authors write the same place, the author with the higher number wins. */
  readonly run_seq: (p: Of) => RawBuilder<number>;
}

type Progressing = Pick<Progress, "checkpoints" | "writes">;

/** Statements that store the progress of an author. */
export function storing<Of extends ThreadKey>(author: Author<Of>): (args: Of, progress: Progressing) => Statement[] {
  const putValues = puttingValues(author);
  const putCheckpoints = puttingCheckpoints(author);
  const putWrites = puttingWrites(author);
  return (args, { checkpoints, writes }) => [
    ...putValues(
      args,
      last(checkpoints.flatMap(toValueArgs), (row) => keyOf(row.ns, row.channel, row.channel_version)),
    ),
    ...putCheckpoints(
      args,
      last(checkpoints.map(toCheckpointArgs), (row) => keyOf(row.ns, row.checkpoint_id)),
    ),
    ...putWrites(
      args,
      last(writes.flatMap(toWriteArgs), (row) => keyOf(row.ns, row.checkpoint_id, row.task_id, row.idx)),
    ),
  ];
}

/** The last row for each key: a statement may write a row only once. */
function last<Row>(rows: readonly Row[], key: (row: Row) => string): readonly Row[] {
  const known = new Map(rows.map((row) => [key(row), row]));
  return known.size === rows.length ? rows : [...known.values()];
}

const noRun = sql<string>`null`;

type CheckpointArgs = PayloadArgs &
  Pick<Tables["checkpoints"], "ns" | "checkpoint_id" | "parent_id" | "metadata" | "versions" | "created_at">;

// Every row reads the greatest `seq` before the statement. Checkpoints and values of other runs never change: a rollback deletes
// what this run stored, by its `run_id`.
const puttingCheckpoints = <Of extends ThreadKey>({ allowed, run_id = () => noRun }: Author<Of>) =>
  preparedRows<Of, CheckpointArgs>(
    (p, rows) =>
      sql`insert into checkpoints (deployment, thread_id, run_id, seq, ns, checkpoint_id, parent_id, type, data, bytes,
      metadata, versions, created_at)
    select ${p.deployment}, ${p.thread_id}, ${run_id(p)},
      v.column1 + coalesce((select max(seq) from checkpoints
        where deployment = ${scalar(p.deployment)} and thread_id = ${scalar(p.thread_id)}), 0),
      v.column2, v.column3, v.column4, v.column5, v.column6, v.column7, v.column8, v.column9, v.column10
    from (values ${sql.join(
      rows.map(
        (row, i) => sql`(${i + 1}, ${row.ns}, ${row.checkpoint_id}, ${row.parent_id}, ${row.type}, ${row.data},
          ${row.bytes}, ${row.metadata}, ${row.versions}, ${row.created_at})`,
      ),
    )}) as v
    where ${allowed(p)}
    on conflict (deployment, thread_id, ns, checkpoint_id) do update set
      parent_id = excluded.parent_id, type = excluded.type, data = excluded.data, bytes = excluded.bytes,
      metadata = excluded.metadata, versions = excluded.versions, created_at = excluded.created_at
      where checkpoints.run_id = excluded.run_id`,
  );

// Not named `version`: that column of assistants is a number.
type ValueArgs = PayloadArgs & { ns: string; channel: string; channel_version: string; extends_version: string | null };

const puttingValues = <Of extends ThreadKey>({ allowed, run_id = () => noRun }: Author<Of>) =>
  preparedRows<Of, ValueArgs>(
    (p, rows) =>
      sql`insert into channel_values (deployment, thread_id, run_id, ns, channel, version, type, data, bytes, extends_version)
    select ${p.deployment}, ${p.thread_id}, ${run_id(p)}, v.*
    from (values ${sql.join(
      rows.map(
        (row) => sql`(${row.ns}, ${row.channel}, ${row.channel_version}, ${row.type}, ${row.data}, ${row.bytes},
          ${row.extends_version})`,
      ),
    )}) as v
    where ${allowed(p)}
    on conflict (deployment, thread_id, ns, channel, version) do update set type = excluded.type,
      data = excluded.data, bytes = excluded.bytes, extends_version = excluded.extends_version
      where channel_values.run_id = excluded.run_id`,
  );

type WriteArgs = PayloadArgs & { ns: string; checkpoint_id: string; task_id: string; idx: number; channel: string };

const puttingWrites = <Of extends ThreadKey>({ allowed, run_seq, run_id = () => sql`''` }: Author<Of>) =>
  preparedRows<Of, WriteArgs>(
    (p, rows) =>
      sql`insert into checkpoint_writes (deployment, thread_id, run_id, run_seq, ns, checkpoint_id, task_id, idx, channel,
      type, data, bytes)
    select ${p.deployment}, ${p.thread_id}, ${run_id(p)}, ${run_seq(p)}, v.*
    from (values ${sql.join(
      rows.map(
        (row) => sql`(${row.ns}, ${row.checkpoint_id}, ${row.task_id}, ${row.idx}, ${row.channel}, ${row.type},
          ${row.data}, ${row.bytes})`,
      ),
    )}) as v
    where ${allowed(p)}
    on conflict (deployment, thread_id, ns, checkpoint_id, task_id, idx, run_id) do update set
      run_seq = excluded.run_seq, channel = excluded.channel, type = excluded.type, data = excluded.data,
      bytes = excluded.bytes`,
  );

const storeLeased = storing<LeaseFence>({
  allowed: whileLeased,
  run_id: (p) => sql`${p.run_id}`,
  run_seq: (p) => sql`(select seq from runs where run_id = ${scalar(p.run_id)})`,
});

/** Statements that store progress while the lease is held. */
export const putProgress = (deployment: string, lease: Lease, progress: Progress): Statement[] =>
  storeLeased({ deployment, ...lease }, progress);

function toValueArgs({ ns, values }: SavedCheckpoint): ValueArgs[] {
  return values.map((value) => {
    const { channel, version, extends_version = null } = value;
    return { ...columns(value), ns, channel, channel_version: version, extends_version };
  });
}

function toCheckpointArgs(checkpoint: SavedCheckpoint): CheckpointArgs {
  const { ns, checkpoint_id, parent_id, payload, created_at } = checkpoint;
  const [metadata, versions] = [JSON.stringify(checkpoint.metadata), JSON.stringify(checkpoint.versions)];
  return { ...columns(payload), ns, checkpoint_id, parent_id, metadata, versions, created_at };
}

function toWriteArgs({ ns, checkpoint_id, task_id, writes }: NewWrites): WriteArgs[] {
  return writes.map((write) => {
    const { channel, idx } = write;
    return { ...columns(write), ns, checkpoint_id, task_id, idx, channel };
  });
}

const discards = (["checkpoints", "checkpoint_writes", "channel_values"] as const).map((table) =>
  prepared<LeaseFence>(
    (p) =>
      sql`delete from ${sql.table(table)} where deployment = ${p.deployment} and thread_id = ${p.thread_id}
      and ${whileLeased(p)}`,
  ),
);

/** Statements that delete all checkpoints of the lease's thread. */
export function discardProgress(deployment: string, lease: Lease): Statement[] {
  return discards.map((discard) => discard({ deployment, ...lease }));
}

function columns({ type, data }: Payload): PayloadArgs {
  return typeof data === "string" ? { type, data, bytes: null } : { type, data: null, bytes: data };
}

// ------------------------------------------------------------------ reading

const ofThread = (key: ThreadKey): RawBuilder<unknown> =>
  sql`deployment = ${scalar(key.deployment)} and thread_id = ${scalar(key.thread_id)}`;

const seen = (bound: Bound): RawBuilder<unknown> => andOfPermitted("checkpoints", bound);

const one = scoped<ThreadKey & { ns: string; checkpoint_id: string }>(
  (p, bound) =>
    sql`select * from checkpoints where ${ofThread(p)} and ns = ${p.ns} and checkpoint_id = ${p.checkpoint_id}
    ${seen(bound)}`,
);

const newest = scoped<ThreadKey & { ns: string }>(
  (p, bound) =>
    sql`select * from checkpoints where ${ofThread(p)} and ns = ${scalar(p.ns)} ${seen(bound)}
    order by seq desc limit 1`,
);

const newestOfRun = scoped<ThreadKey & { ns: string; run_id: string }>(
  (p, bound) =>
    sql`select * from checkpoints where ${ofThread(p)} and ns = ${scalar(p.ns)} and run_id = ${scalar(p.run_id)}
    ${seen(bound)} order by seq desc limit 1`,
);

// SQLite keeps the order of a `cross join`. Otherwise it would read all rows of the thread and look up each in the short list.

/** The writes of every run on the checkpoints that `wanted` lists as [ns, checkpoint_id]. */
const writesOf = prepared<ThreadKey & { wanted: string }>(
  (p) =>
    sql`select w.* from ${rowsOf(p.wanted, { ns: "text", checkpoint_id: "text" })} j cross join checkpoint_writes w
    where w.deployment = ${scalar(p.deployment)} and w.thread_id = ${scalar(p.thread_id)}
      and w.ns = j.ns and w.checkpoint_id = j.checkpoint_id`,
);

const bytesOf = (...columns: readonly string[]): RawBuilder<number> =>
  sql`coalesce(sum(${sql.join(
    columns.map((column) => sql`coalesce(octet_length(${sql.ref(column)}), 0)`),
    sql` + `,
  )}), 0)`;

// One statement reads one snapshot, also while a run stores progress.
const sizes = prepared<ThreadKey>(
  (p) =>
    sql`select 'checkpoints' as section, '' as channel, count(*) as count,
      ${bytesOf("data", "bytes", "metadata", "versions")} as bytes from checkpoints where ${ofThread(p)}
    union all select 'pending_writes', '', count(*), ${bytesOf("data", "bytes")} from checkpoint_writes
      where ${ofThread(p)}
    union all select 'channel_values', channel, count(*), ${bytesOf("data", "bytes")} from channel_values
      where ${ofThread(p)} group by channel`,
);

/** @statements sizes */
async function measureThread(driver: Database, key: ThreadKey): Promise<ThreadSize> {
  const rows = (await driver.read(sizes(key))).map((row) => ({
    section: row.section as string,
    channel: row.channel as string,
    count: Number(row.count),
    bytes: Number(row.bytes),
  }));
  const whole = (section: string): { count: number; bytes: number } => {
    const own = rows.filter((row) => row.section === section);
    return {
      count: own.reduce((sum, { count }) => sum + count, 0),
      bytes: own.reduce((sum, { bytes }) => sum + bytes, 0),
    };
  };
  const channels = rows
    .filter(({ section }) => section === "channel_values")
    .sort((a, b) => (a.channel < b.channel ? -1 : 1))
    .map(({ channel, count, bytes }) => [channel, { versions: count, bytes }] as const);
  return {
    checkpoints: whole("checkpoints"),
    channel_values: { ...whole("channel_values"), by_channel: Object.fromEntries(channels) },
    pending_writes: whole("pending_writes"),
  };
}

/** The verbs that read checkpoints. Runs write them. */
export function checkpointVerbs(driver: Database): Omit<CheckpointStorage, "readOpening"> {
  const known = new KnownValues();
  return {
    measureThread: ({ deployment }, thread_id) => measureThread(driver, { deployment, thread_id }),

    /** @statements one · newestOfRun · newest · readValues · writesOf */
    async getCheckpoint({ deployment, filter }, thread_id, { ns, checkpoint_id, run_id }) {
      const key = { deployment, thread_id, ns };
      let query: Statement;
      if (checkpoint_id !== undefined) query = one({ ...key, checkpoint_id }, filter);
      else if (run_id !== undefined) query = newestOfRun({ ...key, run_id }, filter);
      else query = newest(key, filter);
      return (await complete(driver, key, await driver.read(query), known))[0] ?? null;
    },

    /** @statements statement · readValues · writesOf */
    async listCheckpoints({ deployment, filter }, thread_id, { ns, before, metadata, limit }) {
      const key = { deployment, thread_id };
      const bound = toFilterArgument(filter);
      const read = (below: number, count: number): Promise<SqlRow[]> => {
        const within = ns === undefined ? sql`` : sql` and ns = ${ns}`;
        const older = before === undefined ? sql`` : sql` and seq < ${checkpointSeq(key, before, ns)}`;
        const select = sql`select * from checkpoints where deployment = ${deployment} and thread_id = ${thread_id}
          and seq < ${below}${seen(bound)}${within}${older} order by seq desc limit ${count}`;
        return driver.read(statement(select));
      };
      let below = Number.MAX_SAFE_INTEGER;
      if (isEmpty(metadata)) return complete(driver, key, await read(below, limit), known);

      const found: SqlRow[] = [];
      while (found.length < limit) {
        const step = await read(below, FILTER_STEP);
        found.push(...step.filter((row) => matches(row as { metadata: string }, metadata)));
        if (step.length < FILTER_STEP) break;
        below = step.at(-1)?.seq as number;
      }
      return complete(driver, key, found.slice(0, limit), known);
    },
  };
}

/** The newest checkpoint with this id; in any namespace if `ns` is undefined. */
function checkpointSeq(key: ThreadKey, checkpoint_id: string, ns: string | undefined): RawBuilder<number> {
  const within = ns === undefined ? sql`` : sql` and ns = ${ns}`;
  return sql`(select max(seq) as seq from checkpoints where deployment = ${key.deployment}
    and thread_id = ${key.thread_id} and checkpoint_id = ${checkpoint_id}${within})`;
}

/** Checkpoints with their values and writes, in the order of the rows. */
async function complete(
  driver: Database,
  key: ThreadKey,
  rows: readonly SqlRow[],
  known: KnownValues,
): Promise<StoredCheckpoint[]> {
  if (rows.length === 0) return [];
  const checkpoints = (rows as unknown as readonly Tables["checkpoints"][]).map((row) => ({
    ...row,
    versions: JSON.parse(row.versions) as Record<string, string>,
  }));
  const wanted = checkpoints.flatMap(({ ns, versions }) =>
    Object.entries(versions).map(([channel, version]): ValuePlace => [ns, channel, version]),
  );
  const places = checkpoints.map(({ ns, checkpoint_id }) => [ns, checkpoint_id]);
  const [valueAt, writeRows] = await Promise.all([
    readValues(driver, key, wanted, known),
    driver.read(writesOf({ ...key, wanted: JSON.stringify(places) })),
  ]);
  const writes = new Map<string, Map<string, WriteRow>>();
  for (const row of writeRows as unknown as readonly WriteRow[]) {
    const at = keyOf(row.ns, row.checkpoint_id);
    const place = keyOf(row.task_id, row.idx);
    const there = writes.get(at) ?? new Map<string, WriteRow>();
    writes.set(at, there);
    if ((there.get(place)?.run_seq ?? 0) < row.run_seq) there.set(place, row);
  }
  return checkpoints.map((row) => ({
    ns: row.ns,
    checkpoint_id: row.checkpoint_id,
    parent_id: row.parent_id,
    run_id: row.run_id,
    payload: payloadOf(row),
    metadata: JSON.parse(row.metadata) as JsonObject,
    versions: row.versions,
    values: Object.entries(row.versions).flatMap(([channel, version]) => valueAt([row.ns, channel, version]) ?? []),
    writes: [...(writes.get(keyOf(row.ns, row.checkpoint_id))?.values() ?? [])].map(toWrite).sort(byPlace),
    created_at: row.created_at,
  }));
}

type WriteRow = Tables["checkpoint_writes"];

function toWrite(row: WriteRow): StoredWrite {
  return { task_id: row.task_id, idx: row.idx, channel: row.channel, ...payloadOf(row) };
}

function byPlace(a: StoredWrite, b: StoredWrite): number {
  if (a.task_id !== b.task_id) return a.task_id < b.task_id ? -1 : 1;
  return a.idx - b.idx;
}

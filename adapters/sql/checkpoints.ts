import type { Payload, StoredCheckpoint, StoredWrite } from "../../lib/executor/contract.ts";
import type { JsonObject } from "../../lib/json.ts";
import type {
  CheckpointStorage,
  Lease,
  NewWrites,
  Progress,
  SavedCheckpoint,
  Scope,
  ThreadSize,
} from "../../lib/storage/mod.ts";
import {
  ChannelValueCache,
  readValues,
  type ThreadKey,
  toKey,
  toPayload,
  type ValueAddress,
} from "./channel-values.ts";
import type { Database } from "./database.ts";
import { toFilterArgument } from "./filter-argument.ts";
import { isEmpty, matches } from "./metadata-index.ts";
import type { ArgumentsFor } from "./parameters.ts";
import type { Statement } from "./query.ts";
import type { CoreTables, PayloadColumns } from "./schema/tables.ts";
import {
  type checkpointTypes,
  deleteLeased,
  type LeaseFence,
  PROGRESS_TABLES,
  type SectionRow,
  selectCheckpoint,
  selectCheckpoints,
  selectNewestCheckpoint,
  selectNewestOfRun,
  selectSizes,
  selectWrites,
  upsertLeasedCheckpoints,
  upsertLeasedValues,
  upsertLeasedWrites,
  type valueTypes,
  type writeTypes,
} from "./statements/checkpoints.ts";

/** The number of rows per read of a filtered listing. */
const FILTER_PAGE_ROWS = 200;

// ------------------------------------------------------------------ writing

type CheckpointArgs = ArgumentsFor<typeof checkpointTypes>;
type ValueArgs = ArgumentsFor<typeof valueTypes>;
type WriteArgs = ArgumentsFor<typeof writeTypes>;

/** The statements that store the progress of one kind of author. `Args` are the arguments that all of them have. */
interface ProgressStatements<Args> {
  values(args: Args, rows: readonly ValueArgs[]): readonly Statement<never>[];
  checkpoints(args: Args, rows: readonly CheckpointArgs[]): readonly Statement<never>[];
  writes(args: Args, rows: readonly WriteArgs[]): readonly Statement<never>[];
}

/**
 * Returns the statements that store values, checkpoints and writes, in this order; none for an empty list. Of several rows with
 * one key it stores the last one.
 */
export const createProgressStatements = <Args>(
  { values, checkpoints, writes }: ProgressStatements<Args>,
  args: Args,
  progress: Pick<Progress, "checkpoints" | "writes">,
): Statement<never>[] => [
  ...values(
    args,
    lastPerKey(progress.checkpoints.flatMap(toValueArgs), (row) => toKey(row.ns, row.channel, row.version)),
  ),
  ...checkpoints(
    args,
    lastPerKey(progress.checkpoints.map(toCheckpointArgs), (row) => toKey(row.ns, row.checkpoint_id)),
  ),
  ...writes(
    args,
    lastPerKey(progress.writes.flatMap(toWriteArgs), (row) => toKey(row.ns, row.checkpoint_id, row.task_id, row.idx)),
  ),
];

/** Returns the last row of each key, because a statement may write a row only once. Returns the same list if no key repeats. */
function lastPerKey<Row>(rows: readonly Row[], key: (row: Row) => string): readonly Row[] {
  const rowsByKey = new Map(rows.map((row) => [key(row), row]));
  return rowsByKey.size === rows.length ? rows : [...rowsByKey.values()];
}

/** Returns the columns of each new channel value of a checkpoint; `extends_version` is null for a whole value. */
function toValueArgs({ ns, values }: SavedCheckpoint): ValueArgs[] {
  return values.map((value) => {
    const { channel, version, extends_version = null } = value;
    return { ...toColumns(value), ns, channel, version, extends_version };
  });
}

/** Returns the columns of a checkpoint. Metadata and channel versions become JSON text; the values are not part of it. */
function toCheckpointArgs(checkpoint: SavedCheckpoint): CheckpointArgs {
  const { ns, checkpoint_id, parent_id, payload, created_at } = checkpoint;
  const [metadata, versions] = [JSON.stringify(checkpoint.metadata), JSON.stringify(checkpoint.versions)];
  return { ...toColumns(payload), ns, checkpoint_id, parent_id, metadata, versions, created_at };
}

/** Returns the columns of each write of a task, in the namespace of its checkpoint. */
function toWriteArgs({ ns, checkpoint_id, task_id, writes }: NewWrites): WriteArgs[] {
  return writes.map((write) => {
    const { channel, idx } = write;
    return { ...toColumns(write), ns, checkpoint_id, task_id, idx, channel };
  });
}

const leasedStatements: ProgressStatements<LeaseFence> = {
  values: upsertLeasedValues,
  checkpoints: upsertLeasedCheckpoints,
  writes: upsertLeasedWrites,
};

/** Returns the statements that store progress while the lease is held. */
export const storeProgressStatements = (deployment: string, lease: Lease, progress: Progress): Statement<never>[] =>
  createProgressStatements(leasedStatements, { deployment, ...lease }, progress);

/** Returns the statements that delete all checkpoints of the lease's thread. */
export const deleteProgressStatements = (deployment: string, lease: Lease): Statement<never>[] =>
  PROGRESS_TABLES.map((table) => deleteLeased({ table }, { deployment, ...lease }));

const toColumns = ({ type, data }: Payload): PayloadColumns =>
  typeof data === "string" ? { type, data, bytes: null } : { type, data: null, bytes: data };

// ------------------------------------------------------------------ reading

/**
 * Returns the numbers and bytes of a thread's checkpoints, values (also for each channel, sorted by name) and writes; zeros
 * without any.
 */
async function readThreadSize(driver: Database, key: ThreadKey): Promise<ThreadSize> {
  const rows = await driver.read(selectSizes(key));
  const sumSection = (section: SectionRow["section"]): { count: number; bytes: number } => {
    const sectionRows = rows.filter((row) => row.section === section);
    return {
      count: sectionRows.reduce((sum, { count }) => sum + count, 0),
      bytes: sectionRows.reduce((sum, { bytes }) => sum + bytes, 0),
    };
  };
  const channels = rows
    .filter(({ section }) => section === "channel_values")
    .sort((a, b) => (a.channel < b.channel ? -1 : 1))
    .map(({ channel, count, bytes }) => [channel, { versions: count, bytes }] as const);
  return {
    checkpoints: sumSection("checkpoints"),
    channel_values: { ...sumSection("channel_values"), by_channel: Object.fromEntries(channels) },
    pending_writes: sumSection("pending_writes"),
  };
}

type CheckpointQuery = Parameters<CheckpointStorage["listCheckpoints"]>[2];

/**
 * Returns a function that reads at most `count` checkpoints with a `seq` lower than `below`, newest first: those in the
 * namespace of the query, older than the checkpoint `before`, and of a thread that the filter permits.
 */
function createPageReader(
  driver: Database,
  { deployment, filter }: Scope,
  thread_id: string,
  { ns, before }: CheckpointQuery,
): (below: number, count: number) => Promise<CheckpointRow[]> {
  const argument = toFilterArgument(filter);
  const shape = { in_namespace: ns !== undefined, before: before !== undefined, filtered: argument !== null };
  const terms = { ns: ns ?? "", before: before ?? "", filter: argument ?? "" };
  return (below, limit) => driver.read(selectCheckpoints(shape, { deployment, thread_id, ...terms, below, limit }));
}

/** Creates the storage operations that read checkpoints, which share a cache of long channel values. Runs write checkpoints. */
export function createCheckpointStorage(driver: Database): Omit<CheckpointStorage, "readValueStart"> {
  const cache = new ChannelValueCache();
  return {
    /** @statements selectSizes */
    getThreadSize: ({ deployment }, thread_id) => readThreadSize(driver, { deployment, thread_id }),

    /**
     * Returns a checkpoint with its values and writes: that with `checkpoint_id`, else the newest of `run_id` in the namespace,
     * else the newest of the namespace. Returns null if there is none or the filter excludes the thread.
     * @statements selectCheckpoint · selectNewestOfRun · selectNewestCheckpoint · readValues · selectWrites
     */
    async getCheckpoint({ deployment, filter }, thread_id, { ns, checkpoint_id, run_id }) {
      const key = { deployment, thread_id, ns };
      let select: Statement<CheckpointRow>;
      if (checkpoint_id !== undefined) select = selectCheckpoint({ ...key, checkpoint_id }, filter);
      else if (run_id !== undefined) select = selectNewestOfRun({ ...key, run_id }, filter);
      else select = selectNewestCheckpoint(key, filter);
      return (await loadValuesAndWrites(driver, key, await driver.read(select), cache))[0] ?? null;
    },

    /**
     * Returns at most `limit` checkpoints with values and writes, newest first. With `metadata` it reads page after page, until
     * enough checkpoints contain it or there are no more.
     * @statements selectCheckpoints · readValues · selectWrites
     */
    async listCheckpoints(scope, thread_id, query) {
      const { metadata, limit } = query;
      const key = { deployment: scope.deployment, thread_id };
      const read = createPageReader(driver, scope, thread_id, query);
      let below = Number.MAX_SAFE_INTEGER;
      if (isEmpty(metadata)) return loadValuesAndWrites(driver, key, await read(below, limit), cache);

      const matching: CheckpointRow[] = [];
      while (matching.length < limit) {
        const page = await read(below, FILTER_PAGE_ROWS);
        matching.push(...page.filter((row) => matches(row, metadata)));
        const lastRow = page.at(-1);
        if (!lastRow || page.length < FILTER_PAGE_ROWS) break;
        below = lastRow.seq;
      }
      return loadValuesAndWrites(driver, key, matching.slice(0, limit), cache);
    },
  };
}

type CheckpointRow = CoreTables["checkpoints"];
type WriteRow = CoreTables["checkpoint_writes"];

/**
 * Returns the checkpoints with their values and writes, in the order of the rows. Of writes with one task and index it keeps
 * that of the latest run; they are sorted by task id and index. Values that are missing are omitted.
 */
async function loadValuesAndWrites(
  driver: Database,
  key: ThreadKey,
  rows: readonly CheckpointRow[],
  cache: ChannelValueCache,
): Promise<StoredCheckpoint[]> {
  if (rows.length === 0) return [];
  const checkpoints = rows.map((row) => ({ ...row, versions: JSON.parse(row.versions) as Record<string, string> }));
  const addresses = checkpoints.flatMap(({ ns, versions }) =>
    Object.entries(versions).map(([channel, version]): ValueAddress => [ns, channel, version]),
  );
  const checkpointAddresses = checkpoints.map(({ ns, checkpoint_id }) => [ns, checkpoint_id]);
  const [findValue, writeRows] = await Promise.all([
    readValues(driver, key, addresses, cache),
    driver.read(selectWrites({ ...key, addresses: JSON.stringify(checkpointAddresses) })),
  ]);
  const writes = new Map<string, Map<string, WriteRow>>();
  for (const row of writeRows) {
    const checkpointKey = toKey(row.ns, row.checkpoint_id);
    const writeKey = toKey(row.task_id, row.idx);
    const existing = writes.get(checkpointKey) ?? new Map<string, WriteRow>();
    writes.set(checkpointKey, existing);
    if ((existing.get(writeKey)?.run_seq ?? 0) < row.run_seq) existing.set(writeKey, row);
  }
  return checkpoints.map((row) => ({
    ns: row.ns,
    checkpoint_id: row.checkpoint_id,
    parent_id: row.parent_id,
    run_id: row.run_id,
    payload: toPayload(row),
    metadata: JSON.parse(row.metadata) as JsonObject,
    versions: row.versions,
    values: Object.entries(row.versions).flatMap(([channel, version]) => findValue([row.ns, channel, version]) ?? []),
    writes: [...(writes.get(toKey(row.ns, row.checkpoint_id))?.values() ?? [])].map(toWrite).sort(compareWrites),
    created_at: row.created_at,
  }));
}

function toWrite(row: WriteRow): StoredWrite {
  return { task_id: row.task_id, idx: row.idx, channel: row.channel, ...toPayload(row) };
}

/** Orders by task id, then by index. */
function compareWrites(a: StoredWrite, b: StoredWrite): number {
  if (a.task_id !== b.task_id) return a.task_id < b.task_id ? -1 : 1;
  return a.idx - b.idx;
}

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
import { KnownValues, keyOf, payloadOf, readValues, type ThreadKey, type ValuePlace } from "./channel-values.ts";
import type { Database } from "./database.ts";
import { toFilterArgument } from "./filter-argument.ts";
import { isEmpty, matches } from "./labels.ts";
import type { ArgumentsFor } from "./parameters.ts";
import type { Statement } from "./query.ts";
import type { PayloadColumns, Tables } from "./schema/tables.ts";
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

/** How many rows a filtered listing reads at a time. */
const FILTER_STEP = 200;

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

/** Returns the statements that store progress. */
export const storeProgress = <Args>(
  { values, checkpoints, writes }: ProgressStatements<Args>,
  args: Args,
  progress: Pick<Progress, "checkpoints" | "writes">,
): Statement<never>[] => [
  ...values(
    args,
    last(progress.checkpoints.flatMap(toValueArgs), (row) => keyOf(row.ns, row.channel, row.version)),
  ),
  ...checkpoints(
    args,
    last(progress.checkpoints.map(toCheckpointArgs), (row) => keyOf(row.ns, row.checkpoint_id)),
  ),
  ...writes(
    args,
    last(progress.writes.flatMap(toWriteArgs), (row) => keyOf(row.ns, row.checkpoint_id, row.task_id, row.idx)),
  ),
];

/** Returns the last row for each key: a statement may write a row only once. */
function last<Row>(rows: readonly Row[], key: (row: Row) => string): readonly Row[] {
  const known = new Map(rows.map((row) => [key(row), row]));
  return known.size === rows.length ? rows : [...known.values()];
}

function toValueArgs({ ns, values }: SavedCheckpoint): ValueArgs[] {
  return values.map((value) => {
    const { channel, version, extends_version = null } = value;
    return { ...toColumns(value), ns, channel, version, extends_version };
  });
}

function toCheckpointArgs(checkpoint: SavedCheckpoint): CheckpointArgs {
  const { ns, checkpoint_id, parent_id, payload, created_at } = checkpoint;
  const [metadata, versions] = [JSON.stringify(checkpoint.metadata), JSON.stringify(checkpoint.versions)];
  return { ...toColumns(payload), ns, checkpoint_id, parent_id, metadata, versions, created_at };
}

function toWriteArgs({ ns, checkpoint_id, task_id, writes }: NewWrites): WriteArgs[] {
  return writes.map((write) => {
    const { channel, idx } = write;
    return { ...toColumns(write), ns, checkpoint_id, task_id, idx, channel };
  });
}

const leased: ProgressStatements<LeaseFence> = {
  values: upsertLeasedValues,
  checkpoints: upsertLeasedCheckpoints,
  writes: upsertLeasedWrites,
};

/** Returns the statements that store progress while the lease is held. */
export const putProgress = (deployment: string, lease: Lease, progress: Progress): Statement<never>[] =>
  storeProgress(leased, { deployment, ...lease }, progress);

/** Returns the statements that delete all checkpoints of the lease's thread. */
export const discardProgress = (deployment: string, lease: Lease): Statement<never>[] =>
  PROGRESS_TABLES.map((table) => deleteLeased({ table }, { deployment, ...lease }));

const toColumns = ({ type, data }: Payload): PayloadColumns =>
  typeof data === "string" ? { type, data, bytes: null } : { type, data: null, bytes: data };

// ------------------------------------------------------------------ reading

/** @statements selectSizes */
async function getThreadSize(driver: Database, key: ThreadKey): Promise<ThreadSize> {
  const rows = await driver.read(selectSizes(key));
  const sumOf = (section: SectionRow["section"]): { count: number; bytes: number } => {
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
    checkpoints: sumOf("checkpoints"),
    channel_values: { ...sumOf("channel_values"), by_channel: Object.fromEntries(channels) },
    pending_writes: sumOf("pending_writes"),
  };
}

type CheckpointQuery = Parameters<CheckpointStorage["listCheckpoints"]>[2];

/** Returns a function that reads the newest `count` rows of a list below a `seq`. */
function pageReader(
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

/** The verbs that read checkpoints. Runs write them. */
export function checkpointVerbs(driver: Database): Omit<CheckpointStorage, "readValueStart"> {
  const known = new KnownValues();
  return {
    getThreadSize: ({ deployment }, thread_id) => getThreadSize(driver, { deployment, thread_id }),

    /** @statements selectCheckpoint · selectNewestOfRun · selectNewestCheckpoint · readValues · selectWrites */
    async getCheckpoint({ deployment, filter }, thread_id, { ns, checkpoint_id, run_id }) {
      const key = { deployment, thread_id, ns };
      let select: Statement<CheckpointRow>;
      if (checkpoint_id !== undefined) select = selectCheckpoint({ ...key, checkpoint_id }, filter);
      else if (run_id !== undefined) select = selectNewestOfRun({ ...key, run_id }, filter);
      else select = selectNewestCheckpoint(key, filter);
      return (await complete(driver, key, await driver.read(select), known))[0] ?? null;
    },

    /** @statements selectCheckpoints · readValues · selectWrites */
    async listCheckpoints(scope, thread_id, query) {
      const { metadata, limit } = query;
      const key = { deployment: scope.deployment, thread_id };
      const read = pageReader(driver, scope, thread_id, query);
      let below = Number.MAX_SAFE_INTEGER;
      if (isEmpty(metadata)) return complete(driver, key, await read(below, limit), known);

      const found: CheckpointRow[] = [];
      while (found.length < limit) {
        const step = await read(below, FILTER_STEP);
        found.push(...step.filter((row) => matches(row, metadata)));
        const last = step.at(-1);
        if (!last || step.length < FILTER_STEP) break;
        below = last.seq;
      }
      return complete(driver, key, found.slice(0, limit), known);
    },
  };
}

type CheckpointRow = Tables["checkpoints"];
type WriteRow = Tables["checkpoint_writes"];

/** Returns the checkpoints with their values and writes, in the order of the rows. */
async function complete(
  driver: Database,
  key: ThreadKey,
  rows: readonly CheckpointRow[],
  known: KnownValues,
): Promise<StoredCheckpoint[]> {
  if (rows.length === 0) return [];
  const checkpoints = rows.map((row) => ({ ...row, versions: JSON.parse(row.versions) as Record<string, string> }));
  const wanted = checkpoints.flatMap(({ ns, versions }) =>
    Object.entries(versions).map(([channel, version]): ValuePlace => [ns, channel, version]),
  );
  const places = checkpoints.map(({ ns, checkpoint_id }) => [ns, checkpoint_id]);
  const [valueAt, writeRows] = await Promise.all([
    readValues(driver, key, wanted, known),
    driver.read(selectWrites({ ...key, wanted: JSON.stringify(places) })),
  ]);
  const writes = new Map<string, Map<string, WriteRow>>();
  for (const row of writeRows) {
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

function toWrite(row: WriteRow): StoredWrite {
  return { task_id: row.task_id, idx: row.idx, channel: row.channel, ...payloadOf(row) };
}

function byPlace(a: StoredWrite, b: StoredWrite): number {
  if (a.task_id !== b.task_id) return a.task_id < b.task_id ? -1 : 1;
  return a.idx - b.idx;
}

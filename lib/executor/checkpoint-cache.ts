/** Caches the checkpoints that a job has read or put. */
import type { NewWrites, Progress, SavedCheckpoint, SavedValue, Scope, Storage } from "../storage/mod.ts";
import type {
  ChannelValue,
  CheckpointReader,
  NewCheckpoint,
  PendingWrite,
  StoredCheckpoint,
  StoredWrite,
} from "./contract.ts";

export interface CheckpointCacheOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly thread_id: string;
  /** The run that the checkpoints belong to; null outside a run. */
  readonly run_id: string | null;
  /** The head of the thread when the job started. */
  readonly head: string | null;
  /** True if the run has stored root checkpoints. It continues from the newest one then. */
  readonly resumed: boolean;
  /** Repeats a failing storage call for a limited time. */
  retry<Result>(call: () => Promise<Result>): Promise<Result>;
}

type CheckpointQuery = Parameters<CheckpointReader["get"]>[0];

export const createCheckpointKey = (ns: string, checkpoint_id: string): string => `${ns}\u0000${checkpoint_id}`;

export class CheckpointCache {
  readonly #options: CheckpointCacheOptions;
  /** Cached checkpoints by key. `dropSaved` removes saved ones, except the newest of each namespace. */
  readonly #cached = new Map<string, StoredCheckpoint>();
  readonly #newest = new Map<string, string>();
  /** The writes of this job by checkpoint key, stored or not. They override stored writes. */
  readonly #jobWrites = new Map<string, readonly StoredWrite[]>();
  /** The keys of checkpoints that no save has drained, in the order in which they were put. */
  readonly #unsavedKeys: string[] = [];
  /** The keys that the last save has drained. It may still be running, so only this job can read these checkpoints. */
  #savingKeys: string[] = [];
  #isSavedDropped = false;

  constructor(options: CheckpointCacheOptions) {
    this.#options = options;
  }

  /**
   * Returns a checkpoint with the job's writes without reading the storage. Returns null if it cannot exist, undefined if the
   * storage must be read for it.
   */
  getCached({ ns, checkpoint_id }: CheckpointQuery): StoredCheckpoint | null | undefined {
    const id = this.#findId(ns, checkpoint_id);
    if (id === null) return null;
    const match = id === undefined ? undefined : this.#cached.get(createCheckpointKey(ns, id));
    return match && this.mergeJobWrites(match);
  }

  /** Returns a checkpoint with the job's writes, from the cache or the storage, or null. What was read stays cached. */
  async get(query: CheckpointQuery): Promise<StoredCheckpoint | null> {
    const cached = this.getCached(query);
    if (cached !== undefined) return cached;
    const stored = await this.#read(query);
    return stored && this.mergeJobWrites(stored);
  }

  /**
   * Reads a checkpoint, without an id the newest one: of this run in the root namespace, else the head of the thread. Returns
   * null if there is none.
   */
  async #read({ ns, checkpoint_id }: CheckpointQuery): Promise<StoredCheckpoint | null> {
    const { run_id, head } = this.#options;
    const id = this.#findId(ns, checkpoint_id);
    if (typeof id === "string") return await this.#load({ ns, checkpoint_id: id });
    const newest = await this.#load(ns === "" && run_id !== null ? { ns, run_id } : { ns });
    // A run that was suspended before its first root checkpoint continues from where it began.
    return newest || ns !== "" || head === null ? newest : await this.#load({ ns, checkpoint_id: head });
  }

  /**
   * Returns the id of the requested checkpoint, null if the thread has none yet, or undefined if the storage must be read for it.
   */
  #findId(ns: string, checkpoint_id: string | undefined): string | null | undefined {
    const { resumed, head } = this.#options;
    return checkpoint_id ?? this.#newest.get(ns) ?? (ns === "" && !resumed ? head : undefined);
  }

  /** Reads a checkpoint with retries and caches it. Returns null if it does not exist. */
  async #load(query: { ns: string; checkpoint_id?: string; run_id?: string }): Promise<StoredCheckpoint | null> {
    const { storage, scope, thread_id, retry } = this.#options;
    const stored = await retry(() => storage.getCheckpoint(scope, thread_id, query));
    if (stored) this.#cached.set(createCheckpointKey(stored.ns, stored.checkpoint_id), stored);
    return stored;
  }

  /** Returns the checkpoint with the writes that this job has added; the same one if it has added none. */
  mergeJobWrites(checkpoint: StoredCheckpoint): StoredCheckpoint {
    const writes = this.#jobWrites.get(createCheckpointKey(checkpoint.ns, checkpoint.checkpoint_id));
    return writes ? { ...checkpoint, writes: mergeWrites(checkpoint.writes, writes) } : checkpoint;
  }

  /** Returns the id of the newest root checkpoint that this job has put, or null. */
  findNewestRootId(): string | null {
    return this.#newest.get("") ?? null;
  }

  /** Returns the checkpoints that no save has drained, oldest first. */
  listUnsaved(): StoredCheckpoint[] {
    return this.#unsavedKeys.map((key) => this.#cached.get(key)).filter((checkpoint) => checkpoint !== undefined);
  }

  /**
   * Adds an unsaved checkpoint as the newest of its namespace, and caches it if its values are known. Returns its stored form, in
   * which lists that only grew are reduced to their new elements.
   */
  add(checkpoint: NewCheckpoint, created_at: number): SavedCheckpoint {
    const { ns, checkpoint_id, parent_id } = checkpoint;
    const { run_id } = this.#options;
    const key = createCheckpointKey(ns, checkpoint_id);
    const parent = parent_id === null ? undefined : this.#cached.get(createCheckpointKey(ns, parent_id));
    const { values, resolvedValues } = toListDeltas(checkpoint, parent);
    const complete = resolveInheritedValues({ ...checkpoint, values: resolvedValues }, parent, this.#cached);
    if (complete) this.#cached.set(key, { ...checkpoint, run_id, values: complete, writes: [], created_at });
    this.#unsavedKeys.push(key);
    this.#newest.set(ns, checkpoint_id);
    return { ...checkpoint, values, created_at };
  }

  /** Adds writes of a task. A write with the index of an earlier one of the task replaces it. */
  addWrites({ ns, checkpoint_id }: Required<CheckpointQuery>, task_id: string, writes: readonly PendingWrite[]): void {
    const key = createCheckpointKey(ns, checkpoint_id);
    const taskWrites = writes.map((write) => ({ ...write, task_id }));
    this.#jobWrites.set(key, mergeWrites(this.#jobWrites.get(key) ?? [], taskWrites));
  }

  /**
   * Drops what the save before the last one has stored, because saves run one after another, and notes what is `drained` now.
   * Keeps the newest checkpoint of each namespace and those with drained or `unsavedWrites`.
   */
  dropSaved(drained: Pick<Progress, "checkpoints" | "writes">, unsavedWrites: readonly NewWrites[]): void {
    const { checkpoints, writes } = drained;
    const isEmpty = checkpoints.length + writes.length === 0;
    // Saves of frames alone have nothing to drop: the last one has dropped what was stored.
    if (isEmpty && this.#isSavedDropped) return;
    this.#isSavedDropped = isEmpty;
    const neededKeys = new Set([...this.#newest].map(([ns, id]) => createCheckpointKey(ns, id)));
    for (const write of [...writes, ...unsavedWrites])
      neededKeys.add(createCheckpointKey(write.ns, write.checkpoint_id));
    for (const key of this.#savingKeys.filter((savedKey) => !neededKeys.has(savedKey))) {
      this.#cached.delete(key);
      this.#jobWrites.delete(key);
    }
    const drainedKeys = this.#unsavedKeys.splice(0, checkpoints.length);
    this.#savingKeys = [...this.#savingKeys.filter((savedKey) => neededKeys.has(savedKey)), ...drainedKeys];
  }
}

/** Returns all values of a new checkpoint, also the inherited ones, or null if only the storage can resolve them. */
function resolveInheritedValues(
  checkpoint: NewCheckpoint,
  parent: StoredCheckpoint | undefined,
  cached: ReadonlyMap<string, StoredCheckpoint>,
): readonly ChannelValue[] | null {
  const newValues = new Map(checkpoint.values.map((value) => [value.channel, value]));
  const parentValues = indexByChannel(parent);
  const maps = new Map<StoredCheckpoint, ReadonlyMap<string, ChannelValue>>();
  /** Returns the value of a channel in a checkpoint, or undefined. Indexes each checkpoint once. */
  const findValue = (candidate: StoredCheckpoint, channel: string): ChannelValue | undefined => {
    const map = maps.get(candidate) ?? indexByChannel(candidate);
    maps.set(candidate, map);
    return map.get(channel);
  };
  /** Finds another checkpoint with this version of the channel. It has all that exists of the value, perhaps nothing. */
  const findWithVersion = (channel: string, version: string): StoredCheckpoint | undefined =>
    [...cached.values()].find((candidate) => candidate.ns === checkpoint.ns && candidate.versions[channel] === version);
  const values: ChannelValue[] = [];
  for (const [channel, version] of Object.entries(checkpoint.versions)) {
    const value = newValues.get(channel) ?? parentValues.get(channel);
    if (value?.version === version) {
      values.push(value);
      continue;
    }
    // A copy has the values of its original.
    const owner = parent?.versions[channel] === version ? parent : findWithVersion(channel, version);
    const inheritedValue = owner && findValue(owner, channel);
    if (inheritedValue) values.push(inheritedValue);
    else if (!owner && !parent && checkpoint.parent_id !== null) return null;
  }
  return values;
}

/** The length below which lists are stored whole. */
const MIN_DELTA_CHARS = 1024;
const indexByChannel = (checkpoint: StoredCheckpoint | undefined): ReadonlyMap<string, ChannelValue> =>
  new Map(checkpoint?.values.map((value) => [value.channel, value]));

/** Returns both lists as one, sorted by task and index. A later write replaces an earlier one with its task and index. */
function mergeWrites(base: readonly StoredWrite[], writes: readonly StoredWrite[]): StoredWrite[] {
  const merged = new Map([...base, ...writes].map((write) => [`${write.task_id}\u0000${write.idx}`, write]));
  return [...merged.values()].sort(compareWrites);
}

/** Compares two writes by task id, and those of one task by index. */
function compareWrites(first: StoredWrite, second: StoredWrite): number {
  if (first.task_id === second.task_id) return first.idx - second.idx;
  return first.task_id < second.task_id ? -1 : 1;
}

/**
 * Returns the values to store, in which lists that only grew are replaced by their new elements, and the same values whole. So a
 * run does not cost as much as the whole conversation. A list is stored whole again once its deltas are larger than the last
 * whole copy.
 */
function toListDeltas(
  checkpoint: NewCheckpoint,
  parent: StoredCheckpoint | undefined,
): { values: readonly SavedValue[]; resolvedValues: readonly ChannelValue[] } {
  const values: SavedValue[] = [];
  const resolvedValues: ChannelValue[] = [];
  const parentValues = indexByChannel(parent);
  for (const value of checkpoint.values) {
    const before = parentValues.get(value.channel);
    const delta = before && before.version !== value.version ? toListDelta(before, value) : null;
    if (before && delta !== null) {
      const delta_length = (before.delta_length ?? 0) + delta.length;
      if (delta_length <= value.data.length - delta_length) {
        values.push({ ...value, data: delta, extends_version: before.version });
        resolvedValues.push({ ...value, delta_length });
        continue;
      }
    }
    values.push(value);
    resolvedValues.push(parent ? { ...value, delta_length: 0 } : value);
  }
  return { values, resolvedValues };
}

/**
 * Returns the new elements of a JSON list that only grew, as a JSON list. Returns null for other values, short lists and other
 * changes.
 */
function toListDelta(before: ChannelValue, after: ChannelValue): string | null {
  if (before.type !== "json" || after.type !== "json") return null;
  if (typeof before.data !== "string" || typeof after.data !== "string") return null;
  if (before.data.length < MIN_DELTA_CHARS) return null;
  if (!before.data.startsWith("[") || !after.data.endsWith("]")) return null;
  const baseLength = before.data.length - 1;
  // Without a comma there, the last element itself has changed. `startsWith` takes four times as long.
  if (after.data[baseLength] !== "," || after.data.slice(0, baseLength) !== before.data.slice(0, baseLength))
    return null;
  return `[${after.data.slice(baseLength + 1)}`;
}

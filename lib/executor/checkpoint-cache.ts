/** The checkpoints that a job has read or put. */
import type { NewWrites, Progress, SavedCheckpoint, SavedValue, Scope, Storage } from "../storage/mod.ts";
import type {
  ChannelValue,
  CheckpointReader,
  NewCheckpoint,
  PendingWrite,
  StoredCheckpoint,
  StoredWrite,
} from "./contract.ts";

export interface CacheOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly thread_id: string;
  /** Null: the checkpoints belong to no run. */
  readonly run_id: string | null;
  /** The thread's head when the job started. */
  readonly head: string | null;
  /** The run has stored root checkpoints: it continues from the newest one. */
  readonly resumed: boolean;
  /** Repeats a call of the store while it fails, for a limited time. */
  retry<Answer>(ask: () => Promise<Answer>): Promise<Answer>;
}

type CheckpointAt = Parameters<CheckpointReader["get"]>[0];

/** Names a checkpoint within its thread. */
export const checkpointKey = (ns: string, checkpoint_id: string): string => `${ns}\u0000${checkpoint_id}`;

export class CheckpointCache {
  readonly #options: CacheOptions;
  /** Saved ones are dropped later, except the newest of each namespace. */
  readonly #cached = new Map<string, StoredCheckpoint>();
  readonly #newest = new Map<string, string>();
  /** The writes of this job by checkpoint, stored or not: they override those in the store. */
  readonly #ownWrites = new Map<string, readonly StoredWrite[]>();
  /** What no save has drained, in the order in which it was put. */
  readonly #unsaved: string[] = [];
  /** Drained by the last save, which may be under way: only this job can read these checkpoints. */
  #saving: string[] = [];
  #isSavedDropped = false;

  constructor(options: CacheOptions) {
    this.#options = options;
  }

  /** Undefined: the store must be asked. */
  peek({ ns, checkpoint_id }: CheckpointAt): StoredCheckpoint | null | undefined {
    const id = this.#findId(ns, checkpoint_id);
    if (id === null) return null;
    const match = id === undefined ? undefined : this.#cached.get(checkpointKey(ns, id));
    return match && this.withOwnWrites(match);
  }

  async get(at: CheckpointAt): Promise<StoredCheckpoint | null> {
    const cached = this.peek(at);
    if (cached !== undefined) return cached;
    const stored = await this.#read(at);
    return stored && this.withOwnWrites(stored);
  }

  async #read({ ns, checkpoint_id }: CheckpointAt): Promise<StoredCheckpoint | null> {
    const { run_id, head } = this.#options;
    const id = this.#findId(ns, checkpoint_id);
    if (typeof id === "string") return await this.#load({ ns, checkpoint_id: id });
    const newest = await this.#load(ns === "" && run_id !== null ? { ns, run_id } : { ns });
    // A run that was suspended before its first root checkpoint continues from where it began.
    return newest || ns !== "" || head === null ? newest : await this.#load({ ns, checkpoint_id: head });
  }

  /** Undefined: it has no id, and the store must be asked. */
  #findId(ns: string, checkpoint_id: string | undefined): string | null | undefined {
    const { resumed, head } = this.#options;
    return checkpoint_id ?? this.#newest.get(ns) ?? (ns === "" && !resumed ? head : undefined);
  }

  async #load(at: { ns: string; checkpoint_id?: string; run_id?: string }): Promise<StoredCheckpoint | null> {
    const { storage, scope, thread_id, retry } = this.#options;
    const stored = await retry(() => storage.getCheckpoint(scope, thread_id, at));
    if (stored) this.#cached.set(checkpointKey(stored.ns, stored.checkpoint_id), stored);
    return stored;
  }

  withOwnWrites(checkpoint: StoredCheckpoint): StoredCheckpoint {
    const writes = this.#ownWrites.get(checkpointKey(checkpoint.ns, checkpoint.checkpoint_id));
    return writes ? { ...checkpoint, writes: mergeWrites(checkpoint.writes, writes) } : checkpoint;
  }

  /** The newest root checkpoint that this job has put. */
  root(): string | null {
    return this.#newest.get("") ?? null;
  }

  /** The checkpoints that no save has drained, oldest first. */
  unsaved(): StoredCheckpoint[] {
    return this.#unsaved.map((name) => this.#cached.get(name)).filter((checkpoint) => checkpoint !== undefined);
  }

  /** Returns the checkpoint as it is stored. */
  add(checkpoint: NewCheckpoint, created_at: number): SavedCheckpoint {
    const { ns, checkpoint_id, parent_id } = checkpoint;
    const { run_id } = this.#options;
    const name = checkpointKey(ns, checkpoint_id);
    const parent = parent_id === null ? undefined : this.#cached.get(checkpointKey(ns, parent_id));
    const { values, tails } = asTails(checkpoint, parent);
    const complete = withInherited({ ...checkpoint, values: tails }, parent, this.#cached);
    if (complete) this.#cached.set(name, { ...checkpoint, run_id, values: complete, writes: [], created_at });
    this.#unsaved.push(name);
    this.#newest.set(ns, checkpoint_id);
    return { ...checkpoint, values, created_at };
  }

  addWrites({ ns, checkpoint_id }: Required<CheckpointAt>, task_id: string, writes: readonly PendingWrite[]): void {
    const name = checkpointKey(ns, checkpoint_id);
    const taskWrites = writes.map((write) => ({ ...write, task_id }));
    this.#ownWrites.set(name, mergeWrites(this.#ownWrites.get(name) ?? [], taskWrites));
  }

  /** Forgets what the last save has stored: saves run one after another. Checkpoints with `unsavedWrites` stay. */
  dropSaved(drained: Pick<Progress, "checkpoints" | "writes">, unsavedWrites: readonly NewWrites[]): void {
    const { checkpoints, writes } = drained;
    const isEmpty = checkpoints.length + writes.length === 0;
    // Saves of frames alone: the last one has dropped what was stored.
    if (isEmpty && this.#isSavedDropped) return;
    this.#isSavedDropped = isEmpty;
    const needed = new Set([...this.#newest].map(([ns, id]) => checkpointKey(ns, id)));
    for (const at of [...writes, ...unsavedWrites]) needed.add(checkpointKey(at.ns, at.checkpoint_id));
    for (const name of this.#saving.filter((saved) => !needed.has(saved))) {
      this.#cached.delete(name);
      this.#ownWrites.delete(name);
    }
    const drainedNames = this.#unsaved.splice(0, checkpoints.length);
    this.#saving = [...this.#saving.filter((saved) => needed.has(saved)), ...drainedNames];
  }
}

/** All values of a new checkpoint, its own and inherited ones; null if only the store can put them together. */
function withInherited(
  checkpoint: NewCheckpoint,
  parent: StoredCheckpoint | undefined,
  cached: ReadonlyMap<string, StoredCheckpoint>,
): readonly ChannelValue[] | null {
  const own = new Map(checkpoint.values.map((value) => [value.channel, value]));
  const inherited = byChannel(parent);
  const maps = new Map<StoredCheckpoint, ReadonlyMap<string, ChannelValue>>();
  const valueIn = (other: StoredCheckpoint, channel: string): ChannelValue | undefined => {
    const map = maps.get(other) ?? byChannel(other);
    maps.set(other, map);
    return map.get(channel);
  };
  /** Another checkpoint with this version of the channel has all that exists of its value, perhaps nothing. */
  const withVersion = (channel: string, version: string): StoredCheckpoint | undefined =>
    [...cached.values()].find((other) => other.ns === checkpoint.ns && other.versions[channel] === version);
  const values: ChannelValue[] = [];
  for (const [channel, version] of Object.entries(checkpoint.versions)) {
    const value = own.get(channel) ?? inherited.get(channel);
    if (value?.version === version) {
      values.push(value);
      continue;
    }
    // A copy has the values of its original.
    const other = parent?.versions[channel] === version ? parent : withVersion(channel, version);
    const inheritedValue = other && valueIn(other, channel);
    if (inheritedValue) values.push(inheritedValue);
    else if (!other && !parent && checkpoint.parent_id !== null) return null;
  }
  return values;
}

/** Shorter lists are stored whole, in characters. */
const TAIL_FROM = 1024;
const byChannel = (checkpoint: StoredCheckpoint | undefined): ReadonlyMap<string, ChannelValue> =>
  new Map(checkpoint?.values.map((value) => [value.channel, value]));

function mergeWrites(base: readonly StoredWrite[], writes: readonly StoredWrite[]): StoredWrite[] {
  const merged = new Map([...base, ...writes].map((write) => [`${write.task_id}\u0000${write.idx}`, write]));
  return [...merged.values()].sort(byTask);
}

function byTask(first: StoredWrite, second: StoredWrite): number {
  if (first.task_id === second.task_id) return first.idx - second.idx;
  return first.task_id < second.task_id ? -1 : 1;
}

/**
 * Replaces lists that only grew by their new tail, so that a run does not cost as much as the whole conversation. The list is
 * written whole again once the tails are larger than the last whole copy.
 */
function asTails(
  checkpoint: NewCheckpoint,
  parent: StoredCheckpoint | undefined,
): { values: readonly SavedValue[]; tails: readonly ChannelValue[] } {
  const values: SavedValue[] = [];
  const tails: ChannelValue[] = [];
  const known = byChannel(parent);
  for (const value of checkpoint.values) {
    const before = known.get(value.channel);
    const tail = before && before.version !== value.version ? tailOf(before, value) : null;
    if (before && tail !== null) {
      const delta_length = (before.delta_length ?? 0) + tail.length;
      if (delta_length <= value.data.length - delta_length) {
        values.push({ ...value, data: tail, extends_version: before.version });
        tails.push({ ...value, delta_length });
        continue;
      }
    }
    values.push(value);
    tails.push(parent ? { ...value, delta_length: 0 } : value);
  }
  return { values, tails };
}

function tailOf(before: ChannelValue, after: ChannelValue): string | null {
  if (before.type !== "json" || after.type !== "json") return null;
  if (typeof before.data !== "string" || typeof after.data !== "string") return null;
  if (before.data.length < TAIL_FROM) return null;
  if (!before.data.startsWith("[") || !after.data.endsWith("]")) return null;
  const stem = before.data.length - 1;
  // Without a comma there, the last element itself has changed. `startsWith` takes four times as long.
  if (after.data[stem] !== "," || after.data.slice(0, stem) !== before.data.slice(0, stem)) return null;
  return `[${after.data.slice(stem + 1)}`;
}

/** The checkpoints of a thread as a job sees them: with what it has put, although that waits for the next save. */
import type { Environment } from "../environment.ts";
import { LeaseLost } from "../errors.ts";
import { contains } from "../json.ts";
import type { NewWrites, Progress, SavedCheckpoint, SavedValue, Scope, Storage } from "../storage/mod.ts";
import type {
  ChannelValue,
  CheckpointHandle,
  CheckpointReader,
  NewCheckpoint,
  StoredCheckpoint,
  StoredWrite,
} from "./contract.ts";
import { listStored } from "./stored-checkpoints.ts";
import { BarrierQueue, WriteBarrier } from "./write-barrier.ts";

// 100 ns ticks between 1582-10-15, where UUID time begins, and 1970, in units of the lower 12 bits of a UUID's time.
const EPOCH_HIGH = 29_832_257_812_500;
const LOW = 4096;
const TICKS_PER_MS = 10_000;

/** A UUID version 6, which sorts as text by time. It is above `above`, even if the clock was set back. */
export function checkpointId(environment: Pick<Environment, "now" | "uuid">, above: string | null): string {
  const now = Math.floor(environment.now());
  // Their product has more bits than a number.
  const ticks = (now % LOW) * TICKS_PER_MS;
  let high = Math.floor(now / LOW) * TICKS_PER_MS + Math.floor(ticks / LOW) + EPOCH_HIGH;
  let low = ticks % LOW;
  const [, start, middle, end] = /^([0-9a-f]{8})-?([0-9a-f]{4})-?6([0-9a-f]{3})/.exec(above ?? "") ?? [];
  if (end !== undefined) {
    const aboveHigh = Number.parseInt(`${start}${middle}`, 16);
    const aboveLow = Number.parseInt(end, 16);
    if (high < aboveHigh || (high === aboveHigh && low <= aboveLow)) {
      high = aboveLow + 1 === LOW ? aboveHigh + 1 : aboveHigh;
      low = (aboveLow + 1) % LOW;
    }
  }
  const time = high.toString(16).padStart(12, "0");
  const tail = environment.uuid().slice(19);
  return `${time.slice(0, 8)}-${time.slice(8)}-6${low.toString(16).padStart(3, "0")}-${tail}`;
}

/** Shorter lists are stored whole, in characters. */
const TAIL_FROM = 1024;
/** The limit of unsaved data, in characters: above it the executor waits for a save. */
const BACKLOG = 4 * 1024 * 1024;

type CheckpointAt = Parameters<CheckpointReader["get"]>[0];

export interface JobCheckpoints extends CheckpointHandle {
  /** Opens a write barrier in front of what is put from now on, and returns what closes it. */
  hold(): () => void;
  /** Removes and returns what a save may take; the caller must store it. */
  drain(): Pick<Progress, "checkpoints" | "writes">;
  /** A save may take something. */
  hasReady(): boolean;
  /** Nothing was put that no save has taken. */
  isEmpty(): boolean;
  /** Back-pressure: the executor must wait for a save. `put` itself does not wait, so that frames keep their order. */
  isFull(): boolean;
  /** The newest root checkpoint that this job has put. */
  root(): string | null;
  /** From now on every write of the executor throws LeaseLost. */
  refuseWrites(): void;
  /** Puts a checkpoint for the attempt itself, also after `refuseWrites`. */
  append(checkpoint: NewCheckpoint): void;
}

interface CheckpointOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly thread_id: string;
  /** Null: the checkpoints belong to no run. */
  readonly run_id: string | null;
  /** The thread's head when the job started. */
  readonly head: string | null;
  /** The run has stored root checkpoints: it continues from the newest one. */
  readonly resumed: boolean;
  /** `put` and `putWrites` resolve only when their data is stored. */
  readonly sync: boolean;
  now(): number;
  /** Repeats a call of the store while it fails, for a limited time. */
  retry<Answer>(ask: () => Promise<Answer>): Promise<Answer>;
  /** The same barrier as that of the output which shows these checkpoints. */
  readonly barrier: WriteBarrier;
  /** Something was put, or a barrier was closed. */
  onAdded(): void;
  /** Saves everything; resolves when it is committed. */
  save(): Promise<void>;
}

/** Names a checkpoint within its thread. */
const checkpointKey = (ns: string, checkpoint_id: string): string => `${ns}\u0000${checkpoint_id}`;

/** The checkpoints that a job has read or put. */
function knownCheckpoints(options: CheckpointOptions) {
  const { storage, scope, thread_id } = options;
  // Stored ones are dropped later, except the newest of each namespace.
  const known = new Map<string, StoredCheckpoint>();
  const newest = new Map<string, string>();
  // Its own writes by checkpoint, stored or not: they override those in the store.
  const ownWrites = new Map<string, readonly StoredWrite[]>();

  function withOwn(checkpoint: StoredCheckpoint): StoredCheckpoint {
    const own = ownWrites.get(checkpointKey(checkpoint.ns, checkpoint.checkpoint_id));
    return own ? { ...checkpoint, writes: overlay(checkpoint.writes, own) } : checkpoint;
  }

  async function load(at: { ns: string; checkpoint_id?: string; run_id?: string }): Promise<StoredCheckpoint | null> {
    const stored = await options.retry(() => storage.getCheckpoint(scope, thread_id, at));
    if (stored) known.set(checkpointKey(stored.ns, stored.checkpoint_id), stored);
    return stored;
  }

  /** Undefined: it has no id, and the store must be asked. */
  const idOf = (ns: string, checkpoint_id: string | undefined): string | null | undefined =>
    checkpoint_id ?? newest.get(ns) ?? (ns === "" && !options.resumed ? options.head : undefined);

  function peek({ ns, checkpoint_id }: CheckpointAt): StoredCheckpoint | null | undefined {
    const id = idOf(ns, checkpoint_id);
    if (id === null) return null;
    const found = id === undefined ? undefined : known.get(checkpointKey(ns, id));
    return found && withOwn(found);
  }

  async function find({ ns, checkpoint_id }: CheckpointAt): Promise<StoredCheckpoint | null> {
    const id = idOf(ns, checkpoint_id);
    if (typeof id === "string") return await load({ ns, checkpoint_id: id });
    const own = await load(ns === "" && options.run_id !== null ? { ns, run_id: options.run_id } : { ns });
    // A run that was suspended before its first root checkpoint continues from where it began.
    return own || ns !== "" || options.head === null ? own : await load({ ns, checkpoint_id: options.head });
  }

  return { known, newest, ownWrites, withOwn, peek, find };
}

/** Checkpoints and writes that no save has taken. */
class CheckpointBuffer {
  readonly #checkpoints: BarrierQueue<SavedCheckpoint>;
  readonly #writes: BarrierQueue<NewWrites>;
  /** In characters, with what waits for a barrier. */
  #size = 0;

  constructor(barrier: WriteBarrier) {
    this.#checkpoints = new BarrierQueue(barrier);
    this.#writes = new BarrierQueue(barrier);
  }

  addCheckpoint(checkpoint: SavedCheckpoint, position: number): void {
    this.#size += dataSize(checkpoint.values);
    this.#checkpoints.add(checkpoint, position);
  }

  addWrites(task: NewWrites, position: number): void {
    this.#size += dataSize(task.writes);
    this.#writes.add(task, position);
  }

  drain(): Pick<Progress, "checkpoints" | "writes"> {
    const [checkpoints, writes] = [this.#checkpoints.drain(), this.#writes.drain()];
    for (const { values } of checkpoints) this.#size -= dataSize(values);
    for (const task of writes) this.#size -= dataSize(task.writes);
    return { checkpoints, writes };
  }

  hasReady(): boolean {
    return this.#checkpoints.hasReady() || this.#writes.hasReady();
  }

  isEmpty(): boolean {
    return this.#checkpoints.length + this.#writes.length === 0;
  }

  isFull(): boolean {
    return this.#size > BACKLOG;
  }

  writes(): NewWrites[] {
    return this.#writes.items();
  }
}

const dataSize = (parts: readonly { readonly data: string | Uint8Array }[]): number =>
  parts.reduce((sum, { data }) => sum + data.length, 0);

export function jobCheckpoints(options: CheckpointOptions): JobCheckpoints {
  const { barrier } = options;
  const { known, newest, ownWrites, withOwn, peek, find } = knownCheckpoints(options);
  const buffer = new CheckpointBuffer(barrier);
  const unsavedOrder: string[] = [];
  // Taken by the last save, which may be under way: only this job can read these checkpoints.
  let saving: string[] = [];
  let isDropped = false;
  let refusesWrites = false;

  function add(checkpoint: NewCheckpoint): void {
    const name = checkpointKey(checkpoint.ns, checkpoint.checkpoint_id);
    const parent =
      checkpoint.parent_id === null ? undefined : known.get(checkpointKey(checkpoint.ns, checkpoint.parent_id));
    const { values, tails } = asTails(checkpoint, parent);
    const complete = withInherited({ ...checkpoint, values: tails }, known);
    const created_at = options.now();
    const { run_id } = options;
    if (complete) known.set(name, { ...checkpoint, run_id, values: complete, writes: [], created_at });
    buffer.addCheckpoint({ ...checkpoint, values, created_at }, barrier.newest);
    unsavedOrder.push(name);
    newest.set(checkpoint.ns, checkpoint.checkpoint_id);
  }

  /** Resolves once the executor may go on: with durability `sync` when what it has put is committed. */
  async function added(): Promise<void> {
    options.onAdded();
    if (options.sync) {
      await barrier.passed(barrier.newest);
      await options.save();
    }
    checkLease();
  }

  function checkLease(): void {
    if (refusesWrites) throw new LeaseLost(String(options.run_id));
  }

  /** Forgets what the last save has stored: saves run one after another. Checkpoints with writes that are not stored stay. */
  function dropStored({ checkpoints, writes }: Pick<Progress, "checkpoints" | "writes">): void {
    const isEmpty = checkpoints.length + writes.length === 0;
    if (isEmpty && isDropped) return;
    isDropped = isEmpty;
    const needed = new Set([...newest].map(([ns, id]) => checkpointKey(ns, id)));
    for (const at of [...writes, ...buffer.writes()]) needed.add(checkpointKey(at.ns, at.checkpoint_id));
    for (const name of saving.filter((saved) => !needed.has(saved))) {
      known.delete(name);
      ownWrites.delete(name);
    }
    saving = [...saving.filter((saved) => needed.has(saved)), ...unsavedOrder.splice(0, checkpoints.length)];
  }

  return {
    peek,
    async get(at) {
      const known = peek(at);
      if (known !== undefined) return known;
      const stored = await find(at);
      return stored && withOwn(stored);
    },
    async *list(at) {
      const unsaved = unsavedOrder.map((name) => known.get(name)).filter((checkpoint) => checkpoint !== undefined);
      for await (const checkpoint of listAll(options, at, unsaved)) yield withOwn(checkpoint);
    },
    async put(checkpoint) {
      checkLease();
      add(checkpoint);
      await added();
    },
    async putWrites(at, task_id, writes) {
      checkLease();
      if (writes.length === 0) return;
      const name = checkpointKey(at.ns, at.checkpoint_id);
      const taskWrites = writes.map((write) => ({ ...write, task_id }));
      ownWrites.set(name, overlay(ownWrites.get(name) ?? [], taskWrites));
      buffer.addWrites({ ...at, task_id, writes }, barrier.newest);
      await added();
    },
    hold() {
      const position = barrier.open();
      return () => {
        barrier.close(position);
        options.onAdded();
      };
    },
    drain() {
      const drained = buffer.drain();
      dropStored(drained);
      return drained;
    },
    hasReady: () => buffer.hasReady(),
    isEmpty: () => buffer.isEmpty(),
    isFull: () => buffer.isFull(),
    root: () => newest.get("") ?? null,
    append: add,
    refuseWrites() {
      refusesWrites = true;
      barrier.closeAll();
    },
  };
}

type ListQuery = Parameters<CheckpointReader["list"]>[0];

/** Unsaved checkpoints, then stored ones; newest first. */
async function* listAll(
  { storage, scope, thread_id, retry }: CheckpointOptions,
  at: ListQuery,
  unsaved: readonly StoredCheckpoint[],
): AsyncGenerator<StoredCheckpoint> {
  // `before` may name a checkpoint of another namespace.
  const end = unsaved.findIndex((checkpoint) => checkpoint.checkpoint_id === at.before);
  const { before, ...rest } = at;
  const fresh = (before === undefined ? [...unsaved] : unsaved.slice(0, Math.max(end, 0)))
    .reverse()
    .filter((checkpoint) => at.ns === undefined || checkpoint.ns === at.ns)
    .filter((checkpoint) => at.metadata === undefined || contains(checkpoint.metadata, at.metadata));
  let left = at.limit ?? Number.POSITIVE_INFINITY;
  const listed = new Set<string>();
  for (const checkpoint of fresh) {
    if (left-- <= 0) return;
    listed.add(checkpointKey(checkpoint.ns, checkpoint.checkpoint_id));
    yield checkpoint;
  }
  for await (const checkpoint of listStored(
    storage,
    scope,
    thread_id,
    { ...(end === -1 ? at : rest), limit: left },
    retry,
  )) {
    if (!listed.has(checkpointKey(checkpoint.ns, checkpoint.checkpoint_id))) yield checkpoint;
  }
}

/** All values of a new checkpoint, its own and inherited ones; null if only the store can put them together. */
function withInherited(
  checkpoint: NewCheckpoint,
  known: ReadonlyMap<string, StoredCheckpoint>,
): readonly ChannelValue[] | null {
  const own = new Map(checkpoint.values.map((value) => [value.channel, value]));
  const parent =
    checkpoint.parent_id === null ? undefined : known.get(checkpointKey(checkpoint.ns, checkpoint.parent_id));
  const inherited = byChannel(parent);
  const maps = new Map<StoredCheckpoint, ReadonlyMap<string, ChannelValue>>();
  const valueIn = (other: StoredCheckpoint, channel: string): ChannelValue | undefined => {
    const map = maps.get(other) ?? byChannel(other);
    maps.set(other, map);
    return map.get(channel);
  };
  /** Another checkpoint with this version of the channel has all that exists of its value, perhaps nothing. */
  const withVersion = (channel: string, version: string): StoredCheckpoint | undefined =>
    [...known.values()].find((other) => other.ns === checkpoint.ns && other.versions[channel] === version);
  const values: ChannelValue[] = [];
  for (const [channel, version] of Object.entries(checkpoint.versions)) {
    const value = own.get(channel) ?? inherited.get(channel);
    if (value?.version === version) {
      values.push(value);
      continue;
    }
    // A copy has the values of its original.
    const other = parent?.versions[channel] === version ? parent : withVersion(channel, version);
    const its = other && valueIn(other, channel);
    if (its) values.push(its);
    else if (!other && !parent && checkpoint.parent_id !== null) return null;
  }
  return values;
}

/** Checkpoints outside a run: reads see what was put, and `take` returns it for one batch. */
export function collectedCheckpoints(
  options: Pick<CheckpointOptions, "storage" | "scope" | "thread_id" | "head" | "now">,
): JobCheckpoints {
  return jobCheckpoints({
    ...options,
    run_id: null,
    resumed: false,
    sync: false,
    barrier: new WriteBarrier(),
    retry: (ask) => ask(),
    onAdded: () => {},
    save: async () => {},
  });
}

const byChannel = (checkpoint: StoredCheckpoint | undefined): ReadonlyMap<string, ChannelValue> =>
  new Map(checkpoint?.values.map((value) => [value.channel, value]));

function overlay(base: readonly StoredWrite[], own: readonly StoredWrite[]): StoredWrite[] {
  const merged = new Map(base.map((write) => [`${write.task_id}\u0000${write.idx}`, write]));
  for (const write of own) merged.set(`${write.task_id}\u0000${write.idx}`, write);
  return [...merged.values()].sort((a, b) => (a.task_id < b.task_id ? -1 : a.task_id > b.task_id ? 1 : a.idx - b.idx));
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
      const tail_length = (before.tail_length ?? 0) + tail.length;
      if (tail_length <= value.data.length - tail_length) {
        values.push({ ...value, data: tail, extends_version: before.version });
        tails.push({ ...value, tail_length });
        continue;
      }
    }
    values.push(value);
    tails.push(parent ? { ...value, tail_length: 0 } : value);
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

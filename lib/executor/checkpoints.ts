/**
 * The checkpoints of one thread as a job sees them: reads that include what it has put but not stored yet, writes that
 * wait for the worker's next save.
 */
import { LeaseLost } from "../errors.ts";
import { contains, type JsonObject } from "../json.ts";
import type { NewWrites, Progress, SavedCheckpoint, SavedValue, Scope, Storage } from "../storage/mod.ts";
import type {
  ChannelValue,
  CheckpointHandle,
  CheckpointReader,
  NewCheckpoint,
  StoredCheckpoint,
  StoredWrite,
} from "./contract.ts";

export { checkpointId } from "./checkpoint-ids.ts";
export { recordedState, stateRecorder, wireCheckpoint } from "./recorded-state.ts";

/** Shorter lists are stored whole: a tail would save nothing. */
const TAIL_FROM = 1024;
/** Unsaved data above which the executor waits for a save, in characters. */
const BACKLOG = 4 * 1024 * 1024;

/** How many checkpoints of unknown size are read at once, and how much data of known ones. */
const FIRST_PAGE = 2;
const PAGE_SIZE = 4 * 1024 * 1024;

export interface JobCheckpoints extends CheckpointHandle {
  /** What was put since the last call; the caller stores it or loses the lease. */
  take(): Progress;
  /** Something waits to be stored. */
  isDirty(): boolean;
  /** So much waits that the executor has to: `put` does not, so that nothing is told before it was put. */
  isFull(): boolean;
  /** The newest root checkpoint this job has put. */
  root(): string | null;
  /** Of what was put and not taken only the newest root checkpoint stays, right behind what is stored; or not even that. */
  collapse(rest: "newest" | "none"): void;
  /** From now on every write throws LeaseLost. */
  lose(): void;
}

export interface CheckpointOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly thread_id: string;
  /** Null: no run makes them. */
  readonly run_id: string | null;
  /** The thread's head when the job began. */
  readonly head: string | null;
  /** The run has stored root checkpoints: its newest one is where it goes on. */
  readonly resumed: boolean;
  /** `put` and `putWrites` resolve only when their data is stored. */
  readonly sync: boolean;
  now(): number;
  /** Asks a store that fails again, for a while. */
  retry<Answer>(ask: () => Promise<Answer>): Promise<Answer>;
  /** Called when something became dirty. */
  onDirty(): void;
  /** Stores what is dirty; resolves when it is committed. */
  save(): Promise<void>;
}

const key = (ns: string, checkpoint_id: string): string => `${ns}\u0000${checkpoint_id}`;
const split = (name: string): [ns: string, checkpoint_id: string] => name.split("\u0000") as [string, string];

export function jobCheckpoints(options: CheckpointOptions): JobCheckpoints {
  const { storage, scope, thread_id } = options;
  // Everything known of checkpoints this job read or put; `kept` puts are dropped once stored, except the newest of a namespace.
  const known = new Map<string, StoredCheckpoint>();
  const newest = new Map<string, string>();
  let checkpoints: SavedCheckpoint[] = [];
  let writes: NewWrites[] = [];
  let unsavedOrder: string[] = [];
  // What the last save took: it may be on its way, so only this job can read it.
  let taken: string[] = [];
  let backlog = 0;
  let lost = false;
  // The job's own writes on checkpoints, stored or not: they overlay what the store has.
  const ownWrites = new Map<string, StoredWrite[]>();

  function withOwnWrites(checkpoint: StoredCheckpoint): StoredCheckpoint {
    const own = ownWrites.get(key(checkpoint.ns, checkpoint.checkpoint_id));
    if (!own) return checkpoint;
    return { ...checkpoint, writes: overlay(checkpoint.writes, own) };
  }

  async function load(at: { ns: string; checkpoint_id?: string; run_id?: string }): Promise<StoredCheckpoint | null> {
    const stored = await options.retry(() => storage.getCheckpoint(scope, thread_id, at));
    if (stored) known.set(key(stored.ns, stored.checkpoint_id), stored);
    return stored;
  }

  async function find(ns: string, checkpoint_id: string | undefined): Promise<StoredCheckpoint | null> {
    const id = checkpoint_id ?? newest.get(ns) ?? (ns === "" && !options.resumed ? options.head : undefined);
    if (id === null) return null;
    if (id !== undefined) return known.get(key(ns, id)) ?? (await load({ ns, checkpoint_id: id }));
    return await load(ns === "" && options.run_id !== null ? { ns, run_id: options.run_id } : { ns });
  }

  /** Another checkpoint with this version of a channel: what it has of it, perhaps nothing, is all there is. */
  function holding(ns: string, channel: string, version: string): StoredCheckpoint | undefined {
    return [...known.values()].find((other) => other.ns === ns && other.versions[channel] === version);
  }

  function asStored(checkpoint: NewCheckpoint): StoredCheckpoint | null {
    const own = new Map(checkpoint.values.map((value) => [value.channel, value]));
    const parent = checkpoint.parent_id === null ? undefined : known.get(key(checkpoint.ns, checkpoint.parent_id));
    const inherited = byChannel(parent);
    const maps = new Map<StoredCheckpoint, ReadonlyMap<string, ChannelValue>>();
    const valueIn = (other: StoredCheckpoint, channel: string): ChannelValue | undefined => {
      const map = maps.get(other) ?? byChannel(other);
      maps.set(other, map);
      return map.get(channel);
    };
    const values: ChannelValue[] = [];
    for (const [channel, version] of Object.entries(checkpoint.versions)) {
      const value = own.get(channel) ?? inherited.get(channel);
      if (value?.version === version) {
        values.push(value);
        continue;
      }
      // A copy has the values of the one that it stands beside.
      const other = parent?.versions[channel] === version ? parent : holding(checkpoint.ns, channel, version);
      const its = other && valueIn(other, channel);
      if (its) values.push(its);
      // A version this job has not seen: only the store can put the checkpoint together.
      else if (!other && !parent && checkpoint.parent_id !== null) return null;
    }
    return { ...checkpoint, run_id: options.run_id, values, writes: [], created_at: options.now() };
  }

  function add(checkpoint: NewCheckpoint): void {
    const name = key(checkpoint.ns, checkpoint.checkpoint_id);
    const parent = checkpoint.parent_id === null ? undefined : known.get(key(checkpoint.ns, checkpoint.parent_id));
    const { values, tails } = asTails(checkpoint, parent);
    const stored = asStored({ ...checkpoint, values: tails });
    if (stored) known.set(name, stored);
    checkpoints.push({ ...checkpoint, values, created_at: stored?.created_at ?? options.now() });
    unsavedOrder.push(name);
    newest.set(checkpoint.ns, checkpoint.checkpoint_id);
    for (const value of values) backlog += value.data.length;
  }

  function forget(): void {
    checkpoints = [];
    writes = [];
    unsavedOrder = [];
    backlog = 0;
  }

  async function queued(): Promise<void> {
    options.onDirty();
    if (options.sync) await options.save();
    if (lost) throw new LeaseLost(String(options.run_id));
  }

  return {
    async get({ ns, checkpoint_id }) {
      const found = await find(ns, checkpoint_id);
      return found && withOwnWrites(found);
    },
    async *list(at) {
      const unsaved = unsavedOrder.map((name) => known.get(name)).filter((checkpoint) => checkpoint !== undefined);
      // `before` may name a checkpoint of another namespace. Whatever is not stored is newer than everything stored.
      const end = unsaved.findIndex((checkpoint) => checkpoint.checkpoint_id === at.before);
      const { before, ...rest } = at;
      const fresh = (before === undefined ? unsaved : unsaved.slice(0, Math.max(end, 0)))
        .reverse()
        .filter((checkpoint) => at.ns === undefined || checkpoint.ns === at.ns)
        .filter((checkpoint) => at.metadata === undefined || contains(checkpoint.metadata, at.metadata));
      let left = at.limit ?? Number.POSITIVE_INFINITY;
      const given = new Set<string>();
      for (const checkpoint of fresh) {
        if (left-- <= 0) return;
        given.add(key(checkpoint.ns, checkpoint.checkpoint_id));
        yield withOwnWrites(checkpoint);
      }
      const stored = { ...(end === -1 ? at : rest), limit: left };
      for await (const checkpoint of listStored(storage, scope, thread_id, stored, options.retry)) {
        if (!given.has(key(checkpoint.ns, checkpoint.checkpoint_id))) yield withOwnWrites(checkpoint);
      }
    },
    async put(checkpoint) {
      if (lost) throw new LeaseLost(String(options.run_id));
      add(checkpoint);
      await queued();
    },
    async putWrites(at, task_id, items) {
      if (lost) throw new LeaseLost(String(options.run_id));
      if (items.length === 0) return;
      const name = key(at.ns, at.checkpoint_id);
      ownWrites.set(
        name,
        overlay(
          ownWrites.get(name) ?? [],
          items.map((item) => ({ ...item, task_id })),
        ),
      );
      writes.push({ ...at, task_id, writes: items });
      for (const item of items) backlog += item.data.length;
      await queued();
    },
    take() {
      const progress = { checkpoints, writes };
      const isNewest = (name: string): boolean => {
        const [ns, id] = split(name);
        return newest.get(ns) === id;
      };
      // One save follows the other: what the last one took is stored.
      for (const name of taken) {
        if (isNewest(name)) continue;
        known.delete(name);
        ownWrites.delete(name);
      }
      taken = [...taken.filter(isNewest), ...unsavedOrder];
      forget();
      return progress;
    },
    collapse(rest) {
      const first = checkpoints.find(({ ns }) => ns === "");
      const last = first && known.get(key("", newest.get("") as string));
      if (rest === "newest" && !last) return;
      for (const name of unsavedOrder) {
        known.delete(name);
        ownWrites.delete(name);
      }
      for (const { ns } of checkpoints) newest.delete(ns);
      for (const [ns, id] of taken.map(split)) newest.set(ns, id);
      forget();
      if (rest === "none" || !last) return;
      const { parent_id } = first;
      const before = parent_id === null ? undefined : known.get(key("", parent_id));
      const values = last.values.filter(({ channel, version }) => before?.versions[channel] !== version);
      add({ ...last, parent_id, values });
    },
    isDirty: () => checkpoints.length > 0 || writes.length > 0,
    isFull: () => backlog > BACKLOG,
    root: () => newest.get("") ?? null,
    lose() {
      lost = true;
    },
  };
}

/** Checkpoints that no run makes: what is put is collected, and seen by reads, until `take` gives it away. */
export function collectedCheckpoints(
  options: Pick<CheckpointOptions, "storage" | "scope" | "thread_id" | "head" | "now">,
): JobCheckpoints {
  return jobCheckpoints({
    ...options,
    run_id: null,
    resumed: false,
    sync: false,
    retry: (ask) => ask(),
    onDirty: () => {},
    save: async () => {},
  });
}

/** A reader of what is stored, for one request: it reads a checkpoint once. The root namespace without an id is `head`. */
export function storedCheckpoints(
  storage: Storage,
  scope: Scope,
  thread_id: string,
  head: string | null,
): CheckpointReader {
  const known = new Map<string, StoredCheckpoint>();
  return {
    async get({ ns, checkpoint_id }) {
      const id = checkpoint_id ?? (ns === "" ? head : undefined);
      if (id === null) return null;
      const seen = id === undefined ? undefined : known.get(key(ns, id));
      if (seen) return seen;
      const stored = await storage.getCheckpoint(
        scope,
        thread_id,
        id === undefined ? { ns } : { ns, checkpoint_id: id },
      );
      if (stored) known.set(key(stored.ns, stored.checkpoint_id), stored);
      return stored;
    },
    async *list(at) {
      for await (const stored of listStored(storage, scope, thread_id, at)) {
        known.set(key(stored.ns, stored.checkpoint_id), stored);
        yield stored;
      }
    },
  };
}

async function* listStored(
  storage: Storage,
  scope: Scope,
  thread_id: string,
  at: { ns?: string; before?: string; limit?: number; metadata?: JsonObject },
  retry: CheckpointOptions["retry"] = (ask) => ask(),
): AsyncGenerator<StoredCheckpoint> {
  let left = at.limit ?? Number.POSITIVE_INFINITY;
  let before = at.before;
  let most = FIRST_PAGE;
  while (left > 0) {
    const limit = Math.min(left, most);
    const query = { ...at, before, limit };
    const page = await retry(() => storage.listCheckpoints(scope, thread_id, query));
    yield* page;
    left -= page.length;
    const last = page.at(-1);
    if (!last || page.length < limit) return;
    before = last.checkpoint_id;
    // A page is read at once: of large states it holds few.
    const size = page.reduce((sum, { values }) => values.reduce((all, { data }) => all + data.length, sum), 1);
    most = Math.max(1, Math.min(100, Math.floor((PAGE_SIZE * page.length) / size)));
  }
}

const byChannel = (checkpoint: StoredCheckpoint | undefined): ReadonlyMap<string, ChannelValue> =>
  new Map(checkpoint?.values.map((value) => [value.channel, value]));

function overlay(base: readonly StoredWrite[], own: readonly StoredWrite[]): StoredWrite[] {
  const merged = new Map(base.map((write) => [`${write.task_id}\u0000${write.idx}`, write]));
  for (const write of own) merged.set(`${write.task_id}\u0000${write.idx}`, write);
  return [...merged.values()].sort((a, b) => (a.task_id < b.task_id ? -1 : a.task_id > b.task_id ? 1 : a.idx - b.idx));
}

/**
 * Splits list values that only grew into their tails. Cost of a turn then follows what is new, not the conversation; a whole
 * copy is written again when the tails together outweigh the last one.
 */
function asTails(
  checkpoint: NewCheckpoint,
  parent: StoredCheckpoint | undefined,
): { values: readonly SavedValue[]; tails: readonly ChannelValue[] } {
  if (!parent) return { values: checkpoint.values, tails: checkpoint.values };
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
    tails.push({ ...value, tail_length: 0 });
  }
  return { values, tails };
}

function tailOf(before: ChannelValue, after: ChannelValue): string | null {
  if (before.type !== "json" || after.type !== "json") return null;
  if (typeof before.data !== "string" || typeof after.data !== "string") return null;
  if (before.data.length < TAIL_FROM || !before.data.startsWith("[") || !after.data.endsWith("]")) return null;
  const stem = before.data.slice(0, -1);
  if (after.data.length <= before.data.length || !after.data.startsWith(stem)) return null;
  // Only a comma makes it the same list with more elements; anything else changed the last element.
  return after.data[stem.length] === "," ? `[${after.data.slice(stem.length + 1)}` : null;
}

/**
 * A checkpoint saver of LangGraph on Greenroom's checkpoints. It has the methods of `BaseCheckpointSaver` without extending it,
 * because the graph may use another copy of LangGraph and needs only the methods.
 */
import type {
  CheckpointHandle,
  CheckpointReader,
  Payload,
  PendingWrite,
  StoredCheckpoint,
  StoredWrite,
} from "../../lib/executor/contract.ts";
import type { JsonObject } from "../../lib/json.ts";
import { type GraphConfig, serializeMetadata } from "./serialize.ts";

export type Version = number | string;

export interface Checkpoint {
  readonly v: number;
  readonly id: string;
  readonly channel_values: Readonly<Record<string, unknown>>;
  readonly channel_versions: Readonly<Record<string, Version>>;
}

export type TaskWrite = readonly [task_id: string, channel: string, value: unknown];

export interface CheckpointTuple {
  readonly config: GraphConfig;
  readonly checkpoint: Checkpoint;
  readonly metadata: JsonObject;
  readonly parentConfig?: GraphConfig;
  readonly pendingWrites: readonly TaskWrite[];
}

export interface ListOptions {
  readonly limit?: number;
  readonly before?: GraphConfig;
  readonly filter?: JsonObject;
}

export interface DeltaChannelHistory {
  readonly writes: readonly TaskWrite[];
  readonly seed?: unknown;
}

/** The access of a saver to threads. */
export interface ThreadAccess {
  /** Returns null if the thread does not exist here. */
  get(thread_id: string): CheckpointHandle | null;
  ids(): Iterable<string>;
  delete(thread_id: string): Promise<void>;
}

/** Converts values to their stored form and back. */
export interface ValueSerializer {
  /** Throws for a value that cannot be stored. `label` names it in the error. */
  write(value: unknown, label: string): Payload;
  read(payload: Payload): unknown;
}

export interface SaverOptions {
  readonly threads: ThreadAccess;
  readonly serde: ValueSerializer;
  /** Members that are added to the metadata of every checkpoint. */
  readonly metadata?: JsonObject;
}

export const INTERRUPT = "__interrupt__";
export const RESUME = "__resume__";
/** The channel of packets for nodes. */
export const TASKS = "__pregel_tasks";
/**
 * Greenroom's own channel beside a resume value: the run that gave it, or whose value a task took, with the ids of the
 * interrupts of that task. LangGraph never reads it.
 */
export const RESUME_NOTE_CHANNEL = "__answered__";
/** The channel of the durable call whose sleeps and waits are pending beside interrupts of clients. */
export const CALL_NOTE_CHANNEL = "__call__";
/**
 * The channel of how many resume values the task of each interrupt had consumed, by interrupt id. The empty id has the
 * count of the task that wrote the note.
 */
export const COUNTS_NOTE_CHANNEL = "__answer_counts__";
const NOTE_CHANNELS: ReadonlySet<string> = new Set([RESUME_NOTE_CHANNEL, CALL_NOTE_CHANNEL, COUNTS_NOTE_CHANNEL]);
/** The task id under which LangGraph stores a resume value that is addressed to no interrupt. */
export const NULL_TASK = "00000000-0000-0000-0000-000000000000";

/** The channels with at most one write per task, and their index. Other writes are numbered in their order. */
const RESERVED_INDEXES: ReadonlyMap<string, number> = new Map([
  ["__error__", -1],
  ["__scheduled__", -2],
  [INTERRUPT, -3],
  [RESUME, -4],
  [RESUME_NOTE_CHANNEL, -5],
  [CALL_NOTE_CHANNEL, -6],
  [COUNTS_NOTE_CHANNEL, -7],
]);

/** Returns true for channels that report on a task and are not its result. */
const isControl = (channel: string): boolean => RESERVED_INDEXES.has(channel) || channel === "__error_source_node__";

export class Saver {
  readonly #threads: ThreadAccess;
  protected readonly values: ValueSerializer;
  readonly #metadata: JsonObject;
  /** The run whose resume values count although its tasks have failed; null for none. */
  protected readonly run_id: string | null = null;
  readonly #branch: number = Math.floor(Math.random() * 1e12) / 1e12;

  constructor(options: SaverOptions) {
    this.#threads = options.threads;
    this.values = options.serde;
    this.#metadata = options.metadata ?? {};
  }

  /** Returns a placeholder, because LangChain serializes configurations with their savers as JSON. */
  toJSON(): string {
    return "[greenroom]";
  }

  async get(config: GraphConfig): Promise<Checkpoint | undefined> {
    return (await this.getTuple(config))?.checkpoint;
  }

  /**
   * Reads the checkpoint with this id, or the newest of the namespace. Undefined if there is none, without a thread, or for a
   * thread that the saver cannot reach. Throws if another kind of graph has written it.
   */
  async getTuple(config: GraphConfig): Promise<CheckpointTuple | undefined> {
    const { thread_id, ns, checkpoint_id } = readCheckpointAddress(config);
    const handle = thread_id === undefined ? null : this.#threads.get(thread_id);
    if (!handle || thread_id === undefined) return undefined;
    const stored = await handle.get(checkpoint_id === undefined ? { ns } : { ns, checkpoint_id });
    return stored ? await this.#toTuple(thread_id, stored, handle) : undefined;
  }

  /**
   * Lists checkpoints newest first, of one thread or of all that the saver can reach, at most `limit` in total. Without a
   * namespace in the config it lists all namespaces. Unknown threads have none.
   */
  async *list(config: GraphConfig, options: ListOptions = {}): AsyncGenerator<CheckpointTuple> {
    const { thread_id, checkpoint_id } = readCheckpointAddress(config);
    const ids = thread_id === undefined ? this.#threads.ids() : [thread_id];
    const ns = config.configurable?.checkpoint_ns as string | undefined;
    const before = options.before && readCheckpointAddress(options.before).checkpoint_id;
    let remaining = options.limit ?? Number.POSITIVE_INFINITY;
    for (const id of ids) {
      if (remaining <= 0) return;
      const limit = Number.isFinite(remaining) && checkpoint_id === undefined ? remaining : undefined;
      const query = { ns, before, limit, metadata: options.filter };
      for await (const tuple of this.#listThread(id, query, checkpoint_id)) {
        yield tuple;
        if (--remaining <= 0) return;
      }
    }
  }

  /**
   * Yields the checkpoints of a thread that the query matches, newest first, or only the one with this id. Yields
   * nothing for a thread that the saver cannot reach.
   */
  async *#listThread(
    thread_id: string,
    query: Parameters<CheckpointReader["list"]>[0],
    checkpoint_id: string | undefined,
  ): AsyncGenerator<CheckpointTuple> {
    const handle = this.#threads.get(thread_id);
    if (!handle) return;
    for await (const stored of handle.list(query)) {
      const isListed = checkpoint_id === undefined || stored.checkpoint_id === checkpoint_id;
      if (isListed) yield await this.#toTuple(thread_id, stored, handle);
    }
  }

  /**
   * Stores a checkpoint with the values that have new versions, and returns its config. Stores nothing if its id is that of its
   * parent. Throws for a config without a thread, and a TypeError naming the channel for a value that cannot be stored.
   */
  async put(
    config: GraphConfig,
    checkpoint: Checkpoint,
    metadata: JsonObject,
    newVersions: Readonly<Record<string, Version>>,
  ): Promise<GraphConfig> {
    const { ns, checkpoint_id: parent_id, ...at } = readCheckpointAddress(config);
    const thread_id = requireMember(at.thread_id, "thread_id");
    const { id, channel_values, channel_versions, ...otherMembers } = checkpoint;
    const newConfig = { configurable: { thread_id, checkpoint_ns: ns, checkpoint_id: id } };
    // With durability `exit`, a run without a step stores its first checkpoint again.
    if (parent_id === id) return newConfig;
    const values = Object.entries(newVersions)
      .filter(([channel]) => Object.hasOwn(channel_values, channel))
      .map(([channel, version]) => ({
        channel,
        version: String(version),
        ...this.values.write(channel_values[channel], `Channel ${JSON.stringify(channel)}`),
      }));
    await this.requireHandle(thread_id).put({
      ns,
      checkpoint_id: id,
      parent_id: parent_id ?? null,
      payload: this.values.write(otherMembers, "A checkpoint"),
      metadata: serializeMetadata({ ...this.#metadata, ...metadata }) as JsonObject,
      versions: Object.fromEntries(
        Object.entries(channel_versions).map(([channel, version]) => [channel, String(version)]),
      ),
      values,
    });
    return newConfig;
  }

  /**
   * Stores the writes of a task on a checkpoint. Writes with the same index replace each other. Throws for a config without a
   * thread or a checkpoint, and a TypeError naming the channel for a value that cannot be stored.
   */
  async putWrites(
    config: GraphConfig,
    writes: readonly (readonly [string, unknown])[],
    task_id: string,
    task_path = "",
  ): Promise<void> {
    const at = readCheckpointAddress(config);
    const thread_id = requireMember(at.thread_id, "thread_id");
    const checkpoint_id = requireMember(at.checkpoint_id, "checkpoint_id");
    const rows = new Map<number, PendingWrite>();
    writes.forEach(([channel, value], position) => {
      const idx = RESERVED_INDEXES.get(channel) ?? position;
      const { type, data } = this.values.write(value, `A write to channel ${JSON.stringify(channel)}`);
      rows.set(idx, { channel, idx, type: task_path === "" ? type : `${type} ${task_path}`, data });
    });
    await this.requireHandle(thread_id).putWrites({ ns: at.ns, checkpoint_id }, task_id, [...rows.values()]);
  }

  async deleteThread(thread_id: string): Promise<void> {
    await this.#threads.delete(thread_id);
  }

  /**
   * Returns the next version of a channel. Versions of one saver count up, and those of two savers never collide, so
   * branches of a thread cannot read each other's values. An arrow function, because LangGraph calls it with another
   * `this` for subgraphs.
   */
  readonly getNextVersion = (current: Version | undefined): number =>
    Math.floor(Number(current ?? 0)) + 1 + this.#branch;

  /**
   * Returns, for each channel, the writes behind its value at `config`, oldest first, since the ancestor with the whole value.
   * That value is `seed`; it is missing if no ancestor has one. Reads one checkpoint per step back.
   */
  async getDeltaChannelHistory({
    config,
    channels,
  }: {
    readonly config: GraphConfig;
    readonly channels: readonly string[];
  }): Promise<Record<string, DeltaChannelHistory>> {
    const histories = new Map(channels.map((channel) => [channel, { blocks: [] as TaskWrite[][] }]));
    const seeds = new Map<string, unknown>();
    let next = channels.length > 0 ? (await this.getTuple(config))?.parentConfig : undefined;
    while (next && seeds.size < histories.size) {
      const ancestor = await this.getTuple(next);
      if (!ancestor) break;
      for (const [channel, { blocks }] of histories) {
        if (seeds.has(channel)) continue;
        blocks.unshift(ancestor.pendingWrites.filter((write) => write[1] === channel));
        const { channel_values } = ancestor.checkpoint;
        if (Object.hasOwn(channel_values, channel)) seeds.set(channel, channel_values[channel]);
      }
      next = ancestor.parentConfig;
    }
    return Object.fromEntries(
      [...histories].map(([channel, { blocks }]) => [
        channel,
        { writes: blocks.flat(), ...(seeds.has(channel) ? { seed: seeds.get(channel) } : {}) },
      ]),
    );
  }

  /** Throws for a thread that the saver cannot reach. */
  protected requireHandle(thread_id: string): CheckpointHandle {
    const handle = this.#threads.get(thread_id);
    if (!handle) throw new Error(`This run may not write checkpoints of thread ${thread_id}`);
    return handle;
  }

  /**
   * Converts a stored checkpoint to LangGraph's form. Throws if another kind of graph has written it. One of an old format needs
   * a read of its parent.
   */
  async #toTuple(thread_id: string, stored: StoredCheckpoint, handle: CheckpointReader): Promise<CheckpointTuple> {
    const { ns, parent_id, versions } = stored;
    const toConfig = (checkpoint_id: string): GraphConfig => ({
      configurable: { thread_id, checkpoint_ns: ns, checkpoint_id },
    });
    const members = this.values.read(stored.payload) as { v: number };
    if (typeof members?.v !== "number") throw new Error("The thread's state was written by another kind of graph");
    const checkpoint: Checkpoint = {
      ...members,
      id: stored.checkpoint_id,
      channel_values: Object.fromEntries(stored.values.map((value) => [value.channel, this.values.read(value)])),
      channel_versions: Object.fromEntries(
        Object.entries(versions).map(([channel, version]) => [channel, Number(version)]),
      ),
    };
    return {
      config: toConfig(stored.checkpoint_id),
      checkpoint:
        checkpoint.v < 4 && parent_id !== null ? await this.#addSends(checkpoint, ns, parent_id, handle) : checkpoint,
      metadata: stored.metadata,
      ...(parent_id === null ? {} : { parentConfig: toConfig(parent_id) }),
      pendingWrites: readPendingWrites(stored, this.values, this.run_id),
    };
  }

  /**
   * Returns a copy of the checkpoint with the packets of `Send`, which formats before 4 stored as writes of the parent,
   * as their own channel with the newest version. The channel is empty if there are none.
   */
  async #addSends(
    checkpoint: Checkpoint,
    ns: string,
    parent_id: string,
    handle: CheckpointReader,
  ): Promise<Checkpoint> {
    const parent = await handle.get({ ns, checkpoint_id: parent_id });
    const sends = parent ? readPendingWrites(parent, this.values).filter(([, channel]) => channel === TASKS) : [];
    const newest = Math.max(0, ...Object.values(checkpoint.channel_versions).map(Number));
    return {
      ...checkpoint,
      channel_values: { ...checkpoint.channel_values, [TASKS]: sends.map(([, , packet]) => packet) },
      channel_versions: { ...checkpoint.channel_versions, [TASKS]: newest || this.getNextVersion(undefined) },
    };
  }
}

/**
 * Returns the writes on a checkpoint for LangGraph, in the order in which they were applied, without the notes of this adapter,
 * interrupts of finished tasks, and resume values that a failed run has left.
 */
export function readPendingWrites(
  { writes }: Pick<StoredCheckpoint, "writes">,
  values: ValueSerializer,
  run_id: string | null = null,
): TaskWrite[] {
  // LangGraph keeps the interrupt of a task that was resumed and has finished, beside the task's writes.
  const finished = new Set(writes.filter(({ channel }) => !isControl(channel)).map(({ task_id }) => task_id));
  const isPending = ({ channel, task_id }: StoredWrite): boolean => channel === INTERRUPT && !finished.has(task_id);
  const interrupted = new Set(writes.filter(isPending).map(({ task_id }) => task_id));
  return writes
    .filter((write) => !NOTE_CHANNELS.has(write.channel) && (write.channel !== INTERRUPT || isPending(write)))
    .toSorted((first, second) => compareCodePoints(parseTaskPath(first), parseTaskPath(second)))
    .flatMap((write): TaskWrite[] => {
      const { task_id, channel } = write;
      const value = readWrite(write, values);
      if (channel !== RESUME || !interrupted.has(task_id) || !Array.isArray(value)) return [[task_id, channel, value]];
      const remainingCount = countRemainingAnswers(writes, task_id, run_id);
      const remainingAnswers = remainingCount === null ? value : value.slice(0, remainingCount);
      return remainingAnswers.length > 0 ? [[task_id, channel, remainingAnswers]] : [];
    });
}

/**
 * Returns how many of the first resume values an interrupted task keeps if the run that resumed it is not `run_id`: as
 * many as it had consumed when it raised the interrupt. Null if it keeps all, because no such run is noted.
 */
function countRemainingAnswers(writes: readonly StoredWrite[], task_id: string, run_id: string | null): number | null {
  const readNote = (channel: string): unknown => {
    const noteWrite = writes.find((write) => write.task_id === task_id && write.channel === channel);
    return noteWrite && JSON.parse(noteWrite.data as string);
  };
  const answeringRun = [readNote(RESUME_NOTE_CHANNEL)].flat()[0];
  if (answeringRun === undefined || answeringRun === run_id) return null;
  return (readNote(COUNTS_NOTE_CHANNEL) as Record<string, number> | undefined)?.[""] ?? 0;
}

/**
 * Reads the value of a write. The type of its data is followed by the path of its task, if LangGraph (since 1.7) has
 * set it.
 */
export function readWrite({ type, data }: StoredWrite, values: ValueSerializer): unknown {
  return values.read({ type: type.split(" ", 1)[0] as string, data });
}

/** Returns the path that `putWrites` has stored behind the type of a write; an empty text if there is none. */
function parseTaskPath({ type }: StoredWrite): string {
  const end = type.indexOf(" ");
  return end < 0 ? "" : type.slice(end + 1);
}

/** Compares paths by code points like every LangGraph saver, for `sort`. The order of JavaScript differs above U+FFFF. */
function compareCodePoints(first: string, second: string): number {
  if (first === second) return 0;
  let at = 0;
  while (at < first.length && at < second.length && first.codePointAt(at) === second.codePointAt(at)) at++;
  return (first.codePointAt(at) ?? -1) - (second.codePointAt(at) ?? -1);
}

/** Returns the ids of a task's interrupts: one or, since LangGraph 1.5.0, a list. */
export const readInterruptIds = (interrupts: unknown): readonly string[] =>
  [interrupts as { readonly id?: string } | readonly { readonly id?: string }[]].flat().flatMap(({ id }) => id ?? []);

/**
 * Returns how many resume values the task of each interrupt had consumed when it raised the interrupt, by interrupt
 * id. A missing id means none.
 */
export const readAnswerCounts = ({ writes }: StoredCheckpoint): ReadonlyMap<string, number> =>
  new Map(
    writes
      .filter(({ channel }) => channel === COUNTS_NOTE_CHANNEL)
      .flatMap(({ data }) => Object.entries(JSON.parse(data as string) as Record<string, number>))
      .filter(([id, count]) => id !== "" && count > 0),
  );

/**
 * Creates the access to one thread; other threads do not exist for it. LangGraph cannot delete the thread, so `delete` rejects;
 * the service can.
 */
export function createSingleThreadAccess(thread_id: string, handle: CheckpointHandle): ThreadAccess {
  return {
    get: (id) => (id === thread_id ? handle : null),
    ids: () => [thread_id],
    async delete() {
      throw new Error("A graph may not delete its thread");
    },
  };
}

/** Creates a handle that reads through `reader` and whose writes reject. */
export function createReadOnlyHandle(reader: CheckpointReader): CheckpointHandle {
  const rejectWrite = async (): Promise<never> => {
    throw new Error("These checkpoints can only be read");
  };
  return {
    get: (ref) => reader.get(ref),
    list: (query) => reader.list(query),
    put: rejectWrite,
    putWrites: rejectWrite,
  };
}

export interface CheckpointAddress {
  readonly thread_id: string | undefined;
  readonly ns: string;
  readonly checkpoint_id: string | undefined;
}

/**
 * Reads the thread, namespace and checkpoint of a config, as texts. A missing namespace is the root, an empty checkpoint id
 * counts as missing.
 */
export function readCheckpointAddress(config: GraphConfig): CheckpointAddress {
  const { thread_id, checkpoint_ns, checkpoint_id } = config.configurable ?? {};
  return {
    thread_id: thread_id === undefined || thread_id === null ? undefined : String(thread_id),
    ns: String(checkpoint_ns ?? ""),
    checkpoint_id: checkpoint_id ? String(checkpoint_id) : undefined,
  };
}

/** Throws if the config has no such member. */
export function requireMember(value: string | undefined, name: string): string {
  if (value === undefined) throw new Error(`A checkpoint's config needs configurable.${name}`);
  return value;
}

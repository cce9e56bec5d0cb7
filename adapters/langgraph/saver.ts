/**
 * A checkpoint saver of LangGraph over our checkpoints. It has the shape of LangGraph's `BaseCheckpointSaver` without
 * being derived from it: the graph's copy of LangGraph is the user's, and asks for the methods only.
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
import { aboutWire } from "./wire.ts";

export interface SaverConfig {
  readonly configurable?: Readonly<Record<string, unknown>>;
}

export type Version = number | string;

export interface Checkpoint {
  readonly v: number;
  readonly id: string;
  readonly channel_values: Readonly<Record<string, unknown>>;
  readonly channel_versions: Readonly<Record<string, Version>>;
}

export type TaskWrite = readonly [task_id: string, channel: string, value: unknown];

export interface CheckpointTuple {
  readonly config: SaverConfig;
  readonly checkpoint: Checkpoint;
  readonly metadata: JsonObject;
  readonly parentConfig?: SaverConfig;
  readonly pendingWrites: readonly TaskWrite[];
}

export interface ListOptions {
  readonly limit?: number;
  readonly before?: SaverConfig;
  readonly filter?: JsonObject;
}

export interface DeltaChannelHistory {
  readonly writes: readonly TaskWrite[];
  readonly seed?: unknown;
}

/** The threads a saver may see. */
export interface Threads {
  /** Null: there is no such thread here. */
  get(thread_id: string): CheckpointHandle | null;
  ids(): Iterable<string>;
  delete(thread_id: string): Promise<void>;
}

/** How values are kept. */
export interface Values {
  /** Throws for what cannot be kept; `where` names the value in the error. */
  write(value: unknown, where: string): Payload;
  read(payload: Payload): unknown;
}

export interface SaverOptions {
  readonly threads: Threads;
  readonly serde: Values;
  /** Added to the metadata of every checkpoint. */
  readonly metadata?: JsonObject;
}

export const INTERRUPT = "__interrupt__";
const RESUME = "__resume__";
/** Packets for nodes. */
export const TASKS = "__pregel_tasks";
/**
 * Ours, beside an answer: the run that gave it, or whose answer a task has taken, with the ids of the questions that the task had asked.
 * LangGraph never sees it.
 */
export const ANSWERED = "__answered__";
/** The task under which LangGraph keeps an answer that is for no task in particular. */
export const NULL_TASK = "00000000-0000-0000-0000-000000000000";

/** Channels of which a task has one write at most; the others are numbered in the order they were written. */
const RESERVED: ReadonlyMap<string, number> = new Map([
  ["__error__", -1],
  ["__scheduled__", -2],
  [INTERRUPT, -3],
  [RESUME, -4],
  [ANSWERED, -5],
]);

/** Says what has happened to a task, not what it has made. */
const isControl = (channel: string): boolean => RESERVED.has(channel) || channel === "__error_source_node__";

export class Saver {
  private readonly threads: Threads;
  protected readonly values: Values;
  private readonly metadata: JsonObject;
  private readonly branch: number = Math.floor(Math.random() * 1e12) / 1e12;

  constructor(options: SaverOptions) {
    this.threads = options.threads;
    this.values = options.serde;
    this.metadata = options.metadata ?? {};
  }

  /** LangChain writes configurations, and so savers, as JSON. */
  toJSON(): string {
    return "[greenroom]";
  }

  async get(config: SaverConfig): Promise<Checkpoint | undefined> {
    return (await this.getTuple(config))?.checkpoint;
  }

  async getTuple(config: SaverConfig): Promise<CheckpointTuple | undefined> {
    const { thread_id, ns, checkpoint_id } = place(config);
    const handle = thread_id === undefined ? null : this.threads.get(thread_id);
    if (!handle || thread_id === undefined) return undefined;
    const stored = await handle.get(checkpoint_id === undefined ? { ns } : { ns, checkpoint_id });
    return stored ? await this.tuple(thread_id, stored, handle) : undefined;
  }

  async *list(config: SaverConfig, options: ListOptions = {}): AsyncGenerator<CheckpointTuple> {
    const { thread_id, checkpoint_id } = place(config);
    const ns = config.configurable?.checkpoint_ns as string | undefined;
    const before = options.before && place(options.before).checkpoint_id;
    let left = options.limit ?? Number.POSITIVE_INFINITY;
    for (const id of thread_id === undefined ? this.threads.ids() : [thread_id]) {
      const handle = this.threads.get(id);
      if (!handle || left <= 0) continue;
      const limit = Number.isFinite(left) && checkpoint_id === undefined ? left : undefined;
      for await (const stored of handle.list({ ns, before, limit, metadata: options.filter })) {
        if (checkpoint_id !== undefined && stored.checkpoint_id !== checkpoint_id) continue;
        if (left-- <= 0) break;
        yield await this.tuple(id, stored, handle);
      }
    }
  }

  async put(
    config: SaverConfig,
    checkpoint: Checkpoint,
    metadata: JsonObject,
    newVersions: Readonly<Record<string, Version>>,
  ): Promise<SaverConfig> {
    const { ns, checkpoint_id: parent_id, ...at } = place(config);
    const thread_id = required(at.thread_id, "thread_id");
    const { id, channel_values, channel_versions, ...rest } = checkpoint;
    const written = { configurable: { thread_id, checkpoint_ns: ns, checkpoint_id: id } };
    // With durability `exit` an execution that made no step puts again what it began with.
    if (parent_id === id) return written;
    const values = Object.entries(newVersions)
      .filter(([channel]) => Object.hasOwn(channel_values, channel))
      .map(([channel, version]) => ({
        channel,
        version: String(version),
        ...this.values.write(channel_values[channel], `Channel ${JSON.stringify(channel)}`),
      }));
    await this.handle(thread_id).put({
      ns,
      checkpoint_id: id,
      parent_id: parent_id ?? null,
      payload: this.values.write(rest, "A checkpoint"),
      metadata: aboutWire({ ...this.metadata, ...metadata }) as JsonObject,
      versions: Object.fromEntries(
        Object.entries(channel_versions).map(([channel, version]) => [channel, String(version)]),
      ),
      values,
    });
    return written;
  }

  async putWrites(
    config: SaverConfig,
    writes: readonly (readonly [string, unknown])[],
    task_id: string,
    task_path = "",
  ): Promise<void> {
    const at = place(config);
    const thread_id = required(at.thread_id, "thread_id");
    const checkpoint_id = required(at.checkpoint_id, "checkpoint_id");
    const rows = new Map<number, PendingWrite>();
    writes.forEach(([channel, value], position) => {
      const idx = RESERVED.get(channel) ?? position;
      const { type, data } = this.values.write(value, `A write to channel ${JSON.stringify(channel)}`);
      rows.set(idx, { channel, idx, type: task_path === "" ? type : `${type} ${task_path}`, data });
    });
    await this.handle(thread_id).putWrites({ ns: at.ns, checkpoint_id }, task_id, [...rows.values()]);
  }

  async deleteThread(thread_id: string): Promise<void> {
    await this.threads.delete(thread_id);
  }

  /**
   * Versions of one saver count up; those of two savers never meet, so branches of a thread cannot take each other's values. Bound
   * here: LangGraph calls it on a subgraph's saver, which that does not have.
   */
  readonly getNextVersion = (current: Version | undefined): number =>
    Math.floor(Number(current ?? 0)) + 1 + this.branch;

  /** The writes that made a channel what it is at `config`, oldest first, since the ancestor that holds it whole. */
  async getDeltaChannelHistory({
    config,
    channels,
  }: {
    readonly config: SaverConfig;
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

  protected handle(thread_id: string): CheckpointHandle {
    const handle = this.threads.get(thread_id);
    if (!handle) throw new Error(`This run may not write checkpoints of thread ${thread_id}`);
    return handle;
  }

  private async tuple(thread_id: string, stored: StoredCheckpoint, handle: CheckpointReader): Promise<CheckpointTuple> {
    const { ns, parent_id, versions } = stored;
    const named = (checkpoint_id: string): SaverConfig => ({
      configurable: { thread_id, checkpoint_ns: ns, checkpoint_id },
    });
    const rest = this.values.read(stored.payload) as { v: number };
    if (typeof rest?.v !== "number") throw new Error("The thread's state was written by another kind of graph");
    const checkpoint: Checkpoint = {
      ...rest,
      id: stored.checkpoint_id,
      channel_values: Object.fromEntries(stored.values.map((value) => [value.channel, this.values.read(value)])),
      channel_versions: Object.fromEntries(
        Object.entries(versions).map(([channel, version]) => [channel, Number(version)]),
      ),
    };
    return {
      config: named(stored.checkpoint_id),
      checkpoint:
        checkpoint.v < 4 && parent_id !== null ? await this.withSends(checkpoint, ns, parent_id, handle) : checkpoint,
      metadata: stored.metadata,
      ...(parent_id === null ? {} : { parentConfig: named(parent_id) }),
      pendingWrites: pendingWrites(stored, this.values),
    };
  }

  /** Checkpoints before format 4 left their packets as writes of the parent. */
  private async withSends(
    checkpoint: Checkpoint,
    ns: string,
    parent_id: string,
    handle: CheckpointReader,
  ): Promise<Checkpoint> {
    const parent = await handle.get({ ns, checkpoint_id: parent_id });
    const sends = parent ? pendingWrites(parent, this.values).filter(([, channel]) => channel === TASKS) : [];
    const newest = Math.max(0, ...Object.values(checkpoint.channel_versions).map(Number));
    return {
      ...checkpoint,
      channel_values: { ...checkpoint.channel_values, [TASKS]: sends.map(([, , packet]) => packet) },
      channel_versions: { ...checkpoint.channel_versions, [TASKS]: newest || this.getNextVersion(undefined) },
    };
  }
}

/** The writes on a checkpoint as LangGraph is to see them: in the order in which the execution has applied them. */
export function pendingWrites({ writes }: StoredCheckpoint, values: Values): TaskWrite[] {
  // LangGraph leaves the question of a task that was answered and has finished beside what the task wrote.
  const finished = new Set(writes.filter(({ channel }) => !isControl(channel)).map(({ task_id }) => task_id));
  return writes
    .filter(({ channel, task_id }) => channel !== ANSWERED && (channel !== INTERRUPT || !finished.has(task_id)))
    .toSorted((a, b) => byCodePoint(pathOf(a), pathOf(b)))
    .map((write) => [write.task_id, write.channel, readWrite(write, values)]);
}

/** A write's value. Behind the kind of its data stands the path of its task, where LangGraph (since 1.7) has named it. */
export function readWrite({ type, data }: StoredWrite, values: Values): unknown {
  return values.read({ type: type.split(" ", 1)[0] as string, data });
}

function pathOf({ type }: StoredWrite): string {
  const end = type.indexOf(" ");
  return end < 0 ? "" : type.slice(end + 1);
}

/** As every saver of LangGraph sorts paths; the order of JavaScript differs beyond U+FFFF. */
function byCodePoint(a: string, b: string): number {
  if (a === b) return 0;
  let at = 0;
  while (at < a.length && at < b.length && a.codePointAt(at) === b.codePointAt(at)) at++;
  return (a.codePointAt(at) ?? -1) - (b.codePointAt(at) ?? -1);
}

/** The ids of what a task asked: one question or, since LangGraph 1.5.0, a list of them. */
export const idsOf = (asked: unknown): readonly string[] =>
  [asked as { readonly id?: string } | readonly { readonly id?: string }[]].flat().flatMap(({ id }) => id ?? []);

/** What the saver of a job knows of it. */
export interface SaverJob {
  readonly run_id: string;
  /** The answer that is kept for whoever asks first has been taken: LangGraph is not to see it. */
  readonly spent: boolean;
  /** Nothing is written once it has aborted: what was at work then has not finished. */
  readonly signal: AbortSignal;
  onFailure(error: unknown): void;
}

/** The saver of one job: knows where it stands, and never rejects a write. */
export class JobSaver extends Saver {
  /** The root checkpoint the execution stands on. */
  head: string | null = null;
  /** The root graph has left an interrupt. */
  interrupted = false;
  /** The execution is over: without an id, `head` is meant. */
  ended = false;
  /** Why writing failed; nothing is written after that. */
  failure: unknown;
  private closed = false;
  private readonly job: SaverJob;
  /** The ids of the questions that tasks had asked when the execution came to their checkpoint. */
  private readonly asked = new Map<string, readonly string[]>();

  constructor(options: SaverOptions, job: SaverJob) {
    super(options);
    this.job = job;
  }

  /** What LangGraph still writes in the background is dropped from now on. */
  close(): void {
    this.closed = true;
  }

  override async getTuple(config: SaverConfig): Promise<CheckpointTuple | undefined> {
    const { ns, checkpoint_id } = place(config);
    const root = ns === "";
    const named = root && this.ended && checkpoint_id === undefined ? this.head : null;
    const tuple = await super.getTuple(
      named === null ? config : { configurable: { ...config.configurable, checkpoint_id: named } },
    );
    if (tuple && root) this.head ??= place(tuple.config).checkpoint_id ?? null;
    for (const [task_id, channel, asked] of tuple?.pendingWrites ?? []) {
      if (channel === INTERRUPT && !this.asked.has(task_id)) this.asked.set(task_id, idsOf(asked));
    }
    if (!tuple || !this.job.spent) return tuple;
    const open = tuple.pendingWrites.filter(([task_id, channel]) => task_id !== NULL_TASK || channel !== RESUME);
    return { ...tuple, pendingWrites: open };
  }

  override async put(
    config: SaverConfig,
    checkpoint: Checkpoint,
    metadata: JsonObject,
    newVersions: Readonly<Record<string, Version>>,
  ): Promise<SaverConfig> {
    if (place(config).ns === "" && !this.stopped) this.head = checkpoint.id;
    return (await this.guarded(() => super.put(config, checkpoint, metadata, newVersions))) ?? config;
  }

  override async putWrites(
    config: SaverConfig,
    writes: readonly (readonly [string, unknown])[],
    task_id: string,
    task_path?: string,
  ): Promise<void> {
    if (place(config).ns === "" && writes.some(([channel]) => channel === INTERRUPT)) this.interrupted = true;
    // An answer, where it is kept, or the answers that a task has taken.
    const noted = writes.some(([channel]) => channel === RESUME)
      ? [...writes, [ANSWERED, [this.job.run_id, ...(this.asked.get(task_id) ?? [])]] as const]
      : writes;
    await this.guarded(() => super.putWrites(config, noted, task_id, task_path));
  }

  private get stopped(): boolean {
    return this.closed || this.job.signal.aborted;
  }

  // LangGraph looks at the outcome of its writes only when the execution ends: a rejection would be unhandled until then
  // and the graph would go on for nothing.
  private async guarded<Result>(write: () => Promise<Result>): Promise<Result | undefined> {
    if (this.stopped) return undefined;
    try {
      return await write();
    } catch (error) {
      if (!this.stopped) {
        this.closed = true;
        this.failure = error;
        this.job.onFailure(error);
      }
      return undefined;
    }
  }
}

/** One thread and no other; its deletion is the service's business. */
export function onlyThread(thread_id: string, handle: CheckpointHandle): Threads {
  return {
    get: (id) => (id === thread_id ? handle : null),
    ids: () => [thread_id],
    async delete() {
      throw new Error("A graph may not delete its thread");
    },
  };
}

/** A handle that refuses writes. */
export function readOnly(reader: CheckpointReader): CheckpointHandle {
  const refuse = async (): Promise<never> => {
    throw new Error("These checkpoints can only be read");
  };
  return { get: (at) => reader.get(at), list: (at) => reader.list(at), put: refuse, putWrites: refuse };
}

export interface Place {
  readonly thread_id: string | undefined;
  readonly ns: string;
  readonly checkpoint_id: string | undefined;
}

/** What a config names. */
export function place(config: SaverConfig): Place {
  const { thread_id, checkpoint_ns, checkpoint_id } = config.configurable ?? {};
  return {
    thread_id: thread_id === undefined || thread_id === null ? undefined : String(thread_id),
    ns: String(checkpoint_ns ?? ""),
    checkpoint_id: checkpoint_id ? String(checkpoint_id) : undefined,
  };
}

/** Throws where the config lacks it. */
export function required(value: string | undefined, name: string): string {
  if (value === undefined) throw new Error(`A checkpoint's config needs configurable.${name}`);
  return value;
}

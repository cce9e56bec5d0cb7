/**
 * The checkpoint saver of one job: tracks the current checkpoint of the run and notes which resume values the tasks
 * consume.
 */
import type { JsonObject } from "../../lib/json.ts";
import {
  type Checkpoint,
  type CheckpointTuple,
  COUNTS_NOTE_CHANNEL,
  INTERRUPT,
  NULL_TASK,
  RESUME,
  RESUME_NOTE_CHANNEL,
  readAnswerCounts,
  readCheckpointAddress,
  readInterruptIds,
  Saver,
  type SaverOptions,
  type Version,
} from "./saver.ts";
import type { GraphConfig } from "./serialize.ts";

/** The members of a job that its saver needs. */
export interface SaverJob {
  readonly run_id: string;
  /** True if a task has taken the resume value without an interrupt id, so that LangGraph must not read it again. */
  readonly isAnswerConsumed: boolean;
  /** Nothing is written after it has aborted, because active nodes did not finish. */
  readonly signal: AbortSignal;
  onFailure(error: unknown): void;
}

/** The saver of one job. Tracks the current checkpoint, and never rejects a write. */
export class JobSaver extends Saver {
  /** The id of the current root checkpoint. */
  head: string | null = null;
  /** True once the root graph has stored an interrupt. */
  isInterrupted = false;
  /** The error of the write that failed. Nothing is written after it. */
  failure: unknown;
  #isClosed = false;
  #isHeadFixed = false;
  protected override readonly run_id: string;
  readonly #job: SaverJob;
  /** The ids of the pending interrupts by task, as of the first read of their checkpoint. */
  readonly #pendingInterruptIds = new Map<string, readonly string[]>();
  /**
   * The number of resume values that the task of an interrupt had consumed, by interrupt id. Tasks of a subgraph raise
   * it before those above them.
   */
  readonly #counts = new Map<string, number>();

  constructor(options: SaverOptions, job: SaverJob) {
    super(options);
    this.#job = job;
    this.run_id = job.run_id;
  }

  /** Returns the resume value counts of the current root checkpoint. See `readAnswerCounts`. */
  async readAnswerCounts(thread_id: string): Promise<ReadonlyMap<string, number>> {
    const stored = this.head && (await this.requireHandle(thread_id).get({ ns: "", checkpoint_id: this.head }));
    return stored ? readAnswerCounts(stored) : new Map();
  }

  /** Makes a config without an id refer to `head`. Call it once the attempt has ended. */
  fixHead(): void {
    this.#isHeadFixed = true;
  }

  /** Drops later writes of LangGraph in the background. */
  close(): void {
    this.#isClosed = true;
  }

  /**
   * Reads a checkpoint; the newest of the root graph is the fixed head, once there is one. Undefined if there is none. Notes the
   * first checkpoint as the head and the pending interrupts by task. Omits a resume value that the run has already consumed.
   */
  override async getTuple(config: GraphConfig): Promise<CheckpointTuple | undefined> {
    const { ns, checkpoint_id } = readCheckpointAddress(config);
    const isRoot = ns === "";
    const fixedId = isRoot && this.#isHeadFixed && checkpoint_id === undefined ? this.head : null;
    const tuple = await super.getTuple(
      fixedId === null ? config : { configurable: { ...config.configurable, checkpoint_id: fixedId } },
    );
    if (tuple && isRoot) this.head ??= readCheckpointAddress(tuple.config).checkpoint_id ?? null;
    for (const [task_id, channel, interrupts] of tuple?.pendingWrites ?? []) {
      if (channel === INTERRUPT && !this.#pendingInterruptIds.has(task_id))
        this.#pendingInterruptIds.set(task_id, readInterruptIds(interrupts));
    }
    if (!tuple || !this.#job.isAnswerConsumed) return tuple;
    const pendingWrites = tuple.pendingWrites.filter(
      ([task_id, channel]) => task_id !== NULL_TASK || channel !== RESUME,
    );
    return { ...tuple, pendingWrites: pendingWrites };
  }

  /**
   * Stores a checkpoint; one of the root graph becomes the head, before it is stored. Does not reject: a failure stops the graph,
   * and the given config is returned.
   */
  override async put(
    config: GraphConfig,
    checkpoint: Checkpoint,
    metadata: JsonObject,
    newVersions: Readonly<Record<string, Version>>,
  ): Promise<GraphConfig> {
    if (readCheckpointAddress(config).ns === "" && !this.#isStopped) this.head = checkpoint.id;
    return (await this.#catchFailure(() => super.put(config, checkpoint, metadata, newVersions))) ?? config;
  }

  /**
   * Stores writes of a task. Writes with a resume value get a note of the run and the interrupts that it answers, those of an
   * interrupt a note of how many values its task has consumed. An interrupt of the root graph, and no other, sets
   * `isInterrupted`. Does not reject: a failure stops the graph and is kept in `failure`. Stores nothing once the saver is
   * closed.
   */
  override async putWrites(
    config: GraphConfig,
    writes: readonly (readonly [string, unknown])[],
    task_id: string,
    task_path?: string,
  ): Promise<void> {
    if (readCheckpointAddress(config).ns === "" && writes.some(([channel]) => channel === INTERRUPT))
      this.isInterrupted = true;
    // A resume value, or the values that a task consumed.
    const notedWrites = writes.some(([channel]) => channel === RESUME)
      ? [
          ...writes,
          [RESUME_NOTE_CHANNEL, [this.#job.run_id, ...(this.#pendingInterruptIds.get(task_id) ?? [])]] as const,
        ]
      : writes;
    const counts = this.#createCountsNote(writes);
    const allWrites = counts ? [...notedWrites, [COUNTS_NOTE_CHANNEL, counts] as const] : notedWrites;
    await this.#catchFailure(() => super.putWrites(config, allWrites, task_id, task_path));
  }

  /**
   * Returns the counts note of a task that raises interrupts; undefined if no resume value was consumed. Records, for
   * each interrupt at its first appearance, how many resume values its task had consumed.
   */
  #createCountsNote(writes: readonly (readonly [string, unknown])[]): Record<string, number> | undefined {
    const ids = writes.flatMap(([channel, interrupts]) => (channel === INTERRUPT ? readInterruptIds(interrupts) : []));
    if (ids.length === 0) return undefined;
    const consumed = writes.findLast(([channel]) => channel === RESUME)?.[1];
    const count = Array.isArray(consumed) ? consumed.length : 0;
    for (const id of ids) if (!this.#counts.has(id)) this.#counts.set(id, count);
    const countEntries = [["", count] as const, ...ids.map((id) => [id, this.#counts.get(id) ?? 0] as const)];
    return countEntries.some(([, consumed]) => consumed > 0) ? Object.fromEntries(countEntries) : undefined;
  }

  get #isStopped(): boolean {
    return this.#isClosed || this.#job.signal.aborted;
  }

  // LangGraph checks the result of its writes only at the end: until then a rejection would be unhandled, and the graph
  // would continue in vain.
  /**
   * Writes, unless the saver is stopped. LangGraph checks the result of its writes only at the end, so a failure does not reject:
   * it closes the saver, is kept in `failure` and stops the graph. Returns undefined then.
   */
  async #catchFailure<Result>(write: () => Promise<Result>): Promise<Result | undefined> {
    if (this.#isStopped) return undefined;
    try {
      return await write();
    } catch (error) {
      if (!this.#isStopped) {
        this.#isClosed = true;
        this.failure = error;
        this.#job.onFailure(error);
      }
      return undefined;
    }
  }
}

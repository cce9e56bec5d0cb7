/** The checkpoint saver of one job: it follows the run's current checkpoint and notes which answers the tasks consume. */
import type { JsonObject } from "../../lib/json.ts";
import {
  answerCounts,
  type Checkpoint,
  type CheckpointTuple,
  COUNTS,
  INTERRUPT,
  idsOf,
  NULL_TASK,
  place,
  RESUME,
  RESUME_NOTE_CHANNEL,
  Saver,
  type SaverOptions,
  type Version,
} from "./saver.ts";
import type { GraphConfig } from "./serialize.ts";

/** The job, as its saver needs it. */
export interface SaverJob {
  readonly run_id: string;
  /** A task has taken the answer that is addressed to no interrupt, so LangGraph must not see it. */
  readonly spent: boolean;
  /** After it has aborted nothing is written, because active nodes did not finish. */
  readonly signal: AbortSignal;
  onFailure(error: unknown): void;
}

/** The saver of one job. Knows the current checkpoint, and never rejects a write. */
export class JobSaver extends Saver {
  /** The current root checkpoint. */
  head: string | null = null;
  /** The root graph has stored an interrupt. */
  interrupted = false;
  /** Why a write failed. Nothing is written after it. */
  failure: unknown;
  private closed = false;
  private isHeadFixed = false;
  protected override readonly run_id: string;
  private readonly job: SaverJob;
  /** The ids of the open interrupts by task, when the attempt first read their checkpoint. */
  private readonly asked = new Map<string, readonly string[]>();
  /** By interrupt id, how many answers its task had consumed: the tasks of a subgraph raise it before those above them. */
  private readonly counts = new Map<string, number>();

  constructor(options: SaverOptions, job: SaverJob) {
    super(options);
    this.job = job;
    this.run_id = job.run_id;
  }

  /** `answerCounts` of the current root checkpoint. */
  async answerCounts(thread_id: string): Promise<ReadonlyMap<string, number>> {
    const stored = this.head && (await this.handle(thread_id).get({ ns: "", checkpoint_id: this.head }));
    return stored ? answerCounts(stored) : new Map();
  }

  /** Makes a config without an id name `head`. Call it once the attempt has ended. */
  fixHead(): void {
    this.isHeadFixed = true;
  }

  /** Later writes of LangGraph in the background are dropped. */
  close(): void {
    this.closed = true;
  }

  override async getTuple(config: GraphConfig): Promise<CheckpointTuple | undefined> {
    const { ns, checkpoint_id } = place(config);
    const root = ns === "";
    const named = root && this.isHeadFixed && checkpoint_id === undefined ? this.head : null;
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
    config: GraphConfig,
    checkpoint: Checkpoint,
    metadata: JsonObject,
    newVersions: Readonly<Record<string, Version>>,
  ): Promise<GraphConfig> {
    if (place(config).ns === "" && !this.stopped) this.head = checkpoint.id;
    return (await this.guarded(() => super.put(config, checkpoint, metadata, newVersions))) ?? config;
  }

  override async putWrites(
    config: GraphConfig,
    writes: readonly (readonly [string, unknown])[],
    task_id: string,
    task_path?: string,
  ): Promise<void> {
    if (place(config).ns === "" && writes.some(([channel]) => channel === INTERRUPT)) this.interrupted = true;
    // An answer, or the answers that a task took.
    const noted = writes.some(([channel]) => channel === RESUME)
      ? [...writes, [RESUME_NOTE_CHANNEL, [this.job.run_id, ...(this.asked.get(task_id) ?? [])]] as const]
      : writes;
    const counts = this.countsOf(writes);
    const counted = counts ? [...noted, [COUNTS, counts] as const] : noted;
    await this.guarded(() => super.putWrites(config, counted, task_id, task_path));
  }

  /** What the note of a task that raises interrupts has. Undefined where no answer was consumed. */
  private countsOf(writes: readonly (readonly [string, unknown])[]): Record<string, number> | undefined {
    const ids = writes.flatMap(([channel, asked]) => (channel === INTERRUPT ? idsOf(asked) : []));
    if (ids.length === 0) return undefined;
    const consumed = writes.findLast(([channel]) => channel === RESUME)?.[1];
    const count = Array.isArray(consumed) ? consumed.length : 0;
    for (const id of ids) if (!this.counts.has(id)) this.counts.set(id, count);
    const known = [["", count] as const, ...ids.map((id) => [id, this.counts.get(id) ?? 0] as const)];
    return known.some(([, consumed]) => consumed > 0) ? Object.fromEntries(known) : undefined;
  }

  private get stopped(): boolean {
    return this.closed || this.job.signal.aborted;
  }

  // LangGraph checks the result of its writes only at the end: until then a rejection would be unhandled, and the graph would work in vain.
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

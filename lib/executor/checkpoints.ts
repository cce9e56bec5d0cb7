/** The checkpoints of a thread as a job sees them: with what it has put, although that waits for the next save. */
import type { Environment } from "../environment.ts";
import { LeaseLost } from "../errors.ts";
import { contains } from "../json.ts";
import type { NewWrites, Progress, SavedCheckpoint } from "../storage/mod.ts";
import { type CacheOptions, CheckpointCache, checkpointKey } from "./checkpoint-cache.ts";
import type { CheckpointHandle, CheckpointReader, NewCheckpoint, StoredCheckpoint } from "./contract.ts";
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

/** The limit of unsaved data, in characters: above it the executor waits for a save. */
const BACKLOG = 4 * 1024 * 1024;

export interface JobCheckpoints extends CheckpointHandle {
  /** Opens a write barrier in front of what is put from now on, and returns what closes it. */
  openBarrier(): () => void;
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

interface CheckpointOptions extends CacheOptions {
  /** `put` and `putWrites` resolve only when their data is stored. */
  readonly sync: boolean;
  now(): number;
  /** The same barrier as that of the output which shows these checkpoints. */
  readonly barrier: WriteBarrier;
  /** Something was put, or a barrier was closed. */
  onAdded(): void;
  /** Saves everything; resolves when it is committed. */
  save(): Promise<void>;
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
  const cache = new CheckpointCache(options);
  const buffer = new CheckpointBuffer(barrier);
  let refusesWrites = false;

  /** Resolves once the executor may go on: with durability `sync` when what it has put is committed. */
  async function added(): Promise<void> {
    options.onAdded();
    if (options.sync) {
      await barrier.passed(barrier.positionForState);
      await options.save();
    }
    checkLease();
  }

  function checkLease(): void {
    if (refusesWrites) throw new LeaseLost(String(options.run_id));
  }

  function append(checkpoint: NewCheckpoint): void {
    buffer.addCheckpoint(cache.add(checkpoint, options.now()), barrier.positionForState);
  }

  return {
    peek: (at) => cache.peek(at),
    get: (at) => cache.get(at),
    async *list(at) {
      for await (const checkpoint of listAll(options, at, cache.unsaved())) yield cache.withOwnWrites(checkpoint);
    },
    async put(checkpoint) {
      checkLease();
      append(checkpoint);
      await added();
    },
    async putWrites(at, task_id, writes) {
      checkLease();
      if (writes.length === 0) return;
      cache.addWrites(at, task_id, writes);
      buffer.addWrites({ ...at, task_id, writes }, barrier.positionForState);
      await added();
    },
    openBarrier() {
      const position = barrier.open();
      return () => {
        barrier.close(position);
        options.onAdded();
      };
    },
    drain() {
      const drained = buffer.drain();
      cache.dropSaved(drained, buffer.writes());
      return drained;
    },
    hasReady: () => buffer.hasReady(),
    isEmpty: () => buffer.isEmpty(),
    isFull: () => buffer.isFull(),
    root: () => cache.root(),
    append,
    refuseWrites() {
      refusesWrites = true;
      barrier.closeAll();
    },
  };
}

type ListQuery = Parameters<CheckpointReader["list"]>[0];

/** Unsaved checkpoints, then stored ones; newest first. */
async function* listAll(
  options: CheckpointOptions,
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
  for await (const checkpoint of listStored(options, { ...(end === -1 ? at : rest), limit: left })) {
    if (!listed.has(checkpointKey(checkpoint.ns, checkpoint.checkpoint_id))) yield checkpoint;
  }
}

/** Checkpoints outside a run: reads see what was put, and `drain` returns it for one batch. */
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

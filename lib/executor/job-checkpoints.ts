/** The checkpoints of a job. Reads include what the job has put and no save has stored yet. */
import type { Environment } from "../environment.ts";
import { LeaseLost } from "../errors.ts";
import { contains } from "../json.ts";
import type { NewWrites, Progress, SavedCheckpoint } from "../storage/mod.ts";
import { CheckpointCache, type CheckpointCacheOptions, createCheckpointKey } from "./checkpoint-cache.ts";
import type { CheckpointHandle, CheckpointReader, NewCheckpoint, StoredCheckpoint } from "./contract.ts";
import { listStoredCheckpoints } from "./stored-checkpoints.ts";
import { BarrierQueue, WriteBarrier } from "./write-barrier.ts";

// 100 ns ticks between 1582-10-15, where UUID time begins, and 1970, in units of the lower 12 bits of a UUID's time.
const EPOCH_HIGH = 29_832_257_812_500;
const LOW_RANGE = 4096;
const TICKS_PER_MS = 10_000;

/** Creates a UUID version 6, which sorts as text by time. It sorts after `above` even if the clock was set back. */
export function createCheckpointId(environment: Pick<Environment, "now" | "uuid">, above: string | null): string {
  const now = Math.floor(environment.now());
  // The product of the two has more bits than a number.
  const ticks = (now % LOW_RANGE) * TICKS_PER_MS;
  let high = Math.floor(now / LOW_RANGE) * TICKS_PER_MS + Math.floor(ticks / LOW_RANGE) + EPOCH_HIGH;
  let low = ticks % LOW_RANGE;
  const [, start, middle, end] = /^([0-9a-f]{8})-?([0-9a-f]{4})-?6([0-9a-f]{3})/.exec(above ?? "") ?? [];
  if (end !== undefined) {
    const aboveHigh = Number.parseInt(`${start}${middle}`, 16);
    const aboveLow = Number.parseInt(end, 16);
    if (high < aboveHigh || (high === aboveHigh && low <= aboveLow)) {
      high = aboveLow + 1 === LOW_RANGE ? aboveHigh + 1 : aboveHigh;
      low = (aboveLow + 1) % LOW_RANGE;
    }
  }
  const time = high.toString(16).padStart(12, "0");
  const suffix = environment.uuid().slice(19);
  return `${time.slice(0, 8)}-${time.slice(8)}-6${low.toString(16).padStart(3, "0")}-${suffix}`;
}

/** The maximum of unsaved data, in characters. Above it the executor waits for a save. */
const MAX_UNSAVED_CHARS = 4 * 1024 * 1024;

export interface JobCheckpoints extends CheckpointHandle {
  /** Opens a write barrier before the next put and returns a function that closes it. */
  openBarrier(): () => void;
  /** Removes and returns what a save may take. The caller must store it. */
  drain(): Pick<Progress, "checkpoints" | "writes">;
  hasReady(): boolean;
  /** Returns true if every checkpoint and write has been drained by a save. */
  isEmpty(): boolean;
  /** Returns true if the executor must wait for a save. `put` does not wait, so that frames keep their order. */
  isFull(): boolean;
  /** Returns the id of the newest root checkpoint that this job has put, or null. */
  findNewestRootId(): string | null;
  /** Makes every later write of the executor throw `LeaseLost`, and closes all write barriers. */
  refuseWrites(): void;
  /** Puts a checkpoint for the engine, also after `refuseWrites`. */
  append(checkpoint: NewCheckpoint): void;
}

interface CheckpointOptions extends CheckpointCacheOptions {
  /** True if `put` and `putWrites` resolve only when their data is stored. */
  readonly sync: boolean;
  now(): number;
  /** The barrier that the output of these checkpoints shares. */
  readonly barrier: WriteBarrier;
  /** Called after a put and after a barrier was closed. */
  onAdded(): void;
  /** Saves everything. Resolves when it is committed. */
  save(): Promise<void>;
}

/** Buffers checkpoints and writes between saves. */
class CheckpointBuffer {
  readonly #checkpoints: BarrierQueue<SavedCheckpoint>;
  readonly #writes: BarrierQueue<NewWrites>;
  /** The size in characters, including items that wait for a barrier. */
  #size = 0;

  constructor(barrier: WriteBarrier) {
    this.#checkpoints = new BarrierQueue(barrier);
    this.#writes = new BarrierQueue(barrier);
  }

  /** Adds a checkpoint and its size to the buffer, from where a save takes it. */
  addCheckpoint(checkpoint: SavedCheckpoint, position: number): void {
    this.#size += sumDataLength(checkpoint.values);
    this.#checkpoints.add(checkpoint, position);
  }

  /** Adds writes and their size to the buffer, from where a save takes them. */
  addWrites(task: NewWrites, position: number): void {
    this.#size += sumDataLength(task.writes);
    this.#writes.add(task, position);
  }

  /** Removes and returns what a save may take, and subtracts its size. */
  drain(): Pick<Progress, "checkpoints" | "writes"> {
    const [checkpoints, writes] = [this.#checkpoints.drain(), this.#writes.drain()];
    for (const { values } of checkpoints) this.#size -= sumDataLength(values);
    for (const task of writes) this.#size -= sumDataLength(task.writes);
    return { checkpoints, writes };
  }

  hasReady(): boolean {
    return this.#checkpoints.hasReady() || this.#writes.hasReady();
  }

  isEmpty(): boolean {
    return this.#checkpoints.length + this.#writes.length === 0;
  }

  isFull(): boolean {
    return this.#size > MAX_UNSAVED_CHARS;
  }

  writes(): NewWrites[] {
    return this.#writes.items();
  }
}

const sumDataLength = (parts: readonly { readonly data: string | Uint8Array }[]): number =>
  parts.reduce((sum, { data }) => sum + data.length, 0);

/**
 * Creates the checkpoints of a job: reads see what was put and not saved yet. After `refuseWrites`, `put` and `putWrites` throw
 * `LeaseLost`.
 */
export function createJobCheckpoints(options: CheckpointOptions): JobCheckpoints {
  const { barrier } = options;
  const cache = new CheckpointCache(options);
  const buffer = new CheckpointBuffer(barrier);
  let areWritesRefused = false;

  /**
   * Calls `onAdded`. Resolves once the executor may continue: with durability `sync` when all open barriers are closed and its
   * writes are committed, else at once. Rejects with `LeaseLost` after `refuseWrites`.
   */
  async function waitForSave(): Promise<void> {
    options.onAdded();
    if (options.sync) {
      await barrier.waitUntilPassed(barrier.positionForState);
      await options.save();
    }
    requireLease();
  }

  function requireLease(): void {
    if (areWritesRefused) throw new LeaseLost(String(options.run_id));
  }

  function append(checkpoint: NewCheckpoint): void {
    buffer.addCheckpoint(cache.add(checkpoint, options.now()), barrier.positionForState);
  }

  return {
    getCached: (at) => cache.getCached(at),
    get: (at) => cache.get(at),
    async *list(at) {
      for await (const checkpoint of listAll(options, at, cache.listUnsaved())) yield cache.mergeJobWrites(checkpoint);
    },
    /**
     * Buffers a checkpoint for the next save. Resolves when it is stored with durability `sync`, else at once. Throws once the
     * lease is lost.
     */
    async put(checkpoint) {
      requireLease();
      append(checkpoint);
      await waitForSave();
    },
    /**
     * Buffers writes for the next save, and shows them to later reads. Resolves when they are stored with durability `sync`, else
     * at once. Throws once the lease is lost.
     */
    async putWrites(at, task_id, writes) {
      requireLease();
      if (writes.length === 0) return;
      cache.addWrites(at, task_id, writes);
      buffer.addWrites({ ...at, task_id, writes }, barrier.positionForState);
      await waitForSave();
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
    findNewestRootId: () => cache.findNewestRootId(),
    append,
    refuseWrites() {
      areWritesRefused = true;
      barrier.closeAll();
    },
  };
}

type ListQuery = Parameters<CheckpointReader["list"]>[0];

/** Yields unsaved checkpoints and then stored ones, newest first, each once. `limit` counts both. */
async function* listAll(
  options: CheckpointOptions,
  at: ListQuery,
  unsaved: readonly StoredCheckpoint[],
): AsyncGenerator<StoredCheckpoint> {
  // `before` may name a checkpoint of another namespace.
  const beforeIndex = unsaved.findIndex((checkpoint) => checkpoint.checkpoint_id === at.before);
  const { before, ...queryWithoutBefore } = at;
  const unsavedMatches = (before === undefined ? [...unsaved] : unsaved.slice(0, Math.max(beforeIndex, 0)))
    .reverse()
    .filter((checkpoint) => at.ns === undefined || checkpoint.ns === at.ns)
    .filter((checkpoint) => at.metadata === undefined || contains(checkpoint.metadata, at.metadata));
  let remaining = at.limit ?? Number.POSITIVE_INFINITY;
  const listedKeys = new Set<string>();
  for (const checkpoint of unsavedMatches) {
    if (remaining-- <= 0) return;
    listedKeys.add(createCheckpointKey(checkpoint.ns, checkpoint.checkpoint_id));
    yield checkpoint;
  }
  for await (const checkpoint of listStoredCheckpoints(options, {
    ...(beforeIndex === -1 ? at : queryWithoutBefore),
    limit: remaining,
  })) {
    if (!listedKeys.has(createCheckpointKey(checkpoint.ns, checkpoint.checkpoint_id))) yield checkpoint;
  }
}

/** Creates checkpoints outside a run. Reads include what was put, and `drain` returns it for one batch. */
export function createCheckpointCollector(
  options: Pick<CheckpointOptions, "storage" | "scope" | "thread_id" | "head" | "now">,
): JobCheckpoints {
  return createJobCheckpoints({
    ...options,
    run_id: null,
    resumed: false,
    sync: false,
    barrier: new WriteBarrier(),
    retry: (call) => call(),
    onAdded: () => {},
    save: async () => {},
  });
}

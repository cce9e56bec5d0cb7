/**
 * Reads chunks as soon as LangGraph emits them, so that checkpoints are stored together with the chunks of their tick.
 */
import type { Environment } from "../../lib/environment.ts";
import type { CheckpointHandle } from "../../lib/executor/contract.ts";

/**
 * Reads the stream of LangGraph, which runs ahead of its reader and stores writes before it streams them. Holds these
 * writes back until the chunks of the same tick of the event loop are emitted.
 */
export class StreamBackpressure {
  readonly #checkpoints: CheckpointHandle;
  readonly #environment: Pick<Environment, "defer">;
  /** The chunks from `nextIndex` on are not emitted yet. `shift` would move all of them for each chunk. */
  readonly #chunks: unknown[] = [];
  #nextIndex = 0;
  /** The number of chunks that have arrived, and how many of them are emitted. */
  #receivedCount = 0;
  #emittedCount = 0;
  /** The open barriers of earlier ticks, with the number of chunks that had arrived. */
  #barriers: { readonly close: () => void; readonly arrivedCount: number }[] = [];
  /** True if this tick has a barrier. */
  #hasOpenBarrier = false;
  #wake: () => void = () => {};
  #hasEnded = false;
  #failure: { readonly error: unknown } | null = null;
  #readPromise: Promise<void> = Promise.resolve();
  /** The iterator if the handle has no barriers. Its chunks are read only on demand, which saves two promises for each token. */
  #directIterator: AsyncIterator<unknown, undefined> | null = null;

  constructor(checkpoints: CheckpointHandle, environment: Pick<Environment, "defer">) {
    this.#checkpoints = checkpoints;
    this.#environment = environment;
  }

  /**
   * Returns the checkpoint handle of the graph. Its writes first open a barrier, which closes when all chunks that arrived before
   * are emitted.
   */
  createHandle(): CheckpointHandle {
    const checkpoints = this.#checkpoints;
    return {
      get: (query) => checkpoints.get(query),
      list: (query) => checkpoints.list(query),
      put: (checkpoint) => {
        this.#openBarrier();
        return checkpoints.put(checkpoint);
      },
      putWrites: (...writes) => {
        this.#openBarrier();
        return checkpoints.putWrites(...writes);
      },
    };
  }

  /**
   * Starts to read the graph's stream. With barriers, all chunks are read ahead into a buffer, each of them opens a barrier, and
   * an error is kept for `next`. Without barriers, `next` reads the stream itself.
   */
  startReading(chunks: AsyncIterable<unknown>): void {
    if (!this.#checkpoints.openBarrier) {
      this.#directIterator = chunks[Symbol.asyncIterator]();
      return;
    }
    const readAll = async (): Promise<void> => {
      try {
        for await (const chunk of chunks) {
          // No chunk is read after `close`, and a graph may ignore its signal for long.
          if (this.#emittedCount === Number.POSITIVE_INFINITY) continue;
          this.#openBarrier();
          this.#receivedCount++;
          this.#chunks.push(chunk);
          this.#wake();
        }
      } catch (error) {
        this.#failure = { error };
      }
      this.#hasEnded = true;
      this.#wake();
    };
    this.#readPromise = readAll();
  }

  /**
   * Returns the next chunk; no promise if it has arrived. A call means that all earlier chunks are emitted, so it closes their
   * barriers. After the last chunk it returns `done`, or rejects with the graph's error.
   */
  next(): IteratorResult<unknown, undefined> | Promise<IteratorResult<unknown, undefined>> {
    if (this.#directIterator) return this.#directIterator.next();
    this.#emittedCount = this.#receivedCount - (this.#chunks.length - this.#nextIndex);
    this.#closePassedBarriers();
    return this.#chunks.length > this.#nextIndex ? { done: false, value: this.#shiftChunk() } : this.#waitForChunk();
  }

  /** Resolves with the next chunk when it arrives, or `done` at the end. Rejects with the graph's error after the last chunk. */
  async #waitForChunk(): Promise<IteratorResult<unknown, undefined>> {
    while (this.#chunks.length === this.#nextIndex && !this.#hasEnded) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    if (this.#chunks.length > this.#nextIndex) return { done: false, value: this.#shiftChunk() };
    if (this.#failure) throw this.#failure.error;
    return { done: true, value: undefined };
  }

  /**
   * Removes and returns the first chunk. Shortens the buffer when half of it is read, so that a call takes constant time on
   * average.
   */
  #shiftChunk(): unknown {
    const chunk = this.#chunks[this.#nextIndex];
    this.#chunks[this.#nextIndex++] = undefined;
    if (2 * this.#nextIndex >= this.#chunks.length) {
      this.#chunks.splice(0, this.#nextIndex);
      this.#nextIndex = 0;
    }
    return chunk;
  }

  /**
   * Discards the remaining chunks and closes all barriers. Resolves when LangGraph has ended, which may take long for a graph
   * that ignores its signal. Never rejects: an error of the graph is dropped.
   */
  async close(): Promise<void> {
    this.#emittedCount = Number.POSITIVE_INFINITY;
    this.#chunks.length = this.#nextIndex = 0;
    this.#closePassedBarriers();
    await (this.#directIterator ? drain(this.#directIterator) : this.#readPromise);
  }

  /**
   * Opens a barrier, unless one is open or the stream is closed. Its position is set in a deferred call, after all chunks that
   * arrive in the same turn.
   */
  #openBarrier(): void {
    if (this.#hasOpenBarrier || this.#emittedCount === Number.POSITIVE_INFINITY) return;
    const close = this.#checkpoints.openBarrier?.();
    if (!close) return;
    this.#hasOpenBarrier = true;
    this.#environment.defer(() => {
      this.#hasOpenBarrier = false;
      this.#barriers.push({ close, arrivedCount: this.#receivedCount });
      this.#closePassedBarriers();
    });
  }

  #closePassedBarriers(): void {
    while (this.#barriers[0] && this.#barriers[0].arrivedCount <= this.#emittedCount) this.#barriers.shift()?.close();
  }
}

/** Reads an iterator to its end and drops everything, also an error. */
async function drain(chunks: AsyncIterator<unknown, undefined>): Promise<void> {
  try {
    while (!(await chunks.next()).done);
  } catch {
    // The error has no reader any more.
  }
}

/** Reads chunks as soon as LangGraph makes them, so that its checkpoints are stored with the chunks of the same tick. */
import type { Environment } from "../../lib/environment.ts";
import type { CheckpointHandle } from "../../lib/executor/contract.ts";

/**
 * LangGraph runs ahead of the reader of its stream, and puts writes before it streams them. So these are held until the chunks of
 * that tick of the event loop are shown.
 */
export class StreamBackpressure {
  readonly #checkpoints: CheckpointHandle;
  readonly #environment: Pick<Environment, "defer">;
  /** Those from `head` on are still to be shown. `shift` would move the rest for each. */
  readonly #chunks: unknown[] = [];
  #nextIndex = 0;
  /** How many chunks came, and how many of them were shown. */
  #receivedCount = 0;
  #emittedCount = 0;
  /** The open barriers of earlier ticks, with the number of chunks that had arrived. */
  #barriers: { readonly close: () => void; readonly arrivedCount: number }[] = [];
  /** This tick has a barrier. */
  #hasOpenBarrier = false;
  #wake: () => void = () => {};
  #hasEnded = false;
  #failure: { readonly error: unknown } | null = null;
  #readPromise: Promise<void> = Promise.resolve();
  /** Where nothing is held, chunks are read as they are asked for: that costs a token two promises less. */
  #directIterator: AsyncIterator<unknown, undefined> | null = null;

  constructor(checkpoints: CheckpointHandle, environment: Pick<Environment, "defer">) {
    this.#checkpoints = checkpoints;
    this.#environment = environment;
  }

  /** The handle, which holds what is put. */
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

  startReading(chunks: AsyncIterable<unknown>): void {
    if (!this.#checkpoints.openBarrier) {
      this.#directIterator = chunks[Symbol.asyncIterator]();
      return;
    }
    const readAll = async (): Promise<void> => {
      try {
        for await (const chunk of chunks) {
          // Nothing takes it once it is closed, and a graph may ignore its signal for long.
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

  /** The next chunk; no promise if it is here. A call means that all earlier ones are shown. */
  next(): IteratorResult<unknown, undefined> | Promise<IteratorResult<unknown, undefined>> {
    if (this.#directIterator) return this.#directIterator.next();
    this.#emittedCount = this.#receivedCount - (this.#chunks.length - this.#nextIndex);
    this.#closePassedBarriers();
    return this.#chunks.length > this.#nextIndex ? { done: false, value: this.#shiftChunk() } : this.#waitForChunk();
  }

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

  #shiftChunk(): unknown {
    const chunk = this.#chunks[this.#nextIndex];
    this.#chunks[this.#nextIndex++] = undefined;
    if (2 * this.#nextIndex >= this.#chunks.length) {
      this.#chunks.splice(0, this.#nextIndex);
      this.#nextIndex = 0;
    }
    return chunk;
  }

  /** Nothing more is shown: nothing is held any more. Resolves when LangGraph has ended. */
  async close(): Promise<void> {
    this.#emittedCount = Number.POSITIVE_INFINITY;
    this.#chunks.length = this.#nextIndex = 0;
    this.#closePassedBarriers();
    await (this.#directIterator ? drain(this.#directIterator) : this.#readPromise);
  }

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

async function drain(chunks: AsyncIterator<unknown, undefined>): Promise<void> {
  try {
    while (!(await chunks.next()).done);
  } catch {
    // It has ended by an error that nobody asks for any more.
  }
}

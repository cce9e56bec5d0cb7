/** Reads chunks as soon as LangGraph makes them, so that its checkpoints are stored with the chunks of the same tick. */
import type { Environment } from "../../lib/environment.ts";
import type { CheckpointHandle } from "../../lib/executor/contract.ts";

/**
 * LangGraph runs ahead of the reader of its stream, and puts writes before it streams them. So these are held until the chunks of
 * that tick of the event loop are shown.
 */
export class StreamBackpressure {
  private readonly checkpoints: CheckpointHandle;
  private readonly environment: Pick<Environment, "defer">;
  /** Those from `head` on are still to be shown. `shift` would move the rest for each. */
  private readonly chunks: unknown[] = [];
  private head = 0;
  /** How many chunks came, and how many of them were shown. */
  private received = 0;
  private shown = 0;
  /** The open barriers of earlier ticks, with the number of chunks that had arrived. */
  private barriers: { readonly close: () => void; readonly at: number }[] = [];
  /** This tick has a barrier. */
  private open = false;
  private wake: () => void = () => {};
  private ended = false;
  private failure: { readonly error: unknown } | null = null;
  private reading: Promise<void> = Promise.resolve();
  /** Where nothing is held, chunks are read as they are asked for: that costs a token two promises less. */
  private direct: AsyncIterator<unknown, undefined> | null = null;

  constructor(checkpoints: CheckpointHandle, environment: Pick<Environment, "defer">) {
    this.checkpoints = checkpoints;
    this.environment = environment;
  }

  /** The handle, which holds what is put. */
  handle(): CheckpointHandle {
    const { checkpoints } = this;
    return {
      get: (at) => checkpoints.get(at),
      list: (at) => checkpoints.list(at),
      put: (checkpoint) => {
        this.openBarrier();
        return checkpoints.put(checkpoint);
      },
      putWrites: (...writes) => {
        this.openBarrier();
        return checkpoints.putWrites(...writes);
      },
    };
  }

  read(chunks: AsyncIterable<unknown>): void {
    if (!this.checkpoints.openBarrier) {
      this.direct = chunks[Symbol.asyncIterator]();
      return;
    }
    const readAll = async (): Promise<void> => {
      try {
        for await (const chunk of chunks) {
          // Nothing takes it once it is closed, and a graph may ignore its signal for long.
          if (this.shown === Number.POSITIVE_INFINITY) continue;
          this.openBarrier();
          this.received++;
          this.chunks.push(chunk);
          this.wake();
        }
      } catch (error) {
        this.failure = { error };
      }
      this.ended = true;
      this.wake();
    };
    this.reading = readAll();
  }

  /** The next chunk; no promise if it is here. A call means that all earlier ones are shown. */
  next(): IteratorResult<unknown, undefined> | Promise<IteratorResult<unknown, undefined>> {
    if (this.direct) return this.direct.next();
    this.shown = this.received - (this.chunks.length - this.head);
    this.closePassed();
    return this.chunks.length > this.head ? { done: false, value: this.take() } : this.wait();
  }

  private async wait(): Promise<IteratorResult<unknown, undefined>> {
    while (this.chunks.length === this.head && !this.ended) {
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
    }
    if (this.chunks.length > this.head) return { done: false, value: this.take() };
    if (this.failure) throw this.failure.error;
    return { done: true, value: undefined };
  }

  private take(): unknown {
    const chunk = this.chunks[this.head];
    this.chunks[this.head++] = undefined;
    if (2 * this.head >= this.chunks.length) {
      this.chunks.splice(0, this.head);
      this.head = 0;
    }
    return chunk;
  }

  /** Nothing more is shown: nothing is held any more. Resolves when LangGraph has ended. */
  async close(): Promise<void> {
    this.shown = Number.POSITIVE_INFINITY;
    this.chunks.length = this.head = 0;
    this.closePassed();
    await (this.direct ? drain(this.direct) : this.reading);
  }

  private openBarrier(): void {
    if (this.open || this.shown === Number.POSITIVE_INFINITY) return;
    const close = this.checkpoints.openBarrier?.();
    if (!close) return;
    this.open = true;
    this.environment.defer(() => {
      this.open = false;
      this.barriers.push({ close, at: this.received });
      this.closePassed();
    });
  }

  private closePassed(): void {
    while (this.barriers[0] && this.barriers[0].at <= this.shown) this.barriers.shift()?.close();
  }
}

async function drain(chunks: AsyncIterator<unknown, undefined>): Promise<void> {
  try {
    while (!(await chunks.next()).done);
  } catch {
    // It has ended by an error that nobody asks for any more.
  }
}

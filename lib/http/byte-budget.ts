/** A byte budget that callers share fairly: for large requests and responses. */
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";

/** Bytes of a budget that are in use until `release`. */
export interface ByteReservation {
  /** Changes the size. Returns false, and changes nothing, if the larger size does not fit now. */
  resize(bytes: number): boolean;
  /** Gives the bytes back. A second call has no effect. */
  release(): void;
}

/** The end of the work for a client: it has disconnected, or its response has failed. */
export interface RequestLifetime {
  readonly isEnded: boolean;
  /** Calls `fn` once when the client disconnects. The result removes `fn`. */
  onEnd(fn: () => void): () => void;
}

interface ReserveOptions {
  readonly lifetime: RequestLifetime;
  /** Milliseconds until the wait is refused. Absent: without a limit. */
  readonly wait_ms?: number;
}

/** See `createByteBudget`. */
export interface ByteBudget {
  /** Takes bytes for a caller if they fit now, else returns null. */
  tryReserve(caller: string, bytes: number): ByteReservation | null;
  /**
   * Takes bytes for a caller, after those that it has waited for before; callers take turns. More than a caller's share counts as the
   * share. Throws `server_busy` after `wait_ms`, and `ClientGone` when the client has disconnected.
   */
  reserve(caller: string, bytes: number, options: ReserveOptions): Promise<ByteReservation>;
  /** Takes bytes at once, also beyond the limits. Later calls of the caller wait until it is within its share again. */
  forceReserve(caller: string, bytes: number): ByteReservation;
}

/** Thrown in work for a client that has disconnected. It receives no response. */
export class ClientDisconnectedError extends Error {
  override readonly name = "ClientGone";
}

interface Waiter {
  readonly bytes: number;
  grant(): void;
}

interface CallerUse {
  used: number;
  readonly waiters: Waiter[];
}

const busyError = (): ServiceError =>
  new ServiceError(
    "server_busy",
    "Large requests and responses of this caller use all memory that one caller may use: read or close the open ones, and retry later",
  );

interface ByteBudgetOptions {
  readonly total: number;
  /** The largest part that one caller may use. */
  readonly share: number;
  onRelease?(bytes: number): void;
}

/** Creates a budget of `total` bytes, of which one caller uses at most `share`. */
export function createByteBudget(environment: Pick<Environment, "timer">, options: ByteBudgetOptions): ByteBudget {
  return new FairBudget(environment, options);
}

class FairBudget implements ByteBudget {
  readonly #environment: Pick<Environment, "timer">;
  readonly #options: ByteBudgetOptions;
  /** In the order of their turns. */
  readonly #callers = new Map<string, CallerUse>();
  #used = 0;

  constructor(environment: Pick<Environment, "timer">, options: ByteBudgetOptions) {
    this.#environment = environment;
    this.#options = options;
  }

  tryReserve(caller: string, size: number): ByteReservation | null {
    const { total, share } = this.#options;
    const bytes = Math.min(size, share);
    const use = this.#callers.get(caller);
    if (use && (use.waiters.length > 0 || use.used + bytes > share)) return null;
    return this.#used + bytes > total || this.#isFull() ? null : this.forceReserve(caller, bytes);
  }

  forceReserve(caller: string, first: number): ByteReservation {
    const { total, share, onRelease } = this.#options;
    const use = this.#entryOf(caller);
    let bytes = 0;
    let isReleased = false;
    const change = (by: number): void => {
      bytes += by;
      use.used += by;
      this.#used += by;
    };
    change(first);
    return {
      resize: (size) => {
        const by = Math.min(size, share) - bytes;
        if (isReleased || (by > 0 && (use.used + by > share || this.#used + by > total))) return false;
        change(by);
        if (by < 0) this.#admit();
        return true;
      },
      release: () => {
        if (isReleased) return;
        isReleased = true;
        onRelease?.(bytes);
        change(-bytes);
        this.#forget(caller, use);
        this.#admit();
      },
    };
  }

  async reserve(caller: string, size: number, options: ReserveOptions): Promise<ByteReservation> {
    if (options.lifetime.isEnded) throw new ClientDisconnectedError();
    return this.tryReserve(caller, size) ?? (await this.#wait(caller, Math.min(size, this.#options.share), options));
  }

  #wait(caller: string, bytes: number, { lifetime, wait_ms }: ReserveOptions): Promise<ByteReservation> {
    return new Promise((resolve, reject) => {
      const use = this.#entryOf(caller);
      const { waiters } = use;
      const stops: (() => void)[] = [];
      const stop = (): void => {
        for (const end of stops) end();
      };
      const waiter: Waiter = {
        bytes,
        grant: () => {
          stop();
          resolve(this.forceReserve(caller, bytes));
        },
      };
      const refuse = (error: Error): void => {
        stop();
        waiters.splice(waiters.indexOf(waiter), 1);
        this.#forget(caller, use);
        reject(error);
        this.#admit();
      };
      waiters.push(waiter);
      stops.push(lifetime.onEnd(() => refuse(new ClientDisconnectedError())));
      if (wait_ms !== undefined) stops.push(this.#environment.timer(wait_ms, () => refuse(busyError())));
    });
  }

  #entryOf(caller: string): CallerUse {
    const use = this.#callers.get(caller) ?? { used: 0, waiters: [] };
    this.#callers.set(caller, use);
    return use;
  }

  #forget(caller: string, use: CallerUse): void {
    if (use.used === 0 && use.waiters.length === 0) this.#callers.delete(caller);
  }

  /** Returns true if a caller that is within its share waits for others to release theirs. */
  #isFull(): boolean {
    const { share } = this.#options;
    return [...this.#callers.values()].some(
      ({ used, waiters: [next] }) => next !== undefined && used + next.bytes <= share,
    );
  }

  /** Grants what fits. Nothing overtakes a caller that is within its share and waits for others to release theirs. */
  #admit(): void {
    const { total, share } = this.#options;
    for (let isGranted = true; isGranted; ) {
      isGranted = false;
      for (const [caller, use] of this.#callers) {
        const [next] = use.waiters;
        if (!next || use.used + next.bytes > share) continue;
        if (this.#used + next.bytes > total) return;
        use.waiters.shift();
        // Its next turn comes after those of all others.
        this.#callers.delete(caller);
        this.#callers.set(caller, use);
        next.grant();
        isGranted = true;
        break;
      }
    }
  }
}

/** A byte budget for large requests and responses, which callers share fairly. */
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";

/** Bytes of a budget that are reserved until `release`. */
export interface ByteReservation {
  /** Changes the size. Returns false, and changes nothing, if the larger size does not fit now. */
  resize(bytes: number): boolean;
  /** Returns the bytes to the budget. A second call has no effect. */
  release(): void;
}

/** The lifetime of the work for one client. It ends when the client disconnects or its response ends. */
export interface RequestLifetime {
  readonly isEnded: boolean;
  /** Calls `listener` once at the end. The returned function removes the listener. */
  onEnd(listener: () => void): () => void;
}

interface ReserveOptions {
  readonly lifetime: RequestLifetime;
  /** Milliseconds until the wait is refused. Default: no limit. */
  readonly wait_ms?: number;
}

/** See `createByteBudget`. */
export interface ByteBudget {
  /** Reserves bytes for a caller. Returns null if they do not fit now. */
  tryReserve(caller: string, bytes: number): ByteReservation | null;
  /**
   * Reserves bytes for a caller when they fit. Callers take turns, each in the order of its calls. More than the share of a caller
   * counts as the share. Throws `server_busy` after `wait_ms`, and `ClientDisconnectedError` when the client has disconnected.
   */
  reserve(caller: string, bytes: number, options: ReserveOptions): Promise<ByteReservation>;
  /** Reserves bytes at once, even beyond the limits. Later calls of the caller wait until it is within its share again. */
  forceReserve(caller: string, bytes: number): ByteReservation;
}

/** Thrown in work for a client that has disconnected. It receives no response. */
export class ClientDisconnectedError extends Error {
  override readonly name = "ClientDisconnectedError";
}

interface Waiter {
  readonly bytes: number;
  grant(): void;
}

interface CallerUsage {
  usedBytes: number;
  readonly waiters: Waiter[];
}

const busyError = (): ServiceError =>
  new ServiceError(
    "server_busy",
    "Large requests and responses of this caller use all memory that one caller may use: read or close the open ones, and retry later",
  );

interface ByteBudgetOptions {
  readonly total: number;
  /** The maximum number of bytes of one caller. */
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
  /** The callers in the order of their turns. */
  readonly #callers = new Map<string, CallerUsage>();
  #usedBytes = 0;

  constructor(environment: Pick<Environment, "timer">, options: ByteBudgetOptions) {
    this.#environment = environment;
    this.#options = options;
  }

  /** Reserves bytes, at most a caller's share, if they fit now and no caller with priority waits. Returns null otherwise. */
  tryReserve(caller: string, requestedBytes: number): ByteReservation | null {
    const { total, share } = this.#options;
    const bytes = Math.min(requestedBytes, share);
    const usage = this.#callers.get(caller);
    if (usage && (usage.waiters.length > 0 || usage.usedBytes + bytes > share)) return null;
    return this.#usedBytes + bytes > total || this.#hasPriorityWaiter() ? null : this.forceReserve(caller, bytes);
  }

  /**
   * Reserves bytes even if they do not fit. Releasing or shrinking them lets waiting callers continue; growing fails if it does
   * not fit.
   */
  forceReserve(caller: string, initialBytes: number): ByteReservation {
    const { total, share, onRelease } = this.#options;
    const usage = this.#getUsage(caller);
    let bytes = 0;
    let isReleased = false;
    const addBytes = (difference: number): void => {
      bytes += difference;
      usage.usedBytes += difference;
      this.#usedBytes += difference;
    };
    addBytes(initialBytes);
    return {
      resize: (requestedBytes) => {
        const difference = Math.min(requestedBytes, share) - bytes;
        if (
          isReleased ||
          (difference > 0 && (usage.usedBytes + difference > share || this.#usedBytes + difference > total))
        )
          return false;
        addBytes(difference);
        if (difference < 0) this.#grantWaiting();
        return true;
      },
      release: () => {
        if (isReleased) return;
        isReleased = true;
        onRelease?.(bytes);
        addBytes(-bytes);
        this.#deleteIfUnused(caller, usage);
        this.#grantWaiting();
      },
    };
  }

  /**
   * Reserves bytes, and waits until they fit. Throws `server_busy` after `wait_ms` and `ClientDisconnectedError` if the client is
   * gone.
   */
  async reserve(caller: string, requestedBytes: number, options: ReserveOptions): Promise<ByteReservation> {
    if (options.lifetime.isEnded) throw new ClientDisconnectedError();
    return (
      this.tryReserve(caller, requestedBytes) ??
      (await this.#wait(caller, Math.min(requestedBytes, this.#options.share), options))
    );
  }

  /** Waits in the queue of the caller. Rejects as `reserve` and lets others continue then. */
  #wait(caller: string, bytes: number, { lifetime, wait_ms }: ReserveOptions): Promise<ByteReservation> {
    return new Promise((resolve, reject) => {
      const usage = this.#getUsage(caller);
      const { waiters } = usage;
      const cancellations: (() => void)[] = [];
      const cancelWaiting = (): void => {
        for (const cancel of cancellations) cancel();
      };
      const waiter: Waiter = {
        bytes,
        grant: () => {
          cancelWaiting();
          resolve(this.forceReserve(caller, bytes));
        },
      };
      const rejectWaiter = (error: Error): void => {
        cancelWaiting();
        waiters.splice(waiters.indexOf(waiter), 1);
        this.#deleteIfUnused(caller, usage);
        reject(error);
        this.#grantWaiting();
      };
      waiters.push(waiter);
      cancellations.push(lifetime.onEnd(() => rejectWaiter(new ClientDisconnectedError())));
      if (wait_ms !== undefined) cancellations.push(this.#environment.timer(wait_ms, () => rejectWaiter(busyError())));
    });
  }

  /** Returns the usage of a caller. Adds an empty one for a new caller. */
  #getUsage(caller: string): CallerUsage {
    const usage = this.#callers.get(caller) ?? { usedBytes: 0, waiters: [] };
    this.#callers.set(caller, usage);
    return usage;
  }

  #deleteIfUnused(caller: string, usage: CallerUsage): void {
    if (usage.usedBytes === 0 && usage.waiters.length === 0) this.#callers.delete(caller);
  }

  /** Returns true if a caller that is within its share waits for others to release theirs. */
  #hasPriorityWaiter(): boolean {
    const { share } = this.#options;
    return [...this.#callers.values()].some(
      ({ usedBytes, waiters: [nextWaiter] }) => nextWaiter !== undefined && usedBytes + nextWaiter.bytes <= share,
    );
  }

  /** Grants the waiting reservations that fit. No other caller overtakes one that is within its share and waits for released bytes. */
  #grantWaiting(): void {
    const { total, share } = this.#options;
    for (let isGranted = true; isGranted; ) {
      isGranted = false;
      for (const [caller, usage] of this.#callers) {
        const [nextWaiter] = usage.waiters;
        if (!nextWaiter || usage.usedBytes + nextWaiter.bytes > share) continue;
        if (this.#usedBytes + nextWaiter.bytes > total) return;
        usage.waiters.shift();
        // The next turn of this caller comes after the turns of all others.
        this.#callers.delete(caller);
        this.#callers.set(caller, usage);
        nextWaiter.grant();
        isGranted = true;
        break;
      }
    }
  }
}

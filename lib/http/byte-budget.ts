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

  /**
   * Reserves bytes; a number above the share of a caller is reduced to the share. Returns null if they do not fit into
   * the share or the total, if this caller already waits, or if another caller that is within its share waits.
   */
  tryReserve(caller: string, requestedBytes: number): ByteReservation | null {
    const { total, share } = this.#options;
    const bytes = Math.min(requestedBytes, share);
    const usage = this.#callers.get(caller);
    if (usage && (usage.waiters.length > 0 || usage.usedBytes + bytes > share)) return null;
    return this.#usedBytes + bytes > total || this.#hasPriorityWaiter() ? null : this.forceReserve(caller, bytes);
  }

  /**
   * Reserves bytes without a check of share and total. `resize()` of the result reduces its argument to the share, and
   * returns false if a growth does not fit or the bytes are released. `release()` acts once and calls `onRelease`.
   * Releasing and shrinking grant waiting reservations.
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
   * Reserves bytes, at most a share, now or after a wait in the queue of the caller. Rejects with `server_busy` after
   * `wait_ms` (never, if that is undefined), and with `ClientDisconnectedError` when the lifetime ends or if it has
   * ended.
   */
  async reserve(caller: string, requestedBytes: number, options: ReserveOptions): Promise<ByteReservation> {
    if (options.lifetime.isEnded) throw new ClientDisconnectedError();
    return (
      this.tryReserve(caller, requestedBytes) ??
      (await this.#wait(caller, Math.min(requestedBytes, this.#options.share), options))
    );
  }

  /**
   * Appends a waiter to the queue of the caller. Resolves when `#grantWaiting` reserves its bytes. Rejects with
   * `server_busy` after `wait_ms` and with `ClientDisconnectedError` at the end of the lifetime; the waiter then leaves
   * the queue, and others are granted.
   */
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
      /** Rejects the reservation, removes its waiter from the queue, and grants others that fit now. */
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

  /**
   * Returns true if the first waiter of any caller fits into the share of this caller, so that it waits only for bytes
   * of others.
   */
  #hasPriorityWaiter(): boolean {
    const { share } = this.#options;
    return [...this.#callers.values()].some(
      ({ usedBytes, waiters: [nextWaiter] }) => nextWaiter !== undefined && usedBytes + nextWaiter.bytes <= share,
    );
  }

  /**
   * Grants the first waiter of each caller in turn, as long as they fit. Skips a waiter that exceeds the share of its
   * caller. Stops at one that is within its share and does not fit the total, so that no smaller one overtakes it.
   * Moves a caller behind all others after each grant.
   */
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

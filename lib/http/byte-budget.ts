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
  onEnd(listener: () => void): () => void;
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
  readonly #callers = new Map<string, CallerUsage>();
  #usedBytes = 0;

  constructor(environment: Pick<Environment, "timer">, options: ByteBudgetOptions) {
    this.#environment = environment;
    this.#options = options;
  }

  tryReserve(caller: string, requestedBytes: number): ByteReservation | null {
    const { total, share } = this.#options;
    const bytes = Math.min(requestedBytes, share);
    const usage = this.#callers.get(caller);
    if (usage && (usage.waiters.length > 0 || usage.usedBytes + bytes > share)) return null;
    return this.#usedBytes + bytes > total || this.#hasPriorityWaiter() ? null : this.forceReserve(caller, bytes);
  }

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

  async reserve(caller: string, requestedBytes: number, options: ReserveOptions): Promise<ByteReservation> {
    if (options.lifetime.isEnded) throw new ClientDisconnectedError();
    return (
      this.tryReserve(caller, requestedBytes) ??
      (await this.#wait(caller, Math.min(requestedBytes, this.#options.share), options))
    );
  }

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

  /** Grants what fits. Nothing overtakes a caller that is within its share and waits for others to release theirs. */
  #grantWaiting(): void {
    const { total, share } = this.#options;
    for (let isGranted = true; isGranted; ) {
      isGranted = false;
      for (const [caller, usage] of this.#callers) {
        const [nextWaiter] = usage.waiters;
        if (!nextWaiter || usage.usedBytes + nextWaiter.bytes > share) continue;
        if (this.#usedBytes + nextWaiter.bytes > total) return;
        usage.waiters.shift();
        // Its next turn comes after those of all others.
        this.#callers.delete(caller);
        this.#callers.set(caller, usage);
        nextWaiter.grant();
        isGranted = true;
        break;
      }
    }
  }
}

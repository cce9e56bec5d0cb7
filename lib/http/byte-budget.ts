/** A byte budget that callers share fairly: for large requests and responses. */
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";

/** Bytes of a budget that are in use until `release`. */
export interface ByteHold {
  /** Changes the size. Returns false, and changes nothing, if the larger size does not fit now. */
  resize(bytes: number): boolean;
  /** Gives the bytes back. A second call has no effect. */
  release(): void;
}

/** The end of the work for a client: it has disconnected, or its response has failed. */
export interface Departure {
  readonly isGone: boolean;
  /** Calls `fn` once when the client disconnects. The result removes `fn`. */
  onGone(fn: () => void): () => void;
}

interface TakeOptions {
  readonly departure: Departure;
  /** Milliseconds until the wait is refused. Absent: without a limit. */
  readonly wait_ms?: number;
}

/** See `createByteBudget`. */
export interface ByteBudget {
  /** Takes bytes for a caller if they fit now, else returns null. */
  tryTake(caller: string, bytes: number): ByteHold | null;
  /**
   * Takes bytes for a caller, after those that it has waited for before; callers take turns. More than a caller's share counts as the
   * share. Throws `server_busy` after `wait_ms`, and `ClientGone` when the client has disconnected.
   */
  take(caller: string, bytes: number, options: TakeOptions): Promise<ByteHold>;
  /** Takes bytes at once, also beyond the limits. Later calls of the caller wait until it is within its share again. */
  force(caller: string, bytes: number): ByteHold;
}

/** Thrown in work for a client that has disconnected. It receives no response. */
export class ClientGone extends Error {
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
export function createByteBudget(
  environment: Pick<Environment, "timer">,
  { total, share, onRelease = () => {} }: ByteBudgetOptions,
): ByteBudget {
  // In the order of their turns.
  const callers = new Map<string, CallerUse>();
  let used = 0;

  function getUse(caller: string): CallerUse {
    const known = callers.get(caller) ?? { used: 0, waiters: [] };
    callers.set(caller, known);
    return known;
  }

  function hold(caller: string, first: number): ByteHold {
    const use = getUse(caller);
    let bytes = 0;
    let isReleased = false;
    const change = (by: number): void => {
      bytes += by;
      use.used += by;
      used += by;
    };
    change(first);
    return {
      resize(size) {
        const by = Math.min(size, share) - bytes;
        if (isReleased || (by > 0 && (use.used + by > share || used + by > total))) return false;
        change(by);
        if (by < 0) admit();
        return true;
      },
      release() {
        if (isReleased) return;
        isReleased = true;
        onRelease(bytes);
        change(-bytes);
        forget(caller, use);
        admit();
      },
    };
  }

  function forget(caller: string, use: CallerUse): void {
    if (use.used === 0 && use.waiters.length === 0) callers.delete(caller);
  }

  /** Returns true if a caller that is within its share waits for others to release theirs. */
  const isFull = (): boolean =>
    [...callers.values()].some(({ used, waiters: [next] }) => next !== undefined && used + next.bytes <= share);

  /** Grants what fits. Nothing overtakes a caller that is within its share and waits for others to release theirs. */
  function admit(): void {
    for (let isGranted = true; isGranted; ) {
      isGranted = false;
      for (const [caller, use] of callers) {
        const [next] = use.waiters;
        if (!next || use.used + next.bytes > share) continue;
        if (used + next.bytes > total) return;
        use.waiters.shift();
        // Its next turn comes after those of all others.
        callers.delete(caller);
        callers.set(caller, use);
        next.grant();
        isGranted = true;
        break;
      }
    }
  }

  function tryTake(caller: string, size: number): ByteHold | null {
    const bytes = Math.min(size, share);
    const use = callers.get(caller);
    if (use && (use.waiters.length > 0 || use.used + bytes > share)) return null;
    return used + bytes > total || isFull() ? null : hold(caller, bytes);
  }

  return {
    tryTake,
    force: hold,
    async take(caller, size, { departure, wait_ms }) {
      if (departure.isGone) throw new ClientGone();
      const known = tryTake(caller, size);
      if (known) return known;
      const bytes = Math.min(size, share);
      return await new Promise((resolve, reject) => {
        const use = getUse(caller);
        const { waiters } = use;
        const stops: (() => void)[] = [];
        const stop = (): void => {
          for (const end of stops) end();
        };
        const waiter: Waiter = {
          bytes,
          grant() {
            stop();
            resolve(hold(caller, bytes));
          },
        };
        const refuse = (error: Error): void => {
          stop();
          waiters.splice(waiters.indexOf(waiter), 1);
          forget(caller, use);
          reject(error);
          admit();
        };
        waiters.push(waiter);
        stops.push(departure.onGone(() => refuse(new ClientGone())));
        if (wait_ms !== undefined) stops.push(environment.timer(wait_ms, () => refuse(busyError())));
      });
    },
  };
}

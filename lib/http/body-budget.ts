/** Limits the memory for large requests and responses. Each reserves its size in a byte budget of the handler. */
import { type Environment, waitForNextTick } from "../environment.ts";
import type { LargeBodyOptions } from "../options/http.ts";
import { type ByteBudget, type ByteReservation, createByteBudget } from "./byte-budget.ts";
import { createMemoryHint } from "./memory-hint.ts";
import { LARGE_BYTES } from "./respond.ts";

const DEFAULT_BUDGET_BYTES = 64 * 1024 * 1024;
const DEFAULT_CALLER_SHARE = 0.25;
const DEFAULT_WAIT_MS = 10_000;
const DEFAULT_STALLED_MS = 15_000;

/** The maximum number of concurrent reads of unknown size, and of reads that were small. One caller may use a quarter. */
const MAX_UNMEASURED = 16;
const MAX_SMALL = 32;
/** The event loop ticks after reads have taken this many milliseconds. */
const MAX_BUSY_MS = 8;
/** The maximum number of reads whose size is cached, and the maximum length of their names. */
const MAX_MEASURED = 5_000;
const MAX_NAME_CHARS = 500;

/** The sizes of the last responses of reads, by the name of the read. */
class ResponseSizes {
  readonly #sizes = new Map<string, number>();

  /** Returns the size in characters, or 0 if it is unknown. */
  get(name: string): number {
    return this.#sizes.get(name) ?? 0;
  }

  has(name: string): boolean {
    return this.#sizes.has(name);
  }

  isLarge(name: string): boolean {
    return this.get(name) > LARGE_BYTES;
  }

  /**
   * Records the size of a read as the newest record, and drops the oldest record above `MAX_MEASURED`. Ignores names
   * longer than `MAX_NAME_CHARS`. An unchanged size changes nothing, not even the age of the record.
   */
  set(name: string, size: number): void {
    if (name.length > MAX_NAME_CHARS || this.#sizes.get(name) === size) return;
    this.#sizes.delete(name);
    this.#sizes.set(name, size);
    if (this.#sizes.size > MAX_MEASURED) this.#sizes.delete(this.#sizes.keys().next().value as string);
  }
}

/** The reservation of one response in bytes that several responses share. */
export type SharedReservation = Pick<ByteReservation, "release">;

/** The reservations for texts that several responses share. The first response reserves the bytes, the last one releases them. */
class SharedReservations {
  readonly #entries = new WeakMap<object, { readonly bytes: ByteReservation; userCount: number }>();

  /**
   * Adds a response to those that share the reservation of a text. Returns its share, whose `release()` acts once; the
   * last one releases the bytes. Returns null and changes nothing if no response shares the text: then reserve bytes
   * and call `add`.
   */
  join(text: object): SharedReservation | null {
    const entry = this.#entries.get(text);
    if (!entry) return null;
    entry.userCount++;
    let isReleased = false;
    return {
      release: () => {
        if (isReleased) return;
        isReleased = true;
        if (--entry.userCount > 0) return;
        this.#entries.delete(text);
        entry.bytes.release();
      },
    };
  }

  /**
   * Stores `bytes` as the shared reservation of a text, or releases `bytes` if the text has one already. Then joins it,
   * and returns the share of this response.
   */
  add(text: object, bytes: ByteReservation): SharedReservation {
    if (this.#entries.has(text)) bytes.release();
    else this.#entries.set(text, { bytes, userCount: 0 });
    return this.join(text) as SharedReservation;
  }
}

/** The budgets for large bodies of one handler. */
export interface BodyBudget {
  readonly environment: Pick<Environment, "timer">;
  /** Yields to the event loop if reads have used their time. `startedAt` is the start of the read that has ended. */
  yieldAfterRead(startedAt: number): Promise<void>;
  now(): number;
  readonly byteBudget: ByteBudget;
  /** The slots of reads that begin without reserved bytes. A response that was small may have become large. */
  readonly unmeasuredReads: ByteBudget;
  readonly smallReads: ByteBudget;
  readonly sharedReservations: SharedReservations;
  readonly responseSizes: ResponseSizes;
  readonly wait_ms: number;
  readonly stalled_ms: number;
}

/**
 * Creates the memory budgets that all requests of a handler share: bytes of large bodies, slots for reads of unknown
 * and of small size, sizes of earlier responses, and shared texts. A caller gets at most `caller_share` of the bytes
 * and a quarter of the slots. Released bytes may cause a garbage collection.
 */
export function createBodyBudget(
  environment: Pick<Environment, "timer" | "defer" | "now" | "monotonic" | "collectGarbage">,
  {
    budget_bytes = DEFAULT_BUDGET_BYTES,
    caller_share = DEFAULT_CALLER_SHARE,
    wait_ms = DEFAULT_WAIT_MS,
    stalled_ms = DEFAULT_STALLED_MS,
  }: LargeBodyOptions = {},
): BodyBudget {
  const now = environment.monotonic ?? environment.now;
  const onRelease = createMemoryHint(environment, now);
  const byteBudget = createByteBudget(environment, {
    total: budget_bytes,
    share: budget_bytes * caller_share,
    onRelease,
  });
  const unmeasuredReads = createByteBudget(environment, { total: MAX_UNMEASURED, share: MAX_UNMEASURED / 4 });
  const smallReads = createByteBudget(environment, { total: MAX_SMALL, share: MAX_SMALL / 4 });
  let busy_ms = 0;
  // An embedded database responds in the same tick: without yielding, many reads would block all other work.
  /**
   * Adds the milliseconds since `startedAt` to a sum over all requests. Once the sum reaches `MAX_BUSY_MS`, resets it
   * and resolves in the next tick. Otherwise resolves at once.
   */
  async function yieldAfterRead(startedAt: number): Promise<void> {
    busy_ms += Math.max(0, now() - startedAt);
    if (busy_ms < MAX_BUSY_MS) return;
    busy_ms = 0;
    await waitForNextTick(environment);
  }
  const sharedReservations = new SharedReservations();
  const responseSizes = new ResponseSizes();
  return {
    environment,
    yieldAfterRead,
    now,
    byteBudget,
    unmeasuredReads,
    smallReads,
    sharedReservations,
    responseSizes,
    wait_ms,
    stalled_ms,
  };
}

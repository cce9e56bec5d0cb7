/** Large requests and responses: each takes its size from a byte budget of the server before it is in memory for long. */
import { type Environment, waitForNextTick } from "../environment.ts";
import type { LargeBodyOptions } from "../options/http.ts";
import { type ByteBudget, type ByteReservation, createByteBudget } from "./byte-budget.ts";
import { createMemoryHint } from "./memory-hint.ts";
import { LARGE_BYTES } from "./respond.ts";

const DEFAULT_BUDGET_BYTES = 64 * 1024 * 1024;
const DEFAULT_CALLER_SHARE = 0.25;
const DEFAULT_WAIT_MS = 10_000;
const DEFAULT_STALLED_MS = 15_000;

/** The number of reads at the same time whose size is unknown, and of those that were small; of one caller a quarter. */
const MAX_UNMEASURED = 16;
const MAX_SMALL = 32;
/** The event loop ticks after reads have taken so many milliseconds. */
const MAX_BUSY_MS = 8;
/** The number of reads whose size is remembered, and the longest name of one. */
const MAX_MEASURED = 5_000;
const MAX_NAME_CHARS = 500;

/** The sizes of the last responses of reads, by the names of the reads. */
class ResponseSizes {
  readonly #sizes = new Map<string, number>();

  /** 0 for a read whose size is unknown. */
  get(name: string): number {
    return this.#sizes.get(name) ?? 0;
  }

  has(name: string): boolean {
    return this.#sizes.has(name);
  }

  isLarge(name: string): boolean {
    return this.get(name) > LARGE_BYTES;
  }

  set(name: string, size: number): void {
    if (name.length > MAX_NAME_CHARS || this.#sizes.get(name) === size) return;
    this.#sizes.delete(name);
    this.#sizes.set(name, size);
    if (this.#sizes.size > MAX_MEASURED) this.#sizes.delete(this.#sizes.keys().next().value as string);
  }
}

/** The part of one response in bytes that several responses share. */
export type SharedReservation = Pick<ByteReservation, "release">;

/** The bytes of texts that several responses share. The first of them takes the bytes for all, the last gives them back. */
class SharedReservations {
  readonly #entries = new WeakMap<object, { readonly bytes: ByteReservation; userCount: number }>();

  /** Adds a response to those that share the text. Null if there are none: their bytes have to be taken first. */
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

  /** Shares the bytes of a text from now on, or gives them back if other responses share the text already. */
  add(text: object, bytes: ByteReservation): SharedReservation {
    if (this.#entries.has(text)) bytes.release();
    else this.#entries.set(text, { bytes, userCount: 0 });
    return this.join(text) as SharedReservation;
  }
}

/** The large bodies of one server. */
export interface BodyBudget {
  readonly environment: Pick<Environment, "timer">;
  /** Resolves after a read that began at `from`, perhaps in the next tick of the event loop. */
  yieldAfterRead(startedAt: number): Promise<void>;
  now(): number;
  readonly byteBudget: ByteBudget;
  /** Slots of reads that begin without bytes. A small state may have become large. */
  readonly unmeasuredReads: ByteBudget;
  readonly smallReads: ByteBudget;
  readonly sharedReservations: SharedReservations;
  readonly responseSizes: ResponseSizes;
  readonly wait_ms: number;
  readonly stalled_ms: number;
}

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
  // An embedded database answers at once: without ticks, nothing else would be done between many reads.
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

/** Large requests and responses: each takes its size from a byte budget of the server before it is in memory for long. */
import { type Environment, loopTick } from "../environment.ts";
import type { LargeBodyOptions } from "../options/http.ts";
import { type ByteBudget, type ByteHold, createByteBudget } from "./byte-budget.ts";

const DEFAULT_BUDGET_BYTES = 64 * 1024 * 1024;
const DEFAULT_CALLER_SHARE = 0.25;
const DEFAULT_WAIT_MS = 10_000;
const DEFAULT_STALLED_MS = 15_000;

/** The number of reads at the same time whose size is unknown, and of those that were small; of one caller a quarter. */
const MAX_UNMEASURED = 16;
const MAX_SMALL = 32;
/** The event loop ticks after reads have taken so many milliseconds. */
const MAX_BUSY_MS = 8;

export interface SharedHold {
  readonly bytes: ByteHold;
  users: number;
}

/** The large bodies of one server. */
export interface LargeBodies {
  readonly environment: Pick<Environment, "timer">;
  /** Resolves after a read that began at `from`, perhaps in the next tick of the event loop. */
  rest(from: number): Promise<void>;
  now(): number;
  readonly budget: ByteBudget;
  /** Slots of reads that begin without bytes. A small state may have become large. */
  readonly unmeasured: ByteBudget;
  readonly small: ByteBudget;
  /** The bytes of texts that several responses share, by their text. */
  readonly shared: WeakMap<object, SharedHold>;
  /** The size of the last response of a read by its name. */
  readonly sizes: Map<string, number>;
  readonly wait_ms: number;
  readonly stalled_ms: number;
}

export function createLargeBodies(
  environment: Pick<Environment, "timer" | "defer" | "now" | "monotonic">,
  {
    budget_bytes = DEFAULT_BUDGET_BYTES,
    caller_share = DEFAULT_CALLER_SHARE,
    wait_ms = DEFAULT_WAIT_MS,
    stalled_ms = DEFAULT_STALLED_MS,
  }: LargeBodyOptions = {},
): LargeBodies {
  const budget = createByteBudget(environment, { total: budget_bytes, share: budget_bytes * caller_share });
  const unmeasured = createByteBudget(environment, { total: MAX_UNMEASURED, share: MAX_UNMEASURED / 4 });
  const small = createByteBudget(environment, { total: MAX_SMALL, share: MAX_SMALL / 4 });
  const shared = new WeakMap<object, SharedHold>();
  const now = environment.monotonic ?? environment.now;
  let busy_ms = 0;
  // An embedded database answers at once: without ticks, nothing else would be done between many reads.
  async function rest(from: number): Promise<void> {
    busy_ms += Math.max(0, now() - from);
    if (busy_ms < MAX_BUSY_MS) return;
    busy_ms = 0;
    await loopTick(environment);
  }
  return { environment, rest, now, budget, unmeasured, small, shared, sizes: new Map(), wait_ms, stalled_ms };
}

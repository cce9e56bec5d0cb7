/** The public form of a thread, made from its row and state. */
import { ServiceError } from "../errors.ts";
import type { ThreadState } from "../executor/contract.ts";
import type { Json, JsonObject } from "../json.ts";
import { isoTime } from "../rfc3339.ts";
import type { PruneStrategy, ThreadRow, ThreadStatus, ThreadTtl } from "../storage/mod.ts";

/** A thread as the API shows it; times are ISO 8601, UTC. */
export interface Thread {
  readonly thread_id: string;
  readonly created_at: string;
  readonly updated_at: string;
  readonly state_updated_at: string;
  readonly metadata: JsonObject;
  readonly status: ThreadStatus;
  readonly config: JsonObject;
  /** Null before the first run. */
  readonly values: Json;
  /** Task id → pending interrupts. */
  readonly interrupts: JsonObject;
  /** `{error, message}` while status is `error`. */
  readonly error: Json;
  /** Only with `include: ["ttl"]`; null for a thread that never expires. */
  readonly ttl?: ShownTtl | null;
  /** The values of a search's `extract`: alias → value. */
  readonly extracted?: JsonObject;
}

/** How long a thread lives after its last activity. */
export interface TimeToLive {
  /** In minutes; fractions are allowed. */
  readonly ttl: number;
  /** `delete` (the default) deletes the thread; `keep_latest` deletes all checkpoints except the newest state. */
  readonly strategy?: PruneStrategy;
}

export interface ShownTtl {
  readonly strategy: PruneStrategy;
  readonly ttl_minutes: number;
  readonly expires_at: string;
}

const MINUTE_MS = 60_000;
/** A hundred years, in minutes: all databases and clients can represent the resulting time. */
export const LONGEST_TTL = 52_560_000;

/** Checks a time to live and converts it to milliseconds. Errors: invalid. */
export function storedTtl({ ttl, strategy = "delete" }: TimeToLive): ThreadTtl {
  if (!(ttl > 0 && ttl <= LONGEST_TTL)) {
    throw new ServiceError("invalid", `ttl: must be a number of minutes above 0, at most ${LONGEST_TTL}`);
  }
  return { strategy, ttl_ms: Math.max(1, Math.round(ttl * MINUTE_MS)) };
}

const shownTtl = (ttl: ThreadRow["ttl"]): ShownTtl | null =>
  ttl && {
    strategy: ttl.strategy,
    ttl_minutes: ttl.ttl_ms / MINUTE_MS,
    expires_at: isoTime(ttl.expires_at),
  };

/** Parts of a thread that are returned only when `include` names them. */
export type Extra = "ttl";

/** The thread with the values and interrupts of its newest state. */
export function withState(row: ThreadRow, state: ThreadState | null, include?: readonly Extra[]): Thread {
  const tasks = state?.tasks.filter((task) => task.interrupts.length > 0) ?? [];
  const pending = Object.fromEntries(tasks.map((task) => [task.id, task.interrupts as unknown as Json]));
  const interrupts = row.running === null ? row.interrupts : pending;
  return { ...withoutState(row, include), interrupts, values: state?.values ?? null };
}

/** The thread without its state; `interrupts` are those of the last ended run. */
export function withoutState(row: ThreadRow, include: readonly Extra[] = []): Omit<Thread, "values"> {
  return {
    thread_id: row.thread_id,
    created_at: isoTime(row.created_at),
    updated_at: isoTime(row.updated_at),
    state_updated_at: isoTime(row.state_updated_at),
    metadata: row.metadata,
    status: row.status,
    config: row.config,
    interrupts: row.interrupts,
    error: row.error,
    ...(include.includes("ttl") ? { ttl: shownTtl(row.ttl) } : {}),
  };
}

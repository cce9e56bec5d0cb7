/** A thread as callers see it. */
import { ServiceError } from "../errors.ts";
import type { ThreadState } from "../executor/contract.ts";
import type { Json, JsonObject } from "../json.ts";
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
  /** Only where it was asked for; null for a thread that stays. */
  readonly ttl?: ShownTtl | null;
  /** What a search was asked to take out of it: alias → value. */
  readonly extracted?: JsonObject;
}

/** How long a thread lasts after the last thing that happened on it. */
export interface TimeToLive {
  /** In minutes; fractions count. */
  readonly ttl: number;
  /** `delete` (the default): the thread goes. `keep_latest`: all its checkpoints but the newest state go. */
  readonly strategy?: PruneStrategy;
}

export interface ShownTtl {
  readonly strategy: PruneStrategy;
  readonly ttl_minutes: number;
  readonly expires_at: string;
}

const MINUTE_MS = 60_000;
/** A hundred years, in minutes: every time before that is one that all databases and clients can write. */
export const LONGEST_TTL = 52_560_000;

/** Errors: invalid. */
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
    expires_at: new Date(ttl.expires_at).toISOString(),
  };

/** Parts of a thread that are shown only where they are asked for. */
export type Extra = "ttl";

/** With the values and questions of its newest state: the row has those that the last run has left. */
export function withState(row: ThreadRow, state: ThreadState | null, include?: readonly Extra[]): Thread {
  const asking = state?.tasks.filter((task) => task.interrupts.length > 0) ?? [];
  const asked = Object.fromEntries(asking.map((task) => [task.id, task.interrupts as unknown as Json]));
  const interrupts = row.running === null ? row.interrupts : asked;
  return { ...withoutState(row, include), interrupts, values: state?.values ?? null };
}

/** `interrupts` as the last run has left them. */
export function withoutState(row: ThreadRow, include: readonly Extra[] = []): Omit<Thread, "values"> {
  return {
    thread_id: row.thread_id,
    created_at: new Date(row.created_at).toISOString(),
    updated_at: new Date(row.updated_at).toISOString(),
    state_updated_at: new Date(row.state_updated_at).toISOString(),
    metadata: row.metadata,
    status: row.status,
    config: row.config,
    interrupts: row.interrupts,
    error: row.error,
    ...(include.includes("ttl") ? { ttl: shownTtl(row.ttl) } : {}),
  };
}

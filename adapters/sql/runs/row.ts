/** The rows of runs as the storage returns them. */
import type { Json, JsonObject } from "../../../lib/json.ts";
import type {
  ClaimedRun,
  Lease,
  MultitaskStrategy,
  RunHeader,
  RunRow,
  RunStatus,
  TraceOrigin,
} from "../../../lib/storage/mod.ts";
import { decodeJson, encodeJson } from "../columns.ts";
import type { CoreTables } from "../schema/tables.ts";
import type { HEADER_COLUMNS } from "../statements/runs-search.ts";
import { toThread } from "../threads.ts";

/** The error of a run with its stack, which leaves the database by `RunRow.stack` alone. */
export const encodeError = (error: JsonObject | null, stack: string | undefined): string | null =>
  encodeJson(error && stack !== undefined ? { ...error, stack } : error);

/** Returns the stored error, null without one, and its stack as a member of its own, which is absent if none is stored. */
function decodeError(stored: string | null): Pick<RunRow, "error" | "stack"> {
  if (stored === null) return { error: null };
  const { stack, ...error } = JSON.parse(stored) as JsonObject;
  return typeof stack === "string" ? { error, stack } : { error };
}

type StoredHead = Pick<CoreTables["runs"], (typeof HEADER_COLUMNS)[number]>;
type StoredRun = StoredHead &
  Pick<CoreTables["runs"], "result" | "feedback" | "auth_user"> & {
    /** No text where the run was made just now. */
    readonly kwargs: string | JsonObject;
  };

/** The columns of a run that a claim reads. */
export type StoredClaim = StoredRun &
  Pick<CoreTables["runs"], "lease_token" | "has_checkpoint" | "cancelled" | "counts_as_attempt"> & {
    readonly last_frame: number;
  };

/** Converts a row. `kwargs` is parsed when it is first needed, because the input of a run may be large. */
export function toRun(stored: StoredRun): RunRow {
  let { kwargs } = stored;
  return {
    ...toRunHead(stored),
    get kwargs() {
      if (typeof kwargs === "string") kwargs = JSON.parse(kwargs) as JsonObject;
      return kwargs;
    },
    result: decodeJson<Json>(stored.result),
    feedback: decodeJson<RunRow["feedback"]>(stored.feedback) ?? [],
    auth_user: decodeJson<JsonObject>(stored.auth_user),
  };
}

/**
 * Converts a row, without `kwargs`, result and user. `assistant_version`, `cron_id`, `cancel_reason`, `call_id` and
 * `waiting_for` are absent if they are null.
 */
export function toRunHead(stored: StoredHead): RunHeader {
  return {
    run_id: stored.run_id,
    thread_id: stored.thread_id,
    assistant_id: stored.assistant_id,
    ...(stored.assistant_version === null ? {} : { assistant_version: stored.assistant_version }),
    graph_id: stored.graph_id,
    seq: stored.seq,
    created_at: stored.created_at,
    updated_at: stored.updated_at,
    status: stored.status as RunStatus,
    metadata: JSON.parse(stored.metadata) as JsonObject,
    multitask_strategy: stored.multitask_strategy as MultitaskStrategy,
    attempt: stored.attempt,
    claims: stored.claims,
    claim_number: stored.claim_number,
    stateless: stored.stateless === 1,
    started_at: stored.started_at,
    ended_at: stored.ended_at,
    ...decodeError(stored.error),
    resumable: stored.has_frames === 1,
    end_frame: stored.end_frame,
    user_id: stored.user_id,
    api_key: stored.api_key,
    webhook:
      stored.webhook === null
        ? null
        : { url: stored.webhook, host: stored.webhook_host as string, depth: stored.webhook_depth },
    ...(stored.cron_id === null ? {} : { cron_id: stored.cron_id }),
    // Undefined for a run that is just made.
    ...(stored.cancel_reason ? { cancel_reason: stored.cancel_reason } : {}),
    ...(stored.call_id ? { call_id: stored.call_id } : {}),
    ...(stored.waiting_for ? { waiting_for: JSON.parse(stored.waiting_for) as Json } : {}),
    ...(stored.trace_origin ? { trace_origin: JSON.parse(stored.trace_origin) as TraceOrigin } : {}),
  };
}

/**
 * Returns the claim that the row of a run shows; null if the run is not running. `exhausted`: the run has no attempts left, and
 * is only to be ended.
 */
export function toClaim(stored: StoredClaim, thread: CoreTables["threads"]): ClaimedRun | null {
  if (stored.status !== "running") return null;
  const { run_id, thread_id, last_frame } = stored;
  const lease: Lease = { run_id, thread_id, token: stored.lease_token as string };
  return {
    lease,
    run: toRun(stored),
    thread: toThread({ ...thread, running: run_id, waiting: 0 }),
    resumed: stored.has_checkpoint === 1,
    cancelled: stored.cancelled === 1,
    exhausted: stored.cancelled === 0 && stored.counts_as_attempt === 0,
    last_frame,
  };
}

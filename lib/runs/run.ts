/** Converts runs to their JSON form. */

import { redactRunKwargs } from "../executor/job-request.ts";
import type { WaitingFor } from "../executor/journal.ts";
import type { JsonObject } from "../json.ts";
import type { MultitaskStrategy, RunRow, RunStatus } from "../storage/mod.ts";
import { redactUrl } from "../webhooks/policy.ts";

/** A run in its JSON form; times are ISO 8601, UTC. */
export interface Run {
  readonly run_id: string;
  readonly thread_id: string;
  readonly assistant_id: string;
  /** The version of the assistant that it executes; null for a run of an older release. */
  readonly assistant_version: number | null;
  /** The time of creation, or of the start of a run with `after_seconds`. */
  readonly created_at: string;
  readonly updated_at: string;
  readonly status: RunStatus;
  readonly metadata: JsonObject;
  readonly kwargs: JsonObject;
  readonly multitask_strategy: MultitaskStrategy;
  /** The `reason` of the call that cancelled it; null without one. */
  readonly cancel_reason: string | null;
  /** The events or interrupts that a suspended durable function waits for, and until when. Absent for other runs. */
  readonly waiting_for?: readonly WaitingFor[];
}

/**
 * Converts a row. Its `kwargs` are redacted when they are first read, because most responses of creations contain only ids.
 * `cancel_reason` is null for a run that ended by itself; only a pending run has `waiting_for`.
 */
export function toRun(row: RunRow): Run {
  let kwargs: JsonObject | undefined;
  return {
    run_id: row.run_id,
    thread_id: row.thread_id,
    assistant_id: row.assistant_id,
    assistant_version: row.assistant_version ?? null,
    created_at: new Date(row.created_at).toISOString(),
    updated_at: new Date(row.updated_at).toISOString(),
    status: row.status,
    metadata: row.metadata,
    get kwargs() {
      kwargs ??= toPublicKwargs(row);
      return kwargs;
    },
    multitask_strategy: row.multitask_strategy,
    // A run may end by itself before the cancel takes effect.
    cancel_reason: ["success", "error", "timeout"].includes(row.status) ? null : (row.cancel_reason ?? null),
    ...(row.status === "pending" && row.waiting_for ? { waiting_for: row.waiting_for as unknown as WaitingFor[] } : {}),
  };
}

/**
 * Returns the request without credentials, with the webhook, if there is one, and the feedback keys, if there are any. Redacts
 * the query of the webhook, which may hold a secret.
 */
export function toPublicKwargs({ kwargs, metadata, webhook, feedback }: RunRow): JsonObject {
  return {
    ...redactRunKwargs(kwargs, metadata),
    ...(webhook ? { webhook: redactUrl(webhook.url) } : {}),
    ...(feedback.length > 0 ? { feedback_keys: feedback.map(([key]) => key) } : {}),
  };
}

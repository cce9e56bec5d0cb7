/** A run as the API shows it. */
import type { WaitingFor } from "../executor/journal.ts";
import { redactRunKwargs } from "../executor/kwargs.ts";
import type { JsonObject } from "../json.ts";
import type { MultitaskStrategy, RunRow, RunStatus } from "../storage/mod.ts";
import { redactUrl } from "../webhooks/policy.ts";

/** A run as the API shows it; times are ISO 8601, UTC. */
export interface Run {
  readonly run_id: string;
  readonly thread_id: string;
  readonly assistant_id: string;
  /** For a run with `after_seconds`: the time of its start. */
  readonly created_at: string;
  readonly updated_at: string;
  readonly status: RunStatus;
  readonly metadata: JsonObject;
  readonly kwargs: JsonObject;
  readonly multitask_strategy: MultitaskStrategy;
  /** The `reason` of the call that cancelled it; null without one. */
  readonly cancel_reason: string | null;
  /** Of a durable function that is suspended: what it waits for, and until when. Absent otherwise. */
  readonly waiting_for?: readonly WaitingFor[];
}

/** `kwargs` is made when it is first read: most creations show only the ids. */
export function toRun(row: RunRow): Run {
  let kwargs: JsonObject | undefined;
  return {
    run_id: row.run_id,
    thread_id: row.thread_id,
    assistant_id: row.assistant_id,
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

/** The request without credentials, with the webhook and feedback keys. The query of a webhook is hidden: it may hold a secret. */
export function toPublicKwargs({ kwargs, metadata, webhook, feedback }: RunRow): JsonObject {
  return {
    ...redactRunKwargs(kwargs, metadata),
    ...(webhook ? { webhook: redactUrl(webhook.url) } : {}),
    ...(feedback.length > 0 ? { feedback_keys: feedback.map(([key]) => key) } : {}),
  };
}

/** Builds the request body of a delivery. */
import { shownRun } from "../executor/kwargs.ts";
import type { JsonObject } from "../json.ts";
import { isoTime } from "../rfc3339.ts";
import type { DeliveryRow } from "../storage/mod.ts";

/** A larger payload is sent without the final state. */
const MAX_PAYLOAD_BYTES = 5 * 1024 * 1024;

/**
 * The body as JSON. It depends only on the row and is identical, to the byte, at each attempt: `webhook_sent_at` is the time of the
 * first one. Call it after the first attempt has started.
 */
export function payload(row: DeliveryRow): string {
  const { run } = row;
  const body: JsonObject = {
    run_id: run.run_id,
    thread_id: run.thread_id,
    assistant_id: run.assistant_id,
    status: run.status,
    created_at: isoTime(run.created_at),
    // A run does not change after its end.
    updated_at: isoTime(run.ended_at),
    run_started_at: isoTime(run.started_at),
    run_ended_at: isoTime(run.ended_at),
    webhook_sent_at: isoTime(row.sent_at),
    metadata: run.metadata,
    multitask_strategy: run.multitask_strategy,
    attempt: run.attempt,
    kwargs: shownKwargs(run),
    error: run.status === "error" || run.status === "timeout" ? run.error : null,
    ...(run.cancel_reason === undefined ? {} : { cancel_reason: run.cancel_reason }),
  };
  if (run.temporary) return JSON.stringify(body);
  if (!run.values_omitted) {
    const text = withValues(body, run.values ?? "null");
    if (run.values === null || isWithin(text, MAX_PAYLOAD_BYTES)) return text;
  }
  return withValues({ ...body, values_omitted: true }, "null");
}

/** The run's request for the receiver: without credentials, and without the webhook, whose query can contain a secret. */
export function shownKwargs({ kwargs, metadata }: DeliveryRow["run"]): JsonObject {
  const { webhook: _, ...shown } = shownRun(kwargs, metadata);
  return shown;
}

/** Appends the final state as text: it is JSON already, and can be large. */
const withValues = (body: JsonObject, values: string): string =>
  `${JSON.stringify(body).slice(0, -1)},"values":${values}}`;

/** Encodes only if the length does not decide: a code unit takes at most three bytes. */
function isWithin(text: string, bytes: number): boolean {
  if (text.length > bytes) return false;
  return text.length * 3 <= bytes || new TextEncoder().encode(text).length <= bytes;
}

/** What a delivery says: the body of its request. */
import { shownRun } from "../executor/kwargs.ts";
import type { JsonObject } from "../json.ts";
import type { DeliveryRow } from "../storage/mod.ts";

/** A larger payload goes without the final state. */
const MAX_PAYLOAD_BYTES = 5 * 1024 * 1024;

const iso = (time: number): string => new Date(time).toISOString();

/**
 * The body as JSON. It follows from the row alone and is the same, to the byte, at each attempt: the time in it is that of the
 * first one. Made once the first attempt has begun.
 */
export function payload(row: DeliveryRow): string {
  const { run } = row;
  const told: JsonObject = {
    run_id: run.run_id,
    thread_id: run.thread_id,
    assistant_id: run.assistant_id,
    status: run.status,
    created_at: iso(run.created_at),
    // The end is the last thing that happens to a run.
    updated_at: iso(run.ended_at),
    run_started_at: run.started_at === null ? null : iso(run.started_at),
    run_ended_at: iso(run.ended_at),
    webhook_sent_at: row.sent_at === null ? null : iso(row.sent_at),
    metadata: run.metadata,
    multitask_strategy: run.multitask_strategy,
    attempt: run.attempt,
    kwargs: shownKwargs(run),
    error: run.status === "error" || run.status === "timeout" ? run.error : null,
    ...(run.cancel_reason === undefined ? {} : { cancel_reason: run.cancel_reason }),
  };
  if (run.temporary) return JSON.stringify(told);
  if (!run.values_omitted) {
    const whole = withValues(told, run.values ?? "null");
    if (run.values === null || isWithin(whole, MAX_PAYLOAD_BYTES)) return whole;
  }
  return withValues({ ...told, values_omitted: true }, "null");
}

/** The stored request as the receiver may see it: without the webhook too, whose query may hold a secret. */
export function shownKwargs({ kwargs, metadata }: DeliveryRow["run"]): JsonObject {
  const { webhook: _, ...shown } = shownRun(kwargs, metadata);
  return shown;
}

/** The final state is JSON already, and may be large. */
const withValues = (told: JsonObject, values: string): string =>
  `${JSON.stringify(told).slice(0, -1)},"values":${values}}`;

/** Counted only where the length alone does not tell: a code unit takes at most three bytes. */
function isWithin(text: string, bytes: number): boolean {
  if (text.length > bytes) return false;
  return text.length * 3 <= bytes || new TextEncoder().encode(text).length <= bytes;
}

/** The body of a run-completion webhook. */
import type { Untyped, Wire } from "../executor/agent-types.ts";
import type { JsonObject } from "../json.ts";
import type { MultitaskStrategy, TerminalStatus } from "../storage/mod.ts";

/** The status of a run that has ended. `interrupted`: it was cancelled. A run that waits for an answer has `success`. */
export type WebhookStatus = TerminalStatus;

/**
 * The body of a run-completion webhook. Times are ISO 8601, UTC. Types: those of the agent; `PayloadOf` of `greenroom/app` finds them by
 * its name.
 *
 * @example
 * ```ts
 * import type { WebhookPayload } from "greenroom";
 *
 * export async function handle(request: Request): Promise<Response> {
 *   const { run_id, status, error }: WebhookPayload = await request.json();
 *   if (status === "error") console.error(run_id, error?.message);
 *   return new Response(null, { status: 204 });
 * }
 * ```
 */
export interface WebhookPayload<Types extends Wire = Untyped> {
  readonly run_id: string;
  readonly thread_id: string;
  readonly assistant_id: string;
  /** The version of the assistant. Absent for a run of an older release. */
  readonly assistant_version?: number;
  readonly status: WebhookStatus;
  readonly metadata: JsonObject;
  /** The request of the run, without API keys and without the webhook. */
  readonly kwargs: JsonObject;
  readonly multitask_strategy: MultitaskStrategy;
  readonly attempt: number;
  readonly created_at: string;
  readonly updated_at: string;
  /** Null if the run ended before it started. */
  readonly run_started_at: string | null;
  readonly run_ended_at: string;
  /** The time of the first attempt of the delivery. */
  readonly webhook_sent_at: string;
  /** With the status `error` or `timeout`. */
  readonly error: { readonly error: string; readonly message: string } | null;
  /** Absent if no reason was given. */
  readonly cancel_reason?: string | null;
  /** The final state. Null without one, and if it is too large. Absent for a stateless run. */
  readonly values?: Types["values"] | null;
  /** The payload would be larger than 5 MiB with the final state. */
  readonly values_omitted?: true;
}

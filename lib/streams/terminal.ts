/** The terminal events of a run, and the results that wait and join answer. */
import type { StateEvent } from "../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { FinishRun } from "../storage/mod.ts";
import type { Outcome, RunEvents } from "./hub.ts";

/** What comes before the `end`: the feedback URLs by key, as JSON, and the error. */
export interface Tail {
  readonly feedback: string | null;
  readonly error: JsonObject | null;
}

/** How many frames come right before the `end`. */
export function tailLength({ feedback, error }: Tail): number {
  return (feedback === null ? 0 : 1) + (error === null ? 0 : 1);
}

/** The first frame id after so many claims, for a run without stored frames: above the ids of all earlier attempts. */
export function firstFrameId(claims: number): number {
  return claims * 2 ** 32 + 1;
}

/**
 * Ends the log with a `feedback` and an `error` frame, if the tail has them, and the `end`. `end_frame` is the one in the run's
 * row; null when the row was deleted. No effect on a log that has ended.
 */
export function closeRunEvents(
  runEvents: RunEvents,
  run_id: string,
  outcome: Outcome,
  tail: Tail,
  end_frame: number | null,
): void {
  const { feedback, error } = tail;
  if (end_frame !== null) {
    const first = end_frame - tailLength(tail);
    if (runEvents.stored) runEvents.skipTo(first - 1);
    else runEvents.startAt(first);
  }
  // Clients stop reading at an error.
  if (feedback !== null) runEvents.publish("feedback", feedback);
  if (error) runEvents.publish("error", JSON.stringify(error));
  const status = outcome.status === "gone" ? "rollback" : outcome.status;
  runEvents.publish("end", JSON.stringify({ run_id, status }));
  runEvents.end(outcome);
}

/** The run was deleted. */
export function endDeleted(runEvents: RunEvents, run_id: string): void {
  endGone(runEvents, run_id, { error: "RunDeleted", message: "The run was deleted" });
}

/** The run was rolled back. */
export function endRolledBack(runEvents: RunEvents, run_id: string): void {
  endGone(runEvents, run_id, { error: "RunRolledBack", message: "The run was rolled back" });
}

function endGone(runEvents: RunEvents, run_id: string, error: JsonObject): void {
  runEvents.startAt(runEvents.seen + 1);
  closeRunEvents(runEvents, run_id, { status: "gone", result: { __error__: error } }, { feedback: null, error }, null);
}

/** What wait and join answer for a run that did not fail. `stopped`: it was interrupted, so remaining nodes are no breakpoint. */
export function waitResult(values: Json, next: readonly string[], interrupts: readonly Json[], stopped: boolean): Json {
  if (next.length === 0 || (stopped && interrupts.length === 0)) return values ?? {};
  return isObject(values) ? { ...values, __interrupt__: [...interrupts] } : { __interrupt__: [...interrupts] };
}

/** A larger state is left out of webhooks, in characters. */
const LARGEST_VALUES = 5 * 1024 * 1024;

/** The state as the webhook payload has it. */
export function webhookValues(values: Json | undefined): NonNullable<FinishRun["values"]> {
  const json = values === undefined ? null : JSON.stringify(values);
  const omitted = json !== null && json.length > LARGEST_VALUES;
  return { json: omitted ? null : json, omitted };
}

/** The error of an attempt; null if it succeeded, which takes at least one state. */
export function errorBody(failure: unknown, last: StateEvent | null): JsonObject | null {
  if (failure === undefined) return last ? null : { error: "Error", message: "The graph ended without a state" };
  const { name, message } = (typeof failure === "object" && failure !== null ? failure : {}) as {
    name?: unknown;
    message?: unknown;
  };
  return {
    error: typeof name === "string" && name !== "" ? name : "Error",
    message: typeof message === "string" ? message : typeof failure === "string" ? failure : "The graph failed",
  };
}

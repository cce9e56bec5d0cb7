/** What the readers of a run are told when it ends, whichever path ended it. */
import type { StateEvent } from "../engine/event-mapper.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { FinishRun } from "../storage/mod.ts";
import type { Outcome, RunEvents } from "./hub.ts";

/** What a run leaves beside its `end`: its feedback URLs by key, as JSON, and how it failed. */
export interface Tail {
  readonly feedback: string | null;
  readonly error: JsonObject | null;
}

/** How many frames come right before the `end`. */
export function tailLength({ feedback, error }: Tail): number {
  return (feedback === null ? 0 : 1) + (error === null ? 0 : 1);
}

/**
 * Ends the tape with a `feedback` and an `error` frame, where there is something to tell, and the `end`. `end_frame` is that of
 * the run's row, and null for a run whose row is gone. Without effect on a tape that has ended.
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

/** What wait and join answer for a run that did not fail. `cut`: it was cut off, so that nodes which are left are no breakpoint. */
export function waitResult(values: Json, next: readonly string[], interrupts: readonly Json[], cut: boolean): Json {
  if (next.length === 0 || (cut && interrupts.length === 0)) return values ?? {};
  return isObject(values) ? { ...values, __interrupt__: [...interrupts] } : { __interrupt__: [...interrupts] };
}

/** A larger state is left out of webhooks, in characters. */
const LARGEST_VALUES = 5 * 1024 * 1024;

/** What a webhook tells of the state. */
export function toldValues(values: Json | undefined): NonNullable<FinishRun["values"]> {
  const json = values === undefined ? null : JSON.stringify(values);
  const omitted = json !== null && json.length > LARGEST_VALUES;
  return { json: omitted ? null : json, omitted };
}

/** Null for an execution that did not fail: it has told its state. */
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

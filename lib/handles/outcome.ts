/** Determines how a run ended, from its result, its row and the states that it has stored. */
import type { Wire } from "../executor/agent-types.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { ReceivedState, RunEnd, RunTransport } from "./transport.ts";
import type { OpenInterrupt, Outcome, RunRef } from "./types.ts";

/** The values and the open interrupts of a run. */
interface StateParts {
  readonly values: Json;
  readonly interrupts: readonly Json[];
  /** True if the run stopped at an interrupt or a breakpoint. */
  readonly waits: boolean;
}

type RunError = JsonObject & { readonly error: string; readonly message: string };

/** The errors of runs that were deleted before their end. */
const DELETED = ["RunDeleted", "RunRolledBack"];

export const toOpenInterrupts = (interrupts: readonly Json[]): readonly OpenInterrupt<Json>[] =>
  interrupts.filter(isObject).map(({ id, value }) => ({ id: String(id), value: value ?? null }));

/** Returns values and interrupts of a state. `waits` is true if it has next steps. */
const parseState = ({ values, next, interrupts }: ReceivedState): StateParts => ({
  values,
  interrupts,
  waits: next.length > 0,
});

/**
 * Returns the values of a result without the members that the server adds, and its interrupts. `waits` is true if the result
 * names interrupts.
 */
function parseResult(result: Json): StateParts {
  if (!isObject(result)) return { values: result, interrupts: [], waits: false };
  const { __interrupt__: interrupts, __feedback__: _, ...values } = result;
  return { values, interrupts: Array.isArray(interrupts) ? interrupts : [], waits: interrupts !== undefined };
}

const findError = (result: Json): RunError | null =>
  isObject(result) && isObject(result["__error__"]) ? (result["__error__"] as RunError) : null;

/**
 * Returns the status of a run whose row is gone: success without an error, `interrupted` if it was rolled back or deleted, else
 * `timeout` or `error`.
 */
function inferStatus(error: RunError | null): string {
  if (error === null) return "success";
  if (DELETED.includes(error.error)) return "interrupted";
  return error.error === "RunTimeout" ? "timeout" : "error";
}

/**
 * Returns the outcome of a run that has ended. Its values are those of the newest state that the run has stored, because the
 * result may be the state of its thread, which later runs change. A stateless run, whose thread is gone, has those of its
 * result. Values are null for a failed run, or a cancelled one on a thread, that has stored no state.
 */
export async function readOutcome(
  transport: RunTransport,
  run: RunRef,
  { result, isStateless }: { readonly result: Json; readonly isStateless: boolean },
  signal?: AbortSignal,
): Promise<Outcome<Wire>> {
  const [end, state] = await Promise.all([
    transport.findEnd(run, signal),
    isStateless ? null : transport.findState(run, signal),
  ]);
  const error = findError(result);
  // A run that was cancelled before it started has stored no state.
  const hasNoValues = error !== null || (!isStateless && end?.status === "interrupted");
  const resultParts = hasNoValues ? null : parseResult(result);
  return toOutcome(run, end, error, state ? parseState(state) : resultParts);
}

/**
 * Returns the outcome of a run. Without its end, the status is derived from the error. An interrupted run is `cancelled`, and a
 * run without an error that has next steps is `waiting`. Values are null without `parts`.
 */
function toOutcome(run: RunRef, end: RunEnd | null, error: RunError | null, parts: StateParts | null): Outcome<Wire> {
  const { run_id, thread_id } = run;
  const status = end?.status ?? inferStatus(error);
  const values = parts?.values ?? null;
  if (status === "interrupted") {
    const reason = end?.cancel_reason ?? (end === null && error ? error.message : null);
    return { run_id, thread_id, status: "cancelled", values, reason };
  }
  if (error) return { run_id, thread_id, status: status === "timeout" ? "timeout" : "error", values, error };
  if (!parts?.waits) return { run_id, thread_id, status: "success", values };
  return { run_id, thread_id, status: "waiting", values, interrupts: toOpenInterrupts(parts.interrupts) };
}

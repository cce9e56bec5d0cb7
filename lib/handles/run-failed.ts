/** The error of a run that did not succeed. */
import type { Untyped, Wire } from "../executor/agent-types.ts";
import type { FailedOutcome } from "./types.ts";

/**
 * The error of a run that did not succeed. `outcome` has its status, and its error or its open interrupts.
 *
 * @example
 * ```ts
 * import { RunFailed } from "greenroom";
 *
 * try {
 *   await service.runs.run("refund", { order: "A-1" });
 * } catch (error) {
 *   if (error instanceof RunFailed && error.outcome.status === "waiting") console.log(error.outcome.interrupts);
 *   else throw error;
 * }
 * ```
 */
export class RunFailed<Types extends Wire = Untyped> extends Error {
  override readonly name = "RunFailed";
  readonly outcome: FailedOutcome<Types>;

  constructor(outcome: FailedOutcome<Types>) {
    super(`Run ${outcome.run_id} ${describe(outcome)}`);
    this.outcome = outcome;
  }
}

/**
 * Returns the end of the sentence that begins with the run: that it waits, was cancelled with its reason, or its status and
 * error.
 */
function describe(outcome: FailedOutcome<Wire>): string {
  if (outcome.status === "waiting") return "waits for an answer";
  if (outcome.status === "cancelled") return `was cancelled${outcome.reason === null ? "" : `: ${outcome.reason}`}`;
  return `ended as ${outcome.status}: ${outcome.error.error}: ${outcome.error.message}`;
}

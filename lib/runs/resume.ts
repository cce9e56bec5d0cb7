/** Checks the answers to interrupts before a run is created. */
import { ServiceError } from "../errors.ts";
import type { Interrupt } from "../executor/contract.ts";
import { ambiguous, answersById, mismatch } from "../executor/kwargs.ts";
import type { RunCreate } from "./request.ts";

/**
 * Refuses a single answer if several interrupts are open, because it is ambiguous. With `strict_resume` each answer of a map must
 * belong to an open interrupt. Errors: invalid.
 */
export function checkResume({ command, strict_resume }: RunCreate, interrupts: readonly Interrupt[]): void {
  const resume = command?.resume;
  if (resume === undefined) return;
  const open = interrupts.map(({ id }) => id);
  const loose = answersById(resume, new Set(open)) ? null : ambiguous([...new Set(open)].sort());
  const wrong = strict_resume ? mismatch(resume, open) : loose;
  if (wrong) throw new ServiceError("invalid", wrong.message, { cause: wrong });
}

/** Whether an answer to interrupts can be meant. */
import { ServiceError } from "../errors.ts";
import { ambiguous, answersById, mismatch } from "../executor/answers.ts";
import type { Interrupt } from "../executor/contract.ts";
import type { RunCreate } from "./request.ts";

/**
 * Refuses a single answer where several interrupts are open: nobody could tell which it is for. With `strict_resume` each answer
 * of a map must be for an open one. Errors: invalid.
 */
export function checkResume({ command, strict_resume }: RunCreate, interrupts: readonly Interrupt[]): void {
  const resume = command?.resume;
  if (resume === undefined) return;
  const open = interrupts.map(({ id }) => id);
  const loose = answersById(resume, new Set(open)) ? null : ambiguous([...new Set(open)].sort());
  const wrong = strict_resume ? mismatch(resume, open) : loose;
  if (wrong) throw new ServiceError("invalid", wrong.message, { cause: wrong });
}

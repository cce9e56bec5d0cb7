/** Whether an answer to interrupts can be meant. */
import { ServiceError } from "../errors.ts";
import type { Interrupt } from "../executor.ts";
import { isObject } from "../json.ts";
import type { RunCreate } from "./request.ts";

/**
 * Refuses a single answer where several interrupts are open: nobody could tell which it is for. An object whose members are all
 * named by interrupt ids is a map of answers; with `strict_resume` each of them must be open. Errors: invalid.
 */
export function checkResume({ command, strict_resume }: RunCreate, interrupts: readonly Interrupt[]): void {
  const resume = command?.resume;
  if (resume === undefined) return;
  const open = new Set(interrupts.map(({ id }) => id));
  const names = isObject(resume) ? Object.keys(resume) : [];
  const isMap = names.length > 0 && names.every((name) => open.has(name) || isInterruptId(name));
  const stranger = names.find((name) => !open.has(name));
  if (strict_resume && stranger !== undefined && (isMap || names.some((name) => open.has(name)))) {
    throw new ServiceError("invalid", `command.resume: there is no open interrupt ${stranger}`);
  }
  if (isMap || open.size <= 1) return;
  throw new ServiceError(
    "invalid",
    `command.resume: ${open.size} interrupts are open, give a map of their ids to answers`,
  );
}

const isInterruptId = (id: string): boolean => /^[0-9a-f]{32}$/.test(id);

/** Whether an answer to interrupts can be meant. */
import { ServiceError } from "../errors.ts";
import type { Interrupt } from "../executor.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { RunCreate } from "./request.ts";

/**
 * The answers of `command.resume` by interrupt id; null where it is one answer. An object is a map of answers when one of its keys is
 * the id of an open interrupt, or when all of them look like ids: another key means nobody, and its member is ignored.
 */
export function answersById(resume: Json, open: ReadonlySet<string>): JsonObject | null {
  if (!isObject(resume)) return null;
  const names = Object.keys(resume);
  const isMap = names.some((name) => open.has(name)) || (names.length > 0 && names.every(isInterruptId));
  return isMap ? resume : null;
}

/**
 * Refuses a single answer where several interrupts are open: nobody could tell which it is for. With `strict_resume` each answer
 * of a map must be for an open one. Errors: invalid.
 */
export function checkResume({ command, strict_resume }: RunCreate, interrupts: readonly Interrupt[]): void {
  const resume = command?.resume;
  if (resume === undefined) return;
  const open = new Set(interrupts.map(({ id }) => id));
  const answers = answersById(resume, open);
  if (answers) {
    const stranger = strict_resume ? Object.keys(answers).find((name) => !open.has(name)) : undefined;
    if (stranger === undefined) return;
    throw new ServiceError("invalid", `command.resume: there is no open interrupt ${stranger}`);
  }
  if (open.size <= 1) return;
  throw new ServiceError(
    "invalid",
    `command.resume: ${open.size} interrupts are open, give a map of their ids to answers`,
  );
}

const isInterruptId = (id: string): boolean => /^[0-9a-f]{32}$/.test(id);

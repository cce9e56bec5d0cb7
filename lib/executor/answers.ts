/** Matches the answers of `command.resume` with the open interrupts. */
import { isObject, type Json, type JsonObject } from "../json.ts";
import { ResumeRefused } from "./contract.ts";

/**
 * The answers by interrupt id; null for a single answer. An object is a map of answers if one of its keys is the id of an open
 * interrupt, or if all of them look like ids. Members with other keys are ignored.
 */
export function answersById(resume: Json, open: ReadonlySet<string>): JsonObject | null {
  if (!isObject(resume)) return null;
  const names = Object.keys(resume);
  const isMap = names.some((name) => open.has(name)) || (names.length > 0 && names.every(isInterruptId));
  return isMap ? resume : null;
}

/** An answer that matches no open interrupt. Nothing was written: the open interrupts can still be answered. */
export class UnknownInterruptError extends ResumeRefused {
  // The name that clients of the API know.
  override readonly name = "UnknownInterruptError";

  constructor(reason: ResumeRefused["reason"], interrupt_ids: readonly string[], pending_ids: readonly string[]) {
    const said = {
      not_pending: `there is no open interrupt ${interrupt_ids.join(", ")}`,
      empty_map: "the map names no interrupt",
      ambiguous: `${pending_ids.length} interrupts are open, give a map of their ids to answers`,
    }[reason];
    const open = pending_ids.length > 0 ? `open: ${pending_ids.join(", ")}` : "none is open";
    super(`command.resume: ${said}; ${open}`, { reason, interrupt_ids, pending_ids });
  }
}

/** The error of an answer with `strict_resume`; null if it matches these open interrupts. */
export function mismatch(resume: Json, open: readonly string[]): UnknownInterruptError | null {
  const pending = [...new Set(open)].sort();
  const answers = isObject(resume) && Object.keys(resume).length === 0 ? resume : answersById(resume, new Set(open));
  if (!answers) return ambiguous(pending);
  const strangers = Object.keys(answers).filter((id) => !pending.includes(id));
  if (strangers.length > 0) return new UnknownInterruptError("not_pending", strangers.sort(), pending);
  return Object.keys(answers).length === 0 ? new UnknownInterruptError("empty_map", [], pending) : null;
}

/** A single answer cannot be assigned if several interrupts are open. */
export const ambiguous = (pending: readonly string[]): UnknownInterruptError | null =>
  pending.length > 1 ? new UnknownInterruptError("ambiguous", [], pending) : null;

const isInterruptId = (id: string): boolean => /^[0-9a-f]{32}$/.test(id);

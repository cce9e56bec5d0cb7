/** Names of steps, durations and times. */

/** Milliseconds, or a text such as `"30s"`, `"2d"` or `"1h 30m"`. */
export type Duration = number | string;

/** A text of 1 to 200 characters, or a list such as `["pay", item.id]`. */
export type StepName = string | readonly (string | number)[];

const MOST_CHARACTERS = 200;

/** A name as the journal has it: a list as JSON. Throws for a name that cannot be stored. */
export function nameOf(given: StepName): string {
  const parts: readonly unknown[] = Array.isArray(given) ? given : [given];
  const valid = parts.every((part) =>
    typeof part === "string"
      ? part !== "" && !part.includes("\u0000") && part.isWellFormed()
      : Array.isArray(given) && typeof part === "number" && Number.isFinite(part),
  );
  const name = Array.isArray(given) ? JSON.stringify(given) : (given as string);
  if (!valid || parts.length === 0 || name.length > MOST_CHARACTERS) {
    throw new TypeError(
      `The name of a step must be a text of 1 to ${MOST_CHARACTERS} characters without U+0000, or a list of such texts and numbers`,
    );
  }
  return name;
}

/** A name as people see it. */
export function labelOf(name: string): string {
  if (!name.startsWith("[")) return name;
  try {
    const parts: unknown = JSON.parse(name);
    return Array.isArray(parts) ? parts.join(" ") : name;
  } catch {
    return name;
  }
}

const UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};
/** Times stay below the last one that a date can have. */
const LONGEST_MS = 4_000_000_000_000;

/** Returns the milliseconds of a text such as `1h 30m`; NaN for another text. */
function parseDuration(text: string): number {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)\s*(ms|[smhdw])\s*/g)];
  if (text === "" || parts.map(([part]) => part).join("") !== text) return Number.NaN;
  return parts.reduce((sum, [, count, unit]) => sum + Number(count) * (UNITS[unit as string] as number), 0);
}

/** Milliseconds of a duration. `what` begins the error. */
export function durationOf(given: Duration, what: string): number {
  const total = typeof given === "number" ? given : parseDuration(typeof given === "string" ? given.trim() : "");
  if (total >= 0 && total <= LONGEST_MS) return Math.ceil(total);
  throw new TypeError(`${what} must be milliseconds or a duration such as "30s", "2d" or "1h 30m"`);
}

/** The time at which a sleep ends. */
export function timeOf(until: Duration | Date, now: number, label: string): number {
  if (!(until instanceof Date)) return now + durationOf(until, `${label}: the time`);
  if (Number.isNaN(until.getTime())) throw new TypeError(`${label}: the date is invalid`);
  return until.getTime();
}

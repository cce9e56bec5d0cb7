/** Parses the names of steps, durations and times. */

/** A number of milliseconds, or a text such as `"30s"`, `"2d"` or `"1h 30m"`. */
export type Duration = number | string;

/** What stands in the place of a text that is no duration. The compiler shows the reason. */
export interface DurationError<Reason extends string> {
  readonly "~error": Reason;
}

/** A count with its unit: a duration, or a part of one. */
export type DurationPart = `${number}${"ms" | "s" | "m" | "h" | "d" | "w"}`;

/**
 * `unknown` for a duration, and `DurationError` for a text that is none: a text is a sequence of counts with units. Texts that are
 * known only at run time are checked when they are used. An option is intersected with it beside its interface, because the
 * compiler cannot infer a union from an optional member that is an intersection.
 */
export type CheckedDuration<Given> = Given extends string
  ? string extends Given
    ? unknown
    : Given extends DurationPart | " "
      ? unknown
      : // A part such as "1ms" can be read as "1m", too. One reading has to fit.
        Given extends `${DurationPart}${infer Rest}`
        ? CheckedDuration<Rest>
        : DurationError<'A duration is milliseconds or a text such as "30s", "2d" or "1h 30m"'>
  : unknown;

/** A text of 1 to 200 characters, or a list such as `["pay", item.id]`. */
export type StepName = string | readonly (string | number)[];

const MAX_NAME_CHARS = 200;

/**
 * Returns the stored form of a name: a list as JSON. Throws a TypeError for a name that is empty, too long or cannot be stored.
 */
export function encodeStepName(stepName: StepName): string {
  const parts: readonly unknown[] = Array.isArray(stepName) ? stepName : [stepName];
  const valid = parts.every((part) =>
    typeof part === "string"
      ? part !== "" && !part.includes("\u0000") && part.isWellFormed()
      : Array.isArray(stepName) && typeof part === "number" && Number.isFinite(part),
  );
  const name = Array.isArray(stepName) ? JSON.stringify(stepName) : (stepName as string);
  if (!valid || parts.length === 0 || name.length > MAX_NAME_CHARS) {
    throw new TypeError(
      `The name of a step must be a text of 1 to ${MAX_NAME_CHARS} characters without U+0000, or a list of such texts and numbers`,
    );
  }
  return name;
}

/** Returns a stored name for people: the parts of a list with spaces between. Other texts stay unchanged, also invalid JSON. */
export function formatStepName(name: string): string {
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
/** The maximum duration. It keeps times below the last one that a date can have. */
const MAX_DURATION_MS = 4_000_000_000_000;

/** The characters of an invalid duration that its error quotes. */
const MAX_QUOTED_CHARS = 40;

/** Returns the milliseconds of a text such as `1h 30m` or `1.5d` with the units ms, s, m, h, d and w; NaN for another text. */
function parseDurationText(text: string): number {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)\s*(ms|[smhdw])\s*/g)];
  if (text === "" || parts.map(([part]) => part).join("") !== text) return Number.NaN;
  return parts.reduce((sum, [, count, unit]) => sum + Number(count) * (UNITS[unit as string] as number), 0);
}

/**
 * Returns the milliseconds of a duration, rounded up. Throws a TypeError that begins with `subject`, also for negative and too
 * long ones.
 */
export function parseDuration(duration: Duration, subject: string): number {
  const total =
    typeof duration === "number" ? duration : parseDurationText(typeof duration === "string" ? duration.trim() : "");
  if (total >= 0 && total <= MAX_DURATION_MS) return Math.ceil(total);
  const text = typeof duration === "string" ? JSON.stringify(duration.slice(0, MAX_QUOTED_CHARS)) : String(duration);
  throw new TypeError(`${subject} must be milliseconds or a duration such as "30s", "2d" or "1h 30m", not ${text}`);
}

/**
 * Returns the time at which a sleep ends, in milliseconds since 1970: that of a date, which may have passed, or `now` plus a
 * duration. Throws a TypeError that begins with `label` for an invalid one.
 */
export function resolveWakeTime(until: Duration | Date, now: number, label: string): number {
  if (!(until instanceof Date)) return now + parseDuration(until, `${label}: the time`);
  if (Number.isNaN(until.getTime())) throw new TypeError(`${label}: the date is invalid`);
  return until.getTime();
}

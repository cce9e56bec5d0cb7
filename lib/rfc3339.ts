/** Moments as requests bring them and answers write them: RFC 3339 in, UTC out. */

const FORM =
  /^(\d{4})-(\d{2})-(\d{2})(?:[Tt ]([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d+))?(?:[Zz]|([+\- ])([01]\d|2[0-3]):([0-5]\d))?)?$/;

const MINUTE = 60_000;
const FIRST = Date.parse("0000-01-01T00:00:00Z");
const LAST = Date.parse("9999-12-31T23:59:59.999Z");

/**
 * Milliseconds since 1970 of a moment in RFC 3339; null when it is none. Without an offset it is UTC, a date alone its first
 * moment in UTC. A space before the offset is a `+` that was not escaped. What is finer than a millisecond is rounded up.
 */
export function parseRfc3339(text: string): number | null {
  const found = FORM.exec(text);
  if (!found) return null;
  const part = (at: number): number => Number(found[at] ?? 0);
  // Date.UTC would take the years 0 to 99 for those of the last century.
  const day = new Date(0).setUTCFullYear(part(1), part(2) - 1, part(3));
  if (new Date(day).toISOString().slice(0, 10) !== text.slice(0, 10)) return null;
  const fraction = found[7] ?? "";
  const finer = /[1-9]/.test(fraction.slice(3)) ? 1 : 0;
  const time = (part(4) * 60 + part(5)) * MINUTE + part(6) * 1000 + Number(fraction.slice(0, 3).padEnd(3, "0")) + finer;
  const offset = (found[8] === "-" ? -1 : 1) * (part(9) * 60 + part(10)) * MINUTE;
  const moment = day + time - offset;
  return moment >= FIRST && moment <= LAST ? moment : null;
}

/** UTC in RFC 3339: without a fraction on a whole second, else with milliseconds. */
export function formatRfc3339(ms: number): string {
  return new Date(ms).toISOString().replace(".000Z", "Z");
}

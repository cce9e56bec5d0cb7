/** Parses and formats times: RFC 3339 with any offset in, UTC out. */

const FORM =
  /^(\d{4})-(\d{2})-(\d{2})(?:[Tt ]([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d+))?(?:[Zz]|([+\- ])([01]\d|2[0-3]):([0-5]\d))?)?$/;

const MINUTE = 60_000;
const FIRST = Date.parse("0000-01-01T00:00:00Z");
const LAST = Date.parse("9999-12-31T23:59:59.999Z");

/**
 * Parses an RFC 3339 time to milliseconds since 1970; null for any other text. The default offset is UTC, and a date alone means
 * midnight. A space before the offset counts as an unescaped `+`. Fractions of a millisecond are rounded up.
 */
export function parseRfc3339(text: string): number | null {
  const match = FORM.exec(text);
  if (!match) return null;
  const part = (group: number): number => Number(match[group] ?? 0);
  // Date.UTC maps the years 0 to 99 to 1900 to 1999.
  const day = new Date(0).setUTCFullYear(part(1), part(2) - 1, part(3));
  if (new Date(day).toISOString().slice(0, 10) !== text.slice(0, 10)) return null;
  const fraction = match[7] ?? "";
  const roundUp = /[1-9]/.test(fraction.slice(3)) ? 1 : 0;
  const ms = Number(fraction.slice(0, 3).padEnd(3, "0")) + roundUp;
  const time = (part(4) * 60 + part(5)) * MINUTE + part(6) * 1000 + ms;
  const offset = (match[8] === "-" ? -1 : 1) * (part(9) * 60 + part(10)) * MINUTE;
  const moment = day + time - offset;
  return moment >= FIRST && moment <= LAST ? moment : null;
}

/** Formats milliseconds since 1970 as RFC 3339 in UTC, with milliseconds. Null stays null. */
export function isoTime(ms: number): string;
export function isoTime(ms: number | null): string | null;
export function isoTime(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}

/** Formats milliseconds since 1970 as RFC 3339 in UTC: with milliseconds, but without a fraction on a whole second. */
export function formatRfc3339(ms: number): string {
  return new Date(ms).toISOString().replace(".000Z", "Z");
}

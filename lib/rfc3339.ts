/** Parses and formats times: RFC 3339 with any offset in, UTC out. */

const RFC3339_PATTERN =
  /^(\d{4})-(\d{2})-(\d{2})(?:[Tt ]([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d+))?(?:[Zz]|([+\- ])([01]\d|2[0-3]):([0-5]\d))?)?$/;

const MINUTE_MS = 60_000;
const MIN_TIME_MS = Date.parse("0000-01-01T00:00:00Z");
const MAX_TIME_MS = Date.parse("9999-12-31T23:59:59.999Z");

/**
 * Parses an RFC 3339 time to milliseconds since 1970; null for any other text. The default offset is UTC, and a date alone means
 * midnight. A space before the offset counts as an unescaped `+`. Fractions of a millisecond are rounded up.
 */
export function parseRfc3339(text: string): number | null {
  const match = RFC3339_PATTERN.exec(text);
  if (!match) return null;
  const readPart = (group: number): number => Number(match[group] ?? 0);
  // Date.UTC maps the years 0 to 99 to 1900 to 1999.
  const day = new Date(0).setUTCFullYear(readPart(1), readPart(2) - 1, readPart(3));
  if (new Date(day).toISOString().slice(0, 10) !== text.slice(0, 10)) return null;
  const fraction = match[7] ?? "";
  const roundUp = /[1-9]/.test(fraction.slice(3)) ? 1 : 0;
  const ms = Number(fraction.slice(0, 3).padEnd(3, "0")) + roundUp;
  const time = (readPart(4) * 60 + readPart(5)) * MINUTE_MS + readPart(6) * 1000 + ms;
  const offset = (match[8] === "-" ? -1 : 1) * (readPart(9) * 60 + readPart(10)) * MINUTE_MS;
  const utcTime = day + time - offset;
  return utcTime >= MIN_TIME_MS && utcTime <= MAX_TIME_MS ? utcTime : null;
}

/** Formats milliseconds since 1970 as RFC 3339 in UTC, with milliseconds. Null stays null. */
export function formatIsoTime(ms: number): string;
export function formatIsoTime(ms: number | null): string | null;
export function formatIsoTime(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}

/** Formats milliseconds since 1970 as RFC 3339 in UTC: with milliseconds, but without a fraction on a whole second. */
export function formatRfc3339(ms: number): string {
  return new Date(ms).toISOString().replace(".000Z", "Z");
}

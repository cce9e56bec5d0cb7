/** Encodes and decodes the cursors of lists, and parses the times of their filters. */
import { type InputError, invalidFieldError } from "../errors.ts";
import { parseRfc3339 } from "../rfc3339.ts";

/** The position of a row in a list that is sorted by creation time. */
export interface ListPosition {
  readonly created_at: number;
  readonly id: string;
}

/**
 * One page of a list. `next` is the cursor of the following page, or null at the end. A page before the end may be short or empty.
 */
export interface CursorPage<Item> {
  readonly items: readonly Item[];
  readonly next: string | null;
}

/** The cursor and the size of a page of a list. */
export interface CursorQuery {
  readonly limit?: number;
  /** The `next` of the previous page. */
  readonly cursor?: string;
}

const invalidCursorError = (): InputError => invalidFieldError("cursor", "must be the `next` of the page before");

/** Returns the position of a cursor as `after`; an empty object without a cursor. Throws `invalid` for any other text. */
export function decodeCursor(cursor: string | undefined): { readonly after?: ListPosition } {
  if (cursor === undefined) return {};
  const [, time, id] = /^(-?\d{1,15})_([\w-]{1,64})$/.exec(cursor) ?? [];
  if (time === undefined || id === undefined) throw invalidCursorError();
  return { after: { created_at: Number(time), id } };
}

/** Returns the cursor of a position; null for null, at the end of a list. */
export const encodeCursor = (position: ListPosition | null): string | null =>
  position && `${position.created_at}_${position.id}`;

/** Returns the number of rows before the page; 0 without a cursor. Throws `invalid` for any other text. */
export function decodeOffset(cursor: string | undefined): number {
  if (cursor === undefined) return 0;
  if (!/^o\d{1,12}$/.test(cursor)) throw invalidCursorError();
  return Number(cursor.slice(1));
}

/** Parses a filter time in RFC 3339 to milliseconds since 1970. Throws `invalid` that names the parameter `name`. */
export function parseTime(name: string, text: string): number {
  const time = parseRfc3339(text);
  if (time === null) throw invalidFieldError(name, "must be a date or time in RFC 3339");
  return time;
}

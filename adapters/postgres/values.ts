/** Converts values to and from Postgres: numbers as text, by the types that the server names, whatever the client converts. */
import type { SqlRow, SqlStatement, SqlValue } from "../sql/driver.ts";

/** A statement in the form for clients. */
export interface BoundStatement {
  readonly text: string;
  readonly values: (string | null | Uint8Array)[];
}

/** The rows of one statement: objects, or arrays if `fields` names the columns. */
export interface PostgresResult {
  readonly rows: readonly unknown[];
  /** With `dataTypeID` (the type's OID), numbers that arrive as text are recognized. */
  readonly fields?: readonly PostgresField[];
}

/** A column of a result. */
export interface PostgresField {
  readonly name: string;
  readonly dataTypeID?: number;
}

/** Throws for a value that Postgres cannot store, or that the client would change. */
export function bind({ sql, args }: SqlStatement): BoundStatement {
  return { text: sql, values: args.map((value) => bindValue(value, sql)) };
}

/**
 * Returns the value as the client sends it: numbers as text, invalid UTF-16 replaced. Throws a TypeError for what is no SqlValue,
 * and an Error for text with U+0000, which Postgres cannot store.
 */
function bindValue(value: SqlValue, sql: string): string | null | Uint8Array {
  if (value === null || value instanceof Uint8Array) return value;
  if (typeof value === "number" && Number.isFinite(value)) return String(value);
  if (typeof value !== "string") {
    throw new TypeError(`${typeof value === "number" ? value : `A ${typeof value}`} is not an SqlValue: ${sql}`);
  }
  if (value.includes("\0")) throw new Error("Postgres cannot store text with U+0000, so nothing was stored.");
  return value.toWellFormed();
}

/**
 * Converts a result to rows by column name; later columns of the same name win. Throws RangeError for an integer that a
 * JavaScript number cannot represent, TypeError for a value that is no SqlValue.
 */
export function toRows({ rows, fields = [] }: PostgresResult): SqlRow[] {
  if (rows.length === 0) return [];
  const types = new Map(fields.map(({ name, dataTypeID }) => [name, dataTypeID]));
  return rows.map((row) =>
    Object.fromEntries(
      Array.isArray(row)
        ? fields.map(({ name, dataTypeID }, index) => [name, toSqlValue(row[index], dataTypeID)])
        : Object.entries(row as object).map(([name, value]) => [name, toSqlValue(value, types.get(name))]),
    ),
  );
}

/** The rows of the last statement in a text with one or several. */
export function getLastResult(result: PostgresResult | readonly PostgresResult[]): PostgresResult {
  return (Array.isArray(result) ? result.at(-1) : result) ?? { rows: [] };
}

const BOOLEAN_TYPE = 16;
/** int8, int2, int4, oid, numeric. */
const EXACT_TYPES: ReadonlySet<number> = new Set([20, 21, 23, 26, 1700]);
/** float4, float8. */
const FLOAT_TYPES: ReadonlySet<number> = new Set([700, 701]);

/**
 * Converts a value of the client: null for undefined, 1 or 0 for a boolean, a number for an integer. Throws RangeError for one
 * that is too large, TypeError for a value that is no SqlValue.
 */
function toSqlValue(value: unknown, type = 0): SqlValue {
  if (value === null || value === undefined) return null;
  if (typeof value === "string") return parseTextValue(value, type);
  if (typeof value === "boolean") return value ? 1 : 0;
  if (typeof value === "bigint") return parseExactNumber(String(value));
  if (typeof value === "number") return EXACT_TYPES.has(type) ? parseExactNumber(String(value)) : value;
  if (!(value instanceof Uint8Array)) throw new TypeError(`Postgres returned a ${typeof value}, which is no SqlValue`);
  // A Buffer has other methods with the same names, and may share memory that is reused.
  return value.constructor === Uint8Array ? value : new Uint8Array(value);
}

/**
 * Converts a value that the client has left as the text of the server. Text of unknown types stays text. Throws RangeError for an
 * integer that is too large.
 */
function parseTextValue(text: string, type: number): SqlValue {
  if (EXACT_TYPES.has(type)) return parseExactNumber(text);
  if (FLOAT_TYPES.has(type)) return Number(text);
  if (type === BOOLEAN_TYPE) return /^t/i.test(text) ? 1 : 0;
  return text;
}

/** Throws RangeError for an integer that a JavaScript number cannot represent. Fractions are rounded as usual. */
function parseExactNumber(text: string): number {
  const number = Number(text);
  if (Number.isInteger(number) && !Number.isSafeInteger(number)) {
    throw new RangeError(`${text} is too large for a JavaScript number`);
  }
  return number;
}

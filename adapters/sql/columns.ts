/** Columns of statements and rows: lists of their names and values, and JSON, which is stored as text. */
import { type RawBuilder, sql } from "kysely";

/** Names of columns for a statement, of the table with this name if one is given. */
export const joinColumnNames = (columns: readonly string[], table?: string): RawBuilder<unknown> =>
  sql.join(columns.map((name) => sql.ref(table === undefined ? name : `${table}.${name}`)));

/** JSON for a column that is null where there is no value. */
export const encodeJson = (value: unknown): string | null => (value == null ? null : JSON.stringify(value));

/** The value of such a column. */
export const decodeJson = <Value>(text: string | null): Value | null =>
  text === null ? null : (JSON.parse(text) as Value);

/** Returns the members of an object with these names. */
export const pick = <Source, Name extends keyof Source & string>(
  source: Source,
  names: readonly Name[],
): Pick<Source, Name> => Object.fromEntries(names.map((name) => [name, source[name]])) as Pick<Source, Name>;

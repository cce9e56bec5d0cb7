/** Columns of statements and rows: lists of their names and values, and JSON, which is stored as text. */
import { type RawBuilder, sql } from "./template.ts";

/** Names of columns for a statement, of the table with this name if one is given. */
export const namesOf = (columns: readonly string[], table?: string): RawBuilder<unknown> =>
  sql.join(columns.map((name) => sql.ref(table === undefined ? name : `${table}.${name}`)));

/** The values of columns for a statement. */
export const valuesOf = <Name extends string>(
  columns: readonly Name[],
  p: Readonly<Record<Name, unknown>>,
): RawBuilder<unknown> => sql.join(columns.map((name) => p[name]));

/** Assignments to columns for an update. */
export const assigned = (columns: readonly string[], p: Readonly<Record<string, unknown>>): RawBuilder<unknown> =>
  sql.join(columns.map((name) => sql`${sql.ref(name)} = ${p[name]}`));

/** JSON for a column that is null where there is no value. */
export const toText = (value: unknown): string | null => (value == null ? null : JSON.stringify(value));

/** The value of such a column. */
export const fromText = <Value>(text: string | null): Value | null =>
  text === null ? null : (JSON.parse(text) as Value);

/** Returns the members of an object with these names. */
export const pick = <Source, Name extends keyof Source & string>(
  source: Source,
  names: readonly Name[],
): Pick<Source, Name> => Object.fromEntries(names.map((name) => [name, source[name]])) as Pick<Source, Name>;

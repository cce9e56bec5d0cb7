/** Where databases differ, and the compiler of statements. Nothing here holds a connection. */
import {
  type Compilable,
  DummyDriver,
  Kysely,
  type RawBuilder,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  sql,
} from "kysely";
import type { Tables } from "./schema.ts";

/** Compiles statements; it is connected to nothing. */
export const db: Kysely<Tables> = new Kysely<Tables>({
  dialect: {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (kysely) => new SqliteIntrospector(kysely),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  },
});

/** The type of a column that holds bytes. */
export const bytesType = "blob";

/** A whole statement written as SQL text. */
export function raw(statement: RawBuilder<unknown>): Compilable {
  return { compile: () => statement.compile(db) };
}

/**
 * A value to compare with in a statement that joins, orders, takes a maximum or selects from rows it lists itself. There
 * SQLite 3.54 compiles the statement anew whenever a plain parameter is bound, which costs more than running it.
 */
export function settled<Value>(value: Value): RawBuilder<Value> {
  return sql<Value>`(select ${value})`;
}

/** A subquery: the strings of a JSON array given as one parameter. */
export function each(list: string): RawBuilder<string> {
  return sql<string>`(select value from json_each(${list}))`;
}

/** True where `text` is a part of `column`; the case of ASCII letters does not count, and no character is a wildcard. */
export function includes(column: RawBuilder<string>, text: string): RawBuilder<boolean> {
  return sql<boolean>`instr(lower(${column}), lower(${text})) > 0`;
}

/** The names of all tables of the database. */
export const tableNames: RawBuilder<{ name: string }> = sql`select name from sqlite_master where type = 'table'`;

/** True for the error of a file that is damaged or not a database at all. */
export function isDamage(error: unknown): boolean {
  const { code, errcode, message } = error as { code?: unknown; errcode?: unknown; message?: unknown };
  return (
    errcode === 11 ||
    errcode === 26 ||
    /^SQLITE_(CORRUPT|NOTADB)/.test(String(code)) ||
    /not a database|malformed/.test(String(message))
  );
}

/** True for the error of a write that found no room on the disk: nothing of its batch took effect. */
export function isFull(error: unknown): boolean {
  const { code, errcode, message } = error as { code?: unknown; errcode?: unknown; message?: unknown };
  return errcode === 13 || code === "SQLITE_FULL" || /database or disk is full/.test(String(message));
}

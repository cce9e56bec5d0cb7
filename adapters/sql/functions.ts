/** Fragments of statements whose text differs between databases. */
import { type Expression, type RawBuilder, sql } from "kysely";
import type { DialectNode } from "./compiler.ts";
import type { Operand } from "./parameters.ts";

/** Returns a fragment that is `sqlite` in statements for SQLite, and `postgres` in statements for Postgres. */
function byDialect<Value>(sqlite: RawBuilder<Value>, postgres: RawBuilder<unknown>): RawBuilder<Value> {
  const node: DialectNode = {
    kind: "RawNode",
    sqlFragments: ["", ""],
    parameters: [sqlite.toOperationNode()],
    postgres: postgres.toOperationNode(),
  };
  return sql<Value>`${{ toOperationNode: () => node }}`;
}

/**
 * Ends a subquery of `exists` that must be evaluated row by row. Postgres would turn it into a join, which reads all rows first,
 * and without statistics takes quadratic time.
 */
export const rowByRow: RawBuilder<unknown> = byDialect(sql``, sql`offset 0`);

/** Returns a subquery that lists the strings of a JSON array, given as one parameter, in the column `value`. */
export function jsonStrings(list: Operand<string>): RawBuilder<string> {
  return byDialect(
    sql<string>`(select value from json_each(${list}))`,
    sql`(select value collate "C" as value from json_array_elements_text(${list}::json))`,
  );
}

/** True where a column equals one of the strings of a JSON array in one parameter. Uses an index, also for the order. */
export function isInJsonList(column: Expression<unknown>, list: Operand<string>): RawBuilder<boolean> {
  return byDialect(sql<boolean>`${column} in ${jsonStrings(list)}`, sql`${column} = any(array${jsonStrings(list)})`);
}

/** Indexes of a list. */
const LIST_INDEXES = [
  { sqlite: sql`'$[0]'`, postgres: sql`0` },
  { sqlite: sql`'$[1]'`, postgres: sql`1` },
  { sqlite: sql`'$[2]'`, postgres: sql`2` },
  { sqlite: sql`'$[3]'`, postgres: sql`3` },
  { sqlite: sql`'$[4]'`, postgres: sql`4` },
  { sqlite: sql`'$[5]'`, postgres: sql`5` },
  { sqlite: sql`'$[6]'`, postgres: sql`6` },
  { sqlite: sql`'$[7]'`, postgres: sql`7` },
] as const;

/**
 * Returns a subquery that reads a JSON array of arrays, given as one parameter: each inner array is a row, with its items in
 * these columns, in order (at most eight).
 */
export function jsonRows(
  list: Operand<string>,
  columns: Readonly<Record<string, "text" | "bigint">>,
): RawBuilder<unknown> {
  const indexedColumns = Object.entries(columns).map(([name, type], i) => ({
    name: sql.ref(name),
    type,
    place: LIST_INDEXES[i] as (typeof LIST_INDEXES)[number],
  }));
  return byDialect(
    sql`(select ${sql.join(
      indexedColumns.map(({ name, place: index }) => sql`json_extract(value, ${index.sqlite}) as ${name}`),
    )} from json_each(${list}))`,
    sql`(select ${sql.join(
      indexedColumns.map(({ name, type, place: index }) =>
        type === "bigint"
          ? sql`(value ->> ${index.postgres})::bigint as ${name}`
          : sql`(value ->> ${index.postgres}) collate "C" as ${name}`,
      ),
    )} from json_array_elements(${list}::json))`,
  );
}

/**
 * Returns a table with a row for each member of a JSON object, with the columns `key` and `value`. The values must be strings
 * without U+0000.
 */
export function jsonMembers(object: RawBuilder<unknown>): RawBuilder<unknown> {
  return byDialect(
    sql`json_each(${object})`,
    sql`lateral (select key collate "C" as key, value collate "C" as value from json_each_text(${object}::json))`,
  );
}

/**
 * Returns the member `key` of a JSON object, given as one parameter; null if there is none. The member must be an integer,
 * which is not checked: Postgres fails for another value, SQLite returns it.
 */
export function jsonInteger(object: Operand<string>, key: RawBuilder<string>): RawBuilder<number> {
  return byDialect(
    sql<number>`(select value from json_each(${object}) where key = ${key})`,
    sql`(${object}::json ->> ${key})::bigint`,
  );
}

/**
 * Returns a subquery that lists the values of the object `parents` in the metadata of a checkpoint, in the column `value`; no
 * rows without it.
 */
export function jsonParents(metadata: RawBuilder<unknown>): RawBuilder<string> {
  return byDialect(
    sql<string>`(select value from json_each(${metadata}, '$.parents'))`,
    sql`(select value collate "C" as value from json_each_text(${escapeForPostgresJson(metadata)} -> 'parents'))`,
  );
}

/**
 * JSON text that Postgres can parse. It rejects escapes of U+0000 and of lone surrogates, so each \u becomes U+0001 and "u",
 * which keeps different texts different. JSON never contains U+0001 itself, so it can also stand for \\ in between.
 */
const escapeForPostgresJson = (json: unknown): RawBuilder<unknown> =>
  sql`replace(replace(replace(${json}, '\\\\', chr(1)), '\\u', '\\u0001u'), chr(1), '\\\\')::json`;

/**
 * Returns the condition that a JSON object passes every test of a list: [key, "is", scalar], [key, "list"] or [key, "has",
 * scalar]. One JSON parser reads both sides, so equal texts are equal values, and nothing is converted.
 */
export function passesFilterTests(object: Expression<unknown>, tests: Operand<string>): RawBuilder<boolean> {
  const sqlite = (element: RawBuilder<unknown>): RawBuilder<unknown> =>
    sql`${element}.type = json_type(c.value, '$[2]') and ${element}.atom is json_extract(c.value, '$[2]')`;
  const postgres = (element: RawBuilder<unknown>): RawBuilder<unknown> =>
    sql`json_typeof(${element}.value) not in ('object', 'array') and ${element}.value::text = (c.value -> 2)::text`;
  return byDialect(
    sql<boolean>`not exists (select 1 from json_each(${tests}) c where not exists (select 1 from json_each(${object}) m
      where m.key = json_extract(c.value, '$[0]') and case json_extract(c.value, '$[1]')
        when 'is' then ${sqlite(sql`m`)}
        when 'list' then m.type = 'array'
        else exists (select 1 from json_each(case m.type when 'array' then m.value else '[]' end) e where ${sqlite(sql`e`)})
      end))`,
    sql`not exists (select 1 from json_array_elements(${escapeForPostgresJson(sql`${tests}`)}) c where not exists (
      select 1 from json_each(${escapeForPostgresJson(object)}) m where m.key = c.value ->> 0 and case c.value ->> 1
        when 'is' then ${postgres(sql`m`)}
        when 'list' then json_typeof(m.value) = 'array'
        else exists (select 1 from json_array_elements(case json_typeof(m.value) when 'array' then m.value else '[]' end) e
          where ${postgres(sql`e`)})
      end))`,
  );
}

/** True where `column` contains `text`, without wildcards. */
export function containsText(column: Expression<unknown>, text: Operand<string>): RawBuilder<boolean> {
  return byDialect(sql<boolean>`instr(${column}, ${text}) > 0`, sql`strpos(${column}, ${text}) > 0`);
}

/**
 * Returns a condition that is never false where the member, converted to a number, is at least (with `below` at most) `bound`.
 * `null_passes` tells whether null is. It is true for texts, lists and objects, false for an absent member, and may be true for
 * other values. The name of the member needs no escapes.
 */
export function mayReachBound(
  object: Expression<string>,
  member: Operand<string>,
  bound: Operand<number>,
  { below, null_passes }: { readonly below: boolean; readonly null_passes: boolean },
): RawBuilder<boolean> {
  const order = below ? sql`<=` : sql`>=`;
  const path = sql`'$."' || ${member} || '"'`;
  const memberValue = sql`json_extract(${object}, ${path})`;
  // In SQLite a text, also that of a list, is above each number.
  const orIsText = below ? sql`or typeof(${memberValue}) = 'text'` : sql``;
  const isPassingNull = null_passes ? sql`json_type(${object}, ${path}) = 'null'` : sql`false`;
  return byDialect(
    sql<boolean>`coalesce(${memberValue} ${order} ${bound} ${orIsText}, ${isPassingNull})`,
    sql`(select case json_typeof(m.it) when 'number' then (m.it #>> '{}')::double precision ${order} ${bound}
      else m.it is not null end from (select ${escapeForPostgresJson(object)} -> ${member} as it offset 0) m)`,
  );
}

/** Returns the condition that `column` contains `text`, regardless of the case of ASCII letters. */
export function containsTextIgnoreCase(column: Expression<string>, text: Operand<string>): RawBuilder<boolean> {
  return byDialect(
    sql<boolean>`instr(lower(${column}), lower(${text})) > 0`,
    sql`strpos(lower(${column} collate "C"), lower(${text} collate "C")) > 0`,
  );
}

/** The names of all tables of the database; in Postgres, of the current schema. */
export const tableNames: RawBuilder<{ name: string }> = byDialect(
  sql`select name from sqlite_master where type = 'table'`,
  sql`select tablename as name from pg_tables where schemaname = current_schema()`,
);

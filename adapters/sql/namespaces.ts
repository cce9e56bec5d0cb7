/** How namespaces are stored, and the list of namespaces with items: each once, in order, read in steps. */
import type { ItemStorage, NamespaceQuery } from "../../lib/storage/items.ts";
import type { Scope } from "../../lib/storage/mod.ts";
import type { SqlRow } from "./driver.ts";
import { type Database, type Statement, statement } from "./statement.ts";
import { type RawBuilder, sql } from "./template.ts";

/** Rows per read. */
const STEP = 500;

/** Each label with a dot behind it, so the path of a namespace starts with the paths of its parents. */
export const pathOf = (namespace: readonly string[]): string => namespace.map((label) => `${label}.`).join("");
export const namespaceOf = (path: string): readonly string[] => path.split(".").slice(0, -1);
/** The first text after all paths with this prefix, which is not empty: a slash follows the dot. */
export const past = (path: string): string => `${path.slice(0, -1)}/`;
/** The first path that can follow this one: no label contains U+0000. */
const next = (path: string): string => `${path}\u0001`;

/** True for rows that have not expired. */
export function alive(now: number): RawBuilder<boolean> {
  return sql<boolean>`(expires_at is null or expires_at > ${now})`;
}

/** `visible` checks rows if the scope has a filter. Without a filter, only the paths of items are read. */
export function namespaceLister(
  driver: Database,
  visible: (scope: Scope, row: SqlRow) => boolean,
): ItemStorage["listNamespaces"] {
  return async (scope, query, now) => {
    const { prefix, offset, max_depth = Number.POSITIVE_INFINITY } = query;
    const wanted = offset + query.limit;
    const fixed = prefix.includes("*") ? prefix.slice(0, prefix.indexOf("*")) : prefix;
    const start = pathOf(fixed);
    const read = scope.filter ? rowsFrom : pathsFrom;
    const found: (readonly string[])[] = [];
    /** Done so far: this path, or every path with this prefix. */
    let decided = { path: "", whole: false };
    for (let from = { path: start, key: "" }; found.length < wanted; ) {
      const rows = await driver.read(read(scope, from, start, now));
      for (const row of rows) {
        const path = row.path as string;
        if (decided.whole ? path.startsWith(decided.path) : path === decided.path) continue;
        from = { path, key: (row.key as string | undefined) ?? "" };
        const namespace = namespaceOf(path);
        const suits = fits(namespace, query);
        if (suits && scope.filter && !visible(scope, row)) continue;
        const shown = namespace.slice(0, max_depth);
        decided = suits && shown.length === max_depth ? { path: pathOf(shown), whole: true } : { path, whole: false };
        from = { path: decided.whole ? past(decided.path) : next(path), key: "" };
        if (suits) found.push(shown);
        if (found.length === wanted) break;
      }
      if (rows.length < STEP) break;
    }
    return found.slice(offset);
  };
}

function fits(namespace: readonly string[], { prefix, suffix }: NamespaceQuery): boolean {
  const { length } = namespace;
  if (prefix.length > length || suffix.length > length) return false;
  const is = (asked: string, label: string | undefined): boolean => asked === "*" || asked === label;
  return (
    prefix.every((asked, at) => is(asked, namespace[at])) &&
    suffix.every((asked, at) => is(asked, namespace[length - suffix.length + at]))
  );
}

type Position = { readonly path: string; readonly key: string };

/** Reads distinct paths, however many items each has. */
function pathsFrom({ deployment }: Scope, from: Position, start: string, now: number): Statement {
  const within = start === "" ? sql`` : sql`and i.path < ${past(start)}`;
  const first = (after: RawBuilder<unknown>): RawBuilder<unknown> => sql`(select i.path from store_items i
    where i.deployment = ${deployment} and i.path ${after} ${within} and (i.expires_at is null or i.expires_at > ${now})
    order by i.path limit 1)`;
  const paths = sql`with recursive paths (path) as (
      select ${first(sql`>= ${from.path}`)} union all select ${first(sql`> p.path`)} from paths p where p.path is not null
    ) select path from paths where path is not null limit ${STEP}`;
  return statement(paths);
}

/** A key is never empty, so the empty key sorts before the items of its path. */
function rowsFrom({ deployment }: Scope, from: Position, start: string, now: number): Statement {
  const within = start === "" ? sql`` : sql` and path < ${past(start)}`;
  return statement(
    sql`select * from store_items where deployment = ${deployment} and (path, key) > (${from.path}, ${from.key})
    and ${alive(now)}${within} order by path, key limit ${STEP}`,
  );
}

/** How namespaces are stored, and the list of namespaces with items: each once, in order, read in steps. */
import type { ItemStorage, NamespaceQuery } from "../../lib/storage/items.ts";
import type { Scope } from "../../lib/storage/mod.ts";
import type { Database } from "./database.ts";
import type { Tables } from "./schema/tables.ts";
import { selectNextCandidates, selectPaths } from "./statements/items.ts";

type Row = Tables["store_items"];

/** Rows per read. */
const STEP = 500;

/** Each label with a dot behind it, so the path of a namespace starts with the paths of its parents. */
export const pathOf = (namespace: readonly string[]): string => namespace.map((label) => `${label}.`).join("");
export const namespaceOf = (path: string): readonly string[] => path.split(".").slice(0, -1);
/** The first text after all paths with this prefix, which is not empty: a slash follows the dot. */
export const past = (path: string): string => `${path.slice(0, -1)}/`;
/** The first path that can follow this one: no label contains U+0000. */
const next = (path: string): string => `${path}\u0001`;

interface Position {
  readonly path: string;
  readonly key: string;
}

/** A place with an item; the item itself only in a scope with a filter. */
interface Occupied extends Position {
  readonly item?: Row;
}

/** Returns a function that reads places from a position on. Without a filter, only the paths of items are read. */
function placeReader(
  driver: Database,
  { deployment, filter }: Scope,
  start: string,
  now: number,
): (from: Position) => Promise<readonly Occupied[]> {
  const prefix = start !== "";
  const args = { deployment, now, end: past(start), limit: STEP };
  if (!filter) {
    return async ({ path }) =>
      (await driver.read(selectPaths({ prefix }, { ...args, start: path }))).map((row) => ({ ...row, key: "" }));
  }
  const shape = { prefix, vectors: false, conditions: [] };
  // A key is never empty, so the empty key sorts before the items of its path.
  return async ({ path, key }) =>
    (await driver.read(selectNextCandidates(shape, { ...args, after_path: path, after_key: key }, []))).map((item) => ({
      path: item.path,
      key: item.key,
      item,
    }));
}

/** Returns the verb that lists namespaces. `visible` checks items if the scope has a filter. */
export function namespaceLister(
  driver: Database,
  visible: (scope: Scope, item: Row) => boolean,
): ItemStorage["listNamespaces"] {
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one pass over the paths, which skips what is decided
  return async (scope, query, now) => {
    const { prefix, offset, max_depth = Number.POSITIVE_INFINITY } = query;
    const wanted = offset + query.limit;
    const fixed = prefix.includes("*") ? prefix.slice(0, prefix.indexOf("*")) : prefix;
    const start = pathOf(fixed);
    const read = placeReader(driver, scope, start, now);
    const found: (readonly string[])[] = [];
    /** Done so far: this path, or every path with this prefix. */
    let decided = { path: "", whole: false };
    for (let from: Position = { path: start, key: "" }; found.length < wanted; ) {
      const places = await read(from);
      for (const { path, key, item } of places) {
        if (decided.whole ? path.startsWith(decided.path) : path === decided.path) continue;
        from = { path, key };
        const namespace = namespaceOf(path);
        const suits = fits(namespace, query);
        if (suits && item && !visible(scope, item)) continue;
        const shown = namespace.slice(0, max_depth);
        decided = suits && shown.length === max_depth ? { path: pathOf(shown), whole: true } : { path, whole: false };
        from = { path: decided.whole ? past(decided.path) : next(path), key: "" };
        if (suits) found.push(shown);
        if (found.length === wanted) break;
      }
      if (places.length < STEP) break;
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

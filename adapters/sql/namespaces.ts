/** Converts namespaces to paths, and lists the namespaces that have items: each once, in order. */
import type { ItemStorage, NamespaceQuery } from "../../lib/storage/items.ts";
import type { Scope } from "../../lib/storage/mod.ts";
import type { Database } from "./database.ts";
import type { CoreTables } from "./schema/tables.ts";
import { selectNextCandidates, selectPaths } from "./statements/items.ts";

type Row = CoreTables["store_items"];

/** Rows per read. */
const PAGE_ROWS = 500;

/** Returns the labels, each followed by a dot, so that the path of a namespace starts with the paths of its parents. */
export const toPath = (namespace: readonly string[]): string => namespace.map((label) => `${label}.`).join("");
export const parseNamespace = (path: string): readonly string[] => path.split(".").slice(0, -1);
/** The first text after all paths with this prefix, which is not empty: a slash follows the dot. */
export const endOfPrefix = (path: string): string => `${path.slice(0, -1)}/`;
/** The first path that can follow this one: no label contains U+0000. */
const nextPath = (path: string): string => `${path}\u0001`;

interface Position {
  readonly path: string;
  readonly key: string;
}

/** A place with an item; the item itself only in a scope with a filter. */
interface ItemPosition extends Position {
  readonly item?: Row;
}

/**
 * Returns a function that reads a page of items in the namespace `start` and below, from a position on, in order of their
 * addresses. Without a filter it reads each path once, with an empty key and without the item.
 */
function createPositionReader(
  driver: Database,
  { deployment, filter }: Scope,
  start: string,
  now: number,
): (from: Position) => Promise<readonly ItemPosition[]> {
  const prefix = start !== "";
  const args = { deployment, now, end: endOfPrefix(start), limit: PAGE_ROWS };
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

/**
 * Returns the storage operation that lists namespaces in order, each once and cut to `max_depth`. With a filter a namespace is
 * listed only if it has an item for which `isVisible` is true.
 */
export function createNamespaceLister(
  driver: Database,
  isVisible: (scope: Scope, item: Row) => boolean,
): ItemStorage["listNamespaces"] {
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one pass over the paths, which skips what is decided
  return async (scope, query, now) => {
    const { prefix, offset, max_depth = Number.POSITIVE_INFINITY } = query;
    const maxFound = offset + query.limit;
    const fixedPrefix = prefix.includes("*") ? prefix.slice(0, prefix.indexOf("*")) : prefix;
    const start = toPath(fixedPrefix);
    const read = createPositionReader(driver, scope, start, now);
    const namespaces: (readonly string[])[] = [];
    /** Done so far: this path, or every path with this prefix. */
    let skipped = { path: "", whole: false };
    for (let from: Position = { path: start, key: "" }; namespaces.length < maxFound; ) {
      const positions = await read(from);
      for (const { path, key, item } of positions) {
        if (skipped.whole ? path.startsWith(skipped.path) : path === skipped.path) continue;
        from = { path, key };
        const namespace = parseNamespace(path);
        const isMatch = matchesQuery(namespace, query);
        if (isMatch && item && !isVisible(scope, item)) continue;
        const shortened = namespace.slice(0, max_depth);
        skipped =
          isMatch && shortened.length === max_depth ? { path: toPath(shortened), whole: true } : { path, whole: false };
        from = { path: skipped.whole ? endOfPrefix(skipped.path) : nextPath(path), key: "" };
        if (isMatch) namespaces.push(shortened);
        if (namespaces.length === maxFound) break;
      }
      if (positions.length < PAGE_ROWS) break;
    }
    return namespaces.slice(offset);
  };
}

/**
 * Returns true if the namespace begins with the labels of `prefix` and ends with those of `suffix`; `*` matches any one label.
 */
function matchesQuery(namespace: readonly string[], { prefix, suffix }: NamespaceQuery): boolean {
  const { length } = namespace;
  if (prefix.length > length || suffix.length > length) return false;
  const matchesLabel = (pattern: string, label: string | undefined): boolean => pattern === "*" || pattern === label;
  return (
    prefix.every((pattern, index) => matchesLabel(pattern, namespace[index])) &&
    suffix.every((pattern, index) => matchesLabel(pattern, namespace[length - suffix.length + index]))
  );
}

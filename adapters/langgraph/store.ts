/** The store of a job with the methods of LangGraph's `BaseStore`. It does not extend that class, so it needs no LangGraph. */
import type { StoreHandle, StoreItem, StorePut } from "../../lib/executor/contract.ts";
import type { JsonObject } from "../../lib/json.ts";

/** A store item in LangGraph's form. */
export interface Item {
  readonly namespace: string[];
  readonly key: string;
  readonly value: JsonObject;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly score?: number;
}

interface Get {
  readonly namespace: readonly string[];
  readonly key: string;
}
interface Put extends Get {
  readonly value: Readonly<Record<string, unknown>> | null;
  readonly index?: false | readonly string[] | null;
  readonly ttl?: number | null;
}
interface Page {
  readonly limit?: number;
  readonly offset?: number;
}
interface SearchOptions extends Page {
  readonly filter?: Readonly<Record<string, unknown>> | null;
  readonly query?: string | null;
}
interface Search extends SearchOptions {
  readonly namespacePrefix: readonly string[];
}
interface List extends Page {
  readonly matchConditions?: readonly { readonly matchType: string; readonly path: readonly string[] }[];
  readonly maxDepth?: number;
}
interface ListOptions extends Omit<List, "matchConditions"> {
  readonly prefix?: readonly string[];
  readonly suffix?: readonly string[];
}
export type Operation = Get | Put | Search | List;

/** The page size of a store. LangGraph has no such limit, so longer reads take several pages. */
const PAGE_ROWS = 1_000;

export class JobStore {
  readonly #handle: StoreHandle;

  constructor(handle: StoreHandle) {
    this.#handle = handle;
  }

  /** Returns null if there is no such item. */
  async get(namespace: readonly string[], key: string): Promise<Item | null> {
    const item = await this.#handle.get(namespace, key);
    return item && toItem(item);
  }

  /**
   * Returns the items below the namespace, 10 by default; empty if none match. Reads several pages for a larger limit, so items
   * may move between pages meanwhile.
   */
  async search(namespacePrefix: readonly string[], options: SearchOptions = {}): Promise<Item[]> {
    const { filter, query, limit = 10, offset = 0 } = options;
    const search = { ...(filter ? { filter: filter as JsonObject } : {}), ...(query ? { query } : {}) };
    const items = await readPages(limit, offset, (page) =>
      this.#handle.search(namespacePrefix, { ...search, ...page }),
    );
    return items.map(toItem);
  }

  async put(
    namespace: readonly string[],
    key: string,
    value: Readonly<Record<string, unknown>>,
    index?: false | readonly string[],
  ): Promise<void> {
    await this.#handle.putMany([toPut({ namespace, key, value, ...(index === undefined ? {} : { index }) })]);
  }

  async delete(namespace: readonly string[], key: string): Promise<void> {
    await this.#handle.delete(namespace, key);
  }

  /** Returns the namespaces that have items, 100 by default, in several reads for a larger limit. Empty if none match. */
  async listNamespaces(options: ListOptions = {}): Promise<string[][]> {
    const { prefix, suffix, maxDepth, limit = 100, offset = 0 } = options;
    const query = {
      ...(prefix ? { prefix } : {}),
      ...(suffix ? { suffix } : {}),
      ...(maxDepth === undefined ? {} : { max_depth: maxDepth }),
    };
    const namespaces = await readPages(limit, offset, (page) => this.#handle.namespaces({ ...query, ...page }));
    return namespaces.map((namespace) => [...namespace]);
  }

  /**
   * Runs operations as a batch and returns their results in order; undefined for writes. Reads return the state before it. Its
   * writes take effect together or not at all.
   */
  async batch(operations: readonly Operation[]): Promise<unknown[]> {
    const results = await Promise.all(operations.map((operation) => this.#read(operation)));
    const puts = operations.filter((operation) => "value" in operation).map(toPut);
    if (puts.length > 0) await this.#handle.putMany(puts);
    return results;
  }

  start(): void {}

  stop(): void {}

  /** Returns a placeholder, because LangChain serializes configurations with their stores as JSON. */
  toJSON(): string {
    return "[greenroom]";
  }

  /**
   * Runs a search, a `get` or a listing of namespaces, and returns its result; undefined for a write, which it does not
   * run. Of several match conditions of one type, the last counts.
   */
  async #read(operation: Operation): Promise<unknown> {
    if ("value" in operation) return undefined;
    if ("namespacePrefix" in operation) return await this.search(operation.namespacePrefix, operation);
    if ("key" in operation) return await this.get(operation.namespace, operation.key);
    const { matchConditions = [], ...options } = operation;
    const path = (type: string): readonly string[] | undefined =>
      matchConditions.findLast(({ matchType }) => matchType === type)?.path;
    const [prefix, suffix] = [path("prefix"), path("suffix")];
    return await this.listNamespaces({ ...options, ...(prefix ? { prefix } : {}), ...(suffix ? { suffix } : {}) });
  }
}

/** Reads pages until `limit` rows are there or a page is not full. No read for a limit of zero. */
async function readPages<Row>(
  limit: number,
  offset: number,
  read: (page: Required<Page>) => Promise<readonly Row[]>,
): Promise<Row[]> {
  const rows: Row[] = [];
  while (rows.length < limit) {
    const query = { limit: Math.min(PAGE_ROWS, limit - rows.length), offset: offset + rows.length };
    const page = await read(query);
    rows.push(...page);
    if (page.length < query.limit) break;
  }
  return rows;
}

function toPut({ namespace, key, value, index, ttl }: Put): StorePut {
  return {
    namespace,
    key,
    value: value as JsonObject | null,
    ...(index === undefined || index === null ? {} : { index }),
    ...(ttl === undefined ? {} : { ttl }),
  };
}

function toItem({
  namespace,
  key,
  value,
  created_at,
  updated_at,
  ...otherMembers
}: StoreItem & { score?: number }): Item {
  return {
    ...otherMembers,
    value,
    key,
    namespace: [...namespace],
    createdAt: new Date(created_at),
    updatedAt: new Date(updated_at),
  };
}

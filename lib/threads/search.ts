/** Searches and counts threads. */
import type { PageOf } from "../assistants/mod.ts";
import type { ThreadState } from "../executor/contract.ts";
import { contains, type JsonObject } from "../json.ts";
import type { Scope, Storage, ThreadRow, ThreadSort, ThreadStatus } from "../storage/mod.ts";
import { type Visibility, withVisibility } from "../storage/visibility.ts";
import { extractor } from "./extract.ts";
import type { States } from "./read.ts";
import { type Extra, type Thread, withoutState, withState } from "./thread.ts";

export interface ThreadFilter {
  readonly metadata?: JsonObject;
  /** Containment on the state's values. */
  readonly values?: JsonObject;
  readonly status?: ThreadStatus;
}

export interface ThreadSearch extends ThreadFilter {
  readonly ids?: readonly string[];
  readonly limit?: number;
  readonly offset?: number;
  readonly sort_by?: ThreadSort;
  readonly sort_order?: "asc" | "desc";
  /** Returns only these fields of each thread; without `values` and `interrupts` no state is read. */
  readonly select?: readonly string[];
  /** Alias → path, at most ten, such as `{last: "values.messages[-1].content"}`. The values are in `extracted`. */
  readonly extract?: Readonly<Record<string, string>>;
  readonly include?: readonly Extra[];
}

/** Rows per query of a filter on values. */
const BATCH = 200;

interface Match {
  readonly row: ThreadRow;
  readonly state: ThreadState | null;
}

export interface ThreadSearches {
  /** Errors: invalid (a path of `extract`). */
  search(query?: ThreadSearch, visibility?: Visibility): Promise<PageOf<Partial<Thread>>>;
  count(query?: ThreadFilter, visibility?: Visibility): Promise<number>;
}

export function createSearches(storage: Storage, scope: Scope, states: States): ThreadSearches {
  /** All rows that match the whole query, in order. States are read only of rows that pass every other filter. */
  async function matching(query: ThreadSearch, visibility?: Visibility): Promise<Match[]> {
    const { metadata, values = {}, status, ids, sort_by = "created_at", sort_order = "desc" } = query;
    const matches: Match[] = [];
    for (let offset = 0; ; offset += BATCH) {
      const page = { values, sort_by, sort_order, limit: BATCH, offset };
      const { rows } = await storage.searchThreads(withVisibility(scope, visibility), {
        ...defined({ metadata, status, ids }),
        ...page,
      });
      for (const row of rows) {
        const state = await states.readable(row);
        if (contains(state?.values ?? null, values)) matches.push({ row, state });
      }
      if (rows.length < BATCH) return matches;
    }
  }

  return {
    async search(query = {}, visibility) {
      const { limit = 10, offset = 0, sort_by = "created_at", sort_order = "desc", select, include = [] } = query;
      const extract = query.extract ? extractor(query.extract) : null;
      const selected = (name: string): boolean => !select || select.includes(name);
      const shown = (name: string): boolean =>
        selected(name) || name === "extracted" || include.includes(name as Extra);
      // The row has the interrupts of the last ended run. Those of an active run are in its state.
      const needsState = ({ running }: ThreadRow): boolean =>
        selected("values") ||
        (extract?.values ?? false) ||
        (running !== null && (selected("interrupts") || extract !== null));
      const pick = async ({ row, state }: { row: ThreadRow; state?: ThreadState | null }): Promise<Partial<Thread>> => {
        const newest = state === undefined && needsState(row) ? await states.readable(row) : state;
        const thread: Thread =
          newest === undefined ? { ...withoutState(row, include), values: null } : withState(row, newest, include);
        const item = extract ? { ...thread, extracted: extract.from(thread) } : thread;
        return select ? Object.fromEntries(Object.entries(item).filter(([name]) => shown(name))) : item;
      };
      if (filtersValues(query)) {
        const matches = await matching(query, visibility);
        const items = await Promise.all(matches.slice(offset, offset + limit).map(pick));
        return { items, total: matches.length, next: offset + limit < matches.length ? offset + limit : null };
      }
      const { metadata, status, ids } = query;
      const page = { ...defined({ metadata, status, ids }), limit, offset, sort_by, sort_order };
      const { rows, total } = await storage.searchThreads(withVisibility(scope, visibility), page);
      const items = await Promise.all(rows.map((row) => pick({ row })));
      return { items, total, next: offset + limit < total ? offset + limit : null };
    },
    async count(query = {}, visibility) {
      if (filtersValues(query)) return (await matching(query, visibility)).length;
      const { metadata, status } = query;
      return await storage.countThreads(withVisibility(scope, visibility), defined({ metadata, status }));
    },
  };
}

const filtersValues = (query: ThreadFilter): boolean =>
  query.values !== undefined && Object.keys(query.values).length > 0;

type Defined<Fields> = { readonly [Name in keyof Fields]?: Exclude<Fields[Name], undefined> };

/** The fields that are not undefined. */
const defined = <Fields extends object>(fields: Fields): Defined<Fields> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Defined<Fields>;

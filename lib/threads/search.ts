/** Finding threads. */
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
  /** Only these fields of each thread; without `values` and `interrupts` no state is read. */
  readonly select?: readonly string[];
  /** Alias → path, at most ten, as `{last: "values.messages[-1].content"}`: what is there stands in `extracted`. */
  readonly extract?: Readonly<Record<string, string>>;
  readonly include?: readonly Extra[];
}

/** How many rows a filter on values reads at a time. */
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
  /** All rows that match `values` too, in order; values are read only after every other filter. */
  async function matching(query: ThreadSearch, visibility?: Visibility): Promise<Match[]> {
    const { metadata, values = {}, status, ids, sort_by = "created_at", sort_order = "desc" } = query;
    const found: Match[] = [];
    for (let offset = 0; ; offset += BATCH) {
      const page = { values, sort_by, sort_order, limit: BATCH, offset };
      const { rows } = await storage.searchThreads(withVisibility(scope, visibility), {
        ...given({ metadata, status, ids }),
        ...page,
      });
      for (const row of rows) {
        const state = await states.readable(row);
        if (contains(state?.values ?? null, values)) found.push({ row, state });
      }
      if (rows.length < BATCH) return found;
    }
  }

  return {
    async search(query = {}, visibility) {
      const { limit = 10, offset = 0, sort_by = "created_at", sort_order = "desc", select, include = [] } = query;
      const extract = query.extract ? extractor(query.extract) : null;
      const wanted = (name: string): boolean => !select || select.includes(name);
      const shown = (name: string): boolean => wanted(name) || name === "extracted" || include.includes(name as Extra);
      // While a run is active its questions are those of its state.
      const reads = ({ running }: ThreadRow): boolean =>
        wanted("values") ||
        (extract?.values ?? false) ||
        (running !== null && (wanted("interrupts") || extract !== null));
      const pick = async ({ row, state }: { row: ThreadRow; state?: ThreadState | null }): Promise<Partial<Thread>> => {
        const known = state === undefined && reads(row) ? await states.readable(row) : state;
        const thread: Thread =
          known === undefined ? { ...withoutState(row, include), values: null } : withState(row, known, include);
        const whole = extract ? { ...thread, extracted: extract.from(thread) } : thread;
        return select ? Object.fromEntries(Object.entries(whole).filter(([name]) => shown(name))) : whole;
      };
      if (filtersValues(query)) {
        const found = await matching(query, visibility);
        const items = await Promise.all(found.slice(offset, offset + limit).map(pick));
        return { items, total: found.length, next: offset + limit < found.length ? offset + limit : null };
      }
      const { metadata, status, ids } = query;
      const page = { ...given({ metadata, status, ids }), limit, offset, sort_by, sort_order };
      const { rows, total } = await storage.searchThreads(withVisibility(scope, visibility), page);
      const items = await Promise.all(rows.map((row) => pick({ row })));
      return { items, total, next: offset + limit < total ? offset + limit : null };
    },
    async count(query = {}, visibility) {
      if (filtersValues(query)) return (await matching(query, visibility)).length;
      const { metadata, status } = query;
      return await storage.countThreads(withVisibility(scope, visibility), given({ metadata, status }));
    },
  };
}

const filtersValues = (query: ThreadFilter): boolean =>
  query.values !== undefined && Object.keys(query.values).length > 0;

type Given<Fields> = { readonly [Name in keyof Fields]?: Exclude<Fields[Name], undefined> };

/** Without the fields that are undefined. */
const given = <Fields extends object>(fields: Fields): Given<Fields> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Given<Fields>;

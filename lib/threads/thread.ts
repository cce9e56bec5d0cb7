/** The JSON form of threads, and searches of threads. */

import type { PageOf } from "../assistants/mod.ts";
import type { InternalResource } from "../auth/authorizer.ts";
import { invalidFieldError, ServiceError } from "../errors.ts";
import type { ThreadState } from "../executor/contract.ts";
import { contains, isObject, type Json, type JsonObject } from "../json.ts";
import { formatIsoTime } from "../rfc3339.ts";
import type { PruneStrategy, Scope, Storage, ThreadRow, ThreadSort, ThreadStatus, ThreadTtl } from "../storage/mod.ts";
import { COUNT_ONLY } from "../storage/rows.ts";
import type { States } from "./states.ts";

/** A thread in its JSON form; times are ISO 8601, UTC. */
export interface Thread {
  readonly thread_id: string;
  readonly created_at: string;
  readonly updated_at: string;
  readonly state_updated_at: string;
  readonly metadata: JsonObject;
  readonly status: ThreadStatus;
  readonly config: JsonObject;
  /** Null before the first run. */
  readonly values: Json;
  /** Task id → pending interrupts. */
  readonly interrupts: JsonObject;
  /** `{error, message}` while status is `error`. */
  readonly error: Json;
  /** The time to live, only with `include: ["ttl"]`; null for a thread that never expires. */
  readonly ttl?: ThreadTtlJson | null;
  /** The values of a search's `extract` by alias. */
  readonly extracted?: JsonObject;
}

/** The time to live of a thread after its last activity. */
export interface TimeToLive {
  /** The time in minutes; fractions are allowed. */
  readonly ttl: number;
  /** `delete` (the default) deletes the thread; `keep_latest` deletes all checkpoints except the newest state. */
  readonly strategy?: PruneStrategy;
}

/** The time to live of a thread in its JSON form. */
export interface ThreadTtlJson {
  readonly strategy: PruneStrategy;
  readonly ttl_minutes: number;
  readonly expires_at: string;
}

const MINUTE_MS = 60_000;
/** A hundred years, in minutes: all databases and clients can represent the resulting time. */
export const MAX_TTL_MINUTES = 52_560_000;

/**
 * Converts a time to live in minutes to milliseconds, at least 1. The strategy is `delete` by default. Throws `invalid` for a
 * number that is not above 0 or is too large.
 */
export function parseTtl({ ttl, strategy = "delete" }: TimeToLive): ThreadTtl {
  if (!(ttl > 0 && ttl <= MAX_TTL_MINUTES)) {
    throw invalidFieldError("ttl", `must be a number of minutes above 0, at most ${MAX_TTL_MINUTES}`);
  }
  return { strategy, ttl_ms: Math.max(1, Math.round(ttl * MINUTE_MS)) };
}

/** Converts a stored time to live to minutes and an ISO time; null without one. */
const toTtlJson = (ttl: ThreadRow["ttl"]): ThreadTtlJson | null =>
  ttl && {
    strategy: ttl.strategy,
    ttl_minutes: ttl.ttl_ms / MINUTE_MS,
    expires_at: formatIsoTime(ttl.expires_at),
  };

/** Parts of a thread that are returned only when `include` names them. */
export type ThreadExtra = "ttl";

/**
 * Converts a thread with the values of its newest state. The interrupts are those of the state while a run is active, else those
 * of the row. The values are null without a state.
 */
export function toThreadWithState(row: ThreadRow, state: ThreadState | null, include?: readonly ThreadExtra[]): Thread {
  const tasks = state?.tasks.filter((task) => task.interrupts.length > 0) ?? [];
  const pending = Object.fromEntries(tasks.map((task) => [task.id, task.interrupts as unknown as Json]));
  const interrupts = row.running === null ? row.interrupts : pending;
  return { ...toThread(row, include), interrupts, values: state?.values ?? null };
}

/** Converts a row, without values. `interrupts` are those of the last ended run. `ttl` is there only if `include` names it. */
export function toThread(row: ThreadRow, include: readonly ThreadExtra[] = []): Omit<Thread, "values"> {
  return {
    thread_id: row.thread_id,
    created_at: formatIsoTime(row.created_at),
    updated_at: formatIsoTime(row.updated_at),
    state_updated_at: formatIsoTime(row.state_updated_at),
    metadata: row.metadata,
    status: row.status,
    config: row.config,
    interrupts: row.interrupts,
    error: row.error,
    ...(include.includes("ttl") ? { ttl: toTtlJson(row.ttl) } : {}),
  };
}

/** The filter of a search or count of threads. */
export interface ThreadFilter {
  readonly metadata?: JsonObject;
  /** Containment on the state's values. */
  readonly values?: JsonObject;
  readonly status?: ThreadStatus;
}

/** The filter, order, page and fields of a search of threads. */
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
  readonly include?: readonly ThreadExtra[];
}

/** The number of rows per query of a filter on values. */
const SEARCH_BATCH_SIZE = 200;

/** The receiver of the results of `searchEach`. */
export interface SearchSteps {
  begin(page: Omit<PageOf<unknown>, "items">): void;
  add(read: () => Promise<Partial<Thread>>): Promise<void>;
  check?(): void;
}

/** Searches of threads. */
export interface ThreadSearches {
  /** Returns a page of threads. Throws `invalid` (a path of `extract`). */
  search(query?: ThreadSearch): Promise<PageOf<Partial<Thread>>>;
  /**
   * Searches without two states in memory. Calls `begin` once, then `add` for each thread with a function that reads it, which may be
   * called again. The next thread follows when `add` resolves. `check` may throw between the states that the search compares.
   */
  searchEach(query: ThreadSearch, steps: SearchSteps): Promise<void>;
  count(query?: ThreadFilter): Promise<number>;
}

/** Creates the search over threads. A filter on values reads the state of each candidate. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createThreadSearches(storage: Storage, states: States): InternalResource<ThreadSearches> {
  /**
   * Returns all rows that match the whole query, in order. Reads only the states of rows that pass every other filter; unreadable
   * ones are logged and do not match. `check` may throw to end the search.
   */
  async function findMatches(scope: Scope, query: ThreadSearch, check?: () => void): Promise<ThreadRow[]> {
    const { metadata, values = {}, status, ids, sort_by = "created_at", sort_order = "desc" } = query;
    const matches: ThreadRow[] = [];
    for (let offset = 0; ; offset += SEARCH_BATCH_SIZE) {
      const page = { values, sort_by, sort_order, limit: SEARCH_BATCH_SIZE, offset };
      const { rows } = await storage.searchThreads(scope, {
        ...omitUndefined({ metadata, status, ids }),
        ...page,
      });
      for (const row of rows) {
        check?.();
        const isMatch = await states.runPaced(async () =>
          contains((await states.tryReadState(row))?.values ?? null, values),
        );
        if (isMatch) matches.push(row);
      }
      if (rows.length < SEARCH_BATCH_SIZE) return matches;
    }
  }

  /**
   * Returns a page of rows, 10 without a limit, with the total and the next offset, null at the end. A filter on values reads
   * the states of all threads that may match. `check` may throw to end such a search.
   */
  async function readPage(scope: Scope, query: ThreadSearch, check?: () => void): Promise<PageOf<ThreadRow>> {
    const { limit = 10, offset = 0, sort_by = "created_at", sort_order = "desc", metadata, status, ids } = query;
    const toNextOffset = (total: number): number | null => (offset + limit < total ? offset + limit : null);
    if (filtersValues(query)) {
      const matches = await findMatches(scope, query, check);
      const { length } = matches;
      return { items: matches.slice(offset, offset + limit), total: length, next: toNextOffset(length) };
    }
    const page = { ...omitUndefined({ metadata, status, ids }), limit, offset, sort_by, sort_order };
    const { rows, total } = await storage.searchThreads(scope, page);
    return { items: rows, total, next: toNextOffset(total) };
  }

  /**
   * Calls `begin` with total and next offset, and then `add` with a function that reads the next thread, one after another;
   * waits for each. The thread has the members that `select` names (else all). The state is read only if one of them needs it;
   * one that cannot be read is logged and counts as null.
   */
  const searchEach: InternalResource<ThreadSearches>["searchEach"] = async (scope, query, { begin, add, check }) => {
    const { select, include = [] } = query;
    const extract = query.extract ? compileExtract(query.extract) : null;
    const isSelected = (name: string): boolean => !select || select.includes(name);
    const isReturned = (name: string): boolean =>
      isSelected(name) || name === "extracted" || include.includes(name as ThreadExtra);
    // The row has the interrupts of the last ended run. Those of an active run are in its state.
    const needsState = ({ running }: ThreadRow): boolean =>
      isSelected("values") ||
      (extract?.readsValues ?? false) ||
      (running !== null && (isSelected("interrupts") || extract !== null));
    /**
     * Reads a thread, with its state only if that is needed, and returns it with the requested members. Values are null without
     * a state.
     */
    const pick = async (row: ThreadRow): Promise<Partial<Thread>> => {
      const thread: Thread = needsState(row)
        ? toThreadWithState(row, await states.tryReadState(row), include)
        : { ...toThread(row, include), values: null };
      const fullThread = extract ? { ...thread, extracted: extract.extractFrom(thread) } : thread;
      return select ? Object.fromEntries(Object.entries(fullThread).filter(([name]) => isReturned(name))) : fullThread;
    };
    const { items, ...page } = await readPage(scope, query, check);
    begin(page);
    for (const row of items) await add(() => states.runPaced(() => pick(row)));
  };

  return {
    searchEach,
    /**
     * Returns a page of threads with the members that `select` names, else all, and the total and next offset, null at the end.
     * Values that cannot be read are null.
     */
    async search(scope, query = {}) {
      const items: Partial<Thread>[] = [];
      let page: Omit<PageOf<unknown>, "items"> = { total: 0, next: null };
      await searchEach(scope, query, {
        begin(pageInfo) {
          page = pageInfo;
        },
        add: async (read) => void items.push(await read()),
      });
      return { items, ...page };
    },
    /** Counts the matching threads. A filter on values reads the states of all that match otherwise. */
    async count(scope, query = {}) {
      if (filtersValues(query)) return (await findMatches(scope, query)).length;
      const { metadata, status } = query;
      const countQuery = { ...omitUndefined({ metadata, status }), ...COUNT_ONLY };
      return (await storage.searchThreads(scope, countQuery)).total;
    },
  };
}

const filtersValues = (query: ThreadFilter): boolean =>
  query.values !== undefined && Object.keys(query.values).length > 0;

type Defined<Fields> = { readonly [Name in keyof Fields]?: Exclude<Fields[Name], undefined> };

const omitUndefined = <Fields extends object>(fields: Fields): Defined<Fields> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Defined<Fields>;

const ROOTS = ["values", "metadata", "config", "interrupts"] as const;
type Root = (typeof ROOTS)[number];

/** The parts of a thread that a path can start with. */
type Extractable = Readonly<Record<Root, Json>>;

/** The maximum number of paths in one search. */
export const MAX_EXTRACT_PATHS = 10;

interface Path {
  readonly root: Root;
  readonly steps: readonly (string | number)[];
}

/**
 * Parses a path: a root such as `values`, then `.member` and `[index]`; a negative index counts from the end. Throws `invalid`,
 * with the alias, for another root or form.
 */
function parsePath(alias: string, text: string): Path {
  const steps: (string | number)[] = [];
  const step = /\.([^.[\]]+)|\[(-?\d{1,9})\]/y;
  const root = ROOTS.find((name) => text === name || text.startsWith(`${name}.`) || text.startsWith(`${name}[`));
  if (!root) throw new ServiceError("invalid", `extract.${alias}: must start with ${ROOTS.join(", ")}`);
  for (step.lastIndex = root.length; step.lastIndex < text.length; ) {
    const match = step.exec(text);
    if (!match) throw new ServiceError("invalid", `extract.${alias}: is no path such as values.messages[-1].content`);
    steps.push(match[1] ?? Number(match[2]));
  }
  return { root, steps };
}

/**
 * Compiles paths by alias. `extractFrom` returns an object with the value of each path, null for a missing one. Throws
 * `invalid` for too many or malformed paths.
 */
export function compileExtract(paths: Readonly<Record<string, string>>): {
  /** True when a path reads the state's values. */
  readonly readsValues: boolean;
  extractFrom(thread: Extractable): JsonObject;
} {
  const compiledPaths = Object.entries(paths).map(([alias, text]): [string, Path] => [alias, parsePath(alias, text)]);
  if (compiledPaths.length > MAX_EXTRACT_PATHS)
    throw invalidFieldError("extract", `must name at most ${MAX_EXTRACT_PATHS} paths`);
  return {
    readsValues: compiledPaths.some(([, { root }]) => root === "values"),
    extractFrom: (thread) =>
      Object.fromEntries(
        compiledPaths.map(([alias, { root, steps }]) => [alias, steps.reduce(readPathStep, thread[root])]),
      ),
  };
}

/**
 * Returns the member of an object for a name, or the element of a list for a number, where a negative one counts from the end;
 * null if there is none.
 */
function readPathStep(value: Json, step: string | number): Json {
  if (typeof step === "number") return Array.isArray(value) ? (value.at(step) ?? null) : null;
  return isObject(value) && Object.hasOwn(value, step) ? (value[step] ?? null) : null;
}

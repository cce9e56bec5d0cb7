/** Creates the storage operations that read the runs of all threads. */
import type { ListPosition } from "../../../lib/storage/cursor.ts";
import type { ListedRun, RunSearch, RunStatus, RunStorage, Scope } from "../../../lib/storage/mod.ts";
import type { Filter, Scalar } from "../../../lib/storage/visibility.ts";
import { parseClaimLog } from "../claim-log.ts";
import { type Database, readAll } from "../database.ts";
import { toFilterArgument } from "../filter-argument.ts";
import {
  countRuns,
  type ListedRow,
  type RunSearchShape,
  type SearchArguments,
  type SearchCondition,
  STATUS_NAMES,
  STATUSES,
  searchRuns,
  selectLastTested,
  selectRunTimes,
} from "../statements/runs-search.ts";
import { toRunHead } from "./row.ts";

/** The members of a query that are conditions by themselves. */
const QUERY_CONDITIONS = [
  ...(["run_id", "thread_id", "cron_id", "assistant_id", "graph_id", "user_id"] as const),
  ...(["started_after", "started_before", "created_after", "created_before", "after"] as const),
  ...(["min_active_ms", "error_type"] as const),
] as const satisfies readonly (keyof RunSearch & SearchCondition)[];

/** Conditions that the index of a status answers. */
const INDEXED_CONDITIONS: ReadonlySet<SearchCondition> = new Set(["after", "created_after", "created_before"]);

/** The metadata that is asked for, as a filter. */
const toFilter = ({ metadata = {} }: RunSearch): Filter =>
  Object.entries(metadata).map(([key, equals]) => ({ key, equals: equals as Scalar }));

/** The error that is asked for, as a filter on the stored error; the empty text without one. */
const toErrorTests = ({ error_type }: RunSearch): string =>
  error_type === undefined ? "" : (toFilterArgument([{ key: "error", equals: error_type }]) ?? "");

/** Returns the statuses of a search, each once: all without a status, and of suspended runs `pending` alone. */
function toStatuses({ status = STATUSES, waiting }: RunSearch): readonly RunStatus[] {
  const statuses = [...new Set<RunStatus>(status)];
  return waiting ? statuses.filter((name) => name === "pending") : statuses;
}

/** Returns the shape of a search: its statuses, its conditions in a fixed order, and whether a run, thread or cron narrows it. */
function toShape({ filter }: Scope, query: RunSearch): RunSearchShape {
  const { run_id, thread_id, cron_id, waiting } = query;
  const conditions: SearchCondition[] = QUERY_CONDITIONS.filter((name) => query[name] !== undefined);
  if (waiting !== undefined) conditions.push(waiting ? "waiting" : "moving");
  if (toFilterArgument(toFilter(query)) !== null) conditions.push("metadata");
  if (toFilterArgument(filter) !== null) conditions.push("filter");
  return {
    statuses: toStatuses(query),
    conditions,
    narrow: (run_id ?? thread_id ?? cron_id) !== undefined,
  };
}

/** Returns the arguments of a search. Those of conditions that the shape lacks are empty or 0. */
function toArguments({ deployment, filter }: Scope, query: RunSearch, { statuses }: RunSearchShape): SearchArguments {
  const { run_id = "", thread_id = "", cron_id = "", assistant_id = "", graph_id = "", user_id = "", limit } = query;
  const { started_after = 0, started_before = 0, created_after = 0, created_before = 0, after } = query;
  const { min_active_ms = 0 } = query;
  return {
    ...STATUS_NAMES,
    ...{ deployment, statuses: JSON.stringify(statuses), limit, min_active_ms, error_type: toErrorTests(query) },
    ...{ run_id, thread_id, cron_id, assistant_id, graph_id, user_id },
    ...{ started_after, started_before, created_after, created_before },
    ...{ after_created_at: after?.created_at ?? 0, after_id: after?.id ?? "", tested_created_at: 0, tested_id: "" },
    metadata: toFilterArgument(toFilter(query)) ?? "",
    filter: toFilterArgument(filter) ?? "",
  };
}

/**
 * Returns the position up to which a search may test rows one by one. Returns null for a search that needs no limit, because
 * indexes decide its conditions or it is narrow, and for one that reaches the end below the limit.
 */
async function findLastTested(
  driver: Database,
  shape: RunSearchShape,
  args: SearchArguments,
): Promise<ListPosition | null> {
  const conditions = shape.conditions.filter((name) => INDEXED_CONDITIONS.has(name));
  if (shape.narrow || conditions.length === shape.conditions.length) return null;
  const [lastTested] = await driver.read(selectLastTested({ ...shape, conditions }, args));
  return lastTested ? { created_at: lastTested.created_at, id: lastTested.run_id } : null;
}

/** Creates the storage operations that read the runs of all threads. */
export function createRunSearchStorage(driver: Database): Pick<RunStorage, "searchRuns" | "readRunTimes"> {
  return {
    /**
     * Returns a page of runs, newest first, and the position after which the next page starts, null at the end. With conditions
     * without an index a page may be short, even empty, and still have a next one. An empty list of statuses finds none.
     * @statements findLastTested · searchRuns
     * @guards reads each status in the order of its index `runs_status` and merges the pages, so a page costs as many
     *   rows as it has. It reads no requests and results. Filters without an index test at most 5,000 rows of each
     *   status: a first read finds that place, and `next` says where to continue. Runs of one thread or cron are read
     *   by their own index.
     */
    async searchRuns(scope, query) {
      const shape = toShape(scope, query);
      if (shape.statuses.length === 0) return { rows: [], next: null };
      const args = toArguments(scope, query, shape);
      const lastTested = await findLastTested(driver, shape, args);
      const search = lastTested
        ? searchRuns(
            { ...shape, conditions: [...shape.conditions, "tested"] },
            { ...args, tested_created_at: lastTested.created_at, tested_id: lastTested.id },
          )
        : searchRuns(shape, args);
      const rows = await readAll(driver, search, toListed);
      const full = rows.length === query.limit ? rows.at(-1) : undefined;
      return { rows, next: full ? { created_at: full.run.created_at, id: full.run.run_id } : lastTested };
    },

    /**
     * Counts the runs by status since `counted_since`, and reads the times of at most `limit` runs since `timed_since`.
     * @statements countRuns · selectRunTimes
     */
    async readRunTimes({ deployment, filter }, { counted_since, timed_since, limit }) {
      const args = { ...STATUS_NAMES, deployment };
      const [counts] = await driver.read(countRuns({ ...args, since: counted_since }, filter));
      const times = await driver.read(selectRunTimes({ ...args, since: timed_since, limit }, filter));
      return { counts: counts as Record<RunStatus, number>, times };
    },
  };
}

/** Converts a row. `usage` is null for a run without a trace. */
const toListed = (row: ListedRow): ListedRun => ({
  run: toRunHead(row),
  lease_until: row.lease_until,
  cancel_requested: row.cancelled === 1,
  usage:
    row.trace_id === null ? null : { tokens_in: row.tokens_in, tokens_out: row.tokens_out, cost_usd: row.cost_usd },
  claim_log: parseClaimLog(row.claim_log),
});

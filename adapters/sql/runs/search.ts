/** The verbs that read the runs of all threads. */
import type { ListPosition } from "../../../lib/storage/cursor.ts";
import type { ListedRun, RunSearch, RunStatus, RunStorage, RunTimes, Scope } from "../../../lib/storage/mod.ts";
import type { Filter, Scalar } from "../../../lib/storage/visibility.ts";
import { namesOf } from "../columns.ts";
import { each } from "../dialect.ts";
import type { SqlRow } from "../driver.ts";
import { andOfPermitted, andPermitted, below } from "../filter.ts";
import { toFilterArgument } from "../filter-argument.ts";
import type { RowsOf, Tables } from "../schema/tables.ts";
import type { usageTables } from "../schema/usage.ts";
import { type Database, readAll, type Statement, statement } from "../statement.ts";
import { type RawBuilder, sql } from "../template.ts";
import { claimLog, HEAD_COLUMNS, toRunHead } from "./row.ts";

const STATUSES: readonly RunStatus[] = ["pending", "running", "success", "error", "timeout", "interrupted"];
const ACTIVE: ReadonlySet<RunStatus> = new Set(["pending", "running"]);

const all = (conditions: readonly RawBuilder<unknown>[]): RawBuilder<unknown> => sql.join(conditions, sql` and `);

/** The conditions that no index answers: each row is read and tested. */
function testsOf({ filter }: Scope, query: RunSearch): RawBuilder<unknown>[] {
  const where: RawBuilder<unknown>[] = [];
  for (const name of ["run_id", "assistant_id", "graph_id", "user_id"] as const) {
    if (query[name] !== undefined) where.push(sql`${sql.ref(name)} = ${query[name]}`);
  }
  const { started_after, started_before, metadata = {} } = query;
  if (started_after !== undefined) where.push(sql`started_at >= ${started_after}`);
  if (started_before !== undefined) where.push(sql`started_at < ${started_before}`);
  const asked: Filter = Object.entries(metadata).map(([key, equals]) => ({ key, equals: equals as Scalar }));
  if (asked.length > 0) where.push(sql`true${andPermitted(sql`runs.metadata`, toFilterArgument(asked))}`);
  if (filter) where.push(sql`true${andOfPermitted("runs", toFilterArgument(filter))}`);
  return where;
}

/** The conditions on the creation, which the index of a status answers. */
function rangeOf({ after, created_after, created_before }: RunSearch): RawBuilder<unknown>[] {
  const where = [...below(after, "run_id")];
  if (created_after !== undefined) where.push(sql`created_at >= ${created_after}`);
  if (created_before !== undefined) where.push(sql`created_at < ${created_before}`);
  return where;
}

/** The most runs of a status that one call tests. */
const TESTED = 5_000;

/** How far a search that tests rows goes: the newest place at which a status has had its number. */
const lastTested = (scope: Scope, query: RunSearch): Statement => {
  const places = statusesOf(query).map(
    (status) =>
      sql`select created_at, run_id from (select created_at, run_id from runs
        where ${all([sql`deployment = ${scope.deployment}`, sql`status = ${status}`, ...rangeOf(query)])}
        order by created_at desc, run_id desc limit 1 offset ${TESTED - 1}) as ${sql.ref(status)}`,
  );
  return statement(
    sql`select * from (${sql.join(places, sql` union all `)}) as places order by created_at desc, run_id desc limit 1`,
  );
};

const statusesOf = ({ status = STATUSES }: RunSearch): readonly RunStatus[] => [...new Set(status)];
/** The runs of one thread or cron are few. */
const isNarrow = ({ run_id, thread_id, cron_id }: RunSearch): boolean => (run_id ?? thread_id ?? cron_id) !== undefined;

/**
 * The ids of the page. Each status is read in the order of its index, so that the page costs as many rows as it has, whatever the
 * table holds. Those of one thread or cron are read by their own index: `status || ''` is in no other.
 */
function foundRuns(scope: Scope, query: RunSearch, last: ListPosition | null): RawBuilder<unknown> {
  const { thread_id, cron_id, limit } = query;
  const conditions = [...rangeOf(query), ...testsOf(scope, query)];
  if (last) conditions.push(sql`(created_at, run_id) >= (${last.created_at}, ${last.id})`);
  const one = (place: readonly RawBuilder<unknown>[], name: string): RawBuilder<unknown> =>
    sql`select run_id from (select run_id from runs where deployment = ${scope.deployment} and ${all([...place, ...conditions])}
      order by created_at desc, run_id desc limit ${limit}) as ${sql.ref(name)}`;
  if (isNarrow(query)) {
    const place = [sql`(status || '') in ${each(JSON.stringify(statusesOf(query)))}`];
    if (thread_id !== undefined) place.push(sql`thread_id = ${thread_id}`);
    if (cron_id !== undefined) place.push(sql`cron_id = ${cron_id}`);
    return one(place, "few");
  }
  return sql.join(
    statusesOf(query).map((name) => one([sql`status = ${name}`], name)),
    sql` union all `,
  );
}

/** None that may be large: a list of a thousand runs would read and parse all their requests. */
const LISTED = [...HEAD_COLUMNS, "lease_until", "cancelled", "claim_log"];

const searchRuns = (scope: Scope, query: RunSearch, last: ListPosition | null): Statement =>
  statement(
    sql`select ${namesOf(LISTED, "runs")}, traces.trace_id, traces.tokens_in, traces.tokens_out, traces.cost_usd
    from (${foundRuns(scope, query, last)}) as found join runs on runs.run_id = found.run_id
    left join traces on traces.trace_id = runs.run_id
    order by runs.created_at desc, runs.run_id desc limit ${query.limit}`,
  );

/** Runs of a status that are counted: active ones whatever their age. */
const counted = (scope: Scope, status: RunStatus, since: number): RawBuilder<unknown> =>
  sql`runs where deployment = ${scope.deployment} and status = ${status}
    ${ACTIVE.has(status) ? sql`` : sql` and created_at >= ${since}`}${andOfPermitted("runs", toFilterArgument(scope.filter))}`;

const countRuns = (scope: Scope, since: number): Statement =>
  statement(
    sql`select ${sql.join(
      STATUSES.map((status) => sql`(select count(*) from ${counted(scope, status, since)}) as ${sql.ref(status)}`),
    )}`,
  );

const runTimes = (scope: Scope, since: number, limit: number): Statement => {
  const columns = sql`status, created_at, started_at, ended_at`;
  const parts = STATUSES.map(
    (status) =>
      sql`select ${columns} from (select ${columns} from ${counted(scope, status, since)}
        order by created_at desc limit ${limit}) as ${sql.ref(status)}`,
  );
  return statement(
    sql`select * from (${sql.join(parts, sql` union all `)}) as times order by created_at desc limit ${limit}`,
  );
};

/** The verbs that read the runs of all threads. */
export function runSearchVerbs(driver: Database): Pick<RunStorage, "searchRuns" | "runFigures"> {
  return {
    /**
     * @statements lastTested · searchRuns
     * @guards reads each status in the order of its index `runs_status` and merges the pages, so a page costs as many
     *   rows as it has. It reads no requests and results. Filters without an index test at most 5,000 rows of each
     *   status: a first read finds that place, and `next` says where to continue. Runs of one thread or cron are read
     *   by their own index.
     */
    async searchRuns(scope, query) {
      if (query.status?.length === 0) return { rows: [], next: null };
      const tests = !isNarrow(query) && testsOf(scope, query).length > 0;
      const [end] = tests ? await driver.read(lastTested(scope, query)) : [];
      const last = end ? { created_at: Number(end.created_at), id: end.run_id as string } : null;
      const rows = await readAll(driver, searchRuns(scope, query, last), toListed);
      const full = rows.length === query.limit ? rows.at(-1) : undefined;
      return { rows, next: full ? { created_at: full.run.created_at, id: full.run.run_id } : last };
    },

    /** @statements countRuns · runTimes */
    async runFigures(scope, { counted_since, timed_since, limit }) {
      const [row] = await driver.read(countRuns(scope, counted_since));
      const counts = Object.fromEntries(STATUSES.map((status) => [status, Number(row?.[status])]));
      const times = await driver.read(runTimes(scope, timed_since, limit));
      return { counts: counts as Record<RunStatus, number>, times: times as unknown as readonly RunTimes[] };
    },
  };
}

function toListed(row: SqlRow): ListedRun {
  const stored = row as unknown as Tables["runs"] & RowsOf<typeof usageTables>["traces"] & { trace_id: string | null };
  const { tokens_in, tokens_out, cost_usd } = stored;
  return {
    run: toRunHead(row),
    lease_until: stored.lease_until,
    cancel_requested: stored.cancelled === 1,
    usage: stored.trace_id === null ? null : { tokens_in, tokens_out, cost_usd },
    claim_log: claimLog(stored.claim_log),
  };
}

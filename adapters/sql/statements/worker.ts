/** Statements of a process that becomes the worker of a database, and of the probe whether writing works. */
import { type RawBuilder, sql } from "kysely";
import { bigint, text } from "../parameters.ts";
import { createBuilder, query, shapedQuery } from "../query.ts";
import type { CoreTables } from "../schema/tables.ts";
import { logLostLease, requeueAssignments } from "./runs-claim.ts";

const db = createBuilder<CoreTables>();

// --------------------------------------------------------------------- probes

/** Inserts the row of the probe, or replaces it. */
export const upsertProbe = query({ now: bigint }, (p) =>
  db
    .insertInto("write_probes")
    .values({ id: sql.lit(0), at: p.now, padding: sql.lit("") })
    .onConflict((conflict) => conflict.column("id").doUpdateSet((row) => ({ at: row.ref("excluded.at") }))),
);

/** Inserts `count` rows with a padding, to find out whether so many bytes can be written. */
export const insertSpaceProbes = query(
  { now: bigint, count: bigint, padding: text },
  (p) =>
    sql<never>`with recursive room (id) as (select 1 union all select id + 1 from room where id < ${p.count})
    insert into write_probes (id, at, padding) select id, ${p.now}, ${p.padding} from room`,
);

/** Deletes the rows of `insertSpaceProbes`. */
export const deleteSpaceProbes = query({}, () => db.deleteFrom("write_probes").where("id", ">", sql.lit(0)));

// --------------------------------------------------------------- a new worker

/** Threads whose slots a dead worker may have left. One statement for all of them could not use an index. */
const STALE_LOCK_ROWS = {
  running: sql`runs where status = 'running'`,
  /** The slots of runs that are due later expire before: thousands of suspended runs are not read. */
  pending: sql`runs where status = 'pending' and due_at <= updated_at`,
  deleted: sql`threads where last_run is null and run_count > 0`,
} as const satisfies Readonly<Record<string, RawBuilder<unknown>>>;

type StaleLockSource = keyof typeof STALE_LOCK_ROWS;

export const STALE_LOCK_SOURCES = Object.keys(STALE_LOCK_ROWS) as readonly StaleLockSource[];

/** Frees the slots of threads with running, due or deleted runs. */
export const releaseThreadLocks = shapedQuery(
  (_: { readonly source: StaleLockSource }) => ({}),
  (_, { source }) =>
    sql<never>`update threads set slot_token = null, slot_until = null where slot_token is not null
    and (deployment, thread_id) in (select deployment, thread_id from ${STALE_LOCK_ROWS[source]})`,
  { shapes: STALE_LOCK_SOURCES.map((source) => ({ source })) },
);

/** Makes all running runs pending again, and logs the end of their leases. */
export const requeueRunning = query({ now: bigint }, (p) =>
  db
    .updateTable("runs")
    .set({ ...requeueAssignments(p.now), ...logLostLease })
    .where("status", "=", sql.lit("running")),
);

/** Statements of the holder of a lease. Without the lease they have no effect and return no row. */
import { type RawBuilder, sql } from "kysely";
import { RUNS_ENDED } from "../features.ts";
import { bigint, orNull, type ParametersFor, text } from "../parameters.ts";
import { createBuilder, query, shapedQuery } from "../query.ts";
import type { CoreTables } from "../schema/tables.ts";
import { holdsLease, whileLeased } from "./checkpoints.ts";
import { hasNewEvents } from "./durable-calls.ts";
import { requeueAssignments } from "./runs-claim.ts";
import { findStatement } from "./runs-stop.ts";

const db = createBuilder<CoreTables>();

const stable = { stable: true };

const leaseTypes = { deployment: text, thread_id: text, run_id: text, token: text };

type Lease = ParametersFor<typeof leaseTypes>;

// ------------------------------------------------------------ lease and slot

const maxTime = (column: "slot_until" | "lease_until", time: ParametersFor<{ time: typeof bigint }>["time"]) =>
  sql<number>`case when ${sql.ref(column)} < ${time} then ${time} else ${sql.ref(column)} end`;

/** The thread of the lease, if the lease has its slot. */
const hasThreadLock = (p: Lease): RawBuilder<boolean> =>
  sql<boolean>`deployment = ${p.deployment} and thread_id = ${p.thread_id} and slot_token = ${p.token}`;

/** Extends the slot. It never shortens it, because renewals may arrive out of order. */
export const extendThreadLock = query(
  { ...leaseTypes, lease_until: bigint },
  (p) =>
    db
      .updateTable("threads")
      .set({ slot_until: maxTime("slot_until", p.lease_until) })
      .where(hasThreadLock(p))
      .where(whileLeased(p)),
  stable,
);

/** Extends the lease, and never shortens it. Returns whether a stop was requested. */
export const extendLease = query(
  { ...leaseTypes, lease_until: bigint },
  (p) =>
    db
      .updateTable("runs")
      .set({ lease_until: maxTime("lease_until", p.lease_until) })
      .where(holdsLease(p))
      .returning("cancelled"),
  stable,
);

/** Returns a row while the lease is held. */
export const isLeased = query(leaseTypes, (p) => db.selectFrom("runs").select("run_id").where(holdsLease(p)), stable);

/** Records that this attempt has stored a root checkpoint. Returns a row while the lease is held. */
export const setHasCheckpoint = query(
  leaseTypes,
  (p) =>
    db
      .updateTable("runs")
      .set({ has_checkpoint: sql.lit(1), progressed: sql<number>`attempt` })
      .where(holdsLease(p))
      .returning("run_id"),
  stable,
);

const noThreadLock = { slot_token: sql<null>`null`, slot_until: sql<null>`null` };

/** Frees the slot of a run that will be requeued. The executor of a run that is gone may still be working. */
export const releaseLeasedThreadLock = query(
  leaseTypes,
  (p) => db.updateTable("threads").set(noThreadLock).where(hasThreadLock(p)).where(whileLeased(p)),
  stable,
);

/** Frees the slot of a lease that is not held any more. */
export const releaseLostThreadLock = query(
  leaseTypes,
  (p) =>
    db
      .updateTable("threads")
      .set(noThreadLock)
      .where(hasThreadLock(p))
      .where(sql<boolean>`not ${whileLeased(p)}`),
  stable,
);

/** Makes the run pending again, and takes back the attempt that this claim has counted. Returns a row while the lease is held. */
export const requeueRun = query(
  { ...leaseTypes, now: bigint },
  (p) =>
    db
      .updateTable("runs")
      .set({ attempt: sql`attempt - counts_as_attempt`, counts_as_attempt: sql.lit(0), ...requeueAssignments(p.now) })
      .where(holdsLease(p))
      .returning("run_id"),
  stable,
);

/** Suspends the run: due at once if an event came after number `after` or a stop was requested. Returns when it is due. */
export const suspendRun = query(
  { ...leaseTypes, call_id: text, due_at: bigint, after: bigint, waiting_for: text, now: bigint },
  (p) =>
    db
      .updateTable("runs")
      .set({
        status: sql.lit("pending"),
        lease_token: sql<null>`null`,
        lease_until: sql<null>`null`,
        updated_at: p.now,
        attempt: sql`runs.attempt - counts_as_attempt`,
        counts_as_attempt: sql.lit(0),
        has_checkpoint: sql.lit(1),
        waiting_for: p.waiting_for,
        due_at: sql`case when cancelled = 1 or ${hasNewEvents(p)} then ${p.now} else ${p.due_at} end`,
      })
      .where(holdsLease(p))
      .returning("due_at"),
  stable,
);

// ----------------------------------------------------------- the end of a run

/** Counts consecutive failures of the cron of the run. */
export const countFailure = query(
  { ...leaseTypes, cron_id: text, failed: bigint },
  (p) =>
    db
      .updateTable("crons")
      .set({ failures: sql`case when ${p.failed} = 1 then failures + 1 else 0 end` })
      .where("deployment", "=", p.deployment)
      .where("cron_id", "=", p.cron_id)
      .where(sql<boolean>`(${p.failed} = 1 or failures > 0)`)
      .where(whileLeased(p)),
  stable,
);

/** A head of null keeps the head. A resting status of null keeps status, interrupts and error. */
const restTypes = {
  head: orNull(text),
  resting_status: orNull(text),
  interrupts: orNull(text),
  thread_error: orNull(text),
};

/** Stores what the run leaves on its thread, and frees the slot. */
export const updateEndedThread = query(
  { ...leaseTypes, ...restTypes, now: bigint },
  (p) => {
    const hasLock = sql`slot_token = ${p.token}`;
    return db
      .updateTable("threads")
      .set({
        updated_at: p.now,
        state_updated_at: sql`case when ${p.resting_status} is null then state_updated_at else ${p.now} end`,
        head: sql`coalesce(${p.head}, head)`,
        status: sql`coalesce(${p.resting_status}, status)`,
        interrupts: sql`coalesce(${p.interrupts}, interrupts)`,
        error: sql`case when ${p.resting_status} is null then error else ${p.thread_error} end`,
        slot_token: sql`case when ${hasLock} then null else slot_token end`,
        slot_until: sql`case when ${hasLock} then null else slot_until end`,
      })
      .where("deployment", "=", p.deployment)
      .where("thread_id", "=", p.thread_id)
      .where(whileLeased(p));
  },
  stable,
);

const endTypes = {
  ...leaseTypes,
  ...{ status: text, error: orNull(text), values: orNull(text), values_omitted: bigint, now: bigint },
};

/** Stores what a feature stores of an ending run. `feature` is a key of `ENDED`. */
export const endFeature = shapedQuery(
  (_: { readonly feature: string }) => endTypes,
  (p, { feature }) => findStatement(RUNS_ENDED, feature)(p, holdsLease(p)),
  { ...stable, shapes: Object.keys(RUNS_ENDED).map((feature) => ({ feature })) },
);

/** Ends the run. Returns a row while the lease is held. It goes last, because the other statements require the lease. */
export const endRun = query(
  {
    ...leaseTypes,
    ...{ status: text, run_error: orNull(text), result: orNull(text), end_frame: bigint, now: bigint },
  },
  (p) =>
    db
      .updateTable("runs")
      .set({
        status: p.status,
        error: p.run_error,
        result: p.result,
        ended_at: p.now,
        end_frame: p.end_frame,
        updated_at: p.now,
        lease_token: sql<null>`null`,
        lease_until: sql<null>`null`,
      })
      .where(holdsLease(p))
      .returning("run_id"),
  stable,
);

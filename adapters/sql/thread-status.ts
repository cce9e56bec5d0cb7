/** Conditions on active runs, and the status of a thread that follows from them. Rows of `threads` do not store it. */
import { type RawBuilder, sql } from "kysely";

/** The id of the running run of a thread; null without one. */
export const running: RawBuilder<string | null> = sql<string | null>`(select r.run_id from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'running')`;

/** True for a thread with a pending run. */
export const waiting: RawBuilder<number> = sql<number>`exists (select 1 from runs r
  where r.deployment = threads.deployment and r.thread_id = threads.thread_id and r.status = 'pending')`;

/** True for a thread with a pending or running run. */
export const busy: RawBuilder<number> = sql<number>`(${running} is not null or ${waiting})`;

/** The status that callers see: `busy`, or the one that the last run left. */
export const effectiveStatus: RawBuilder<string> = sql<string>`case when ${busy} then 'busy' else threads.status end`;

/**
 * The condition that a run `r` of a thread is active. Its status is no plain column, or SQLite may read the active runs of all threads by
 * the index of the status.
 */
export const isActiveRun: RawBuilder<boolean> = sql<boolean>`(r.status || '') in ('pending', 'running')`;

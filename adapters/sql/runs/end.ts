/** Ending runs: the statements that every path uses which makes a run terminal. */
import type { FinishRun } from "../../../lib/storage/mod.ts";
import type { RunEnd } from "../feature.ts";
import { endFrames, whenEnded } from "../features.ts";
import { prepared, type Statement } from "../statement.ts";
import { type RawBuilder, sql } from "../template.ts";

/** How runs end, and what they leave on their threads. */
export type End = RunEnd & {
  /** The error with its stack, for the run's row. */
  run_error: string | null;
  result: string | null;
  /** Null for a run that was never claimed: it has shown nothing before its end. */
  end_frame: number | null;
  /** Token of the lease that ends with the run; null without one. */
  token: string | null;
  /** Null keeps the thread's head. */
  head: string | null;
  /** The thread's new resting status; null keeps the present one. */
  resting_status: string | null;
  interrupts: string | null;
  thread_error: string | null;
};

/** Id of the newest stored frame of a row of `runs`. */
export const storedFrames: RawBuilder<number> = sql<number>`case when framed = 0 then 0
  else coalesce((select max(f.last_id) from run_frames f where f.run_id = runs.run_id), 0) end`;

/** Which runs to end, as conditions on the rows of `runs` and on those of `threads`. */
export interface RunConditions<Of> {
  runs(p: Of): RawBuilder<unknown>;
  threads(p: Of): RawBuilder<unknown>;
}

/**
 * The statements that end runs: threads, slots, rows of features and runs change in one batch. The runs change last, because the
 * conditions of the other statements read them; `ended` returns the runs that ended.
 */
export function endRuns<Of extends End>({
  runs,
  threads,
}: RunConditions<Of>): (
  end: Of,
  finish?: FinishRun,
) => { readonly statements: Statement[]; readonly ended: Statement } {
  const updateThreads = prepared<Of>(
    (p) =>
      sql`update threads set updated_at = ${p.now},
        state_updated_at = case when ${p.resting_status} is null then state_updated_at else ${p.now} end,
        head = coalesce(${p.head}, head), status = coalesce(${p.resting_status}, status),
        interrupts = coalesce(${p.interrupts}, interrupts),
        error = case when ${p.resting_status} is null then error else ${p.thread_error} end,
        slot_token = case when slot_token = ${p.token} then null else slot_token end,
        slot_until = case when slot_token = ${p.token} then null else slot_until end
      where ${threads(p)}`,
  );
  const closeRuns = prepared<Of>(
    (p) =>
      sql`update runs set status = ${p.status}, error = ${p.run_error}, result = ${p.result}, ended_at = ${p.now},
        end_frame = coalesce(${p.end_frame}, cast(1 as bigint) + ${endFrames}),
        updated_at = ${p.now}, lease_token = null, lease_until = null
      where ${runs(p)} returning run_id, thread_id, end_frame`,
  );
  const ofFeatures = whenEnded(runs);
  return (end, finish) => {
    const ended = closeRuns(end);
    return { statements: [updateThreads(end), ...ofFeatures(end, finish), ended], ended };
  };
}

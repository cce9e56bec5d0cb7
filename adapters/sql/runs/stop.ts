/** Stopping runs: by an interrupt, a rollback or a deletion, on request or by a newer run of their thread. */
import type { Scope, StopAction, StoppedRun, StopTarget } from "../../../lib/storage/mod.ts";
import type { Filter } from "../../../lib/storage/visibility.ts";
import { each, scalar } from "../dialect.ts";
import type { SqlRow } from "../driver.ts";
import { whenDeleted } from "../features.ts";
import { andOfPermitted, type BoundIn, filterable } from "../filter.ts";
import { type Database, ofThread, prepared, type RowsOf, rowsIn, type Statement } from "../statement.ts";
import { type RawBuilder, sql } from "../template.ts";
import { type End, endRuns } from "./end.ts";
import { stoppedEvents } from "./events.ts";

/** Selects the ids of the runs to stop with this status, as a literal: each status has an index of its own. */
export type Stopping<Of> = (p: Of, status: RawBuilder<string>) => RawBuilder<unknown>;

const pending = sql<string>`'pending'`;
const running = sql<string>`'running'`;

/** Statements that stop runs. */
export interface Stop {
  readonly statements: readonly Statement[];
  /** Reads what they returned. */
  stopped(rowsOf: RowsOf): StoppedRun[];
}

type Now = { deployment: string; now: number };

/** Why runs are interrupted; null stores no reason. */
type Reason = { cancel_reason: string | null };

const toStopped = (of: SqlRow, kind: StoppedRun["kind"]): StoppedRun => ({
  kind,
  run_id: of.run_id as string,
  thread_id: of.thread_id as string,
  end_frame: (of.end_frame ?? null) as number | null,
  slot_token: (of.lease_token ?? null) as string | null,
});

/**
 * Ends pending runs that were never claimed and flags the others for their workers. Only an attempt can end what an earlier one has
 * begun: its state, its messages and its subgraphs. So a worker claims such a run once more to end it.
 */
export function interruption<Of extends Now & Reason>(which: Stopping<Of>): (args: Of) => Stop {
  const unclaimed = (p: Of): RawBuilder<unknown> => sql`run_id in (${which(p, pending)}) and claims = 0`;
  const endPending = endRuns<Of & End>({
    runs: unclaimed,
    threads: (p) =>
      sql`deployment = ${p.deployment} and thread_id in (select thread_id from runs where ${unclaimed(p)})`,
  });
  const events = stoppedEvents<Of>((p) => sql`select run_id from runs where ${unclaimed(p)}`, false);
  // Runs that are still pending here were claimed before.
  const flag = prepared<Of>(
    (p) =>
      sql`update runs set cancelled = 1,
        due_at = case when waiting_for is not null and due_at > updated_at then ${p.now} else due_at end,
        updated_at = case when waiting_for is not null and due_at > updated_at then ${p.now} else updated_at end
      where run_id in (${which(p, pending)} union all ${which(p, running)})
      returning run_id, thread_id, lease_token`,
  );
  const untouched = {
    error: null,
    run_error: null,
    result: null,
    head: null,
    resting_status: null,
    interrupts: null,
    thread_error: null,
  };
  const end = { ...untouched, status: "interrupted", end_frame: null, token: null };
  // A run whose stop was requested before keeps the reason of that request.
  const note = prepared<Of>(
    (p) =>
      sql`update runs set cancel_reason = ${p.cancel_reason}
      where run_id in (${which(p, pending)} union all ${which(p, running)}) and cancelled = 0`,
  );
  return (args) => {
    const { statements, ended } = endPending({ ...args, ...end });
    const flagged = flag(args);
    return {
      statements: [...(args.cancel_reason === null ? [] : [note(args)]), ...events(args), ...statements, flagged],
      stopped: (rowsOf) => [
        ...rowsOf(ended).map((of) => toStopped(of, "ended")),
        ...rowsOf(flagged).map((of) => toStopped(of, "flagged")),
      ],
    };
  };
}

const RUN_TABLES = ["checkpoints", "checkpoint_writes", "channel_values"] as const;

/** Deletes the checkpoints, writes and values that these runs have stored. */
export function clearing<Of extends { deployment: string }>(
  which: (p: Of) => RawBuilder<unknown>,
): (args: Of) => Statement[] {
  const started = (p: Of): RawBuilder<unknown> => sql`from runs where run_id in (${which(p)}) and claims > 0`;
  const clear = RUN_TABLES.map((table) =>
    prepared<Of>(
      (p) =>
        sql`delete from ${sql.table(table)} where deployment = ${p.deployment}
        and thread_id in (select thread_id ${started(p)}) and run_id in (select run_id ${started(p)})`,
    ),
  );
  return (args) => clear.map((statement) => statement(args));
}

/** Deletes the runs and everything that they have stored. The slots of their threads stay taken. */
export function removal<Of extends Now>(which: Stopping<Of>): (args: Of) => Stop {
  const all = (p: Of): RawBuilder<unknown> => sql`${which(p, pending)} union all ${which(p, running)}`;
  const clear = clearing(all);
  const ofFeatures = whenDeleted(all);
  const events = stoppedEvents(all, true);
  const remove = prepared<Of>(
    (p) => sql`delete from runs where run_id in (${all(p)}) returning run_id, thread_id, lease_token`,
  );
  return (args) => {
    const removed = remove(args);
    return {
      statements: [...events(args), ...clear(args), ...ofFeatures(args), removed],
      stopped: (rowsOf) => rowsOf(removed).map((of) => toStopped(of, "deleted")),
    };
  };
}

/** Marks the threads of runs that will be deleted, if they may leave a slot or a hidden thread behind. */
export function markThreads<Of extends { deployment: string }>(
  which: (p: Of) => RawBuilder<unknown>,
): (args: Of) => Statement {
  return prepared<Of>(
    (p) =>
      sql`update threads set last_run = null where deployment = ${p.deployment}
      and thread_id in (select r.thread_id from runs r where r.run_id in (${which(p)}))
      and (hidden = 1 or slot_token is not null)`,
  );
}

/** Hidden threads that are marked, without runs and with a free slot. */
export const leftBehind = (p: Now): RawBuilder<unknown> =>
  sql`threads where deployment = ${p.deployment} and last_run is null and run_count > 0 and hidden = 1
    and (slot_token is null or slot_until <= ${p.now})
    and not exists (select 1 from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id)`;

export const dropLeftThreads: (args: Now) => Statement = prepared(
  (p) => sql`delete from ${leftBehind(p)} returning thread_id`,
);

type Listed = Now & Reason & { run_ids: string };
type Named = Listed & { thread_id: string };

const named =
  (bound: BoundIn<Named>): Stopping<Named> =>
  (p, status) =>
    sql`select n.run_id from ${each(p.run_ids)} j cross join runs n where n.run_id = j.value
      and n.deployment = ${scalar(p.deployment)} and n.thread_id = ${scalar(p.thread_id)} and n.status = ${status}
      ${andOfPermitted("n", bound(p))}`;

const listed =
  (bound: BoundIn<Listed>): Stopping<Listed> =>
  (p, status) =>
    sql`select n.run_id from ${each(p.run_ids)} j cross join runs n where n.run_id = j.value
      and n.deployment = ${scalar(p.deployment)} and n.status = ${status}${andOfPermitted("n", bound(p))}`;

function rollback<Of extends Now>(which: Stopping<Of>): (args: Of) => Stop {
  const all = (p: Of): RawBuilder<unknown> => sql`${which(p, pending)} union all ${which(p, running)}`;
  const mark = markThreads<Of>(all);
  // The state does not change, but the thread was active: its TTL starts again.
  const touch = prepared<Of>(
    (p) =>
      sql`update threads set updated_at = ${p.now} where deployment = ${p.deployment}
      and thread_id in (select r.thread_id from runs r where r.run_id in (${all(p)}))`,
  );
  const remove = removal(which);
  return (args) => {
    const { statements, stopped } = remove(args);
    return { statements: [mark(args), touch(args), ...statements, dropLeftThreads(args)], stopped };
  };
}

type Which<Of> = (bound: BoundIn<Of>) => Stopping<Of>;

const eitherStops = <Of extends Now & Reason>(
  which: Which<Of>,
): Record<StopAction, (args: Of, filter: Filter | undefined) => Stop> => ({
  interrupt: filterable<Of, Stop>((bound) => interruption(which(bound))),
  rollback: filterable<Of, Stop>((bound) => rollback(which(bound))),
});

const stopNamed = eitherStops(named);
const stopListed = eitherStops(listed);

/**
 * See `Storage.stopRuns`.
 *
 * @statements stopListed · stopNamed
 * @guards `interrupt`: keep the reason · end pending runs that were never claimed · flag the others. `rollback`: mark
 *   threads that may keep a slot (`last_run = null`) · touch them · delete checkpoints, writes, channel values, tokens,
 *   runs · delete stateless threads left behind.
 */
export async function stopRuns(
  driver: Database,
  { deployment, filter }: Scope,
  target: StopTarget,
  action: StopAction,
  now: number,
  cancel_reason: string | null = null,
): Promise<StoppedRun[]> {
  const terms = { deployment, now, cancel_reason, run_ids: JSON.stringify(target.run_ids) };
  const { thread_id } = target;
  const { statements, stopped } =
    thread_id === undefined ? stopListed[action](terms, filter) : stopNamed[action]({ ...terms, thread_id }, filter);
  const lock_keys = thread_id === undefined ? undefined : [ofThread(deployment, thread_id)];
  return stopped(rowsIn(statements, await driver.batch(statements, lock_keys)));
}

/** Stopping runs: by an interrupt, a rollback or a deletion, on request or by a newer run of their thread. */
import { type RawBuilder, sql } from "kysely";
import type { Scope, StopAction, StoppedRun, StopTarget } from "../../../lib/storage/mod.ts";
import type { Filter } from "../../../lib/storage/visibility.ts";
import { each, scalar } from "../dialect.ts";
import type { SqlRow } from "../driver.ts";
import { dropTokens } from "../feedback.ts";
import { andOfPermitted, type BoundIn, boundOf } from "../filter.ts";
import { type Database, ofThread, prepared, type Statement } from "../statement.ts";
import { type End, endRuns } from "./end.ts";
import { stoppedEvents } from "./events.ts";

/** Selects the ids of the runs to stop with this status, as a literal: each status has an index of its own. */
export type Stopping<Of> = (p: Of, status: RawBuilder<string>) => RawBuilder<unknown>;

const pending = sql<string>`'pending'`;
const running = sql<string>`'running'`;

/** Number of statements of `stoppedEvents` for runs that stay, and of `endRuns`. */
const EVENTS = 2;
const ENDING = 4;

/** Statements that stop runs. */
export interface Stop<Of> {
  statements(args: Of): Statement[];
  /** Reads their results, which begin with that of the first statement. */
  stopped(results: readonly SqlRow[][]): StoppedRun[];
  /** Stores why the runs stop; goes before the other statements. */
  note?(args: Of & Reason): Statement;
}

type Reason = { cancel_reason: string };

const row = (of: SqlRow): Omit<StoppedRun, "kind"> => ({
  run_id: of.run_id as string,
  thread_id: of.thread_id as string,
  end_frame: (of.end_frame ?? null) as number | null,
  slot_token: (of.lease_token ?? null) as string | null,
});

/**
 * Ends pending runs that were never claimed and flags the others for their workers. Only an attempt can end what an earlier one has
 * begun: its state, its messages and its subgraphs. So a worker claims such a run once more to end it.
 */
export function interruption<Of extends { deployment: string; now: number }>(which: Stopping<Of>): Stop<Of> {
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
      sql`update runs set cancelled = 1 where run_id in (${which(p, pending)} union all ${which(p, running)})
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
  const end = { ...untouched, values: null, values_omitted: 0, status: "interrupted", end_frame: null, token: null };
  return {
    statements: (args) => [...events(args), ...endPending({ ...args, ...end }), flag(args)],
    stopped: (results) => [
      ...(results[EVENTS + ENDING - 1] ?? []).map((of) => ({ ...row(of), kind: "ended" as const })),
      ...(results[EVENTS + ENDING] ?? []).map((of) => ({ ...row(of), kind: "flagged" as const })),
    ],
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
export function removal<Of extends { deployment: string; now: number }>(which: Stopping<Of>): Stop<Of> {
  const all = (p: Of): RawBuilder<unknown> => sql`${which(p, pending)} union all ${which(p, running)}`;
  const clear = clearing(all);
  const drop = dropTokens<Of>(all);
  const events = stoppedEvents(all, true);
  const remove = prepared<Of>(
    (p) => sql`delete from runs where run_id in (${all(p)}) returning run_id, thread_id, lease_token`,
  );
  return {
    statements: (args) => [...events(args), ...clear(args), drop(args), remove(args)],
    stopped: (results) =>
      (results[EVENTS + 1 + RUN_TABLES.length + 1] ?? []).map((of) => ({ ...row(of), kind: "deleted" as const })),
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
export const leftBehind = (p: { deployment: string; now: number }): RawBuilder<unknown> =>
  sql`threads where deployment = ${p.deployment} and last_run is null and run_count > 0 and hidden = 1
    and (slot_token is null or slot_until <= ${p.now})
    and not exists (select 1 from runs r where r.deployment = threads.deployment and r.thread_id = threads.thread_id)`;

export const dropLeftThreads: (args: { deployment: string; now: number }) => Statement = prepared(
  (p) => sql`delete from ${leftBehind(p)} returning thread_id`,
);

type Named = { deployment: string; thread_id: string; run_ids: string; now: number };

const named =
  (bound: BoundIn<Named>): Stopping<Named> =>
  (p, status) =>
    sql`select n.run_id from ${each(p.run_ids)} j cross join runs n where n.run_id = j.value
      and n.deployment = ${scalar(p.deployment)} and n.thread_id = ${scalar(p.thread_id)} and n.status = ${status}
      ${andOfPermitted("n", bound(p))}`;

type Listed = { deployment: string; run_ids: string; now: number };

const listed =
  (bound: BoundIn<Listed>): Stopping<Listed> =>
  (p, status) =>
    sql`select n.run_id from ${each(p.run_ids)} j cross join runs n where n.run_id = j.value
      and n.deployment = ${scalar(p.deployment)} and n.status = ${status}${andOfPermitted("n", bound(p))}`;

function stops<Of extends { deployment: string; now: number }>(which: Stopping<Of>): Record<StopAction, Stop<Of>> {
  const all = (p: Of): RawBuilder<unknown> => sql`${which(p, pending)} union all ${which(p, running)}`;
  const mark = markThreads<Of>(all);
  // The state does not change, but the thread was active: its TTL starts again.
  const touch = prepared<Of>(
    (p) =>
      sql`update threads set updated_at = ${p.now} where deployment = ${p.deployment}
      and thread_id in (select r.thread_id from runs r where r.run_id in (${all(p)}))`,
  );
  const { statements, stopped } = removal(which);
  // A run whose stop was requested before keeps the reason of that request.
  const note = prepared<Of & Reason>(
    (p) => sql`update runs set cancel_reason = ${p.cancel_reason} where run_id in (${all(p)}) and cancelled = 0`,
  );
  return {
    interrupt: { ...interruption(which), note },
    rollback: {
      statements: (args) => [mark(args), touch(args), ...statements(args), dropLeftThreads(args)],
      stopped: (results) => stopped(results.slice(2)),
    },
  };
}

/** The stops for calls without a filter and with one. */
function eitherStops<Of extends { deployment: string; now: number }>(
  which: (bound: BoundIn<Of>) => Stopping<Of>,
): (filter: Filter | undefined, action: StopAction) => Stop<Of> {
  const whole = stops(which(() => null));
  const part = stops(which((p) => (p as Of & { readonly bound: string }).bound));
  return (filter, action) => {
    const bound = boundOf(filter);
    if (bound === null) return whole[action];
    const { statements, stopped, note } = part[action];
    return {
      stopped,
      statements: (args) => statements({ ...args, bound }),
      ...(note ? { note: (args: Of & Reason) => note({ ...args, bound }) } : {}),
    };
  };
}

const stopNamed = eitherStops(named);
const stopListed = eitherStops(listed);

/** See `Storage.stopRuns`. */
export async function stopRuns(
  driver: Database,
  { deployment, filter }: Scope,
  target: StopTarget,
  action: StopAction,
  now: number,
  cancel_reason?: string,
): Promise<StoppedRun[]> {
  const { thread_id } = target;
  const args = { deployment, run_ids: JSON.stringify(target.run_ids), now };
  if (thread_id === undefined) return await execute(stopListed(filter, action), args);
  return await execute(stopNamed(filter, action), { ...args, thread_id }, [ofThread(deployment, thread_id)]);

  async function execute<Of>(
    { statements, stopped, note }: Stop<Of>,
    args: Of,
    lock_keys?: readonly string[],
  ): Promise<StoppedRun[]> {
    const first = note && cancel_reason !== undefined ? [note({ ...args, cancel_reason })] : [];
    const results = await driver.batch([...first, ...statements(args)], lock_keys);
    return stopped(results.slice(first.length));
  }
}

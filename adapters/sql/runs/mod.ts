/** The verbs on runs, from their creation to their end. */
import type { Activity, RunStorage } from "../../../lib/storage/mod.ts";
import { scalar } from "../dialect.ts";
import { whenDeleted } from "../features.ts";
import { andOfPermitted, type Bound, filterable, scoped } from "../filter.ts";
import { toFilterArgument } from "../filter-argument.ts";
import {
  type Database,
  ofThread,
  prepared,
  readAll,
  readOne,
  rowsIn,
  type Statement,
  statement,
} from "../statement.ts";
import { type RawBuilder, sql } from "../template.ts";
import { claimRun } from "./claim.ts";
import { countPending, createRun, createRuns, findRepeated } from "./create.ts";
import { dropEvents, stoppedEvents } from "./events.ts";
import { readFrames } from "./frames.ts";
import { leaseVerbs } from "./lease.ts";
import { PendingCounter } from "./pending-counter.ts";
import { toRun } from "./row.ts";
import { runSearchVerbs } from "./search.ts";
import { clearing, dropLeftThreads, markThreads, stopRuns } from "./stop.ts";
import { sweep } from "./sweep.ts";

type RunKey = { deployment: string; thread_id: string; run_id: string };
type Deletion = RunKey & { now: number };

const exactly = (p: RunKey, bound: Bound): RawBuilder<boolean> =>
  sql<boolean>`deployment = ${p.deployment} and thread_id = ${p.thread_id} and run_id = ${p.run_id}
    ${andOfPermitted("runs", bound)}`;

const markThread = filterable<RunKey, Statement>((bound) =>
  markThreads((p) => sql`select run_id from runs where ${exactly(p, bound(p))} and status <> 'running'`),
);

// A requeued run may have stored checkpoints; its thread's head never moved to them.
const clearPending = filterable<RunKey, Statement[]>((bound) =>
  clearing((p) => sql`select run_id from runs where ${exactly(p, bound(p))} and status = 'pending'`),
);

const endPending = filterable<Deletion, Statement[]>((bound) =>
  stoppedEvents((p) => sql`select run_id from runs where ${exactly(p, bound(p))} and status = 'pending'`, true),
);

const beforeDeletion = filterable<RunKey, Statement[]>((bound) =>
  whenDeleted((p) => sql`select run_id from runs where ${exactly(p, bound(p))} and status <> 'running'`),
);

const deleteRun = scoped<RunKey>(
  (p, bound) => sql`delete from runs where ${exactly(p, bound)} and status <> 'running' returning run_id`,
);

const runExists = scoped<RunKey>((p, bound) => sql`select run_id from runs where ${exactly(p, bound)}`);

const getRun = scoped<{ deployment: string; run_id: string }>(
  (p, bound) =>
    sql`select * from runs where deployment = ${p.deployment} and run_id = ${p.run_id}${andOfPermitted("runs", bound)}`,
);

interface Counted extends Pick<Activity, "scheduled" | "running"> {
  readonly immediate: number;
  readonly late: number;
  readonly oldest_immediate: number | null;
  readonly oldest_late: number | null;
}

const activity = prepared<{ deployment: string; now: number }>((p) => {
  const runs = sql`from runs where deployment = ${scalar(p.deployment)} and status = 'pending'`;
  const late = sql`due_at > updated_at`;
  // Two indexes: one has the runs that were due when created, the other those created for a later time.
  return sql`select (select count(*) ${runs} and due_at <= updated_at) as immediate,
    (select min(due_at) ${runs} and due_at <= updated_at) as oldest_immediate,
    (select count(*) ${runs} and ${late} and due_at <= ${scalar(p.now)}) as late,
    (select min(due_at) ${runs} and ${late} and due_at <= ${scalar(p.now)}) as oldest_late,
    (select count(*) ${runs} and ${late} and due_at > ${scalar(p.now)}) as scheduled,
    (select count(*) from runs where deployment = ${scalar(p.deployment)} and status = 'running') as running`;
});

/** The verbs on runs, from their creation to their end. */
export function runVerbs(driver: Database): RunStorage {
  const pending = new PendingCounter((deployment) => countPending(driver, deployment));
  return {
    createRun({ deployment }, request) {
      const create = (limit: number | null) => createRun(driver, deployment, request, limit);
      return request.limits ? pending.create(deployment, request.limits.pending, create) : create(null);
    },
    createRuns({ deployment }, requests) {
      const create = (limit: number | null) => createRuns(driver, deployment, requests, limit);
      const limits = requests.flatMap((request) => (request.limits ? [request.limits.pending] : []));
      return limits.length > 0
        ? pending.create(deployment, Math.min(...limits), create, requests.length)
        : create(null);
    },
    findRepeated: ({ deployment }, key) => findRepeated(driver, deployment, key),
    claimRun: ({ deployment }, request) => claimRun(driver, deployment, request),
    ...leaseVerbs(driver),
    ...runSearchVerbs(driver),
    stopRuns: (scope, target, action, now, reason) => stopRuns(driver, scope, target, action, now, reason),

    /** @statements getRun */
    getRun: ({ deployment, filter }, run_id) => readOne(driver, getRun({ deployment, run_id }, filter), toRun),

    /** @statements statement */
    listRuns({ deployment, filter }, thread_id, query) {
      const where = [sql`deployment = ${deployment} and thread_id = ${thread_id}`];
      if (query.status) where.push(sql`status = ${query.status}`);
      if (query.below !== undefined) where.push(sql`seq < ${query.below}`);
      if (query.above !== undefined) where.push(sql`seq > ${query.above}`);
      const select = sql`select * from runs where ${sql.join(where, sql` and `)}${andOfPermitted("runs", toFilterArgument(filter))}
        order by seq ${query.above === undefined ? sql`desc` : sql`asc`} limit ${query.limit} offset ${query.offset}`;
      return readAll(driver, statement(select), toRun);
    },

    /**
     * @statements runExists · deleteRun · clearPending · endPending · markThread · beforeDeletion · dropEvents ·
     *   dropLeftThreads
     * @guards select whether it exists · delete what a pending run left · the end of a pending run · mark the thread ·
     *   tokens · delete where not running · delete its events but for its end, if it is gone · stateless threads left.
     */
    async deleteRun({ deployment, filter }, thread_id, run_id, now) {
      const key = { deployment, thread_id, run_id, now };
      const [exists, deleted] = [runExists(key, filter), deleteRun(key, filter)];
      const statements = [
        exists,
        ...clearPending(key, filter),
        ...endPending(key, filter),
        markThread(key, filter),
        ...beforeDeletion(key, filter),
        deleted,
        ...dropEvents(key),
        dropLeftThreads({ deployment, now: 0 }),
      ];
      const rowsOf = rowsIn(statements, await driver.batch(statements, [ofThread(deployment, thread_id)]));
      if (rowsOf(deleted).length > 0) return "deleted";
      return rowsOf(exists).length > 0 ? "running" : "not_found";
    },

    readFrames: (scope, run_id, after) => readFrames(driver, scope, run_id, after),

    /** @statements activity */
    async activity({ deployment }, now) {
      const [row] = (await driver.read(activity({ deployment, now }))) as unknown as [Counted];
      const { immediate, late, oldest_immediate, oldest_late, ...counts } = row;
      const oldest = [oldest_immediate, oldest_late].filter((due_at) => due_at !== null);
      return { ...counts, pending: immediate + late, oldest_due: oldest.length > 0 ? Math.min(...oldest) : null };
    },

    sweep: ({ deployment }, terms) => sweep(driver, deployment, terms),
  };
}

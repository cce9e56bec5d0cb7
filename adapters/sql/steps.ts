/** Calls of durable functions: their journals, their events, and how runs of them are suspended. */
import type { Json } from "../../lib/json.ts";
import type { CallEvent, CallProgress, CallRow, CallStorage } from "../../lib/storage/mod.ts";
import { ENTRIES_AT_ONCE } from "../../lib/storage/steps.ts";
import { holdsLease, type LeaseFence, type ThreadKey, whileLeased } from "./checkpoints.ts";
import { scalar } from "./dialect.ts";
import type { SqlRow } from "./driver.ts";
import type { Feature } from "./feature.ts";
import { andOfPermitted, scoped } from "./filter.ts";
import type { callTables } from "./schema/steps.ts";
import { callTables as tables } from "./schema/steps.ts";
import { type Database, ofThread, prepared, preparedRows, readAll, readOne, type Statement } from "./statement.ts";
import { type RawBuilder, sql } from "./template.ts";

type CallKey = ThreadKey & { call_id: string };
type OfCall = LeaseFence & { call_id: string };

// ------------------------------------------------------------ with a save

const openCall = prepared<OfCall & { graph_id: string; beginning: string }>(
  (p) =>
    sql`insert into calls (deployment, thread_id, call_id, graph_id, first_run, run_id, beginning, created_at)
    select ${p.deployment}, ${p.thread_id}, ${p.call_id}, ${p.graph_id}, ${p.run_id}, ${p.run_id}, ${p.beginning},
      updated_at from runs where ${holdsLease(p)}
    on conflict do nothing`,
);

/** The run continues the call, and no other does. An attempt that stores entries makes progress. */
const takeCall = prepared<OfCall>(
  (p) =>
    sql`update calls set run_id = ${p.run_id}, due_at = null where deployment = ${p.deployment}
    and thread_id = ${p.thread_id} and call_id = ${p.call_id} and ${whileLeased(p)}`,
);
const markRun = prepared<OfCall>(
  (p) => sql`update runs set call_id = ${p.call_id}, progressed = attempt where ${holdsLease(p)}`,
);

const putEntries = preparedRows<OfCall, { idx: number; entry: string }>(
  (p, rows) =>
    sql`insert into call_entries (deployment, thread_id, call_id, run_id, idx, entry)
    select ${p.deployment}, ${p.thread_id}, ${p.call_id}, ${p.run_id}, v.* from (values ${sql.join(
      rows.map((row) => sql`(${row.idx}, ${row.entry})`),
    )}) as v where ${whileLeased(p)}
    on conflict (deployment, thread_id, call_id, idx) do update set entry = excluded.entry`,
);

const putToken = prepared<OfCall & { token_hash: string; name: string; occurrence: number }>(
  (p) =>
    sql`insert into call_tokens (token_hash, deployment, thread_id, call_id, name, occurrence)
    select ${p.token_hash}, ${p.deployment}, ${p.thread_id}, ${p.call_id}, ${p.name}, ${p.occurrence}
    where ${whileLeased(p)} on conflict do nothing`,
);

const putPosition = prepared<OfCall & { position: string }>(
  (p) =>
    sql`update calls set position = ${p.position} where deployment = ${p.deployment} and thread_id = ${p.thread_id}
    and call_id = ${p.call_id} and ${whileLeased(p)}`,
);

/** An event that came after `seen` makes the call due at once. */
export const isNewer = (p: CallKey & { after: number }): RawBuilder<unknown> =>
  sql`exists (select 1 from call_events e where e.deployment = ${scalar(p.deployment)}
    and e.thread_id = ${scalar(p.thread_id)} and e.call_id = ${scalar(p.call_id)} and e.seq > ${scalar(p.after)})`;

type Leaving = OfCall & { due_at: number | null; after: number; now: number };

// A text of its own for the end: Postgres would plan one for both anew each time.
const leaving = (
  due: (p: Leaving) => RawBuilder<unknown>,
  ended: (p: Leaving) => RawBuilder<unknown>,
): ((of: Leaving) => Statement) =>
  prepared<Leaving>(
    (p) =>
      sql`update calls set due_at = ${due(p)}, ended_at = ${ended(p)}
      where deployment = ${p.deployment} and thread_id = ${p.thread_id} and call_id = ${p.call_id} and ${whileLeased(p)}`,
  );
const leaveCall = leaving(
  (p) => sql`case when ${isNewer(p)} then ${p.now} else ${p.due_at} end`,
  () => sql`null`,
);
const endCall = leaving(
  (p) => sql`${p.due_at}`,
  (p) => sql`${p.now}`,
);

/** Statements that store what a run adds to its call, while the lease is held. */
function saved(fence: LeaseFence, { call }: { readonly call?: CallProgress }, now: number): Statement[] {
  if (!call) return [];
  const { call_id, opens, entries, tokens = [], position, leaves } = call;
  const args = { ...fence, call_id };
  return [
    ...(opens?.origin === undefined ? [] : [openCall({ ...args, graph_id: opens.graph_id, beginning: opens.origin })]),
    // A new call is its run's already.
    ...(opens && opens.origin === undefined ? [takeCall(args)] : []),
    ...(opens ? [markRun(args)] : []),
    ...putEntries(args, entries),
    ...tokens.map((token) => putToken({ ...args, ...token })),
    ...(position === undefined ? [] : [putPosition({ ...args, position })]),
    ...(leaves
      ? [(leaves.ended ? endCall : leaveCall)({ ...args, due_at: leaves.due_at, after: leaves.seen, now })]
      : []),
  ];
}

// ---------------------------------------------------- when runs are deleted

/** Of runs that have not ended: what they did is undone. The journal of an ended run belongs to its thread. */
const undone = (which: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`select u.run_id from runs u where u.run_id in (${which}) and u.call_id is not null and u.ended_at is null`;

const theirCalls = (which: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`(deployment, thread_id, call_id) in (select deployment, thread_id, call_id from runs
    where run_id in (${undone(which)}))`;

export const steps: Feature<keyof typeof callTables> = {
  name: "steps",
  tables,
  runColumns: { call_id: ({ call_id }) => call_id ?? null },
  saved,
  deleted: (which) => [
    prepared((p) => sql`delete from call_entries where run_id in (${undone(which(p))}) and ${theirCalls(which(p))}`),
    prepared((p) => sql`delete from calls where first_run in (${undone(which(p))}) and ${theirCalls(which(p))}`),
    // Earlier runs of the call left it open: the service looks at it again.
    prepared(
      (p) =>
        sql`update calls set due_at = created_at, position = null where ${theirCalls(which(p))} and ended_at is null`,
    ),
  ],
  copied: (copied) => [
    prepared(
      (p) =>
        sql`insert into calls (deployment, thread_id, call_id, graph_id, first_run, run_id, beginning, created_at, ended_at)
        select deployment, ${p.thread_id}, call_id, graph_id, '', run_id, beginning, created_at, ended_at from calls
        where deployment = ${scalar(p.deployment)} and thread_id = ${scalar(p.from)}
          and not exists (select 1 from runs r where r.run_id = calls.first_run and r.ended_at is null)
          and ${copied(p)}`,
    ),
    prepared(
      (p) =>
        sql`insert into call_entries (deployment, thread_id, call_id, idx, run_id, entry)
        select e.deployment, ${p.thread_id}, e.call_id, e.idx, e.run_id, e.entry from call_entries e
        where e.deployment = ${scalar(p.deployment)} and e.thread_id = ${scalar(p.from)}
          and not exists (select 1 from runs r where r.run_id = e.run_id and r.ended_at is null)
          and exists (select 1 from calls c where c.deployment = e.deployment and c.thread_id = ${scalar(p.thread_id)}
            and c.call_id = e.call_id)`,
    ),
  ],
  verbs: callVerbs,
};

// -------------------------------------------------------------------- verbs

const ofCall = (p: CallKey): RawBuilder<unknown> =>
  sql`deployment = ${scalar(p.deployment)} and thread_id = ${scalar(p.thread_id)} and call_id = ${scalar(p.call_id)}`;

const getCall = scoped<CallKey>(
  (p, bound) => sql`select * from calls where ${ofCall(p)}${andOfPermitted("calls", bound)}`,
);
const newestCall = scoped<ThreadKey>(
  (p, bound) =>
    sql`select * from calls where deployment = ${scalar(p.deployment)} and thread_id = ${scalar(p.thread_id)}
    ${andOfPermitted("calls", bound)} order by created_at desc, call_id desc limit 1`,
);
const entriesFrom = scoped<CallKey & { idx: number; limit: number }>(
  (p, bound) =>
    sql`select idx, entry from call_entries where ${ofCall(p)} and idx >= ${p.idx}
    ${andOfPermitted("call_entries", bound)} order by idx limit ${p.limit}`,
);
const eventsAfter = scoped<CallKey & { seq: number }>(
  (p, bound) =>
    sql`select seq, name, occurrence, payload from call_events where ${ofCall(p)} and seq > ${p.seq}
    ${andOfPermitted("call_events", bound)} order by seq`,
);

const findToken = prepared<{ deployment: string; token_hash: string }>(
  (p) =>
    sql`select c.*, t.name, t.occurrence, (select e.payload from call_events e where e.deployment = t.deployment
      and e.thread_id = t.thread_id and e.call_id = t.call_id and e.name = t.name and e.occurrence = t.occurrence
      order by e.seq limit 1) as payload
    from call_tokens t join calls c on c.deployment = t.deployment and c.thread_id = t.thread_id
      and c.call_id = t.call_id
    where t.token_hash = ${p.token_hash} and t.deployment = ${p.deployment}`,
);

type Event = CallKey & { name: string; occurrence: number | null; payload: string; now: number };

/** Numbers grow, also after a rollback. */
const addEvent = prepared<Event>(
  (p) =>
    sql`insert into call_events (deployment, thread_id, call_id, seq, name, occurrence, payload, created_at)
    select deployment, thread_id, call_id, 1 + coalesce((select max(e.seq) from call_events e where e.deployment = calls.deployment
      and e.thread_id = calls.thread_id and e.call_id = calls.call_id), 0), ${p.name}, ${p.occurrence}, ${p.payload}, ${p.now}
    from calls where ${ofCall(p)} and ended_at is null
      and not exists (select 1 from call_events o where o.deployment = calls.deployment and o.thread_id = calls.thread_id
        and o.call_id = calls.call_id and o.name = ${scalar(p.name)} and o.occurrence = ${p.occurrence})
    returning seq`,
);

/** From now on the run is due whatever the clock says. */
const wakeRun = prepared<CallKey & { now: number }>(
  (p) =>
    sql`update runs set due_at = ${p.now}, updated_at = ${p.now}
    where deployment = ${p.deployment} and thread_id = ${p.thread_id} and status = 'pending'
      and waiting_for is not null and due_at > updated_at and call_id = ${p.call_id}`,
);

/** A call without an active run is continued by the service. */
const wakeCall = prepared<CallKey & { now: number }>(
  (p) =>
    sql`update calls set due_at = ${p.now} where ${ofCall(p)} and ended_at is null
    and not exists (select 1 from runs r where r.run_id = calls.run_id and r.ended_at is null)`,
);

const countSuspended = prepared<{ deployment: string }>(
  (p) =>
    sql`select count(*) as count from runs where deployment = ${scalar(p.deployment)} and status = 'pending'
    and waiting_for is not null`,
);

/** Those of busy threads wait: many of them must not hide the others. */
const dueCalls = prepared<{ deployment: string; now: number; limit: number }>(
  (p) =>
    sql`select * from calls where deployment = ${scalar(p.deployment)} and due_at <= ${scalar(p.now)} and due_at is not null
    and ended_at is null
    and not exists (select 1 from runs r where r.deployment = calls.deployment and r.thread_id = calls.thread_id and r.status = 'running')
    and not exists (select 1 from runs r where r.deployment = calls.deployment and r.thread_id = calls.thread_id and r.status = 'pending')
    order by due_at limit ${p.limit}`,
);

const setDue = prepared<CallKey & { due_at: number | null; ended_at: number | null; before: number }>(
  (p) =>
    sql`update calls set due_at = ${p.due_at}, ended_at = ${p.ended_at} where ${ofCall(p)} and due_at = ${p.before}
    and ended_at is null`,
);

function callVerbs(driver: Database): CallStorage {
  const lock = (deployment: string, thread_id: string): string[] => [ofThread(deployment, thread_id)];
  return {
    /** @statements getCall */
    getCall: ({ deployment, filter }, thread_id, call_id) =>
      readOne(driver, getCall({ deployment, thread_id, call_id }, filter), toCall),
    /** @statements newestCall */
    newestCall: ({ deployment, filter }, thread_id) =>
      readOne(driver, newestCall({ deployment, thread_id }, filter), toCall),
    /** @statements entriesFrom */
    readEntries: ({ deployment, filter }, thread_id, call_id, idx) =>
      readAll(driver, entriesFrom({ deployment, thread_id, call_id, idx, limit: ENTRIES_AT_ONCE }, filter), (row) => ({
        idx: Number(row.idx),
        entry: row.entry as string,
      })),
    /** @statements eventsAfter */
    readCallEvents: ({ deployment, filter }, thread_id, call_id, seq) =>
      readAll(driver, eventsAfter({ deployment, thread_id, call_id, seq }, filter), toEvent),
    /** @statements findToken */
    findToken: ({ deployment }, token_hash) =>
      readOne(driver, findToken({ deployment, token_hash }), (row) => ({
        call: toCall(row),
        name: row.name as string,
        occurrence: Number(row.occurrence),
        answer: row.payload === null ? undefined : (JSON.parse(row.payload as string) as Json),
      })),
    /**
     * @statements addEvent · wakeRun · wakeCall
     * @guards add the event where the call has not ended, and none came for the same wait · make its suspended run due ·
     *   make the call due, if it has no active run. Null without rows of the first statement.
     */
    async addCallEvent({ deployment }, { thread_id, call_id }, { name, occurrence, payload }, now) {
      const key = { deployment, thread_id, call_id, now };
      const event = addEvent({ ...key, name, occurrence, payload: JSON.stringify(payload) });
      const [added] = await driver.batch([event, wakeRun(key), wakeCall(key)], lock(deployment, thread_id));
      return added?.[0] ? "stored" : null;
    },
    /** @statements countSuspended */
    async countSuspended({ deployment }) {
      const [row] = await driver.read(countSuspended({ deployment }));
      return Number(row?.count);
    },
    /** @statements dueCalls */
    dueCalls: ({ deployment }, now, limit) => readAll(driver, dueCalls({ deployment, now, limit }), toCall),
    /**
     * @statements setDue
     * @guards update where `due_at` is as seen and the call has not ended.
     */
    async setCallDue({ deployment }, { thread_id, call_id, due_at: seen }, due_at, ended_at) {
      if (seen === null) return;
      const key = { deployment, thread_id, call_id, before: seen, due_at, ended_at };
      await driver.batch([setDue(key)], lock(deployment, thread_id));
    },
  };
}

const toEvent = (row: SqlRow): CallEvent => ({
  seq: Number(row.seq),
  name: row.name as string,
  occurrence: row.occurrence === null ? null : Number(row.occurrence),
  payload: JSON.parse(row.payload as string) as Json,
});

const toCall = (row: SqlRow): CallRow => ({
  thread_id: row.thread_id as string,
  call_id: row.call_id as string,
  copied: row.first_run === "",
  graph_id: row.graph_id as string,
  run_id: row.run_id as string,
  origin: row.beginning as string,
  position: row.position as string | null,
  due_at: row.due_at === null ? null : Number(row.due_at),
  ended_at: row.ended_at === null ? null : Number(row.ended_at),
});

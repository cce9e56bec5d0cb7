/** Thread events: what saves store, what a stopped run leaves, and the reads of the event protocol. */
import {
  EVENT_METHODS,
  type EventMethod,
  type EventPage,
  type EventStorage,
  type StoredThreadEvent,
  type ThreadEvent,
} from "../../../lib/storage/mod.ts";
import { type LeaseFence, whileLeased } from "../checkpoints.ts";
import { scalar } from "../dialect.ts";
import { andOfPermitted, andPermitted, scoped } from "../filter.ts";
import type { Tables } from "../schema/tables.ts";
import { type Database, ofThread, prepared, type Statement } from "../statement.ts";
import { type RawBuilder, sql } from "../template.ts";
import { chunksOf, PAGE_ROWS, PAGE_SIZE, pageAfter } from "./chunks.ts";

type Chunk = { first_seq: number; last_seq: number; methods: number; size: number; events: string; now: number };

// A repeated save may hold more events than the one before it, whose outcome was unknown.
const putChunk = prepared<LeaseFence & Chunk>(
  (p) =>
    sql`insert into thread_events (deployment, thread_id, first_seq, last_seq, run_id, methods, size, created_at, events)
    select ${p.deployment}, ${p.thread_id}, ${p.first_seq}, ${p.last_seq}, ${p.run_id}, ${p.methods}, ${p.size}, ${p.now},
      ${p.events} where ${whileLeased(p)}
    on conflict (deployment, thread_id, first_seq) do update set last_seq = excluded.last_seq, methods = excluded.methods,
      size = excluded.size, events = excluded.events
      where excluded.last_seq > thread_events.last_seq`,
);

const bitOf = (method: EventMethod): number => 1 << EVENT_METHODS.indexOf(method);
const bitsOf = (methods: Iterable<EventMethod>): number => [...methods].reduce((all, method) => all | bitOf(method), 0);

type Entry = [
  offset: number,
  method: number,
  namespace: readonly string[],
  timestamp: number,
  data: string | null,
  node?: string | null,
  checkpoint_id?: string | null,
  name?: string | null,
];

function entryOf(event: ThreadEvent, first_seq: number): Entry {
  const { seq, method, namespace, timestamp, data, node, checkpoint_id, name } = event;
  const place: Entry = [seq - first_seq, EVENT_METHODS.indexOf(method), namespace, timestamp, data];
  // A reader takes missing members at the end for null.
  if (checkpoint_id !== undefined || name !== undefined) place.push(node ?? null, checkpoint_id ?? null, name ?? null);
  else if (node !== undefined) place.push(node);
  return place;
}

/** Statements that store events while the run is still the lease's. */
export function putEvents(fence: LeaseFence, events: readonly ThreadEvent[] = []): Statement[] {
  return chunksOf(events).map(({ part, size }) => {
    const { seq: first_seq } = part[0] as ThreadEvent;
    const { seq: last_seq, timestamp: now } = part.at(-1) as ThreadEvent;
    const methods = bitsOf(part.map(({ method }) => method));
    const entries = JSON.stringify(part.map((event) => entryOf(event, first_seq)));
    return putChunk({ ...fence, first_seq, last_seq, methods, size, events: entries, now });
  });
}

/** Selects the ids of runs. */
type Which<Of> = (p: Of) => RawBuilder<unknown>;

const stopped = (now: number): RawBuilder<string> =>
  sql<string>`'[[0,0,[],' || ${sql`cast(${now} as text)`} || ',"{\\"event\\":\\"interrupted\\"}"]]'`;

type Deleted = { deployment: string; thread_id: string; run_id: string; now: number };

/** Events of a run that the batch has deleted. */
const ofDeleted = (p: Deleted): RawBuilder<unknown> =>
  sql`deployment = ${p.deployment} and thread_id = ${p.thread_id} and run_id = ${p.run_id}
    and not exists (select 1 from runs r where r.run_id = ${p.run_id})`;

const placeInTurn = (seq: string): RawBuilder<number> => sql<number>`${sql.ref(seq)} % 4294967296`;

const keepEnd = prepared<Deleted>(
  (p) =>
    sql`update thread_events set first_seq = last_seq, methods = 1, size = 30, events = ${stopped(p.now)}
    where ${ofDeleted(p)} and ${placeInTurn("last_seq")} = 4294967295`,
);

const dropOthers = prepared<Deleted>(
  (p) =>
    sql`delete from thread_events where ${ofDeleted(p)} and ${placeInTurn("first_seq")} >= 65536
    and ${placeInTurn("first_seq")} < 4294967295`,
);

/** Deletes the events of a run that the batch has deleted, but for its end: clients hang without it. */
export const dropEvents = (deleted: Deleted): Statement[] => [keepEnd(deleted), dropOthers(deleted)];

/** Deletes rows older than `before`, at most `limit`. */
export const dropOldEvents: (args: { deployment: string; before: number; limit: number }) => Statement = prepared(
  (p) =>
    sql`delete from thread_events where (deployment, thread_id, first_seq) in (select deployment, thread_id, first_seq
      from thread_events where deployment = ${scalar(p.deployment)} and created_at < ${scalar(p.before)}
      order by created_at limit ${scalar(p.limit)}) returning first_seq`,
);

/** Whether there are rows older than `before`. */
export const hasOldEvents: (args: { deployment: string; before: number }) => Statement = prepared(
  (p) =>
    sql`select first_seq from thread_events where deployment = ${scalar(p.deployment)}
    and created_at < ${scalar(p.before)} order by created_at limit 1`,
);

/**
 * Statements for runs that end outside an attempt: their events, if they are deleted, and one event that says that they are
 * over. It has a turn of its own, behind everything that readers may have. They go before the statement that changes the runs.
 */
export function stoppedEvents<Of extends { deployment: string; now: number }>(
  which: Which<Of>,
  deleted: boolean,
): (args: Of) => Statement[] {
  const shown = (p: Of): RawBuilder<unknown> =>
    sql`from runs r where r.run_id in (${which(p)}) and r.temporary = 0 and r.deployment = ${scalar(p.deployment)}`;
  const drop = prepared<Of>(
    (p) =>
      sql`delete from thread_events where deployment = ${p.deployment} and thread_id in (select r.thread_id ${shown(p)}
      and r.claims > 0) and run_id in (select r.run_id ${shown(p)} and r.claims > 0)`,
  );
  const takeTurn = prepared<Of>(
    (p) =>
      sql`update threads set turn = turn + 1 where deployment = ${p.deployment}
      and thread_id in (select r.thread_id ${shown(p)})`,
  );
  const seq = sql`t.turn * 4294967296 + r.seq % 65536`;
  const end = prepared<Of>(
    (p) =>
      sql`insert into thread_events (deployment, thread_id, first_seq, last_seq, run_id, methods, size, created_at, events)
      select r.deployment, r.thread_id, ${seq}, ${seq}, r.run_id, 1, 30, ${p.now}, ${stopped(p.now)}
      from runs r cross join threads t where r.run_id in (${which(p)}) and r.temporary = 0
        and r.deployment = ${scalar(p.deployment)} and t.deployment = r.deployment and t.thread_id = r.thread_id
      on conflict do nothing`,
  );
  return (args) => [...(deleted ? [drop(args)] : []), takeTurn(args), end(args)];
}

type After = { deployment: string; thread_id: string; after: number; methods: number };

/** The `seq` behind the turn of the run that executes now: it may still store events before those of later turns. */
const openTurn = (p: { deployment: string; thread_id: string }): RawBuilder<number> =>
  sql<number>`coalesce((select (r.turn + 1) * 4294967296 from runs r where r.deployment = ${scalar(p.deployment)}
    and r.thread_id = ${scalar(p.thread_id)} and r.status = 'running'), 9007199254740991)`;

/** Up to the turn of the run that executes now. */
const chunksAfter = scoped<After>((p, bound) => {
  const rows = sql`deployment = ${scalar(p.deployment)} and thread_id = ${scalar(p.thread_id)}`;
  const readable = sql` and first_seq < ${openTurn(p)} and methods & ${scalar(p.methods)} <> 0`;
  return sql`select first_seq, last_seq, run_id, events from thread_events
    where ${pageAfter(["thread_events", "first_seq", "last_seq"], p.after, rows, readable)}${andOfPermitted("thread_events", bound)}
    order by first_seq`;
});

const newest = scoped<{ deployment: string; thread_id: string }>(
  (p, bound) =>
    sql`select last_seq as seq from thread_events where deployment = ${scalar(p.deployment)}
    and thread_id = ${scalar(p.thread_id)} and first_seq < ${openTurn(p)}${andOfPermitted("thread_events", bound)}
    order by first_seq desc limit 1`,
);

const recordAll = scoped<{ deployment: string; thread_id: string }>(
  (p, bound) =>
    sql`update threads set all_events = 1 where deployment = ${p.deployment} and thread_id = ${p.thread_id}
    and hidden = 0${andPermitted(sql`threads.metadata`, bound)} returning thread_id`,
);

function toEvents({ first_seq, run_id, events }: Tables["thread_events"]): StoredThreadEvent[] {
  return (JSON.parse(events) as Entry[]).map(
    ([offset, method, namespace, timestamp, data, node, checkpoint_id, name]) => ({
      seq: first_seq + offset,
      run_id,
      method: EVENT_METHODS[method] as EventMethod,
      namespace,
      timestamp,
      data,
      ...(node == null ? {} : { node }),
      ...(checkpoint_id == null ? {} : { checkpoint_id }),
      ...(name == null ? {} : { name }),
    }),
  );
}

/** The verbs of thread events. */
export function eventVerbs(driver: Database): EventStorage {
  return {
    /**
     * @statements chunksAfter
     * @guards At most 64 rows or a million characters, up to the turn of the run that executes now: it may still store
     *   events before those of later turns.
     */
    async readEvents({ deployment, filter }, thread_id, { after, methods }): Promise<EventPage> {
      const bits = bitsOf(methods ?? EVENT_METHODS);
      const rows = await driver.read(chunksAfter({ deployment, thread_id, after, methods: bits }, filter));
      const chunks = rows as unknown as readonly Tables["thread_events"][];
      const events = chunks
        .flatMap(toEvents)
        .filter(({ seq, method }) => seq > after && methods?.has(method) !== false);
      // A stored text is longer than the size of its row.
      const size = chunks.reduce((sum, chunk) => sum + chunk.events.length, 0);
      const more = chunks.length === PAGE_ROWS || size >= PAGE_SIZE;
      return { events, read_to: chunks.at(-1)?.last_seq ?? null, more };
    },

    /**
     * @statements newest
     * @guards As readEvents.
     */
    async lastEvent({ deployment, filter }, thread_id) {
      const [row] = await driver.read(newest({ deployment, thread_id }, filter));
      return Number(row?.seq ?? 0);
    },

    /**
     * @statements recordAll
     * @guards update the thread.
     */
    async recordAllEvents({ deployment, filter }, thread_id) {
      const [updated] = await driver.batch(
        [recordAll({ deployment, thread_id }, filter)],
        [ofThread(deployment, thread_id)],
      );
      return updated?.length === 1;
    },
  };
}

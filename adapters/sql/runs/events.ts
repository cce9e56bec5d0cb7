/** Thread events: what saves store, and the reads of the event protocol. */
import {
  EVENT_METHODS,
  type EventMethod,
  type EventPage,
  type EventStorage,
  type StoredThreadEvent,
  type ThreadEvent,
} from "../../../lib/storage/mod.ts";
import { type Database, threadLockKey } from "../database.ts";
import type { Statement } from "../query.ts";
import type { CoreTables } from "../schema/tables.ts";
import type { LeaseFence } from "../statements/checkpoints.ts";
import { recordAllEvents, selectEvents, selectNewestEvent, upsertEvents } from "../statements/runs-events.ts";
import { PAGE_ROWS, PAGE_SIZE } from "../statements/runs-frames.ts";
import { splitIntoChunks } from "./chunks.ts";

const toMethodBit = (method: EventMethod): number => 1 << EVENT_METHODS.indexOf(method);
const toMethodBits = (methods: Iterable<EventMethod>): number =>
  [...methods].reduce((bits, method) => bits | toMethodBit(method), 0);

type PackedEvent = [
  offset: number,
  method: number,
  namespace: readonly string[],
  timestamp: number,
  data: string | null,
  node?: string | null,
  checkpoint_id?: string | null,
  name?: string | null,
];

/**
 * Returns the stored form of an event: a list that begins with the distance to `first_seq` and the index of the method.
 * Optional members at its end are left out if they are absent.
 */
function packEvent(event: ThreadEvent, first_seq: number): PackedEvent {
  const { seq, method, namespace, timestamp, data, node, checkpoint_id, name } = event;
  const packed: PackedEvent = [seq - first_seq, EVENT_METHODS.indexOf(method), namespace, timestamp, data];
  // A reader takes missing members at the end for null.
  if (checkpoint_id !== undefined || name !== undefined) packed.push(node ?? null, checkpoint_id ?? null, name ?? null);
  else if (node !== undefined) packed.push(node);
  return packed;
}

/**
 * Returns the statements that store events while the lease is held, one for each chunk; none without events. The events must be
 * in the order of their `seq`.
 */
export function storeEventStatements(fence: LeaseFence, events: readonly ThreadEvent[] = []): Statement[] {
  return splitIntoChunks(events).map(({ part, size }) => {
    const { seq: first_seq } = part[0] as ThreadEvent;
    const { seq: last_seq, timestamp: now } = part.at(-1) as ThreadEvent;
    const methods = toMethodBits(part.map(({ method }) => method));
    const entries = JSON.stringify(part.map((event) => packEvent(event, first_seq)));
    return upsertEvents({ ...fence, first_seq, last_seq, methods, size, events: entries, now });
  });
}

/** Converts a row to its events, in order. Node, checkpoint and name are absent if they are not stored. */
function toEvents({
  first_seq,
  run_id,
  events,
}: Pick<CoreTables["thread_events"], "first_seq" | "run_id" | "events">): StoredThreadEvent[] {
  return (JSON.parse(events) as PackedEvent[]).map(
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

/** Creates the storage operations of thread events. */
export function createEventStorage(driver: Database): EventStorage {
  return {
    /**
     * Returns a page of events after a `seq`, with where it ends (null if it is empty) and whether more follow. A page of rows
     * without the requested methods has no events.
     * @statements selectEvents
     * @guards At most 64 rows or a million characters, up to the claim number of the run that executes now: it may still store
     *   events before those of later claims.
     */
    async readEvents({ deployment, filter }, thread_id, { after, methods }): Promise<EventPage> {
      const bits = toMethodBits(methods ?? EVENT_METHODS);
      const chunks = await driver.read(selectEvents({ deployment, thread_id, after, methods: bits }, filter));
      const events = chunks
        .flatMap(toEvents)
        .filter(({ seq, method }) => seq > after && methods?.has(method) !== false);
      // A stored text is longer than the size of its row.
      const size = chunks.reduce((sum, chunk) => sum + chunk.events.length, 0);
      const has_more = chunks.length === PAGE_ROWS || size >= PAGE_SIZE;
      return { events, read_to: chunks.at(-1)?.last_seq ?? null, has_more };
    },

    /**
     * @statements selectNewestEvent
     * @guards As readEvents.
     */
    async getLastEventSeq({ deployment, filter }, thread_id) {
      const [newest] = await driver.read(selectNewestEvent({ deployment, thread_id }, filter));
      return newest?.last_seq ?? 0;
    },

    /**
     * Has the runs of the thread record events of all methods from now on. Returns false if there is no such thread.
     * @statements recordAllEvents
     * @guards update the thread.
     */
    async recordAllEvents({ deployment, filter }, thread_id) {
      const [updated] = await driver.batch(
        [recordAllEvents({ deployment, thread_id }, filter)],
        [threadLockKey(deployment, thread_id)],
      );
      return updated.length === 1;
    },
  };
}

/** Reads the events of threads for each reader through its filter: stored ones, then live ones. */
import type { EventMethod, Scope, StoredThreadEvent } from "../storage/mod.ts";
import { compileFilter, listMethods, type ThreadEvents } from "./event-filter.ts";
import { EventSerializer } from "./event-serializer.ts";
import { createReadLimit, PageReader } from "./log.ts";
import type { StreamGuards } from "./stream-guard.ts";
import { serializeEvent } from "./thread-event.ts";
import { findReplayStart, ThreadEventCursor } from "./thread-event-cursor.ts";
import { ThreadEventLog, type ThreadEventLogOptions } from "./thread-event-log.ts";

interface ThreadEventOptions extends ThreadEventLogOptions {
  readonly guards: StreamGuards;
  /** Called when a reader was added to a thread, whose recorded events must then be stored soon. */
  onReader(thread_id: string): void;
}

export interface ThreadEventLogs extends ThreadEvents {
  /**
   * Publishes events that an attempt here has stored. `before` is the `seq` before the first one. Does nothing without readers
   * here. If an event has no data, because only its checkpoint has it, all are read from the storage instead.
   */
  publish(thread_id: string, before: number, events: readonly StoredThreadEvent[]): void;
  /** Returns true if the thread has readers here. */
  isWatched(thread_id: string): boolean;
  /** Ends all readers, and each later one at once. */
  close(): void;
}

/**
 * Creates the event logs of threads. A log is opened with its first reader and closed after the last. Values of checkpoints stay
 * cached while there are readers.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createThreadEvents(options: ThreadEventOptions): ThreadEventLogs {
  const { storage, environment, bus } = options;
  const limit = createReadLimit(environment);
  const serializer = new EventSerializer(options, limit);
  const logs = new Map<string, ThreadEventLog>();
  let replays = 0;
  let isClosed = false;

  /** Drops cached values when the last reader has left. */
  function clearIfUnread(): void {
    if (logs.size + replays === 0) serializer.clear();
  }

  /** Opens the log of a thread, which removes itself when it is closed. */
  function open(thread_id: string): ThreadEventLog {
    const log = new ThreadEventLog(thread_id, options, limit, serializer, () => {
      if (logs.get(thread_id) === log) logs.delete(thread_id);
      clearIfUnread();
    });
    logs.set(thread_id, log);
    return log;
  }

  /** Yields all stored events of these methods after `from`, also those of other runs. Yields nothing without methods. */
  async function* readStoredAfter(
    scope: Scope,
    thread_id: string,
    from: number,
    methods: ReadonlySet<EventMethod>,
  ): AsyncGenerator<StoredThreadEvent> {
    const pages = logs.get(thread_id)?.pages ?? new PageReader(limit, ({ seq }: StoredThreadEvent) => seq);
    let after: number | null = from;
    while (after !== null && methods.size > 0) {
      const page: Awaited<ReturnType<typeof serializer.readPage>> = await serializer.readPage(pages, scope, thread_id, {
        after,
        methods,
      });
      yield* page.items;
      after = page.has_more ? page.read_to : null;
    }
  }

  bus.subscribe("events", null, (thread_id) => thread_id !== undefined && logs.get(thread_id)?.read());

  return {
    /**
     * Returns a reader of the events of a thread, which ends at once if the service stops. The first reader opens the log of the
     * thread. Calls `onReader` for each reader.
     */
    subscribe(scope, thread_id, filter) {
      const log = logs.get(thread_id) ?? open(thread_id);
      options.onReader(thread_id);
      const cursor = new ThreadEventCursor({ ...options, scope, thread_id, filter, log, serializer });
      if (isClosed) log.close();
      return cursor.toReader();
    },

    async recordAll(scope, thread_id) {
      await logs.get(thread_id)?.findThread(scope);
    },

    /** Yields the stored events that the filter includes, after its position or the start of the replay, and then ends. */
    async *readStored(scope, thread_id, filter) {
      const isIncluded = compileFilter(filter);
      replays++;
      try {
        const after = filter.since || findReplayStart(await storage.getLastEventSeq(scope, thread_id));
        for await (const stored of readStoredAfter(scope, thread_id, after, listMethods(filter))) {
          const event = await serializer.serialize(thread_id, stored, isIncluded);
          if (event) yield event;
        }
      } finally {
        replays--;
        clearIfUnread();
      }
    },

    /**
     * Counts the stored events that each filter includes, and returns the last position; 0 for a thread without events. Reads all
     * of these events.
     */
    async count(scope, thread_id, filters) {
      const last = await storage.getLastEventSeq(scope, thread_id);
      const counters = filters.map((filter) => ({
        passes: compileFilter(filter),
        since: filter.since || findReplayStart(last),
        count: 0,
      }));
      const after = Math.min(last, ...counters.map(({ since }) => since));
      const methods = new Set(filters.flatMap((filter) => [...listMethods(filter)]));
      if (after < last) {
        for await (const { seq, method, namespace, name } of readStoredAfter(scope, thread_id, after, methods)) {
          for (const counter of counters)
            if (seq > counter.since && counter.passes(method, namespace, name)) counter.count++;
        }
      }
      return { counts: counters.map(({ count }) => count), last };
    },

    lastEventSeq: (scope, thread_id) => storage.getLastEventSeq(scope, thread_id),
    publish(thread_id, before, events) {
      const log = logs.get(thread_id);
      // Values that only their checkpoint has are read from the storage.
      if (events.some(({ data }) => data === null)) log?.read();
      else
        log?.publish(
          before,
          events.map((event) => serializeEvent(event, event.data as string)),
        );
    },
    isWatched: (thread_id) => logs.has(thread_id),
    close() {
      isClosed = true;
      for (const log of logs.values()) log.close();
    },
  };
}

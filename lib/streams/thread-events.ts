/** The events of threads: kept ones from the store, then live ones, for each reader through its filter. */
import type { EventMethod, Scope, StoredThreadEvent } from "../storage/mod.ts";
import { beginningOf, EventCursor } from "./event-cursor.ts";
import { Pages, readLimit } from "./log.ts";
import { compileFilter, methodsOf, type ThreadEvents } from "./protocol.ts";
import { SentEvents } from "./sent-events.ts";
import type { StreamGuards } from "./stream-guard.ts";
import { serializeEvent } from "./thread-event.ts";
import { ThreadLog, type ThreadLogOptions } from "./thread-log.ts";

interface ThreadEventOptions extends ThreadLogOptions {
  readonly guards: StreamGuards;
  /** A reader was added to a thread: its recorded events must be stored soon. */
  onReader(thread_id: string): void;
}

export interface ThreadEventLogs extends ThreadEvents {
  /** An attempt here has stored these events. `before`: the `seq` before the first one. */
  publish(thread_id: string, before: number, events: readonly StoredThreadEvent[]): void;
  /** The thread has readers here. */
  isWatched(thread_id: string): boolean;
  /** Ends all readers. */
  close(): void;
}

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createThreadEvents(options: ThreadEventOptions): ThreadEventLogs {
  const { storage, environment, bus } = options;
  const limit = readLimit(environment);
  const sent = new SentEvents(options, limit);
  const logs = new Map<string, ThreadLog>();
  let replays = 0;
  let closed = false;

  /** When the last reader leaves, cached values are dropped. */
  function forgetUnread(): void {
    if (logs.size + replays === 0) sent.clear();
  }

  function open(thread_id: string): ThreadLog {
    const log = new ThreadLog(thread_id, options, limit, sent, () => {
      if (logs.get(thread_id) === log) logs.delete(thread_id);
      forgetUnread();
    });
    logs.set(thread_id, log);
    return log;
  }

  async function* storedAfter(
    scope: Scope,
    thread_id: string,
    from: number,
    methods: ReadonlySet<EventMethod>,
  ): AsyncGenerator<StoredThreadEvent> {
    const pages = logs.get(thread_id)?.pages ?? new Pages(limit, ({ seq }: StoredThreadEvent) => seq);
    let after: number | null = from;
    while (after !== null && methods.size > 0) {
      const page: Awaited<ReturnType<typeof sent.page>> = await sent.page(pages, scope, thread_id, { after, methods });
      yield* page.items;
      after = page.has_more ? page.read_to : null;
    }
  }

  bus.subscribe("events", null, (thread_id) => thread_id !== undefined && logs.get(thread_id)?.read());

  return {
    subscribe(scope, thread_id, filter) {
      const log = logs.get(thread_id) ?? open(thread_id);
      options.onReader(thread_id);
      const cursor = new EventCursor({ ...options, scope, thread_id, filter, log, sent });
      if (closed) log.close();
      return cursor.reader();
    },

    async recordAll(scope, thread_id) {
      await logs.get(thread_id)?.find(scope);
    },

    async *kept(scope, thread_id, filter) {
      const passes = compileFilter(filter);
      replays++;
      try {
        const after = filter.since || beginningOf(await storage.getLastEventSeq(scope, thread_id));
        for await (const stored of storedAfter(scope, thread_id, after, methodsOf(filter))) {
          const event = await sent.of(thread_id, stored, passes);
          if (event) yield event;
        }
      } finally {
        replays--;
        forgetUnread();
      }
    },

    async count(scope, thread_id, filters) {
      const last = await storage.getLastEventSeq(scope, thread_id);
      const all = filters.map((filter) => ({
        passes: compileFilter(filter),
        since: filter.since || beginningOf(last),
        count: 0,
      }));
      const after = Math.min(last, ...all.map(({ since }) => since));
      const methods = new Set(filters.flatMap((filter) => [...methodsOf(filter)]));
      if (after < last) {
        for await (const { seq, method, namespace, name } of storedAfter(scope, thread_id, after, methods)) {
          for (const one of all) if (seq > one.since && one.passes(method, namespace, name)) one.count++;
        }
      }
      return { counts: all.map(({ count }) => count), last };
    },

    lastEventSeq: (scope, thread_id) => storage.getLastEventSeq(scope, thread_id),
    publish(thread_id, before, events) {
      const log = logs.get(thread_id);
      // Values that only their checkpoint has are read from the store.
      if (events.some(({ data }) => data === null)) log?.read();
      else
        log?.publish(
          before,
          events.map((event) => serializeEvent(event, event.data as string)),
        );
    },
    isWatched: (thread_id) => logs.has(thread_id),
    close() {
      closed = true;
      for (const log of logs.values()) log.close();
    },
  };
}

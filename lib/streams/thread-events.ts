/** The events of threads: kept ones from the store, then live ones, for each reader through its filter. */
import { loopTick, sharedCalls } from "../environment.ts";
import type { Bus } from "../storage/bus.ts";
import type { EventMethod, EventPage, Scope, StoredThreadEvent, ThreadRow } from "../storage/mod.ts";
import { beginningOf, EventCursor } from "./event-cursor.ts";
import { Change, createReader } from "./hub.ts";
import { compileFilter, methodsOf, type SentEvent, type ThreadEvents } from "./protocol.ts";
import { type SentEventOptions, SentEvents, sentOf } from "./sent-events.ts";
import type { Sights } from "./sight.ts";

interface ThreadEventOptions extends SentEventOptions {
  readonly scope: Scope;
  readonly bus: Bus;
  readonly sights: Sights;
}

/** The size of a log in memory, in characters. */
const RING_SIZE = 1024 * 1024;
const EVENT_OVERHEAD = 128;
/** The interval between two reads while nothing arrives. */
const FIRST_POLL_MS = 250;
const LONGEST_POLL_MS = 1_000;

/**
 * The newest events of a thread in memory, shared by all its readers in this process. The attempt that executes here appends what it
 * has stored; events of other processes are read from the store.
 */
class ThreadLog {
  /** All events above this `seq` are in `events`. */
  from = 0;
  /** The highest `seq` so far. */
  last = 0;
  /** Rising by `seq`. */
  events: SentEvent[] = [];
  readers = 0;
  /** A reader has seen the thread: once it is gone, it was deleted. */
  exists = false;
  /** It had runs that wait or execute when it was last read. */
  busy = false;
  /** The service stops: readers end. */
  closed = false;
  /** How often the thread was deleted. That ends readers who saw the thread. Others must not learn that it existed. */
  deletions = 0;
  /** How often the thread may have appeared or changed: those who do not see it look again. */
  changes = 0;
  /** Resolves when `from` and `last` are known. */
  readonly ready: Promise<void>;
  /** Readers may find something new, or have to end. */
  readonly change: Change = new Change();
  readonly #thread_id: string;
  readonly #options: ThreadEventOptions;
  readonly #sent: SentEvents;
  #size = 0;
  /** Published, and not in `events` before the store was read. */
  readonly #early = new Map<number, SentEvent>();
  #reading: Promise<void> | undefined;
  #readAgain = false;
  #checkThread = false;
  #cancelPoll = (): void => {};
  readonly #shared = sharedCalls();

  constructor(thread_id: string, options: ThreadEventOptions, sent: SentEvents) {
    this.#thread_id = thread_id;
    this.#options = options;
    this.#sent = sent;
    this.ready = this.#begin();
    this.ready.catch(() => {});
  }

  async #begin(): Promise<void> {
    const { storage, scope } = this.#options;
    const newest = await storage.lastEvent(scope, this.#thread_id);
    if (this.last === 0) {
      this.last = newest;
      this.from = newest;
    }
    this.#poll(FIRST_POLL_MS);
  }

  find(scope: Scope): Promise<ThreadRow | null> {
    const key = `find ${JSON.stringify(scope.filter)}`;
    return this.#shared(key, 0, () => this.#options.storage.getThread(scope, this.#thread_id));
  }

  recordAll(scope: Scope): Promise<unknown> {
    const key = `record ${JSON.stringify(scope.filter)}`;
    return this.#shared(key, 0, () => this.#options.storage.recordAllEvents(scope, this.#thread_id));
  }

  /** Adds events that an attempt of this process has stored. `before`: the `seq` before the first one. */
  publish(before: number, events: readonly SentEvent[]): void {
    if (this.last < before || this.last === 0) {
      // The store has others before them, but perhaps not their large values.
      for (const event of events) this.#early.set(event.seq, event);
      return void this.read();
    }
    for (const event of events) this.#append(event);
    this.change.notify();
  }

  /** Reads what other processes have stored. `deletable`: also whether the thread was deleted. */
  read(deletable = false): Promise<void> {
    this.#checkThread ||= deletable;
    if (deletable) this.changes++;
    this.#readAgain = true;
    this.#reading ??= this.#readAll().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readAll(): Promise<void> {
    const { storage, scope, environment } = this.#options;
    try {
      await this.ready;
      while (this.#readAgain && !this.closed) {
        this.#readAgain = false;
        const check = this.#checkThread && this.exists;
        this.#checkThread = false;
        const thread = check ? await storage.getThread(scope, this.#thread_id) : undefined;
        if (thread) this.busy = thread.status === "busy";
        if (thread === null) this.#forget();
        let after: number | null = this.last;
        while (after !== null) {
          const page = await storage.readEvents(scope, this.#thread_id, { after });
          for (const event of page.events) {
            if (event.seq <= this.last) continue;
            const logged = this.#early.get(event.seq) ?? (await this.#sent.of(this.#thread_id, event));
            if (logged) this.#append(logged);
          }
          after = page.more ? page.read_to : null;
          if (after !== null) await loopTick(environment);
        }
      }
    } catch (error) {
      const message = "reading the events of a thread failed";
      environment.log({ level: "warn", message, thread_id: this.#thread_id, error });
    }
    this.#early.clear();
    this.change.notify();
  }

  /** The thread was deleted. Another one may get its id, whose events begin again. */
  #forget(): void {
    this.deletions++;
    this.exists = false;
    this.events = [];
    this.from = 0;
    this.last = 0;
    this.#size = 0;
    this.#early.clear();
  }

  close(): void {
    this.closed = true;
    this.#cancelPoll();
    this.change.notify();
  }

  #poll(ms: number): void {
    if (this.closed) return;
    const before = this.last;
    this.#cancelPoll = this.#options.environment.timer(ms, () => {
      if (this.readers === 0) return;
      // Something has arrived without a poll: the next one waits until that stops.
      if (this.last !== before) return this.#poll(FIRST_POLL_MS);
      void this.read(true).then(() =>
        this.#poll(this.last === before ? Math.min(2 * ms, LONGEST_POLL_MS) : FIRST_POLL_MS),
      );
    });
  }

  #append(event: SentEvent): void {
    const { seq, data } = event;
    if (seq <= this.last) return;
    this.events.push(event);
    this.last = seq;
    this.#size += data.length + EVENT_OVERHEAD;
    if (this.#size > RING_SIZE) this.#cut();
  }

  /** Drops the oldest half, but never the newest event. */
  #cut(): void {
    let count = 0;
    while (count < this.events.length - 1 && this.#size > RING_SIZE / 2) {
      const { seq, data } = this.events[count++] as SentEvent;
      this.#size -= data.length + EVENT_OVERHEAD;
      this.from = seq;
    }
    this.events = this.events.slice(count);
  }
}

export interface ThreadEventLogs extends ThreadEvents {
  /** An attempt here has stored these events. `before`: the `seq` before the first one. */
  publish(thread_id: string, before: number, events: readonly StoredThreadEvent[]): void;
  /** The thread has readers here. */
  isWatched(thread_id: string): boolean;
  /**
   * Registers the attempt that records events of the thread. `flush` stores soon what it has recorded: a reader has come. The result
   * unregisters it.
   */
  attach(thread_id: string, flush: () => void): () => void;
  /** Ends all readers. */
  close(): void;
}

interface OpenLog {
  readonly log: ThreadLog;
  readonly unsubscribe: () => void;
}

export function createThreadEvents(options: ThreadEventOptions): ThreadEventLogs {
  const { storage, environment, bus, sights } = options;
  const sent = new SentEvents(options);
  const logs = new Map<string, OpenLog>();
  const writers = new Map<string, Set<() => void>>();
  let closed = false;

  /** The log of a thread with one reader more. */
  function enter(thread_id: string): ThreadLog {
    let open = logs.get(thread_id);
    if (!open || open.log.closed) {
      const log = new ThreadLog(thread_id, options, sent);
      open = { log, unsubscribe: bus.on("thread", thread_id, () => void log.read(true)) };
      logs.set(thread_id, open);
    }
    open.log.readers++;
    sent.enter();
    for (const flush of writers.get(thread_id) ?? []) flush();
    return open.log;
  }

  async function* storedAfter(
    scope: Scope,
    thread_id: string,
    from: number,
    methods: ReadonlySet<EventMethod>,
  ): AsyncGenerator<StoredThreadEvent> {
    let after: number | null = from;
    while (after !== null && methods.size > 0) {
      const page: EventPage = await sent.page(scope, thread_id, { after, methods });
      yield* page.events;
      after = page.more ? page.read_to : null;
    }
  }

  function leave(thread_id: string, log: ThreadLog): void {
    sent.leave();
    if (--log.readers > 0) return;
    log.close();
    const open = logs.get(thread_id);
    if (open?.log !== log) return;
    open.unsubscribe();
    logs.delete(thread_id);
  }

  bus.on("events", null, (thread_id) => void (thread_id !== undefined && logs.get(thread_id)?.log.read()));

  return {
    subscribe(scope, thread_id, filter) {
      const log = enter(thread_id);
      if (closed) log.close();
      const onLeave = (): void => leave(thread_id, log);
      const cursor = new EventCursor({ environment, sights, scope, thread_id, filter, log, sent, onLeave });
      return createReader(
        () => cursor.next(),
        () => cursor.leave(),
      );
    },

    async *kept(scope, thread_id, filter) {
      const passes = compileFilter(filter);
      sent.enter();
      try {
        const after = filter.since || beginningOf(await storage.lastEvent(scope, thread_id));
        for await (const stored of storedAfter(scope, thread_id, after, methodsOf(filter))) {
          const event = await sent.of(thread_id, stored, passes);
          if (event) yield event;
        }
      } finally {
        sent.leave();
      }
    },

    async count(scope, thread_id, filters) {
      const last = await storage.lastEvent(scope, thread_id);
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

    lastEventSeq: (scope, thread_id) => storage.lastEvent(scope, thread_id),
    publish(thread_id, before, events) {
      const log = logs.get(thread_id)?.log;
      // Values that only their checkpoint has are read from the store.
      if (events.some(({ data }) => data === null)) void log?.read();
      else
        log?.publish(
          before,
          events.map((event) => sentOf(event, event.data as string)),
        );
    },
    isWatched: (thread_id) => logs.has(thread_id),
    attach(thread_id, flush) {
      const own = writers.get(thread_id) ?? new Set();
      writers.set(thread_id, own.add(flush));
      return () => {
        own.delete(flush);
        if (own.size === 0 && writers.get(thread_id) === own) writers.delete(thread_id);
      };
    },
    close() {
      closed = true;
      for (const { log } of logs.values()) log.close();
    },
  };
}

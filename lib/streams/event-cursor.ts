/** A reader's position in the events of a thread. */
import type { Environment } from "../environment.ts";
import { type EventMethod, type Scope, type Storage, type StoredThreadEvent, seqOf } from "../storage/mod.ts";
import { type Change, indexAfter } from "./hub.ts";
import { compileFilter, type EventFilter, methodsOf, type Passes, type SentEvent } from "./protocol.ts";
import { type SentEvents, sentOf } from "./sent-events.ts";

/** The size limit of one batch, in characters. */
const BATCH_SIZE = 64 * 1024;

/** How many turns a replay from the beginning has. What is older, clients take from the state of the thread. */
const REPLAYED_TURNS = 10;

/** Where a replay from the beginning begins. `last`: the newest event. */
export const beginningOf = (last: number): number =>
  Math.max(0, seqOf(Math.floor(last / seqOf(1, 0)) - REPLAYED_TURNS + 1, 0) - 1);

/** How long events go on for a reader from whom the thread was hidden. */
const RECHECK_MS = 1_000;

/** The newest events of a thread, as its readers use them. */
interface EventLog {
  readonly from: number;
  readonly last: number;
  readonly events: readonly SentEvent[];
  exists: boolean;
  busy: boolean;
  readonly closed: boolean;
  readonly deleted: boolean;
  readonly ready: Promise<void>;
  readonly change: Change;
}

interface CursorOptions {
  readonly storage: Storage;
  readonly environment: Environment;
  readonly scope: Scope;
  readonly thread_id: string;
  readonly filter: EventFilter;
  readonly log: EventLog;
  readonly sent: SentEvents;
  onLeave(): void;
}

/** A reader's position. Events from before it opened, and from behind the log of the thread, it reads from the store. */
export class EventCursor {
  readonly #options: CursorOptions;
  readonly #passes: Passes;
  readonly #methods: ReadonlySet<EventMethod>;
  #cursor: number;
  /** Read from the store, and not shown yet; and up to where that read went. */
  #page: readonly StoredThreadEvent[] = [];
  #read_to = 0;
  /** The log's last event when this reader opened. The log may hold events of runs that were rolled back since they were shown. */
  #opened = 0;
  #attached = false;
  #left = false;
  #checked = 0;

  constructor(options: CursorOptions) {
    const { filter } = options;
    this.#options = options;
    this.#passes = compileFilter(filter);
    this.#methods = methodsOf(filter);
    this.#cursor = filter.since ?? 0;
  }

  async next(): Promise<readonly SentEvent[]> {
    const { log } = this.#options;
    while (!this.#left) {
      let ready = this.#pull();
      if (ready.length === 0 && log.closed) return this.#end(log.deleted);
      const changed = log.change.wait();
      try {
        if (ready.length === 0 && this.#attached && this.#cursor < this.#floor) ready = await this.#load();
        else if (ready.length === 0 && (this.#attached || !(await this.#attach()))) await changed;
        if (ready.length > 0 && (await this.#isHidden())) return this.#end(true);
      } catch (error) {
        const expected = this.#left || log.closed;
        this.leave();
        if (!expected) throw error;
      }
      if (ready.length > 0 && !this.#left) return ready;
    }
    return [];
  }

  /** `gone`: the thread was deleted or hidden. Clients wait for the ends of its runs, which nothing else tells them. */
  #end(gone: boolean): SentEvent[] {
    const { log, environment } = this.#options;
    this.leave();
    if (!gone || !log.busy) return [];
    // Its id names no run, because it is the end of all of them, and is no other event's.
    const place = { seq: this.#cursor + 1, run_id: "", method: "lifecycle", namespace: [] } as const;
    const event = { ...place, timestamp: environment.now(), data: null };
    const end = sentOf(event, '{"event":"interrupted"}', `gone:${environment.uuid()}`);
    return [{ ...end, last: true }];
  }

  /** The log is shared with readers who see more. */
  async #isHidden(): Promise<boolean> {
    const { storage, environment, scope, thread_id } = this.#options;
    if (!scope.filter || environment.now() - this.#checked < RECHECK_MS) return false;
    this.#checked = environment.now();
    return (await storage.getThread(scope, thread_id)) === null;
  }

  /** Waits for nothing: the thread may not exist yet. True once it does. */
  async #attach(): Promise<boolean> {
    const { storage, scope, thread_id, log } = this.#options;
    await log.ready;
    const thread = await storage.getThread(scope, thread_id);
    if (!thread || thread.hidden) return false;
    if (!thread.all_events) await storage.recordAllEvents(scope, thread_id);
    log.exists = true;
    log.busy = thread.status === "busy";
    this.#opened = log.last;
    this.#cursor ||= beginningOf(log.last);
    this.#attached = true;
    return true;
  }

  /** Up to here it reads from the store. */
  get #floor(): number {
    return Math.max(this.#opened, this.#options.log.from);
  }

  /** Takes what the log has for this reader. */
  #pull(): SentEvent[] {
    const { events } = this.#options.log;
    const ready: SentEvent[] = [];
    if (!this.#attached || this.#cursor < this.#floor) return ready;
    let room = BATCH_SIZE;
    for (let i = indexAfter(events, this.#cursor, placeOf); i < events.length && room > 0; i++) {
      const event = events[i] as SentEvent;
      this.#cursor = event.seq;
      if (!this.#passes(event.event, event.namespace, event.name)) continue;
      ready.push(event);
      room -= event.data.length;
    }
    return ready;
  }

  /** Reads a batch behind the log. What is left of its page is for the next one. */
  async #load(): Promise<SentEvent[]> {
    const { scope, thread_id, sent } = this.#options;
    const floor = this.#floor;
    const ready: SentEvent[] = [];
    if (this.#methods.size === 0) {
      this.#cursor = floor;
      return ready;
    }
    this.#page = this.#page.slice(indexAfter(this.#page, this.#cursor, placeOf));
    if (this.#page.length === 0) {
      const { events, read_to } = await sent.page(scope, thread_id, { after: this.#cursor, methods: this.#methods });
      this.#page = events;
      // Nothing below it is still to be stored: the log has continued from there.
      this.#read_to = read_to ?? Math.max(this.#cursor, floor);
    }
    let room = BATCH_SIZE;
    for (const stored of this.#page) {
      if (room <= 0) return ready;
      const event = await sent.of(thread_id, stored, this.#passes);
      if (event) ready.push(event);
      room -= event?.data.length ?? 0;
      this.#cursor = stored.seq;
    }
    this.#page = [];
    this.#cursor = this.#read_to;
    return ready;
  }

  leave(): void {
    if (this.#left) return;
    this.#left = true;
    this.#options.onLeave();
    this.#options.log.change.notify();
  }
}

const placeOf = ({ seq }: { readonly seq: number }): number => seq;

/** A reader's position in the events of a thread. */
import type { Environment } from "../environment.ts";
import { type EventMethod, eventSeq, type Scope, type StoredThreadEvent, type ThreadRow } from "../storage/mod.ts";
import { type Change, indexAfter } from "./hub.ts";
import { compileFilter, type EventFilter, methodsOf, type Passes, type SentEvent } from "./protocol.ts";
import { type SentEvents, sentOf } from "./sent-events.ts";
import type { Sight, Sights } from "./sight.ts";

/** The size limit of one batch, in characters. */
const BATCH_SIZE = 64 * 1024;

/** How many turns a replay from the beginning has. What is older, clients take from the state of the thread. */
const REPLAYED_TURNS = 10;

/** Where a replay from the beginning begins. `last`: the newest event. */
export const beginningOf = (last: number): number =>
  Math.max(0, eventSeq(Math.floor(last / eventSeq(1, 0)) - REPLAYED_TURNS + 1, 0) - 1);

/** The newest events of a thread, as its readers use them. */
interface EventLog {
  readonly from: number;
  readonly last: number;
  readonly events: readonly SentEvent[];
  exists: boolean;
  busy: boolean;
  readonly closed: boolean;
  readonly deletions: number;
  readonly changes: number;
  readonly ready: Promise<void>;
  readonly change: Change;
  /** The thread, read once for all readers who see the same and ask at the same time. */
  find(scope: Scope): Promise<ThreadRow | null>;
  /** From now on its runs record all events; called once for all such readers. */
  recordAll(scope: Scope): Promise<unknown>;
}

interface CursorOptions {
  readonly environment: Environment;
  readonly sights: Sights;
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
  /** Read from the store, and not shown yet, the newest first; and up to where that read went. */
  #page: StoredThreadEvent[] = [];
  #read_to = 0;
  /** The log's last event when this reader opened. The log may hold events of runs that were rolled back since they were shown. */
  #opened = 0;
  #attached = false;
  #left = false;
  /** The log is shared with readers who see more. */
  #sight: Sight | undefined;
  #hidden = false;
  /** The changes of the thread when it looked for it. */
  #looked = -1;
  /** The deletions of the thread before this reader saw it. */
  #deletions = 0;

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
      if (this.#isGone) return this.#end(true);
      let ready = this.#pull();
      if (ready.length === 0 && log.closed) return this.#end(false);
      const changed = log.change.wait(this);
      try {
        if (ready.length === 0 && this.#attached && this.#cursor < this.#floor) ready = await this.#load();
        else if (ready.length === 0 && (this.#attached || !(await this.#attach()))) await changed;
        if (ready.length > 0) await this.#sight?.holds();
      } catch (error) {
        const expected = this.#left || log.closed;
        this.leave();
        if (!expected) throw error;
      }
      if (ready.length > 0 && !this.#left && !this.#isGone) return ready;
    }
    return [];
  }

  /** The thread that it saw was hidden from it, or deleted. */
  get #isGone(): boolean {
    return this.#hidden || (this.#attached && this.#deletions !== this.#options.log.deletions);
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

  /** Waits for nothing: the thread may not exist yet. True once it does. */
  async #attach(): Promise<boolean> {
    const { scope, thread_id, log, sights } = this.#options;
    await log.ready;
    const { deletions, changes } = log;
    // Events of others are no reason to look again.
    if (changes === this.#looked) return false;
    this.#looked = changes;
    const thread = await log.find(scope);
    if (!thread || thread.stateless) return false;
    if (!thread.records_all) await log.recordAll(scope);
    log.exists = true;
    log.busy = thread.status === "busy";
    this.#opened = log.last;
    this.#cursor ||= beginningOf(log.last);
    this.#attached = true;
    this.#deletions = deletions;
    if (this.#left) return true;
    this.#sight = sights.open(scope, thread_id, () => {
      this.#hidden = true;
      log.change.wake(this);
    });
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
    while ((this.#page.at(-1)?.seq ?? Number.POSITIVE_INFINITY) <= this.#cursor) this.#page.pop();
    if (this.#page.length === 0) {
      const { events, read_to } = await sent.page(scope, thread_id, { after: this.#cursor, methods: this.#methods });
      this.#page = events.toReversed();
      // Nothing below it is still to be stored: the log has continued from there.
      this.#read_to = read_to ?? Math.max(this.#cursor, floor);
    }
    let room = BATCH_SIZE;
    for (let stored = this.#page.at(-1); stored; stored = this.#page.at(-1)) {
      if (room <= 0) return ready;
      const event = await sent.of(thread_id, stored, this.#passes);
      if (event) ready.push(event);
      room -= event?.data.length ?? 0;
      this.#cursor = stored.seq;
      // Events that were taken are not held: they may be large.
      this.#page.pop();
    }
    this.#cursor = this.#read_to;
    return ready;
  }

  leave(): void {
    if (this.#left) return;
    this.#left = true;
    this.#sight?.close();
    this.#options.onLeave();
    this.#options.log.change.wake(this);
  }
}

const placeOf = ({ seq }: { readonly seq: number }): number => seq;

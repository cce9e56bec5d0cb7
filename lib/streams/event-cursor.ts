/** A reader's place in the events of a thread. */
import type { Environment } from "../environment.ts";
import { type EventMethod, type Scope, type StoredThreadEvent, toEventSeq } from "../storage/mod.ts";
import { Cursor, type Page } from "./log.ts";
import { compileFilter, type EventFilter, methodsOf, type Passes, type SentEvent } from "./protocol.ts";
import type { SentEvents } from "./sent-events.ts";
import type { StreamGuard, StreamGuards } from "./stream-guard.ts";
import { serializeEvent } from "./thread-event.ts";
import type { ThreadLog } from "./thread-log.ts";

/** How many turns a replay from the beginning has. What is older, clients take from the state of the thread. */
const REPLAYED_TURNS = 10;

/** Where a replay from the beginning begins. `last`: the newest event. */
export const beginningOf = (last: number): number =>
  Math.max(0, toEventSeq(Math.floor(last / toEventSeq(1, 0)) - REPLAYED_TURNS + 1, 0) - 1);

interface CursorOptions {
  readonly environment: Environment;
  readonly guards: StreamGuards;
  readonly scope: Scope;
  readonly thread_id: string;
  readonly filter: EventFilter;
  readonly log: ThreadLog;
  readonly sent: SentEvents;
}

/** Reads events from the store that are older than the reader, or that the log of the thread has dropped. */
export class EventCursor extends Cursor<SentEvent, StoredThreadEvent> {
  readonly #options: CursorOptions;
  readonly #passes: Passes;
  readonly #methods: ReadonlySet<EventMethod>;
  /** The log's last event when this reader opened. The log may hold events of runs that were rolled back since they were shown. */
  #opened = 0;
  protected override attached = false;
  /** The log is shared with readers who see more. */
  #guard: StreamGuard | undefined;
  #isExcluded = false;
  /** The changes of the thread when it looked for it. */
  #looked = -1;
  /** The deletions of the thread before this reader saw it. */
  #deletions = 0;

  constructor(options: CursorOptions) {
    const { filter, log } = options;
    super(log, filter.since ?? 0);
    this.#options = options;
    this.#passes = compileFilter(filter);
    this.#methods = methodsOf(filter);
  }

  /** The thread that it saw was hidden from it, or deleted. */
  protected override isGone(): boolean {
    return this.#isExcluded || (this.attached && this.#deletions !== this.#options.log.deletions);
  }

  /** Ends of the runs of a thread that was deleted or hidden. Clients wait for them, and their rows are gone. */
  protected override end(): readonly SentEvent[] {
    const { log, environment } = this.#options;
    const gone = this.isGone();
    super.end();
    if (!gone || !log.busy) return [];
    // Its id names no run, because it is the end of all of them, and is no other event's.
    const at = { seq: this.place + 1, run_id: "", method: "lifecycle", namespace: [] } as const;
    const event = { ...at, timestamp: environment.now(), data: null };
    const end = serializeEvent(event, '{"event":"interrupted"}', `gone:${environment.uuid()}`);
    return [{ ...end, last: true }];
  }

  /** The thread may not exist yet. */
  protected override async attach(): Promise<boolean> {
    const { scope, thread_id, log, guards } = this.#options;
    await log.ready;
    const { deletions, changes } = log;
    // Events of others are no reason to look again.
    if (changes === this.#looked) return false;
    this.#looked = changes;
    if (!(await log.find(scope))) return false;
    this.#opened = log.last;
    this.place ||= beginningOf(log.last);
    this.attached = true;
    this.#deletions = deletions;
    if (this.left) return true;
    this.#guard = guards.open({ scope }, { thread_id }, () => {
      this.#isExcluded = true;
      log.change.wake(this);
    });
    return true;
  }

  protected override get floor(): number {
    return Math.max(this.#opened, this.#options.log.from);
  }

  protected async load(): Promise<Page<StoredThreadEvent>> {
    const { scope, thread_id, log, sent } = this.#options;
    const methods = this.#methods;
    if (methods.size === 0) return { items: [], read_to: null };
    return await sent.page(log.pages, scope, thread_id, { after: this.place, methods });
  }

  protected show(event: SentEvent | StoredThreadEvent): SentEvent | null | Promise<SentEvent | null> {
    const { thread_id, sent } = this.#options;
    if (!("event" in event)) return sent.of(thread_id, event, this.#passes);
    return this.#passes(event.event, event.namespace, event.name) ? event : null;
  }

  protected override check(): Promise<unknown> | undefined {
    return this.#guard?.mayContinue();
  }

  protected override close(): void {
    super.close();
    this.#guard?.close();
  }
}

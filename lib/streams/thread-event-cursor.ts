/** Reads the events of a thread for one reader, from its position on. */
import type { Environment } from "../environment.ts";
import { type EventMethod, type Scope, type StoredThreadEvent, toEventSeq } from "../storage/mod.ts";
import {
  compileFilter,
  type EventFilter,
  type EventPredicate,
  listMethods,
  type SerializedEvent,
} from "./event-filter.ts";
import type { EventSerializer } from "./event-serializer.ts";
import { LogCursor, type Page } from "./log.ts";
import type { StreamGuard, StreamGuards } from "./stream-guard.ts";
import { serializeEvent } from "./thread-event.ts";
import type { ThreadEventLog } from "./thread-event-log.ts";

/** The number of turns that a replay from the beginning contains. Clients take older content from the state of the thread. */
const MAX_REPLAYED_TURNS = 10;

/** Returns the `seq` after which a replay from the beginning starts. `last` is that of the newest event. */
export const findReplayStart = (last: number): number =>
  Math.max(0, toEventSeq(Math.floor(last / toEventSeq(1, 0)) - MAX_REPLAYED_TURNS + 1, 0) - 1);

interface ThreadEventCursorOptions {
  readonly environment: Environment;
  readonly guards: StreamGuards;
  readonly scope: Scope;
  readonly thread_id: string;
  readonly filter: EventFilter;
  readonly log: ThreadEventLog;
  readonly serializer: EventSerializer;
}

/** Reads events from the storage that are older than the reader, or that the log of the thread has dropped. */
export class ThreadEventCursor extends LogCursor<SerializedEvent, StoredThreadEvent> {
  readonly #options: ThreadEventCursorOptions;
  readonly #isIncluded: EventPredicate;
  readonly #methods: ReadonlySet<EventMethod>;
  /** The last event of the log when this reader opened. The log may contain events of runs that were rolled back since. */
  #openedAt = 0;
  protected override isAttached = false;
  /** The guard of the visibility, because the log is shared with readers who see more. */
  #guard: StreamGuard | undefined;
  #isExcluded = false;
  /** The number of changes of the thread at the last look-up. */
  #checkedChanges = -1;
  /** The number of deletions of the thread before this reader found it. */
  #deletions = 0;

  /** Counts itself as a reader of the log. Reads nothing before its first batch is requested, and then looks for the thread. */
  constructor(options: ThreadEventCursorOptions) {
    const { filter, log } = options;
    super(log, filter.since ?? 0);
    this.#options = options;
    this.#isIncluded = compileFilter(filter);
    this.#methods = listMethods(filter);
  }

  /** Returns true if the thread that the reader has found is excluded now or was deleted. */
  protected override isRevoked(): boolean {
    return this.#isExcluded || (this.isAttached && this.#deletions !== this.#options.log.deletions);
  }

  /**
   * Leaves the log. Returns the end of the runs of a busy thread that was deleted or is excluded, because clients wait for it and
   * the rows no longer exist; else an empty list.
   */
  protected override end(): readonly SerializedEvent[] {
    const { log, environment } = this.#options;
    const isRevoked = this.isRevoked();
    super.end();
    if (!isRevoked || !log.isBusy) return [];
    // Its id names no run, because it is the end of all of them, and differs from that of every other event.
    const header = { seq: this.position + 1, run_id: "", method: "lifecycle", namespace: [] } as const;
    const event = { ...header, timestamp: environment.now(), data: null };
    const end = serializeEvent(event, '{"event":"interrupted"}', `gone:${environment.uuid()}`);
    return [{ ...end, last: true }];
  }

  /**
   * Looks for the thread, which may not exist yet, and has its runs record all events. Once it is visible sets the position of
   * the replay, opens a guard and returns true. Returns false without a read if nothing has changed since the last look.
   */
  protected override async attach(): Promise<boolean> {
    const { scope, thread_id, log, guards } = this.#options;
    await log.ready;
    const { deletions, changes } = log;
    // Events of others are no reason to look again.
    if (changes === this.#checkedChanges) return false;
    this.#checkedChanges = changes;
    if (!(await log.findThread(scope))) return false;
    this.#openedAt = log.last;
    this.position ||= findReplayStart(log.last);
    this.isAttached = true;
    this.#deletions = deletions;
    if (this.hasLeft) return true;
    this.#guard = guards.open({ scope }, { thread_id }, () => {
      this.#isExcluded = true;
      log.change.wake(this);
    });
    return true;
  }

  protected override get floor(): number {
    return Math.max(this.#openedAt, this.#options.log.startsAfter);
  }

  /** Reads the next page of stored events of the requested methods; empty without methods. */
  protected async load(): Promise<Page<StoredThreadEvent>> {
    const { scope, thread_id, log, serializer } = this.#options;
    const methods = this.#methods;
    if (methods.size === 0) return { items: [], read_to: null };
    return await serializer.readPage(log.pages, scope, thread_id, { after: this.position, methods });
  }

  /** Returns the event as its subscriber gets it; null if the filter excludes it. A promise where values must be loaded. */
  protected toEmitted(
    event: SerializedEvent | StoredThreadEvent,
  ): SerializedEvent | null | Promise<SerializedEvent | null> {
    const { thread_id, serializer } = this.#options;
    if (!("event" in event)) return serializer.serialize(thread_id, event, this.#isIncluded);
    return this.#isIncluded(event.event, event.namespace, event.name) ? event : null;
  }

  protected override checkBeforeEmit(): Promise<unknown> | undefined {
    return this.#guard?.mayContinue();
  }

  /** Leaves the log and ends the guard of the thread. */
  protected override leaveLog(): void {
    super.leaveLog();
    this.#guard?.close();
  }
}

/** Holds the newest events of a thread in memory, for all its readers in this process. */
import { coalesceCalls, type KeepAlive, type TickBudget, waitForNextTick } from "../environment.ts";
import type { EventBus } from "../storage/event-bus.ts";
import type { Scope, StoredThreadEvent, ThreadRow } from "../storage/mod.ts";
import type { SerializedEvent } from "./event-filter.ts";
import type { EventSerializer, EventSerializerOptions } from "./event-serializer.ts";
import { RingLog } from "./log.ts";
import { Poller } from "./poller.ts";

export interface ThreadEventLogOptions extends EventSerializerOptions {
  readonly scope: Scope;
  readonly bus: EventBus;
}

/** The maximum size of the events in memory, in characters. */
const MAX_RING_CHARS = 1024 * 1024;

/**
 * The log of a thread's events. An attempt of this process appends what it has stored; events of other processes are read from
 * the storage.
 */
export class ThreadEventLog extends RingLog<SerializedEvent, StoredThreadEvent> {
  /** True if a reader has found the thread. If a later read does not find it, it was deleted. */
  hasSeenThread = false;
  /** True if it had pending or running runs at the last read. */
  isBusy = false;
  /** The number of deletions of the thread. A deletion ends readers who saw the thread. Others must not learn that it existed. */
  deletions = 0;
  /** The number of changes of the thread. Readers that do not see it then read it again. */
  changes = 0;
  /** Resolves when `startsAfter` and `last` are known. */
  readonly ready: Promise<void>;
  readonly #thread_id: string;
  readonly #options: ThreadEventLogOptions;
  readonly #serializer: EventSerializer;
  /** Published events that are not in `items` until the storage was read. */
  readonly #early = new Map<number, SerializedEvent>();
  readonly #poller: Poller;
  readonly #onClosed: () => void;
  #mustCheckThread = false;
  readonly #findShared = coalesceCalls();

  /**
   * Subscribes to the thread and starts to read: `ready` says when the first read is done. `onClose` is called when the last reader
   * has left or the service stops.
   */
  // biome-ignore lint/complexity/useMaxParams: the log of a thread is made at one place
  constructor(
    thread_id: string,
    options: ThreadEventLogOptions,
    limit: TickBudget,
    serializer: EventSerializer,
    onClose: () => void,
  ) {
    super(limit);
    this.#thread_id = thread_id;
    this.#options = options;
    this.#serializer = serializer;
    this.#poller = new Poller({
      environment: options.environment,
      hasSignals: options.storage.signals !== undefined,
      read: (isTimed) => this.#read(isTimed),
      getPosition: () => this.last,
      isNeeded: () => !this.isClosed,
    });
    const unsubscribe = options.bus.subscribe("thread", thread_id, () => this.read(true));
    this.#onClosed = () => {
      unsubscribe();
      onClose();
    };
    this.ready = this.#begin();
    this.ready.catch(() => {});
  }

  getPosition({ seq }: { readonly seq: number }): number {
    return seq;
  }

  protected get maxChars(): number {
    return MAX_RING_CHARS;
  }

  override get keepAlive(): KeepAlive | undefined {
    return this.#options.environment.keepAlive;
  }

  /** Starts the log after the newest stored event, unless events came first, and starts polling. Rejects if the read fails. */
  async #begin(): Promise<void> {
    const { storage, scope } = this.#options;
    const newest = await storage.getLastEventSeq(scope, this.#thread_id);
    if (this.last === 0) this.clear(newest);
    if (!this.isClosed) this.#poller.start();
  }

  /**
   * Returns the thread if it is visible and not of a stateless run, and makes its runs record all events from now on. Returns
   * null otherwise. Equal concurrent calls share a read.
   */
  findThread(scope: Scope): Promise<ThreadRow | null> {
    return this.#findShared(JSON.stringify(scope), 0, async () => {
      const { storage } = this.#options;
      const thread = await storage.getThread(scope, this.#thread_id);
      if (!thread || thread.stateless) return null;
      if (!thread.records_all) await storage.recordAllEvents(scope, this.#thread_id);
      this.hasSeenThread = true;
      this.isBusy = thread.status === "busy";
      return thread;
    });
  }

  /**
   * Adds events that an attempt of this process has stored, and wakes readers. `before` is the `seq` before the first one: if the
   * log lacks earlier events, keeps these until a read that starts now has added those.
   */
  publish(before: number, events: readonly SerializedEvent[]): void {
    if (this.last < before || this.last === 0) {
      // The storage has others before them, but perhaps not their large values.
      for (const event of events) this.#early.set(event.seq, event);
      this.read();
      return;
    }
    for (const event of events) this.#add(event);
    this.change.notify();
  }

  /**
   * Starts to read what other processes have stored, unless the log is closed. `hasChanged` means that the thread was created,
   * changed or deleted.
   */
  read(hasChanged = false): void {
    if (this.isClosed) return;
    this.#noteChange(hasChanged);
    void this.#poller.read();
  }

  /** Notes that the thread must be checked, if it has changed. Does nothing otherwise. */
  #noteChange(hasChanged: boolean): void {
    this.#mustCheckThread ||= hasChanged;
    if (hasChanged) this.changes++;
  }

  /**
   * Adds the stored events after the last one and wakes readers, in batches with ticks between. Checks after a change whether the
   * thread was deleted, and then forgets everything. A failure is logged.
   */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the loop of one reader: what it waits for depends on what it has read
  async #read(isTimed: boolean): Promise<void> {
    const { storage, scope, environment } = this.#options;
    this.#noteChange(isTimed);
    try {
      await this.ready;
      const check = this.#mustCheckThread && this.hasSeenThread;
      this.#mustCheckThread = false;
      const thread = check ? await storage.getThread(scope, this.#thread_id) : undefined;
      if (thread) this.isBusy = thread.status === "busy";
      if (thread === null) this.#forget();
      let after: number | null = this.last;
      while (after !== null) {
        const page = await storage.readEvents(scope, this.#thread_id, { after });
        for (const event of page.events) {
          if (event.seq <= this.last) continue;
          const logged = this.#early.get(event.seq) ?? (await this.#serializer.serialize(this.#thread_id, event));
          if (logged) this.#add(logged);
        }
        after = page.has_more ? page.read_to : null;
        if (after !== null) await waitForNextTick(environment);
      }
    } catch (error) {
      const message = "reading the events of a thread failed";
      environment.log({ level: "warn", message, thread_id: this.#thread_id, error });
    }
    for (const seq of this.#early.keys()) if (seq <= this.last) this.#early.delete(seq);
    this.change.notify();
  }

  #add(event: SerializedEvent): void {
    if (event.seq > this.last) this.append(event);
  }

  /** Drops everything of a deleted thread, because a new thread may get its id. */
  #forget(): void {
    this.deletions++;
    this.hasSeenThread = false;
    this.#early.clear();
    this.clear(0);
  }

  /** Closes the log when the last reader has left. */
  override onReaderLeft(): void {
    super.onReaderLeft();
    if (this.readers === 0) this.close();
  }

  /** Ends the log: readers wake and end, polling stops, and the log is removed from the open ones. Works once. */
  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.#onClosed();
    this.#poller.stop();
    this.change.notify();
  }
}

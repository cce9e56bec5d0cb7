/**
 * The newest events of a thread in memory, shared by all its readers in this process. The attempt that executes here appends what it
 * has stored; events of other processes are read from the store.
 */
import { type Environment, nextTurn } from "../environment.ts";
import type { Scope, Storage, StoredThreadEvent } from "../storage/mod.ts";
import type { SentEvent } from "./protocol.ts";
import { Change } from "./reader.ts";

export interface ThreadLogOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  /** The event as it is sent; null if its values can no longer be read. */
  toSent(thread_id: string, event: StoredThreadEvent): Promise<SentEvent | null>;
}

/** The size of a log in memory, in characters. */
const RING_SIZE = 1024 * 1024;
const EVENT_OVERHEAD = 128;
/** The interval between two reads while nothing arrives. */
const FIRST_POLL_MS = 250;
const LONGEST_POLL_MS = 1_000;

export class ThreadLog {
  /** All events above this `seq` are in `events`. */
  from = 0;
  /** The highest `seq` so far. */
  last = 0;
  /** Rising by `seq`. */
  events: SentEvent[] = [];
  readers = 0;
  /** A reader has seen the thread: once it is gone, it was deleted. */
  exists = false;
  /** The thread was deleted, or the service stops: readers end. */
  closed = false;
  /** Resolves when `from` and `last` are known. */
  readonly ready: Promise<void>;
  /** Readers may find something new, or have to end. */
  readonly change: Change = new Change();
  readonly #thread_id: string;
  readonly #options: ThreadLogOptions;
  #size = 0;
  /** Published, and not in `events` before the store was read. */
  readonly #early = new Map<number, SentEvent>();
  #reading: Promise<void> | undefined;
  #readAgain = false;
  #checkThread = false;
  #cancelPoll = (): void => {};

  constructor(thread_id: string, options: ThreadLogOptions) {
    this.#thread_id = thread_id;
    this.#options = options;
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
    this.#readAgain = true;
    this.#reading ??= this.#readAll().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readAll(): Promise<void> {
    const { storage, scope, environment, toSent } = this.#options;
    try {
      await this.ready;
      while (this.#readAgain && !this.closed) {
        this.#readAgain = false;
        const check = this.#checkThread && this.exists;
        this.#checkThread = false;
        if (check && !(await storage.getThread(scope, this.#thread_id))) this.close();
        let after: number | null = this.last;
        while (after !== null) {
          const page = await storage.readEvents(scope, this.#thread_id, { after });
          for (const event of page.events) {
            if (event.seq <= this.last) continue;
            const logged = this.#early.get(event.seq) ?? (await toSent(this.#thread_id, event));
            if (logged) this.#append(logged);
          }
          after = page.more ? page.read_to : null;
          if (after !== null) await nextTurn(environment);
        }
      }
    } catch (error) {
      const message = "reading the events of a thread failed";
      environment.log({ level: "warn", message, thread_id: this.#thread_id, error });
    }
    this.#early.clear();
    this.change.notify();
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

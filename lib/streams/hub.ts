/**
 * Delivers the frames of runs to subscribers in this process. Each run has one bounded ring and each subscriber only a cursor, so
 * a slow subscriber never blocks the run.
 */
import type { Environment, KeepAlive, TickBudget } from "../environment.ts";
import { type Json, stringifyShared } from "../json.ts";
import type { StoredFrame, TerminalStatus } from "../storage/mod.ts";
import type { Frame } from "./frames.ts";
import { Cursor, Log, type Page, type Reader, readLimit } from "./log.ts";

/** How a run ended. `result` is the answer of wait and join. `gone`: its row was deleted, or this process stops or lost its database. */
export interface Outcome {
  readonly status: TerminalStatus | "gone";
  readonly result: Json;
}

export interface StreamHubOptions {
  /** One page of a run's stored frames with ids above `after`; empty if there are none. */
  readonly load?: (run_id: string, after: number) => Promise<readonly StoredFrame[]>;
  /** The size limit of one ring, in characters; a quarter of it for runs with stored frames. Default 4 Mi. */
  readonly ring_size?: number;
  /** How long an ended run is kept for late subscribers. Default 60,000. */
  readonly keep_ms?: number;
  /** The approximate size limit of all ended runs together, in bytes. Default 2 Mi. */
  readonly keep_size?: number;
}

/** The size of an ended log without its frames and its result. */
const LOG_OVERHEAD = 1024;
/** How many pages a log keeps for subscribers behind the ring. They hold none, and slow ones are at many places. */
const PAGES = 4;

/** The logs of runs. */
export class StreamHub {
  readonly limit: TickBudget;
  readonly options: Required<StreamHubOptions>;
  closed = false;
  readonly keepAlive: KeepAlive | undefined;
  readonly #environment: Environment;
  readonly #logs = new Map<string, RunEvents>();
  // Ended logs, oldest first. Age and size are bounded, so that memory does not grow with the number of runs.
  readonly #kept: { readonly runEvents: RunEvents; readonly until: number; readonly size: number }[] = [];
  #keptSize = 0;
  #lost: Outcome | undefined;

  constructor(environment: Environment, options: StreamHubOptions = {}) {
    const { load = async () => [], ring_size = 4 * 1024 * 1024, keep_ms = 60_000 } = options;
    const { keep_size = 2 * 1024 * 1024 } = options;
    this.limit = readLimit(environment);
    this.options = { load, ring_size, keep_ms, keep_size };
    this.keepAlive = environment.keepAlive;
    this.#environment = environment;
  }

  /** The log of a run; creates it if needed. */
  runEvents(run_id: string): RunEvents {
    return this.find(run_id) ?? this.addLog(new RunEvents(run_id, this));
  }

  find(run_id: string): RunEvents | undefined {
    return this.#logs.get(run_id);
  }

  /** Adds this log, unless the run has one already. */
  addLog(runEvents: RunEvents): RunEvents {
    if (!this.#logs.has(runEvents.run_id)) this.#logs.set(runEvents.run_id, runEvents);
    if (this.#lost) runEvents.end(this.#lost);
    return runEvents;
  }

  /** Drops a log without subscribers that no attempt here writes. */
  forget(runEvents: RunEvents): void {
    if (this.find(runEvents.run_id) === runEvents) this.#logs.delete(runEvents.run_id);
  }

  /** An ended log is kept for late subscribers. */
  keep(runEvents: RunEvents, size: number): void {
    const now = this.#environment.now();
    const { keep_ms, keep_size } = this.options;
    this.#kept.push({ runEvents, until: now + keep_ms, size });
    this.#keptSize += size;
    const isOver = ({ until }: { readonly until: number }): boolean => until <= now || this.#keptSize > keep_size;
    for (let oldest = this.#kept[0]; oldest && isOver(oldest); oldest = this.#kept[0]) {
      this.#kept.shift();
      this.#keptSize -= oldest.size;
      oldest.runEvents.release();
    }
  }

  /** Ends every open log as `gone` at shutdown. */
  close(): void {
    this.closed = true;
    this.#endAll("ServerStopping", "The server is stopping; the run goes on later");
  }

  /** Ends every open log, and each new one until `recover`, as `gone`: what runs do cannot be stored any more. */
  lose(message: string): void {
    this.#lost = this.#endAll("DatabaseLost", message);
  }

  /** The database is back. Logs that were ended are read from it again. */
  recover(): void {
    this.#lost = undefined;
    this.#logs.clear();
  }

  #endAll(error: string, message: string): Outcome {
    const outcome: Outcome = { status: "gone", result: { __error__: { error, message } } };
    for (const runEvents of this.#logs.values()) runEvents.end(outcome);
    this.#logs.clear();
    return outcome;
  }
}

/** The event log of one run. A class, because hundreds of ended logs are kept and closures would take several times the memory. */
export class RunEvents extends Log<Frame, StoredFrame> {
  readonly run_id: string;
  /** An attempt in this process writes the log. */
  live = false;
  /** The log has or had a subscriber, or will get one. */
  watched = false;
  /** The run's frames are stored: subscribers behind the ring read them from the store. Set it before the first frame. */
  stored = false;
  /** The attempt that a gap frame names; 0 while it is unknown. */
  attempt = 0;
  /** The highest id that a subscriber says it has seen elsewhere. The end of a deleted run gets ids above it. */
  seen = 0;
  /** Why there are no frames yet, as JSON. */
  waiting_for: string | undefined;
  /** Undefined until the run has ended; then the log accepts no more frames. */
  outcome: Outcome | undefined;
  readonly #hub: StreamHub;
  #released = false;
  /** The newest first. */
  #recent: (readonly StoredFrame[])[] = [];
  #endWaiters: ((outcome: Outcome) => void)[] = [];

  constructor(run_id: string, hub: StreamHub) {
    super(hub.limit);
    this.run_id = run_id;
    this.#hub = hub;
  }

  placeOf({ id }: Frame): number {
    return id as number;
  }

  protected get room(): number {
    return this.#hub.options.ring_size / (this.stored ? 4 : 1);
  }

  override get keepAlive(): KeepAlive | undefined {
    return this.#hub.keepAlive;
  }

  /** The highest id so far; 0 before the first. */
  get lastId(): number {
    return this.last;
  }

  /** The log has a subscriber now, or a caller that waits for its end. */
  get followed(): boolean {
    return this.readers > 0 || this.#endWaiters.length > 0;
  }

  /** The next frame gets at least this id, without a gap before it. */
  startAt(id: number): void {
    this.last = Math.max(this.last, id - 1);
  }

  /** Frames up to this id exist, but not in this ring. No effect if the log is already past that id. */
  skipTo(id: number): void {
    if (id <= this.last || this.outcome) return;
    this.clear(id);
    this.change.notify();
  }

  publish(event: string, data: string): void {
    if (this.outcome) return;
    this.append({ id: this.last + 1, event, data });
    this.change.notify();
  }

  /** Shows subscribers a `metadata` frame without an id while there are no frames yet: it says why. */
  note(data: string): void {
    if (this.live || this.outcome || this.last > 0) return;
    this.waiting_for = data;
    this.change.notify();
  }

  end(outcome: Outcome): void {
    if (this.outcome) return;
    this.outcome = outcome;
    this.change.notify();
    for (const resolve of this.#endWaiters) resolve(outcome);
    this.#endWaiters = [];
    this.#hub.keep(this, this.size + stringifyShared(outcome.result).json.length + LOG_OVERHEAD);
  }

  /** It is kept for its readers alone: another log of the run would read and hold the same frames again. */
  release(): void {
    this.#released = true;
    if (this.readers === 0) this.#hub.forget(this);
  }

  override left(): void {
    super.left();
    this.#recent = [];
    if (this.#released) this.release();
  }

  /** The page with the stored frames after this id; empty if there are none. */
  async page(after: number): Promise<readonly StoredFrame[]> {
    const covers = (page: readonly StoredFrame[]): boolean =>
      (page[0] as StoredFrame).id <= after + 1 && (page.at(-1) as StoredFrame).id > after;
    const known = this.#recent.find(covers);
    if (known) return known;
    const { items } = await this.pages.read(`${after}`, async () => ({
      items: this.#recent.find(covers) ?? (await this.#hub.options.load(this.run_id, after)),
    }));
    if (items.length > 0 && !this.#recent.some(covers)) this.#recent = [items, ...this.#recent.slice(0, PAGES - 1)];
    return items;
  }

  /** Resolves when the run has ended. */
  ended(): Promise<Outcome> {
    return this.outcome
      ? Promise.resolve(this.outcome)
      : new Promise<Outcome>((resolve) => this.#endWaiters.push(resolve));
  }

  /**
   * Frames with an id above `after`, then live ones until the end. Frames behind the ring are loaded from the store; missing ones
   * are reported by one frame `metadata {run_id, attempt, missing_before}` without an id. `onLeave` is called once if the
   * subscriber leaves before the end.
   */
  read(after: number, onLeave?: () => void): Reader<Frame> {
    this.watched = true;
    if (this.#released && !this.#hub.closed) this.#hub.addLog(this);
    return new FrameCursor(this, after, onLeave).reader();
  }
}

class FrameCursor extends Cursor<Frame, StoredFrame> {
  readonly #log: RunEvents;
  readonly #onLeave: (() => void) | undefined;
  /** Frames up to this id are neither in the ring nor in the store. */
  #missing = 0;
  #noted = false;
  protected override keepsPage = false;

  constructor(log: RunEvents, after: number, onLeave?: () => void) {
    super(log, Math.max(0, after));
    this.#log = log;
    this.#onLeave = onLeave;
  }

  protected override notice(): Frame | undefined {
    const { waiting_for, last, stored, from, run_id, attempt } = this.#log;
    if (waiting_for !== undefined && last === 0 && !this.#noted) {
      this.#noted = true;
      return metadata(waiting_for);
    }
    if (!stored) this.#missing = from;
    if (this.place >= this.#missing) return undefined;
    this.place = this.#missing;
    const about = attempt > 0 ? { run_id, attempt } : { run_id };
    return metadata(JSON.stringify({ ...about, missing_before: this.place + 1 }));
  }

  protected async load(): Promise<Page<StoredFrame>> {
    const items = await this.#log.page(this.place);
    const first = items[0]?.id ?? Number.POSITIVE_INFINITY;
    if (first > this.place + 1) this.#missing = Math.min(first, this.#log.from + 1) - 1;
    return { items, read_to: items.at(-1)?.id ?? null };
  }

  protected show(frame: Frame): Frame {
    return frame;
  }

  protected override isAtEnd(): boolean {
    return this.#log.outcome !== undefined && this.place >= this.#log.from;
  }

  override leave(): void {
    if (this.left) return;
    super.leave();
    if (!this.#log.outcome) this.#onLeave?.();
  }
}

const metadata = (data: string): Frame => ({ id: null, event: "metadata", data });

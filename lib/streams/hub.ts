/**
 * Delivers the frames of runs to subscribers in this process. Each run has one bounded ring and each subscriber only a cursor, so
 * a slow subscriber never blocks the run.
 */
import type { Environment, KeepAlive, TickBudget } from "../environment.ts";
import { type Json, stringifyShared } from "../json.ts";
import type { StoredFrame, TerminalStatus } from "../storage/mod.ts";
import type { Frame } from "./frames.ts";
import { createReadLimit, LogCursor, type Page, type Reader, RingLog } from "./log.ts";

/**
 * The end of a run. `result` is the response of wait and join. `gone` means that its row was deleted, or that this process stops
 * or lost its database.
 */
export interface RunCompletion {
  readonly status: TerminalStatus | "gone";
  readonly result: Json;
}

export interface StreamHubOptions {
  /** Loads one page of a run's stored frames with ids above `after`; empty if there are none. */
  readonly load?: (run_id: string, after: number) => Promise<readonly StoredFrame[]>;
  /** The maximum size of one ring, in characters; a quarter of it for runs with stored frames. Default 4 Mi. */
  readonly ring_size?: number;
  /** The time for which an ended run is retained for late subscribers, in milliseconds. Default 60,000. */
  readonly keep_ms?: number;
  /** The approximate maximum size of all ended runs together, in bytes. Default 2 Mi. */
  readonly keep_size?: number;
}

/** The size of an ended log without its frames and its result. */
const LOG_OVERHEAD_CHARS = 1024;
/**
 * The number of pages that a log caches for subscribers behind the ring. Subscribers hold none, and slow ones are at many
 * positions.
 */
const MAX_CACHED_PAGES = 4;

/** The logs of runs. */
export class StreamHub {
  readonly limit: TickBudget;
  readonly options: Required<StreamHubOptions>;
  isClosed = false;
  readonly keepAlive: KeepAlive | undefined;
  readonly #environment: Environment;
  readonly #logs = new Map<string, RunLog>();
  // Ended logs, oldest first. Age and size are bounded, so that memory does not grow with the number of runs.
  readonly #retained: { readonly runLog: RunLog; readonly until: number; readonly size: number }[] = [];
  #retainedSize = 0;
  #lostCompletion: RunCompletion | undefined;

  constructor(environment: Environment, options: StreamHubOptions = {}) {
    const { load = async () => [], ring_size = 4 * 1024 * 1024, keep_ms = 60_000 } = options;
    const { keep_size = 2 * 1024 * 1024 } = options;
    this.limit = createReadLimit(environment);
    this.options = { load, ring_size, keep_ms, keep_size };
    this.keepAlive = environment.keepAlive;
    this.#environment = environment;
  }

  /** Returns the log of a run. Creates and adds it if needed; while the database is lost, the new one has ended. */
  getLog(run_id: string): RunLog {
    return this.find(run_id) ?? this.addLog(new RunLog(run_id, this));
  }

  find(run_id: string): RunLog | undefined {
    return this.#logs.get(run_id);
  }

  /**
   * Adds this log, unless the run has one already. Returns `runLog` in any case. While the database is lost, ends it as `gone`.
   */
  addLog(runLog: RunLog): RunLog {
    if (!this.#logs.has(runLog.run_id)) this.#logs.set(runLog.run_id, runLog);
    if (this.#lostCompletion) runLog.end(this.#lostCompletion);
    return runLog;
  }

  /**
   * Removes a log, unless the hub has another one of its run. Does not check whether it has subscribers or is written: they keep
   * the log, and later ones get a new one.
   */
  forget(runLog: RunLog): void {
    if (this.find(runLog.run_id) === runLog) this.#logs.delete(runLog.run_id);
  }

  /** Retains an ended log for late subscribers, and releases the oldest ones above the limits of age and size. */
  retain(runLog: RunLog, size: number): void {
    const now = this.#environment.now();
    const { keep_ms, keep_size } = this.options;
    this.#retained.push({ runLog, until: now + keep_ms, size });
    this.#retainedSize += size;
    const isOver = ({ until }: { readonly until: number }): boolean => until <= now || this.#retainedSize > keep_size;
    for (let oldest = this.#retained[0]; oldest && isOver(oldest); oldest = this.#retained[0]) {
      this.#retained.shift();
      this.#retainedSize -= oldest.size;
      oldest.runLog.release();
    }
  }

  /** Closes the hub at shutdown: ends every log as `gone` and forgets it. */
  close(): void {
    this.isClosed = true;
    this.#endAll("ServerStopping", "The server is stopping; the run goes on later");
  }

  /** Ends every open log, and each new one until `recover`, as `gone`, because nothing that runs do can be stored. */
  lose(message: string): void {
    this.#lostCompletion = this.#endAll("DatabaseLost", message);
  }

  /** Drops all logs once the database is available again, and ends new ones no longer. They are read from the database again. */
  recover(): void {
    this.#lostCompletion = undefined;
    this.#logs.clear();
  }

  /** Ends all logs as `gone` with an error, forgets them, and returns that completion. */
  #endAll(error: string, message: string): RunCompletion {
    const completion: RunCompletion = { status: "gone", result: { __error__: { error, message } } };
    for (const runLog of this.#logs.values()) runLog.end(completion);
    this.#logs.clear();
    return completion;
  }
}

/**
 * The log of one run's frames. A class, because hundreds of ended logs are retained and closures would take several times the
 * memory.
 */
export class RunLog extends RingLog<Frame, StoredFrame> {
  readonly run_id: string;
  /** True if an attempt in this process writes the log. */
  isLive = false;
  /** True if the log has or had a subscriber, or will get one. */
  isWatched = false;
  /**
   * True if the run's frames are stored, so that subscribers behind the ring read them from the storage. Set it before the first
   * frame.
   */
  hasStoredFrames = false;
  /** The attempt that a gap frame names; 0 while it is unknown. */
  attempt = 0;
  /** The highest id that a subscriber has received elsewhere. The end of a deleted run gets ids above it. */
  lastSeenId = 0;
  /** The reason why there are no frames yet, as JSON. */
  waiting_for: string | undefined;
  /** The end of the run; undefined before it. After it the log accepts no frames. */
  completion: RunCompletion | undefined;
  readonly #hub: StreamHub;
  #isReleased = false;
  /** Cached pages, newest first. */
  #recent: (readonly StoredFrame[])[] = [];
  #endWaiters: ((completion: RunCompletion) => void)[] = [];

  constructor(run_id: string, hub: StreamHub) {
    super(hub.limit);
    this.run_id = run_id;
    this.#hub = hub;
  }

  getPosition({ id }: Frame): number {
    return id as number;
  }

  protected get maxChars(): number {
    return this.#hub.options.ring_size / (this.hasStoredFrames ? 4 : 1);
  }

  override get keepAlive(): KeepAlive | undefined {
    return this.#hub.keepAlive;
  }

  /** The highest id so far; 0 before the first frame. */
  get lastId(): number {
    return this.last;
  }

  /** True if the log has a subscriber now, or a caller that waits for its end. */
  get hasSubscribers(): boolean {
    return this.readers > 0 || this.#endWaiters.length > 0;
  }

  /** Gives the next frame at least this id, without a gap before it. */
  startAt(id: number): void {
    this.last = Math.max(this.last, id - 1);
  }

  /**
   * Drops the frames of the ring and continues after this id, because the frames up to it exist elsewhere. Wakes the readers. Has
   * no effect if the log is already past that id or has ended.
   */
  skipTo(id: number): void {
    if (id <= this.last || this.completion) return;
    this.clear(id);
    this.change.notify();
  }

  /** Appends a frame with the next id and wakes the readers. Does nothing once the log is complete. */
  publish(event: string, data: string): void {
    if (this.completion) return;
    this.append({ id: this.last + 1, event, data });
    this.change.notify();
  }

  /**
   * Emits a `metadata` frame without an id, whose data is `data`, to subscribers while there are no frames yet. Does nothing
   * after the first frame, after the end, and while an attempt here writes the log.
   */
  noteWaiting(data: string): void {
    if (this.isLive || this.completion || this.last > 0) return;
    this.waiting_for = data;
    this.change.notify();
  }

  /**
   * Ends the log: resolves waiters, wakes readers, and has the hub retain the log for a while. Has no effect on a log that has
   * ended.
   */
  end(completion: RunCompletion): void {
    if (this.completion) return;
    this.completion = completion;
    this.change.notify();
    for (const resolve of this.#endWaiters) resolve(completion);
    this.#endWaiters = [];
    this.#hub.retain(this, this.size + stringifyShared(completion.result).json.length + LOG_OVERHEAD_CHARS);
  }

  /**
   * Has the hub drop the log, now or when its last reader leaves: beside readers, another log of the run would read and hold its
   * frames again.
   */
  release(): void {
    this.#isReleased = true;
    if (this.readers === 0) this.#hub.forget(this);
  }

  /** Counts the reader out and drops the cached pages. Drops the log from the hub after its last reader, if it was released. */
  override onReaderLeft(): void {
    super.onReaderLeft();
    this.#recent = [];
    if (this.#isReleased) this.release();
  }

  /**
   * Returns the page of stored frames after this id; empty if there are none. The newest pages stay cached, and readers share a
   * read.
   */
  async readPage(after: number): Promise<readonly StoredFrame[]> {
    const covers = (page: readonly StoredFrame[]): boolean =>
      (page[0] as StoredFrame).id <= after + 1 && (page.at(-1) as StoredFrame).id > after;
    const cached = this.#recent.find(covers);
    if (cached) return cached;
    const { items } = await this.pages.read(`${after}`, async () => ({
      items: this.#recent.find(covers) ?? (await this.#hub.options.load(this.run_id, after)),
    }));
    if (items.length > 0 && !this.#recent.some(covers))
      this.#recent = [items, ...this.#recent.slice(0, MAX_CACHED_PAGES - 1)];
    return items;
  }

  /** Resolves when the run has ended, at once if it has already. Never rejects. */
  waitForEnd(): Promise<RunCompletion> {
    return this.completion
      ? Promise.resolve(this.completion)
      : new Promise<RunCompletion>((resolve) => this.#endWaiters.push(resolve));
  }

  /**
   * Reads the frames with an id above `after`, then live ones until the end. Frames behind the ring are loaded from the storage;
   * missing ones are reported by one frame `metadata {run_id, attempt, missing_before}` without an id. Marks the log as watched,
   * and adds it to the hub again if it was released. `onLeave` is called once if the subscriber leaves before the end.
   */
  read(after: number, onLeave?: () => void): Reader<Frame> {
    this.isWatched = true;
    if (this.#isReleased && !this.#hub.isClosed) this.#hub.addLog(this);
    return new FrameCursor(this, after, onLeave).toReader();
  }
}

class FrameCursor extends LogCursor<Frame, StoredFrame> {
  readonly #log: RunLog;
  readonly #onLeave: (() => void) | undefined;
  /** Frames up to this id are neither in the ring nor in the storage. */
  #missing = 0;
  #hasNoted = false;
  protected override keepsPage = false;

  /** `onLeave` is called if the subscriber leaves before the end of the run. A negative `after` counts as 0. */
  constructor(log: RunLog, after: number, onLeave?: () => void) {
    super(log, Math.max(0, after));
    this.#log = log;
    this.#onLeave = onLeave;
  }

  /**
   * Returns a `metadata` frame that is due, once: the run that this one waits for, or the frames that are missing before the
   * next. Moves the position behind the missing ones. Returns undefined if none is due.
   */
  protected override consumeNotice(): Frame | undefined {
    const { waiting_for, last, hasStoredFrames, startsAfter, run_id, attempt } = this.#log;
    if (waiting_for !== undefined && last === 0 && !this.#hasNoted) {
      this.#hasNoted = true;
      return createMetadataFrame(waiting_for);
    }
    if (!hasStoredFrames) this.#missing = startsAfter;
    if (this.position >= this.#missing) return undefined;
    this.position = this.#missing;
    const ids = attempt > 0 ? { run_id, attempt } : { run_id };
    return createMetadataFrame(JSON.stringify({ ...ids, missing_before: this.position + 1 }));
  }

  /** Reads the next page of stored frames. Frames that are missing before it are reported to the subscriber later. */
  protected async load(): Promise<Page<StoredFrame>> {
    const items = await this.#log.readPage(this.position);
    const first = items[0]?.id ?? Number.POSITIVE_INFINITY;
    if (first > this.position + 1) this.#missing = Math.min(first, this.#log.startsAfter + 1) - 1;
    return { items, read_to: items.at(-1)?.id ?? null };
  }

  protected toEmitted(frame: Frame): Frame {
    return frame;
  }

  protected override isAtEnd(): boolean {
    return this.#log.completion !== undefined && this.position >= this.#log.startsAfter;
  }

  /** Stops reading, once. Calls `onLeave` if the run was still active. */
  override leave(): void {
    if (this.hasLeft) return;
    super.leave();
    if (!this.#log.completion) this.#onLeave?.();
  }
}

const createMetadataFrame = (data: string): Frame => ({ id: null, event: "metadata", data });

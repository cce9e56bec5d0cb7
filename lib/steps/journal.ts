/** The journal of the durable call of an attempt: reads it once, and adds to it with the saves of the attempt. */
import { type Environment, uuidV5 } from "../environment.ts";
import { LeaseLost, ServiceError } from "../errors.ts";
import type {
  ActiveJournal,
  CallInput,
  ExternalEvent,
  JournalEntry,
  JournalLimits,
  OutputPosition,
  WaitingFor,
} from "../executor/journal.ts";
import type { JournalAttempt } from "../features/mod.ts";
import type { Json, JsonObject } from "../json.ts";
import type { EventBus } from "../storage/event-bus.ts";
import type { DurableCallProgress, DurableCallRow, Scope, Storage, StoredJournalEntry } from "../storage/mod.ts";
import { JOURNAL_PAGE_ROWS } from "../storage/steps.ts";
import { buildEventUrl, hashToken, randomToken } from "./tokens.ts";

/** The changes of the journal that no save has taken. */
export interface UnsavedJournal {
  start?: DurableCallProgress["start"];
  entries: StoredJournalEntry[];
  tokens: NonNullable<DurableCallProgress["tokens"]>[number][];
  release?: DurableCallProgress["release"];
  /** The progress of the function at the newest output. */
  position?: OutputPosition;
}

export interface JournalContext {
  readonly storage: Storage;
  readonly bus: EventBus;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly limits: JournalLimits & { readonly suspended: number };
  base_url(): string | undefined;
}

export interface OpenJournalOptions extends JournalContext {
  readonly attempt: JournalAttempt;
  readonly call: { readonly call_id: string; readonly at?: number } | null;
  readonly assignedCallId: string | null;
  readonly origin: () => CallInput;
  unsaved(): UnsavedJournal;
  /** Called when the attempt ends and its run waits. */
  suspend(due_at: number | null, waiting_for: Json, lastEventSeq: number): void;
  pause(due_at: number | null, lastEventSeq: number): void;
  /** Registers a function that stops listening for events. */
  onClose(close: () => void): void;
}

/** The interval between reads of events, for databases where signals can be lost. */
const POLL_MS = 2_000;

/**
 * Opens the journal of a call, or starts one. An ended, truncated or copied call continues as a new one with its entries, which
 * are stored again. Returns null if the call no longer exists, is of another graph, or another run has continued it. Stores
 * nothing itself.
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the cases of a journal that is opened again, in their order
export async function openJournal(options: OpenJournalOptions): Promise<ActiveJournal | null> {
  const { storage, scope, environment, attempt, call, assignedCallId, unsaved } = options;
  const { claimed, retry } = attempt;
  const { thread_id, graph_id, run_id, claims } = claimed.run;
  const texts = call
    ? await readEntryTexts((idx) => retry(() => storage.readJournalEntries(scope, thread_id, call.call_id, idx)))
    : [];
  // Read last: a call that is deleted between the reads would start again.
  const row = call && (await retry(() => storage.getCall(scope, thread_id, call.call_id)));
  if (call && (!row || row.graph_id !== graph_id)) return null;
  const allEntries = texts.map((text) => JSON.parse(text) as JournalEntry);
  const isWaiting = row !== null && isThreadWaiting(claimed.thread.interrupts, row);
  // The call has continued since the service created this run for it.
  if (row && assignedCallId !== null && claims === 1 && !(isWaiting && row.ended_at === null)) return null;
  // From an older state, after its end, or on a copy, a new call starts with the same entries.
  const isTruncated = call?.at !== undefined && call.at < allEntries.length;
  const isFork = row !== null && assignedCallId === null && (row.ended_at !== null || isTruncated || !isWaiting);
  const entries = isFork ? carryOverEntries(allEntries.slice(0, call?.at)) : allEntries;
  const call_id = row && !isFork ? row.call_id : environment.uuid();
  const origin = row ? (JSON.parse(row.origin) as CallInput) : options.origin();
  const originMember = !row || isFork ? { origin: row?.origin ?? JSON.stringify(origin) } : {};
  unsaved().start = { graph_id, ...originMember };
  const position = row?.position ? (JSON.parse(row.position) as OutputPosition & { readonly at: number }) : null;
  const emittedPosition = position && !isFork && position.at === entries.length ? position : null;
  // A fork stores its entries again.
  const size = isFork ? 0 : texts.reduce((sum, { length }) => sum + length, 0);
  const journal = new StoredJournal(options, { call_id, origin, entries, emittedPosition, size });
  if (isFork)
    for (const [idx, entry] of entries.entries()) journal.bufferEntry(JSON.stringify({ ...entry, run_id }), idx);
  return journal;
}

/** Returns true if the thread is idle and shows what the call waits for. */
export const isThreadWaiting = (
  interrupts: JsonObject,
  { call_id, copied }: Pick<DurableCallRow, "call_id" | "copied">,
): boolean => !copied && Object.hasOwn(interrupts, call_id);

/** Returns the entries that a fork takes over. Omits failed steps, which are executed again. */
function carryOverEntries(entries: readonly JournalEntry[]): JournalEntry[] {
  const formatEntryKey = ({ kind, name, occurrence }: JournalEntry): string => JSON.stringify([kind, name, occurrence]);
  const failedKeys = new Set(entries.filter(({ phase }) => phase === "error").map(formatEntryKey));
  return entries.filter((entry) => !failedKeys.has(formatEntryKey(entry)));
}

/** Reads the texts of all entries of a journal, in order. */
export async function readEntryTexts(read: (idx: number) => Promise<readonly StoredJournalEntry[]>): Promise<string[]> {
  const texts: string[] = [];
  for (;;) {
    const page = await read(texts.length);
    for (const { entry } of page) texts.push(entry);
    if (page.length < JOURNAL_PAGE_ROWS) return texts;
  }
}

interface LoadedJournal {
  readonly entries: JournalEntry[];
  /** The total length of their texts, in characters. */
  readonly size: number;
}

class StoredJournal implements ActiveJournal {
  readonly call_id: string;
  readonly origin: CallInput;
  readonly entries: JournalEntry[];
  readonly limits: JournalLimits;
  readonly emittedPosition: OutputPosition | null;
  readonly isOutputStored: boolean;
  readonly run_id: string;
  readonly #options: OpenJournalOptions;
  #size: number;
  #events: ExternalEvent[] = [];
  #reading: Promise<void> | null = null;
  #mustReadAgain = false;
  #isWatching = false;
  #isFrozen = false;
  #notifiedSeq = 0;

  constructor(
    options: OpenJournalOptions,
    {
      call_id,
      origin,
      entries,
      emittedPosition,
      size,
    }: Pick<ActiveJournal, "call_id" | "origin" | "emittedPosition"> & LoadedJournal,
  ) {
    this.#options = options;
    this.call_id = call_id;
    this.origin = origin;
    this.entries = entries;
    this.emittedPosition = emittedPosition;
    this.isOutputStored = options.attempt.claimed.run.resumable;
    this.limits = options.limits;
    this.run_id = options.attempt.claimed.run.run_id;
    this.#size = size;
  }

  getEvents(): readonly ExternalEvent[] {
    return this.#events;
  }

  /**
   * Reads the events, and again at each signal and interval, because signals can be lost. Calls the listener after each read
   * until the journal is closed or `stopListening` is called. Resolves after the first read, and rejects if that fails; later
   * failures are ignored.
   */
  async listen(listener: () => void): Promise<void> {
    const { bus, environment, attempt, onClose } = this.#options;
    /** Notes the newest event and calls the listener. Does nothing after `stopListening`. */
    const notify = (): void => {
      if (this.#isFrozen) return;
      this.#notifiedSeq = this.#events.at(-1)?.seq ?? 0;
      listener();
    };
    const readAndNotify = (): void => void this.#read().then(notify, () => {});
    const unsubscribe = bus.subscribe("thread", attempt.claimed.run.thread_id, readAndNotify);
    let cancel = (): void => {};
    const poll = (): void => {
      cancel = environment.timer(POLL_MS, () => {
        readAndNotify();
        poll();
      });
    };
    poll();
    onClose(() => {
      unsubscribe();
      cancel();
    });
    await this.#read();
    this.#isWatching = true;
    notify();
  }

  stopListening(): void {
    this.#isFrozen = true;
  }

  /** Reads the events since the last read. A call during a read causes another one. */
  #read(): Promise<void> {
    this.#mustReadAgain = true;
    this.#reading ??= this.#readAll().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  /** Appends the new events to those read before, and reads again while another read was requested meanwhile. */
  async #readAll(): Promise<void> {
    const { storage, scope, attempt } = this.#options;
    const { thread_id } = attempt.claimed.run;
    while (this.#mustReadAgain) {
      this.#mustReadAgain = false;
      const after = this.#events.at(-1)?.seq ?? 0;
      this.#events.push(...(await attempt.retry(() => storage.readCallEvents(scope, thread_id, this.call_id, after))));
    }
  }

  /** Adds an entry for the next save and returns it with time and run. Throws `JournalFull` above a limit, except for pauses. */
  append(entry: Omit<JournalEntry, "at" | "run_id">): JournalEntry {
    const { environment, limits } = this.#options;
    const storedEntry = { ...entry, at: environment.now(), run_id: this.run_id };
    const text = JSON.stringify(storedEntry);
    if (entry.kind !== "pause") {
      const size = text.length;
      /** Throws `JournalFull` with the limit and the setting that changes it. */
      const throwLimit = (limitName: string, limit: number, setting: string): never => {
        throw Object.assign(new Error(`${entry.name}: ${limitName} of at most ${limit}; see ${setting}`), {
          name: "JournalFull",
        });
      };
      if (this.entries.length >= limits.entries)
        throwLimit("a call has a number of entries", limits.entries, "steps.entries");
      if (size > limits.result_bytes) throwLimit("a result has a size", limits.result_bytes, "steps.result_bytes");
      if (this.#size + size > limits.journal_bytes)
        throwLimit("a journal has a size", limits.journal_bytes, "steps.journal_bytes");
    }
    this.entries.push(storedEntry);
    this.bufferEntry(text, this.entries.length - 1);
    return storedEntry;
  }

  /** Adds an entry for the next save. Drops an unsaved position of output, because the entry has the newest one. */
  bufferEntry(entry: string, idx: number): void {
    const unsaved = this.#options.unsaved();
    this.#size += entry.length;
    unsaved.entries.push({ idx, entry });
    // The entry has the newest position of the function.
    delete unsaved.position;
  }

  /**
   * Saves all entries and output so far. Resolves when they are durable. Rejects with LeaseLost if the run has ended, was stopped
   * or has moved.
   */
  async commit(): Promise<void> {
    const { attempt } = this.#options;
    await attempt.save();
    if (attempt.isOutputEnded()) throw new LeaseLost(this.run_id);
  }

  /**
   * Renews a lease that ends soon, and resolves when it is held. Rejects with LeaseLost if the run has ended, was stopped or has
   * moved.
   */
  async ensureLease(): Promise<void> {
    const { attempt } = this.#options;
    await attempt.ensureLease();
    if (attempt.isOutputEnded()) throw new LeaseLost(this.run_id);
  }

  /**
   * Creates a token for an event and returns it with its URL; only its hash is stored, with the next save. Throws
   * `public_base_url_missing`.
   */
  async createEventAddress(
    name: string,
    occurrence: number,
  ): Promise<{ readonly url: string; readonly token: string }> {
    const { environment, unsaved, base_url } = this.#options;
    const base = base_url();
    if (base === undefined) throw new ServiceError("public_base_url_missing", "public_base_url is not set");
    const token = await randomToken(environment);
    const token_hash = await hashToken(token);
    // This must follow the await: a save meanwhile takes the unsaved changes, and would miss this token.
    unsaved().tokens.push({ token_hash, name, occurrence });
    return { url: buildEventUrl(base, token), token };
  }

  createId(...names: readonly (string | number)[]): Promise<string> {
    return uuidV5(this.call_id, JSON.stringify(names));
  }

  /** Returns the `seq` of the last event that the waits were notified of. Without waits all events count as handled. */
  async #getLastSeq(): Promise<number> {
    if (this.#isWatching) return this.#notifiedSeq;
    await this.#read();
    return this.#events.at(-1)?.seq ?? 0;
  }

  async pause(due_at: number | null): Promise<void> {
    this.#options.pause(due_at, await this.#getLastSeq());
  }

  /**
   * Pauses the call as an earlier attempt has left it, which is stored with the end of the run. The run may continue once too
   * often, because the events that attempt had read without using are not stored.
   */
  async restorePause(): Promise<void> {
    const lastEventSeq = Math.max(0, ...this.entries.map(({ event }) => event ?? 0));
    this.#options.pause(this.entries.at(-1)?.until ?? null, lastEventSeq);
  }

  /**
   * Notes that the attempt ends as suspended, until `due_at` or an event. Stores nothing. Rejects with `TooManySuspended` if the
   * deployment has too many such runs.
   */
  async suspend(due_at: number | null, waiting_for: readonly WaitingFor[]): Promise<void> {
    const { storage, scope, attempt, limits } = this.#options;
    const suspendedCount = await attempt.retry(() => storage.countSuspended(scope));
    if (suspendedCount >= limits.suspended) {
      const message = `${suspendedCount} runs wait already: limits.suspended is ${limits.suspended}`;
      throw Object.assign(new Error(message), { name: "TooManySuspended" });
    }
    this.#options.suspend(due_at, waiting_for as unknown as Json, await this.#getLastSeq());
  }
}

/** The journal of a durable call, as executors get it. lib/steps connects it to the storage. */
import type { Json, JsonObject } from "../json.ts";

/** The durable operations, whose uses are numbered by name. */
export type StepKind = "step" | "sleep" | "wait" | "ask";

/** The progress of a function's output: the number of values yielded, and the reply that was being written. */
export interface OutputPosition {
  readonly yielded: number;
  readonly reply: { readonly id: string; readonly text: string; readonly more?: JsonObject } | null;
}

/** An entry of a journal. Its index in the list is its number. It is stored as JSON, so its members keep their names. */
export interface JournalEntry {
  readonly kind: StepKind | "begin" | "pause";
  readonly name: string;
  /** The number of this use of the name, from 1. */
  readonly occurrence: number;
  /**
   * `begun`: a sleep, wait or ask waits until `until`. `failed`: an attempt has failed, and the next one is at `until`.
   * `dropped`: an event did not match. The others settle the operation.
   */
  readonly phase: "begun" | "failed" | "dropped" | "done" | "error" | "timeout";
  /** The number of the operation among all durable operations of the call, from 1. */
  readonly call: number;
  readonly value?: Json;
  readonly error?: { readonly name: string; readonly message: string };
  /** The number of the step's attempt. */
  readonly attempt?: number;
  readonly until?: number | null;
  /** The `seq` of the event. */
  readonly event?: number;
  readonly schema?: JsonObject;
  /** The number of calls of `spend` outside steps that were reported so far. Only in a pause. */
  readonly spent?: number;
  /** When the step began. `at` is when it was settled. */
  readonly began?: number;
  readonly at: number;
  readonly position: OutputPosition;
  readonly run_id: string;
}

/** An event from outside the call. `occurrence` is that of the wait whose token it came with; null for any wait of its name. */
export interface ExternalEvent {
  readonly seq: number;
  readonly name: string;
  readonly occurrence: number | null;
  readonly payload: Json;
}

/** An operation that a run waits for. */
export interface WaitingFor {
  readonly kind: StepKind;
  readonly name: string;
  /** When the wait ends, as ISO 8601; null if only an event or an answer ends it. */
  readonly until: string | null;
}

/** The input that a function gets in every attempt of a call. */
export interface CallInput {
  readonly input: Json;
  readonly values: JsonObject;
  readonly context: JsonObject;
  readonly config: JsonObject;
  readonly metadata: JsonObject;
}

/** The limits of a journal. */
export interface JournalLimits {
  readonly entries: number;
  readonly result_bytes: number;
  readonly journal_bytes: number;
  /** The maximum time that a wait keeps its worker slot, in milliseconds. */
  readonly linger_ms: number;
}

/** The journal of an active durable call. */
export interface ActiveJournal {
  readonly call_id: string;
  readonly origin: CallInput;
  readonly entries: readonly JournalEntry[];
  readonly limits: JournalLimits;
  /** The position of output that was stored since the newest entry; null if none was. */
  readonly emittedPosition: OutputPosition | null;
  /** True if the output of earlier attempts is stored. */
  readonly isOutputStored: boolean;
  /** The run that executes the call. Every entry has its id. */
  readonly run_id: string;
  /** Returns the events received since `listen` was called. */
  getEvents(): readonly ExternalEvent[];
  /** Reads the events, and calls `listener` after that and whenever others arrive. */
  listen(listener: () => void): Promise<void>;
  /** Stops receiving events. One that arrives from now on wakes the run. */
  stopListening(): void;
  /**
   * Adds an entry, which is stored with the next save, after all output that the executor has emitted. Throws if a limit is
   * exceeded.
   */
  append(entry: Omit<JournalEntry, "at" | "run_id">): JournalEntry;
  /** Resolves when everything is committed. Rejects when the attempt stops. */
  commit(): Promise<void>;
  /** Renews an expired lease. Rejects if another process may have claimed the run. */
  ensureLease(): Promise<void>;
  /** Creates an address for the event of a wait. It is committed with the next save. Throws if `public_base_url` is not set. */
  createEventAddress(name: string, occurrence: number): Promise<{ readonly url: string; readonly token: string }>;
  /** Returns a UUID version 5 of the call and these names. */
  createId(...names: readonly (string | number)[]): Promise<string>;
  /** Keeps the call active after this run. The service continues it at `due_at`. */
  pause(due_at: number | null): Promise<void>;
  /** Keeps the call active as an earlier attempt of the run has left it. */
  restorePause(): Promise<void>;
  /** Ends the attempt and suspends the run. Rejects if too many runs are suspended. */
  suspend(due_at: number | null, waiting_for: readonly WaitingFor[]): Promise<void>;
}

/** Opens the journal of a run. It loads no code and reads nothing until a call is opened. */
export interface Journal {
  /** The call that the run already belongs to, or null. */
  readonly call_id: string | null;
  readonly isOpen: boolean;
  /** Aborts the signal of the job with the reason `suspended`. The function is not awaited any more. */
  abortSuspended(): void;
  /**
   * Opens the call of the run, or the call that it continues. Returns null if that call was deleted or has ended. `at` opens the
   * journal with only that number of entries. With neither call it creates one.
   */
  open(
    call: { readonly call_id: string; readonly at?: number } | null,
    origin: () => CallInput,
  ): Promise<ActiveJournal | null>;
}

/** The journal of a call, as the executor of durable functions gets it. lib/steps connects it to the storage. */
import type { Json, JsonObject } from "../json.ts";

/** The verbs whose calls are numbered by name. */
export type StepKind = "step" | "sleep" | "wait" | "ask";

/** How far the function was: values yielded, and the reply that was being written. */
export interface OutputPosition {
  readonly yielded: number;
  readonly reply: { readonly id: string; readonly text: string; readonly more?: JsonObject } | null;
}

/** One entry of a journal. Its place in the list is its number. */
export interface JournalEntry {
  readonly kind: StepKind | "begin" | "pause";
  readonly name: string;
  /** The n-th use of this name, from 1. */
  readonly occurrence: number;
  /**
   * `begun`: a sleep, wait or ask waits until `until`. `failed`: a try has failed, the next one is at `until`. `dropped`: an event did
   * not fit. The others settle the verb.
   */
  readonly phase: "begun" | "failed" | "dropped" | "done" | "error" | "timeout";
  /** The place of the verb among all calls of verbs, from 1. */
  readonly call: number;
  readonly value?: Json;
  readonly error?: { readonly name: string; readonly message: string };
  /** The number of this try. */
  readonly attempt?: number;
  readonly until?: number | null;
  /** The `seq` of the event. */
  readonly event?: number;
  readonly schema?: JsonObject;
  /** Of a pause: how many calls of `spend` outside of steps were reported so far. */
  readonly spent?: number;
  /** When the step began, and when it was settled. */
  readonly began?: number;
  readonly at: number;
  readonly position: OutputPosition;
  readonly run_id: string;
}

/** An event from outside. `occurrence`: that of the wait whose token it came with; null for any wait of its name. */
export interface ExternalEvent {
  readonly seq: number;
  readonly name: string;
  readonly occurrence: number | null;
  readonly payload: Json;
}

/** What a run waits for. */
export interface WaitingFor {
  readonly kind: StepKind;
  readonly name: string;
  /** ISO 8601; null: only an event or an answer ends it. */
  readonly until: string | null;
}

/** What the function gets in every attempt of a call. */
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
  /** Longer waits free the worker. */
  readonly linger_ms: number;
}

/** An open call. */
export interface ActiveJournal {
  readonly call_id: string;
  readonly origin: CallInput;
  readonly entries: readonly JournalEntry[];
  readonly limits: JournalLimits;
  /** How far the function was with what is stored as shown since the newest entry; null: no further than that. */
  readonly emittedPosition: OutputPosition | null;
  /** What an earlier attempt has shown is stored. */
  readonly isOutputStored: boolean;
  /** The run that shows the call: its id is in every entry. */
  readonly run_id: string;
  /** Events that have come so far, once they are watched. */
  getEvents(): readonly ExternalEvent[];
  /** Reads the events, and calls `listener` then and when others come. */
  listen(listener: () => void): Promise<void>;
  /** The attempt ends and takes no more events: one that comes from now on wakes the run. */
  stopListening(): void;
  /** Adds an entry: it is stored with the next save, after all that the executor has shown. Errors: a limit. */
  append(entry: Omit<JournalEntry, "at" | "run_id">): JournalEntry;
  /** Resolves when everything is committed. Rejects when the attempt stops. */
  commit(): Promise<void>;
  /** Another process may have the run if this one stood still: rejects then. */
  ensureLease(): Promise<void>;
  /** A new address for the event of a wait. It is committed with the next save. Errors: public_base_url is not set. */
  createEventAddress(name: string, occurrence: number): Promise<{ readonly url: string; readonly token: string }>;
  /** UUID version 5 of the call and these names. */
  createId(...names: readonly (string | number)[]): Promise<string>;
  /** The call stays open after this run. `due_at`: when the service continues it. */
  pause(due_at: number | null): Promise<void>;
  /** The call stays open as an earlier attempt of the run has left it. */
  restorePause(): Promise<void>;
  /** The attempt ends, and the run waits. Rejects if too many runs do. */
  suspend(due_at: number | null, waiting_for: readonly WaitingFor[]): Promise<void>;
}

/** The way to the journal. No code is loaded and nothing is read until a call is opened. */
export interface Journal {
  /** The call that the run belongs to already. */
  readonly call_id: string | null;
  /** A call is open. */
  readonly isOpen: boolean;
  /** Aborts the signal of the job with the reason `suspended`: the function is left alone. */
  abortSuspended(): void;
  /**
   * Opens the call of the run, or the one that it continues: null if that is gone or has ended. `at`: the journal as it was with so
   * many entries. Without both, a new call.
   */
  open(
    call: { readonly call_id: string; readonly at?: number } | null,
    origin: () => CallInput,
  ): Promise<ActiveJournal | null>;
}

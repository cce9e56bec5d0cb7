/** The storage of calls: executions of durable functions from their input to their end, with their journals. */
import type { Json } from "../json.ts";
import type { Scope, StoredJournalEntry, WaitToken } from "./rows.ts";

/** An event from outside. */
export interface ExternalEventRow {
  readonly seq: number;
  readonly name: string;
  /** Of the token that it came with: the wait that it is for. Null: the next wait with its name. */
  readonly occurrence: number | null;
  readonly payload: Json;
}

/** A call as stored. */
export interface DurableCallRow {
  readonly thread_id: string;
  readonly call_id: string;
  readonly graph_id: string;
  /** It came with a copy of its thread: an answer begins another call with its entries. */
  readonly copied: boolean;
  /** The run that continued it last. */
  readonly run_id: string;
  /** JSON: what its function gets in every attempt. */
  readonly origin: string;
  /** JSON: see `CallProgress`. */
  readonly position: string | null;
  readonly due_at: number | null;
  readonly ended_at: number | null;
}

/** Why an attempt ends before its function does. `waiting_for` is shown by the run. */
export interface Suspension {
  /** When the run continues by itself; null: only by an event. */
  readonly due_at: number | null;
  readonly waiting_for: Json;
  /** The last event that the attempt has seen: a later one continues the run at once. */
  readonly last_event_seq: number;
}

/** How many entries of a journal are read at once. */
export const JOURNAL_PAGE_ROWS = 2_500;

/** The verbs of calls. */
export interface DurableCallStorage {
  /** Reads a call of a visible thread. */
  getCall(scope: Scope, thread_id: string, call_id: string): Promise<DurableCallRow | null>;
  /** Reads the newest call of a thread. */
  getNewestCall(scope: Scope, thread_id: string): Promise<DurableCallRow | null>;
  /** Reads a part of a journal: the entries from `idx` on, in order. Fewer than `ENTRIES_AT_ONCE`: there are no more. */
  readJournalEntries(
    scope: Scope,
    thread_id: string,
    call_id: string,
    idx: number,
  ): Promise<readonly StoredJournalEntry[]>;
  /** Reads the events of a call after `seq`, in order. */
  readCallEvents(scope: Scope, thread_id: string, call_id: string, seq: number): Promise<readonly ExternalEventRow[]>;
  /** Reads the call and the wait of a token, and the event that came with it. */
  findToken(
    scope: Scope,
    token_hash: string,
  ): Promise<
    | (Pick<WaitToken, "name" | "occurrence"> & { readonly call: DurableCallRow; readonly answer: Json | undefined })
    | null
  >;
  /**
   * Stores an event and makes the call due: its suspended run, or the call itself. Guard: the call has not ended; with a token, none of
   * its wait came before. Null: nothing was written.
   */
  addCallEvent(
    scope: Scope,
    to: Pick<DurableCallRow, "thread_id" | "call_id">,
    event: Omit<ExternalEventRow, "seq">,
    now: number,
  ): Promise<"stored" | null>;
  /** Counts suspended runs. */
  countSuspended(scope: Scope): Promise<number>;
  /** Reads calls that are due and have no active run. */
  listDueCalls(scope: Scope, now: number, limit: number): Promise<readonly DurableCallRow[]>;
  /** Changes when a call is due, where it is due as seen. `ended`: also ends it. */
  setCallDue(scope: Scope, expected: DurableCallRow, due_at: number | null, ended_at: number | null): Promise<void>;
}

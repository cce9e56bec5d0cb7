/** The storage operations of durable calls, which execute a durable function from its input to its end, with their journals. */
import type { Json } from "../json.ts";
import type { Scope, StoredJournalEntry, WaitToken } from "./rows.ts";

/** An external event for a durable call. */
export interface ExternalEventRow {
  readonly seq: number;
  readonly name: string;
  /** The wait that its token addresses. Null: the next wait with its name. */
  readonly occurrence: number | null;
  readonly payload: Json;
}

/** A durable call as stored. */
export interface DurableCallRow {
  readonly thread_id: string;
  readonly call_id: string;
  readonly graph_id: string;
  /** True if a copy of its thread created it. A resume value then starts another call with its journal entries. */
  readonly copied: boolean;
  /** The last run that continued it. */
  readonly run_id: string;
  /** JSON: the input of its function, which every attempt gets. */
  readonly origin: string;
  /** JSON: see `CallProgress`. */
  readonly position: string | null;
  readonly due_at: number | null;
  readonly ended_at: number | null;
}

/** The reason why an attempt ends before its function. The run shows `waiting_for`. */
export interface Suspension {
  /** When the run continues by itself; null if only an event continues it. */
  readonly due_at: number | null;
  readonly waiting_for: Json;
  /** The last event that the attempt has read. A later event continues the run at once. */
  readonly last_event_seq: number;
}

/** The maximum number of journal entries in one read. */
export const JOURNAL_PAGE_ROWS = 2_500;

/** The storage operations of durable calls. */
export interface DurableCallStorage {
  /** Reads a call. Returns null if it does not exist or its thread is not visible. */
  getCall(scope: Scope, thread_id: string, call_id: string): Promise<DurableCallRow | null>;
  /** Reads the newest call of a thread. Returns null if it has none or is not visible. */
  getNewestCall(scope: Scope, thread_id: string): Promise<DurableCallRow | null>;
  /** Reads journal entries from `idx` on, in order, at most `JOURNAL_PAGE_ROWS`. Fewer than that means the end. */
  readJournalEntries(
    scope: Scope,
    thread_id: string,
    call_id: string,
    idx: number,
  ): Promise<readonly StoredJournalEntry[]>;
  /** Reads the events of a call after `seq`, in order, also those read before. Returns none for an unknown call. */
  readCallEvents(scope: Scope, thread_id: string, call_id: string, seq: number): Promise<readonly ExternalEventRow[]>;
  /**
   * Finds the call and the wait of a token. `answer` is the payload of the event that came with it, undefined before. Returns null
   * for an unknown token. Applies no filter, because the token is the permission.
   */
  findToken(
    scope: Scope,
    token_hash: string,
  ): Promise<
    | (Pick<WaitToken, "name" | "occurrence"> & { readonly call: DurableCallRow; readonly answer: Json | undefined })
    | null
  >;
  /**
   * Stores an event and makes the call or its suspended run due. Returns null and writes nothing if the call has ended or, with a
   * token, if its wait already has an event.
   */
  addCallEvent(
    scope: Scope,
    to: Pick<DurableCallRow, "thread_id" | "call_id">,
    event: Omit<ExternalEventRow, "seq">,
    now: number,
  ): Promise<"stored" | null>;
  /** Counts the suspended runs of the deployment. */
  countSuspended(scope: Scope): Promise<number>;
  /** Reads at most `limit` calls that are due and have no active run, those that are due longest first. */
  listDueCalls(scope: Scope, now: number, limit: number): Promise<readonly DurableCallRow[]>;
  /** Changes when a call is due, and ends it if `ended_at` is set. Has no effect if it is not due as in `expected`. */
  setCallDue(scope: Scope, expected: DurableCallRow, due_at: number | null, ended_at: number | null): Promise<void>;
}

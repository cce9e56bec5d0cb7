/** Calls of durable functions from outside: the events that they wait for, and their steps. */
import type { InternalResource } from "../auth/authorizer.ts";
import type { StepName } from "../executor/step-names.ts";
import type { IsoTime, Json, Uuid } from "../json.ts";

/** The largest event, in bytes of JSON. */
export const MAX_EVENT_BYTES: number = 256 * 1024;

/** One use of `step`, `sleep`, `wait` or `ask`. Times are ISO 8601, UTC. */
export interface StepRecord {
  readonly kind: "step" | "sleep" | "wait" | "ask" | "begin";
  /** A list as JSON. `send` and the route of events take it as it is. */
  readonly name: string;
  /** The n-th use of this name, from 1. */
  readonly occurrence: number;
  readonly status: "waiting" | "retrying" | "done" | "failed" | "timed_out";
  readonly attempts: number;
  readonly started_at: IsoTime | null;
  readonly ended_at: IsoTime | null;
  /** The end of a sleep, the timeout of a wait, the next try of a step. */
  readonly until: IsoTime | null;
  /** Null too where it is longer than 64 KiB of JSON; then `result_omitted` is true. */
  readonly result: Json;
  readonly result_omitted: boolean;
  readonly error: { readonly error: string; readonly message: string } | null;
  /** The run that stored it. */
  readonly run_id: Uuid;
}

/** The journal of a call. */
export interface RunSteps {
  /** Null: the run has used no step. */
  readonly call_id: Uuid | null;
  readonly steps: readonly StepRecord[];
  /** Events that have come, in order. */
  readonly events: readonly { readonly name: string; readonly payload: Json; readonly used: boolean }[];
}

/** The calls of a deployment. */
export interface DurableCalls {
  /**
   * Sends an event to the open call of a thread: the next `wait` with this name returns it. Errors: not_found (there is no call), gone
   * (it has ended), invalid (null, or it does not fit the schema), too_large.
   */
  send(thread_id: string, name: StepName, payload: Json): Promise<void>;
  /** The same to the call of a run. */
  sendToRun(thread_id: string, run_id: string, name: StepName, payload: Json): Promise<void>;
  steps(thread_id: string, run_id: string): Promise<RunSteps>;
}

/** What threads can do with their calls. */
export interface ThreadDurableCalls {
  /** Sends an event to the open call of a thread. Errors: as `Calls.send`. */
  send: DurableCalls["send"];
}

/** What runs can do with their calls. */
export interface RunDurableCalls {
  /** Sends an event to the call of a run. Errors: as `Calls.send`. */
  send: DurableCalls["sendToRun"];
  /** The journal of the call of a run. Errors: not_found. */
  steps: DurableCalls["steps"];
}

/** Events by the address of their wait. */
export interface DurableCallTokens {
  /** Errors: not_found, conflict (it was answered otherwise), gone, invalid, too_large. */
  deliver(token: string, payload: Json): Promise<void>;
}

export type InternalDurableCalls = InternalResource<DurableCalls> & DurableCallTokens;

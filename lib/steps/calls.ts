/** The durable calls of a deployment: sends events to them, and lists their operations. */
import type { InternalResource } from "../auth/authorizer.ts";
import type { StepName } from "../executor/step-names.ts";
import type { IsoTime, Json, Uuid } from "../json.ts";

/** The maximum size of an event, in bytes of JSON. */
export const MAX_EVENT_BYTES: number = 256 * 1024;

/** A use of `step`, `sleep`, `wait` or `ask`. Times are ISO 8601, UTC. */
export interface StepRecord {
  readonly kind: "step" | "sleep" | "wait" | "ask" | "begin";
  /** The name of the operation; a list as JSON. `send` and the route of events accept it as it is. */
  readonly name: string;
  /** The n-th use of this name, from 1. */
  readonly occurrence: number;
  readonly status: "waiting" | "retrying" | "done" | "failed" | "timed_out";
  readonly attempts: number;
  readonly started_at: IsoTime | null;
  readonly ended_at: IsoTime | null;
  /** The end of a sleep, the timeout of a wait, or the next attempt of a step. */
  readonly until: IsoTime | null;
  /** Null also if it is longer than 64 KiB of JSON; then `result_omitted` is true. */
  readonly result: Json;
  readonly result_omitted: boolean;
  readonly error: { readonly error: string; readonly message: string } | null;
  /** The run that stored it. */
  readonly run_id: Uuid;
}

/** The journal of the durable call of a run. */
export interface RunSteps {
  /** Null if the run has used no durable operation. */
  readonly call_id: Uuid | null;
  readonly steps: readonly StepRecord[];
  /** The events that have come, in order. */
  readonly events: readonly { readonly name: string; readonly payload: Json; readonly used: boolean }[];
}

/** The durable calls of threads and runs, and the events that they wait for. */
export interface DurableCalls {
  /**
   * Sends an event to the active call of a thread: the next `wait` with this name returns it. Throws `not_found` if
   * there is no call, `gone` if it has ended, `invalid` for null or a payload that does not fit the schema, and
   * `too_large`.
   */
  send(thread_id: string, name: StepName, payload: Json): Promise<void>;
  /** Sends an event to the call of a run. Throws the errors of `send`. */
  sendToRun(thread_id: string, run_id: string, name: StepName, payload: Json): Promise<void>;
  steps(thread_id: string, run_id: string): Promise<RunSteps>;
}

/** The operations of `threads` on durable calls. */
export interface ThreadDurableCalls {
  /** Sends an event to the active call of a thread. Throws the errors of `DurableCalls.send`. */
  send: DurableCalls["send"];
}

/** The operations of `runs` on durable calls. */
export interface RunDurableCalls {
  /** Sends an event to the call of a run. Throws the errors of `DurableCalls.send`. */
  send: DurableCalls["sendToRun"];
  /** Returns the journal of the call of a run. Throws `not_found`. */
  steps: DurableCalls["steps"];
}

/** The operation on durable calls that needs only the token of a wait. */
export interface DurableCallTokens {
  /**
   * Sends an event to the wait of a token. Throws `not_found`, `conflict` if the wait has another event, `gone`,
   * `invalid` and `too_large`.
   */
  deliver(token: string, payload: Json): Promise<void>;
}

export type InternalDurableCalls = InternalResource<DurableCalls> & DurableCallTokens;

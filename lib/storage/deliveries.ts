/** The storage verbs of webhook deliveries: the outbox. `finishRun` and `stopRuns` fill it. */

import type { JsonObject } from "../json.ts";
import type { ListPosition } from "./cursor.ts";
import type { RunRow, Scope, TerminalStatus } from "./rows.ts";

/** Whether a webhook delivery is waiting, delivered or failed. */
export type DeliveryState = "pending" | "delivered" | "failed";

/** How a client of A2A wants to be told. */
export interface PushConfig {
  readonly version: "1.0" | "0.3";
  readonly task_id: string;
  readonly token?: string;
  readonly scheme?: string;
  readonly credentials?: string;
}

/** The push configuration of a task that a new run begins, or continues. */
export interface NewPush {
  /** A UUID. */
  readonly push_id: string;
  /** The run that began the task. Absent: the new run. */
  readonly task_id?: string;
  /** Names it within the task. */
  readonly config_id: string;
  readonly url: string;
  readonly host: string;
  readonly terms: Omit<PushConfig, "task_id">;
}

/** A push configuration as stored. */
export interface PushRow extends Omit<NewPush, "task_id"> {
  readonly task_id: string;
  readonly thread_id: string;
  /** The newest run of the task: its end is told. */
  readonly last_run: string;
}

/** A finished run that is to be told to a URL; everything the payload needs is in the row. */
export interface DeliveryRow {
  /** The run's id: a run has one webhook. Push notifications have ids of their own. */
  readonly delivery_id: string;
  readonly url: string;
  /** Lower case, with its port; empty for a relative URL. */
  readonly host: string;
  readonly state: DeliveryState;
  /** Attempts that have begun, in all series. */
  readonly attempts: number;
  /** Attempts since it was made or sent again: those that have begun, without those that were said not to count. */
  readonly series_attempts: number;
  readonly due_at: number;
  /** When the first attempt began; null before. */
  readonly sent_at: number | null;
  /** How deep it stands in a chain of relative webhooks. */
  readonly depth: number;
  readonly created_at: number;
  /** For a push notification; absent for the webhook of a run. */
  readonly push?: PushConfig & { readonly interrupts: JsonObject };
  readonly run: DeliveredRun;
}

/** The run as it ended. */
export interface DeliveredRun
  extends Pick<RunRow, "run_id" | "thread_id" | "assistant_id" | "metadata" | "kwargs" | "multitask_strategy">,
    Pick<RunRow, "attempt" | "stateless" | "created_at" | "started_at" | "error"> {
  readonly status: TerminalStatus;
  readonly ended_at: number;
  /** The final state as JSON; null when there is none: the run never started, is stateless, or its state is too large. */
  readonly values: string | null;
  readonly values_omitted: boolean;
  /** Why it was cancelled; absent where nothing was said. */
  readonly cancel_reason?: string;
}

/** The outcome of one delivery attempt. */
export interface DeliveryAttempt {
  readonly delivery_id: string;
  readonly number: number;
  readonly at: number;
  /** HTTP status of the answer, if there was one. */
  readonly status: number | null;
  /** Why it failed, a code such as `timeout` or `dns_not_public`; null when it succeeded. */
  readonly error: string | null;
  readonly duration_ms: number;
  /** The address it was sent to. */
  readonly address: string | null;
  /** The start of the answer's body; absent where there is none, or it is no text. */
  readonly answer?: string;
}

/** Which webhook deliveries a process claims, and until when. */
export interface DeliveryClaim {
  readonly token: string;
  readonly until: number;
  readonly now: number;
  readonly limit: number;
  /** Most deliveries of one host that may be under way at once, those of other claims included. */
  readonly per_host: number;
}

/** What an attempt leaves: another one at `due_at`, or none. `uncounted`: this one is none of its series. */
export type DeliveryResult =
  | { readonly state: "pending"; readonly due_at: number; readonly uncounted?: boolean }
  | { readonly state: "delivered" | "failed" };

/** Which deliveries are listed. */
export interface DeliveryQuery {
  /** One state, or any of several. */
  readonly state?: DeliveryState | readonly DeliveryState[];
  readonly run_id?: string;
  readonly thread_id?: string;
  /** Only deliveries that come after this one in the list. */
  readonly after?: ListPosition;
  readonly limit: number;
}

/** The verbs of webhook deliveries. With a filter, a scope shows those whose thread is there and permitted. */
export interface DeliveryStorage {
  /** Claims due deliveries, oldest first; each claim counts as an attempt. Deliveries whose claim has expired are due again. */
  claimDeliveries(scope: Scope, claim: DeliveryClaim): Promise<readonly DeliveryRow[]>;
  /** Records the attempt and its result. Guard: the claim token; false when the claim is lost: nothing was written. */
  finishDelivery(scope: Scope, token: string, attempt: DeliveryAttempt, result: DeliveryResult): Promise<boolean>;
  /** Reads when the next unclaimed delivery is due. Null when none is pending. */
  getNextDeliveryTime(scope: Scope): Promise<number | null>;
  /** Reads deliveries, newest first. */
  listDeliveries(scope: Scope, query: DeliveryQuery): Promise<readonly DeliveryRow[]>;
  /** Reads the attempts of a delivery, in order. */
  listAttempts(scope: Scope, delivery_id: string): Promise<readonly DeliveryAttempt[]>;
  /** Makes a delivery due now, with a new retry series. Guard: no attempt is under way; false then, and when there is none. */
  redeliver(scope: Scope, delivery_id: string, now: number): Promise<boolean>;
}

type PushKey = Pick<PushRow, "thread_id" | "task_id">;

/** The verbs of push configurations. With a filter, a scope shows those whose thread is permitted. */
export interface PushStorage {
  /** Stores one, or replaces that with its id. Guard: the runs exist, and the task has fewer than 10 others; false else. */
  setPush(scope: Scope, push: PushRow, now: number): Promise<boolean>;
  /** Reads those of a task, oldest first. */
  listPushes(scope: Scope, task_id: string): Promise<readonly PushRow[]>;
  /** Deletes one. No effect if there is none. */
  removePush(scope: Scope, key: PushKey & Pick<PushRow, "config_id">): Promise<void>;
  /** Puts it into the outbox that a task was cancelled which waited for an answer. A second call has no effect. */
  notifyCancelled(scope: Scope, key: PushKey, now: number): Promise<void>;
}

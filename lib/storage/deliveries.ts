/** The storage operations of webhook deliveries, the outbox. `finishRun` and `stopRuns` add rows to it. */

import type { JsonObject } from "../json.ts";
import type { ListPosition } from "./cursor.ts";
import type { RunRow, Scope, TerminalStatus } from "./rows.ts";

/** The state of a webhook delivery. `pending` includes deliveries that wait for a retry. */
export type DeliveryState = "pending" | "delivered" | "failed";

/** The push configuration that an A2A client sent: protocol version, task and credentials. */
export interface PushConfig {
  readonly version: "1.0" | "0.3";
  readonly task_id: string;
  readonly token?: string;
  readonly scheme?: string;
  readonly credentials?: string;
}

/** The push configuration of a task that a new run starts or continues. */
export interface NewPush {
  /** A UUID. */
  readonly push_id: string;
  /** The run that started the task. Absent: the new run. */
  readonly task_id?: string;
  /** The id of the configuration, unique within the task. */
  readonly config_id: string;
  readonly url: string;
  readonly host: string;
  readonly terms: Omit<PushConfig, "task_id">;
}

/** A push configuration as stored. */
export interface PushRow extends Omit<NewPush, "task_id"> {
  readonly task_id: string;
  readonly thread_id: string;
  /** The newest run of the task. A push notification is sent when it ends. */
  readonly last_run: string;
}

/** A webhook or push notification about a run that has ended. The row has everything that the payload needs. */
export interface DeliveryRow {
  /** The id of the run for a webhook, because a run has at most one. Push notifications have their own ids. */
  readonly delivery_id: string;
  readonly url: string;
  /** The host of the URL in lower case, with its port; empty for a relative URL. */
  readonly host: string;
  readonly state: DeliveryState;
  /** The number of started attempts in all retry series. */
  readonly attempts: number;
  /** The number of started attempts in the current retry series, without those that ended as `uncounted`. */
  readonly series_attempts: number;
  readonly due_at: number;
  /** When the first attempt started; null before. */
  readonly sent_at: number | null;
  /** The depth in a chain of relative webhooks. */
  readonly depth: number;
  readonly created_at: number;
  /** The configuration of a push notification. Absent for the webhook of a run. */
  readonly push?: PushConfig & { readonly interrupts: JsonObject };
  readonly run: DeliveredRun;
}

/** The run as it ended. */
export interface DeliveredRun
  extends Pick<
      RunRow,
      "run_id" | "thread_id" | "assistant_id" | "assistant_version" | "metadata" | "kwargs" | "multitask_strategy"
    >,
    Pick<RunRow, "attempt" | "stateless" | "created_at" | "started_at" | "error" | "trace_origin"> {
  readonly status: TerminalStatus;
  readonly ended_at: number;
  /** The final state as JSON; null when there is none: the run never started, is stateless, or its state is too large. */
  readonly values: string | null;
  readonly values_omitted: boolean;
  /** Why the run was cancelled. Absent if no reason was given. */
  readonly cancel_reason?: string;
}

/** The record of one delivery attempt. */
export interface DeliveryAttempt {
  readonly delivery_id: string;
  readonly number: number;
  readonly at: number;
  /** The HTTP status of the response; null if there was none. */
  readonly status: number | null;
  /** Why it failed, a code such as `timeout` or `dns_not_public`; null when it succeeded. */
  readonly error: string | null;
  readonly duration_ms: number;
  /** The IP address to which the request was sent. */
  readonly address: string | null;
  /** The start of the response body. Absent if the body is empty or not text. */
  readonly answer?: string;
}

/** The request of a process to claim webhook deliveries until a time. */
export interface DeliveryClaim {
  readonly token: string;
  readonly until: number;
  readonly now: number;
  readonly limit: number;
  /** The maximum number of deliveries to one host at the same time, including those of other claims. */
  readonly per_host: number;
}

/**
 * The state of a delivery after an attempt. `pending`: the next attempt starts at `due_at`. `uncounted`: this attempt does not
 * count in its retry series.
 */
export type DeliveryResult =
  | { readonly state: "pending"; readonly due_at: number; readonly uncounted?: boolean }
  | { readonly state: "delivered" | "failed" };

/** The filters and page of a list of deliveries. */
export interface DeliveryQuery {
  /** One state, or several of which any matches. */
  readonly state?: DeliveryState | readonly DeliveryState[];
  readonly run_id?: string;
  readonly thread_id?: string;
  /** Only deliveries that come after this one in the list. */
  readonly after?: ListPosition;
  readonly limit: number;
}

/** The storage operations of webhook deliveries. With a filter, they cover only deliveries whose thread exists and is permitted. */
export interface DeliveryStorage {
  /** Claims due deliveries, oldest first. Each claim counts as an attempt. A delivery whose claim has expired is due again. */
  claimDeliveries(scope: Scope, claim: DeliveryClaim): Promise<readonly DeliveryRow[]>;
  /** Records the attempt and its result. Returns false and writes nothing if the claim of the token is lost. */
  recordDeliveryAttempt(
    scope: Scope,
    token: string,
    attempt: DeliveryAttempt,
    result: DeliveryResult,
  ): Promise<boolean>;
  /** Reads when the next unclaimed delivery is due. Returns null if none is pending. */
  getNextDeliveryTime(scope: Scope): Promise<number | null>;
  /** Reads deliveries, newest first. */
  listDeliveries(scope: Scope, query: DeliveryQuery): Promise<readonly DeliveryRow[]>;
  /** Reads the attempts of a delivery, in order. */
  listAttempts(scope: Scope, delivery_id: string): Promise<readonly DeliveryAttempt[]>;
  /**
   * Makes a delivery due now, with a new retry series. Returns false if an attempt is in progress or the delivery does not exist.
   */
  redeliver(scope: Scope, delivery_id: string, now: number): Promise<boolean>;
}

/** The thread and the task of a push configuration. */
export type PushKey = Pick<PushRow, "thread_id" | "task_id">;

/** The storage operations of push configurations. With a filter, they cover only configurations whose thread is permitted. */
export interface PushStorage {
  /**
   * Stores a push configuration, or replaces the one with its id. Returns false and writes nothing if a run does not exist or the
   * task has 10 others.
   */
  setPush(scope: Scope, push: PushRow, now: number): Promise<boolean>;
  /** Reads the push configurations of a task, oldest first. */
  listPushes(scope: Scope, task_id: string): Promise<readonly PushRow[]>;
  /** Deletes a push configuration. Has no effect if there is none. */
  removePush(scope: Scope, key: PushKey & Pick<PushRow, "config_id">): Promise<void>;
  /**
   * Adds a notification for each push configuration of a task to the outbox: the task was cancelled while it waited for a
   * resume value. A second call has no effect.
   */
  notifyCancelled(scope: Scope, key: PushKey, now: number): Promise<void>;
}

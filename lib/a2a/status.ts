/** The message of a task's status, and the requests of its push notifications. */

import { describeInterrupt } from "../executor/approvals.ts";
import type { Interrupt } from "../executor/contract.ts";
import { isObject, type JsonObject } from "../json.ts";
import { formatIsoTime } from "../rfc3339.ts";
import type { DeliveryRow } from "../storage/mod.ts";
import {
  type A2aMessage,
  type A2aPart,
  type A2aTaskState,
  type A2aTaskStatus,
  toEventJson,
  toTaskJson,
} from "./json.ts";

type PendingInterrupt = Partial<Interrupt>;

/**
 * Returns the parts that describe interrupts: for each a text for people, if its value has one, and then its id and value as
 * data.
 */
export function toInterruptParts(interrupts: readonly PendingInterrupt[]): A2aPart[] {
  return interrupts.flatMap(({ id = null, value = null }): A2aPart[] => {
    const text = describeInterrupt(value);
    const hasText = text !== "" && text !== JSON.stringify(value);
    return [...(hasText ? [{ text }] : []), { data: { interrupt: { id, value } } }];
  });
}

/**
 * Creates the agent's message of a status. `run_id` is the newest run of the task: its first digits make the id of the message.
 */
export const createStatusMessage = (
  taskId: string,
  contextId: string,
  run_id: string,
  parts: readonly A2aPart[],
): A2aMessage => ({
  messageId: `${taskId}-${run_id.slice(0, 8)}`,
  ...{ contextId, taskId },
  role: "AGENT",
  parts,
});

/** A push notification as an HTTP request. */
export interface PushNotification {
  readonly body: string;
  readonly content_type: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
}

type EndedRun = DeliveryRow["run"];

/**
 * Returns the state of a task whose run has ended, with the parts of its message: an interrupted run gives `CANCELED` without a
 * message, success `INPUT_REQUIRED` with its pending interrupts or else `COMPLETED`, any other status `FAILED` with the error.
 */
function toTaskStatus(
  { status, error }: EndedRun,
  interrupts: readonly PendingInterrupt[],
): readonly [A2aTaskState, (readonly A2aPart[])?] {
  if (status === "interrupted") return ["CANCELED"];
  if (status === "success")
    return interrupts.length > 0 ? ["INPUT_REQUIRED", toInterruptParts(interrupts)] : ["COMPLETED"];
  return ["FAILED", [{ text: String(error?.message ?? `The run has ended: ${status}`) }]];
}

/**
 * Creates the notification that a run of a task has ended: in 1.0 an update of the status, in 0.3 the task without artifacts.
 * The headers have the token and the credentials of the configuration, if it has them.
 */
export function createPushNotification(run: EndedRun, push: NonNullable<DeliveryRow["push"]>): PushNotification {
  const { version, task_id, token, scheme, credentials } = push;
  const interrupts = Object.values(push.interrupts).flat().filter(isObject);
  const [state, messageParts] = toTaskStatus(run, interrupts);
  const ids = { taskId: task_id, contextId: run.thread_id };
  const status: A2aTaskStatus = {
    ...{ state, timestamp: formatIsoTime(run.ended_at) },
    ...(messageParts ? { message: createStatusMessage(task_id, run.thread_id, run.run_id, messageParts) } : {}),
  };
  const body: JsonObject =
    version === "1.0"
      ? toEventJson({ statusUpdate: { ...ids, status } }, version)
      : toTaskJson({ id: task_id, contextId: run.thread_id, status }, version);
  return {
    body: JSON.stringify(body),
    content_type: version === "1.0" ? "application/a2a+json" : "application/json",
    headers: [
      ...(token === undefined ? [] : [["x-a2a-notification-token", token] as const]),
      ...(scheme === undefined ? [] : [["authorization", [scheme, credentials ?? ""].join(" ").trim()] as const]),
    ],
  };
}

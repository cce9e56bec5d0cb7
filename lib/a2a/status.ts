/** The message of a task's status, and the requests of its push notifications. */
import type { Interrupt } from "../executor/contract.ts";
import { questionText } from "../executor/questions.ts";
import { isObject, type JsonObject } from "../json.ts";
import { isoTime } from "../rfc3339.ts";
import type { DeliveryRow } from "../storage/mod.ts";
import { eventJson, type Message, type Part, type Status, type TaskState, taskJson } from "./wire.ts";

type OpenInterrupt = Partial<Interrupt>;

/** What is asked: its id and value for clients that know them, and a text for all others. */
export function askedParts(open: readonly OpenInterrupt[]): Part[] {
  return open.flatMap(({ id = null, value = null }): Part[] => {
    const text = questionText(value);
    const isSaid = text !== "" && text !== JSON.stringify(value);
    return [...(isSaid ? [{ text }] : []), { data: { interrupt: { id, value } } }];
  });
}

/** The message of a status. `run_id`: the newest run of the task. */
export const statusMessage = (taskId: string, contextId: string, run_id: string, parts: readonly Part[]): Message => ({
  messageId: `${taskId}-${run_id.slice(0, 8)}`,
  ...{ contextId, taskId },
  role: "AGENT",
  parts,
});

/** A push notification, as it is sent. */
export interface Notification {
  readonly body: string;
  readonly content_type: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
}

type Pushed = DeliveryRow["run"];

function standingOf(
  { status, error }: Pushed,
  open: readonly OpenInterrupt[],
): readonly [TaskState, (readonly Part[])?] {
  if (status === "interrupted") return ["CANCELED"];
  if (status === "success") return open.length > 0 ? ["INPUT_REQUIRED", askedParts(open)] : ["COMPLETED"];
  return ["FAILED", [{ text: String(error?.message ?? `The run has ended: ${status}`) }]];
}

/** How a task stands since one of its runs has ended. Since 1.0 an update of its status; in 0.3 the task. */
export function notificationOf(run: Pushed, push: NonNullable<DeliveryRow["push"]>): Notification {
  const { version, task_id, token, scheme, credentials } = push;
  const open = Object.values(push.interrupts).flat().filter(isObject);
  const [state, said] = standingOf(run, open);
  const ids = { taskId: task_id, contextId: run.thread_id };
  const status: Status = {
    ...{ state, timestamp: isoTime(run.ended_at) },
    ...(said ? { message: statusMessage(task_id, run.thread_id, run.run_id, said) } : {}),
  };
  const body: JsonObject =
    version === "1.0"
      ? eventJson({ statusUpdate: { ...ids, status } }, version)
      : taskJson({ id: task_id, contextId: run.thread_id, status }, version);
  return {
    body: JSON.stringify(body),
    content_type: version === "1.0" ? "application/a2a+json" : "application/json",
    headers: [
      ...(token === undefined ? [] : [["x-a2a-notification-token", token] as const]),
      ...(scheme === undefined ? [] : [["authorization", [scheme, credentials ?? ""].join(" ").trim()] as const]),
    ],
  };
}

/** Converts the events of threads between values, their stored form and the JSON that all subscribers share. */
import type { ExecutorEvent } from "../executor/contract.ts";
import { isObject, type Json } from "../json.ts";
import type { StoredThreadEvent, ThreadEvent } from "../storage/mod.ts";
import type { ProtocolEvent, SerializedEvent } from "./event-filter.ts";

/** An event as a value, of the executor or of the engine. */
export type NewEvent = Omit<Extract<ExecutorEvent, { type: "event" }>, "type" | "method"> & Pick<ThreadEvent, "method">;

/**
 * Converts an event to its stored form, with its data as JSON; null if only its checkpoint has them. A custom event gets its
 * name.
 */
export function encodeEvent(event: NewEvent, timestamp: number): Omit<ThreadEvent, "seq"> {
  const { method, namespace, data, node, checkpoint_id } = event;
  const name = method === "custom" && isObject(data) && typeof data.name === "string" ? data.name : undefined;
  const text = data === null && checkpoint_id !== undefined ? null : (JSON.stringify(data) ?? "null");
  return { method, namespace, timestamp, node, data: text, checkpoint_id, name };
}

/** Decodes a stored event. Its data is null where only its checkpoint has them. */
export function decodeStoredEvent({ method, namespace, node, data }: ThreadEvent): NewEvent {
  return { method, namespace, node, data: JSON.parse(data ?? "null") as Json };
}

const formatEventId = ({ seq, run_id, method, namespace }: StoredThreadEvent): string =>
  method === "lifecycle" && namespace.length === 0 ? `synth:${run_id}:${seq}` : String(seq);

/**
 * Returns the event as a client gets it, in a JSON envelope. `data` is its data as JSON, `id` the id of the event for clients.
 */
export function serializeEvent(
  event: StoredThreadEvent,
  data: string,
  id: string = formatEventId(event),
): SerializedEvent {
  const { seq, method, namespace, timestamp, node, name } = event;
  const location = `"namespace":${JSON.stringify(namespace)},"timestamp":${timestamp}`;
  const params = `{${location}${node === undefined ? "" : `,"node":${JSON.stringify(node)}`},"data":${data}}`;
  const envelope = `{"type":"event","event_id":"${id}","seq":${seq},"method":"${method}","params":${params}}`;
  return { seq, id, event: method, namespace, name, data: envelope };
}

export const decodeSerializedEvent = ({ data }: SerializedEvent): ProtocolEvent => JSON.parse(data) as ProtocolEvent;

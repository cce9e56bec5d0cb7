/** A state of the thread and what changes it. */
import type { Json, JsonObject } from "../json.ts";
import { coerceMessages, reduceMessages } from "../messages.ts";

/** The state after a change, and the change as it took effect. The state's own lists and objects are shared, never changed. */
export function apply(
  state: JsonObject,
  change: JsonObject,
  uuid: () => string,
  fallback: "human" | "ai",
): { readonly values: JsonObject; readonly update: JsonObject } {
  if (!Object.hasOwn(change, "messages")) return { values: { ...state, ...change }, update: change };
  const messages = coerceMessages(change.messages as Json, uuid, fallback);
  const update = { ...change, messages };
  return { values: { ...state, ...update, messages: reduceMessages(messagesOf(state), messages) }, update };
}

export function messagesOf(state: JsonObject): Json[] {
  return Array.isArray(state.messages) ? state.messages : [];
}

/** A state of the thread and what changes it. */
import type { Json, JsonObject } from "../json.ts";
import { coerceMessages, reduceMessages } from "../streams/messages.ts";

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

/**
 * The same of many changes, at the cost of one: the state is copied once, and its messages are merged once. Throws what one of them
 * would throw.
 */
export function applyAll(
  state: JsonObject,
  changes: readonly (readonly [change: JsonObject, fallback: "human" | "ai"])[],
  uuid: () => string,
): JsonObject {
  const [only] = changes;
  if (!only) return state;
  if (changes.length === 1) return apply(state, only[0], uuid, only[1]).values;
  const values = new Map(Object.entries(state));
  const messages: JsonObject[] = [];
  for (const [change, fallback] of changes) {
    for (const [name, value] of Object.entries(change)) {
      if (name !== "messages") values.set(name, value);
      else for (const message of coerceMessages(value, uuid, fallback)) messages.push(message);
    }
  }
  // Only where one of them names messages: a state without has no list of them then.
  if (changes.some(([change]) => Object.hasOwn(change, "messages"))) {
    values.set("messages", reduceMessages(messagesOf(state), messages));
  }
  return Object.fromEntries(values);
}

export function messagesOf(state: JsonObject): Json[] {
  return Array.isArray(state.messages) ? state.messages : [];
}

/** Applies updates to a state: messages merge by id, other keys replace their value. */
import type { Json, JsonObject } from "../json.ts";
import { coerceMessages, reduceMessages } from "./messages.ts";

/** The state after a change, and the change with its messages coerced. The lists and objects of `state` are shared, never changed. */
export function applyUpdate(
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

/** Many changes at the cost of one: the state is copied once, and its messages are merged once. */
export function applyUpdates(
  state: JsonObject,
  changes: readonly (readonly [change: JsonObject, fallback: "human" | "ai"])[],
  uuid: () => string,
): JsonObject {
  const [only] = changes;
  if (!only) return state;
  if (changes.length === 1) return applyUpdate(state, only[0], uuid, only[1]).values;
  const values = new Map(Object.entries(state));
  const messages: JsonObject[] = [];
  for (const [change, fallback] of changes) {
    for (const [name, value] of Object.entries(change)) {
      if (name !== "messages") values.set(name, value);
      else for (const message of coerceMessages(value, uuid, fallback)) messages.push(message);
    }
  }
  // A state without messages gets no empty list.
  if (changes.some(([change]) => Object.hasOwn(change, "messages"))) {
    values.set("messages", reduceMessages(messagesOf(state), messages));
  }
  return Object.fromEntries(values);
}

export function messagesOf(state: JsonObject): Json[] {
  return Array.isArray(state.messages) ? state.messages : [];
}

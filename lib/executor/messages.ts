/** Parses messages to wire form (flat JSON), and adds them to a state. */
import { isObject, type Json, type JsonObject } from "../json.ts";

/** The id of a `remove` message that clears the list. */
const REMOVE_ALL = "__remove_all__";

const TYPES: ReadonlyMap<string, string> = new Map([
  ["user", "human"],
  ["human", "human"],
  ["assistant", "ai"],
  ["ai", "ai"],
  ["system", "system"],
  ["developer", "system"],
  ["tool", "tool"],
  ["function", "function"],
  ["remove", "remove"],
]);

/**
 * Parses one message to wire form: `{type, content, id, additional_kwargs, response_metadata, …}`. Accepts a string (a message of
 * type `fallback`), an object with `role` or `type`, `[role, content]`, and a LangChain message serialized by `JSON.stringify`.
 * Creates a missing id with `uuid`; OpenAI tool calls become `{name, args, id, type}`. Throws for any other value.
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one branch for each form in which clients send a message
export function coerceMessage(value: Json, uuid: () => string, fallback: "human" | "ai"): JsonObject {
  if (typeof value === "string") return coerceMessage({ type: fallback, content: value }, uuid, fallback);
  if (Array.isArray(value)) {
    const [role, content] = value;
    if (value.length !== 2 || typeof role !== "string" || content === undefined) {
      throw new Error("A message given as a list must be [role, content]");
    }
    return coerceMessage({ role, content }, uuid, fallback);
  }
  if (!isObject(value)) {
    throw new Error(`A message must be a string, an object or [role, content], not ${JSON.stringify(value)}`);
  }
  if (value.lc === 1 && value.type === "constructor" && Array.isArray(value.id) && isObject(value.kwargs)) {
    return coerceMessage({ ...value.kwargs, type: value.id.at(-1) ?? null }, uuid, fallback);
  }
  const { role, type: messageType, content: body, id, ...members } = value;
  const roleOrType = role ?? messageType;
  if (typeof roleOrType !== "string") throw new Error("A message needs a role or a type");
  const type = TYPES.get(toMessageType(roleOrType));
  if (type === undefined) throw new Error(`Unknown message role or type ${JSON.stringify(roleOrType)}`);
  // Assistants that only call tools send no content, and a removal has none.
  const content = body ?? (type === "ai" || type === "remove" ? "" : undefined);
  if (typeof content !== "string" && !Array.isArray(content)) {
    throw new Error(`The content of a message (${type}) must be a string or a list of blocks`);
  }
  if (id !== undefined && id !== null && typeof id !== "string") throw new Error("A message's id must be a string");
  if (type === "remove" && !id) throw new Error("A message of type remove needs the id of the message to remove");
  return {
    type,
    content,
    id: id || uuid(),
    ...members,
    additional_kwargs: members.additional_kwargs ?? {},
    response_metadata: members.response_metadata ?? {},
    ...(Array.isArray(members.tool_calls) ? toWireToolCalls(members.tool_calls) : {}),
  };
}

/**
 * Parses one message or a list; null is an empty list. An element `{messages: […]}` is replaced by its messages. Throws as
 * `coerceMessage`.
 */
export function coerceMessages(value: Json, uuid: () => string, fallback: "human" | "ai"): JsonObject[] {
  if (value === null) return [];
  const items = Array.isArray(value) ? value : [value];
  return items.flatMap((item) =>
    isObject(item) && Array.isArray(item.messages) && item.role === undefined && item.type === undefined
      ? coerceMessages(item.messages, uuid, fallback)
      : [coerceMessage(item, uuid, fallback)],
  );
}

/**
 * Applies the parsed messages of `updates` to `current` in order: an existing id replaces the message, `remove` deletes it, `remove`
 * of `__remove_all__` deletes everything before it, others are appended. Throws for the removal of an unknown id. The messages
 * are shared, not copied.
 */
export function reduceMessages(current: readonly Json[], updates: readonly JsonObject[]): Json[] {
  const clearIndex = updates.findLastIndex((message) => message.type === "remove" && message.id === REMOVE_ALL);
  const merged: (Json | undefined)[] = clearIndex < 0 ? [...current] : [];
  const changes = updates.slice(clearIndex + 1);
  // Only these ids are indexed: an index of the whole conversation would cost more than the run.
  const changedIds = new Set(changes.map((message) => message.id));
  const indexes = new Map<Json | undefined, number>();
  merged.forEach((message, index) => {
    if (isObject(message) && changedIds.has(message.id)) indexes.set(message.id, index);
  });
  for (const message of changes) {
    const index = indexes.get(message.id);
    if (message.type === "remove") {
      if (index === undefined) throw new Error(`There is no message ${JSON.stringify(message.id)} to remove`);
      merged[index] = undefined;
      indexes.delete(message.id);
    } else if (index === undefined) {
      indexes.set(message.id, merged.push(message) - 1);
    } else {
      merged[index] = message;
    }
  }
  return merged.filter((message) => message !== undefined);
}

/** Converts a class name to a message type: `AIMessageChunk` → `ai`. */
export function toMessageType(type: string): string {
  return type.replace(/Message(Chunk)?$/, "").toLowerCase();
}

/**
 * Returns the members `tool_calls` and, only if there are some, `invalid_tool_calls` of a message. Converts OpenAI's `{id,
 * function: {name, arguments}}` to wire form, and keeps other calls as they are. Calls whose arguments are not a JSON object are
 * invalid.
 */
function toWireToolCalls(calls: readonly Json[]): JsonObject {
  const valid: Json[] = [];
  const invalid: Json[] = [];
  for (const call of calls) {
    if (!isObject(call) || !isObject(call.function)) {
      valid.push(call);
      continue;
    }
    const { name = "", arguments: text = "" } = call.function;
    const id = call.id ?? null;
    const args = parseArguments(text);
    if (args) valid.push({ name, args, id, type: "tool_call" });
    else
      invalid.push({ name, args: text, id, error: "The arguments are not a JSON object", type: "invalid_tool_call" });
  }
  return { tool_calls: valid, ...(invalid.length > 0 ? { invalid_tool_calls: invalid } : {}) };
}

/** Parses tool arguments. Returns null while they are incomplete, and for anything but a JSON object. */
export function parseArguments(text: Json): JsonObject | null {
  // Incomplete arguments rarely end in a brace, so most need no parsing.
  if (typeof text !== "string" || !text.trimEnd().endsWith("}")) return null;
  try {
    const value = JSON.parse(text) as Json;
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

/**
 * Returns the state after a change, and the change with its messages parsed. Messages are merged by id, other members replaced.
 * The lists and objects of `state` are shared, never changed. Throws for invalid messages.
 */
export function applyUpdate(
  state: JsonObject,
  change: JsonObject,
  uuid: () => string,
  fallback: "human" | "ai",
): { readonly values: JsonObject; readonly update: JsonObject } {
  if (!Object.hasOwn(change, "messages")) return { values: { ...state, ...change }, update: change };
  const messages = coerceMessages(change.messages as Json, uuid, fallback);
  const update = { ...change, messages };
  return { values: { ...state, ...update, messages: reduceMessages(getMessages(state), messages) }, update };
}

/**
 * Returns the state after many changes; `state` itself without any. Messages are merged by id, once; other members are replaced.
 * Throws for invalid messages.
 */
export function applyUpdates(
  state: JsonObject,
  changes: readonly (readonly [change: JsonObject, fallback: "human" | "ai"])[],
  uuid: () => string,
): JsonObject {
  const [single] = changes;
  if (!single) return state;
  if (changes.length === 1) return applyUpdate(state, single[0], uuid, single[1]).values;
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
    values.set("messages", reduceMessages(getMessages(state), messages));
  }
  return Object.fromEntries(values);
}

export function getMessages(state: JsonObject): Json[] {
  return Array.isArray(state.messages) ? state.messages : [];
}

/** Messages in wire form (flat JSON): which forms are accepted, how lists of them merge, and how streamed ones are assembled. */
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
 * One message in wire form: `{type, content, id, additional_kwargs, response_metadata, …}`. Takes a string (a message of
 * type `fallback`), an object with `role` or `type`, `[role, content]`, and a LangChain message serialized by `JSON.stringify`.
 * A missing id is made with `uuid`; OpenAI tool calls become `{name, args, id, type}`. Throws for any other value.
 */
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
  const { role, type: given, content: body, id, ...rest } = value;
  const named = role ?? given;
  if (typeof named !== "string") throw new Error("A message needs a role or a type");
  const type = TYPES.get(plainType(named));
  if (type === undefined) throw new Error(`Unknown message role or type ${JSON.stringify(named)}`);
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
    ...rest,
    additional_kwargs: rest.additional_kwargs ?? {},
    response_metadata: rest.response_metadata ?? {},
    ...(Array.isArray(rest.tool_calls) ? toolCalls(rest.tool_calls) : {}),
  };
}

/** Coerces one message or a list. An element `{messages: […]}` is replaced by its messages. */
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
 * Applies the coerced messages of `right` to `left` in order: a known id replaces the message, `remove` deletes it (throws for an
 * unknown id), `remove` of `__remove_all__` clears everything before it, others are appended. The messages are shared, not copied.
 */
export function reduceMessages(left: readonly Json[], right: readonly JsonObject[]): Json[] {
  const cut = right.findLastIndex((message) => message.type === "remove" && message.id === REMOVE_ALL);
  const merged: (Json | undefined)[] = cut < 0 ? [...left] : [];
  const changes = right.slice(cut + 1);
  // Only these ids are indexed: an index of the whole conversation would cost more than the run.
  const named = new Set(changes.map((message) => message.id));
  const places = new Map<Json | undefined, number>();
  merged.forEach((message, place) => {
    if (isObject(message) && named.has(message.id)) places.set(message.id, place);
  });
  for (const message of changes) {
    const place = places.get(message.id);
    if (message.type === "remove") {
      if (place === undefined) throw new Error(`There is no message ${JSON.stringify(message.id)} to remove`);
      merged[place] = undefined;
      places.delete(message.id);
    } else if (place === undefined) {
      places.set(message.id, merged.push(message) - 1);
    } else {
      merged[place] = message;
    }
  }
  return merged.filter((message) => message !== undefined);
}

/** `AIMessageChunk` → `ai`. */
export function plainType(type: string): string {
  return type.replace(/Message(Chunk)?$/, "").toLowerCase();
}

/** OpenAI's `{id, function: {name, arguments}}` in wire form. Invalid arguments go to `invalid_tool_calls`. */
function toolCalls(calls: readonly Json[]): JsonObject {
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

/** Tool arguments as an object; null while they are incomplete. */
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

/** Members that identify a part: they are replaced, not concatenated. */
const NAMES: ReadonlySet<string> = new Set(["type", "id", "index", "name"]);

/** Merges a part with its next chunk: strings concatenate, list elements merge by `index`, other values are replaced. */
export function grow(known: Json | undefined, delta: Json): Json {
  if (known === undefined || known === null) return delta;
  if (delta === null) return known;
  if (typeof known === "string" && typeof delta === "string") return known + delta;
  if (Array.isArray(known) && Array.isArray(delta)) return delta.reduce(growList, known);
  if (!isObject(known) || !isObject(delta)) return delta;
  const grown = Object.entries(delta).map(([key, value]): [string, Json] => {
    const had = Object.hasOwn(known, key) ? known[key] : undefined;
    return [key, NAMES.has(key) ? (value || value === 0 ? value : (had ?? value)) : grow(had, value)];
  });
  return { ...known, ...Object.fromEntries(grown) };
}

function growList(list: Json[], item: Json): Json[] {
  const place = list.findLastIndex(
    (other, at) => isObject(other) && isObject(item) && meets(other, item, at === list.length - 1),
  );
  return place < 0 ? [...list, item] : list.with(place, grow(list[place], item));
}

/** Chunks of one element have its index; text without an index continues the last block. */
function meets(block: JsonObject, piece: JsonObject, last: boolean): boolean {
  if (piece.index !== undefined && piece.index !== null) return block.index === piece.index;
  return last && piece.type === "text" && block.type === "text" && (block.index === undefined || block.index === null);
}

/** Adds numbers, in objects member by member. Other values are replaced. */
export function sum(known: Json, delta: Json): Json {
  if (typeof known === "number" && typeof delta === "number") return known + delta;
  if (!isObject(known) || !isObject(delta)) return delta;
  const sums = Object.entries(delta).map(([key, value]): [string, Json] => [
    key,
    Object.hasOwn(known, key) ? sum(known[key] as Json, value) : value,
  ]);
  return { ...known, ...Object.fromEntries(sums) };
}

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

/** One event of stream mode `messages`. */
export interface MessageFrame {
  readonly event: "messages/metadata" | "messages/partial" | "messages/complete";
  /** The namespace of the graph; empty for the root graph. */
  readonly namespace: readonly string[];
  readonly data: Json;
}

/** Derives the events of mode `messages` from those of mode `messages-tuple`. Holds only incomplete messages. */
export class MessageFrames {
  readonly #growing = new Map<string, { readonly namespace: readonly string[]; readonly message: JsonObject }>();

  /**
   * Takes one tuple. A chunk (`…MessageChunk`) yields its message so far, and the first one the metadata before that. A full message
   * is complete. Messages without an id are ignored.
   */
  chunk(message: JsonObject, metadata: JsonObject, at: readonly string[] = []): MessageFrame[] {
    const { id, type } = message;
    if (typeof id !== "string" || typeof type !== "string") return [];
    const known = this.#growing.get(id);
    const namespace = known?.namespace ?? at;
    if (!type.endsWith("MessageChunk")) {
      this.#growing.delete(id);
      return [{ event: "messages/complete", namespace, data: [message] }];
    }
    const grown = known ? mergeChunk(known.message, message) : { ...message, type: plainType(type) };
    this.#growing.set(id, { namespace, message: grown });
    const partial: MessageFrame = { event: "messages/partial", namespace, data: [shown(grown)] };
    return known ? [partial] : [{ event: "messages/metadata", namespace, data: { [id]: { metadata } } }, partial];
  }

  /** Takes a list of complete messages. Completes each one that was streamed in chunks, once, in its namespace. */
  finish(messages: Json | undefined): MessageFrame[] {
    const growing = this.#growing;
    if (growing.size === 0 || !Array.isArray(messages)) return [];
    const final: MessageFrame[] = [];
    // From the end, because streamed messages are among the newest.
    for (let at = messages.length - 1; at >= 0 && growing.size > 0; at--) {
      const message = messages[at] as Json;
      const known = isObject(message) ? growing.get(message.id as string) : undefined;
      if (!known) continue;
      growing.delete((message as JsonObject).id as string);
      final.unshift({ event: "messages/complete", namespace: known.namespace, data: [message] });
    }
    return final;
  }
}

/** An incomplete message in wire form: tool calls instead of their chunks, with `{}` for incomplete arguments. */
function shown(message: JsonObject): JsonObject {
  const { tool_call_chunks: chunks, ...rest } = message;
  if (!Array.isArray(chunks) || chunks.length === 0) return rest;
  const calls = chunks.filter(isObject).map((call) => ({
    name: call.name ?? "",
    args: parseArguments(call.args ?? "") ?? {},
    id: call.id ?? null,
    type: "tool_call",
  }));
  return { ...rest, tool_calls: calls };
}

function mergeChunk(known: JsonObject, delta: JsonObject): JsonObject {
  const {
    type: _type,
    content = "",
    additional_kwargs,
    response_metadata,
    usage_metadata,
    tool_call_chunks,
    ...rest
  } = delta;
  return {
    ...known,
    ...rest,
    content: mergeContent(known.content ?? "", content),
    additional_kwargs: grow(known.additional_kwargs ?? {}, additional_kwargs ?? {}),
    response_metadata: { ...(known.response_metadata as JsonObject), ...(response_metadata as JsonObject) },
    ...(usage_metadata ? { usage_metadata: sum(known.usage_metadata ?? null, usage_metadata) } : {}),
    ...(tool_call_chunks ? { tool_call_chunks: grow(known.tool_call_chunks ?? [], tool_call_chunks) } : {}),
  };
}

function mergeContent(known: Json, delta: Json): Json {
  if (typeof known === "string" && typeof delta === "string") return known + delta;
  return grow(blocks(known), blocks(delta));
}

function blocks(content: Json): Json {
  if (typeof content !== "string") return content;
  return content === "" ? [] : [{ type: "text", text: content }];
}

/** Merges what streams send in chunks: parts of messages, and the numbers of their usage. */
import { isObject, type Json, type JsonObject } from "../json.ts";

/** Members that identify a part: they are replaced, not concatenated. */
const IDENTIFYING: ReadonlySet<string> = new Set(["type", "id", "index", "name"]);

/** Merges a part with its next chunk: strings concatenate, list elements merge by `index`, other values are replaced. */
export function mergePart(known: Json | undefined, delta: Json): Json {
  if (known === undefined || known === null) return delta;
  if (delta === null) return known;
  if (typeof known === "string" && typeof delta === "string") return known + delta;
  if (Array.isArray(known) && Array.isArray(delta)) return delta.reduce(mergeElement, known);
  if (!isObject(known) || !isObject(delta)) return delta;
  const merged = Object.entries(delta).map(([key, value]): [string, Json] => {
    const previous = Object.hasOwn(known, key) ? known[key] : undefined;
    return [key, IDENTIFYING.has(key) ? mergeIdentity(previous, value) : mergePart(previous, value)];
  });
  return { ...known, ...Object.fromEntries(merged) };
}

/** An empty value says nothing, such as the name of a tool in later chunks of its call. An index of 0 is a value. */
function mergeIdentity(known: Json | undefined, value: Json): Json {
  if (value || value === 0) return value;
  return known ?? value;
}

function mergeElement(list: Json[], item: Json): Json[] {
  const place = list.findLastIndex(
    (other, at) => isObject(other) && isObject(item) && isSameBlock(other, item, at === list.length - 1),
  );
  return place < 0 ? [...list, item] : list.with(place, mergePart(list[place], item));
}

/** Chunks of one element have its index; text without an index continues the last block. */
function isSameBlock(block: JsonObject, piece: JsonObject, last: boolean): boolean {
  if (piece.index !== undefined && piece.index !== null) return block.index === piece.index;
  return last && piece.type === "text" && block.type === "text" && (block.index === undefined || block.index === null);
}

/** Adds numbers, in objects member by member. Other values are replaced. */
export function addNumbers(known: Json, delta: Json): Json {
  if (typeof known === "number" && typeof delta === "number") return known + delta;
  if (!isObject(known) || !isObject(delta)) return delta;
  const sums = Object.entries(delta).map(([key, value]): [string, Json] => [
    key,
    Object.hasOwn(known, key) ? addNumbers(known[key] as Json, value) : value,
  ]);
  return { ...known, ...Object.fromEntries(sums) };
}

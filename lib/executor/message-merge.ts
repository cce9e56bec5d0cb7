/** Merges chunks of streams: parts of messages, and the numbers of their usage. */
import { isObject, type Json, type JsonObject } from "../json.ts";

/** The members that identify a part. They are replaced, not concatenated. */
const IDENTIFYING: ReadonlySet<string> = new Set(["type", "id", "index", "name"]);

/**
 * Merges a part with its next chunk: strings are concatenated (ids and types are not), objects merged by member, list elements by
 * `index`, other values replaced. Null changes nothing.
 */
export function mergePart(part: Json | undefined, delta: Json): Json {
  if (part === undefined || part === null) return delta;
  if (delta === null) return part;
  if (typeof part === "string" && typeof delta === "string") return part + delta;
  if (Array.isArray(part) && Array.isArray(delta)) return delta.reduce(mergeElement, part);
  if (!isObject(part) || !isObject(delta)) return delta;
  const merged = Object.entries(delta).map(([key, value]): [string, Json] => {
    const previous = Object.hasOwn(part, key) ? part[key] : undefined;
    return [key, IDENTIFYING.has(key) ? mergeIdentity(previous, value) : mergePart(previous, value)];
  });
  return { ...part, ...Object.fromEntries(merged) };
}

/**
 * Returns `value`, or `previous` if `value` is empty, such as the name of a tool in later chunks of its call. An index of 0 is a
 * value.
 */
function mergeIdentity(previous: Json | undefined, value: Json): Json {
  if (value || value === 0) return value;
  return previous ?? value;
}

/** Returns a copy of the list with the piece merged into the block that it continues, or appended. */
function mergeElement(list: Json[], piece: Json): Json[] {
  const index = list.findLastIndex(
    (element, elementIndex) =>
      isObject(element) && isObject(piece) && isSameBlock(element, piece, elementIndex === list.length - 1),
  );
  return index < 0 ? [...list, piece] : list.with(index, mergePart(list[index], piece));
}

/**
 * Returns true if the part continues the block: chunks of one element have its index, and text without an index continues the
 * last block.
 */
function isSameBlock(block: JsonObject, piece: JsonObject, isLast: boolean): boolean {
  if (piece.index !== undefined && piece.index !== null) return block.index === piece.index;
  return (
    isLast && piece.type === "text" && block.type === "text" && (block.index === undefined || block.index === null)
  );
}

/** Returns the sum of two numbers, or of two objects member by member. Returns `delta` if the values are neither. */
export function addNumbers(sum: Json, delta: Json): Json {
  if (typeof sum === "number" && typeof delta === "number") return sum + delta;
  if (!isObject(sum) || !isObject(delta)) return delta;
  const sums = Object.entries(delta).map(([key, value]): [string, Json] => [
    key,
    Object.hasOwn(sum, key) ? addNumbers(sum[key] as Json, value) : value,
  ]);
  return { ...sum, ...Object.fromEntries(sums) };
}

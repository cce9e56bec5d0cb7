/** JSON types and comparisons. */

/**
 * A JSON value as `JSON.parse` returns it. `__proto__` can be an own key: copy objects by spread or `fromEntries`, never by
 * assignment.
 */
export type Json = string | number | boolean | null | Json[] | JsonObject;

/** A JSON object. */
export interface JsonObject {
  [key: string]: Json;
}

/** Texts of answers, of a form that the OpenAPI document names. Times are UTC. */
export type Uuid = string;
/** A time in ISO 8601, UTC. */
export type IsoTime = string;

export interface SharedText {
  readonly json: string;
}

const sharedTexts = new WeakMap<object, WeakRef<SharedText>>();
const registeredTexts = new WeakMap<object, string>();

/**
 * Returns the JSON text of a value that several readers get: for one object they share the returned text while one of them has
 * it. Text that was registered for the object is used as it is. The value must not change.
 */
export function stringifyShared(value: Json): SharedText {
  if (typeof value !== "object" || value === null) return { json: JSON.stringify(value) };
  const cached = sharedTexts.get(value)?.deref();
  const text = cached ?? { json: registeredTexts.get(value) ?? JSON.stringify(value) };
  if (!cached) sharedTexts.set(value, new WeakRef(text));
  return text;
}

/** Registers the JSON text of an object for `stringifyShared`. It is kept as long as the object. */
export function registerText(value: JsonObject, json: string): void {
  registeredTexts.set(value, json);
}

/** Values below this depth are not copied: one that contains itself would have no end. */
const MAX_COPY_DEPTH = 32;

/**
 * Returns a deep copy of plain JSON, without undefined members of objects. Returns undefined if anything in it is not plain
 * JSON, such as null-prototype objects, class instances or infinite numbers, or nests deeper than `MAX_COPY_DEPTH`; also for
 * null itself.
 */
export function copyPlainJson(value: unknown, depth = 0): Json | undefined {
  if (typeof value === "string" || typeof value === "boolean") return value;
  // JSON.stringify writes −0 as 0.
  if (typeof value === "number") return Number.isFinite(value) ? value + 0 : undefined;
  if (typeof value !== "object" || value === null || depth > MAX_COPY_DEPTH) return undefined;
  return Array.isArray(value) ? copyList(value, depth) : copyObject(value, depth);
}

const copyMember = (item: unknown, depth: number): Json | undefined =>
  item === null ? null : copyPlainJson(item, depth + 1);

/** Returns a copy of the list; undefined if an element is not plain JSON. */
function copyList(list: readonly unknown[], depth: number): Json[] | undefined {
  const copies: Json[] = [];
  for (const item of list) {
    const copy = copyMember(item, depth);
    if (copy === undefined) return undefined;
    copies.push(copy);
  }
  return copies;
}

/**
 * Returns a copy without undefined members. Returns undefined for an object with a class, a `toJSON` or a member `__proto__`,
 * or if a member is not plain JSON.
 */
function copyObject(value: object, depth: number): JsonObject | undefined {
  if (Object.getPrototypeOf(value) !== Object.prototype || "toJSON" in value) return undefined;
  const copies: JsonObject = {};
  for (const name of Object.keys(value)) {
    const item = (value as Record<string, unknown>)[name];
    if (item === undefined) continue;
    const copy = copyMember(item, depth);
    if (copy === undefined || name === "__proto__") return undefined;
    copies[name] = copy;
  }
  return copies;
}

/** True for an object that is neither an array nor null. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns true if two JSON values are equal; the order of object keys does not matter. */
export function sameJson(a: Json, b: Json): boolean {
  if (a === b) return true;
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((item, i) => sameJson(item, b[i] as Json));
  }
  if (!isObject(a) || !isObject(b)) return false;
  const keys = Object.keys(a);
  return (
    keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && sameJson(a[key] as Json, b[key] as Json))
  );
}

/**
 * Returns the first item of a list whose JSON text may be cut off anywhere. Of an item that is cut off, it returns the members
 * and the part of the last text that are there. Undefined for an empty list and for other text.
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a scanner of one text, whose states are read together
export function parseFirstItem(text: string): Json | undefined {
  if (!text.startsWith("[")) return undefined;
  const closers: string[] = [];
  let inText = false;
  let end = text.length;
  // Before the last comma, everything is whole.
  let [whole, completeClosers] = [0, ""];
  for (let index = 1; index < end; index++) {
    const char = text[index] as string;
    if (inText) {
      if (char === "\\") {
        const escapeEnd = index + (text[index + 1] === "u" ? 5 : 1);
        if (escapeEnd >= end) end = index;
        index = escapeEnd;
      } else if (char === '"') inText = false;
    } else if (char === '"') inText = true;
    else if (char === "{" || char === "[") closers.unshift(char === "{" ? "}" : "]");
    else if (closers.length === 0 && (char === "," || char === "]")) return tryParse(text.slice(1, index));
    else if (char === "}" || char === "]") closers.shift();
    else if (char === ",") [whole, completeClosers] = [index, closers.join("")];
  }
  const closedText = `${text.slice(1, end)}${inText ? '"' : ""}${closers.join("")}`;
  return tryParse(closedText) ?? tryParse(text.slice(1, whole) + completeClosers);
}

/** Returns the parsed value; undefined for invalid JSON. */
function tryParse(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** Returns the members of an object that are neither objects nor arrays, including null; `{}` for any other value. */
export function pickScalars(values: Json | undefined): JsonObject {
  if (!isObject(values)) return {};
  return Object.fromEntries(Object.entries(values).filter(([, value]) => typeof value !== "object" || value === null));
}

/**
 * Returns true if `whole` contains `part` as Postgres `@>` has it: objects match as subsets, and each element of an array in
 * `part` is contained in some element of the array in `whole`. Scalars match by equality.
 */
export function contains(whole: Json, part: Json): boolean {
  if (Array.isArray(part)) {
    return Array.isArray(whole) && part.every((item) => whole.some((candidate) => contains(candidate, item)));
  }
  if (isObject(part)) {
    return (
      isObject(whole) &&
      Object.keys(part).every((key) => Object.hasOwn(whole, key) && contains(whole[key] as Json, part[key] as Json))
    );
  }
  return whole === part;
}

/** Returns the index at which a piece of a text ends: `end`, or one more if it would split a surrogate pair. */
export function surrogateSafeEnd(text: string, end: number): number {
  return (text.charCodeAt(end) & 0xfc00) === 0xdc00 ? end + 1 : Math.min(end, text.length);
}

/** Returns at most so many characters from the start of a text, as a copy: a part of a text can keep all of it in memory. */
export function copyStart(text: string, max_chars: number): string {
  if (text.length <= max_chars) return text;
  const splitsPair = (text.charCodeAt(max_chars - 1) & 0xfc00) === 0xd800;
  return ` ${text.slice(0, splitsPair ? max_chars - 1 : max_chars)}`.slice(1);
}

/** Copies values of functions as JSON, and describes their types in errors. */
import { copyPlainJson, type Json } from "../json.ts";

/**
 * Returns a deep copy of a JSON value. Converts objects with `toJSON` (dates, LangChain messages) and omits undefined
 * members. Throws a TypeError that names the path of any other value.
 */
export function copyJson(value: unknown, path: string): Json {
  return copyPlainJson(value) ?? copyAtPath(value, { name: path, parent: null, object: undefined });
}

/** The path of a value, formatted only for an error. `object` is the value if its members are being copied. */
interface JsonPath {
  /** Null for the result of `toJSON` of the parent's object. */
  readonly name: string | number | null;
  readonly parent: JsonPath | null;
  object: object | undefined;
}

/** Returns a path as text, such as `update.items[0].name`. The result of `toJSON` has the path of its object. */
function formatPath({ name, parent }: JsonPath): string {
  if (!parent) return `${name}`;
  if (name === null) return formatPath(parent);
  return `${formatPath(parent)}${typeof name === "number" ? `[${name}]` : `.${name}`}`;
}

/**
 * Returns a deep copy of a JSON value without undefined members; an object with `toJSON` is replaced by its result. Sets
 * `path.object`, by which members detect a cycle. Throws a TypeError with the path for anything else: undefined list items,
 * cycles, class instances, numbers that are not finite.
 */
function copyAtPath(value: unknown, path: JsonPath): Json {
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  if (typeof value !== "object") throw new TypeError(`Not JSON: ${formatPath(path)} is ${describeType(value)}`);
  for (let ancestor = path.parent; ancestor; ancestor = ancestor.parent) {
    if (ancestor.object === value) throw new TypeError(`Not JSON: ${formatPath(path)} contains itself`);
  }
  path.object = value;
  const createChildPath = (name: JsonPath["name"]): JsonPath => ({ name, parent: path, object: undefined });
  if (Array.isArray(value)) return Array.from(value, (item, index) => copyAtPath(item, createChildPath(index)));
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === "function") return copyAtPath(toJSON.call(value), createChildPath(null));
  if (!isPlainObject(value)) throw new TypeError(`Not JSON: ${formatPath(path)} is ${describeType(value)}`);
  const members: [string, Json][] = [];
  for (const [key, item] of Object.entries(value)) {
    if (item !== undefined) members.push([key, copyAtPath(item, createChildPath(key))]);
  }
  return Object.fromEntries(members);
}

/** Returns true for object literals of any realm and for objects without a prototype. */
export function isPlainObject(value: unknown): value is object {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype = Object.getPrototypeOf(value) as object | null;
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/**
 * Returns words for a value in an error message: "a function", "a list", "an instance of Date" or "the bigint 1". Null, undefined
 * and other primitives are returned as `String` formats them.
 */
export function describeType(value: unknown): string {
  if (typeof value === "function") return "a function";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object" && value !== null) return `an instance of ${value.constructor?.name || "a class"}`;
  return typeof value === "bigint" ? `the bigint ${value}` : String(value);
}

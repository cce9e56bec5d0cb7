/** Values of functions: copies of JSON, and what they are called in errors. */
import { copyPlainJson, type Json } from "../json.ts";

/**
 * A deep copy of a JSON value. Objects with `toJSON` (dates, LangChain messages) are converted, undefined members are left out.
 * Any other value throws an error that names its path.
 */
export function copyJson(value: unknown, path: string): Json {
  return copyPlainJson(value) ?? copyAtPath(value, { name: path, parent: null, object: undefined });
}

/** Where a value is: its text is made only for an error. `holds`: the object there, whose members are copied. */
interface JsonPath {
  /** Null: in the place above, whose object has become it by `toJSON`. */
  readonly name: string | number | null;
  readonly parent: JsonPath | null;
  object: object | undefined;
}

function formatPath({ name, parent }: JsonPath): string {
  if (!parent) return `${name}`;
  if (name === null) return formatPath(parent);
  return `${formatPath(parent)}${typeof name === "number" ? `[${name}]` : `.${name}`}`;
}

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

/** An object made by a literal, in any realm, or one without a prototype. */
export function isPlainObject(value: unknown): value is object {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype = Object.getPrototypeOf(value) as object | null;
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

export function describeType(value: unknown): string {
  if (typeof value === "function") return "a function";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object" && value !== null) return `an instance of ${value.constructor?.name || "a class"}`;
  return typeof value === "bigint" ? `the bigint ${value}` : String(value);
}

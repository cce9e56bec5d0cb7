/** Values of functions: copies of JSON, and what they are called in errors. */
import { type Json, plainCopy } from "../json.ts";

/**
 * A deep copy of a JSON value. Objects with `toJSON` (dates, LangChain messages) are converted, undefined members are left out.
 * Any other value throws an error that names its path.
 */
export function copyJson(value: unknown, path: string): Json {
  return plainCopy(value) ?? copied(value, { name: path, above: null, holds: undefined });
}

/** Where a value is: its text is made only for an error. `holds`: the object there, whose members are copied. */
interface JsonPlace {
  /** Null: in the place above, whose object has become it by `toJSON`. */
  readonly name: string | number | null;
  readonly above: JsonPlace | null;
  holds: object | undefined;
}

function pathOf({ name, above }: JsonPlace): string {
  if (!above) return `${name}`;
  if (name === null) return pathOf(above);
  return `${pathOf(above)}${typeof name === "number" ? `[${name}]` : `.${name}`}`;
}

function copied(value: unknown, place: JsonPlace): Json {
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  if (typeof value !== "object") throw new TypeError(`Not JSON: ${pathOf(place)} is ${describe(value)}`);
  for (let at = place.above; at; at = at.above) {
    if (at.holds === value) throw new TypeError(`Not JSON: ${pathOf(place)} contains itself`);
  }
  place.holds = value;
  const inside = (name: JsonPlace["name"]): JsonPlace => ({ name, above: place, holds: undefined });
  if (Array.isArray(value)) return Array.from(value, (item, at) => copied(item, inside(at)));
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === "function") return copied(toJSON.call(value), inside(null));
  if (!isPlainObject(value)) throw new TypeError(`Not JSON: ${pathOf(place)} is ${describe(value)}`);
  const members: [string, Json][] = [];
  for (const [key, item] of Object.entries(value)) {
    if (item !== undefined) members.push([key, copied(item, inside(key))]);
  }
  return Object.fromEntries(members);
}

/** An object made by a literal, in any realm, or one without a prototype. */
export function isPlainObject(value: unknown): value is object {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype = Object.getPrototypeOf(value) as object | null;
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

export function describe(value: unknown): string {
  if (typeof value === "function") return "a function";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object" && value !== null) return `an instance of ${value.constructor?.name || "a class"}`;
  return typeof value === "bigint" ? `the bigint ${value}` : String(value);
}

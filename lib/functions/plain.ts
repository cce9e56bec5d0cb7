/** Values of functions: copies of JSON, and what they are called in errors. */
import type { Json } from "../json.ts";

/**
 * A deep copy of a JSON value. Objects with `toJSON` (dates, LangChain messages) are converted, undefined members are left out.
 * Any other value throws an error that names its path.
 */
export function copyJson(value: unknown, path: string, above: readonly object[] = []): Json {
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  if (typeof value !== "object") throw new TypeError(`Not JSON: ${path} is ${describe(value)}`);
  if (above.includes(value)) throw new TypeError(`Not JSON: ${path} contains itself`);
  const inside = [...above, value];
  if (Array.isArray(value)) return Array.from(value, (item, at) => copyJson(item, `${path}[${at}]`, inside));
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === "function") return copyJson(toJSON.call(value), path, inside);
  if (!isPlainObject(value)) throw new TypeError(`Not JSON: ${path} is ${describe(value)}`);
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, item]) => item !== undefined)
      .map(([key, item]) => [key, copyJson(item, `${path}.${key}`, inside)]),
  );
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

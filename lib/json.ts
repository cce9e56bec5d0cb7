/** A JSON value as `JSON.parse` gives it. `__proto__` may be an own key: copy objects by spread or `fromEntries`, never by assignment. */
export type Json = string | number | boolean | null | Json[] | JsonObject;

/** A JSON object. */
export interface JsonObject {
  [key: string]: Json;
}

/** True for a JSON object: neither an array nor null. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Two JSON values of the same content; the order of keys does not count. */
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

/** The members of an object that are neither objects nor lists. */
export function scalarsOf(values: Json | undefined): JsonObject {
  if (!isObject(values)) return {};
  return Object.fromEntries(Object.entries(values).filter(([, value]) => typeof value !== "object" || value === null));
}

/**
 * JSON containment: every key of `part` exists in `whole`; objects match as subsets, recursively; each element of an
 * array in `part` is contained in some element of the array in `whole`; scalars match by equality. `{}` is in every object.
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

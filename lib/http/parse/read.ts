/** Reads and validates bodies, queries and path segments. Every error names its field. */
import * as v from "valibot";
import { ServiceError } from "../../errors.ts";
import { isObject, type JsonObject } from "../../json.ts";
import { findingOf } from "../../validation.ts";
import { type Fields, UUID } from "./pieces.ts";

/** Bodies that were scanned on arrival and nest no deeper than MAX_DEPTH. */
export const shallow: WeakSet<Uint8Array> = new WeakSet();

/** The schema of a route that reads no fields. */
export const nothing: Fields<unknown> = v.object({});

/** The deepest nesting of arrays and objects in a body. */
export const MAX_DEPTH = 64;

/** Reads a body as JSON, whatever its content type, and validates it. No body counts as `{}`; unknown fields are dropped. */
export function readObject<Output>(bytes: Uint8Array, schema: Fields<Output>): Output {
  const body = bytes.length === 0 ? {} : readJson(bytes);
  if (!isObject(body)) throw new ServiceError("invalid", "body: must be an object");
  return check(schema, body);
}

/** A body that is a list with at least one item. */
export function readList<Output>(bytes: Uint8Array, schema: Fields<Output>): Output[] {
  const body = bytes.length === 0 ? [] : readJson(bytes);
  if (!Array.isArray(body) || body.length === 0) {
    throw new ServiceError("invalid", "body: must be a list with at least one item");
  }
  return body.map((item, i) => {
    if (!isObject(item)) throw new ServiceError("invalid", `${i}: must be an object`);
    return check(schema, item, `${i}.`);
  });
}

/** Errors: bad_request (no JSON), invalid (nested too deep). */
export function readJson(bytes: Uint8Array): unknown {
  if (!shallow.has(bytes) && nestsDeeper(bytes, MAX_DEPTH))
    throw new ServiceError("invalid", `body: must not nest deeper than ${MAX_DEPTH} levels`);
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new ServiceError("bad_request", "The body is not valid JSON");
  }
}

/** The values of a query by name, as the router parses them. */
export type SentQuery = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Reads a query: lists in any encoding that clients use, booleans in any spelling, empty values as absent. */
export function readQuery<Output>(query: SentQuery, schema: Fields<Output>): Output {
  const given: Record<string, unknown> = {};
  for (const key of Object.keys(schema.entries)) {
    const sent = [query[key] ?? []].flat().filter((value) => value !== "");
    if (sent.length > 0) given[key] = fromQuery(schema.entries[key] as v.GenericSchema, sent);
  }
  return check(schema, given as JsonObject);
}

/** A thread or run id of a path, in lower case. */
export function readId(value: string | undefined, field: string): string {
  const id = readSegment(value, field);
  if (!UUID.test(id)) throw new ServiceError("invalid", `${field}: must be a UUID`);
  return id.toLowerCase();
}

/** The assistant of a path: a UUID in lower case, or a graph id. */
export function readAssistantId(value: string | undefined): string {
  const id = readSegment(value, "assistant_id");
  return UUID.test(id) ? id.toLowerCase() : id;
}

/** A path segment, decoded once. Errors: invalid, where it could be read as more than one segment. */
export function readSegment(value: string | undefined, field: string): string {
  let decoded: string;
  try {
    decoded = decodeURIComponent(value ?? "");
  } catch {
    throw new ServiceError("invalid", `${field}: is not valid percent-encoding`);
  }
  if (/[/\\\0]/.test(decoded) || decoded === "." || decoded === "..") {
    throw new ServiceError("invalid", `${field}: must not contain slashes, backslashes or U+0000`);
  }
  return decoded;
}

/** Checks an object that was parsed before. Unknown fields are dropped. Errors: invalid. */
export const readFields = <Output>(sent: object, schema: Fields<Output>): Output => check(schema, sent as JsonObject);

function check<Output>(schema: Fields<Output>, sent: JsonObject, place = ""): Output {
  const given: JsonObject = {};
  for (const key of Object.keys(schema.entries)) {
    const value = sent[key];
    if (value !== null && value !== undefined) given[key] = value;
  }
  const result = v.safeParse(schema, given, { abortEarly: true });
  if (result.success) {
    const beyond = Object.keys(given).find((key) => !isFiniteJson(given[key]));
    if (beyond === undefined) return result.output;
    throw new ServiceError("invalid", `${place}${beyond}: ${BEYOND}`);
  }
  const issue = result.issues[0];
  const { loc, msg } = findingOf(issue);
  const missing = issue.path?.at(-1)?.value === undefined;
  throw new ServiceError("invalid", `${place}${loc.join(".") || "body"}: ${missing ? "is required" : msg}`);
}

/** The error text of a value that is not `isFiniteJson`. */
export const BEYOND = "must not contain numbers beyond the range of a double";

/** False for numbers such as 1e999: JSON.parse reads Infinity, which JSON.stringify would write as null. */
export function isFiniteJson(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return typeof value !== "number" || Number.isFinite(value);
  return (Array.isArray(value) ? value : Object.values(value)).every(isFiniteJson);
}

/** Counts brackets outside strings, because JSON.parse would recurse into them. */
export function nestsDeeper(bytes: Uint8Array, limit: number): boolean {
  let depth = 0;
  let quoted = false;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if (byte === 0x22) quoted = !quoted;
    else if (quoted) {
      if (byte === 0x5c) i++;
    } else if (byte === 0x5b || byte === 0x7b) {
      if (++depth > limit) return true;
    } else if (byte === 0x5d || byte === 0x7d) depth--;
  }
  return false;
}

/** Converts query text to the type that the schema of its field expects. Other text stays, and fails the validation. */
function fromQuery(schema: v.GenericSchema, sent: readonly string[]): unknown {
  const { type, wrapped, options } = schema as { type: string; wrapped?: v.GenericSchema; options?: unknown };
  const last = sent.at(-1) as string;
  if (wrapped) return fromQuery(wrapped, sent);
  if (type === "array") return sent.flatMap(listItems);
  if (type === "boolean") return toBoolean(last) ?? last;
  if (type === "number") return toNumber(last) ?? last;
  if (type === "union" && Array.isArray(options)) return toNumber(last) ?? toBoolean(last) ?? last;
  return last;
}

export function listItems(sent: string): unknown[] {
  if (sent.startsWith("[")) {
    try {
      const list: unknown = JSON.parse(sent);
      if (Array.isArray(list)) return list;
    } catch {
      // Not a JSON array: a name that starts with a bracket.
    }
  }
  return sent.split(",").filter((item) => item !== "");
}

const toNumber = (sent: string): number | undefined => (/^-?\d+(\.\d+)?$/.test(sent) ? Number(sent) : undefined);

function toBoolean(sent: string): boolean | undefined {
  if (/^(true|1|yes)$/i.test(sent)) return true;
  if (/^(false|0|no)$/i.test(sent)) return false;
  return undefined;
}

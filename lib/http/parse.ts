/** Validates requests: reads JSON bodies, queries and path segments, with the schemas that several routes share. Every error names its field. */
import * as v from "valibot";
import { type ErrorReason, InputError, invalidFieldError, ServiceError } from "../errors.ts";
import { STREAM_MODES, type StreamMode } from "../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import { UUID } from "../storage/identity.ts";
import type { RunStatus, ThreadStatus } from "../storage/mod.ts";
import type { CheckpointSelector } from "../threads/mod.ts";
import {
  flag,
  isFiniteJson,
  isStorable,
  NOT_STORABLE,
  NUMBER_OUT_OF_RANGE,
  stringEnum,
  toInputIssue,
} from "../validation.ts";
import { JsonScan, MAX_DEPTH } from "./json-scan.ts";

/** The bodies that were scanned when they were received, and that nest no deeper than MAX_DEPTH. */
export const depthCheckedBodies: WeakSet<Uint8Array> = new WeakSet();

/** The schema of a body or a query without fields. */
export const noFields: FieldSchema<unknown> = v.object({});

/** Called with the keys of a body that its schema does not define. `allowed` are the keys that it defines. */
export type OnUnknownKeys = (keys: readonly string[], allowed: readonly string[]) => void;

/** Reports the members of the body that the schema does not have, once, if there are any and somebody listens. */
function reportUnknownKeys(body: JsonObject, { entries }: FieldSchema<unknown>, onUnknownKeys?: OnUnknownKeys): void {
  const unknown = onUnknownKeys ? Object.keys(body).filter((key) => !Object.hasOwn(entries, key)) : [];
  if (unknown.length > 0) onUnknownKeys?.(unknown, Object.keys(entries));
}

/**
 * Parses a body as JSON regardless of its content type, and validates it. No body counts as `{}`. Drops unknown fields, after a
 * call of `onUnknownKeys`. Throws `bad_request` or `invalid`.
 */
export function readObject<Output>(
  bytes: Uint8Array,
  schema: FieldSchema<Output>,
  { onUnknownKeys }: { readonly onUnknownKeys?: OnUnknownKeys | undefined } = {},
): Output {
  const body = bytes.length === 0 ? {} : readJson(bytes);
  if (!isObject(body)) throw invalidFieldError("body", "must be an object");
  reportUnknownKeys(body, schema, onUnknownKeys);
  return validate(schema, body);
}

/** Parses and validates a body that must be a list with at least one item. Drops unknown fields. Throws as `readObject`. */
export function readList<Output>(
  bytes: Uint8Array,
  schema: FieldSchema<Output>,
  { onUnknownKeys }: { readonly onUnknownKeys?: OnUnknownKeys | undefined } = {},
): Output[] {
  const body = bytes.length === 0 ? [] : readJson(bytes);
  if (!Array.isArray(body) || body.length === 0) {
    throw invalidFieldError("body", "must be a list with at least one item");
  }
  return body.map((item, i) => {
    if (!isObject(item)) throw invalidFieldError(`${i}`, "must be an object");
    reportUnknownKeys(item, schema, onUnknownKeys);
    return validate(schema, item, [i]);
  });
}

/**
 * Parses a body as JSON. Throws `bad_request` if it is not JSON or not UTF-8, and `invalid` if it nests too deep. Does
 * not check the depth of bytes in `depthCheckedBodies`.
 */
export function readJson(bytes: Uint8Array): unknown {
  if (!depthCheckedBodies.has(bytes) && !new JsonScan().scan(bytes, bytes.length))
    throw invalidFieldError("body", `must not nest deeper than ${MAX_DEPTH} levels`);
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new ServiceError("bad_request", "The body is not valid JSON");
  }
}

/** The unvalidated values of a query by name. */
export type RawQuery = Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * Validates a query. Accepts lists in each encoding that clients use and booleans in each spelling. Empty values count as absent.
 * Ignores unknown parameters. Throws `invalid`.
 */
export function readQuery<Output>(query: RawQuery, schema: FieldSchema<Output>): Output {
  const present: Record<string, unknown> = {};
  for (const key of Object.keys(schema.entries)) {
    const input = [query[key] ?? []].flat().filter((value) => value !== "");
    if (input.length > 0) present[key] = convertQueryText(schema.entries[key] as v.GenericSchema, input);
  }
  return validate(schema, present as JsonObject);
}

/** Parses a UUID of a path and returns it in lower case. Throws `invalid`. */
export function parseUuid(value: string | undefined, field: string): string {
  const id = parsePathSegment(value, field);
  if (!UUID.test(id)) throw invalidFieldError(field, "must be a UUID");
  return id.toLowerCase();
}

/**
 * Parses an id of a path, and returns it in lower case. Throws `not_found` if it is no UUID or absent, with the
 * `reason` of an id that does not exist.
 */
export function parseResourceId(
  value: string | undefined,
  resourceName: string,
  reason: ErrorReason = "not_found",
): string {
  if (value !== undefined && UUID.test(value)) return value.toLowerCase();
  throw new ServiceError(reason, `${resourceName} not found`);
}

/**
 * Decodes the assistant of a path. Returns a UUID in lower case, and any other text unchanged as a graph id. Throws
 * `invalid` as `parsePathSegment`.
 */
export function parseAssistantId(value: string | undefined): string {
  const id = parsePathSegment(value, "assistant_id");
  return UUID.test(id) ? id.toLowerCase() : id;
}

/**
 * Decodes the percent-encoding of a path segment once; an absent segment is an empty text. Throws `invalid` for a
 * malformed encoding, and if the result is `.` or `..` or has a slash, a backslash or U+0000.
 */
export function parsePathSegment(value: string | undefined, field: string): string {
  let decoded: string;
  try {
    decoded = decodeURIComponent(value ?? "");
  } catch {
    throw invalidFieldError(field, "is not valid percent-encoding");
  }
  if (/[/\\\0]/.test(decoded) || decoded === "." || decoded === "..") {
    throw invalidFieldError(field, "must not contain slashes, backslashes or U+0000");
  }
  return decoded;
}

/** Validates a parsed object. Drops unknown fields. Throws `invalid`. */
export const validateFields = <Output>(input: object, schema: FieldSchema<Output>): Output =>
  validate(schema, input as JsonObject);

/**
 * Validates an object and drops unknown fields. Null counts as absent except in `v.nullish` fields. Throws an InputError with the
 * first finding, also for a number that JSON cannot hold.
 */
function validate<Output>(
  schema: FieldSchema<Output>,
  input: JsonObject,
  locationPrefix: readonly number[] = [],
): Output {
  const present: JsonObject = {};
  for (const key of Object.keys(schema.entries)) {
    const value = input[key];
    if (value !== undefined && (value !== null || schema.entries[key]?.type === "nullish")) present[key] = value;
  }
  const result = v.safeParse(schema, present, { abortEarly: true });
  if (result.success) {
    const invalidKey = Object.keys(present).find((key) => !isFiniteJson(present[key]));
    if (invalidKey === undefined) return result.output;
    throw new InputError([{ loc: [...locationPrefix, invalidKey], msg: NUMBER_OUT_OF_RANGE, type: "value_error" }]);
  }
  const issue = result.issues[0];
  const { loc, msg } = toInputIssue(issue, locationPrefix);
  const missing = issue.path?.at(-1)?.value === undefined;
  const finding = missing ? { msg: "is required", type: "missing" } : { msg, type: "value_error" };
  throw new InputError([{ loc: issue.path ? loc : [...locationPrefix, "body"], ...finding }]);
}

/**
 * Converts query text to the type of its field: a list from all of `input`, a boolean, a number or a text from the last
 * element of it. Returns text that does not fit unchanged, so that it fails the validation.
 */
function convertQueryText(schema: v.GenericSchema, input: readonly string[]): unknown {
  const { type, wrapped, options } = schema as { type: string; wrapped?: v.GenericSchema; options?: unknown };
  const lastText = input.at(-1) as string;
  if (wrapped) return convertQueryText(wrapped, input);
  if (type === "array") return input.flatMap(parseListItems);
  if (type === "boolean") return toBoolean(lastText) ?? lastText;
  if (type === "number") return toNumber(lastText) ?? lastText;
  if (type === "union" && Array.isArray(options)) return toNumber(lastText) ?? toBoolean(lastText) ?? lastText;
  return lastText;
}

/** Parses a list in a query: a JSON array, or names separated by commas. */
export const parseListItems = (input: string): unknown[] =>
  parseJsonList(input) ?? input.split(",").filter((item) => item !== "");

/** Parses a JSON array. Returns undefined for other text, such as a name that starts with a bracket. */
export function parseJsonList(input: string): unknown[] | undefined {
  if (!input.startsWith("[")) return undefined;
  try {
    const list: unknown = JSON.parse(input);
    return Array.isArray(list) ? list : undefined;
  } catch {
    return undefined;
  }
}

const toNumber = (input: string): number | undefined => (/^-?\d+(\.\d+)?$/.test(input) ? Number(input) : undefined);

/**
 * Returns true for `true`, `1` and `yes`, false for `false`, `0` and `no`, in any case, and undefined for other text.
 */
function toBoolean(input: string): boolean | undefined {
  if (/^(true|1|yes)$/i.test(input)) return true;
  if (/^(false|0|no)$/i.test(input)) return false;
  return undefined;
}

/** A schema of named fields. Null counts as absent, except in a `v.nullish` field, where it clears the stored value. */
export type FieldSchema<Output> = v.GenericSchema<unknown, Output> & {
  readonly entries: Readonly<Record<string, v.GenericSchema>>;
};

export { flag, stringEnum as oneOf, UUID };

/** The maximum length of the name of a node, a graph or a checkpoint. */
const MAX_NAME_CHARS = 1_024;
export const text: v.GenericSchema<string> = v.pipe(v.string("must be a string"), v.check(isStorable, NOT_STORABLE));
export const name: v.GenericSchema<string> = v.pipe(
  v.string("must be a string"),
  v.nonEmpty("must not be empty"),
  v.maxLength(MAX_NAME_CHARS, `must have at most ${MAX_NAME_CHARS} characters`),
  v.check(isStorable, NOT_STORABLE),
);
export const uuid: v.GenericSchema<string> = v.pipe(
  v.string("must be a UUID"),
  v.regex(UUID, "must be a UUID"),
  v.toLowerCase(),
);
/** A UUID, or the id of a graph for its default assistant. */
export const assistantId: v.GenericSchema<string> = v.pipe(
  name,
  v.transform((id) => (UUID.test(id) ? id.toLowerCase() : id)),
);
/** Creates the schema of an integer from `min` to `max`. The text of its error omits a `max` that no number exceeds. */
export const integer = (min: number, max: number): v.GenericSchema<number> => {
  const range = max === Number.MAX_SAFE_INTEGER ? `must be at least ${min}` : `must be between ${min} and ${max}`;
  return v.pipe(
    v.number("must be an integer"),
    v.integer("must be an integer"),
    v.minValue(min, range),
    v.maxValue(max, range),
  );
};
/** Adds a description for the OpenAPI document to a schema. */
export const withDescription = <Described extends v.GenericSchema>(schema: Described, text: string): Described =>
  v.pipe(schema, v.description(text)) as unknown as Described;
export const listSchema = <Item>(item: v.GenericSchema<Item>): v.GenericSchema<Item[]> =>
  v.array(item, "must be a list");
export const pageFields: {
  readonly limit: v.OptionalSchema<v.GenericSchema<number>, 10>;
  readonly offset: v.OptionalSchema<v.GenericSchema<number>, 0>;
} = {
  limit: v.optional(integer(1, 1000), 10),
  offset: v.optional(integer(0, Number.MAX_SAFE_INTEGER), 0),
};
const order: v.OptionalSchema<v.GenericSchema<"asc" | "desc">, undefined> = v.optional(stringEnum(["asc", "desc"]));

/** Returns the schemas of `sort_by`, which is one of `fields`, and `sort_order`. */
export const sortFields = <Field extends string>(
  fields: readonly Field[],
): { readonly sort_by: v.GenericSchema<Field | undefined>; readonly sort_order: typeof order } => ({
  sort_by: v.optional(stringEnum(fields)),
  sort_order: order,
});

/**
 * Returns the schema of an object of the user. Validates only `entries`. Its output is the input itself, so that keys
 * such as `__proto__` survive, or a copy without the members in `entries` that are null.
 */
export function passthroughObject<Output extends object = JsonObject>(
  entries: Readonly<Record<string, v.GenericSchema>> = {},
): v.GenericSchema<Output> {
  const shape = v.object(entries, "must be an object");
  const schema: v.GenericSchema<JsonObject> = {
    ...(shape as unknown as v.GenericSchema<JsonObject>),
    /** Validates the entries. The output is the input without the null members that `entries` names. */
    "~run"(dataset, config) {
      const input = isObject(dataset.value) ? omitNulls(dataset.value, entries) : undefined;
      const result = shape["~run"]({ value: input }, config);
      return (result.issues ? result : { typed: true, value: input }) as ReturnType<(typeof schema)["~run"]>;
    },
  };
  return schema as unknown as v.GenericSchema<Output>;
}

/** Returns the input without the null members that `entries` names; the input itself if it has none. */
function omitNulls(input: JsonObject, entries: Readonly<Record<string, unknown>>): JsonObject {
  if (!Object.keys(entries).some((key) => input[key] === null)) return input;
  return Object.fromEntries(
    Object.entries(input).filter(([key, value]) => value !== null || !Object.hasOwn(entries, key)),
  );
}

export const anyJson = v.unknown() as v.GenericSchema<Json>;
export const anyObject: v.GenericSchema<JsonObject> = passthroughObject();

/** The operators of authorization filters. */
const OPERATORS: ReadonlySet<string> = new Set(["$eq", "$contains"]);

/**
 * Returns the first operator among the keys of a filter, or else in its values, at any depth. Returns undefined if
 * there is none. Other keys belong to the user, even those with a dollar sign.
 */
function findOperator(value: Json): string | undefined {
  if (Array.isArray(value)) return findFirstOperator(value);
  if (!isObject(value)) return undefined;
  return Object.keys(value).find((key) => OPERATORS.has(key)) ?? findFirstOperator(Object.values(value));
}

/** Returns the first operator in the values, at any depth; undefined if there is none. */
function findFirstOperator(values: readonly Json[]): string | undefined {
  for (const value of values) {
    const operator = findOperator(value);
    if (operator !== undefined) return operator;
  }
  return undefined;
}

/** The maximum number of values of a filter, because each row is compared with all of them. */
const MAX_FILTER_VALUES = 100;

/**
 * Counts the values at any depth that are no objects or lists; an empty object counts 0. Stops once the count exceeds
 * `maxCount`.
 */
function countValues(value: Json, maxCount: number): number {
  if (typeof value !== "object" || value === null) return 1;
  let count = 0;
  for (const nested of Object.values(value)) {
    count += countValues(nested as Json, maxCount);
    if (count > maxCount) break;
  }
  return count;
}

/** The schema of a filter on metadata or values, which a row must contain. */
export const containment: v.GenericSchema<JsonObject> = v.pipe(
  anyObject,
  v.check(
    (filter) => findOperator(filter) === undefined,
    ({ input }) => `must hold values, not operators such as ${findOperator(input)}`,
  ),
  v.check(
    (filter) => countValues(filter, MAX_FILTER_VALUES) <= MAX_FILTER_VALUES,
    `must hold at most ${MAX_FILTER_VALUES} values`,
  ),
);
export const config: v.GenericSchema<JsonObject> = passthroughObject({
  tags: v.optional(listSchema(v.string("must be a string"))),
  recursion_limit: v.optional(integer(1, Number.MAX_SAFE_INTEGER)),
  configurable: v.optional(anyObject),
});
export const checkpoint: v.GenericSchema<CheckpointSelector> = passthroughObject({
  checkpoint_id: v.optional(name),
  checkpoint_ns: v.optional(text),
  checkpoint_map: v.optional(anyObject),
});
export const ifExists: v.OptionalSchema<v.GenericSchema<"raise" | "do_nothing">, undefined> = v.optional(
  stringEnum(["raise", "do_nothing"]),
);

export const streamMode: v.GenericSchema<StreamMode> = stringEnum(STREAM_MODES);

export const runStatus: v.GenericSchema<RunStatus> = stringEnum([
  "pending",
  "running",
  "success",
  "error",
  "timeout",
  "interrupted",
]);
export const threadStatus: v.GenericSchema<ThreadStatus> = stringEnum(["idle", "busy", "interrupted", "error"]);

/** Validates store input. Calls in process and authorization handlers bypass the HTTP validation, so every value is checked here. */
import { invalidFieldError, ServiceError } from "../errors.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { ItemCondition } from "../storage/items.ts";
import { isDeeperThan, isIntegerBetween, isLongerThan, isStorable, NOT_STORABLE } from "../validation.ts";

const MAX_LABELS = 32;
/** The maximum number of characters of a key, and of each label. */
const MAX_NAME_CHARS = 1_024;
/** The maximum size of a value as JSON, in bytes. */
const MAX_VALUE_BYTES: number = 1024 * 1024;
/** The maximum nesting depth of a value. */
const MAX_DEPTH = 100;
/** The maximum number of fields in an item's `index`, and of members in a filter. */
const MAX_FIELDS = 100;
export const MAX_LIMIT = 1_000;
/** The maximum time to live: about 19,000 years. */
const MAX_TTL_MINUTES = 1e10;
const MINUTE_MS = 60_000;
/** The first label that LangGraph reserves. */
const RESERVED = "langgraph";

/**
 * Returns the labels of a namespace unchanged. With `min` 0 they may be empty, as in a prefix or suffix. Throws `invalid`,
 * which names the field, for other values, too many labels, and a label that is no name or has a dot.
 */
export function validateLabels(field: string, labels: unknown, min: 0 | 1): readonly string[] {
  if (!Array.isArray(labels)) throw invalidFieldError(field, "must be a list of labels");
  const { length } = labels;
  if (length < min || length > MAX_LABELS) throw invalidFieldError(field, `must have ${min} to ${MAX_LABELS} labels`);
  for (const [position, label] of labels.entries()) validateLabel(`${field}.${position}`, label);
  return labels as readonly string[];
}

/** Throws `invalid` that names the field for a label that is no name or has a dot. */
function validateLabel(field: string, label: unknown): void {
  validateName(field, label);
  if ((label as string).includes(".")) throw invalidFieldError(field, "must not contain a dot");
}

/** Returns the key unchanged. Throws `invalid` for what is no name. */
export function validateKey(key: unknown): string {
  validateName("key", key);
  return key as string;
}

/** Throws `invalid` that names the field for what is no text, empty, too long or not storable. */
function validateName(field: string, name: unknown): void {
  if (typeof name !== "string") throw invalidFieldError(field, "must be a string");
  if (name === "") throw invalidFieldError(field, "must not be empty");
  if (isLongerThan(name, MAX_NAME_CHARS))
    throw invalidFieldError(field, `must have at most ${MAX_NAME_CHARS} characters`);
  if (!isStorable(name)) throw invalidFieldError(field, NOT_STORABLE);
}

/** Returns the labels of a namespace to write to. Throws `invalid` if they are no namespace or the first label is reserved. */
export function validateWritableNamespace(namespace: unknown): readonly string[] {
  const labels = validateLabels("namespace", namespace, 1);
  if (labels[0] === RESERVED) throw invalidFieldError("namespace.0", `${RESERVED} is reserved as the first label`);
  return labels;
}

/**
 * Validates an item's value and returns a copy of it through JSON, without undefined members. Throws `invalid` for other types,
 * numbers that are not finite, and too large or deep values.
 */
export function parseItemValue(input: unknown): JsonObject {
  if (!isObject(input)) throw invalidFieldError("value", "must be an object");
  let text: string | undefined;
  try {
    text = JSON.stringify(input, refuseNonFinite);
  } catch (error) {
    if (error instanceof ServiceError) throw error;
    throw invalidFieldError("value", "is not JSON");
  }
  if (text !== undefined && hasMoreBytes(text, MAX_VALUE_BYTES)) {
    throw invalidFieldError("value", `must be at most ${MAX_VALUE_BYTES} bytes of JSON`);
  }
  const value = JSON.parse(text ?? "null") as Json;
  if (!isObject(value)) throw invalidFieldError("value", "must be an object");
  if (isDeeperThan(value, MAX_DEPTH)) throw invalidFieldError("value", `must not nest deeper than ${MAX_DEPTH} levels`);
  return value;
}

/** Returns the value unchanged, for `JSON.stringify`. Throws `invalid` for NaN and infinite numbers, for which JSON has null. */
function refuseNonFinite(_key: string, value: unknown): unknown {
  // JSON.stringify would write null for these.
  if (typeof value === "number" && !Number.isFinite(value))
    throw invalidFieldError("value", "must hold finite numbers only");
  return value;
}

/** Returns true if the text has more than `bytes` bytes in UTF-8. Encodes it only if its length does not decide. */
function hasMoreBytes(text: string, bytes: number): boolean {
  if (text.length > bytes) return true;
  return text.length * 3 > bytes && new TextEncoder().encode(text).length > bytes;
}

/**
 * Converts minutes to milliseconds, at least 1. Returns null (an item that never expires) and undefined (the default)
 * unchanged. Throws `invalid` for other values, 0 and too many minutes.
 */
export function parseTtlMinutes(minutes: unknown): number | null | undefined {
  if (minutes === undefined || minutes === null) return minutes;
  if (typeof minutes !== "number" || !(minutes > 0 && minutes <= MAX_TTL_MINUTES)) {
    throw invalidFieldError("ttl", `must be a number of minutes above 0 and up to ${MAX_TTL_MINUTES}`);
  }
  return Math.max(1, Math.round(minutes * MINUTE_MS));
}

/**
 * Validates the `index` of an item: false or a list of paths, returned unchanged. Returns undefined, for the paths of the
 * store's index, if it is null or undefined. Throws `invalid`.
 */
export function parseIndex(index: unknown): false | readonly string[] | undefined {
  if (index === undefined || index === null) return undefined;
  if (index === false) return false;
  const isList = Array.isArray(index) && index.every((field) => typeof field === "string" && field !== "");
  if (!isList) throw invalidFieldError("index", "must be false or a list of fields");
  if (index.length > MAX_FIELDS) throw invalidFieldError("index", `must have at most ${MAX_FIELDS} fields`);
  return index as readonly string[];
}

/**
 * Returns an integer within bounds, or `fallback` for undefined and null. Throws `invalid`, which names the field, for other
 * values.
 */
export function validateInteger<Fallback>(
  field: string,
  value: unknown,
  [min, max]: readonly [min: number, max: number],
  fallback: Fallback,
): number | Fallback {
  if (value === undefined || value === null) return fallback;
  if (isIntegerBetween(value, min, max)) return value as number;
  throw invalidFieldError(
    field,
    max === Number.MAX_SAFE_INTEGER ? `must be at least ${min}` : `must be between ${min} and ${max}`,
  );
}

/** Returns a string, which may be empty, or undefined for undefined and null. Throws `invalid` for other values. */
export function validateText(field: string, value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "string") throw invalidFieldError(field, "must be a string");
  return value;
}

const OPERATORS: ReadonlyMap<string, ItemCondition[1]> = new Map([
  ["$eq", "eq"],
  ["$ne", "ne"],
  ["$gt", "gt"],
  ["$gte", "gte"],
  ["$lt", "lt"],
  ["$lte", "lte"],
]);

/**
 * Returns the conditions of a filter: `{member: value}` and `{member: {$gt: 1, ...}}`; none for null and undefined. Operators
 * are allowed only there; an object with one operator may not have other keys. Throws `invalid`.
 */
export function parseFilter(filter: unknown): readonly ItemCondition[] {
  if (filter === undefined || filter === null) return [];
  if (!isObject(filter)) throw invalidFieldError("filter", "must be an object");
  if (isDeeperThan(filter, MAX_DEPTH))
    throw invalidFieldError("filter", `must not nest deeper than ${MAX_DEPTH} levels`);
  const members = Object.entries(filter);
  if (members.length > MAX_FIELDS) throw invalidFieldError("filter", `must have at most ${MAX_FIELDS} members`);
  return members.flatMap(([member, condition]) => {
    const at = `filter.${member}`;
    if (member.startsWith("$")) throw invalidFieldError(at, "operators belong in a condition of a member");
    const isOperators = isObject(condition) && Object.keys(condition).some((key) => key.startsWith("$"));
    const operators = isOperators ? condition : { $eq: condition };
    return Object.entries(operators).map(([name, operand]): ItemCondition => {
      const operator = OPERATORS.get(name);
      if (!operator) throw invalidFieldError(`${at}.${name}`, `must be one of ${[...OPERATORS.keys()].join(", ")}`);
      validateOperand(at, operand);
      const isOrdered = operator !== "eq" && operator !== "ne";
      if (isOrdered && typeof operand === "object" && operand !== null) {
        throw invalidFieldError(`${at}.${name}`, "must be a number");
      }
      return [member, operator, operand];
    });
  });
}

/** Throws `invalid` for a value that is not JSON or has an operator inside. */
function validateOperand(path: string, operand: Json | undefined): void {
  if (operand === undefined || typeof operand === "function" || typeof operand === "bigint") {
    throw invalidFieldError(path, "is not JSON");
  }
  if (typeof operand === "number" && !Number.isFinite(operand))
    throw invalidFieldError(path, "must be a finite number");
  if (typeof operand !== "object" || operand === null) return;
  for (const [key, member] of Object.entries(operand)) {
    if (!Array.isArray(operand) && key.startsWith("$"))
      throw invalidFieldError(`${path}.${key}`, "no operator is allowed here");
    validateOperand(`${path}.${key}`, member);
  }
}

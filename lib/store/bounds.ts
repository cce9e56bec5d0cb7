/** What may stand in the store. Callers in process and authorization handlers may hand in anything, so nothing is taken on trust. */
import { ServiceError } from "../errors.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";

export const MAX_LABELS = 32;
/** Characters of a key, and of a label. */
export const MAX_NAME = 1_024;
/** Bytes of a value as JSON. */
export const MAX_VALUE_BYTES: number = 1024 * 1024;
/** Values nest no deeper. */
export const MAX_LEVELS = 100;
/** Fields that one item may name to be found by. */
export const MAX_FIELDS = 100;
export const MAX_LIMIT = 1_000;
/** Some 19,000 years. */
const MAX_TTL_MINUTES = 1e10;
const MINUTE_MS = 60_000;
/** The root that LangGraph keeps to itself. */
const RESERVED = "langgraph";

export const invalid = (field: string, problem: string): ServiceError =>
  new ServiceError("invalid", `${field}: ${problem}`);

/** A namespace, or a part of one with `min` 0. Errors: invalid. */
export function checkLabels(field: string, given: unknown, min: 0 | 1): readonly string[] {
  if (!Array.isArray(given)) throw invalid(field, "must be a list of labels");
  if (given.length < min || given.length > MAX_LABELS) throw invalid(field, `must have ${min} to ${MAX_LABELS} labels`);
  for (const [at, label] of given.entries()) proveLabel(`${field}.${at}`, label);
  return given as readonly string[];
}

function proveLabel(field: string, label: unknown): void {
  proveName(field, label);
  if ((label as string).includes(".")) throw invalid(field, "must not contain a dot");
}

/** Errors: invalid. */
export function checkKey(given: unknown): string {
  proveName("key", given);
  return given as string;
}

function proveName(field: string, given: unknown): void {
  if (typeof given !== "string") throw invalid(field, "must be a string");
  if (given === "") throw invalid(field, "must not be empty");
  if (given.length > MAX_NAME && (given.length > 2 * MAX_NAME || [...given].length > MAX_NAME)) {
    throw invalid(field, `must have at most ${MAX_NAME} characters`);
  }
  if (given.includes("\0") || !given.isWellFormed()) {
    throw invalid(field, "must not contain U+0000 or lone surrogates");
  }
}

/** A namespace that items may be put under. Errors: invalid. */
export function checkHome(given: unknown): readonly string[] {
  const labels = checkLabels("namespace", given, 1);
  if (labels[0] === RESERVED) throw invalid("namespace.0", `${RESERVED} is reserved as the first label`);
  return labels;
}

/** The value as JSON has it: a copy. Errors: invalid. */
export function checkValue(given: unknown): JsonObject {
  if (!isObject(given)) throw invalid("value", "must be an object");
  let text: string | undefined;
  try {
    text = JSON.stringify(given, finite);
  } catch (error) {
    if (error instanceof ServiceError) throw error;
    throw invalid("value", "is not JSON");
  }
  if (text !== undefined && longerThan(text, MAX_VALUE_BYTES)) {
    throw invalid("value", `must be at most ${MAX_VALUE_BYTES} bytes of JSON`);
  }
  const value = JSON.parse(text ?? "null") as Json;
  if (!isObject(value)) throw invalid("value", "must be an object");
  if (deeperThan(value, MAX_LEVELS)) throw invalid("value", `must not nest deeper than ${MAX_LEVELS} levels`);
  return value;
}

function finite(_key: string, value: unknown): unknown {
  // JSON would write null for these.
  if (typeof value === "number" && !Number.isFinite(value)) throw invalid("value", "must hold finite numbers only");
  return value;
}

function longerThan(text: string, bytes: number): boolean {
  if (text.length > bytes) return true;
  return text.length * 3 > bytes && new TextEncoder().encode(text).length > bytes;
}

/** True where arrays and objects stand in each other more than `levels` times. */
export function deeperThan(value: Json, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => deeperThan(inner, levels - 1));
}

/** Milliseconds; null for good. Undefined is left to the default. Errors: invalid. */
export function checkTtl(minutes: unknown): number | null | undefined {
  if (minutes === undefined || minutes === null) return minutes;
  if (typeof minutes !== "number" || !(minutes > 0 && minutes <= MAX_TTL_MINUTES)) {
    throw invalid("ttl", `must be a number of minutes above 0 and up to ${MAX_TTL_MINUTES}`);
  }
  return Math.max(1, Math.round(minutes * MINUTE_MS));
}

/** Undefined for the fields of the store. Errors: invalid. */
export function checkIndex(given: unknown): false | readonly string[] | undefined {
  if (given === undefined || given === null) return undefined;
  if (given === false) return false;
  const fields = Array.isArray(given) && given.every((field) => typeof field === "string" && field !== "");
  if (!fields) throw invalid("index", "must be false or a list of fields");
  if (given.length > MAX_FIELDS) throw invalid("index", `must have at most ${MAX_FIELDS} fields`);
  return given as readonly string[];
}

/** A whole number within bounds; absent and null are the fallback. Errors: invalid. */
export function checkWhole<Fallback>(
  field: string,
  given: unknown,
  [min, max]: readonly [min: number, max: number],
  fallback: Fallback,
): number | Fallback {
  if (given === undefined || given === null) return fallback;
  if (Number.isInteger(given) && (given as number) >= min && (given as number) <= max) return given as number;
  throw invalid(
    field,
    max === Number.MAX_SAFE_INTEGER ? `must be at least ${min}` : `must be between ${min} and ${max}`,
  );
}

/** Text; absent and null are undefined. Errors: invalid. */
export function checkText(field: string, given: unknown): string | undefined {
  if (given === undefined || given === null) return undefined;
  if (typeof given !== "string") throw invalid(field, "must be a string");
  return given;
}

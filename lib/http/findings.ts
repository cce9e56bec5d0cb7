/** Validates JSON bodies, ids and pages of the routes under /api/v1. It collects all findings of a request. */
import * as v from "valibot";
import { InputError, type InputIssue } from "../errors.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { Page } from "../storage/mod.ts";
import { toInputIssue } from "../validation.ts";
import { readJson as parsed, UUID } from "./parse.ts";

/** The location of a finding: `body` or `query`, then member names and indexes. */
export type FindingLocation = readonly (string | number)[];
/** Adds a finding. The default type is `value_error`. */
export type ReportFinding = (loc: FindingLocation, msg: string, type?: string) => void;

/**
 * Returns the result of `read` if it reports nothing. Throws an InputError with all findings that `read` reports, whose
 * type is `value_error` by default.
 */
export function validateWith<Output>(read: (report: ReportFinding) => Output): Output {
  const issues: InputIssue[] = [];
  const output = read((loc, msg, type = "value_error") => void issues.push({ loc, msg, type }));
  if (issues.length > 0) throw new InputError(issues);
  return output;
}

/** Returns the message for a check of a schema, which carries the type of the finding. */
export const encodeFinding = (type: string, msg: string): string => `${type}|${msg}`;

/**
 * Validates the part of a request at `loc` against a schema, and returns the output of the schema. Throws an InputError
 * with the findings of all members, located below `loc`.
 */
export function parseWithSchema<Output>(
  schema: v.GenericSchema<unknown, Output>,
  input: unknown,
  loc: FindingLocation,
): Output {
  const result = v.safeParse(schema, input, { abortPipeEarly: true });
  if (result.success) return result.output;
  throw new InputError(result.issues.map((issue) => ({ ...toInputIssue(issue, loc), ...toIssueText(issue) })));
}

/**
 * Returns the text and the type of an issue: `missing` for an absent member, the type that a message of the form
 * `type|text` names, `enum` for a picklist, else `type_error` for issues of a schema and `value_error` for those of its
 * checks.
 */
function toIssueText({ kind, type, message, path }: v.BaseIssue<unknown>): Pick<InputIssue, "msg" | "type"> {
  if (kind === "schema" && path && isAbsent(path.at(-1)?.value)) return { msg: "is required", type: "missing" };
  const [, encodedType, msg] = /^(\w+)\|(.*)$/s.exec(message) ?? [];
  if (encodedType !== undefined && msg !== undefined) return { type: encodedType, msg };
  if (type === "picklist") return { type: "enum", msg: message };
  return { type: kind === "schema" ? "type_error" : "value_error", msg: message };
}

export const isAbsent = (value: unknown): value is null | undefined => value === null || value === undefined;

/** Parses a body as JSON. Throws an InputError with a finding at `body` if it is not JSON or nests too deep. */
export function readJsonBody(bytes: Uint8Array): Json {
  try {
    return parsed(bytes) as Json;
  } catch (error) {
    if (error instanceof InputError) throw error;
    throw new InputError([{ loc: ["body"], msg: "must be JSON", type: "json_invalid" }]);
  }
}

/** Parses a body that must be a JSON object. Throws an InputError with a finding at `body` for anything else. */
export function readObjectBody(bytes: Uint8Array): JsonObject {
  const body = readJsonBody(bytes);
  return validateWith((report) => {
    if (isObject(body)) return body;
    report(["body"], "must be an object", "type_error");
    return {};
  });
}

/** Reads a required UUID and returns it in lower case. Reports a finding and returns an empty text otherwise. */
export function readRequiredId(input: Json | undefined, loc: FindingLocation, report: ReportFinding): string {
  if (isAbsent(input)) report(loc, "is required", "missing");
  return isAbsent(input) ? "" : readUuid(input, loc, report);
}

/** Reads a UUID and returns it in lower case. Reports a finding and returns an empty text otherwise. */
export function readUuid(input: Json, loc: FindingLocation, report: ReportFinding): string {
  if (typeof input === "string" && UUID.test(input)) return input.toLowerCase();
  report(loc, "must be a UUID", "uuid_parsing");
  return "";
}

/**
 * Reads a query parameter. Returns its first value, or undefined if that is absent or empty. Reports a finding if the
 * parameter occurs more than once, and still returns the first value.
 */
export function readSingleParam(params: URLSearchParams, name: string, report: ReportFinding): string | undefined {
  const input = params.getAll(name);
  if (input.length > 1) report(["query", name], "must be given once");
  return input[0] || undefined;
}

/**
 * Reads a query parameter that must be one of `words`. Returns undefined if it is absent. Reports a finding and returns
 * undefined for any other value, including an empty one. Reports one, too, if the parameter occurs more than once.
 */
export function readEnumParam<Word extends string>(
  params: URLSearchParams,
  name: string,
  words: readonly Word[],
  report: ReportFinding,
): Word | undefined {
  const input = readSingleParam(params, name, report) ?? params.get(name);
  const word = words.find((allowedWord) => allowedWord === input);
  if (input !== null && word === undefined) report(["query", name], `must be one of ${words.join(", ")}`, "enum");
  return word;
}

/**
 * Reads `limit` (default 100, from 1 to `maxLimit`) and `offset` (default 0). Reports a finding for any other value,
 * and returns that as a number or NaN.
 */
export function readPage(params: URLSearchParams, report: ReportFinding, maxLimit = 100): Page {
  /**
   * Reads an integer, or returns the default without one. Reports a finding for any other value, and returns it as a
   * number or NaN.
   */
  const readInteger = (name: string, min: number, max: number, defaultValue: number): number => {
    const input = readSingleParam(params, name, report);
    if (input === undefined) return defaultValue;
    const value = /^\d{1,16}$/.test(input) ? Number(input) : Number.NaN;
    if (!(value >= min && value <= max)) report(["query", name], `must be an integer from ${min} to ${max}`);
    return value;
  };
  return {
    limit: readInteger("limit", 1, maxLimit, 100),
    offset: readInteger("offset", 0, Number.MAX_SAFE_INTEGER, 0),
  };
}

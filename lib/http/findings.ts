/** Validation that collects all findings, for the routes under /api/v1: JSON bodies, ids, pages. */
import * as v from "valibot";
import { InputError, type InputIssue } from "../errors.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { Page } from "../storage/mod.ts";
import { toInputIssue } from "../validation.ts";
import { readJson as parsed, UUID } from "./parse.ts";

/** The place of a finding: `body` or `query`, then member names and indexes. */
export type FindingLocation = readonly (string | number)[];
/** Adds a finding. Default type: `value_error`. */
export type ReportFinding = (loc: FindingLocation, msg: string, type?: string) => void;

/** The result of `read`. Throws an InputError with everything it reports. */
export function validateWith<Output>(read: (report: ReportFinding) => Output): Output {
  const issues: InputIssue[] = [];
  const output = read((loc, msg, type = "value_error") => void issues.push({ loc, msg, type }));
  if (issues.length > 0) throw new InputError(issues);
  return output;
}

/** The text of an issue of a schema, with the type of its finding. */
export const encodeFinding = (type: string, msg: string): string => `${type}|${msg}`;

/** Reads a part of a request, which is at `loc`, by a schema. Throws an InputError with all findings. */
export function parseWithSchema<Output>(
  schema: v.GenericSchema<unknown, Output>,
  input: unknown,
  loc: FindingLocation,
): Output {
  const result = v.safeParse(schema, input, { abortPipeEarly: true });
  if (result.success) return result.output;
  throw new InputError(result.issues.map((issue) => ({ ...toInputIssue(issue, loc), ...toIssueText(issue) })));
}

/** What an issue says. Issues of a schema are about types, those of its checks about values. */
function toIssueText({ kind, type, message, path }: v.BaseIssue<unknown>): Pick<InputIssue, "msg" | "type"> {
  if (kind === "schema" && path && isAbsent(path.at(-1)?.value)) return { msg: "is required", type: "missing" };
  const [, encodedType, msg] = /^(\w+)\|(.*)$/s.exec(message) ?? [];
  if (encodedType !== undefined && msg !== undefined) return { type: encodedType, msg };
  if (type === "picklist") return { type: "enum", msg: message };
  return { type: kind === "schema" ? "type_error" : "value_error", msg: message };
}

/** Null counts as absent. */
export const isAbsent = (value: unknown): value is null | undefined => value === null || value === undefined;

/** A body as JSON. Findings are at `body`. */
export function readJsonBody(bytes: Uint8Array): Json {
  try {
    return parsed(bytes) as Json;
  } catch (error) {
    if (error instanceof InputError) throw error;
    throw new InputError([{ loc: ["body"], msg: "must be JSON", type: "json_invalid" }]);
  }
}

/** A body that is an object. */
export function readObjectBody(bytes: Uint8Array): JsonObject {
  const body = readJsonBody(bytes);
  return validateWith((report) => {
    if (isObject(body)) return body;
    report(["body"], "must be an object", "type_error");
    return {};
  });
}

/** A required UUID, in lower case. */
export function readRequiredId(input: Json | undefined, loc: FindingLocation, report: ReportFinding): string {
  if (isAbsent(input)) report(loc, "is required", "missing");
  return isAbsent(input) ? "" : readUuid(input, loc, report);
}

/** A UUID in lower case. */
export function readUuid(input: Json, loc: FindingLocation, report: ReportFinding): string {
  if (typeof input === "string" && UUID.test(input)) return input.toLowerCase();
  report(loc, "must be a UUID", "uuid_parsing");
  return "";
}

/** The value of a parameter that must not be given twice; an empty one counts as absent. */
export function readSingleParam(params: URLSearchParams, name: string, report: ReportFinding): string | undefined {
  const input = params.getAll(name);
  if (input.length > 1) report(["query", name], "must be given once");
  return input[0] || undefined;
}

/** The same for one of a few words. An empty value is an error. */
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

/** A page of 100 items, and of at most `most`. */
export function readPage(params: URLSearchParams, report: ReportFinding, maxLimit = 100): Page {
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

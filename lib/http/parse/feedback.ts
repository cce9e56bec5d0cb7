/**
 * Validates the requests of the feedback routes. Throws one InputError with all findings, in the order of the fields. Null members
 * count as absent, unknown ones are ignored.
 */
import { InputError, ServiceError } from "../../errors.ts";
import type { FeedbackCreate, FeedbackFilter, Submission } from "../../feedback/mod.ts";
import { isObject, type Json, type JsonObject } from "../../json.ts";
import { parseRfc3339 } from "../../rfc3339.ts";
import type { FeedbackPatch, IdempotencyKey, Page } from "../../storage/mod.ts";
import { deeperThan, longerThan } from "../../validation.ts";
import {
  absent,
  checked,
  type Loc,
  oneOfQuery,
  page,
  type Report,
  readKey,
  readObject,
  readUuid,
  single,
} from "./findings.ts";
import { readIdempotency } from "./headers.ts";
import { BEYOND, isFiniteJson, MAX_DEPTH } from "./read.ts";

/** Bodies of the token route, which needs no key, may have this many bytes. */
export const MAX_PUBLIC_BYTES: number = 256 * 1024;

const MAX_COMMENT = 20_000;
const SOURCES = ["api", "model", "app", "auto_eval"];

// ----------------------------------------------------------------- submissions

/** What a body submits to a token. */
export function readSubmission(bytes: Uint8Array): Submission {
  const sent = readObject(bytes);
  const submission = checked((report) => ({
    ...content(sent, report),
    metadata: readAnyObject(sent.metadata, ["body", "metadata"], report),
    from: "body" as const,
  }));
  return notEmpty(submission);
}

/** What a query submits to a token, in its text form. */
export function readTextSubmission(params: URLSearchParams): Submission {
  const submission = checked((report) => {
    const text = (name: string): string => single(params, name, report) ?? "";
    const [score, value, correction] = [fromText(text("score")), fromText(text("value")), text("correction")];
    if (typeof score === "string") report(["query", "score"], "must be a number, true or false", "type_error");
    if (!isFiniteJson(score)) report(["query", "score"], BEYOND);
    if (!isFiniteJson(value)) report(["query", "value"], BEYOND);
    return {
      score: score as number | boolean | null,
      value: typeof value === "string" ? value.toWellFormed() : value,
      comment: readComment(text("comment") || null, ["query", "comment"], report),
      correction: correction === "" ? null : textCorrection(correction, report),
      metadata: null,
      from: "query" as const,
    };
  });
  return notEmpty(submission);
}

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

function fromText(text: string): string | number | boolean | null {
  if (text === "") return null;
  if (NUMBER.test(text)) return Number(text);
  return /^(?:true|false)$/i.test(text) ? text.toLowerCase() === "true" : text;
}

function textCorrection(text: string, report: Report): Json {
  let value: Json = null;
  try {
    value = JSON.parse(text) as Json;
  } catch {
    // Not JSON: the same refusal as of a JSON value of another type.
  }
  if (value === null) report(["query", "correction"], "must be JSON, an object or a string", "json_invalid");
  return readCorrection(value, ["query", "correction"], report);
}

/** The members that a submission and a keyed record have in common. */
function content(sent: JsonObject, report: Report): Omit<Submission, "from" | "metadata"> {
  return {
    score: readScore(sent.score, report),
    value: readValue(sent.value, report),
    comment: readComment(sent.comment, ["body", "comment"], report),
    correction: readCorrection(sent.correction, ["body", "correction"], report),
  };
}

function readScore(sent: Json | undefined, report: Report): number | boolean | null {
  if (absent(sent)) return null;
  if (typeof sent !== "number" && typeof sent !== "boolean") {
    report(["body", "score"], "must be a number, true or false", "type_error");
  } else if (!isFiniteJson(sent)) report(["body", "score"], BEYOND);
  return sent as number | boolean;
}

function readValue(sent: Json | undefined, report: Report): Json {
  if (absent(sent)) return null;
  if (Array.isArray(sent)) report(["body", "value"], "must not be a list", "type_error");
  else if (!isFiniteJson(sent)) report(["body", "value"], BEYOND);
  return sent;
}

function readComment(sent: Json | undefined, loc: Loc, report: Report): string | null {
  if (absent(sent)) return null;
  if (typeof sent !== "string") {
    report(loc, "must be a string", "type_error");
    return null;
  }
  const comment = sent.replaceAll("\0", "").toWellFormed();
  if (longerThan(comment, MAX_COMMENT)) report(loc, `must have at most ${MAX_COMMENT} characters`, "too_long");
  return comment;
}

function readCorrection(sent: Json | undefined, loc: Loc, report: Report): Json {
  if (absent(sent)) return null;
  if (!isObject(sent) && typeof sent !== "string") report(loc, "must be an object or a string", "type_error");
  else if (deeperThan(sent, MAX_DEPTH)) report(loc, `must not nest deeper than ${MAX_DEPTH} levels`);
  else if (!isFiniteJson(sent)) report(loc, BEYOND);
  return sent;
}

function readAnyObject(sent: Json | undefined, loc: Loc, report: Report): JsonObject | null {
  if (absent(sent)) return null;
  if (!isObject(sent)) report(loc, "must be an object", "type_error");
  else if (!isFiniteJson(sent)) report(loc, BEYOND);
  return sent as JsonObject;
}

function notEmpty(submission: Submission): Submission {
  const { score, value, comment, correction, from } = submission;
  return checked((report) => {
    if ([score, value, comment, correction].every((part) => part === null || part === "")) {
      report([from], "must have a score, a value, a comment or a correction", "missing");
    }
    return submission;
  });
}

/** The key under which a submission may be sent again, and a hash of what it says. */
export async function readSubmissionKey(
  headers: Headers,
  token_id: string,
  { from: _from, ...said }: Submission,
): Promise<IdempotencyKey | undefined> {
  const bytes = new TextEncoder().encode(JSON.stringify(sorted(said as unknown as Json)));
  try {
    return await readIdempotency(headers, `feedback/tokens/${token_id}`, bytes);
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== "invalid") throw error;
    throw new InputError([{ loc: ["header", "idempotency-key"], msg: error.message, type: "value_error" }]);
  }
}

/** The same value for all orders of keys. */
function sorted(value: Json): Json {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isObject(value)) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, item]) => [key, sorted(item)]));
}

// -------------------------------------------------------------- the keyed API

/** A record to be made. */
export function readFeedbackCreate(bytes: Uint8Array): FeedbackCreate {
  const sent = readObject(bytes);
  return checked((report) => {
    const id = (name: "id" | "run_id" | "session_id"): { [id in typeof name]?: string } =>
      absent(sent[name]) ? {} : { [name]: readUuid(sent[name], ["body", name], report) };
    if (absent(sent.run_id) && absent(sent.session_id)) {
      report(["body", "run_id"], "run_id or session_id is required", "missing");
    }
    return {
      ...id("id"),
      ...id("run_id"),
      ...id("session_id"),
      key: readKey(sent.key, ["body", "key"], report),
      ...content(sent, report),
      source: "api",
      source_metadata: null,
      ...readSource(sent.feedback_source, report),
      extra: readAnyObject(sent.extra, ["body", "extra"], report),
    };
  });
}

/** What a patch changes: members that are null are cleared. */
export function readFeedbackPatch(bytes: Uint8Array): FeedbackPatch {
  const sent = readObject(bytes);
  return checked((report) => {
    const given = Object.entries(content(sent, report)).filter(([name]) => Object.hasOwn(sent, name));
    const { source_metadata } = readSource(sent.feedback_source, report);
    return { ...Object.fromEntries(given), ...(source_metadata === undefined ? {} : { source_metadata }) };
  });
}

function readSource(
  sent: Json | undefined,
  report: Report,
): { readonly source?: string; readonly source_metadata?: JsonObject | null } {
  const loc = ["body", "feedback_source"];
  const given = readAnyObject(sent, loc, report);
  if (!isObject(given)) return {};
  const { type, metadata } = given;
  if (!absent(type) && !SOURCES.includes(type as string)) {
    report([...loc, "type"], `must be one of ${SOURCES.join(", ")}`, "enum");
  }
  return {
    ...(absent(type) ? {} : { source: type as string }),
    ...(metadata === undefined ? {} : { source_metadata: readAnyObject(metadata, [...loc, "metadata"], report) }),
  };
}

/** The query of a list of records. */
export function readFeedbackQuery(params: URLSearchParams): FeedbackFilter & Page {
  return checked((report) => ({ ...filter(params, report), ...page(params, report) }));
}

/** The query of the numbers about records. */
export function readStatsQuery(params: URLSearchParams): FeedbackFilter {
  return checked((report) => filter(params, report));
}

function filter(params: URLSearchParams, report: Report): FeedbackFilter {
  const list = <Name extends string>(
    field: Name,
    name: string,
    read: (value: string, loc: Loc) => string = (value) => value,
  ): { readonly [field in Name]?: string[] } => {
    const sent = params.getAll(name).filter((value) => value !== "" || name === "source");
    if (sent.length === 0) return {};
    return { [field]: sent.map((value, index) => read(value, ["query", name, index])) } as {
      [field in Name]: string[];
    };
  };
  const uuid = (value: string, loc: Loc): string => readUuid(value, loc, report);
  const source = (value: string, loc: Loc): string => {
    if (!SOURCES.includes(value)) report(loc, `must be one of ${SOURCES.join(", ")}`, "enum");
    return value;
  };
  const one = <Name extends string, Value>(
    name: Name,
    read: (value: string) => Value | null,
    msg: string,
    type?: string,
  ): { readonly [name in Name]?: Value } => {
    const sent = single(params, name, report);
    if (sent === undefined) return {};
    const value = read(sent);
    if (value === null) report(["query", name], msg, type);
    return { [name]: value } as { [name in Name]: Value };
  };
  const flag = (value: string): boolean | null =>
    /^(?:true|1)$/i.test(value) ? true : /^(?:false|0)$/i.test(value) ? false : null;
  const level = oneOfQuery(params, "level", ["run", "session"], report);
  const [boolean, moment] = ["must be true or false", "must be a date or time in RFC 3339"];
  return {
    ...list("run_ids", "run", uuid),
    ...list("project_ids", "session", uuid),
    ...list("keys", "key"),
    ...list("sources", "source", source),
    ...list("user_ids", "user", uuid),
    ...one("has_comment", flag, boolean),
    ...one("has_score", flag, boolean),
    ...one("min_created_at", parseRfc3339, moment, "datetime_parsing"),
    ...one("max_created_at", parseRfc3339, moment, "datetime_parsing"),
    ...(level === undefined ? {} : { level }),
  };
}

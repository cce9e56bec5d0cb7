/** Feedback on runs and projects: requests and routes. Requests collect all findings, in the order of the fields. */

import { keyProblem } from "../../feedback/links.ts";
import type { FeedbackCreate, FeedbackFilter, Submission } from "../../feedback/mod.ts";
import { isObject, type Json, type JsonObject } from "../../json.ts";
import { parseRfc3339 } from "../../rfc3339.ts";
import type { FeedbackPatch, Page } from "../../storage/mod.ts";
import { BEYOND, deeperThan, isFiniteJson, longerThan } from "../../validation.ts";
import { absent, checked, type Loc, oneOfQuery, page, type Report, readObject, readUuid, single } from "../findings.ts";
import { MAX_DEPTH, readKnownId } from "../parse.ts";
import { json } from "../respond.ts";
import { type RequestContext, type Route, routesOf, searchParams } from "../route.ts";

/** A required feedback key. */
export function readKey(sent: Json | undefined, loc: Loc, report: Report): string {
  const problem = absent(sent) ? "is required" : keyProblem(sent);
  if (problem !== null) report(loc, problem, absent(sent) ? "missing" : "value_error");
  return sent as string;
}

const route = routesOf({ tag: "Feedback", access: "account", issues: "found" });
const MAX_COMMENT = 20_000;
const SOURCES = ["api", "model", "app", "auto_eval"];

/** The members that a submission and a keyed record have in common. */
export function content(sent: JsonObject, report: Report): Omit<Submission, "from" | "metadata"> {
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

export function readComment(sent: Json | undefined, loc: Loc, report: Report): string | null {
  if (absent(sent)) return null;
  if (typeof sent !== "string") {
    report(loc, "must be a string", "type_error");
    return null;
  }
  const comment = sent.replaceAll("\0", "").toWellFormed();
  if (longerThan(comment, MAX_COMMENT)) report(loc, `must have at most ${MAX_COMMENT} characters`, "too_long");
  return comment;
}

export function readCorrection(sent: Json | undefined, loc: Loc, report: Report): Json {
  if (absent(sent)) return null;
  if (!isObject(sent) && typeof sent !== "string") report(loc, "must be an object or a string", "type_error");
  else if (deeperThan(sent, MAX_DEPTH)) report(loc, `must not nest deeper than ${MAX_DEPTH} levels`);
  else if (!isFiniteJson(sent)) report(loc, BEYOND);
  return sent;
}

export function readAnyObject(sent: Json | undefined, loc: Loc, report: Report): JsonObject | null {
  if (absent(sent)) return null;
  if (!isObject(sent)) report(loc, "must be an object", "type_error");
  else if (!isFiniteJson(sent)) report(loc, BEYOND);
  return sent as JsonObject;
}

/** A record to be made. */
function readFeedbackCreate(bytes: Uint8Array): FeedbackCreate {
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
function readFeedbackPatch(bytes: Uint8Array): FeedbackPatch {
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
const readFeedbackQuery = (params: URLSearchParams): FeedbackFilter & Page =>
  checked((report) => ({ ...filter(params, report), ...page(params, report) }));
/** The query of the numbers about records. */
const readStatsQuery = (params: URLSearchParams): FeedbackFilter => checked((report) => filter(params, report));

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

const feedbackId = ({ params }: RequestContext): string => readKnownId(params.id, "Feedback");

export const FEEDBACK_ROUTES: readonly Route[] = [
  route("get", "/api/v1/feedback/stats", {
    events: ["threads:read"],
    summary: "Get feedback statistics by key",
    answer: "FeedbackStats",
    async handle(context) {
      const stats = await context.nouns.feedback.stats(await context.caller(), readStatsQuery(searchParams(context)));
      return json(Object.fromEntries(stats.map(({ key, ...numbers }) => [key, numbers])));
    },
  }),
  route("get", "/api/v1/feedback", {
    events: ["threads:read"],
    summary: "List feedback, newest first",
    answer: "Feedback[]",
    handle: async (context) =>
      json(await context.nouns.feedback.list(await context.caller(), readFeedbackQuery(searchParams(context)))),
  }),
  route("post", "/api/v1/feedback", {
    events: ["threads:update"],
    summary: "Record feedback on a run or a project",
    answer: "Feedback",
    errors: [404, 409],
    handle: async (context) =>
      json(await context.nouns.feedback.create(await context.caller(), readFeedbackCreate(await context.bytes()))),
  }),
  route("get", "/api/v1/feedback/:id", {
    events: ["threads:read"],
    summary: "Get feedback",
    answer: "Feedback",
    errors: [404],
    handle: async (context) => json(await context.nouns.feedback.get(await context.caller(), feedbackId(context))),
  }),
  route("patch", "/api/v1/feedback/:id", {
    events: ["threads:update"],
    summary: "Change feedback",
    answer: "Feedback",
    errors: [404],
    async handle(context) {
      const caller = await context.caller();
      const id = feedbackId(context);
      return json(await context.nouns.feedback.update(caller, id, readFeedbackPatch(await context.bytes())));
    },
  }),
  route("delete", "/api/v1/feedback/:id", {
    events: ["threads:update"],
    summary: "Delete feedback",
    answer: "any",
    errors: [404],
    async handle(context) {
      await context.nouns.feedback.delete(await context.caller(), feedbackId(context));
      return json({});
    },
  }),
];

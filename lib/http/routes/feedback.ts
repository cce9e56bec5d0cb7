/** Defines the routes of feedback on runs and projects. An error lists all findings in the order of the fields. */

import type { FeedbackFilter } from "../../feedback/mod.ts";
import { parseRfc3339 } from "../../rfc3339.ts";
import type { Page } from "../../storage/mod.ts";
import {
  type FindingLocation,
  type ReportFinding,
  readEnumParam,
  readPage,
  readSingleParam,
  readUuid,
  validateWith,
} from "../findings.ts";
import { parseResourceId } from "../parse.ts";
import { jsonResponse } from "../respond.ts";
import { createRouteGroup, getSearchParams, type RequestContext, type Route } from "../route.ts";
import { FEEDBACK_SOURCES, readFeedbackCreate, readFeedbackPatch } from "./feedback-requests.ts";

const defineRoute = createRouteGroup({ tag: "Feedback", access: "account", issues: "exact" });
const readFeedbackQuery = (params: URLSearchParams): FeedbackFilter & Page =>
  validateWith((report) => ({ ...readFilter(params, report), ...readPage(params, report) }));
const readStatsQuery = (params: URLSearchParams): FeedbackFilter =>
  validateWith((report) => readFilter(params, report));

/** Returns true for `true` and `1`, false for `false` and `0`, in any case, and null for other text. */
function parseBoolean(value: string): boolean | null {
  if (/^(?:true|1)$/i.test(value)) return true;
  return /^(?:false|0)$/i.test(value) ? false : null;
}

/**
 * Reads the filter of a feedback query; absent and empty parameters are left out. Reports findings for malformed ids, words,
 * booleans and times, and for parameters that are given twice and are no list.
 */
function readFilter(params: URLSearchParams, report: ReportFinding): FeedbackFilter {
  /**
   * Returns an object with the values of a repeated parameter under `field`, or an empty object without any. Drops
   * empty values, except those of `source`, which `read` reports.
   */
  const readList = <Name extends string>(
    field: Name,
    name: string,
    read: (value: string, loc: FindingLocation) => string = (value) => value,
  ): { readonly [field in Name]?: string[] } => {
    const input = params.getAll(name).filter((value) => value !== "" || name === "source");
    if (input.length === 0) return {};
    return { [field]: input.map((value, index) => read(value, ["query", name, index])) } as {
      [field in Name]: string[];
    };
  };
  const readUuidItem = (value: string, loc: FindingLocation): string => readUuid(value, loc, report);
  /** Returns the value unchanged. Reports one that is no source of feedback. */
  const readSource = (value: string, loc: FindingLocation): string => {
    if (!(FEEDBACK_SOURCES as readonly string[]).includes(value))
      report(loc, `must be one of ${FEEDBACK_SOURCES.join(", ")}`, "enum");
    return value;
  };
  /**
   * Returns an object with the parameter as `read` converts it, or an empty object if it is absent. Reports `msg` if `read`
   * returns null, which the object then has.
   */
  const readOptional = <Name extends string, Value>(
    name: Name,
    read: (value: string) => Value | null,
    msg: string,
    type?: string,
  ): { readonly [name in Name]?: Value } => {
    const input = readSingleParam(params, name, report);
    if (input === undefined) return {};
    const value = read(input);
    if (value === null) report(["query", name], msg, type);
    return { [name]: value } as { [name in Name]: Value };
  };
  const level = readEnumParam(params, "level", ["run", "session"], report);
  const [booleanMessage, timeMessage] = ["must be true or false", "must be a date or time in RFC 3339"];
  return {
    ...readList("run_ids", "run", readUuidItem),
    ...readList("project_ids", "session", readUuidItem),
    ...readList("keys", "key"),
    ...readList("sources", "source", readSource),
    ...readList("user_ids", "user", readUuidItem),
    ...readOptional("has_comment", parseBoolean, booleanMessage),
    ...readOptional("has_score", parseBoolean, booleanMessage),
    ...readOptional("min_created_at", parseRfc3339, timeMessage, "datetime_parsing"),
    ...readOptional("max_created_at", parseRfc3339, timeMessage, "datetime_parsing"),
    ...(level === undefined ? {} : { level }),
  };
}

const readFeedbackId = ({ params }: RequestContext): string => parseResourceId(params.id, "Feedback");

export const FEEDBACK_ROUTES: readonly Route[] = [
  defineRoute("get", "/api/v1/feedback/stats", {
    events: ["threads:read"],
    summary: "Get feedback statistics by key",
    response: "FeedbackStats",
    /** Responds with an object of the statistics by feedback key; `{}` without feedback that matches. */
    async handle(context) {
      const stats = await context.resources.feedback.stats(
        await context.accountCaller(),
        readStatsQuery(getSearchParams(context)),
      );
      return jsonResponse(Object.fromEntries(stats.map(({ key, ...numbers }) => [key, numbers])));
    },
  }),
  defineRoute("get", "/api/v1/feedback", {
    events: ["threads:read"],
    summary: "List feedback, newest first",
    response: "Feedback[]",
    /** Responds with a page of the records that match the query, 100 by default; an empty list without matches. */
    handle: async (context) =>
      jsonResponse(
        await context.resources.feedback.list(
          await context.accountCaller(),
          readFeedbackQuery(getSearchParams(context)),
        ),
      ),
  }),
  defineRoute("post", "/api/v1/feedback", {
    events: ["threads:update"],
    summary: "Record feedback on a run or a project",
    response: "Feedback",
    errors: [404, 409],
    /** Creates a record and responds 200 with it; 404 for an unknown run or project, and 409 if another record has its id. */
    handle: async (context) =>
      jsonResponse(
        await context.resources.feedback.create(
          await context.accountCaller(),
          readFeedbackCreate(await context.bytes()),
        ),
      ),
  }),
  defineRoute("get", "/api/v1/feedback/:id", {
    events: ["threads:read"],
    summary: "Get feedback",
    response: "Feedback",
    errors: [404],
    handle: async (context) =>
      jsonResponse(await context.resources.feedback.get(await context.accountCaller(), readFeedbackId(context))),
  }),
  defineRoute("patch", "/api/v1/feedback/:id", {
    events: ["threads:update"],
    summary: "Change feedback",
    response: "Feedback",
    errors: [404],
    /** Changes the members that the body has, null clears one, and responds with the record, or 404. */
    async handle(context) {
      const caller = await context.accountCaller();
      const id = readFeedbackId(context);
      return jsonResponse(
        await context.resources.feedback.update(caller, id, readFeedbackPatch(await context.bytes())),
      );
    },
  }),
  defineRoute("delete", "/api/v1/feedback/:id", {
    events: ["threads:update"],
    summary: "Delete feedback",
    response: "any",
    errors: [404],
    /** Deletes the feedback and responds 200 with an empty object, or 404 for an unknown id. */
    async handle(context) {
      await context.resources.feedback.delete(await context.accountCaller(), readFeedbackId(context));
      return jsonResponse({});
    },
  }),
];

/** Feedback on runs and projects: requests and routes. Requests collect all findings, in the order of the fields. */

import type { FeedbackFilter } from "../../feedback/mod.ts";
import { parseRfc3339 } from "../../rfc3339.ts";
import type { Page } from "../../storage/mod.ts";
import { checked, type Loc, oneOfQuery, page, type Report, readUuid, single } from "../findings.ts";
import { readKnownId } from "../parse.ts";
import { json } from "../respond.ts";
import { type RequestContext, type Route, routesOf, searchParams } from "../route.ts";
import { readFeedbackCreate, readFeedbackPatch, SOURCES } from "./feedback-requests.ts";

const route = routesOf({ tag: "Feedback", access: "account", issues: "found" });
/** The query of a list of records. */
const readFeedbackQuery = (params: URLSearchParams): FeedbackFilter & Page =>
  checked((report) => ({ ...filter(params, report), ...page(params, report) }));
/** The query of the numbers about records. */
const readStatsQuery = (params: URLSearchParams): FeedbackFilter => checked((report) => filter(params, report));

function flag(value: string): boolean | null {
  if (/^(?:true|1)$/i.test(value)) return true;
  return /^(?:false|0)$/i.test(value) ? false : null;
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
    if (!(SOURCES as readonly string[]).includes(value)) report(loc, `must be one of ${SOURCES.join(", ")}`, "enum");
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

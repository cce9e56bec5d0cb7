/** Defines the routes of feedback links. Every client with a link may submit feedback. Creating links needs a key. */
import * as v from "valibot";
import { InputError, ServiceError } from "../../errors.ts";
import type { FeedbackSubmission, TokenRequest } from "../../feedback/mod.ts";
import { isObject, type Json } from "../../json.ts";
import { parseRfc3339 } from "../../rfc3339.ts";
import type { IdempotencyKey, Page } from "../../storage/mod.ts";
import { isSubresourceOrPrefetch } from "../access.ts";
import {
  encodeFinding,
  type FindingLocation,
  isAbsent,
  parseWithSchema,
  type ReportFinding,
  readJsonBody,
  readPage,
  readRequiredId,
  readSingleParam,
  validateWith,
} from "../findings.ts";
import { UUID } from "../parse.ts";
import { bodyTooLargeError, readIdempotencyKey } from "../request.ts";
import { type HeaderValues, jsonResponse } from "../respond.ts";
import { createRouteGroup, getSearchParams, type PublicHeaders, type RequestContext, type Route } from "../route.ts";
import { feedbackLink, type LinkInput, readSubmission, submission, toFeedbackConfig } from "./feedback-requests.ts";

const defineRoute = createRouteGroup({ tag: "Feedback", access: "account", issues: "exact" });

/** The maximum size of a body of the token route, which needs no key. */
const MAX_PUBLIC_BYTES: number = 256 * 1024;

/**
 * Reads the feedback in a query, and marks it as `from: "query"`. Score and value may be numbers, booleans or text; `correction`
 * must be JSON text that is not null. An empty or missing parameter is null. Throws an InputError, first for repeated parameters and
 * text that is not JSON, then for values that do not fit the schema.
 */
function readTextSubmission(params: URLSearchParams): FeedbackSubmission {
  const input = validateWith((report) => {
    const readText = (name: string): string => readSingleParam(params, name, report) ?? "";
    const value = parseTextValue(readText("value"));
    return {
      score: parseTextValue(readText("score")),
      value: typeof value === "string" ? value.toWellFormed() : value,
      comment: readText("comment") || null,
      correction: readText("correction") === "" ? null : parseJsonText(readText("correction"), report),
    };
  });
  return { ...parseWithSchema(submission, input, ["query"]), from: "query" };
}

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** Returns a number or a boolean if the text is one, null for an empty text, else the text. */
function parseTextValue(text: string): string | number | boolean | null {
  if (text === "") return null;
  if (NUMBER.test(text)) return Number(text);
  return /^(?:true|false)$/i.test(text) ? text.toLowerCase() === "true" : text;
}

/** Parses a text as JSON. Reports a finding and returns null for null and text that is not JSON. */
function parseJsonText(text: string, report: ReportFinding): Json {
  let value: Json = null;
  try {
    value = JSON.parse(text) as Json;
  } catch {
    // Text that is not JSON leads to the same finding as null.
  }
  if (value === null) report(["query", "correction"], "must be JSON, an object or a string", "json_invalid");
  return value;
}

/**
 * Returns `input` itself. Throws an InputError if it has neither score, value, comment nor correction; an empty text
 * counts as none.
 */
function requireContent(input: FeedbackSubmission): FeedbackSubmission {
  const { score, value, comment, correction, from } = input;
  return validateWith((report) => {
    if ([score, value, comment, correction].every((part) => part === null || part === "")) {
      report([from], "must have a score, a value, a comment or a correction", "missing");
    }
    return input;
  });
}

/**
 * Reads the idempotency key of a submission, and hashes its content. Returns undefined without a key. Throws an InputError for an
 * invalid key.
 */
async function readSubmissionKey(
  headers: Headers,
  token_id: string,
  { from: _from, ...content }: FeedbackSubmission,
): Promise<IdempotencyKey | undefined> {
  const bytes = new TextEncoder().encode(JSON.stringify(sortKeys(content as unknown as Json)));
  try {
    return await readIdempotencyKey(headers, `feedback/tokens/${token_id}`, bytes);
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== "invalid") throw error;
    throw new InputError([{ loc: ["header", "idempotency-key"], msg: error.message, type: "value_error" }]);
  }
}

/**
 * Returns a copy with the keys of all objects sorted, at each depth, so that the hash does not depend on their order.
 * Lists keep their order.
 */
function sortKeys(value: Json): Json {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (!isObject(value)) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, item]) => [key, sortKeys(item)]));
}

const MINUTE_MS = 60_000;
const DEFAULT_LIFETIME_MS = 180 * MINUTE_MS;
const MAX_LIFETIME_DAYS = 365;
const MAX_LIFETIME_MS = MAX_LIFETIME_DAYS * 1440 * MINUTE_MS;
const MAX_TOKENS = 100;
const feedbackLinks = v.pipe(
  v.array(feedbackLink),
  v.maxLength(MAX_TOKENS, encodeFinding("too_long", `must have at most ${MAX_TOKENS} items`)),
);

/**
 * Reads the body of a token creation: one request, or a list if `isList` is true. `now` is the time from which links
 * expire. Throws an InputError with all findings.
 */
function readTokenRequests(
  bytes: Uint8Array,
  now: number,
): { readonly requests: readonly TokenRequest[]; readonly isList: boolean } {
  const body = readJsonBody(bytes);
  if (!Array.isArray(body)) {
    const input = parseWithSchema(feedbackLink, body, ["body"]);
    return { requests: validateWith((report) => [toTokenRequest(input, ["body"], now, report)]), isList: false };
  }
  const links = parseWithSchema(feedbackLinks, body, ["body"]);
  const requests = validateWith((report) =>
    links.map((input, index) => toTokenRequest(input, ["body", index], now, report)),
  );
  return { requests, isList: true };
}

/**
 * Converts the validated input of one link: `run_id` to lower case, the expiry to a time, relative to `now`, and the config to that
 * of the feedback. Reports findings about the expiry at `loc`; the result then has a time that must not be used.
 */
const toTokenRequest = (input: LinkInput, loc: FindingLocation, now: number, report: ReportFinding): TokenRequest => ({
  run_id: input.run_id.toLowerCase(),
  feedback_key: input.feedback_key,
  expires_at: readExpiry(input, loc, now, report),
  config: toFeedbackConfig(input.feedback_config),
});

/**
 * Returns the time at which a link expires, in milliseconds since 1970, by default `DEFAULT_LIFETIME_MS` after `now`.
 * Reports a finding for two values and for a time that is past or too late, and returns a time then, too.
 */
function readExpiry(
  { expires_in, expires_at }: LinkInput,
  location: FindingLocation,
  now: number,
  report: ReportFinding,
): number {
  if (!isAbsent(expires_at)) {
    const loc = [...location, "expires_at"];
    if (!isAbsent(expires_in)) report(loc, "must not be given together with expires_in");
    const expiresAt = parseRfc3339(expires_at) ?? now;
    if (expiresAt <= now) report(loc, "must be later than now");
    else if (expiresAt > now + MAX_LIFETIME_MS) report(loc, `must not be more than ${MAX_LIFETIME_DAYS} days from now`);
    return expiresAt;
  }
  if (isAbsent(expires_in)) return now + DEFAULT_LIFETIME_MS;
  const loc = [...location, "expires_in"];
  const { days, hours, minutes } = expires_in;
  const lifetime_ms = (((days ?? 0) * 24 + (hours ?? 0)) * 60 + (minutes ?? 0)) * MINUTE_MS;
  if (!(lifetime_ms > 0)) report(loc, "must be longer than nothing");
  if (lifetime_ms > MAX_LIFETIME_MS) report(loc, `must not be longer than ${MAX_LIFETIME_DAYS} days`);
  return now + lifetime_ms;
}

/** Reads the run and the page of a list of tokens. Throws `invalid` that names all wrong parameters. */
function readTokenQuery(params: URLSearchParams): { readonly run_id: string } & Page {
  return validateWith((report) => ({
    run_id: readRequiredId(readSingleParam(params, "run_id", report), ["query", "run_id"], report),
    ...readPage(params, report),
  }));
}

/** Headers with which every web page may read the responses, and no cache may store them. */
const PUBLIC_RESPONSE_HEADERS: HeaderValues = { "access-control-allow-origin": "*", "cache-control": "no-store" };
const PUBLIC_HEADERS: PublicHeaders = {
  all: PUBLIC_RESPONSE_HEADERS,
  preflight: {
    ...PUBLIC_RESPONSE_HEADERS,
    "access-control-allow-methods": "GET, POST, OPTIONS",
    "access-control-allow-headers": "content-type, idempotency-key",
    "access-control-max-age": "600",
  },
};

const THANK_YOU_PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Thank you</title>
<p>Thank you. Your feedback was recorded.</p>
`;

const THANK_YOU_HEADERS: HeaderValues = {
  ...PUBLIC_RESPONSE_HEADERS,
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": "default-src 'none'",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

// Clients rely on the order of the checks: declared size, token, expiry, prefetch, then the content.
/**
 * Stores feedback of a body or a query with a token, and responds with its id; a GET from a browser gets a page. A GET
 * of a prefetch or a subresource gets 204 and stores nothing. A repeated idempotency key stores nothing new. Throws
 * `too_large`, `not_found`, `gone` or an InputError, in this order, then `submission_key_reused` or `too_many`.
 */
async function submitFeedback(context: RequestContext): Promise<Response> {
  const { request, service, params } = context;
  const { method, headers } = request;
  const isPost = method === "POST";
  if (isPost && Number(headers.get("content-length")) > MAX_PUBLIC_BYTES) throw bodyTooLargeError(MAX_PUBLIC_BYTES);
  const { token: segment = "" } = params;
  // A segment that is no UUID gets the response of an unknown token.
  const token = await service.feedback.token(UUID.test(segment) ? segment.toLowerCase() : "");
  if (!isPost && isSubresourceOrPrefetch(request))
    return new Response(null, { status: 204, headers: PUBLIC_RESPONSE_HEADERS });
  // The body is read last, so that only the holder of a token can make the server wait for it.
  const input = requireContent(
    isPost ? readSubmission(await context.bytes()) : readTextSubmission(getSearchParams(context)),
  );
  const key = await readSubmissionKey(headers, token.token_id, input);
  const feedback_id = await service.feedback.submit(token, input, key);
  if (!isPost && prefersHtml(headers.get("accept")))
    return new Response(THANK_YOU_PAGE, { headers: THANK_YOU_HEADERS });
  return jsonResponse({ feedback_id, message: "Feedback recorded" }, PUBLIC_RESPONSE_HEADERS);
}

const submissionOptions = {
  access: "open",
  idempotency_key: true,
  max_body_bytes: MAX_PUBLIC_BYTES,
  public_headers: PUBLIC_HEADERS,
  response: "Submitted",
  errors: [404, 409, 410, 422, 429],
  handle: submitFeedback,
} as const;

export const FEEDBACK_LINK_ROUTES: readonly Route[] = [
  defineRoute("get", "/api/v1/feedback/tokens/:token+", {
    ...submissionOptions,
    summary: "Submit feedback by following a link; browsers get an HTML page",
    no_content: "A prefetch, or an image or another part of a page: nothing was recorded",
  }),
  defineRoute("post", "/api/v1/feedback/tokens/:token+", {
    ...submissionOptions,
    summary: "Submit feedback to a link; the body is read as JSON",
  }),
  defineRoute("post", "/api/v1/feedback/tokens", {
    events: ["threads:update"],
    summary: "Create links that accept feedback on a run without a key; a list is created whole or not at all",
    response: "FeedbackTokens",
    errors: [404],
    /**
     * Creates a token for each request in the body, all or none, and responds with the token, or with a list for a list. Responds
     * 404 if one of the runs is unknown.
     */
    async handle(context) {
      const caller = await context.accountCaller();
      const { requests, isList } = readTokenRequests(await context.bytes(), context.service.environment.now());
      const tokens = await context.resources.feedback.mintTokens(caller, requests);
      return jsonResponse(isList ? tokens : tokens[0]);
    },
  }),
  defineRoute("get", "/api/v1/feedback/tokens", {
    events: ["threads:read"],
    summary: "List the links of a run, oldest first, including expired ones",
    response: "FeedbackToken[]",
    /** Responds with a page of the links of the run in the query; an empty list for an unknown run. */
    handle: async (context) =>
      jsonResponse(
        await context.resources.feedback.listTokens(
          await context.accountCaller(),
          readTokenQuery(getSearchParams(context)),
        ),
      ),
  }),
];
/**
 * Returns true if an `Accept` header prefers HTML to JSON. At equal quality the more specific range wins, then the first one.
 * Returns false without a header.
 */
export function prefersHtml(accept: string | null): boolean {
  const ranges = (accept ?? "").split(",").map((range) => {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    const quality = parameters.find((parameter) => parameter.startsWith("q="));
    return { type, quality: quality === undefined ? 1 : Number(quality.slice(2)) || 0 };
  });
  /**
   * Returns the quality of the first of `types` that the header names, and its rank, which is lower for a more specific
   * and an earlier range. Returns quality 0 and an infinite rank without one.
   */
  const findPreference = (...types: readonly string[]): { quality: number; rank: number } => {
    for (const [vagueness, type] of types.entries()) {
      const index = ranges.findIndex((range) => range.type === type);
      if (index >= 0) return { quality: ranges[index]?.quality ?? 0, rank: vagueness * ranges.length + index };
    }
    return { quality: 0, rank: Number.POSITIVE_INFINITY };
  };
  const htmlPreference = findPreference("text/html", "text/*", "*/*");
  const jsonPreference = findPreference("application/json", "application/*", "*/*");
  return (
    htmlPreference.quality > jsonPreference.quality ||
    (htmlPreference.quality > 0 &&
      htmlPreference.quality === jsonPreference.quality &&
      htmlPreference.rank < jsonPreference.rank)
  );
}

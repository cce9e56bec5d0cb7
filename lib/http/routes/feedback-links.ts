/** Feedback links: requests and routes. Everyone with a link may submit feedback; creating links needs a key. */
import * as v from "valibot";
import { InputError, ServiceError } from "../../errors.ts";
import type { Submission, TokenRequest } from "../../feedback/mod.ts";
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

const route = createRouteGroup({ tag: "Feedback", access: "account", issues: "found" });

/** Bodies of the token route, which needs no key, may have this many bytes. */
const MAX_PUBLIC_BYTES: number = 256 * 1024;

/** What a query submits to a token, in its text form. */
function readTextSubmission(params: URLSearchParams): Submission {
  const sent = validateWith((report) => {
    const text = (name: string): string => readSingleParam(params, name, report) ?? "";
    const value = fromText(text("value"));
    return {
      score: fromText(text("score")),
      value: typeof value === "string" ? value.toWellFormed() : value,
      comment: text("comment") || null,
      correction: text("correction") === "" ? null : fromJson(text("correction"), report),
    };
  });
  return { ...parseWithSchema(submission, sent, ["query"]), from: "query" };
}

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

function fromText(text: string): string | number | boolean | null {
  if (text === "") return null;
  if (NUMBER.test(text)) return Number(text);
  return /^(?:true|false)$/i.test(text) ? text.toLowerCase() === "true" : text;
}

function fromJson(text: string, report: ReportFinding): Json {
  let value: Json = null;
  try {
    value = JSON.parse(text) as Json;
  } catch {
    // Not JSON: the same refusal as of null.
  }
  if (value === null) report(["query", "correction"], "must be JSON, an object or a string", "json_invalid");
  return value;
}

function notEmpty(sent: Submission): Submission {
  const { score, value, comment, correction, from } = sent;
  return validateWith((report) => {
    if ([score, value, comment, correction].every((part) => part === null || part === "")) {
      report([from], "must have a score, a value, a comment or a correction", "missing");
    }
    return sent;
  });
}

/** The key under which a submission may be sent again, and a hash of what it says. */
async function readSubmissionKey(
  headers: Headers,
  token_id: string,
  { from: _from, ...said }: Submission,
): Promise<IdempotencyKey | undefined> {
  const bytes = new TextEncoder().encode(JSON.stringify(sorted(said as unknown as Json)));
  try {
    return await readIdempotencyKey(headers, `feedback/tokens/${token_id}`, bytes);
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

const MINUTE = 60_000;
const DEFAULT_LIFE = 180 * MINUTE;
const LONGEST_DAYS = 365;
const LONGEST_LIFE = LONGEST_DAYS * 1440 * MINUTE;
const MAX_TOKENS = 100;
const feedbackLinks = v.pipe(
  v.array(feedbackLink),
  v.maxLength(MAX_TOKENS, encodeFinding("too_long", `must have at most ${MAX_TOKENS} items`)),
);

/** The body of a token creation: the requests, and whether they came as a list. */
function readTokenRequests(
  bytes: Uint8Array,
  now: number,
): { readonly requests: readonly TokenRequest[]; readonly many: boolean } {
  const body = readJsonBody(bytes);
  if (!Array.isArray(body)) {
    const sent = parseWithSchema(feedbackLink, body, ["body"]);
    return { requests: validateWith((report) => [tokenRequest(sent, ["body"], now, report)]), many: false };
  }
  const all = parseWithSchema(feedbackLinks, body, ["body"]);
  const requests = validateWith((report) => all.map((sent, index) => tokenRequest(sent, ["body", index], now, report)));
  return { requests, many: true };
}

const tokenRequest = (sent: LinkInput, loc: FindingLocation, now: number, report: ReportFinding): TokenRequest => ({
  run_id: sent.run_id.toLowerCase(),
  feedback_key: sent.feedback_key,
  expires_at: readExpiry(sent, loc, now, report),
  config: toFeedbackConfig(sent.feedback_config),
});

function readExpiry(
  { expires_in, expires_at }: LinkInput,
  place: FindingLocation,
  now: number,
  report: ReportFinding,
): number {
  if (!isAbsent(expires_at)) {
    const loc = [...place, "expires_at"];
    if (!isAbsent(expires_in)) report(loc, "must not be given together with expires_in");
    const moment = parseRfc3339(expires_at) ?? now;
    if (moment <= now) report(loc, "must be later than now");
    else if (moment > now + LONGEST_LIFE) report(loc, `must not be more than ${LONGEST_DAYS} days from now`);
    return moment;
  }
  if (isAbsent(expires_in)) return now + DEFAULT_LIFE;
  const loc = [...place, "expires_in"];
  const { days, hours, minutes } = expires_in;
  const life = (((days ?? 0) * 24 + (hours ?? 0)) * 60 + (minutes ?? 0)) * MINUTE;
  if (!(life > 0)) report(loc, "must be longer than nothing");
  if (life > LONGEST_LIFE) report(loc, `must not be longer than ${LONGEST_DAYS} days`);
  return now + life;
}

/** The query of a list of tokens. */
function readTokenQuery(params: URLSearchParams): { readonly run_id: string } & Page {
  return validateWith((report) => ({
    run_id: readRequiredId(readSingleParam(params, "run_id", report), ["query", "run_id"], report),
    ...readPage(params, report),
  }));
}

/** Every web page may read the answers; no cache may keep them. */
const PUBLIC: HeaderValues = { "access-control-allow-origin": "*", "cache-control": "no-store" };
const PUBLIC_HEADERS: PublicHeaders = {
  all: PUBLIC,
  preflight: {
    ...PUBLIC,
    "access-control-allow-methods": "GET, POST, OPTIONS",
    "access-control-allow-headers": "content-type, idempotency-key",
    "access-control-max-age": "600",
  },
};

const THANKS = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Thank you</title>
<p>Thank you. Your feedback was recorded.</p>
`;

const PAGE: HeaderValues = {
  ...PUBLIC,
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": "default-src 'none'",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

// The order of the checks is a promise to clients: declared size, token, expiry, prefetch, then what was sent.
async function submit(context: RequestContext): Promise<Response> {
  const { request, service, params } = context;
  const { method, headers } = request;
  const posted = method === "POST";
  if (posted && Number(headers.get("content-length")) > MAX_PUBLIC_BYTES) throw bodyTooLargeError(MAX_PUBLIC_BYTES);
  const { token: segment = "" } = params;
  // A segment that cannot be an id gets the answer of an unknown token.
  const token = await service.feedback.token(UUID.test(segment) ? segment.toLowerCase() : "");
  if (!posted && isSubresourceOrPrefetch(request)) return new Response(null, { status: 204, headers: PUBLIC });
  // Only the holder of a token may make the server wait for a body.
  const sent = notEmpty(posted ? readSubmission(await context.bytes()) : readTextSubmission(getSearchParams(context)));
  const key = await readSubmissionKey(headers, token.token_id, sent);
  const feedback_id = await service.feedback.submit(token, sent, key);
  if (!posted && prefersHtml(headers.get("accept"))) return new Response(THANKS, { headers: PAGE });
  return jsonResponse({ feedback_id, message: "Feedback recorded" }, PUBLIC);
}

const submitting = {
  access: "open",
  idempotency_key: true,
  max_body_bytes: MAX_PUBLIC_BYTES,
  public_headers: PUBLIC_HEADERS,
  response: "Submitted",
  errors: [404, 409, 410, 422, 429],
  handle: submit,
} as const;

export const FEEDBACK_LINK_ROUTES: readonly Route[] = [
  route("get", "/api/v1/feedback/tokens/:token+", {
    ...submitting,
    summary: "Submit feedback by following a link; browsers get an HTML page",
    no_content: "A prefetch, or an image or another part of a page: nothing was recorded",
  }),
  route("post", "/api/v1/feedback/tokens/:token+", {
    ...submitting,
    summary: "Submit feedback to a link; the body is read as JSON",
  }),
  route("post", "/api/v1/feedback/tokens", {
    events: ["threads:update"],
    summary: "Create links that accept feedback on a run without a key; a list is created whole or not at all",
    response: "FeedbackTokens",
    errors: [404],
    async handle(context) {
      const caller = await context.accountCaller();
      const { requests, many } = readTokenRequests(await context.bytes(), context.service.environment.now());
      const tokens = await context.resources.feedback.mintTokens(caller, requests);
      return jsonResponse(many ? tokens : tokens[0]);
    },
  }),
  route("get", "/api/v1/feedback/tokens", {
    events: ["threads:read"],
    summary: "List the links of a run, oldest first, including expired ones",
    response: "FeedbackToken[]",
    handle: async (context) =>
      jsonResponse(
        await context.resources.feedback.listTokens(
          await context.accountCaller(),
          readTokenQuery(getSearchParams(context)),
        ),
      ),
  }),
];
/** True when an HTML page is wanted rather than JSON; of equal wishes the one that names its type, then the first counts. */
export function prefersHtml(accept: string | null): boolean {
  const wishes = (accept ?? "").split(",").map((range) => {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    const quality = parameters.find((parameter) => parameter.startsWith("q="));
    return { type, quality: quality === undefined ? 1 : Number(quality.slice(2)) || 0 };
  });
  const wish = (...types: readonly string[]): { quality: number; rank: number } => {
    for (const [vague, type] of types.entries()) {
      const at = wishes.findIndex((wish) => wish.type === type);
      if (at >= 0) return { quality: wishes[at]?.quality ?? 0, rank: vague * wishes.length + at };
    }
    return { quality: 0, rank: Number.POSITIVE_INFINITY };
  };
  const html = wish("text/html", "text/*", "*/*");
  const other = wish("application/json", "application/*", "*/*");
  return html.quality > other.quality || (html.quality > 0 && html.quality === other.quality && html.rank < other.rank);
}

/** Feedback links: requests and routes. Everyone with a link may submit feedback; creating links needs a key. */
import { InputError, ServiceError } from "../../errors.ts";
import type { Submission, TokenRequest } from "../../feedback/mod.ts";
import { isObject, type Json, type JsonObject } from "../../json.ts";
import { parseRfc3339 } from "../../rfc3339.ts";
import type { FeedbackConfig, IdempotencyKey, Page } from "../../storage/mod.ts";
import { BEYOND, isFiniteJson } from "../../validation.ts";
import { isUnasked } from "../access.ts";
import { absent, checked, type Loc, page, type Report, readJson, readObject, requiredId, single } from "../findings.ts";
import { UUID } from "../parse.ts";
import { readIdempotency, tooLarge } from "../request.ts";
import { type HeaderValues, json } from "../respond.ts";
import { type PublicHeaders, type RequestContext, type Route, routesOf, searchParams } from "../route.ts";
import { content, readAnyObject, readComment, readCorrection, readKey } from "./feedback.ts";

const route = routesOf({ tag: "Feedback", access: "account", issues: "found" });

/** Bodies of the token route, which needs no key, may have this many bytes. */
const MAX_PUBLIC_BYTES: number = 256 * 1024;

/** What a body submits to a token. */
function readSubmission(bytes: Uint8Array): Submission {
  const sent = readObject(bytes);
  const submission = checked((report) => ({
    ...content(sent, report),
    metadata: readAnyObject(sent.metadata, ["body", "metadata"], report),
    from: "body" as const,
  }));
  return notEmpty(submission);
}

/** What a query submits to a token, in its text form. */
function readTextSubmission(params: URLSearchParams): Submission {
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
async function readSubmissionKey(
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

const MINUTE = 60_000;
const DEFAULT_LIFE = 180 * MINUTE;
const LONGEST_DAYS = 365;
const LONGEST_LIFE = LONGEST_DAYS * 1440 * MINUTE;
const MAX_TOKENS = 100;
const CONFIGS = ["continuous", "categorical", "freeform"] as const;

/** The body of a token creation: the requests, and whether they came as a list. */
function readTokenRequests(
  bytes: Uint8Array,
  now: number,
): { readonly requests: readonly TokenRequest[]; readonly many: boolean } {
  const body = readJson(bytes);
  const many = Array.isArray(body);
  const requests = checked((report) => {
    if (many && body.length > MAX_TOKENS) {
      report(["body"], `must have at most ${MAX_TOKENS} items`, "too_long");
      return [];
    }
    return many
      ? body.map((item, index) => tokenRequest(item, ["body", index], now, report))
      : [tokenRequest(body, ["body"], now, report)];
  });
  return { requests, many };
}

function tokenRequest(sent: Json, loc: Loc, now: number, report: Report): TokenRequest {
  if (!isObject(sent)) report(loc, "must be an object", "type_error");
  const item = isObject(sent) ? sent : {};
  if (item !== sent) return { run_id: "", feedback_key: "", expires_at: now, config: null };
  return {
    run_id: requiredId(item.run_id, [...loc, "run_id"], report),
    feedback_key: readKey(item.feedback_key, [...loc, "feedback_key"], report),
    expires_at: readExpiry(item, loc, now, report),
    config: readConfig(item.feedback_config, [...loc, "feedback_config"], report),
  };
}

function readExpiry(item: JsonObject, place: Loc, now: number, report: Report): number {
  const { expires_in, expires_at } = item;
  if (!absent(expires_at)) {
    const loc = [...place, "expires_at"];
    if (!absent(expires_in)) report(loc, "must not be given together with expires_in");
    const moment = typeof expires_at === "string" ? parseRfc3339(expires_at) : null;
    if (moment === null) report(loc, "must be a date or time in RFC 3339", "datetime_parsing");
    else if (moment <= now) report(loc, "must be later than now");
    else if (moment > now + LONGEST_LIFE) report(loc, `must not be more than ${LONGEST_DAYS} days from now`);
    return moment ?? now;
  }
  if (absent(expires_in)) return now + DEFAULT_LIFE;
  const loc = [...place, "expires_in"];
  if (!isObject(expires_in)) {
    report(loc, "must be an object", "type_error");
    return now;
  }
  let minutes = 0;
  let whole = true;
  for (const [part, length] of [
    ["days", 1440],
    ["hours", 60],
    ["minutes", 1],
  ] as const) {
    const sent = expires_in[part] ?? 0;
    if (Number.isInteger(sent)) minutes += (sent as number) * length;
    else report([...loc, part], "must be an integer", "type_error");
    whole &&= Number.isInteger(sent);
  }
  const life = minutes * MINUTE;
  if (whole && !(life > 0)) report(loc, "must be longer than nothing");
  if (whole && life > LONGEST_LIFE) report(loc, `must not be longer than ${LONGEST_DAYS} days`);
  return now + life;
}

function readConfig(sent: Json | undefined, loc: Loc, report: Report): FeedbackConfig | null {
  if (absent(sent)) return null;
  if (!isObject(sent)) {
    report(loc, "must be an object", "type_error");
    return null;
  }
  const type = CONFIGS.find((known) => known === sent.type);
  if (absent(sent.type)) report([...loc, "type"], "is required", "missing");
  else if (!type) report([...loc, "type"], `must be one of ${CONFIGS.join(", ")}`, "enum");
  const bound = (name: "min" | "max"): { [bound in "min" | "max"]?: number } => {
    const value = sent[name];
    if (absent(value)) return {};
    if (typeof value === "number" && Number.isFinite(value)) return { [name]: value };
    report([...loc, name], "must be a number", "type_error");
    return {};
  };
  const bounds = { ...bound("min"), ...bound("max") };
  const { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY } = bounds;
  if (min > max) report(loc, "min must not be above max");
  const categories = readCategories(sent.categories, [...loc, "categories"], report);
  if (type === "categorical" && absent(sent.categories)) report([...loc, "categories"], "is required", "missing");
  if (type === "categorical" && categories?.length === 0) report([...loc, "categories"], "must have an item");
  return { type: type ?? "freeform", ...bounds, ...(categories && { categories }) };
}

function readCategories(sent: Json | undefined, loc: Loc, report: Report): FeedbackConfig["categories"] {
  if (absent(sent)) return undefined;
  if (!Array.isArray(sent)) {
    report(loc, "must be a list", "type_error");
    return undefined;
  }
  return sent.map((item, index) => {
    const { value, label = null } = isObject(item) ? item : {};
    if (!isObject(item)) report([...loc, index], "must be an object", "type_error");
    else if (absent(value)) report([...loc, index, "value"], "is required", "missing");
    else if (typeof value !== "number" || !Number.isFinite(value)) {
      report([...loc, index, "value"], "must be a number", "type_error");
    }
    if (label !== null && typeof label !== "string") report([...loc, index, "label"], "must be a string", "type_error");
    return { value: value as number, label: label as string | null };
  });
}

/** The query of a list of tokens. */
function readTokenQuery(params: URLSearchParams): { readonly run_id: string } & Page {
  return checked((report) => ({
    run_id: requiredId(single(params, "run_id", report), ["query", "run_id"], report),
    ...page(params, report),
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
  if (posted && Number(headers.get("content-length")) > MAX_PUBLIC_BYTES) throw tooLarge(MAX_PUBLIC_BYTES);
  const { token: segment = "" } = params;
  // A segment that cannot be an id gets the answer of an unknown token.
  const token = await service.feedback.token(UUID.test(segment) ? segment.toLowerCase() : "");
  if (!posted && isUnasked(request)) return new Response(null, { status: 204, headers: PUBLIC });
  // Only the holder of a token may make the server wait for a body.
  const sent = posted ? readSubmission(await context.bytes()) : readTextSubmission(searchParams(context));
  const key = await readSubmissionKey(headers, token.token_id, sent);
  const feedback_id = await service.feedback.submit(token, sent, key);
  if (!posted && prefersHtml(headers.get("accept"))) return new Response(THANKS, { headers: PAGE });
  return json({ feedback_id, message: "Feedback recorded" }, PUBLIC);
}

const submission = {
  access: "open",
  idempotency_key: true,
  max_body_bytes: MAX_PUBLIC_BYTES,
  public_headers: PUBLIC_HEADERS,
  answer: "Submitted",
  errors: [404, 409, 410, 422, 429],
  handle: submit,
} as const;

export const FEEDBACK_LINK_ROUTES: readonly Route[] = [
  route("get", "/api/v1/feedback/tokens/:token+", {
    ...submission,
    summary: "Submit feedback by following a link; browsers get an HTML page",
    no_content: "A prefetch, or an image or another part of a page: nothing was recorded",
  }),
  route("post", "/api/v1/feedback/tokens/:token+", {
    ...submission,
    summary: "Submit feedback to a link; the body is read as JSON",
  }),
  route("post", "/api/v1/feedback/tokens", {
    events: ["threads:update"],
    summary: "Create links that accept feedback on a run without a key; a list is created whole or not at all",
    answer: "FeedbackTokens",
    errors: [404],
    async handle(context) {
      const caller = await context.caller();
      const { requests, many } = readTokenRequests(await context.bytes(), context.service.environment.now());
      const tokens = await context.nouns.feedback.mintTokens(caller, requests);
      return json(many ? tokens : tokens[0]);
    },
  }),
  route("get", "/api/v1/feedback/tokens", {
    events: ["threads:read"],
    summary: "List the links of a run, oldest first, including expired ones",
    answer: "FeedbackToken[]",
    handle: async (context) =>
      json(await context.nouns.feedback.listTokens(await context.caller(), readTokenQuery(searchParams(context)))),
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

/** The routes of feedback and of feedback links. */
import { ServiceError } from "../../errors.ts";
import type { Visibility } from "../../storage/visibility.ts";
import { tooLarge } from "../body.ts";
import { type RequestContext, searchParams } from "../context.ts";
import {
  MAX_PUBLIC_BYTES,
  readFeedbackCreate,
  readFeedbackPatch,
  readFeedbackQuery,
  readStatsQuery,
  readSubmission,
  readSubmissionKey,
  readTextSubmission,
} from "../parse/feedback.ts";
import { UUID } from "../parse/pieces.ts";
import { readTokenQuery, readTokenRequests } from "../parse/tokens.ts";
import { type HeaderValues, json } from "../respond.ts";
import { type PublicHeaders, type Route, routesOf } from "./route.ts";

const route = routesOf({ tag: "Feedback", access: "account" });

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
  if (!posted && isPrefetch(headers)) return new Response(null, { status: 204, headers: PUBLIC });
  // Only the holder of a token may make the server wait for a body.
  const sent = posted ? readSubmission(await context.bytes()) : readTextSubmission(searchParams(context));
  const key = await readSubmissionKey(headers, token.token_id, sent);
  const feedback_id = await service.feedback.submit(token, sent, key);
  if (!posted && prefersHtml(headers.get("accept"))) return new Response(THANKS, { headers: PAGE });
  return json({ feedback_id, message: "Feedback recorded" }, PUBLIC);
}

/** Feedback is visible where its run's thread is, and changing it changes that thread. */
async function visibilityOf(context: RequestContext, value: object): Promise<Visibility> {
  return (await context.authorize({ thread_id: null, ...value })).visibility;
}

function feedbackId({ params: { id = "" } }: RequestContext): string {
  if (!UUID.test(id)) throw new ServiceError("not_found", "Feedback not found");
  return id.toLowerCase();
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
const reads = { events: ["threads:read"] } as const;
const updates = { events: ["threads:update"] } as const;

export const FEEDBACK_ROUTES: readonly Route[] = [
  route("get", "/api/v1/feedback/tokens/:token+", {
    ...submission,
    summary: "Submit feedback by following a link; browsers get an HTML page",
    no_content: "A browser's prefetch: nothing was recorded",
  }),
  route("post", "/api/v1/feedback/tokens/:token+", {
    ...submission,
    summary: "Submit feedback to a link; the body is read as JSON",
  }),
  route("post", "/api/v1/feedback/tokens", {
    ...updates,
    summary: "Create links that accept feedback on a run without a key; a list is created whole or not at all",
    answer: "FeedbackTokens",
    errors: [404],
    async handle(context) {
      const caller = await context.caller();
      const { requests, many } = readTokenRequests(await context.bytes(), context.service.environment.now());
      const run_ids = requests.map(({ run_id }) => run_id);
      const visibility = await visibilityOf(context, { metadata: { run_ids } });
      const tokens = await context.service.feedback.mintTokens(caller, requests, visibility);
      return json(many ? tokens : tokens[0]);
    },
  }),
  route("get", "/api/v1/feedback/tokens", {
    ...reads,
    summary: "List the links of a run, oldest first, including expired ones",
    answer: "FeedbackToken[]",
    async handle(context) {
      const caller = await context.caller();
      const query = readTokenQuery(searchParams(context));
      const visibility = await visibilityOf(context, { run_id: query.run_id });
      return json(await context.service.feedback.listTokens(caller, query, visibility));
    },
  }),
  route("get", "/api/v1/feedback/stats", {
    ...reads,
    summary: "Get feedback statistics by key",
    answer: "FeedbackStats",
    async handle(context) {
      const caller = await context.caller();
      const query = readStatsQuery(searchParams(context));
      const visibility = await visibilityOf(context, { run_ids: query.run_ids ?? null });
      const stats = await context.service.feedback.stats(caller, query, visibility);
      return json(Object.fromEntries(stats.map(({ key, ...numbers }) => [key, numbers])));
    },
  }),
  route("get", "/api/v1/feedback", {
    ...reads,
    summary: "List feedback, newest first",
    answer: "Feedback[]",
    async handle(context) {
      const caller = await context.caller();
      const query = readFeedbackQuery(searchParams(context));
      const visibility = await visibilityOf(context, { run_ids: query.run_ids ?? null });
      return json(await context.service.feedback.list(caller, query, visibility));
    },
  }),
  route("post", "/api/v1/feedback", {
    ...updates,
    summary: "Record feedback on a run or a project",
    answer: "Feedback",
    errors: [404, 409],
    async handle(context) {
      const caller = await context.caller();
      const request = readFeedbackCreate(await context.bytes());
      const run_ids = request.run_id === undefined ? [] : [request.run_id];
      const visibility = await visibilityOf(context, { metadata: { run_ids } });
      return json(await context.service.feedback.create(caller, request, visibility));
    },
  }),
  route("get", "/api/v1/feedback/:id", {
    ...reads,
    summary: "Get feedback",
    answer: "Feedback",
    errors: [404],
    async handle(context) {
      const caller = await context.caller();
      const feedback_id = feedbackId(context);
      const visibility = await visibilityOf(context, { feedback_id });
      return json(await context.service.feedback.get(caller, feedback_id, visibility));
    },
  }),
  route("patch", "/api/v1/feedback/:id", {
    ...updates,
    summary: "Change feedback",
    answer: "Feedback",
    errors: [404],
    async handle(context) {
      const caller = await context.caller();
      const feedback_id = feedbackId(context);
      const patch = readFeedbackPatch(await context.bytes());
      const visibility = await visibilityOf(context, { feedback_id });
      return json(await context.service.feedback.update(caller, feedback_id, patch, visibility));
    },
  }),
  route("delete", "/api/v1/feedback/:id", {
    ...updates,
    summary: "Delete feedback",
    answer: "any",
    errors: [404],
    async handle(context) {
      const caller = await context.caller();
      const feedback_id = feedbackId(context);
      const visibility = await visibilityOf(context, { feedback_id });
      await context.service.feedback.delete(caller, feedback_id, visibility);
      return json({});
    },
  }),
];

/** True for a request that a browser makes in case its user follows a link. */
function isPrefetch(headers: Headers): boolean {
  return ["sec-purpose", "purpose", "x-moz"].some((name) => /\bprefetch\b/i.test(headers.get(name) ?? ""));
}
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

/** The feedback routes of the platform API: requests to answers. */
import type { Environment } from "../../environment.ts";
import { ServiceError } from "../../errors.ts";
import type { Feedback } from "../../feedback/mod.ts";
import type { Caller } from "../../storage/identity.ts";
import type { Visibility } from "../../storage/visibility.ts";
import { type ReadBody, tooLarge } from "../body.ts";
import type { RequestContext } from "../context.ts";
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
import { errorResponse, failureResponse, type HeaderValues, json } from "../respond.ts";

/** A request whose caller is known; `id` is that of its path. */
export interface PlatformCall {
  readonly request: Request;
  readonly caller: Caller;
  readonly id?: string;
  /** See `Call.may`. */
  readonly may: RequestContext["authorize"];
}

/** What answers each route. Errors of the keyed ones are thrown. */
export interface FeedbackRoutes {
  /**
   * Any request to `/feedback/tokens/{segment}`, without a key. It answers errors too, and never rejects: its answers may be read
   * by every web page, so nothing is to be added to their headers.
   */
  submission(request: Request, segment: string, request_id?: string): Promise<Response>;
  createTokens(call: PlatformCall): Promise<Response>;
  listTokens(call: PlatformCall): Promise<Response>;
  create(call: PlatformCall): Promise<Response>;
  list(call: PlatformCall): Promise<Response>;
  stats(call: PlatformCall): Promise<Response>;
  get(call: PlatformCall): Promise<Response>;
  update(call: PlatformCall): Promise<Response>;
  delete(call: PlatformCall): Promise<Response>;
  /** What clients of the platform ask first: how to send feedback. */
  info(version: string): Response;
}

/** For every answer to a web page: it may read it, and nobody keeps it. */
const OPEN: HeaderValues = { "access-control-allow-origin": "*", "cache-control": "no-store" };
const PREFLIGHT: HeaderValues = {
  ...OPEN,
  "access-control-allow-methods": "GET, POST, OPTIONS",
  "access-control-allow-headers": "content-type, idempotency-key",
  "access-control-max-age": "600",
};

const THANKS = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Thank you</title>
<p>Thank you. Your feedback was recorded.</p>
`;

const PAGE: HeaderValues = {
  ...OPEN,
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": "default-src 'none'",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

/** The routes over the nouns. */
export function createFeedbackRoutes(
  feedback: Feedback,
  environment: Pick<Environment, "now" | "log">,
  read: ReadBody,
): FeedbackRoutes {
  // Method, declared size, token, expiry, prefetch, then what is in the request: the order is a promise to clients.
  async function submission(request: Request, segment: string): Promise<Response> {
    const { method, headers, url } = request;
    if (method === "OPTIONS") return new Response(null, { status: 204, headers: PREFLIGHT });
    if (method === "HEAD") return new Response(null, { status: 204, headers: OPEN });
    if (method !== "GET" && method !== "POST") {
      const allow = "GET, POST, HEAD, OPTIONS";
      const error = new ServiceError("method_not_allowed", `${method} is not allowed here: ${allow}`);
      return errorResponse(error, { ...OPEN, allow });
    }
    const posted = method === "POST";
    if (posted && Number(headers.get("content-length")) > MAX_PUBLIC_BYTES) throw tooLarge(MAX_PUBLIC_BYTES);
    // What cannot be an id is answered as an unknown one.
    const token = await feedback.token(UUID.test(segment) ? segment.toLowerCase() : "");
    if (!posted && isPrefetch(headers)) return new Response(null, { status: 204, headers: OPEN });
    // Only the holder of a token may make the server wait for a body.
    const sent = posted
      ? readSubmission(await read(request, MAX_PUBLIC_BYTES))
      : readTextSubmission(new URL(url).searchParams);
    const feedback_id = await feedback.submit(token, sent, await readSubmissionKey(headers, token.token_id, sent));
    if (!posted && prefersHtml(headers.get("accept"))) return new Response(THANKS, { headers: PAGE });
    return json({ feedback_id, message: "Feedback recorded" }, OPEN);
  }

  /** Feedback is there where its run is: it is read with the run's thread, and changes that. */
  const visibility = async (
    { may }: PlatformCall,
    event: "threads:read" | "threads:update",
    of: object,
  ): Promise<Visibility> => (await may(event, { thread_id: null, ...of })).visibility;
  const query = ({ request }: PlatformCall): URLSearchParams => new URL(request.url).searchParams;
  const recordId = ({ id = "" }: PlatformCall): string => {
    if (!UUID.test(id)) throw new ServiceError("not_found", "Feedback not found");
    return id.toLowerCase();
  };

  return {
    submission: (request, segment, request_id) =>
      submission(request, segment).catch((error: unknown) => {
        if (!(error instanceof ServiceError)) {
          const { method } = request;
          environment.log({ level: "error", message: "A feedback submission failed", method, request_id, error });
        }
        return failureResponse(error, request, OPEN);
      }),
    async createTokens(call) {
      const { requests, many } = readTokenRequests(await read(call.request), environment.now());
      const run_ids = requests.map(({ run_id }) => run_id);
      const seen = await visibility(call, "threads:update", { metadata: { run_ids } });
      const tokens = await feedback.mintTokens(call.caller, requests, seen);
      return json(many ? tokens : tokens[0]);
    },
    async listTokens(call) {
      const asked = readTokenQuery(query(call));
      const seen = await visibility(call, "threads:read", { run_id: asked.run_id });
      return json(await feedback.listTokens(call.caller, asked, seen));
    },
    async create(call) {
      const asked = readFeedbackCreate(await read(call.request));
      const { run_id } = asked;
      const run_ids = run_id === undefined ? [] : [run_id];
      const seen = await visibility(call, "threads:update", { metadata: { run_ids } });
      return json(await feedback.create(call.caller, asked, seen));
    },
    async list(call) {
      const asked = readFeedbackQuery(query(call));
      const seen = await visibility(call, "threads:read", { run_ids: asked.run_ids ?? null });
      return json(await feedback.list(call.caller, asked, seen));
    },
    async stats(call) {
      const asked = readStatsQuery(query(call));
      const seen = await visibility(call, "threads:read", { run_ids: asked.run_ids ?? null });
      const stats = await feedback.stats(call.caller, asked, seen);
      return json(Object.fromEntries(stats.map(({ key, ...numbers }) => [key, numbers])));
    },
    async get(call) {
      const feedback_id = recordId(call);
      const seen = await visibility(call, "threads:read", { feedback_id });
      return json(await feedback.get(call.caller, feedback_id, seen));
    },
    async update(call) {
      const feedback_id = recordId(call);
      const patch = readFeedbackPatch(await read(call.request));
      const seen = await visibility(call, "threads:update", { feedback_id });
      return json(await feedback.update(call.caller, feedback_id, patch, seen));
    },
    async delete(call) {
      const feedback_id = recordId(call);
      const seen = await visibility(call, "threads:update", { feedback_id });
      await feedback.delete(call.caller, feedback_id, seen);
      return json({});
    },
    // Without `use_multipart_endpoint: false` clients send some feedback to a route for traces.
    info: (version) =>
      json({
        version,
        license_expiration_time: null,
        instance_flags: {},
        batch_ingest_config: {
          use_multipart_endpoint: false,
          size_limit: 100,
          size_limit_bytes: 20_971_520,
          scale_up_nthreads_limit: 16,
          scale_up_qsize_trigger: 1000,
          scale_down_nempty_trigger: 4,
        },
      }),
  };
}

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

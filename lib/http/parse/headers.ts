/** Reads and validates request headers. */
import { ServiceError } from "../../errors.ts";
import { carriesCredential } from "../../executor/kwargs.ts";
import type { Json, JsonObject } from "../../json.ts";
import type { IdempotencyKey } from "../../storage/mod.ts";
import type { ThreadPosition } from "../../streams/thread-subscription.ts";

/** The number of the last frame that the reader has seen. Undefined (`-1`, `-` or no header): everything is replayed. */
export function readLastEventId(headers: Headers): number | undefined {
  const sent = headers.get("last-event-id")?.trim();
  if (!sent || sent === "-1" || sent === "-") return undefined;
  const id = /^\d{1,16}$/.test(sent) ? Number(sent) : Number.NaN;
  if (!Number.isSafeInteger(id)) throw new ServiceError("invalid", "Last-Event-ID: must be an integer");
  return id;
}

/** The last frame of a thread's stream that the reader has seen. Undefined: only new frames are sent. */
export function readThreadEventId(headers: Headers): ThreadPosition | undefined {
  const sent = headers.get("last-event-id")?.trim();
  if (!sent) return undefined;
  if (sent === "-1" || sent === "-") return { seq: 0, frame: 0, at: 0 };
  const [, seq, frame, at] = /^(\d{1,15})-(\d{1,16})-(\d{1,15})$/.exec(sent) ?? [];
  const position = { seq: Number(seq), frame: Number(frame), at: Number(at) };
  if (Object.values(position).every(Number.isSafeInteger)) return position;
  throw new ServiceError("invalid", "Last-Event-ID: must be an id of this stream, - or -1");
}

/** The number of relative webhooks that led to this request. */
export function readWebhookDepth(headers: Headers): number {
  const sent = headers.get("x-webhook-depth");
  if (sent === null) return 0;
  if (!/^\d{1,3}$/.test(sent)) throw new ServiceError("invalid", "x-webhook-depth: must be a small whole number");
  return Number(sent);
}

/** The idempotency key, and a hash of the body that tells a repeated request from another one. */
export async function readIdempotency(
  headers: Headers,
  route: string,
  body: Uint8Array,
): Promise<IdempotencyKey | undefined> {
  const key = headers.get("idempotency-key");
  if (key === null) return undefined;
  if (!/^[\x21-\x7e]{1,255}$/.test(key)) {
    throw new ServiceError("invalid", "Idempotency-Key: must be 1 to 255 visible ASCII characters");
  }
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", body as Uint8Array<ArrayBuffer>));
  return { route, key, body_hash: [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("") };
}

/** Which request headers runs see: names and patterns with `*`, case-insensitive. */
export interface HeaderChoice {
  /** Headers to copy. Default: `x-*` and `user-agent`. */
  readonly includes?: readonly string[];
  /** Headers to leave out of these. */
  readonly excludes?: readonly string[];
}

/** Copies the request headers that a run sees in `config.configurable`, by lower-case name. */
export type HeaderCopy = (headers: Headers) => JsonObject;

const NEVER = new Set([
  "authorization",
  "proxy-authorization",
  "cookie",
  "set-cookie",
  "x-api-key",
  "x-tenant-id",
  "x-service-key",
  "x-webhook-depth",
]);

/**
 * Never copies credentials and the server's own headers. Other headers that look like a credential, or carry an identity, are
 * copied only if `includes` has the whole name: patterns do not match them.
 */
export function headerCopy({ includes, excludes = [] }: HeaderChoice = {}): HeaderCopy {
  const named = new Set(includes?.map((name) => name.toLowerCase()));
  const included = matcher(includes ?? ["x-*", "user-agent"]);
  const excluded = matcher(excludes);
  const copied = (header: string): boolean =>
    !NEVER.has(header) &&
    included(header) &&
    !excluded(header) &&
    (named.has(header) || !(header === "x-organization-id" || carriesCredential(header)));
  return (headers) => {
    const shown: [string, Json][] = [];
    headers.forEach((value, header) => {
      if (copied(header)) shown.push([header, value]);
    });
    return Object.fromEntries(shown);
  };
}

/** Whether a name matches one of these patterns, where `*` stands for any characters. */
function matcher(patterns: readonly string[]): (name: string) => boolean {
  const parts = patterns.map((pattern) => pattern.toLowerCase().split("*"));
  return (name) => parts.some((pattern) => fits(name, pattern));
}

/** Finds each part after the one before, in linear time however many stars there are. */
function fits(name: string, [first = "", ...rest]: readonly string[]): boolean {
  const last = rest.pop();
  if (last === undefined) return name === first;
  if (!name.startsWith(first)) return false;
  let at = first.length;
  for (const part of rest) {
    const found = name.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return name.length - last.length >= at && name.endsWith(last);
}

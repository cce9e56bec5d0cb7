/** Reads what requests say in headers. */
import { ServiceError } from "../../errors.ts";
import type { Json, JsonObject } from "../../json.ts";
import type { IdempotencyKey } from "../../storage.ts";
import type { ThreadPosition } from "../../thread-stream.ts";

/** The frame number a reader has seen last; undefined asks for everything (`-1`, `-` or no header). */
export function readLastEventId(headers: Headers): number | undefined {
  const sent = headers.get("last-event-id")?.trim();
  if (!sent || sent === "-1" || sent === "-") return undefined;
  const id = /^\d{1,16}$/.test(sent) ? Number(sent) : Number.NaN;
  if (!Number.isSafeInteger(id)) throw new ServiceError("invalid", "Last-Event-ID: must be an integer");
  return id;
}

/** The frame of a thread's stream that a reader has seen last; undefined asks for what comes from now on. */
export function readThreadEventId(headers: Headers): ThreadPosition | undefined {
  const sent = headers.get("last-event-id")?.trim();
  if (!sent) return undefined;
  if (sent === "-1" || sent === "-") return { seq: 0, frame: 0 };
  const [, seq, frame] = /^(\d{1,15})-(\d{1,16})$/.exec(sent) ?? [];
  const position = { seq: Number(seq), frame: Number(frame) };
  if (Number.isSafeInteger(position.seq) && Number.isSafeInteger(position.frame)) return position;
  throw new ServiceError("invalid", "Last-Event-ID: must be an id of this stream, - or -1");
}

/** How many relative webhooks led to a request. */
export function readWebhookDepth(headers: Headers): number {
  const sent = headers.get("x-webhook-depth");
  if (sent === null) return 0;
  if (!/^\d{1,3}$/.test(sent)) throw new ServiceError("invalid", "x-webhook-depth: must be a small whole number");
  return Number(sent);
}

/** The key under which a request may be sent again, and a hash that tells it from others. */
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

const IDENTITY = new Set(["x-api-key", "x-tenant-id", "x-organization-id", "x-service-key", "x-webhook-depth"]);
const CREDENTIAL = /auth|token|secret|passw|credential|cookie|signature|jwt|bearer|key$/;

/**
 * The request headers a run sees in `config.configurable`: `user-agent` and every `x-…` but those that carry an
 * identity or look like a credential. `x-auth-scheme` names a scheme only, and graphs may read it.
 */
export function headerConfig(headers: Headers): JsonObject {
  const shown: [string, Json][] = [];
  headers.forEach((value, header) => {
    const extra = header.startsWith("x-") && !IDENTITY.has(header) && !CREDENTIAL.test(header);
    if (extra || header === "user-agent" || header === "x-auth-scheme") shown.push([header, value]);
  });
  return Object.fromEntries(shown);
}

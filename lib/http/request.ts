/** Reads the body of a request within limits of size and time, and its headers. */
import { type Environment, waitForNextTick } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import { mayHoldCredential } from "../executor/job-request.ts";
import type { Json, JsonObject } from "../json.ts";
import type { HeaderChoice } from "../options/http.ts";
import type { IdempotencyKey } from "../storage/mod.ts";
import type { ThreadPosition } from "../streams/thread-subscription.ts";
import { JsonScan } from "./json-scan.ts";
import { depthCheckedBodies, readJson } from "./parse.ts";
import { LARGE_BYTES } from "./respond.ts";

/** The default maximum size of a body. Storing such a body blocks other requests for nearly 100 ms. */
const MAX_BODY_BYTES = 8 * 1024 * 1024;
const BODY_TIMEOUT_MS = 30_000;
/** The average rate at which a body may take longer than the timeout. */
const MIN_BYTES_PER_SECOND = 1024;
/** The content length up to which bodies are read in one piece, which is cheaper on every runtime. */
const SMALL_BODY_BYTES = 16 * 1024;

/** The default maximum number of members and items at any depth. More would delay other requests. */
const MAX_BODY_VALUES = 20_000;

interface BodyLimits {
  readonly body_timeout_ms?: number;
  readonly max_body_bytes?: number;
  readonly max_body_values?: number;
}

/** Parses messages of WebSockets within the limits of bodies. */
export interface MessageParser {
  readonly max_bytes: number;
  /** Parses JSON. Throws `bad_request`, `invalid` and `too_large`. */
  parse(text: string): Promise<unknown>;
}

interface ReadBodyOptions {
  /** The maximum size in bytes. Default: `max_body_bytes`. */
  readonly limit?: number | undefined;
  /** Resolves when the byte budget has room for a large body. */
  reserveMemory(bytes: number): Promise<void>;
}

/** Reads the bytes of a body. Throws `too_large`, `too_slow`, and the errors of `reserveMemory`. */
export type ReadBody = (request: Request, options: ReadBodyOptions) => Promise<Uint8Array>;

/**
 * Creates a reader of bodies and a parser of WebSocket messages with the same limits. Both throw `too_large` and `bad_request` or
 * `invalid`; the reader also `too_slow`.
 */
export function createBodyReader(
  environment: Pick<Environment, "timer" | "defer">,
  { body_timeout_ms = BODY_TIMEOUT_MS, max_body_bytes = MAX_BODY_BYTES, max_body_values = MAX_BODY_VALUES }: BodyLimits,
): { readonly read: ReadBody; readonly messages: MessageParser } {
  const checkBodyValues = (bytes: Uint8Array): Promise<void> =>
    checkValueCount(bytes, max_body_values, () => waitForNextTick(environment));
  return {
    /**
     * Reads a body of at most `limit` bytes. Throws `too_large` if its JSON has more than `max_body_values` values, and
     * does not parse it.
     */
    async read(request, { limit = max_body_bytes, reserveMemory }) {
      const bytes = await readBytes(environment, body_timeout_ms, request, { limit, reserveMemory });
      await checkBodyValues(bytes);
      return bytes;
    },
    messages: {
      max_bytes: max_body_bytes,
      /**
       * Parses a WebSocket message as JSON after a check of its number of values. Does not check its size; `max_bytes`
       * is for the caller.
       */
      async parse(text) {
        const bytes = new TextEncoder().encode(text);
        await checkBodyValues(bytes);
        return readJson(bytes);
      },
    },
  };
}

/**
 * Reads a body into memory; it is empty without one. Calls `reserveMemory` before a body above `LARGE_BYTES` is read.
 * Throws `too_large` above `limit` bytes, and `too_slow` if it takes `timeout_ms` and the time allowed for the bytes
 * that have arrived.
 */
async function readBytes(
  environment: Pick<Environment, "timer">,
  timeout_ms: number,
  request: Request,
  { limit, reserveMemory }: ReadBodyOptions & { readonly limit: number },
): Promise<Uint8Array> {
  const contentLength = request.headers.get("content-length");
  if (Number(contentLength) > limit) throw bodyTooLargeError(limit);
  // The getter `body` creates a stream, which small bodies do not need.
  const isSmall = contentLength !== null && Number(contentLength) <= SMALL_BODY_BYTES;
  if (!isSmall && !request.body) return new Uint8Array();
  const hasReservation = Number(contentLength) > LARGE_BYTES;
  if (hasReservation) await reserveMemory(Number(contentLength));
  const bytes = new GrowingBytes(hasReservation ? Number(contentLength) : 0);
  const { deadline, cancel } = startDeadline(environment, timeout_ms, () => bytes.length);
  try {
    if (!isSmall) {
      await readChunks(request.body as ReadableStream<Uint8Array>, bytes, {
        limit,
        reserveMemory,
        hasReservation,
        deadline,
      });
      return bytes.all();
    }
    const body = new Uint8Array(await Promise.race([request.arrayBuffer(), deadline]));
    if (body.length > limit) throw bodyTooLargeError(limit);
    return body;
  } finally {
    cancel();
  }
}

interface ReadChunksOptions extends ReadBodyOptions {
  readonly limit: number;
  /** True if memory was reserved by the content length. */
  readonly hasReservation: boolean;
  /** Rejects with `too_slow`. Never resolves. */
  readonly deadline: Promise<never>;
}

/**
 * Appends all chunks of a body to `bytes`. Calls `reserveMemory` with `limit` once, when they exceed `LARGE_BYTES`
 * without a reservation. Throws `too_large` above `limit`, or the error of the deadline, and cancels the body then.
 */
async function readChunks(
  body: ReadableStream<Uint8Array>,
  bytes: GrowingBytes,
  { limit, reserveMemory, hasReservation, deadline }: ReadChunksOptions,
): Promise<void> {
  const reader = body.getReader();
  let isReserved = hasReservation;
  try {
    for (;;) {
      const { done, value } = await Promise.race([reader.read(), deadline]);
      if (done) return;
      if (bytes.length + value.length > limit) throw bodyTooLargeError(limit);
      bytes.add(value);
      // The final size is unknown, so the maximum is reserved.
      if (!isReserved && bytes.length > LARGE_BYTES) {
        isReserved = true;
        await reserveMemory(limit);
      }
    }
  } catch (error) {
    // The result is not awaited, because the cancellation of a stalled body may stall as well.
    reader.cancel().catch(() => {});
    throw error;
  }
}

/** The number of bytes that are scanned between two ticks of the event loop. */
const SCAN_SLICE_BYTES = 512 * 1024;

/**
 * Throws `too_large` if the body has more than `maxValues` values, before JSON.parse creates them. Calls `tick` between
 * slices of a long body. Adds the bytes to `depthCheckedBodies`, unless they nest too deep: then it returns and leaves
 * the error to `readJson`.
 */
async function checkValueCount(bytes: Uint8Array, maxValues: number, tick: () => Promise<void>): Promise<void> {
  const scan = new JsonScan();
  for (let from = 0; from < bytes.length; from += SCAN_SLICE_BYTES) {
    // `readJson` throws another error for a body that nests too deep.
    if (!scan.scan(bytes, Math.min(from + SCAN_SLICE_BYTES, bytes.length))) return;
    if (scan.values > maxValues) {
      throw new ServiceError(
        "too_large",
        `The body holds more than ${maxValues} values. Send less at once, or raise http.max_body_values`,
      );
    }
    if (bytes.length > SCAN_SLICE_BYTES) await tick();
  }
  depthCheckedBodies.add(bytes);
}

/**
 * Starts a timer. Returns a promise that rejects with `too_slow` after `timeout_ms` plus the time that `length()` bytes
 * take at `MIN_BYTES_PER_SECOND`. It never resolves. `cancel()` stops the timer, and then it stays pending.
 */
function startDeadline(
  environment: Pick<Environment, "timer">,
  timeout_ms: number,
  length: () => number,
): { readonly deadline: Promise<never>; cancel(): void } {
  let cancel = (): void => {};
  const deadline = new Promise<never>((_resolve, reject) => {
    let waited_ms = 0;
    /** Rejects when the time is over. Each byte that has arrived until then extends the time. */
    const wait = (ms: number): void => {
      cancel = environment.timer(ms, () => {
        waited_ms += ms;
        const remaining_ms = timeout_ms + Math.floor((length() / MIN_BYTES_PER_SECOND) * 1000) - waited_ms;
        if (remaining_ms > 0) wait(remaining_ms);
        else reject(bodyTooSlowError(timeout_ms));
      });
    };
    wait(timeout_ms);
  });
  return { deadline, cancel: () => cancel() };
}

/** A buffer that grows. A body of the expected size is never in memory twice. */
class GrowingBytes {
  #bytes: Uint8Array;
  #length = 0;

  constructor(expected: number) {
    this.#bytes = new Uint8Array(expected);
  }

  get length(): number {
    return this.#length;
  }

  /** Copies the chunk to the end. At least doubles the memory when it is full. */
  add(chunk: Uint8Array): void {
    const length = this.#length + chunk.length;
    if (length > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(length, 2 * this.#bytes.length));
      larger.set(this.#bytes);
      this.#bytes = larger;
    }
    this.#bytes.set(chunk, this.#length);
    this.#length = length;
  }

  all(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }
}

export const bodyTooLargeError = (limit: number): ServiceError =>
  new ServiceError("too_large", `The body is larger than ${limit} bytes. Send less at once`);
const bodyTooSlowError = (timeout_ms: number): ServiceError =>
  new ServiceError(
    "too_slow",
    `The body did not arrive within ${timeout_ms} ms. Send the request again, or raise http.body_timeout_ms`,
  );

/**
 * Reads the number of the last frame that the client received. Returns undefined for `-1`, `-` or no header: all frames are
 * replayed. Throws `invalid`.
 */
export function readLastEventId(headers: Headers): number | undefined {
  const headerValue = headers.get("last-event-id")?.trim();
  if (!headerValue || headerValue === "-1" || headerValue === "-") return undefined;
  const id = /^\d{1,16}$/.test(headerValue) ? Number(headerValue) : Number.NaN;
  if (!Number.isSafeInteger(id)) throw new ServiceError("invalid", "Last-Event-ID: must be an integer");
  return id;
}

/**
 * Reads the last position of a thread's stream that the client received. Returns undefined without a header (only new frames are
 * sent), and the start for `-1` and `-`. Throws `invalid`.
 */
export function readThreadEventId(headers: Headers): ThreadPosition | undefined {
  const headerValue = headers.get("last-event-id")?.trim();
  if (!headerValue) return undefined;
  if (headerValue === "-1" || headerValue === "-") return { seq: 0, frame: 0, at: 0 };
  const [, seq, frame, at] = /^(\d{1,15})-(\d{1,16})-(\d{1,15})$/.exec(headerValue) ?? [];
  const position = { seq: Number(seq), frame: Number(frame), at: Number(at) };
  if (Object.values(position).every(Number.isSafeInteger)) return position;
  throw new ServiceError("invalid", "Last-Event-ID: must be an id of this stream, - or -1");
}

/** Reads the number of relative webhooks that led to this request; 0 without a header. Throws `invalid`. */
export function readWebhookDepth(headers: Headers): number {
  const headerValue = headers.get("x-webhook-depth");
  if (headerValue === null) return 0;
  if (!/^\d{1,3}$/.test(headerValue))
    throw new ServiceError("invalid", "x-webhook-depth: must be a small whole number");
  return Number(headerValue);
}

/**
 * Reads the idempotency key and hashes the body, so that a repeated request differs from another one. Returns undefined without a
 * key. Throws `invalid`.
 */
export async function readIdempotencyKey(
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

/** Copies request headers by lower-case name for `config.configurable` of a run. */
export type CopyHeaders = (headers: Headers) => JsonObject;

const NEVER_COPIED_HEADERS = new Set([
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
 * Returns a function that returns the headers that match `includes` (`x-*` and `user-agent` by default) and not
 * `excludes`. It never copies credentials and headers of this server. Other headers that look like a credential, or
 * carry an identity, are copied only if `includes` has the whole name.
 */
export function createHeaderCopier({ includes, excludes = [] }: HeaderChoice = {}): CopyHeaders {
  const exactNames = new Set(includes?.map((name) => name.toLowerCase()));
  const isIncluded = createPatternMatcher(includes ?? ["x-*", "user-agent"]);
  const isExcluded = createPatternMatcher(excludes);
  /**
   * Returns true if `header`, in lower case, is matched by the patterns and is neither forbidden nor a credential that
   * nobody named.
   */
  const isCopied = (header: string): boolean =>
    !NEVER_COPIED_HEADERS.has(header) &&
    isIncluded(header) &&
    !isExcluded(header) &&
    (exactNames.has(header) || !(header === "x-organization-id" || mayHoldCredential(header)));
  return (headers) => {
    const copiedHeaders: [string, Json][] = [];
    headers.forEach((value, header) => {
      if (isCopied(header)) copiedHeaders.push([header, value]);
    });
    return Object.fromEntries(copiedHeaders);
  };
}

/**
 * Returns a function that returns true if the whole name, in lower case, matches one of the patterns, in which `*`
 * stands for any characters. The case of patterns does not matter.
 */
function createPatternMatcher(patterns: readonly string[]): (name: string) => boolean {
  const parts = patterns.map((pattern) => pattern.toLowerCase().split("*"));
  return (name) => parts.some((pattern) => matchesPattern(name, pattern));
}

/**
 * Returns true if the whole name matches a pattern, which is given as the parts between its stars. Takes linear time
 * for any number of stars.
 */
function matchesPattern(name: string, [firstPart = "", ...middleParts]: readonly string[]): boolean {
  const lastPart = middleParts.pop();
  if (lastPart === undefined) return name === firstPart;
  if (!name.startsWith(firstPart)) return false;
  let searchFrom = firstPart.length;
  for (const part of middleParts) {
    const index = name.indexOf(part, searchFrom);
    if (index < 0) return false;
    searchFrom = index + part.length;
  }
  return name.length - lastPart.length >= searchFrom && name.endsWith(lastPart);
}

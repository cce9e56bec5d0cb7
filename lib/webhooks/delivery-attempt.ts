/** Attempts a webhook delivery: checks the destination, builds the body, signs, sends and classifies the result. */
import { createPushNotification, type PushNotification } from "../a2a/status.ts";
import type { Environment } from "../environment.ts";
import { redactRunKwargs } from "../executor/job-request.ts";
import type { JsonObject } from "../json.ts";
import { formatIsoTime } from "../rfc3339.ts";
import type { DeliveryRow } from "../storage/mod.ts";
import { MAX_RESPONSE_BYTES, SendError } from "./http-client.ts";
import type { Loopback, WebhookSettings, WebhookTransport } from "./options.ts";
import type { WebhookPayload } from "./payload.ts";
import { checkAddresses, checkUrl, findLiteralAddress } from "./policy.ts";

const CONNECT_TIMEOUT_MS = 5_000;
const LOOPBACK_ORIGIN = "http://loopback.invalid";

export interface DeliveryAttemptOptions {
  readonly environment: Environment;
  readonly settings: WebhookSettings;
  /** The transport, or null if this process cannot send to absolute URLs. */
  readonly transport: () => Promise<WebhookTransport | null>;
  /** The host application, or null if this process cannot send to relative URLs. */
  readonly loopback: Loopback | null;
  readonly user_agent: string;
  /** Returns the `traceparent` of the attempt that a delivery has counted last; undefined for none. */
  readonly formatTraceParent?: (row: DeliveryRow) => string | undefined;
}

/** The result of one attempt. `error` is a code; null when the receiver accepted the delivery. */
export interface DeliveryAttemptResult {
  readonly error: string | null;
  readonly status: number | null;
  readonly address: string | null;
  readonly retry_after: string | null;
  /** True when a retry cannot help. */
  readonly final: boolean;
  /** The start of the response body; absent for a relative URL, without a body, and if it is no text. */
  readonly response_text?: string;
}

/** Returns a failed result, which a retry may mend, without status and address unless `options` has them. */
const createFailure = (error: string, options: Partial<DeliveryAttemptResult> = {}): DeliveryAttemptResult => ({
  error,
  status: null,
  address: null,
  retry_after: null,
  final: false,
  ...options,
});

/**
 * Returns the function that attempts a delivery. It always resolves: at the latest when `timeout_ms` is over or `controller` aborts,
 * even if the receiver or a function of the host hangs.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createAttemptFunction(
  options: DeliveryAttemptOptions,
): (row: DeliveryRow, attemptedAt: number, controller: AbortController) => Promise<DeliveryAttemptResult> {
  const { environment, settings } = options;
  const { timeout_ms } = settings;

  /**
   * Attempts a delivery. Always resolves, with a failure for any error: `timeout` when the time is over, which also aborts
   * `controller`, and `aborted` when `controller` aborts, without waiting for the request.
   */
  function attemptWithTimeout(
    row: DeliveryRow,
    attemptedAt: number,
    controller: AbortController,
  ): Promise<DeliveryAttemptResult> {
    const { signal } = controller;
    return new Promise((resolve) => {
      const cancelTimeout = environment.timer(timeout_ms, () => {
        resolve(createFailure("timeout"));
        controller.abort();
      });
      /** Cancels the timeout and resolves with the result, which has no effect after the first call. */
      const settle = (result: DeliveryAttemptResult): void => {
        cancelTimeout();
        resolve(result);
      };
      if (signal.aborted) settle(createFailure("aborted"));
      else {
        signal.addEventListener("abort", () => settle(createFailure("aborted")), { once: true });
        attempt(row, attemptedAt, signal).then(settle, (cause) => settle(toFailure(cause)));
      }
    });
  }

  /**
   * Checks the URL and the resolved addresses, signs the body and sends it; a loopback path goes to the service's own handler,
   * with the depth of the chain. Returns a final failure for a refused URL or address, another one if the name has no address.
   * The result may have the start of the response. Rejects for errors of the request.
   */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the checks of one delivery, in their order
  async function attempt(row: DeliveryRow, attemptedAt: number, signal: AbortSignal): Promise<DeliveryAttemptResult> {
    const verdict = checkUrl(settings.policy, row.url);
    if (verdict.verdict !== "accept") return createFailure(verdict.reason, { final: true });
    const { destination } = verdict;
    const notification = row.push ? createPushNotification(row.run, row.push) : null;
    const body = notification ? notification.body : buildPayload(row);
    if (destination.kind === "loopback") {
      const headers = new Headers(Object.fromEntries(await createHeaders(row, attemptedAt, body, notification)));
      headers.set("x-webhook-depth", String(row.depth + 1));
      return sendToLoopback(destination.path, { method: "POST", headers, body, signal });
    }
    const transport = await options.transport();
    if (!transport) return createFailure("delivery_unavailable");
    const addresses = await resolveAddresses(transport, destination.host);
    const addressVerdict = checkAddresses(settings.policy, addresses);
    if (addressVerdict.verdict !== "send")
      return createFailure(addressVerdict.reason, { final: addressVerdict.verdict === "reject" });
    const headers = await createHeaders(row, attemptedAt, body, notification);
    if (signal.aborted) return createFailure("aborted");
    const request = { url: destination.href, method: "POST" as const, headers, body };
    const timeouts = { timeout_ms, connect_timeout_ms: Math.min(CONNECT_TIMEOUT_MS, timeout_ms) };
    const { body: start, ...response } = await transport.send(
      { ...request, ...timeouts },
      addressVerdict.connect_to,
      signal,
    );
    const response_text = start ? readResponseText(start, settings) : null;
    return { ...toResult(response), ...(response_text === null ? {} : { response_text }) };
  }

  /**
   * Calls the handler of the service with the request, and returns its status as the result. Returns a failure without such a
   * handler, and a final one for a path that leads to another origin. Rejects if the handler does.
   */
  async function sendToLoopback(
    path: string,
    request: RequestInit & { readonly signal: AbortSignal },
  ): Promise<DeliveryAttemptResult> {
    if (!options.loopback) return createFailure("loopback_unavailable");
    const url = new URL(path, LOOPBACK_ORIGIN);
    if (url.origin !== LOOPBACK_ORIGIN) return createFailure("unparseable", { final: true });
    const response = await options.loopback(new Request(url, request));
    await readBodyStart(response, request.signal);
    return toResult({ status: response.status, retry_after: response.headers.get("retry-after"), address: null });
  }

  /**
   * Returns the headers, with time and signatures if there are secrets. Configured headers come last and replace defaults of
   * the same name; validation has reserved all of these names but the user agent.
   */
  async function createHeaders(
    row: DeliveryRow,
    attemptedAt: number,
    body: string,
    notification: PushNotification | null,
  ): Promise<readonly (readonly [string, string])[]> {
    const id = `msg_${row.delivery_id}`;
    const timestamp = Math.floor(attemptedAt / 1000);
    const signatures = settings.secrets.length > 0 ? await signPayload(settings.secrets, id, timestamp, body) : null;
    const traceparent = options.formatTraceParent?.(row);
    const defaults: readonly (readonly [string, string])[] = [
      ["content-type", notification?.content_type ?? "application/json; charset=utf-8"],
      ["user-agent", options.user_agent],
      ["webhook-id", id],
      ["idempotency-key", id],
      ...(traceparent === undefined ? [] : [["traceparent", traceparent] as const]),
      ...(notification?.headers ?? []),
    ];
    const configured = new Set(settings.headers.map(([name]) => name.toLowerCase()));
    return [
      ...defaults.filter(([name]) => !configured.has(name)),
      ...(signatures === null
        ? []
        : ([
            ["webhook-timestamp", String(timestamp)],
            ["webhook-signature", signatures],
          ] as const)),
      ...settings.headers,
    ];
  }

  return attemptWithTimeout;
}

/**
 * Returns success for a status from 200 to 299, else the failure `bad_status`, final for 410. Redirects are not followed and
 * count as failures.
 */
function toResult({
  status,
  retry_after,
  address,
}: {
  readonly status: number;
  readonly retry_after: string | null;
  readonly address: string | null;
}): DeliveryAttemptResult {
  if (status >= 200 && status <= 299) return { error: null, status, retry_after, address, final: false };
  return createFailure("bad_status", { status, retry_after, address, final: status === 410 });
}

/**
 * Returns the text of a body, or null if it is empty or has a NUL. Replaces the values of configured headers, which a receiver
 * may echo, by `***`, also one that the end of the text cuts.
 */
function readResponseText(start: Uint8Array, { headers }: WebhookSettings): string | null {
  let text = new TextDecoder().decode(start.subarray(0, MAX_RESPONSE_BYTES));
  if (text === "" || text.includes("\0")) return null;
  for (const [, value] of headers.filter(([, value]) => value !== "")) {
    text = text.replaceAll(value, "***");
    // The end of the part that was read may cut a value.
    for (let length = value.length - 1; length > 3; length--) {
      if (text.endsWith(value.slice(0, length))) text = `${text.slice(0, -length)}***`;
    }
  }
  return text;
}

/** Returns the failure for an error: code and address of a SendError, else `network_error`. */
function toFailure(cause: unknown): DeliveryAttemptResult {
  return cause instanceof SendError
    ? createFailure(cause.code, { address: cause.address })
    : createFailure("network_error");
}

/**
 * Reads at most about 2 KiB of the body, discards them, and cancels the rest, so that the handler can finish. Always resolves:
 * at the end of the body, after an error, and when `signal` aborts.
 */
async function readBodyStart({ body }: Response, signal: AbortSignal): Promise<void> {
  if (!body) return;
  const reader = body.getReader();
  const cancel = (): void => void reader.cancel().catch(() => {});
  signal.addEventListener("abort", cancel, { once: true });
  try {
    for (let read = 0; read < MAX_RESPONSE_BYTES; ) {
      const { done, value } = await reader.read();
      if (done) return;
      read += (value as Uint8Array).length;
    }
    cancel();
  } catch {
    // Only the status counts.
  } finally {
    signal.removeEventListener("abort", cancel);
  }
}

/** Returns the addresses of a name, or none if resolving fails. */
async function resolveHost({ resolve }: WebhookTransport, host: string): Promise<readonly string[]> {
  try {
    return await resolve(host);
  } catch {
    return [];
  }
}

/** The payload, to which the final state is appended as text. */
type PayloadWithoutValues = Omit<WebhookPayload, "values">;

/** A larger payload is sent without the final state. */
const MAX_PAYLOAD_BYTES = 5 * 1024 * 1024;

/**
 * Returns the body as JSON. It depends only on the row, so each attempt has the same bytes: `webhook_sent_at` is the time of
 * the first one, which must have started. Values that make it too large are null, with `values_omitted`. The body of a
 * stateless run has no values.
 */
export function buildPayload(row: DeliveryRow): string {
  const { run } = row;
  const body: PayloadWithoutValues = {
    run_id: run.run_id,
    thread_id: run.thread_id,
    assistant_id: run.assistant_id,
    ...(run.assistant_version === undefined ? {} : { assistant_version: run.assistant_version }),
    status: run.status,
    created_at: formatIsoTime(run.created_at),
    // A run does not change after its end.
    updated_at: formatIsoTime(run.ended_at),
    run_started_at: formatIsoTime(run.started_at),
    run_ended_at: formatIsoTime(run.ended_at),
    // The first attempt has set it.
    webhook_sent_at: formatIsoTime(row.sent_at) as string,
    metadata: run.metadata,
    multitask_strategy: run.multitask_strategy,
    attempt: run.attempt,
    kwargs: toReceiverKwargs(run),
    error: run.status === "error" || run.status === "timeout" ? (run.error as WebhookPayload["error"]) : null,
    ...(run.cancel_reason === undefined ? {} : { cancel_reason: run.cancel_reason }),
  };
  if (run.stateless) return JSON.stringify(body);
  if (!run.values_omitted) {
    const text = appendValues(body, run.values ?? "null");
    if (run.values === null || fitsInBytes(text, MAX_PAYLOAD_BYTES)) return text;
  }
  return appendValues({ ...body, values_omitted: true }, "null");
}

/** Returns the run's request without credentials, and without the webhook, whose query can contain a secret. */
function toReceiverKwargs({ kwargs, metadata }: DeliveryRow["run"]): JsonObject {
  const { webhook: _, ...receiverKwargs } = redactRunKwargs(kwargs, metadata);
  return receiverKwargs;
}

const encoder = new TextEncoder();

/** Appends the final state as text: it is JSON already, and can be large. */
const appendValues = (body: PayloadWithoutValues, values: string): string =>
  `${JSON.stringify(body).slice(0, -1)},"values":${values}}`;

/** Returns true if the text has at most `bytes` bytes in UTF-8. Encodes it only if its length does not decide. */
function fitsInBytes(text: string, bytes: number): boolean {
  if (text.length > bytes) return false;
  return text.length * 3 <= bytes || encoder.encode(text).length <= bytes;
}

/** Returns the value of `webhook-signature`: one `v1,<base64>` per secret, separated by spaces. `timestamp` is in seconds since 1970. */
export async function signPayload(
  secrets: readonly Uint8Array[],
  id: string,
  timestamp: number,
  body: string,
): Promise<string> {
  const content = encoder.encode(`${id}.${timestamp}.${body}`);
  const signatures = await Promise.all(secrets.map(async (secret) => `v1,${base64(await hmac(secret, content))}`));
  return signatures.join(" ");
}

async function hmac(secret: Uint8Array, content: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", new Uint8Array(secret), algorithm, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, content));
}

const base64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes));

/** Returns the addresses of a host, which may be an address itself, or none if resolving fails. */
async function resolveAddresses(transport: WebhookTransport, host: string): Promise<readonly string[]> {
  const literal = findLiteralAddress(host);
  return literal === null ? await resolveHost(transport, host) : [literal];
}

/** Attempts webhook deliveries and records the results. Loaded with the first delivery. */
import type { DeliveryAttempt, DeliveryResult, DeliveryRow, DeliveryStorage, Scope } from "../storage/mod.ts";
import { createAttemptFunction, type DeliveryAttemptOptions, type DeliveryAttemptResult } from "./delivery-attempt.ts";
import type { WebhookSettings } from "./options.ts";
import { redactUrl } from "./policy.ts";

export interface ClaimedDeliveryOptions extends DeliveryAttemptOptions {
  readonly storage: DeliveryStorage;
  readonly scope: Scope;
}

export type SendClaimedDelivery = (row: DeliveryRow, token: string, controller: AbortController) => Promise<void>;

const STORAGE_RETRY_DELAY_MS = 2_000;
const MAX_RECORD_TRIES = 3;
/** An aborted delivery waits until the next process has started. */
const ABORTED_RETRY_DELAY_MS = 1_000;
const RETRY_AFTER_RANGE_MS: readonly [least: number, most: number] = [1_000, 86_400_000];
const JITTER = 0.1;

/**
 * Returns a function that attempts a claimed delivery, records the result and counts it; an aborted attempt counts as retried. If another
 * process has taken the claim, it records nothing. Its controller aborts the request; `stopSignal` only ends the tries to record. Rejects
 * if the storage keeps failing.
 */
export function createClaimedDeliverySender(
  options: ClaimedDeliveryOptions,
  counters: Record<"delivered" | "retried" | "failed", number>,
  stopSignal: AbortSignal,
): SendClaimedDelivery {
  const { storage, scope, environment, settings } = options;
  const attempt = createAttemptFunction(options);

  /**
   * Sends a delivery, stores the attempt with the next state, and then counts it. If another process has the claim meanwhile,
   * it logs that, stores and counts nothing. Logs failed attempts, but not aborted ones. Rejects if the attempt cannot be
   * stored.
   */
  async function sendAndRecord(row: DeliveryRow, token: string, controller: AbortController): Promise<void> {
    const attemptedAt = environment.now();
    const result = await attempt(row, attemptedAt, controller);
    const now = environment.now();
    const next = decideNextState(row, result, now, { settings, random: environment.random });
    const { error, status, address, response_text } = result;
    const { delivery_id, attempts: number } = row;
    const attemptFields = { at: attemptedAt, status, error, duration_ms: Math.max(0, now - attemptedAt), address };
    const record = {
      delivery_id,
      number,
      ...attemptFields,
      ...(response_text === undefined ? {} : { answer: response_text }),
    };
    if (!(await recordWithRetries(token, record, next))) {
      environment.log({ level: "warn", message: "webhook delivery claimed by another process", delivery_id });
      return;
    }
    counters[STATE_COUNTERS[next.state]]++;
    if (next.state === "delivered" || error === "aborted") return;
    const [level, message] =
      next.state === "failed"
        ? (["warn", "webhook delivery failed"] as const)
        : (["info", "webhook attempt failed"] as const);
    environment.log({ level, message, delivery_id, url: redactUrl(row.url), attempt: number, status, error });
  }

  /**
   * Stores an attempt. Returns false if the claim has expired and another process has claimed the delivery. If the storage
   * fails, tries again after a delay; throws its error after `MAX_RECORD_TRIES`, and at the first failure after a stop.
   */
  async function recordWithRetries(token: string, attempt: DeliveryAttempt, next: DeliveryResult): Promise<boolean> {
    for (let tries = 1; ; tries++) {
      try {
        return await storage.recordDeliveryAttempt(scope, token, attempt, next);
      } catch (error) {
        if (tries === MAX_RECORD_TRIES || stopSignal.aborted) throw error;
        await new Promise<void>((resolve) => {
          environment.timer(STORAGE_RETRY_DELAY_MS, resolve);
          stopSignal.addEventListener("abort", () => resolve(), { once: true });
        });
      }
    }
  }

  return sendAndRecord;
}

/** The counters of `/metrics` by state. */
const STATE_COUNTERS = { delivered: "delivered", failed: "failed", pending: "retried" } as const;

/**
 * Returns the state of a delivery after an attempt: delivered; failed if the failure is final or the schedule has no further
 * delay; else pending until the next attempt. That waits the delay of the schedule with jitter, or `Retry-After` of a 429 or
 * 503 if longer. An aborted attempt is pending and does not count.
 */
function decideNextState(
  row: DeliveryRow,
  result: DeliveryAttemptResult,
  now: number,
  { settings, random }: { readonly settings: WebhookSettings; readonly random: () => number },
): DeliveryResult {
  if (result.error === null) return { state: "delivered" };
  if (result.error === "aborted") return { state: "pending", due_at: now + ABORTED_RETRY_DELAY_MS, uncounted: true };
  const delay = settings.schedule_ms[row.series_attempts - 1];
  if (result.final || delay === undefined) return { state: "failed" };
  const jitteredDelay = Math.round(delay * (1 - JITTER + 2 * JITTER * random()));
  const requestedDelay = result.status === 429 || result.status === 503 ? readRetryAfterMs(result.retry_after, now) : 0;
  return { state: "pending", due_at: now + Math.max(jitteredDelay, requestedDelay) };
}

/**
 * Returns the milliseconds to wait, for a number of seconds or an HTTP date, which may be in the past: then it is negative.
 * Returns NaN for other text.
 */
function parseRetryAfter(text: string, now: number): number {
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  return /^[A-Z][a-z]+,? .*\d/.test(text) ? Date.parse(text) - now : Number.NaN;
}

/**
 * Returns the delay of a `Retry-After` header in milliseconds, within `RETRY_AFTER_RANGE_MS`; 0 for null and if it is neither
 * seconds nor a date.
 */
function readRetryAfterMs(text: string | null, now: number): number {
  if (text === null) return 0;
  const delay = parseRetryAfter(text.trim(), now);
  const [min, max] = RETRY_AFTER_RANGE_MS;
  return Number.isNaN(delay) ? 0 : Math.min(Math.max(delay, min), max);
}

/** Makes the attempts of webhook deliveries and records their outcomes. Loaded with the first delivery. */
import type { DeliveryAttempt, DeliveryResult, DeliveryRow, DeliveryStorage, Scope } from "../storage/mod.ts";
import { type AttemptOptions, type AttemptOutcome, createAttempts } from "./attempt.ts";
import type { WebhookSettings } from "./options.ts";
import { shownUrl } from "./policy.ts";

export interface RecorderOptions extends AttemptOptions {
  readonly storage: DeliveryStorage;
  readonly scope: Scope;
}

export type Recorder = (row: DeliveryRow, token: string, controller: AbortController) => Promise<void>;

const STORAGE_RETRY_MS = 2_000;
const FINISH_TRIES = 3;
/** An aborted delivery waits until the next process has started. */
const ABORTED_MS = 1_000;
const RETRY_AFTER_MS: readonly [least: number, most: number] = [1_000, 86_400_000];
const JITTER = 0.1;

/** Makes one attempt, records its outcome and counts it. Rejects when the storage fails for too long. */
export function createRecorder(
  options: RecorderOptions,
  counters: Record<"delivered" | "retried" | "failed", number>,
  stopped: AbortSignal,
): Recorder {
  const { storage, scope, environment, settings } = options;
  const attempt = createAttempts(options);

  async function deliver(row: DeliveryRow, token: string, controller: AbortController): Promise<void> {
    const at = environment.now();
    const outcome = await attempt(row, at, controller);
    const now = environment.now();
    const next = nextState(row, outcome, now, { settings, random: environment.random });
    const { error, status, address, answer } = outcome;
    const { delivery_id, attempts: number } = row;
    const sent = { at, status, error, duration_ms: Math.max(0, now - at), address };
    const record = { delivery_id, number, ...sent, ...(answer === undefined ? {} : { answer }) };
    if (!(await recordAttempt(token, record, next))) {
      environment.log({ level: "warn", message: "webhook delivery claimed by another process", delivery_id });
      return;
    }
    counters[COUNTER_OF[next.state]]++;
    if (next.state === "delivered" || error === "aborted") return;
    const [level, message] =
      next.state === "failed"
        ? (["warn", "webhook delivery failed"] as const)
        : (["info", "webhook attempt failed"] as const);
    environment.log({ level, message, delivery_id, url: shownUrl(row.url), attempt: number, status, error });
  }

  /** Retries while the storage fails. False when the claim has expired and another process has claimed the delivery. */
  async function recordAttempt(token: string, attempt: DeliveryAttempt, next: DeliveryResult): Promise<boolean> {
    for (let tries = 1; ; tries++) {
      try {
        return await storage.finishDelivery(scope, token, attempt, next);
      } catch (error) {
        if (tries === FINISH_TRIES || stopped.aborted) throw error;
        await new Promise<void>((resolve) => {
          environment.timer(STORAGE_RETRY_MS, resolve);
          stopped.addEventListener("abort", () => resolve(), { once: true });
        });
      }
    }
  }

  return deliver;
}

/** The counters that `/metrics` shows. */
const COUNTER_OF = { delivered: "delivered", failed: "failed", pending: "retried" } as const;

/** The state of a delivery after an attempt: delivered, failed, or pending until the next attempt. */
function nextState(
  row: DeliveryRow,
  outcome: AttemptOutcome,
  now: number,
  { settings, random }: { readonly settings: WebhookSettings; readonly random: () => number },
): DeliveryResult {
  if (outcome.error === null) return { state: "delivered" };
  if (outcome.error === "aborted") return { state: "pending", due_at: now + ABORTED_MS, uncounted: true };
  const wait = settings.schedule_ms[row.series_attempts - 1];
  if (outcome.final || wait === undefined) return { state: "failed" };
  const jittered = Math.round(wait * (1 - JITTER + 2 * JITTER * random()));
  const requested = outcome.status === 429 || outcome.status === 503 ? retryAfter(outcome.retry_after, now) : 0;
  return { state: "pending", due_at: now + Math.max(jittered, requested) };
}

function parseRetryAfter(text: string, now: number): number {
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  return /^[A-Z][a-z]+,? .*\d/.test(text) ? Date.parse(text) - now : Number.NaN;
}

/** The wait of a `Retry-After` header in milliseconds, within bounds; 0 for anything but seconds or a date. */
function retryAfter(text: string | null, now: number): number {
  if (text === null) return 0;
  const wait = parseRetryAfter(text.trim(), now);
  const [min, max] = RETRY_AFTER_MS;
  return Number.isNaN(wait) ? 0 : Math.min(Math.max(wait, min), max);
}

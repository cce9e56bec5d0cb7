/**
 * Sends webhook deliveries from the outbox: claims those that are due, retries each by its schedule, and records every attempt.
 * Several processes may send for one database. Each delivery is sent at least once. No failure here reaches a run.
 */
import { ServiceError } from "../errors.ts";
import type {
  DeliveryAttempt,
  DeliveryResult,
  DeliveryRow,
  DeliveryState,
  DeliveryStorage,
  Page,
  Scope,
} from "../storage/mod.ts";
import { type AttemptOptions, type AttemptOutcome, createAttempts } from "./attempt.ts";
import type { WebhookSettings } from "./options.ts";
import { shownKwargs } from "./payload.ts";
import { shownUrl } from "./policy.ts";

export interface DeliveriesOptions extends AttemptOptions {
  readonly storage: DeliveryStorage;
  readonly scope: Scope;
}

/** Counters of this sender since it started. */
export interface DeliveryCounters {
  readonly sending: number;
  readonly attempts: number;
  readonly delivered: number;
  /** Failed attempts that will be retried. */
  readonly retried: number;
  readonly failed: number;
}

/** The deliveries of this deployment. URLs are shown with `?…` instead of their query. */
export interface Deliveries {
  /**
   * Call this when a run with a webhook has ended. A run that ended in another process (`elsewhere`) is that process's to send, so
   * this one looks only after a short wait. Returns at once.
   */
  wake(elsewhere?: boolean): void;
  /** Claims no more deliveries and aborts those under way, which become due again. */
  stop(): Promise<void>;
  /** Errors: not_found. */
  get(delivery_id: string): Promise<DeliveryRow>;
  /** Newest first; 100 of them unless told. */
  list(
    query?: { readonly state?: DeliveryState; readonly run_id?: string } & Partial<Page>,
  ): Promise<readonly DeliveryRow[]>;
  /** Oldest first. Errors: not_found. */
  attempts(delivery_id: string): Promise<readonly DeliveryAttempt[]>;
  /**
   * Sends it again now, with the same id and body and a new series of retries. Errors: not_found; conflict while an attempt is
   * under way.
   */
  redeliver(delivery_id: string): Promise<void>;
  counters(): DeliveryCounters;
}

const PER_HOST = 2;
const CLAIM_MS = 60_000;
/** Finds what no wake-up announces: claims of dead processes, deliveries of other processes. */
const POLL_MS = 15_000;
/** How soon to look again for deliveries whose host has its maximum of sends under way, perhaps in another process. */
const BLOCKED_MS = 1_000;
/** How long a delivery that another process announced is left to that process. */
const OTHERS_MS = 100;
const STORAGE_RETRY_MS = 2_000;
const FINISH_TRIES = 3;
/** An aborted delivery waits this long, so that the next process is up. */
const BROKEN_OFF_MS = 1_000;
const RETRY_AFTER_MS: readonly [least: number, most: number] = [1_000, 86_400_000];
const JITTER = 0.1;

/** Sends what is due, from the first wake-up on. With webhooks disabled it sends nothing and leaves deliveries as they are. */
export function createDeliveries(options: DeliveriesOptions): Deliveries {
  const { storage, scope, environment, settings } = options;
  const { concurrency, timeout_ms } = settings;
  const attempt = createAttempts(options);
  const counted = { attempts: 0, delivered: 0, retried: 0, failed: 0 };
  const sending = new Map<AbortController, Promise<void>>();
  const ended = new AbortController();
  let stopping = settings.policy.disabled;
  let looking: Promise<void> | null = null;
  let again = false;
  let cancelWait = (): void => {};
  let cancelOthers: (() => void) | null = null;

  function look(): void {
    again = true;
    if (stopping || looking || sending.size >= concurrency) return;
    cancelWait();
    looking = take()
      .then(waitFor)
      .catch((error) => {
        environment.log({ level: "error", message: "claiming webhook deliveries failed", error });
        waitFor(STORAGE_RETRY_MS);
      })
      .finally(() => {
        looking = null;
        if (again) look();
      });
  }

  function waitFor(ms: number): void {
    cancelWait();
    if (!stopping) cancelWait = environment.timer(ms, look);
  }

  /** Claims what is due, up to the concurrency. Returns how long to wait before the next claim. */
  async function take(): Promise<number> {
    again = false;
    const token = environment.uuid();
    const now = environment.now();
    const limit = concurrency - sending.size;
    const until = now + Math.max(CLAIM_MS, 2 * timeout_ms);
    const rows = await storage.claimDeliveries(scope, { token, until, now, limit, per_host: PER_HOST });
    for (const row of rows) start(row, token);
    // The end of each of them looks again.
    if (rows.length === limit) return POLL_MS;
    const next = await storage.nextDelivery(scope);
    if (next === null) return POLL_MS;
    const wait = next - environment.now();
    return wait > 0 ? Math.min(wait, POLL_MS) : BLOCKED_MS;
  }

  function start(row: DeliveryRow, token: string): void {
    const controller = new AbortController();
    if (stopping) controller.abort();
    counted.attempts++;
    const done = attend(row, token, controller)
      .catch((error) => environment.log({ level: "error", message: "recording a webhook attempt failed", error }))
      .finally(() => {
        sending.delete(controller);
        look();
      });
    sending.set(controller, done);
  }

  async function attend(row: DeliveryRow, token: string, controller: AbortController): Promise<void> {
    const at = environment.now();
    const outcome = await attempt(row, at, controller);
    const now = environment.now();
    const rest = nextState(row, outcome, now, settings, environment.random);
    const { error, status, address } = outcome;
    const { delivery_id, attempts: number } = row;
    const record = { delivery_id, number, at, status, error, duration_ms: Math.max(0, now - at), address };
    if (!(await finished(token, record, rest))) {
      environment.log({ level: "warn", message: "a webhook delivery was claimed by another process", delivery_id });
      return;
    }
    if (rest.state === "delivered") counted.delivered++;
    if (rest.state === "failed") counted.failed++;
    if (rest.state === "pending") counted.retried++;
    if (rest.state === "delivered" || error === "aborted") return;
    const level = rest.state === "failed" ? "warn" : "info";
    const message = rest.state === "failed" ? "a webhook delivery failed" : "a webhook attempt failed";
    environment.log({ level, message, delivery_id, url: shownUrl(row.url), attempt: number, status, error });
  }

  /** Records the attempt, with retries while the storage fails. When the claim runs out first, the delivery is sent again. */
  async function finished(token: string, attempt: DeliveryAttempt, rest: DeliveryResult): Promise<boolean> {
    for (let tries = 1; ; tries++) {
      try {
        return await storage.finishDelivery(scope, token, attempt, rest);
      } catch (error) {
        if (tries === FINISH_TRIES || stopping) throw error;
        await new Promise<void>((resolve) => {
          environment.timer(STORAGE_RETRY_MS, resolve);
          ended.signal.addEventListener("abort", () => resolve(), { once: true });
        });
      }
    }
  }

  async function existing(delivery_id: string): Promise<DeliveryRow> {
    const row = await storage.getDelivery(scope, delivery_id);
    if (!row) throw new ServiceError("not_found", `Webhook delivery ${delivery_id} not found`);
    return shown(row);
  }

  /** Reads before it claims: most often nothing is left. */
  async function lookForLeft(): Promise<void> {
    cancelOthers = null;
    try {
      const next = await storage.nextDelivery(scope);
      if (next !== null && next <= environment.now()) look();
    } catch {
      look();
    }
  }

  const wake = (): void => environment.defer(look);
  return {
    wake(elsewhere = false) {
      if (!elsewhere) wake();
      else if (!stopping) cancelOthers ??= environment.timer(OTHERS_MS, () => void lookForLeft());
    },
    async stop() {
      stopping = true;
      ended.abort();
      cancelWait();
      cancelOthers?.();
      for (const controller of sending.keys()) controller.abort();
      // A claim under way brings attempts that are aborted at once.
      await looking;
      await Promise.all(sending.values());
      cancelWait();
    },
    get: existing,
    async list({ limit = 100, offset = 0, ...query } = {}) {
      return (await storage.listDeliveries(scope, { ...query, limit, offset })).map(shown);
    },
    async attempts(delivery_id) {
      await existing(delivery_id);
      return storage.listAttempts(scope, delivery_id);
    },
    async redeliver(delivery_id) {
      if (!(await storage.redeliver(scope, delivery_id, environment.now()))) {
        await existing(delivery_id);
        throw new ServiceError("conflict", `Webhook delivery ${delivery_id} is being sent`);
      }
      wake();
    },
    counters: () => ({ sending: sending.size, ...counted }),
  };
}

/** What becomes of a delivery after an attempt: delivered, failed, or pending until the next attempt is due. */
function nextState(
  row: DeliveryRow,
  outcome: AttemptOutcome,
  now: number,
  settings: WebhookSettings,
  random: () => number,
): DeliveryResult {
  if (outcome.error === null) return { state: "delivered" };
  if (outcome.error === "aborted") return { state: "pending", due_at: now + BROKEN_OFF_MS, uncounted: true };
  const wait = settings.schedule_ms[row.series_attempts - 1];
  if (outcome.final || wait === undefined) return { state: "failed" };
  const jittered = Math.round(wait * (1 - JITTER + 2 * JITTER * random()));
  const asked = outcome.status === 429 || outcome.status === 503 ? retryAfter(outcome.retry_after, now) : 0;
  return { state: "pending", due_at: now + Math.max(jittered, asked) };
}

/** The wait that a `Retry-After` header names, in milliseconds within bounds; 0 when it is neither seconds nor a date. */
function retryAfter(text: string | null, now: number): number {
  if (text === null) return 0;
  const trimmed = text.trim();
  const wait = /^\d+$/.test(trimmed)
    ? Number(trimmed) * 1000
    : /^[A-Z][a-z]+,? .*\d/.test(trimmed)
      ? Date.parse(trimmed) - now
      : Number.NaN;
  const [least, most] = RETRY_AFTER_MS;
  return Number.isNaN(wait) ? 0 : Math.min(Math.max(wait, least), most);
}

const shown = (row: DeliveryRow): DeliveryRow => ({
  ...row,
  url: shownUrl(row.url),
  run: { ...row.run, kwargs: shownKwargs(row.run) },
});

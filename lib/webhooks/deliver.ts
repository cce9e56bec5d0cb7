/**
 * Sends webhook deliveries: takes those that are due from the outbox, tries each by its schedule, and writes down what became of
 * it. Several processes may do so on one database; each delivery is sent at least once. Nothing of it reaches a run.
 */
import type { Environment } from "../environment.ts";
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
import type { Loopback, WebhookSettings, WebhookTransport } from "./options.ts";
import { payload, shownKwargs } from "./payload.ts";
import { checkAddresses, checkUrl, literalAddress, shownUrl } from "./policy.ts";
import { SendError } from "./send.ts";
import { signature } from "./sign.ts";

export interface DeliveriesOptions {
  readonly storage: DeliveryStorage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly settings: WebhookSettings;
  /** Null: absolute URLs cannot be sent to here. */
  readonly transport: WebhookTransport | null;
  /** Null: relative URLs cannot be sent to here. */
  readonly loopback: Loopback | null;
  readonly user_agent: string;
}

/** What the sender has done since it was made. */
export interface DeliveryCounters {
  readonly sending: number;
  readonly attempts: number;
  readonly delivered: number;
  /** Attempts that failed and are to be followed by another one. */
  readonly retried: number;
  readonly failed: number;
}

/** The deliveries of this deployment. URLs are shown with `?…` in place of their query. */
export interface Deliveries {
  /**
   * A run with a webhook has ended: look now. Where it ended in another process, that is there to send it: look in a moment
   * whether it is left to others. Returns at once.
   */
  wake(elsewhere?: boolean): void;
  /** Takes no more deliveries and breaks off those under way, which are due again at once. */
  stop(): Promise<void>;
  /** Throws not_found when there is none. */
  get(delivery_id: string): Promise<DeliveryRow>;
  /** Newest first; 100 of them unless told. */
  list(
    query?: { readonly state?: DeliveryState; readonly run_id?: string } & Partial<Page>,
  ): Promise<readonly DeliveryRow[]>;
  /** In their order. Throws not_found when there is no such delivery. */
  attempts(delivery_id: string): Promise<readonly DeliveryAttempt[]>;
  /**
   * Sends it again, now and by a new series of attempts, with the id and body it had. Throws not_found when there is none, and
   * conflict while an attempt is under way.
   */
  redeliver(delivery_id: string): Promise<void>;
  counters(): DeliveryCounters;
}

const PER_HOST = 2;
const CLAIM_MS = 60_000;
const CONNECT_MS = 5_000;
/** For what nobody has told: claims of processes that have died, deliveries of others. */
const POLL_MS = 15_000;
/** How soon to look again for what waits for its host alone, whose sends may be another process's. */
const BLOCKED_MS = 1_000;
/** How long what another process has told of is left to it. */
const OTHERS_MS = 100;
const STORAGE_RETRY_MS = 2_000;
const FINISH_TRIES = 3;
/** A delivery that was broken off waits for the next process to be there. */
const BROKEN_OFF_MS = 1_000;
const RETRY_AFTER_MS: readonly [least: number, most: number] = [1_000, 86_400_000];
const JITTER = 0.1;
const MAX_ANSWER_BYTES = 1024;
const LOOPBACK_ORIGIN = "http://loopback.invalid";

/** What one attempt came to. `error` is a code, null when the receiver took it. */
interface Outcome {
  readonly error: string | null;
  readonly status: number | null;
  readonly address: string | null;
  readonly retry_after: string | null;
  /** No further attempt can help. */
  readonly final: boolean;
}

const failure = (error: string, options: Partial<Outcome> = {}): Outcome => ({
  error,
  status: null,
  address: null,
  retry_after: null,
  final: false,
  ...options,
});

/** Sends what is due once it is woken. With webhooks disabled nothing is sent, and deliveries stay as they are. */
export function createDeliveries(options: DeliveriesOptions): Deliveries {
  const { storage, scope, environment, settings } = options;
  const { concurrency, timeout_ms } = settings;
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
        environment.log({ level: "error", message: "webhook deliveries could not be claimed", error });
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

  /** Takes what is due, as far as there is room, and tells how long to wait for more. */
  async function take(): Promise<number> {
    again = false;
    const token = environment.uuid();
    const now = environment.now();
    const limit = concurrency - sending.size;
    const until = now + Math.max(CLAIM_MS, 2 * timeout_ms);
    const rows = await storage.claimDeliveries(scope, { token, until, now, limit, per_host: PER_HOST });
    for (const row of rows) start(row, token);
    // The end of any of them looks again.
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
      .catch((error) => environment.log({ level: "error", message: "a webhook attempt could not be recorded", error }))
      .finally(() => {
        sending.delete(controller);
        look();
      });
    sending.set(controller, done);
  }

  async function attend(row: DeliveryRow, token: string, controller: AbortController): Promise<void> {
    const at = environment.now();
    const outcome = await tried(row, at, controller);
    const now = environment.now();
    const rest = restOf(row, outcome, now);
    const { error, status, address } = outcome;
    const { delivery_id, attempts: number } = row;
    const attempt = { delivery_id, number, at, status, error, duration_ms: Math.max(0, now - at), address };
    if (!(await finished(token, attempt, rest))) {
      environment.log({ level: "warn", message: "a webhook was taken over by another process", delivery_id });
      return;
    }
    if (rest.state === "delivered") counted.delivered++;
    if (rest.state === "failed") counted.failed++;
    if (rest.state === "pending") counted.retried++;
    if (rest.state === "delivered" || error === "aborted") return;
    const level = rest.state === "failed" ? "warn" : "info";
    const message = rest.state === "failed" ? "a webhook has failed" : "a webhook attempt has failed";
    environment.log({ level, message, delivery_id, url: shownUrl(row.url), attempt: number, status, error });
  }

  /** Writes it down, later when the store fails. After the claim is over the delivery is sent again. */
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

  /** The attempt itself, cut off when its time is over or the sender stops, whatever the receiver and the host's functions do. */
  function tried(row: DeliveryRow, at: number, controller: AbortController): Promise<Outcome> {
    const { signal } = controller;
    return new Promise((resolve) => {
      const cancelTimeout = environment.timer(timeout_ms, () => {
        resolve(failure("timeout"));
        controller.abort();
      });
      const settle = (outcome: Outcome): void => {
        cancelTimeout();
        resolve(outcome);
      };
      if (signal.aborted) settle(failure("aborted"));
      else {
        signal.addEventListener("abort", () => settle(failure("aborted")), { once: true });
        attempt(row, at, signal).then(settle, (cause) => settle(failureOf(cause)));
      }
    });
  }

  async function attempt(row: DeliveryRow, at: number, signal: AbortSignal): Promise<Outcome> {
    const judged = checkUrl(settings.policy, row.url);
    if (judged.verdict !== "accept") return failure(judged.reason, { final: true });
    const { destination } = judged;
    const body = payload(row);
    if (destination.kind === "loopback") {
      return toLoopback(destination.path, row, await headersOf(row, at, body), body, signal);
    }
    const { transport } = options;
    if (!transport) return failure("delivery_unavailable");
    const literal = literalAddress(destination.host);
    const addresses = literal === null ? await resolved(transport, destination.host) : [literal];
    const reached = checkAddresses(settings.policy, addresses);
    if (reached.verdict !== "send") return failure(reached.reason, { final: reached.verdict === "reject" });
    const headers = await headersOf(row, at, body);
    if (signal.aborted) return failure("aborted");
    const request = { url: destination.href, method: "POST" as const, headers, body };
    const times = { timeout_ms, connect_timeout_ms: Math.min(CONNECT_MS, timeout_ms) };
    return answered(await transport.send({ ...request, ...times }, reached.connect_to, signal));
  }

  async function toLoopback(
    path: string,
    row: DeliveryRow,
    headers: readonly (readonly [string, string])[],
    body: string,
    signal: AbortSignal,
  ): Promise<Outcome> {
    if (!options.loopback) return failure("loopback_unavailable");
    const url = new URL(path, LOOPBACK_ORIGIN);
    if (url.origin !== LOOPBACK_ORIGIN) return failure("unparseable", { final: true });
    const sent = new Headers(headers.map(([name, value]): [string, string] => [name, value]));
    sent.set("x-webhook-depth", String(row.depth + 1));
    const request = new Request(url, { method: "POST", headers: sent, body, signal });
    const response = await options.loopback(request);
    await readSome(response, signal);
    return answered({ status: response.status, retry_after: response.headers.get("retry-after"), address: null });
  }

  /** The static headers come last and may name another user agent; the others are reserved. */
  async function headersOf(
    row: DeliveryRow,
    at: number,
    body: string,
  ): Promise<readonly (readonly [string, string])[]> {
    const id = `msg_${row.delivery_id}`;
    const timestamp = Math.floor(at / 1000);
    const signed = settings.secrets.length > 0 ? await signature(settings.secrets, id, timestamp, body) : null;
    const own: readonly (readonly [string, string])[] = [
      ["content-type", "application/json; charset=utf-8"],
      ["user-agent", options.user_agent],
      ["webhook-id", id],
      ["idempotency-key", id],
    ];
    const given = new Set(settings.headers.map(([name]) => name.toLowerCase()));
    return [
      ...own.filter(([name]) => !given.has(name)),
      ...(signed === null
        ? []
        : ([
            ["webhook-timestamp", String(timestamp)],
            ["webhook-signature", signed],
          ] as const)),
      ...settings.headers,
    ];
  }

  function restOf(row: DeliveryRow, outcome: Outcome, now: number): DeliveryResult {
    if (outcome.error === null) return { state: "delivered" };
    if (outcome.error === "aborted") return { state: "pending", due_at: now + BROKEN_OFF_MS, uncounted: true };
    const wait = settings.schedule_ms[row.series_attempts - 1];
    if (outcome.final || wait === undefined) return { state: "failed" };
    const jittered = Math.round(wait * (1 - JITTER + 2 * JITTER * environment.random()));
    const asked = outcome.status === 429 || outcome.status === 503 ? retryAfter(outcome.retry_after, now) : 0;
    return { state: "pending", due_at: now + Math.max(jittered, asked) };
  }

  async function existing(delivery_id: string): Promise<DeliveryRow> {
    const row = await storage.getDelivery(scope, delivery_id);
    if (!row) throw new ServiceError("not_found", `Webhook delivery ${delivery_id} not found`);
    return shown(row);
  }

  /** A read: most often there is nothing left to claim. */
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
      // What is being claimed at this moment comes with an attempt that is broken off at once.
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

/** What an answer means. Where a redirect leads to does not count: it is a failure. */
function answered({
  status,
  retry_after,
  address,
}: {
  readonly status: number;
  readonly retry_after: string | null;
  readonly address: string | null;
}): Outcome {
  if (status >= 200 && status <= 299) return { error: null, status, retry_after, address, final: false };
  return failure("bad_status", { status, retry_after, address, final: status === 410 });
}

function failureOf(cause: unknown): Outcome {
  return cause instanceof SendError ? failure(cause.code, { address: cause.address }) : failure("network_error");
}

/** Seconds or a date, as a wait in milliseconds within bounds; 0 when it is neither. */
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

/** As much of the answer as is read of any; the rest is let go. The status is the answer, even if its body breaks off. */
async function readSome({ body }: Response, signal: AbortSignal): Promise<void> {
  if (!body) return;
  const reader = body.getReader();
  const letGo = (): void => void reader.cancel().catch(() => {});
  signal.addEventListener("abort", letGo, { once: true });
  try {
    for (let read = 0; read < MAX_ANSWER_BYTES; ) {
      const { done, value } = await reader.read();
      if (done) return;
      read += (value as Uint8Array).length;
    }
    letGo();
  } catch {
    // It has broken off.
  } finally {
    signal.removeEventListener("abort", letGo);
  }
}

/** No address for a name that could not be resolved, whatever the reason. */
async function resolved({ resolve }: WebhookTransport, host: string): Promise<readonly string[]> {
  try {
    return await resolve(host);
  } catch {
    return [];
  }
}

const shown = (row: DeliveryRow): DeliveryRow => ({
  ...row,
  url: shownUrl(row.url),
  run: { ...row.run, kwargs: shownKwargs(row.run) },
});

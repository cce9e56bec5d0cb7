/**
 * Sends stored webhook deliveries with retries (at-least-once). Several processes may send for one database. A failure to send never
 * affects a run.
 */
import type { InternalResource } from "../auth/authorizer.ts";
import { ServiceError } from "../errors.ts";
import type { CursorPage } from "../storage/cursor.ts";
import type { EventBus } from "../storage/event-bus.ts";
import type { DeliveryRow, DeliveryStorage, PushStorage, RunStorage, Scope } from "../storage/mod.ts";
import type { ClaimedDeliveryOptions, SendClaimedDelivery } from "./claimed-delivery.ts";
import type { DeliveryDetail, DeliveryListQuery, DeliverySummary } from "./deliveries.ts";
import { createPushes, type Pushes } from "./pushes.ts";

let claimedDeliveryModule: Promise<typeof import("./claimed-delivery.ts")> | undefined;

/**
 * Imports the module at the first call and returns that promise again for later ones, because on Deno each import takes a tick
 * of the event loop.
 */
export function loadClaimedDelivery(): Promise<typeof import("./claimed-delivery.ts")> {
  claimedDeliveryModule ??= import("./claimed-delivery.ts");
  return claimedDeliveryModule;
}

interface WebhookSenderOptions extends ClaimedDeliveryOptions {
  readonly bus: EventBus;
  readonly storage: DeliveryStorage & PushStorage & Pick<RunStorage, "getRun">;
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

/** The webhook deliveries of this deployment. The id of a webhook is that of its run. URLs have `?…` instead of their query. */
export interface Webhooks extends Pushes {
  /** Returns deliveries, newest first. Default limit: 50. Throws `invalid` (the cursor). */
  list(query?: DeliveryListQuery): Promise<CursorPage<DeliverySummary>>;
  /** Returns the delivery of a run, or with this id, with its attempts, oldest first. Throws `not_found`. */
  get(run_id: string): Promise<DeliveryDetail>;
  /**
   * Makes a delivery of any state due now, with the same id and body and a new series of retries. Resolves before it is sent;
   * with webhooks disabled it stays due. The case of `run_id` does not matter. Throws `not_found`, or `delivery_active` while it
   * is being sent.
   */
  redeliver(run_id: string): Promise<void>;
}

/** The internal resource of webhooks, and the loop that sends deliveries. */
export interface WebhookSender extends InternalResource<Webhooks> {
  counters(): DeliveryCounters;
  /** Stops claiming deliveries. Aborts those that are being sent, which become due again. */
  stop(): Promise<void>;
}

const MAX_REQUESTS_PER_HOST = 2;
const MIN_CLAIM_MS = 60_000;
/** The interval of polls. They find deliveries that dead processes claimed or other processes created. */
const POLL_INTERVAL_MS = 15_000;
/** The delay if the hosts of all due deliveries have their maximum of concurrent requests, perhaps in another process. */
const BLOCKED_HOST_DELAY_MS = 1_000;
/** The delay before this process polls for a run that ended in another process, which sends first. */
const REMOTE_RUN_DELAY_MS = 100;
const STORAGE_RETRY_DELAY_MS = 2_000;

/**
 * Creates the sender. It starts with the first signal of the event bus. With webhooks disabled, it sends nothing and keeps the
 * deliveries.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createWebhookSender(options: WebhookSenderOptions): WebhookSender {
  const { storage, bus, scope: deploymentScope, environment, settings } = options;
  const { concurrency, timeout_ms } = settings;
  const counters = { attempts: 0, delivered: 0, retried: 0, failed: 0 };
  const sending = new Map<AbortController, Promise<void>>();
  const stopController = new AbortController();
  let sendClaimed: SendClaimedDelivery | undefined;
  let isStopping = settings.policy.disabled;
  let claiming: Promise<void> | null = null;
  let pollAgain = false;
  let cancelPoll = (): void => {};
  let cancelRemotePoll: (() => void) | null = null;

  /**
   * Claims due deliveries in the background and schedules the next poll; once more if called during a claim. Does nothing while
   * all requests are in use. A failure is logged and retried.
   */
  function poll(): void {
    pollAgain = true;
    if (isStopping || claiming || sending.size >= concurrency) return;
    cancelPoll();
    claiming = claim()
      .then(schedulePoll)
      .catch((error) => {
        environment.log({ level: "error", message: "claiming webhook deliveries failed", error });
        schedulePoll(STORAGE_RETRY_DELAY_MS);
      })
      .finally(() => {
        claiming = null;
        if (pollAgain) poll();
      });
  }

  /** Polls after this time, instead of the time that was set before. Does nothing once it stops. */
  function schedulePoll(ms: number): void {
    cancelPoll();
    if (!isStopping) cancelPoll = environment.timer(ms, poll);
  }

  /**
   * Claims due deliveries up to the concurrency and starts to send them. Returns the delay before the next claim in
   * milliseconds, without waiting for them. Rejects if the storage fails.
   */
  async function claim(): Promise<number> {
    pollAgain = false;
    const token = environment.uuid();
    const now = environment.now();
    const limit = concurrency - sending.size;
    const until = now + Math.max(MIN_CLAIM_MS, 2 * timeout_ms);
    const rows = await storage.claimDeliveries(deploymentScope, {
      token,
      until,
      now,
      limit,
      per_host: MAX_REQUESTS_PER_HOST,
    });
    if (rows.length > 0) {
      sendClaimed ??= (await loadClaimedDelivery()).createClaimedDeliverySender(
        options,
        counters,
        stopController.signal,
      );
      for (const row of rows) startDelivery(sendClaimed, row, token);
    }
    // Each of them polls again when it ends.
    if (rows.length === limit) return POLL_INTERVAL_MS;
    const next = await storage.getNextDeliveryTime(deploymentScope);
    if (next === null) return POLL_INTERVAL_MS;
    const wait = next - environment.now();
    return wait > 0 ? Math.min(wait, POLL_INTERVAL_MS) : BLOCKED_HOST_DELAY_MS;
  }

  /**
   * Counts and sends a claimed delivery in the background, and polls again at its end. During a stop the attempt is aborted at
   * once. Logs a failure to record it.
   */
  function startDelivery(sendClaimed: SendClaimedDelivery, row: DeliveryRow, token: string): void {
    const controller = new AbortController();
    if (isStopping) controller.abort();
    counters.attempts++;
    const done = sendClaimed(row, token, controller)
      .catch((error) => environment.log({ level: "error", message: "recording a webhook attempt failed", error }))
      .finally(() => {
        sending.delete(controller);
        poll();
      });
    sending.set(controller, done);
  }

  /** Returns the delivery of a run with its attempts. Throws `not_found` if it has none or is not visible. */
  async function get(scope: Scope, run_id: string): Promise<DeliveryDetail> {
    const { findDelivery } = await import("./deliveries.ts");
    const delivery = await findDelivery(storage, scope, run_id.toLowerCase());
    if (!delivery) throw new ServiceError("not_found", `Webhook delivery ${run_id} not found`);
    return delivery;
  }

  /**
   * Polls if a delivery is due, and if that cannot be read. Reads before it claims, because usually the process in which the
   * run ended has sent everything.
   */
  async function pollForRemoteRuns(): Promise<void> {
    cancelRemotePoll = null;
    try {
      const next = await storage.getNextDeliveryTime(deploymentScope);
      if (next !== null && next <= environment.now()) poll();
    } catch {
      poll();
    }
  }

  bus.subscribe("deliveries", deploymentScope.deployment, (_, from) => {
    // The process in which the run ended sends first.
    if (from !== "elsewhere") environment.defer(poll);
    else if (!isStopping) cancelRemotePoll ??= environment.timer(REMOTE_RUN_DELAY_MS, () => void pollForRemoteRuns());
  });

  return {
    /** Aborts running requests, which are retried later, and resolves when all are recorded. Later signals send nothing. */
    async stop() {
      isStopping = true;
      stopController.abort();
      cancelPoll();
      cancelRemotePoll?.();
      for (const controller of sending.keys()) controller.abort();
      // A claim under way can still start attempts; these abort at once.
      await claiming;
      await Promise.all(sending.values());
      cancelPoll();
    },
    get,
    list: async (scope, query = {}) => (await import("./deliveries.ts")).listDeliveries(storage, scope, query),
    /**
     * Makes a delivery of any state due now, with a new retry series, and resolves with nothing: the signal that the storage
     * publishes starts a poll, which sends it. Throws `not_found`, or `delivery_active` while it is being sent.
     */
    async redeliver(scope, run_id) {
      const id = run_id.toLowerCase();
      if (await storage.redeliver(scope, id, environment.now())) return;
      await get(scope, id);
      throw new ServiceError("delivery_active", `Webhook delivery ${id} is being sent: retry later`);
    },
    ...createPushes({ storage, environment, policy: settings.policy }),
    counters: () => ({ sending: sending.size, ...counters }),
  };
}

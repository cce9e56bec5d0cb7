/** Ended runs, a manual clock, and webhook requests that the test answers. */
import assert from "node:assert/strict";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { withFixedScope } from "../../../lib/auth/authorizer.ts";
import type { Environment, LogRecord } from "../../../lib/environment.ts";
import {
  type ChangeListener,
  type ChangeOrigin,
  createEventBus,
  type EventBus,
  publishChanges,
} from "../../../lib/storage/event-bus.ts";
import type { DeliveryRow, Storage } from "../../../lib/storage/mod.ts";
import { DELIVERY_DEFAULTS, type Loopback, type WebhookSettings } from "../../../lib/webhooks/options.ts";
import { createUrlPolicy } from "../../../lib/webhooks/policy.ts";
import { createWebhookSender, type WebhookSender, type Webhooks } from "../../../lib/webhooks/sender.ts";
import type { OutboundRequest, OutboundResponse, ResolveHost } from "../../../lib/webhooks/system-transport.ts";
import { createAssistant, findDelivery, finish, here, stateless } from "../../suite/storage/material.ts";
import { until } from "../../support/until.ts";

export { until };

/** A public address: that of every name, unless the test resolves them. */
export const PUBLIC = "93.184.215.14";

/** The poll interval of a sender in milliseconds. */
const POLL_MS = 15_000;

/** A request on its way: the test answers it. */
export interface Sent {
  readonly request: OutboundRequest;
  readonly addresses: readonly string[];
  readonly signal: AbortSignal;
  answer(status: number, responseFields?: Partial<OutboundResponse>): void;
  fail(error: unknown): void;
}

/** `wake`: runs with webhooks have ended, here or in another process. */
export type Sender = Webhooks & Pick<WebhookSender, "counters" | "stop"> & { wake(from?: ChangeOrigin): void };

export interface World extends AsyncDisposable {
  readonly storage: Storage;
  readonly sentRequests: Sent[];
  readonly log: LogRecord[];
  now(): number;
  /** Time passes at once; timers that are due then are called. */
  jump(ms: number): void;
  /** Ends a run with this webhook. */
  endRunWithWebhook(id: string, url?: string, depth?: number): Promise<void>;
  open(settings?: Partial<WebhookSettings>): Sender;
  row(id: string): Promise<DeliveryRow>;
  /** The sender has put this delivery off and waits for it, or for its next look around. */
  waits(id: string): Promise<void>;
  /** The number of requests so far is this, and no more come. */
  requests(count: number): Promise<void>;
}

export interface WorldOptions {
  readonly random?: () => number;
  readonly resolve?: ResolveHost;
  readonly loopback?: Loopback;
  readonly transport?: null;
}

const tick = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

export async function ticks(): Promise<void> {
  for (let i = 0; i < 5; i++) await tick();
}

export async function world(options: WorldOptions = {}): Promise<World> {
  const storage = nodeSqlite(":memory:");
  await storage.migrate();
  const assistant = await createAssistant(storage);
  let time = Date.UTC(2026, 0, 1);
  const timers = new Set<{ at: number; fn: () => void }>();
  const log: LogRecord[] = [];
  const sentRequests: Sent[] = [];
  const opened: WebhookSender[] = [];
  const environment: Environment = {
    now: () => time,
    timer(ms, fn) {
      const timer = { at: time + ms, fn };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    defer: (fn) => void setTimeout(fn, 0),
    random: options.random ?? (() => 0.5),
    uuid: () => crypto.randomUUID(),
    log: (record) => void log.push(record),
  };
  const send = (request: OutboundRequest, addresses: readonly string[], signal: AbortSignal) =>
    new Promise<OutboundResponse>((resolve, fail) => {
      const defaults = { retry_after: null, address: addresses[0] ?? null };
      const answer: Sent["answer"] = (status, responseFields) => resolve({ ...defaults, status, ...responseFields });
      sentRequests.push({ request, addresses, signal, answer, fail });
    });
  return {
    storage,
    sentRequests,
    log,
    now: () => time,
    jump(ms) {
      time += ms;
      for (const timer of [...timers]) {
        if (timer.at <= time && timers.delete(timer)) timer.fn();
      }
    },
    async endRunWithWebhook(id, url = "https://hooks.example.com/in?key=s3cret", depth = 0) {
      const host = url.startsWith("/") ? "" : new URL(url).host;
      const { lease } = await stateless(storage, assistant, id, { run: { webhook: { url, host, depth } } });
      await storage.finishRun(here, lease, finish({ now: time }));
    },
    open(overrides = {}) {
      const settings = { policy: createUrlPolicy(), headers: [], secrets: [], loopback: null, transport: null };
      let heard: ChangeListener = () => {};
      const bus = createEventBus(undefined, "", environment);
      const subscribe: EventBus["subscribe"] = (kind, id, listener) => {
        heard = listener;
        return bus.subscribe(kind, id, listener);
      };
      const deliveries = createWebhookSender({
        storage: publishChanges(storage, bus),
        bus: { ...bus, subscribe },
        scope: here,
        environment,
        settings: { ...settings, ...DELIVERY_DEFAULTS, ...overrides },
        transport: async () =>
          options.transport === null ? null : { resolve: options.resolve ?? (async () => [PUBLIC]), send },
        loopback: options.loopback ?? null,
        user_agent: "greenroom/1.0.0 (webhook)",
      });
      opened.push(deliveries);
      const wake: Sender["wake"] = (from = "here") => heard(here.deployment, from);
      wake();
      const { counters, stop } = deliveries;
      return { ...withFixedScope<Webhooks>(deliveries, here), counters, stop, wake };
    },
    async row(id) {
      return (await findDelivery(storage, here, id)) ?? assert.fail(`there is no delivery ${id}`);
    },
    async waits(id) {
      await until(async () => {
        const { state, due_at } = (await findDelivery(storage, here, id)) as DeliveryRow;
        const at = Math.min(due_at, time + POLL_MS);
        return state === "pending" && due_at > time && [...timers].some((timer) => timer.at === at);
      });
    },
    async requests(count) {
      await until(() => sentRequests.length >= count);
      await ticks();
      assert.equal(sentRequests.length, count);
    },
    async [Symbol.asyncDispose]() {
      for (const deliveries of opened) await deliveries.stop();
      await storage.close();
    },
  };
}

/** A header of the request, by its name as it was given. */
export const header = ({ request }: Sent, name: string): string | undefined =>
  request.headers.find(([n]) => n === name)?.[1];

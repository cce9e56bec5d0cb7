/** Deliveries of webhooks for cases: runs that name one, and what leaves the process for it. */
import assert from "node:assert/strict";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import type { DeliveryAttempt, DeliveryRow } from "../../lib/storage/mod.ts";
import type { WebhookOptions } from "../../lib/webhooks/options.ts";
import type { ResolveHost } from "../../lib/webhooks/system-transport.ts";
import { until } from "../support/until.ts";
import { type Answer, expectStatus } from "./expect.ts";
import { type Host, type HostOptions, startHost } from "./host.ts";

/** An address that is public. */
export const PUBLIC = "93.184.215.14";

/** A request that would have left the process. */
export interface Sent {
  readonly url: string;
  readonly headers: readonly (readonly [string, string])[];
  /** Null: to the host application itself. */
  readonly addresses: readonly string[] | null;
}

export interface Outbox {
  /** The transport and the loopback, for the options of the service. */
  readonly ways: Pick<WebhookOptions, "transport" | "loopback">;
  readonly all: readonly Sent[];
  /** Resolves when something was sent. */
  first(): Promise<readonly Sent[]>;
}

/** Takes all that is sent, and answers 200. */
export function outbox(resolve: ResolveHost): Outbox {
  const all: Sent[] = [];
  return {
    all,
    ways: {
      transport: {
        resolve,
        async send({ url, headers }, addresses) {
          all.push({ url, headers, addresses });
          return { status: 200, retry_after: null, address: addresses[0] ?? null };
        },
      },
      loopback({ url, headers }) {
        all.push({ url, headers: [...headers], addresses: null });
        return new Response(null, { status: 204 });
      },
    },
    async first() {
      await until(async () => all.length > 0, "something is sent", PATIENCE_MS);
      return all;
    },
  };
}

const PATIENCE_MS = 10_000;

/** A run on a thread of its own, which is made with it. */
export async function createRun(
  host: Host,
  webhook: string,
  verb: "wait" | "create",
): Promise<{ readonly answer: Answer; readonly thread_id: string }> {
  const thread_id = crypto.randomUUID();
  const path = `/threads/${thread_id}/runs${verb === "wait" ? "/wait" : ""}`;
  const body = { assistant_id: "agent", input: {}, if_not_exists: "create", webhook };
  return { answer: await host.ask("POST", path, { auth: "owner", body }), thread_id };
}

/**
 * Returns the first delivery attempt of a run. A service that accepts the URL creates the run, and a service with `options` executes it, as
 * after a restart with another configuration.
 */
export async function deliver(
  url: string,
  options: HostOptions,
): Promise<{ readonly row: DeliveryRow; readonly attempt: DeliveryAttempt }> {
  const storage = nodeSqlite(":memory:");
  const unused = outbox(async () => []);
  const before = await startHost({
    storage: { ...storage, close: async () => {} },
    worker: { concurrency: 0 },
    webhooks: { url: { allow_private_network: true, allowed_ports: listPorts(url) }, ...unused.ways },
  });
  const { answer } = await createRun(before, url, "create");
  await before[Symbol.asyncDispose]();
  expectStatus(answer, 200);
  assert.deepEqual(unused.all, [], "nothing is sent before the run has ended");
  await using _after = await startHost({ ...options, storage });
  const scope = { deployment: "default" };
  let firstAttempt: { readonly row: DeliveryRow; readonly attempt: DeliveryAttempt } | null = null;
  await until(
    async () => {
      const [row] = await storage.listDeliveries(scope, { limit: 1 });
      const [attempt] = row ? await storage.listAttempts(scope, row.delivery_id) : [];
      const [attempted = row] = await storage.listDeliveries(scope, { limit: 1 });
      if (attempted && attempt) firstAttempt = { row: attempted, attempt };
      return firstAttempt !== null;
    },
    "a delivery was attempted",
    PATIENCE_MS,
  );
  return firstAttempt as unknown as { readonly row: DeliveryRow; readonly attempt: DeliveryAttempt };
}

function listPorts(url: string): readonly number[] {
  const port = URL.canParse(url) ? new URL(url).port : "";
  return [80, 443, ...(port === "" ? [] : [Number(port)])];
}

/** Webhooks reach only public addresses, however these are written, named, resolved or redirected to. */
import assert from "node:assert/strict";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { systemEnvironment } from "../../../lib/environment.ts";
import { createEventBus } from "../../../lib/storage/event-bus.ts";
import type { DeliveryDetail } from "../../../lib/webhooks/deliveries.ts";
import { SendError } from "../../../lib/webhooks/http-client.ts";
import { DELIVERY_DEFAULTS, type WebhookTransport } from "../../../lib/webhooks/options.ts";
import { createUrlPolicy, type WebhookUrlOptions } from "../../../lib/webhooks/policy.ts";
import { createWebhookSender } from "../../../lib/webhooks/sender.ts";
import { createSystemTransport } from "../../../lib/webhooks/system-transport.ts";
import { type TestService, testService } from "../../suite/kit.ts";
import { createAssistant, finish, here, stateless } from "../../suite/storage/material.ts";
import { until } from "../../support/until.ts";
import { ANSWERS, PRIVATE_NAMES, PRIVATE_V4, PRIVATE_V6, SHAPES, spellings, ZONES } from "./ssrf-forms.ts";

/** A public address that stands for the internet. Requests to it are recorded and answered here. */
const PUBLIC = "93.184.215.14";

interface Listener extends AsyncDisposable {
  readonly port: number;
  connections(): number;
}

async function listening(handler: RequestListener, hostname: string, port = 0): Promise<Listener> {
  const sockets = new Set<Socket>();
  let count = 0;
  const server = createServer(handler);
  server.on("connection", (socket: Socket) => {
    count++;
    sockets.add(socket);
    socket.on("error", () => {});
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, hostname, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => count,
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

/** Counts connections to a port of this machine, by IPv4 and IPv6 if available. */
async function canary(): Promise<Listener & { readonly v6: boolean }> {
  const v4 = await listening((_request, response) => void response.writeHead(204).end(), "127.0.0.1");
  const handler: RequestListener = (_request, response) => void response.writeHead(204).end();
  const v6 = await listening(handler, "::1", v4.port).catch(() => null);
  return {
    port: v4.port,
    v6: v6 !== null,
    connections: () => v4.connections() + (v6?.connections() ?? 0),
    async [Symbol.asyncDispose]() {
      await v4[Symbol.asyncDispose]();
      await v6?.[Symbol.asyncDispose]();
    },
  };
}

interface Outgoing {
  readonly transport: WebhookTransport;
  /** The addresses of each request. */
  readonly connections: (readonly string[])[];
}

/** Wraps the real transport. Requests to the internet stay here and get status 500. */
async function outgoing(resolve: WebhookTransport["resolve"]): Promise<Outgoing> {
  const system = await createSystemTransport();
  assert.ok(system);
  const connections: (readonly string[])[] = [];
  return {
    connections,
    transport: {
      resolve,
      send: (request, addresses, signal) => {
        connections.push(addresses);
        if (addresses.every((address) => address === PUBLIC)) {
          return Promise.resolve({ status: 500, retry_after: null, address: PUBLIC });
        }
        return system.send(request, addresses, signal);
      },
    },
  };
}

const serviceWith = (url: WebhookUrlOptions, transport: WebhookTransport): Promise<TestService> =>
  testService({
    agents: { echo: () => "done" },
    webhooks: { url, transport, delivery: { schedule_ms: [0, 0] } },
    limits: { pending: 10_000 },
  });

/** Creates a run with this webhook. Returns the status and the body of the response. */
async function created(kit: TestService, webhook: string): Promise<{ status: number; text: string }> {
  const init = { method: "POST", headers: { "content-type": "application/json" } };
  const body = JSON.stringify({ assistant_id: "echo", input: {}, webhook });
  const response = await kit.fetch("http://greenroom/runs", { ...init, body });
  return { status: response.status, text: await response.text() };
}

/** Waits until a delivery has failed, and returns its attempts. */
async function readAttempts(kit: TestService, run_id: string): Promise<DeliveryDetail["attempt_list"]> {
  const { webhooks } = kit.service;
  await until(async () => (await webhooks.get(run_id).catch(() => null))?.state === "failed");
  return (await webhooks.get(run_id)).attempt_list;
}

/** Lists every form of private addresses with this port, with allowed ports and without a port. */
function forms(port: number): string[] {
  const hosts = [...PRIVATE_V4.flatMap(spellings), ...PRIVATE_V6.map((address) => `[${address}]`), ...ZONES];
  const loopback = [...spellings("127.0.0.1"), "[::1]", "[::]", ...PRIVATE_NAMES];
  const places = [`127.0.0.1:${port}`, `[::1]:${port}`, `localhost:${port}`, `169.254.169.254:${port}`];
  return [
    ...hosts.map((host) => `http://${host}:${port}/x?key=1`),
    ...PRIVATE_NAMES.map((host) => `http://${host}:${port}/`),
    ...loopback.flatMap((host) => [`http://${host}/`, `https://${host}/x`, `https://${host}:${port}`]),
    ...SHAPES.flatMap((shape) => places.map((to) => shape.replaceAll("{to}", to))),
  ];
}

describe("a webhook to a private address", () => {
  it("is refused at the creation of the run, in every spelling", async () => {
    await using target = await canary();
    const { transport, connections } = await outgoing(async () => ["127.0.0.1"]);
    const ports = [80, 443, target.port];
    await using kit = await serviceWith({ allowed_ports: ports }, transport);
    const urls = forms(target.port);
    assert.ok(new Set(urls).size >= 700, String(urls.length));
    for (const url of urls) {
      const { status, text } = await created(kit, url);
      assert.equal(status, 422, url);
      assert.match(text, /^\{"detail":"Invalid webhook URL: [a-z_]+","code":"webhook_refused"\}$/, url);
    }
    assert.deepEqual((await kit.service.webhooks.list()).items, []);
    assert.deepEqual([connections, target.connections()], [[], 0]);
  });

  it("is not sent if an earlier, laxer policy accepted it", async () => {
    await using target = await canary();
    const { transport, connections } = await outgoing(async () => ["127.0.0.1", "::1"]);
    const storage = nodeSqlite(":memory:");
    await storage.migrate();
    const assistant = await createAssistant(storage);
    // Not every storage takes U+0000.
    const urls = forms(target.port).filter((url) => !url.includes("\0"));
    for (const [i, url] of urls.entries()) {
      const { lease } = await stateless(storage, assistant, `r${i}`, {
        run: { webhook: { url, host: `${i}`, depth: 0 } },
      });
      await storage.finishRun(here, lease, finish());
    }
    const bus = createEventBus(undefined, "", systemEnvironment());
    const deliveries = createWebhookSender({
      storage,
      bus,
      scope: here,
      environment: { ...systemEnvironment(), log: () => {} },
      settings: {
        ...DELIVERY_DEFAULTS,
        policy: createUrlPolicy({ allowed_ports: [80, 443, target.port] }),
        headers: [],
        secrets: [],
        loopback: null,
        transport: null,
      },
      transport: async () => transport,
      loopback: null,
      user_agent: "greenroom",
    });
    try {
      bus.notifyAll();
      await until(() => deliveries.counters().failed === urls.length);
      const { attempts, delivered, retried } = deliveries.counters();
      assert.deepEqual([attempts, delivered, retried], [urls.length, 0, 0], "the first refusal is the last word");
      for (const [i, url] of urls.entries()) {
        const [attempt] = (await deliveries.get(here, `r${i}`)).attempt_list;
        assert.equal(attempt?.status, null, url);
        assert.match(attempt?.error ?? "", /^[a-z_]+$/, url);
        assert.notEqual(attempt?.error, "network_error", url);
      }
      assert.deepEqual([connections, target.connections()], [[], 0]);
    } finally {
      await deliveries.stop();
      await storage.close();
    }
  });

  it("is not sent by a name that resolves to it, whatever else it resolves to", async () => {
    await using target = await canary();
    const answers = new Map(
      ANSWERS.map((list, i) => [`n${i}.example.com`, list.map((text) => text.replace("{public}", PUBLIC))]),
    );
    const { transport, connections } = await outgoing(async (host) => answers.get(host) ?? []);
    await using kit = await serviceWith({ allowed_ports: [80, 443, target.port] }, transport);
    for (const host of answers.keys()) {
      const { status, text } = await created(kit, `http://${host}:${target.port}/x`);
      assert.equal(status, 200, text);
      const attempts = await readAttempts(kit, JSON.parse(text).run_id);
      const attemptErrors = attempts.map(({ error, address }) => [error, address]);
      assert.deepEqual(attemptErrors, [["dns_not_public", null]], `${answers.get(host)}`);
    }
    assert.deepEqual([connections, target.connections()], [[], 0]);
  });

  it("is not sent by a name that resolves to it at the next look-up", async () => {
    await using target = await canary();
    for (const later of [["127.0.0.1"], ["::1"], [PUBLIC, "127.0.0.1"], ["::ffff:127.0.0.1"]]) {
      let resolveCount = 0;
      const { transport, connections } = await outgoing(async () => (resolveCount++ === 0 ? [PUBLIC] : later));
      await using kit = await serviceWith({ allowed_ports: [target.port] }, transport);
      const { text } = await created(kit, `http://rebound.example.com:${target.port}/`);
      const attempts = await readAttempts(kit, JSON.parse(text).run_id);
      assert.deepEqual(
        attempts.map(({ status, error }) => [status, error]),
        [
          [500, "bad_status"],
          [null, "dns_not_public"],
        ],
      );
      // It connects to the checked addresses: each attempt resolves once.
      assert.deepEqual([connections, resolveCount], [[[PUBLIC]], 2]);
    }
    assert.equal(target.connections(), 0);
  });

  it("is not reached by a second look-up of the sender, which connects to the checked address only", async () => {
    await using target = await canary();
    const system = await createSystemTransport();
    assert.ok(system);
    const times = { timeout_ms: 10_000, connect_timeout_ms: 5_000 };
    for (const host of ["localhost", "LOCALHOST", "a.localhost"]) {
      const url = `http://${host}:${target.port}/`;
      const request = { url, method: "POST" as const, headers: [], body: "{}", ...times };
      // No server listens on this address.
      const response = system.send(request, ["127.0.0.2"], new AbortController().signal);
      await assert.rejects(response, (error) => error instanceof SendError && error.code === "network_error", host);
    }
    assert.equal(target.connections(), 0);
  });

  it("is not reached by a redirect", async () => {
    await using target = await canary();
    let answer: { status: number; headers: Record<string, string> } = { status: 204, headers: {} };
    const handler: RequestListener = (_request, response) =>
      void response.writeHead(answer.status, answer.headers).end("<meta http-equiv=refresh content=0>");
    await using receiver = await listening(handler, "127.0.0.1");
    const { transport, connections } = await outgoing(async () => ["127.0.0.1"]);
    // The receiver is local, so only its port is allowed.
    await using kit = await serviceWith({ allow_private_network: true, allowed_ports: [receiver.port] }, transport);
    const to = `http://127.0.0.1:${target.port}/x`;
    const places = [to, to.slice("http:".length), `http://localhost:${target.port}`, `http://[::1]:${target.port}/`];
    const statuses = [300, 301, 302, 303, 304, 305, 307, 308, 399];
    let count = 0;
    for (const host of ["127.0.0.1", "hooks.example.com"]) {
      for (const status of statuses) {
        for (const authority of places) {
          answer = {
            status,
            headers: { location: authority, "content-location": authority, refresh: `0; url=${authority}` },
          };
          const { text } = await created(kit, `http://${host}:${receiver.port}/in`);
          const { run_id } = JSON.parse(text);
          const { webhooks } = kit.service;
          const attempts = await readAttempts(kit, run_id);
          assert.deepEqual(
            attempts.map(({ status, error }) => [status, error]),
            Array(3).fill([status, "bad_status"]),
          );
          assert.equal((await webhooks.get(run_id)).state, "failed");
          count += 3;
        }
      }
    }
    assert.deepEqual([receiver.connections(), connections.length, target.connections()], [count, count, 0]);
  });

  it("is sent if the policy allows the network", async () => {
    await using target = await canary();
    const { transport } = await outgoing(async () => ["127.0.0.1"]);
    await using kit = await serviceWith({ allow_private_network: true, allowed_ports: [target.port] }, transport);
    const hosts = ["127.0.0.1", "hooks.example.com", "localhost", ...(target.v6 ? ["[::1]"] : [])];
    for (const [i, host] of hosts.entries()) {
      const { status, text } = await created(kit, `http://${host}:${target.port}/x`);
      assert.equal(status, 200, text);
      await until(async () => (await kit.service.metrics()).webhooks.delivered === i + 1);
      assert.equal(target.connections(), i + 1);
    }
  });
});

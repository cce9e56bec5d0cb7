/** A server behind a reverse proxy that takes a prefix away. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Client } from "langgraph-sdk-2";
import { serve } from "../../adapters/node/mod.ts";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import { createHandler } from "../../lib/http/handler.ts";
import { createService, fromFunctions } from "../../lib/mod.ts";
import { createGates, type Gates } from "../support/graphs.ts";
import { runtime } from "../support/programs.ts";
import { createClient, human, leaveAfter, until } from "./host-client.ts";
import { openStrippingProxy } from "./stripping-proxy.ts";

const PUBLIC = "https://app.example/public/agents";
const input = human("Go");

interface Behind extends AsyncDisposable {
  readonly url: string;
  readonly passed: string[];
  readonly client: Client;
  readonly gates: Gates;
}

/** Serves an agent behind a proxy. Each of its three steps waits for its gate. */
async function behind(): Promise<Behind> {
  const gates = createGates();
  const service = await createService({
    storage: nodeSqlite(":memory:"),
    public_base_url: PUBLIC,
    executor: fromFunctions({
      async *steps({ signal }) {
        for (const step of [1, 2, 3]) {
          await gates.pass(`step ${step}`, signal);
          yield { step };
        }
      },
      told: ({ config }) => ({ configurable: config.configurable }),
    }),
  });
  // The server listens at the root, on an address that clients do not know.
  const handler = createHandler(service);
  const listener = await serve((request) => handler(request), { hostname: "127.0.0.1", port: 0 });
  const proxy = await openStrippingProxy(listener.port, "/public/agents");
  return {
    url: proxy.url,
    passed: proxy.passed,
    client: createClient({ apiUrl: proxy.url }),
    gates,
    async [Symbol.asyncDispose]() {
      await proxy[Symbol.asyncDispose]();
      await service.stop(0);
      await listener.close();
    },
  };
}

describe(`a server behind a reverse proxy, on ${runtime}`, () => {
  it("sends every frame at once", async () => {
    await using at = await behind();
    const { thread_id } = await at.client.threads.create();
    const frames: unknown[] = [];
    for await (const { event, data } of at.client.runs.stream(thread_id, "steps", { input, streamMode: "updates" })) {
      // Each step waits until the frame of the step before has arrived.
      if (event === "metadata") at.gates.open("step 1");
      if (event !== "updates") continue;
      frames.push(data);
      at.gates.open(`step ${frames.length + 1}`);
    }
    assert.deepEqual(
      frames,
      [1, 2, 3].map((step) => ({ steps: { step } })),
    );
    assert.deepEqual(at.passed, ["POST /threads", `POST /threads/${thread_id}/runs/stream`]);
  });

  it("stops a run when its reader disconnects", async () => {
    await using at = await behind();
    const { thread_id } = await at.client.threads.create();
    at.gates.open("step 1");
    await leaveAfter({ graph: "steps" }, at.client, { thread_id, input, streamMode: "updates", event: "updates" });
    assert.match(String(await at.gates.stopped("step 2")), /cancelled/);
    await until(async () => (await at.client.runs.list(thread_id))[0]?.status === "interrupted");
    assert.equal(((await at.client.threads.getState(thread_id)).values as { step?: number }).step, 1);
  });

  it("stops a run when a client disconnects during a wait", async () => {
    await using at = await behind();
    const { thread_id } = await at.client.threads.create();
    const disconnect = new AbortController();
    const body = JSON.stringify({ assistant_id: "steps", input, on_disconnect: "cancel" });
    const init = { method: "POST", body, signal: disconnect.signal };
    const waiting = fetch(`${at.url}/threads/${thread_id}/runs/wait`, init).then((answer) => answer.text());
    await at.gates.reached("step 1");
    disconnect.abort();
    await assert.rejects(waiting);
    assert.match(String(await at.gates.stopped("step 1")), /cancelled/);
  });

  it("receives Last-Event-ID, and returns valid Location headers and feedback links", async () => {
    await using at = await behind();
    const { thread_id } = await at.client.threads.create();
    for (const step of [1, 2, 3]) at.gates.open(`step ${step}`);
    const body = JSON.stringify({
      assistant_id: "steps",
      input,
      stream_mode: "updates",
      stream_resumable: true,
      feedback_keys: ["helpful"],
    });
    const first = await fetch(`${at.url}/threads/${thread_id}/runs/stream`, { method: "POST", body });
    const whole = await first.text();
    assert.equal(first.headers.get("x-accel-buffering"), "no");
    const again = await fetch(`${at.url}${first.headers.get("location")}`, { headers: { "last-event-id": "2" } });
    const remainingText = await again.text();
    assert.ok(whole.endsWith(remainingText) && remainingText.startsWith("id: 3\n"), remainingText);
    // Links use the configured base URL and not the proxy's headers.
    const link = /"helpful":"([^"]+)"/.exec(whole)?.[1] ?? "";
    assert.ok(link.startsWith(`${PUBLIC}/api/v1/feedback/tokens/`), link);
    const here = link.replace(PUBLIC, at.url);
    assert.equal((await fetch(here, { method: "POST", body: '{"score":1}' })).status, 200);
  });

  it("ignores forwarded headers, which runs may read", async () => {
    await using at = await behind();
    const values = (await at.client.runs.wait(null, "told", { input })) as {
      readonly configurable: Readonly<Record<string, unknown>>;
    };
    assert.equal(values.configurable["x-forwarded-host"], "evil.example");
    assert.equal(values.configurable["forwarded"], undefined);
    const { servers } = (await (await fetch(`${at.url}/openapi.json`)).json()) as { servers: unknown };
    assert.deepEqual(servers, [{ url: "/" }]);
  });
});

/** A running server with the rows that the examples of the OpenAPI document name. */
import assert from "node:assert/strict";
import { docsPage } from "../../../adapters/docs-page.ts";
import { serve } from "../../../adapters/node/mod.ts";
import type { AgentFunction } from "../../../lib/functions/mod.ts";
import { createHandler } from "../../../lib/http/handler.ts";
import { isObject, type Json, type JsonObject } from "../../../lib/json.ts";
import { testClock, testIds, testService } from "../../suite/kit.ts";

const NINE = Date.UTC(2026, 0, 1, 9);
const CLOCK_STEP_MS = 100;
const MAX_STEPS = 500;

/** A server, and the ids that it chose by the ids of the examples. */
export interface World extends AsyncDisposable {
  readonly url: string;
  /** The ids of the examples with the ids of this server. */
  readonly ids: Map<string, string>;
  /** Sends a request and returns its JSON. Throws for a status above 299. */
  send(method: string, path: string, body?: Json): Promise<JsonObject>;
  /** Advances the clock until the check returns true. Throws if it never does. */
  waitUntil(check: () => boolean | Promise<boolean>): Promise<void>;
  /** Advances the clock until the promise is settled, and returns its value. */
  advanceUntil<Value>(promise: Promise<Value>): Promise<Value>;
  /** Returns the address of the last `wait` of the agent `parcel`. Null before it waits. */
  getAddress(): string | null;
}

const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));

/** Starts a server with the agents of the examples, on a free port, with a clock that stands still. */
export async function startWorld(): Promise<World> {
  const clock = testClock(NINE);
  let address: string | null = null;
  const agents: Record<string, AgentFunction> = {
    async *agent({ messages, signal }) {
      const content = messages.at(-1)?.content;
      yield "Hello, ";
      if (content === "Wait") await untilAborted(signal);
      yield "what can I do?";
    },
    async *approve({ command, interrupt }) {
      if (command?.resume === undefined) yield interrupt({ question: "Refund 30 euros?" });
      else yield "Done.";
    },
    async parcel({ wait }) {
      const begin = (event: { readonly url: string }): void => {
        address = new URL(event.url).pathname.split("/").at(-1) ?? null;
      };
      const schema = { properties: { code: { type: "integer" } }, required: ["code"] } as const;
      const parcel = (await wait("parcel", { schema, timeout: "7d", begin })) as { readonly code: number } | null;
      return `Shipped as ${parcel?.code}`;
    },
  };
  const test = await testService({
    agents,
    public_base_url: "https://agents.example",
    usage: { enabled: true },
    webhooks: { loopback: async () => new Response(null, { status: 204 }) },
    http: {
      mcp: {
        protected_resource: {
          resource: "https://agents.example/mcp",
          authorization_servers: ["https://login.example"],
          scopes_supported: ["agents"],
        },
      },
    },
    environment: { now: clock.now, timer: clock.timer, uuid: testIds(), random: () => 0.5, runtime: "test" },
  });
  const listener = await serve(createHandler(test.service, { docs: docsPage }), { port: 0 });
  async function advanceUntil<Value>(promise: Promise<Value>): Promise<Value> {
    let isSettled = false;
    const settled = promise.finally(() => {
      isSettled = true;
    });
    settled.catch(() => {});
    while (!isSettled) await clock.advance(CLOCK_STEP_MS);
    return await settled;
  }

  return {
    url: listener.url,
    ids: new Map(),
    advanceUntil,
    getAddress: () => address,
    async send(method, path, body) {
      const init = { method, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
      const response = await fetch(`${listener.url}${path}`, init);
      const text = await response.text();
      assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
      const answer: unknown = text === "" ? {} : JSON.parse(text);
      return isObject(answer) ? answer : { list: answer as Json };
    },
    async waitUntil(check) {
      for (let step = 0; step < MAX_STEPS; step++) {
        if (await check()) return;
        await clock.advance(CLOCK_STEP_MS);
      }
      throw new Error(`${check} is not true after ${MAX_STEPS} steps`);
    },
    async [Symbol.asyncDispose]() {
      await advanceUntil(Promise.resolve(test[Symbol.asyncDispose]()));
      await listener.close();
    },
  };
}

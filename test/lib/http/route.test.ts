/** The route table is consistent with itself and with its handlers. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { anonymousPrincipal } from "../../../lib/auth/principal.ts";
import { ServiceError } from "../../../lib/errors.ts";
import { resolveAccess } from "../../../lib/http/access.ts";
import type { Handler } from "../../../lib/http/handler.ts";
import type { Route } from "../../../lib/http/route.ts";
import { LAZY_ROUTES, loadAllRoutes } from "../../../lib/http/routes/mod.ts";
import { GROUP_OPTIONS } from "../../../lib/options/http.ts";
import type { CommandCaller } from "../../../lib/protocol/mod.ts";
import { OPERATIONS, ROUTE_OPERATIONS } from "../../../lib/service/operations.ts";
import type { ServiceInternals } from "../../../lib/service.ts";
import { NO_FILTER } from "../../../lib/storage/visibility.ts";
import { until } from "../../support/until.ts";
import { ASSISTANT, fake, RUN, THREAD } from "./fake-service.ts";

const ROUTES = await loadAllRoutes();

const formatKey = ({ method, path }: Route): string => `${method} ${path}`;
/** Creates a path that matches the route. */
const createSample = ({ path }: Route): string => path.replace(/:\w+\+?/g, RUN).replace("*", "x");
const createPattern = ({ path }: Route): RegExp =>
  new RegExp(
    `^${path
      .replace(/:\w+\+|\*/g, "#")
      .replace(/:\w+/g, "[^/]+")
      .replace("#", ".*")}/*$`,
  );

/** Bodies and queries of routes that need one. Some routes have several, with different events. */
const SENT: Readonly<Record<string, readonly { readonly query?: string; readonly body?: unknown }[]>> = {
  "post /assistants": [{ body: { graph_id: "g" } }],
  "delete /assistants/:assistant_id": [{ query: "?delete_threads=true" }],
  "post /assistants/:assistant_id/latest": [{ body: { version: 1 } }],
  "post /threads/prune": [{ body: { thread_ids: [] } }],
  "post /threads/:thread_id/state/checkpoint": [{ body: { checkpoint: {} } }],
  "post /threads/:thread_id/commands": [{ body: { id: 1, method: "run.start", params: { assistant_id: "g" } } }],
  "post /threads/:thread_id/stream/events": [{ body: { channels: ["values"] } }],
  "post /runs/batch": [{ body: [{ assistant_id: "g" }] }],
  "post /runs/cancel": [{ body: { status: "all" } }],
  "get /threads/:thread_id/runs/:run_id/join": [{ query: "?cancel_on_disconnect=1" }],
  "get /threads/:thread_id/runs/:run_id/stream": [{ query: "?cancel_on_disconnect=1" }],
  "get /runs/:run_id/stream": [{ query: "?cancel_on_disconnect=1" }],
  "put /store/items": [{ body: { namespace: ["a"], key: "k", value: {} } }],
  "get /store/items": [{ query: "?namespace=a&key=k" }],
  "delete /store/items": [{ body: { namespace: ["a"], key: "k" } }],
  "post /store/items/search": [{ body: { namespace_prefix: ["a"] } }],
  "post /api/v1/feedback/tokens": [{ body: { run_id: RUN, feedback_key: "k" } }],
  "get /api/v1/feedback/tokens": [{ query: `?run_id=${RUN}` }],
  "get /.well-known/agent-card.json": [{ query: "?assistant_id=g" }],
  "get /greenroom/crons/preview": [{ query: "?schedule=@daily" }],
  "get /greenroom/feedback/scores": [{ query: "?start=2026-01-01&end=2026-01-02" }],
  "post /api/v1/feedback": [{ body: { run_id: RUN, key: "k" } }],
  "post /ag-ui/:assistant_id": [
    {
      body: {
        ...{ threadId: THREAD, runId: "r", tools: [{ name: "t" }] },
        messages: [{ id: "u", role: "user", content: "Hi" }],
      },
    },
  ],
  "post /ai/:assistant_id/chat": [
    {
      body: {
        ...{ id: THREAD, trigger: "submit-message" },
        messages: [{ id: "u", role: "user", parts: [{ type: "text", text: "Hi" }] }],
      },
    },
  ],
};
const CRON = { assistant_id: "g", schedule: "0 0 * * *" };
function createBody({ path, method }: Route): unknown {
  if (method === "get") return undefined;
  if (path.endsWith("/runs/crons")) return CRON;
  return /\/runs(?:\/(?:stream|wait))?$/.test(path) ? { assistant_id: "g" } : {};
}

/** Opens a WebSocket and sends a command. */
async function openSocket(handler: Handler, path: string, isDone: () => boolean): Promise<Response> {
  const request = new Request(`http://127.0.0.1:2024${path}`, { headers: { upgrade: "websocket" } });
  const listeners: ((event: { readonly data: string }) => void)[] = [];
  const socket = {
    bufferedAmount: 0,
    send() {},
    close() {},
    addEventListener: (_type: string, listener: (event: never) => void) => listeners.push(listener as never),
  };
  const response = await handler(request, { upgradeWebSocket: () => ({ socket }) });
  listeners[0]?.({ data: '{"id":1,"method":"run.start","params":{"assistant_id":"g"}}' });
  await until(isDone, "the command is executed");
  return response;
}

let changesFound = 0;
/** Formats the calls of the last request, as `threads.copy: create`. */
const operations: string[] = [];
for (const [noun, rows] of [...Object.entries(OPERATIONS), ...Object.entries(ROUTE_OPERATIONS)]) {
  for (const [name, row] of Object.entries<{ readonly kind: string; withAuthorization(...args: unknown[]): unknown }>(
    rows,
  )) {
    const { kind, withAuthorization } = row;
    const noted = (...args: unknown[]): unknown => {
      operations.push(`${noun}.${name}: ${kind}`);
      return withAuthorization(...args);
    };
    Object.assign(row, { withAuthorization: noted });
  }
}

describe("the route table", () => {
  it("has each method of a path once, and no route that another one hides", () => {
    for (const [at, route] of ROUTES.entries()) {
      for (const earlier of ROUTES.slice(0, at)) {
        if (earlier.method !== route.method && earlier.method !== "all") continue;
        assert.ok(
          !createPattern(earlier).test(createSample(route)),
          `${formatKey(earlier)} comes before ${formatKey(route)}`,
        );
      }
    }
  });

  it("loads groups with the first request below their path", async () => {
    for (const { path, load } of LAZY_ROUTES) {
      const rows = await load();
      assert.ok(rows.length > 0);
      const below = ROUTES.filter((route) => route.path.startsWith(path)).map(formatKey);
      assert.deepEqual(below, rows.map(formatKey));
    }
    const { send } = fake();
    const first = ["/api/v1/info", "/greenroom/server"].flatMap((path) => [send("PUT", path), send("PUT", path)]);
    for (const { status, headers } of await Promise.all(first)) {
      assert.deepEqual([status, headers.get("allow")], [405, "GET, HEAD"]);
    }
  });

  it("assigns every path to a group, which an option disables", () => {
    const groups = new Map<string, string | undefined>();
    for (const { path, group } of ROUTES) {
      assert.ok(!groups.has(path) || groups.get(path) === group, path);
      groups.set(path, group);
      assert.ok(group === undefined || GROUP_OPTIONS.includes(`disable_${group}`), path);
    }
  });

  it("names the unsupported routes, and has a handler for all others", async () => {
    const { send } = fake({ docs: () => new Response() });
    for (const route of ROUTES) {
      const method = route.method === "all" ? "PUT" : route.method.toUpperCase();
      const { status } = await send(method, createSample(route), method === "GET" ? undefined : {});
      assert.equal(status === 501, route.handle === undefined, formatKey(route));
    }
  });

  it("returns the error code of a refusal on every route", async () => {
    const refuse = async (): Promise<never> => {
      throw new ServiceError("permission_missing", "Not you");
    };
    const { send } = fake({ access: { principal: refuse, caller: refuse } });
    for (const route of ROUTES.filter(({ access }) => access !== "open")) {
      const method = route.method === "all" ? "PUT" : route.method.toUpperCase();
      const response = await send(method, createSample(route), method === "GET" ? undefined : {});
      if (route.error_text) {
        assert.deepEqual([response.status, await response.text()], [403, "Not you"], formatKey(route));
        continue;
      }
      const { code } = (await response.json()) as { readonly code: unknown };
      assert.deepEqual([response.status, code], [403, "permission_missing"], formatKey(route));
    }
  });

  for (const route of ROUTES.filter(({ handle, access }) => handle && access !== "open")) {
    it(`names the authorization events, and reads change nothing: ${formatKey(route)}`, async () => {
      const events = new Set<string>();
      const access: Partial<ServiceInternals["access"]> = {
        async authorize(_caller, event, value) {
          events.add(event);
          return { value, visibility: NO_FILTER };
        },
      };
      const user = { identity: "ann", is_authenticated: true, display_name: "ann", permissions: [] };
      const answers = {
        "assistants.isDefault": () => false,
        "threads.copy": (_id: unknown, authorize: unknown) =>
          (authorize as (copy: object) => unknown)({ metadata: {} }),
        "protocol.command": async (thread_id: unknown, _command: unknown, caller: unknown) => {
          const { read, run } = caller as CommandCaller;
          await read(thread_id as string);
          await run(thread_id as string, { assistant_id: "g" });
          return {};
        },
        "runs.rerun": (_id: unknown, _origin: unknown, permit: unknown) =>
          (permit as (thread_id: string, request: object) => unknown)(THREAD, { assistant_id: "g" }),
        "threads.state": () => ({ values: {}, interrupts: [], checkpoint: null }),
        "feedback.mintTokens": () => [{}],
        "feedback.stats": () => [],
      };
      const { send, handler, calls, runLog, result } = fake({
        access,
        answers,
        // This is the run of a chat.
        run: { stream_mode: ["messages-tuple"], input: { messages: [{ type: "human", id: "u" }] } },
        principal: { ...anonymousPrincipal, user },
      });
      if (!route.upgrades) runLog.stop();
      result.resolve({});
      for (const { query = "", body = createBody(route) } of SENT[formatKey(route)] ?? [{}]) {
        const path = route.path.replace(":thread_id", THREAD).replace(":assistant_id", ASSISTANT).replace(/:\w+/, RUN);
        operations.length = 0;
        const response = route.upgrades
          ? await openSocket(handler, path, () => calls.some(([call]) => call === "protocol.command"))
          : await send(route.method.toUpperCase(), `${path}${query}`, body);
        await response.body?.cancel();
        const free = route.events === undefined;
        assert.ok(free || response.status < 300, `${response.status}`);
        const request = new Request(`http://127.0.0.1:2024${path}${query}`, {
          method: route.method === "all" ? "PUT" : route.method.toUpperCase(),
        });
        const changes = operations.filter((call) => /: (?:change|create)$/.test(call));
        // A socket requires the permission for each run that a command creates.
        if (resolveAccess(request, { path, route, routes: () => [route] }) !== "read") changesFound += changes.length;
        else if (!route.upgrades) assert.deepEqual(changes, []);
      }
      assert.deepEqual([...events].sort(), [...(route.events ?? [])].sort());
    });
  }

  it("has routes that change something", () => assert.ok(changesFound > 30, `${changesFound}`));
});

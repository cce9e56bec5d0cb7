/** The HTTP entry: `createHandler` serves a service's deployment routes. */
import { IttyRouter } from "itty-router";
import { AuthRefusal, type AuthUser } from "../auth/custom.ts";
import { anybody, type Principal, useOf as purposeOf } from "../auth/principal.ts";
import { ServiceError } from "../errors.ts";
import { unknownKey } from "../known-keys.ts";
import { type Service, VERSION } from "../service.ts";
import type { Caller } from "../storage/identity.ts";
import type { UsageReport } from "../usage/mod.ts";
import { createBodyReader, turnOf } from "./body.ts";
import type { RequestContext } from "./context.ts";
import { createGate } from "./cors.ts";
import { type App, askApp, ownResponse } from "./custom-routes.ts";
import { type Groups, routeGroups } from "./groups.ts";
import { metricsText, PROMETHEUS } from "./metrics.ts";
import { middlewareOf } from "./middleware.ts";
import openapi from "./openapi.json" with { type: "json" };
import * as parse from "./parse/mod.ts";
import { readCsvQuotes, readUsageQuery } from "./parse/usage.ts";
import { errorResponse, failureResponse, json } from "./respond.ts";
import { assistantRoutes } from "./routes/assistants.ts";
import { cronRoutes } from "./routes/crons.ts";
import { createFeedbackRoutes, type FeedbackRoutes, type PlatformCall } from "./routes/feedback.ts";
import { runRoutes } from "./routes/runs.ts";
import { storeRoutes } from "./routes/store.ts";
import { threadRoutes } from "./routes/threads.ts";
import type { Bodies } from "./sse.ts";
import { usageCsv, usageJson } from "./usage-report.ts";

/** How a service is mounted. */
export interface HandlerOptions {
  /** The path it is mounted under, such as `/agents`. Paths outside answer 404. Default: the root. */
  readonly prefix?: string;
  /**
   * The host names (or name:port) answered; others get 421, and web pages may only call from loopback origins, from these
   * hosts and from `http.cors.allow_origins`. For servers without keys, which any web page could reach otherwise.
   */
  readonly hosts?: readonly string[];
  /**
   * `/metrics` asks for no key, but of requests that a proxy has passed on. For servers that only their own machine reaches.
   * Default: false.
   */
  readonly open_metrics?: boolean;
  /** The HTML page at the mount itself. Default: none, 404. */
  readonly page?: () => string;
  /**
   * The host's own routes: asked for paths below the mount where the API has nothing, with the request as it came. It guards
   * them itself, unless the service has `http.enable_custom_route_auth`. The middleware of a Hono application runs around the
   * routes of the API too; see `http.middleware_order`.
   */
  readonly app?: App;
  /**
   * Whom the host's own code acts for with this request, such as the user of a run: with custom authentication they are asked for no
   * credential, and may what that user may. Null: whoever the request says.
   */
  readonly acts_for?: (request: Request) => AuthUser | null;
}

export type { App, AppAnswer } from "./custom-routes.ts";

/** A web-standard request handler. It answers every request and never rejects. */
export type Handler = (request: Request) => Promise<Response>;

type Method = "get" | "post" | "put" | "patch" | "delete" | "all";
interface RouteTable
  extends Record<Method, (path: string, handle: (call: RequestContext) => Response | Promise<Response>) => RouteTable> {
  readonly routes: readonly [method: string, pattern: RegExp, ...rest: unknown[]][];
  readonly fetch: (call: RequestContext) => Promise<Response | undefined>;
}

/** Routes of the API that this version does not serve. */
const NOT_BUILT: readonly (readonly [method: Method, path: string, what: string])[] = [
  ["all", "/threads/:thread_id/stream/events", "Event protocol v2"],
  ["post", "/threads/:thread_id/commands", "Event protocol v2"],
  ["get", "/docs", "A page of documentation"],
  ["post", "/ui/:assistant_id", "Generative UI"],
  ["all", "/mcp/*", "MCP"],
  ["all", "/a2a/*", "A2A"],
];

const OPTIONS = Object.keys({
  prefix: true,
  hosts: true,
  open_metrics: true,
  page: true,
  app: true,
  acts_for: true,
} satisfies Record<keyof HandlerOptions, true>);

/** Serves a service: a handler for `Bun.serve`, `Deno.serve`, a host's own router, or a client's `fetch` in a test. */
export function createHandler(service: Service, options: HandlerOptions = {}): Handler {
  const unknown = unknownKey(options, OPTIONS);
  if (unknown !== undefined) throw new TypeError(`createHandler: ${unknown}`);
  const { environment, access } = service;
  const { http = {} } = service.options;
  const gate = createGate(http.cors, options.hosts);
  const groups = routeGroups(http);
  const base = (options.prefix ?? "").replace(/\/$/, "");
  if (!/^(\/[\w.~-]+)*$/.test(base)) throw new TypeError(`prefix: ${base} is not a plain path such as /agents`);
  const read = createBodyReader(environment, http);
  const feedback = createFeedbackRoutes(service.feedback, environment, read);
  const router = routeTable(service, { base, feedback, groups, page: options.page });

  const middleware = middlewareOf(options.app, (path) => {
    const message = "a handler of http.app takes no next: it is a route, and does not run around those of the API";
    environment.log({ level: "warn", message, path });
  });

  /** Who asks: at a route of the deployment at once, at one of the platform when it wants to know. */
  interface Asking {
    visit(request: Request): Promise<Principal>;
    caller(request: Request): Promise<Caller>;
  }

  function asking(path: string, user: AuthUser | null): Asking {
    return {
      async visit(request) {
        const local = options.open_metrics === true && !FORWARDED.some((name) => request.headers.has(name));
        const open = OPEN.test(path) || (path === "/metrics" && local);
        if (open || path.startsWith(PLATFORM)) return anybody;
        return await access.principal(request, purposeOf(request, path), user);
      },
      caller: (request) => access.caller(request, user),
    };
  }

  /** The same, asked now. */
  async function asked(path: string, request: Request, who: Asking): Promise<Asking> {
    const principal = await who.visit(request);
    if (!path.startsWith(PLATFORM) || OPEN_PLATFORM.test(path)) return { ...who, visit: async () => principal };
    const caller = await who.caller(request);
    return { visit: async () => principal, caller: async () => caller };
  }

  /** The host's own answer, where the API has nothing. */
  async function custom(app: App, request: Request, path: string, user: AuthUser | null): Promise<Response> {
    if (http.enable_custom_route_auth) await access.principal(request, purposeOf(request, path), user);
    const answer = await askApp(app, request);
    if (!answer) throw nothing();
    return answer;
  }

  async function answer(request: Request, request_id: string): Promise<Response> {
    const { pathname } = new URL(request.url);
    const inside = pathname === base || pathname.startsWith(`${base}/`);
    const path = inside ? pathname.slice(base.length) : "";
    const submission = /^\/api\/v1\/feedback\/tokens\/(.*)$/s.exec(path);
    gate.admit(request, submission !== null);
    const hidden = groups.hides(path);
    const known = () => (hidden ? [] : router.routes.filter(([, pattern]) => pattern.test(pathname)));
    const app = options.app && inside && !submission && known().length === 0 ? options.app : undefined;
    const preflight = request.headers.has("access-control-request-method");
    const asks = request.method === "OPTIONS" && (preflight || !app);
    if (asks && !submission) return gate.preflight(request);
    const user = options.acts_for?.(request) ?? null;
    if (app) return await custom(app, request, path, user);
    const who = asking(path, user);

    async function own(request: Request, { visit, caller }: Asking): Promise<Response> {
      if (submission) return await feedback.submission(request, submission[1] as string, request_id);
      const method = request.method === "HEAD" ? "GET" : request.method;
      const principal = await visit(request);
      const may: RequestContext["authorize"] = (event, value) => access.authorize(principal, event, value);
      const about = { method, url: request.url, request, params: {}, query: {}, request_id };
      const reading = { bytes: () => read(request), turn: () => turnOf(environment) };
      const call: RequestContext = { ...about, ...reading, principal, authorize: may, caller: () => caller(request) };
      const found = hidden ? undefined : await router.fetch(call);
      if (found) return found;
      const methods = new Set(known().map(([allowed]) => allowed));
      if (methods.size === 0) throw nothing();
      if (methods.has("GET")) methods.add("HEAD");
      const allow = [...methods].join(", ");
      const refusal = new ServiceError("method_not_allowed", `${method} is not allowed here: ${allow}`);
      return errorResponse(refusal, { allow });
    }

    if (!middleware || !inside) return await own(request, who);
    const first = http.middleware_order === "auth_first" && !submission ? await asked(path, request, who) : who;
    const inner = (request: Request): Promise<Response> => settle(request, request_id, own(request, first));
    return ownResponse(await middleware(request, inner));
  }

  /** The answer, or what is said of an error; without its body where none is asked for. */
  async function settle(request: Request, request_id: string, answer: Promise<Response>): Promise<Response> {
    const response = await answer.catch((error: unknown) => {
      if (!(error instanceof ServiceError)) {
        environment.log({ level: "error", message: "A request failed", method: request.method, request_id, error });
      }
      // What the host's own authentication refuses, it answers.
      if (error instanceof AuthRefusal) return json({ detail: error.message }, error.headers, error.status);
      return failureResponse(error, request);
    });
    if (request.method !== "HEAD" || response.status === 101) return response;
    await response.body?.cancel();
    return new Response(null, { status: response.status, headers: response.headers });
  }

  return async (request) => {
    const sent = request.headers.get("x-request-id");
    const request_id = sent !== null && /^[\w.:-]{1,128}$/.test(sent) ? sent : environment.uuid();
    const response = await settle(request, request_id, answer(request, request_id));
    // The connection is not HTTP any more.
    if (response.status === 101) return response;
    response.headers.set("x-request-id", request_id);
    gate.expose(request, response.headers);
    return response;
  };
}

/** Its routes ask who calls by themselves. */
const PLATFORM = "/api/v1/";
const OPEN_PLATFORM = /^\/api\/v1\/info$/;
const BILLING = "/api/v1/orgs/current/billing";
/** Paths that ask nobody who they are. */
const OPEN = /^(?:\/|\/ok|\/ready|\/info|\/openapi\.json)?$/;

/** A request with one of these came through a proxy: that the proxy is on this machine says nothing of its client. */
const FORWARDED = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"];

const nothing = (): ServiceError => new ServiceError("not_found", "There is nothing at this path");

interface TableOptions {
  readonly base: string;
  readonly feedback: FeedbackRoutes;
  readonly groups: Groups;
  readonly page: (() => string) | undefined;
}

/** The routes. The first that matches wins: fixed words come before the ids they could be taken for. */
function routeTable(service: Service, { base, feedback, groups, page }: TableOptions): RouteTable {
  const router = IttyRouter({ base }) as unknown as RouteTable;
  const bodies: Bodies = { environment: service.environment, open: 0 };
  const assistants = assistantRoutes(service.assistants);
  const threads = threadRoutes(service.threads);
  const runs = runRoutes(service, bodies, parse.headerCopy(service.options.http?.configurable_headers));
  const crons = cronRoutes(service);
  const store = storeRoutes(service.store);
  const platform = async (call: RequestContext): Promise<PlatformCall> => {
    const { id } = call.params;
    const caller = await call.caller();
    const may: RequestContext["authorize"] = (event, value) =>
      service.access.authorize({ user: caller.user ?? null }, event, value);
    return { request: call.request, caller, may, ...(id === undefined ? {} : { id }) };
  };
  const report = async (call: RequestContext): Promise<UsageReport> => {
    const caller = await call.caller();
    service.usage.admit(caller);
    return await service.usage.report(caller, readUsageQuery(new URL(call.url).searchParams));
  };

  for (const [method, path, what] of NOT_BUILT) {
    let told = false;
    router[method](path, () => {
      // Once: clients that find it out try it at every start.
      if (!told)
        service.environment.log({ level: "warn", message: "a route was called that is not built yet", path, what });
      told = true;
      return errorResponse(new ServiceError("not_built", `${what}: not built yet`));
    });
  }
  if (page) router.get("/", () => new Response(page(), { headers: { "content-type": "text/html; charset=utf-8" } }));

  return router
    .post("/runs/crons/search", crons.search)
    .post("/runs/crons/count", crons.count)
    .post("/runs/crons", crons.create)
    .get("/runs/crons/:cron_id", crons.get)
    .patch("/runs/crons/:cron_id", crons.update)
    .delete("/runs/crons/:cron_id", crons.delete)
    .post("/threads/:thread_id/runs/crons", crons.create)

    .post("/runs/stream", runs.stream)
    .post("/runs/wait", runs.wait)
    .post("/runs/batch", runs.createBatch)
    .post("/runs/cancel", runs.cancelMany)
    .post("/runs", runs.create)
    .get("/runs/:run_id/stream", runs.joinStream)
    .post("/threads/:thread_id/runs/stream", runs.stream)
    .post("/threads/:thread_id/runs/wait", runs.wait)
    .post("/threads/:thread_id/runs", runs.create)
    .get("/threads/:thread_id/runs", runs.list)
    .get("/threads/:thread_id/runs/:run_id", runs.get)
    .delete("/threads/:thread_id/runs/:run_id", runs.delete)
    .post("/threads/:thread_id/runs/:run_id/cancel", runs.cancel)
    .get("/threads/:thread_id/runs/:run_id/join", runs.join)
    .get("/threads/:thread_id/runs/:run_id/stream", runs.joinStream)
    .get("/threads/:thread_id/stream", runs.threadStream)

    .post("/threads/search", threads.search)
    .post("/threads/count", threads.count)
    .post("/threads/prune", threads.prune)
    .post("/threads", threads.create)
    .post("/threads/:thread_id/copy", threads.copy)
    .get("/threads/:thread_id/state", threads.state)
    .post("/threads/:thread_id/state", threads.updateState)
    .patch("/threads/:thread_id/state", threads.patchState)
    .post("/threads/:thread_id/state/checkpoint", threads.stateAt)
    .get("/threads/:thread_id/state/:checkpoint_id", threads.stateAtId)
    .get("/threads/:thread_id/history", threads.history)
    .post("/threads/:thread_id/history", threads.historySearch)
    .get("/threads/:thread_id/storage", threads.storage)
    .get("/threads/:thread_id", threads.get)
    .patch("/threads/:thread_id", threads.update)
    .delete("/threads/:thread_id", threads.delete)

    .post("/assistants/search", assistants.search)
    .post("/assistants/count", assistants.count)
    .post("/assistants", assistants.create)
    .post("/assistants/:assistant_id/versions", assistants.versions)
    .post("/assistants/:assistant_id/latest", assistants.latest)
    .get("/assistants/:assistant_id/graph", assistants.graph)
    .get("/assistants/:assistant_id/schemas", assistants.schemas)
    .get("/assistants/:assistant_id/subgraphs", assistants.subgraphs)
    .get("/assistants/:assistant_id/subgraphs/:namespace", assistants.subgraphs)
    .get("/assistants/:assistant_id", assistants.get)
    .patch("/assistants/:assistant_id", assistants.update)
    .delete("/assistants/:assistant_id", assistants.delete)

    .put("/store/items", store.put)
    .get("/store/items", store.get)
    .delete("/store/items", store.delete)
    .post("/store/items/search", store.search)
    .post("/store/namespaces", store.namespaces)

    .get("/ok", () => {
      const services = service.services();
      if (service.healthy()) return json({ ok: true, services });
      return json({ ok: false, detail: "The worker can execute no run any more", services }, {}, 503);
    })
    .get("/ready", async () => {
      const ready = await service.ready();
      return json(ready, {}, ready.ok ? 200 : 503);
    })
    .get("/metrics", async (call) => {
      const { format } = parse.readQuery(call.query, parse.metricsQuery);
      const metrics = { ...(await service.metrics()), open_streams: bodies.open };
      return format === "json" ? json(metrics) : new Response(metricsText(metrics), { headers: PROMETHEUS });
    })
    .get("/info", async () => {
      const info = await service.info();
      return json({ ...info, flags: groups.flags(info.flags) });
    })
    .get("/api/v1/info", () => feedback.info(VERSION))
    .get("/api/v1/workspaces", async (call) => {
      const caller = await call.caller();
      return json(await service.access.workspaces(caller, parse.readWorkspaceQuery(new URL(call.url).searchParams)));
    })
    .post("/api/v1/feedback/tokens", async (call) => feedback.createTokens(await platform(call)))
    .get("/api/v1/feedback/tokens", async (call) => feedback.listTokens(await platform(call)))
    .get("/api/v1/feedback/stats", async (call) => feedback.stats(await platform(call)))
    .get("/api/v1/feedback", async (call) => feedback.list(await platform(call)))
    .post("/api/v1/feedback", async (call) => feedback.create(await platform(call)))
    .get("/api/v1/feedback/:id", async (call) => feedback.get(await platform(call)))
    .patch("/api/v1/feedback/:id", async (call) => feedback.update(await platform(call)))
    .delete("/api/v1/feedback/:id", async (call) => feedback.delete(await platform(call)))
    .get(`${BILLING}/granular-usage`, async (call) => usageJson(await report(call)))
    .get(`${BILLING}/granular-usage/export`, async (call) => {
      const quotes = readCsvQuotes(new URL(call.url).searchParams);
      return usageCsv(await report(call), quotes);
    })
    .get("/openapi.json", () => json({ ...groups.described(openapi), servers: [{ url: base || "/" }] }));
}

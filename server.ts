/** The HTTP entry: `createHandler` serves a service's deployment routes. Run as a program, it is the stand-alone server. */
import { IttyRouter } from "itty-router";
import { anybody, useOf as purposeOf, type Visitor } from "./lib/access.ts";
import { ServiceError } from "./lib/errors.ts";
import { createFeedbackRoutes, type FeedbackRoutes, type PlatformCall } from "./lib/http/feedback.ts";
import { createGate } from "./lib/http/gate.ts";
import { metricsText, PROMETHEUS } from "./lib/http/metrics.ts";
import openapi from "./lib/http/openapi.json" with { type: "json" };
import * as parse from "./lib/http/parse/mod.ts";
import { readUsageQuery } from "./lib/http/parse/usage.ts";
import {
  accepted,
  empty,
  errorResponse,
  type HeaderValues,
  json,
  paged,
  selected,
  selectedState,
} from "./lib/http/respond.ts";
import { type Bodies, sseBody, waitBody } from "./lib/http/sse.ts";
import { usageCsv, usageJson } from "./lib/http/usage.ts";
import type { Caller } from "./lib/identity.ts";
import type { JsonObject } from "./lib/json.ts";
import type { FrameReader, RunCreate, RunOrigin, RunWait } from "./lib/runs/mod.ts";
import { type Service, VERSION } from "./lib/service.ts";
import type { UsageReport } from "./lib/usage.ts";

/** How a service is mounted. */
export interface HandlerOptions {
  /** The path it is mounted under, such as `/agents`. Paths outside answer 404. Default: the root. */
  readonly prefix?: string;
  /**
   * The host names (or name:port) answered; others get 421, and web pages may only call from loopback origins, from these
   * hosts and from `http.cors.allow_origins`. For servers without keys, which any web page could reach otherwise.
   */
  readonly hosts?: readonly string[];
  /** `/metrics` asks for no key. For servers that only their own machine reaches. Default: false. */
  readonly open_metrics?: boolean;
  /** The HTML page at the mount itself. Default: none, 404. */
  readonly page?: () => string;
}

/** A web-standard request handler. It answers every request and never rejects. */
export type Handler = (request: Request) => Promise<Response>;

/** One request on its way through the route table. */
interface Call {
  readonly method: string;
  readonly url: string;
  readonly request: Request;
  readonly params: Readonly<Record<string, string | undefined>>;
  readonly query: parse.Query;
  readonly visitor: Visitor;
}

type Method = "get" | "post" | "patch" | "delete" | "all";
interface RouteTable
  extends Record<Method, (path: string, handle: (call: Call) => Response | Promise<Response>) => RouteTable> {
  readonly routes: readonly [method: string, pattern: RegExp, ...rest: unknown[]][];
  fetch(call: Call): Promise<Response | undefined>;
}

/** Routes of the API that this version does not serve. */
const NOT_BUILT: readonly (readonly [method: Method, path: string, what: string])[] = [
  ["post", "/threads/prune", "Pruning threads"],
  ["post", "/threads/:thread_id/copy", "Copying a thread"],
  ["post", "/threads/:thread_id/state", "Writing a thread's state"],
  ["patch", "/threads/:thread_id/state", "Writing a thread's state"],
  ["get", "/threads/:thread_id/storage", "Measuring a thread"],
  ["all", "/threads/:thread_id/stream/events", "Event protocol v2"],
  ["post", "/threads/:thread_id/commands", "Event protocol v2"],
  ["all", "/threads/:thread_id/runs/crons", "Crons"],
  ["all", "/runs/crons/*", "Crons"],
  ["all", "/store/*", "The store"],
  ["get", "/docs", "A page of documentation"],
  ["post", "/ui/:assistant_id", "Generative UI"],
  ["all", "/mcp/*", "MCP"],
  ["all", "/a2a/*", "A2A"],
];

/** Serves a service: a handler for `Bun.serve`, `Deno.serve`, a host's own router, or a client's `fetch` in a test. */
export function createHandler(service: Service, options: HandlerOptions = {}): Handler {
  const { ambient, access } = service;
  const gate = createGate(service.options.http?.cors?.allow_origins, options.hosts);
  const base = (options.prefix ?? "").replace(/\/$/, "");
  if (!/^(\/[\w.~-]+)*$/.test(base)) throw new TypeError(`prefix: ${base} is not a plain path such as /agents`);
  const feedback = createFeedbackRoutes(service.feedback, ambient);
  const router = routeTable(service, base, feedback, options.page);

  /** Who asks a route of the deployment. Those of the platform ask by themselves. */
  async function visit(request: Request, path: string): Promise<Visitor> {
    const open = OPEN.test(path) || (path === "/metrics" && options.open_metrics === true);
    return open || path.startsWith("/api/v1/")
      ? anybody
      : await access.visitor(request, purposeOf(request.method, path));
  }

  async function answer(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    const path = pathname.startsWith(base) ? pathname.slice(base.length) : "";
    const submission = /^\/api\/v1\/feedback\/tokens\/(.*)$/s.exec(path);
    gate.admit(request, submission !== null);
    if (submission) return await feedback.submission(request, submission[1] as string);
    if (request.method === "OPTIONS") return gate.preflight(request);
    const method = request.method === "HEAD" ? "GET" : request.method;
    const visitor = await visit(request, path);
    const found = await router.fetch({ method, url: request.url, request, params: {}, query: {}, visitor });
    if (found) return found;
    const methods = new Set(router.routes.filter(([, pattern]) => pattern.test(pathname)).map(([known]) => known));
    if (methods.size === 0) throw new ServiceError("not_found", "There is nothing at this path");
    if (methods.has("GET")) methods.add("HEAD");
    const allow = [...methods].join(", ");
    return errorResponse(new ServiceError("method_not_allowed", `${method} is not allowed here: ${allow}`), { allow });
  }

  return async (request) => {
    const sent = request.headers.get("x-request-id");
    const request_id = sent !== null && /^[\w.:-]{1,128}$/.test(sent) ? sent : ambient.uuid();
    const response = await answer(request).catch((error: unknown) => {
      if (!(error instanceof ServiceError)) {
        ambient.log({ level: "error", message: "A request failed", method: request.method, request_id, error });
      }
      return errorResponse(error);
    });
    response.headers.set("x-request-id", request_id);
    gate.expose(request, response.headers);
    if (request.method !== "HEAD") return response;
    await response.body?.cancel();
    return new Response(null, { status: response.status, headers: response.headers });
  };
}

const BILLING = "/api/v1/orgs/current/billing";
/** Paths that ask nobody who they are. */
const OPEN = /^(?:\/|\/ok|\/ready|\/info|\/openapi\.json)?$/;

/** The routes. The first that matches wins: fixed words come before the ids they could be taken for. */
function routeTable(service: Service, base: string, feedback: FeedbackRoutes, page?: () => string): RouteTable {
  const { assistants, threads, runs } = service;
  const router = IttyRouter({ base }) as unknown as RouteTable;
  const bodies: Bodies = { ambient: service.ambient, open: 0 };
  const callerOf = (call: Call): Promise<Caller> => service.access.caller(call.request.headers);
  const platform = async (call: Call): Promise<PlatformCall> => {
    const { id } = call.params;
    return { request: call.request, caller: await callerOf(call), ...(id === undefined ? {} : { id }) };
  };
  const report = async (call: Call): Promise<UsageReport> => {
    const caller = await callerOf(call);
    service.usage.admit(caller);
    return await service.usage.report(caller, readUsageQuery(new URL(call.url).searchParams));
  };
  const run = runRoutes(service, bodies);

  for (const [method, path, what] of NOT_BUILT) {
    router[method](path, () => errorResponse(new ServiceError("not_built", `${what}: not built yet`)));
  }
  if (page) router.get("/", () => new Response(page(), { headers: { "content-type": "text/html; charset=utf-8" } }));

  return router
    .post("/runs/stream", (call) => run.stream(call, null))
    .post("/runs/wait", (call) => run.wait(call, null))
    .post("/runs/batch", (call) => run.createBatch(call))
    .post("/runs/cancel", (call) => run.cancelMany(call))
    .post("/runs", (call) => run.create(call, null))
    .get("/runs/:run_id/stream", (call) => run.joinStream(call, null, runId(call)))
    .post("/threads/:thread_id/runs/stream", (call) => run.stream(call, threadId(call)))
    .post("/threads/:thread_id/runs/wait", (call) => run.wait(call, threadId(call)))
    .post("/threads/:thread_id/runs", (call) => run.create(call, threadId(call)))
    .get("/threads/:thread_id/runs", (call) => run.list(call, threadId(call)))
    .get("/threads/:thread_id/runs/:run_id", async (call) => json(await runs.get(threadId(call), runId(call))))
    .delete("/threads/:thread_id/runs/:run_id", (call) => runs.delete(threadId(call), runId(call)).then(empty))
    .post("/threads/:thread_id/runs/:run_id/cancel", (call) => run.cancel(call, threadId(call), runId(call)))
    .get("/threads/:thread_id/runs/:run_id/join", (call) => run.join(call, threadId(call), runId(call)))
    .get("/threads/:thread_id/runs/:run_id/stream", (call) => run.joinStream(call, threadId(call), runId(call)))
    .get("/threads/:thread_id/stream", (call) => run.threadStream(call, threadId(call)))

    .post("/threads/search", async (call) =>
      paged(await threads.search(built(await body(call, parse.threadSearch), "extract"))),
    )
    .post("/threads/count", async (call) => json(await threads.count(await body(call, parse.threadCount))))
    .post("/threads", async (call) =>
      json(await threads.create(ownedBy(call, built(await body(call, parse.threadCreate), "supersteps", "ttl")))),
    )
    .get("/threads/:thread_id/state", async (call) => {
      const { select, ...options } = query(call, parse.stateQuery);
      return json(selectedState(await threads.state(threadId(call), options), select));
    })
    .post("/threads/:thread_id/state/checkpoint", async (call) => {
      const { checkpoint, select, ...options } = await body(call, parse.stateAt);
      return json(selectedState(await threads.stateAt(threadId(call), checkpoint, options), select));
    })
    .get("/threads/:thread_id/state/:checkpoint_id", async (call) => {
      const checkpoint_id = segment(call, "checkpoint_id");
      const { select, ...options } = query(call, parse.stateQuery);
      return json(selectedState(await threads.stateAt(threadId(call), { checkpoint_id }, options), select));
    })
    .get("/threads/:thread_id/history", async (call) => {
      const { select, ...search } = query(call, parse.historyQuery);
      const states = await threads.history(threadId(call), search);
      return json(states.map((state) => selectedState(state, select)));
    })
    .post("/threads/:thread_id/history", async (call) => {
      const { select, ...search } = await body(call, parse.historySearch);
      const states = await threads.history(threadId(call), search);
      return json(states.map((state) => selectedState(state, select)));
    })
    .get("/threads/:thread_id", async (call) => json(await threads.get(threadId(call))))
    .patch("/threads/:thread_id", async (call) => {
      const thread = await threads.update(threadId(call), built(await body(call, parse.threadPatch), "ttl"));
      return /\breturn=minimal\b/i.test(call.request.headers.get("prefer") ?? "") ? empty() : json(thread);
    })
    .delete("/threads/:thread_id", (call) => threads.delete(threadId(call)).then(empty))

    .post("/assistants/search", async (call) => {
      const { select, ...search } = await body(call, parse.assistantSearch);
      return paged(await assistants.search(search), select);
    })
    .post("/assistants/count", async (call) => json(await assistants.count(await body(call, parse.assistantCount))))
    .post("/assistants", async (call) => json(await assistants.create(await body(call, parse.assistantCreate))))
    .post("/assistants/:assistant_id/versions", async (call) =>
      json(await assistants.versions(assistantId(call), await body(call, parse.versionSearch))),
    )
    .post("/assistants/:assistant_id/latest", async (call) =>
      json(await assistants.setLatest(assistantId(call), await version(call))),
    )
    .get("/assistants/:assistant_id/graph", async (call) =>
      json(await assistants.drawn(assistantId(call), query(call, parse.drawing).xray)),
    )
    .get("/assistants/:assistant_id/schemas", async (call) => json(await assistants.schemas(assistantId(call))))
    .get("/assistants/:assistant_id/subgraphs", async (call) =>
      json(await assistants.subgraphs(assistantId(call), null, query(call, parse.subgraphSearch).recurse)),
    )
    .get("/assistants/:assistant_id/subgraphs/:namespace", async (call) => {
      const namespace = segment(call, "namespace");
      return json(await assistants.subgraphs(assistantId(call), namespace, query(call, parse.subgraphSearch).recurse));
    })
    .get("/assistants/:assistant_id", async (call) => json(await assistants.get(assistantId(call))))
    .patch("/assistants/:assistant_id", async (call) =>
      json(await assistants.update(assistantId(call), await body(call, parse.assistantPatch))),
    )
    .delete("/assistants/:assistant_id", (call) =>
      assistants.delete(assistantId(call), query(call, parse.assistantDeletion)).then(empty),
    )

    .get("/ok", () => {
      if (service.healthy()) return json({ ok: true });
      return json({ ok: false, detail: "The worker can execute no run any more" }, {}, 503);
    })
    .get("/ready", async () => {
      const ready = await service.ready();
      return json(ready, {}, ready.ok ? 200 : 503);
    })
    .get("/metrics", async (call) => {
      const { format } = query(call, parse.metricsQuery);
      const metrics = { ...(await service.metrics()), open_streams: bodies.open };
      return format === "json" ? json(metrics) : new Response(metricsText(metrics), { headers: PROMETHEUS });
    })
    .get("/info", () => json(service.info()))
    .get("/api/v1/info", () => feedback.info(VERSION))
    .get("/api/v1/workspaces", async (call) => {
      const caller = await callerOf(call);
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
    .get(`${BILLING}/granular-usage/export`, async (call) => usageCsv(await report(call)))
    .get("/openapi.json", () => json({ ...openapi, servers: [{ url: base || "/" }] }));
}

/** What the routes with and without a thread have in common. `thread_id` null: a stateless run. */
interface RunRoutes {
  create(call: Call, thread_id: string | null): Promise<Response>;
  stream(call: Call, thread_id: string | null): Promise<Response>;
  wait(call: Call, thread_id: string | null): Promise<Response>;
  createBatch(call: Call): Promise<Response>;
  list(call: Call, thread_id: string): Promise<Response>;
  cancel(call: Call, thread_id: string, run_id: string): Promise<Response>;
  cancelMany(call: Call): Promise<Response>;
  join(call: Call, thread_id: string, run_id: string): Promise<Response>;
  joinStream(call: Call, thread_id: string | null, run_id: string): Promise<Response>;
  threadStream(call: Call, thread_id: string): Promise<Response>;
}

function runRoutes({ runs, threads }: Service, bodies: Bodies): RunRoutes {
  // Paths are relative to the mount: clients append them to the URL they know.
  const place = (thread_id: string | null, run_id: string): string =>
    thread_id === null ? `/runs/${run_id}` : `/threads/${thread_id}/runs/${run_id}`;
  const streamed = (
    { visitor }: Call,
    frames: FrameReader,
    of: Readonly<Record<string, string>>,
    headers: HeaderValues,
  ): Response =>
    new Response(sseBody(frames, bodies, of, visitor.still), {
      headers: {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "x-accel-buffering": "no",
        ...headers,
      },
    });
  const awaited = ({ visitor }: Call, wait: RunWait, headers: HeaderValues): Response =>
    new Response(waitBody(wait, bodies, visitor.still), {
      headers: { "content-type": "application/json", ...headers },
    });
  /** What the request adds to its body, and where it was sent: the same key means another run on another route. */
  async function origin(call: Call, bytes: Uint8Array, route: string): Promise<RunOrigin> {
    const { headers } = call.request;
    const idempotency = await parse.readIdempotency(headers, route, bytes);
    const { user_id, api_key } = call.visitor;
    const webhook_depth = parse.readWebhookDepth(headers);
    const configurable = parse.headerConfig(headers);
    return { configurable, user_id, api_key, webhook_depth, ...(idempotency ? { idempotency } : {}) };
  }
  async function asked(call: Call, thread_id: string | null, verb: string): Promise<[RunCreate, RunOrigin]> {
    if (thread_id !== null) await requireOwn(call, thread_id);
    const bytes = await parse.readBytes(call.request);
    const route = `${thread_id === null ? "" : `/threads/${thread_id}`}/runs${verb}`;
    return [parse.readObject(bytes, parse.runCreate), await origin(call, bytes, route)];
  }
  /** Guests of an agent run it on threads of their own; others' are not there. */
  async function requireOwn({ visitor }: Call, thread_id: string): Promise<void> {
    if (!visitor.guest) return;
    const { metadata } = await threads.get(thread_id);
    if (metadata[OWNER] !== visitor.user_id) throw new ServiceError("not_found", `Thread ${thread_id} not found`);
  }
  // HEAD leaves at once and must change nothing.
  const leaving = <Asked extends { readonly cancel_on_disconnect?: boolean }>(call: Call, asked: Asked): Asked =>
    call.request.method === "HEAD" ? { ...asked, cancel_on_disconnect: false } : asked;

  return {
    async create(call, thread_id) {
      const run = await runs.create(thread_id, ...(await asked(call, thread_id, "")));
      return json(run, { "content-location": place(thread_id, run.run_id) });
    },
    async stream(call, thread_id) {
      const { run, frames } = await runs.stream(thread_id, ...(await asked(call, thread_id, "/stream")));
      const at = place(thread_id, run.run_id);
      return streamed(call, frames, { run_id: run.run_id }, { "content-location": at, location: `${at}/stream` });
    },
    async wait(call, thread_id) {
      const wait = await runs.wait(thread_id, ...(await asked(call, thread_id, "/wait")));
      const at = place(thread_id, wait.run.run_id);
      return awaited(call, wait, { "content-location": at, ...(thread_id === null ? {} : { location: `${at}/join` }) });
    },
    async createBatch(call) {
      const bytes = await parse.readBytes(call.request);
      const requests = parse.readList(bytes, parse.runCreate);
      return json(await runs.createBatch(requests, await origin(call, bytes, "/runs/batch")));
    },
    async list(call, thread_id) {
      const { select, ...search } = query(call, parse.runSearch);
      return json(selected(await runs.list(thread_id, search), select));
    },
    async cancel(call, thread_id, run_id) {
      const { wait = false, action = "interrupt" } = query(call, parse.cancelQuery);
      await requireOwn(call, thread_id);
      await runs.cancel(thread_id, run_id, { action, wait });
      return wait ? empty() : accepted();
    },
    async cancelMany(call) {
      const { action = "interrupt" } = query(call, parse.cancelManyQuery);
      const target = parse.readTarget(await body(call, parse.cancelMany));
      if ("thread_id" in target) await requireOwn(call, target.thread_id);
      else if (call.visitor.guest) throw new ServiceError("forbidden", "status: only the owner may cancel all runs");
      await runs.cancelMany(target, action);
      return empty();
    },
    async join(call, thread_id, run_id) {
      return awaited(call, await runs.join(thread_id, run_id, leaving(call, query(call, parse.joinQuery))), {});
    },
    async joinStream(call, thread_id, run_id) {
      const { stream_mode: modes, ...asked } = leaving(call, query(call, parse.joinStreamQuery));
      const after = parse.readLastEventId(call.request.headers);
      const { frames } = await runs.joinStream(thread_id, run_id, { after, modes, ...asked });
      return streamed(call, frames, { run_id }, { location: `${place(thread_id, run_id)}/stream` });
    },
    async threadStream(call, thread_id) {
      const { stream_mode = [], stream_modes = [] } = query(call, parse.threadStreamQuery);
      const after = parse.readThreadEventId(call.request.headers);
      const frames = await threads.stream(thread_id, { modes: [...stream_mode, ...stream_modes], after });
      return streamed(call, frames, { thread_id }, { location: `/threads/${thread_id}/stream` });
    },
  };
}

/** Metadata of a thread that a guest of an agent has made. */
const OWNER = "owner_user_id";

/** The thread as its maker's, where the maker is a guest. */
function ownedBy<Create extends { readonly metadata?: JsonObject }>({ visitor }: Call, request: Create): Create {
  return visitor.guest ? { ...request, metadata: { ...request.metadata, [OWNER]: visitor.user_id } } : request;
}

const body = <Output>(call: Call, schema: parse.Fields<Output>): Promise<Output> =>
  parse.readBody(call.request, schema);
const query = <Output>(call: Call, schema: parse.Fields<Output>): Output => parse.readQuery(call.query, schema);
const assistantId = (call: Call): string => parse.readAssistantId(call.params.assistant_id);
const threadId = (call: Call): string => parse.readId(call.params.thread_id, "thread_id");
const runId = (call: Call): string => parse.readId(call.params.run_id, "run_id");
const segment = (call: Call, field: string): string => parse.readSegment(call.params[field], field);

/** The version to activate: clients send it in the body, the published description has it in the query. */
async function version(call: Call): Promise<number> {
  const found = (await body(call, parse.latest)).version ?? query(call, parse.latest).version;
  if (found === undefined) throw new ServiceError("invalid", "version: is required");
  return found;
}

/** The request, if it asks for none of these fields, which this version knows but does not serve. */
function built<Fields extends object>(request: Fields, ...missing: readonly (keyof Fields & string)[]): Fields {
  const asked = missing.find((field) => request[field] !== undefined);
  if (asked) throw new ServiceError("not_built", `${asked}: not built yet`);
  return request;
}

// Node before 24.2 does not know import.meta.main. No await here: it would make the module impossible to require.
const program = (globalThis as { process?: { argv: readonly string[] } }).process?.argv[1];
if (import.meta.main ?? (program !== undefined && import.meta.filename === program)) {
  import("./adapters/standalone/bin.ts").then(({ main }) => main());
}

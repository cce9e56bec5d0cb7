/** Defines the routes of the server itself: health, metrics and description. */
import * as v from "valibot";
import { ServiceError } from "../../errors.ts";
import type { OpenApi } from "../options.ts";
import { oneOf } from "../parse.ts";
import { jsonResponse } from "../respond.ts";
import { createRouteGroup, type HandlerState, type Route } from "../route.ts";

/** GET /metrics */
const metricsQuery = v.object({
  format: v.optional(oneOf(["prometheus", "json"])),
});

const defineRoute = createRouteGroup({ tag: "Server", access: "open" });

export const SERVER_ROUTES: readonly Route[] = [
  defineRoute("get", "/ok", {
    summary: "Health of the worker",
    response: "Health",
    errors: [503],
    /**
     * Responds with `ok` and the services of the process: 200 and true, or 503 and false with the reason if its worker can execute
     * no run any more. Does not read the database.
     */
    handle({ service }) {
      const services = service.services();
      if (service.healthy()) return jsonResponse({ ok: true, services });
      const detail = "The worker can execute no run any more";
      return jsonResponse({ ok: false, detail, services }, {}, 503);
    },
  }),
  defineRoute("get", "/ready", {
    summary: "Readiness: whether to send requests to this process",
    response: "Readiness",
    errors: [503],
    /** Responds with the readiness: 200 with `ok` true, or 503 with `ok` false and the reason if the service cannot take requests. */
    async handle({ service }) {
      const ready = await service.ready();
      return jsonResponse(ready, {}, ready.ok ? 200 : 503);
    },
  }),
  defineRoute("get", "/metrics", {
    summary: "Metrics, as Prometheus text or as JSON",
    group: "meta",
    access: "read",
    open_locally: true,
    query: metricsQuery,
    response: "text",
    /**
     * Responds with the metrics of the service and the number of open streams of this handler, as Prometheus text or
     * with `format=json` as JSON.
     */
    async handle({ service, handler, query }) {
      const { format } = query();
      const metrics = { ...(await service.metrics()), open_streams: handler.streamingBodies.openCount };
      if (format === "json") return jsonResponse(metrics);
      const { formatMetrics, PROMETHEUS_HEADERS } = await import("../metrics-text.ts");
      return new Response(formatMetrics(metrics), { headers: PROMETHEUS_HEADERS });
    },
  }),
  defineRoute("get", "/info", {
    summary: "Get versions and features",
    group: "meta",
    response: "Info",
    /** Responds with information about the server. Flags of route groups that are disabled are false. */
    async handle({ service, handler }) {
      const info = await service.info();
      return jsonResponse({ ...info, flags: handler.filterFlags(info.flags) });
    },
  }),
  defineRoute("get", "/openapi.json", {
    summary: "This API as an OpenAPI document",
    group: "meta",
    response: "object",
    handle: async ({ handler }) => jsonResponse(await getOpenApiDocument(handler)),
  }),
  defineRoute("get", "/docs", {
    summary: "This API as a page",
    group: "meta",
    response: "html",
    errors: [501],
    response_headers: ["ETag"],
    /**
     * Responds with the page that the handler's `docs` option creates from the OpenAPI document, or with 304 if the
     * client has that page. Throws `not_built` without this option.
     */
    async handle({ handler, request }) {
      if (!handler.docs)
        throw new ServiceError("not_built", "This server has no page at /docs. GET /openapi.json has the same content");
      const page = handler.docs(await getOpenApiDocument(handler));
      const etag = page.headers.get("etag");
      if (etag === null || !matchesTag(request, etag)) return page;
      // The page that the client has keeps its policy, which permits its script.
      return new Response(null, { status: 304, headers: { etag } });
    },
  }),
];

/** Returns true if `If-None-Match` of the request has the tag, weak or strong, or `*`. */
const matchesTag = (request: Request, etag: string): boolean =>
  (request.headers.get("if-none-match") ?? "")
    .split(",")
    .map((tag) => tag.trim().replace(/^W\//, ""))
    .some((tag) => tag === "*" || tag === etag);

/** The documents by their handlers, whose routes do not change. */
const documents = new WeakMap<HandlerState, Promise<OpenApi>>();

/** Returns the OpenAPI document of a handler, which is created once. */
function getOpenApiDocument(handler: HandlerState): Promise<OpenApi> {
  const document = documents.get(handler) ?? createOpenApiDocument(handler);
  documents.set(handler, document);
  return document;
}

/**
 * Creates a copy of the OpenAPI document with the paths that the handler serves and its prefix as the server. The JSON
 * is larger than the handler, so it is loaded here.
 */
async function createOpenApiDocument({ isHiddenPath, base }: HandlerState): Promise<OpenApi> {
  const { default: openapi } = await import("../openapi.json", { with: { type: "json" } });
  const paths: Record<string, OpenApi["paths"][string]> = {};
  for (const [path, methods] of Object.entries(openapi.paths)) if (!(await isHiddenPath(path))) paths[path] = methods;
  return { ...openapi, paths, servers: [{ url: base || "/" }] };
}

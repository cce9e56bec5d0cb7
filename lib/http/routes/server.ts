/** The routes about the server itself. */
import { ServiceError } from "../../errors.ts";
import type { HandlerState, OpenApi } from "../context.ts";
import { metricsText, PROMETHEUS } from "../metrics.ts";
import openapi from "../openapi.json" with { type: "json" };
import { metricsQuery } from "../parse/service.ts";
import { json } from "../respond.ts";
import { type Route, routesOf } from "./route.ts";

const route = routesOf({ tag: "Server", access: "open" });

export const SERVER_ROUTES: readonly Route[] = [
  route("get", "/ok", {
    summary: "Health of the worker",
    answer: "Health",
    errors: [503],
    handle({ service }) {
      const services = service.services();
      if (service.healthy()) return json({ ok: true, services });
      const detail = "The worker can execute no run any more";
      return json({ ok: false, detail, services }, {}, 503);
    },
  }),
  route("get", "/ready", {
    summary: "Readiness: whether to send requests to this process",
    answer: "Readiness",
    errors: [503],
    async handle({ service }) {
      const ready = await service.ready();
      return json(ready, {}, ready.ok ? 200 : 503);
    },
  }),
  route("get", "/metrics", {
    summary: "Metrics, as Prometheus text or as JSON",
    group: "meta",
    access: "read",
    open_locally: true,
    query: metricsQuery,
    answer: "text",
    async handle({ service, handler, query }) {
      const { format } = query();
      const metrics = { ...(await service.metrics()), open_streams: handler.bodies.open };
      return format === "json" ? json(metrics) : new Response(metricsText(metrics), { headers: PROMETHEUS });
    },
  }),
  route("get", "/info", {
    summary: "Get versions and features",
    group: "meta",
    answer: "Info",
    async handle({ service, handler }) {
      const info = await service.info();
      return json({ ...info, flags: handler.flags(info.flags) });
    },
  }),
  route("get", "/openapi.json", {
    summary: "This API as an OpenAPI document",
    group: "meta",
    answer: "object",
    handle: ({ handler }) => json(documentOf(handler)),
  }),
  route("get", "/docs", {
    summary: "This API as a page",
    group: "meta",
    answer: "html",
    errors: [501],
    handle({ handler }) {
      if (handler.docs) return handler.docs(documentOf(handler));
      throw new ServiceError("not_built", "This server has no page at /docs. GET /openapi.json has the same content");
    },
  }),
];

/** The OpenAPI document of what the handler serves. */
function documentOf({ hides, base }: HandlerState): OpenApi {
  const paths = Object.entries(openapi.paths).filter(([path]) => !hides(path));
  return { ...openapi, paths: Object.fromEntries(paths), servers: [{ url: base || "/" }] };
}

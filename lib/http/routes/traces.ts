/** Defines the routes of run traces, and the schemas of their queries. Unknown members of a query are refused. */
import * as v from "valibot";
import type { JsonObject } from "../../json.ts";
import { TRACE_SOURCES } from "../../traces/traces.ts";
import * as parse from "../parse.ts";
import { jsonResponse, noContentResponse } from "../respond.ts";
import { createRouteGroup, type RequestContext, type Route, readRunId, readThreadId } from "../route.ts";
import { createEventStreamResponse } from "../sse.ts";
import { limitField, objectText } from "./operations.ts";

const noQuery = v.strictObject({});

/** GET …/trace */
const readQuery = v.strictObject({
  content: parse.withDescription(v.optional(parse.flag), "`false` leaves copied inputs and outputs out"),
});

const minimum = v.pipe(v.number("must be a number"), v.finite("must be finite"), v.minValue(0, "must be at least 0"));

/** GET /greenroom/traces */
const listQuery = v.strictObject({
  failed: parse.withDescription(
    v.optional(parse.flag),
    "Only runs that ended with `error` or `timeout`, or only others",
  ),
  waiting: parse.withDescription(v.optional(parse.flag), "Only suspended runs, or only others"),
  min_active_ms: v.optional(minimum) as v.GenericSchema<number | undefined>,
  min_tokens: v.optional(parse.integer(0, Number.MAX_SAFE_INTEGER)),
  node: v.optional(parse.name),
  tool: v.optional(parse.name),
  model: v.optional(parse.name),
  error_type: v.optional(parse.name),
  status: v.optional(parse.runStatus),
  graph_id: v.optional(parse.name),
  assistant_id: v.optional(parse.assistantId),
  thread_id: v.optional(parse.uuid),
  cron_id: v.optional(parse.uuid),
  user_id: v.optional(parse.name),
  source: v.optional(parse.oneOf(TRACE_SOURCES)),
  metadata: v.optional(objectText) as v.GenericSchema<JsonObject | undefined>,
  created_after: v.optional(parse.name),
  created_before: v.optional(parse.name),
  started_after: v.optional(parse.name),
  started_before: v.optional(parse.name),
  limit: limitField(50, 1000),
  cursor: v.optional(parse.name),
});

const defineRoute = createRouteGroup({ tag: "Traces", group: "operations", issues: "query" });
const defineRunRoute = createRouteGroup({ tag: "Traces", group: "runs", issues: "query" });

type ReadContext = RequestContext<unknown, v.InferOutput<typeof readQuery>>;

async function respondWithTrace(context: ReadContext, thread_id: string | null): Promise<Response> {
  return jsonResponse(await context.resources.traces.get(thread_id, readRunId(context), context.query()));
}

/** Streams a trace. Spans that start or change follow the trace so far. */
async function streamTrace(context: RequestContext, thread_id: string | null): Promise<Response> {
  context.query();
  const run_id = readRunId(context);
  const frames = await context.resources.traces.stream(thread_id, run_id);
  return createEventStreamResponse(context, frames, {
    ids: { run_id, ...(thread_id === null ? {} : { thread_id }) },
  });
}

const readRoute = { events: ["threads:read"], query: readQuery, response: "RunTrace", errors: [404] } as const;
const streamRoute = { events: ["threads:read"], query: noQuery, response: "stream", errors: [404] } as const;

/** The routes below a thread. They precede those of runs, which have a parameter at the same position. */
export const RUN_TRACE_ROUTES: readonly Route[] = [
  defineRunRoute("get", "/threads/:thread_id/runs/:run_id/trace", {
    ...readRoute,
    summary: "Get the trace of a run",
    handle: (context) => respondWithTrace(context, readThreadId(context)),
  }),
  defineRunRoute("get", "/threads/:thread_id/runs/:run_id/trace/stream", {
    ...streamRoute,
    summary: "Stream the trace of a run",
    handle: (context) => streamTrace(context, readThreadId(context)),
  }),
  defineRunRoute("delete", "/threads/:thread_id/runs/:run_id/trace", {
    summary: "Delete the trace of a run; the run stays",
    events: ["threads:delete"],
    query: noQuery,
    errors: [404, 409],
    async handle(context) {
      context.query();
      await context.resources.traces.delete(readThreadId(context), readRunId(context));
      return noContentResponse();
    },
  }),
];

export const TRACE_ROUTES: readonly Route[] = [
  defineRoute("get", "/greenroom/traces", {
    summary: "Search traces of all runs, newest start first",
    events: ["threads:search"],
    query: listQuery,
    response: "TraceListingPage",
    handle: async (context) => jsonResponse(await context.resources.traces.search(context.query())),
  }),
  defineRoute("get", "/greenroom/traces/:run_id", {
    ...readRoute,
    summary: "Get the trace of a run, also of a stateless run that was deleted",
    handle: (context) => respondWithTrace(context, null),
  }),
  defineRoute("get", "/greenroom/traces/:run_id/stream", {
    ...streamRoute,
    summary: "Stream the trace of a run, also of a stateless one",
    handle: (context) => streamTrace(context, null),
  }),
];

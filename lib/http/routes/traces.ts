/** Defines the routes of run traces, and the schemas of their queries. */
import * as v from "valibot";
import { TRACE_SOURCES } from "../../traces/traces.ts";
import * as parse from "../parse.ts";
import { jsonResponse, noContentResponse } from "../respond.ts";
import { createRouteGroup, type RequestContext, type Route, readRunId, readThreadId } from "../route.ts";
import { createEventStreamResponse } from "../sse.ts";
import { runListFields } from "./operations.ts";

/** GET …/trace */
const readQuery = v.object({
  content: parse.withDescription(v.optional(parse.flag), "`false` leaves copied inputs and outputs out"),
});

/** GET /greenroom/traces */
const listQuery = v.object({
  failed: parse.withDescription(
    v.optional(parse.flag),
    "Only runs that ended with `error` or `timeout`, or only others",
  ),
  min_tokens: parse.withDescription(v.optional(parse.integer(0, Number.MAX_SAFE_INTEGER)), "Tokens in and out"),
  node: parse.withDescription(v.optional(parse.name), "The name of a node that was executed"),
  tool: parse.withDescription(v.optional(parse.name), "The name of a tool that was called"),
  model: parse.withDescription(v.optional(parse.name), "The name of a model that was called"),
  source: parse.withDescription(v.optional(parse.oneOf(TRACE_SOURCES)), "The way in which the run was created"),
  ...runListFields,
});

const defineRoute = createRouteGroup({ tag: "Traces", group: "operations", issues: "query", strict_query: true });
const defineRunRoute = createRouteGroup({ tag: "Traces", group: "runs", issues: "query", strict_query: true });

type ReadContext = RequestContext<unknown, v.InferOutput<typeof readQuery>>;

async function respondWithTrace(context: ReadContext, thread_id: string | null): Promise<Response> {
  return jsonResponse(await context.resources.traces.get(thread_id, readRunId(context), context.query()));
}

/** Streams a trace. Spans that start or change follow the trace so far. */
async function streamTrace(context: RequestContext, thread_id: string | null): Promise<Response> {
  const run_id = readRunId(context);
  const frames = await context.resources.traces.stream(thread_id, run_id);
  return createEventStreamResponse(context, frames, {
    ids: { run_id, ...(thread_id === null ? {} : { thread_id }) },
  });
}

const readRoute = { events: ["threads:read"], query: readQuery, response: "RunTrace", errors: [404] } as const;
const streamRoute = { events: ["threads:read"], response: "stream", errors: [404] } as const;

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
    errors: [404, 409],
    async handle(context) {
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

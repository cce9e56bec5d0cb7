/** Defines the routes of a deployment over all its threads, which the studio uses, and the schemas of their requests. */
import * as v from "valibot";
import type { JsonObject } from "../../json.ts";
import type { RunListQuery } from "../../runs/search.ts";
import type { DeliveryState } from "../../storage/mod.ts";
import * as parse from "../parse.ts";
import { acceptedResponse, type HeaderValues, jsonResponse, noContentResponse } from "../respond.ts";
import { createRouteGroup, type RequestContext, type Route } from "../route.ts";
import { readRunOrigin } from "../run-request.ts";

const OBJECT_MESSAGE = "must be a JSON object";

/** The schema of an object as JSON text. */
const objectText: v.GenericSchema<unknown, JsonObject> = v.pipe(
  v.string(OBJECT_MESSAGE),
  v.transform((text): unknown => {
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  }),
  parse.containment,
) as v.GenericSchema<unknown, JsonObject>;

const cursor = v.optional(parse.name);
const limitField = (defaultLimit: number, maxLimit: number): v.GenericSchema<number | undefined> =>
  v.optional(parse.integer(1, maxLimit), defaultLimit) as v.GenericSchema<number | undefined>;
const deliveryState = parse.oneOf(["pending", "delivered", "failed"] satisfies DeliveryState[]);

const minimum = v.pipe(v.number("must be a number"), v.finite("must be finite"), v.minValue(0, "must be at least 0"));

/** The filters and the page of lists of runs and of their traces. */
export const runListFields: {
  readonly [Name in keyof RunListQuery]-?: v.GenericSchema<RunListQuery[Name] | undefined>;
} = {
  status: v.optional(parse.listSchema(parse.runStatus)),
  waiting: parse.withDescription(v.optional(parse.flag), "Only suspended runs, or only others"),
  assistant_id: v.optional(parse.assistantId),
  graph_id: v.optional(parse.name),
  thread_id: v.optional(parse.uuid),
  cron_id: v.optional(parse.uuid),
  user_id: v.optional(parse.name),
  error_type: parse.withDescription(v.optional(parse.name), "The name of the error that ended the run: `TypeError`"),
  min_active_ms: parse.withDescription(
    v.optional(minimum) as v.GenericSchema<number | undefined>,
    "The time in which the run executed, without queues and suspensions",
  ),
  metadata: v.optional(objectText) as v.GenericSchema<JsonObject | undefined>,
  created_after: v.optional(parse.name),
  created_before: v.optional(parse.name),
  started_after: parse.withDescription(v.optional(parse.name), "The time of the first start"),
  started_before: v.optional(parse.name),
  limit: limitField(50, 1000),
  cursor,
};

/** GET /greenroom/runs */
const runListQuery = v.object(runListFields);

const MAX_SEARCH_TEXT_CHARS = 200;

/** GET /greenroom/threads */
const threadListQuery = v.object({
  text: v.optional(
    v.pipe(parse.name, v.maxLength(MAX_SEARCH_TEXT_CHARS, `must have at most ${MAX_SEARCH_TEXT_CHARS} characters`)),
  ),
  status: v.optional(parse.threadStatus),
  assistant_id: v.optional(parse.assistantId),
  graph_id: v.optional(parse.name),
  metadata: v.optional(objectText),
  limit: limitField(50, 100),
  cursor,
});

/** GET /greenroom/inbox */
const inboxQuery = v.object({
  assistant_id: v.optional(parse.assistantId),
  graph_id: v.optional(parse.name),
  limit: limitField(20, 100),
  cursor,
});

/** GET /greenroom/webhooks */
const deliveryListQuery = v.object({
  state: v.optional(parse.listSchema(deliveryState)),
  thread_id: v.optional(parse.uuid),
  limit: limitField(50, 1000),
  cursor,
});

/** GET /greenroom/crons/preview */
const schedulePreview = v.object({
  schedule: parse.name,
  timezone: v.optional(parse.name),
  end_time: v.optional(parse.name),
  limit: limitField(5, 100),
});

/** GET /greenroom/feedback/scores */
const scoreQuery = v.object({
  start: parse.name,
  end: parse.name,
  stride: v.optional(parse.oneOf(["hour", "day", "week"])),
  key: v.optional(parse.listSchema(parse.name)),
});

/** GET /greenroom/feedback/links */
const linkQuery = v.object({
  limit: limitField(50, 1000),
  cursor,
});

const defineRoute = createRouteGroup({ tag: "Operations", group: "operations", issues: "query", strict_query: true });
const defineAccountRoute = createRouteGroup({
  tag: "Operations",
  group: "operations",
  access: "account",
  issues: "query",
  strict_query: true,
});

const readRunId = ({ params }: RequestContext): string => parse.parseResourceId(params.run_id, "Run", "run_not_found");
const readDeliveryId = ({ params }: RequestContext): string => parse.parseResourceId(params.run_id, "Webhook delivery");
const readCronId = ({ params }: RequestContext): string => parse.parseResourceId(params.cron_id, "Cron");

/**
 * Creates a run with the request of another one, on its thread, and responds with it at once. `content-location` is its path. A
 * repeated idempotency key gets the earlier run. Throws `run_not_found` for an unknown run, and for an id that is no UUID.
 */
async function rerunRun(context: RequestContext): Promise<Response> {
  const run_id = readRunId(context);
  const origin = await readRunOrigin(context, "runs.create", await context.bytes(), `/greenroom/runs/${run_id}/again`);
  const run = await context.resources.runs.rerun(run_id, origin);
  const location = `/threads/${run.thread_id}/runs/${run.run_id}`;
  const headers: HeaderValues = { "content-location": location };
  return jsonResponse(run, headers);
}

export const OPERATION_ROUTES: readonly Route[] = [
  defineRoute("get", "/greenroom/runs", {
    summary: "Search runs of all threads, newest first",
    events: ["threads:search"],
    query: runListQuery,
    response: "RunListing",
    handle: async (context) => jsonResponse(await context.resources.runs.search(context.query())),
  }),
  defineRoute("get", "/greenroom/runs/stats", {
    summary: "Count the runs of the last hour by status, with waits and durations by minute",
    events: ["threads:search"],
    response: "RunStats",
    handle: async (context) => jsonResponse(await context.resources.runs.stats()),
  }),
  defineRoute("get", "/greenroom/runs/:run_id", {
    summary: "Get everything that is stored of a run",
    events: ["threads:read"],
    response: "RunDetail",
    errors: [404],
    handle: async (context) => jsonResponse(await context.resources.runs.inspect(readRunId(context))),
  }),
  defineRoute("post", "/greenroom/runs/:run_id/again", {
    summary: "Create a run with the same request, without the credentials of the first one",
    access: "run",
    events: ["threads:read", "threads:create_run", "assistants:read"],
    idempotency_key: true,
    response: "Run",
    response_headers: ["Content-Location"],
    errors: [404, 409, 503, 507],
    handle: rerunRun,
  }),

  defineRoute("get", "/greenroom/threads", {
    summary: "List threads with their titles, last changed first",
    events: ["threads:search"],
    query: threadListQuery,
    response: "ThreadListing",
    handle: async (context) => jsonResponse(await context.resources.threads.list(context.query())),
  }),
  defineRoute("get", "/greenroom/inbox", {
    summary: "List the interrupts that wait for a person, oldest first",
    events: ["threads:search"],
    query: inboxQuery,
    response: "Inbox",
    handle: async (context) => jsonResponse(await context.resources.threads.inbox(context.query())),
  }),

  defineRoute("get", "/greenroom/webhooks", {
    summary: "List webhook deliveries, newest first",
    events: ["threads:search"],
    query: deliveryListQuery,
    response: "DeliveryListing",
    handle: async (context) => jsonResponse(await context.resources.webhooks.list(context.query())),
  }),
  defineRoute("get", "/greenroom/webhooks/:run_id", {
    summary: "Get the webhook delivery of a run with its attempts",
    events: ["threads:read"],
    response: "DeliveryDetail",
    errors: [404],
    handle: async (context) => jsonResponse(await context.resources.webhooks.get(readDeliveryId(context))),
  }),
  defineRoute("post", "/greenroom/webhooks/:run_id/send", {
    summary: "Send the webhook of a run again, with a new series of retries",
    events: ["threads:update"],
    accepted: "It will be sent",
    errors: [404, 409],
    /**
     * Makes the delivery of a run due again, and responds 202 before it is sent. Responds 404 for an unknown run and one without a
     * webhook, and 409 while it is being sent.
     */
    async handle(context) {
      await context.resources.webhooks.redeliver(readDeliveryId(context));
      return acceptedResponse();
    },
  }),

  defineRoute("get", "/greenroom/crons/preview", {
    summary: "Get the next times of a schedule",
    query: schedulePreview,
    response: "SchedulePreview",
    handle: async (context) => jsonResponse(await context.resources.crons.preview(context.query())),
  }),
  defineRoute("get", "/greenroom/crons/:cron_id", {
    summary: "Get the next times and the last firings of a cron",
    events: ["crons:read"],
    response: "CronDetail",
    errors: [404],
    handle: async (context) => jsonResponse(await context.resources.crons.inspect(readCronId(context))),
  }),
  defineRoute("post", "/greenroom/crons/:cron_id/run", {
    summary: "Create a run of a cron now, as its creator; the schedule does not move",
    events: ["crons:update"],
    response: "Run",
    errors: [404, 409, 503, 507],
    handle: async (context) => jsonResponse(await context.resources.crons.run(readCronId(context))),
  }),

  defineAccountRoute("get", "/greenroom/feedback/scores", {
    summary: "Summarize feedback by key and time",
    events: ["threads:read"],
    query: scoreQuery,
    response: "ScoreSeries",
    handle: async (context) =>
      jsonResponse(await context.resources.feedback.scores(await context.accountCaller(), context.query())),
  }),
  defineAccountRoute("get", "/greenroom/feedback/links", {
    summary: "List feedback links of all runs, newest first",
    events: ["threads:read"],
    query: linkQuery,
    response: "FeedbackLinks",
    handle: async (context) =>
      jsonResponse(await context.resources.feedback.links(await context.accountCaller(), context.query())),
  }),
  defineAccountRoute("delete", "/greenroom/feedback/links/:id", {
    summary: "Revoke a feedback link; its records stay",
    events: ["threads:update"],
    errors: [404],
    /** Revokes the link and responds 204, or 404 for an unknown one. Its feedback stays. */
    async handle(context) {
      const caller = await context.accountCaller();
      await context.resources.feedback.revokeLink(caller, parse.parseResourceId(context.params.id, "Feedback link"));
      return noContentResponse();
    },
  }),
  defineAccountRoute("get", "/greenroom/server", {
    summary: "Get versions, health, work and configuration; needs `organization:manage`",
    response: "ServerReport",
    handle: async (context) => jsonResponse(await context.service.report(await context.accountCaller())),
  }),
];

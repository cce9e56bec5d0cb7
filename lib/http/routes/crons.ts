/** Defines the routes of crons and the schemas of their requests. */
import * as v from "valibot";
import { CRON_RUN_OPTIONS, type CronRunOptions } from "../../crons/cron-run.ts";
import type { CronCreate, CronPatch, CronSearch } from "../../crons/mod.ts";
import type { CronQuery, CronSort } from "../../storage/mod.ts";
import * as parse from "../parse.ts";
import { jsonResponse, noContentResponse, PAGE_HEADERS, pageResponse } from "../respond.ts";
import { createRouteGroup, type RequestContext, type Route, readCronId, readOptionalThreadId } from "../route.ts";
import { revalidateRun, runCreate } from "../run-request.ts";

const CRON_FIELDS = [
  "cron_id",
  "assistant_id",
  "thread_id",
  "on_run_completed",
  "end_time",
  "schedule",
  "timezone",
  "created_at",
  "updated_at",
  "payload",
  "user_id",
  "next_run_date",
  "metadata",
  "enabled",
] as const;

/** The options of the runs of a cron. They have the schemas of the routes that create runs. */
const runFields = Object.fromEntries(CRON_RUN_OPTIONS.map((option) => [option, runCreate.entries[option]])) as Record<
  keyof CronRunOptions,
  v.GenericSchema
>;

const schedule = parse.withDescription(parse.name, "A cron expression of five fields, or a nickname such as `@daily`");
const END_TIME_DESCRIPTION = "ISO 8601";

// The service validates schedules, time zones and times.
const timingFields = {
  timezone: v.optional(parse.name),
  end_time: parse.withDescription(v.optional(parse.text), END_TIME_DESCRIPTION),
  enabled: v.optional(parse.flag),
  on_run_completed: v.optional(parse.oneOf(["delete", "keep"])),
  metadata: v.optional(parse.anyObject),
};

/** POST /runs/crons and /threads/{thread_id}/runs/crons */
export const cronCreate: parse.FieldSchema<CronCreate> = v.object({
  assistant_id: parse.assistantId,
  schedule,
  ...timingFields,
  ...runFields,
  if_not_exists: v.optional(parse.oneOf(["reject", "create"])),
}) as unknown as parse.FieldSchema<CronCreate>;

/** PATCH /runs/crons/{cron_id}: null clears the fields that are `nullish`. */
export const cronPatch: parse.FieldSchema<CronPatch> = v.object({
  schedule: v.optional(schedule),
  ...timingFields,
  timezone: v.nullish(parse.name),
  end_time: parse.withDescription(v.nullish(parse.text), END_TIME_DESCRIPTION),
  ...Object.fromEntries(Object.entries(runFields).map(([option, schema]) => [option, v.nullish(schema)])),
}) as unknown as parse.FieldSchema<CronPatch>;

const cronFilter = {
  assistant_id: v.optional(parse.assistantId),
  thread_id: v.optional(parse.uuid),
  enabled: v.optional(parse.flag),
  metadata: v.optional(parse.containment),
};

/** POST /runs/crons/count */
export const cronCount: parse.FieldSchema<CronQuery> = v.object(cronFilter);

/** POST /runs/crons/search */
export const cronSearch: parse.FieldSchema<CronSearch & { readonly select?: readonly string[] }> = v.object({
  ...cronFilter,
  ...parse.pageFields,
  ...parse.sortFields<CronSort>([
    "cron_id",
    "assistant_id",
    "thread_id",
    "next_run_date",
    "end_time",
    "created_at",
    "updated_at",
  ]),
  select: v.optional(parse.listSchema(parse.oneOf(CRON_FIELDS))),
});

const defineRoute = createRouteGroup({ tag: "Crons", group: "crons" });

const creationOptions = {
  events: ["crons:create", "assistants:read", "threads:create_run"],
  body: cronCreate,
  response: "Cron",
  errors: [404, 507],
  /**
   * Creates a cron, on the thread of the path if there is one, and responds with it. A missing thread gives 404, or is created
   * with `if_not_exists: "create"`. Throws `not_found` for an unknown assistant, and `invalid` for a schedule, a time or run options
   * that are wrong.
   */
  async handle(context: RequestContext<CronCreate>) {
    const thread_id = readOptionalThreadId(context);
    return jsonResponse(
      await context.resources.crons.create(thread_id, await context.body(), { recheck: revalidateRun }),
    );
  },
} as const;

export const CRON_ROUTES: readonly Route[] = [
  defineRoute("post", "/runs/crons", {
    ...creationOptions,
    summary: "Create a cron; each of its runs gets a new thread",
  }),
  defineRoute("post", "/threads/:thread_id/runs/crons", {
    ...creationOptions,
    summary: "Create a cron whose runs use one thread",
  }),
  defineRoute("post", "/runs/crons/search", {
    summary: "Search crons",
    access: "read",
    events: ["crons:search"],
    body: cronSearch,
    response: "Cron[]",
    response_headers: PAGE_HEADERS,
    /**
     * Responds with one page of crons and pagination headers; an empty list without matches and for an unknown assistant. `select`
     * in the body names the fields of each, by default all.
     */
    async handle(context) {
      const { select, ...search } = await context.body();
      return pageResponse(await context.resources.crons.search(search), select);
    },
  }),
  defineRoute("post", "/runs/crons/count", {
    summary: "Count crons",
    access: "read",
    events: ["crons:search"],
    body: cronCount,
    response: "count",
    handle: async (context) => jsonResponse(await context.resources.crons.count(await context.body())),
  }),
  defineRoute("get", "/runs/crons/:cron_id", {
    summary: "Get a cron",
    events: ["crons:read"],
    response: "Cron",
    errors: [404],
    handle: async (context) => jsonResponse(await context.resources.crons.get(readCronId(context))),
  }),
  defineRoute("patch", "/runs/crons/:cron_id", {
    summary: "Update a cron: absent fields stay, null clears a field, metadata is merged",
    events: ["crons:update"],
    body: cronPatch,
    response: "Cron",
    errors: [404],
    handle: async (context) =>
      jsonResponse(await context.resources.crons.update(readCronId(context), await context.body())),
  }),
  defineRoute("delete", "/runs/crons/:cron_id", {
    summary: "Delete a cron; its runs stay",
    events: ["crons:delete"],
    errors: [404],
    /** Deletes the cron and responds 204, or 404 for an unknown one. */
    async handle(context) {
      await context.resources.crons.delete(readCronId(context));
      return noContentResponse();
    },
  }),
];

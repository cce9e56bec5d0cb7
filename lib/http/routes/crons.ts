/** Crons: requests and routes. */
import * as v from "valibot";
import { CRON_RUN_OPTIONS, type CronRun } from "../../crons/cron-run.ts";
import type { CronCreate, CronPatch, CronSearch } from "../../crons/mod.ts";
import type { CronQuery, CronSort } from "../../storage/mod.ts";
import * as parse from "../parse.ts";
import { empty, json, PAGE_HEADERS, paged } from "../respond.ts";
import { cronId, optionalThreadId, type RequestContext, type Route, routesOf } from "../route.ts";
import { recheck, runCreate } from "../run-request.ts";

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

/** The options of its runs, validated as by the routes that create runs. */
const run = Object.fromEntries(CRON_RUN_OPTIONS.map((option) => [option, runCreate.entries[option]])) as Record<
  keyof CronRun,
  v.GenericSchema
>;

const schedule = parse.described(parse.name, "A cron expression of five fields, or a nickname such as `@daily`");
const ISO = "ISO 8601";

// The service validates schedules, time zones and times.
const timing = {
  timezone: v.optional(parse.name),
  end_time: parse.described(v.optional(parse.text), ISO),
  enabled: v.optional(parse.flag),
  on_run_completed: v.optional(parse.oneOf(["delete", "keep"])),
  metadata: v.optional(parse.anyObject),
};

/** POST /runs/crons and /threads/{thread_id}/runs/crons */
export const cronCreate: parse.Fields<CronCreate> = v.object({
  assistant_id: parse.assistantId,
  schedule,
  ...timing,
  ...run,
  if_not_exists: v.optional(parse.oneOf(["reject", "create"])),
}) as unknown as parse.Fields<CronCreate>;

/** PATCH /runs/crons/{cron_id}: null clears the fields that are `nullish`. */
export const cronPatch: parse.Fields<CronPatch> = v.object({
  schedule: v.optional(schedule),
  ...timing,
  timezone: v.nullish(parse.name),
  end_time: parse.described(v.nullish(parse.text), ISO),
  ...Object.fromEntries(Object.entries(run).map(([option, schema]) => [option, v.nullish(schema)])),
}) as unknown as parse.Fields<CronPatch>;

const filter = {
  assistant_id: v.optional(parse.assistantId),
  thread_id: v.optional(parse.uuid),
  enabled: v.optional(parse.flag),
  metadata: v.optional(parse.containment),
};

/** POST /runs/crons/count */
export const cronCount: parse.Fields<CronQuery> = v.object(filter);

/** POST /runs/crons/search */
export const cronSearch: parse.Fields<CronSearch & { readonly select?: readonly string[] }> = v.object({
  ...filter,
  ...parse.page,
  ...parse.sorting<CronSort>([
    "cron_id",
    "assistant_id",
    "thread_id",
    "next_run_date",
    "end_time",
    "created_at",
    "updated_at",
  ]),
  select: v.optional(parse.listOf(parse.oneOf(CRON_FIELDS))),
});

const route = routesOf({ tag: "Crons", group: "crons" });

const newCron = {
  events: ["crons:create", "assistants:read", "threads:create_run"],
  body: cronCreate,
  answer: "Cron",
  errors: [404, 507],
  async handle(context: RequestContext<CronCreate>) {
    const thread_id = optionalThreadId(context);
    return json(await context.nouns.crons.create(thread_id, await context.body(), { recheck }));
  },
} as const;

export const CRON_ROUTES: readonly Route[] = [
  route("post", "/runs/crons", { ...newCron, summary: "Create a cron; each of its runs gets a new thread" }),
  route("post", "/threads/:thread_id/runs/crons", { ...newCron, summary: "Create a cron whose runs use one thread" }),
  route("post", "/runs/crons/search", {
    summary: "Search crons",
    access: "read",
    events: ["crons:search"],
    body: cronSearch,
    answer: "Cron[]",
    answer_headers: PAGE_HEADERS,
    async handle(context) {
      const { select, ...search } = await context.body();
      return paged(await context.nouns.crons.search(search), select);
    },
  }),
  route("post", "/runs/crons/count", {
    summary: "Count crons",
    access: "read",
    events: ["crons:search"],
    body: cronCount,
    answer: "count",
    handle: async (context) => json(await context.nouns.crons.count(await context.body())),
  }),
  route("get", "/runs/crons/:cron_id", {
    summary: "Get a cron",
    events: ["crons:read"],
    answer: "Cron",
    errors: [404],
    handle: async (context) => json(await context.nouns.crons.get(cronId(context))),
  }),
  route("patch", "/runs/crons/:cron_id", {
    summary: "Update a cron: absent fields stay, null clears a field, metadata is merged",
    events: ["crons:update"],
    body: cronPatch,
    answer: "Cron",
    errors: [404],
    handle: async (context) => json(await context.nouns.crons.update(cronId(context), await context.body())),
  }),
  route("delete", "/runs/crons/:cron_id", {
    summary: "Delete a cron; its runs stay",
    events: ["crons:delete"],
    errors: [404],
    async handle(context) {
      await context.nouns.crons.delete(cronId(context));
      return empty();
    },
  }),
];

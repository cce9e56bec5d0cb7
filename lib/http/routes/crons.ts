/** The routes of crons. */
import type { CronCreate } from "../../crons/mod.ts";
import type { RunOrigin } from "../../runs/mod.ts";
import { refuseForOthers } from "../../storage/visibility.ts";
import { cronId, optionalThreadId, type RequestContext } from "../context.ts";
import { cronCount, cronCreate, cronSearch, readCronPatch } from "../parse/crons.ts";
import { empty, json, PAGE_HEADERS, paged } from "../respond.ts";
import { assistantVisibility, authorizeRun, visibilitiesOf } from "../run-authorization.ts";
import { type Route, routesOf } from "./route.ts";

const route = routesOf({ tag: "Crons", group: "crons" });

/** The cron as authorization leaves it. Its runs are authorized now, and not again when they start. */
async function authorizeCron(
  context: RequestContext,
  thread_id: string | null,
  request: CronCreate,
): Promise<[CronCreate, Pick<RunOrigin, "threads" | "assistants">]> {
  const assistants = await assistantVisibility(context, request.assistant_id);
  const { value, visibility } = await context.authorize({ ...request, thread_id });
  const { thread_id: _, ...cron } = value;
  const run = await authorizeRun(context, thread_id, null, cron);
  refuseForOthers(visibility, run.request.metadata ?? {});
  const visibilities = visibilitiesOf(run.threads, assistants);
  if (run.request === cron) return [cron, visibilities];
  const { metadata = null, input = null, config = null, context: run_context = null } = run.request;
  return [{ ...cron, metadata, input, config, context: run_context }, visibilities];
}

async function createCron(context: RequestContext<CronCreate>): Promise<Response> {
  const thread_id = optionalThreadId(context);
  const [request, visibilities] = await authorizeCron(context, thread_id, await context.body());
  const { user_id, user } = context.principal;
  const origin = { user_id, ...(user ? { user } : {}), ...visibilities };
  return json(await context.service.crons.create(thread_id, request, origin));
}

const newCron = {
  events: ["crons:create", "assistants:read", "threads:create_run"],
  body: cronCreate,
  answer: "Cron",
  errors: [404, 507],
  handle: createCron,
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
      const { value, visibility } = await context.authorize(search);
      return paged(await context.service.crons.search(value, visibility), select);
    },
  }),
  route("post", "/runs/crons/count", {
    summary: "Count crons",
    access: "read",
    events: ["crons:search"],
    body: cronCount,
    answer: "count",
    async handle(context) {
      const { value, visibility } = await context.authorize(await context.body());
      return json(await context.service.crons.count(value, visibility));
    },
  }),
  route("get", "/runs/crons/:cron_id", {
    summary: "Get a cron",
    events: ["crons:read"],
    answer: "Cron",
    errors: [404],
    async handle(context) {
      const cron_id = cronId(context);
      const { visibility } = await context.authorize({ cron_id });
      return json(await context.service.crons.get(cron_id, visibility));
    },
  }),
  route("patch", "/runs/crons/:cron_id", {
    summary: "Update a cron: absent fields stay, null clears a field, metadata is merged",
    events: ["crons:update"],
    answer: "Cron",
    errors: [404],
    async handle(context) {
      const cron_id = cronId(context);
      const patch = readCronPatch(await context.bytes());
      const { value, visibility } = await context.authorize({ ...patch, cron_id });
      const { cron_id: _, ...changed } = value;
      return json(await context.service.crons.update(cron_id, changed, visibility));
    },
  }),
  route("delete", "/runs/crons/:cron_id", {
    summary: "Delete a cron; its runs stay",
    events: ["crons:delete"],
    errors: [404],
    async handle(context) {
      const cron_id = cronId(context);
      const { visibility } = await context.authorize({ cron_id });
      await context.service.crons.delete(cron_id, visibility);
      return empty();
    },
  }),
];

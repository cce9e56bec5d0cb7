/** The routes of crons. */
import type { Assistants } from "../../assistants/mod.ts";
import type { CronCreate, Crons } from "../../crons/mod.ts";
import type { RunOrigin } from "../../runs/mod.ts";
import { refuseForOthers } from "../../storage/visibility.ts";
import { body, cronId, type RequestContext, type Routes, threadId } from "../context.ts";
import * as parse from "../parse/mod.ts";
import { empty, json, paged } from "../respond.ts";
import { assistantVisibility, mayRun, visibilitiesOf } from "../run-authorization.ts";

type Name = "create" | "get" | "update" | "delete" | "search" | "count";

export function cronRoutes({ crons, assistants }: { crons: Crons; assistants: Assistants }): Routes<Name> {
  const named = async (call: RequestContext, event: "crons:read" | "crons:delete") => {
    const cron_id = cronId(call);
    return { cron_id, ...(await call.authorize(event, { cron_id })) };
  };
  /** The cron as its caller may have it: it is asked now whether they may make its runs, and never again. */
  async function allowed(
    call: RequestContext,
    thread_id: string | null,
    request: CronCreate,
  ): Promise<[CronCreate, Pick<RunOrigin, "threads" | "assistants">]> {
    const among = await assistantVisibility(call, assistants, request.assistant_id);
    const { value, visibility } = await call.authorize("crons:create", { ...request, thread_id });
    const { thread_id: _, ...cron } = value;
    const run = await mayRun(call, thread_id, null, cron);
    refuseForOthers(visibility, run.request.metadata ?? {});
    const reaches = visibilitiesOf(run.threads, among);
    if (run.request === cron) return [cron, reaches];
    const { metadata = null, input = null, config = null, context = null } = run.request;
    return [{ ...cron, metadata, input, config, context }, reaches];
  }

  return {
    async create(call) {
      const thread_id = call.params.thread_id === undefined ? null : threadId(call);
      const [request, reaches] = await allowed(call, thread_id, await body(call, parse.cronCreate));
      const { user_id, user } = call.principal;
      return json(await crons.create(thread_id, request, { user_id, ...(user ? { user } : {}), ...reaches }));
    },
    async get(call) {
      const { cron_id, visibility } = await named(call, "crons:read");
      return json(await crons.get(cron_id, visibility));
    },
    async update(call) {
      const cron_id = cronId(call);
      const patch = parse.readCronPatch(await call.bytes());
      const { value, visibility } = await call.authorize("crons:update", { ...patch, cron_id });
      const { cron_id: _, ...changed } = value;
      return json(await crons.update(cron_id, changed, visibility));
    },
    async delete(call) {
      const { cron_id, visibility } = await named(call, "crons:delete");
      await crons.delete(cron_id, visibility);
      return empty();
    },
    async search(call) {
      const { select, ...search } = await body(call, parse.cronSearch);
      const { value, visibility } = await call.authorize("crons:search", search);
      return paged(await crons.search(value, visibility), select);
    },
    async count(call) {
      const { value, visibility } = await call.authorize("crons:search", await body(call, parse.cronCount));
      return json(await crons.count(value, visibility));
    },
  };
}

/** The routes of crons. */
import type { Assistants } from "../assistants/mod.ts";
import type { CronCreate, Crons } from "../crons/mod.ts";
import type { RunOrigin } from "../runs/mod.ts";
import { refuseForOthers } from "../storage/visibility.ts";
import { assistantReach, mayRun, reachesOf } from "./asked-run.ts";
import { body, type Call, cronId, type Routes, threadId } from "./call.ts";
import * as parse from "./parse/mod.ts";
import { empty, json, paged } from "./respond.ts";

type Name = "create" | "get" | "update" | "delete" | "search" | "count";

export function cronRoutes({ crons, assistants }: { crons: Crons; assistants: Assistants }): Routes<Name> {
  const named = async (call: Call, event: "crons:read" | "crons:delete") => {
    const cron_id = cronId(call);
    return { cron_id, ...(await call.may(event, { cron_id })) };
  };
  /** The cron as its caller may have it: it is asked now whether they may make its runs, and never again. */
  async function allowed(
    call: Call,
    thread_id: string | null,
    request: CronCreate,
  ): Promise<[CronCreate, Pick<RunOrigin, "threads" | "assistants">]> {
    const among = await assistantReach(call, assistants, request.assistant_id);
    const { value, reach } = await call.may("crons:create", { ...request, thread_id });
    const { thread_id: _, ...cron } = value;
    const run = await mayRun(call, thread_id, null, cron);
    refuseForOthers(reach, run.request.metadata ?? {});
    const reaches = reachesOf(run.threads, among);
    if (run.request === cron) return [cron, reaches];
    const { metadata = null, input = null, config = null, context = null } = run.request;
    return [{ ...cron, metadata, input, config, context }, reaches];
  }

  return {
    async create(call) {
      const thread_id = call.params.thread_id === undefined ? null : threadId(call);
      const [request, reaches] = await allowed(call, thread_id, await body(call, parse.cronCreate));
      const { user_id, user } = call.visitor;
      return json(await crons.create(thread_id, request, { user_id, ...(user ? { user } : {}), ...reaches }));
    },
    async get(call) {
      const { cron_id, reach } = await named(call, "crons:read");
      return json(await crons.get(cron_id, reach));
    },
    async update(call) {
      const cron_id = cronId(call);
      const patch = parse.readCronPatch(await call.bytes());
      const { value, reach } = await call.may("crons:update", { ...patch, cron_id });
      const { cron_id: _, ...changed } = value;
      return json(await crons.update(cron_id, changed, reach));
    },
    async delete(call) {
      const { cron_id, reach } = await named(call, "crons:delete");
      await crons.delete(cron_id, reach);
      return empty();
    },
    async search(call) {
      const { select, ...search } = await body(call, parse.cronSearch);
      const { value, reach } = await call.may("crons:search", search);
      return paged(await crons.search(value, reach), select);
    },
    async count(call) {
      const { value, reach } = await call.may("crons:search", await body(call, parse.cronCount));
      return json(await crons.count(value, reach));
    },
  };
}

/** Crons as one caller may use them. */
import type { AssistantDirectory } from "../assistants/mod.ts";
import type { Binding } from "../auth/binding.ts";
import { createRunPermits } from "../runs/bind.ts";
import type { ScopedOrigin } from "../runs/request.ts";
import type { Scope } from "../storage/mod.ts";
import { refuseForOthers } from "../storage/visibility.ts";
import type { CronDirectory, Crons } from "./mod.ts";

export function bindCrons(
  crons: CronDirectory,
  binding: Binding,
  assistants: Pick<AssistantDirectory, "isDefault">,
): Crons {
  const { authorize, caller } = binding;
  const permits = createRunPermits(binding, assistants);
  const one = async (event: "crons:read" | "crons:update" | "crons:delete", cron_id: string): Promise<Scope> =>
    (await authorize(event, { cron_id })).scope;

  return {
    async create(thread_id, request, { recheck, assistants: _assistants, ...origin }: ScopedOrigin = {}) {
      const { user_id, user } = await caller();
      const usable = user ? await permits.assistants(request.assistant_id) : undefined;
      const permit = await authorize("crons:create", { ...request, thread_id });
      const { thread_id: _, ...cron } = permit.value;
      // Its runs are authorized now, and not again when they start.
      const { value: run, scope } = await permits.run(thread_id, null, cron, recheck);
      refuseForOthers(permit.scope, run.metadata ?? {});
      const { metadata = null, input = null, config = null, context = null } = run;
      const changed = run === cron ? cron : { ...cron, metadata, input, config, context };
      const own = { user_id, ...(user ? { user } : {}), ...(usable ? { assistants: usable } : {}) };
      return await crons.create(scope, thread_id, changed, { ...origin, ...own });
    },
    get: async (cron_id) => await crons.get(await one("crons:read", cron_id), cron_id),
    async update(cron_id, patch) {
      const { value, scope } = await authorize("crons:update", { ...patch, cron_id });
      const { cron_id: _, ...changed } = value;
      return await crons.update(scope, cron_id, changed);
    },
    delete: async (cron_id) => await crons.delete(await one("crons:delete", cron_id), cron_id),
    async search(query = {}) {
      const { value, scope } = await authorize("crons:search", query);
      return await crons.search(scope, value);
    },
    async count(query = {}) {
      const { value, scope } = await authorize("crons:search", query);
      return await crons.count(scope, value);
    },
    inspect: async (cron_id) => await crons.inspect(await one("crons:read", cron_id), cron_id),
    run: async (cron_id) => await crons.run(await one("crons:update", cron_id), cron_id),
    preview: async (schedule) => await crons.preview(binding.scope, schedule),
  };
}

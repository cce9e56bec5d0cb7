/** Crons as one caller may use them. */
import type { Binding } from "../auth/binding.ts";
import type { Scope } from "../storage/mod.ts";
import type { CronDirectory, Crons } from "./mod.ts";

type BoundCrons = Omit<Crons, "create">;

export function bindCrons(crons: CronDirectory, { authorize }: Binding): BoundCrons {
  const one = async (event: "crons:read" | "crons:update" | "crons:delete", cron_id: string): Promise<Scope> =>
    (await authorize(event, { cron_id })).scope;

  return {
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
    preview: crons.preview,
  };
}

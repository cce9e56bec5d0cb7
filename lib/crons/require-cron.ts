/** Reads the cron of a call, and makes the error for one that is not there. */
import { ServiceError } from "../errors.ts";
import type { CronRow, CronStorage, Scope } from "../storage/mod.ts";

export const cronNotFoundError = (cron_id: string): ServiceError =>
  new ServiceError("not_found", `Cron ${cron_id} not found`);

/** Returns the row of a cron. Throws `not_found` if it does not exist or is not visible. Ignores the case of the id. */
export async function requireCron(storage: CronStorage, scope: Scope, cron_id: string): Promise<CronRow> {
  const row = await storage.getCron(scope, cron_id.toLowerCase());
  if (!row) throw cronNotFoundError(cron_id);
  return row;
}

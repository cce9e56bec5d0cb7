/** The creation of a cron, which authorizes the runs of the cron too. */
import type { AssistantDirectory } from "../assistants/mod.ts";
import type { Authorizer } from "../auth/authorizer.ts";
import { createRunPermits, type RunEvent } from "../runs/authorization.ts";
import type { ScopedOrigin } from "../runs/request.ts";
import { requireOwnMetadata } from "../storage/visibility.ts";
import type { CronDirectory, Crons } from "./mod.ts";

interface Directories {
  readonly crons: CronDirectory;
  readonly assistants: Pick<AssistantDirectory, "isDefault">;
}

/** Authorizes the cron and its runs. They are not authorized again when they start. */
export const createCron = (
  authorizer: Authorizer<"crons:create" | RunEvent>,
  { crons, assistants }: Directories,
): Crons["create"] => {
  const { authorize, caller } = authorizer;
  const permits = createRunPermits(authorizer, assistants);
  return async (thread_id, request, { recheck, assistants: _assistants, ...origin }: ScopedOrigin = {}) => {
    const { user_id, user } = await caller();
    const usable = user ? await permits.assistants(request.assistant_id) : undefined;
    const permit = await authorize("crons:create", { ...request, thread_id });
    const { thread_id: _, ...cron } = permit.value;
    const { value: run, scope } = await permits.run(thread_id, null, cron, recheck);
    requireOwnMetadata(permit.scope, run.metadata ?? {});
    const { metadata = null, input = null, config = null, context = null } = run;
    const changed = run === cron ? cron : { ...cron, metadata, input, config, context };
    const own = { user_id, ...(user ? { user } : {}), ...(usable ? { assistants: usable } : {}) };
    return await crons.create(scope, thread_id, changed, { ...origin, ...own });
  };
};

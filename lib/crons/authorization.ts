/**
 * Authorizes the creation of crons, and with it the runs of these crons. The other operations on crons need one event each:
 * their rows are in `lib/service/operations.ts`.
 */
import type { InternalAssistants } from "../assistants/mod.ts";
import type { Authorizer } from "../auth/authorizer.ts";
import { createNewRunAuthorizer, type RunEvent } from "../runs/authorization.ts";
import type { ScopedOrigin } from "../runs/request.ts";
import { requireOwnMetadata } from "../storage/visibility.ts";
import type { Crons, InternalCrons } from "./mod.ts";

interface InternalResources {
  readonly crons: InternalCrons;
  readonly assistants: Pick<InternalAssistants, "isDefault">;
}

/**
 * Returns `create`, which authorizes the assistant, the cron and then its runs, and creates the cron with the changes of the
 * handlers. The runs are not authorized again when they start. Throws the refusals of the handlers, and `forbidden` for
 * metadata with which the caller could not see the cron.
 */
export const authorizeCreateCron = (
  authorizer: Authorizer<"crons:create" | RunEvent>,
  { crons, assistants }: InternalResources,
): Crons["create"] => {
  const { authorize, caller } = authorizer;
  const runAuthorizer = createNewRunAuthorizer(authorizer, assistants);
  return async (thread_id, request, { recheck, assistants: _assistants, ...origin }: ScopedOrigin = {}) => {
    const { user_id, user } = await caller();
    const assistantScope = user ? await runAuthorizer.resolveAssistantScope(request.assistant_id) : undefined;
    const cronGrant = await authorize("crons:create", { ...request, thread_id });
    const { thread_id: _, ...cron } = cronGrant.value;
    const { value: run, scope } = await runAuthorizer.authorizeRun(thread_id, null, cron, recheck);
    requireOwnMetadata(cronGrant.scope, run.metadata ?? {});
    const { metadata = null, input = null, config = null, context = null } = run;
    const changedRequest = run === cron ? cron : { ...cron, metadata, input, config, context };
    const callerOrigin = {
      user_id,
      ...(user ? { user } : {}),
      ...(assistantScope ? { assistants: assistantScope } : {}),
    };
    return await crons.create(scope, thread_id, changedRequest, { ...origin, ...callerOrigin });
  };
};

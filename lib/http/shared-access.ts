/** Shared agents: users other than the owner see only the threads that they created. */
import { ServiceError } from "../errors.ts";
import type { JsonObject } from "../json.ts";
import type { RequestContext } from "./context.ts";

/** The metadata key that names the creator of a thread on a shared agent. */
const OWNER = "owner_user_id";

/** The thread with its creator in the metadata, where the caller is not the agent's owner. */
export function withCreator<Create extends { readonly metadata?: JsonObject }>(
  { principal }: RequestContext,
  request: Create,
): Create {
  return principal.shared ? { ...request, metadata: { ...request.metadata, [OWNER]: principal.user_id } } : request;
}

/** Errors: not_found, where the caller is not the agent's owner and did not create the thread. */
export async function requireCreator({ principal, service }: RequestContext, thread_id: string): Promise<void> {
  if (!principal.shared) return;
  const { metadata } = await service.threads.get(thread_id);
  if (metadata[OWNER] !== principal.user_id) throw new ServiceError("not_found", `Thread ${thread_id} not found`);
}

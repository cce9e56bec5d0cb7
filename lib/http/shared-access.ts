/** Guests of somebody's agent: they run it on threads of their own, and others' are not there for them. */
import { ServiceError } from "../errors.ts";
import type { JsonObject } from "../json.ts";
import type { Threads } from "../threads/mod.ts";
import type { RequestContext } from "./context.ts";

/** Metadata of a thread that a guest has made. */
const OWNER = "owner_user_id";

/** The thread as its maker's, where the maker is a guest. */
export function ownedBy<Create extends { readonly metadata?: JsonObject }>(
  { principal }: RequestContext,
  request: Create,
): Create {
  return principal.guest ? { ...request, metadata: { ...request.metadata, [OWNER]: principal.user_id } } : request;
}

/** Errors: not_found, where the caller is a guest and the thread another's. */
export async function requireOwn({ principal }: RequestContext, threads: Threads, thread_id: string): Promise<void> {
  if (!principal.guest) return;
  const { metadata } = await threads.get(thread_id);
  if (metadata[OWNER] !== principal.user_id) throw new ServiceError("not_found", `Thread ${thread_id} not found`);
}

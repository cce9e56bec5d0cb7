/** The operations of threads whose authorization has more than one step. */
import type { Authorizer } from "../auth/authorizer.ts";
import { requireOwnMetadata } from "../storage/visibility.ts";
import type { InternalThreads, Threads } from "./mod.ts";

interface InternalResources {
  readonly threads: InternalThreads;
}

/**
 * Returns `copy`, which authorizes reading the thread, and then creating its copy with the metadata of the handlers. Throws
 * `forbidden` for metadata with which the caller could not see the copy.
 */
export const authorizeCopyThread =
  ({ authorize }: Authorizer<"threads:read" | "threads:create">, { threads }: InternalResources): Threads["copy"] =>
  async (thread_id) => {
    const { scope } = await authorize("threads:read", { thread_id });
    return await threads.copy(scope, thread_id, async (copy) => {
      const { value, scope } = await authorize("threads:create", copy);
      requireOwnMetadata(scope, value.metadata);
      return value;
    });
  };

/** Returns `idOf`, which derives the id of a thread from the caller and reads nothing. */
export const createCallerThreadId =
  ({ caller, scope }: Authorizer<never>, { threads }: InternalResources): Threads["idOf"] =>
  async (chat_id) => {
    const { user, user_id } = await caller();
    return await threads.idOf(scope, chat_id, user ? user.identity : user_id);
  };

/** Returns `stream`, which authorizes reading the thread. Its frames fail once the caller loses access. */
export const authorizeStreamThread =
  ({ authorize, guards }: Authorizer<"threads:read">, { threads }: InternalResources): Threads["stream"] =>
  async (thread_id, query) => {
    const authorizedCall = await authorize("threads:read", { thread_id });
    const frames = await threads.stream(authorizedCall.scope, thread_id, query);
    return guards.reader(authorizedCall, frames, { thread_id: thread_id.toLowerCase() });
  };

/** Calls of threads whose authorization has more than one step. */
import type { Binding } from "../auth/binding.ts";
import { refuseForOthers } from "../storage/visibility.ts";
import type { ThreadDirectory, Threads } from "./mod.ts";

interface Directories {
  readonly threads: ThreadDirectory;
}

/** Authorizes reading the thread, and then creating its copy. */
export const copyThread =
  ({ authorize }: Binding<"threads:read" | "threads:create">, { threads }: Directories): Threads["copy"] =>
  async (thread_id) => {
    const { scope } = await authorize("threads:read", { thread_id });
    return await threads.copy(scope, thread_id, async (copy) => {
      const { value, scope } = await authorize("threads:create", copy);
      refuseForOthers(scope, value.metadata);
      return value;
    });
  };

/** Names the thread after the caller, and reads nothing. */
export const nameThread =
  ({ caller, scope }: Binding<never>, { threads }: Directories): Threads["idOf"] =>
  async (chat_id) => {
    const { user, user_id } = await caller();
    return await threads.idOf(scope, chat_id, user ? user.identity : user_id);
  };

export const streamThread =
  ({ authorize, guards }: Binding<"threads:read">, { threads }: Directories): Threads["stream"] =>
  async (thread_id, query) => {
    const permit = await authorize("threads:read", { thread_id });
    const frames = await threads.stream(permit.scope, thread_id, query);
    return guards.reader(permit, frames, { thread_id: thread_id.toLowerCase() });
  };

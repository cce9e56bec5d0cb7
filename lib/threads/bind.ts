/** Threads as one caller may use them. */
import type { Binding, Permit } from "../auth/binding.ts";
import { refuseForOthers } from "../storage/visibility.ts";
import type { ThreadDirectory, Threads } from "./mod.ts";

export function bindThreads(threads: ThreadDirectory, { authorize, reader, caller, scope }: Binding): Threads {
  const read = (thread_id: string): Promise<Permit<object>> => authorize("threads:read", { thread_id });

  /** A change of a thread, as the handler leaves it. */
  async function update<Change extends object>(thread_id: string, change: Change) {
    const { value, scope } = await authorize("threads:update", { ...change, thread_id });
    const { thread_id: _, ...changed } = value;
    return { scope, changed };
  }

  return {
    async create(request = {}) {
      const { value, scope } = await authorize("threads:create", request);
      return await threads.create(scope, value);
    },
    get: async (thread_id, options) => await threads.get((await read(thread_id)).scope, thread_id, options),
    async update(thread_id, patch) {
      const { scope, changed } = await update(thread_id, patch);
      return await threads.update(scope, thread_id, changed);
    },
    async delete(thread_id) {
      const { scope } = await authorize("threads:delete", { thread_id });
      await threads.delete(scope, thread_id);
    },
    async copy(thread_id) {
      const { scope } = await read(thread_id);
      return await threads.copy(scope, thread_id, async (copy) => {
        const { value, scope } = await authorize("threads:create", copy);
        refuseForOthers(scope, value.metadata);
        return value;
      });
    },
    async prune(thread_ids, strategy) {
      const { value, scope } = await authorize("threads:delete", { thread_ids, ...(strategy ? { strategy } : {}) });
      return await threads.prune(scope, value.thread_ids, value.strategy);
    },
    async search(query = {}) {
      const { value, scope } = await authorize("threads:search", query);
      return await threads.search(scope, value);
    },
    async searchEach(query, steps) {
      const { value, scope } = await authorize("threads:search", query);
      await threads.searchEach(scope, value, steps);
    },
    async count(query = {}) {
      const { value, scope } = await authorize("threads:search", query);
      return await threads.count(scope, value);
    },
    async list(query = {}) {
      const { value, scope } = await authorize("threads:search", query);
      return await threads.list(scope, value);
    },
    async inbox(query = {}) {
      const { value, scope } = await authorize("threads:search", query);
      return await threads.inbox(scope, value);
    },
    state: async (thread_id, options) => await threads.state((await read(thread_id)).scope, thread_id, options),
    stateAt: async (thread_id, checkpoint, options) =>
      await threads.stateAt((await read(thread_id)).scope, thread_id, checkpoint, options),
    async updateState(thread_id, change) {
      const { scope, changed } = await update(thread_id, change);
      return await threads.updateState(scope, thread_id, changed);
    },
    async patchState(thread_id, metadata) {
      const { scope, changed } = await update(thread_id, { metadata });
      await threads.patchState(scope, thread_id, changed.metadata);
    },
    history: async (thread_id, query) => await threads.history((await read(thread_id)).scope, thread_id, query),
    historyEach: async (thread_id, query, add) =>
      await threads.historyEach((await read(thread_id)).scope, thread_id, query, add),
    storage: async (thread_id) => await threads.storage((await read(thread_id)).scope, thread_id),
    async idOf(chat_id) {
      const { user, user_id } = await caller();
      return await threads.idOf(scope, chat_id, user ? user.identity : user_id);
    },
    async stream(thread_id, query) {
      const permit = await read(thread_id);
      return reader(permit, await threads.stream(permit.scope, thread_id, query));
    },
  };
}

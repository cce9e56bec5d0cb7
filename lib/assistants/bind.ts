/** Assistants as one caller may use them. */
import type { Binding } from "../auth/binding.ts";
import type { Scope } from "../storage/mod.ts";
import type { AssistantDirectory, Assistants } from "./mod.ts";

export function bindAssistants(assistants: AssistantDirectory, { authorize }: Binding): Assistants {
  const read = async (assistant_id: string): Promise<Scope> =>
    (await authorize("assistants:read", { assistant_id })).scope;

  return {
    async create(request) {
      const { value, scope } = await authorize("assistants:create", request);
      return await assistants.create(scope, value);
    },
    get: async (id) => await assistants.get(await read(id), id),
    async update(id, patch) {
      const { value, scope } = await authorize("assistants:update", { ...patch, assistant_id: id });
      const { assistant_id: _, ...changed } = value;
      return await assistants.update(scope, id, changed);
    },
    async delete(id, options = {}) {
      const { scope } = await authorize("assistants:delete", { assistant_id: id });
      // Only those of its threads are deleted that the caller may delete.
      const threads = options.delete_threads ? (await authorize("threads:delete", { assistant_id: id })).scope : null;
      await assistants.delete(scope, id, threads?.filter ? { ...options, threads } : options);
    },
    async search(query = {}) {
      const { value, scope } = await authorize("assistants:search", query);
      return await assistants.search(scope, value);
    },
    async count(query = {}) {
      const { value, scope } = await authorize("assistants:search", query);
      return await assistants.count(scope, value);
    },
    versions: async (id, query) => await assistants.versions(await read(id), id, query),
    async setLatest(id, version) {
      const { scope } = await authorize("assistants:update", { assistant_id: id, version });
      return await assistants.setLatest(scope, id, version);
    },
    drawn: async (id, xray) => await assistants.drawn(await read(id), id, xray),
    schemas: async (id) => await assistants.schemas(await read(id), id),
    subgraphs: async (id, namespace, recurse) => await assistants.subgraphs(await read(id), id, namespace, recurse),
  };
}

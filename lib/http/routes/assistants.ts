/** The routes of assistants. */
import type { Assistants } from "../../assistants/mod.ts";
import { ServiceError } from "../../errors.ts";
import { EVERYTHING } from "../../storage/visibility.ts";
import { assistantId, body, query, type RequestContext, type Routes, segment } from "../context.ts";
import * as parse from "../parse/mod.ts";
import { empty, json, paged } from "../respond.ts";

type Name =
  | "create"
  | "get"
  | "update"
  | "delete"
  | "search"
  | "count"
  | "versions"
  | "latest"
  | "graph"
  | "schemas"
  | "subgraphs";

export function assistantRoutes(assistants: Assistants): Routes<Name> {
  const read = async (call: RequestContext) => {
    const assistant_id = assistantId(call);
    return { assistant_id, ...(await call.authorize("assistants:read", { assistant_id })) };
  };
  return {
    async create(call) {
      const { value, visibility } = await call.authorize("assistants:create", await body(call, parse.assistantCreate));
      return json(await assistants.create(value, visibility));
    },
    async get(call) {
      const { assistant_id, visibility } = await read(call);
      return json(await assistants.get(assistant_id, visibility));
    },
    async update(call) {
      const assistant_id = assistantId(call);
      const patch = await body(call, parse.assistantPatch);
      const { value, visibility } = await call.authorize("assistants:update", { ...patch, assistant_id });
      const { assistant_id: _, ...changed } = value;
      return json(await assistants.update(assistant_id, changed, visibility));
    },
    async delete(call) {
      const assistant_id = assistantId(call);
      const deletion = query(call, parse.assistantDeletion);
      const { visibility } = await call.authorize("assistants:delete", { assistant_id });
      // Its threads go only where they may be deleted too.
      const threads = deletion.delete_threads
        ? (await call.authorize("threads:delete", { assistant_id })).visibility
        : EVERYTHING;
      await assistants.delete(assistant_id, threads.filter ? { ...deletion, threads } : deletion, visibility);
      return empty();
    },
    async search(call) {
      const { select, ...search } = await body(call, parse.assistantSearch);
      const { value, visibility } = await call.authorize("assistants:search", search);
      return paged(await assistants.search(value, visibility), select);
    },
    async count(call) {
      const { value, visibility } = await call.authorize("assistants:search", await body(call, parse.assistantCount));
      return json(await assistants.count(value, visibility));
    },
    async versions(call) {
      const search = await body(call, parse.versionSearch);
      const { assistant_id, visibility } = await read(call);
      return json(await assistants.versions(assistant_id, search, visibility));
    },
    async latest(call) {
      const assistant_id = assistantId(call);
      const number = await version(call);
      const { visibility } = await call.authorize("assistants:update", { assistant_id, version: number });
      return json(await assistants.setLatest(assistant_id, number, visibility));
    },
    async graph(call) {
      const { xray } = query(call, parse.drawing);
      const { assistant_id, visibility } = await read(call);
      return json(await assistants.drawn(assistant_id, xray, visibility));
    },
    async schemas(call) {
      const { assistant_id, visibility } = await read(call);
      return json(await assistants.schemas(assistant_id, visibility));
    },
    async subgraphs(call) {
      const namespace = call.params.namespace === undefined ? null : segment(call, "namespace");
      const { recurse } = query(call, parse.subgraphSearch);
      const { assistant_id, visibility } = await read(call);
      return json(await assistants.subgraphs(assistant_id, namespace, recurse, visibility));
    },
  };
}

/** The version to activate: clients send it in the body, the published description has it in the query. */
async function version(call: RequestContext): Promise<number> {
  const found = (await body(call, parse.latest)).version ?? query(call, parse.latest).version;
  if (found === undefined) throw new ServiceError("invalid", "version: is required");
  return found;
}

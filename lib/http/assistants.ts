/** The routes of assistants. */
import type { Assistants } from "../assistants/mod.ts";
import { ServiceError } from "../errors.ts";
import { EVERYTHING } from "../storage/visibility.ts";
import { assistantId, body, type Call, query, type Routes, segment } from "./call.ts";
import * as parse from "./parse/mod.ts";
import { empty, json, paged } from "./respond.ts";

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
  const read = async (call: Call) => {
    const assistant_id = assistantId(call);
    return { assistant_id, ...(await call.may("assistants:read", { assistant_id })) };
  };
  return {
    async create(call) {
      const { value, reach } = await call.may("assistants:create", await body(call, parse.assistantCreate));
      return json(await assistants.create(value, reach));
    },
    async get(call) {
      const { assistant_id, reach } = await read(call);
      return json(await assistants.get(assistant_id, reach));
    },
    async update(call) {
      const assistant_id = assistantId(call);
      const patch = await body(call, parse.assistantPatch);
      const { value, reach } = await call.may("assistants:update", { ...patch, assistant_id });
      const { assistant_id: _, ...changed } = value;
      return json(await assistants.update(assistant_id, changed, reach));
    },
    async delete(call) {
      const assistant_id = assistantId(call);
      const deletion = query(call, parse.assistantDeletion);
      const { reach } = await call.may("assistants:delete", { assistant_id });
      // Its threads go only where they may be deleted too.
      const threads = deletion.delete_threads ? (await call.may("threads:delete", { assistant_id })).reach : EVERYTHING;
      await assistants.delete(assistant_id, threads.filter ? { ...deletion, threads } : deletion, reach);
      return empty();
    },
    async search(call) {
      const { select, ...search } = await body(call, parse.assistantSearch);
      const { value, reach } = await call.may("assistants:search", search);
      return paged(await assistants.search(value, reach), select);
    },
    async count(call) {
      const { value, reach } = await call.may("assistants:search", await body(call, parse.assistantCount));
      return json(await assistants.count(value, reach));
    },
    async versions(call) {
      const search = await body(call, parse.versionSearch);
      const { assistant_id, reach } = await read(call);
      return json(await assistants.versions(assistant_id, search, reach));
    },
    async latest(call) {
      const assistant_id = assistantId(call);
      const number = await version(call);
      const { reach } = await call.may("assistants:update", { assistant_id, version: number });
      return json(await assistants.setLatest(assistant_id, number, reach));
    },
    async graph(call) {
      const { xray } = query(call, parse.drawing);
      const { assistant_id, reach } = await read(call);
      return json(await assistants.drawn(assistant_id, xray, reach));
    },
    async schemas(call) {
      const { assistant_id, reach } = await read(call);
      return json(await assistants.schemas(assistant_id, reach));
    },
    async subgraphs(call) {
      const namespace = call.params.namespace === undefined ? null : segment(call, "namespace");
      const { recurse } = query(call, parse.subgraphSearch);
      const { assistant_id, reach } = await read(call);
      return json(await assistants.subgraphs(assistant_id, namespace, recurse, reach));
    },
  };
}

/** The version to activate: clients send it in the body, the published description has it in the query. */
async function version(call: Call): Promise<number> {
  const found = (await body(call, parse.latest)).version ?? query(call, parse.latest).version;
  if (found === undefined) throw new ServiceError("invalid", "version: is required");
  return found;
}

/** Defines the routes of assistants and the schemas of their requests. */
import * as v from "valibot";
import type { AssistantCreate, AssistantFilter, AssistantPatch, AssistantSearch } from "../../assistants/mod.ts";
import { invalidFieldError } from "../../errors.ts";
import type { JsonObject } from "../../json.ts";
import type { AssistantSort } from "../../storage/mod.ts";
import * as parse from "../parse.ts";
import { jsonResponse, noContentResponse, PAGE_HEADERS, pageResponse } from "../respond.ts";
import { createRouteGroup, type RequestContext, type Route, readAssistantId, readPathSegment } from "../route.ts";

const ASSISTANT_FIELDS = [
  "assistant_id",
  "graph_id",
  "name",
  "description",
  "config",
  "context",
  "created_at",
  "updated_at",
  "metadata",
  "version",
] as const;

/** POST /assistants */
export const assistantCreate: parse.FieldSchema<AssistantCreate> = v.object({
  graph_id: parse.name,
  assistant_id: v.optional(parse.uuid),
  config: v.optional(parse.config),
  context: v.optional(parse.anyObject),
  metadata: v.optional(parse.anyObject),
  name: parse.withDescription(v.optional(parse.text), "Default `Untitled`"),
  description: v.optional(parse.text),
  if_exists: parse.withDescription(
    parse.ifExists,
    "`raise` (default): conflict when the id exists; `do_nothing`: the existing assistant, unchanged",
  ),
});

/** PATCH /assistants/{assistant_id} */
export const assistantPatch: parse.FieldSchema<AssistantPatch> = v.object({
  graph_id: v.optional(parse.name),
  config: v.optional(parse.config),
  context: v.optional(parse.anyObject),
  metadata: parse.withDescription(v.optional(parse.anyObject), "Merged shallowly"),
  name: v.optional(parse.text),
  description: v.optional(parse.text),
  activate: parse.withDescription(
    v.optional(parse.flag),
    "`false`: stores the version and keeps the active one; the response has the new version",
  ),
});

const assistantFilter = {
  metadata: v.optional(parse.containment),
  graph_id: v.optional(parse.text),
  name: v.optional(parse.text),
};

/** POST /assistants/count */
export const assistantCount: parse.FieldSchema<AssistantFilter> = v.object(assistantFilter);

/** POST /assistants/search */
export const assistantSearch: parse.FieldSchema<AssistantSearch & { readonly select?: readonly string[] }> = v.object({
  ...assistantFilter,
  ...parse.pageFields,
  ...parse.sortFields<AssistantSort>(["assistant_id", "created_at", "updated_at", "name", "graph_id"]),
  select: v.optional(parse.listSchema(parse.oneOf(ASSISTANT_FIELDS))),
});

/** POST /assistants/{assistant_id}/versions */
export const versionSearch: parse.FieldSchema<{
  readonly metadata?: JsonObject;
  readonly limit?: number;
  readonly offset?: number;
}> = v.object({ metadata: v.optional(parse.containment), ...parse.pageFields });

/** POST /assistants/{assistant_id}/latest, as body or as query */
export const versionChoice: parse.FieldSchema<{ readonly version?: number }> = v.object({
  version: v.optional(parse.integer(1, Number.MAX_SAFE_INTEGER)),
});

/** DELETE /assistants/{assistant_id} */
const assistantDeletion = v.object({
  delete_threads: v.optional(parse.flag),
});

/** GET /assistants/{assistant_id}/graph */
const graphQuery = v.object({
  xray: v.optional(
    v.union(
      [v.boolean(), parse.integer(0, Number.MAX_SAFE_INTEGER)],
      "must be true, false or a depth",
    ) as v.GenericSchema<boolean | number>,
  ),
});

/** GET /assistants/{assistant_id}/subgraphs */
const subgraphSearch = v.object({ recurse: v.optional(parse.flag) });

const defineRoute = createRouteGroup({ tag: "Assistants", group: "assistants" });

/**
 * Reads the version to activate from the body, where clients send it, or else from the query, where the published API has it.
 * Throws `invalid` if both lack it.
 */
async function readVersion(context: RequestContext<{ version?: number }, { version?: number }>): Promise<number> {
  const versionNumber = (await context.body()).version ?? context.query().version;
  if (versionNumber === undefined) throw invalidFieldError("version", "is required");
  return versionNumber;
}

/**
 * Responds with the schemas of the subgraphs of an assistant by namespace: all of them, or that of the namespace in the path, `{}`
 * if there is none. `recurse` adds those inside subgraphs. Responds 404 for an unknown assistant or graph.
 */
async function respondWithSubgraphs(context: RequestContext<unknown, { recurse?: boolean }>): Promise<Response> {
  const namespace = context.params.namespace === undefined ? null : readPathSegment(context, "namespace");
  const { recurse } = context.query();
  return jsonResponse(await context.resources.assistants.subgraphs(readAssistantId(context), namespace, recurse));
}

const readOptions = { events: ["assistants:read"], errors: [404] } as const;
export const ASSISTANT_ROUTES: readonly Route[] = [
  defineRoute("post", "/assistants", {
    summary: "Create an assistant",
    events: ["assistants:create"],
    body: assistantCreate,
    response: "Assistant",
    errors: [404, 409],
    handle: async (context) => jsonResponse(await context.resources.assistants.create(await context.body())),
  }),
  defineRoute("post", "/assistants/search", {
    summary: "Search assistants",
    access: "read",
    events: ["assistants:search"],
    body: assistantSearch,
    response: "Assistant[]",
    response_headers: PAGE_HEADERS,
    /**
     * Responds with one page of assistants and pagination headers; an empty list without matches. `select` in the body names the
     * fields of each, by default all.
     */
    async handle(context) {
      const { select, ...search } = await context.body();
      return pageResponse(await context.resources.assistants.search(search), select);
    },
  }),
  defineRoute("post", "/assistants/count", {
    summary: "Count assistants",
    access: "read",
    events: ["assistants:search"],
    body: assistantCount,
    response: "count",
    handle: async (context) => jsonResponse(await context.resources.assistants.count(await context.body())),
  }),
  defineRoute("get", "/assistants/:assistant_id", {
    summary: "Get an assistant",
    ...readOptions,
    response: "Assistant",
    handle: async (context) => jsonResponse(await context.resources.assistants.get(readAssistantId(context))),
  }),
  defineRoute("patch", "/assistants/:assistant_id", {
    summary: "Create a new version of an assistant and activate it, unless `activate` is false",
    events: ["assistants:update"],
    body: assistantPatch,
    response: "Assistant",
    errors: [404],
    handle: async (context) =>
      jsonResponse(await context.resources.assistants.update(readAssistantId(context), await context.body())),
  }),
  defineRoute("delete", "/assistants/:assistant_id", {
    summary: "Delete an assistant with all its versions",
    events: ["assistants:delete", "threads:delete"],
    query: assistantDeletion,
    errors: [404, 409],
    /**
     * Deletes the assistant, and with `delete_threads` (query) the threads whose metadata names it. Responds 204, or 404 for an
     * unknown assistant and 409 for the default one of a graph; then no thread is deleted.
     */
    async handle(context) {
      await context.resources.assistants.delete(readAssistantId(context), context.query());
      return noContentResponse();
    },
  }),
  defineRoute("post", "/assistants/:assistant_id/versions", {
    summary: "List the versions of an assistant, newest first",
    access: "read",
    ...readOptions,
    body: versionSearch,
    response: "AssistantVersion[]",
    /**
     * Responds with the versions of the assistant, newest first, that contain the `metadata` of the body, in the page of the body
     * (10 by default). Creates nothing. Responds 404 for an unknown assistant.
     */
    async handle(context) {
      const search = await context.body();
      return jsonResponse(await context.resources.assistants.versions(readAssistantId(context), search));
    },
  }),
  defineRoute("post", "/assistants/:assistant_id/latest", {
    summary: "Activate a version, given in the body or the query",
    events: ["assistants:update"],
    body: versionChoice,
    query: versionChoice,
    response: "Assistant",
    errors: [404],
    handle: async (context) =>
      jsonResponse(await context.resources.assistants.setLatest(readAssistantId(context), await readVersion(context))),
  }),
  defineRoute("get", "/assistants/:assistant_id/graph", {
    summary: "Get the nodes and edges of the graph",
    ...readOptions,
    query: graphQuery,
    response: "DrawnGraph",
    /**
     * Responds with the nodes and edges of the assistant's graph. `xray` draws subgraphs in place of their nodes: all for true, a
     * number for that depth. Responds 404 for an unknown assistant, and if this deployment does not have its graph.
     */
    async handle(context) {
      const { xray } = context.query();
      return jsonResponse(await context.resources.assistants.graph(readAssistantId(context), xray));
    },
  }),
  defineRoute("get", "/assistants/:assistant_id/schemas", {
    summary: "Get the schemas of the graph",
    ...readOptions,
    response: "GraphSchemas",
    handle: async (context) => jsonResponse(await context.resources.assistants.schemas(readAssistantId(context))),
  }),
  defineRoute("get", "/assistants/:assistant_id/subgraphs", {
    summary: "Get the schemas of the subgraphs",
    ...readOptions,
    query: subgraphSearch,
    response: "SubgraphSchemas",
    handle: respondWithSubgraphs,
  }),
  defineRoute("get", "/assistants/:assistant_id/subgraphs/:namespace", {
    summary: "Get the schemas of one subgraph",
    ...readOptions,
    query: subgraphSearch,
    response: "SubgraphSchemas",
    handle: respondWithSubgraphs,
  }),
];

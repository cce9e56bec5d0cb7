/** The routes of assistants. */
import { ServiceError } from "../../errors.ts";
import { EVERYTHING, type Visibility } from "../../storage/visibility.ts";
import { assistantId, type RequestContext, segment } from "../context.ts";
import {
  assistantCount,
  assistantCreate,
  assistantDeletion,
  assistantPatch,
  assistantSearch,
  drawing,
  latest,
  subgraphSearch,
  versionSearch,
} from "../parse/assistants.ts";
import { empty, json, PAGE_HEADERS, paged } from "../respond.ts";
import { type Route, routesOf } from "./route.ts";

const route = routesOf({ tag: "Assistants", group: "assistants" });

/** The assistant of the path, and whether the caller may read it. */
async function authorized(context: RequestContext): Promise<{ assistant_id: string; visibility: Visibility }> {
  const assistant_id = assistantId(context);
  return { assistant_id, visibility: (await context.authorize({ assistant_id })).visibility };
}

/** The version to activate: clients send it in the body, the published description has it in the query. */
async function version(context: RequestContext<{ version?: number }, { version?: number }>): Promise<number> {
  const found = (await context.body()).version ?? context.query().version;
  if (found === undefined) throw new ServiceError("invalid", "version: is required");
  return found;
}

async function subgraphs(context: RequestContext<unknown, { recurse?: boolean }>): Promise<Response> {
  const namespace = context.params.namespace === undefined ? null : segment(context, "namespace");
  const { recurse } = context.query();
  const { assistant_id, visibility } = await authorized(context);
  return json(await context.service.assistants.subgraphs(assistant_id, namespace, recurse, visibility));
}

export const ASSISTANT_ROUTES: readonly Route[] = [
  route("post", "/assistants", {
    summary: "Create an assistant",
    events: ["assistants:create"],
    body: assistantCreate,
    answer: "Assistant",
    errors: [404, 409],
    async handle(context) {
      const { value, visibility } = await context.authorize(await context.body());
      return json(await context.service.assistants.create(value, visibility));
    },
  }),
  route("post", "/assistants/search", {
    summary: "Search assistants",
    access: "read",
    events: ["assistants:search"],
    body: assistantSearch,
    answer: "Assistant[]",
    answer_headers: PAGE_HEADERS,
    async handle(context) {
      const { select, ...search } = await context.body();
      const { value, visibility } = await context.authorize(search);
      return paged(await context.service.assistants.search(value, visibility), select);
    },
  }),
  route("post", "/assistants/count", {
    summary: "Count assistants",
    access: "read",
    events: ["assistants:search"],
    body: assistantCount,
    answer: "count",
    async handle(context) {
      const { value, visibility } = await context.authorize(await context.body());
      return json(await context.service.assistants.count(value, visibility));
    },
  }),
  route("get", "/assistants/:assistant_id", {
    summary: "Get an assistant",
    events: ["assistants:read"],
    answer: "Assistant",
    errors: [404],
    async handle(context) {
      const { assistant_id, visibility } = await authorized(context);
      return json(await context.service.assistants.get(assistant_id, visibility));
    },
  }),
  route("patch", "/assistants/:assistant_id", {
    summary: "Create a new version of an assistant and activate it",
    events: ["assistants:update"],
    body: assistantPatch,
    answer: "Assistant",
    errors: [404],
    async handle(context) {
      const assistant_id = assistantId(context);
      const patch = await context.body();
      const { value, visibility } = await context.authorize({ ...patch, assistant_id });
      const { assistant_id: _, ...changed } = value;
      return json(await context.service.assistants.update(assistant_id, changed, visibility));
    },
  }),
  route("delete", "/assistants/:assistant_id", {
    summary: "Delete an assistant with all its versions",
    events: ["assistants:delete", "threads:delete"],
    query: assistantDeletion,
    errors: [404, 409],
    async handle(context) {
      const assistant_id = assistantId(context);
      const deletion = context.query();
      const { visibility } = await context.authorize({ assistant_id });
      // Only those of its threads are deleted that the caller may delete.
      const threads = deletion.delete_threads
        ? (await context.authorize({ assistant_id }, "threads:delete")).visibility
        : EVERYTHING;
      const options = threads.filter ? { ...deletion, threads } : deletion;
      await context.service.assistants.delete(assistant_id, options, visibility);
      return empty();
    },
  }),
  route("post", "/assistants/:assistant_id/versions", {
    summary: "List the versions of an assistant, newest first",
    access: "read",
    events: ["assistants:read"],
    body: versionSearch,
    answer: "AssistantVersion[]",
    errors: [404],
    async handle(context) {
      const search = await context.body();
      const { assistant_id, visibility } = await authorized(context);
      return json(await context.service.assistants.versions(assistant_id, search, visibility));
    },
  }),
  route("post", "/assistants/:assistant_id/latest", {
    summary: "Activate a version, given in the body or the query",
    events: ["assistants:update"],
    body: latest,
    query: latest,
    answer: "Assistant",
    errors: [404],
    async handle(context) {
      const assistant_id = assistantId(context);
      const number = await version(context);
      const { visibility } = await context.authorize({ assistant_id, version: number });
      return json(await context.service.assistants.setLatest(assistant_id, number, visibility));
    },
  }),
  route("get", "/assistants/:assistant_id/graph", {
    summary: "Get the nodes and edges of the graph",
    events: ["assistants:read"],
    query: drawing,
    answer: "DrawnGraph",
    errors: [404],
    async handle(context) {
      const { xray } = context.query();
      const { assistant_id, visibility } = await authorized(context);
      return json(await context.service.assistants.drawn(assistant_id, xray, visibility));
    },
  }),
  route("get", "/assistants/:assistant_id/schemas", {
    summary: "Get the schemas of the graph",
    events: ["assistants:read"],
    answer: "GraphSchemas",
    errors: [404],
    async handle(context) {
      const { assistant_id, visibility } = await authorized(context);
      return json(await context.service.assistants.schemas(assistant_id, visibility));
    },
  }),
  route("get", "/assistants/:assistant_id/subgraphs", {
    summary: "Get the schemas of the subgraphs",
    events: ["assistants:read"],
    query: subgraphSearch,
    answer: "SubgraphSchemas",
    errors: [404],
    handle: subgraphs,
  }),
  route("get", "/assistants/:assistant_id/subgraphs/:namespace", {
    summary: "Get the schemas of one subgraph",
    events: ["assistants:read"],
    query: subgraphSearch,
    answer: "SubgraphSchemas",
    errors: [404],
    handle: subgraphs,
  }),
];

/** Requests of the assistants routes. */
import * as v from "valibot";
import type { AssistantCreate, AssistantFilter, AssistantPatch, AssistantSearch } from "../../assistants/mod.ts";
import type { JsonObject } from "../../json.ts";
import type { AssistantSort } from "../../storage/mod.ts";
import {
  anyObject,
  config,
  containment,
  type Fields,
  flag,
  ifExists,
  integer,
  listOf,
  name,
  oneOf,
  order,
  page,
  text,
  uuid,
} from "./pieces.ts";

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
export const assistantCreate: Fields<AssistantCreate> = v.object({
  graph_id: name,
  assistant_id: v.optional(uuid),
  config: v.optional(config),
  context: v.optional(anyObject),
  metadata: v.optional(anyObject),
  name: v.optional(text),
  description: v.optional(text),
  if_exists: ifExists,
});

/** PATCH /assistants/{assistant_id} */
export const assistantPatch: Fields<AssistantPatch> = v.object({
  graph_id: v.optional(name),
  config: v.optional(config),
  context: v.optional(anyObject),
  metadata: v.optional(anyObject),
  name: v.optional(text),
  description: v.optional(text),
});

const assistantFilter = {
  metadata: v.optional(containment),
  graph_id: v.optional(text),
  name: v.optional(text),
};

/** POST /assistants/count */
export const assistantCount: Fields<AssistantFilter> = v.object(assistantFilter);

/** POST /assistants/search */
export const assistantSearch: Fields<AssistantSearch & { readonly select?: readonly string[] }> = v.object({
  ...assistantFilter,
  ...page,
  sort_by: v.optional(
    oneOf(["assistant_id", "created_at", "updated_at", "name", "graph_id"] satisfies AssistantSort[]),
  ) as v.GenericSchema<AssistantSort | undefined>,
  sort_order: order,
  select: v.optional(listOf(oneOf(ASSISTANT_FIELDS))),
});

/** POST /assistants/{assistant_id}/versions */
export const versionSearch: Fields<{
  readonly metadata?: JsonObject;
  readonly limit?: number;
  readonly offset?: number;
}> = v.object({ metadata: v.optional(containment), ...page });

/** POST /assistants/{assistant_id}/latest, as body or as query */
export const latest: Fields<{ readonly version?: number }> = v.object({
  version: v.optional(integer(1, Number.MAX_SAFE_INTEGER)),
});

/** DELETE /assistants/{assistant_id} */
export const assistantDeletion: Fields<{ readonly delete_threads?: boolean }> = v.object({
  delete_threads: v.optional(flag),
});

/** GET /assistants/{assistant_id}/graph */
export const drawing: Fields<{ readonly xray?: boolean | number }> = v.object({
  xray: v.optional(
    v.union([v.boolean(), integer(0, Number.MAX_SAFE_INTEGER)], "must be true, false or a depth") as v.GenericSchema<
      boolean | number
    >,
  ),
});

/** GET /assistants/{assistant_id}/subgraphs */
export const subgraphSearch: Fields<{ readonly recurse?: boolean }> = v.object({ recurse: v.optional(flag) });

/** Requests of the threads routes. */
import * as v from "valibot";
import { isObject, type Json, type JsonObject } from "../../json.ts";
import type { ThreadSort, ThreadStatus } from "../../storage.ts";
import type { ThreadStreamMode } from "../../thread-stream.ts";
import type { CheckpointSelector, HistoryQuery, ThreadCreate, ThreadFilter, ThreadSearch } from "../../threads.ts";
import {
  anyObject,
  checkpoint,
  type Fields,
  flag,
  ifExists,
  json,
  listOf,
  name,
  oneOf,
  order,
  owned,
  page,
  uuid,
} from "./pieces.ts";

const THREAD_FIELDS = [
  "thread_id",
  "created_at",
  "updated_at",
  "state_updated_at",
  "metadata",
  "config",
  "context",
  "status",
  "values",
  "interrupts",
] as const;
const STATE_FIELDS = /^(values|next|tasks|metadata|created_at|checkpoint|parent_checkpoint|interrupts)$|^values\../;
const stateSelect = v.optional(
  v.array(
    v.pipe(v.string("must be a string"), v.regex(STATE_FIELDS, "must be a field of a state or values.<key>")),
    "must be a list",
  ),
);

/** POST /threads. `supersteps` and `ttl` are known, and refused as not built. */
export const threadCreate: Fields<ThreadCreate & { readonly supersteps?: Json; readonly ttl?: Json }> = v.object({
  thread_id: v.optional(uuid),
  metadata: v.optional(anyObject),
  if_exists: ifExists,
  supersteps: v.optional(json),
  ttl: v.optional(json),
});

/** PATCH /threads/{thread_id} */
export const threadPatch: Fields<{ readonly metadata?: JsonObject; readonly ttl?: Json }> = v.object({
  metadata: v.optional(anyObject),
  ttl: v.optional(json),
});

const threadStatus = v.optional(
  oneOf(["idle", "busy", "interrupted", "error"] satisfies ThreadStatus[]),
) as v.GenericSchema<ThreadStatus | undefined>;
const threadFilter = {
  metadata: v.optional(anyObject),
  values: v.optional(anyObject),
  status: threadStatus,
};

/** POST /threads/count */
export const threadCount: Fields<ThreadFilter> = v.object(threadFilter);

/** POST /threads/search. `extract` is known, and refused as not built. */
export const threadSearch: Fields<ThreadSearch & { readonly extract?: Json }> = v.object({
  ...threadFilter,
  ids: v.optional(listOf(uuid)),
  ...page,
  sort_by: v.optional(
    oneOf(["thread_id", "status", "created_at", "updated_at", "state_updated_at"] satisfies ThreadSort[]),
  ) as v.GenericSchema<ThreadSort | undefined>,
  sort_order: order,
  select: v.optional(listOf(oneOf(THREAD_FIELDS))),
  extract: v.optional(json),
});

/** How a state is read, and which of its fields are answered; of values also single ones. */
interface StateOptions {
  readonly subgraphs?: boolean;
  readonly select?: readonly string[];
}

/** POST /threads/{thread_id}/state/checkpoint */
export const stateAt: Fields<{ readonly checkpoint: CheckpointSelector } & StateOptions> = v.object({
  checkpoint,
  subgraphs: v.optional(flag),
  select: stateSelect,
});

/** `before` comes as a checkpoint id, as a checkpoint, or as a config that names one. */
const before = v.pipe(
  v.union(
    [name, owned({ checkpoint_id: name }), owned({ configurable: owned({ checkpoint_id: name }) })],
    "must be a checkpoint id or a checkpoint",
  ),
  v.transform((sent) => {
    if (typeof sent === "string") return sent;
    const { configurable, checkpoint_id } = sent as JsonObject;
    return (isObject(configurable) ? configurable.checkpoint_id : checkpoint_id) as string;
  }),
);

/** POST /threads/{thread_id}/history */
export const historySearch: Fields<HistoryQuery & Pick<StateOptions, "select">> = v.object({
  limit: page.limit,
  before: v.optional(before),
  metadata: v.optional(anyObject),
  checkpoint: v.optional(checkpoint),
  select: stateSelect,
});

/** GET of a state */
export const stateQuery: Fields<StateOptions> = v.object({ subgraphs: v.optional(flag), select: stateSelect });

/** GET /threads/{thread_id}/history */
export const historyQuery: Fields<
  { readonly limit?: number; readonly before?: string } & Pick<StateOptions, "select">
> = v.object({
  limit: page.limit,
  before: v.optional(name),
  select: stateSelect,
});

const threadMode = oneOf(["run_modes", "lifecycle", "state_update"]);

/** GET /threads/{thread_id}/stream. Clients say `stream_mode`, the published description `stream_modes`. */
export const threadStreamQuery: Fields<{
  readonly stream_mode?: readonly ThreadStreamMode[];
  readonly stream_modes?: readonly ThreadStreamMode[];
}> = v.object({ stream_mode: v.optional(listOf(threadMode)), stream_modes: v.optional(listOf(threadMode)) });

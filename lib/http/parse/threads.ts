/** Requests of the threads routes. */
import * as v from "valibot";
import { isObject, type JsonObject } from "../../json.ts";
import type { PruneStrategy, ThreadSort, ThreadStatus } from "../../storage/mod.ts";
import type { ThreadStreamMode } from "../../streams/thread-subscription.ts";
import {
  type CheckpointSelector,
  type Extra,
  type HistoryQuery,
  LONGEST_TTL,
  MOST_PATHS,
  MOST_SUPERSTEPS,
  type StateChange,
  type Superstep,
  type ThreadCreate,
  type ThreadFilter,
  type ThreadPatch,
  type ThreadSearch,
  type TimeToLive,
} from "../../threads/mod.ts";
import { PLAIN } from "../../validation.ts";
import {
  anyObject,
  checkpoint,
  containment,
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
import { command } from "./runs.ts";

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

const MINUTES = `must be a number of minutes above 0, at most ${LONGEST_TTL}`;
const minutes = v.pipe(v.number(MINUTES), v.gtValue(0, MINUTES), v.maxValue(LONGEST_TTL, MINUTES));
const strategy = oneOf(["delete", "keep_latest"] satisfies PruneStrategy[]) as v.GenericSchema<PruneStrategy>;
const timeToLive = v.optional(
  v.union([minutes, owned({ ttl: minutes, strategy: v.optional(strategy) })], ({ input }) =>
    typeof input === "object"
      ? "must hold ttl, a number of minutes above 0, and strategy: delete or keep_latest"
      : MINUTES,
  ) as v.GenericSchema<number | TimeToLive>,
);

const stateUpdate = owned({
  values: v.optional(json),
  command: v.optional(command),
  as_node: name,
});
const supersteps = v.optional(
  v.pipe(
    listOf(
      owned<Superstep>({ updates: v.pipe(listOf(stateUpdate), v.minLength(1, "must hold an update")) }),
    ) as v.GenericSchema<Superstep[]>,
    v.maxLength(MOST_SUPERSTEPS, `must hold at most ${MOST_SUPERSTEPS} supersteps`),
  ),
);

/** POST /threads */
export const threadCreate: Fields<ThreadCreate> = v.object({
  thread_id: v.optional(uuid),
  metadata: v.optional(anyObject),
  if_exists: ifExists,
  supersteps,
  ttl: timeToLive,
});

/** PATCH /threads/{thread_id} */
export const threadPatch: Fields<ThreadPatch> = v.object({ metadata: v.optional(anyObject), ttl: timeToLive });

const include = v.optional(listOf(oneOf(["ttl"] satisfies Extra[]) as v.GenericSchema<Extra>));

/** GET /threads/{thread_id}, and the query of a search */
export const threadQuery: Fields<{ readonly include?: readonly Extra[] }> = v.object({ include });

const threadStatus = v.optional(
  oneOf(["idle", "busy", "interrupted", "error"] satisfies ThreadStatus[]),
) as v.GenericSchema<ThreadStatus | undefined>;
const threadFilter = {
  metadata: v.optional(containment),
  values: v.optional(containment),
  status: threadStatus,
};

/** POST /threads/count */
export const threadCount: Fields<ThreadFilter> = v.object(threadFilter);

/** POST /threads/search. The thread search validates the paths of `extract`. */
export const threadSearch: Fields<ThreadSearch> = v.object({
  ...threadFilter,
  ids: v.optional(listOf(uuid)),
  ...page,
  sort_by: v.optional(
    oneOf(["thread_id", "status", "created_at", "updated_at", "state_updated_at"] satisfies ThreadSort[]),
  ) as v.GenericSchema<ThreadSort | undefined>,
  sort_order: order,
  select: v.optional(listOf(oneOf(THREAD_FIELDS))),
  extract: v.optional(
    v.pipe(
      anyObject,
      v.check((paths) => Object.values(paths).every((path) => typeof path === "string"), "must be paths by name"),
      v.check((paths) => Object.keys(paths).length <= MOST_PATHS, `must hold at most ${MOST_PATHS} paths`),
    ) as unknown as v.GenericSchema<Record<string, string>>,
  ),
  include,
});

/** POST /threads/prune */
export const threadPrune: Fields<{ readonly thread_ids: readonly string[]; readonly strategy?: PruneStrategy }> =
  v.object({
    thread_ids: v.pipe(listOf(uuid), v.maxLength(1000, "must name at most 1000 threads")),
    strategy: v.optional(strategy),
  });

const VALUES = "must be an object, a list of objects or null";

/** POST /threads/{thread_id}/state */
export const stateChange: Fields<StateChange> = v.object({
  values: v.optional(v.union([anyObject, v.array(anyObject)], VALUES)),
  as_node: v.optional(name),
  checkpoint: v.optional(checkpoint),
  checkpoint_id: v.optional(name),
});

/** PATCH /threads/{thread_id}/state */
export const stateNote: Fields<{ readonly metadata?: JsonObject }> = v.object({ metadata: v.optional(anyObject) });

/** How a state is read, and which of its fields are in the answer; `values.<key>` selects one value. */
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

/** `before` is a checkpoint id, a checkpoint, or a config with one. */
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

/** A checkpoint whose namespace may have U+0000 between its segments, as React hooks send it. */
const joined = v.pipe(
  owned<CheckpointSelector>({
    checkpoint_id: v.optional(name),
    checkpoint_ns: v.optional(
      v.pipe(
        v.string("must be a string"),
        v.check((ns) => ns.isWellFormed(), PLAIN),
      ),
    ),
    checkpoint_map: v.optional(anyObject),
  }),
  v.transform(({ checkpoint_ns: ns, ...rest }) =>
    ns === undefined ? rest : { ...rest, checkpoint_ns: ns.replaceAll("\0", "|") },
  ),
);

/** POST /threads/{thread_id}/history */
export const historySearch: Fields<HistoryQuery & Pick<StateOptions, "select">> = v.object({
  limit: page.limit,
  before: v.optional(before),
  metadata: v.optional(containment),
  checkpoint: v.optional(joined),
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

/** GET /threads/{thread_id}/stream. Clients send `stream_mode`; the published description has `stream_modes`. */
export const threadStreamQuery: Fields<{
  readonly stream_mode?: readonly ThreadStreamMode[];
  readonly stream_modes?: readonly ThreadStreamMode[];
}> = v.object({ stream_mode: v.optional(listOf(threadMode)), stream_modes: v.optional(listOf(threadMode)) });

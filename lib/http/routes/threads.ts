/** Defines the routes of threads and their states, and the schemas of their requests. */
import * as v from "valibot";
import { isObject, type JsonObject } from "../../json.ts";
import type { PruneStrategy, ThreadSort } from "../../storage/mod.ts";
import {
  type CheckpointSelector,
  type HistoryQuery,
  MAX_EXTRACT_PATHS,
  MAX_SUPERSTEPS,
  MAX_TTL_MINUTES,
  type StateChange,
  type Superstep,
  type Thread,
  type ThreadCreate,
  type ThreadExtra,
  type ThreadFilter,
  type ThreadPatch,
  type ThreadSearch,
  type TimeToLive,
} from "../../threads/mod.ts";
import { NOT_STORABLE } from "../../validation.ts";
import { createListResponse, createPageResponse } from "../json-list.ts";
import * as parse from "../parse.ts";
import { readThreadEventId } from "../request.ts";
import { jsonResponse, makeRepeatable, noContentResponse, PAGE_HEADERS, pickStateFields } from "../respond.ts";
import { createRouteGroup, type RequestContext, type Route, readPathSegment, readThreadId } from "../route.ts";
import { command } from "../run-request.ts";
import { createEventStreamResponse } from "../sse.ts";

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

const MINUTES_MESSAGE = `must be a number of minutes above 0, at most ${MAX_TTL_MINUTES}`;
const minutes = v.pipe(
  v.number(MINUTES_MESSAGE),
  v.gtValue(0, MINUTES_MESSAGE),
  v.maxValue(MAX_TTL_MINUTES, MINUTES_MESSAGE),
);
const strategy = parse.oneOf(["delete", "keep_latest"] satisfies PruneStrategy[]) as v.GenericSchema<PruneStrategy>;
const timeToLive = parse.withDescription(
  v.optional(
    v.union([minutes, parse.passthroughObject({ ttl: minutes, strategy: v.optional(strategy) })], ({ input }) =>
      typeof input === "object"
        ? "must hold ttl, a number of minutes above 0, and strategy: delete or keep_latest"
        : MINUTES_MESSAGE,
    ) as v.GenericSchema<number | TimeToLive>,
  ),
  "Time to live. A number is minutes until deletion. Default: `checkpointer.ttl`",
);

const stateUpdate = parse.passthroughObject({
  values: v.optional(parse.anyJson),
  command: v.optional(command),
  as_node: parse.name,
});
const supersteps = v.optional(
  v.pipe(
    parse.listSchema(
      parse.passthroughObject<Superstep>({
        updates: v.pipe(parse.listSchema(stateUpdate), v.minLength(1, "must hold an update")),
      }),
    ) as v.GenericSchema<Superstep[]>,
    v.maxLength(MAX_SUPERSTEPS, `must hold at most ${MAX_SUPERSTEPS} supersteps`),
  ),
);

/** POST /threads */
export const threadCreate: parse.FieldSchema<ThreadCreate> = v.object({
  thread_id: v.optional(parse.uuid),
  metadata: v.optional(parse.anyObject),
  if_exists: parse.withDescription(
    parse.ifExists,
    "`raise` (default): conflict when the id exists; `do_nothing`: the existing thread, unchanged",
  ),
  supersteps: parse.withDescription(
    supersteps,
    "Initial state: updates, applied by the graph that `metadata.graph_id` names",
  ),
  ttl: timeToLive,
});

/** PATCH /threads/{thread_id} */
export const threadPatch: parse.FieldSchema<ThreadPatch> = v.object({
  metadata: v.optional(parse.anyObject),
  ttl: timeToLive,
});

const include = v.optional(
  parse.listSchema(parse.oneOf(["ttl"] satisfies ThreadExtra[]) as v.GenericSchema<ThreadExtra>),
);

/** GET /threads/{thread_id}, and the query of a search */
const threadQuery = v.object({ include });

const threadFilter = {
  metadata: v.optional(parse.containment),
  values: parse.withDescription(v.optional(parse.containment), "Containment on the state's values"),
  status: v.optional(parse.threadStatus),
};

/** POST /threads/count */
export const threadCount: parse.FieldSchema<ThreadFilter> = v.object(threadFilter);

/** POST /threads/search. The service validates the paths of `extract`. */
export const threadSearch: parse.FieldSchema<ThreadSearch> = v.object({
  ...threadFilter,
  ids: v.optional(parse.listSchema(parse.uuid)),
  ...parse.pageFields,
  ...parse.sortFields<ThreadSort>(["thread_id", "status", "created_at", "updated_at", "state_updated_at"]),
  select: parse.withDescription(
    v.optional(parse.listSchema(parse.oneOf(THREAD_FIELDS))),
    "Only these fields of each thread; without `values` and `interrupts` no state is read",
  ),
  extract: parse.withDescription(
    v.optional(
      v.pipe(
        parse.anyObject,
        v.check((paths) => Object.values(paths).every((path) => typeof path === "string"), "must be paths by name"),
        v.check(
          (paths) => Object.keys(paths).length <= MAX_EXTRACT_PATHS,
          `must hold at most ${MAX_EXTRACT_PATHS} paths`,
        ),
      ) as unknown as v.GenericSchema<Record<string, string>>,
    ),
    'Paths by alias, such as `{"last": "values.messages[-1].content"}`. The values are in `extracted`',
  ),
  include,
});

/** POST /threads/prune */
export const threadPrune: parse.FieldSchema<{
  readonly thread_ids: readonly string[];
  readonly strategy?: PruneStrategy;
}> = v.object({
  thread_ids: v.pipe(parse.listSchema(parse.uuid), v.maxLength(1000, "must name at most 1000 threads")),
  strategy: v.optional(strategy),
});

/** POST /threads/{thread_id}/state */
export const stateUpdateBody: parse.FieldSchema<StateChange> = v.object({
  values: parse.withDescription(
    v.optional(v.union([parse.anyObject, v.array(parse.anyObject)], "must be an object, a list of objects or null")),
    "A list is applied in order. Without values only the edges of `as_node` apply",
  ),
  as_node: v.optional(parse.name),
  checkpoint: parse.withDescription(
    v.optional(parse.checkpoint),
    "The checkpoint that the update is based on; a new branch starts there. Default: the head",
  ),
  checkpoint_id: v.optional(parse.name),
});

/** PATCH /threads/{thread_id}/state */
export const statePatch: parse.FieldSchema<{ readonly metadata?: JsonObject }> = v.object({
  metadata: v.optional(parse.anyObject),
});

/** The options of a read of a state. `select` names its fields in the response. `values.<key>` selects one value. */
interface StateOptions {
  readonly subgraphs?: boolean;
  readonly select?: readonly string[];
}

/** POST /threads/{thread_id}/state/checkpoint */
export const checkpointStateQuery: parse.FieldSchema<{ readonly checkpoint: CheckpointSelector } & StateOptions> =
  v.object({
    checkpoint: parse.checkpoint,
    subgraphs: v.optional(parse.flag),
    select: stateSelect,
  });

/** The schema of `before`: a checkpoint id, a checkpoint, or a config with one. Its output is the id. */
const beforeCheckpoint = v.pipe(
  v.union(
    [
      parse.name,
      parse.passthroughObject({ checkpoint_id: parse.name }),
      parse.passthroughObject({ configurable: parse.passthroughObject({ checkpoint_id: parse.name }) }),
    ],
    "must be a checkpoint id or a checkpoint",
  ),
  v.transform((input) => {
    if (typeof input === "string") return input;
    const { configurable, checkpoint_id } = input as JsonObject;
    return (isObject(configurable) ? configurable.checkpoint_id : checkpoint_id) as string;
  }),
);

/** The schema of a checkpoint whose namespace may have U+0000 between its segments, as React hooks send it. */
const historyCheckpoint = v.pipe(
  parse.passthroughObject<CheckpointSelector>({
    checkpoint_id: v.optional(parse.name),
    checkpoint_ns: v.optional(
      v.pipe(
        v.string("must be a string"),
        v.check((ns) => ns.isWellFormed(), NOT_STORABLE),
      ),
    ),
    checkpoint_map: v.optional(parse.anyObject),
  }),
  v.transform(({ checkpoint_ns: ns, ...otherMembers }) =>
    ns === undefined ? otherMembers : { ...otherMembers, checkpoint_ns: ns.replaceAll("\0", "|") },
  ),
);

/** POST /threads/{thread_id}/history */
export const historySearch: parse.FieldSchema<HistoryQuery & Pick<StateOptions, "select">> = v.object({
  limit: parse.pageFields.limit,
  before: v.optional(beforeCheckpoint),
  metadata: v.optional(parse.containment),
  checkpoint: parse.withDescription(
    v.optional(historyCheckpoint),
    "With `checkpoint_ns`: the states of a subgraph. With `checkpoint_id`: only that state",
  ),
  select: stateSelect,
});

/** GET of a state */
const stateQuery = v.object({ subgraphs: v.optional(parse.flag), select: stateSelect });

/** GET /threads/{thread_id}/history */
const historyQuery = v.object({ limit: parse.pageFields.limit, before: v.optional(parse.name), select: stateSelect });

const threadMode = parse.oneOf(["run_modes", "lifecycle", "state_update"]);

/** GET /threads/{thread_id}/stream. Clients send `stream_mode`; the published description has `stream_modes`. */
const threadStreamQuery = v.object({
  stream_mode: v.optional(parse.listSchema(threadMode)),
  stream_modes: v.optional(parse.listSchema(threadMode)),
});

const defineRoute = createRouteGroup({ tag: "Threads", group: "threads" });

/**
 * Responds with the states of a thread, newest first (10 by default), as they are read; an empty list before the first state.
 * `select` names the fields of each, by default all. Throws `not_found` for an unknown thread.
 */
async function respondWithHistory(
  context: RequestContext,
  { select, ...search }: HistoryQuery & { readonly select?: readonly string[] },
): Promise<Response> {
  const thread_id = readThreadId(context);
  return await createListResponse(context, (add) =>
    context.resources.threads.historyEach(thread_id, search, (read) =>
      add(async () => (await read()).map((state) => pickStateFields(state, select))),
    ),
  );
}

/** Responds with a changed thread. A large one that does not fit the byte budget is dropped and read again later. */
const createThreadResponse = (context: RequestContext, thread: Thread): Response =>
  makeRepeatable(jsonResponse(thread), createThreadReader(context, thread.thread_id));

/** Returns a function that reads the thread again and responds with it. It does not refer to the dropped thread. */
const createThreadReader =
  ({ resources }: RequestContext, thread_id: string) =>
  async (): Promise<Response> =>
    jsonResponse(await resources.threads.get(thread_id));

const readOptions = { events: ["threads:read"], errors: [404] } as const;
export const THREAD_ROUTES: readonly Route[] = [
  defineRoute("post", "/threads", {
    summary: "Create a thread",
    access: "run",
    events: ["threads:create"],
    body: threadCreate,
    response: "Thread",
    errors: [409],
    async handle(context) {
      return createThreadResponse(context, await context.resources.threads.create(await context.body()));
    },
  }),
  defineRoute("post", "/threads/search", {
    summary: "Search threads",
    access: "read",
    events: ["threads:search"],
    body: threadSearch,
    query: threadQuery,
    response: "Thread[]",
    response_headers: PAGE_HEADERS,
    /**
     * Responds with one page of threads as they are read, with pagination headers; an empty list without matches. A member of the
     * body replaces that of the query.
     */
    async handle(context) {
      const search = { ...context.query(), ...(await context.body()) };
      return await createPageResponse(context, (steps) => context.resources.threads.searchEach(search, steps));
    },
  }),
  defineRoute("post", "/threads/count", {
    summary: "Count threads",
    access: "read",
    events: ["threads:search"],
    body: threadCount,
    response: "count",
    async handle(context) {
      return jsonResponse(await context.resources.threads.count(await context.body()));
    },
  }),
  defineRoute("post", "/threads/prune", {
    summary: "Delete threads, or all checkpoints except the newest state; threads with an active run are skipped",
    events: ["threads:delete"],
    body: threadPrune,
    response: "PrunedThreads",
    /**
     * Deletes the threads, or with the strategy `keep_latest` all of their checkpoints but the newest state. Skips unknown and busy
     * ones, and responds 200 with the number of the others as `pruned_count`.
     */
    async handle(context) {
      const { thread_ids, strategy } = await context.body();
      return jsonResponse({ pruned_count: await context.resources.threads.prune(thread_ids, strategy) });
    },
  }),
  defineRoute("post", "/threads/:thread_id/copy", {
    summary: "Copy a thread with all its checkpoints",
    events: ["threads:read", "threads:create"],
    response: "Thread",
    errors: [409],
    /** Copies the thread and responds with the new one, or with 409 if the thread is unknown. */
    async handle(context) {
      return createThreadResponse(context, await context.resources.threads.copy(readThreadId(context)));
    },
  }),
  defineRoute("get", "/threads/:thread_id", {
    summary: "Get a thread",
    ...readOptions,
    query: threadQuery,
    response: "Thread",
    async handle(context) {
      return jsonResponse(await context.resources.threads.get(readThreadId(context), context.query()));
    },
  }),
  defineRoute("patch", "/threads/:thread_id", {
    summary: "Merge metadata into a thread",
    events: ["threads:update"],
    body: threadPatch,
    request_headers: { Prefer: "`return=minimal` for an answer without a body" },
    response: "Thread",
    no_content: "Changed (`Prefer: return=minimal`)",
    errors: [404],
    /**
     * Merges `metadata` into the thread, and sets its time to live if the body has a `ttl`. Responds with the thread, or with 204 if
     * the header `Prefer` has `return=minimal`; 404 for an unknown thread.
     */
    async handle(context) {
      const thread_id = readThreadId(context);
      const patch = await context.body();
      const thread = await context.resources.threads.update(thread_id, patch);
      return /\breturn=minimal\b/i.test(context.request.headers.get("prefer") ?? "")
        ? noContentResponse()
        : createThreadResponse(context, thread);
    },
  }),
  defineRoute("delete", "/threads/:thread_id", {
    summary: "Delete a thread with its runs and checkpoints",
    events: ["threads:delete"],
    errors: [404],
    /** Deletes the thread, stops its active runs, and responds 204, or 404 for an unknown thread. */
    async handle(context) {
      await context.resources.threads.delete(readThreadId(context));
      return noContentResponse();
    },
  }),
  defineRoute("get", "/threads/:thread_id/state", {
    summary: "Get the state of a thread",
    ...readOptions,
    query: stateQuery,
    response: "ThreadState",
    /**
     * Responds with the current state, also before the first run: then its values are empty. `select` names its fields, by default
     * all. Responds 404 for an unknown thread.
     */
    async handle(context) {
      const { select, ...options } = context.query();
      return jsonResponse(
        pickStateFields(await context.resources.threads.state(readThreadId(context), options), select),
      );
    },
  }),
  defineRoute("post", "/threads/:thread_id/state", {
    summary: "Update the state of a thread as a node would, or fork it from a checkpoint",
    events: ["threads:update"],
    body: stateUpdateBody,
    response: "UpdatedState",
    errors: [404, 409],
    /**
     * Stores a changed state and responds with its checkpoint, as `checkpoint` and as `configurable`, without its map. Responds 404
     * for an unknown thread or checkpoint, 400 if no graph has run there, 409 while a run is active, and 422 if the graph refuses it.
     */
    async handle(context) {
      const thread_id = readThreadId(context);
      const change = await context.body();
      const { checkpoint_map: _, ...checkpoint } = await context.resources.threads.updateState(thread_id, change);
      // LangGraph's own clients read `configurable`.
      return jsonResponse({ checkpoint, configurable: checkpoint });
    },
  }),
  defineRoute("patch", "/threads/:thread_id/state", {
    summary: "Merge metadata into the newest checkpoint",
    events: ["threads:update"],
    body: statePatch,
    errors: [404],
    /**
     * Merges `metadata` into the metadata of the newest checkpoint, shallowly, and responds 204. Responds 404 for an unknown thread
     * and for one without a state, and 422 for a member that the service sets.
     */
    async handle(context) {
      const thread_id = readThreadId(context);
      const { metadata = {} } = await context.body();
      await context.resources.threads.patchState(thread_id, metadata);
      return noContentResponse();
    },
  }),
  defineRoute("get", "/threads/:thread_id/state/:checkpoint_id", {
    summary: "Get the state of a thread at a checkpoint",
    ...readOptions,
    query: stateQuery,
    response: "ThreadState",
    /** Responds with the state at the checkpoint, or 404. `select` names its fields, by default all. */
    async handle(context) {
      const checkpoint_id = readPathSegment(context, "checkpoint_id");
      const { select, ...options } = context.query();
      const state = await context.resources.threads.stateAt(readThreadId(context), { checkpoint_id }, options);
      return jsonResponse(pickStateFields(state, select));
    },
  }),
  defineRoute("post", "/threads/:thread_id/state/checkpoint", {
    summary: "Get the state of a thread at a checkpoint, including checkpoints of subgraphs",
    access: "read",
    ...readOptions,
    body: checkpointStateQuery,
    response: "ThreadState",
    /**
     * Responds with the state at the checkpoint in the body, or 404; creates nothing. `select` names its fields, by default all.
     */
    async handle(context) {
      const { checkpoint, select, ...options } = await context.body();
      const state = await context.resources.threads.stateAt(readThreadId(context), checkpoint, options);
      return jsonResponse(pickStateFields(state, select));
    },
  }),
  defineRoute("get", "/threads/:thread_id/history", {
    summary: "List the states of a thread, newest first",
    ...readOptions,
    query: historyQuery,
    response: "ThreadState[]",
    handle: (context) => respondWithHistory(context, context.query()),
  }),
  defineRoute("post", "/threads/:thread_id/history", {
    summary: "List the states of a thread, newest first, filtered",
    access: "read",
    ...readOptions,
    body: historySearch,
    response: "ThreadState[]",
    handle: async (context) => respondWithHistory(context, await context.body()),
  }),
  defineRoute("get", "/threads/:thread_id/storage", {
    summary: "Measure the stored size of a thread's checkpoints, in bytes",
    ...readOptions,
    response: "ThreadStorage",
    async handle(context) {
      return jsonResponse(await context.resources.threads.storage(readThreadId(context)));
    },
  }),
  defineRoute("get", "/threads/:thread_id/stream", {
    summary: "Stream the events of all runs of a thread, including later ones",
    ...readOptions,
    query: threadStreamQuery,
    request_headers: { "Last-Event-ID": "The last event seen; `-` or `-1` for all that are stored" },
    response: "stream",
    response_headers: ["Location"],
    /**
     * Streams the frames of the thread's runs after `Last-Event-ID`, without it only new ones, in the modes of `stream_mode` and
     * `stream_modes` together, by default `run_modes`. Ends when the thread is deleted. Responds 404 for an unknown thread.
     */
    async handle(context) {
      const thread_id = readThreadId(context);
      const { stream_mode = [], stream_modes = [] } = context.query();
      const after = readThreadEventId(context.request.headers);
      const options = { modes: [...stream_mode, ...stream_modes], after };
      const frames = await context.resources.threads.stream(thread_id, options);
      return createEventStreamResponse(context, frames, {
        ids: { thread_id },
        headers: { location: `/threads/${thread_id}/stream` },
      });
    },
  }),
];

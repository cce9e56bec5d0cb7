/** The routes of threads and their states. */
import { refuseForOthers, type Visibility } from "../../storage/visibility.ts";
import type { AuthorizeCopy, HistoryQuery } from "../../threads/mod.ts";
import { type RequestContext, segment, threadId } from "../context.ts";
import { readThreadEventId } from "../parse/headers.ts";
import {
  historyQuery,
  historySearch,
  stateAt,
  stateChange,
  stateNote,
  stateQuery,
  threadCount,
  threadCreate,
  threadPatch,
  threadPrune,
  threadQuery,
  threadSearch,
  threadStreamQuery,
} from "../parse/threads.ts";
import { empty, json, jsonList, PAGE_HEADERS, paged, selectedState } from "../respond.ts";
import { eventStream } from "../stream-response.ts";
import { type Route, routesOf } from "./route.ts";

const route = routesOf({ tag: "Threads", group: "threads" });

/** The thread of the path, and whether the caller may read it. */
async function authorized(context: RequestContext): Promise<{ thread_id: string; visibility: Visibility }> {
  const thread_id = threadId(context);
  return { thread_id, visibility: (await context.authorize({ thread_id })).visibility };
}

async function history(
  context: RequestContext,
  { select, ...search }: HistoryQuery & { readonly select?: readonly string[] },
): Promise<Response> {
  const { thread_id, visibility } = await authorized(context);
  const states = await context.service.threads.history(thread_id, search, visibility);
  return await jsonList(
    states.map((state) => selectedState(state, select)),
    context.turn,
  );
}

export const THREAD_ROUTES: readonly Route[] = [
  route("post", "/threads", {
    summary: "Create a thread",
    access: "run",
    events: ["threads:create"],
    body: threadCreate,
    answer: "Thread",
    errors: [409],
    async handle(context) {
      const { value, visibility } = await context.authorize(await context.body());
      return json(await context.service.threads.create(value, visibility));
    },
  }),
  route("post", "/threads/search", {
    summary: "Search threads",
    access: "read",
    events: ["threads:search"],
    body: threadSearch,
    query: threadQuery,
    answer: "Thread[]",
    answer_headers: PAGE_HEADERS,
    async handle(context) {
      const search = { ...context.query(), ...(await context.body()) };
      const { value, visibility } = await context.authorize(search);
      return paged(await context.service.threads.search(value, visibility));
    },
  }),
  route("post", "/threads/count", {
    summary: "Count threads",
    access: "read",
    events: ["threads:search"],
    body: threadCount,
    answer: "count",
    async handle(context) {
      const { value, visibility } = await context.authorize(await context.body());
      return json(await context.service.threads.count(value, visibility));
    },
  }),
  route("post", "/threads/prune", {
    summary: "Delete threads, or all checkpoints except the newest state; threads with an active run are skipped",
    events: ["threads:delete"],
    body: threadPrune,
    answer: "PrunedThreads",
    async handle(context) {
      const { value, visibility } = await context.authorize(await context.body());
      return json({ pruned_count: await context.service.threads.prune(value.thread_ids, value.strategy, visibility) });
    },
  }),
  route("post", "/threads/:thread_id/copy", {
    summary: "Copy a thread with all its checkpoints",
    events: ["threads:read", "threads:create"],
    answer: "Thread",
    errors: [409],
    async handle(context) {
      const { thread_id, visibility } = await authorized(context);
      const authorizeCopy: AuthorizeCopy = async (copy) => {
        const created = await context.authorize(copy, "threads:create");
        refuseForOthers(created.visibility, created.value.metadata);
        return created.value;
      };
      return json(await context.service.threads.copy(thread_id, authorizeCopy, visibility));
    },
  }),
  route("get", "/threads/:thread_id", {
    summary: "Get a thread",
    events: ["threads:read"],
    query: threadQuery,
    answer: "Thread",
    errors: [404],
    async handle(context) {
      const options = context.query();
      const { thread_id, visibility } = await authorized(context);
      return json(await context.service.threads.get(thread_id, options, visibility));
    },
  }),
  route("patch", "/threads/:thread_id", {
    summary: "Merge metadata into a thread",
    events: ["threads:update"],
    body: threadPatch,
    request_headers: { Prefer: "`return=minimal` for an answer without a body" },
    answer: "Thread",
    no_content: "Changed (`Prefer: return=minimal`)",
    errors: [404],
    async handle(context) {
      const thread_id = threadId(context);
      const patch = await context.body();
      const { value, visibility } = await context.authorize({ ...patch, thread_id });
      const { thread_id: _, ...changed } = value;
      const thread = await context.service.threads.update(thread_id, changed, visibility);
      return /\breturn=minimal\b/i.test(context.request.headers.get("prefer") ?? "") ? empty() : json(thread);
    },
  }),
  route("delete", "/threads/:thread_id", {
    summary: "Delete a thread with its runs and checkpoints",
    events: ["threads:delete"],
    errors: [404],
    async handle(context) {
      const { thread_id, visibility } = await authorized(context);
      await context.service.threads.delete(thread_id, visibility);
      return empty();
    },
  }),
  route("get", "/threads/:thread_id/state", {
    summary: "Get the state of a thread",
    events: ["threads:read"],
    query: stateQuery,
    answer: "ThreadState",
    errors: [404],
    async handle(context) {
      const { select, ...options } = context.query();
      const { thread_id, visibility } = await authorized(context);
      return json(selectedState(await context.service.threads.state(thread_id, options, visibility), select));
    },
  }),
  route("post", "/threads/:thread_id/state", {
    summary: "Update the state of a thread as a node would, or fork it from a checkpoint",
    events: ["threads:update"],
    body: stateChange,
    answer: "UpdatedState",
    errors: [404, 409],
    async handle(context) {
      const thread_id = threadId(context);
      const change = await context.body();
      const { value, visibility } = await context.authorize({ ...change, thread_id });
      const { thread_id: _, ...changed } = value;
      const updated = await context.service.threads.updateState(thread_id, changed, visibility);
      const { checkpoint_map: _map, ...checkpoint } = updated;
      // LangGraph's own clients read `configurable`.
      return json({ checkpoint, configurable: checkpoint });
    },
  }),
  route("patch", "/threads/:thread_id/state", {
    summary: "Merge metadata into the newest checkpoint",
    events: ["threads:update"],
    body: stateNote,
    errors: [404],
    async handle(context) {
      const thread_id = threadId(context);
      const { metadata = {} } = await context.body();
      const { value, visibility } = await context.authorize({ thread_id, metadata });
      await context.service.threads.patchState(thread_id, value.metadata, visibility);
      return empty();
    },
  }),
  route("get", "/threads/:thread_id/state/:checkpoint_id", {
    summary: "Get the state of a thread at a checkpoint",
    events: ["threads:read"],
    query: stateQuery,
    answer: "ThreadState",
    errors: [404],
    async handle(context) {
      const checkpoint_id = segment(context, "checkpoint_id");
      const { select, ...options } = context.query();
      const { thread_id, visibility } = await authorized(context);
      const state = await context.service.threads.stateAt(thread_id, { checkpoint_id }, options, visibility);
      return json(selectedState(state, select));
    },
  }),
  route("post", "/threads/:thread_id/state/checkpoint", {
    summary: "Get the state of a thread at a checkpoint, including checkpoints of subgraphs",
    access: "read",
    events: ["threads:read"],
    body: stateAt,
    answer: "ThreadState",
    errors: [404],
    async handle(context) {
      const { checkpoint, select, ...options } = await context.body();
      const { thread_id, visibility } = await authorized(context);
      const state = await context.service.threads.stateAt(thread_id, checkpoint, options, visibility);
      return json(selectedState(state, select));
    },
  }),
  route("get", "/threads/:thread_id/history", {
    summary: "List the states of a thread, newest first",
    events: ["threads:read"],
    query: historyQuery,
    answer: "ThreadState[]",
    errors: [404],
    handle: (context) => history(context, context.query()),
  }),
  route("post", "/threads/:thread_id/history", {
    summary: "List the states of a thread, newest first, filtered",
    access: "read",
    events: ["threads:read"],
    body: historySearch,
    answer: "ThreadState[]",
    errors: [404],
    handle: async (context) => history(context, await context.body()),
  }),
  route("get", "/threads/:thread_id/storage", {
    summary: "Measure the stored size of a thread's checkpoints, in bytes",
    events: ["threads:read"],
    answer: "ThreadStorage",
    errors: [404],
    async handle(context) {
      const { thread_id, visibility } = await authorized(context);
      return json(await context.service.threads.storage(thread_id, visibility));
    },
  }),
  route("get", "/threads/:thread_id/stream", {
    summary: "Stream the events of all runs of a thread, including later ones",
    events: ["threads:read"],
    query: threadStreamQuery,
    request_headers: { "Last-Event-ID": "The last event seen; `-` or `-1` for all that are stored" },
    answer: "stream",
    answer_headers: ["Location"],
    errors: [404],
    async handle(context) {
      const thread_id = threadId(context);
      const { stream_mode = [], stream_modes = [] } = context.query();
      const after = readThreadEventId(context.request.headers);
      const { visibility } = await context.authorize({ thread_id });
      const options = { modes: [...stream_mode, ...stream_modes], after };
      const frames = await context.service.threads.stream(thread_id, options, visibility);
      return eventStream(context, frames, { thread_id }, { location: `/threads/${thread_id}/stream` });
    },
  }),
];

/** The routes of threads and their states. */
import { refuseForOthers } from "../../storage/visibility.ts";
import type { MayCopy, Threads } from "../../threads/mod.ts";
import { body, query, type RequestContext, type Routes, segment, threadId } from "../context.ts";
import * as parse from "../parse/mod.ts";
import { empty, json, jsonList, paged, selectedState } from "../respond.ts";
import { ownedBy } from "../shared-access.ts";

type Name =
  | "create"
  | "get"
  | "update"
  | "delete"
  | "copy"
  | "prune"
  | "search"
  | "count"
  | "state"
  | "updateState"
  | "patchState"
  | "stateAt"
  | "stateAtId"
  | "history"
  | "historySearch"
  | "storage";

export function threadRoutes(threads: Threads): Routes<Name> {
  const read = async (call: RequestContext) => {
    const thread_id = threadId(call);
    return { thread_id, ...(await call.authorize("threads:read", { thread_id })) };
  };
  return {
    async create(call) {
      const { value, visibility } = await call.authorize(
        "threads:create",
        ownedBy(call, await body(call, parse.threadCreate)),
      );
      return json(await threads.create(value, visibility));
    },
    async get(call) {
      const options = query(call, parse.threadQuery);
      const { thread_id, visibility } = await read(call);
      return json(await threads.get(thread_id, options, visibility));
    },
    async update(call) {
      const thread_id = threadId(call);
      const patch = await body(call, parse.threadPatch);
      const { value, visibility } = await call.authorize("threads:update", { ...patch, thread_id });
      const { thread_id: _, ...changed } = value;
      const thread = await threads.update(thread_id, changed, visibility);
      return /\breturn=minimal\b/i.test(call.request.headers.get("prefer") ?? "") ? empty() : json(thread);
    },
    async delete(call) {
      const thread_id = threadId(call);
      const { visibility } = await call.authorize("threads:delete", { thread_id });
      await threads.delete(thread_id, visibility);
      return empty();
    },
    async copy(call) {
      const { thread_id, visibility } = await read(call);
      const made: MayCopy = async (copy) => {
        const its = await call.authorize("threads:create", ownedBy(call, copy));
        refuseForOthers(its.visibility, its.value.metadata);
        return its.value;
      };
      return json(await threads.copy(thread_id, made, visibility));
    },
    async prune(call) {
      const request = await body(call, parse.threadPrune);
      const { value, visibility } = await call.authorize("threads:delete", request);
      return json({ pruned_count: await threads.prune(value.thread_ids, value.strategy, visibility) });
    },
    async search(call) {
      const search = { ...query(call, parse.threadQuery), ...(await body(call, parse.threadSearch)) };
      const { value, visibility } = await call.authorize("threads:search", search);
      return paged(await threads.search(value, visibility));
    },
    async count(call) {
      const { value, visibility } = await call.authorize("threads:search", await body(call, parse.threadCount));
      return json(await threads.count(value, visibility));
    },
    async state(call) {
      const { select, ...options } = query(call, parse.stateQuery);
      const { thread_id, visibility } = await read(call);
      return json(selectedState(await threads.state(thread_id, options, visibility), select));
    },
    async updateState(call) {
      const thread_id = threadId(call);
      const change = await body(call, parse.stateChange);
      const { value, visibility } = await call.authorize("threads:update", { ...change, thread_id });
      const { thread_id: _, ...changed } = value;
      const { checkpoint_map: _map, ...checkpoint } = await threads.updateState(thread_id, changed, visibility);
      // Clients of LangGraph read it as a config.
      return json({ checkpoint, configurable: checkpoint });
    },
    async patchState(call) {
      const thread_id = threadId(call);
      const { metadata = {} } = await body(call, parse.stateNote);
      const { value, visibility } = await call.authorize("threads:update", { thread_id, metadata });
      await threads.patchState(thread_id, value.metadata, visibility);
      return empty();
    },
    async stateAt(call) {
      const { checkpoint, select, ...options } = await body(call, parse.stateAt);
      const { thread_id, visibility } = await read(call);
      return json(selectedState(await threads.stateAt(thread_id, checkpoint, options, visibility), select));
    },
    async stateAtId(call) {
      const checkpoint_id = segment(call, "checkpoint_id");
      const { select, ...options } = query(call, parse.stateQuery);
      const { thread_id, visibility } = await read(call);
      return json(selectedState(await threads.stateAt(thread_id, { checkpoint_id }, options, visibility), select));
    },
    async history(call) {
      const { select, ...search } = query(call, parse.historyQuery);
      const { thread_id, visibility } = await read(call);
      const states = await threads.history(thread_id, search, visibility);
      return await jsonList(
        states.map((state) => selectedState(state, select)),
        call.turn,
      );
    },
    async storage(call) {
      const { thread_id, visibility } = await read(call);
      return json(await threads.storage(thread_id, visibility));
    },
    async historySearch(call) {
      const { select, ...search } = await body(call, parse.historySearch);
      const { thread_id, visibility } = await read(call);
      const states = await threads.history(thread_id, search, visibility);
      return await jsonList(
        states.map((state) => selectedState(state, select)),
        call.turn,
      );
    },
  };
}

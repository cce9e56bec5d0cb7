/** The routes of threads and their states. */
import type { Threads } from "../threads.ts";
import { body, built, type Call, query, type Routes, segment, threadId } from "./call.ts";
import { ownedBy } from "./guests.ts";
import * as parse from "./parse/mod.ts";
import { empty, json, paged, selectedState } from "./respond.ts";

type Name =
  | "create"
  | "get"
  | "update"
  | "delete"
  | "search"
  | "count"
  | "state"
  | "stateAt"
  | "stateAtId"
  | "history"
  | "historySearch";

export function threadRoutes(threads: Threads): Routes<Name> {
  const read = async (call: Call) => {
    const thread_id = threadId(call);
    return { thread_id, ...(await call.may("threads:read", { thread_id })) };
  };
  return {
    async create(call) {
      const request = built(await body(call, parse.threadCreate), "supersteps", "ttl");
      const { value, reach } = await call.may("threads:create", ownedBy(call, request));
      return json(await threads.create(value, reach));
    },
    async get(call) {
      const { thread_id, reach } = await read(call);
      return json(await threads.get(thread_id, reach));
    },
    async update(call) {
      const thread_id = threadId(call);
      const patch = built(await body(call, parse.threadPatch), "ttl");
      const { value, reach } = await call.may("threads:update", { ...patch, thread_id });
      const thread = await threads.update(thread_id, value, reach);
      return /\breturn=minimal\b/i.test(call.request.headers.get("prefer") ?? "") ? empty() : json(thread);
    },
    async delete(call) {
      const thread_id = threadId(call);
      const { reach } = await call.may("threads:delete", { thread_id });
      await threads.delete(thread_id, reach);
      return empty();
    },
    async search(call) {
      const search = built(await body(call, parse.threadSearch), "extract");
      const { value, reach } = await call.may("threads:search", search);
      return paged(await threads.search(value, reach));
    },
    async count(call) {
      const { value, reach } = await call.may("threads:search", await body(call, parse.threadCount));
      return json(await threads.count(value, reach));
    },
    async state(call) {
      const { select, ...options } = query(call, parse.stateQuery);
      const { thread_id, reach } = await read(call);
      return json(selectedState(await threads.state(thread_id, options, reach), select));
    },
    async stateAt(call) {
      const { checkpoint, select, ...options } = await body(call, parse.stateAt);
      const { thread_id, reach } = await read(call);
      return json(selectedState(await threads.stateAt(thread_id, checkpoint, options, reach), select));
    },
    async stateAtId(call) {
      const checkpoint_id = segment(call, "checkpoint_id");
      const { select, ...options } = query(call, parse.stateQuery);
      const { thread_id, reach } = await read(call);
      return json(selectedState(await threads.stateAt(thread_id, { checkpoint_id }, options, reach), select));
    },
    async history(call) {
      const { select, ...search } = query(call, parse.historyQuery);
      const { thread_id, reach } = await read(call);
      const states = await threads.history(thread_id, search, reach);
      return json(states.map((state) => selectedState(state, select)));
    },
    async historySearch(call) {
      const { select, ...search } = await body(call, parse.historySearch);
      const { thread_id, reach } = await read(call);
      const states = await threads.history(thread_id, search, reach);
      return json(states.map((state) => selectedState(state, select)));
    },
  };
}

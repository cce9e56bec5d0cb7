/** Feedback as one caller may use it: it is visible where its run's thread is, and changing it changes that thread. */
import type { Binding, Directory } from "../auth/binding.ts";
import type { Scope } from "../storage/mod.ts";
import type { Feedback } from "./mod.ts";

export function bindFeedback(feedback: Directory<Feedback>, { authorize }: Binding): Feedback {
  const read = async (value: object = {}): Promise<Scope> =>
    (await authorize("threads:read", { thread_id: null, ...value })).scope;
  const change = async (value: object = {}): Promise<Scope> =>
    (await authorize("threads:update", { thread_id: null, ...value })).scope;

  return {
    async mintTokens(by, requests) {
      const run_ids = requests.map(({ run_id }) => run_id);
      return await feedback.mintTokens(await change({ metadata: { run_ids } }), by, requests);
    },
    listTokens: async (by, query) => await feedback.listTokens(await read({ run_id: query.run_id }), by, query),
    async create(by, request) {
      const run_ids = request.run_id === undefined ? [] : [request.run_id];
      return await feedback.create(await change({ metadata: { run_ids } }), by, request);
    },
    get: async (by, id) => await feedback.get(await read({ feedback_id: id }), by, id),
    update: async (by, id, patch) => await feedback.update(await change({ feedback_id: id }), by, id, patch),
    delete: async (by, id) => await feedback.delete(await change({ feedback_id: id }), by, id),
    list: async (by, query) => await feedback.list(await read({ run_ids: query.run_ids ?? null }), by, query),
    stats: async (by, query) => await feedback.stats(await read({ run_ids: query.run_ids ?? null }), by, query),
    scores: async (by, query) => await feedback.scores(await read(), by, query),
    links: async (by, query) => await feedback.links(await read(), by, query),
    revokeLink: async (by, id) => await feedback.revokeLink(await change(), by, id),
  };
}

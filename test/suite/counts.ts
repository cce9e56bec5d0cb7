/** Counts of searches, as callers get them: a page without rows. */
import type { AssistantQuery, CronQuery, Scope, Storage, ThreadQuery } from "../../lib/storage/mod.ts";
import { COUNT_ONLY } from "../../lib/storage/rows.ts";

export const countAssistants = async (storage: Storage, scope: Scope, query: AssistantQuery): Promise<number> =>
  (await storage.searchAssistants(scope, { ...query, ...COUNT_ONLY })).total;

export const countThreads = async (storage: Storage, scope: Scope, query: ThreadQuery): Promise<number> =>
  (await storage.searchThreads(scope, { ...query, ...COUNT_ONLY })).total;

export const countCrons = async (storage: Storage, scope: Scope, query: CronQuery): Promise<number> =>
  (await storage.searchCrons(scope, { ...query, ...COUNT_ONLY })).total;

/** One feedback record, as callers read it: a list of one id. */
import type { FeedbackRow, Scope, Storage } from "../../lib/storage/mod.ts";

export async function getFeedback(
  storage: Storage,
  workspace_ids: readonly string[],
  id: string,
  scope?: Scope,
): Promise<FeedbackRow | null> {
  const query = { workspace_ids, ids: [id], limit: 1, offset: 0 };
  return (await storage.listFeedback(scope ? { ...query, scope } : query))[0] ?? null;
}

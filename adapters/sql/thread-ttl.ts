/** The time to live of threads: its columns. pruning.ts deletes what has expired. */
import type { SqlFeatureFor } from "./feature.ts";

export const threadTtl: SqlFeatureFor<"thread_ttl", Record<never, never>, { threads: "ttl_strategy" | "ttl_ms" }> = {
  threadColumns: { ttl_strategy: ({ ttl }) => ttl?.strategy ?? null, ttl_ms: ({ ttl }) => ttl?.ttl_ms ?? null },
};

/** The time to live of threads: its columns. pruning.ts deletes what has expired. */
import type { Feature } from "./feature.ts";

export const threadTtl: Feature<never> = {
  name: "thread_ttl",
  threadColumns: { ttl_strategy: ({ ttl }) => ttl?.strategy ?? null, ttl_ms: ({ ttl }) => ttl?.ttl_ms ?? null },
};

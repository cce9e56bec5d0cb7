/** The default time to live of threads, and the job that prunes expired threads. */
import type { FeatureOf } from "../features/mod.ts";
import type { InternalThreads } from "./mod.ts";
import { parseTtl, type TimeToLive } from "./thread.ts";

const MAX_EXPIRED_THREADS = 100;

type Ttl = Pick<TimeToLive, "strategy"> & { readonly default_ttl?: number; readonly sweep_interval_minutes?: number };

/**
 * Creates the feature that gives new threads a default time to live, if one is set, and deletes or reduces expired threads at
 * intervals, every 5 minutes by default; also those with a time to live of their own.
 */
export function threadTtlFeature({
  options,
}: {
  readonly options: { readonly checkpointer?: { readonly ttl?: Ttl } };
}): FeatureOf<"thread_ttl"> {
  const { default_ttl, strategy = "delete", sweep_interval_minutes = 5 } = options.checkpointer?.ttl ?? {};
  return {
    thread: default_ttl === undefined ? {} : { ttl: parseTtl({ ttl: default_ttl, strategy }) },
    job: {
      interval_ms: sweep_interval_minutes * 60_000,
      failure: "pruning expired threads failed",
      step: ({ threads }: { readonly threads: Pick<InternalThreads, "expire"> }) => threads.expire(MAX_EXPIRED_THREADS),
    },
  };
}

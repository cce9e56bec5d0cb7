/** The retention jobs of a service. */
import { type RetentionJob, startRetentionJob } from "../engine/retention.ts";
import type { Environment } from "../environment.ts";
import { DEFAULTS, type ServiceOptions } from "../options.ts";
import type { Scope, Storage } from "../storage/mod.ts";
import type { ThreadDirectory } from "../threads/mod.ts";
import type { Usage } from "../usage/mod.ts";
import { withDefaults } from "../validation.ts";

export interface RetentionJobsOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly options: ServiceOptions;
  readonly usage: Pick<Usage, "seal">;
  readonly threads: Pick<ThreadDirectory, "expire">;
}

const EVERY_MS = 5_000;
const MINUTE_MS = 60_000;
const MOST_ROWS = 500;
const MOST_THREADS = 100;

export function startRetentionJobs(given: RetentionJobsOptions): readonly RetentionJob[] {
  const { storage, scope, environment, options, usage, threads } = given;
  const retention = withDefaults(DEFAULTS.retention, options.retention);
  const { sweep_interval_minutes: thread_minutes = 5 } = options.checkpointer?.ttl ?? {};
  const { sweep_interval_minutes: item_minutes = 5 } = options.store?.ttl ?? {};
  const start = (every_ms: number, failure: string, step: () => Promise<number>): RetentionJob =>
    startRetentionJob({ environment, every_ms, failure, step });
  return [
    start(EVERY_MS, "retention job failed", () => {
      const now = environment.now();
      return storage.sweep(scope, {
        temporary_before: now - retention.stateless_ms,
        frames_before: now - retention.frames_ms,
        keys_before: now - retention.idempotency_ms,
        tokens_before: now - retention.tokens_ms,
        deliveries_before: now - retention.deliveries_ms,
        limit: MOST_ROWS,
        now,
      });
    }),
    start(EVERY_MS, "summing usage by hour failed", async () => {
      // One call sums all hours that are over.
      await usage.seal();
      return 0;
    }),
    start(item_minutes * MINUTE_MS, "deleting expired store items failed", () =>
      storage.sweepItems(scope, environment.now(), MOST_ROWS),
    ),
    start(thread_minutes * MINUTE_MS, "pruning expired threads failed", () => threads.expire(MOST_THREADS)),
  ];
}

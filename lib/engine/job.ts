/** Builds the job that an executor gets from the row of a run. */
import type { AuthUser, CheckpointHandle, Job, StoreHandle, StreamMode } from "../executor/contract.ts";
import { headersIn, type JobRequest, knowing } from "../executor/kwargs.ts";
import type { RunRow } from "../storage/mod.ts";

export interface JobSource {
  readonly run: RunRow;
  readonly resumed: boolean;
  readonly request: Omit<JobRequest, "stream_mode" | "resumable">;
  /** The stream modes of the request. */
  readonly requested: ReadonlySet<StreamMode>;
  /** The worker records the states of the executor. */
  readonly recorded: boolean;
  readonly checkpoints: CheckpointHandle;
  readonly store: StoreHandle;
}

export function describeJob({ run, resumed, request, requested, recorded, checkpoints, store }: JobSource): Job {
  const { run_id, thread_id, assistant_id, graph_id, temporary, attempt } = run;
  const modes = new Set(requested);
  // The worker derives these modes from others.
  if (modes.delete("messages")) modes.add("messages-tuple");
  if (recorded && modes.has("debug")) modes.add("tasks");
  const ids = { run_id, thread_id, assistant_id, graph_id };
  const metadata = { ...headersIn(request.config.configurable), ...run.metadata, ...ids };
  const user = run.auth_user as AuthUser | null;
  const config = user ? knowing(request.config, user) : request.config;
  return {
    ...request,
    ...ids,
    config,
    temporary,
    attempt,
    resumed,
    metadata,
    modes,
    events: "none",
    user,
    checkpoints,
    store,
  };
}

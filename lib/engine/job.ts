/** Builds the job that an executor gets from the row of a run. */
import type { AuthUser, CheckpointHandle, Job, StoreHandle, StreamMode } from "../executor/contract.ts";
import { headersIn, type JobRequest, knowing } from "../executor/kwargs.ts";
import type { RunRow } from "../storage/mod.ts";

export interface JobSource {
  readonly run: RunRow;
  readonly resumed: boolean;
  readonly request: Omit<JobRequest, "stream_mode" | "resumable" | "all_events">;
  /** The stream modes of the request. */
  readonly requested: ReadonlySet<StreamMode>;
  /** The events of the event protocol that the run records. */
  readonly events: NonNullable<Job["events"]>;
  /** The executor yields them itself. */
  readonly protocol_events: boolean;
  readonly checkpoints: CheckpointHandle;
  readonly store: StoreHandle;
}

/** The stream modes that events are derived from. */
const DERIVED: readonly StreamMode[] = ["messages-tuple", "updates", "custom", "tasks"];

export function describeJob(source: JobSource): Job {
  const { run, resumed, request, requested, events, checkpoints, store } = source;
  const { run_id, thread_id, assistant_id, graph_id, temporary, attempt } = run;
  const modes = new Set(requested);
  // The worker derives this mode from the other.
  if (modes.delete("messages")) modes.add("messages-tuple");
  // Without events of its own, the executor's frames are turned into events.
  if (events === "all" && !source.protocol_events) for (const mode of DERIVED) modes.add(mode);
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
    events,
    user,
    checkpoints,
    store,
  };
}

/** Creates the parts of an attempt. Each gets the parts that it needs, and calls the attempt through its control. */

import type { AuthUser, GraphInfo, Job, StreamMode } from "../executor/contract.ts";
import { createJobCheckpoints, type JobCheckpoints } from "../executor/job-checkpoints.ts";
import { createJobConfig, type JobRequest, mergeContext, readKwargs } from "../executor/job-request.ts";
import type { WriteBarrier } from "../executor/write-barrier.ts";
import type { AttemptJournal, AttemptSpans } from "../features/mod.ts";
import type { ClaimedRun } from "../storage/mod.ts";
import type { RunLog } from "../streams/hub.ts";
import type { AttemptOptions, WorkerSlot } from "./attempt-options.ts";
import type { AttemptState } from "./attempt-state.ts";
import { EventMapper } from "./event-mapper.ts";
import { createEventRecorder, type EventRecorder } from "./event-recorder.ts";
import { createLeaseRetry, Heartbeat, type LeaseRetry } from "./leases.ts";
import { OutputBuffer } from "./output-buffer.ts";
import { ProgressWriter } from "./progress-writer.ts";
import { readState } from "./run-states.ts";

/**
 * The interface of an attempt for its parts. `on…` methods report an event and return at once; the others are commands and
 * queries.
 */
export interface AttemptControl {
  /** Reports that the run's cancel flag is set. */
  onCancelled(): void;
  /** Reports that the lease is lost, or that the storage does not recover. */
  onLeaseLost(): void;
  /** Reports that the executor has suspended the run, whose job's signal is then aborted. */
  onSuspended(): void;
  /** Reports progress to save. */
  onProgress(): void;
  /**
   * Saves everything that a save may take, because the executor waits for the commit. Resolves when it is committed, or when that
   * failed.
   */
  saveAll(): Promise<void>;
  /** Renews a lease that ends soon, before an external effect. Resolves when it is held, or when the attempt stops. */
  ensureLease(): Promise<void>;
  /** Returns true if further events of the executor are not emitted, because the attempt stops. */
  isOutputEnded(): boolean;
}

interface AttemptBasis {
  readonly options: AttemptOptions;
  readonly slot: WorkerSlot;
  readonly graph: GraphInfo;
  readonly claimed: ClaimedRun;
  readonly runLog: RunLog;
  readonly state: AttemptState;
}

export interface AttemptParts extends AttemptBasis {
  readonly retry: LeaseRetry;
  readonly heartbeat: Heartbeat;
  readonly checkpoints: JobCheckpoints;
  readonly journal: AttemptJournal | undefined;
  readonly spans: AttemptSpans | undefined;
  readonly output: OutputBuffer;
  readonly progress: ProgressWriter;
  readonly job: Job;
  readonly recorder: EventRecorder | null;
  readonly mapper: EventMapper;
}

/**
 * Creates the parts of an attempt and connects them with its `control`. Reads no rows and starts nothing but the timer of the
 * heartbeat. Sets where the ids of the run's log continue.
 */
export function createAttemptParts(basis: AttemptBasis, barrier: WriteBarrier, control: AttemptControl): AttemptParts {
  const { options, graph, claimed, state } = basis;
  const { lease_ms, prices } = options;
  const { run, lease, resumed } = claimed;
  const request = mergeContext(readKwargs(run.kwargs));
  const recorded = selectRecordedMethods(options, claimed, request);
  const isOutputEnded = (): boolean => control.isOutputEnded();

  const retry = createLeaseRetry(options, state, lease);
  const heartbeat = new Heartbeat({
    ...options,
    lease,
    until: run.updated_at + lease_ms,
    onCancelled: () => control.onCancelled(),
    onLost: () => control.onLeaseLost(),
  });
  const checkpoints = createCheckpoints(basis, { request, barrier, retry, control });
  const journal = options.features.journal({
    claimed,
    retry,
    save: () => control.saveAll(),
    isOutputEnded,
    ensureLease: () => control.ensureLease(),
    abortSuspended: () => control.onSuspended(),
  });
  const spans = options.features.spans({ claimed, onDue: () => control.onProgress() });
  const output = createOutput(basis, recorded, barrier, control);
  const progress = new ProgressWriter({
    ...options,
    ...{ lease, barrier, checkpoints, output, journal, spans, retry },
    scheduleSave: basis.slot.scheduleSave,
    onlyAtEnd: request.durability === "exit",
    mayNotWrite: () => !state.mayWrite,
    onLost: () => control.onLeaseLost(),
  });
  const jobMembers = { ...createJobMembers(basis, request, recorded), checkpoints, store: options.store };
  const job: Job = {
    ...jobMembers,
    ...(journal ? { journal } : {}),
    ...(spans ? { trace: spans.recorder } : {}),
  };
  const recorder = createEventRecorder({
    ...{ ...options, graph, claimed, job, retry },
    record: (event, isEnd) => output.emitEvent(event, isEnd),
  });
  const requested: ReadonlySet<StreamMode> = new Set(request.stream_mode);
  const emitsResumedValues = run.claims > 1 && resumed && requested.has("values");
  const mapper = new EventMapper({
    ...{ requested, output, recorder, prices },
    resumedValues: emitsResumedValues ? async () => (await readState({ options, claimed, checkpoints }))?.values : null,
    isOutputEnded,
  });
  return { ...basis, retry, heartbeat, checkpoints, journal, spans, output, progress, job, recorder, mapper };
}

/**
 * Returns which thread events the attempt records: `none` for a stateless run or thread, `all` if the thread, the request or an
 * open reader in this process needs all, else `state`.
 */
function selectRecordedMethods(
  { events }: AttemptOptions,
  { run, thread }: ClaimedRun,
  request: JobRequest,
): NonNullable<Job["events"]> {
  if (run.stateless || thread.stateless) return "none";
  // A reader that opened before the thread existed could not set its `records_all`.
  return thread.records_all || request.records_all || events.isWatched(run.thread_id) ? "all" : "state";
}

interface CheckpointParts {
  readonly request: JobRequest;
  readonly barrier: WriteBarrier;
  readonly retry: LeaseRetry;
  readonly control: AttemptControl;
}

/**
 * Creates the checkpoints of the job. Each of their reads is retried while the lease holds, and then renews a lease that ends
 * soon.
 */
function createCheckpoints(
  { options, claimed }: AttemptBasis,
  { request, barrier, retry, control }: CheckpointParts,
): JobCheckpoints {
  const { storage, scope, environment } = options;
  const { run, thread, resumed } = claimed;
  // The process may have stalled during a read: an executor must not begin with a lease that is over.
  /** Retries a read while the lease holds, and renews a lease that ends soon before it resolves. */
  const readWithLease: typeof retry = async (read) => {
    const value = await retry(read);
    await control.ensureLease();
    return value;
  };
  return createJobCheckpoints({
    ...{ storage, scope, resumed, barrier, retry: readWithLease },
    thread_id: run.thread_id,
    run_id: run.run_id,
    head: thread.head,
    sync: request.durability === "sync" && !run.stateless,
    now: () => environment.now(),
    onAdded: () => control.onProgress(),
    save: () => control.saveAll(),
  });
}

/**
 * Creates the output buffer. Readers in other processes are unknown: with several processes, all recorded events may have
 * readers.
 */
function createOutput(
  { options, slot, claimed, runLog }: AttemptBasis,
  recorded: NonNullable<Job["events"]>,
  barrier: WriteBarrier,
  control: AttemptControl,
): OutputBuffer {
  const { storage, events: logs } = options;
  const { run_id, thread_id } = claimed.run;
  return new OutputBuffer({
    ...{ claimed, runLog, barrier, counters: slot.counters },
    hasEventReaders: () => logs.isWatched(thread_id) || (recorded === "all" && storage.multi_process === true),
    /** Publishes the events for subscribers of the thread in this process. Does nothing if there are none. */
    publishEvents(before, list) {
      if (!logs.isWatched(thread_id)) return;
      const published = list.map((event) => ({ ...event, run_id }));
      logs.publish(thread_id, before, published);
    },
    onAwaitedOutput: () => control.onProgress(),
  });
}

/** The stream modes that events are derived from. */
const DERIVED_EVENT_MODES: readonly StreamMode[] = ["messages-tuple", "updates", "custom", "tasks"];

/**
 * Returns the members of the job: the request without what only the engine uses, the ids, the user, and the configuration and
 * metadata that the graph receives. Requests more stream modes than the client if the engine derives frames or thread events from
 * them; `messages` is always `messages-tuple`.
 */
function createJobMembers(
  { graph, claimed }: AttemptBasis,
  { stream_mode, resumable: _resumable, records_all: _all, ...request }: JobRequest,
  events: NonNullable<Job["events"]>,
): Omit<Job, "checkpoints" | "store"> {
  const { run, resumed } = claimed;
  const { run_id, thread_id, assistant_id, graph_id, stateless, attempt } = run;
  const modes = new Set(stream_mode);
  // The engine derives mode `messages` from `messages-tuple`.
  if (modes.delete("messages")) modes.add("messages-tuple");
  // Frames of executors without protocol events are converted to events.
  if (events === "all" && !graph.protocol_events) for (const mode of DERIVED_EVENT_MODES) modes.add(mode);
  const ids = { run_id, thread_id, assistant_id, graph_id };
  const user = run.auth_user as AuthUser | null;
  return {
    ...request,
    ...ids,
    ...createJobConfig(run, request.config),
    stateless,
    attempt,
    resumed,
    modes,
    events,
    user,
  };
}

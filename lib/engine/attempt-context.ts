/** The parts of one attempt: its job, its state, its lease, its checkpoints and what it shows. */
import { type Environment, pause } from "../environment.ts";
import { type JobCheckpoints, jobCheckpoints } from "../executor/checkpoints.ts";
import type {
  AuthUser,
  Executor,
  GraphInfo,
  Job,
  StateEvent,
  StoreHandle,
  StreamMode,
  Task,
  ThreadState,
} from "../executor/contract.ts";
import { type JobRequest, jobConfig, mergeContext, ofRun, readKwargs } from "../executor/kwargs.ts";
import { recordedState, reopened } from "../executor/recorded-states.ts";
import { WriteBarrier } from "../executor/write-barrier.ts";
import type { AttemptJournal, RunFeatures } from "../features/mod.ts";
import type { Bus } from "../storage/bus.ts";
import type {
  ClaimedRun,
  ClaimRequest,
  FinishOutcome,
  RunRow,
  Scope,
  Storage,
  TerminalStatus,
} from "../storage/mod.ts";
import type { RunEvents, StreamHub } from "../streams/hub.ts";
import type { ThreadEventLogs } from "../streams/thread-events.ts";
import { createEventMapper, createEventRecorder, type EventMapper, type EventRecorder, type Prices } from "./events.ts";
import type { OnRunFinished } from "./finished-runs.ts";
import { type Heartbeat, startHeartbeat } from "./leases.ts";
import { OutputBuffer, type OutputBufferOptions } from "./output-buffer.ts";
import { ProgressWriter } from "./progress-writer.ts";
import type { ScheduleSave } from "./save-scheduler.ts";

/** Why the signal of a job was aborted. */
export type StopReason = "cancelled" | "rolled_back" | "timed_out" | "shutting_down" | "lease_lost";

export interface AttemptOptions {
  readonly storage: Storage;
  readonly bus: Bus;
  readonly scope: Scope;
  readonly executor: Executor;
  readonly hub: StreamHub;
  readonly events: ThreadEventLogs;
  readonly store: StoreHandle;
  readonly environment: Environment;
  readonly lease_ms: number;
  /** The time limit of an attempt, unless its graph sets one. */
  readonly run_timeout_ms: number;
  readonly prices: Prices;
  readonly features: RunFeatures;
  /** The end of a run is stored. */
  readonly onFinished?: OnRunFinished;
}

/** The slot of the worker in which an attempt executes. */
export interface WorkerSlot {
  /** Executors of this process that are still at work on the thread, for leases that are lost. A claim sent before may be late. */
  readonly earlier: readonly Promise<void>[];
  readonly counters: AttemptCounters;
  readonly scheduleSave: ScheduleSave;
  /** The event loop has not ticked for some time. */
  isLoopStuck(): boolean;
  /** The run waits until this time. */
  wakeAt(time: number): void;
  /** A claim for the next run in this slot, to be sent with the end of this run; null while no run is known to wait. */
  nextClaim(): NextClaim | null;
  /** Runs are known to wait, for a slot or for their threads. */
  hasWaitingRuns(): boolean;
  /** The attempt has ended. Readers of its result may create the next run at once, which takes this slot. */
  left(): void;
}

export interface NextClaim {
  readonly request: ClaimRequest;
  /** Takes the answer; undefined if the call failed. */
  answered(outcome: FinishOutcome | undefined): void;
}

interface AttemptCounters {
  frames_shown: number;
  frames_stored: number;
  leases_lost: number;
  readonly ended: Record<TerminalStatus, number>;
}

interface AttemptState {
  /** Why the attempt must stop; null while it need not. A lost lease replaces every other reason. */
  reason: StopReason | null;
  /** The newest barrier when the attempt was stopped. What was put before that is still stored, so its output is still emitted. */
  stopPosition: number;
  /** `settled`: the executor has returned or was abandoned. `ending`: the end of the run is being stored. */
  phase: "executing" | "settled" | "ending";
  /** The executor ignored its signal for too long. */
  abandoned: boolean;
  /** Stops waiting for the executor's next event. */
  abandonWait: (() => void) | undefined;
  readonly abort: AbortController;
  /** Resolves when the executor has settled or was abandoned. */
  readonly done: PromiseWithResolvers<void>;
}

export interface AttemptContext {
  readonly options: AttemptOptions;
  readonly slot: WorkerSlot;
  readonly graph: GraphInfo;
  readonly claimed: ClaimedRun;
  readonly runEvents: RunEvents;
  readonly state: AttemptState;
  readonly job: Job;
  readonly checkpoints: JobCheckpoints;
  readonly journal: AttemptJournal | undefined;
  readonly output: OutputBuffer;
  readonly progress: ProgressWriter;
  readonly mapper: EventMapper;
  readonly recorder: EventRecorder | null;
  readonly heartbeat: Heartbeat;
  /** How long the executor may ignore its signal. */
  readonly abandon_ms: number;
  stop(reason: StopReason): boolean;
  isLost(): boolean;
  /** Repeats a failing call of the store for as long as a lease lasts. */
  retry<Answer>(call: () => Promise<Answer>): Promise<Answer>;
}

/** Shorter where no other process can execute the thread. */
const ABANDON_MS = 5_000;
const ABANDON_SINGLE_PROCESS_MS = 1_000;
/** The pause between two tries of a failing call. */
const RETRY_MS = 500;
/** The time limit of retries while the process shuts down. */
const SHUTDOWN_RETRY_MS = 1_000;

/** This process must write nothing more for the run. */
const isLoss = (reason: StopReason | null): boolean => reason === "lease_lost" || reason === "rolled_back";

export function createContext(
  options: AttemptOptions,
  slot: WorkerSlot,
  graph: GraphInfo,
  claimed: ClaimedRun,
): AttemptContext {
  const { storage, scope, environment, lease_ms } = options;
  const { run, thread, lease, resumed } = claimed;
  const { run_id, thread_id, stateless } = run;
  const request = mergeContext(readKwargs(run.kwargs));
  const requested: ReadonlySet<StreamMode> = new Set(request.stream_mode);
  const abandon_ms = graph.abandon_ms ?? (storage.single_process ? ABANDON_SINGLE_PROCESS_MS : ABANDON_MS);
  const runEvents = options.hub.runEvents(run_id);
  const state = initialState();
  // A reader that opened before the thread existed could not set its `records_all`.
  const all = thread.records_all || request.records_all || options.events.isWatched(thread_id);
  const events = stateless || thread.stateless ? "none" : all ? "all" : "state";
  const retry = createRetry(options, state, { run_id, thread_id });
  const barrier = new WriteBarrier();
  const isLost = (): boolean => isLoss(state.reason);
  const isOutputEnded = (): boolean => isLost() || (isStopped(state) && barrier.isPassed(state.stopPosition));
  const onLost = (): void => {
    // The answer to the end that is being stored says whether the lease was lost.
    if (state.phase !== "ending") stop("lease_lost");
  };

  function stop(why: StopReason): boolean {
    const { reason } = state;
    if (reason && (isLoss(reason) || !isLoss(why))) return reason === why;
    if (isLoss(why)) {
      checkpoints.refuseWrites();
      heartbeat.stop();
      if (why === "lease_lost") slot.counters.leases_lost++;
    } else if (state.phase !== "executing") {
      return false;
    }
    if (!reason) {
      abandonLater(environment, abandon_ms, state, checkpoints);
      state.stopPosition = barrier.newest;
    }
    state.reason = why;
    state.abort.abort(why);
    return true;
  }

  const checkpoints = jobCheckpoints({
    storage,
    scope,
    thread_id,
    run_id,
    head: thread.head,
    resumed,
    sync: request.durability === "sync" && !stateless,
    now: () => environment.now(),
    retry,
    barrier,
    onAdded: () => progress.scheduleSave(),
    save: () => progress.save("all"),
  });
  const journal = options.features.journal({
    claimed,
    retry,
    save: () => progress.save("all"),
    isLost: isOutputEnded,
    ensureLease: async () => await ensureLease(context),
    abandon: () => state.abort.abort("suspended"),
  });
  const output = new OutputBuffer({
    claimed,
    runEvents,
    counters: slot.counters,
    barrier,
    ...eventReaders(options, claimed, events),
    onAwaitedOutput: () => progress.scheduleSave(),
  });
  const progress = new ProgressWriter({
    ...{ storage, scope, environment, lease, barrier, checkpoints, output, journal },
    scheduleSave: slot.scheduleSave,
    onlyAtEnd: request.durability === "exit",
    retry,
    isLost,
    onLost,
  });
  const described = describeJob(options, graph, claimed, request, events, checkpoints);
  const job = journal ? { ...described, journal } : described;
  const recorder = createEventRecorder({
    ...options,
    graph,
    claimed,
    job,
    retry,
    record: (event, end) => output.emitEvent(event, end),
  });
  const showsResumed = run.claims > 1 && resumed && requested.has("values");
  const mapper = createEventMapper({
    requested,
    resumedValues: showsResumed ? async () => (await readState(context))?.values : null,
    output,
    recorder,
    prices: options.prices,
    isStopped: isOutputEnded,
  });
  const heartbeat = startHeartbeat({
    ...options,
    lease,
    until: run.updated_at + lease_ms,
    onCancelled: () => stop("cancelled"),
    onLost,
  });
  const context: AttemptContext = {
    options,
    slot,
    graph,
    claimed,
    runEvents,
    state,
    job,
    checkpoints,
    journal,
    output,
    progress,
    mapper,
    recorder,
    heartbeat,
    abandon_ms,
    stop,
    isLost,
    retry,
  };
  return context;
}

/** An executor that ignores its signal must not hold its slot for ever. */
function abandonLater(
  environment: Environment,
  after_ms: number,
  state: AttemptState,
  checkpoints: JobCheckpoints,
): void {
  const cancel = environment.timer(after_ms, () => {
    state.abandoned = true;
    checkpoints.refuseWrites();
    state.abandonWait?.();
  });
  void state.done.promise.then(cancel);
}

/** Who reads the events of the thread. Readers of other processes are not known here. */
const eventReaders = (
  { events, storage }: AttemptOptions,
  { run: { run_id, thread_id } }: ClaimedRun,
  recorded: NonNullable<Job["events"]>,
): Pick<OutputBufferOptions, "hasEventReaders" | "publishEvents"> => ({
  hasEventReaders: () => events.isWatched(thread_id) || (recorded === "all" && storage.multi_process === true),
  publishEvents(before, list) {
    if (!events.isWatched(thread_id)) return;
    const published = list.map((event) => ({ ...event, run_id }));
    events.publish(thread_id, before, published);
  },
});

const initialState = (): AttemptState => ({
  reason: null,
  stopPosition: 0,
  phase: "executing",
  abandoned: false,
  abandonWait: undefined,
  abort: new AbortController(),
  done: Promise.withResolvers<void>(),
});

/** Renews a lease that ends, until it holds or the attempt stops. Undefined where it holds. */
export const ensureLease = (context: AttemptContext): Promise<void> | undefined =>
  context.heartbeat.isEnding() ? renewed(context) : undefined;

async function renewed({ options: { environment }, state, heartbeat }: AttemptContext): Promise<void> {
  while (!state.reason && heartbeat.isEnding()) {
    if (!(await heartbeat.renew()) && !isStopped(state)) await pause(environment, RETRY_MS);
  }
}

export const isStopped = ({ reason }: AttemptState): boolean => reason !== null;

function createRetry(
  { environment, lease_ms }: AttemptOptions,
  state: AttemptState,
  run: Pick<RunRow, "run_id" | "thread_id">,
): AttemptContext["retry"] {
  return async (call) => {
    const wasLost = isLoss(state.reason);
    for (let failures = 1; ; failures++) {
      try {
        return await call();
      } catch (error) {
        environment.log({ level: "error", message: "a storage call of a run failed", ...run, error });
        const limit = state.reason === "shutting_down" ? Math.min(lease_ms, SHUTDOWN_RETRY_MS) : lease_ms;
        // Tries are counted, because a process that stood still knows nothing about the store.
        if (isLoss(state.reason) !== wasLost || (failures - 1) * RETRY_MS >= limit) throw error;
        await pause(environment, RETRY_MS);
      }
    }
  };
}

/** The stream modes that events are derived from. */
const DERIVED: readonly StreamMode[] = ["messages-tuple", "updates", "custom", "tasks"];

function describeJob(
  { store }: AttemptOptions,
  { protocol_events }: GraphInfo,
  { run, resumed }: ClaimedRun,
  { stream_mode, resumable: _resumable, records_all: _all, ...request }: JobRequest,
  events: NonNullable<Job["events"]>,
  checkpoints: JobCheckpoints,
): Job {
  const { run_id, thread_id, assistant_id, graph_id, stateless, attempt } = run;
  const modes = new Set(stream_mode);
  // The worker derives this mode from the other.
  if (modes.delete("messages")) modes.add("messages-tuple");
  // Without events of its own, the executor's frames are turned into events.
  if (events === "all" && !protocol_events) for (const mode of DERIVED) modes.add(mode);
  const ids = { run_id, thread_id, assistant_id, graph_id };
  const user = run.auth_user as AuthUser | null;
  const own = jobConfig(run, request.config);
  return { ...request, ...ids, ...own, stateless, attempt, resumed, modes, events, user, checkpoints, store };
}

/** The newest root checkpoint of the run, from this attempt or an earlier one. */
export async function reachedCheckpoint({ checkpoints, claimed }: AttemptContext): Promise<string | null> {
  const own = checkpoints.root();
  if (own !== null || !claimed.resumed) return own;
  return (await checkpoints.get({ ns: "" }))?.checkpoint_id ?? null;
}

/** The state at the run's newest checkpoint. */
async function reachedState(context: AttemptContext): Promise<StateEvent | null> {
  const checkpoint_id = await reachedCheckpoint(context);
  const state = checkpoint_id === null ? null : await readState(context);
  return checkpoint_id !== null && state ? { ...state, type: "state", checkpoint: { ns: "", checkpoint_id } } : null;
}

/** The last state of a stopped run: the one it reported, unless it has stored a newer one. */
export async function lastState(context: AttemptContext): Promise<StateEvent | null> {
  const reported = context.mapper.last();
  const checkpoint_id = await reachedCheckpoint(context);
  // With durability `exit` a cancelled run has put none.
  if (reported && (reported.checkpoint?.checkpoint_id ?? null) === checkpoint_id) return reported;
  return checkpoint_id === null ? null : ((await reachedState(context)) ?? reported);
}

/** The state of the thread before the run: it stays the thread's state if the run reached none. */
export async function stateBefore(context: AttemptContext): Promise<StateEvent | null> {
  const { run, thread } = context.claimed;
  const state = thread.head === null || run.stateless ? null : await readState(context, thread.head);
  return state && { type: "state", values: state.values, next: state.next, tasks: state.tasks };
}

/**
 * The run has failed or was stopped, and had answered interrupts: they are pending again. States of graphs say so themselves, because
 * the tasks that raised them have no result.
 */
export async function reopen({ options, claimed, checkpoints }: AttemptContext): Promise<void> {
  const { run_id, graph_id } = claimed.run;
  if (options.executor.state?.(graph_id)) return;
  const newest = await checkpoints.get({ ns: "" });
  const again = newest?.run_id === run_id ? reopened(newest, options.environment) : null;
  if (again) checkpoints.append(again);
}

/** The tasks of the state that the run leaves. */
export async function pendingTasks(context: AttemptContext): Promise<readonly Task[]> {
  return (await readState(context))?.tasks ?? [];
}

/** The state at a checkpoint, or the newest one of the run; null if it cannot be read. */
async function readState(context: AttemptContext, checkpoint_id?: string): Promise<ThreadState | null> {
  const { options, claimed, checkpoints } = context;
  const { run } = claimed;
  const at = { thread_id: run.thread_id, ns: "", ...(checkpoint_id === undefined ? {} : { checkpoint_id }) };
  try {
    const reader = options.executor.state?.(run.graph_id) ?? recordedState;
    return await reader.get(at, checkpoints, { subgraphs: false, config: async () => ofRun(run) });
  } catch {
    return null;
  }
}

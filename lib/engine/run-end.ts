/** Stores the end of an attempt: its run ends, waits, or returns to the queue. */
import { ResumeError, type StateEvent, type Task } from "../executor/contract.ts";
import type { SpansEnd } from "../features/mod.ts";
import { type Json, type JsonObject, pickScalars } from "../json.ts";
import type { FinishRun, FinishRunResult, Suspension, TerminalStatus, TraceUsage } from "../storage/mod.ts";
import {
  closeRunLog,
  countTrailerFrames,
  type Trailer,
  toErrorBody,
  toWaitResult,
} from "../streams/run-subscription.ts";
import type { AttemptParts } from "./attempt-parts.ts";
import {
  findNewestRunCheckpoint,
  readLastState,
  readPendingTasks,
  readStateBefore,
  reopenInterrupts,
} from "./run-states.ts";

/** Publishes the end of an attempt to subscribers and the host. */
export type PublishEnd = () => void;

/**
 * Returns the run to the queue, from which any process retries it. Its log stays open, so that subscribers reconnect. Resolves to
 * false if the lease is lost.
 */
export async function requeueRun({ options, claimed, spans, journal, mapper, retry }: AttemptParts): Promise<boolean> {
  const { storage, scope, environment } = options;
  const report = journal?.isOpen ? mapper.retryReport : mapper;
  const trace = spans?.release(createContinuedEnd("requeued", report.usage()));
  return await retry(() =>
    timeCommit({ options, spans }, () => storage.requeueRun(scope, claimed.lease, environment.now(), trace)),
  );
}

/** Calls a commit, and notes the time that it took. */
async function timeCommit<Result>(
  { options: { environment }, spans }: Pick<AttemptParts, "options" | "spans">,
  commit: () => Promise<Result>,
): Promise<Result> {
  if (!spans) return await commit();
  const monotonic = environment.monotonic ?? environment.now;
  const from = monotonic();
  const result = await commit();
  spans.onCommit(monotonic() - from);
  return result;
}

/** Returns the end of an attempt whose run continues. Its claim does not count as an attempt. */
const createContinuedEnd = (status: "requeued" | "suspended", usage: TraceUsage | null): SpansEnd => ({
  ...{ status, isWaiting: false, counted: false, usage },
});

/**
 * Stores the last progress and suspends the run without a slot until a time or an event; its next attempt continues the call.
 * Returns the function that publishes the output and wakes the worker at that time, or null if the lease is lost.
 */
export async function suspendRun(parts: AttemptParts, suspension: Suspension): Promise<PublishEnd | null> {
  const { options, slot, claimed, progress, spans, mapper, retry } = parts;
  const { storage, scope, environment } = options;
  const unsaved = progress.drainUnsaved();
  const trace = spans?.release(createContinuedEnd("suspended", mapper.usage()));
  const terms = { ...suspension, progress: trace ? { ...unsaved.progress, spans: trace } : unsaved.progress };
  const suspended = await retry(() =>
    timeCommit(parts, () => storage.suspendRun(scope, claimed.lease, terms, environment.now())),
  );
  if (!suspended) return null;
  return () => {
    unsaved.publish();
    slot.wakeAt(suspended.due_at);
  };
}

/**
 * Ends the run and stores the last progress with it. `failure` is the error of the executor, undefined if it returned. Returns
 * the function that publishes the end, closes the log, logs an error and calls the hooks; null if the lease is lost.
 */
export async function finishRun(parts: AttemptParts, failure: unknown): Promise<PublishEnd | null> {
  const { options, claimed, recorder, journal, spans, progress, output, mapper, slot } = parts;
  const { run } = claimed;
  const runEnd = await findRunEnd(parts, failure);
  const { status, error, last, remainingNodes } = runEnd.result;
  const discard = run.stateless && (progress.hasSavedState() || claimed.resumed);
  await recorder?.recordEnd({ status, error, isWaiting: remainingNodes.length > 0, failure });
  journal?.end();
  const unsaved = progress.drainUnsaved();
  const trace = spans?.end({
    ...{ status, isWaiting: remainingNodes.length > 0, counted: !claimed.cancelled && !claimed.exhausted },
    usage: mapper.usage(),
    ...(error ? { error: { name: error["error"], message: error["message"] } } : {}),
  });
  const trailer: Trailer = { frames: options.features.trailer(run), error };
  const result = createRunResult(runEnd);
  const end: FinishRun = {
    ...{ claims: run.claims, status, error, discard },
    ...(error && failure instanceof Error && failure.stack ? { stack: failure.stack.slice(0, MAX_STACK_CHARS) } : {}),
    result: run.stateless ? result : null,
    progress: run.stateless ? { ...unsaved.progress, checkpoints: [], writes: [] } : unsaved.progress,
    thread: createThreadEnd(runEnd, failure, run.stateless),
    end_frame: output.nextFrameId + countTrailerFrames(trailer),
    ...options.features.finish(run, last?.values, mapper),
    ...(trace ? { trace } : {}),
    ...(run.cron_id === undefined ? {} : { cron_id: run.cron_id }),
    has_waiting_runs: slot.hasWaitingRuns(),
    // The time is equal in every try, so that it identifies one that took effect without a response.
    now: options.environment.now(),
  };
  if (!(await storeEnd(parts, end))) return null;
  return () => {
    reportEnd(parts, end, failure);
    unsaved.publish();
    closeRunLog(parts.runLog, { status, result }, trailer, end.end_frame);
    options.features.onFinishStored(run);
    spans?.onEndStored();
    options.onFinished?.(run, { status, ended_at: end.now, error });
  };
}

const MAX_STACK_CHARS = 16_000;

interface AttemptResult {
  readonly status: TerminalStatus;
  readonly error: JsonObject | null;
  /** The last state; null if the run reached none. */
  readonly last: StateEvent | null;
  /** The nodes that remain to be executed after the last state. */
  readonly remainingNodes: readonly string[];
  /** True if the run was cancelled after it had reached a state. */
  readonly stoppedMidway: boolean;
}

/**
 * Returns the status, the error and the last state of the attempt: `interrupted` if it was cancelled, `timeout`, `error` or
 * `success`. For a cancelled run, reads the state that it reached, or else that before the run.
 */
async function createAttemptResult(parts: AttemptParts, failure: unknown): Promise<AttemptResult> {
  const { state, graph, options, mapper } = parts;
  const reported = mapper.getLastState();
  if (state.reason === "cancelled") {
    const reachedState = await readLastState(parts, reported);
    const last = reachedState ?? (await readStateBefore(parts));
    return {
      status: "interrupted",
      error: null,
      last,
      remainingNodes: last?.next ?? [],
      stoppedMidway: reachedState !== null,
    };
  }
  const common = { last: reported, remainingNodes: reported?.next ?? [], stoppedMidway: false };
  if (state.reason === "timed_out") {
    const message = `The run took longer than ${graph.timeout_ms ?? options.run_timeout_ms} ms`;
    return { ...common, status: "timeout", error: { error: "RunTimeout", message } };
  }
  const error = toErrorBody(failure, reported);
  return { ...common, status: error ? "error" : "success", error };
}

/** The interrupts that are pending after the run. */
interface Interrupts {
  readonly byTask: readonly (readonly [task_id: string, interrupts: Json])[];
  readonly list: readonly JsonObject[];
  /** True if a resumed task has raised an interrupt and failed, so that the interrupt waits for another resume value. */
  readonly isPendingAgain: boolean;
}

/**
 * Returns the pending interrupts: of the last state, or read from the checkpoints if a run that resumed some has failed.
 * `resumesInterrupts` is true if the run has resumed interrupts.
 */
async function findInterrupts(
  parts: AttemptParts,
  { error, last }: AttemptResult,
  resumesInterrupts: boolean,
): Promise<Interrupts> {
  // A task that failed after its answer waits for another one. The last state is older, so only a read finds its interrupt.
  const tasks: readonly Task[] = resumesInterrupts && error ? await readPendingTasks(parts) : (last?.tasks ?? []);
  const interrupted = tasks.filter(({ interrupts }) => interrupts.length > 0);
  const list = interrupted.flatMap(({ interrupts }): readonly JsonObject[] => interrupts);
  return {
    byTask: interrupted.map(({ id, interrupts }) => [id, interrupts as unknown as Json]),
    list,
    isPendingAgain: resumesInterrupts && error !== null && list.length > 0,
  };
}

interface RunEnd {
  readonly result: AttemptResult;
  readonly interrupts: Interrupts;
  /** The checkpoint that becomes the head of the thread. */
  readonly head: string | null;
}

/**
 * Determines result, interrupts and head of a run. If it resumed interrupts and did not succeed, makes them pending again with a
 * new checkpoint and records them as requested.
 */
async function findRunEnd(parts: AttemptParts, failure: unknown): Promise<RunEnd> {
  const { job, state, recorder } = parts;
  const resumesInterrupts = !(failure instanceof ResumeError) && (job.resume_targets ?? []).length > 0;
  if (resumesInterrupts && (state.isStopped || failure !== undefined)) await reopenInterrupts(parts);
  const result = await createAttemptResult(parts, failure);
  const interrupts = await findInterrupts(parts, result, resumesInterrupts);
  if (interrupts.isPendingAgain) recorder?.recordRequests(interrupts.list);
  const { error, last } = result;
  const head = (error ? null : last?.checkpoint?.checkpoint_id) ?? (await findNewestRunCheckpoint(parts));
  return { result, interrupts, head };
}

/**
 * Returns the result of wait and join: `{ __error__ }` for a failed run, else the values of its last state with its pending
 * interrupts.
 */
function createRunResult({ result, interrupts }: RunEnd): Json {
  const { error, last, remainingNodes, stoppedMidway } = result;
  return error
    ? { __error__: error }
    : toWaitResult(last?.values ?? {}, remainingNodes, interrupts.list, stoppedMidway);
}

/**
 * Returns the changes of the thread at the end of the run: its head, status, interrupts and error and, if it has a head and the
 * run is not stateless, the scalar values of that state. These are null if the last state is not the head.
 */
function createThreadEnd(
  { result, interrupts, head }: RunEnd,
  failure: unknown,
  stateless: boolean,
): FinishRun["thread"] {
  const { error, last } = result;
  const isHead = last?.checkpoint?.checkpoint_id === head;
  return {
    head,
    status: findThreadStatus(result, interrupts, failure),
    interrupts: Object.fromEntries(interrupts.byTask),
    error: interrupts.isPendingAgain ? null : error,
    ...(head === null || stateless ? {} : { scalars: isHead ? pickScalars(last?.values) : null }),
  };
}

/**
 * Returns the new status of the thread: `error`, `interrupted` if nodes or interrupts wait, or `idle`. Returns null if it does
 * not change, because the resume value was refused.
 */
function findThreadStatus(
  { error, remainingNodes }: AttemptResult,
  { isPendingAgain }: Interrupts,
  failure: unknown,
): FinishRun["thread"]["status"] {
  if (error && failure instanceof ResumeError) return null;
  if (error && !isPendingAgain) return "error";
  return remainingNodes.length > 0 || isPendingAgain ? "interrupted" : "idle";
}

/**
 * Stores the end, with a claim for the next run in this slot, and passes the outcome to that claim. Returns false if the lease is
 * lost, true also if an earlier try took effect although it was reported as failed.
 */
async function storeEnd(parts: AttemptParts, end: FinishRun): Promise<boolean> {
  const { options, slot, claimed, retry } = parts;
  const { storage, scope } = options;
  let tries = 0;
  const finished = await retry(async () => {
    tries++;
    const claim = slot.nextClaim();
    let outcome: FinishRunResult | undefined;
    try {
      const request = claim ? { ...end, next: claim.request } : end;
      outcome = await timeCommit(parts, () => storage.finishRun(scope, claimed.lease, request));
    } finally {
      claim?.onResponse(outcome);
    }
    return outcome;
  });
  if (finished || tries === 1) return finished !== null;
  // An earlier try may have taken effect although the storage reported a failure.
  const row = await retry(() => storage.getRun(scope, claimed.run.run_id));
  const { claims, status, end_frame, now } = end;
  return row?.claims === claims && row.status === status && row.end_frame === end_frame && row.ended_at === now;
}

/** Adds one to the counter of the end's status, and logs an error if the run has failed or timed out. */
function reportEnd({ options, slot, claimed }: AttemptParts, { status, error }: FinishRun, failure: unknown): void {
  slot.counters.ended[status]++;
  if (!error) return;
  const { run_id, thread_id, graph_id, attempt } = claimed.run;
  const cause = status === "timeout" ? error["message"] : (failure ?? error["message"]);
  const ids = { run_id, thread_id, graph_id, attempt };
  options.environment.log({ level: "error", message: "a run failed", ...ids, error: cause });
}

/** One attempt of a run, from its claim to its end. attempt-context.ts connects its parts. */
import { loopTick, pause, withTimeout } from "../environment.ts";
import { type ExecutorEvent, type GraphInfo, ResumeRefused, type StateEvent, type Task } from "../executor/contract.ts";
import { CoroutineEvents } from "../executor/coroutine.ts";
import { type Json, type JsonObject, scalarsOf } from "../json.ts";
import type { ClaimedRun, FinishOutcome, FinishRun, Suspension, TerminalStatus } from "../storage/mod.ts";
import type { RunEvents } from "../streams/hub.ts";
import { closeRunEvents, endGone, errorBody, type Tail, tailLength, waitResult } from "../streams/run-subscription.ts";
import {
  type AttemptContext,
  type AttemptOptions,
  createContext,
  ensureLease,
  isStopped,
  lastState,
  pendingTasks,
  reachedCheckpoint,
  reopen,
  type StopReason,
  stateBefore,
  type WorkerSlot,
} from "./attempt-context.ts";
import type { LeasedAttempt } from "./leases.ts";

/** An attempt, as the worker sees it. */
export interface Attempt extends LeasedAttempt {
  readonly run_id: string;
  readonly thread_id: string;
  readonly runEvents: RunEvents;
  /** Resolves when the executor has settled or was abandoned, and the end of the run is stored. */
  readonly done: Promise<void>;
  /** Resolves when the executor has settled or was abandoned; null after that. */
  readonly executing: Promise<void> | null;
  /** True if the attempt stops for this reason. A lost lease replaces every other reason: nothing may be written then. */
  stop(reason: StopReason): boolean;
  /** Reads the run's cancel flag again: another process may have set it. */
  checkCancelled(): void;
  /** Stores the recorded events within milliseconds: a client reads the events of the thread. */
  saveSoon(): void;
  /** Resolves when what subscribers were shown is stored, or cannot be stored soon. */
  flushShown(): Promise<void>;
}

/** Starts in the next microtask, so that a stop which arrives first has no side effects. */
export function startAttempt(
  options: AttemptOptions,
  slot: WorkerSlot,
  graph: GraphInfo,
  claimed: ClaimedRun,
): Attempt {
  const context = createContext(options, slot, graph, claimed);
  const { runEvents, state, heartbeat, isLost } = context;
  const { run_id, thread_id } = claimed.run;
  runEvents.live = true;
  const done = run(context);
  return {
    run_id,
    thread_id,
    runEvents,
    done,
    get executing() {
      return state.phase === "executing" ? state.done.promise : null;
    },
    stop: context.stop,
    checkCancelled() {
      if (state.phase !== "ending" && !isLost()) heartbeat.checkCancelled();
    },
    saveSoon: () => context.progress.scheduleSave(),
    flushShown: () => flushShown(context, done),
    isExpired: (now) => heartbeat.isExpired(now) && !(state.phase !== "executing" && isLost()),
    async beforeClaim() {
      if (!isLost() && !(await heartbeat.renew()) && !isLost()) {
        if (state.phase !== "ending") throw new Error("A lease could not be renewed");
        // The end may be stored already: then the run has no lease that could be renewed.
        await done;
      }
      // The renewal may have found the lease lost, while the executor is still at work.
      if (isLost()) await state.done.promise;
    },
  };
}

/** Never rejects: an error becomes the status of the run, or the run keeps its lease until another claim retries it. */
async function run(context: AttemptContext): Promise<void> {
  await undefined;
  const { options, claimed, state, checkpoints, journal, output, progress, heartbeat, isLost } = context;
  try {
    let failure: unknown;
    try {
      await begin(context);
      await executeJob(context);
    } catch (error) {
      failure = error ?? new Error("The graph failed without an error");
    }
    state.phase = "settled";
    state.done.resolve();
    journal?.close();
    // Held frames of a stopped run describe a state that it did not reach.
    if (state.reason) output.dropHeldOutput();
    else output.releaseOutput();
    await progress.close(state.reason === "shutting_down");
    // An abandoned executor must not write any more.
    checkpoints.refuseWrites();
    if (!isLost()) {
      const suspension = failure || state.reason ? null : (journal?.suspension ?? null);
      if (state.reason === "shutting_down") await requeueRun(context);
      else await (suspension ? suspendRun(context, suspension) : finishRun(context, failure));
    }
  } catch {
    // The store failed, and `retry` has logged it. The run is retried after its lease has expired.
  }
  heartbeat.stop();
  if (isLost() || state.reason === "shutting_down" || journal?.suspension) {
    const isRetried = state.reason === "shutting_down" || state.reason === "lease_lost";
    const report = isRetried && journal?.isOpen ? context.mapper.retried : context.mapper;
    await options.features.left(claimed.run, report);
  }
  if (isLost()) await releaseThread(context).catch(() => {});
  context.slot.left();
}

/** Shows the `metadata` frame before the graph starts, because its first step may block the event loop. */
async function begin(context: AttemptContext): Promise<void> {
  const { options, slot, claimed, state, output, progress, runEvents } = context;
  const { run_id, thread_id, attempt, claims, resumable } = claimed.run;
  if (slot.earlier.length > 0) await Promise.all(slot.earlier);
  const renewing = ensureLease(context);
  if (renewing) await renewing;
  if (state.reason) return;
  const resumed_after = output.nextFrameId - 1;
  const reading = context.recorder?.begin();
  if (reading) {
    await reading;
    // The process may have stood still meanwhile.
    await ensureLease(context);
  }
  if (isStopped(state)) return;
  output.emitFrame("metadata", { run_id, attempt, thread_id, ...(claims > 1 ? { resumed_after } : {}) });
  if (!runEvents.watched) return;
  if (resumable) await progress.save("all");
  // The response is built in one tick of the event loop, and its bytes leave in the next.
  await loopTick(options.environment);
  await loopTick(options.environment);
  // The process may have stalled during these ticks.
  await ensureLease(context);
}

/** The lease is lost: frees the slot of the thread, because the executor has settled. */
async function releaseThread({ options, claimed, state, runEvents, retry }: AttemptContext): Promise<void> {
  const { storage, scope, environment } = options;
  const { run_id, thread_id } = claimed.run;
  const message = "run was taken over, rolled back or deleted; result dropped";
  environment.log({ level: "info", message, run_id, thread_id });
  await retry(() => storage.releaseSlot(scope, claimed.lease));
  if (runEvents.outcome) return;
  const deleted = state.reason === "rolled_back" || !(await retry(() => storage.getRun(scope, run_id)));
  if (deleted) endGone(runEvents, "RunRolledBack");
}

/** For how many events of an attempt the event loop may go without a tick. */
const BUSY_EVENTS = 256;
/** How long an interrupt of a subgraph waits for its parent's, and how often while a save is under way. */
const INTERRUPT_MS = 50;
const INTERRUPT_WAITS = 20;
/** The limit of timers on all runtimes. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Pulls the executor's events, one at a time. Throws what it throws. Returns early once it was abandoned. */
async function executeJob(context: AttemptContext): Promise<void> {
  const { options, slot, claimed, graph, state, checkpoints, output, progress } = context;
  const { environment } = options;
  if (state.reason) return;
  if (claimed.exhausted) {
    throw Object.assign(new Error(`The run was started ${claimed.run.attempt} times and never reached its end`), {
      name: "AttemptsExhausted",
    });
  }
  const timeout_ms = graph.timeout_ms ?? options.run_timeout_ms;
  const cancelTimeout = environment.timer(Math.min(timeout_ms, LONGEST_TIMER_MS), () => context.stop("timed_out"));
  const releaseHeld = whenInterrupted(context);
  try {
    const iterator = options.executor.execute(context.job, state.abort.signal, environment)[Symbol.asyncIterator]();
    let taken = 0;
    while (true) {
      const pulled = pull(context, iterator);
      if (output.hasHeldOutput()) void releaseHeld();
      const next = pulled instanceof Promise ? await pulled : pulled;
      if (!next || next.done) break;
      try {
        const taking = context.mapper.take(next.value);
        if (taking) await taking;
        context.journal?.took(next.value);
      } catch (error) {
        await stopExecutor(context, iterator, error);
        throw error;
      }
      if (checkpoints.isFull()) await progress.save("all");
      if (output.isFull()) {
        // A graph may put the state of a frame later in the same tick of the event loop: they are stored together.
        await loopTick(environment);
        await progress.save("due");
      }
      // Bytes leave only when the event loop ticks.
      if (++taken % BUSY_EVENTS === 0 || slot.isLoopStuck()) await loopTick(environment);
    }
  } finally {
    cancelTimeout();
  }
}

type Pulled = IteratorResult<ExecutorEvent> | null;

/** The next event; null once the executor was abandoned. */
function pull({ state }: AttemptContext, iterator: AsyncIterator<ExecutorEvent>): Pulled | Promise<Pulled> {
  const abandon = (): void => void (async () => iterator.return?.())().catch(() => {});
  if (state.abandoned) {
    abandon();
    return null;
  }
  const isReady = iterator instanceof CoroutineEvents;
  const pulled = isReady ? iterator.pull() : iterator.next();
  if (isReady && !(pulled instanceof Promise)) return pulled;
  return new Promise((resolve, reject) => {
    state.abandonWait = () => {
      resolve(null);
      abandon();
    };
    (pulled as Promise<Pulled>).then(resolve, reject);
  });
}

/** Shows the held interrupt of a subgraph after a while. Its parent's follows unless another branch is at work. */
function whenInterrupted({ options, state, output, progress }: AttemptContext): () => Promise<void> {
  let waiting = false;
  return async () => {
    if (waiting) return;
    waiting = true;
    let waits = 0;
    do await pause(options.environment, INTERRUPT_MS);
    while (state.phase === "executing" && progress.isBehind() && ++waits < INTERRUPT_WAITS);
    waiting = false;
    if (state.phase === "executing" && !state.reason) output.releaseOutput();
  };
}

/** Stops an executor whose event is invalid. The run ends only after it has settled or was abandoned. */
function stopExecutor(
  { options, state, abandon_ms }: AttemptContext,
  iterator: AsyncIterator<ExecutorEvent>,
  error: unknown,
): Promise<void> {
  state.abort.abort(error);
  const returned = async (): Promise<void> => void (await iterator.return?.());
  return withTimeout(
    options.environment,
    abandon_ms,
    returned().catch(() => {}),
    undefined,
  );
}

/** Shutdown: another process, or this one later, retries the run. Its log stays open, so that subscribers reconnect. */
async function requeueRun(context: AttemptContext): Promise<void> {
  const { options, claimed, state, retry } = context;
  const { storage, scope, environment } = options;
  state.phase = "ending";
  if (!(await retry(() => storage.requeueRun(scope, claimed.lease, environment.now())))) context.stop("lease_lost");
}

/** The run waits for a time or an event, without a slot: its next attempt continues the call. */
async function suspendRun(context: AttemptContext, suspension: Suspension): Promise<void> {
  const { options, slot, claimed, state, progress, retry } = context;
  const { storage, scope, environment } = options;
  state.phase = "ending";
  const { progress: unsaved, publish } = progress.drainUnsaved();
  const terms = { ...suspension, progress: unsaved };
  const suspended = await retry(() => storage.suspendRun(scope, claimed.lease, terms, environment.now()));
  if (!suspended) return void context.stop("lease_lost");
  publish();
  slot.wakeAt(suspended.due_at);
}

/** How the run ends. */
interface AttemptResult {
  readonly status: TerminalStatus;
  readonly error: JsonObject | null;
  /** The last state; null if the run reached none. */
  readonly last: StateEvent | null;
  /** The run was cancelled, and has a state of its own. */
  readonly stoppedMidway: boolean;
}

async function cancelled(context: AttemptContext): Promise<AttemptResult> {
  const own = await lastState(context);
  const last = own ?? (await stateBefore(context));
  return { status: "interrupted", error: null, last, stoppedMidway: own !== null };
}

function resultOf({ state, graph, options, mapper }: AttemptContext, failure: unknown): AttemptResult {
  const last = mapper.last();
  if (state.reason === "timed_out") {
    const message = `The run took longer than ${graph.timeout_ms ?? options.run_timeout_ms} ms`;
    return { status: "timeout", error: { error: "RunTimeout", message }, last, stoppedMidway: false };
  }
  const error = errorBody(failure, last);
  return { status: error ? "error" : "success", error, last, stoppedMidway: false };
}

/** By task. */
const interruptsOf = (tasks: readonly Task[]): [string, Json][] =>
  tasks
    .filter(({ interrupts }) => interrupts.length > 0)
    .map(({ id, interrupts }) => [id, interrupts as unknown as Json]);

const MOST_STACK = 16_000;

/** `failure`: what the executor threw; undefined if it returned. */
async function finishRun(context: AttemptContext, failure: unknown): Promise<void> {
  const { options, slot, claimed, state, output, progress, mapper, runEvents } = context;
  const { environment } = options;
  const { run, resumed } = claimed;
  const { run_id, thread_id, graph_id, attempt, stateless } = run;
  state.phase = "ending";
  const isRefused = failure instanceof ResumeRefused;
  const answers = !isRefused && (context.job.resume_targets ?? []).length > 0;
  if (answers && (state.reason || failure)) await reopen(context);
  const ended = state.reason === "cancelled" ? await cancelled(context) : resultOf(context, failure);
  const { status, error, last, stoppedMidway } = ended;
  const next = last?.next ?? [];
  // A task that raised an interrupt and failed waits for another answer.
  const interrupts = interruptsOf(answers && error ? await pendingTasks(context) : (last?.tasks ?? []));
  const open = interrupts.flatMap(([, list]) => list as Json[]);
  const waitsAgain = answers && error !== null && open.length > 0;
  if (waitsAgain) context.recorder?.request(open as JsonObject[]);
  const result: Json = error ? { __error__: error } : waitResult(last?.values ?? {}, next, open, stoppedMidway);
  const head = (error ? null : last?.checkpoint?.checkpoint_id) ?? (await reachedCheckpoint(context));
  const discard = stateless && (progress.hasSavedState() || resumed);
  const recording = context.recorder?.end({ status, error, waits: next.length > 0, failure });
  if (recording) await recording;
  context.journal?.end();
  const { progress: unsaved, publish } = progress.drainUnsaved();
  const tail: Tail = { frames: options.features.tail(run), error };
  const end: FinishRun = {
    claims: run.claims,
    status,
    error,
    ...(error && failure instanceof Error && failure.stack ? { stack: failure.stack.slice(0, MOST_STACK) } : {}),
    result: stateless ? result : null,
    progress: stateless ? { ...unsaved, checkpoints: [], writes: [] } : unsaved,
    discard,
    thread: {
      head,
      status:
        isRefused && error
          ? null
          : error && !waitsAgain
            ? "error"
            : next.length > 0 || waitsAgain
              ? "interrupted"
              : "idle",
      interrupts: Object.fromEntries(interrupts),
      error: waitsAgain ? null : error,
      ...(head === null || stateless
        ? {}
        : { scalars: last?.checkpoint?.checkpoint_id === head ? scalarsOf(last.values) : null }),
    },
    end_frame: output.nextFrameId + tailLength(tail),
    ...options.features.finish(run, last?.values, mapper),
    ...(run.cron_id === undefined ? {} : { cron_id: run.cron_id }),
    waiting: slot.hasWaitingRuns(),
    // The same time in every try: it identifies a try that took effect without an answer.
    now: environment.now(),
  };
  if (!(await storeEnd(context, end))) {
    context.stop("lease_lost");
    return;
  }
  slot.counters.ended[status]++;
  if (error) {
    const cause = status === "timeout" ? error["message"] : (failure ?? error["message"]);
    environment.log({ level: "error", message: "a run failed", run_id, thread_id, graph_id, attempt, error: cause });
  }
  publish();
  closeRunEvents(runEvents, { status, result }, tail, end.end_frame);
  options.features.finished(run);
  options.onFinished?.(run, { status, ended_at: end.now, error });
}

/** Stores the end, with a claim for the next run in this slot. False: another process has the run. */
async function storeEnd({ options, slot, claimed, retry }: AttemptContext, end: FinishRun): Promise<boolean> {
  const { storage, scope } = options;
  let tries = 0;
  const finished = await retry(async () => {
    tries++;
    const claim = slot.nextClaim();
    let outcome: FinishOutcome | undefined;
    try {
      outcome = await storage.finishRun(scope, claimed.lease, claim ? { ...end, next: claim.request } : end);
    } finally {
      claim?.answered(outcome);
    }
    return outcome;
  });
  if (finished || tries === 1) return finished !== null;
  // An earlier try may have taken effect although the store reported a failure.
  const row = await retry(() => storage.getRun(scope, claimed.run.run_id));
  const { claims, status, end_frame, now } = end;
  return row?.claims === claims && row.status === status && row.end_frame === end_frame && row.ended_at === now;
}

/** A slow store delays a read by at most this long. The read then sees what is stored. */
const LONGEST_FLUSH_MS = 2_000;
/**
 * LangGraph puts a checkpoint within two ticks of the event loop after it shows a frame. With durability `sync` an interrupt in a
 * subgraph takes a save for the subgraph and one for its parent.
 */
const SAVES = 3;
const TICKS = 2;

/** Read consistency on a busy thread: resolves when everything shown is stored, or cannot be stored soon. */
async function flushShown({ options, progress, state, isLost }: AttemptContext, done: Promise<void>): Promise<void> {
  const { environment } = options;
  const store = async (): Promise<void> => {
    for (let saves = SAVES; saves > 0 && state.phase === "executing" && !isLost(); saves--) {
      for (let ticks = TICKS; ticks > 0; ticks--) await loopTick(environment);
      if (!progress.isBehind()) break;
      await progress.save("due");
    }
    if (state.phase !== "executing" && !isLost()) await done;
  };
  await withTimeout(
    environment,
    LONGEST_FLUSH_MS,
    store().catch(() => {}),
    undefined,
  );
}

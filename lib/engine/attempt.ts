/** One attempt of one run: executes it, keeps its lease, and ends it. */
import type { Environment } from "../environment.ts";
import { jobCheckpoints, recordedState } from "../executor/checkpoints.ts";
import type {
  AuthUser,
  Executor,
  ExecutorEvent,
  GraphInfo,
  Job,
  StoreHandle,
  StreamMode,
  ThreadState,
} from "../executor/contract.ts";
import { headersIn, knowing, mirrored, readKwargs } from "../executor/kwargs.ts";
import { ofRun } from "../executor/state-config.ts";
import { type Json, scalarsOf } from "../json.ts";
import type {
  ClaimedRun,
  ClaimRequest,
  FinishOutcome,
  FinishRun,
  RunRow,
  Scope,
  Storage,
  TerminalStatus,
} from "../storage/mod.ts";
import type { RunEvents, StreamHub } from "../streams/hub.ts";
import { closeRunEvents, endRolledBack, errorBody, tailLength, toldValues, waitResult } from "../streams/terminal.ts";
import { catchUp } from "./caught-up.ts";
import { type StateEvent, takeYields } from "./event-mapper.ts";
import { holdLease } from "./heartbeat.ts";
import { createJournal } from "./progress.ts";
import type { OnRunFinished } from "./run-finished.ts";

/** Why a job's signal was aborted. */
export type StopReason = "cancelled" | "rolled_back" | "timed_out" | "shutting_down" | "lease_lost";

export interface ExecutionOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly executor: Executor;
  readonly events: StreamHub;
  readonly store: StoreHandle;
  readonly environment: Environment;
  readonly lease_ms: number;
  /** How long an attempt may take, where the graph does not say. */
  readonly run_timeout_ms: number;
  /** The feedback URLs of a run by key, as JSON; null when it has none. */
  readonly feedbackUrls: (run: RunRow) => string | null;
  /** A run with a webhook has ended. */
  readonly onRunEnded: () => void;
  /** A run has ended here, and that is stored. */
  readonly onFinished?: OnRunFinished;
}

/** What an execution asks of the worker whose place it has. */
export interface Place {
  readonly counters: ExecutionCounters;
  /** The claim of the run that is to have the place next; null while none is known to wait. */
  next(): NextClaim | null;
  /** Runs are known to wait for a place, or for their threads. */
  waiting(): boolean;
  /** A thread may be free. */
  wake(): void;
}

export interface NextClaim {
  readonly request: ClaimRequest;
  /** What became of it; undefined when that is not known. */
  answered(outcome: FinishOutcome | undefined): void;
}

export interface ExecutionCounters {
  frames_shown: number;
  frames_stored: number;
  leases_lost: number;
  readonly ended: Record<TerminalStatus, number>;
}

/** How long an executor may take to settle after its signal was aborted; less where nobody else can execute its thread. */
const ABANDON_MS = 5_000;
const ABANDON_ALONE_MS = 1_000;
const RETRY_MS = 500;
/** How long a failing store is asked again while the process shuts down. */
const PATIENCE_MS = 1_000;
/** How long, and how many events may be handled without letting the event loop turn. */
const BUSY_MS = 4;
const BUSY_EVENTS = 256;
/** An executor that gives nothing for so many turns of the event loop rests. */
const REST_TURNS = 4;
/** How long the question of a subgraph waits to be its parent's, and how often where a save is under way that its parent waits for. */
const ASKED_MS = 50;
const ASKED_WAITS = 20;
/** Timers take no more. */
const LONGEST_MS = 2 ** 31 - 1;

/** One attempt of one run, as the worker holds it. */
export interface Execution {
  readonly run_id: string;
  readonly thread_id: string;
  readonly runEvents: RunEvents;
  /** Resolves when nothing of it goes on here: its executor has settled or was abandoned, and its end is stored. */
  readonly done: Promise<void>;
  /**
   * True when the run stops for this reason. That it is not ours any more comes before every other reason: nothing may be
   * written then. The executor's signal keeps the first one.
   */
  stop(reason: StopReason): boolean;
  /** Looks whether another process wants the run to stop, or has taken it. */
  look(): void;
  /** Resolves when what its readers have been shown is stored, or cannot be soon. */
  caughtUp(): Promise<void>;
  /**
   * Its lease, or its thread's slot, is over while its executor goes on: a claim could take the run or its thread.
   */
  over(now: number): boolean;
  /**
   * Resolves when a claim cannot take this run while its executor goes on, because a blocked event loop or a store that
   * failed let its lease run out. Rejects while that is not known.
   */
  beforeClaim(): Promise<void>;
}

/** Starts in the next microtask: until then it can be stopped without a trace. */
export function startExecution(
  options: ExecutionOptions,
  place: Place,
  graph: GraphInfo,
  claimed: ClaimedRun,
): Execution {
  const { storage, scope, executor, environment, lease_ms, events, store } = options;
  const { run, thread, lease, resumed } = claimed;
  const { run_id, thread_id, assistant_id, graph_id, temporary, attempt } = run;
  const { counters } = place;
  const { stream_mode, resumable: _, ...request } = mirrored(readKwargs(run.kwargs));
  const requested: ReadonlySet<StreamMode> = new Set(stream_mode);
  const timeout_ms = graph.timeout_ms ?? options.run_timeout_ms;
  const abandon_ms = graph.abandon_ms ?? (storage.single_process ? ABANDON_ALONE_MS : ABANDON_MS);
  const recorded = graph.checkpoints === "worker";
  const exits = recorded && request.durability === "exit" && !temporary;
  const runEvents = events.runEvents(run_id);
  const abort = new AbortController();
  let reason: StopReason | null = null;
  // Its executor has settled or was abandoned: only a lost lease can still change how the run ends.
  let over = false;
  // Its end is being stored: the answer to that tells what became of it.
  let ending = false;
  let abandoned = false;
  // Something that was shown waits, and is not to wait for long.
  let releasing = false;
  let giveUp: (() => void) | undefined;
  let cancelAbandon = (): void => {};
  let settle = (): void => {};
  const settled = new Promise<void>((resolve) => {
    settle = resolve;
  });

  const isStopped = (): boolean => reason !== null;
  const isLost = (why: StopReason | null = reason): boolean => why === "lease_lost" || why === "rolled_back";
  const onLost = (): void => {
    if (!ending) stop("lease_lost");
  };
  const turn = (): Promise<void> => new Promise((resolve) => environment.defer(resolve));
  const pause = (ms = RETRY_MS): Promise<void> => new Promise((resolve) => void environment.timer(ms, resolve));

  runEvents.live = true;
  const checkpoints = jobCheckpoints({
    storage,
    scope,
    thread_id,
    run_id,
    head: thread.head,
    resumed,
    sync: request.durability === "sync" && !temporary,
    now: () => environment.now(),
    insist,
    onDirty: () => journal.saveSoon(),
    save: () => journal.save(),
  });
  const journal = createJournal({
    ...options,
    claimed,
    counters,
    runEvents,
    checkpoints,
    held: request.durability === "exit",
    insist,
    lost: isLost,
    onLost,
  });
  const job = describe();
  const yields = takeYields({
    environment,
    job,
    checkpoints,
    recorded,
    requested,
    reached: run.claims > 1 && resumed && requested.has("values") ? async () => (await state())?.values : null,
    show: journal.show,
    flush: async () => {
      if (journal.full()) await journal.flush();
    },
    hold: journal.hold,
    release: journal.release,
    stopped: isStopped,
  });
  const held = holdLease({
    ...options,
    lease,
    until: run.updated_at + lease_ms,
    onCancelled: () => stop("cancelled"),
    onLost,
  });

  function describe(): Job {
    const modes = new Set(requested);
    // What the worker derives itself it needs the source of.
    if (modes.delete("messages")) modes.add("messages-tuple");
    if (recorded && modes.has("debug")) modes.add("tasks");
    const ids = { run_id, thread_id, assistant_id, graph_id };
    const metadata = { ...headersIn(request.config.configurable), ...run.metadata, ...ids };
    const user = run.auth_user as AuthUser | null;
    const config = user ? knowing(request.config, user) : request.config;
    return { ...request, ...ids, config, temporary, attempt, resumed, metadata, modes, user, checkpoints, store };
  }

  function stop(why: StopReason): boolean {
    if (reason && (isLost() || !isLost(why))) return reason === why;
    if (isLost(why)) {
      checkpoints.lose();
      held.stop();
      if (why === "lease_lost") counters.leases_lost++;
    } else if (over) {
      return false;
    }
    if (!reason) {
      // An executor that ignores its signal must not hold its place for ever.
      cancelAbandon = environment.timer(abandon_ms, () => {
        abandoned = true;
        checkpoints.lose();
        giveUp?.();
      });
    }
    reason = why;
    abort.abort(why);
    return true;
  }

  /** Never rejects: whatever goes wrong ends in the run's status or, when the lease is lost, in nothing. */
  async function attend(): Promise<void> {
    try {
      let failure: unknown;
      try {
        await begin();
        await execute();
      } catch (error) {
        failure = error ?? new Error("The graph failed without an error");
      }
      over = true;
      settle();
      // What was done after the last state goes with a run that was stopped.
      journal.release(reason ? "dropped" : "shown");
      await journal.close();
      // An executor that has settled writes nothing more, and one that was abandoned must not.
      checkpoints.lose();
      if (!isLost()) await (reason === "shutting_down" ? giveBack() : finish(failure));
    } catch {
      // The store failed, and was told of: the run keeps its lease until it is over, and is then taken up again.
    }
    held.stop();
    cancelAbandon();
    if (isLost()) await letGo().catch(() => {});
  }

  async function begin(): Promise<void> {
    await proveLease();
    if (reason) return;
    const resumed_after = journal.nextId() - 1;
    journal.show("metadata", { run_id, attempt, thread_id, ...(run.claims > 1 ? { resumed_after } : {}) });
    if (!runEvents.watched) return;
    // Readers get it before the graph starts, however long its first step keeps the event loop: the answer is made in
    // one turn of the loop, and its bytes leave in the next.
    if (run.framed) await journal.save();
    await turn();
    await turn();
    // The process may have stood still in any of these turns.
    await proveLease();
  }

  /** A claim whose answer came late may be another's by now. */
  async function proveLease(): Promise<void> {
    while (!reason && held.over(environment.now())) {
      // What was renewed may be over again when the answer comes.
      if (!(await held.renew()) && !isStopped()) await pause();
    }
  }

  async function execute(): Promise<void> {
    if (reason) return;
    if (claimed.exhausted) {
      throw Object.assign(new Error(`The run was started ${attempt} times and never reached its end`), {
        name: "AttemptsExhausted",
      });
    }
    const cancelTimeout = environment.timer(Math.min(timeout_ms, LONGEST_MS), () => stop("timed_out"));
    try {
      const iterator = executor.execute(job, abort.signal)[Symbol.asyncIterator]();
      let turnedAt = environment.now();
      let taken = 0;
      while (true) {
        const pulled = pull(iterator);
        if (journal.holds()) void (recorded ? releaseAtRest(pulled) : releaseSoon());
        const next = await pulled;
        if (!next || next.done) break;
        try {
          await yields.take(next.value);
        } catch (error) {
          await leave(iterator, error);
          throw error;
        }
        if (checkpoints.full()) await journal.save();
        if (journal.full()) {
          // A graph may put the state of a frame later in the same turn of the event loop: they are stored together.
          await turn();
          await journal.flush();
        }
        if (++taken % BUSY_EVENTS === 0 || environment.now() - turnedAt >= BUSY_MS) {
          // Bytes leave only when the event loop turns.
          await turn();
          turnedAt = environment.now();
        }
      }
    } finally {
      cancelTimeout();
    }
  }

  /** The next event; null is the decision not to wait any longer for an executor that was told to stop. */
  function pull(iterator: AsyncIterator<ExecutorEvent>): Promise<IteratorResult<ExecutorEvent> | null> {
    return new Promise((resolve, reject) => {
      giveUp = () => {
        resolve(null);
        (async () => iterator.return?.())().catch(() => {});
      };
      if (abandoned) giveUp();
      else iterator.next().then(resolve, reject);
    });
  }

  /** Frames whose state does not follow, though the executor was asked for more and rests, are shown. */
  async function releaseAtRest(pulled: Promise<unknown>): Promise<void> {
    let answered = false;
    const answer = (): void => {
      answered = true;
    };
    pulled.then(answer, answer);
    for (let turns = 0; turns < REST_TURNS && !answered; turns++) await turn();
    if (!answered && !reason) journal.release();
  }

  /** The question of a subgraph is soon its parent's too, unless something beside it is still at work. */
  async function releaseSoon(): Promise<void> {
    if (releasing) return;
    releasing = true;
    let waits = 0;
    do await pause(ASKED_MS);
    while (!over && journal.behind() && ++waits < ASKED_WAITS);
    releasing = false;
    if (!over && !reason) journal.release();
  }

  /** An executor whose event cannot be taken is stopped: it settles, or is abandoned, before its run ends. */
  function leave(iterator: AsyncIterator<ExecutorEvent>, error: unknown): Promise<void> {
    abort.abort(error);
    return new Promise((resolve) => {
      const cancel = environment.timer(abandon_ms, resolve);
      const left = async (): Promise<unknown> => iterator.return?.();
      left()
        .catch(() => {})
        .then(() => {
          cancel();
          resolve();
        });
    });
  }

  /** Asks a store that fails again, for as long as a lease lasts and the run is this worker's. */
  async function insist<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
    const since = environment.now();
    const lost = isLost();
    while (true) {
      try {
        return await ask();
      } catch (error) {
        environment.log({ level: "error", message: "a run could not be stored", run_id, thread_id, error });
        const patience = reason === "shutting_down" ? Math.min(lease_ms, PATIENCE_MS) : lease_ms;
        if (isLost() !== lost || environment.now() - since >= patience) throw error;
        await pause();
      }
    }
  }

  /** Shut-down: somebody else goes on from here. Readers are told nothing, so that they come back. */
  async function giveBack(): Promise<void> {
    if (exits) checkpoints.collapse("newest");
    await journal.save();
    if (isLost()) return;
    ending = true;
    if (!(await insist(() => storage.requeueRun(scope, lease, environment.now())))) stop("lease_lost");
  }

  async function finish(failure: unknown): Promise<void> {
    ending = true;
    const cancelled = reason === "cancelled";
    const timedOut = reason === "timed_out";
    // With durability `exit` a run that was cancelled leaves no steps. Executors with checkpoints of their own see to that.
    const dropped = cancelled && exits;
    if (exits) checkpoints.collapse(dropped ? "none" : "newest");
    const own = dropped ? await reached() : cancelled ? await lastState() : yields.last();
    const last = own ?? (cancelled ? await before() : null);
    const error = cancelled
      ? null
      : timedOut
        ? { error: "RunTimeout", message: `The run took longer than ${timeout_ms} ms` }
        : errorBody(failure, last);
    const status = cancelled ? "interrupted" : timedOut ? "timeout" : error ? "error" : "success";
    const next = last?.next ?? [];
    const interrupts: [string, Json][] = (last?.tasks ?? [])
      .filter((task) => task.interrupts.length > 0)
      .map((task) => [task.id, task.interrupts as unknown as Json]);
    const asked = interrupts.flatMap(([, list]) => list as Json[]);
    const result: Json = error
      ? { __error__: error }
      : waitResult(last?.values ?? {}, next, asked, cancelled && own !== null);
    const head = (error ? null : last?.checkpoint?.checkpoint_id) ?? (await reachedCheckpoint());
    const discard = temporary && (journal.saved() || resumed);
    const { progress, shown } = journal.rest();
    const tail = { feedback: options.feedbackUrls(run), error };
    const usage = yields.usage();
    const end: FinishRun = {
      claims: run.claims,
      status,
      error,
      result: temporary ? result : null,
      progress: temporary ? { ...progress, checkpoints: [], writes: [] } : progress,
      discard,
      thread: {
        head,
        status: error ? "error" : next.length > 0 ? "interrupted" : "idle",
        interrupts: Object.fromEntries(interrupts),
        error,
        ...(head === null || temporary
          ? {}
          : { scalars: last?.checkpoint?.checkpoint_id === head ? scalarsOf(last.values) : null }),
      },
      end_frame: journal.nextId() + tailLength(tail),
      has_side_effects: run.feedback.length > 0 || run.webhook !== null,
      ...(run.webhook && !temporary ? { values: toldValues(last?.values) } : {}),
      ...(usage ? { usage } : {}),
      ...(run.cron_id === undefined ? {} : { cron_id: run.cron_id }),
      waiting: place.waiting(),
      // The same in every try, so that one that took effect unseen is known again.
      now: environment.now(),
    };
    let tries = 0;
    const finished = await insist(async () => {
      tries++;
      const claim = place.next();
      let outcome: FinishOutcome | undefined;
      try {
        outcome = await storage.finishRun(scope, lease, claim ? { ...end, next: claim.request } : end);
      } finally {
        claim?.answered(outcome);
      }
      return outcome;
    });
    if (!finished && (tries === 1 || !(await hasEnded(end)))) {
      stop("lease_lost");
      return;
    }
    counters.ended[status]++;
    if (error) logFailure(timedOut ? error.message : (failure ?? error.message));
    shown();
    closeRunEvents(runEvents, run_id, { status, result }, tail, end.end_frame);
    events.announce(thread_id);
    if (run.webhook) options.onRunEnded();
    options.onFinished?.(run, { status, ended_at: end.now, error });
  }

  /** After its end is stored: once for each run, with the stack of what the agent threw. */
  function logFailure(cause: unknown): void {
    environment.log({ level: "error", message: "a run failed", run_id, thread_id, graph_id, attempt, error: cause });
  }

  /** An earlier try to end the run took effect, though the store did not say so. */
  async function hasEnded({ claims, status, end_frame, now }: FinishRun): Promise<boolean> {
    const row = await insist(() => storage.getRun(scope, run_id));
    return row?.claims === claims && row.status === status && row.end_frame === end_frame && row.ended_at === now;
  }

  /** The newest root checkpoint of the run, from this attempt or an earlier one. */
  async function reachedCheckpoint(): Promise<string | null> {
    const own = checkpoints.root();
    if (own !== null || !resumed) return own;
    return (await checkpoints.get({ ns: "" }))?.checkpoint_id ?? null;
  }

  /** Of a run that was stopped: what it has told, unless it got further than that. */
  async function lastState(): Promise<StateEvent | null> {
    const told = yields.last();
    const checkpoint_id = await reachedCheckpoint();
    if (told && (checkpoint_id === null || told.checkpoint?.checkpoint_id === checkpoint_id)) return told;
    return (await reached()) ?? told;
  }

  /** Where a run was stopped that has not told it. */
  async function reached(): Promise<StateEvent | null> {
    const checkpoint_id = await reachedCheckpoint();
    const at = checkpoint_id === null ? null : await state();
    return checkpoint_id !== null && at ? { ...at, type: "state", checkpoint: { ns: "", checkpoint_id } } : null;
  }

  /** Where the thread was when the run began, and is still when that was stopped without a state of its own. */
  async function before(): Promise<StateEvent | null> {
    const at = thread.head === null || temporary ? null : await state(thread.head);
    return at && { type: "state", values: at.values, next: at.next, tasks: at.tasks };
  }

  /** The state that the run has reached, or that of a checkpoint; null also where it cannot be read. */
  async function state(checkpoint_id?: string): Promise<ThreadState | null> {
    const at = { thread_id, ns: "", ...(checkpoint_id === undefined ? {} : { checkpoint_id }) };
    try {
      const reader = recorded ? recordedState : executor.state?.(graph_id);
      return (await reader?.get(at, checkpoints, { subgraphs: false, config: async () => ofRun(run) })) ?? null;
    } catch {
      return null;
    }
  }

  /** The executor of a run that is not ours any more has settled: its thread may go on. */
  async function letGo(): Promise<void> {
    const message = "run was taken over, rolled back or deleted; result dropped";
    environment.log({ level: "info", message, run_id, thread_id });
    await insist(() => storage.releaseSlot(scope, lease));
    place.wake();
    if (runEvents.outcome) return;
    const gone = reason === "rolled_back" || !(await insist(() => storage.getRun(scope, run_id)));
    if (gone) endRolledBack(runEvents, run_id);
  }

  async function beforeClaim(): Promise<void> {
    if (isLost()) await settled;
    else if (!(await held.renew()) && !isLost()) {
      if (!ending) throw new Error("A lease could not be renewed");
      // Its end may be stored already, and then there is no lease any more.
      await done;
    }
  }

  const done = Promise.resolve().then(attend);
  return {
    run_id,
    thread_id,
    runEvents,
    done,
    stop,
    look() {
      if (!ending && !isLost()) held.look();
    },
    caughtUp: () =>
      catchUp({
        environment,
        journal,
        recorded,
        phase: () => (isLost() ? "lost" : over ? "ends" : "executes"),
        done: () => done,
      }),
    over: (now) => held.over(now) && !(over && isLost()),
    beforeClaim,
  };
}

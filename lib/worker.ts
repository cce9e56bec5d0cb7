/**
 * The worker: claims runs, executes them, stores what they leave and finishes them. A run starts because it was created, not
 * because a poll found it; the poll is a safety net.
 */
import type { Ambient } from "./ambient.ts";
import { type JobCheckpoints, jobCheckpoints, type StateRecorder, stateRecorder } from "./checkpoints.ts";
import { LeaseLost } from "./errors.ts";
import type { Events, Outcome, Tape } from "./events.ts";
import type { Executor, ExecutorEvent, GraphInfo, Job, StreamMode } from "./executor.ts";
import { isObject, type Json, type JsonObject } from "./json.ts";
import { type JobRequest, readKwargs } from "./kwargs.ts";
import { createMessageFrames } from "./messages.ts";
import type {
  ClaimedRun,
  ClaimOutcome,
  ClaimTerms,
  FinishRun,
  Progress,
  Scope,
  Storage,
  TerminalStatus,
} from "./storage.ts";

export interface WorkerOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly executor: Executor;
  readonly events: Events;
  readonly ambient: Ambient;
  readonly concurrency: number;
  readonly lease_ms: number;
  /** A run is not executed here any more and has not ended: readers of its tape wait for whoever has it now. */
  onLeft(run_id: string, tape: Tape): void;
}

export interface Worker {
  /** A run may be waiting: look now. */
  wake(): void;
  /** A free place, for a claim inside createRun; null when there is none. Ends with `start` or `release`. */
  reserve(): ClaimTerms | null;
  start(claimed: ClaimedRun): void;
  release(): void;
  /** Stops a run that executes here. False when it does not, or stops for another reason already. */
  cancel(run_id: string, reason: StopReason): boolean;
  /** False when claiming has failed for a while. */
  healthy(): boolean;
  /** Takes no more runs, waits `grace_ms` for those that execute, then puts the rest back. */
  stop(grace_ms: number): Promise<void>;
}

/** Why a job's signal was aborted. */
export type StopReason = "cancelled" | "shutting_down" | "lease_lost";

const SAVE_MS = 50;
const POLL_MS = 2_000;
const RETRY_MS = 500;
/** How long an executor may take to settle after its signal was aborted. */
const ABANDON_MS = 5_000;
const UNHEALTHY_MS = 10_000;
/** How long, and how many events may be handled without letting the event loop turn. */
const BUSY_MS = 4;
const BUSY_EVENTS = 256;
const MAX_ATTEMPTS = 3;

export function createWorker(options: WorkerOptions): Worker {
  const { storage, scope, executor, ambient, concurrency, lease_ms } = options;
  const graphs = new Map(executor.graphs().map((graph) => [graph.graph_id, graph]));
  const graph_ids = [...graphs.keys()];
  const executing = new Set<Execution>();
  let reserved = 0;
  let stopping = false;
  let claiming: Promise<void> | null = null;
  // Runs may be waiting: nothing has said yet that none is.
  let backlog = true;
  // Runs wait for others of their threads to end.
  let blocked = false;
  let failingSince: number | null = null;
  let cancelPoll: () => void = () => {};
  let onIdle: (() => void) | undefined;

  const room = (): boolean => !stopping && executing.size + reserved < concurrency;
  const terms = (): ClaimTerms => ({ token: ambient.uuid(), lease_until: ambient.now() + lease_ms });

  async function claimAll(): Promise<void> {
    while (backlog && room()) {
      backlog = false;
      reserved++;
      let outcome: ClaimOutcome;
      try {
        // A blocked event loop or a machine that slept is no reason to execute a run twice.
        await Promise.all([...executing].map((execution) => execution.renewOverdue()));
        outcome = await storage.claimRun(scope, { ...terms(), graph_ids, now: ambient.now() });
        failingSince = null;
      } catch (error) {
        failingSince ??= ambient.now();
        backlog = true;
        ambient.log({ level: "error", message: "claiming a run failed", error });
        ambient.timer(RETRY_MS, wake);
        return;
      } finally {
        reserved--;
      }
      blocked = outcome.kind === "blocked";
      if (outcome.kind !== "claimed") continue;
      backlog = true;
      start(outcome.claimed);
    }
  }

  function wake(): void {
    backlog = true;
    if (!claiming && room()) claim();
  }

  function claim(): void {
    claiming = claimAll().finally(() => {
      claiming = null;
      if (backlog && room() && failingSince === null) claim();
    });
  }

  function poll(): void {
    cancelPoll = ambient.timer(POLL_MS, () => {
      if (stopping) return;
      wake();
      poll();
    });
  }

  function start(claimed: ClaimedRun): void {
    const graph = graphs.get(claimed.run.graph_id) as GraphInfo;
    const execution = new Execution(options, graph, claimed);
    executing.add(execution);
    if (claimed.cancelled) execution.stop("cancelled");
    if (stopping) execution.stop("shutting_down");
    void execution.run().finally(() => {
      executing.delete(execution);
      // Its end frees its thread for the next one, and its place for those that waited for it.
      if (blocked || backlog || claiming) wake();
      if (executing.size + reserved === 0) onIdle?.();
    });
  }

  if (concurrency > 0) {
    poll();
    wake();
  }

  return {
    wake,
    reserve() {
      // Older runs first: a new one takes a place at once only when none is known to wait.
      if (!room() || backlog || claiming) return null;
      reserved++;
      return terms();
    },
    start(claimed) {
      reserved--;
      start(claimed);
    },
    release() {
      reserved--;
      // Runs that found no place because of this one.
      if (backlog) wake();
      if (executing.size + reserved === 0) onIdle?.();
    },
    cancel(run_id, reason) {
      return [...executing].some((execution) => execution.run_id === run_id && execution.stop(reason));
    },
    healthy: () => failingSince === null || ambient.now() - failingSince < UNHEALTHY_MS,
    async stop(grace_ms) {
      stopping = true;
      cancelPoll();
      await claiming;
      if (executing.size + reserved === 0) return;
      const idle = new Promise<void>((resolve) => {
        onIdle = resolve;
      });
      const cancelGrace = ambient.timer(grace_ms, () => {
        for (const execution of executing) execution.stop("shutting_down");
      });
      await idle;
      cancelGrace();
    },
  };
}

const ABANDONED = Symbol("abandoned");
type StateEvent = Extract<ExecutorEvent, { type: "state" }>;

/** One attempt of one run. */
class Execution {
  private readonly options: WorkerOptions;
  private readonly graph: GraphInfo;
  private readonly claimed: ClaimedRun;
  private readonly abort = new AbortController();
  private readonly tape: Tape;
  private readonly checkpoints: JobCheckpoints;
  private readonly request: JobRequest;
  private readonly requested: ReadonlySet<StreamMode>;
  private readonly messageFrames = createMessageFrames();
  private reason: StopReason | null = null;
  private recorder: StateRecorder | null = null;
  private last: StateEvent | null = null;
  private saving: Promise<void> | null = null;
  private saveTimer: (() => void) | null = null;
  private giveUp: (() => void) | null = null;
  private abandoned = false;
  private leaseUntil: number;
  private step = -1;
  private saved = false;

  constructor(options: WorkerOptions, graph: GraphInfo, claimed: ClaimedRun) {
    const { run, thread } = claimed;
    this.options = options;
    this.graph = graph;
    this.claimed = claimed;
    this.leaseUntil = run.updated_at + options.lease_ms;
    this.tape = options.events.tape(run.run_id);
    this.tape.live = true;
    this.request = readKwargs(run.kwargs);
    this.requested = new Set(this.request.stream_mode);
    this.checkpoints = jobCheckpoints({
      storage: options.storage,
      scope: options.scope,
      thread_id: run.thread_id,
      run_id: run.run_id,
      head: thread.head,
      resumed: claimed.resumed,
      sync: this.request.durability === "sync" && !run.temporary,
      now: () => options.ambient.now(),
      onDirty: () => this.saveSoon(),
      save: () => this.save(),
    });
  }

  get run_id(): string {
    return this.claimed.run.run_id;
  }

  /** True when the run stops for this reason. A lost lease comes before every other: nothing may be written then. */
  stop(reason: StopReason): boolean {
    if (this.reason && (reason !== "lease_lost" || this.reason === reason)) return this.reason === reason;
    this.reason = reason;
    if (reason === "lease_lost") this.checkpoints.lose();
    this.abort.abort(reason);
    // An executor that ignores its signal must not hold its place for ever.
    this.options.ambient.timer(ABANDON_MS, () => {
      this.abandoned = true;
      this.giveUp?.();
    });
    return true;
  }

  async renewOverdue(): Promise<void> {
    if (this.options.ambient.now() >= this.leaseUntil) await this.renew();
  }

  /** Never rejects: whatever goes wrong ends in the run's status or, when the lease is lost, in nothing. */
  async run(): Promise<void> {
    const { ambient, storage, scope } = this.options;
    const { run, lease } = this.claimed;
    const stopHeartbeat = this.heartbeat();
    try {
      this.tape.startAt(firstId(run.claims - 1));
      this.show("metadata", { run_id: run.run_id, attempt: run.attempt, thread_id: run.thread_id });
      // Readers get it before the graph starts, however long its first step keeps the event loop: the answer is made in
      // one turn of the loop, and its bytes leave in the next.
      for (let turn = 0; turn < 2 && this.tape.watched; turn++) {
        await new Promise<void>((resolve) => ambient.defer(resolve));
      }
      let failure: unknown;
      try {
        await this.execute();
      } catch (error) {
        failure = error ?? new Error("The graph failed without an error");
      }
      this.saveTimer?.();
      await this.saving;
      if (isLeaseLost(failure)) this.stop("lease_lost");
      if (this.reason === "lease_lost") {
        await this.settle();
      } else if (this.reason === "shutting_down") {
        await storage.saveProgress(scope, lease, this.checkpoints.take(), ambient.now());
        await storage.requeueRun(scope, lease, ambient.now());
      } else {
        await this.finish(failure);
      }
    } catch (error) {
      // The store failed: the run keeps its lease until it is over, and is then taken up again.
      ambient.log({ level: "error", message: "a run could not be stored", run_id: run.run_id, error });
    } finally {
      stopHeartbeat();
      this.saveTimer?.();
      // An abandoned executor has nowhere to write.
      this.checkpoints.lose();
      this.tape.live = false;
      if (!this.tape.outcome) this.options.onLeft(run.run_id, this.tape);
    }
  }

  private heartbeat(): () => void {
    const { ambient, lease_ms } = this.options;
    let stopped = false;
    let cancelTimer = (): void => {};
    const beat = async (): Promise<void> => {
      await this.renew();
      if (!stopped) schedule();
    };
    const schedule = (): void => {
      cancelTimer = ambient.timer(lease_ms / 3, () => void beat());
    };
    schedule();
    return () => {
      stopped = true;
      cancelTimer();
    };
  }

  private async renew(): Promise<void> {
    const { ambient, storage, scope, lease_ms } = this.options;
    const until = ambient.now() + lease_ms;
    try {
      const renewed = await storage.renewLease(scope, this.claimed.lease, until);
      if (!renewed) this.stop("lease_lost");
      else if (renewed.cancelled) this.stop("cancelled");
      this.leaseUntil = until;
    } catch (error) {
      ambient.log({ level: "warn", message: "a lease was not renewed", run_id: this.run_id, error });
    }
  }

  private async execute(): Promise<void> {
    if (this.reason) return;
    const { ambient, executor } = this.options;
    const { run } = this.claimed;
    const attempts = this.graph.max_attempts ?? MAX_ATTEMPTS;
    if (run.attempt > attempts) {
      throw Object.assign(new Error(`The run was started ${attempts} times and never reached its end`), {
        name: "AttemptsExhausted",
      });
    }
    const job = this.job();
    if (this.graph.checkpoints === "worker") this.recorder = stateRecorder(ambient, this.checkpoints, job);
    const iterator = executor.execute(job, this.abort.signal)[Symbol.asyncIterator]();
    let turnedAt = ambient.now();
    let taken = 0;
    while (true) {
      const next = await this.pull(iterator);
      if (next === ABANDONED || next.done) break;
      await this.take(next.value);
      if (++taken % BUSY_EVENTS === 0 || ambient.now() - turnedAt >= BUSY_MS) {
        // Bytes leave only when the event loop turns.
        await new Promise<void>((resolve) => ambient.defer(resolve));
        turnedAt = ambient.now();
      }
    }
  }

  /** The next event, or the decision not to wait any longer for an executor that was told to stop. */
  private pull(iterator: AsyncIterator<ExecutorEvent>): Promise<IteratorResult<ExecutorEvent> | typeof ABANDONED> {
    return new Promise((resolve, reject) => {
      this.giveUp = () => {
        resolve(ABANDONED);
        (async () => iterator.return?.())().catch(() => {});
      };
      if (this.abandoned) this.giveUp();
      else iterator.next().then(resolve, reject);
    });
  }

  private async take(event: ExecutorEvent): Promise<void> {
    if (event.type === "stream") {
      this.showStream(event);
    } else if (event.type === "state") {
      // What comes after the stop is not stored, and so it is not where the run got to.
      if (this.recorder && this.reason) return;
      this.last = event;
      if (this.recorder) {
        const recorded = await this.recorder.record(event);
        this.step = recorded.step;
        this.last = { ...event, checkpoint: recorded.ref };
        if (this.requested.has("checkpoints")) this.show("checkpoints", recorded.shown);
        if (this.requested.has("debug")) this.showDebug("checkpoint", recorded.shown);
      }
      if (this.requested.has("messages")) {
        for (const frame of this.messageFrames.settled(event.values)) this.show(frame.event, frame.data);
      }
    } else {
      throw new Error("The executor yielded something that is neither a stream nor a state event");
    }
  }

  private showStream(event: Extract<ExecutorEvent, { type: "stream" }>): void {
    const { mode, namespace = [], data } = event;
    const suffix = namespace.length > 0 ? `|${namespace.join("|")}` : "";
    if (mode === "messages-tuple") {
      if (this.requested.has("messages-tuple")) this.show(`messages${suffix}`, data);
      if (this.requested.has("messages") && Array.isArray(data)) {
        for (const frame of this.messageFrames.chunk(data[0] as JsonObject, (data[1] ?? {}) as JsonObject)) {
          this.show(frame.event + suffix, frame.data);
        }
      }
    } else if (this.requested.has(mode)) {
      this.show(`${mode}${suffix}`, data);
    }
    if (mode === "tasks" && this.recorder && this.requested.has("debug") && isObject(data)) {
      this.showDebug("input" in data ? "task" : "task_result", data);
    }
  }

  private showDebug(type: string, payload: JsonObject): void {
    this.show("debug", {
      step: this.step,
      timestamp: new Date(this.options.ambient.now()).toISOString(),
      type,
      payload,
    });
  }

  private show(event: string, data: Json): void {
    this.tape.publish(event, JSON.stringify(data) ?? "null");
  }

  private job(): Job {
    const { run, resumed } = this.claimed;
    const modes = new Set<StreamMode>(this.request.stream_mode);
    // What the worker derives itself it needs the source of.
    if (modes.delete("messages")) modes.add("messages-tuple");
    if (this.graph.checkpoints === "worker" && modes.has("debug")) modes.add("tasks");
    const ids = {
      run_id: run.run_id,
      thread_id: run.thread_id,
      assistant_id: run.assistant_id,
      graph_id: run.graph_id,
    };
    return {
      ...ids,
      temporary: run.temporary,
      attempt: run.attempt,
      resumed,
      input: this.request.input,
      command: this.request.command,
      from: this.request.from,
      config: this.request.config,
      context: this.request.context,
      metadata: { ...run.metadata, ...ids },
      modes,
      subgraphs: this.request.subgraphs,
      interrupt_before: this.request.interrupt_before,
      interrupt_after: this.request.interrupt_after,
      durability: this.request.durability,
      checkpoints: this.checkpoints,
    };
  }

  private saveSoon(): void {
    if (this.saveTimer || this.saving) return;
    this.saveTimer = this.options.ambient.timer(SAVE_MS, () => {
      this.saveTimer = null;
      void this.save();
    });
  }

  /** Stores what is dirty; one save at a time. A store that fails keeps the data for the next one. */
  private save(): Promise<void> {
    if (this.saving)
      return this.saving.then(() => (this.checkpoints.dirty() && !this.reason ? this.save() : undefined));
    this.saveTimer?.();
    this.saveTimer = null;
    this.saving = this.store(this.checkpoints.take()).finally(() => {
      this.saving = null;
      if (this.checkpoints.dirty()) this.saveSoon();
    });
    return this.saving;
  }

  private async store(progress: Progress): Promise<void> {
    const { ambient, storage, scope } = this.options;
    this.saved = true;
    try {
      const kept = await this.insist(() => storage.saveProgress(scope, this.claimed.lease, progress, ambient.now()));
      if (!kept) this.stop("lease_lost");
    } catch {
      // What comes after it cannot be stored without it: the run is left to be taken up again.
      this.stop("lease_lost");
    }
  }

  /** Asks a store that fails again, for as long as a lease lasts and the run is not to stop. */
  private async insist<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
    const { ambient, lease_ms } = this.options;
    const until = ambient.now() + lease_ms;
    while (true) {
      try {
        return await ask();
      } catch (error) {
        ambient.log({ level: "error", message: "a run could not be stored", run_id: this.run_id, error });
        if (this.reason === "lease_lost" || this.reason === "shutting_down" || ambient.now() >= until) throw error;
        await new Promise<void>((resolve) => void ambient.timer(RETRY_MS, resolve));
      }
    }
  }

  private async finish(failure: unknown): Promise<void> {
    const { ambient, storage, scope } = this.options;
    const { run, lease } = this.claimed;
    const cancelled = this.reason === "cancelled";
    const last = this.last ?? (cancelled ? await this.reached() : null);
    const progress = this.checkpoints.take();
    const error: JsonObject | null = cancelled
      ? null
      : failure !== undefined
        ? errorBody(failure)
        : last
          ? null
          : { error: "Error", message: "The graph ended without a state" };
    const status: TerminalStatus = cancelled ? "interrupted" : error ? "error" : "success";
    const next = last?.next ?? [];
    const interrupts: [string, Json][] = (last?.tasks ?? [])
      .filter((task) => task.interrupts.length > 0)
      .map((task) => [task.id, task.interrupts as unknown as Json]);
    const result: Json = error
      ? { __error__: error }
      : waitResult(
          last?.values ?? {},
          next,
          interrupts.flatMap(([, list]) => list as Json[]),
        );
    const finish: FinishRun = {
      status,
      error,
      result: run.temporary ? result : null,
      progress: run.temporary ? { checkpoints: [], writes: [] } : progress,
      discard: run.temporary && (this.saved || this.claimed.resumed),
      thread: {
        head: (error ? null : last?.checkpoint?.checkpoint_id) ?? (await this.reachedCheckpoint()),
        status: error ? "error" : next.length > 0 ? "interrupted" : "idle",
        interrupts: Object.fromEntries(interrupts),
        error,
      },
      now: ambient.now(),
    };
    const finished = await this.insist(() => storage.finishRun(scope, lease, finish));
    if (!finished) {
      await this.settle();
      return;
    }
    closeTape(this.tape, run.run_id, { status, result }, error);
  }

  /** The newest root checkpoint of the run, from this attempt or an earlier one. */
  private async reachedCheckpoint(): Promise<string | null> {
    const own = this.checkpoints.root();
    if (own !== null || !this.claimed.resumed) return own;
    return (await this.checkpoints.get({ ns: "" }))?.checkpoint_id ?? null;
  }

  /** Where a run was stopped whose executor writes its own checkpoints. */
  private async reached(): Promise<StateEvent | null> {
    const { thread_id, graph_id } = this.claimed.run;
    const checkpoint_id = await this.reachedCheckpoint();
    if (checkpoint_id === null) return null;
    const reader = this.options.executor.state?.(graph_id);
    const state = await reader?.get({ thread_id, ns: "" }, this.checkpoints, { subgraphs: false }).catch(() => null);
    return state ? { ...state, type: "state", checkpoint: { ns: "", checkpoint_id } } : null;
  }

  /** The executor of a run that is not ours any more has settled: its thread may go on. */
  private async settle(): Promise<void> {
    const { ambient, storage, scope } = this.options;
    const { run, lease } = this.claimed;
    ambient.log({ level: "info", message: "run was taken over or deleted; result dropped", run_id: run.run_id });
    await storage.releaseSlot(scope, lease);
    if (!(await storage.getRun(scope, run.run_id))) endDeleted(this.tape, run.run_id);
  }
}

/** Where the frame ids of the claim after this many begin: above those of all before it. */
export function firstId(claims: number): number {
  return claims * 2 ** 32 + 1;
}

/** Tells the readers of a run how it ended. */
export function closeTape(tape: Tape, run_id: string, outcome: Outcome, error: JsonObject | null): void {
  if (error) tape.publish("error", JSON.stringify(error));
  const status = outcome.status === "gone" ? "rollback" : outcome.status;
  tape.publish("end", JSON.stringify({ run_id, status }));
  tape.end(outcome);
}

/** Tells the readers of a run whose row is gone. */
export function endDeleted(tape: Tape, run_id: string): void {
  const error = { error: "RunDeleted", message: "The run was deleted" };
  closeTape(tape, run_id, { status: "gone", result: { __error__: error } }, error);
}

/** What wait and join answer for a run that did not fail. */
export function waitResult(values: Json, next: readonly string[], interrupts: readonly Json[]): Json {
  if (next.length === 0) return values ?? {};
  return isObject(values) ? { ...values, __interrupt__: [...interrupts] } : { __interrupt__: [...interrupts] };
}

function isLeaseLost(error: unknown): boolean {
  return error instanceof LeaseLost || (error as { lease_lost?: unknown } | null)?.lease_lost === true;
}

function errorBody(error: unknown): JsonObject {
  const { name, message } = (typeof error === "object" && error !== null ? error : {}) as {
    name?: unknown;
    message?: unknown;
  };
  return {
    error: typeof name === "string" && name !== "" ? name : "Error",
    message: typeof message === "string" ? message : typeof error === "string" ? error : "The graph failed",
  };
}

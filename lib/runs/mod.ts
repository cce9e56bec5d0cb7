/** Runs: executions of an assistant on a thread. */
import { nextTurn, pause, sharedCalls, turnLimit } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { StreamMode } from "../executor/contract.ts";
import { shownRun } from "../executor/kwargs.ts";
import type { Json, JsonObject } from "../json.ts";
import type {
  MultitaskStrategy,
  OldestPending,
  RunRow,
  RunStatus,
  StopAction,
  StoppedRun,
  StopTarget,
} from "../storage/mod.ts";
import { type Visibility, withVisibility } from "../storage/visibility.ts";
import type { Frame, Reader } from "../streams/hub.ts";
import { endDeleted, endRolledBack, filterFrames, type RunSubscriptions } from "../streams/run-subscription.ts";
import { shownUrl } from "../webhooks/policy.ts";
import { type CreatedRunRow, type CreateOptions, createRunCreation, type RunPreparation } from "./create.ts";
import type { RunCreate, RunOrigin } from "./request.ts";

export type { Frame, Reader } from "../streams/hub.ts";
export type { RunCreate, RunOrigin } from "./request.ts";

/** A run as the API shows it; times are ISO 8601, UTC. */
export interface Run {
  readonly run_id: string;
  readonly thread_id: string;
  readonly assistant_id: string;
  /** For a run with `after_seconds`: the time of its start. */
  readonly created_at: string;
  readonly updated_at: string;
  readonly status: RunStatus;
  readonly metadata: JsonObject;
  readonly kwargs: JsonObject;
  readonly multitask_strategy: MultitaskStrategy;
  /** The `reason` of the call that cancelled it; null without one. */
  readonly cancel_reason: string | null;
}

/**
 * A subscription to a run's frames. The last one is `end`; the run's status is final by then. Leaving the loop early unsubscribes,
 * and interrupts a run that is cancelled on disconnect.
 */
export interface RunStream {
  readonly run: Run;
  readonly frames: Reader<Frame>;
}

/** A run and its result: the final values, `{"__interrupt__": […]}` or `{"__error__": {error, message}}`. Never rejects for a failed run. */
export interface RunWait {
  readonly run: Run;
  readonly result: Promise<Json>;
  /** The caller has disconnected: unsubscribes, and interrupts a run that is cancelled on disconnect. */
  leave(): void;
}

interface RunCancel {
  /** Default `interrupt`: the run ends as `interrupted` and its steps are kept. `rollback`: the run and its steps are deleted. */
  readonly action?: StopAction;
  /** Resolve only after the run has ended and its executor has stopped. Default: as soon as the stop is stored. */
  readonly wait?: boolean;
  /**
   * Stored as the run's `cancel_reason`, at most 1000 characters. `taken` is stored as a text that starts with `taken:`, as clients
   * expect. Only with `interrupt`.
   */
  readonly reason?: string;
}

/**
 * `thread_id` null: a stateless run. Errors of the creating calls: not_found, conflict (busy, full, idempotency key of a deleted run),
 * invalid (also a refused webhook), bad_request.
 */
export interface Runs {
  create(thread_id: string | null, request: RunCreate, origin?: RunOrigin): Promise<Run>;
  /** `namespaces` as in `joinStream`. */
  stream(
    thread_id: string | null,
    request: RunCreate,
    origin?: RunOrigin,
    options?: { readonly namespaces?: readonly string[] },
  ): Promise<RunStream>;
  wait(thread_id: string | null, request: RunCreate, origin?: RunOrigin): Promise<RunWait>;
  /** Creates stateless runs in the order of the requests: all of them, or none. */
  createBatch(requests: readonly RunCreate[], origin?: RunOrigin): Promise<readonly Run[]>;
  /** Errors: not_found. */
  get(thread_id: string, run_id: string, visibility?: Visibility): Promise<Run>;
  /** Newest first. Errors: not_found (thread). */
  list(
    thread_id: string,
    query?: { readonly limit?: number; readonly offset?: number; readonly status?: RunStatus },
    visibility?: Visibility,
  ): Promise<readonly Run[]>;
  /** Errors: not_found; conflict while it is running. */
  delete(thread_id: string, run_id: string, visibility?: Visibility): Promise<void>;
  /** No effect on a run that has ended. Errors: not_found, invalid (a reason with `rollback`, or a long one). */
  cancel(thread_id: string | null, run_id: string, options?: RunCancel, visibility?: Visibility): Promise<void>;
  /** Errors: not_found if the thread has none of the named runs, or no run has the status. */
  cancelMany(target: StopTarget, action?: StopAction, visibility?: Visibility): Promise<void>;
  /** Errors: not_found. */
  join(
    thread_id: string,
    run_id: string,
    options?: { readonly cancel_on_disconnect?: boolean },
    visibility?: Visibility,
  ): Promise<RunWait>;
  /**
   * Frames after `after`, or all that are kept if it is absent or no id of this run; then live ones. Missing frames are reported by
   * a `metadata` frame with `missing_before`. `thread_id` null: a stateless run. Errors: not_found.
   */
  joinStream(
    thread_id: string | null,
    run_id: string,
    options?: {
      readonly after?: number;
      /** Show only these of the run's modes. */
      readonly modes?: readonly StreamMode[];
      /**
       * Show only the frames of these namespaces (`""` is the root graph) and of the subgraphs in them. Subagents, which have a
       * `tools:…` segment, are left out.
       */
      readonly namespaces?: readonly string[];
      readonly cancel_on_disconnect?: boolean;
    },
    visibility?: Visibility,
  ): Promise<RunStream>;
}

/** Runs as the crons use them. */
export interface RunDirectory extends Runs, RunPreparation {}

interface RunOptions extends Omit<CreateOptions, "onStopped"> {
  readonly subscriptions: RunSubscriptions;
  /** A run ended before it started. */
  readonly onEndedUnstarted?: (run: StoppedRun) => void;
}

/** How many rows are read for subscribers in one turn of the event loop. */
const JOINS_PER_TURN = 1;

export function createRuns(options: RunOptions): RunDirectory {
  const { storage, scope, environment, hub, threads, subscriptions } = options;
  const stops = createStops(options);
  const joins = sharedCalls(turnLimit(environment, JOINS_PER_TURN));
  const { create, createBatch, prepare, started } = createRunCreation({ ...options, onStopped: stops.onStopped });

  async function find(thread_id: string | null, run_id: string, visibility: Visibility | undefined): Promise<RunRow> {
    const run = await storage.getRun(withVisibility(scope, visibility), run_id.toLowerCase());
    if (!run || (thread_id !== null && run.thread_id !== thread_id.toLowerCase())) {
      throw new ServiceError("not_found", `Run ${run_id} not found`);
    }
    return run;
  }

  /** For a subscriber, who must not hold the row: the input of a run may be large. */
  const leave =
    ({ run_id, thread_id }: RunRow, cancel: boolean, visibility?: Visibility) =>
    (): void => {
      if (!cancel) return;
      stops.stop({ run_id, thread_id }, "interrupt", false, visibility).catch((error: unknown) => {
        environment.log({ level: "error", message: "a run was not cancelled on disconnect", run_id, thread_id, error });
      });
    };

  /** The run of a subscriber. Many come at once, and their rows may be large. */
  function join(thread_id: string | null, run_id: string, visibility: Visibility | undefined): Promise<RunRow> {
    const key = JSON.stringify([visibility, thread_id, run_id]);
    return joins(key, 1, () => find(thread_id, run_id, visibility));
  }

  async function wait(run: RunRow, cancel: boolean, created = false, visibility?: Visibility): Promise<RunWait> {
    const { runEvents, result } = await subscriptions.result(run, created);
    return { run: toRun(run), result, leave: leave(run, cancel && !runEvents.outcome, visibility) };
  }

  return {
    prepare,
    started,
    async create(thread_id, request, origin = {}) {
      return asCreated(await create(thread_id, request, origin));
    },
    async createBatch(requests, origin = {}) {
      return (await createBatch(requests, origin)).map(asCreated);
    },
    async stream(thread_id, request, origin = {}, { namespaces = [] } = {}) {
      const { run } = await create(thread_id, request, origin, true);
      const { runEvents, frames } = await subscriptions.read(
        run,
        0,
        leave(run, request.on_disconnect === "cancel"),
        true,
      );
      const shown = namespaces.length === 0 ? frames : filterFrames(frames, runEvents, { namespaces });
      return { run: toRun(run), frames: shown };
    },
    async wait(thread_id, request, origin = {}) {
      const { run } = await create(thread_id, request, origin);
      return await wait(run, request.on_disconnect === "cancel", true);
    },
    async get(thread_id, run_id, visibility) {
      return toRun(await find(thread_id, run_id, visibility));
    },
    async list(thread_id, { limit = 10, offset = 0, status } = {}, visibility) {
      const thread = await threads.visible(thread_id, visibility);
      const rows = await storage.listRuns(withVisibility(scope, visibility), thread.thread_id, {
        limit,
        offset,
        ...(status ? { status } : {}),
      });
      return rows.map(toRun);
    },
    async delete(thread_id, run_id, visibility) {
      const run = await find(thread_id, run_id, visibility);
      const outcome = await storage.deleteRun(withVisibility(scope, visibility), run.thread_id, run.run_id);
      if (outcome === "running") throw new ServiceError("conflict", `Run ${run_id} is running: cancel it first`);
      if (outcome === "not_found") throw new ServiceError("not_found", `Run ${run_id} not found`);
      const runEvents = hub.find(run.run_id);
      if (runEvents) endDeleted(runEvents);
    },
    async cancel(thread_id, run_id, { action = "interrupt", wait: waits = false, reason } = {}, visibility) {
      const stored = reason === undefined ? undefined : cancelReason(reason, action);
      await stops.stop(await find(thread_id, run_id, visibility), action, waits, visibility, stored);
    },
    async cancelMany(target, action = "interrupt", visibility) {
      await stops.stopMany(target, action, visibility);
    },
    async join(thread_id, run_id, { cancel_on_disconnect = false } = {}, visibility) {
      return await wait(await join(thread_id, run_id, visibility), cancel_on_disconnect, false, visibility);
    },
    async joinStream(thread_id, run_id, { after = 0, cancel_on_disconnect = false, ...shown } = {}, visibility) {
      const run = await join(thread_id, run_id, visibility);
      const { runEvents, frames } = await subscriptions.read(run, after, leave(run, cancel_on_disconnect, visibility));
      return { run: toRun(run), frames: filterFrames(frames, runEvents, shown) };
    },
  };
}

/** A new run is shown as pending, even if an idle worker has claimed it already. */
const asCreated = ({ run, repeated }: CreatedRunRow): Run => ({
  ...toRun(run),
  ...(repeated ? {} : { status: "pending" }),
});

function toRun(row: RunRow): Run {
  return {
    run_id: row.run_id,
    thread_id: row.thread_id,
    assistant_id: row.assistant_id,
    created_at: new Date(row.created_at).toISOString(),
    updated_at: new Date(row.updated_at).toISOString(),
    status: row.status,
    metadata: row.metadata,
    kwargs: shownKwargs(row),
    multitask_strategy: row.multitask_strategy,
    // A run may end by itself before the cancel takes effect.
    cancel_reason: ["success", "error", "timeout"].includes(row.status) ? null : (row.cancel_reason ?? null),
  };
}

/** The request without credentials, with the webhook and feedback keys. The query of a webhook is hidden: it may hold a secret. */
function shownKwargs({ kwargs, metadata, webhook, feedback }: RunRow): JsonObject {
  return {
    ...shownRun(kwargs, metadata),
    ...(webhook ? { webhook: shownUrl(webhook.url) } : {}),
    ...(feedback.length > 0 ? { feedback_keys: feedback.map(([key]) => key) } : {}),
  };
}

type NamedRuns = Extract<StopTarget, { readonly thread_id: string }>;
const lowerCase = ({ thread_id, run_ids }: NamedRuns): NamedRuns => ({
  thread_id: thread_id.toLowerCase(),
  run_ids: run_ids.map((run_id) => run_id.toLowerCase()),
});

/** How many runs are stopped at once: a run with a large input takes as long as its creation. */
const SLICE = 100;

/** The parts in which runs are stopped, so that other requests are answered in between. */
function* slicesOf(target: StopTarget): Iterable<StopTarget | OldestPending> {
  if ("run_ids" in target) {
    const { thread_id, run_ids } = target;
    for (let at = 0; at < run_ids.length; at += SLICE) yield { thread_id, run_ids: run_ids.slice(at, at + SLICE) };
  } else if (target.status !== "running") for (;;) yield { status: "pending", limit: SLICE };
}

/** The limit of a cancel reason, in characters. */
const REASON_LENGTH = 1000;

/** The reason of a cancel, as it is stored. Errors: invalid. */
function cancelReason(reason: string, action: StopAction): string {
  if (action === "rollback") {
    throw new ServiceError("invalid", "reason: only with action interrupt, because a rolled-back run is deleted");
  }
  if (reason.length > REASON_LENGTH) {
    throw new ServiceError("invalid", `reason: must have at most ${REASON_LENGTH} characters`);
  }
  return reason === "taken" ? "taken: its input went into another run" : reason;
}

/** The poll interval of a cancel that waits for a run in another process. */
const WAIT_MS = 100;

/** Stops runs: in the store first, then their attempts here, then their subscribers. */
function createStops(options: RunOptions) {
  const { storage, scope, environment, hub, worker } = options;

  /** The store has stopped these runs: stops their attempts here. */
  function onStopped(runs: readonly StoppedRun[]): void {
    for (const run of runs) {
      const { run_id, thread_id, kind, slot_token } = run;
      const here = kind !== "ended" && worker.cancel(run_id, kind === "deleted" ? "rolled_back" : "cancelled");
      const runEvents = hub.find(run_id);
      if (kind === "deleted" && runEvents) endRolledBack(runEvents);
      if (kind === "ended") options.onEndedUnstarted?.(run);
      if (slot_token !== null && !here) wakeAfter(thread_id, slot_token);
    }
  }

  /** The process that executes the run may be dead: the thread is free when its slot expires. */
  function wakeAfter(thread_id: string, slot_token: string): void {
    storage.getThread(scope, thread_id).then(
      (thread) => {
        if (thread?.slot?.token === slot_token) worker.wakeAt(thread.slot.until);
      },
      (error: unknown) => {
        environment.log({ level: "warn", message: "reading the slot of a stopped run failed", thread_id, error });
      },
    );
  }

  /** Resolves when the run has ended and no longer holds the slot of its thread. */
  async function whenEnded({ run_id, thread_id, slot_token }: StoppedRun): Promise<void> {
    await worker.whenDone(run_id);
    while (true) {
      const [run, thread] = await Promise.all([storage.getRun(scope, run_id), storage.getThread(scope, thread_id)]);
      const active = run?.status === "pending" || run?.status === "running";
      const slot = thread?.slot ?? null;
      const holdsSlot = slot !== null && slot.token === slot_token && slot.until > environment.now();
      if (!active && !holdsSlot) return;
      await pause(environment, WAIT_MS);
    }
  }

  return {
    onStopped,
    /** Resolves once the stop is stored; with `wait` once the run has ended and its executor has stopped. */
    async stop(
      run: Pick<RunRow, "run_id" | "thread_id">,
      action: StopAction,
      wait: boolean,
      visibility?: Visibility,
      reason?: string,
    ): Promise<void> {
      const target = { thread_id: run.thread_id, run_ids: [run.run_id] };
      const runs = await storage.stopRuns(withVisibility(scope, visibility), target, action, environment.now(), reason);
      onStopped(runs);
      if (wait) await Promise.all(runs.map(whenEnded));
    },
    async stopMany(given: StopTarget, action: StopAction, visibility?: Visibility): Promise<void> {
      const target = "status" in given ? given : lowerCase(given);
      const visible = withVisibility(scope, visibility);
      let count = 0;
      const stopSome = async (some: StopTarget | OldestPending): Promise<number> => {
        const runs = await storage.stopRuns(visible, some, action, environment.now());
        onStopped(runs);
        count += runs.length;
        return runs.length;
      };
      for (const some of slicesOf(target)) {
        if ((await stopSome(some)) === 0 && "limit" in some) break;
        await nextTurn(environment);
      }
      // What is running, what has stored something, and what has become pending meanwhile.
      if ("status" in target) await stopSome(target);
      if (count > 0) return;
      if ("status" in target) {
        const which = target.status === "all" ? "pending or running" : target.status;
        throw new ServiceError("not_found", `No run is ${which}`);
      }
      // Runs that have ended already are no error.
      const known = await Promise.all(target.run_ids.map((run_id) => storage.getRun(visible, run_id)));
      if (!known.some((run) => run?.thread_id === target.thread_id)) {
        throw new ServiceError("not_found", `Thread ${target.thread_id} has none of these runs`);
      }
    },
  };
}

/** Runs: executions of an assistant on a thread. */
import type { InternalResource } from "../auth/authorizer.ts";
import { coalesceCalls, createLazyModule, createTickBudget, keepAliveUntil, waitForNextTick } from "../environment.ts";
import { invalidFieldError, notFoundError, ServiceError } from "../errors.ts";
import type { StreamMode } from "../executor/contract.ts";
import type { Json } from "../json.ts";
import type { RunRow, RunStatus, Scope, StopAction } from "../storage/mod.ts";
import { filterFrames } from "../streams/frame-filter.ts";
import type { Frame } from "../streams/frames.ts";
import type { Reader } from "../streams/log.ts";
import { endDeletedRunLog, type RunSubscriptions } from "../streams/run-subscription.ts";
import { type CreateOptions, createRunCreator, type RunPreparer } from "./create.ts";
import type { NewOrRepeatedRun } from "./repeated-run.ts";
import type { RunCreate, RunOrigin } from "./request.ts";
import { type Run, toRun } from "./run.ts";
import { type CancelTarget, createRunStopper, type RunStopper, type StopOptions } from "./run-stopper.ts";
import type { RunSearches, ScopedSearches } from "./search.ts";

export type { Frame } from "../streams/frames.ts";
export type { Reader } from "../streams/log.ts";
export { CHOICES, type RunCreate, type RunOrigin } from "./request.ts";
export type { Run } from "./run.ts";
export type { RunListQuery } from "./search.ts";

/**
 * A subscription to a run's frames. The last one is `end`; the run's status is final by then. Closing the reader early unsubscribes,
 * and interrupts a run that is cancelled on disconnect.
 */
export interface RunStream {
  readonly run: Run;
  readonly frames: Reader<Frame>;
}

/** A run and its result. */
export interface RunWait {
  readonly run: Run;
  /**
   * The final values, `{"__interrupt__": […]}` or `{"__error__": {error, message}}`, with the feedback links of the run in
   * `__feedback__`. Rejects with `not_found` once the caller cannot see the thread, never for a failed run.
   */
  readonly result: Promise<Json>;
  /** Unsubscribes after the caller has disconnected, and interrupts a run that is cancelled on disconnect. */
  leave(): void;
}

/** The filter and page of the runs of a thread. */
export interface RunList {
  readonly limit?: number;
  readonly offset?: number;
  readonly status?: RunStatus;
  /** Returns only runs after this one, oldest first. */
  readonly after?: string;
}

/** The options of a join. */
export interface RunJoin {
  /** Interrupts the run when the caller disconnects. */
  readonly cancel_on_disconnect?: boolean;
}

interface ScopedJoin extends RunJoin {
  /** Resolves to true if the caller may still cancel the run when it disconnects. Default: always true. */
  readonly mayCancel?: () => Promise<boolean>;
}

/** The options of a cancellation. */
export interface RunCancel {
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
export interface Runs extends RunSearches {
  create(thread_id: string | null, request: RunCreate, origin?: RunOrigin): Promise<Run>;
  /** Creates a run and subscribes to it. `namespaces` is as in `joinStream`. */
  stream(
    thread_id: string | null,
    request: RunCreate,
    origin?: RunOrigin,
    options?: { readonly namespaces?: readonly string[] },
  ): Promise<RunStream>;
  wait(thread_id: string | null, request: RunCreate, origin?: RunOrigin): Promise<RunWait>;
  /** Creates stateless runs in the order of the requests, all or none. */
  createBatch(requests: readonly RunCreate[], origin?: RunOrigin): Promise<readonly Run[]>;
  /** Returns a run. A null `thread_id` matches any thread. Throws `not_found`. */
  get(thread_id: string | null, run_id: string): Promise<Run>;
  /** Returns the runs of a thread, newest first. Throws `not_found` (thread, or the run of `after`). */
  list(thread_id: string, query?: RunList): Promise<readonly Run[]>;
  /** Deletes a run. Throws `not_found`, or `conflict` while it is running. */
  delete(thread_id: string, run_id: string): Promise<void>;
  /** Cancels a run. Has no effect on a run that has ended. Throws `not_found` or `invalid` (a reason with `rollback`, or a long one). */
  cancel(thread_id: string | null, run_id: string, options?: RunCancel): Promise<void>;
  /** Cancels many runs. Throws `not_found` if the thread has none of the runs, or no run has the status. */
  cancelMany(target: CancelTarget, action?: StopAction): Promise<void>;
  /** Waits for a run. Throws `not_found`. */
  join(thread_id: string, run_id: string, options?: RunJoin): Promise<RunWait>;
  /**
   * Streams the frames after `after`, or all stored ones if it is absent or no id of this run; then live ones. Missing frames are
   * reported by
   * a `metadata` frame with `missing_before`. `thread_id` null: a stateless run. Throws `not_found`.
   */
  joinStream(
    thread_id: string | null,
    run_id: string,
    options?: RunJoin & {
      readonly after?: number;
      /** Streams only frames of these modes. */
      readonly modes?: readonly StreamMode[];
      /**
       * Streams only the frames of these namespaces (`""` is the root graph) and of the subgraphs in them. Subagents, which have a
       * `tools:…` segment, are left out.
       */
      readonly namespaces?: readonly string[];
    },
  ): Promise<RunStream>;
}

/** The internal resource of runs. */
export interface InternalRuns
  extends Omit<InternalResource<Runs>, "rerun">,
    Pick<ScopedSearches, "rerun">,
    RunPreparer {}

interface RunOptions extends Omit<CreateOptions, "onStopped">, StopOptions {
  readonly subscriptions: RunSubscriptions;
  readonly workspace_id: string;
}

/** The maximum number of rows per query of a list, because the requests may be large. */
const LIST_BATCH_SIZE = 20;
/** The number of rows that are read for subscribers in one tick of the event loop. */
const JOINS_PER_TICK = 1;

/** Finds runs for subscribers, waits for them and handles disconnects. */
interface SubscriberFunctions {
  /** Returns the run. Throws `not_found` if it does not exist or is on another thread than `thread_id`. */
  requireRun(scope: Scope, thread_id: string | null, run_id: string): Promise<RunRow>;
  /** Returns the run of a subscriber. Throws `not_found`. Concurrent lookups share one read, because the row may be large. */
  requireSharedRun(scope: Scope, thread_id: string | null, run_id: string): Promise<RunRow>;
  /**
   * Returns the function to call when a subscriber disconnects. Without `cancel` that does nothing; with it, it interrupts the
   * run in the background if `mayCancel` (true by default) allows, and logs a failure. It does not retain the row, whose input
   * may be large.
   */
  createLeaveHandler(scope: Scope, run: RunRow, cancel: boolean, mayCancel?: () => Promise<boolean>): () => void;
  /**
   * Subscribes to the result of a run, and keeps the process alive until it has ended or `leave` is called. `leave` cancels the
   * run with `cancel_on_disconnect`, unless it had ended when the wait began. `isNew`: the run was created just now.
   */
  wait(scope: Scope, run: RunRow, options: ScopedJoin, isNew: boolean): Promise<RunWait>;
}

function createSubscriberFunctions(options: RunOptions, { stop }: Pick<RunStopper, "stop">): SubscriberFunctions {
  const { storage, environment, subscriptions } = options;
  const shareLookups = coalesceCalls(createTickBudget(environment, JOINS_PER_TICK).waitForRoom);

  async function requireRun(scope: Scope, thread_id: string | null, run_id: string): Promise<RunRow> {
    const run = await storage.getRun(scope, run_id.toLowerCase());
    if (!run || (thread_id !== null && run.thread_id !== thread_id.toLowerCase())) {
      throw notFoundError("run", run_id);
    }
    return run;
  }

  const createLeaveHandler =
    (scope: Scope, { run_id, thread_id }: RunRow, cancel: boolean, mayCancel = async () => true) =>
    (): void => {
      if (!cancel) return;
      const cancelRun = async (): Promise<void> => {
        if (await mayCancel()) await stop(scope, { run_id, thread_id }, "interrupt", false);
      };
      cancelRun().catch((error: unknown) => {
        environment.log({ level: "error", message: "a run was not cancelled on disconnect", run_id, thread_id, error });
      });
    };

  function requireSharedRun(scope: Scope, thread_id: string | null, run_id: string): Promise<RunRow> {
    const key = JSON.stringify([scope.filter, thread_id, run_id]);
    return shareLookups(key, 1, () => requireRun(scope, thread_id, run_id));
  }

  async function wait(
    scope: Scope,
    run: RunRow,
    { cancel_on_disconnect = false, mayCancel }: ScopedJoin,
    isNew: boolean,
  ): Promise<RunWait> {
    const pending = subscriptions.result(run, isNew);
    const { runLog, result } = pending instanceof Promise ? await pending : pending;
    const onLeave = createLeaveHandler(scope, run, cancel_on_disconnect && !runLog.completion, mayCancel);
    const release = keepAliveUntil(environment.keepAlive, result);
    return {
      run: toRun(run),
      result,
      leave() {
        release();
        onLeave();
      },
    };
  }

  return { requireRun, requireSharedRun, createLeaveHandler, wait };
}

/** Creates the internal resource of runs. Searches and reruns are imported when they are first called. */
export function createRuns(options: RunOptions): InternalRuns {
  const { storage, environment, hub, threads, subscriptions } = options;
  const stopper = createRunStopper(options);
  const { requireRun, requireSharedRun, createLeaveHandler, wait } = createSubscriberFunctions(options, stopper);
  const { create, createBatch, prepare, startStored } = createRunCreator({ ...options, onStopped: stopper.onStopped });

  const createPending: InternalRuns["create"] = async (scope, thread_id, request, origin = {}) =>
    toPendingRun(await create(scope, { thread_id, request, origin }));

  return {
    ...createLazyModule<ScopedSearches>({ search: true, stats: true, inspect: true, rerun: true }, async () =>
      (await import("./search.ts")).createRunSearches(options, createPending),
    ),
    prepare,
    startStored,
    create: createPending,
    async createBatch(scope, requests, origin = {}) {
      return (await createBatch(scope, requests, origin)).map(toPendingRun);
    },
    // biome-ignore lint/complexity/useMaxParams: the public operation has these parameters, behind the scope of its caller
    async stream(scope, thread_id, request, origin = {}, { namespaces = [] } = {}) {
      const { run } = await create(scope, { thread_id, request, origin, watched: true });
      const { runLog, frames } = await subscriptions.read(
        run,
        0,
        createLeaveHandler(scope, run, request.on_disconnect === "cancel"),
        true,
      );
      const isFiltered = namespaces.length > 0;
      return {
        run: toRun(run),
        frames: isFiltered ? filterFrames(frames, runLog, options.features, { namespaces }) : frames,
      };
    },
    async wait(scope, thread_id, request, origin = {}) {
      const { run } = await create(scope, { thread_id, request, origin });
      return await wait(scope, run, { cancel_on_disconnect: request.on_disconnect === "cancel" }, true);
    },
    async get(scope, thread_id, run_id) {
      return toRun(await requireRun(scope, thread_id, run_id));
    },
    async list(scope, thread_id, query = {}) {
      const thread = await threads.requireThread(scope, thread_id);
      const above = query.after === undefined ? {} : { above: (await requireRun(scope, thread_id, query.after)).seq };
      return await listInBatches(options, scope, thread.thread_id, { ...query, ...above });
    },
    /** Deletes a run that is not running, and ends its streams in this process. Throws `run_active` or `not_found`. */
    async delete(scope, thread_id, run_id) {
      const run = await requireRun(scope, thread_id, run_id);
      const result = await storage.deleteRun(scope, run.thread_id, run.run_id, environment.now());
      if (result === "running") throw new ServiceError("run_active", `Run ${run_id} is running: cancel it first`);
      if (result === "not_found") throw notFoundError("run", run_id);
      endDeletedRunLog(hub.find(run.run_id), "RunDeleted");
    },
    /**
     * Requests the stop of a run; has no effect on one that has ended. With `wait` it resolves when the run has ended. Throws
     * `not_found`, and `invalid` for a reason with `rollback` or one that is too long.
     */
    async cancel(scope, thread_id, run_id, { action = "interrupt", wait: waits = false, reason } = {}) {
      const encodedReason = reason === undefined ? undefined : encodeCancelReason(reason, action);
      await stopper.stop(scope, await requireRun(scope, thread_id, run_id), action, waits, encodedReason);
    },
    async cancelMany(scope, target, action = "interrupt") {
      await stopper.stopMany(scope, target, action);
    },
    async join(scope, thread_id, run_id, options = {}) {
      return await wait(scope, await requireSharedRun(scope, thread_id, run_id), options, false);
    },
    async joinStream(scope, thread_id, run_id, { after = 0, cancel_on_disconnect = false, ...rest } = {}) {
      const { mayCancel, ...filter }: typeof rest & ScopedJoin = rest;
      const run = await requireSharedRun(scope, thread_id, run_id);
      const onLeave = createLeaveHandler(scope, run, cancel_on_disconnect, mayCancel);
      const { runLog, frames } = await subscriptions.read(run, after, onLeave);
      return { run: toRun(run), frames: filterFrames(frames, runLog, options.features, filter) };
    },
  };
}

/**
 * Returns the runs of a thread, newest first, or after the run with the `seq` `above` the newer ones, oldest first; 10 without
 * a limit. Reads them in batches, and lets other work run between them.
 */
async function listInBatches(
  { storage, environment }: Pick<RunOptions, "storage" | "environment">,
  scope: Scope,
  thread_id: string,
  { limit = 10, offset = 0, status, above }: RunList & { readonly above?: number },
): Promise<Run[]> {
  const list: Run[] = [];
  const isForward = above !== undefined;
  let position: { readonly offset: number; readonly below?: number; readonly above?: number } = {
    offset,
    ...(isForward ? { above } : {}),
  };
  for (;;) {
    const batchSize = Math.min(LIST_BATCH_SIZE, limit - list.length);
    const query = { ...position, limit: batchSize, ...(status ? { status } : {}) };
    const rows = await storage.listRuns(scope, thread_id, query);
    list.push(...rows.map(toRun));
    const last = rows.at(-1);
    if (!last || rows.length < batchSize || list.length === limit) return list;
    position = { offset: 0, ...(isForward ? { above: last.seq } : { below: last.seq }) };
    await waitForNextTick(environment);
  }
}

/**
 * Converts a run. A new one gets the status `pending`, even if an idle worker has already claimed it; a repeated one keeps its
 * own.
 */
const toPendingRun = ({ run, repeated }: NewOrRepeatedRun): Run => ({
  ...toRun(run),
  ...(repeated ? {} : { status: "pending" }),
});

/** The maximum length of a cancel reason in characters. */
const MAX_REASON_LENGTH = 1000;

/**
 * Returns the stored form of a cancel reason, which expands the reserved word `taken`. Throws `invalid` for action `rollback` and
 * a reason that is too long.
 */
function encodeCancelReason(reason: string, action: StopAction): string {
  if (action === "rollback") {
    throw invalidFieldError("reason", "only with action interrupt, because a rolled-back run is deleted");
  }
  if (reason.length > MAX_REASON_LENGTH) {
    throw invalidFieldError("reason", `must have at most ${MAX_REASON_LENGTH} characters`);
  }
  return reason === "taken" ? "taken: its input went into another run" : reason;
}

/** Creates runs: resolves what a request names, stores the run, starts it, and retries if something changed in between. */
import type { InternalAssistants } from "../assistants/mod.ts";
import type { Worker } from "../engine/worker.ts";
import { type Environment, uuidV7 } from "../environment.ts";
import { notFoundError, ServiceError } from "../errors.ts";
import type { Executor, GraphInfo } from "../executor/contract.ts";
import type { CombinedFeatures } from "../features/mod.ts";
import type {
  AssistantRow,
  CreatedRun,
  CreateRun,
  CreateRunResult,
  CreateRunsResult,
  RunRow,
  Scope,
  StoppedRun,
  Storage,
} from "../storage/mod.ts";
import { requireOwnMetadata, requireStillVisible } from "../storage/visibility.ts";
import type { StreamHub } from "../streams/hub.ts";
import type { InternalThreads } from "../threads/mod.ts";
import { type ResolvedRun, toCreateRun } from "./plan.ts";
import { type NewOrRepeatedRun, requireFirstBatchByKey, requireFirstRunByKey, toRepeatedRun } from "./repeated-run.ts";
import {
  findAssistantVersion,
  findRequestedCheckpoint,
  normalizeResume,
  type RunCreate,
  type ScopedOrigin,
  validateRunRequest,
} from "./request.ts";
import { type BoundResume, interruptAnsweredError } from "./resume.ts";
import { ResumeBinder } from "./resume-binder.ts";

export interface CreateOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly executor: Executor;
  readonly environment: Environment;
  readonly hub: StreamHub;
  readonly worker: Worker;
  readonly assistants: InternalAssistants;
  readonly threads: InternalThreads;
  readonly limits: NonNullable<CreateRun["limits"]>;
  /** Stops the attempts of this process of runs that the storage has stopped. */
  readonly onStopped: (runs: readonly StoppedRun[]) => void;
  readonly features: Pick<CombinedFeatures, "prepare" | "thread" | "isTrailer">;
}

/** Prepares runs that another module stores in its own batch, as crons do. */
export interface RunPreparer {
  /** Returns what `create` would store, without a claim. Prepare it again if the batch is stale. Throws what `create` throws. */
  prepare(scope: Scope, thread_id: string | null, request: RunCreate, origin: ScopedOrigin): Promise<CreateRun>;
  /** Starts or announces a run that was stored. */
  startStored(created: CreatedRun, plan: CreateRun): void;
}

/** The parameters of a new run. */
export interface CreateRunParams {
  /** Null for a stateless run. */
  readonly thread_id: string | null;
  readonly request: RunCreate;
  readonly origin: ScopedOrigin;
  /** True if the caller subscribes to the run at once. */
  readonly watched?: boolean;
}

interface RunCreator extends RunPreparer {
  create(scope: Scope, call: CreateRunParams): Promise<NewOrRepeatedRun>;
  /**
   * Creates stateless runs, all or none, and starts or announces them. Returns the earlier runs if all idempotency keys were
   * used before. Throws `invalid` for an empty list, and what `create` throws for one of the requests.
   */
  createBatch(scope: Scope, requests: readonly RunCreate[], origin: ScopedOrigin): Promise<readonly NewOrRepeatedRun[]>;
}

/**
 * Creates the functions that create runs. They read the rows a request refers to, store the run, and start over as often as one
 * of these rows changed in between. Then the run starts here or is announced to other processes.
 */
export function createRunCreator(options: CreateOptions): RunCreator {
  const { storage, scope: deploymentScope, assistants } = options;
  const requireFirstRun =
    (run: DescribedRun) =>
    (refusal: unknown): Promise<NewOrRepeatedRun> =>
      requireFirstRunByKey(storage, deploymentScope, run, refusal);
  const resolver = new RunResolver(options);
  const starter = new RunStarter(options, (resolved) => resolver.plan(resolved));
  return {
    /**
     * Validates, resolves and stores a run, then starts or announces it. Starts over as often as its assistant or thread
     * changes meanwhile. Returns the earlier run if the idempotency key was used before. Throws if the request is invalid or
     * refused.
     */
    async create(scope, { thread_id, request, origin, watched = false }) {
      validateRunRequest(request, thread_id);
      const describedRun = resolver.describeRun(scope, { thread_id, request, origin });
      const assistantScope = origin.assistants ?? deploymentScope;
      const version = findAssistantVersion(request);
      const cachedAssistant = assistants.getCached(assistantScope, request.assistant_id, version);
      let assistant = cachedAssistant instanceof Promise ? await cachedAssistant : cachedAssistant;
      while (true) {
        const resolving = resolver.resolve(thread_id, assistant, describedRun);
        const resolved =
          resolving instanceof Promise ? await resolving.catch(requireFirstRun(describedRun)) : resolving;
        if ("repeated" in resolved) return resolved;
        const created = await starter.store(resolved, watched);
        if (created) return created;
        assistant = await assistants.resolve(assistantScope, request.assistant_id, version);
      }
    },
    /**
     * Validates and resolves a run, and returns the argument of `createRun`, without a claim. Stores nothing. Throws what
     * `create` throws for an invalid request.
     */
    async prepare(scope, thread_id, request, origin) {
      validateRunRequest(request, thread_id);
      const describedRun = resolver.describeRun(scope, { thread_id, request, origin });
      const assistantScope = origin.assistants ?? deploymentScope;
      const version = findAssistantVersion(request);
      const assistant = await assistants.resolve(assistantScope, request.assistant_id, version);
      return resolver.plan(await resolver.resolve(thread_id, assistant, describedRun));
    },
    startStored: (created, plan) => void starter.start(created, plan, { busy: true }),
    async createBatch(scope, requests, origin) {
      if (requests.length === 0) throw new ServiceError("invalid", "A batch needs at least one run");
      for (const request of requests) validateRunRequest(request, null);
      const describedRuns = requests.map((request, index) =>
        resolver.describeRun(scope, { thread_id: null, request, origin: createBatchOrigin(origin, index) }, index),
      );
      const assistantScope = origin.assistants ?? deploymentScope;
      let findAssistant = assistants.getCached;
      while (true) {
        const resolving = resolver.resolveBatch(describedRuns, (request) =>
          findAssistant(assistantScope, request.assistant_id, findAssistantVersion(request)),
        );
        const resolved = await resolving.catch((refusal: unknown) =>
          requireFirstBatchByKey(storage, deploymentScope, describedRuns, refusal),
        );
        if (isRepeatedBatch(resolved)) return resolved;
        const created = await starter.storeBatch(resolved);
        if (created) return created;
        findAssistant = assistants.resolve;
      }
    },
  };
}

/** Returns the origin of one run of a batch. The key of the batch covers all runs, so each gets a route with its index. */
function createBatchOrigin({ idempotency, ...origin }: ScopedOrigin, index: number): ScopedOrigin {
  return idempotency ? { ...origin, idempotency: { ...idempotency, route: `${idempotency.route}#${index}` } } : origin;
}

/** Returns an origin whose run continues no other trace, if its caller sees only some rows. */
const limitTrace = (origin: ScopedOrigin, { filter }: Scope): ScopedOrigin =>
  filter ? { ...origin, trace: { ...origin.trace, may_continue: false } } : origin;

/** The parts of a resolved run that need no lookup. */
type DescribedRun = Pick<
  ResolvedRun,
  "scope" | "request" | "origin" | "stateless" | "run_feature_fields" | "thread_feature_fields" | "thread_id" | "run_id"
>;

/** Looks up the thread and the checkpoint of a request, and plans the run. */
class RunResolver {
  readonly #options: CreateOptions;
  readonly #hostedGraphs: ReadonlyMap<string, GraphInfo>;
  readonly #resumeBinder: ResumeBinder;

  constructor(options: CreateOptions) {
    this.#options = options;
    this.#resumeBinder = new ResumeBinder(options);
    this.#hostedGraphs = new Map(options.executor.graphs().map((graph) => [graph.graph_id, graph]));
  }

  /**
   * Collects the parts that need no lookup, normalizes the resume value and chooses the ids: given ones, that of the thread in
   * lower case, else new ones. `index` selects the run id of a batch. Throws what `prepare` of the features throws.
   */
  describeRun(scope: Scope, { thread_id, request: rawRequest, origin }: CreateRunParams, index = 0): DescribedRun {
    const { features, environment } = this.#options;
    const request = normalizeResume(rawRequest);
    return {
      ...{ scope, request, origin },
      stateless: thread_id === null && request.on_completion !== "keep",
      run_feature_fields: features.prepare(request, limitTrace(origin, scope)),
      thread_feature_fields: features.thread,
      thread_id: thread_id?.toLowerCase() ?? uuidV7(environment),
      run_id: origin.run_ids?.[index] ?? uuidV7(environment),
    };
  }

  /**
   * Adds assistant, thread, checkpoint and time to a run, and validates its values by the schemas of the agent. Returns a
   * promise only for a run on a thread, and for an agent with schemas. Throws `not_found` for an unknown graph; rejects with
   * `not_found`, `already_exists`, `checkpoint_not_found`, `SchemaMismatch`, and what `bind` throws.
   */
  resolve(thread_id: string | null, assistant: AssistantRow, run: DescribedRun): ResolvedRun | Promise<ResolvedRun> {
    const { environment } = this.#options;
    const { graph_id } = assistant;
    const graph = this.#hostedGraphs.get(graph_id);
    if (!graph) throw notFoundError("graph", graph_id);
    const { schemas } = graph;
    const noThread = {
      thread: null,
      start_checkpoint: null,
      resume_targets: [],
      run_feature_fields: run.run_feature_fields,
    };
    /** Returns the run with assistant, time and these members. */
    const complete = (threadMembers: Pick<ResolvedRun, keyof typeof noThread>): ResolvedRun => ({
      ...run,
      assistant,
      now: environment.now(),
      ...threadMembers,
    });
    if (thread_id === null && !schemas) return complete(noThread);
    const resolving =
      thread_id === null ? complete(noThread) : this.#resolveThread(run, thread_id, assistant).then(complete);
    if (!schemas) return resolving;
    const loading = import("./schemas.ts");
    return Promise.all([resolving, loading]).then(([resolved, { validateRun }]) =>
      validateRun(schemas, resolved, this.#options),
    );
  }

  /**
   * Resolves stateless runs one after the other, in order, with the assistant that `findAssistant` returns. Throws what that
   * and `resolve` throw.
   */
  async resolveBatch(
    runs: readonly DescribedRun[],
    findAssistant: (request: RunCreate) => AssistantRow | Promise<AssistantRow>,
  ): Promise<readonly ResolvedRun[]> {
    const resolvedRuns: ResolvedRun[] = [];
    for (const run of runs) resolvedRuns.push(await this.resolve(null, await findAssistant(run.request), run));
    return resolvedRuns;
  }

  /**
   * Returns the argument of `createRun`, without a claim. The run stores its frames if several processes share the storage.
   * Throws `forbidden` for metadata with which the caller could not see the thread, and `bad_request` for contradicting
   * configuration.
   */
  plan(resolved: ResolvedRun): CreateRun {
    const { storage, limits } = this.#options;
    const plan = toCreateRun(resolved);
    const { create_thread, update_thread } = plan;
    if (create_thread) requireOwnMetadata(resolved.scope, create_thread.metadata);
    if (update_thread) requireStillVisible(resolved.scope, update_thread.metadata);
    // Subscribers in other processes see only stored frames.
    const resumable = storage.multi_process ? { resumable: true } : {};
    return { ...plan, run: { ...plan.run, ...resumable }, limits };
  }

  /**
   * Reads thread and start checkpoint, and binds a resume value to pending interrupts. The thread is null if the run is to
   * create it. A checkpoint that a `rollback` deletes is replaced by null, the head. Throws `not_found`, `already_exists`
   * (another caller's id), `checkpoint_not_found`, and what `bind` throws.
   */
  async #resolveThread(
    { scope, request, run_feature_fields }: DescribedRun,
    thread_id: string,
    { graph_id }: AssistantRow,
  ): Promise<
    Pick<ResolvedRun, "thread" | "start_checkpoint" | "request" | "resume_targets" | "asks" | "run_feature_fields">
  > {
    const { storage, scope: deploymentScope } = this.#options;
    const id = thread_id.toLowerCase();
    const requestedCheckpoint = findRequestedCheckpoint(request);
    const [thread, checkpoint] = await Promise.all([
      storage.getThread(scope, id),
      requestedCheckpoint ? storage.getCheckpoint(deploymentScope, id, requestedCheckpoint) : null,
    ]);
    if (thread?.stateless || (!thread && request.if_not_exists !== "create")) throw notFoundError("thread", thread_id);
    // Another user may own a thread with this id.
    if (!thread && scope.filter && (await storage.getThread(deploymentScope, id))) {
      throw new ServiceError("already_exists", `Thread ${thread_id} already exists`);
    }
    if (requestedCheckpoint && !checkpoint) {
      throw new ServiceError(
        "checkpoint_not_found",
        `Thread ${thread_id} has no checkpoint ${requestedCheckpoint.checkpoint_id}`,
      );
    }
    // Clients send the checkpoint they show. A rollback of the run that wrote it starts from the head instead.
    const writer = request.multitask_strategy === "rollback" ? checkpoint?.run_id : null;
    const isActive = writer && (await storage.getRun(deploymentScope, writer))?.end_frame === null;
    const startCheckpoint = isActive ? null : requestedCheckpoint;
    const requires_ids = this.#hostedGraphs.get(graph_id)?.resume === "by_id";
    const resumeRequest = { thread_id, thread, start_checkpoint: startCheckpoint, request, requires_ids };
    const isResume = request.command?.resume !== undefined;
    const boundResume = isResume ? await this.#resumeBinder.bind(resumeRequest) : { request, resume_targets: [] };
    const { resumed_run_id, ...resume }: BoundResume = boundResume;
    const state = { thread, checkpoint: startCheckpoint && checkpoint, resumed_run_id };
    const mayHaveLinks = state.checkpoint ?? resumed_run_id;
    const fields = mayHaveLinks
      ? (await import("./trace-links.ts")).addTraceLinks(run_feature_fields, state)
      : run_feature_fields;
    return { thread, start_checkpoint: startCheckpoint, run_feature_fields: fields, ...resume };
  }
}

/** The time a run waits for the run that it stopped before its subscribers get a notice. */
const WAITING_NOTICE_DELAY_MS = 250;

/** Stores planned runs and starts them in a free worker slot of this process if there is one. */
class RunStarter {
  readonly #options: CreateOptions;
  readonly #planRun: (resolved: ResolvedRun) => CreateRun;

  constructor(options: CreateOptions, planRun: (resolved: ResolvedRun) => CreateRun) {
    this.#options = options;
    this.#planRun = planRun;
  }

  /**
   * Stores a run, if possible with a claim for a free worker slot, and starts or announces it. Returns the earlier run for a
   * used idempotency key, and null if the assistant or the thread changed since they were read (read again and retry). Gives an
   * unused slot back. Throws if the run is refused; a failed call that stored the run counts as success.
   */
  async store(resolved: ResolvedRun, watched: boolean): Promise<NewOrRepeatedRun | null> {
    const { storage, scope: deploymentScope, worker } = this.#options;
    const plan = this.#planRun(resolved);
    const claim = this.#reserve(resolved, plan);
    let result: CreateRunResult | undefined;
    try {
      result = await storage.createRun(deploymentScope, { ...plan, ...claim });
    } catch (error) {
      result = { kind: "created", ...(await this.#findUnconfirmed({ ...plan, ...claim }, error)) };
    } finally {
      if (claim.claim && !(result?.kind === "created" && result.claimed)) worker.release(claim.claim);
    }
    // A reserved slot that was not used means that the thread became busy.
    const busy = resolved.thread?.status === "busy" || claim.claim !== undefined;
    if (result.kind === "created") return this.start(result, plan, { watched, busy });
    return result.kind === "repeated"
      ? toRepeatedRun(result.run, result.same_body)
      : throwRefusal(result, resolved.thread_id);
  }

  /**
   * Stores all runs or none, and starts or announces them. Returns the earlier runs if all idempotency keys were used before,
   * and null if an assistant changed (read again and retry). Throws if one of the runs is refused.
   */
  async storeBatch(resolvedRuns: readonly ResolvedRun[]): Promise<readonly NewOrRepeatedRun[] | null> {
    const unclaimedPlans = resolvedRuns.map((resolved) => this.#planRun(resolved));
    const plans = unclaimedPlans.map((plan, i) => ({
      ...plan,
      ...this.#reserve(resolvedRuns[i] as ResolvedRun, plan),
    }));
    const result = await this.#storePlans(plans);
    if (result.kind === "created") {
      return result.created.map((created, i) => {
        const plan = plans[i] as CreateRun;
        return this.start(created, plan, { busy: plan.claim !== undefined });
      });
    }
    if (result.kind === "repeated") return result.runs.map((run) => toRepeatedRun(run, result.same_body));
    const { result: refusal, index } = result;
    // Some keys were used before, but some of their runs were deleted.
    if (refusal.kind === "repeated") return [toRepeatedRun(null, refusal.same_body)];
    return throwRefusal(refusal, (resolvedRuns[index] as ResolvedRun).thread_id);
  }

  /**
   * Starts a stored run that is claimed, wakes the worker later for a delayed one, and offers others to all workers. Signals
   * the runs that it stopped. If a `watched` run must wait for a stopped one, its subscribers get a notice later. `busy` is
   * true if its thread was busy. Returns the run as not repeated.
   */
  start(
    { run, claimed, stopped }: CreatedRun,
    plan: CreateRun,
    { watched = false, busy }: { readonly watched?: boolean; readonly busy: boolean },
  ): NewOrRepeatedRun {
    const { hub, worker, onStopped } = this.#options;
    const { created_at } = plan.run;
    if (claimed) {
      if (watched) hub.getLog(run.run_id).isWatched = true;
      worker.start(claimed);
    } else if (created_at > plan.now) {
      worker.wakeAt(created_at);
    } else {
      worker.offer(busy);
    }
    if (stopped.length > 0) onStopped(stopped);
    const stopsOthers = run.multitask_strategy === "interrupt" || run.multitask_strategy === "rollback";
    if (stopsOthers && !claimed && watched) {
      this.#scheduleWaitingNotice(run, stopped.find(({ lock_token }) => lock_token !== null)?.run_id ?? null);
    }
    return { run, repeated: false };
  }

  /**
   * Stores all runs or none, and gives unused slots back. If the call rejects although all runs were stored, returns them as
   * created, without claims; else rethrows its error. Returns a refusal unchanged.
   */
  async #storePlans(plans: readonly CreateRun[]): Promise<CreateRunsResult> {
    const { storage, scope: deploymentScope, worker } = this.#options;
    let result: CreateRunsResult | undefined;
    try {
      result = await storage.createRuns(deploymentScope, plans);
    } catch (error) {
      // All were created, or none.
      const created = await Promise.all(plans.map((plan) => this.#findUnconfirmed(plan, error)));
      result = { kind: "created", created };
    } finally {
      const created = result?.kind === "created" ? result.created : [];
      for (const [i, { claim }] of plans.entries()) if (claim && !created[i]?.claimed) worker.release(claim);
    }
    return result;
  }

  /**
   * Reserves a worker slot and returns it as a claim; an empty object if the run is not due, its thread was busy, or no slot is
   * free.
   */
  #reserve({ thread, now }: ResolvedRun, plan: CreateRun): Pick<CreateRun, "claim"> {
    const isLater = plan.run.created_at > now || thread?.status === "busy";
    const claim = isLater ? null : this.#options.worker.reserve();
    return claim ? { claim } : {};
  }

  /** Sends the notice of `#sendWaitingNotice` after a delay. Logs a failure. */
  #scheduleWaitingNotice(run: RunRow, stoppedRunId: string | null): void {
    const { environment } = this.#options;
    const { run_id, thread_id } = run;
    environment.timer(WAITING_NOTICE_DELAY_MS, () => {
      this.#sendWaitingNotice(run, stoppedRunId).catch((error: unknown) => {
        environment.log({ level: "warn", message: "reading a waiting run failed", run_id, thread_id, error });
      });
    });
  }

  /**
   * Emits a notice with the run that this one waits for, because the executor of a stopped run may ignore its signal. Does
   * nothing if the run has no subscribers here, has started, or the thread lock is free.
   */
  async #sendWaitingNotice({ run_id, thread_id }: RunRow, stoppedRunId: string | null): Promise<void> {
    const { storage, scope: deploymentScope, environment, hub } = this.#options;
    const runLog = hub.find(run_id);
    if (!runLog?.hasSubscribers || runLog.isLive || runLog.lastId > 0) return;
    const thread = await storage.getThread(deploymentScope, thread_id);
    if (!thread?.lock || thread.lock.until <= environment.now() || thread.running === run_id) return;
    const waiting_for = thread.running ?? stoppedRunId;
    runLog.noteWaiting(JSON.stringify({ run_id, thread_id, waiting_for, reason: "RunStopping" }));
  }

  /**
   * Returns the run of a failed call if it was stored nevertheless, logs that, and returns a claimed one to the queue; else
   * rethrows `error`. `stopped` is empty: runs that it stopped get their signal from the database.
   */
  async #findUnconfirmed({ run, claim, now }: CreateRun, error: unknown): Promise<CreatedRun> {
    const { storage, scope: deploymentScope, environment } = this.#options;
    const { run_id, thread_id } = run;
    const row = await storage.getRun(deploymentScope, run_id).catch(() => null);
    if (!row) throw error;
    environment.log({ level: "warn", message: "a run was created, though the store failed", run_id, thread_id, error });
    if (claim) {
      // Nothing executes the run: return it to the queue before its lease expires.
      await storage.requeueRun(deploymentScope, { run_id, thread_id, token: claim.token }, now).catch(() => {});
    }
    return { run: row, claimed: null, stopped: [] };
  }
}

/** Returns true if the list has earlier runs instead of resolved ones; false for an empty list. */
const isRepeatedBatch = (
  runs: readonly ResolvedRun[] | readonly NewOrRepeatedRun[],
): runs is readonly NewOrRepeatedRun[] => runs.some((run) => "repeated" in run);

type CreateRefusal = Exclude<CreateRunResult, { readonly kind: "created" | "repeated" }>;

/**
 * Throws `not_found`, `thread_busy`, `interrupt_already_answered` or `limit_reached` for a refused run. Returns null for `stale`:
 * the assistant or the thread changed, so read them again and retry.
 */
function throwRefusal(result: CreateRefusal, thread_id: string): null {
  switch (result.kind) {
    case "thread_not_found":
      throw notFoundError("thread", thread_id);
    case "thread_busy":
      throw new ServiceError(
        "thread_busy",
        `Thread ${thread_id} is already running a task. Wait for it to end, or choose another multitask_strategy`,
      );
    case "interrupt_answered":
      throw interruptAnsweredError(thread_id, result.run_id);
    case "thread_full":
      throw new ServiceError("limit_reached", `Thread ${thread_id} has ${result.pending} pending runs`);
    case "deployment_full":
      throw new ServiceError("limit_reached", `The deployment has ${result.pending} pending runs`);
    case "stale":
      return null;
  }
}

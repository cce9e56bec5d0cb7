/** Creates runs: looks up what the request names, and tries again when that changed before the run was stored. */
import type { AssistantDirectory } from "../assistants/mod.ts";
import type { Worker } from "../engine/worker.ts";
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { CheckpointRef, Executor } from "../executor/contract.ts";
import type {
  AssistantRow,
  CreatedRun,
  CreateRun,
  CreateRunOutcome,
  CreateRunsOutcome,
  RunRow,
  Scope,
  Storage,
  ThreadRow,
  ThreadTtl,
} from "../storage/mod.ts";
import { refuseForOthers, requireKept, type Visibility, withVisibility } from "../storage/visibility.ts";
import type { StreamHub } from "../streams/hub.ts";
import { StateUnreadable, type ThreadDirectory } from "../threads/mod.ts";
import type { Notifications } from "./notifications.ts";
import { checkpointOf, checkRequest, planRun, type Resolved, type RunCreate, type RunOrigin } from "./request.ts";
import { checkResume } from "./resume.ts";
import type { Stops } from "./stop.ts";

export interface CreateOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly executor: Executor;
  readonly environment: Environment;
  readonly events: StreamHub;
  readonly worker: Worker;
  readonly assistants: AssistantDirectory;
  readonly threads: ThreadDirectory;
  /** How long threads last that runs make. */
  readonly ttl?: ThreadTtl;
  readonly limits: NonNullable<CreateRun["limits"]>;
  readonly stops: Stops;
  readonly told: Notifications;
}

/** `repeated`: an earlier call with the same idempotency key made it. */
export interface Created {
  readonly run: RunRow;
  readonly repeated: boolean;
}

/** `watched`: the run's frames are about to be read. */
export type CreateRunCall = (
  thread_id: string | null,
  request: RunCreate,
  origin: RunOrigin,
  watched?: boolean,
) => Promise<Created>;

/** A run that somebody else stores, as a cron does with what becomes of its tick. */
export interface Preparing {
  /**
   * What `create` would store now, without a claim. Where storing it shows that something has changed, it is prepared anew.
   * Errors: those of `create`.
   */
  prepare(thread_id: string | null, request: RunCreate, origin: RunOrigin): Promise<CreateRun>;
  /** It is stored, on a thread that may be busy. */
  started(created: CreatedRun, plan: CreateRun): void;
}

/** How long a run waits for one that it stopped before its readers are told. */
const TOLD_AFTER_MS = 250;

export function createCreator(options: CreateOptions): Preparing & {
  readonly create: CreateRunCall;
  /** All of them, or none. */
  readonly createBatch: (requests: readonly RunCreate[], origin: RunOrigin) => Promise<readonly Created[]>;
} {
  const { storage, scope, environment, events, worker, assistants, threads, ttl, limits, stops, told } = options;
  const hosted = new Set(options.executor.graphs().map((graph) => graph.graph_id));
  const kept = ttl ? { ttl } : {};
  // Readers in other processes know only what is stored.
  const shared = storage.multi_process ? { framed: true } : {};

  function planOf(resolved: Resolved): CreateRun {
    const plan = planRun(resolved);
    const { create_thread, update_thread } = plan;
    if (create_thread) refuseForOthers(resolved.origin.threads, create_thread.metadata);
    if (update_thread) requireKept(resolved.origin.threads, update_thread.metadata);
    return { ...plan, run: { ...plan.run, ...shared }, limits };
  }

  function refuseUnhosted({ graph_id }: AssistantRow): void {
    if (!hosted.has(graph_id)) throw new ServiceError("not_found", `Graph ${graph_id} not found`);
  }

  async function placeOf(
    thread_id: string,
    request: RunCreate,
    visibility: Visibility | undefined,
  ): Promise<Pick<Resolved, "thread" | "from">> {
    const id = thread_id.toLowerCase();
    const from = checkpointOf(request);
    const [thread, at] = await Promise.all([
      storage.getThread(withVisibility(scope, visibility), id),
      from ? storage.getCheckpoint(scope, id, from) : null,
    ]);
    if (thread?.hidden || (!thread && request.if_not_exists !== "create")) {
      throw new ServiceError("not_found", `Thread ${thread_id} not found`);
    }
    // One that is hidden from the caller is somebody else's, whatever they ask for.
    if (!thread && visibility?.filter && (await storage.getThread(scope, id))) {
      throw new ServiceError("conflict", `Thread ${thread_id} already exists`);
    }
    if (from && !at) {
      throw new ServiceError("not_found", `Thread ${thread_id} has no checkpoint ${from.checkpoint_id}`);
    }
    if (thread && thread.status !== "busy") await answerable(thread, from, request);
    // UIs name the state they show. If that is about to be rolled back, what it was made from is meant.
    const shown = request.multitask_strategy === "rollback" ? at?.run_id : null;
    const goes = shown && (await storage.getRun(scope, shown))?.end_frame === null;
    return { thread, from: goes ? null : from };
  }

  /** For threads at rest: what a run that waits for another will find open is not known. */
  async function answerable(thread: ThreadRow, from: CheckpointRef | null, request: RunCreate): Promise<void> {
    if (request.command?.resume === undefined) return;
    const at = from ? { checkpoint_ns: from.ns, checkpoint_id: from.checkpoint_id } : null;
    try {
      const state = at ? await threads.stateAt(thread.thread_id, at) : await threads.current(thread);
      checkResume(request, state?.interrupts ?? []);
    } catch (error) {
      // The run itself will tell.
      if (!(error instanceof StateUnreadable)) throw error;
    }
  }

  const create: CreateRunCall = async (thread_id, request, origin, watched = false) => {
    checkRequest(request, thread_id);
    const made = told.of(request, origin);
    const ids = {
      thread_id: thread_id?.toLowerCase() ?? environment.uuid(),
      run_id: origin.run_ids?.[0] ?? environment.uuid(),
    };
    const temporary = thread_id === null && request.on_completion !== "keep";
    let assistant = await assistants.recall(request.assistant_id, origin.assistants);
    while (true) {
      refuseUnhosted(assistant);
      const place =
        thread_id === null ? { thread: null, from: null } : await placeOf(thread_id, request, origin.threads);
      const created = await store(
        { request, origin, assistant, temporary, told: made, now: environment.now(), ...kept, ...place, ...ids },
        watched,
      );
      if (created) return created;
      assistant = await assistants.resolve(request.assistant_id, origin.assistants);
    }
  };

  async function prepare(thread_id: string | null, request: RunCreate, origin: RunOrigin): Promise<CreateRun> {
    checkRequest(request, thread_id);
    const made = told.of(request, origin);
    const assistant = await assistants.resolve(request.assistant_id, origin.assistants);
    refuseUnhosted(assistant);
    const place = thread_id === null ? { thread: null, from: null } : await placeOf(thread_id, request, origin.threads);
    const ids = { thread_id: thread_id?.toLowerCase() ?? environment.uuid(), run_id: environment.uuid() };
    const temporary = thread_id === null && request.on_completion !== "keep";
    const now = environment.now();
    return planOf({ request, origin, assistant, temporary, told: made, now, ...kept, ...place, ...ids });
  }

  /** The claim of a run that is to start at once, where its thread is free as far as known and a place is too. */
  function reserve({ thread, now }: Resolved, plan: CreateRun): Pick<CreateRun, "claim"> {
    const claim = plan.run.created_at > now || thread?.status === "busy" ? null : worker.reserve();
    return claim ? { claim } : {};
  }

  /** A run that was stopped for this one, or for one before it, may not listen: readers are told what they wait for. */
  function tellWait({ run_id, thread_id }: RunRow, stopped: string | null): void {
    const look = async (): Promise<void> => {
      const runEvents = events.find(run_id);
      if (!runEvents?.followed || runEvents.live || runEvents.lastId > 0) return;
      const thread = await storage.getThread(scope, thread_id);
      if (!thread?.slot || thread.slot.until <= environment.now() || thread.running === run_id) return;
      runEvents.note(
        JSON.stringify({ run_id, thread_id, waiting_for: thread.running ?? stopped, reason: "RunStopping" }),
      );
    };
    environment.timer(TOLD_AFTER_MS, () => {
      look().catch((error: unknown) => {
        environment.log({ level: "warn", message: "a run that waits could not be watched", run_id, thread_id, error });
      });
    });
  }

  function started(
    { run, claimed, stopped }: CreatedRun,
    { run: { created_at }, now }: CreateRun,
    { watched = false, busy }: { readonly watched?: boolean; readonly busy: boolean },
  ): Created {
    if (claimed) {
      if (watched) events.runEvents(run.run_id).watched = true;
      worker.start(claimed);
    } else if (created_at > now) {
      worker.wakeAt(created_at);
    } else {
      worker.offer(busy);
    }
    if (stopped.length > 0) stops.stopped(stopped);
    const stops_others = run.multitask_strategy === "interrupt" || run.multitask_strategy === "rollback";
    if (stops_others && !claimed && watched) {
      tellWait(run, stopped.find(({ slot_token }) => slot_token !== null)?.run_id ?? null);
    }
    events.announce(run.thread_id);
    return { run, repeated: false };
  }

  /** Null when the assistant or the thread changed meanwhile: the caller looks again. */
  async function store(resolved: Resolved, watched: boolean): Promise<Created | null> {
    const plan = planOf(resolved);
    const claim = reserve(resolved, plan);
    let outcome: CreateRunOutcome | undefined;
    try {
      outcome = await storage.createRun(scope, { ...plan, ...claim });
    } catch (error) {
      outcome = { kind: "created", ...(await unseen({ ...plan, ...claim }, error)) };
    } finally {
      if (claim.claim && !(outcome?.kind === "created" && outcome.claimed)) worker.release(claim.claim);
    }
    // Where a place was kept for it, its thread was taken meanwhile.
    const busy = resolved.thread?.status === "busy" || claim.claim !== undefined;
    if (outcome.kind === "created") return started(outcome, plan, { watched, busy });
    return outcome.kind === "repeated" ? repeated(outcome.run, outcome.same_body) : refuse(outcome, resolved.thread_id);
  }

  /** The store failed, and may have made the run all the same: then it is made, and whoever it stopped learns that by itself. */
  async function unseen({ run, claim, now }: CreateRun, error: unknown): Promise<CreatedRun> {
    const { run_id, thread_id } = run;
    const row = await storage.getRun(scope, run_id).catch(() => null);
    if (!row) throw error;
    environment.log({ level: "warn", message: "a run was made, though the store failed", run_id, thread_id, error });
    if (claim) {
      // What nobody executes is not to wait for the end of its lease.
      await storage.requeueRun(scope, { run_id, thread_id, token: claim.token }, now).catch(() => {});
    }
    return { run: row, claimed: null, stopped: [] };
  }

  /** The same for all of them. */
  async function storeAll(all: readonly Resolved[]): Promise<readonly Created[] | null> {
    const made = all.map(planOf);
    const plans = made.map((plan, i) => ({ ...plan, ...reserve(all[i] as Resolved, plan) }));
    let outcome: CreateRunsOutcome | undefined;
    try {
      outcome = await storage.createRuns(scope, plans);
    } catch (error) {
      // All were made, or none.
      outcome = { kind: "created", created: await Promise.all(plans.map((plan) => unseen(plan, error))) };
    } finally {
      const created = outcome?.kind === "created" ? outcome.created : [];
      for (const [i, { claim }] of plans.entries()) if (claim && !created[i]?.claimed) worker.release(claim);
    }
    if (outcome.kind === "created") {
      return outcome.created.map((created, i) => {
        const plan = plans[i] as CreateRun;
        return started(created, plan, { busy: plan.claim !== undefined });
      });
    }
    if (outcome.kind === "repeated") return outcome.runs.map((run) => repeated(run, outcome.same_body));
    const { outcome: why, index } = outcome;
    // Some are known, but not all: the others are gone.
    if (why.kind === "repeated") return [repeated(null, why.same_body)];
    return refuse(why, (all[index] as Resolved).thread_id);
  }

  return {
    create,
    prepare,
    started: (created, plan) => void started(created, plan, { busy: true }),
    async createBatch(requests, origin) {
      if (requests.length === 0) throw new ServiceError("invalid", "A batch needs at least one run");
      for (const request of requests) checkRequest(request, null);
      const { idempotency, ...rest } = origin;
      const ids = requests.map((_, i) => ({
        thread_id: environment.uuid(),
        run_id: origin.run_ids?.[i] ?? environment.uuid(),
        origin: idempotency ? { ...rest, idempotency: { ...idempotency, route: `${idempotency.route}#${i}` } } : rest,
        told: told.of(requests[i] as RunCreate, origin),
      }));
      let look = assistants.recall;
      while (true) {
        const all: Resolved[] = [];
        for (const [i, request] of requests.entries()) {
          const assistant = await look(request.assistant_id, origin.assistants);
          refuseUnhosted(assistant);
          const temporary = request.on_completion !== "keep";
          const now = environment.now();
          all.push({
            request,
            assistant,
            thread: null,
            from: null,
            temporary,
            now,
            ...kept,
            ...(ids[i] as (typeof ids)[number]),
          });
        }
        const made = await storeAll(all);
        if (made) return made;
        look = assistants.resolve;
      }
    },
  };
}

/** The run that an earlier call with the same idempotency key made. */
function repeated(run: RunRow | null, same_body: boolean): Created {
  if (!same_body) throw new ServiceError("invalid", "Idempotency-Key: was used for another request");
  if (!run) throw new ServiceError("conflict", "The run that was made with this Idempotency-Key is gone");
  return { run, repeated: true };
}

type Refused = Exclude<CreateRunOutcome, { readonly kind: "created" | "repeated" }>;

/** Null for what may be tried again. */
function refuse(outcome: Refused, thread_id: string): null {
  switch (outcome.kind) {
    case "thread_not_found":
      throw new ServiceError("not_found", `Thread ${thread_id} not found`);
    case "thread_busy":
      throw new ServiceError(
        "conflict",
        `Thread ${thread_id} is already running a task. Wait for it to end, or choose another multitask_strategy`,
      );
    case "thread_full":
      throw new ServiceError("conflict", `Thread ${thread_id} has ${outcome.pending} pending runs`);
    case "deployment_full":
      throw new ServiceError("conflict", `The deployment has ${outcome.pending} pending runs`);
    case "stale":
      return null;
  }
}

/** Stores planned runs and starts them, in a free slot of this process if there is one. */
import type { Worker } from "../engine/worker.ts";
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type {
  CreatedRun,
  CreateRun,
  CreateRunOutcome,
  CreateRunsOutcome,
  RunRow,
  Scope,
  Storage,
} from "../storage/mod.ts";
import type { StreamHub } from "../streams/hub.ts";
import type { Resolved } from "./request.ts";
import type { RunResolver } from "./resolve.ts";
import type { Stops } from "./stop.ts";

export interface StoreRunOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly hub: StreamHub;
  readonly worker: Worker;
  readonly stops: Stops;
}

/** `repeated`: an earlier call with the same idempotency key created the run. */
export interface CreatedRunRow {
  readonly run: RunRow;
  readonly repeated: boolean;
}

export interface RunStore {
  /** Null if the assistant or the thread changed since they were read: read them again and retry. */
  store(resolved: Resolved, watched: boolean): Promise<CreatedRunRow | null>;
  /** All of them, or none. */
  storeAll(all: readonly Resolved[]): Promise<readonly CreatedRunRow[] | null>;
  /** Starts or announces a stored run. `busy`: its thread was busy. */
  started(
    created: CreatedRun,
    plan: CreateRun,
    options: { readonly watched?: boolean; readonly busy: boolean },
  ): CreatedRunRow;
}

/** How long a run waits for the one that it stopped before its subscribers get a note. */
const WAITING_NOTE_MS = 250;

export function createRunStore(options: StoreRunOptions, resolver: RunResolver): RunStore {
  const { storage, scope, environment, hub, worker, stops } = options;

  /** Reserves a slot for a run that can start at once: it is due, and its thread is not known to be busy. */
  function reserve({ thread, now }: Resolved, plan: CreateRun): Pick<CreateRun, "claim"> {
    const claim = plan.run.created_at > now || thread?.status === "busy" ? null : worker.reserve();
    return claim ? { claim } : {};
  }

  /** Tells subscribers which run this one waits for: the executor of a stopped run may ignore its signal. */
  function noteWaiting({ run_id, thread_id }: RunRow, stopped: string | null): void {
    const note = async (): Promise<void> => {
      const runEvents = hub.find(run_id);
      if (!runEvents?.followed || runEvents.live || runEvents.lastId > 0) return;
      const thread = await storage.getThread(scope, thread_id);
      if (!thread?.slot || thread.slot.until <= environment.now() || thread.running === run_id) return;
      runEvents.note(
        JSON.stringify({ run_id, thread_id, waiting_for: thread.running ?? stopped, reason: "RunStopping" }),
      );
    };
    environment.timer(WAITING_NOTE_MS, () => {
      note().catch((error: unknown) => {
        environment.log({ level: "warn", message: "reading a waiting run failed", run_id, thread_id, error });
      });
    });
  }

  const started: RunStore["started"] = ({ run, claimed, stopped }, plan, { watched = false, busy }) => {
    const { created_at } = plan.run;
    if (claimed) {
      if (watched) hub.runEvents(run.run_id).watched = true;
      worker.start(claimed);
    } else if (created_at > plan.now) {
      worker.wakeAt(created_at);
    } else {
      worker.offer(busy);
    }
    if (stopped.length > 0) stops.onStopped(stopped);
    const stopsOthers = run.multitask_strategy === "interrupt" || run.multitask_strategy === "rollback";
    if (stopsOthers && !claimed && watched) {
      noteWaiting(run, stopped.find(({ slot_token }) => slot_token !== null)?.run_id ?? null);
    }
    return { run, repeated: false };
  };

  /** After a failed call the run may exist all the same. Runs that it stopped get their signal by another way. */
  async function findUnconfirmed({ run, claim, now }: CreateRun, error: unknown): Promise<CreatedRun> {
    const { run_id, thread_id } = run;
    const row = await storage.getRun(scope, run_id).catch(() => null);
    if (!row) throw error;
    environment.log({ level: "warn", message: "a run was created, though the store failed", run_id, thread_id, error });
    if (claim) {
      // Nothing executes the run: return it to the queue before its lease expires.
      await storage.requeueRun(scope, { run_id, thread_id, token: claim.token }, now).catch(() => {});
    }
    return { run: row, claimed: null, stopped: [] };
  }

  async function store(resolved: Resolved, watched: boolean): Promise<CreatedRunRow | null> {
    const plan = resolver.plan(resolved);
    const claim = reserve(resolved, plan);
    let outcome: CreateRunOutcome | undefined;
    try {
      outcome = await storage.createRun(scope, { ...plan, ...claim });
    } catch (error) {
      outcome = { kind: "created", ...(await findUnconfirmed({ ...plan, ...claim }, error)) };
    } finally {
      if (claim.claim && !(outcome?.kind === "created" && outcome.claimed)) worker.release(claim.claim);
    }
    // A reserved slot that was not used means that the thread became busy.
    const busy = resolved.thread?.status === "busy" || claim.claim !== undefined;
    if (outcome.kind === "created") return started(outcome, plan, { watched, busy });
    return outcome.kind === "repeated" ? repeated(outcome.run, outcome.same_body) : refuse(outcome, resolved.thread_id);
  }

  async function storeAll(all: readonly Resolved[]): Promise<readonly CreatedRunRow[] | null> {
    const planned = all.map(resolver.plan);
    const plans = planned.map((plan, i) => ({ ...plan, ...reserve(all[i] as Resolved, plan) }));
    let outcome: CreateRunsOutcome | undefined;
    try {
      outcome = await storage.createRuns(scope, plans);
    } catch (error) {
      // All were created, or none.
      outcome = { kind: "created", created: await Promise.all(plans.map((plan) => findUnconfirmed(plan, error))) };
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
    if (outcome.kind === "repeated") {
      const { same_body } = outcome;
      return outcome.runs.map((run) => repeated(run, same_body));
    }
    const { outcome: refused, index } = outcome;
    // Some keys are known, but some of their runs were deleted.
    if (refused.kind === "repeated") return [repeated(null, refused.same_body)];
    return refuse(refused, (all[index] as Resolved).thread_id);
  }

  return { store, storeAll, started };
}

/** The run that an earlier call with the same idempotency key created. Errors: invalid, conflict. */
function repeated(run: RunRow | null, same_body: boolean): CreatedRunRow {
  if (!same_body) throw new ServiceError("invalid", "Idempotency-Key: was used for another request");
  if (!run) throw new ServiceError("conflict", "The run that was made with this Idempotency-Key is gone");
  return { run, repeated: true };
}

type Refused = Exclude<CreateRunOutcome, { readonly kind: "created" | "repeated" }>;

/** Null for `stale`: the assistant or the thread changed since it was read; read again and retry. */
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

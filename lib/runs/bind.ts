/** Runs as one caller may use them. */
import type { AssistantDirectory } from "../assistants/mod.ts";
import type { Binding, Permit } from "../auth/binding.ts";
import { refusalOf } from "../auth/permission.ts";
import { uuidV7 } from "../environment.ts";
import type { JsonObject } from "../json.ts";
import type { Scope } from "../storage/mod.ts";
import { narrowed, refuseForOthers } from "../storage/visibility.ts";
import type { RunDirectory, Runs } from "./mod.ts";
import type { RunCreate, RunOrigin, RunPermit, ScopedOrigin } from "./request.ts";

/**
 * The value of `threads:create_run`. Handlers may change `metadata`, and `input`, `command`, `config` and `context` in `kwargs`;
 * other changes are ignored.
 */
interface RunValue {
  /** Null: a stateless run. */
  readonly thread_id: string | null;
  readonly assistant_id: string;
  /** The id of the new run, unless its idempotency key is known already. Null: a cron creates the run later. */
  readonly run_id: string | null;
  readonly status: "pending";
  readonly metadata: JsonObject;
  readonly prevent_insert_if_inflight: boolean;
  readonly multitask_strategy: string;
  readonly if_not_exists: string;
  readonly after_seconds: number;
  readonly kwargs: Readonly<Record<string, unknown>>;
}

function runValue(thread_id: string | null, run_id: string | null, request: RunCreate): RunValue {
  const { assistant_id, metadata, multitask_strategy, if_not_exists, after_seconds, config, ...rest } = request;
  const { on_completion, on_disconnect: _, stream_subgraphs, stream_resumable, ...kwargs } = rest;
  const strategy = multitask_strategy ?? "enqueue";
  return {
    thread_id,
    assistant_id,
    run_id,
    status: "pending",
    metadata: metadata ?? {},
    prevent_insert_if_inflight: strategy === "reject",
    multitask_strategy: strategy,
    if_not_exists: if_not_exists ?? "reject",
    after_seconds: after_seconds ?? 0,
    kwargs: {
      ...kwargs,
      input: request.input ?? null,
      command: request.command ?? null,
      config: { ...config, configurable: config?.configurable ?? {} },
      context: request.context ?? {},
      subgraphs: stream_subgraphs ?? false,
      resumable: stream_resumable ?? false,
      temporary: thread_id === null && on_completion !== "keep",
    },
  };
}

/** The request with the handlers' changes. */
function changedRun(request: RunCreate, { metadata, kwargs }: RunValue, recheck: RunOrigin["recheck"]): RunCreate {
  const { input, command, config, context } = kwargs;
  const changed = { ...request, metadata, input, command, config, context } as RunCreate;
  try {
    return recheck ? recheck(changed) : changed;
  } catch (error) {
    throw new Error("The threads:create_run handler of custom authentication changed the run to an invalid request", {
      cause: error,
    });
  }
}

interface RunPermits {
  /** The assistants that a user's run may use; undefined: all. A graph's default assistant needs no permission but that of the run. */
  assistants(assistant_id: string): Promise<Scope | undefined>;
  /** The run as the handlers leave it, and the threads it may be created on. */
  run(
    thread_id: string | null,
    run_id: string | null,
    request: RunCreate,
    recheck?: RunOrigin["recheck"],
  ): Promise<Permit<RunCreate>>;
}

/** What the handlers permit of new runs, and of the runs of crons. */
export const createRunPermits = (
  { authorize, guarded, scope }: Binding,
  directory: Pick<AssistantDirectory, "isDefault">,
): RunPermits => ({
  async assistants(assistant_id) {
    if (await directory.isDefault(assistant_id)) return undefined;
    const permit = await authorize("assistants:read", { assistant_id });
    return permit.scope.filter ? permit.scope : undefined;
  },
  async run(thread_id, run_id, request, recheck) {
    if (!guarded) return { scope, value: request };
    const run = runValue(thread_id, run_id, request);
    const { value, ...permit } = await authorize("threads:create_run", run);
    // A stateless run's thread gets the metadata of the run.
    if (thread_id === null) refuseForOthers(permit.scope, value.metadata);
    if (value === run) return { ...permit, value: request };
    const { kwargs, metadata } = value;
    const changed = kwargs === run.kwargs ? { ...request, metadata } : changedRun(request, value, recheck);
    return { ...permit, value: changed };
  },
});

/** An idempotency key counts per route and per user: another user's run must not be the answer. */
const keyOf = ({ idempotency }: RunOrigin, sender: string | null): Pick<RunOrigin, "idempotency"> =>
  idempotency ? { idempotency: { ...idempotency, route: `${idempotency.route} ${JSON.stringify(sender)}` } } : {};

/** Runs with the permits of new ones, for commands. */
export interface BoundRuns extends Runs {
  permit(thread_id: string | null, request: RunCreate, origin?: RunOrigin): Promise<RunPermit>;
}

export function bindRuns(
  runs: RunDirectory,
  binding: Binding,
  assistants: Pick<AssistantDirectory, "isDefault">,
): BoundRuns {
  const { authorize, reader, value: shown, caller, environment } = binding;
  const permits = createRunPermits(binding, assistants);

  /** Chooses the id of the run if a handler of custom authorization gets it. */
  async function permit(thread_id: string | null, request: RunCreate, given: ScopedOrigin = {}) {
    const { recheck, assistants: _, ...origin } = given;
    const { user_id, api_key, user, threads } = await caller();
    const sender = user ? user.identity : threads.filter && user_id;
    const key = sender === undefined ? {} : keyOf(origin, sender);
    const usable = user ? await permits.assistants(request.assistant_id) : undefined;
    const run_id = user ? uuidV7(environment) : null;
    const { value, ...run } = await permits.run(thread_id, run_id, request, recheck);
    const own = {
      ...key,
      user_id,
      api_key,
      ...(user ? { user } : {}),
      ...(run_id === null ? {} : { run_ids: [run_id] }),
    };
    return { ...run, request: value, origin: { ...origin, ...own, ...(usable ? { assistants: usable } : {}) } };
  }

  async function read(thread_id: string | null, run_id: string): Promise<Scope> {
    return (await authorize("threads:read", { thread_id, run_id })).scope;
  }

  const stopping = (thread_id: string | null, action: string, metadata: object): Promise<Permit<object>> =>
    authorize("threads:update", { thread_id, action, metadata });

  /** With `cancel_on_disconnect` the caller needs the permission to cancel, now and when it disconnects. */
  async function join<Options extends { readonly cancel_on_disconnect?: boolean }>(
    thread_id: string | null,
    run_id: string,
    options: Options,
  ) {
    const permit = await authorize("threads:read", { thread_id, run_id });
    if (!options.cancel_on_disconnect) return { permit, scope: permit.scope, options };
    const stops = await stopping(thread_id, "interrupt", { run_ids: [run_id] });
    const mayCancel = async (): Promise<boolean> => (await refusalOf(stops)) === null;
    const joining = stops.again ? { ...options, mayCancel } : options;
    return { permit, scope: narrowed(permit.scope, stops.scope), options: joining };
  }

  return {
    permit,
    async create(thread_id, request, origin) {
      const run = await permit(thread_id, request, origin);
      return await runs.create(run.scope, thread_id, run.request, run.origin);
    },
    async stream(thread_id, request, origin, ...options) {
      const run = await permit(thread_id, request, origin);
      const stream = await runs.stream(run.scope, thread_id, run.request, run.origin, ...options);
      return { ...stream, frames: reader(run, stream.frames) };
    },
    async wait(thread_id, request, origin) {
      const run = await permit(thread_id, request, origin);
      return shown(run, await runs.wait(run.scope, thread_id, run.request, run.origin));
    },
    async createBatch(requests, origin) {
      const permitted: RunPermit[] = [];
      for (const request of requests) permitted.push(await permit(null, request, origin));
      const run_ids = permitted.flatMap((run) => run.origin.run_ids ?? []);
      const usable = permitted.flatMap((run) => run.origin.assistants ?? []);
      const batch = permitted.map(({ request }) => request);
      return await runs.createBatch(binding.scope, batch, {
        ...permitted[0]?.origin,
        ...(run_ids.length > 0 ? { run_ids } : {}),
        // The filters of all runs apply to each of them.
        ...(usable.length > 0 ? { assistants: usable.reduce(narrowed<Scope>) } : {}),
      });
    },
    get: async (thread_id, run_id) => await runs.get(await read(thread_id, run_id), thread_id, run_id),
    async list(thread_id, query) {
      const { scope } = await authorize("threads:read", { thread_id });
      return await runs.list(scope, thread_id, query);
    },
    async delete(thread_id, run_id) {
      const { scope } = await authorize("threads:delete", { thread_id, run_id });
      await runs.delete(scope, thread_id, run_id);
    },
    async cancel(thread_id, run_id, options = {}) {
      const { action = "interrupt" } = options;
      const { scope } = await stopping(thread_id, action, { run_ids: [run_id] });
      await runs.cancel(scope, thread_id, run_id, options);
    },
    async cancelMany(target, action = "interrupt") {
      const { thread_id, ...metadata } = { thread_id: null, ...target };
      const { scope } = await stopping(thread_id, action, metadata);
      await runs.cancelMany(scope, target, action);
    },
    async join(thread_id, run_id, given = {}) {
      const { permit, scope, options } = await join(thread_id, run_id, given);
      return shown(permit, await runs.join(scope, thread_id, run_id, options));
    },
    async joinStream(thread_id, run_id, given = {}) {
      const { permit, scope, options } = await join(thread_id, run_id, given);
      const stream = await runs.joinStream(scope, thread_id, run_id, options);
      return { ...stream, frames: reader(permit, stream.frames) };
    },
    async search(query = {}) {
      const { value, scope } = await authorize("threads:search", query);
      return await runs.search(scope, value);
    },
    async stats() {
      return await runs.stats((await authorize("threads:search", {})).scope);
    },
    inspect: async (run_id) => await runs.inspect(await read(null, run_id), run_id),
    async rerun(run_id, origin) {
      return await runs.rerun(await read(null, run_id), run_id, origin, permit);
    },
  };
}

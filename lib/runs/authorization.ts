/** What the host's handlers permit of new runs, and the calls of runs whose authorization has more than one step. */
import type { AssistantDirectory } from "../assistants/mod.ts";
import type { AuthorizedCall, Authorizer } from "../auth/authorizer.ts";
import { uuidV7 } from "../environment.ts";
import type { JsonObject } from "../json.ts";
import type { Scope } from "../storage/mod.ts";
import { intersectScope, requireOwnMetadata } from "../storage/visibility.ts";
import type { AccessGrant, GuardedThread } from "../streams/stream-guard.ts";
import type { RunDirectory, RunStream, Runs } from "./mod.ts";
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
  ): Promise<AuthorizedCall<RunCreate>>;
}

/** The events of a new run: the run itself, and the assistant that it uses. */
export type RunEvent = "threads:create_run" | "assistants:read";

/** What the handlers permit of new runs, and of the runs of crons. */
export const createRunPermits = (
  { authorize, isEnforced, scope }: Authorizer<RunEvent>,
  directory: Pick<AssistantDirectory, "isDefault">,
): RunPermits => ({
  async assistants(assistant_id) {
    if (await directory.isDefault(assistant_id)) return undefined;
    const authorizedCall = await authorize("assistants:read", { assistant_id });
    return authorizedCall.scope.filter ? authorizedCall.scope : undefined;
  },
  async run(thread_id, run_id, request, recheck) {
    if (!isEnforced) return { scope, value: request };
    const run = runValue(thread_id, run_id, request);
    const { value, ...permit } = await authorize("threads:create_run", run);
    // A stateless run's thread gets the metadata of the run.
    if (thread_id === null) requireOwnMetadata(permit.scope, value.metadata);
    if (value === run) return { ...permit, value: request };
    const { kwargs, metadata } = value;
    const changed = kwargs === run.kwargs ? { ...request, metadata } : changedRun(request, value, recheck);
    return { ...permit, value: changed };
  },
});

/** An idempotency key counts per route and per user: another user's run must not be the answer. */
const keyOf = ({ idempotency }: RunOrigin, sender: string | null): Pick<RunOrigin, "idempotency"> =>
  idempotency ? { idempotency: { ...idempotency, route: `${idempotency.route} ${JSON.stringify(sender)}` } } : {};

interface Directories {
  readonly runs: RunDirectory;
  readonly assistants: Pick<AssistantDirectory, "isDefault">;
}

/** Authorizes a new run, without creating it. */
export type PermitRun = (thread_id: string | null, request: RunCreate, origin?: RunOrigin) => Promise<RunPermit>;

/** Chooses the id of the run if a handler of custom authorization gets it. */
export const permitRun = (
  authorizer: Authorizer<RunEvent>,
  { assistants }: Pick<Directories, "assistants">,
): ((...args: Parameters<PermitRun>) => Promise<RunPermit & AccessGrant>) => {
  const { caller, environment } = authorizer;
  const permits = createRunPermits(authorizer, assistants);
  return async (thread_id, request, given: ScopedOrigin = {}) => {
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
  };
};

export const createRun = (authorizer: Authorizer<RunEvent>, directories: Directories): Runs["create"] => {
  const permit = permitRun(authorizer, directories);
  return async (...given) => {
    const { scope, request, origin } = await permit(...given);
    return await directories.runs.create(scope, given[0], request, origin);
  };
};

/** The thread of a run that the caller has just created. */
const newThreadOf = ({ run }: Pick<RunStream, "run">): GuardedThread => ({ thread_id: run.thread_id, is_new: true });

export const streamRun = (authorizer: Authorizer<RunEvent>, directories: Directories): Runs["stream"] => {
  const permit = permitRun(authorizer, directories);
  return async (thread_id, request, origin, ...options) => {
    const run = await permit(thread_id, request, origin);
    const stream = await directories.runs.stream(run.scope, thread_id, run.request, run.origin, ...options);
    return { ...stream, frames: authorizer.guards.reader(run, stream.frames, newThreadOf(stream)) };
  };
};

export const waitForRun = (authorizer: Authorizer<RunEvent>, directories: Directories): Runs["wait"] => {
  const permit = permitRun(authorizer, directories);
  return async (...given) => {
    const run = await permit(...given);
    const pending = await directories.runs.wait(run.scope, given[0], run.request, run.origin);
    return authorizer.guards.result(run, pending, newThreadOf(pending));
  };
};

/** Authorizes each run. The filters of all runs apply to each of them. */
export const createRuns = (authorizer: Authorizer<RunEvent>, directories: Directories): Runs["createBatch"] => {
  const permit = permitRun(authorizer, directories);
  return async (requests, origin) => {
    const permitted: RunPermit[] = [];
    for (const request of requests) permitted.push(await permit(null, request, origin));
    const run_ids = permitted.flatMap((run) => run.origin.run_ids ?? []);
    const usable = permitted.flatMap((run) => run.origin.assistants ?? []);
    const batch = permitted.map(({ request }) => request);
    return await directories.runs.createBatch(authorizer.scope, batch, {
      ...permitted[0]?.origin,
      ...(run_ids.length > 0 ? { run_ids } : {}),
      ...(usable.length > 0 ? { assistants: usable.reduce(intersectScope<Scope>) } : {}),
    });
  };
};

/** Authorizes reading the first run, and then creating the next one. */
export const rerun = (authorizer: Authorizer<"threads:read" | RunEvent>, directories: Directories): Runs["rerun"] => {
  const permit = permitRun(authorizer, directories);
  return async (run_id, origin) => {
    const { scope } = await authorizer.authorize("threads:read", { thread_id: null, run_id });
    return await directories.runs.rerun(scope, run_id, origin, permit);
  };
};

type JoinEvent = "threads:read" | "threads:update";

/** With `cancel_on_disconnect` the caller needs the permission to cancel, now and when it disconnects. */
async function authorizeJoin<Options extends { readonly cancel_on_disconnect?: boolean }>(
  authorizer: Authorizer<JoinEvent>,
  thread_id: string | null,
  run_id: string,
  options: Options,
) {
  const authorizedCall = await authorizer.authorize("threads:read", { thread_id, run_id });
  if (!options.cancel_on_disconnect) return { grant: authorizedCall, options };
  const stop = { thread_id, action: "interrupt", metadata: { run_ids: [run_id] } };
  const { scope, findRevocation } = await authorizer.authorize("threads:update", stop);
  const grant = { ...authorizedCall, scope: intersectScope(authorizedCall.scope, scope) };
  if (!findRevocation) return { grant, options };
  return { grant, options: { ...options, mayCancel: async () => (await findRevocation()) === null } };
}

export const joinRun =
  (authorizer: Authorizer<JoinEvent>, { runs }: Pick<Directories, "runs">): Runs["join"] =>
  async (thread_id, run_id, given = {}) => {
    const { grant, options } = await authorizeJoin(authorizer, thread_id, run_id, given);
    const pending = await runs.join(grant.scope, thread_id, run_id, options);
    return authorizer.guards.result(grant, pending, pending.run);
  };

export const joinRunStream =
  (authorizer: Authorizer<JoinEvent>, { runs }: Pick<Directories, "runs">): Runs["joinStream"] =>
  async (thread_id, run_id, given = {}) => {
    const { grant, options } = await authorizeJoin(authorizer, thread_id, run_id, given);
    const stream = await runs.joinStream(grant.scope, thread_id, run_id, options);
    return { ...stream, frames: authorizer.guards.reader(grant, stream.frames, stream.run) };
  };

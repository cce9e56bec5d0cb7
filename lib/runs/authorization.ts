/** Authorizes new runs, and the operations of runs whose authorization has more than one step. */
import type { InternalAssistants } from "../assistants/mod.ts";
import type { AuthorizedCall, Authorizer } from "../auth/authorizer.ts";
import { uuidV7 } from "../environment.ts";
import type { JsonObject } from "../json.ts";
import type { Scope } from "../storage/mod.ts";
import { intersectScope, requireOwnMetadata } from "../storage/visibility.ts";
import type { AccessGrant, GuardedThread } from "../streams/stream-guard.ts";
import type { InternalRuns, RunStream, Runs } from "./mod.ts";
import {
  type AuthorizedRun,
  findAssistantVersion,
  type RunCreate,
  type RunOrigin,
  type ScopedOrigin,
} from "./request.ts";

/**
 * The value that the handlers of `threads:create_run` get. They may change `metadata`, and `input`, `command`, `config` and `context` in
 * `kwargs`;
 * other changes are ignored.
 */
interface CreateRunValue {
  /** Null for a stateless run. */
  readonly thread_id: string | null;
  readonly assistant_id: string;
  /** Absent without a requested version. Changes are ignored. */
  readonly assistant_version?: number;
  /** The id of the new run, unless its idempotency key was used before. Null if a cron creates the run later. */
  readonly run_id: string | null;
  readonly status: "pending";
  readonly metadata: JsonObject;
  readonly prevent_insert_if_inflight: boolean;
  readonly multitask_strategy: string;
  readonly if_not_exists: string;
  readonly after_seconds: number;
  readonly kwargs: Readonly<Record<string, unknown>>;
}

/**
 * Returns the run as custom `threads:create_run` handlers receive it: defaults are filled in, and most of the request is in
 * `kwargs`. `on_disconnect` is omitted. `temporary` is true for a stateless run whose thread is not kept.
 */
function toCreateRunValue(thread_id: string | null, run_id: string | null, request: RunCreate): CreateRunValue {
  const { assistant_id, metadata, multitask_strategy, if_not_exists, after_seconds, config, ...rest } = request;
  const {
    on_completion,
    on_disconnect: _,
    stream_subgraphs,
    stream_resumable,
    assistant_version: __,
    ...kwargs
  } = rest;
  const version = findAssistantVersion(request);
  const strategy = multitask_strategy ?? "enqueue";
  return {
    thread_id,
    assistant_id,
    ...(version ? { assistant_version: version } : {}),
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

/**
 * Returns a copy of the request with metadata, input, command, config and context of the handlers; other changes have no
 * effect. `recheck` validates it and may replace it. Throws an Error, with that of `recheck` as cause, if the changes make it
 * invalid.
 */
function applyHandlerChanges(
  request: RunCreate,
  { metadata, kwargs }: CreateRunValue,
  recheck: RunOrigin["recheck"],
): RunCreate {
  const { input, command, config, context } = kwargs;
  const changedRequest = { ...request, metadata, input, command, config, context } as RunCreate;
  try {
    return recheck ? recheck(changedRequest) : changedRequest;
  } catch (error) {
    throw new Error("The threads:create_run handler of custom authentication changed the run to an invalid request", {
      cause: error,
    });
  }
}

interface NewRunAuthorizer {
  /**
   * Authorizes reading an assistant, and returns the scope in which a run may use it; undefined if no filter limits it. Returns
   * undefined for a default assistant, which needs no permission of its own. Throws the refusal of the handler.
   */
  resolveAssistantScope(assistant_id: string): Promise<Scope | undefined>;
  /** Authorizes a run. Returns the request as the handlers changed it, and the scope of threads on which it may be created. */
  authorizeRun(
    thread_id: string | null,
    run_id: string | null,
    request: RunCreate,
    recheck?: RunOrigin["recheck"],
  ): Promise<AuthorizedCall<RunCreate>>;
}

/** The events of a new run: one for the run, one for its assistant. */
export type RunEvent = "threads:create_run" | "assistants:read";

/**
 * Creates the authorizer of new runs and of the runs of crons. It calls custom handlers, which may change request and metadata.
 * Throws their refusal, and `forbidden` for stateless runs with metadata that the caller could not see.
 */
export const createNewRunAuthorizer = (
  { authorize, isEnforced, scope }: Authorizer<RunEvent>,
  assistants: Pick<InternalAssistants, "isDefault">,
): NewRunAuthorizer => ({
  async resolveAssistantScope(assistant_id) {
    if (await assistants.isDefault(assistant_id)) return undefined;
    const authorizedCall = await authorize("assistants:read", { assistant_id });
    return authorizedCall.scope.filter ? authorizedCall.scope : undefined;
  },
  /**
   * Returns the scope and the request: with the changes of the handlers, validated by `recheck`, if they changed `kwargs`, with
   * their metadata alone if they changed only that, else unchanged. Calls no handler without enforced authorization. Throws
   * their refusal, and `forbidden` for metadata of a stateless run that the caller could not see.
   */
  async authorizeRun(thread_id, run_id, request, recheck) {
    if (!isEnforced) return { scope, value: request };
    const run = toCreateRunValue(thread_id, run_id, request);
    const { value, ...grant } = await authorize("threads:create_run", run);
    // A stateless run's thread gets the metadata of the run.
    if (thread_id === null) requireOwnMetadata(grant.scope, value.metadata);
    if (value === run) return { ...grant, value: request };
    const { kwargs, metadata } = value;
    const changedRequest =
      kwargs === run.kwargs ? { ...request, metadata } : applyHandlerChanges(request, value, recheck);
    return { ...grant, value: changedRequest };
  },
});

/** Limits an idempotency key to the route and the user, so that it never returns the run of another user. */
const scopeIdempotencyKey = ({ idempotency }: RunOrigin, userKey: string | null): Pick<RunOrigin, "idempotency"> =>
  idempotency ? { idempotency: { ...idempotency, route: `${idempotency.route} ${JSON.stringify(userKey)}` } } : {};

interface InternalResources {
  readonly runs: InternalRuns;
  readonly assistants: Pick<InternalAssistants, "isDefault">;
}

/** Authorizes a new run without creating it. */
export type AuthorizeNewRun = (
  thread_id: string | null,
  request: RunCreate,
  origin?: RunOrigin,
) => Promise<AuthorizedRun>;

/**
 * Returns a function that authorizes a new run and returns scope, request and origin. The origin gets user and API key of the
 * caller, an idempotency key that is limited to the caller, and, for custom authentication, a scope of assistants and a new run
 * id. `recheck` and the assistants of the given origin are not in it.
 */
export const authorizeNewRun = (
  authorizer: Authorizer<RunEvent>,
  { assistants }: Pick<InternalResources, "assistants">,
): ((...args: Parameters<AuthorizeNewRun>) => Promise<AuthorizedRun & AccessGrant>) => {
  const { caller, environment } = authorizer;
  const runAuthorizer = createNewRunAuthorizer(authorizer, assistants);
  return async (thread_id, request, scopedOrigin: ScopedOrigin = {}) => {
    const { recheck, assistants: _, ...origin } = scopedOrigin;
    const { user_id, api_key, user, threads } = await caller();
    const userKey = user ? user.identity : threads.filter && user_id;
    const key = userKey === undefined ? {} : scopeIdempotencyKey(origin, userKey);
    const assistantScope = user ? await runAuthorizer.resolveAssistantScope(request.assistant_id) : undefined;
    const run_id = user ? uuidV7(environment) : null;
    const { value, ...run } = await runAuthorizer.authorizeRun(thread_id, run_id, request, recheck);
    const callerOrigin = {
      ...key,
      user_id,
      api_key,
      ...(user ? { user } : {}),
      ...(run_id === null ? {} : { run_ids: [run_id] }),
    };
    return {
      ...run,
      request: value,
      origin: { ...origin, ...callerOrigin, ...(assistantScope ? { assistants: assistantScope } : {}) },
    };
  };
};

/** Returns `create`, which authorizes the run first, and creates it with the changes of the handlers. */
export const authorizeCreateRun = (authorizer: Authorizer<RunEvent>, resources: InternalResources): Runs["create"] => {
  const authorize = authorizeNewRun(authorizer, resources);
  return async (...args) => {
    const { scope, request, origin } = await authorize(...args);
    return await resources.runs.create(scope, args[0], request, origin);
  };
};

/** Describes the thread of a run that the caller has just created, for the guard of its stream. */
const toNewThread = ({ run }: Pick<RunStream, "run">): GuardedThread => ({ thread_id: run.thread_id, is_new: true });

/** Returns `stream`, which authorizes the run first. Its frames fail once the caller loses access. */
export const authorizeStreamRun = (authorizer: Authorizer<RunEvent>, resources: InternalResources): Runs["stream"] => {
  const authorize = authorizeNewRun(authorizer, resources);
  return async (thread_id, request, origin, ...options) => {
    const run = await authorize(thread_id, request, origin);
    const stream = await resources.runs.stream(run.scope, thread_id, run.request, run.origin, ...options);
    return { ...stream, frames: authorizer.guards.reader(run, stream.frames, toNewThread(stream)) };
  };
};

/** Returns `wait`, which authorizes the run first. Its result rejects once the caller loses access. */
export const authorizeWaitForRun = (authorizer: Authorizer<RunEvent>, resources: InternalResources): Runs["wait"] => {
  const authorize = authorizeNewRun(authorizer, resources);
  return async (...args) => {
    const run = await authorize(...args);
    const pending = await resources.runs.wait(run.scope, args[0], run.request, run.origin);
    return authorizer.guards.result(run, pending, toNewThread(pending));
  };
};

/**
 * Returns `createBatch`, which authorizes each run before any is created. The filters on assistants of all runs apply to each of
 * them; the rest of the origin is that of the first.
 */
export const authorizeCreateBatch = (
  authorizer: Authorizer<RunEvent>,
  resources: InternalResources,
): Runs["createBatch"] => {
  const authorize = authorizeNewRun(authorizer, resources);
  return async (requests, origin) => {
    const authorizedRuns: AuthorizedRun[] = [];
    for (const request of requests) authorizedRuns.push(await authorize(null, request, origin));
    const run_ids = authorizedRuns.flatMap((run) => run.origin.run_ids ?? []);
    const assistantScopes = authorizedRuns.flatMap((run) => run.origin.assistants ?? []);
    const batch = authorizedRuns.map(({ request }) => request);
    return await resources.runs.createBatch(authorizer.scope, batch, {
      ...authorizedRuns[0]?.origin,
      ...(run_ids.length > 0 ? { run_ids } : {}),
      ...(assistantScopes.length > 0 ? { assistants: assistantScopes.reduce(intersectScope<Scope>) } : {}),
    });
  };
};

/** Returns `rerun`, which authorizes reading the run, and then the new run that repeats it, before it creates that. */
export const authorizeRerun = (
  authorizer: Authorizer<"threads:read" | RunEvent>,
  resources: InternalResources,
): Runs["rerun"] => {
  const authorize = authorizeNewRun(authorizer, resources);
  return async (run_id, origin) => {
    const { scope } = await authorizer.authorize("threads:read", { thread_id: null, run_id });
    return await resources.runs.rerun(scope, run_id, origin, authorize);
  };
};

type JoinEvent = "threads:read" | "threads:update";

/**
 * Authorizes reading a run, and with `cancel_on_disconnect` also cancelling it. Returns the grant, whose scope is limited by
 * both, and the options: these get a `mayCancel` that checks the permission to cancel again at the disconnect, if it can be
 * revoked.
 */
async function authorizeJoin<Options extends { readonly cancel_on_disconnect?: boolean }>(
  authorizer: Authorizer<JoinEvent>,
  thread_id: string | null,
  run_id: string,
  options: Options,
): Promise<{
  readonly grant: AccessGrant;
  readonly options: Options & { readonly mayCancel?: () => Promise<boolean> };
}> {
  const authorizedCall = await authorizer.authorize("threads:read", { thread_id, run_id });
  if (!options.cancel_on_disconnect) return { grant: authorizedCall, options };
  const stop = { thread_id, action: "interrupt", metadata: { run_ids: [run_id] } };
  const { scope, findRevocation } = await authorizer.authorize("threads:update", stop);
  const grant = { ...authorizedCall, scope: intersectScope(authorizedCall.scope, scope) };
  if (!findRevocation) return { grant, options };
  return { grant, options: { ...options, mayCancel: async () => (await findRevocation()) === null } };
}

/** Returns `join`, whose result rejects once the caller loses access. */
export const authorizeJoinRun =
  (authorizer: Authorizer<JoinEvent>, { runs }: Pick<InternalResources, "runs">): Runs["join"] =>
  async (thread_id, run_id, joinOptions = {}) => {
    const { grant, options } = await authorizeJoin(authorizer, thread_id, run_id, joinOptions);
    const pending = await runs.join(grant.scope, thread_id, run_id, options);
    return authorizer.guards.result(grant, pending, pending.run);
  };

/** Returns `joinStream`, whose frames fail once the caller loses access. */
export const authorizeJoinRunStream =
  (authorizer: Authorizer<JoinEvent>, { runs }: Pick<InternalResources, "runs">): Runs["joinStream"] =>
  async (thread_id, run_id, joinOptions = {}) => {
    const { grant, options } = await authorizeJoin(authorizer, thread_id, run_id, joinOptions);
    const stream = await runs.joinStream(grant.scope, thread_id, run_id, options);
    return { ...stream, frames: authorizer.guards.reader(grant, stream.frames, stream.run) };
  };

/** Requests that create runs: their schema, their origin, and what the host's authorization handlers see and may change of them. */
import * as v from "valibot";
import { STREAM_MODES, type StreamMode } from "../executor/contract.ts";
import type { JsonObject } from "../json.ts";
import { CHOICES, type RunCreate, type RunOrigin } from "../runs/mod.ts";
import { EVERYTHING, refuseForOthers, type Visibility } from "../storage/visibility.ts";
import * as parse from "./parse.ts";
import { readIdempotency, readWebhookDepth } from "./request.ts";
import type { RequestContext } from "./route.ts";

const send = parse.owned({ node: parse.name });
/** Any value, null included. Undefined means that the list is too short. */
const some = v.pipe(
  parse.anyJson,
  v.check((value) => value !== undefined),
);
/** The most tasks of one step. */
const MOST_TARGETS = 100;
const STEP = `must be a node name, a Send or a list of at most ${MOST_TARGETS} of these`;
const step = v.union([parse.name, send], STEP);
const breakpoints = v.optional(
  v.union([v.literal("*"), parse.listOf(parse.name)], 'must be "*" or a list of node names') as v.GenericSchema<
    "*" | string[]
  >,
);

/** The command of a run or of a state update. */
export const command: v.GenericSchema<NonNullable<RunCreate["command"]>> = parse.owned<
  NonNullable<RunCreate["command"]>
>({
  update: v.optional(
    v.union(
      [parse.anyObject, v.array(v.strictTuple([parse.name, some]))],
      "must be an object or a list of [channel, value] pairs",
    ),
  ),
  goto: v.optional(v.union([parse.name, send, v.pipe(v.array(step), v.maxLength(MOST_TARGETS, STEP))], STEP)),
});

/** The body of every route that creates a run */
export const runCreate: parse.Fields<RunCreate> = v.object({
  assistant_id: parse.assistantId,
  input: v.optional(parse.anyJson),
  command: v.optional(command),
  config: v.optional(parse.config),
  context: v.optional(parse.anyObject),
  metadata: v.optional(parse.anyObject),
  checkpoint: v.optional(parse.checkpoint),
  checkpoint_id: v.optional(parse.name),
  stream_mode: v.optional(
    v.union(
      [parse.mode, v.array(parse.mode)],
      `must be one of ${STREAM_MODES.join(", ")}, or a list of these`,
    ) as v.GenericSchema<StreamMode | StreamMode[]>,
  ),
  stream_subgraphs: v.optional(parse.flag),
  stream_resumable: v.optional(parse.flag),
  multitask_strategy: v.optional(parse.oneOf(CHOICES.multitask_strategy)),
  if_not_exists: v.optional(parse.oneOf(CHOICES.if_not_exists)),
  on_disconnect: v.optional(parse.oneOf(CHOICES.on_disconnect)),
  // Some SDK types have values that no server knows. They are ignored.
  on_completion: v.fallback(v.optional(parse.oneOf(["delete", "keep"])), undefined),
  after_seconds: v.optional(
    v.pipe(v.number("must be a number"), v.finite("must be finite"), v.minValue(0, "must be at least 0")),
  ),
  interrupt_before: breakpoints,
  interrupt_after: breakpoints,
  strict_resume: v.optional(parse.flag),
  durability: v.optional(parse.oneOf(CHOICES.durability)),
  checkpoint_during: v.optional(parse.flag),
  // The webhook policy of the service decides which URLs are valid.
  webhook: v.optional(v.string("must be a string")),
  feedback_keys: v.optional(v.union([v.string(), v.array(v.string())], "must be a list of strings")),
});

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

/** The assistants that a run's caller may use. A graph's default assistant needs no permission but that of the run. */
export async function assistantVisibility(context: RequestContext, assistant_id: string): Promise<Visibility> {
  if (!context.principal.user || (await context.service.assistants.isDefault(assistant_id))) return EVERYTHING;
  return (await context.authorize({ assistant_id }, "assistants:read")).visibility;
}

/** The run as the handlers leave it, and the threads it may be created on. */
export async function authorizeRun<Request extends RunCreate>(
  context: RequestContext,
  thread_id: string | null,
  run_id: string | null,
  request: Request,
): Promise<{ readonly request: Request | RunCreate; readonly threads: Visibility }> {
  const run = runValue(thread_id, run_id, request);
  const { value, visibility } = await context.authorize(run, "threads:create_run");
  // A stateless run's thread gets the metadata of the run.
  if (thread_id === null) refuseForOthers(visibility, value.metadata);
  if (value === run) return { request, threads: visibility };
  const { kwargs, metadata } = value;
  const changed = kwargs === run.kwargs ? { ...request, metadata } : changedRun(request, value);
  return { request: changed, threads: visibility };
}

/** The run as authorization leaves it. Its id is chosen here where a handler is to see it. */
export async function authorizeNewRun(
  context: RequestContext,
  thread_id: string | null,
  request: RunCreate,
): Promise<[RunCreate, Pick<RunOrigin, "threads" | "assistants" | "run_ids">]> {
  const assistants = await assistantVisibility(context, request.assistant_id);
  const run_id = context.principal.user ? context.service.environment.uuid() : null;
  const run = await authorizeRun(context, thread_id, run_id, request);
  return [
    run.request,
    { ...visibilitiesOf(run.threads, assistants), ...(run_id === null ? {} : { run_ids: [run_id] }) },
  ];
}

/** What the caller and the headers of the request add to a run. */
export function callerOrigin({ request, principal, handler }: RequestContext): RunOrigin {
  const { user_id, api_key, user } = principal;
  return {
    configurable: handler.copyHeaders(request.headers),
    user_id,
    api_key,
    webhook_depth: readWebhookDepth(request.headers),
    ...(user ? { user } : {}),
  };
}

/** What the request's headers and caller add to the body. An idempotency key counts per route and per user. */
export async function originOf(context: RequestContext, bytes: Uint8Array, route: string): Promise<RunOrigin> {
  const { user_id, user, threads } = context.principal;
  const sender = user ? user.identity : threads.filter && user_id;
  const scope = sender === undefined ? route : `${route} ${JSON.stringify(sender)}`;
  const idempotency = await readIdempotency(context.request.headers, scope, bytes);
  return { ...callerOrigin(context), ...(idempotency ? { idempotency } : {}) };
}

/** Those visibilities that have a filter. */
export const visibilitiesOf = (
  threads: Visibility,
  assistants: Visibility,
): Pick<RunOrigin, "threads" | "assistants"> => ({
  ...(threads.filter ? { threads } : {}),
  ...(assistants.filter ? { assistants } : {}),
});

/** The request with the handlers' changes. Throws where these are no valid request. */
function changedRun(request: RunCreate, { metadata, kwargs }: RunValue): RunCreate {
  const { input, command, config, context } = kwargs;
  const changed = { ...request, metadata, input, command, config, context };
  try {
    return parse.readObject(new TextEncoder().encode(JSON.stringify(changed)), runCreate);
  } catch (error) {
    throw new Error("The threads:create_run handler of custom authentication changed the run to an invalid request", {
      cause: error,
    });
  }
}

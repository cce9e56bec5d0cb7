/** Run requests and their validation. */
import { ServiceError } from "../errors.ts";
import { type AuthUser, type CheckpointRef, type Send, STREAM_MODES, type StreamMode } from "../executor/contract.ts";
import { unwrapAguiResume } from "../executor/job-request.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { IdempotencyKey, MultitaskStrategy, Scope, TraceOrigin } from "../storage/mod.ts";
import { findUnknownKey } from "../validation.ts";
import type { PushRequest } from "../webhooks/pushes.ts";

/** The request of every call that creates a run. Null counts as absent. */
export interface RunCreate {
  readonly assistant_id: string;
  /** The version of the assistant whose graph, config, context and metadata the run gets. Default: the active version. */
  readonly assistant_version?: number | null;
  readonly input?: Json;
  readonly command?: {
    readonly resume?: Json;
    readonly update?: Json;
    readonly goto?: string | Send | readonly (string | Send)[] | null;
    /** By interrupt id: how many answers its task had consumed when it was shown (`answered`, 0 by default). Refuses any other number. */
    readonly expected_answers?: Readonly<Record<string, number>> | null;
  } | null;
  readonly config?: {
    readonly tags?: readonly string[];
    readonly recursion_limit?: number;
    readonly configurable?: JsonObject;
    /** The same as `assistant_version` of the request, for SDKs that omit members which they do not know. */
    readonly assistant_version?: number | null;
  } | null;
  readonly context?: JsonObject | null;
  readonly metadata?: JsonObject | null;
  readonly checkpoint?: {
    readonly checkpoint_id?: string | null;
    readonly checkpoint_ns?: string | null;
    readonly checkpoint_map?: JsonObject | null;
  } | null;
  readonly checkpoint_id?: string | null;
  readonly stream_mode?: StreamMode | readonly StreamMode[] | null;
  readonly stream_subgraphs?: boolean | null;
  /** Stores the frames, so that clients can resume the stream after a restart and after the end. */
  readonly stream_resumable?: boolean | null;
  /** The treatment of active runs of the thread. Default `enqueue`: the new run waits for them. */
  readonly multitask_strategy?: MultitaskStrategy | null;
  readonly if_not_exists?: "reject" | "create" | null;
  readonly on_disconnect?: "continue" | "cancel" | null;
  readonly on_completion?: string | null;
  /** Delays the start by so many seconds. `created_at` is the time of the start. */
  readonly after_seconds?: number | null;
  readonly interrupt_before?: "*" | readonly string[] | null;
  readonly interrupt_after?: "*" | readonly string[] | null;
  /** Refuses resume values for interrupts that are not pending; by default they are ignored. */
  readonly strict_resume?: boolean | null;
  readonly durability?: "sync" | "async" | "exit" | null;
  readonly checkpoint_during?: boolean | null;
  /** The URL that gets a POST when the run ends: absolute, or a path of the host application. */
  readonly webhook?: string | null;
  /** Creates a feedback link for each key. The `feedback` event has the links. */
  readonly feedback_keys?: string | readonly string[] | null;
}

/** The call that creates a run. */
export interface NewTraceOrigin extends TraceOrigin {
  /** False if the run may only name the trace of its `traceparent`, because the caller does not see all rows. Default true. */
  readonly may_continue?: boolean;
}

/** The context of a request, which the server adds to it. */
export interface RunOrigin {
  /** Values for `config.configurable` from the headers of the request. */
  readonly configurable?: JsonObject;
  /** A second call with this key on the same route returns the run of the first one. */
  readonly idempotency?: IdempotencyKey;
  /** The user to whom the run is billed. */
  readonly user_id?: string | null;
  /** The short form of the API key of the request. */
  readonly api_key?: string | null;
  /** The length of the chain of relative webhooks that led to this request. */
  readonly webhook_depth?: number;
  /** The push configuration of the A2A task that the run starts or continues. */
  readonly push?: PushRequest;
  /** The user as custom authentication describes it; the graph gets it too. */
  readonly user?: AuthUser | null;
  /** The cron that creates the run. */
  readonly cron_id?: string;
  /** The call that creates the run, for its trace. */
  readonly trace?: NewTraceOrigin;
  /** The call of a durable function that the run continues. */
  readonly call_id?: string;
  /** The run records the events of all methods: a client of the thread event protocol created it. */
  readonly records_all?: boolean;
  /** The ids of the new runs, in the order of the requests, if they must be known before. No run may have one of them. */
  readonly run_ids?: readonly string[];
  /** Validates a request that an authorization handler has changed. Default: only what every request needs. */
  recheck?(request: RunCreate): RunCreate;
}

/** An origin with the scope of assistants that the caller may use. Default: all. */
export interface ScopedOrigin extends RunOrigin {
  readonly assistants?: Scope;
}

/** A new run after its authorization. */
export interface AuthorizedRun {
  /** The scope of the threads on which it may be created. */
  readonly scope: Scope;
  readonly request: RunCreate;
  readonly origin: ScopedOrigin;
}

const REQUEST_KEYS = Object.keys({
  assistant_id: true,
  assistant_version: true,
  input: true,
  command: true,
  config: true,
  context: true,
  metadata: true,
  checkpoint: true,
  checkpoint_id: true,
  stream_mode: true,
  stream_subgraphs: true,
  stream_resumable: true,
  multitask_strategy: true,
  if_not_exists: true,
  on_disconnect: true,
  on_completion: true,
  after_seconds: true,
  interrupt_before: true,
  interrupt_after: true,
  strict_resume: true,
  durability: true,
  checkpoint_during: true,
  webhook: true,
  feedback_keys: true,
} satisfies Record<keyof RunCreate, true>);

type Choice = "stream_mode" | "multitask_strategy" | "if_not_exists" | "on_disconnect" | "durability";

/** The allowed values of members that have few. */
export const CHOICES: {
  readonly [Key in Choice]: readonly Exclude<NonNullable<RunCreate[Key]>, readonly unknown[]>[];
} = {
  stream_mode: STREAM_MODES,
  multitask_strategy: ["reject", "enqueue", "interrupt", "rollback"],
  if_not_exists: ["reject", "create"],
  on_disconnect: ["continue", "cancel"],
  durability: ["sync", "async", "exit"],
};

/**
 * Validates the parts of a request that need no lookup, against JavaScript callers too. Throws `invalid` for unknown members
 * and wrong values, and `bad_request` for a resume value or a checkpoint without a thread. Input, config and context are not
 * checked.
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one check for each member of a request
export function validateRunRequest(request: RunCreate, thread_id: string | null): void {
  if (!isObject(request)) throw new ServiceError("invalid", "A run needs a request: an object with an assistant_id");
  const unknown = findUnknownKey(request, REQUEST_KEYS);
  if (unknown !== undefined) throw new ServiceError("invalid", unknown);
  if (typeof request.assistant_id !== "string") throw new ServiceError("invalid", "assistant_id: must be a string");
  findAssistantVersion(request);
  for (const [key, choices] of Object.entries(CHOICES) as [Choice, readonly unknown[]][]) {
    const value: unknown = request[key] ?? undefined;
    const isList = key === "stream_mode" && Array.isArray(value);
    if (value === undefined || (isList ? value : [value]).every((choice) => choices.includes(choice))) continue;
    const list = key === "stream_mode" ? ", or a list of these" : "";
    throw new ServiceError("invalid", `${key}: must be one of ${choices.join(", ")}${list}`);
  }
  const expected = request.command?.expected_answers ?? {};
  if (!isObject(expected) || !Object.values(expected).every((count) => Number.isSafeInteger(count) && count >= 0)) {
    const text = "command.expected_answers: must be an object of interrupt ids and numbers of answers";
    throw new ServiceError("invalid", text);
  }
  const delay = request.after_seconds ?? 0;
  if (!(delay >= 0 && delay <= MAX_START_DELAY_SECONDS)) {
    throw new ServiceError("invalid", `after_seconds: must be a number from 0 to ${MAX_START_DELAY_SECONDS}`);
  }
  if (thread_id !== null) return;
  if (request.command?.resume !== undefined) {
    throw new ServiceError("bad_request", "command.resume needs a thread: a stateless run has nothing to resume");
  }
  if (findRequestedCheckpoint(request)) {
    throw new ServiceError("bad_request", "checkpoint needs a thread: a stateless run has no state to start from");
  }
}

/**
 * Returns the requested version of the assistant, undefined for the active one. Throws `invalid` for what is no number of a version,
 * and if `config` has another one.
 */
export function findAssistantVersion({ assistant_version, config }: RunCreate): number | undefined {
  const version = assistant_version ?? config?.assistant_version ?? undefined;
  const isSame = version === (config?.assistant_version ?? version);
  if (isSame && (version === undefined || (Number.isSafeInteger(version) && version > 0))) return version;
  throw new ServiceError("invalid", "assistant_version: must be one integer from 1");
}

/**
 * Returns the request with its resume value as graphs expect it, without the wrapper of AG-UI: a copy, or the same object
 * without a resume value.
 */
export function normalizeResume(request: RunCreate): RunCreate {
  const { command } = request;
  if (command?.resume === undefined) return request;
  return { ...request, command: { ...command, resume: unwrapAguiResume(command.resume) } };
}

/** A hundred years, in seconds: all databases and clients can represent such a time. */
const MAX_START_DELAY_SECONDS = 3_155_760_000;

/**
 * Returns the checkpoint to start from, or null. The id of `checkpoint` has precedence over `checkpoint_id`; if that one is
 * missing or empty, the id in `config.configurable` counts. A missing namespace means the root.
 */
export function findRequestedCheckpoint({ checkpoint, checkpoint_id, config }: RunCreate): CheckpointRef | null {
  const id = checkpoint?.checkpoint_id ?? checkpoint_id;
  if (id) return { ns: checkpoint?.checkpoint_ns ?? "", checkpoint_id: id };
  const { checkpoint_id: configuredId, checkpoint_ns } = config?.configurable ?? {};
  if (typeof configuredId !== "string" || configuredId === "") return null;
  return { ns: typeof checkpoint_ns === "string" ? checkpoint_ns : "", checkpoint_id: configuredId };
}

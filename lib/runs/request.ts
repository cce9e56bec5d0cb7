/** What a request asks for, resolved into the run that is made of it. */
import { refuseTwoValues } from "../assistants/mod.ts";
import { ServiceError } from "../errors.ts";
import type { AuthUser, CheckpointRef, RunConfig, Send, StreamMode } from "../executor/contract.ts";
import { gotoList, type JobRequest, PLACES, withoutSecrets, writeKwargs } from "../executor/kwargs.ts";
import { isObject, type Json, type JsonObject, sameJson } from "../json.ts";
import { unknownKey } from "../known-keys.ts";
import type {
  AssistantRow,
  CreateRun,
  IdempotencyKey,
  MultitaskStrategy,
  NewRun,
  ThreadRow,
  ThreadTtl,
} from "../storage/mod.ts";
import type { Visibility } from "../storage/visibility.ts";

/** What every run-creating call takes. Null counts as absent everywhere. */
export interface RunCreate {
  readonly assistant_id: string;
  readonly input?: Json;
  readonly command?: {
    readonly resume?: Json;
    readonly update?: Json;
    readonly goto?: string | Send | readonly (string | Send)[] | null;
  } | null;
  readonly config?: {
    readonly tags?: readonly string[];
    readonly recursion_limit?: number;
    readonly configurable?: JsonObject;
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
  /** Its frames are stored, so that readers may come back after a restart and after the end. */
  readonly stream_resumable?: boolean | null;
  /** What becomes of the thread's active runs. Default `enqueue`: this one waits for them. */
  readonly multitask_strategy?: MultitaskStrategy | null;
  readonly if_not_exists?: "reject" | "create" | null;
  readonly on_disconnect?: "continue" | "cancel" | null;
  readonly on_completion?: string | null;
  /** It starts so many seconds from now; its `created_at` is that time. */
  readonly after_seconds?: number | null;
  readonly interrupt_before?: "*" | readonly string[] | null;
  readonly interrupt_after?: "*" | readonly string[] | null;
  /** Refuses answers to interrupts that are not open, which are passed over otherwise. */
  readonly strict_resume?: boolean | null;
  readonly durability?: "sync" | "async" | "exit" | null;
  readonly checkpoint_during?: boolean | null;
  /** Where the end of the run is told, by a POST. An absolute URL, or a path of the host application. */
  readonly webhook?: string | null;
  /** A feedback link is made for each; the `feedback` event tells them. */
  readonly feedback_keys?: string | readonly string[] | null;
}

/** What the request itself adds. */
export interface RunOrigin {
  /** Values for `config.configurable` taken from its headers. */
  readonly configurable?: JsonObject;
  /** A second call with this key, on this route, gets the run of the first one. */
  readonly idempotency?: IdempotencyKey;
  /** Who asks: the run is billed to them. */
  readonly user_id?: string | null;
  /** Short form of the API key that was sent. */
  readonly api_key?: string | null;
  /** How many relative webhooks led here. */
  readonly webhook_depth?: number;
  /** Who asks, as custom authentication knows them: the graph is told. */
  readonly user?: AuthUser | null;
  /** Threads, and assistants, that the call does not reach are not there for it. */
  readonly threads?: Visibility;
  readonly assistants?: Visibility;
  /** The cron that makes the run. */
  readonly cron_id?: string;
  /** The ids that its runs get, in the order of the requests, where somebody was told of them before. No run may have one of them. */
  readonly run_ids?: readonly string[];
}

const REQUEST_KEYS = Object.keys({
  assistant_id: true,
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

/** Refuses what can be refused before anything is looked up. */
export function checkRequest(request: RunCreate, thread_id: string | null): void {
  if (!isObject(request)) throw new ServiceError("invalid", "A run needs a request: an object with an assistant_id");
  const unknown = unknownKey(request, REQUEST_KEYS);
  if (unknown !== undefined) throw new ServiceError("invalid", unknown);
  if (typeof request.assistant_id !== "string") throw new ServiceError("invalid", "assistant_id: must be a string");
  const wait = request.after_seconds ?? 0;
  if (!(wait >= 0 && wait <= LONGEST_WAIT)) {
    throw new ServiceError("invalid", `after_seconds: must be a number from 0 to ${LONGEST_WAIT}`);
  }
  if (thread_id !== null) return;
  // A stateless run has no state to go on from.
  if (request.command?.resume !== undefined) {
    throw new ServiceError("bad_request", "command.resume needs a thread: a stateless run has nothing to resume");
  }
  if (checkpointOf(request)) {
    throw new ServiceError("bad_request", "checkpoint needs a thread: a stateless run has no state to start from");
  }
}

/** A hundred years, in seconds: every time before that is one that all databases and clients can write. */
const LONGEST_WAIT = 3_155_760_000;

/** What a run is made of. `thread` null: it gets a thread of its own, with `thread_id`. */
export interface Resolved {
  readonly request: RunCreate;
  readonly origin: RunOrigin;
  readonly assistant: AssistantRow;
  readonly thread: ThreadRow | null;
  readonly from: CheckpointRef | null;
  readonly thread_id: string;
  readonly run_id: string;
  readonly temporary: boolean;
  readonly told: Pick<NewRun, "feedback" | "webhook">;
  /** How long a thread lasts that the run makes. */
  readonly ttl?: ThreadTtl;
  readonly now: number;
}

/** Errors: bad_request (one key with two values). */
export function planRun({ request, origin, assistant, thread, from, ...resolved }: Resolved): CreateRun {
  const { thread_id, run_id, temporary, told, ttl, now } = resolved;
  const { assistant_id, graph_id } = assistant;
  const own = { graph_id, assistant_id };
  const config = requestConfig(request, origin, thread);
  // The run gets its credentials, the thread keeps none.
  const kept = withoutSecrets(config);
  const job = jobRequest(assistant, config, request, from, { ...own, run_id, thread_id }, temporary);
  return {
    run: {
      run_id,
      thread_id,
      assistant_id,
      graph_id,
      metadata: { ...assistant.metadata, ...thread?.metadata, ...own, ...request.metadata },
      kwargs: writeKwargs(job, temporary),
      multitask_strategy: request.multitask_strategy ?? "enqueue",
      temporary,
      framed: job.resumable,
      created_at: now + Math.ceil((request.after_seconds ?? 0) * 1000),
      user_id: origin.user_id ?? null,
      api_key: origin.api_key ?? null,
      ...(origin.user ? { auth_user: origin.user as unknown as JsonObject } : {}),
      ...(origin.cron_id ? { cron_id: origin.cron_id } : {}),
      ...told,
    },
    seen: { assistant_revision: assistant.revision, thread_revision: thread?.revision ?? null },
    ...(thread
      ? changed(thread, { metadata: { ...thread.metadata, ...own }, config: kept })
      : {
          create_thread: {
            thread_id,
            metadata: { ...own, ...request.metadata },
            config: kept,
            hidden: temporary,
            ...(ttl && !temporary ? { ttl } : {}),
          },
        }),
    ...(origin.idempotency ? { idempotency: origin.idempotency } : {}),
    now,
  };
}

/** Where the request starts from: clients name it in `checkpoint`, in `checkpoint_id`, or in `config.configurable`. */
export function checkpointOf({ checkpoint, checkpoint_id, config }: RunCreate): CheckpointRef | null {
  const id = checkpoint?.checkpoint_id ?? checkpoint_id;
  if (id) return { ns: checkpoint?.checkpoint_ns ?? "", checkpoint_id: id };
  const { checkpoint_id: named, checkpoint_ns } = config?.configurable ?? {};
  if (typeof named !== "string" || named === "") return null;
  return { ns: typeof checkpoint_ns === "string" ? checkpoint_ns : "", checkpoint_id: named };
}

/** Graphs trust these: the server alone sets them. */
const saysWhoAsks = (key: string): boolean => key.toLowerCase().startsWith("langgraph_auth_");

/** What the thread keeps: its own configuration under the request's. The assistant's stays with its versions. */
function requestConfig(request: RunCreate, origin: RunOrigin, thread: ThreadRow | null): JsonObject {
  const { configurable, ...rest } = (request.config ?? {}) as JsonObject;
  const before = thread?.config ?? {};
  const own = isObject(configurable)
    ? Object.entries(configurable).filter(([key]) => !PLACES.has(key) && !saysWhoAsks(key))
    : [];
  const merged = {
    ...(isObject(before["configurable"]) ? before["configurable"] : {}),
    ...origin.configurable,
    ...Object.fromEntries(own),
  };
  return { ...before, ...rest, ...(Object.keys(merged).length > 0 ? { configurable: merged } : {}) };
}

function changed(
  thread: ThreadRow,
  next: { metadata: JsonObject; config: JsonObject },
): Pick<CreateRun, "update_thread"> {
  return sameJson(thread.metadata, next.metadata) && sameJson(thread.config, next.config)
    ? {}
    : { update_thread: next };
}

function jobRequest(
  assistant: AssistantRow,
  config: JsonObject,
  request: RunCreate,
  from: CheckpointRef | null,
  ids: { run_id: string; thread_id: string; graph_id: string; assistant_id: string },
  temporary: boolean,
): JobRequest {
  const context = request.context ?? {};
  refuseTwoValues(request.config?.configurable, context);
  const { configurable: assistantConfigurable, ...assistantConfig } = assistant.config;
  const { configurable, ...rest } = config;
  const { resume, update, goto } = request.command ?? {};
  const command =
    request.command && (resume !== undefined || update !== undefined || goto !== undefined)
      ? {
          ...(resume === undefined ? {} : { resume }),
          ...(update === undefined || update === null ? {} : { update }),
          ...(gotoList(goto).length > 0 ? { goto: gotoList(goto) } : {}),
        }
      : null;
  const modes = request.stream_mode ?? [];
  return {
    input: command ? undefined : (request.input ?? undefined),
    command,
    strict_resume: command?.resume !== undefined && (request.strict_resume ?? false),
    from,
    config: {
      ...assistantConfig,
      ...rest,
      configurable: {
        ...(isObject(assistantConfigurable)
          ? Object.fromEntries(Object.entries(assistantConfigurable).filter(([key]) => !saysWhoAsks(key)))
          : {}),
        ...(isObject(configurable) ? configurable : {}),
        ...ids,
      },
    } as RunConfig,
    context: { ...assistant.context, ...context },
    stream_mode: typeof modes === "string" ? [modes] : modes.length > 0 ? modes : ["values"],
    subgraphs: request.stream_subgraphs ?? false,
    resumable: request.stream_resumable ?? false,
    interrupt_before: request.interrupt_before ?? [],
    interrupt_after: request.interrupt_after ?? [],
    // Nobody reads a temporary run's steps: unless the request asks for them, a later attempt starts anew.
    durability: request.durability ?? ((request.checkpoint_during ?? !temporary) ? "async" : "exit"),
  };
}

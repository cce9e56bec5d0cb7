/** Converts a resolved request to the rows and the job of a run. */
import { requireConsistentConfig } from "../assistants/mod.ts";
import type { CheckpointRef, Interrupt, InterruptRef, RunConfig } from "../executor/contract.ts";
import { IDENTITY_MEMBERS, type JobRequest, omitSecrets, toGotoList, writeKwargs } from "../executor/job-request.ts";
import { isObject, type JsonObject, sameJson } from "../json.ts";
import type { AssistantRow, CreateRun, NewRun, NewThread, Scope, ThreadRow } from "../storage/mod.ts";
import type { RunCreate, RunOrigin } from "./request.ts";
import { toTargetName } from "./resume.ts";

/** A request with the rows that it refers to. If `thread` is null, a thread with `thread_id` is created. */
export interface ResolvedRun {
  readonly request: RunCreate;
  /** The scope of the threads that the caller can see. */
  readonly scope: Scope;
  readonly origin: RunOrigin;
  readonly assistant: AssistantRow;
  readonly thread: ThreadRow | null;
  readonly start_checkpoint: CheckpointRef | null;
  /** The interrupts that get its resume value. */
  readonly resume_targets: readonly InterruptRef[];
  /** The interrupts among them that asks of a durable call have raised, which the run continues. */
  readonly asks?: readonly Interrupt[];
  readonly thread_id: string;
  readonly run_id: string;
  readonly stateless: boolean;
  /** The fields that features add to the row of the run, and to a thread that it creates and keeps. */
  readonly run_feature_fields: Partial<NewRun>;
  readonly thread_feature_fields: Partial<NewThread>;
  readonly now: number;
}

/**
 * Returns the argument of `createRun` in the storage: the run, the thread to create or update, and the revisions that were read.
 * Credentials are stored with the run, not with the thread. Throws `bad_request` if a key has two values.
 */
export function toCreateRun(resolved: ResolvedRun): CreateRun {
  const {
    request,
    origin,
    assistant,
    thread,
    thread_id,
    run_id,
    stateless,
    run_feature_fields,
    thread_feature_fields,
    now,
  } = resolved;
  const { resume_targets } = resolved;
  const { assistant_id, graph_id, version } = assistant;
  const graphMetadata = { graph_id, assistant_id };
  const config = mergeConfig(request, origin, thread);
  // Credentials are stored with the run only, not with its thread.
  const threadConfig = omitSecrets(config);
  const job = toJobRequest(resolved, config);
  return {
    run: {
      run_id,
      thread_id,
      assistant_id,
      assistant_version: version,
      graph_id,
      metadata: { ...assistant.metadata, ...thread?.metadata, ...graphMetadata, ...request.metadata },
      kwargs: writeKwargs(job, stateless),
      multitask_strategy: request.multitask_strategy ?? "enqueue",
      stateless,
      resumable: job.resumable,
      created_at: now + Math.ceil((request.after_seconds ?? 0) * 1000),
      user_id: origin.user_id ?? null,
      api_key: origin.api_key ?? null,
      ...(origin.user ? { auth_user: origin.user as unknown as JsonObject } : {}),
      ...(origin.cron_id ? { cron_id: origin.cron_id } : {}),
      ...(resume_targets.length > 0 ? { resume_targets: resume_targets.map(toTargetName) } : {}),
      ...run_feature_fields,
    },
    expected: { assistant_revision: assistant.revision, thread_revision: thread?.revision ?? null },
    ...(thread
      ? toThreadUpdate(thread, { metadata: { ...thread.metadata, ...graphMetadata }, config: threadConfig })
      : {
          create_thread: {
            thread_id,
            metadata: { ...graphMetadata, ...request.metadata },
            config: threadConfig,
            stateless,
            ...(stateless ? {} : thread_feature_fields),
          },
        }),
    ...(origin.idempotency ? { idempotency: origin.idempotency } : {}),
    now,
  };
}

/** Returns the request of a resolved run that the executor would get. Throws `bad_request` if a key has two values. */
export const toResolvedJob = (resolved: ResolvedRun): JobRequest =>
  toJobRequest(resolved, mergeConfig(resolved.request, resolved.origin, resolved.thread));

/** Returns true for keys that only the server may set, because graphs trust them. */
const isServerOnlyKey = (key: string): boolean => key.toLowerCase().startsWith("langgraph_auth_");

/**
 * Merges the configuration of thread, origin and request; later ones replace members of earlier ones, `configurable` member by
 * member. The request cannot set members that identify the run or that only the server may set. Omits that of the assistant,
 * which stays with its versions, and the number of the version.
 */
function mergeConfig(request: RunCreate, origin: RunOrigin, thread: ThreadRow | null): JsonObject {
  const { configurable, assistant_version: _, ...rest } = (request.config ?? {}) as JsonObject;
  const stored = thread?.config ?? {};
  const requestEntries = isObject(configurable)
    ? Object.entries(configurable).filter(([key]) => !IDENTITY_MEMBERS.has(key) && !isServerOnlyKey(key))
    : [];
  const merged = {
    ...(isObject(stored["configurable"]) ? stored["configurable"] : {}),
    ...origin.configurable,
    ...Object.fromEntries(requestEntries),
  };
  return { ...stored, ...rest, ...(Object.keys(merged).length > 0 ? { configurable: merged } : {}) };
}

/** Returns the new metadata and config of the thread as `update_thread`; an empty object if both are as before. */
function toThreadUpdate(
  thread: ThreadRow,
  next: { metadata: JsonObject; config: JsonObject },
): Pick<CreateRun, "update_thread"> {
  return sameJson(thread.metadata, next.metadata) && sameJson(thread.config, next.config)
    ? {}
    : { update_thread: next };
}

/**
 * Returns the request that the executor gets: config and context of the assistant, replaced member by member by those of the
 * run, with defaults filled in. A command that is not empty replaces the input. Throws `bad_request` if `configurable` and
 * `context` of the run have different values for a key.
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one member of a stored request after the other
function toJobRequest(
  { assistant, request, origin, start_checkpoint, resume_targets, stateless, run_id, thread_id }: ResolvedRun,
  config: JsonObject,
): JobRequest {
  const context = request.context ?? {};
  requireConsistentConfig(request.config?.configurable, context);
  const { configurable: assistantConfigurable, ...assistantConfig } = assistant.config;
  const { configurable, ...rest } = config;
  const { resume, update, goto } = request.command ?? {};
  const command =
    request.command && (resume !== undefined || update !== undefined || goto !== undefined)
      ? {
          ...(resume === undefined ? {} : { resume }),
          ...(update === undefined || update === null ? {} : { update }),
          ...(toGotoList(goto).length > 0 ? { goto: toGotoList(goto) } : {}),
        }
      : null;
  const modes = request.stream_mode ?? [];
  const streamModes = typeof modes === "string" ? [modes] : modes;
  return {
    input: command ? undefined : (request.input ?? undefined),
    command,
    strict_resume: command?.resume !== undefined && (request.strict_resume ?? false),
    resume_targets,
    from: start_checkpoint,
    config: {
      ...assistantConfig,
      ...rest,
      configurable: {
        ...(isObject(assistantConfigurable)
          ? Object.fromEntries(Object.entries(assistantConfigurable).filter(([key]) => !isServerOnlyKey(key)))
          : {}),
        ...(isObject(configurable) ? configurable : {}),
        graph_id: assistant.graph_id,
        assistant_id: assistant.assistant_id,
        run_id,
        thread_id,
      },
    } as RunConfig,
    context: { ...assistant.context, ...context },
    stream_mode: streamModes.length > 0 ? streamModes : ["values"],
    subgraphs: request.stream_subgraphs ?? false,
    resumable: request.stream_resumable ?? false,
    records_all: origin.records_all ?? false,
    interrupt_before: request.interrupt_before ?? [],
    interrupt_after: request.interrupt_after ?? [],
    // A stateless run needs no checkpoints, unless its retries should resume.
    durability: request.durability ?? ((request.checkpoint_during ?? !stateless) ? "async" : "exit"),
  };
}

/** Requests of the runs routes. */
import * as v from "valibot";
import { ServiceError } from "../../errors.ts";
import type { StreamMode } from "../../executor/contract.ts";
import type { RunCreate } from "../../runs/mod.ts";
import type { RunStatus, StopAction, StopTarget } from "../../storage/mod.ts";
import {
  anyObject,
  assistantId,
  checkpoint,
  config,
  type Fields,
  flag,
  json,
  listOf,
  MODES,
  mode,
  name,
  oneOf,
  owned,
  page,
  text,
  uuid,
} from "./pieces.ts";
import { listItems } from "./read.ts";

const send = owned({ node: name });
/** Any value, null included. Undefined means that the list is too short. */
const some = v.pipe(
  json,
  v.check((value) => value !== undefined),
);
/** The most tasks of one step. */
const MOST_TARGETS = 100;
const STEP = `must be a node name, a Send or a list of at most ${MOST_TARGETS} of these`;
const step = v.union([name, send], STEP);
const breakpoints = v.optional(
  v.union([v.literal("*"), listOf(name)], 'must be "*" or a list of node names') as v.GenericSchema<"*" | string[]>,
);

const RUN_FIELDS = [
  "run_id",
  "thread_id",
  "assistant_id",
  "created_at",
  "updated_at",
  "status",
  "metadata",
  "kwargs",
  "multitask_strategy",
  "langsmith_session_name",
  "cancel_reason",
] as const;

/** The command of a run or of a state update. */
export const command: v.GenericSchema<NonNullable<RunCreate["command"]>> = owned<NonNullable<RunCreate["command"]>>({
  update: v.optional(
    v.union([anyObject, v.array(v.strictTuple([name, some]))], "must be an object or a list of [channel, value] pairs"),
  ),
  goto: v.optional(v.union([name, send, v.pipe(v.array(step), v.maxLength(MOST_TARGETS, STEP))], STEP)),
});

/** The body of every route that creates a run */
export const runCreate: Fields<RunCreate> = v.object({
  assistant_id: assistantId,
  input: v.optional(json),
  command: v.optional(command),
  config: v.optional(config),
  context: v.optional(anyObject),
  metadata: v.optional(anyObject),
  checkpoint: v.optional(checkpoint),
  checkpoint_id: v.optional(name),
  stream_mode: v.optional(
    v.union([mode, v.array(mode)], `must be one of ${MODES.join(", ")}, or a list of these`) as v.GenericSchema<
      StreamMode | StreamMode[]
    >,
  ),
  stream_subgraphs: v.optional(flag),
  stream_resumable: v.optional(flag),
  multitask_strategy: v.optional(oneOf(["reject", "enqueue", "interrupt", "rollback"])),
  if_not_exists: v.optional(oneOf(["reject", "create"])),
  on_disconnect: v.optional(oneOf(["continue", "cancel"])),
  // Some SDK types have values that no server knows. They are ignored.
  on_completion: v.fallback(v.optional(oneOf(["delete", "keep"])), undefined),
  after_seconds: v.optional(
    v.pipe(v.number("must be a number"), v.finite("must be finite"), v.minValue(0, "must be at least 0")),
  ),
  interrupt_before: breakpoints,
  interrupt_after: breakpoints,
  strict_resume: v.optional(flag),
  durability: v.optional(oneOf(["sync", "async", "exit"])),
  checkpoint_during: v.optional(flag),
  // The webhook policy of the service decides which URLs are valid.
  webhook: v.optional(v.string("must be a string")),
  feedback_keys: v.optional(v.union([v.string(), v.array(v.string())], "must be a list of strings")),
});

const stopAction = v.optional(oneOf(["interrupt", "rollback"])) as v.GenericSchema<StopAction | undefined>;

/** POST …/cancel */
export const cancelQuery: Fields<{
  readonly wait?: boolean;
  readonly action?: StopAction;
  readonly reason?: string;
}> = v.object({ wait: v.optional(flag), action: stopAction, reason: v.optional(text) });

/** POST /runs/cancel, the query */
export const cancelManyQuery: Fields<{ readonly action?: StopAction }> = v.object({ action: stopAction });

/** POST /runs/cancel, the body; `readTarget` turns it into one target */
export const cancelMany: Fields<{
  readonly status?: "pending" | "running" | "all";
  readonly thread_id?: string;
  readonly run_ids?: readonly string[];
}> = v.object({
  status: v.optional(oneOf(["pending", "running", "all"])),
  thread_id: v.optional(uuid),
  run_ids: v.optional(
    v.pipe(listOf(uuid), v.minLength(1, "must name a run"), v.maxLength(1000, "must name at most 1000 runs")),
  ),
});

/** The runs that a bulk cancel stops: those of a status, or some of a thread. */
export function readTarget({
  status,
  thread_id,
  run_ids,
}: {
  readonly status?: "pending" | "running" | "all";
  readonly thread_id?: string;
  readonly run_ids?: readonly string[];
}): StopTarget {
  if (status !== undefined && (thread_id !== undefined || run_ids !== undefined)) {
    throw new ServiceError("invalid", "status: not together with thread_id and run_ids. Send one or the other");
  }
  if (status !== undefined) return { status };
  if (thread_id !== undefined && run_ids !== undefined) return { thread_id, run_ids };
  throw new ServiceError("invalid", "status: is required, or thread_id and run_ids");
}

/** GET /threads/{thread_id}/runs */
export const runSearch: Fields<{
  readonly limit?: number;
  readonly offset?: number;
  readonly status?: RunStatus;
  readonly select?: readonly string[];
}> = v.object({
  ...page,
  status: v.optional(
    oneOf(["pending", "running", "success", "error", "timeout", "interrupted"] satisfies RunStatus[]),
  ) as v.GenericSchema<RunStatus | undefined>,
  select: v.optional(listOf(oneOf(RUN_FIELDS))),
});

/** GET …/join */
export const joinQuery: Fields<{ readonly cancel_on_disconnect?: boolean }> = v.object({
  cancel_on_disconnect: v.optional(flag),
});

const namespace = v.optional(listOf(text));

/** The namespaces that a stream shows; `namespace` must be validated before. An empty one means the root graph, so it is read here. */
export function readNamespaces(url: string): { readonly namespaces?: readonly string[] } {
  const sent = new URL(url).searchParams.getAll("namespace");
  const namespaces = sent.flatMap((value) => (value === "" ? [value] : (listItems(value) as string[])));
  return namespaces.length === 0 ? {} : { namespaces };
}

/** POST …/runs/stream, the query; `readNamespaces` reads it */
export const streamQuery: Fields<{ readonly namespace?: readonly string[] }> = v.object({ namespace });

export interface JoinStreamQuery {
  readonly stream_mode?: readonly StreamMode[];
  readonly namespace?: readonly string[];
  /** Accepted and ignored: the whole run is replayed. */
  readonly checkpoint_id?: string;
  readonly cancel_on_disconnect?: boolean;
}

/** GET …/runs/{run_id}/stream */
export const joinStreamQuery: Fields<JoinStreamQuery> = v.object({
  stream_mode: v.optional(listOf(mode)),
  namespace,
  checkpoint_id: v.optional(name),
  cancel_on_disconnect: v.optional(flag),
});

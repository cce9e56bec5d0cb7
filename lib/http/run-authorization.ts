/** What authorization is told of a run that is to be made, and what it may change of it. */
import type { Assistants } from "../assistants/mod.ts";
import type { JsonObject } from "../json.ts";
import type { RunCreate, RunOrigin } from "../runs/mod.ts";
import { EVERYTHING, refuseForOthers, type Visibility } from "../storage/visibility.ts";
import type { RequestContext } from "./context.ts";
import * as parse from "./parse/mod.ts";

/** The value of `threads:create_run`. Changes of `metadata` and of `input`, `command`, `config` and `context` in `kwargs` count. */
interface AskedRun {
  readonly thread_id: string | null;
  readonly assistant_id: string;
  /** The one that the run gets, unless an earlier call with the same idempotency key has made it. Null: a cron's, none is made now. */
  readonly run_id: string | null;
  readonly status: "pending";
  readonly metadata: JsonObject;
  readonly prevent_insert_if_inflight: boolean;
  readonly multitask_strategy: string;
  readonly if_not_exists: string;
  readonly after_seconds: number;
  readonly kwargs: Readonly<Record<string, unknown>>;
}

/** `thread_id` null: a stateless run. */
function askedRun(thread_id: string | null, run_id: string | null, request: RunCreate): AskedRun {
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

/** Among which assistants a run's is looked for. Whether its default assistant may be used, a graph's runs say alone. */
export async function assistantVisibility(
  call: RequestContext,
  assistants: Assistants,
  assistant_id: string,
): Promise<Visibility> {
  if (!call.principal.user || (await assistants.isDefault(assistant_id))) return EVERYTHING;
  return (await call.authorize("assistants:read", { assistant_id })).visibility;
}

/** The run as authorization leaves it: it sees what the run is made of, and may change it. And which threads it may be on. */
export async function mayRun<Request extends RunCreate>(
  call: RequestContext,
  thread_id: string | null,
  run_id: string | null,
  request: Request,
): Promise<{ readonly request: Request | RunCreate; readonly threads: Visibility }> {
  const run = askedRun(thread_id, run_id, request);
  const { value, visibility } = await call.authorize("threads:create_run", run);
  // The thread that it makes has its metadata.
  if (thread_id === null) refuseForOthers(visibility, value.metadata);
  return { request: value === run ? request : changedRun(request, value), threads: visibility };
}

/** How far a run's origin reaches, where anything bounds it. */
export const visibilitiesOf = (
  threads: Visibility,
  assistants: Visibility,
): Pick<RunOrigin, "threads" | "assistants"> => ({
  ...(threads.filter ? { threads } : {}),
  ...(assistants.filter ? { assistants } : {}),
});

/** The request as authorization leaves it. Throws where that is no request any more. */
function changedRun(request: RunCreate, { metadata, kwargs }: AskedRun): RunCreate {
  const { input, command, config, context } = kwargs;
  const changed = { ...request, metadata, input, command, config, context };
  try {
    return parse.readObject(new TextEncoder().encode(JSON.stringify(changed)), parse.runCreate);
  } catch (error) {
    throw new Error("A handler of custom authentication left a run that cannot be made", { cause: error });
  }
}

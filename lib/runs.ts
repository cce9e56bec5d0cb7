/** Runs: executions of an assistant, on a thread or without one. */
import type { Ambient } from "./ambient.ts";
import { type AssistantDirectory, refuseTwoValues } from "./assistants.ts";
import { ServiceError } from "./errors.ts";
import type { Events, Frame, FrameReader, Outcome, Tape } from "./events.ts";
import type { CheckpointRef, Executor, RunConfig, Send, StreamMode } from "./executor.ts";
import { isObject, type Json, type JsonObject, sameJson } from "./json.ts";
import { gotoList, type JobRequest, writeKwargs } from "./kwargs.ts";
import type {
  AssistantRow,
  CreateRun,
  MultitaskStrategy,
  RunRow,
  RunStatus,
  Scope,
  Storage,
  ThreadRow,
} from "./storage.ts";
import type { ThreadDirectory } from "./threads.ts";
import { closeTape, endDeleted, firstId, type Worker, waitResult } from "./worker.ts";

/** A run as the API shows it; times are ISO 8601, UTC. */
export interface Run {
  readonly run_id: string;
  readonly thread_id: string;
  readonly assistant_id: string;
  readonly created_at: string;
  readonly updated_at: string;
  readonly status: RunStatus;
  readonly metadata: JsonObject;
  readonly kwargs: JsonObject;
  readonly multitask_strategy: MultitaskStrategy;
}

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
  readonly stream_resumable?: boolean | null;
  readonly multitask_strategy?: MultitaskStrategy | null;
  readonly if_not_exists?: "reject" | "create" | null;
  readonly on_disconnect?: "continue" | "cancel" | null;
  readonly on_completion?: string | null;
  readonly after_seconds?: number | null;
  readonly interrupt_before?: "*" | readonly string[] | null;
  readonly interrupt_after?: "*" | readonly string[] | null;
  readonly durability?: "sync" | "async" | "exit" | null;
  readonly checkpoint_during?: boolean | null;
  readonly webhook?: string | null;
  readonly feedback_keys?: readonly string[] | null;
}

/** What the request itself adds: values for `config.configurable` taken from its headers. */
export interface RunOrigin {
  readonly configurable?: JsonObject;
}

export type { Frame, FrameReader } from "./events.ts";

/**
 * A reader of a run's frames; the last one is `end`, and then the run's status is final already. Leaving the loop early (or
 * `return()`) unsubscribes, and interrupts the run if it was asked to be cancelled on disconnect.
 */
export interface RunStream {
  readonly run: Run;
  readonly frames: FrameReader;
}

/** A run and its result: the final values, `{"__interrupt__": […]}` or `{"__error__": {error, message}}`. Never rejects for a failed run. */
export interface RunWait {
  readonly run: Run;
  readonly result: Promise<Json>;
  /** The caller is gone: unsubscribes, and interrupts the run if it was asked to be cancelled on disconnect. */
  leave(): void;
}

/** `thread_id` null: a stateless run. Errors of the creating calls: not_found, conflict (busy), invalid, not_built, bad_request. */
export interface Runs {
  create(thread_id: string | null, request: RunCreate, origin?: RunOrigin): Promise<Run>;
  stream(thread_id: string | null, request: RunCreate, origin?: RunOrigin): Promise<RunStream>;
  wait(thread_id: string | null, request: RunCreate, origin?: RunOrigin): Promise<RunWait>;
  /** Errors: not_found. */
  get(thread_id: string, run_id: string): Promise<Run>;
  /** Newest first. Errors: not_found (thread). */
  list(
    thread_id: string,
    query?: { readonly limit?: number; readonly offset?: number; readonly status?: RunStatus },
  ): Promise<readonly Run[]>;
  /** Errors: not_found; conflict while it is running. */
  delete(thread_id: string, run_id: string): Promise<void>;
  /** Errors: not_found. */
  join(thread_id: string, run_id: string, options?: { readonly cancel_on_disconnect?: boolean }): Promise<RunWait>;
  /** Frames after `after` (all that are still held when absent), then live ones. `thread_id` null: a stateless run. Errors: not_found. */
  joinStream(
    thread_id: string | null,
    run_id: string,
    options?: {
      readonly after?: number;
      /** Show only these of the run's modes. */
      readonly modes?: readonly StreamMode[];
      readonly cancel_on_disconnect?: boolean;
    },
  ): Promise<RunStream>;
}

/** What the worker uses of runs. */
export interface RunDirectory extends Runs {
  /** Ends the tape of a run that nobody executes here, when its row says so. */
  watch(run_id: string, tape: Tape): void;
}

export interface RunOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly executor: Executor;
  readonly ambient: Ambient;
  readonly events: Events;
  readonly worker: Worker;
  readonly assistants: AssistantDirectory;
  readonly threads: ThreadDirectory;
}

/** How often a reader of a run that executes elsewhere looks whether it has ended. */
const WATCH_MS = 1_000;

export function createRuns(options: RunOptions): RunDirectory {
  const { storage, scope, ambient, events, worker, assistants, threads } = options;
  const hosted = new Set(options.executor.graphs().map((graph) => graph.graph_id));

  async function begin(
    thread_id: string | null,
    request: RunCreate,
    origin: RunOrigin,
    watched = false,
  ): Promise<RunRow> {
    refuseUnbuilt(request);
    const from = checkpointOf(request);
    if (thread_id === null) refuseState(request, from);
    const id = thread_id?.toLowerCase() ?? ambient.uuid();
    const temporary = thread_id === null && request.on_completion !== "keep";
    let assistant = await assistants.recall(request.assistant_id);
    while (true) {
      if (!hosted.has(assistant.graph_id)) throw new ServiceError("not_found", `Graph ${assistant.graph_id} not found`);
      const thread = thread_id === null ? null : await storage.getThread(scope, id);
      if (thread_id !== null && (thread?.hidden || (!thread && request.if_not_exists !== "create"))) {
        throw new ServiceError("not_found", `Thread ${thread_id} not found`);
      }
      if (from && !(await storage.getCheckpoint(scope, id, from))) {
        throw new ServiceError("not_found", `Thread ${thread_id} has no checkpoint ${from.checkpoint_id}`);
      }
      const run = await create(assistant, thread, id, temporary, request, origin, watched);
      if (run) return run;
      assistant = await assistants.resolve(request.assistant_id);
    }
  }

  /** Null when the assistant or the thread changed meanwhile: the caller looks again. */
  async function create(
    assistant: AssistantRow,
    thread: ThreadRow | null,
    thread_id: string,
    temporary: boolean,
    request: RunCreate,
    origin: RunOrigin,
    watched: boolean,
  ): Promise<RunRow | null> {
    const run_id = ambient.uuid();
    const { assistant_id, graph_id } = assistant;
    const strategy = request.multitask_strategy ?? "enqueue";
    const own = { graph_id, assistant_id };
    const metadata = { ...assistant.metadata, ...thread?.metadata, ...own, ...request.metadata };
    const config = requestConfig(request, origin, thread);
    const plan: CreateRun = {
      run: {
        run_id,
        thread_id,
        assistant_id,
        graph_id,
        metadata,
        kwargs: writeKwargs(
          jobRequest(assistant, config, request, { ...own, run_id, thread_id }, temporary),
          temporary,
        ),
        multitask_strategy: strategy,
        temporary,
      },
      seen: { assistant_revision: assistant.revision, thread_revision: thread?.revision ?? null },
      now: ambient.now(),
      ...(thread
        ? changed(thread, { metadata: { ...thread.metadata, ...own }, config })
        : {
            create_thread: {
              thread_id,
              metadata: { ...own, ...request.metadata },
              config,
              hidden: temporary,
            },
          }),
    };
    const claim = thread?.status === "busy" ? null : worker.reserve();
    let started = false;
    try {
      const outcome = await storage.createRun(scope, claim ? { ...plan, claim } : plan);
      switch (outcome.kind) {
        case "created":
          if (outcome.claimed) {
            started = true;
            if (watched) events.tape(run_id).watched = true;
            worker.start(outcome.claimed);
          } else {
            worker.wake();
          }
          return outcome.run;
        case "thread_not_found":
          throw new ServiceError("not_found", `Thread ${thread_id} not found`);
        case "thread_busy":
          throw new ServiceError(
            "conflict",
            `Thread ${thread_id} is already running a task. Wait for it to end, or choose another multitask_strategy`,
          );
        case "stale":
          break;
      }
      return null;
    } finally {
      if (claim && !started) worker.release();
    }
  }

  async function find(thread_id: string | null, run_id: string): Promise<RunRow> {
    const run = await storage.getRun(scope, run_id.toLowerCase());
    if (!run || (thread_id !== null && run.thread_id !== thread_id.toLowerCase())) {
      throw new ServiceError("not_found", `Run ${run_id} not found`);
    }
    return run;
  }

  async function interrupt(run: RunRow): Promise<void> {
    if (worker.cancel(run.run_id, "cancelled")) return;
    const outcome = await storage.cancelRun(scope, run.thread_id, run.run_id, ambient.now());
    // It may have been claimed here meanwhile.
    if (outcome?.kind === "flagged") worker.cancel(run.run_id, "cancelled");
    const tape = events.find(run.run_id);
    if (outcome?.kind === "ended" && tape) {
      closeTape(tape, run.run_id, { status: "interrupted", result: {} }, null);
    }
  }

  const leave = (run: RunRow, cancel: boolean) => (): void => {
    if (!cancel) return;
    interrupt(run).catch((error: unknown) =>
      ambient.log({ level: "error", message: "a run was not cancelled on disconnect", run_id: run.run_id, error }),
    );
  };

  /** Ends the tape of a run that nobody executes here, when its row says so. */
  function watch(run_id: string, tape: Tape): void {
    ambient.timer(WATCH_MS, async () => {
      try {
        if (!tape.outcome && !tape.live) await look(run_id, tape);
      } catch (error) {
        ambient.log({ level: "warn", message: "a run could not be watched", run_id, error });
      }
      if (!tape.outcome) watch(run_id, tape);
    });
  }

  async function look(run_id: string, tape: Tape): Promise<void> {
    const row = await storage.getRun(scope, run_id);
    if (!row) endDeleted(tape, run_id);
    else if (isTerminal(row.status)) endTape(tape, row, await storedResult(row));
  }

  /** The tape of a run, ended already when the run is over. */
  async function follow(run: RunRow): Promise<Tape> {
    const known = events.find(run.run_id);
    if (known) return known;
    // The row may be older than the end of the run: what counts is the row once the tape is there.
    const tape = events.tape(run.run_id);
    try {
      await look(run.run_id, tape);
    } finally {
      if (!tape.outcome) watch(run.run_id, tape);
    }
    return tape;
  }

  /** What wait and join answer for a run that ended before anybody asked. */
  async function storedResult(run: RunRow): Promise<Json> {
    if (run.error) return { __error__: run.error };
    if (run.temporary) return run.result ?? {};
    const thread = await storage.getThread(scope, run.thread_id);
    try {
      const state = thread && (await threads.current(thread));
      return state ? waitResult(state.values, state.next, state.interrupts as unknown as Json[]) : {};
    } catch (error) {
      // The graph cannot read its state any more; the run has ended all the same.
      ambient.log({ level: "error", message: "a state could not be read", run_id: run.run_id, error });
      return { __error__: { error: "StateUnreadable", message: "The state could not be read" } };
    }
  }

  async function result(tape: Tape): Promise<Json> {
    const outcome: Outcome = await tape.ended();
    return outcome.result ?? {};
  }

  return {
    watch,
    async create(thread_id, request, origin = {}) {
      // As it was created: an idle worker may have taken it in the same moment.
      return { ...toRun(await begin(thread_id, request, origin)), status: "pending" };
    },
    async stream(thread_id, request, origin = {}) {
      const run = await begin(thread_id, request, origin, true);
      const tape = await follow(run);
      return { run: toRun(run), frames: tape.read(0, leave(run, request.on_disconnect === "cancel")) };
    },
    async wait(thread_id, request, origin = {}) {
      const run = await begin(thread_id, request, origin);
      const tape = await follow(run);
      return { run: toRun(run), result: result(tape), leave: leave(run, request.on_disconnect === "cancel") };
    },
    async get(thread_id, run_id) {
      return toRun(await find(thread_id, run_id));
    },
    async list(thread_id, { limit = 10, offset = 0, status } = {}) {
      const thread = await threads.visible(thread_id);
      const rows = await storage.listRuns(scope, thread.thread_id, { limit, offset, ...(status ? { status } : {}) });
      return rows.map(toRun);
    },
    async delete(thread_id, run_id) {
      const run = await find(thread_id, run_id);
      const outcome = await storage.deleteRun(scope, run.thread_id, run.run_id);
      if (outcome === "running") throw new ServiceError("conflict", `Run ${run_id} is running: cancel it first`);
      if (outcome === "not_found") throw new ServiceError("not_found", `Run ${run_id} not found`);
      const tape = events.find(run.run_id);
      if (tape) endDeleted(tape, run.run_id);
    },
    async join(thread_id, run_id, { cancel_on_disconnect = false } = {}) {
      const run = await find(thread_id, run_id);
      const tape = await follow(run);
      return { run: toRun(run), result: result(tape), leave: leave(run, cancel_on_disconnect && !tape.outcome) };
    },
    async joinStream(thread_id, run_id, { after = 0, modes, cancel_on_disconnect = false } = {}) {
      const run = await find(thread_id, run_id);
      const tape = await follow(run);
      const frames = tape.read(after, leave(run, cancel_on_disconnect));
      return { run: toRun(run), frames: joined(frames, tape, run.run_id, modes ?? []) };
    },
  };
}

const isTerminal = (status: RunStatus): boolean => status !== "pending" && status !== "running";

function endTape(tape: Tape, run: RunRow, result: Json): void {
  // Above everything that its attempts have shown, here or elsewhere.
  tape.startAt(firstId(run.claims));
  closeTape(tape, run.run_id, { status: run.status as Outcome["status"], result }, run.error);
}

/** Frames that every reader gets, whatever modes it asked for. */
const ALWAYS = new Set(["metadata", "error", "feedback", "end"]);

/**
 * The frames of these modes, all without any, and the end also for a reader that has seen it: clients take an empty stream
 * for a broken one. Not a generator: that would leave its source only with the next frame.
 */
function joined(frames: FrameReader, tape: Tape, run_id: string, modes: readonly StreamMode[]): FrameReader {
  const source = frames[Symbol.asyncIterator]();
  let ended = false;
  const wanted = ({ event }: Frame): boolean => {
    ended ||= event === "end";
    const name = event.split("|", 1)[0] as string;
    if (modes.length === 0 || ALWAYS.has(name)) return true;
    if (name.startsWith("messages/")) return modes.includes("messages");
    return modes.includes(name === "messages" ? "messages-tuple" : (name as StreamMode));
  };
  return {
    take: () => frames.take().filter(wanted),
    [Symbol.asyncIterator]: () => ({
      async next() {
        while (true) {
          const { done, value } = await source.next();
          if (!done && !wanted(value)) continue;
          if (!done) return { done, value };
          const status = ended ? "gone" : (tape.outcome?.status ?? "gone");
          if (status === "gone") return { done, value: undefined };
          ended = true;
          return { done: false, value: { id: null, event: "end", data: JSON.stringify({ run_id, status }) } };
        }
      },
      async return() {
        await source.return?.();
        return { done: true, value: undefined };
      },
    }),
  };
}

function refuseUnbuilt(request: RunCreate): void {
  const unbuilt = [
    (request.multitask_strategy === "interrupt" || request.multitask_strategy === "rollback") &&
      `multitask_strategy ${request.multitask_strategy}`,
    (request.after_seconds ?? 0) > 0 && "after_seconds",
    typeof request.webhook === "string" && "webhook",
    (request.feedback_keys?.length ?? 0) > 0 && "feedback_keys",
  ].filter((name) => name !== false);
  if (unbuilt.length > 0) throw new ServiceError("not_built", `Not built yet: ${unbuilt.join(", ")}`);
}

/** A stateless run has no state to go on from. */
function refuseState(request: RunCreate, from: CheckpointRef | null): void {
  if (request.command?.resume !== undefined) {
    throw new ServiceError("bad_request", "command.resume needs a thread: a stateless run has nothing to resume");
  }
  if (from) {
    throw new ServiceError("bad_request", "checkpoint needs a thread: a stateless run has no state to start from");
  }
}

/** Where the request starts from: clients name it in `checkpoint`, in `checkpoint_id`, or in `config.configurable`. */
function checkpointOf({ checkpoint, checkpoint_id, config }: RunCreate): CheckpointRef | null {
  const id = checkpoint?.checkpoint_id ?? checkpoint_id;
  if (id) return { ns: checkpoint?.checkpoint_ns ?? "", checkpoint_id: id };
  const { checkpoint_id: named, checkpoint_ns } = config?.configurable ?? {};
  if (typeof named !== "string" || named === "") return null;
  return { ns: typeof checkpoint_ns === "string" ? checkpoint_ns : "", checkpoint_id: named };
}

/** What names one run or one state is no part of a configuration. */
const PLACES = new Set([
  "checkpoint_id",
  "checkpoint_ns",
  "checkpoint_map",
  "thread_id",
  "run_id",
  "graph_id",
  "assistant_id",
]);

/** What the thread keeps: its own configuration under the request's. The assistant's stays with its versions. */
function requestConfig(request: RunCreate, origin: RunOrigin, thread: ThreadRow | null): JsonObject {
  const { configurable, ...rest } = (request.config ?? {}) as JsonObject;
  const before = thread?.config ?? {};
  const own = isObject(configurable) ? Object.entries(configurable).filter(([key]) => !PLACES.has(key)) : [];
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
  const from = checkpointOf(request);
  return {
    input: command ? undefined : (request.input ?? undefined),
    command,
    from,
    config: {
      ...assistantConfig,
      ...rest,
      configurable: {
        ...(isObject(assistantConfigurable) ? assistantConfigurable : {}),
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

function toRun(row: RunRow): Run {
  return {
    run_id: row.run_id,
    thread_id: row.thread_id,
    assistant_id: row.assistant_id,
    created_at: new Date(row.created_at).toISOString(),
    updated_at: new Date(row.updated_at).toISOString(),
    status: row.status,
    metadata: row.metadata,
    kwargs: row.kwargs,
    multitask_strategy: row.multitask_strategy,
  };
}

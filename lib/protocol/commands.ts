/** The commands of the thread event protocol and their responses. */
import { type ErrorReason, notFoundError, nullIfNotFound, ServiceError, StateReadError } from "../errors.ts";
import type { Interrupt } from "../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { InternalRuns, Run, RunCreate } from "../runs/mod.ts";
import type { AuthorizedRun } from "../runs/request.ts";
import type { Scope, ThreadRow } from "../storage/mod.ts";
import type { SerializedEvent, ThreadEvents } from "../streams/event-filter.ts";
import { decodeSerializedEvent } from "../streams/thread-event.ts";
import type { InternalThreads } from "../threads/mod.ts";

/** The reason why a command failed. */
export type CommandErrorCode =
  | "invalid_argument"
  | "unknown_command"
  | "unknown_error"
  | "no_such_run"
  | "no_such_subscription"
  | "no_such_namespace"
  | "no_such_interrupt"
  | "no_such_checkpoint"
  | "permission_denied"
  | "not_supported";

/** A command to a thread. */
export interface ProtocolCommand {
  /** An id that the client chooses. The response has the same. */
  readonly id: number;
  /** `run.start`, `input.respond`, `agent.getTree` or `state.get`; on a WebSocket also `subscription.subscribe` and `….unsubscribe`. */
  readonly method: string;
  readonly params?: JsonObject;
}

/** The thread of a response and the `seq` of its last event; for commands that create a run, of the last one before it. */
export interface CommandResponseMeta {
  readonly thread_id: string;
  readonly applied_through_seq?: number;
}

/** The response to a command. `id` is null for a message that is no command. */
export type CommandResponse =
  | { readonly type: "success"; readonly id: number; readonly result: JsonObject; readonly meta: CommandResponseMeta }
  | {
      readonly type: "error";
      readonly id: number | null;
      readonly error: CommandErrorCode;
      readonly message: string;
      readonly meta?: CommandResponseMeta;
    };

/** The authorization of a command's sender. Its methods throw the errors of a route. */
export interface CommandCaller {
  /** Returns the scope in which the caller may read a thread. */
  read(thread_id: string): Promise<Scope>;
  /** Authorizes and validates the run that a command creates. */
  run(thread_id: string, request: RunCreate): Promise<AuthorizedRun>;
}

/** The error of a failed command. */
export class CommandError extends Error {
  readonly code: CommandErrorCode;
  constructor(code: CommandErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "CommandError";
    this.code = code;
  }
}

export const invalidArgumentError = (message: string): CommandError => new CommandError("invalid_argument", message);

/** Parses a command; null for any other value. */
export function readCommand(value: unknown): ProtocolCommand | null {
  if (!isObject(value)) return null;
  const { id, method, params } = value;
  if (typeof id !== "number" || !Number.isSafeInteger(id) || id < 0 || typeof method !== "string") return null;
  if (params === undefined || params === null) return { id, method };
  return isObject(params) ? { id, method, params } : null;
}

/** Creates the response to a CommandError; undefined for other errors. */
export function toErrorResponse(
  id: number | null,
  error: unknown,
  meta?: CommandResponseMeta,
): CommandResponse | undefined {
  if (!(error instanceof CommandError)) return undefined;
  return { type: "error", id, error: error.code, message: error.message, ...(meta ? { meta } : {}) };
}

/** The result of a command, and the `seq` of the last event, or of the last one before a run that it created. */
interface CommandResult extends Required<Pick<CommandResponseMeta, "applied_through_seq">> {
  readonly result: JsonObject;
}

/** Throws CommandError, and the errors of the caller and the storage. */
type CommandHandler = (thread_id: string, params: JsonObject, caller: CommandCaller) => Promise<CommandResult>;

const noRunError = (thread_id: string): CommandError =>
  new CommandError("no_such_run", `Thread ${thread_id} has no run yet.`);

/** Returns the thread; null if it does not exist for the caller. */
const findThread = (
  threads: Pick<InternalThreads, "requireThread">,
  scope: Scope,
  thread_id: string,
): Promise<ThreadRow | null> => threads.requireThread(scope, thread_id).catch(nullIfNotFound);

export interface CommandOptions extends RunCommandOptions {
  readonly threads: RunCommandOptions["threads"] & Pick<InternalThreads, "state" | "stateAt">;
  readonly events: RunCommandOptions["events"] & Pick<ThreadEvents, "readStored">;
}

/**
 * Creates a handler for each command, by its name. Those of subscriptions throw `not_supported`, because a WebSocket handles them
 * before.
 */
export function createCommands(options: CommandOptions): Readonly<Record<string, CommandHandler>> {
  const { threads, events } = options;
  const { start, respond } = createRunCommands(options);

  /**
   * Returns the tree of a run and its subgraphs from the stored events, of the newest run without `run_id`. Throws `no_such_run`
   * or `invalid_argument`.
   */
  async function getTree(thread_id: string, params: JsonObject, caller: CommandCaller): Promise<CommandResult> {
    const { run_id } = params;
    if (run_id !== undefined && run_id !== null && typeof run_id !== "string") {
      throw invalidArgumentError("agent.getTree: run_id must be a string.");
    }
    const scope = await caller.read(thread_id);
    const storedEvents = events.readStored(scope, thread_id, { channels: ["lifecycle"], since: 1 });
    const tree = await buildRunTree(storedEvents, run_id?.toLowerCase());
    if (!tree && run_id) throw new CommandError("no_such_run", `No events are kept of run ${run_id} of the thread.`);
    if (!tree) throw noRunError(thread_id);
    return { result: { tree }, applied_through_seq: await events.lastEventSeq(scope, thread_id) };
  }

  /**
   * Returns the values at a namespace, limited to `keys`, and their checkpoint. Throws `no_such_run` without the thread, `no_such_namespace` or
   * `invalid_argument`.
   */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one check for each parameter
  async function getState(thread_id: string, params: JsonObject, caller: CommandCaller): Promise<CommandResult> {
    const { namespace = [], keys } = params;
    if (!isStringList(namespace)) throw invalidArgumentError("state.get: namespace must be a list of strings.");
    if (keys !== undefined && keys !== null && !isStringList(keys)) {
      throw invalidArgumentError("state.get: keys must be a list of strings.");
    }
    const scope = await caller.read(thread_id);
    if (!(await findThread(threads, scope, thread_id))) throw noRunError(thread_id);
    const checkpoint_ns = namespace.join("|");
    const state =
      checkpoint_ns === ""
        ? await threads.state(scope, thread_id)
        : await threads.stateAt(scope, thread_id, { checkpoint_ns });
    if (checkpoint_ns !== "" && !state.checkpoint) {
      throw new CommandError("no_such_namespace", `Thread ${thread_id} has no namespace ${checkpoint_ns}.`);
    }
    const values = isObject(state.values) && keys ? pickValues(state.values, keys) : state.values;
    const { checkpoint } = state;
    return {
      applied_through_seq: await events.lastEventSeq(scope, thread_id),
      result: { values, checkpoint: checkpoint && { id: checkpoint.checkpoint_id, ns: checkpoint.checkpoint_ns } },
    };
  }

  const createUnsupportedCommand = (message: string) => async (): Promise<CommandResult> => {
    throw new CommandError("not_supported", message);
  };
  const requireWebSocket = createUnsupportedCommand(
    "Subscriptions need a WebSocket. Or send a POST to …/stream/events.",
  );

  return {
    "run.start": start,
    "input.respond": respond,
    "agent.getTree": getTree,
    "state.get": getState,
    "subscription.subscribe": requireWebSocket,
    "subscription.unsubscribe": requireWebSocket,
    "subscription.reconnect": createUnsupportedCommand("Subscribe again, with `since`."),
  };
}

const isStringList = (value: Json): value is string[] =>
  Array.isArray(value) && value.every((entry) => typeof entry === "string");

const pickValues = (values: JsonObject, keys: readonly string[]): JsonObject =>
  Object.fromEntries(keys.filter((key) => Object.hasOwn(values, key)).map((key) => [key, values[key] as Json]));

interface RunCommandOptions {
  readonly runs: Pick<InternalRuns, "create" | "list">;
  readonly threads: Pick<InternalThreads, "requireThread" | "readCurrentState">;
  readonly events: Pick<ThreadEvents, "lastEventSeq">;
  readonly scope: Scope;
}

/** Creates the handlers of the two commands that create a run: `start` with an input, and `respond` with resume values. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
function createRunCommands(options: RunCommandOptions): Readonly<Record<"start" | "respond", CommandHandler>> {
  const { runs, threads, events, scope: deploymentScope } = options;

  /**
   * Creates a run that records all events. Reads the last `seq` before, so that no event of the run counts as an earlier one.
   * Throws a CommandError for an error that the client caused, and other errors unchanged.
   */
  async function createRun(
    thread_id: string,
    { scope, request, origin }: AuthorizedRun,
  ): Promise<{ readonly run: Run; readonly applied_through_seq: number }> {
    const applied_through_seq = await events.lastEventSeq(scope, thread_id);
    try {
      return {
        run: await runs.create(scope, thread_id, request, { ...origin, records_all: true }),
        applied_through_seq,
      };
    } catch (error) {
      throw toCommandError(error);
    }
  }

  /**
   * Starts a run, and creates the thread if it does not exist. If the thread has pending interrupts, the input becomes the resume
   * value, unless the run forks from a checkpoint or has no input. Does not wait for the run. Throws `invalid_argument`, or
   * `not_found` for the thread of another user.
   */
  async function start(thread_id: string, params: JsonObject, caller: CommandCaller): Promise<CommandResult> {
    const authorizedRun = await authorizeRun(caller, thread_id, toStartRequest(params));
    const { request } = authorizedRun;
    const thread = await findThread(threads, authorizedRun.scope, thread_id);
    if (!thread && authorizedRun.scope.filter && (await findThread(threads, deploymentScope, thread_id)))
      throw notFoundError("thread", thread_id);
    const { input, ...rest } = request;
    // A fork is a new input, even with pending interrupts. The state of an idle thread is not read, because it may be large. While a run
    // resumes, its interrupt is still pending: the same message from another client is late, and no new input.
    const interrupts =
      thread &&
      thread.status !== "idle" &&
      input !== null &&
      input !== undefined &&
      !isFork(request) &&
      (await readPendingInterrupts(threads, thread));
    const { run, applied_through_seq } =
      interrupts && interrupts.length > 0
        ? await createRun(thread_id, {
            ...authorizedRun,
            request: { ...rest, command: { resume: input as Json }, strict_resume: true },
          })
        : await createRun(thread_id, authorizedRun);
    return { result: { run_id: run.run_id }, applied_through_seq };
  }

  /**
   * Creates a run that resumes interrupts, with the assistant of the newest run, else (a copied thread) of the thread's metadata.
   * Returns `run_id` and `applied_through_seq`, and does not wait for the run. Throws `no_such_run` without a thread or assistant,
   * `no_such_interrupt` if an id is not pending, also because another client was faster, and `invalid_argument` if no interrupt is
   * pending and the newest run did not resume these.
   */
  async function respond(thread_id: string, params: JsonObject, caller: CommandCaller): Promise<CommandResult> {
    const resumeInput = readResumeInput(params);
    const ids = Object.keys(resumeInput.resume);
    const scope = await caller.read(thread_id);
    /** Returns the thread and its newest run; null and undefined if there is none. */
    const readThread = async (): Promise<{ thread: ThreadRow | null; last: Run | undefined }> => {
      const thread = await findThread(threads, scope, thread_id);
      return { thread, last: thread ? (await runs.list(scope, thread_id, { limit: 1 }))[0] : undefined };
    };
    const { thread, last } = await readThread();
    // A copied thread has no runs of its own.
    const assistant_id = last?.assistant_id ?? thread?.metadata.assistant_id;
    if (!thread || typeof assistant_id !== "string") throw noRunError(thread_id);
    await requirePending(threads, thread, last, ids);
    const request = toRespondRequest(params, assistant_id, resumeInput);
    const authorizedRun = await authorizeRun(caller, thread_id, request);
    if (authorizedRun.scope.filter && !(await findThread(threads, authorizedRun.scope, thread_id)))
      throw notFoundError("thread", thread_id);
    try {
      const { run, applied_through_seq } = await createRun(thread_id, authorizedRun);
      return { result: { run_id: run.run_id }, applied_through_seq };
    } catch (error) {
      // Another client may have resumed meanwhile.
      const current = error instanceof CommandError ? await readThread() : { thread: null, last: undefined };
      if (current.thread) await requirePending(threads, current.thread, current.last, ids);
      throw error;
    }
  }

  return { start, respond };
}

/**
 * Reads the pending interrupts of a thread, also while a run is active. Resolves to none if its state cannot be read, and rejects
 * with other errors.
 */
async function readPendingInterrupts(
  threads: RunCommandOptions["threads"],
  thread: ThreadRow,
): Promise<readonly Interrupt[]> {
  try {
    return (await threads.readCurrentState(thread))?.interrupts ?? [];
  } catch (error) {
    // The run fails with the same error.
    if (error instanceof StateReadError) return [];
    throw error;
  }
}

/** Authorizes a run. Rethrows `invalid` as `invalid_argument`, other errors unchanged. */
async function authorizeRun(caller: CommandCaller, thread_id: string, request: RunCreate): Promise<AuthorizedRun> {
  try {
    return await caller.run(thread_id, request);
  } catch (error) {
    throw error instanceof ServiceError && error.code === "invalid" ? invalidArgumentError(error.message) : error;
  }
}

/**
 * Throws `no_such_interrupt` if one of the ids is not pending, and `invalid_argument` if no interrupt is pending and the newest
 * run has not resumed them.
 */
async function requirePending(
  threads: RunCommandOptions["threads"],
  thread: ThreadRow,
  last: Run | undefined,
  ids: readonly string[],
): Promise<void> {
  const pendingIds = new Set((await readPendingInterrupts(threads, thread)).map(({ id }) => id));
  const unknownIds = ids.filter((id) => !pendingIds.has(id));
  if (unknownIds.length === 0) return;
  const targets = last?.kwargs.resume_targets;
  const answeredIds = Array.isArray(targets) ? (targets as JsonObject[]).map(({ interrupt_id }) => interrupt_id) : [];
  if (pendingIds.size === 0 && !unknownIds.some((id) => answeredIds.includes(id))) {
    throw invalidArgumentError("input.respond can only be used while the run is interrupted.");
  }
  const pendingText = pendingIds.size === 0 ? "none is pending" : `pending: ${[...pendingIds].sort().join(", ")}`;
  throw new CommandError("no_such_interrupt", `No pending interrupt ${unknownIds.join(", ")}; ${pendingText}.`);
}

/** Returns the named members of params that are neither null nor absent, not validated: the caller validates the whole request. */
const pickParams = (params: JsonObject, names: readonly string[]): JsonObject =>
  Object.fromEntries(
    names.flatMap((name) => (params[name] === undefined || params[name] === null ? [] : [[name, params[name]]])),
  );

/**
 * Converts the parameters of `run.start`; an input in the form of a command becomes the command. The run waits for others by
 * default, and creates a missing thread. Values are not validated. Throws `invalid_argument` without an assistant.
 */
function toStartRequest(params: JsonObject): RunCreate {
  const { assistant_id, input, multitaskStrategy, multitask_strategy } = params;
  if (typeof assistant_id !== "string" || assistant_id === "")
    throw invalidArgumentError("run.start requires an assistant_id.");
  return {
    assistant_id,
    ...(isCommand(input)
      ? { command: pickParams(input, ["resume", "update", "goto"]) }
      : pickParams(params, ["input"])),
    ...pickParams(params, [
      "assistant_version",
      "config",
      "context",
      "metadata",
      "interrupt_before",
      "interrupt_after",
    ]),
    multitask_strategy: (multitask_strategy ?? multitaskStrategy ?? "enqueue") as "enqueue",
    if_not_exists: "create",
  };
}

/** RemoteGraph sends a `Command` of LangGraph in place of the input. */
const isCommand = (input: Json | undefined): input is JsonObject => isObject(input) && input.lg_name === "Command";

/**
 * Returns the request of the run that resumes interrupts. It uses `reject`, so that the second of two responses to one interrupt
 * creates no run. Values are not validated.
 */
function toRespondRequest(
  params: JsonObject,
  assistant_id: string,
  resumeInput: ReturnType<typeof readResumeInput>,
): RunCreate {
  return {
    assistant_id,
    command: { ...(resumeInput as RunCreate["command"]), ...pickParams(params, ["update", "goto"]) },
    ...pickParams(params, ["assistant_version", "config", "metadata"]),
    strict_resume: true,
    multitask_strategy: "reject",
  };
}

const isFork = ({ config }: RunCreate): boolean => typeof config?.configurable?.checkpoint_id === "string";

/**
 * Parses the resume values by interrupt id, and the answer counts that the sender expects. Throws `invalid_argument` for none,
 * repeated ids and other forms.
 */
function readResumeInput(params: JsonObject): { readonly resume: JsonObject; readonly expected_answers?: JsonObject } {
  const { responses } = params;
  const responseList = responses === undefined || responses === null ? [params] : responses;
  if (!Array.isArray(responseList)) throw invalidArgumentError("input.respond: responses must be a list.");
  if (responseList.length === 0) throw invalidArgumentError("input.respond requires at least one response.");
  const valuesById = new Map<string, Json>();
  const expectedAnswers: JsonObject = {};
  for (const entry of responseList) {
    const { interrupt_id, response = null, expected_answers = null } = isObject(entry) ? entry : {};
    if (typeof interrupt_id !== "string" || interrupt_id === "") {
      throw invalidArgumentError("input.respond requires an interrupt_id.");
    }
    if (valuesById.has(interrupt_id)) {
      throw invalidArgumentError(`input.respond: responses answers interrupt ${interrupt_id} more than once.`);
    }
    valuesById.set(interrupt_id, response);
    if (expected_answers !== null) expectedAnswers[interrupt_id] = expected_answers;
  }
  return {
    resume: Object.fromEntries(valuesById),
    ...(Object.keys(expectedAnswers).length > 0 ? { expected_answers: expectedAnswers } : {}),
  };
}

const CLIENT_ERROR_CODES: ReadonlySet<string> = new Set(["invalid", "bad_request", "not_found", "conflict", "gone"]);

/** Converts an error that the client caused to a CommandError. Returns other errors unchanged. */
function toCommandError(error: unknown): unknown {
  if (!(error instanceof ServiceError) || !CLIENT_ERROR_CODES.has(error.code)) return error;
  return new CommandError(COMMAND_CODES_BY_REASON[error.reason] ?? "invalid_argument", error.message, { cause: error });
}

const COMMAND_CODES_BY_REASON: Readonly<Partial<Record<ErrorReason, CommandErrorCode>>> = {
  checkpoint_not_found: "no_such_checkpoint",
  interrupt_already_answered: "no_such_interrupt",
  no_open_interrupt: "no_such_interrupt",
};

interface RunTreeNode {
  readonly namespace: readonly string[];
  readonly status: string;
  readonly graph_name?: string;
  children?: RunTreeNode[];
}

/** Returns the run of a lifecycle event of the root. */
const findRunId = (event_id: string): string | undefined => /^synth:([^:]+):/.exec(event_id)?.[1];

const toNamespaceKey = (namespace: readonly string[]): string => JSON.stringify(namespace);

/**
 * Reads lifecycle events and builds the tree of the newest run, or of `run_id`. Resolves with its root, with subgraphs as nested
 * `children`; null without events of it.
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one pass over the events, at each of which another run may begin
export async function buildRunTree(
  events: AsyncIterable<SerializedEvent>,
  run_id?: string,
): Promise<JsonObject | null> {
  let nodes = new Map<string, RunTreeNode>();
  let current: string | undefined;
  for await (const event of events) {
    const { namespace, data } = decodeSerializedEvent(event).params;
    if (!isObject(data) || typeof data.event !== "string") continue;
    if (namespace.length === 0) {
      const run = findRunId(event.id);
      if (run !== current) {
        if (run_id !== undefined && current === run_id) break;
        nodes = new Map();
        current = run;
      }
    }
    const { graph_name } = data;
    const nameMember = typeof graph_name === "string" ? { graph_name } : {};
    const existing = nodes.get(toNamespaceKey(namespace));
    nodes.set(toNamespaceKey(namespace), { ...existing, namespace, status: data.event, ...nameMember });
  }
  return run_id === undefined || current === run_id ? nestNodes(nodes) : null;
}

/**
 * Returns the root with nested copies of the nodes, null without a root. Each node is a child of its closest existing ancestor.
 */
function nestNodes(nodes: ReadonlyMap<string, RunTreeNode>): JsonObject | null {
  const nodeCopies = new Map([...nodes].map(([key, node]) => [key, { ...node }]));
  for (const [, node] of [...nodeCopies].sort(([firstKey], [secondKey]) => (firstKey < secondKey ? -1 : 1))) {
    let parent: RunTreeNode | undefined;
    for (let length = node.namespace.length - 1; length >= 0 && !parent; length--) {
      parent = nodeCopies.get(toNamespaceKey(node.namespace.slice(0, length)));
    }
    if (!parent) continue;
    parent.children ??= [];
    parent.children.push(node);
  }
  return (nodeCopies.get(toNamespaceKey([])) as unknown as JsonObject | undefined) ?? null;
}

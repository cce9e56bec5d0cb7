/** What the commands of the thread event protocol do. */
import { ServiceError, StateUnreadable } from "../errors.ts";
import type { Interrupt } from "../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { Run, RunCreate, RunDirectory, RunOrigin } from "../runs/mod.ts";
import type { Scope, ThreadRow } from "../storage/mod.ts";
import { type Visibility, withVisibility } from "../storage/visibility.ts";
import type { ThreadEvents } from "../streams/protocol.ts";
import type { ThreadDirectory } from "../threads/mod.ts";
import { type AnswerMeta, type CommandCaller, CommandError, invalid } from "./command.ts";
import { runTree } from "./tree.ts";

export interface CommandOptions {
  readonly runs: Pick<RunDirectory, "create" | "list">;
  readonly threads: Pick<ThreadDirectory, "visible" | "current" | "state" | "stateAt">;
  readonly events: Pick<ThreadEvents, "kept" | "lastSeq">;
  readonly scope: Scope;
}

/** The result of a command, and the `seq` of the last event before a run that it created. */
export interface CommandResult extends Pick<AnswerMeta, "applied_through_seq"> {
  readonly result: JsonObject;
}

/** Errors: CommandError, and those of the caller and the storage. */
export type CommandCall = (thread_id: string, params: JsonObject, caller: CommandCaller) => Promise<CommandResult>;

/** One call for each command. */
export function createCommands(options: CommandOptions): Readonly<Record<string, CommandCall>> {
  const { runs, threads, events, scope } = options;

  async function find(thread_id: string, visibility?: Visibility): Promise<ThreadRow | null> {
    try {
      return await threads.visible(thread_id, visibility);
    } catch (error) {
      if (error instanceof ServiceError && error.code === "not_found") return null;
      throw error;
    }
  }

  const missing = (thread_id: string): ServiceError => new ServiceError("not_found", `Thread ${thread_id} not found`);

  /** The open interrupts of a thread at rest. */
  async function pending(thread: ThreadRow): Promise<readonly Interrupt[]> {
    if (thread.status === "busy") return [];
    try {
      return (await threads.current(thread))?.interrupts ?? [];
    } catch (error) {
      // The run fails with the same error.
      if (error instanceof StateUnreadable) return [];
      throw error;
    }
  }

  async function authorized(
    caller: CommandCaller,
    thread_id: string,
    request: RunCreate,
  ): Promise<{ request: RunCreate; origin: RunOrigin }> {
    try {
      return await caller.run(thread_id, request);
    } catch (error) {
      throw error instanceof ServiceError && error.code === "invalid" ? invalid(error.message) : error;
    }
  }

  /** Creates the run. `lastSeq` is read before, so that no event of the run is taken for an earlier one. */
  async function create(
    thread_id: string,
    request: RunCreate,
    origin: RunOrigin,
  ): Promise<{ readonly run: Run; readonly applied_through_seq: number }> {
    const applied_through_seq = await events.lastSeq(withVisibility(scope, origin.threads), thread_id);
    try {
      return { run: await runs.create(thread_id, request, { ...origin, records_all: true }), applied_through_seq };
    } catch (error) {
      throw refusal(error, request);
    }
  }

  async function start(thread_id: string, params: JsonObject, caller: CommandCaller): Promise<CommandResult> {
    const { request, origin } = await authorized(caller, thread_id, startRequest(params));
    const thread = await find(thread_id, origin.threads);
    if (!thread && origin.threads?.filter && (await find(thread_id))) throw missing(thread_id);
    const { input, ...rest } = request;
    // A fork is a new turn, whatever waits at the head. The state of an idle thread is not read: it may be large.
    const answers =
      thread &&
      thread.status !== "idle" &&
      input !== null &&
      input !== undefined &&
      !isFork(request) &&
      (await pending(thread));
    const resumed: RunCreate =
      answers && answers.length > 0 ? { ...rest, command: { resume: input as Json } } : request;
    const { run, applied_through_seq } = await create(thread_id, resumed, origin);
    return { result: { run_id: run.run_id }, applied_through_seq };
  }

  /** Errors: no_such_interrupt, invalid_argument where nothing waits for an answer. */
  async function requirePending(thread: ThreadRow, last: Run | undefined, ids: readonly string[]): Promise<void> {
    const open = new Set((await pending(thread)).map(({ id }) => id));
    const strangers = ids.filter((id) => !open.has(id));
    if (strangers.length === 0) return;
    const command = last?.kwargs.command;
    const answered = isObject(command) && isObject(command.resume) ? command.resume : {};
    if (open.size === 0 && !strangers.some((id) => Object.hasOwn(answered, id))) {
      throw invalid("input.respond can only be used while the run is interrupted.");
    }
    const pendingIds = open.size === 0 ? "none is pending" : `pending: ${[...open].sort().join(", ")}`;
    throw new CommandError("no_such_interrupt", `No pending interrupt ${strangers.join(", ")}; ${pendingIds}.`);
  }

  async function respond(thread_id: string, params: JsonObject, caller: CommandCaller): Promise<CommandResult> {
    const answers = readAnswers(params);
    const ids = Object.keys(answers);
    const visibility = await caller.read(thread_id);
    const read = async (): Promise<{ thread: ThreadRow | null; last: Run | undefined }> => {
      const thread = await find(thread_id, visibility);
      return { thread, last: thread ? (await runs.list(thread_id, { limit: 1 }, visibility))[0] : undefined };
    };
    const { thread, last } = await read();
    // A copied thread has no runs of its own.
    const assistant_id = last?.assistant_id ?? thread?.metadata.assistant_id;
    if (!thread || typeof assistant_id !== "string") throw noRun(thread_id);
    await requirePending(thread, last, ids);
    const sent = respondRequest(params, assistant_id, answers);
    const { request, origin } = await authorized(caller, thread_id, sent);
    if (origin.threads?.filter && !(await find(thread_id, origin.threads))) throw missing(thread_id);
    try {
      const { run, applied_through_seq } = await create(thread_id, request, origin);
      return { result: { run_id: run.run_id }, applied_through_seq };
    } catch (error) {
      // Another client may have answered meanwhile.
      const now = error instanceof CommandError ? await read() : { thread: null, last: undefined };
      if (now.thread) await requirePending(now.thread, now.last, ids);
      throw error;
    }
  }

  async function getTree(thread_id: string, params: JsonObject, caller: CommandCaller): Promise<CommandResult> {
    const { run_id } = params;
    if (run_id !== undefined && run_id !== null && typeof run_id !== "string") {
      throw invalid("agent.getTree: run_id must be a string.");
    }
    const scoped = withVisibility(scope, await caller.read(thread_id));
    const kept = events.kept(scoped, thread_id, { channels: ["lifecycle"] });
    const tree = await runTree(kept, run_id?.toLowerCase());
    if (!tree) throw noRun(thread_id);
    return { result: { tree } };
  }

  async function getState(thread_id: string, params: JsonObject, caller: CommandCaller): Promise<CommandResult> {
    const { namespace = [], keys } = params;
    if (!isTexts(namespace)) throw invalid("state.get: namespace must be a list of strings.");
    if (keys !== undefined && keys !== null && !isTexts(keys)) {
      throw invalid("state.get: keys must be a list of strings.");
    }
    const visibility = await caller.read(thread_id);
    if (!(await find(thread_id, visibility))) throw noRun(thread_id);
    const checkpoint_ns = namespace.join("|");
    const state =
      checkpoint_ns === ""
        ? await threads.state(thread_id, {}, visibility)
        : await threads.stateAt(thread_id, { checkpoint_ns }, {}, visibility);
    if (checkpoint_ns !== "" && !state.checkpoint) {
      throw new CommandError("no_such_namespace", `Thread ${thread_id} has no namespace ${checkpoint_ns}.`);
    }
    const values = isObject(state.values) && keys ? selected(state.values, keys) : state.values;
    const { checkpoint } = state;
    return {
      result: { values, checkpoint: checkpoint && { id: checkpoint.checkpoint_id, ns: checkpoint.checkpoint_ns } },
    };
  }

  async function notHere(): Promise<CommandResult> {
    throw new CommandError("not_supported", "Subscriptions need a WebSocket. Or send a POST to …/stream/events.");
  }

  return {
    "run.start": start,
    "input.respond": respond,
    "agent.getTree": getTree,
    "state.get": getState,
    "subscription.subscribe": notHere,
    "subscription.unsubscribe": notHere,
    "subscription.reconnect": notHere,
  };
}

const noRun = (thread_id: string): CommandError =>
  new CommandError("no_such_run", `Thread ${thread_id} has no run yet.`);

const isTexts = (value: Json): value is string[] =>
  Array.isArray(value) && value.every((item) => typeof item === "string");

const selected = (values: JsonObject, keys: readonly string[]): JsonObject =>
  Object.fromEntries(keys.filter((key) => Object.hasOwn(values, key)).map((key) => [key, values[key] as Json]));

/** Members of params that are passed on unchecked: the caller validates the whole request. */
const taken = (params: JsonObject, names: readonly string[]): JsonObject =>
  Object.fromEntries(
    names.flatMap((name) => (params[name] === undefined || params[name] === null ? [] : [[name, params[name]]])),
  );

function startRequest(params: JsonObject): RunCreate {
  const { assistant_id, input, multitaskStrategy, multitask_strategy } = params;
  if (typeof assistant_id !== "string" || assistant_id === "") throw invalid("run.start requires an assistant_id.");
  return {
    assistant_id,
    ...(isCommand(input) ? { command: taken(input, ["resume", "update", "goto"]) } : taken(params, ["input"])),
    ...taken(params, ["config", "context", "metadata", "interrupt_before", "interrupt_after"]),
    multitask_strategy: (multitask_strategy ?? multitaskStrategy ?? "enqueue") as "enqueue",
    if_not_exists: "create",
  };
}

/** RemoteGraph sends a `Command` of LangGraph in place of the input. */
const isCommand = (input: Json | undefined): input is JsonObject => isObject(input) && input.lg_name === "Command";

/** `reject`: of two answers to one interrupt, the second creates no run. */
function respondRequest(params: JsonObject, assistant_id: string, answers: JsonObject): RunCreate {
  return {
    assistant_id,
    command: { resume: answers, ...taken(params, ["update", "goto"]) },
    ...taken(params, ["config", "metadata"]),
    strict_resume: true,
    multitask_strategy: "reject",
  };
}

const isFork = ({ config }: RunCreate): boolean => typeof config?.configurable?.checkpoint_id === "string";

/** The answers by interrupt id. */
function readAnswers(params: JsonObject): JsonObject {
  const { responses } = params;
  const sent = responses === undefined || responses === null ? [params] : responses;
  if (!Array.isArray(sent)) throw invalid("input.respond: responses must be a list.");
  if (sent.length === 0) throw invalid("input.respond requires at least one response.");
  const answers = sent.map((item): readonly [string, Json] => {
    const { interrupt_id, response = null } = isObject(item) ? item : {};
    if (typeof interrupt_id !== "string" || interrupt_id === "") {
      throw invalid("input.respond requires an interrupt_id.");
    }
    return [interrupt_id, response];
  });
  const twice = answers.find(([id], at) => answers.findIndex(([other]) => other === id) !== at);
  if (twice) throw invalid(`input.respond: responses answers interrupt ${twice[0]} more than once.`);
  return Object.fromEntries(answers);
}

const REFUSED: ReadonlySet<string> = new Set(["invalid", "bad_request", "not_found", "conflict", "gone"]);

/** What the client did wrong, as an error of its command. Other errors stay. */
function refusal(error: unknown, { config }: RunCreate): unknown {
  if (!(error instanceof ServiceError) || !REFUSED.has(error.code)) return error;
  const from = config?.configurable?.checkpoint_id;
  const unknownCheckpoint = error.code === "not_found" && typeof from === "string" && error.message.includes(from);
  return new CommandError(unknownCheckpoint ? "no_such_checkpoint" : "invalid_argument", error.message, {
    cause: error,
  });
}

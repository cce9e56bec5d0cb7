/** The commands that create runs: `run.start` and `input.respond`. */
import { ServiceError, StateUnreadable } from "../errors.ts";
import type { Interrupt } from "../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { Run, RunCreate, RunDirectory, RunOrigin } from "../runs/mod.ts";
import type { Scope, ThreadRow } from "../storage/mod.ts";
import { withVisibility } from "../storage/visibility.ts";
import type { ThreadEvents } from "../streams/protocol.ts";
import type { ThreadDirectory } from "../threads/mod.ts";
import {
  type CommandCall,
  type CommandCaller,
  CommandError,
  type CommandResult,
  findThread,
  invalid,
  noRun,
} from "./command.ts";

export interface RunCommandOptions {
  readonly runs: Pick<RunDirectory, "create" | "list">;
  readonly threads: Pick<ThreadDirectory, "visible" | "current">;
  readonly events: Pick<ThreadEvents, "lastSeq">;
  readonly scope: Scope;
}

export function createRunCommands(options: RunCommandOptions): Readonly<Record<"start" | "respond", CommandCall>> {
  const { runs, threads, events, scope } = options;

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
    const thread = await findThread(threads, thread_id, origin.threads);
    if (!thread && origin.threads?.filter && (await findThread(threads, thread_id))) throw missing(thread_id);
    const { input, ...rest } = request;
    // A fork is a new turn, whatever waits at the head. The state of an idle thread is not read: it may be large.
    const answers =
      thread &&
      thread.status !== "idle" &&
      input !== null &&
      input !== undefined &&
      !isFork(request) &&
      (await pendingInterrupts(threads, thread));
    const resumed: RunCreate =
      answers && answers.length > 0 ? { ...rest, command: { resume: input as Json } } : request;
    const { run, applied_through_seq } = await create(thread_id, resumed, origin);
    return { result: { run_id: run.run_id }, applied_through_seq };
  }

  async function respond(thread_id: string, params: JsonObject, caller: CommandCaller): Promise<CommandResult> {
    const answers = readAnswers(params);
    const ids = Object.keys(answers);
    const visibility = await caller.read(thread_id);
    const read = async (): Promise<{ thread: ThreadRow | null; last: Run | undefined }> => {
      const thread = await findThread(threads, thread_id, visibility);
      return { thread, last: thread ? (await runs.list(thread_id, { limit: 1 }, visibility))[0] : undefined };
    };
    const { thread, last } = await read();
    // A copied thread has no runs of its own.
    const assistant_id = last?.assistant_id ?? thread?.metadata.assistant_id;
    if (!thread || typeof assistant_id !== "string") throw noRun(thread_id);
    await requirePending(threads, thread, last, ids);
    const sent = respondRequest(params, assistant_id, answers);
    const { request, origin } = await authorized(caller, thread_id, sent);
    if (origin.threads?.filter && !(await findThread(threads, thread_id, origin.threads))) throw missing(thread_id);
    try {
      const { run, applied_through_seq } = await create(thread_id, request, origin);
      return { result: { run_id: run.run_id }, applied_through_seq };
    } catch (error) {
      // Another client may have answered meanwhile.
      const now = error instanceof CommandError ? await read() : { thread: null, last: undefined };
      if (now.thread) await requirePending(threads, now.thread, now.last, ids);
      throw error;
    }
  }

  return { start, respond };
}

const missing = (thread_id: string): ServiceError => new ServiceError("not_found", `Thread ${thread_id} not found`);

/** The open interrupts of a thread at rest. */
async function pendingInterrupts(
  threads: RunCommandOptions["threads"],
  thread: ThreadRow,
): Promise<readonly Interrupt[]> {
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

/** Errors: no_such_interrupt, invalid_argument where nothing waits for an answer. */
async function requirePending(
  threads: RunCommandOptions["threads"],
  thread: ThreadRow,
  last: Run | undefined,
  ids: readonly string[],
): Promise<void> {
  const open = new Set((await pendingInterrupts(threads, thread)).map(({ id }) => id));
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
  const answers = new Map<string, Json>();
  for (const item of sent) {
    const { interrupt_id, response = null } = isObject(item) ? item : {};
    if (typeof interrupt_id !== "string" || interrupt_id === "") {
      throw invalid("input.respond requires an interrupt_id.");
    }
    if (answers.has(interrupt_id)) {
      throw invalid(`input.respond: responses answers interrupt ${interrupt_id} more than once.`);
    }
    answers.set(interrupt_id, response);
  }
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

/** Commands of the thread event protocol: what they are, what each does, and its answer. */
import { type ErrorReason, notFound, nullIfNotFound, ServiceError, StateUnreadable } from "../errors.ts";
import type { Interrupt } from "../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { Run, RunCreate, RunDirectory } from "../runs/mod.ts";
import type { RunPermit } from "../runs/request.ts";
import type { Scope, ThreadRow } from "../storage/mod.ts";
import type { SentEvent, ThreadEvents } from "../streams/protocol.ts";
import { decodeSentEvent } from "../streams/thread-event.ts";
import type { ThreadDirectory } from "../threads/mod.ts";

/** Why a command failed. */
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
export interface Command {
  /** Chosen by the client; the answer carries it. */
  readonly id: number;
  /** `run.start`, `input.respond`, `agent.getTree` or `state.get`; on a WebSocket also `subscription.subscribe` and `….unsubscribe`. */
  readonly method: string;
  readonly params?: JsonObject;
}

/** The thread of an answer, and the `seq` of its last event; for commands that create a run, of the last one before it. */
export interface AnswerMeta {
  readonly thread_id: string;
  readonly applied_through_seq?: number;
}

/** The answer to a command. `id` is null for a message that is no command. */
export type CommandAnswer =
  | { readonly type: "success"; readonly id: number; readonly result: JsonObject; readonly meta: AnswerMeta }
  | {
      readonly type: "error";
      readonly id: number | null;
      readonly error: CommandErrorCode;
      readonly message: string;
      readonly meta?: AnswerMeta;
    };

/** What the sender of a command may see and do. Its calls may refuse, with the errors of a route. */
export interface CommandCaller {
  /** What the caller can see of a thread. */
  read(thread_id: string): Promise<Scope>;
  /** The run that a command creates, as validation and authorization leave it. */
  run(thread_id: string, request: RunCreate): Promise<RunPermit>;
}

/** A command that failed. */
export class CommandError extends Error {
  readonly code: CommandErrorCode;
  constructor(code: CommandErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "CommandError";
    this.code = code;
  }
}

export const invalid = (message: string): CommandError => new CommandError("invalid_argument", message);

/** The command in a parsed message; null for any other value. */
export function readCommand(value: unknown): Command | null {
  if (!isObject(value)) return null;
  const { id, method, params } = value;
  if (typeof id !== "number" || !Number.isSafeInteger(id) || id < 0 || typeof method !== "string") return null;
  if (params === undefined || params === null) return { id, method };
  return isObject(params) ? { id, method, params } : null;
}

/** The answer to an error of a command; undefined for errors of the service. */
export function errorAnswer(id: number | null, error: unknown, meta?: AnswerMeta): CommandAnswer | undefined {
  if (!(error instanceof CommandError)) return undefined;
  return { type: "error", id, error: error.code, message: error.message, ...(meta ? { meta } : {}) };
}

/** The result of a command, and the `seq` of the last event, or of the last one before a run that it created. */
interface CommandResult extends Required<Pick<AnswerMeta, "applied_through_seq">> {
  readonly result: JsonObject;
}

/** Errors: CommandError, and those of the caller and the storage. */
type CommandCall = (thread_id: string, params: JsonObject, caller: CommandCaller) => Promise<CommandResult>;

const noRun = (thread_id: string): CommandError =>
  new CommandError("no_such_run", `Thread ${thread_id} has no run yet.`);

/** The thread; null if there is none that is visible. */
const findThread = (
  threads: Pick<ThreadDirectory, "visible">,
  scope: Scope,
  thread_id: string,
): Promise<ThreadRow | null> => threads.visible(scope, thread_id).catch(nullIfNotFound);

export interface CommandOptions extends RunCommandOptions {
  readonly threads: RunCommandOptions["threads"] & Pick<ThreadDirectory, "state" | "stateAt">;
  readonly events: RunCommandOptions["events"] & Pick<ThreadEvents, "kept">;
}

/** One call for each command. */
export function createCommands(options: CommandOptions): Readonly<Record<string, CommandCall>> {
  const { threads, events } = options;
  const { start, respond } = createRunCommands(options);

  async function getTree(thread_id: string, params: JsonObject, caller: CommandCaller): Promise<CommandResult> {
    const { run_id } = params;
    if (run_id !== undefined && run_id !== null && typeof run_id !== "string") {
      throw invalid("agent.getTree: run_id must be a string.");
    }
    const scoped = await caller.read(thread_id);
    const kept = events.kept(scoped, thread_id, { channels: ["lifecycle"], since: 1 });
    const tree = await runTree(kept, run_id?.toLowerCase());
    if (!tree && run_id) throw new CommandError("no_such_run", `No events are kept of run ${run_id} of the thread.`);
    if (!tree) throw noRun(thread_id);
    return { result: { tree }, applied_through_seq: await events.lastEventSeq(scoped, thread_id) };
  }

  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one check for each parameter
  async function getState(thread_id: string, params: JsonObject, caller: CommandCaller): Promise<CommandResult> {
    const { namespace = [], keys } = params;
    if (!isTexts(namespace)) throw invalid("state.get: namespace must be a list of strings.");
    if (keys !== undefined && keys !== null && !isTexts(keys)) {
      throw invalid("state.get: keys must be a list of strings.");
    }
    const scope = await caller.read(thread_id);
    if (!(await findThread(threads, scope, thread_id))) throw noRun(thread_id);
    const checkpoint_ns = namespace.join("|");
    const state =
      checkpoint_ns === ""
        ? await threads.state(scope, thread_id)
        : await threads.stateAt(scope, thread_id, { checkpoint_ns });
    if (checkpoint_ns !== "" && !state.checkpoint) {
      throw new CommandError("no_such_namespace", `Thread ${thread_id} has no namespace ${checkpoint_ns}.`);
    }
    const values = isObject(state.values) && keys ? selected(state.values, keys) : state.values;
    const { checkpoint } = state;
    return {
      applied_through_seq: await events.lastEventSeq(scope, thread_id),
      result: { values, checkpoint: checkpoint && { id: checkpoint.checkpoint_id, ns: checkpoint.checkpoint_ns } },
    };
  }

  const refused = (message: string) => async (): Promise<CommandResult> => {
    throw new CommandError("not_supported", message);
  };
  const notHere = refused("Subscriptions need a WebSocket. Or send a POST to …/stream/events.");

  return {
    "run.start": start,
    "input.respond": respond,
    "agent.getTree": getTree,
    "state.get": getState,
    "subscription.subscribe": notHere,
    "subscription.unsubscribe": notHere,
    "subscription.reconnect": refused("Subscribe again, with `since`."),
  };
}

const isTexts = (value: Json): value is string[] =>
  Array.isArray(value) && value.every((item) => typeof item === "string");

const selected = (values: JsonObject, keys: readonly string[]): JsonObject =>
  Object.fromEntries(keys.filter((key) => Object.hasOwn(values, key)).map((key) => [key, values[key] as Json]));

interface RunCommandOptions {
  readonly runs: Pick<RunDirectory, "create" | "list">;
  readonly threads: Pick<ThreadDirectory, "visible" | "current">;
  readonly events: Pick<ThreadEvents, "lastEventSeq">;
  readonly scope: Scope;
}

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
function createRunCommands(options: RunCommandOptions): Readonly<Record<"start" | "respond", CommandCall>> {
  const { runs, threads, events, scope } = options;

  /** Creates the run. `lastSeq` is read before, so that no event of the run is taken for an earlier one. */
  async function create(
    thread_id: string,
    { scope, request, origin }: RunPermit,
  ): Promise<{ readonly run: Run; readonly applied_through_seq: number }> {
    const applied_through_seq = await events.lastEventSeq(scope, thread_id);
    try {
      return {
        run: await runs.create(scope, thread_id, request, { ...origin, records_all: true }),
        applied_through_seq,
      };
    } catch (error) {
      throw refusal(error);
    }
  }

  async function start(thread_id: string, params: JsonObject, caller: CommandCaller): Promise<CommandResult> {
    const permit = await authorized(caller, thread_id, startRequest(params));
    const { request } = permit;
    const thread = await findThread(threads, permit.scope, thread_id);
    if (!thread && permit.scope.filter && (await findThread(threads, scope, thread_id)))
      throw notFound("thread", thread_id);
    const { input, ...rest } = request;
    // A fork is a new input, whatever waits at the head. The state of an idle thread is not read: it may be large. While a run answers,
    // its interrupt is still open: the same message from another client is late, and no new input.
    const open =
      thread &&
      thread.status !== "idle" &&
      input !== null &&
      input !== undefined &&
      !isFork(request) &&
      (await pendingInterrupts(threads, thread));
    const { run, applied_through_seq } =
      open && open.length > 0
        ? await create(thread_id, {
            ...permit,
            request: { ...rest, command: { resume: input as Json }, strict_resume: true },
          })
        : await create(thread_id, permit);
    return { result: { run_id: run.run_id }, applied_through_seq };
  }

  async function respond(thread_id: string, params: JsonObject, caller: CommandCaller): Promise<CommandResult> {
    const answers = readAnswers(params);
    const ids = Object.keys(answers.resume);
    const scope = await caller.read(thread_id);
    const read = async (): Promise<{ thread: ThreadRow | null; last: Run | undefined }> => {
      const thread = await findThread(threads, scope, thread_id);
      return { thread, last: thread ? (await runs.list(scope, thread_id, { limit: 1 }))[0] : undefined };
    };
    const { thread, last } = await read();
    // A copied thread has no runs of its own.
    const assistant_id = last?.assistant_id ?? thread?.metadata.assistant_id;
    if (!thread || typeof assistant_id !== "string") throw noRun(thread_id);
    await requirePending(threads, thread, last, ids);
    const sent = respondRequest(params, assistant_id, answers);
    const permit = await authorized(caller, thread_id, sent);
    if (permit.scope.filter && !(await findThread(threads, permit.scope, thread_id)))
      throw notFound("thread", thread_id);
    try {
      const { run, applied_through_seq } = await create(thread_id, permit);
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

/** The open interrupts of a thread, also while a run is active. */
async function pendingInterrupts(
  threads: RunCommandOptions["threads"],
  thread: ThreadRow,
): Promise<readonly Interrupt[]> {
  try {
    return (await threads.current(thread))?.interrupts ?? [];
  } catch (error) {
    // The run fails with the same error.
    if (error instanceof StateUnreadable) return [];
    throw error;
  }
}

async function authorized(caller: CommandCaller, thread_id: string, request: RunCreate): Promise<RunPermit> {
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
  const targets = last?.kwargs.resume_targets;
  const answered = Array.isArray(targets) ? (targets as JsonObject[]).map(({ interrupt_id }) => interrupt_id) : [];
  if (open.size === 0 && !strangers.some((id) => answered.includes(id))) {
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
function respondRequest(params: JsonObject, assistant_id: string, answers: ReturnType<typeof readAnswers>): RunCreate {
  return {
    assistant_id,
    command: { ...(answers as RunCreate["command"]), ...taken(params, ["update", "goto"]) },
    ...taken(params, ["config", "metadata"]),
    strict_resume: true,
    multitask_strategy: "reject",
  };
}

const isFork = ({ config }: RunCreate): boolean => typeof config?.configurable?.checkpoint_id === "string";

/** The answers by interrupt id, and the numbers of answers that the sender has seen. */
function readAnswers(params: JsonObject): { readonly resume: JsonObject; readonly expected_answers?: JsonObject } {
  const { responses } = params;
  const sent = responses === undefined || responses === null ? [params] : responses;
  if (!Array.isArray(sent)) throw invalid("input.respond: responses must be a list.");
  if (sent.length === 0) throw invalid("input.respond requires at least one response.");
  const answers = new Map<string, Json>();
  const expected: JsonObject = {};
  for (const item of sent) {
    const { interrupt_id, response = null, expected_answers = null } = isObject(item) ? item : {};
    if (typeof interrupt_id !== "string" || interrupt_id === "") {
      throw invalid("input.respond requires an interrupt_id.");
    }
    if (answers.has(interrupt_id)) {
      throw invalid(`input.respond: responses answers interrupt ${interrupt_id} more than once.`);
    }
    answers.set(interrupt_id, response);
    if (expected_answers !== null) expected[interrupt_id] = expected_answers;
  }
  return {
    resume: Object.fromEntries(answers),
    ...(Object.keys(expected).length > 0 ? { expected_answers: expected } : {}),
  };
}

const REFUSED: ReadonlySet<string> = new Set(["invalid", "bad_request", "not_found", "conflict", "gone"]);

/** What the client did wrong, as an error of its command. Other errors stay. */
function refusal(error: unknown): unknown {
  if (!(error instanceof ServiceError) || !REFUSED.has(error.code)) return error;
  return new CommandError(CODES[error.reason] ?? "invalid_argument", error.message, { cause: error });
}

const CODES: Readonly<Partial<Record<ErrorReason, CommandErrorCode>>> = {
  checkpoint_not_found: "no_such_checkpoint",
  interrupt_already_answered: "no_such_interrupt",
  no_open_interrupt: "no_such_interrupt",
};

interface Node {
  readonly namespace: readonly string[];
  readonly status: string;
  readonly graph_name?: string;
  children?: Node[];
}

/** The run that an event of the root's lifecycle belongs to. */
const runOf = (event_id: string): string | undefined => /^synth:([^:]+):/.exec(event_id)?.[1];

const keyOf = (namespace: readonly string[]): string => JSON.stringify(namespace);

/** The tree of the last run, or of `run_id`; null without lifecycle events of it. */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one pass over the events, at each of which another run may begin
export async function runTree(events: AsyncIterable<SentEvent>, run_id?: string): Promise<JsonObject | null> {
  let nodes = new Map<string, Node>();
  let current: string | undefined;
  for await (const event of events) {
    const { namespace, data } = decodeSentEvent(event).params;
    if (!isObject(data) || typeof data.event !== "string") continue;
    if (namespace.length === 0) {
      const run = runOf(event.id);
      if (run !== current) {
        if (run_id !== undefined && current === run_id) break;
        nodes = new Map();
        current = run;
      }
    }
    const { graph_name } = data;
    const named = typeof graph_name === "string" ? { graph_name } : {};
    const before = nodes.get(keyOf(namespace));
    nodes.set(keyOf(namespace), { ...before, namespace, status: data.event, ...named });
  }
  return run_id === undefined || current === run_id ? nested(nodes) : null;
}

/** The root, with each node among the children of the closest one above it. */
function nested(nodes: ReadonlyMap<string, Node>): JsonObject | null {
  const made = new Map([...nodes].map(([key, node]) => [key, { ...node }]));
  for (const [, node] of [...made].sort(([one], [other]) => (one < other ? -1 : 1))) {
    let parent: Node | undefined;
    for (let length = node.namespace.length - 1; length >= 0 && !parent; length--) {
      parent = made.get(keyOf(node.namespace.slice(0, length)));
    }
    if (!parent) continue;
    parent.children ??= [];
    parent.children.push(node);
  }
  return (made.get(keyOf([])) as unknown as JsonObject | undefined) ?? null;
}

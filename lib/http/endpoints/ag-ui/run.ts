/** Creates or finds the run of an AG-UI request, and streams its events. */
import { nullIfNotFound } from "../../../errors.ts";
import { type Decision, parseApproval, toApprovalResumeValue } from "../../../executor/approvals.ts";
import type { Interrupt } from "../../../executor/contract.ts";
import { getMessages } from "../../../executor/messages.ts";
import { isObject, type Json, type JsonObject, sameJson } from "../../../json.ts";
import type { Frame, Reader, Run, RunCreate, RunOrigin } from "../../../runs/mod.ts";
import type { Resources } from "../../../service/resources.ts";
import { createReader } from "../../../streams/log.ts";
import {
  conflictError,
  createRequestMetadata,
  isResumingRun,
  notPendingError,
  requireAssistant,
  throwIfNoLongerPending,
  toExpectedAnswers,
} from "../protocol-requests.ts";
import { endsRun, type FrameEvents, RUN_EVENT_MODES, RUN_EVENT_OPTIONS, readRunEvents } from "../run-events.ts";
import {
  findMessageIndex,
  getStateMessages,
  hashSha256,
  hasSameContent,
  requireCheckpointBefore,
  requireRegenerationCheckpoint,
  rethrowAsNotFound,
} from "../states.ts";
import { type AguiEvent, AguiMapper, createMessageSnapshots } from "./events.ts";
import { toAguiMessages } from "./messages.ts";
import type { AguiRequest, AguiResumeEntry } from "./requests.ts";

/** The resources of the caller that the functions need. */
export type AguiResources = Pick<Resources, "assistants" | "runs" | "threads">;

/** Options of a host. */
export interface AguiSettings {
  /** The effect of a disconnect on the run. Default `cancel`: clients have no other way to stop a run. */
  readonly on_disconnect?: "cancel" | "continue";
  /** `read` ignores the state that clients send. Default `write`. */
  readonly state?: "read" | "write";
  /** If true, clients before 1.0 get interrupts also as `CUSTOM` `on_interrupt`. */
  readonly legacy_interrupts?: boolean;
}

export interface AguiRunOptions extends AguiSettings {
  readonly assistant_id: string;
  readonly origin?: RunOrigin;
  /** Validates the request of the run. */
  check(request: RunCreate): RunCreate;
}

export interface AguiRun {
  readonly run: Run;
  readonly events: Reader<AguiEvent>;
}

/** The members of a run whose frames are mapped. */
export const AGUI_RUN_OPTIONS: typeof RUN_EVENT_OPTIONS = {
  ...RUN_EVENT_OPTIONS,
  stream_mode: [...RUN_EVENT_MODES, "values", "tasks"],
};

/** The number of runs that are searched for one with the same `runId`. */
const MAX_SEARCHED_RUNS = 20;

/**
 * Creates the run of a request, or joins the one that an earlier request with the same `runId` and resume entries
 * created. Its events begin with RUN_STARTED. Throws `not_found`, `conflict`, `invalid`, and the errors of a new run.
 */
export async function startRun(
  resources: AguiResources,
  aguiRequest: AguiRequest,
  options: AguiRunOptions,
): Promise<AguiRun> {
  const thread_id = await resources.threads.idOf(aguiRequest.threadId);
  const state = await resources.threads.state(thread_id).catch(nullIfNotFound);
  const interrupts = state?.interrupts ?? [];
  const resumeEntries =
    aguiRequest.resume ??
    (aguiRequest.resume_all === undefined ? [] : resumeAllInterrupts(interrupts, aguiRequest.resume_all));
  const digest = await createResumeDigest(resumeEntries);
  const existingRun = await findRun(resources, thread_id, aguiRequest, digest);
  if (existingRun) return await joinRun(resources, existingRun, aguiRequest, options);
  const values = isObject(state?.values ?? null) ? (state?.values as JsonObject) : {};
  const messages = state ? getStateMessages(state) : [];
  const turn = await planTurn({ resources, thread_id, aguiRequest, messages, interrupts, resumeEntries });
  const members = await readClientMembers(resources, aguiRequest, options, values);
  const request = options.check(createRunRequest(aguiRequest, options, { turn, members, digest }));
  const key = await hashSha256([aguiRequest.runId, digest ?? ""].join(" "));
  const idempotency = { route: `/ag-ui/${thread_id}`, key, body_hash: "" };
  try {
    const { run, frames } = await resources.runs.stream(thread_id, request, { ...options.origin, idempotency });
    const missingMessages = turn.checkpoint_id === undefined ? findMissingMessages(aguiRequest, values, turn) : null;
    return {
      run,
      events: createAguiEvents(resources, { run, frames, request: aguiRequest, settings: options, missingMessages }),
    };
  } catch (error) {
    throwIfNoLongerPending(error);
    return rethrowAsNotFound(error);
  }
}

const cancelsOnDisconnect = ({ on_disconnect }: AguiSettings): boolean => on_disconnect !== "continue";

/**
 * Joins the run that an earlier request created, from its first frame. A disconnect cancels it unless `on_disconnect`
 * is `continue`. Throws `not_found` if the run is of another assistant and the requested one does not exist.
 */
async function joinRun(
  resources: AguiResources,
  run: Run,
  aguiRequest: AguiRequest,
  options: AguiRunOptions,
): Promise<AguiRun> {
  await requireAssistant(resources, run, options.assistant_id);
  const joinOptions = cancelsOnDisconnect(options) ? { cancel_on_disconnect: true } : {};
  const { frames } = await resources.runs.joinStream(run.thread_id, run.run_id, joinOptions);
  return { run, events: createAguiEvents(resources, { run, frames, request: aguiRequest, settings: options }) };
}

interface RunRequestInput {
  readonly turn: Partial<RunCreate>;
  readonly members: Awaited<ReturnType<typeof readClientMembers>>;
  readonly digest: string | null;
}

/**
 * Creates the request of the run, with the ids of the client in its metadata. A run that resumes is rejected if the thread is
 * busy; others are enqueued.
 */
function createRunRequest(
  aguiRequest: AguiRequest,
  options: AguiRunOptions,
  { turn, members, digest }: RunRequestInput,
): RunCreate {
  const { context, input } = members;
  return {
    assistant_id: options.assistant_id,
    ...turn,
    // A run that resumes, or starts from a checkpoint, has no input.
    ...(input !== null && isObject(turn.input) ? { input: { ...input, ...turn.input } } : {}),
    ...(context ? { context } : {}),
    ...(aguiRequest.configurable ? { config: { configurable: aguiRequest.configurable } } : {}),
    ...(aguiRequest.assistant_version === null ? {} : { assistant_version: aguiRequest.assistant_version as number }),
    metadata: {
      ...createRequestMetadata("ag-ui"),
      ag_ui: {
        ...aguiRequest.props,
        run_id: aguiRequest.runId,
        ...(digest === null ? {} : { answers_digest: digest }),
      },
    },
    ...AGUI_RUN_OPTIONS,
    if_not_exists: "create",
    multitask_strategy: turn.command ? "reject" : "enqueue",
    on_disconnect: cancelsOnDisconnect(options) ? "cancel" : "continue",
  };
}

/**
 * Returns all messages of the thread before the run and of its input if the client lacks some of the thread, because
 * its page or server was restarted. Returns null if it has all.
 */
function findMissingMessages(
  { ids }: AguiRequest,
  values: JsonObject,
  { input = null }: Partial<RunCreate>,
): JsonObject[] | null {
  const clientIds = new Set(ids);
  if (toAguiMessages(values).every(({ id }) => clientIds.has(id as string))) return null;
  const inputMessages = isObject(input) ? getMessages(input) : [];
  return toAguiMessages({ messages: [...getMessages(values), ...inputMessages] });
}

/** Returns a digest of resume entries in any order; null for an empty list. */
async function createResumeDigest(resumeEntries: readonly AguiResumeEntry[]): Promise<string | null> {
  if (resumeEntries.length === 0) return null;
  const sorted = [...resumeEntries].sort((first, second) => (first.id < second.id ? -1 : 1));
  return await hashSha256(JSON.stringify(sorted.map(({ id, cancelled, payload }) => [id, cancelled, payload])));
}

/**
 * Returns the oldest recent run that a request with this `runId` and the same resume entries created, because a thread
 * passes the metadata of its first run on. CopilotKit resumes under the id of the interrupted run. If all interrupts
 * are resumed and none is pending, returns the newest resuming run. Returns undefined without one.
 */
async function findRun(
  { runs }: AguiResources,
  thread_id: string,
  { runId, resume_all }: AguiRequest,
  digest: string | null,
): Promise<Run | undefined> {
  const newest = (await runs.list(thread_id, { limit: MAX_SEARCHED_RUNS }).catch(nullIfNotFound)) ?? [];
  const matches = newest.filter(({ metadata: { ag_ui = null } }) => isObject(ag_ui) && ag_ui.run_id === runId);
  // A value for all pending interrupts without a pending one is a repeated request.
  if (resume_all !== undefined && digest === null) return matches.find(isResumingRun);
  return matches.findLast(({ metadata }) => ((metadata.ag_ui as JsonObject).answers_digest ?? null) === digest);
}

interface TurnInput {
  readonly resources: AguiResources;
  readonly thread_id: string;
  readonly aguiRequest: AguiRequest;
  readonly messages: readonly Json[];
  readonly interrupts: readonly Interrupt[];
  readonly resumeEntries: readonly AguiResumeEntry[];
}

/**
 * Decides what the run does: resumes interrupts, takes new messages or tool results, edits a message, or regenerates a reply; the
 * last two start from an earlier checkpoint. Throws `conflict` if there is nothing to run.
 */
async function planTurn({
  resources,
  thread_id,
  aguiRequest,
  messages,
  interrupts,
  resumeEntries,
}: TurnInput): Promise<Partial<RunCreate>> {
  if (resumeEntries.length > 0) {
    const command = {
      resume: toResumeValues(interrupts, resumeEntries),
      expected_answers: toExpectedAnswers(interrupts),
    };
    return { command, strict_resume: true };
  }
  const { last } = aguiRequest;
  const index = last ? findMessageIndex(messages, last.id) : -1;
  if (last && index >= 0 && !hasSameContent(messages[index] as JsonObject, last.content)) {
    const input = { messages: [{ type: "human", id: last.id, content: last.content }] };
    return { input, checkpoint_id: await requireCheckpointBefore(resources, thread_id, messages, index) };
  }
  const newUserMessages = aguiRequest.users.filter(({ id }) => findMessageIndex(messages, id) < 0);
  const newMessages = [
    ...toToolMessages(messages, aguiRequest),
    ...newUserMessages.map(({ id, content }): JsonObject => ({ type: "human", id, content })),
  ];
  if (newMessages.length > 0) return { input: { messages: newMessages } };
  const lastMessage = messages.at(-1) ?? null;
  if (last && index >= 0 && isObject(lastMessage) && lastMessage.id !== last.id) {
    return { checkpoint_id: await requireRegenerationCheckpoint(resources, thread_id, last.id) };
  }
  throw conflictError("There is nothing to run: the thread has all of these messages");
}

/** Converts the client's results of tool calls that have no result in the state. Ignores results of unknown calls. */
function toToolMessages(messages: readonly Json[], { results }: AguiRequest): JsonObject[] {
  const list = messages.filter(isObject);
  const answeredIds = new Set(list.map(({ tool_call_id }) => tool_call_id));
  const toolCalls = new Map(
    list.flatMap(({ type, tool_calls }) =>
      type === "ai" && Array.isArray(tool_calls) ? tool_calls.filter(isObject).map((call) => [call.id, call]) : [],
    ) as [Json, JsonObject][],
  );
  return results.flatMap(({ id, tool_call_id, content }): JsonObject[] => {
    const call = toolCalls.get(tool_call_id);
    if (!call || answeredIds.has(tool_call_id)) return [];
    return [{ type: "tool", id, tool_call_id, content, ...(call.name === undefined ? {} : { name: call.name }) }];
  });
}

const resumeAllInterrupts = (interrupts: readonly Interrupt[], payload: Json): AguiResumeEntry[] =>
  interrupts.map(({ id }) => ({ id, cancelled: false, payload }));

/**
 * Returns the resume values of all pending interrupts by id. Throws `conflict` if an entry is for no pending interrupt
 * or a pending one has no entry.
 */
function toResumeValues(interrupts: readonly Interrupt[], resumeEntries: readonly AguiResumeEntry[]): JsonObject {
  const byId = new Map(resumeEntries.map((answer) => [answer.id, answer]));
  const unknownId = [...byId.keys()].find((id) => !interrupts.some((interrupt) => interrupt.id === id));
  if (unknownId !== undefined) throw notPendingError(`Interrupt ${unknownId} is not open`);
  const missingIds = interrupts.filter(({ id }) => !byId.has(id)).map(({ id }) => id);
  if (missingIds.length > 0)
    throw conflictError(`Answer all open interrupts at once: ${missingIds.join(", ")} has no answer`);
  return Object.fromEntries(
    interrupts.map(({ id, value }) => [id, toResumeValue(value, byId.get(id) as AguiResumeEntry)]),
  );
}

/**
 * Returns the resume value of an entry: its payload, or `{action: "cancel"}` if it is cancelled. For an approval
 * returns the payload's decisions, or one decision for all actions: rejected if cancelled or not approved, else
 * approved.
 */
function toResumeValue(value: Json, { cancelled, payload }: AguiResumeEntry): Json {
  const approval = parseApproval(value);
  if (!approval) return cancelled ? { action: "cancel" } : payload;
  const { approved, decisions, message } = isObject(payload) ? payload : { approved: payload };
  if (!cancelled && Array.isArray(decisions)) return { decisions };
  const rejects = cancelled || approved === false;
  const reason = typeof message === "string" ? { message } : {};
  const decision: Decision = rejects ? { type: "reject", ...reason } : { type: "approve" };
  return toApprovalResumeValue(
    approval,
    approval.actions.map(() => decision),
  );
}

/**
 * Returns the input that the client's changed state, its tools and its context add to the run, without members that the
 * agent's input schema lacks. An agent without a schema gets tools and context in `context`. Returns null for what adds
 * nothing.
 */
async function readClientMembers(
  { assistants }: AguiResources,
  { state, tools, context }: AguiRequest,
  { assistant_id, state: access }: AguiRunOptions,
  values: JsonObject,
): Promise<{ readonly input: JsonObject | null; readonly context: JsonObject | null }> {
  const changed = Object.entries(access === "read" ? {} : state).filter(
    ([key, value]) => key !== "messages" && !(Object.hasOwn(values, key) && sameJson(values[key] as Json, value)),
  );
  const hasTools = tools.length > 0 || context.length > 0;
  if (changed.length === 0 && !hasTools) return { input: null, context: null };
  const { input_schema } = await assistants.schemas(assistant_id);
  const properties = isObject(input_schema?.properties ?? null) ? (input_schema?.properties as JsonObject) : null;
  const acceptsMember = (key: string): boolean => properties === null || Object.hasOwn(properties, key);
  const input: JsonObject = Object.fromEntries(changed.filter(([key]) => acceptsMember(key)));
  const clientContext = { tools: [...tools], context: [...context] };
  if (!hasTools) return { input, context: null };
  // Functions have no input schema. They get the tools in their context.
  if (properties === null) return { input, context: { "ag-ui": clientContext } };
  const actions = tools.map(toOpenAiTool);
  const members: JsonObject = {
    tools: actions,
    "ag-ui": clientContext,
    copilotkit: { actions, context: [...context] },
  };
  const acceptedMembers = Object.entries(members).filter(([key]) => Object.hasOwn(properties, key));
  return { input: { ...input, ...Object.fromEntries(acceptedMembers) }, context: null };
}

/** Converts a tool to OpenAI's form. The name stands inside and outside of `function`. */
const toOpenAiTool = ({ name = "", description = "", parameters = {} }: JsonObject): JsonObject => ({
  type: "function",
  name,
  function: { name, description, parameters },
});

interface AguiEventInput {
  readonly run: Run;
  readonly frames: Reader<Frame>;
  readonly request: AguiRequest;
  readonly settings: AguiSettings;
  /** All messages of the thread, if the client lacks some. */
  readonly missingMessages?: JsonObject[] | null;
}

/**
 * Creates a reader of the events of a run. RUN_STARTED comes before the first frame of the run, with a snapshot of the
 * messages that the client lacks. If the frames stop before the end of the run, its last event is RUN_ERROR.
 */
function createAguiEvents(
  { threads }: AguiResources,
  { run, frames, request, settings, missingMessages }: AguiEventInput,
): Reader<AguiEvent> {
  const { threadId, runId, parentRunId, protocolVersion, ids } = request;
  const mapper = new AguiMapper({
    ...{ threadId, runId, run_id: run.run_id, legacy_interrupts: settings.legacy_interrupts ?? false },
    messageIds: missingMessages?.map(({ id }) => id as string) ?? ids,
    ...(parentRunId === undefined ? {} : { parentRunId }),
    ...(protocolVersion === undefined ? {} : { protocolVersion }),
  });
  const runEvents = readRunEvents(frames);
  let hasStarted = false;

  /** Maps a batch of frames. Reads the state of the thread at the end of a run that has emitted none. */
  async function toAguiEvents(batch: readonly FrameEvents[]): Promise<AguiEvent[]> {
    const mapped: AguiEvent[] = [];
    for (const frame of batch) {
      const lacksState = endsRun(frame) && mapper.needsState;
      // A run that is interrupted before its first step emits no state.
      const state = lacksState ? await threads.state(run.thread_id).catch(nullIfNotFound) : null;
      for (const event of frame.events) mapped.push(...mapper.map(event, state?.values));
    }
    return mapped;
  }

  return createReader(async () => {
    if (!hasStarted) {
      hasStarted = true;
      return [mapper.start(), ...(missingMessages ? createMessageSnapshots(missingMessages, new Set(ids)) : [])];
    }
    for (;;) {
      const batch = await runEvents.next();
      if (batch.length === 0) return mapper.stop();
      const mapped = await toAguiEvents(batch);
      if (mapped.length > 0) return mapped;
    }
  }, runEvents.leave);
}

/** Returns true for the last event of a run. */
export const isLast = ({ type }: AguiEvent): boolean => type === "RUN_FINISHED" || type === "RUN_ERROR";

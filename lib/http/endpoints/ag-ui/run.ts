/** Runs of AG-UI's clients: which run a request creates, or which one it finds, and the stream of its events. */
import { nullIfNotFound } from "../../../errors.ts";
import type { Interrupt } from "../../../executor/contract.ts";
import { messagesOf } from "../../../executor/messages.ts";
import { approvalOf, type Decision, decisionsAnswer } from "../../../executor/questions.ts";
import { isObject, type Json, type JsonObject, sameJson } from "../../../json.ts";
import type { Frame, Reader, Run, RunCreate, RunOrigin } from "../../../runs/mod.ts";
import type { CallerNouns } from "../../../service/nouns.ts";
import { createReader } from "../../../streams/log.ts";
import { callMetadata, conflict, expectedAnswers, isAnswer, notOpen, refuseLate, requireAssistant } from "../calls.ts";
import { EVENT_RUN, endsRun, type FrameEvents, RUN_EVENT_MODES, readRunEvents } from "../run-events.ts";
import {
  checkpointBefore,
  checkpointToRegenerate,
  hasContent,
  hideForeign,
  placeOf,
  sha256,
  stateMessages,
} from "../states.ts";
import { type AguiEvent, AguiMapper, snapshotsOf } from "./events.ts";
import { shownMessages } from "./messages.ts";
import type { AguiRequest, SentAnswer } from "./requests.ts";

/** The nouns of the caller. */
export type AguiNouns = Pick<CallerNouns, "assistants" | "runs" | "threads">;

/** What a host can set. */
export interface AguiSettings {
  /** What becomes of a run when its client hangs up. Default `cancel`: clients stop a run in no other way. */
  readonly on_disconnect?: "cancel" | "continue";
  /** `read`: the state that clients send is ignored. Default `write`. */
  readonly state?: "read" | "write";
  /** True: clients before 1.0 get interrupts as `CUSTOM` `on_interrupt`, too. */
  readonly legacy_interrupts?: boolean;
}

export interface AguiOrigin extends AguiSettings {
  readonly assistant_id: string;
  readonly origin?: RunOrigin;
  /** Validates what goes to the run. */
  check(request: RunCreate): RunCreate;
}

/** A run, and its events. */
export interface AguiRun {
  readonly run: Run;
  readonly events: Reader<AguiEvent>;
}

/** The members of a run whose frames are mapped. */
export const RUN: typeof EVENT_RUN = {
  ...EVENT_RUN,
  stream_mode: [...RUN_EVENT_MODES, "values", "tasks"],
};

/** How many runs are looked at for one with the same `runId`. */
const NEWEST_RUNS = 20;

/** One request. Errors: not_found, conflict, invalid, and those of a new run. */
export async function startRun(nouns: AguiNouns, sent: AguiRequest, origin: AguiOrigin): Promise<AguiRun> {
  const thread_id = await nouns.threads.idOf(sent.threadId);
  const state = await nouns.threads.state(thread_id).catch(nullIfNotFound);
  const open = state?.interrupts ?? [];
  const answers = sent.resume ?? (sent.resume_all === undefined ? [] : resumeAll(open, sent.resume_all));
  const digest = await answersDigest(answers);
  const known = await findRun(nouns, thread_id, sent, digest);
  if (known) return await joinRun(nouns, known, sent, origin);
  const values = isObject(state?.values ?? null) ? (state?.values as JsonObject) : {};
  const messages = state ? stateMessages(state) : [];
  const turn = await turnOf({ nouns, thread_id, sent, messages, open, answers });
  const members = await membersOf(nouns, sent, origin, values);
  const request = origin.check(requestOf(sent, origin, { turn, members, digest }));
  const key = await sha256([sent.runId, digest ?? ""].join(" "));
  const idempotency = { route: `/ag-ui/${thread_id}`, key, body_hash: "" };
  try {
    const { run, frames } = await nouns.runs.stream(thread_id, request, { ...origin.origin, idempotency });
    const missed = turn.checkpoint_id === undefined ? missedBy(sent, values, turn) : null;
    return { run, events: eventsOf(nouns, { run, frames, request: sent, settings: origin, missed }) };
  } catch (error) {
    refuseLate(error);
    return hideForeign(error);
  }
}

const cancelsOnDisconnect = ({ on_disconnect }: AguiSettings): boolean => on_disconnect !== "continue";

/** The run that an earlier request has created. */
async function joinRun(nouns: AguiNouns, run: Run, request: AguiRequest, origin: AguiOrigin): Promise<AguiRun> {
  await requireAssistant(nouns, run, origin.assistant_id);
  const options = cancelsOnDisconnect(origin) ? { cancel_on_disconnect: true } : {};
  const { frames } = await nouns.runs.joinStream(run.thread_id, run.run_id, options);
  return { run, events: eventsOf(nouns, { run, frames, request, settings: origin }) };
}

interface RunParts {
  readonly turn: Partial<RunCreate>;
  readonly members: Awaited<ReturnType<typeof membersOf>>;
  readonly digest: string | null;
}

/** The request that creates a run. */
function requestOf(sent: AguiRequest, origin: AguiOrigin, { turn, members, digest }: RunParts): RunCreate {
  const { context, input } = members;
  return {
    assistant_id: origin.assistant_id,
    ...turn,
    // A run that answers or goes back takes no input.
    ...(input !== null && isObject(turn.input) ? { input: { ...input, ...turn.input } } : {}),
    ...(context ? { context } : {}),
    ...(sent.configurable ? { config: { configurable: sent.configurable } } : {}),
    metadata: {
      ...callMetadata("ag-ui"),
      ag_ui: { ...sent.props, run_id: sent.runId, ...(digest === null ? {} : { answers_digest: digest }) },
    },
    ...RUN,
    if_not_exists: "create",
    multitask_strategy: turn.command ? "reject" : "enqueue",
    on_disconnect: cancelsOnDisconnect(origin) ? "cancel" : "continue",
  };
}

/** All messages of the thread before the run, if the client lacks some: its page, or its server, has been started again. */
function missedBy({ ids }: AguiRequest, values: JsonObject, { input = null }: Partial<RunCreate>): JsonObject[] | null {
  const known = new Set(ids);
  if (shownMessages(values).every(({ id }) => known.has(id as string))) return null;
  const sent = isObject(input) ? messagesOf(input) : [];
  return shownMessages({ messages: [...messagesOf(values), ...sent] });
}

/** Names a list of answers, in any order; null for none. */
async function answersDigest(answers: readonly SentAnswer[]): Promise<string | null> {
  if (answers.length === 0) return null;
  const sorted = [...answers].sort((first, second) => (first.id < second.id ? -1 : 1));
  return await sha256(JSON.stringify(sorted.map(({ id, cancelled, payload }) => [id, cancelled, payload])));
}

/**
 * The run of an earlier request with the same `runId` and the same answers: CopilotKit answers under the id of the run that asks. A thread
 * passes its first run's metadata on: the oldest match counts.
 */
async function findRun(
  { runs }: AguiNouns,
  thread_id: string,
  { runId, resume_all }: AguiRequest,
  digest: string | null,
): Promise<Run | undefined> {
  const newest = (await runs.list(thread_id, { limit: NEWEST_RUNS }).catch(nullIfNotFound)) ?? [];
  const same = newest.filter(({ metadata: { ag_ui = null } }) => isObject(ag_ui) && ag_ui.run_id === runId);
  // A value for all that is open, when nothing is: it is repeated.
  if (resume_all !== undefined && digest === null) return same.find(isAnswer);
  return same.findLast(({ metadata }) => ((metadata.ag_ui as JsonObject).answers_digest ?? null) === digest);
}

interface TurnParts {
  readonly nouns: AguiNouns;
  readonly thread_id: string;
  readonly sent: AguiRequest;
  readonly messages: readonly Json[];
  readonly open: readonly Interrupt[];
  readonly answers: readonly SentAnswer[];
}

/** What the run does: answers interrupts, takes what is new in the list of messages, or goes back in the thread. Errors: conflict. */
async function turnOf({ nouns, thread_id, sent, messages, open, answers }: TurnParts): Promise<Partial<RunCreate>> {
  if (answers.length > 0) {
    const command = { resume: resumeOf(open, answers), expected_answers: expectedAnswers(open) };
    return { command, strict_resume: true };
  }
  const { last } = sent;
  const place = last ? placeOf(messages, last.id) : -1;
  if (last && place >= 0 && !hasContent(messages[place] as JsonObject, last.content)) {
    const input = { messages: [{ type: "human", id: last.id, content: last.content }] };
    return { input, checkpoint_id: await checkpointBefore(nouns, thread_id, messages, place) };
  }
  const unknown = sent.users.filter(({ id }) => placeOf(messages, id) < 0);
  const fresh = [
    ...resultsFor(messages, sent),
    ...unknown.map(({ id, content }): JsonObject => ({ type: "human", id, content })),
  ];
  if (fresh.length > 0) return { input: { messages: fresh } };
  const end = messages.at(-1) ?? null;
  if (last && place >= 0 && isObject(end) && end.id !== last.id) {
    return { checkpoint_id: await checkpointToRegenerate(nouns, thread_id, last.id) };
  }
  throw conflict("There is nothing to run: the thread has all of these messages");
}

/** Results of calls that have none in the state. */
function resultsFor(messages: readonly Json[], { results }: AguiRequest): JsonObject[] {
  const list = messages.filter(isObject);
  const answered = new Set(list.map(({ tool_call_id }) => tool_call_id));
  const calls = new Map(
    list.flatMap(({ type, tool_calls }) =>
      type === "ai" && Array.isArray(tool_calls) ? tool_calls.filter(isObject).map((call) => [call.id, call]) : [],
    ) as [Json, JsonObject][],
  );
  return results.flatMap(({ id, tool_call_id, content }): JsonObject[] => {
    const call = calls.get(tool_call_id);
    if (!call || answered.has(tool_call_id)) return [];
    return [{ type: "tool", id, tool_call_id, content, ...(call.name === undefined ? {} : { name: call.name }) }];
  });
}

const resumeAll = (open: readonly Interrupt[], payload: Json): SentAnswer[] =>
  open.map(({ id }) => ({ id, cancelled: false, payload }));

/** The answers by interrupt id. Errors: conflict. */
function resumeOf(open: readonly Interrupt[], answers: readonly SentAnswer[]): JsonObject {
  const byId = new Map(answers.map((answer) => [answer.id, answer]));
  const stranger = [...byId.keys()].find((id) => !open.some((one) => one.id === id));
  if (stranger !== undefined) throw notOpen(`Interrupt ${stranger} is not open`);
  const missing = open.filter(({ id }) => !byId.has(id)).map(({ id }) => id);
  if (missing.length > 0) throw conflict(`Answer all open interrupts at once: ${missing.join(", ")} has no answer`);
  return Object.fromEntries(open.map(({ id, value }) => [id, answerTo(value, byId.get(id) as SentAnswer)]));
}

function answerTo(value: Json, { cancelled, payload }: SentAnswer): Json {
  const approval = approvalOf(value);
  if (!approval) return cancelled ? { action: "cancel" } : payload;
  const { approved, decisions, message } = isObject(payload) ? payload : { approved: payload };
  if (!cancelled && Array.isArray(decisions)) return { decisions };
  const rejects = cancelled || approved === false;
  const reason = typeof message === "string" ? { message } : {};
  const decision: Decision = rejects ? { type: "reject", ...reason } : { type: "approve" };
  return decisionsAnswer(
    approval,
    approval.actions.map(() => decision),
  );
}

/** What the client's state, tools and context add to the run. */
async function membersOf(
  { assistants }: AguiNouns,
  { state, tools, context }: AguiRequest,
  { assistant_id, state: access }: AguiOrigin,
  values: JsonObject,
): Promise<{ readonly input: JsonObject | null; readonly context: JsonObject | null }> {
  const changed = Object.entries(access === "read" ? {} : state).filter(
    ([key, value]) => key !== "messages" && !(Object.hasOwn(values, key) && sameJson(values[key] as Json, value)),
  );
  const hasTools = tools.length > 0 || context.length > 0;
  if (changed.length === 0 && !hasTools) return { input: null, context: null };
  const { input_schema } = await assistants.schemas(assistant_id);
  const properties = isObject(input_schema?.properties ?? null) ? (input_schema?.properties as JsonObject) : null;
  const takes = (key: string): boolean => properties === null || Object.hasOwn(properties, key);
  const input: JsonObject = Object.fromEntries(changed.filter(([key]) => takes(key)));
  const given = { tools: [...tools], context: [...context] };
  if (!hasTools) return { input, context: null };
  // Functions have no schema, and a context.
  if (properties === null) return { input, context: { "ag-ui": given } };
  const actions = tools.map(functionOf);
  const members: JsonObject = { tools: actions, "ag-ui": given, copilotkit: { actions, context: [...context] } };
  const taken = Object.entries(members).filter(([key]) => Object.hasOwn(properties, key));
  return { input: { ...input, ...Object.fromEntries(taken) }, context: null };
}

/** A tool in OpenAI's form. */
const functionOf = ({ name = "", description = "", parameters = {} }: JsonObject): JsonObject => ({
  type: "function",
  name,
  function: { name, description, parameters },
});

interface RunToMap {
  readonly run: Run;
  readonly frames: Reader<Frame>;
  readonly request: AguiRequest;
  readonly settings: AguiSettings;
  /** All messages of the thread, if the client lacks some. */
  readonly missed?: JsonObject[] | null;
}

/** The events of a run, from its first frame. */
function eventsOf({ threads }: AguiNouns, { run, frames, request, settings, missed }: RunToMap): Reader<AguiEvent> {
  const { threadId, runId, parentRunId, protocolVersion, ids } = request;
  const mapper = new AguiMapper({
    ...{ threadId, runId, run_id: run.run_id, legacy_interrupts: settings.legacy_interrupts ?? false },
    messageIds: missed?.map(({ id }) => id as string) ?? ids,
    ...(parentRunId === undefined ? {} : { parentRunId }),
    ...(protocolVersion === undefined ? {} : { protocolVersion }),
  });
  const runEvents = readRunEvents(frames);
  let hasStarted = false;

  async function toAguiEvents(batch: readonly FrameEvents[]): Promise<AguiEvent[]> {
    const mapped: AguiEvent[] = [];
    for (const frame of batch) {
      const lacksState = endsRun(frame) && mapper.needsState;
      // A run that pauses at once shows no state.
      const state = lacksState ? await threads.state(run.thread_id).catch(nullIfNotFound) : null;
      for (const event of frame.events) mapped.push(...mapper.take(event, state?.values));
    }
    return mapped;
  }

  return createReader(async () => {
    if (!hasStarted) {
      hasStarted = true;
      return [mapper.start(), ...(missed ? snapshotsOf(missed, new Set(ids)) : [])];
    }
    for (;;) {
      const batch = await runEvents.next();
      if (batch.length === 0) return mapper.stop();
      const mapped = await toAguiEvents(batch);
      if (mapped.length > 0) return mapped;
    }
  }, runEvents.leave);
}

/** Nothing follows these. */
export const isLast = ({ type }: AguiEvent): boolean => type === "RUN_FINISHED" || type === "RUN_ERROR";

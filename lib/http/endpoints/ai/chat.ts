/** Turns of chats: starts or finds the run of a request of the AI SDK. The state of the thread decides, not the client's history. */
import { nullIfNotFound } from "../../../errors.ts";
import { type Decision, parseApproval, toApprovalResumeValue } from "../../../executor/approvals.ts";
import type { ThreadState } from "../../../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { Frame, Reader, Run, RunCreate, RunOrigin } from "../../../runs/mod.ts";
import {
  conflictError,
  createRequestMetadata,
  isActive,
  notPendingError,
  requireAssistant,
  throwIfNoLongerPending,
  toExpectedAnswers,
} from "../protocol-requests.ts";
import { RUN_EVENT_MODES, RUN_EVENT_OPTIONS } from "../run-events.ts";
import {
  findLastHumanMessageId,
  findMessageIndex,
  getStateMessages,
  hashSha256,
  hasSameContent,
  requireCheckpointBefore,
  requireRegenerationCheckpoint,
  rethrowAsNotFound,
} from "../states.ts";
import type { AnsweredInterrupt, PendingInterrupt } from "./chunks.ts";
import { type AnswerPoint, buildTurns, createReplyId } from "./messages.ts";
import type { ApprovalResponse, ChatRequest, UserMessage } from "./requests.ts";
import {
  type ChatResources,
  createAnswerMetadata,
  createChunkFrames,
  createFinishedMessageFrames,
  createPrelude,
  createTurnMetadata,
  findMessageId,
  namesRun,
  parseStreamPosition,
  readRunsWithAnswers,
  type StreamPosition,
} from "./turn.ts";

/** The stream of a message. `run` is null if no run of the thread wrote it last. */
export interface ChatStream {
  readonly run: Run | null;
  readonly frames: Reader<Frame>;
}

/** Options of a host. */
export interface ChatSettings {
  /**
   * The output of agents that run as tools: only their result (`hidden`), or their text so far as preliminary output of the tool
   * call. Default `hidden`.
   */
  readonly subagents?: "hidden" | "preliminary";
}

/** The members that the route adds to the run. */
export interface ChatRunOptions extends ChatSettings {
  readonly assistant_id: string;
  readonly origin?: RunOrigin;
  /** The caller's members of the run, validated. */
  readonly members?: Pick<RunCreate, "context" | "config" | "metadata">;
  /** The time after its end in which a run is replayed, in milliseconds. */
  readonly replay_ms?: number;
  /** Absent: only active runs are replayed. */
  readonly now?: () => number;
}

const REPLAY_MS = 300_000;

/** The members of the thread's head that turns use. */
interface ChatThreadHead {
  readonly state: ThreadState | null;
  readonly messages: readonly Json[];
  readonly interrupts: readonly PendingInterrupt[];
}

/**
 * Starts the turn of a request, which submits a message, answers interrupts or regenerates a reply, or finds that of a
 * repeated request. Returns its frames. Throws `not_found`, `conflict`, `invalid`, and the errors of a new run.
 */
export async function startTurn(
  resources: ChatResources,
  chat: ChatRequest,
  options: ChatRunOptions,
): Promise<ChatStream> {
  const thread_id = await resources.threads.idOf(chat.id);
  const state = await resources.threads.state(thread_id).catch(nullIfNotFound);
  const head: ChatThreadHead = {
    state,
    messages: state ? getStateMessages(state) : [],
    interrupts: state?.interrupts ?? [],
  };
  const turn = new TurnStarter(resources, chat, options, { thread_id, head });
  const { action } = chat;
  if (action.type === "regenerate") return await turn.regenerate(action.user_id);
  if (action.type === "answer") return await turn.answer(action.resume, action.approvals);
  return await turn.submit(action.user);
}

class TurnStarter {
  readonly #resources: ChatResources;
  readonly #chat: ChatRequest;
  readonly #options: ChatRunOptions;
  readonly #thread_id: string;
  readonly #head: ChatThreadHead;

  constructor(
    resources: ChatResources,
    chat: ChatRequest,
    options: ChatRunOptions,
    thread: { thread_id: string; head: ChatThreadHead },
  ) {
    this.#resources = resources;
    this.#chat = chat;
    this.#options = options;
    this.#thread_id = thread.thread_id;
    this.#head = thread.head;
  }

  /**
   * Runs a new or edited message, or resumes the pending interrupts with its text. A message that the thread has already is
   * joined. Throws `conflict` if the message answers an interrupt that is no longer pending.
   */
  async submit(user: UserMessage): Promise<ChatStream> {
    const { messages, interrupts } = this.#head;
    const index = findMessageIndex(messages, user.id);
    const key = `submit ${user.id} ${await hashSha256(JSON.stringify(user.content))}`;
    const extraMembers: JsonObject =
      user.metadata === undefined ? {} : { additional_kwargs: { metadata: user.metadata } };
    const input: JsonObject = { messages: [{ type: "human", id: user.id, content: user.content, ...extraMembers }] };
    if (index >= 0) {
      if (hasSameContent(messages[index] as JsonObject, user.content))
        return await this.#attachToRun(createReplyId(user.id));
      const checkpoint_id = await requireCheckpointBefore(this.#resources, this.#thread_id, messages, index);
      return await this.#run({ input, checkpoint_id }, `${key} ${this.#checkpoint}`);
    }
    const { shown_interrupt_ids } = user;
    if (shown_interrupt_ids.length > 0 && !interrupts.some(({ id }) => shown_interrupt_ids.includes(id))) {
      // The text was written as the answer to an interrupt. It answers no other one, and is not a message of the conversation.
      const answer = await this.#findAnswer(shown_interrupt_ids);
      if (answer?.user?.id === user.id) return await this.#attachToRun(createReplyId(user.id));
      if (answer || interrupts.length > 0) throw notPendingError("The question is not open any more. Reload the chat");
    }
    if (interrupts.length === 0) return await this.#run({ input }, key);
    const answeredInterrupts = answerWithText(interrupts, user.text);
    return await this.#resume(answeredInterrupts, key, { message_id: createReplyId(user.id), user: user.uiMessage });
  }

  /**
   * Returns what answered one of the interrupts: the newest answer of a run among the newest runs, read with a limit of 20; else
   * an empty object while one of these is active, which may answer now. Returns null without a thread, and for interrupts that
   * ended by a stop: the conversation goes on after them.
   */
  async #findAnswer(interrupt_ids: readonly string[]): Promise<Partial<AnswerPoint> | null> {
    const runs = await readRunsWithAnswers(this.#resources, this.#thread_id, 20).catch(nullIfNotFound);
    if (runs === null) return null;
    const answersShown = ({ id, answer }: AnsweredInterrupt): boolean =>
      answer !== undefined && interrupt_ids.includes(id);
    const found = runs.answers.findLast(({ questions }) => questions.some(answersShown));
    return found ?? (runs.newestRuns.some(isActive) ? {} : null);
  }

  /**
   * Creates a run from the newest checkpoint that ends with the message, and streams its reply. Throws `conflict` for
   * an empty chat and if there is no such checkpoint.
   */
  async regenerate(user_id: string): Promise<ChatStream> {
    if (!this.#head.state) throw conflictError("There is nothing to regenerate: the chat is empty");
    const checkpoint_id = await requireRegenerationCheckpoint(this.#resources, this.#thread_id, user_id);
    const request = { checkpoint_id, metadata: createTurnMetadata(createReplyId(user_id)) };
    return await this.#run(request, `regenerate ${user_id} ${this.#checkpoint}`);
  }

  /**
   * Resumes the pending interrupts that have a value or approvals, and ignores the other values. Throws `conflict` if
   * none of them is pending or only some actions of an approval have a decision.
   */
  async answer(resume: JsonObject, approvals: ReadonlyMap<string, ApprovalResponse>): Promise<ChatStream> {
    const answeredInterrupts = this.#head.interrupts.flatMap(({ id, value }): AnsweredInterrupt[] => {
      if (Object.hasOwn(resume, id)) return [{ id, value, answer: resume[id] as Json }];
      const approval = parseApproval(value);
      const responses = approval?.actions.map((_action, index) => approvals.get(`${id}:${index}`)) ?? [];
      if (!approval || responses.every((response) => response === undefined)) return [];
      const decisions = responses.map((response): Decision => {
        if (response === undefined) throw conflictError(`Only some actions of question ${id} are approved or rejected`);
        if (response.approved) return { type: "approve" };
        return { type: "reject", ...(response.reason === undefined ? {} : { message: response.reason }) };
      });
      return [{ id, value, answer: toApprovalResumeValue(approval, decisions), answered_there: true }];
    });
    if (answeredInterrupts.length === 0) throw notPendingError("None of the answers is for a question that is open");
    const user_id = await this.#findTurnMessageId();
    const answers = answeredInterrupts.map(({ id, answer = null }): Json => [id, answer]);
    const key = `answer ${this.#checkpoint} ${await hashSha256(JSON.stringify(answers))}`;
    return await this.#resume(answeredInterrupts, key, { message_id: user_id });
  }

  /**
   * Returns the id of the reply that the response continues: the reply to the text that resumed the thread last, if no
   * human message came after it, else the reply to the last human message.
   */
  async #findTurnMessageId(): Promise<string> {
    const { answers } = await readRunsWithAnswers(this.#resources, this.#thread_id, 20);
    const human = findLastHumanMessageId(this.#head.messages);
    const last = answers.at(-1);
    // A text that was a resume value started a message, which the state does not have.
    const isLater = last?.user !== undefined && this.#isAfterHuman(last.after);
    return isLater ? last.message_id : createReplyId(human ?? "start");
  }

  /**
   * Returns true if the message with the id `after` is the last human message or comes after it, and if there is
   * neither.
   */
  #isAfterHuman(after: string | null): boolean {
    const { messages } = this.#head;
    const indexes = [(id: Json) => id === after, (_id: Json, type: Json) => type === "human"].map((matches) =>
      messages.findLastIndex((message) => isObject(message) && matches(message.id ?? null, message.type ?? null)),
    );
    return (indexes[0] as number) >= (indexes[1] as number);
  }

  /**
   * Creates a run that resumes the interrupts and keeps their values and answers in its metadata for the chat. Throws `conflict`
   * if they are no longer pending.
   */
  async #resume(
    answeredInterrupts: readonly AnsweredInterrupt[],
    key: string,
    turnMembers: { readonly message_id: string; readonly user?: UserMessage["uiMessage"] },
  ): Promise<ChatStream> {
    const last = this.#head.messages.findLast((message) => isObject(message) && typeof message.id === "string") as
      | JsonObject
      | undefined;
    const { tool_calls } = last ?? {};
    const answeredById = new Map(answeredInterrupts.map((interrupt) => [interrupt.id, interrupt]));
    const metadata = createAnswerMetadata({
      ...turnMembers,
      checkpoint_id: this.#checkpoint || null,
      after: (last?.id as string | undefined) ?? null,
      questions: this.#head.interrupts.map(({ id, value }) => answeredById.get(id) ?? { id, value }),
      ...(tool_calls === undefined ? {} : { calls: tool_calls }),
    });
    const answers = Object.fromEntries(answeredInterrupts.map(({ id, answer = null }) => [id, answer]));
    const command = { resume: answers, expected_answers: toExpectedAnswers(this.#head.state?.interrupts ?? []) };
    const request: Partial<RunCreate> = { command, strict_resume: true, metadata };
    try {
      return await this.#run({ ...request, multitask_strategy: "reject" }, key);
    } catch (error) {
      throwIfNoLongerPending(error);
      throw error;
    }
  }

  get #checkpoint(): string {
    return this.#head.state?.checkpoint?.checkpoint_id ?? "";
  }

  /**
   * Creates the run, or finds that of a repeated request by `key`, and streams its message. A disconnect does not stop
   * the run. Throws `not_found`, `conflict` if the run came from another client, or the errors of a new run.
   */
  async #run(request: Partial<RunCreate>, key: string): Promise<ChatStream> {
    const { members = {}, origin, assistant_id, subagents } = this.#options;
    const create: RunCreate = {
      assistant_id,
      ...members,
      ...request,
      metadata: { ...omitTurn(members.metadata ?? {}), ...createRequestMetadata("ai"), ...request.metadata },
      ...RUN_EVENT_OPTIONS,
      ...(subagents === "preliminary" ? { stream_mode: [...RUN_EVENT_MODES, "tasks"] } : {}),
      multitask_strategy: request.multitask_strategy ?? "enqueue",
      if_not_exists: "create",
      on_disconnect: "continue",
    };
    // A repeated request finds its run, even before the state has the message.
    const idempotency = { route: `/ai/${this.#thread_id}`, key: await hashSha256(key), body_hash: "" };
    const { run, frames } = await this.#resources.runs
      .stream(this.#thread_id, create, { ...origin, idempotency })
      .catch(rethrowAsNotFound);
    const prelude = await this.#openStream(run, frames, request.command ? this.#head.messages : undefined);
    return { run, frames: prelude };
  }

  /** Creates the frames of a run's message. Leaves the run and throws `conflict` if the run came from another client. */
  async #openStream(run: Run, frames: Reader<Frame>, messagesAnswered?: readonly Json[]): Promise<Reader<Frame>> {
    try {
      const prelude = await createPrelude(this.#resources, run, this.#chat.ai_sdk, messagesAnswered);
      if (!prelude) throw conflictError("The run of this message came from another client");
      return createChunkFrames(run, prelude, frames, { clientHasAnswer: this.#chat.action.type === "answer" });
    } catch (error) {
      frames.leave();
      throw error;
    }
  }

  /**
   * Streams the message of an existing turn: from its run if that is the newest and can be replayed, else whole from
   * the state. Creates no run. Throws `conflict` without such a turn.
   */
  async #attachToRun(message_id: string): Promise<ChatStream> {
    const resources = this.#resources;
    const thread_id = this.#thread_id;
    const head = this.#head;
    const { newestRuns, answers } = await readRunsWithAnswers(resources, thread_id);
    const run = newestRuns.findLast((candidate) => findMessageId(candidate) === message_id);
    const { assistant_id } = this.#options;
    await requireAssistant(resources, run, assistant_id);
    if (run && run === newestRuns.at(-1) && canReplay(run, this.#options)) {
      const { frames } = await resources.runs.joinStream(thread_id, run.run_id);
      return { run, frames: await this.#openStream(run, frames) };
    }
    const turns = buildTurns(head.messages, head.interrupts, { answers, version: this.#chat.ai_sdk });
    const turn = turns.find((candidate) => candidate.message_id === message_id);
    if (!turn) throw conflictError("The message has no answer");
    return { run: run ?? null, frames: createFinishedMessageFrames(run ?? null, { ...turn, thread_id }) };
  }
}

const omitTurn = ({ ai: _, ...metadata }: JsonObject): JsonObject => metadata;

/**
 * Answers interrupts with a text: the only one if it is no approval, or all of them with rejections whose message is
 * the text. Throws `conflict` if there are several and one is no approval.
 */
function answerWithText(interrupts: readonly PendingInterrupt[], text: string): AnsweredInterrupt[] {
  const approvals = interrupts.map(({ value }) => parseApproval(value));
  const [only] = interrupts;
  if (interrupts.length === 1 && only && !approvals[0]) return [{ id: only.id, value: only.value, answer: text }];
  return interrupts.map(({ id, value }, index) => {
    const approval = approvals[index];
    if (!approval) throw conflictError("Several questions are open. Answer them by their ids");
    const decisions = approval.actions.map((): Decision => ({ type: "reject", message: text }));
    return { id, value, answer: toApprovalResumeValue(approval, decisions) };
  });
}

function canReplay(run: Run, { now, replay_ms = REPLAY_MS }: Pick<ChatRunOptions, "now" | "replay_ms">): boolean {
  return isActive(run) || (now !== undefined && now() - Date.parse(run.updated_at) < replay_ms);
}

/** The options of a page that continues a stream after a reload or a broken connection. */
export interface RejoinOptions extends Pick<ChatRunOptions, "now" | "replay_ms"> {
  readonly ai_sdk: ChatRequest["ai_sdk"];
  /** The header `Last-Event-ID`. */
  readonly last_event_id: string | null;
}

/**
 * Streams the message of the run that `last_event_id` names, after that event, else that of the newest run from its
 * start. Returns null without a run, for a run of another client, and for one that ended too long ago to be replayed.
 * Creates no run.
 */
export async function rejoinTurn(
  resources: ChatResources,
  chat_id: string,
  options: RejoinOptions,
): Promise<ChatStream | null> {
  const thread_id = await resources.threads.idOf(chat_id);
  const newest = await resources.runs.list(thread_id, { limit: 20 }).catch(nullIfNotFound);
  const { last_event_id } = options;
  // A client with events of a run continues with that run, even if later ones exist.
  const run = newest?.find((candidate) => namesRun(last_event_id, candidate)) ?? newest?.[0];
  if (!run || findMessageId(run) === null) return null;
  const streamPosition: StreamPosition | null = parseStreamPosition(last_event_id, run);
  if (!canReplay(run, options)) return null;
  const prelude = await createPrelude(resources, run, options.ai_sdk);
  if (!prelude) return null;
  const { frames } = await resources.runs.joinStream(thread_id, run.run_id);
  return { run, frames: createChunkFrames(run, prelude, frames, { streamPosition }) };
}

/** Turns of chats: which run a request of the AI SDK starts, or which one it finds. The state of the thread decides, not the client's history. */
import { nullIfNotFound } from "../../../errors.ts";
import type { ThreadState } from "../../../executor/contract.ts";
import { approvalOf, type Decision, decisionsAnswer } from "../../../executor/questions.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { Frame, Reader, Run, RunCreate, RunOrigin } from "../../../runs/mod.ts";
import { callMetadata, conflict, expectedAnswers, isActive, notOpen, refuseLate, requireAssistant } from "../calls.ts";
import { EVENT_RUN, RUN_EVENT_MODES } from "../run-events.ts";
import {
  checkpointBefore,
  checkpointToRegenerate,
  hasContent,
  hideForeign,
  lastHuman,
  placeOf,
  sha256,
  stateMessages,
} from "../states.ts";
import type { Answered, OpenInterrupt } from "./chunks.ts";
import { replyId, turnsOf } from "./messages.ts";
import type { ApprovalResponse, ChatRequest, UserMessage } from "./requests.ts";
import {
  answersOf,
  type ChatNouns,
  chunkFrames,
  messageIdOf,
  namesRun,
  preludeOf,
  type Seen,
  seenOf,
  storedAnswer,
  storedTurn,
  wholeFrames,
} from "./turn.ts";

/** The stream of a message. `run` is null if no run of the thread wrote it last. */
export interface ChatStream {
  readonly run: Run | null;
  readonly frames: Reader<Frame>;
}

/** What a host can set. */
export interface ChatSettings {
  /**
   * What pages see of agents that are tools of another one: nothing but their result, or what they say so far, as preliminary output of
   * the call. Default `hidden`.
   */
  readonly subagents?: "hidden" | "preliminary";
}

/** What the route adds to the run. */
export interface ChatOrigin extends ChatSettings {
  readonly assistant_id: string;
  readonly origin?: RunOrigin;
  /** The caller's members of the run, validated. */
  readonly members?: Pick<RunCreate, "context" | "config" | "metadata">;
  /** How long after its end a run is replayed. */
  readonly replay_ms?: number;
  /** Absent: only runs that are active are followed. */
  readonly now?: () => number;
}

const REPLAY_MS = 300_000;

/** The head of a thread as far as turns need it. */
interface Head {
  readonly state: ThreadState | null;
  readonly messages: readonly Json[];
  readonly open: readonly OpenInterrupt[];
}

/** One request. Errors: not_found, conflict, invalid, and those of a new run. */
export async function startTurn(nouns: ChatNouns, chat: ChatRequest, origin: ChatOrigin): Promise<ChatStream> {
  const thread_id = await nouns.threads.idOf(chat.id);
  const state = await nouns.threads.state(thread_id).catch(nullIfNotFound);
  const head: Head = { state, messages: state ? stateMessages(state) : [], open: state?.interrupts ?? [] };
  const turn = new TurnStart(nouns, chat, origin, { thread_id, head });
  const { ask } = chat;
  if (ask.type === "regenerate") return await turn.regenerate(ask.user_id);
  if (ask.type === "answer") return await turn.answer(ask.resume, ask.approvals);
  return await turn.submit(ask.user);
}

class TurnStart {
  private readonly nouns: ChatNouns;
  private readonly chat: ChatRequest;
  private readonly origin: ChatOrigin;
  private readonly thread_id: string;
  private readonly head: Head;

  constructor(nouns: ChatNouns, chat: ChatRequest, origin: ChatOrigin, thread: { thread_id: string; head: Head }) {
    this.nouns = nouns;
    this.chat = chat;
    this.origin = origin;
    this.thread_id = thread.thread_id;
    this.head = thread.head;
  }

  async submit(user: UserMessage): Promise<ChatStream> {
    const { messages, open } = this.head;
    const place = placeOf(messages, user.id);
    const key = `submit ${user.id} ${await sha256(JSON.stringify(user.content))}`;
    const about: JsonObject = user.metadata === undefined ? {} : { additional_kwargs: { metadata: user.metadata } };
    const input: JsonObject = { messages: [{ type: "human", id: user.id, content: user.content, ...about }] };
    if (place >= 0) {
      if (hasContent(messages[place] as JsonObject, user.content)) return await this.attach(replyId(user.id));
      const from = await checkpointBefore(this.nouns, this.thread_id, messages, place);
      return await this.run({ input, checkpoint_id: from }, `${key} ${this.checkpoint}`);
    }
    if (open.length === 0) return await this.run({ input }, key);
    // The page shows questions, and all of them are closed: its text is for none of those that are open.
    const { asked } = user;
    if (asked.length > 0 && !open.some(({ id }) => asked.includes(id))) {
      throw notOpen("The question is not open any more. Reload the chat");
    }
    const questions = answersByText(open, user.text);
    return await this.resume(questions, key, { message_id: replyId(user.id), user: user.shown });
  }

  async regenerate(user_id: string): Promise<ChatStream> {
    if (!this.head.state) throw conflict("There is nothing to regenerate: the chat is empty");
    const from = await checkpointToRegenerate(this.nouns, this.thread_id, user_id);
    const request = { checkpoint_id: from, metadata: storedTurn(replyId(user_id)) };
    return await this.run(request, `regenerate ${user_id} ${this.checkpoint}`);
  }

  async answer(resume: JsonObject, approvals: ReadonlyMap<string, ApprovalResponse>): Promise<ChatStream> {
    const questions = this.head.open.flatMap(({ id, value }): Answered[] => {
      if (Object.hasOwn(resume, id)) return [{ id, value, answer: resume[id] as Json }];
      const approval = approvalOf(value);
      const sent = approval?.actions.map((_action, k) => approvals.get(`${id}:${k}`)) ?? [];
      if (!approval || sent.every((one) => one === undefined)) return [];
      const decisions = sent.map((one): Decision => {
        if (one === undefined) throw conflict(`Only some actions of question ${id} are approved or rejected`);
        if (one.approved) return { type: "approve" };
        return { type: "reject", ...(one.reason === undefined ? {} : { message: one.reason }) };
      });
      return [{ id, value, answer: decisionsAnswer(approval, decisions), answered_there: true }];
    });
    if (questions.length === 0) throw notOpen("None of the answers is for a question that is open");
    const user_id = await this.messageOfTurn();
    const answers = questions.map(({ id, answer = null }): Json => [id, answer]);
    const key = `answer ${this.checkpoint} ${await sha256(JSON.stringify(answers))}`;
    return await this.resume(questions, key, { message_id: user_id });
  }

  /** The message that waits for the answer. */
  private async messageOfTurn(): Promise<string> {
    const { answers } = await answersOf(this.nouns, this.thread_id, 20);
    const human = lastHuman(this.head.messages);
    const last = answers.at(-1);
    // A text that was an answer began a message, which the state does not have.
    const isLater = last?.user !== undefined && this.isAfterHuman(last.after);
    return isLater ? last.message_id : replyId(human ?? "start");
  }

  private isAfterHuman(after: string | null): boolean {
    const { messages } = this.head;
    const places = [(id: Json) => id === after, (_id: Json, type: Json) => type === "human"].map((matches) =>
      messages.findLastIndex((one) => isObject(one) && matches(one.id ?? null, one.type ?? null)),
    );
    return (places[0] as number) >= (places[1] as number);
  }

  private async resume(
    questions: readonly Answered[],
    key: string,
    more: { readonly message_id: string; readonly user?: UserMessage["shown"] },
  ): Promise<ChatStream> {
    const last = this.head.messages.findLast((one) => isObject(one) && typeof one.id === "string") as
      | JsonObject
      | undefined;
    const { tool_calls } = last ?? {};
    const answered = new Map(questions.map((one) => [one.id, one]));
    const metadata = storedAnswer({
      ...more,
      checkpoint_id: this.checkpoint || null,
      after: (last?.id as string | undefined) ?? null,
      questions: this.head.open.map(({ id, value }) => answered.get(id) ?? { id, value }),
      ...(tool_calls === undefined ? {} : { calls: tool_calls }),
    });
    const answers = Object.fromEntries(questions.map(({ id, answer = null }) => [id, answer]));
    const command = { resume: answers, expected_answers: expectedAnswers(this.head.state?.interrupts ?? []) };
    const request: Partial<RunCreate> = { command, strict_resume: true, metadata };
    try {
      return await this.run({ ...request, multitask_strategy: "reject" }, key);
    } catch (error) {
      refuseLate(error);
      throw error;
    }
  }

  private get checkpoint(): string {
    return this.head.state?.checkpoint?.checkpoint_id ?? "";
  }

  private async run(request: Partial<RunCreate>, key: string): Promise<ChatStream> {
    const { members = {}, origin, assistant_id, subagents } = this.origin;
    const create: RunCreate = {
      assistant_id,
      ...members,
      ...request,
      metadata: { ...withoutTurn(members.metadata ?? {}), ...callMetadata("ai"), ...request.metadata },
      ...EVENT_RUN,
      ...(subagents === "preliminary" ? { stream_mode: [...RUN_EVENT_MODES, "tasks"] } : {}),
      multitask_strategy: request.multitask_strategy ?? "enqueue",
      if_not_exists: "create",
      on_disconnect: "continue",
    };
    // The same request again finds its run, also before the state has the message.
    const idempotency = { route: `/ai/${this.thread_id}`, key: await sha256(key), body_hash: "" };
    const { run, frames } = await this.nouns.runs
      .stream(this.thread_id, create, { ...origin, idempotency })
      .catch(hideForeign);
    const prelude = await this.open(run, frames, request.command ? this.head.messages : undefined);
    return { run, frames: prelude };
  }

  private async open(run: Run, frames: Reader<Frame>, messagesAnswered?: readonly Json[]): Promise<Reader<Frame>> {
    try {
      const prelude = await preludeOf(this.nouns, run, this.chat.ai_sdk, messagesAnswered);
      if (!prelude) throw conflict("The run of this message came from another client");
      return chunkFrames(run, prelude, frames, { clientHasAnswer: this.chat.ask.type === "answer" });
    } catch (error) {
      frames.leave();
      throw error;
    }
  }

  /** The message of a turn that has begun: from its run, or whole from the state. */
  private async attach(message_id: string): Promise<ChatStream> {
    const { nouns, chat, thread_id, head } = this;
    const { list, answers } = await answersOf(nouns, thread_id);
    const run = list.findLast((one) => messageIdOf(one) === message_id);
    const { assistant_id } = this.origin;
    await requireAssistant(nouns, run, assistant_id);
    if (run && run === list.at(-1) && canReplay(run, this.origin)) {
      const { frames } = await nouns.runs.joinStream(thread_id, run.run_id);
      return { run, frames: await this.open(run, frames) };
    }
    const turns = turnsOf(head.messages, head.open, { answers, version: chat.ai_sdk });
    const turn = turns.find((one) => one.message_id === message_id);
    if (!turn) throw conflict("The message has no answer");
    return { run: run ?? null, frames: wholeFrames(run ?? null, { ...turn, thread_id }) };
  }
}

const withoutTurn = ({ ai: _, ...metadata }: JsonObject): JsonObject => metadata;

/** A text as the answer: of one plain question, or the reason why all approvals are rejected. Errors: conflict. */
function answersByText(open: readonly OpenInterrupt[], text: string): Answered[] {
  const approvals = open.map(({ value }) => approvalOf(value));
  const [only] = open;
  if (open.length === 1 && only && !approvals[0]) return [{ id: only.id, value: only.value, answer: text }];
  return open.map(({ id, value }, index) => {
    const approval = approvals[index];
    if (!approval) throw conflict("Several questions are open. Answer them by their ids");
    const decisions = approval.actions.map((): Decision => ({ type: "reject", message: text }));
    return { id, value, answer: decisionsAnswer(approval, decisions) };
  });
}

function canReplay(run: Run, { now, replay_ms = REPLAY_MS }: Pick<ChatOrigin, "now" | "replay_ms">): boolean {
  return isActive(run) || (now !== undefined && now() - Date.parse(run.updated_at) < replay_ms);
}

/** What a page follows after a reload, or after its connection broke. */
export interface ResumeOptions extends Pick<ChatOrigin, "now" | "replay_ms"> {
  readonly ai_sdk: ChatRequest["ai_sdk"];
  /** `Last-Event-ID`. */
  readonly last_event_id: string | null;
}

/** The message of the newest run, from its beginning or after what the client has seen; null if there is nothing to follow. */
export async function resumeTurn(
  nouns: ChatNouns,
  chat_id: string,
  options: ResumeOptions,
): Promise<ChatStream | null> {
  const thread_id = await nouns.threads.idOf(chat_id);
  const newest = await nouns.runs.list(thread_id, { limit: 20 }).catch(nullIfNotFound);
  const { last_event_id } = options;
  // A client that has seen a run goes on with it, whatever came after.
  const run = newest?.find((one) => namesRun(last_event_id, one)) ?? newest?.[0];
  if (!run || messageIdOf(run) === null) return null;
  const seen: Seen | null = seenOf(last_event_id, run);
  if (!canReplay(run, options)) return null;
  const prelude = await preludeOf(nouns, run, options.ai_sdk);
  if (!prelude) return null;
  const { frames } = await nouns.runs.joinStream(thread_id, run.run_id);
  return { run, frames: chunkFrames(run, prelude, frames, { seen }) };
}

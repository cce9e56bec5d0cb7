/** The turn that a run belongs to, and the stream of its message: from the frames of the run, after what earlier runs have left. */
import { nullIfNotFound } from "../../../errors.ts";
import { messagesOf } from "../../../executor/messages.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { Frame, Reader, Run } from "../../../runs/mod.ts";
import type { CallerNouns } from "../../../service/nouns.ts";
import { createReader } from "../../../streams/log.ts";
import { endsRun, type FrameEvents, readRunEvents } from "../run-events.ts";
import { lastHuman, stateMessages } from "../states.ts";
import { type AiVersion, type Answered, type UIMessageChunk, UIMessageMapper } from "./chunks.ts";
import { type AnswerPoint, replyId, turnsOf, type UIMessage } from "./messages.ts";

/** The nouns of the caller. */
export type ChatNouns = Pick<CallerNouns, "assistants" | "runs" | "threads">;

/** A run that answers questions, in its metadata: what a replay cannot know from the state. */
export interface StoredAnswer extends AnswerPoint {
  /** The state that it answers. */
  readonly checkpoint_id: string | null;
}

/** The member of a run's metadata. */
const STORED = "ai";

export const storedAnswer = (answer: StoredAnswer): JsonObject => ({ [STORED]: answer as unknown as JsonObject });
export const storedTurn = (message_id: string): JsonObject => ({ [STORED]: { message_id } });

/** What a run of this endpoint answers; null for other runs. */
function answerOf({ kwargs, metadata }: Run): StoredAnswer | null {
  const stored = metadata[STORED] ?? null;
  const { command } = kwargs;
  if (!isObject(stored) || !isObject(command ?? null) || (command as JsonObject).resume === undefined) return null;
  const { message_id, after = null, checkpoint_id = null, questions, calls, user } = stored;
  if (typeof message_id !== "string" || !Array.isArray(questions)) return null;
  return {
    message_id,
    after: typeof after === "string" ? after : null,
    checkpoint_id: typeof checkpoint_id === "string" ? checkpoint_id : null,
    questions: questions.filter((one) => isObject(one) && typeof one.id === "string") as unknown as Answered[],
    ...(calls === undefined ? {} : { calls }),
    ...(isObject(user ?? null) ? { user: user as unknown as UIMessage } : {}),
  };
}

/** The message that a run writes on; null for a run of another client that cannot be replayed. */
export function messageIdOf(run: Run): string | null {
  const { input, command, stream_mode } = run.kwargs;
  if (!Array.isArray(stream_mode) || !stream_mode.includes("messages-tuple")) return null;
  const answer = answerOf(run);
  if (answer || command !== undefined) return answer?.message_id ?? null;
  if (isObject(input ?? null)) {
    const sent = lastHuman(messagesOf(input as JsonObject));
    return sent === null ? null : replyId(sent);
  }
  const stored = run.metadata[STORED] ?? null;
  return isObject(stored) && typeof stored.message_id === "string" ? stored.message_id : null;
}

/** Most runs of a thread that are looked at for answers. */
const MOST_RUNS = 1_000;

/** The newest runs, oldest first, and the answers that they took. */
export async function answersOf(
  { runs }: Pick<ChatNouns, "runs">,
  thread_id: string,
  most: number = MOST_RUNS,
): Promise<{ readonly list: readonly Run[]; readonly answers: readonly StoredAnswer[] }> {
  const list = [...(await runs.list(thread_id, { limit: most }))].reverse();
  return { list, answers: list.flatMap((run) => answerOf(run) ?? []) };
}

/** A chunk before the frames of the run. */
interface PreludeChunk {
  readonly chunk: UIMessageChunk;
  /** The client that sent the answer has it in its message. */
  readonly clientHas: boolean;
}

/** How the message of a run begins, and what maps the frames of the run. */
export interface Prelude {
  readonly message_id: string;
  readonly mapper: UIMessageMapper;
  readonly chunks: readonly PreludeChunk[];
}

const startOf = ({ run_id, thread_id }: Run, messageId: string): PreludeChunk => ({
  chunk: { type: "start", messageId, messageMetadata: { run_id, thread_id } },
  clientHas: false,
});

/** Answers of one turn that are looked at for the beginning of its message. */
const MOST_ANSWERS = 100;

/**
 * The beginning of a run's message; null for a run of another client that cannot be replayed. `messagesAnswered` are the messages of the
 * state that the run answers; they are read if they are absent.
 */
export async function preludeOf(
  nouns: ChatNouns,
  run: Run,
  version: AiVersion,
  messagesAnswered?: readonly Json[],
): Promise<Prelude | null> {
  const message_id = messageIdOf(run);
  if (message_id === null) return null;
  const start = startOf(run, message_id);
  const answer = answerOf(run);
  if (!answer) return { message_id, mapper: new UIMessageMapper(version), chunks: [start] };
  const messages = messagesAnswered ?? (await messagesBefore(nouns, run.thread_id, answer));
  const turn = openTurn(messages, await answersBefore(nouns, run), answer, version);
  const earlier = [...turn.chunks, ...turn.mapper.close()].map((chunk) => ({ chunk, clientHas: true }));
  const answered = turn.mapper.answer(answer.questions).map((chunk) => ({
    chunk,
    clientHas: chunk.type === "tool-approval-response" && clientHasApproval(answer, String(chunk.approvalId)),
  }));
  return { message_id, mapper: turn.mapper, chunks: [start, ...earlier, ...answered] };
}

/** The answers that runs of the thread took before this run. */
async function answersBefore(nouns: ChatNouns, { thread_id, run_id }: Run): Promise<readonly StoredAnswer[]> {
  const { list, answers } = await answersOf(nouns, thread_id, MOST_ANSWERS);
  const place = list.findIndex((one) => one.run_id === run_id);
  if (place < 0) return answers;
  return list.slice(0, place).flatMap((one) => answerOf(one) ?? []);
}

const clientHasApproval = ({ questions }: StoredAnswer, approvalId: string): boolean =>
  questions.some(({ id, answered_there }) => answered_there === true && approvalId.startsWith(`${id}:`));

/** The turn that an answer continues, or that it begins by a text of the user. */
function openTurn(messages: readonly Json[], earlier: readonly AnswerPoint[], answer: AnswerPoint, version: AiVersion) {
  if (answer.user) return { chunks: [] as UIMessageChunk[], mapper: new UIMessageMapper(version) };
  const from = messages.findLastIndex((one) => isObject(one) && one.type === "human");
  const turns = turnsOf(messages.slice(Math.max(0, from)), answer.questions, {
    answers: [...earlier, { ...answer, questions: [] }],
    active: true,
    version,
  });
  return turns.at(-1) ?? { chunks: [] as UIMessageChunk[], mapper: new UIMessageMapper(version) };
}

/** The messages that a run has answered: those of the newest state up to there, or of the checkpoint if they were removed since. */
async function messagesBefore(
  { threads }: ChatNouns,
  thread_id: string,
  { after, checkpoint_id }: StoredAnswer,
): Promise<readonly Json[]> {
  if (after === null) return [];
  const messages = stateMessages(await threads.state(thread_id));
  const end = messages.findLastIndex((one) => isObject(one) && one.id === after);
  if (end >= 0 || checkpoint_id === null) return messages.slice(0, end + 1);
  const state = await threads.stateAt(thread_id, { checkpoint_id }).catch(nullIfNotFound);
  return state ? stateMessages(state) : [];
}

/** The first part of a run's id, which the ids of its chunks begin with. */
const runMark = (run_id: string): string => run_id.slice(0, 8);

/** The frame and the chunk of it that a client has seen. */
export interface Seen {
  readonly frame: number;
  /** Infinity: all chunks of the frame. */
  readonly chunk: number;
}

/** What a client has seen of a run by its `Last-Event-ID`; null if it is no id of the run. */
export function seenOf(sent: string | null, { run_id }: Pick<Run, "run_id">): Seen | null {
  const [, mark, frame, chunk] = /^([0-9a-f]{8})-(\d{1,16})(?:-(\d{1,6}))?$/.exec(sent?.trim() ?? "") ?? [];
  if (mark !== runMark(run_id)) return null;
  return { frame: Number(frame), chunk: chunk === undefined ? Number.POSITIVE_INFINITY : Number(chunk) };
}

/** Whether `Last-Event-ID` names a run, if it names any. */
export const namesRun = (sent: string | null, run: Pick<Run, "run_id">): boolean => seenOf(sent, run) !== null;

const DONE = "[DONE]";

/** Chunks as the frames of an event stream. The last chunk of a frame has the id of the frame, those before it a place in it. */
export function chunkFrames(
  run: Pick<Run, "run_id">,
  { mapper, chunks }: Prelude,
  frames: Reader<Frame>,
  { seen = null, clientHasAnswer = false }: { readonly seen?: Seen | null; readonly clientHasAnswer?: boolean } = {},
): Reader<Frame> {
  const mark = runMark(run.run_id);
  const runEvents = readRunEvents(frames);
  let place = 0;
  let begun = false;

  /** The frame of a chunk; undefined if the client has it. There is one call per token. */
  function frameOf(chunk: UIMessageChunk, at: number, last: boolean): Frame | undefined {
    if (seen !== null && (place < seen.frame || (place === seen.frame && at <= seen.chunk))) return undefined;
    return { id: last ? `${mark}-${place}` : `${mark}-${place}-${at}`, event: "", data: JSON.stringify(chunk) };
  }

  function opening(): Frame[] {
    return chunks.flatMap(({ chunk, clientHas }, index) => {
      const frame = clientHas && clientHasAnswer ? undefined : frameOf(chunk, index + 1, index + 1 === chunks.length);
      return frame ? [frame] : [];
    });
  }

  function framesOf(frame: FrameEvents): Frame[] {
    place = frame.frame_id;
    const mapped = frame.events.flatMap((event) => mapper.take(event));
    const ready = mapped.flatMap((chunk, index) => frameOf(chunk, index + 1, index + 1 === mapped.length) ?? []);
    return endsRun(frame) ? [...ready, { id: null, event: "", data: DONE, last: true }] : ready;
  }

  return createReader(async () => {
    const first = begun ? [] : opening();
    begun = true;
    if (first.length > 0) return first;
    for (;;) {
      const next = await runEvents.next();
      if (next.length === 0) return [];
      const ready = next.flatMap(framesOf);
      if (ready.length > 0) return ready;
    }
  }, runEvents.leave);
}

/** A message that no run writes on any more, whole. */
export function wholeFrames(
  run: Pick<Run, "run_id" | "thread_id"> | null,
  message: {
    readonly chunks: readonly UIMessageChunk[];
    readonly message_id: string;
    readonly thread_id: string;
    readonly mapper: UIMessageMapper;
  },
): Reader<Frame> {
  const metadata: JsonObject = { ...(run ? { run_id: run.run_id } : {}), thread_id: message.thread_id };
  const { usage } = message.mapper;
  const all: UIMessageChunk[] = [
    { type: "start", messageId: message.message_id, messageMetadata: metadata },
    ...message.chunks,
    { type: "finish", finishReason: "stop", ...(usage === null ? {} : { messageMetadata: { usage } }) },
  ];
  let sent = false;
  return createReader(
    async () => {
      if (sent) return [];
      sent = true;
      const frames = all.map((chunk): Frame => ({ id: null, event: "", data: JSON.stringify(chunk) }));
      return [...frames, { id: null, event: "", data: DONE, last: true }];
    },
    () => {},
  );
}

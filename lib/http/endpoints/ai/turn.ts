/** Finds the message that a run writes, and streams it: first the chunks of earlier runs of the turn, then the frames of the run. */
import { nullIfNotFound } from "../../../errors.ts";
import { getMessages } from "../../../executor/messages.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { Frame, Reader, Run } from "../../../runs/mod.ts";
import type { Resources } from "../../../service/resources.ts";
import { createReader } from "../../../streams/log.ts";
import { endsRun, type FrameEvents, readRunEvents } from "../run-events.ts";
import { findLastHumanMessageId, getStateMessages } from "../states.ts";
import { type AiVersion, type AnsweredInterrupt, type UIMessageChunk, UIMessageMapper } from "./chunks.ts";
import { type AnswerPoint, buildTurns, type ChatTurnMessages, createReplyId, type UIMessage } from "./messages.ts";

/** The resources of the caller that the functions need. */
export type ChatResources = Pick<Resources, "assistants" | "runs" | "threads">;

/** The answers of a run, stored in its metadata: what a replay cannot read from the state. */
export interface StoredAnswerPoint extends AnswerPoint {
  /** The checkpoint that the run resumed. */
  readonly checkpoint_id: string | null;
}

/** The key in the metadata of runs. */
const METADATA_KEY = "ai";

export const createAnswerMetadata = (answer: StoredAnswerPoint): JsonObject => ({
  [METADATA_KEY]: answer as unknown as JsonObject,
});
export const createTurnMetadata = (message_id: string): JsonObject => ({ [METADATA_KEY]: { message_id } });

/**
 * Returns the answer that a run resumes with, as its metadata store it. Returns null for other runs and for malformed
 * metadata.
 */
function findStoredAnswer({ kwargs, metadata }: Run): StoredAnswerPoint | null {
  const stored = metadata[METADATA_KEY] ?? null;
  const { command } = kwargs;
  if (!isObject(stored) || !isObject(command ?? null) || (command as JsonObject).resume === undefined) return null;
  const { message_id, after = null, checkpoint_id = null, questions, calls, user } = stored;
  if (typeof message_id !== "string" || !Array.isArray(questions)) return null;
  return {
    message_id,
    after: typeof after === "string" ? after : null,
    checkpoint_id: typeof checkpoint_id === "string" ? checkpoint_id : null,
    questions: questions.filter(
      (interrupt) => isObject(interrupt) && typeof interrupt.id === "string",
    ) as unknown as AnsweredInterrupt[],
    ...(calls === undefined ? {} : { calls }),
    ...(isObject(user ?? null) ? { user: user as unknown as UIMessage } : {}),
  };
}

/**
 * Returns the id of the message that a run writes: that in its stored answer or metadata, else the id of the reply to
 * the last human message of its input. Returns null if there is none, as for a run of another client, and for a run
 * whose messages are not streamed.
 */
export function findMessageId(run: Run): string | null {
  const { input, command, stream_mode } = run.kwargs;
  if (!Array.isArray(stream_mode) || !stream_mode.includes("messages-tuple")) return null;
  const answer = findStoredAnswer(run);
  if (answer || command !== undefined) return answer?.message_id ?? null;
  if (isObject(input ?? null)) {
    const human_id = findLastHumanMessageId(getMessages(input as JsonObject));
    return human_id === null ? null : createReplyId(human_id);
  }
  const stored = run.metadata[METADATA_KEY] ?? null;
  return isObject(stored) && typeof stored.message_id === "string" ? stored.message_id : null;
}

/** The maximum number of runs of a thread that are searched for answers. */
const MAX_SCANNED_RUNS = 1_000;

/** Reads the newest runs, oldest first, and their answers. */
export async function readRunsWithAnswers(
  { runs }: Pick<ChatResources, "runs">,
  thread_id: string,
  limit: number = MAX_SCANNED_RUNS,
): Promise<{ readonly newestRuns: readonly Run[]; readonly answers: readonly StoredAnswerPoint[] }> {
  const newestRuns = [...(await runs.list(thread_id, { limit }))].reverse();
  return { newestRuns, answers: newestRuns.flatMap((run) => findStoredAnswer(run) ?? []) };
}

/** A chunk before the frames of the run. */
interface PreludeChunk {
  readonly chunk: UIMessageChunk;
  /** True if the client that sent the answer has the chunk in its message. */
  readonly isKnownToClient: boolean;
}

/** The first chunks of a run's message, and the mapper for its frames. */
export interface Prelude {
  readonly message_id: string;
  readonly mapper: UIMessageMapper;
  readonly chunks: readonly PreludeChunk[];
}

/** Creates the first chunk of a message, with the ids of its run as metadata. No client knows it. */
const createStartChunk = ({ run_id, thread_id }: Run, messageId: string): PreludeChunk => ({
  chunk: { type: "start", messageId, messageMetadata: { run_id, thread_id } },
  isKnownToClient: false,
});

/** The maximum number of runs that are read for the start of a message. */
const MAX_EARLIER_ANSWERS = 100;

/**
 * Creates the chunks before a run's frames, and the mapper that continues them: the start and, for a run that resumes,
 * the message so far with its answers. Returns null for a run of another client that cannot be replayed.
 * `messagesAnswered` are the messages of the state that the run resumed. They are read if absent.
 */
export async function createPrelude(
  resources: ChatResources,
  run: Run,
  version: AiVersion,
  messagesAnswered?: readonly Json[],
): Promise<Prelude | null> {
  const message_id = findMessageId(run);
  if (message_id === null) return null;
  const start = createStartChunk(run, message_id);
  const answer = findStoredAnswer(run);
  if (!answer) return { message_id, mapper: new UIMessageMapper(version), chunks: [start] };
  const messages = messagesAnswered ?? (await readMessagesBefore(resources, run.thread_id, answer));
  const turn = openTurn(messages, await readAnswersBefore(resources, run), answer, version);
  const earlierChunks = [...turn.chunks, ...turn.mapper.close()].map((chunk) => ({ chunk, isKnownToClient: true }));
  const answerChunks = turn.mapper.mapAnswers(answer.questions).map((chunk) => ({
    chunk,
    isKnownToClient: chunk.type === "tool-approval-response" && clientHasApproval(answer, String(chunk.approvalId)),
  }));
  return { message_id, mapper: turn.mapper, chunks: [start, ...earlierChunks, ...answerChunks] };
}

/**
 * Returns the answers of runs before this run, oldest first. If the run is not among the newest, returns the answers of
 * all of these.
 */
async function readAnswersBefore(
  resources: ChatResources,
  { thread_id, run_id }: Run,
): Promise<readonly StoredAnswerPoint[]> {
  const { newestRuns, answers } = await readRunsWithAnswers(resources, thread_id, MAX_EARLIER_ANSWERS);
  const index = newestRuns.findIndex((run) => run.run_id === run_id);
  if (index < 0) return answers;
  return newestRuns.slice(0, index).flatMap((run) => findStoredAnswer(run) ?? []);
}

const clientHasApproval = ({ questions }: StoredAnswerPoint, approvalId: string): boolean =>
  questions.some(({ id, answered_there }) => answered_there === true && approvalId.startsWith(`${id}:`));

/**
 * Returns the turn that an answer continues, with its chunks and its mapper, still open. Returns an empty one for an
 * answer that is a text of the user, and if there are no messages.
 */
function openTurn(
  messages: readonly Json[],
  earlier: readonly AnswerPoint[],
  answer: AnswerPoint,
  version: AiVersion,
): Pick<ChatTurnMessages, "chunks" | "mapper"> {
  if (answer.user) return { chunks: [] as UIMessageChunk[], mapper: new UIMessageMapper(version) };
  const from = messages.findLastIndex((message) => isObject(message) && message.type === "human");
  const turns = buildTurns(messages.slice(Math.max(0, from)), answer.questions, {
    answers: [...earlier, { ...answer, questions: [] }],
    active: true,
    version,
  });
  return turns.at(-1) ?? { chunks: [] as UIMessageChunk[], mapper: new UIMessageMapper(version) };
}

/**
 * Reads the messages that a run resumed: those of the newest state up to there, or of the checkpoint if they were
 * removed since. Returns an empty list if there were none or the checkpoint is gone.
 */
async function readMessagesBefore(
  { threads }: ChatResources,
  thread_id: string,
  { after, checkpoint_id }: StoredAnswerPoint,
): Promise<readonly Json[]> {
  if (after === null) return [];
  const messages = getStateMessages(await threads.state(thread_id));
  const end = messages.findLastIndex((message) => isObject(message) && message.id === after);
  if (end >= 0 || checkpoint_id === null) return messages.slice(0, end + 1);
  const state = await threads.stateAt(thread_id, { checkpoint_id }).catch(nullIfNotFound);
  return state ? getStateMessages(state) : [];
}

/** Returns the first part of a run's id, which is the prefix of its event ids. */
const getRunPrefix = (run_id: string): string => run_id.slice(0, 8);

/** The last frame and chunk that a client has. */
export interface StreamPosition {
  readonly frame: number;
  /** Infinity stands for all chunks of the frame. */
  readonly chunk: number;
}

/**
 * Parses a `Last-Event-ID`. Returns null if it does not belong to the run. An id without an index of a chunk means the
 * whole frame.
 */
export function parseStreamPosition(
  last_event_id: string | null,
  { run_id }: Pick<Run, "run_id">,
): StreamPosition | null {
  const [, prefix, frame, chunk] = /^([0-9a-f]{8})-(\d{1,16})(?:-(\d{1,6}))?$/.exec(last_event_id?.trim() ?? "") ?? [];
  if (prefix !== getRunPrefix(run_id)) return null;
  return { frame: Number(frame), chunk: chunk === undefined ? Number.POSITIVE_INFINITY : Number(chunk) };
}

/** Returns true if `Last-Event-ID` belongs to the run. */
export const namesRun = (last_event_id: string | null, run: Pick<Run, "run_id">): boolean =>
  parseStreamPosition(last_event_id, run) !== null;

const DONE = "[DONE]";

/**
 * Creates the event stream of a message: its prelude, then the chunks of the run, then `[DONE]`. Omits what lies before
 * `streamPosition`, and chunks that the client knows if it has the answer. The last chunk of a frame has the id of the
 * frame; earlier ones add their index.
 */
export function createChunkFrames(
  run: Pick<Run, "run_id">,
  { mapper, chunks }: Prelude,
  frames: Reader<Frame>,
  {
    streamPosition = null,
    clientHasAnswer = false,
  }: { readonly streamPosition?: StreamPosition | null; readonly clientHasAnswer?: boolean } = {},
): Reader<Frame> {
  const prefix = getRunPrefix(run.run_id);
  const runEvents = readRunEvents(frames);
  let frameId = 0;
  let hasStarted = false;

  /** Returns the frame of a chunk; undefined if the client has it. There is one call per token. */
  function createChunkFrame(chunk: UIMessageChunk, index: number, last: boolean): Frame | undefined {
    if (
      streamPosition !== null &&
      (frameId < streamPosition.frame || (frameId === streamPosition.frame && index <= streamPosition.chunk))
    )
      return undefined;
    return {
      id: last ? `${prefix}-${frameId}` : `${prefix}-${frameId}-${index}`,
      event: "",
      data: JSON.stringify(chunk),
    };
  }

  /**
   * Returns the frames of the chunks before the run, without those that the client has already or that lie before its position.
   */
  function createPreludeFrames(): Frame[] {
    return chunks.flatMap(({ chunk, isKnownToClient }, index) => {
      const frame =
        isKnownToClient && clientHasAnswer
          ? undefined
          : createChunkFrame(chunk, index + 1, index + 1 === chunks.length);
      return frame ? [frame] : [];
    });
  }

  /**
   * Returns the frames of an event frame; the end of the run adds `[DONE]` as the last frame. Keeps the frame id for
   * the ids of the chunks.
   */
  function mapFrame(frame: FrameEvents): Frame[] {
    frameId = frame.frame_id;
    const mapped = frame.events.flatMap((event) => mapper.map(event));
    const ready = mapped.flatMap(
      (chunk, index) => createChunkFrame(chunk, index + 1, index + 1 === mapped.length) ?? [],
    );
    return endsRun(frame) ? [...ready, { id: null, event: "", data: DONE, last: true }] : ready;
  }

  return createReader(async () => {
    const first = hasStarted ? [] : createPreludeFrames();
    hasStarted = true;
    if (first.length > 0) return first;
    for (;;) {
      const next = await runEvents.next();
      if (next.length === 0) return [];
      const ready = next.flatMap(mapFrame);
      if (ready.length > 0) return ready;
    }
  }, runEvents.leave);
}

/**
 * Streams a whole message that no run writes any more: start, its chunks, finish and `[DONE]`, all in one batch and
 * without ids.
 */
export function createFinishedMessageFrames(
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
  const allChunks: UIMessageChunk[] = [
    { type: "start", messageId: message.message_id, messageMetadata: metadata },
    ...message.chunks,
    { type: "finish", finishReason: "stop", ...(usage === null ? {} : { messageMetadata: { usage } }) },
  ];
  let isEmitted = false;
  return createReader(
    async () => {
      if (isEmitted) return [];
      isEmitted = true;
      const frames = allChunks.map((chunk): Frame => ({ id: null, event: "", data: JSON.stringify(chunk) }));
      return [...frames, { id: null, event: "", data: DONE, last: true }];
    },
    () => {},
  );
}

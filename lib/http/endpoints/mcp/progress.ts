/** The messages of an open call: a notification for each node that has ended, or for what the agent emits, questions, then the answer. */
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { Frame, Run } from "../../../runs/mod.ts";
import { createReader, type Reader } from "../../../streams/log.ts";
import type { RequestContext } from "../../route.ts";
import { RunEventMapper } from "../run-events.ts";
import type { OpenCall } from "./call.ts";

/** Between two notifications. */
const EVERY_MS = 250;

interface Note {
  readonly progress: number;
  readonly total?: number;
  readonly message?: string;
}

const isCount = (value: Json | undefined): value is number => typeof value === "number" && Number.isFinite(value);

/** What an agent emits as `{progress, total?, message?}`; null for anything else. */
function noteOf(data: Json): Note | null {
  if (!isObject(data) || !isCount(data.progress)) return null;
  const { progress, total, message } = data;
  return {
    progress,
    ...(isCount(total) ? { total } : {}),
    ...(typeof message === "string" ? { message } : {}),
  };
}

/** A message as an event. */
export const messageFrame = (message: JsonObject, isLast = false): Frame => ({
  id: null,
  event: "message",
  data: JSON.stringify(message),
  ...(isLast ? { last: true } : {}),
});

/** The messages of a call. The last one is its answer. Without a token there is no progress. */
export function createMessages(
  { nouns, service: { environment } }: RequestContext,
  progressToken: string | number | undefined,
  { run, answer, open, leave }: OpenCall,
): Reader<Frame> {
  const requests: Frame[] = [];
  let shown = 0;
  let sentAt = Number.NEGATIVE_INFINITY;
  let emits = false;
  let note: Note | null = null;
  let wake = Promise.withResolvers<void>();
  let cancelTimer = (): void => {};
  let reader: Reader<Frame> | undefined;
  let last: Frame | undefined;
  let isDone = false;

  function take(next: Note | null): void {
    // It must grow: an agent may emit the same twice.
    if (!next || next.progress <= shown) return;
    note = next;
    shown = next.progress;
  }

  function takeFrame(mapper: RunEventMapper, frame: Frame): void {
    for (const event of mapper.take(frame)) {
      if (event.type === "custom") {
        const emitted = noteOf(event.data);
        emits ||= emitted !== null;
        take(emitted);
      } else if (event.type === "update" && !emits && event.namespace.length === 0) {
        take({ progress: shown + 1, message: event.node });
      }
    }
  }

  /** Follows a run until its end. Progress is a courtesy: its failure does not fail the call. */
  async function follow(run: Run): Promise<void> {
    const mapper = new RunEventMapper();
    const { frames } = await nouns.runs.joinStream(run.thread_id, run.run_id);
    reader = frames;
    if (isDone) frames.leave();
    for await (const frame of frames) {
      takeFrame(mapper, frame);
      if (note) wake.resolve();
    }
  }

  function followSafely(run: Run): void {
    if (progressToken !== undefined) follow(run).catch(() => {});
  }

  followSafely(run);
  open?.listen((sent) => {
    if (sent.kind === "run") followSafely(sent.run);
    else {
      requests.push(messageFrame(sent.message));
      wake.resolve();
    }
  });
  void answer.then((message) => {
    last = messageFrame(message, true);
    wake.resolve();
  });

  function end(): void {
    isDone = true;
    cancelTimer();
    reader?.leave();
    wake.resolve();
  }

  async function next(): Promise<readonly Frame[]> {
    for (;;) {
      if (last) {
        end();
        return [last];
      }
      if (isDone) return [];
      if (requests.length > 0) return requests.splice(0);
      const rest = EVERY_MS - (environment.now() - sentAt);
      if (note && rest <= 0) {
        const params = { progressToken, ...note } as JsonObject;
        note = null;
        sentAt = environment.now();
        return [messageFrame({ jsonrpc: "2.0", method: "notifications/progress", params })];
      }
      if (note) {
        cancelTimer();
        cancelTimer = environment.timer(rest, () => wake.resolve());
      }
      await wake.promise;
      wake = Promise.withResolvers<void>();
    }
  }

  return createReader(next, () => {
    const isEarly = !isDone && !last;
    end();
    if (isEarly) leave();
  });
}

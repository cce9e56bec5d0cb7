/** Numbers the frames and events of an attempt as they are emitted, and buffers them until a save has stored them. */
import { BarrierQueue, type WriteBarrier } from "../executor/write-barrier.ts";
import type { Json } from "../json.ts";
import {
  type ClaimedRun,
  END_EVENT_NUMBER,
  FIRST_EVENT_NUMBER,
  type NewFrame,
  type Progress,
  type ThreadEvent,
  toEventSeq,
} from "../storage/mod.ts";
import { encodeFrame } from "../streams/frames.ts";
import type { RunLog } from "../streams/hub.ts";
import { getFirstFrameId } from "../streams/run-subscription.ts";

export interface OutputBufferOptions {
  readonly claimed: ClaimedRun;
  readonly runLog: RunLog;
  readonly counters: { frames_shown: number; frames_stored: number };
  /** The barrier that the checkpoints of this output share. */
  readonly barrier: WriteBarrier;
  /** Returns true if readers wait for the events of the thread. */
  hasEventReaders(): boolean;
  /** Publishes stored events to their readers. `before` is the `seq` before the first one. */
  publishEvents(before: number, events: readonly ThreadEvent[]): void;
  /** Called when output was added for which subscribers wait. */
  onAwaitedOutput(): void;
}

type Output = NewFrame | ThreadEvent;
type StoredOutput = Pick<Progress, "frames" | "events">;

/** The maximum of output that is not stored, in characters. It is published at once, so the rings must be able to hold it. */
const MAX_UNSTORED_CHARS = 512 * 1024;
const OVERHEAD_CHARS = 64;
/**
 * The maximum number of paused frames and events. One more ends the pause: all are emitted, without the state for which they
 * wait.
 */
const MAX_PAUSED_OUTPUT = 256;

const getSize = ({ data }: Output): number => (data?.length ?? 0) + OVERHEAD_CHARS;
const isEvent = (output: Output): output is ThreadEvent => "seq" in output;

export class OutputBuffer {
  readonly #options: OutputBufferOptions;
  readonly #frames: BarrierQueue<NewFrame>;
  readonly #events: BarrierQueue<ThreadEvent>;
  /** The output that waits for `resumeOutput` or `dropPausedOutput`; null while output is not paused. */
  #paused: Output[] | null = null;
  #nextFrameId: number;
  #nextSeq: number;
  #publishedSeq: number;
  /** The size of output that is not stored, including what a running save has drained. */
  #size = 0;

  constructor(options: OutputBufferOptions) {
    const { claimed, runLog, barrier } = options;
    const { claim_number } = claimed.run;
    this.#options = options;
    this.#frames = new BarrierQueue(barrier);
    this.#events = new BarrierQueue(barrier);
    this.#nextFrameId = resumeFrameIds(claimed, runLog);
    this.#nextSeq = toEventSeq(claim_number, FIRST_EVENT_NUMBER);
    this.#publishedSeq = toEventSeq(claim_number, 0) - 1;
  }

  get nextFrameId(): number {
    return this.#nextFrameId;
  }

  /** Emits a frame. `namespace` is that of its graph. */
  emitFrame(event: string, data: Json, namespace: readonly string[] = []): void {
    this.#emit(encodeFrame({ event, namespace, data }));
  }

  /** Emits an event of the thread. `isEnd` marks the last one of the run. */
  emitEvent(event: Omit<ThreadEvent, "seq">, isEnd = false): void {
    const seq = isEnd ? toEventSeq(this.#options.claimed.run.claim_number, END_EVENT_NUMBER) : this.#nextSeq++;
    this.#emit({ ...event, seq });
  }

  /**
   * Appends the output, or keeps it while output is paused. More than `MAX_PAUSED_OUTPUT` outputs end the pause, which emits all.
   */
  #emit(output: Output): void {
    if (this.#paused) {
      this.#paused.push(output);
      if (this.#paused.length > MAX_PAUSED_OUTPUT) this.resumeOutput();
    } else {
      this.#append(output);
    }
  }

  /**
   * Gives a frame its id, and publishes it at once if the run stores no frames. Other output waits for a save, which is requested
   * soon if the output has readers.
   */
  #append(output: Output): void {
    const { claimed, runLog, counters, barrier, hasEventReaders, onAwaitedOutput } = this.#options;
    if (isEvent(output)) {
      this.#events.add(output, barrier.positionForOutput);
      this.#size += getSize(output);
      if (hasEventReaders()) onAwaitedOutput();
      return;
    }
    this.#nextFrameId++;
    if (claimed.run.resumable) {
      this.#frames.add(output, barrier.positionForOutput);
      this.#size += getSize(output);
      onAwaitedOutput();
    } else {
      counters.frames_shown++;
      runLog.publish(output.event, output.data);
    }
  }

  /**
   * Pauses output. LangGraph emits the interrupt of a subgraph before the root graph has stored its own, so that a client could
   * answer too early. The interrupt therefore waits for that of the root graph, or for the next state.
   */
  pauseOutput(): void {
    this.#paused ??= [];
  }

  hasPausedOutput(): boolean {
    return this.#paused !== null && this.#paused.length > 0;
  }

  /** Ends the pause, and emits the paused output. */
  resumeOutput(): void {
    const paused = this.#paused ?? [];
    this.#paused = null;
    for (const output of paused) this.#append(output);
  }

  /** Ends the pause, and drops the paused output except the lifecycle of subgraphs, because every start needs an end. */
  dropPausedOutput(): void {
    this.#paused = this.#paused?.filter((output) => isEvent(output) && output.method === "lifecycle") ?? null;
    this.resumeOutput();
  }

  /** Returns true if the executor must wait for a save. Never for output behind a barrier, because only more output closes it. */
  isFull(): boolean {
    return this.#size > MAX_UNSTORED_CHARS && (!this.#options.barrier.isOpen || this.hasReady());
  }

  hasReady(): boolean {
    return this.#frames.hasReady() || this.#events.hasReady();
  }

  /**
   * Returns true if output is a reason to save now: it is ready, and subscribers wait for it or there is too much of it. Frames
   * that are stored always count as awaited, because they are published only after that.
   */
  isSaveDue(): boolean {
    if (this.#frames.hasReady()) return true;
    return this.#events.hasReady() && (this.#size > MAX_UNSTORED_CHARS || this.#options.hasEventReaders());
  }

  /** Returns true for a run that stores its frames, even if none is unsaved, and if unsaved events have readers. */
  isAwaited(): boolean {
    const { claimed, hasEventReaders } = this.#options;
    return claimed.run.resumable || (this.#events.length > 0 && hasEventReaders());
  }

  /** Removes and returns what a save may take. The caller stores it, and calls `publish` once it is committed. */
  drain(): StoredOutput {
    // The size still includes what is drained, because a slow save must slow the executor too.
    const first_id = this.#nextFrameId - this.#frames.length;
    const [frames, events] = [this.#frames.drain(), this.#events.drain()];
    return {
      ...(frames.length > 0 ? { frames: { first_id, list: frames } } : {}),
      ...(events.length > 0 ? { events } : {}),
    };
  }

  /** Publishes what `drain` returned to the readers in this process, counts the frames, and subtracts the size. */
  publish({ frames, events = [] }: StoredOutput): void {
    const { counters, runLog, publishEvents } = this.#options;
    const newest = events.at(-1);
    if (newest) {
      for (const event of events) this.#size -= getSize(event);
      publishEvents(this.#publishedSeq, events);
      this.#publishedSeq = newest.seq;
    }
    for (const frame of frames?.list ?? []) {
      this.#size -= getSize(frame);
      counters.frames_stored++;
      counters.frames_shown++;
      runLog.publish(frame.event, frame.data);
    }
  }
}

/**
 * Returns the id of the first frame of this attempt: after the last stored one, or at the range of this claim. Sets up the log of
 * the run: whether frames are stored, the attempt number, and where its ids continue.
 */
function resumeFrameIds({ run, last_frame }: ClaimedRun, runLog: RunLog): number {
  const { resumable } = run;
  const nextId = resumable ? last_frame + 1 : getFirstFrameId(run.claims - 1);
  runLog.hasStoredFrames = resumable;
  runLog.attempt = run.attempt;
  if (resumable) runLog.skipTo(last_frame);
  else runLog.startAt(nextId);
  return nextId;
}

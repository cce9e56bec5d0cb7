/** Maps the events of an executor to frames of the requested stream modes, events of the thread, and usage. */
import type { ExecutorEvent, StateEvent, StreamEvent, StreamMode } from "../executor/contract.ts";
import { type MessageFrame, MessageFrames } from "../executor/message-frames.ts";
import { findCost, type Prices } from "../executor/model-usage.ts";
import type { AttemptReport } from "../features/mod.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { TraceUsage } from "../storage/mod.ts";
import type { EventRecorder } from "./event-recorder.ts";
import type { OutputBuffer } from "./output-buffer.ts";

interface EventMapperOptions {
  /** The stream modes of the request. */
  readonly requested: ReadonlySet<StreamMode>;
  /** Reads the state that a retry continues from; null if subscribers of `values` need not get it first. */
  readonly resumedValues: (() => Promise<Json | undefined>) | null;
  /** The output, which is paused from a subgraph's interrupt until its state. */
  readonly output: Pick<OutputBuffer, "emitFrame" | "pauseOutput" | "resumeOutput">;
  readonly recorder: EventRecorder | null;
  readonly prices: Prices;
  /** Returns true if the attempt stops. Later events are not emitted. */
  isOutputEnded(): boolean;
}

/** Maps the events of an executor, in their order. */
export class EventMapper implements AttemptReport {
  readonly #options: EventMapperOptions;
  readonly #messages = new MessageFrames();
  readonly #usage: UsageSum;
  #resumedValues: EventMapperOptions["resumedValues"];
  #lastState: StateEvent | null = null;

  constructor(options: EventMapperOptions) {
    this.#options = options;
    this.#usage = new UsageSum(options.prices);
    this.#resumedValues = options.resumedValues;
  }

  /** Returns the last state, with its checkpoint. */
  getLastState(): StateEvent | null {
    return this.#lastState;
  }

  /** Returns the sum of all usage events; null without any. */
  usage(): TraceUsage | null {
    return this.#usage.total;
  }

  /** The report without usage that another attempt of its active journal repeats. */
  get retryReport(): AttemptReport {
    return { usage: () => this.#usage.lasting };
  }

  /**
   * Handles one event: emits its frames, records its thread events or adds its usage. Returns a promise only if it must wait,
   * because there is one event per token. Throws for an event of another type.
   */
  handle(event: ExecutorEvent): Promise<void> | undefined {
    switch (event.type) {
      case "stream":
      case "state":
        return this.#resumedValues ? this.#emitAfterResumedValues(event) : this.#emit(event);
      case "event":
        if (!this.#options.isOutputEnded()) this.#options.recorder?.record(event);
        return undefined;
      case "usage":
        this.#usage.add(event);
        return undefined;
      default:
        throw new Error(
          "The executor yielded something that is neither a stream, a state, a protocol nor a usage event",
        );
    }
  }

  /**
   * Emits the event. Before the first event that has frames emits the values of the resumed state once, unless the event itself
   * has values.
   */
  async #emitAfterResumedValues(event: StreamEvent | StateEvent): Promise<void> {
    const { output, isOutputEnded } = this.#options;
    const read = this.#resumedValues;
    if (read && !this.#showsNothing(event)) {
      this.#resumedValues = null;
      const values = showsValues(event) ? undefined : await read();
      if (values !== undefined && !isOutputEnded()) output.emitFrame("values", values);
    }
    this.#emit(event);
  }

  /** Returns true for events before which the state of a retry need not be emitted, because they contain nothing of the graph. */
  #showsNothing(event: StreamEvent | StateEvent): boolean {
    return event.type === "stream" && (this.#options.isOutputEnded() || event.mode === "events");
  }

  /** Emits an event. Drops stream events once the output has ended; state events are always emitted. */
  #emit(event: StreamEvent | StateEvent): undefined {
    if (event.type === "state") this.#emitState(event);
    else if (!this.#options.isOutputEnded()) this.#emitStreamWithPause(event);
  }

  /** Pauses output at the interrupt of a subgraph, until that of the root graph or the next state. */
  #emitStreamWithPause(event: StreamEvent): void {
    const { output } = this.#options;
    const isInner = (event.namespace ?? []).length > 0;
    const isInterrupt = showsInterrupt(event);
    if (isInterrupt && isInner) output.pauseOutput();
    this.#emitStream(event);
    if (isInterrupt && !isInner) output.resumeOutput();
  }

  /**
   * Keeps the state as the last one, resumes paused output, emits the frames of the state and records it. In mode `messages`
   * emits the messages that are now complete.
   */
  #emitState(event: StateEvent): void {
    const { output, recorder, requested } = this.#options;
    this.#lastState = event;
    output.resumeOutput();
    for (const frame of event.frames ?? []) this.#emitStream(frame);
    recorder?.record(event);
    if (requested.has("messages") && isObject(event.values)) {
      this.#emitMessages(this.#messages.finish(event.values.messages));
    }
  }

  /** Emits the frame if its mode was requested, and records it in any case. */
  #emitStream(event: StreamEvent): void {
    const { requested, output, recorder } = this.#options;
    const { mode, namespace = [], data } = event;
    if (mode === "messages-tuple") this.#emitTuple(data, namespace);
    else if (mode === "messages") {
      if (requested.has("messages")) this.#emitMessages(this.#messages.finish(data));
    } else if (requested.has(mode)) output.emitFrame(mode, data, namespace);
    recorder?.record(event);
  }

  /** Emits a message or chunk: unchanged for mode `messages-tuple`, assembled for mode `messages`. */
  #emitTuple(data: Json, namespace: readonly string[]): void {
    const { requested, output } = this.#options;
    if (requested.has("messages-tuple")) output.emitFrame("messages", data, namespace);
    if (!requested.has("messages") || !Array.isArray(data)) return;
    const [message, metadata] = data as [JsonObject, JsonObject?];
    this.#emitMessages(this.#messages.addMessage(message, metadata ?? {}, namespace));
  }

  #emitMessages(frames: readonly MessageFrame[]): void {
    for (const { event, namespace, data } of frames) this.#options.output.emitFrame(event, data, namespace);
  }
}

/** Returns true if an event contains the state of the root graph. */
function showsValues(event: StreamEvent | StateEvent): boolean {
  const frames = event.type === "state" ? (event.frames ?? []) : [event];
  return frames.some(({ mode, namespace = [] }) => mode === "values" && namespace.length === 0);
}

/**
 * Returns true if an event contains an interrupt. LangGraph has stored its own before, but that of a subgraph only for the
 * subgraph.
 */
function showsInterrupt({ mode, data }: StreamEvent): boolean {
  return (mode === "values" || mode === "updates") && isObject(data) && "__interrupt__" in data;
}

/** The maximum number of tokens and of US dollars that count for an attempt, so that numbers in reports stay finite. */
const MAX_USAGE = 1e12;

/** Sums the usage that an attempt reports. */
class UsageSum {
  readonly #prices: Prices;
  total: TraceUsage | null = null;
  /** The usage that no other attempt reports again. */
  lasting: TraceUsage | null = null;

  constructor(prices: Prices) {
    this.#prices = prices;
  }

  /**
   * Adds reported usage to the totals, with a cost by the price of the model if none was reported. Usage that repeats an earlier
   * attempt's is not in `lasting`. Throws if a number is invalid.
   */
  add(event: Extract<ExecutorEvent, { type: "usage" }>): void {
    const { tokens_in = 0, tokens_out = 0, repeats = false } = event;
    const cost_usd = findCost(event, this.#prices) ?? 0;
    if (!isCount(tokens_in) || !isCount(tokens_out) || !(cost_usd >= 0)) {
      throw new Error("The executor reported invalid usage: values must be non-negative numbers, tokens integers");
    }
    const usage = { tokens_in, tokens_out, cost_usd };
    this.total = addUsage(this.total, usage);
    if (!repeats) this.lasting = addUsage(this.lasting, usage);
  }
}

const isCount = (value: number): boolean => Number.isSafeInteger(value) && value >= 0;

const addCapped = (sum = 0, added: number): number => Math.min(sum + added, MAX_USAGE);

const addUsage = (sum: TraceUsage | null, added: TraceUsage): TraceUsage => ({
  tokens_in: addCapped(sum?.tokens_in, added.tokens_in),
  tokens_out: addCapped(sum?.tokens_out, added.tokens_out),
  cost_usd: addCapped(sum?.cost_usd, added.cost_usd),
});

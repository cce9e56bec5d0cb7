/** Maps the events of an executor to frames of the requested stream modes. */
import type { ExecutorEvent, StateEvent, StreamEvent, StreamMode } from "../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { TraceUsage } from "../storage/mod.ts";
import { createMessageFrames, type MessageFrame } from "../streams/message-frames.ts";
import type { EventRecorder } from "./event-recorder.ts";

type UsageEvent = Extract<ExecutorEvent, { type: "usage" }>;

export interface EventMapperOptions {
  /** The modes of the request. */
  readonly requested: ReadonlySet<StreamMode>;
  /** Reads the state that a retry continues from, if subscribers of `values` must see it first. */
  readonly resumedValues: (() => Promise<Json | undefined>) | null;
  show(event: string, data: Json): void;
  /** Records events for the event protocol. */
  readonly recorder: Pick<EventRecorder, "take">;
  /** Holds frames from now on, until `release`: the state that they describe comes next. */
  hold(): void;
  release(): void;
  /** The run must stop: events that still arrive are not shown. */
  isStopped(): boolean;
}

export interface EventMapper {
  /** No promise where there is nothing to wait for: there is one event per token. */
  take(event: ExecutorEvent): Promise<void> | undefined;
  /** The last state, with its checkpoint. */
  last(): StateEvent | null;
  /** The sum of all usage events; null without any. */
  usage(): TraceUsage | null;
}

export function createEventMapper(options: EventMapperOptions): EventMapper {
  const { requested, recorder, show, isStopped } = options;
  const messageFrames = createMessageFrames();
  let { resumedValues } = options;
  let last: StateEvent | null = null;
  let usage: TraceUsage | null = null;

  function showStream(event: StreamEvent): void {
    const { mode, namespace = [], data } = event;
    if (mode === "messages-tuple") {
      if (requested.has("messages-tuple")) show(named("messages", namespace), data);
      if (requested.has("messages") && Array.isArray(data)) {
        showMessages(messageFrames.chunk(data[0] as JsonObject, (data[1] ?? {}) as JsonObject, namespace));
      }
    } else if (mode === "messages") {
      if (requested.has("messages")) showMessages(messageFrames.finish(data));
    } else if (requested.has(mode)) {
      show(named(mode, namespace), data);
    }
    recorder.take(event);
  }

  function showMessages(frames: readonly MessageFrame[]): void {
    for (const { event, namespace, data } of frames) show(named(event, namespace), data);
  }

  /** Shows the state that a retry continues from, unless the executor shows it first. */
  async function showResumedValues(first: ExecutorEvent): Promise<void> {
    if (!resumedValues || (first.type === "stream" && first.mode === "events")) return;
    const read = resumedValues;
    resumedValues = null;
    const shown = first.type === "state" ? (first.shows ?? []) : [first];
    if (shown.some((one) => one.type === "stream" && one.mode === "values" && !one.namespace?.length)) return;
    const values = await read();
    if (values !== undefined && !isStopped()) show("values", values);
  }

  async function takeStream(event: StreamEvent): Promise<void> {
    if (isStopped()) return;
    if (resumedValues) await showResumedValues(event);
    const interrupt = isInterrupt(event);
    if (interrupt && event.namespace?.length) options.hold();
    showStream(event);
    if (interrupt && !event.namespace?.length) options.release();
  }

  async function takeState(event: StateEvent): Promise<void> {
    if (resumedValues) await showResumedValues(event);
    last = event;
    options.release();
    for (const shown of event.shows ?? []) showStream(shown);
    recorder.take(event);
    if (requested.has("messages") && isObject(event.values)) showMessages(messageFrames.finish(event.values.messages));
  }

  function takeUsage({ tokens_in = 0, tokens_out = 0, cost_usd = 0 }: UsageEvent): void {
    if (![tokens_in, tokens_out].every((count) => Number.isSafeInteger(count) && count >= 0) || !(cost_usd >= 0)) {
      throw new Error("The executor reported invalid usage: values must be non-negative numbers, tokens integers");
    }
    usage = {
      tokens_in: (usage?.tokens_in ?? 0) + tokens_in,
      tokens_out: (usage?.tokens_out ?? 0) + tokens_out,
      cost_usd: (usage?.cost_usd ?? 0) + cost_usd,
    };
  }

  return {
    last: () => last,
    usage: () => usage,
    take(event) {
      if (event.type === "stream") return takeStream(event);
      if (event.type === "state") return takeState(event);
      if (event.type === "event") {
        if (!isStopped()) recorder.take(event);
        return undefined;
      }
      if (event.type !== "usage") {
        throw new Error(
          "The executor yielded something that is neither a stream, a state, a protocol nor a usage event",
        );
      }
      takeUsage(event);
      return undefined;
    },
  };
}

/** It shows an interrupt. LangGraph has stored its own before, but that of a subgraph only for the subgraph. */
function isInterrupt({ mode, data }: StreamEvent): boolean {
  return (mode === "values" || mode === "updates") && isObject(data) && "__interrupt__" in data;
}

/** The event name of a frame: its mode and the namespace of its graph. */
function named(event: string, namespace: readonly string[]): string {
  return namespace.length > 0 ? `${event}|${namespace.join("|")}` : event;
}

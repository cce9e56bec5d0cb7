/** What becomes of the events that an executor yields: frames of the modes that were asked for, and recorded states. */
import type { Environment } from "../environment.ts";
import { type JobCheckpoints, stateRecorder } from "../executor/checkpoints.ts";
import type { ExecutorEvent, Job, StreamMode } from "../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { TraceUsage } from "../storage/mod.ts";
import { createMessageFrames, type MessageFrame } from "../streams/messages.ts";

export type StateEvent = Extract<ExecutorEvent, { type: "state" }>;

/** How long it may take without letting the event loop turn. */
const BUSY_MS = 4;

export interface YieldOptions {
  readonly environment: Environment;
  readonly job: Job;
  readonly checkpoints: JobCheckpoints;
  /** The states are recorded: the executor writes no checkpoints of its own. */
  readonly recorded: boolean;
  /** The modes of the request. */
  readonly requested: ReadonlySet<StreamMode>;
  /** The run goes on from a state that its readers are to see: this reads it. */
  readonly reached: (() => Promise<Json | undefined>) | null;
  show(event: string, data: Json): void;
  /** Stores what was shown where that is much; resolves at once where it is not. */
  flush(): Promise<void>;
  /** What is shown from now on waits for the state it tells of, until `release`. */
  hold(): void;
  release(): void;
  /** The run is to stop: what comes now is neither shown nor where it got to. Own checkpoints of an executor tell that. */
  stopped(): boolean;
}

export interface Yields {
  take(event: ExecutorEvent): Promise<void>;
  /** The newest state, with its checkpoint. */
  last(): StateEvent | null;
  /** The sum of what was reported; null when nothing was. */
  usage(): TraceUsage | null;
}

export function takeYields(options: YieldOptions): Yields {
  const { environment, job, checkpoints, recorded, requested, show, stopped } = options;
  const recorder = recorded ? stateRecorder(environment, checkpoints, job) : null;
  const messageFrames = createMessageFrames();
  let { reached } = options;
  let last: StateEvent | null = null;
  let usage: TraceUsage | null = null;
  let step = -1;
  let turnedAt = environment.now();

  /** Between two things that each write a state as JSON, the event loop turns where they take their time. */
  async function breathe(): Promise<void> {
    await options.flush();
    if (environment.now() - turnedAt >= BUSY_MS) await new Promise<void>((resolve) => environment.defer(resolve));
    turnedAt = environment.now();
  }

  function showStream({ mode, namespace = [], data }: Extract<ExecutorEvent, { type: "stream" }>): void {
    if (mode === "messages-tuple") {
      if (requested.has("messages-tuple")) show(named("messages", namespace), data);
      if (requested.has("messages") && Array.isArray(data)) {
        showMessages(messageFrames.chunk(data[0] as JsonObject, (data[1] ?? {}) as JsonObject, namespace));
      }
    } else if (mode === "messages") {
      if (requested.has("messages")) showMessages(messageFrames.settled(data));
    } else if (requested.has(mode)) {
      show(named(mode, namespace), data);
    }
    if (mode === "tasks" && recorder && requested.has("debug") && isObject(data)) {
      showDebug("input" in data ? "task" : "task_result", data);
    }
  }

  function showMessages(frames: readonly MessageFrame[]): void {
    for (const { event, namespace, data } of frames) show(named(event, namespace), data);
  }

  function showDebug(type: string, payload: JsonObject): void {
    show("debug", { step, timestamp: new Date(environment.now()).toISOString(), type, payload });
  }

  /** Shows the state that a later attempt goes on from, unless that is the executor's own first word. */
  async function showReached(first: ExecutorEvent): Promise<void> {
    if (!reached || (first.type === "stream" && first.mode === "events")) return;
    const read = reached;
    reached = null;
    if (first.type === "stream" && first.mode === "values" && !first.namespace?.length) return;
    const values = await read();
    if (values !== undefined && !stopped()) show("values", values);
  }

  return {
    last: () => last,
    usage: () => usage,
    async take(event) {
      if (event.type === "stream") {
        if (stopped()) return;
        if (reached) await showReached(event);
        if (recorder ? tells(event) : asks(event) && event.namespace?.length) options.hold();
        showStream(event);
        if (!recorder && asks(event) && !event.namespace?.length) options.release();
      } else if (event.type === "state") {
        if (recorder && stopped()) return;
        if (reached) await showReached(event);
        last = event;
        turnedAt = environment.now();
        if (!recorder) options.release();
        if (recorder) {
          const { ref, shown, step: number } = await recorder.record(event);
          step = number;
          last = { ...event, checkpoint: ref };
          options.release();
          await breathe();
          if (requested.has("checkpoints")) show("checkpoints", shown);
          await breathe();
          if (requested.has("debug")) showDebug("checkpoint", shown);
        }
        if (requested.has("messages") && isObject(event.values))
          showMessages(messageFrames.settled(event.values.messages));
      } else if (event.type === "usage") {
        const { tokens_in = 0, tokens_out = 0, cost_usd = 0 } = event;
        if (![tokens_in, tokens_out].every((count) => Number.isSafeInteger(count) && count >= 0) || !(cost_usd >= 0)) {
          throw new Error("The executor reported a usage that is not made of numbers from 0 on");
        }
        usage = {
          tokens_in: (usage?.tokens_in ?? 0) + tokens_in,
          tokens_out: (usage?.tokens_out ?? 0) + tokens_out,
          cost_usd: (usage?.cost_usd ?? 0) + cost_usd,
        };
      } else {
        throw new Error("The executor yielded something that is neither a stream, a state nor a usage event");
      }
    },
  };
}

/** It shows what a step did, which a state is to follow. */
function tells({ mode, data }: Extract<ExecutorEvent, { type: "stream" }>): boolean {
  if (mode === "tasks") return isObject(data) && !("input" in data);
  return mode === "values" || mode === "updates" || mode === "messages";
}

/** A question: the graph has put it before it shows it, but one of a subgraph only there. */
function asks({ mode, data }: Extract<ExecutorEvent, { type: "stream" }>): boolean {
  return (mode === "values" || mode === "updates") && isObject(data) && "__interrupt__" in data;
}

/** The name of a frame: that of its mode, with the graph it comes from. */
function named(event: string, namespace: readonly string[]): string {
  return namespace.length > 0 ? `${event}|${namespace.join("|")}` : event;
}

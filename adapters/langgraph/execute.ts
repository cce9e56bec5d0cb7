/** One attempt of a run on a compiled graph. */
import type { ExecutorEvent, Job, StreamMode, Task } from "../../lib/executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import { type Answers, openAnswers } from "./answers.ts";
import { type Chunk, Chunks, isInner } from "./chunks.ts";
import { withCommand } from "./command.ts";
import { type Graph, type GraphConfig, type GraphSource, refuseUnknownNodes, withSaver } from "./graph.ts";
import { inMemoryCheckpoints, inMemoryValues } from "./in-memory-checkpoints.ts";
import { isChunk, isMessage, type Message } from "./json.ts";
import { Lifecycle, type LifecycleData } from "./lifecycle.ts";
import { NodeTracker } from "./node-tracker.ts";
import { runParents } from "./parents.ts";
import { INTERRUPT, JobSaver, NULL_TASK, onlyThread } from "./saver.ts";
import type { Serde } from "./serde.ts";
import { threadState } from "./state.ts";
import { JobStore } from "./store.ts";
import { aboutWire, checkpointWire, messageWire, toWire } from "./wire.ts";

/** The graphs and the serializer of an executor. */
export interface Host {
  /** Throws for an unknown graph. */
  source(graph_id: string): GraphSource;
  serde(): Promise<Serde>;
}

export async function* execute(
  { source, serde }: Host,
  job: Job,
  signal: AbortSignal,
): AsyncGenerator<ExecutorEvent, void, undefined> {
  const { configurable } = job.config;
  const hosted = await source(job.graph_id).graph({ configurable, metadata: job.metadata, context: job.context });
  const stored = await serde();
  signal.throwIfAborted();
  const stop = new AbortController();
  // No client reads these checkpoints after the run, so they stay in memory.
  const inMemory = job.temporary && job.durability === "exit" && !job.resumed;
  const threads = onlyThread(job.thread_id, inMemory ? inMemoryCheckpoints() : job.checkpoints);
  const answers: Answers = job.resumed ? noAnswers : await openAnswers(job, stored);
  const saver = new JobSaver(
    { threads, serde: inMemory ? inMemoryValues : stored, metadata: job.metadata },
    {
      run_id: job.run_id,
      spent: answers.spent,
      signal,
      onFailure: (error) => stop.abort(error),
    },
  );
  const either = AbortSignal.any([signal, stop.signal]);
  const tracker = new NodeTracker(either);
  const graph = withSaver(tracker.graph(hosted), saver, new JobStore(job.store));
  let values: unknown;
  let shownValues: Json | undefined;
  let interrupted = false;
  let ended = false;
  let chunks: AsyncIterator<unknown> | undefined;
  const events = job.modes.has("events");
  const parents = events ? runParents() : null;
  const lifecycle = job.modes.has("lifecycle") ? new Lifecycle() : null;
  const growing = job.modes.has("messages-tuple") ? new Growing() : null;
  const subgraphs = job.subgraphs || [...job.modes].some((mode) => mode === "lifecycle" || TOLD.includes(mode));
  const reading = new Chunks(subgraphs, job.subgraphs);
  try {
    const fork = await forkOf(job);
    const callers = job.subgraphs && job.modes.has("tools") ? reading.handler : undefined;
    const handlers = [parents?.handler, lifecycle?.handler, callers];
    const options = streamOptions(job, fork, either, handlers, subgraphs);
    refuseUnknownNodes(hosted, answers.command?.goto);
    if (await endsHere(answers, graph, saver, job, fork)) {
      ended = true;
      if (saver.failure !== undefined) throw saver.failure;
      const state = await storedState(graph, saver, job);
      const namespace = job.subgraphs ? { namespace: [] } : {};
      if (job.modes.has("values")) yield { type: "stream", mode: "values", ...namespace, data: state.values };
      const { checkpoint: _checkpoint, ...unstored } = state;
      return yield inMemory ? unstored : state;
    }
    const begun = beginning(graph, job, answers);
    const stream = events
      ? begun.graph.streamEvents(begun.input, { ...options, version: "v2" })
      : await begun.graph.stream(begun.input, options);
    chunks = stream[Symbol.asyncIterator]();
    while (true) {
      const next = await chunks.next();
      if (next.done) break;
      const event = events ? (next.value as LangChainEvent) : null;
      const chunk = event ? rootChunk(event, job.run_id) : next.value;
      const shown = chunk === undefined ? null : reading.read(chunk);
      if (shown?.mode === "values") {
        const state = shown.payload;
        if (typeof state === "object" && state !== null && INTERRUPT in state) interrupted = true;
        else if (shown.namespace.length === 0) {
          values = state;
          shownValues = undefined;
        }
      }
      if (shown && lifecycle) yield* lifecycle.take(shown).map(lifecycleEvent);
      const complete = shown && growing ? growing.take(shown) : [];
      if (complete.length > 0) yield { type: "stream", mode: "messages", data: complete };
      const asked = shown !== null && job.modes.has(shown.mode) && (job.subgraphs || !isInner(shown));
      if (event && parents) {
        const parent_ids = [...parents.of(event)];
        if ((asked || shown === null) && !event.tags?.includes("langsmith:hidden")) {
          yield { type: "stream", mode: "events", data: { ...(aboutWire(event) as JsonObject), parent_ids } };
        }
      }
      if (!asked) continue;
      const data = frameData(shown);
      if (data === undefined) continue;
      if (shown.payload === values && shown.mode === "values") shownValues = data;
      yield job.subgraphs
        ? { type: "stream", mode: shown.mode, namespace: shown.namespace, data }
        : { type: "stream", mode: shown.mode, data };
    }
    ended = true;
    if (saver.failure !== undefined) throw saver.failure;
    const state =
      interrupted || saver.interrupted || values === undefined || saver.head === null
        ? await storedState(graph, saver, job)
        : // Nothing is left to do and the last values are known, so the checkpoint need not be read.
          stateEvent(shownValues ?? toWire(values), [], [], saver.head);
    if (lifecycle) yield* lifecycle.end(state.next.length > 0 ? "interrupted" : "completed").map(lifecycleEvent);
    const { checkpoint: _checkpoint, ...unstored } = state;
    yield inMemory ? unstored : state;
  } catch (error) {
    const cause = saver.failure ?? error;
    if (lifecycle && !signal.aborted) yield* lifecycle.fail(cause).map(lifecycleEvent);
    if (growing?.any && !either.aborted) {
      const kept = await storedState(graph, saver, job).catch(() => null);
      const complete = growing.settle(kept?.values ?? null);
      if (complete.length > 0) yield { type: "stream", mode: "messages", data: complete };
    }
    throw cause;
  } finally {
    if (!ended) {
      stop.abort(new Error("The execution ended"));
      await drain(chunks);
    }
    saver.close();
    // The run must not continue elsewhere while one of its nodes is still active.
    if (signal.aborted) await tracker.idle();
  }
}

/** Waits for the end of a stopped graph, so that it writes nothing later. */
async function drain(chunks: AsyncIterator<unknown> | undefined): Promise<void> {
  try {
    while (chunks && !(await chunks.next()).done);
  } catch {
    // It was stopped, so its outcome does not matter.
  }
}

/** The config of the checkpoint to fork from; empty if the run continues from the head. */
async function forkOf(job: Job): Promise<JsonObject> {
  if (!job.from || job.resumed) return {};
  const { ns, checkpoint_id } = job.from;
  if (ns === "") {
    // With an explicit id, even that of the head, LangGraph would run finished tasks of the step again.
    const head = await job.checkpoints.get({ ns });
    return head?.checkpoint_id === checkpoint_id ? {} : { checkpoint_ns: ns, checkpoint_id };
  }
  const parents = (await job.checkpoints.get(job.from))?.metadata.parents ?? {};
  return { checkpoint_ns: ns, checkpoint_id, checkpoint_map: { ...(parents as JsonObject), [ns]: checkpoint_id } };
}

const MODES: readonly StreamMode[] = ["updates", "messages-tuple", "tasks", "checkpoints", "debug", "custom", "tools"];

/** Modes in which clients of the root graph also see nodes of subgraphs. Since 1.5.0, LangGraph needs `subgraphs` for that. */
const TOLD: readonly StreamMode[] = ["messages-tuple", "tools"];

interface StreamOptions extends GraphConfig {
  readonly signal: AbortSignal;
  readonly subgraphs: boolean;
}

function streamOptions(
  job: Job,
  fork: JsonObject,
  signal: AbortSignal,
  handlers: readonly (object | undefined)[],
  subgraphs: boolean,
): StreamOptions {
  const { tags, recursion_limit, configurable } = job.config;
  const tuples = job.modes.has("messages-tuple");
  const lifecycle = job.modes.has("lifecycle");
  // Some modes are needed even if no client requested them: for the end of subgraphs and of messages.
  const heard = (mode: StreamMode): boolean =>
    job.modes.has(mode) || (mode === "updates" && tuples) || (mode === "tasks" && lifecycle);
  const callbacks = [...(tuples ? [messageIds] : []), ...handlers.filter((handler) => handler !== undefined)];
  const names = (nodes: "*" | readonly string[]): "*" | string[] => (nodes === "*" ? "*" : [...nodes]);
  return {
    // Values are always needed: the last ones are the run's result.
    streamMode: ["values", ...MODES.filter(heard).map((mode) => (mode === "messages-tuple" ? "messages" : mode))],
    subgraphs,
    configurable: {
      ...Object.fromEntries(Object.entries(configurable).filter(([key]) => !isInternal(key))),
      thread_id: job.thread_id,
      run_id: job.run_id,
      graph_id: job.graph_id,
      assistant_id: job.assistant_id,
      ...fork,
    },
    context: job.context,
    signal,
    runId: job.run_id,
    metadata: { ...job.metadata },
    ...(tags ? { tags: [...tags] } : {}),
    ...(recursion_limit === undefined ? {} : { recursionLimit: recursion_limit }),
    ...(job.interrupt_before.length > 0 ? { interruptBefore: names(job.interrupt_before) } : {}),
    ...(job.interrupt_after.length > 0 ? { interruptAfter: names(job.interrupt_after) } : {}),
    durability: job.durability,
    ...(callbacks.length > 0 ? { callbacks } : {}),
  } as StreamOptions;
}

/**
 * In mode `messages`, LangGraph gives the same id to all messages without an id that one node returns, so only the last one
 * remains in the state. This handler runs before LangGraph's and gives each message its own id.
 */
const messageIds = {
  name: "greenroom_message_ids",
  awaitHandlers: true,
  handleChainEnd(outputs: unknown): void {
    if (typeof outputs !== "object" || outputs === null) return;
    const found = Object.values(outputs)
      .flat()
      .filter((item) => typeof item === "object" && item !== null && isMessage(item));
    if (found.length < 2) return;
    for (const message of found as { id?: string; lc_kwargs?: { id?: string } }[]) {
      if (message.id !== undefined) continue;
      message.id = crypto.randomUUID();
      if (message.lc_kwargs) message.lc_kwargs.id = message.id;
    }
  },
};

/** Keys that control LangGraph: only the service sets them. */
function isInternal(key: string): boolean {
  return key.startsWith("__") || key === "checkpoint_id" || key === "checkpoint_ns" || key === "checkpoint_map";
}

const noAnswers: Answers = { command: null, spent: false };

/** The graph's input, and the graph that accepts it. */
function beginning(graph: Graph, job: Job, { command }: Answers): { readonly graph: Graph; readonly input: unknown } {
  if (job.resumed || (job.command && !command)) return { graph, input: null };
  return command ? withCommand(graph, command) : { graph, input: job.input ?? null };
}

/**
 * Handles a command that goes only to the end while a step is open: LangGraph would start that step again. False without such a
 * command, or without a state.
 */
async function endsHere(
  { command }: Answers,
  graph: Graph,
  saver: JobSaver,
  job: Job,
  fork: JsonObject,
): Promise<boolean> {
  const { goto = [], resume, update } = command ?? {};
  const ends = goto.length > 0 && goto.every((target) => target === "__end__") && resume === undefined;
  if (!ends || (job.from && job.from.ns !== "")) return false;
  const at = { configurable: { thread_id: job.thread_id, checkpoint_ns: "", ...fork }, metadata: { ...job.metadata } };
  const tuple = await saver.getTuple(at);
  if (!tuple) return false;
  const pairs = Array.isArray(update) ? (update as [string, Json][]) : Object.entries((update ?? {}) as JsonObject);
  // LangGraph stores a command's writes in the same way.
  if (pairs.length > 0) await saver.putWrites(tuple.config, pairs, NULL_TASK);
  await graph.bulkUpdateState(at, [{ updates: [{ values: null, asNode: "__end__" }] }]);
  return true;
}

interface LangChainEvent {
  readonly event: string;
  readonly run_id: string;
  readonly tags?: readonly string[];
  readonly data?: { readonly chunk?: unknown };
}

function rootChunk(event: LangChainEvent, run_id: string): unknown {
  return event.event === "on_chain_stream" && event.run_id === run_id ? event.data?.chunk : undefined;
}

function lifecycleEvent(data: LifecycleData): ExecutorEvent {
  return { type: "stream", mode: "lifecycle", namespace: data.namespace, data: { ...data } };
}

/** Messages with streamed chunks, until their node has written them. */
class Growing {
  private readonly ids = new Set<string>();

  get any(): boolean {
    return this.ids.size > 0;
  }

  /** The messages that this chunk shows to be complete, in their wire form. */
  take({ mode, payload }: Chunk): Json[] {
    if (mode === "messages-tuple") {
      const [message] = payload as [Message];
      if (typeof message.id === "string" && isChunk(message)) this.ids.add(message.id);
      else if (typeof message.id === "string") this.ids.delete(message.id);
    }
    if (mode !== "updates" || !this.any) return [];
    return written(payload)
      .filter((message) => message.getType?.() !== "remove" && this.ids.delete(message.id as string))
      .map(toWire);
  }

  /** The messages in the state after a failure: LangGraph drops the last chunks before it. */
  settle(values: Json): Json[] {
    const { messages = [] } = isObject(values) ? values : {};
    const kept = Array.isArray(messages) ? messages : [];
    return kept.filter((message) => isObject(message) && this.ids.delete(message.id as string));
  }
}

/** The messages of an update, in all channels. */
function written(updates: unknown): Message[] {
  const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;
  return Object.values(updates as object)
    .flat()
    .filter(isObject)
    .flatMap((update): unknown[] => (isMessage(update) ? [update] : Object.values(update).flat()))
    .filter((value): value is Message => isObject(value) && isMessage(value));
}

function frameData({ mode, payload }: Chunk): Json | undefined {
  switch (mode) {
    case "messages-tuple": {
      const [message, metadata] = payload as [Message, unknown];
      return [messageWire(message), aboutWire(metadata)];
    }
    case "checkpoints":
      // With events, LangGraph also sends short notes about the checkpoint of each state.
      return isCheckpoint(payload) ? checkpointWire(payload) : undefined;
    case "debug": {
      const { type, payload: inner, ...rest } = payload as { type: string; payload: object };
      return {
        ...(aboutWire(rest) as JsonObject),
        type,
        payload: type === "checkpoint" ? checkpointWire(inner) : aboutWire(inner),
      };
    }
    case "tasks":
    case "tools":
      return aboutWire(payload);
    default:
      return toWire(payload);
  }
}

const isCheckpoint = (payload: unknown): payload is object =>
  isObject(payload as Json) && "config" in (payload as object);

type StateEvent = Extract<ExecutorEvent, { type: "state" }>;

async function storedState(graph: Graph, saver: JobSaver, job: Job): Promise<StateEvent> {
  saver.ended = true;
  // Without an id, LangGraph includes the writes of finished tasks of an interrupted step.
  const snapshot = await graph.getState({ configurable: { thread_id: job.thread_id } }, { subgraphs: false });
  const state = threadState(snapshot);
  if (!state?.checkpoint) throw new Error("The graph ended without a checkpoint");
  return stateEvent(state.values, state.next, state.tasks, state.checkpoint.checkpoint_id);
}

function stateEvent(values: Json, next: readonly string[], tasks: readonly Task[], checkpoint_id: string): StateEvent {
  return { type: "state", values, next, tasks, checkpoint: { ns: "", checkpoint_id } };
}

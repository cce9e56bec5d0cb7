/** One attempt of a run on a compiled graph. */
import type { Environment } from "../../lib/environment.ts";
import type { ExecutorEvent, Job, StateEvent, StreamMode, Task } from "../../lib/executor/contract.ts";
import { checkpointMetadata } from "../../lib/executor/kwargs.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import { type Answers, openAnswers } from "./answers.ts";
import { type CallbackManagerClass, type Callbacks, oneHandler, runParents } from "./callbacks.ts";
import { Chunks, isInterrupt } from "./chunks.ts";
import { withCommand } from "./command.ts";
import { chunkWire, hasProtocolEvents, StreamFrames } from "./frames.ts";
import { type Graph, type GraphSource, refuseUnknownNodes, withSaver } from "./graph.ts";
import { inMemoryCheckpoints, inMemoryValues } from "./in-memory-checkpoints.ts";
import { JobSaver } from "./job-saver.ts";
import { JobValues } from "./job-values.ts";
import { isMessage } from "./json.ts";
import { ModelUsage } from "./model-usage.ts";
import { NodeTracker, TRACKER, trackedGraph } from "./node-tracker.ts";
import { Pace } from "./pace.ts";
import { ProtocolEvents } from "./protocol-events.ts";
import { NULL_TASK, onlyThread } from "./saver.ts";
import type { Serde } from "./serde.ts";
import { threadState } from "./state.ts";
import { STEPS } from "./step-marks.ts";
import { GraphSteps } from "./steps.ts";
import { JobStore } from "./store.ts";
import { aboutWire, type GraphConfig } from "./wire.ts";

/** The graphs and the serializer of an executor. */
export interface Host {
  /** Throws for an unknown graph. */
  source(graph_id: string): GraphSource;
  /** The serializer, and the class of the callbacks of nodes. */
  langchain(): Promise<readonly [Serde, CallbackManagerClass]>;
}

export async function* execute(
  { source, langchain }: Host,
  job: Job,
  signal: AbortSignal,
  environment: Pick<Environment, "defer" | "now" | "log">,
): AsyncGenerator<ExecutorEvent, void, undefined> {
  const { configurable } = job.config;
  const hosted = await source(job.graph_id).graph({ configurable, metadata: job.metadata, context: job.context });
  const [stored, Manager] = await langchain();
  const jobValues = new JobValues(stored);
  signal.throwIfAborted();
  const stop = new AbortController();
  // No client reads these checkpoints after the run, so they stay in memory.
  const inMemory = job.stateless && job.durability === "exit" && !job.resumed;
  const pace = new Pace(inMemory ? inMemoryCheckpoints() : job.checkpoints, environment);
  const threads = onlyThread(job.thread_id, pace.handle());
  const steps = new GraphSteps(job, environment);
  const given = await givenAnswers(steps, job, jobValues);
  const answers = given ?? noAnswers;
  const saver = new JobSaver(
    { threads, serde: inMemory ? inMemoryValues : jobValues, metadata: checkpointMetadata(job) },
    { run_id: job.run_id, spent: answers.spent, signal, onFailure: (error) => stop.abort(error) },
  );
  const either = AbortSignal.any([signal, stop.signal]);
  const usage = new ModelUsage();
  const tracker = new NodeTracker(either, usage, jobValues, [Manager, job.run_id]);
  const graph = withSaver(trackedGraph(hosted), saver);
  let values: unknown;
  let shownValues: Json | undefined;
  let interrupted = false;
  let ended = false;
  const events = job.modes.has("events");
  const parents = events ? runParents() : null;
  const show = (value: unknown): Json => jobValues.toWire(value);
  const wire = chunkWire(show);
  const frames = new StreamFrames(job, wire);
  const subgraphs = needsSubgraphs(job);
  const reading = new Chunks(subgraphs, job.subgraphs);
  const protocol = hasProtocolEvents(job) ? new ProtocolEvents(job, hosted, reading, wire) : null;
  try {
    const fork = await forkOf(job);
    const callers = job.events === "all" || (job.subgraphs && job.modes.has("tools")) ? reading : null;
    const callbacks = [parents, frames, callers, protocol].flatMap((one) => one?.callbacks ?? []);
    const options = {
      ...streamOptions(job, fork, either, callbacks, subgraphs, { [STEPS]: steps, [TRACKER]: tracker }),
      // The store that a graph was compiled with may have data that the graph needs.
      ...(hosted.store ? {} : { store: new JobStore(job.store) }),
    };
    refuseUnknownNodes(hosted, answers.command?.goto);
    if (!given || (await endsHere(answers, graph, saver, job, fork))) {
      ended = true;
      if (saver.failure !== undefined) throw saver.failure;
      const state = await storedState(graph, saver, job, show);
      const namespace = job.subgraphs ? { namespace: [] } : {};
      if (job.modes.has("values")) yield { type: "stream", mode: "values", ...namespace, data: state.values };
      if (protocol) yield* protocol.state(state.values, await saver.getTuple(rootOf(job)));
      return yield inMemory ? withoutCheckpoint(state) : state;
    }
    const begun = beginning(graph, job, answers);
    const stream = events
      ? begun.graph.streamEvents(begun.input, { ...options, version: "v2" })
      : await begun.graph.stream(begun.input, options);
    pace.read(stream);
    for (let ready = pace.next(); ; ready = pace.next()) {
      const next = ready instanceof Promise ? await ready : ready;
      if (next.done) break;
      const event = events ? (next.value as LangChainEvent) : null;
      const chunk = event ? rootChunk(event, job.run_id) : next.value;
      const shown = chunk === undefined ? null : reading.read(chunk);
      if (chunk !== undefined && !shown) continue;
      for (const one of usage.take()) yield one;
      const isState = shown?.mode === "values" && !isInterrupt(shown);
      if (shown?.mode === "values" && !isState) interrupted = true;
      const isRoot = isState && shown.namespace.length === 0;
      if (isRoot) [values, shownValues] = [shown.payload, undefined];
      // Not `yield*`, which waits even for an empty list: there is a chunk for each token.
      if (shown) for (const one of frames.before(shown)) yield one;
      if (event && parents) {
        const raw = rawEvent(event, parents.of(event));
        if (raw && (shown === null || frames.isShown(shown))) yield raw;
      }
      if (!shown) continue;
      if (isRoot && (protocol || job.modes.has("values"))) shownValues = wire(shown);
      for (const one of frames.take(shown)) yield one;
      for (const one of protocol?.take(shown) ?? []) yield one;
    }
    ended = true;
    yield* usage.take();
    if (saver.failure !== undefined) throw saver.failure;
    const last =
      interrupted || saver.interrupted || values === undefined || saver.head === null
        ? await storedState(graph, saver, job, show)
        : // Nothing is left to do and the last values are known, so the checkpoint need not be read.
          stateEvent(shownValues ?? show(values), [], [], saver.head);
    const state = saver.interrupted ? await steps.leave(last, saver, rootOf(job)) : last;
    if (!state) return;
    const outcome = state.next.length > 0 ? "interrupted" : "completed";
    yield* frames.end(outcome);
    if (protocol) yield* await protocol.end(outcome);
    yield inMemory ? withoutCheckpoint(state) : state;
  } catch (error) {
    const cause = saver.failure ?? error;
    yield* usage.take();
    if (!signal.aborted) yield* frames.fail(cause);
    const needed = frames.growingMessages || (protocol?.needsState ?? false);
    const kept = needed && !either.aborted ? await storedState(graph, saver, job, show).catch(() => null) : null;
    if (!either.aborted) yield* frames.settle(kept?.values ?? null);
    if (protocol && !signal.aborted) yield* protocol.fail(cause, kept);
    throw cause;
  } finally {
    if (!ended) {
      stop.abort(new Error("The execution ended"));
      // So that a stopped graph writes nothing later.
      await pace.close();
    }
    saver.close();
    // The run must not continue elsewhere while one of its nodes is still active.
    if (signal.aborted) await tracker.idle();
  }
}

const withoutCheckpoint = ({ checkpoint: _checkpoint, ...unstored }: StateEvent): StateEvent => unstored;

/** LangChain's event as mode `events` shows it; null if it is hidden. */
function rawEvent(event: LangChainEvent, parents: readonly string[]): ExecutorEvent | null {
  if (event.tags?.includes("langsmith:hidden")) return null;
  return {
    type: "stream",
    mode: "events",
    data: { ...(aboutWire(event) as JsonObject), parent_ids: [...parents] },
  };
}

const rootOf = ({ thread_id }: Job): GraphConfig => ({ configurable: { thread_id, checkpoint_ns: "" } });

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

/** Modes from which protocol events are made. */
const PROTOCOL: readonly StreamMode[] = ["updates", "messages-tuple", "tasks", "custom", "tools"];

function needsSubgraphs({ subgraphs, modes, events }: Job): boolean {
  // In mode `events` LangGraph gives checkpoints only together with subgraphs.
  const notes = events === "state" && modes.has("events");
  return subgraphs || events === "all" || notes || modes.has("lifecycle") || TOLD.some((mode) => modes.has(mode));
}

interface StreamOptions extends GraphConfig {
  readonly signal: AbortSignal;
  readonly subgraphs: boolean;
}

function streamOptions(
  job: Job,
  fork: JsonObject,
  signal: AbortSignal,
  own: readonly Callbacks[],
  subgraphs: boolean,
  forNodes: Readonly<Record<string, unknown>>,
): StreamOptions {
  const { tags, recursion_limit, configurable } = job.config;
  const protocol = hasProtocolEvents(job);
  const tuples = job.modes.has("messages-tuple");
  const lifecycle = job.modes.has("lifecycle");
  // Some modes are needed even if no client requested them: for the end of subgraphs and of messages.
  const heard = (mode: StreamMode): boolean => {
    // LangGraph gives no short notes of checkpoints beside mode `checkpoints`. Mode `debug` has the same data.
    if (protocol && mode === "checkpoints") return false;
    if (protocol && mode === "debug" && job.modes.has("checkpoints")) return true;
    if (job.events === "all" && PROTOCOL.includes(mode)) return true;
    return job.modes.has(mode) || (mode === "updates" && tuples) || (mode === "tasks" && lifecycle);
  };
  const callbacks = [...(tuples || job.events === "all" ? [messageIds] : []), ...own];
  const names = (nodes: "*" | readonly string[]): "*" | string[] => (nodes === "*" ? "*" : [...nodes]);
  return {
    // Values are always needed: the last ones are the run's result.
    streamMode: ["values", ...MODES.filter(heard).map((mode) => (mode === "messages-tuple" ? "messages" : mode))],
    subgraphs,
    // Gives a short note of the checkpoint before each state. Version 3 changes messages and tools, which subgraphs come with here.
    ...(protocol ? { version: subgraphs ? "v2" : "v3" } : {}),
    configurable: {
      ...Object.fromEntries(Object.entries(configurable).filter(([key]) => !isInternal(key))),
      thread_id: job.thread_id,
      run_id: job.run_id,
      graph_id: job.graph_id,
      assistant_id: job.assistant_id,
      ...forNodes,
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
    ...(callbacks.length > 0 ? { callbacks: [oneHandler(callbacks)] } : {}),
  } as StreamOptions;
}

/**
 * In mode `messages`, LangGraph gives the same id to all messages without an id that one node returns, so only the last one
 * remains in the state. This handler runs before LangGraph's and gives each message its own id.
 */
const messageIds: Callbacks = {
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

/** The answers of the client and those of the service. Null: the call that the run was made for has gone on without it. */
async function givenAnswers(steps: GraphSteps, job: Job, values: JobValues): Promise<Answers | null> {
  const continued = await steps.continued(values);
  if (continued === "gone") return null;
  const from = continued ? continued.job : job.resumed ? null : job;
  const { command, spent } = from ? await openAnswers(from, values) : noAnswers;
  if (!continued || Object.keys(continued.resume).length === 0) return { command, spent };
  const own = command?.resume ?? null;
  return { command: { ...command, resume: { ...(isObject(own) ? own : {}), ...continued.resume } }, spent };
}

/** The graph's input, and the graph that accepts it. */
function beginning(graph: Graph, job: Job, { command }: Answers): { readonly graph: Graph; readonly input: unknown } {
  if (!command && (job.resumed || job.command)) return { graph, input: null };
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

async function storedState(
  graph: Graph,
  saver: JobSaver,
  job: Job,
  show: (value: unknown) => Json,
): Promise<StateEvent> {
  saver.ended = true;
  // Without an id, LangGraph includes the writes of finished tasks of an interrupted step.
  const snapshot = await graph.getState({ configurable: { thread_id: job.thread_id } }, { subgraphs: false });
  const isInterrupted = snapshot.tasks.some(({ interrupts = [] }) => interrupts.length > 0);
  const state = threadState(snapshot, show, isInterrupted ? await saver.answerCounts(job.thread_id) : undefined);
  if (!state?.checkpoint) throw new Error("The graph ended without a checkpoint");
  return stateEvent(state.values, state.next, state.tasks, state.checkpoint.checkpoint_id);
}

function stateEvent(values: Json, next: readonly string[], tasks: readonly Task[], checkpoint_id: string): StateEvent {
  return { type: "state", values, next, tasks, checkpoint: { ns: "", checkpoint_id } };
}

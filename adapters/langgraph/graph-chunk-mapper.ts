/** Maps what LangGraph streams in one attempt to the events of the executor. */
import type { ExecutorEvent, Job, StateEvent } from "../../lib/executor/contract.ts";
import type { Json, JsonObject } from "../../lib/json.ts";
import { type Callbacks, createRunParents, type RunParents } from "./callbacks.ts";
import { type Chunk, ChunkReader, isInterruptChunk } from "./chunks.ts";
import { createChunkSerializer, hasProtocolEvents, StreamFrames } from "./frames.ts";
import type { Graph } from "./graph.ts";
import type { ModelUsageCollector } from "./model-usage.ts";
import { ProtocolEvents } from "./protocol-events.ts";
import type { CheckpointTuple } from "./saver.ts";
import { serializeMetadata, serializeValue } from "./serialize.ts";
import { needsSubgraphs } from "./stream-options.ts";

interface LangChainEvent {
  readonly event: string;
  readonly run_id: string;
  readonly tags?: readonly string[];
  readonly data?: { readonly chunk?: unknown };
}

export class GraphChunkMapper {
  /** True once the graph has raised an interrupt or stopped at a breakpoint. */
  isInterrupted = false;
  readonly #job: Job;
  readonly #usage: ModelUsageCollector;
  readonly #reader: ChunkReader;
  readonly #serializeChunk: (chunk: Chunk) => Json | undefined;
  readonly #frames: StreamFrames;
  readonly #protocol: ProtocolEvents | null;
  /** Null if LangGraph streams chunks, and not LangChain's events with chunks among them. */
  readonly #parents: RunParents | null;
  #rootState: unknown;
  #rootJson: Json | undefined;

  /** Creates a mapper. `graph` is the graph as its author compiled it. */
  constructor(job: Job, graph: Graph, usage: ModelUsageCollector) {
    this.#job = job;
    this.#usage = usage;
    this.#reader = new ChunkReader(needsSubgraphs(job), job.subgraphs);
    this.#serializeChunk = createChunkSerializer();
    this.#frames = new StreamFrames(job, this.#serializeChunk);
    this.#protocol = hasProtocolEvents(job) ? new ProtocolEvents(job, graph, this.#reader, this.#serializeChunk) : null;
    this.#parents = job.modes.has("events") ? createRunParents() : null;
  }

  /** The callbacks of the run that the mapper needs; empty if it needs none. */
  get callbacks(): Callbacks[] {
    const { modes, events, subgraphs } = this.#job;
    const needsCallers = events === "all" || (subgraphs && modes.has("tools"));
    return [
      ...(this.#parents ? [this.#parents.callbacks] : []),
      ...this.#frames.callbacks,
      ...(needsCallers ? [this.#reader.callbacks] : []),
      ...(this.#protocol?.callbacks ?? []),
    ];
  }

  /**
   * Maps one item of the stream to events: a chunk, or one of LangChain's events. Model calls that were counted meanwhile come
   * first. Yields nothing for a chunk that has only interrupts of `sleep` and `wait`. Also notes the root state, for the result
   * of the run.
   */
  *map(item: unknown): Generator<ExecutorEvent, void, undefined> {
    const event = this.#parents ? (item as LangChainEvent) : null;
    const streamedChunk = event ? this.#findChunk(event) : item;
    const chunk = streamedChunk === undefined ? null : this.#reader.read(streamedChunk);
    // The chunk has only interrupts of `sleep` and `wait`.
    if (streamedChunk !== undefined && !chunk) return;
    yield* this.#usage.drain();
    if (chunk) {
      this.#noteState(chunk);
      yield* this.#frames.mapPreceding(chunk);
    }
    if (event) yield* this.#toRawEvent(event, chunk);
    if (chunk) yield* this.#mapChunk(chunk);
  }

  /** Returns the values of the root graph, or undefined if it has streamed none. */
  rootValues(): Json | undefined {
    if (this.#rootState === undefined) return undefined;
    return this.#rootJson ?? serializeValue(this.#rootState);
  }

  /**
   * Emits a state that no execution has streamed, in mode `values` and as protocol events, if the job has these. `readTuple`
   * reads its checkpoint and is called only for protocol events.
   */
  async *mapStoredState(
    values: Json,
    readTuple: () => Promise<CheckpointTuple | undefined>,
  ): AsyncGenerator<ExecutorEvent, void, undefined> {
    const { modes, subgraphs } = this.#job;
    const namespace = subgraphs ? { namespace: [] } : {};
    if (modes.has("values")) yield { type: "stream", mode: "values", ...namespace, data: values };
    if (this.#protocol) yield* this.#protocol.mapStoredState(values, await readTuple());
  }

  /** Emits the ends of subgraphs and messages, and the results of transformers. */
  async *end(outcome: "completed" | "interrupted"): AsyncGenerator<ExecutorEvent, void, undefined> {
    yield* this.#frames.end(outcome);
    if (this.#protocol) yield* await this.#protocol.end(outcome);
  }

  /** True if `completeFromState` and `failProtocol` need the state after a failure. */
  get needsState(): boolean {
    return this.#frames.hasUnfinishedMessages || (this.#protocol?.needsState ?? false);
  }

  /** Returns the ends of the open subgraphs after a failure. */
  fail(error: unknown): ExecutorEvent[] {
    return this.#frames.fail(error);
  }

  /** Returns the unfinished messages that the state after a failure contains. */
  completeFromState(state: StateEvent | null): ExecutorEvent[] {
    return this.#frames.completeFromState(state?.values ?? null);
  }

  /** Returns the ends of subgraphs and messages after a failure, as protocol events. */
  failProtocol(error: unknown, state: StateEvent | null): ExecutorEvent[] {
    return this.#protocol?.fail(error, state) ?? [];
  }

  /** Keeps the state of the root graph as the last one, or notes that the graph was interrupted. */
  #noteState(chunk: Chunk): void {
    if (isRootState(chunk)) [this.#rootState, this.#rootJson] = [chunk.payload, undefined];
    else if (chunk.mode === "values" && isInterruptChunk(chunk)) this.isInterrupted = true;
  }

  /**
   * Emits stream events, then protocol events of the chunk. Keeps the JSON of a root state if a client sees it, so that it is not
   * serialized again for the result.
   */
  *#mapChunk(chunk: Chunk): Generator<ExecutorEvent, void, undefined> {
    const showsValues = this.#protocol !== null || this.#job.modes.has("values");
    if (showsValues && isRootState(chunk)) this.#rootJson = this.#serializeChunk(chunk);
    yield* this.#frames.map(chunk);
    if (this.#protocol) yield* this.#protocol.map(chunk);
  }

  /** Returns the chunk of the root graph in one of LangChain's events. */
  #findChunk({ event, run_id, data }: LangChainEvent): unknown {
    return event === "on_chain_stream" && run_id === this.#job.run_id ? data?.chunk : undefined;
  }

  /**
   * Returns LangChain's event for mode `events`; empty if it is hidden or clients do not see its chunk. Forgets the ancestors of
   * a run that ends.
   */
  #toRawEvent(event: LangChainEvent, chunk: Chunk | null): ExecutorEvent[] {
    const parents = this.#parents?.takeParents(event) ?? [];
    if (event.tags?.includes("langsmith:hidden")) return [];
    if (chunk && !this.#frames.isVisible(chunk)) return [];
    return [
      {
        type: "stream",
        mode: "events",
        data: { ...(serializeMetadata(event) as JsonObject), parent_ids: [...parents] },
      },
    ];
  }
}

const isRootState = (chunk: Chunk): boolean =>
  chunk.mode === "values" && chunk.namespace.length === 0 && !isInterruptChunk(chunk);

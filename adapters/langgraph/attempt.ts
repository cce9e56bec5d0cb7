/** Prepares an attempt of a run on a compiled graph. */
import type { Environment } from "../../lib/environment.ts";
import type { Job } from "../../lib/executor/contract.ts";
import { createCheckpointMetadata } from "../../lib/executor/job-request.ts";
import { loadSpanStorage } from "../../lib/functions/span-storage.ts";
import { StreamBackpressure } from "./backpressure.ts";
import { type CallbackManagerClass, createCallbackAdder } from "./callbacks.ts";
import { type Graph, type GraphSource, withSaver } from "./graph.ts";
import { GraphChunkMapper } from "./graph-chunk-mapper.ts";
import { collectResumeValues, NO_RESUME_VALUES } from "./graph-input.ts";
import { GraphSpans } from "./graph-spans.ts";
import { GraphWaits } from "./graph-waits.ts";
import { createInMemoryCheckpoints, inMemoryValues } from "./in-memory-checkpoints.ts";
import { JobSaver } from "./job-saver.ts";
import { ModelUsageCollector } from "./model-usage.ts";
import { NodeTracker } from "./node-tracker.ts";
import type { ResumeValues } from "./resume-values.ts";
import { createSingleThreadAccess } from "./saver.ts";
import type { Serde } from "./serde.ts";
import { trackGraph } from "./tracked-graph.ts";

/** The graphs and the serializer of an executor. */
export interface Host {
  /** Throws for an unknown graph. */
  source(graph_id: string): GraphSource;
  /** Loads the serializer, and the class of the callbacks of nodes. */
  langchain(): Promise<readonly [Serde, CallbackManagerClass]>;
}

export type AttemptEnvironment = Pick<Environment, "defer" | "now" | "log">;

/** The parts of one attempt. */
export interface GraphAttempt {
  readonly job: Job;
  /** The graph as its author compiled it. */
  readonly hostGraph: Graph;
  /** The prepared graph, with the saver of the job and nodes that the tracker counts. */
  readonly graph: Graph;
  /** Null if the durable call that the run was created for has continued without it. */
  readonly resumeValues: ResumeValues | null;
  /** True if no client reads the checkpoints after the run, so that they stay in memory. */
  readonly isInMemory: boolean;
  readonly saver: JobSaver;
  readonly waits: GraphWaits;
  readonly usage: ModelUsageCollector;
  readonly tracker: NodeTracker;
  /** The stream of LangGraph, once the graph has started. */
  readonly stream: StreamBackpressure;
  readonly mapper: GraphChunkMapper;
  /** Aborts when the run is stopped. */
  readonly runStopped: AbortSignal;
  /** Stops the graph alone, such as after a failed write. */
  readonly graphStop: AbortController;
  /** Aborts in both cases. */
  readonly anyStop: AbortSignal;
}

/**
 * Creates the graph, reads what a resumed run continues with, and returns the parts of an attempt. The graph does not run yet,
 * but ends of waits that have come are appended to the journal. Throws if the run was stopped meanwhile, if @langchain/core is
 * missing, and what `readResumeValues` throws.
 */
export async function prepareAttempt(
  { source, langchain }: Host,
  job: Job,
  runStopped: AbortSignal,
  environment: AttemptEnvironment,
): Promise<GraphAttempt> {
  const { configurable } = job.config;
  const hostGraph = await source(job.graph_id).createGraph({
    configurable,
    metadata: job.metadata,
    context: job.context,
  });
  const [serde, Manager] = await langchain();
  const storage = job.trace ? await loadSpanStorage() : null;
  runStopped.throwIfAborted();
  const waits = new GraphWaits(job, environment);
  const resumeValues = await collectResumeValues(waits, job, serde);
  const isInMemory = job.stateless && job.durability === "exit" && !job.resumed;
  const stream = new StreamBackpressure(isInMemory ? createInMemoryCheckpoints() : job.checkpoints, environment);
  const graphStop = new AbortController();
  const saver = new JobSaver(
    {
      threads: createSingleThreadAccess(job.thread_id, stream.createHandle()),
      serde: isInMemory ? inMemoryValues : serde,
      metadata: createCheckpointMetadata(job),
    },
    {
      run_id: job.run_id,
      isAnswerConsumed: (resumeValues ?? NO_RESUME_VALUES).isAnswerConsumed,
      signal: runStopped,
      onFailure: (error) => graphStop.abort(error),
    },
  );
  const anyStop = AbortSignal.any([runStopped, graphStop.signal]);
  const usage = new ModelUsageCollector();
  const { trace } = job;
  const hasCheckpoints = job.durability !== "exit";
  const spans = trace ? new GraphSpans({ trace, usage, stopped: anyStop, hasCheckpoints, storage }) : null;
  const tracker = new NodeTracker(anyStop, usage, createCallbackAdder(spans ?? usage, Manager, job.run_id), spans);
  const graph = withSaver(trackGraph(hostGraph), saver);
  const mapper = new GraphChunkMapper(job, hostGraph, usage);
  return {
    ...{ job, hostGraph, graph, resumeValues, isInMemory, saver, waits },
    ...{ usage, tracker, stream, mapper, runStopped, graphStop, anyStop },
  };
}

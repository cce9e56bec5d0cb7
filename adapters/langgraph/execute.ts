/** Executes an attempt of a run on a compiled graph: prepares it, maps what LangGraph streams, and ends it. */
import type { ExecutorEvent, Job, StateEvent } from "../../lib/executor/contract.ts";
import { type AttemptEnvironment, type GraphAttempt, type Host, prepareAttempt } from "./attempt.ts";
import { createRootConfig, readFinalState, readStoredState, toFinalEvent } from "./final-state.ts";
import { requireKnownNodes } from "./graph.ts";
import { finishOpenStep, toGraphInput } from "./graph-input.ts";
import { JobStore } from "./store.ts";
import { createStreamOptions, readFork } from "./stream-options.ts";
import { TRACKER_KEY } from "./tracked-graph.ts";
import { WAITS_KEY } from "./wait-interrupts.ts";

type Events = AsyncGenerator<ExecutorEvent, void, undefined>;

/**
 * Executes one attempt of the job. The events end with the state, unless the run is suspended. A failed graph first emits the
 * ends of open messages and subgraphs, then throws its error, or that of the failed checkpoint write behind it. Ends only when no
 * node of a stopped run is active.
 */
export async function* execute(host: Host, job: Job, signal: AbortSignal, environment: AttemptEnvironment): Events {
  const attempt = await prepareAttempt(host, job, signal, environment);
  let isStreamDone = false;
  try {
    const chunks = await openStream(attempt);
    // There is a chunk for each token, so this loop avoids the promises of `for await` and `yield*`.
    for (let result = chunks?.next(); result; result = chunks?.next()) {
      const chunk = result instanceof Promise ? await result : result;
      if (chunk.done) break;
      for (const event of attempt.mapper.map(chunk.value)) yield event;
    }
    isStreamDone = true;
    yield* chunks ? finish(attempt) : finishWithoutStream(attempt);
  } catch (error) {
    const cause = attempt.saver.failure ?? error;
    yield* fail(attempt, cause);
    throw cause;
  } finally {
    await close(attempt, isStreamDone);
  }
}

/**
 * Starts the graph and returns its stream. Returns null if there is nothing to run: the durable call has continued elsewhere, or
 * the command only goes to the end, which is then stored here. Throws if `goto` names an unknown node.
 */
async function openStream(attempt: GraphAttempt): Promise<GraphAttempt["stream"] | null> {
  const { job, hostGraph, resumeValues, saver, stream, anyStop } = attempt;
  const fork = await readFork(job);
  requireKnownNodes(hostGraph, resumeValues?.command?.goto);
  if (!resumeValues || (await finishOpenStep(resumeValues, { graph: attempt.graph, saver, job, fork }))) return null;
  const { graph, input } = toGraphInput(attempt.graph, job, resumeValues);
  const options = createStreamOptions(job, {
    signal: anyStop,
    callbacks: attempt.mapper.callbacks,
    configurable: { [WAITS_KEY]: attempt.waits, [TRACKER_KEY]: attempt.tracker, ...fork },
    // The store that a graph was compiled with may have data that the graph needs.
    ...(hostGraph.store ? {} : { store: new JobStore(job.store) }),
  });
  const streamsEvents = job.modes.has("events");
  stream.startReading(
    streamsEvents ? graph.streamEvents(input, { ...options, version: "v2" }) : await graph.stream(input, options),
  );
  return stream;
}

/**
 * Emits the events after the last chunk, and the state. A run that only sleeps or waits is suspended here and ends without a
 * state. Throws if a checkpoint write has failed.
 */
async function* finish(attempt: GraphAttempt): Events {
  const { job, mapper, saver, waits, usage } = attempt;
  yield* usage.drain();
  if (saver.failure !== undefined) throw saver.failure;
  const last = await readFinalState(attempt);
  const state = saver.isInterrupted ? await waits.endAttempt(last, saver, createRootConfig(job)) : last;
  if (!state) return;
  yield* mapper.end(state.next.length > 0 ? "interrupted" : "completed");
  yield toFinalEvent(attempt, state);
}

/**
 * Emits the stored state of a run in which nothing had to run, as if it had been streamed, then the state itself. Fixes
 * the saver's head. Throws if a checkpoint write has failed or no state is stored.
 */
async function* finishWithoutStream(attempt: GraphAttempt): Events {
  const { job, mapper, saver } = attempt;
  if (saver.failure !== undefined) throw saver.failure;
  saver.fixHead();
  const state = await readStoredState(attempt);
  yield* mapper.mapStoredState(state.values, () => saver.getTuple(createRootConfig(job)));
  yield toFinalEvent(attempt, state);
}

/**
 * Emits the model calls that were not yet counted, and the ends of open subgraphs and messages; no ends if the run was stopped.
 * Does not throw the cause itself. May read the stored state.
 */
async function* fail(attempt: GraphAttempt, cause: unknown): Events {
  const { mapper, usage, runStopped, anyStop } = attempt;
  yield* usage.drain();
  // A stopped run has no ends: its next attempt continues what is open.
  if (!runStopped.aborted) yield* mapper.fail(cause);
  // After a failed write the stored state may lack what was streamed.
  const state = mapper.needsState && !anyStop.aborted ? await readFailedState(attempt) : null;
  // A state counts only if nothing was stopped while it was read.
  if (!anyStop.aborted) yield* mapper.completeFromState(state);
  // The run may have been stopped during the read.
  if (!runStopped.aborted) yield* mapper.failProtocol(cause, state);
}

/**
 * Fixes the saver's head and reads the state after a failure. Resolves with null if there is none or the read fails.
 */
async function readFailedState(attempt: GraphAttempt): Promise<StateEvent | null> {
  attempt.saver.fixHead();
  return await readStoredState(attempt).catch(() => null);
}

/** Stops the graph and closes the saver, so that nothing is written later. Resolves when no node of a stopped run is active. */
async function close(
  { stream, saver, graphStop, tracker, runStopped }: GraphAttempt,
  isStreamDone: boolean,
): Promise<void> {
  if (!isStreamDone) {
    graphStop.abort(new Error("The execution ended"));
    await stream.close();
  }
  saver.close();
  // The run must not continue elsewhere while one of its nodes is still active.
  if (runStopped.aborted) await tracker.waitForIdle();
}

/** Executes the job of an attempt: pulls the executor's events, one at a time, until it ends, fails or is abandoned. */
import { nextTurn, pause } from "../environment.ts";
import type { ExecutorEvent } from "../executor/contract.ts";
import type { AttemptContext } from "./attempt-context.ts";

/** How long, and for how many events, the event loop may go without a turn. */
const BUSY_MS = 4;
const BUSY_EVENTS = 256;
/** How long an interrupt of a subgraph waits for its parent's, and how often while a save is under way. */
const INTERRUPT_MS = 50;
const INTERRUPT_WAITS = 20;
/** The limit of timers on all runtimes. */
const LONGEST_MS = 2 ** 31 - 1;

/** Throws what the executor throws. Returns early once the executor was abandoned. */
export async function executeJob(context: AttemptContext): Promise<void> {
  const { options, claimed, graph, state, checkpoints, progress } = context;
  const { environment } = options;
  if (state.reason) return;
  if (claimed.exhausted) {
    throw Object.assign(new Error(`The run was started ${claimed.run.attempt} times and never reached its end`), {
      name: "AttemptsExhausted",
    });
  }
  const timeout_ms = graph.timeout_ms ?? options.run_timeout_ms;
  const cancelTimeout = environment.timer(Math.min(timeout_ms, LONGEST_MS), () => context.stop("timed_out"));
  const releaseHeld = whenInterrupted(context);
  try {
    const iterator = options.executor.execute(context.job, state.abort.signal, environment)[Symbol.asyncIterator]();
    let turnedAt = environment.now();
    let taken = 0;
    while (true) {
      const pulled = pull(context, iterator);
      if (progress.hasHeldFrames()) void releaseHeld();
      const next = await pulled;
      if (!next || next.done) break;
      try {
        const taking = context.mapper.take(next.value);
        if (taking) await taking;
      } catch (error) {
        await stopExecutor(context, iterator, error);
        throw error;
      }
      if (checkpoints.isFull()) await progress.save();
      if (progress.isFull()) {
        // A graph may put the state of a frame later in the same turn of the event loop: they are stored together.
        await nextTurn(environment);
        await progress.flush();
      }
      if (++taken % BUSY_EVENTS === 0 || environment.now() - turnedAt >= BUSY_MS) {
        // Bytes leave only when the event loop turns.
        await nextTurn(environment);
        turnedAt = environment.now();
      }
    }
  } finally {
    cancelTimeout();
  }
}

/** The next event; null once the executor was abandoned. */
function pull(
  { state }: AttemptContext,
  iterator: AsyncIterator<ExecutorEvent>,
): Promise<IteratorResult<ExecutorEvent> | null> {
  return new Promise((resolve, reject) => {
    state.abandonWait = () => {
      resolve(null);
      (async () => iterator.return?.())().catch(() => {});
    };
    if (state.abandoned) state.abandonWait();
    else iterator.next().then(resolve, reject);
  });
}

/** Shows the held interrupt of a subgraph after a while. Its parent's follows unless another branch is at work. */
function whenInterrupted({ options, state, progress }: AttemptContext): () => Promise<void> {
  let waiting = false;
  return async () => {
    if (waiting) return;
    waiting = true;
    let waits = 0;
    do await pause(options.environment, INTERRUPT_MS);
    while (state.phase === "executing" && progress.isBehind() && ++waits < INTERRUPT_WAITS);
    waiting = false;
    if (state.phase === "executing" && !state.reason) progress.release();
  };
}

/** Stops an executor whose event is invalid. The run ends only after it has settled or was abandoned. */
function stopExecutor(
  { options, state, abandon_ms }: AttemptContext,
  iterator: AsyncIterator<ExecutorEvent>,
  error: unknown,
): Promise<void> {
  state.abort.abort(error);
  return new Promise((resolve) => {
    const cancel = options.environment.timer(abandon_ms, resolve);
    const returned = async (): Promise<unknown> => iterator.return?.();
    returned()
      .catch(() => {})
      .then(() => {
        cancel();
        resolve();
      });
  });
}

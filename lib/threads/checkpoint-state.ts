/** Reads the state of one checkpoint. */
import { type Environment, waitForNextTick } from "../environment.ts";
import { StateReadError } from "../errors.ts";
import type {
  CheckpointReader,
  GraphState,
  StateConfig,
  StateRef,
  StoredCheckpoint,
  ThreadState,
} from "../executor/contract.ts";
import type { createStateConfigLookup } from "../executor/job-request.ts";
import { recordedGraphState } from "../executor/recorded-states.ts";

/** A state with more characters gets one tick of the event loop for reading and one for parsing. */
export const LARGE_STATE_CHARS: number = 1024 * 1024;

/** The readers of the states of one thread. */
export interface ThreadReads {
  readonly environment: Pick<Environment, "defer">;
  readonly reader: CheckpointReader;
  readonly createConfigReader: ReturnType<typeof createStateConfigLookup>;
  /** Returns null for a graph that this service does not host. */
  findGraph(graph_id: string): GraphState | null;
}

/**
 * Reads a checkpoint with the graph that wrote it, as several graphs may have run on the thread; null if it does not exist. A
 * graph that is not hosted is read from what it recorded. If the graph cannot apply pending writes to the newest checkpoint, it
 * reads again without them. Throws `StateReadError` if the graph fails, and errors of the storage unchanged.
 */
export async function readState(
  { environment, reader, createConfigReader, findGraph }: ThreadReads,
  at: StateRef,
  subgraphs = false,
): Promise<ThreadState | null> {
  const stored = await reader.get(at);
  if (!stored) return null;
  if (countStoredChars(stored.values) > LARGE_STATE_CHARS) await waitForNextTick(environment);
  const { graph_id } = stored.metadata;
  const graph = (typeof graph_id === "string" && findGraph(graph_id)) || recordedGraphState;
  const config = createConfigReader(String(graph_id), stored.run_id);
  // A graph may fail to apply the pending writes of its head. Reading the checkpoint by its id leaves them out.
  const refs = at.checkpoint_id === undefined ? [at, { ...at, checkpoint_id: stored.checkpoint_id }] : [at];
  let failure: unknown;
  for (const ref of refs) {
    const { hasFailed, ...tracked } = trackFailures(reader, config);
    try {
      return await graph.get(ref, tracked.reader, { subgraphs, config: tracked.config });
    } catch (error) {
      if (hasFailed()) throw error;
      failure = error;
    }
  }
  throw new StateReadError("The state could not be read", { cause: failure });
}

export const countStoredChars = (values: StoredCheckpoint["values"]): number =>
  values.reduce((sum, { data }) => sum + data.length, 0);

/**
 * Wraps the reader and the configuration; the originals do not change. `hasFailed` returns true once one of their calls has
 * rejected, as opposed to the graph that calls them. Errors pass unchanged.
 */
export function trackFailures<Reader extends CheckpointReader>(
  reader: Reader,
  config: () => Promise<StateConfig>,
): { readonly reader: Reader; readonly config: () => Promise<StateConfig>; readonly hasFailed: () => boolean } {
  let failed = false;
  /** Notes that a call has failed, and rethrows its error. */
  const recordFailure = (error: unknown): never => {
    failed = true;
    throw error;
  };
  return {
    hasFailed: () => failed,
    config: () => config().catch(recordFailure),
    reader: {
      ...reader,
      get: (at) => reader.get(at).catch(recordFailure),
      async *list(at) {
        try {
          yield* reader.list(at);
        } catch (error) {
          recordFailure(error);
        }
      },
    },
  };
}

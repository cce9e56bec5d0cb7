/** Reads the state of one checkpoint. */
import type { CheckpointReader, StateConfig, StoredCheckpoint } from "../executor/contract.ts";

/** A state with more characters gets one tick of the event loop for reading and one for parsing. */
export const LARGE = 1024 * 1024;

export const storedSize = (values: StoredCheckpoint["values"]): number =>
  values.reduce((sum, { data }) => sum + data.length, 0);

/** Wraps the reader and the configuration. `failed` tells whether a call of theirs failed, as opposed to the graph. */
export function trackFailures<Reader extends CheckpointReader>(
  reader: Reader,
  config: () => Promise<StateConfig>,
): { readonly reader: Reader; readonly config: () => Promise<StateConfig>; readonly failed: () => boolean } {
  let failed = false;
  const note = (error: unknown): never => {
    failed = true;
    throw error;
  };
  return {
    failed: () => failed,
    config: () => config().catch(note),
    reader: {
      ...reader,
      get: (at) => reader.get(at).catch(note),
      async *list(at) {
        try {
          yield* reader.list(at);
        } catch (error) {
          note(error);
        }
      },
    },
  };
}

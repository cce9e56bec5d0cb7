/** Reads the result of a run that has ended from the store. */
import type { Environment } from "../environment.ts";
import { StateUnreadable } from "../errors.ts";
import type { ThreadState } from "../executor/contract.ts";
import type { Json } from "../json.ts";
import type { RunRow, Scope, Storage, ThreadRow } from "../storage/mod.ts";
import { waitResult } from "./terminal.ts";

export interface StoredResultOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  /** The state at a thread's head; null before the first run. Errors: StateUnreadable. */
  currentState(thread: ThreadRow): Promise<ThreadState | null>;
}

/** What wait and join answer for a run that ended before the call. */
export async function storedResult(options: StoredResultOptions, run: RunRow): Promise<Json> {
  const { storage, scope, environment } = options;
  const { run_id, thread_id } = run;
  if (run.error) return { __error__: run.error };
  if (run.temporary) return run.result ?? {};
  const thread = await storage.getThread(scope, thread_id);
  try {
    // Checkpoints of a run that is still active belong to that run, not to this one.
    const state = thread && (await options.currentState({ ...thread, running: null }));
    if (!state) return {};
    const writer = state.metadata?.["run_id"];
    const last = writer === run_id || typeof writer !== "string" ? run : await storage.getRun(scope, writer);
    return waitResult(state.values, state.next, state.interrupts as unknown as Json[], last?.status === "interrupted");
  } catch (error) {
    if (!(error instanceof StateUnreadable)) throw error;
    environment.log({ level: "error", message: "a state could not be read", run_id, thread_id, error });
    return { __error__: { error: "StateUnreadable", message: "The state could not be read" } };
  }
}

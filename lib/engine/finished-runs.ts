/** Calls the host's hook for finished runs. */
import { type Environment, waitForNextTick } from "../environment.ts";
import type { JsonObject } from "../json.ts";
import { formatIsoTime } from "../rfc3339.ts";
import type { RunRow, TerminalStatus } from "../storage/mod.ts";

/** A run that has ended. Times are ISO 8601, UTC. */
export interface FinishedRun {
  readonly run_id: string;
  readonly thread_id: string;
  readonly assistant_id: string;
  readonly graph_id: string;
  readonly status: TerminalStatus;
  readonly metadata: JsonObject;
  /** The number of attempts; 0 for a run that was cancelled before it started. */
  readonly attempt: number;
  readonly started_at: string | null;
  readonly ended_at: string;
  /** The error, `{error, message}`, if the run failed. */
  readonly error?: JsonObject;
}

type RunEnd = Pick<RunRow, "ended_at" | "error"> & { readonly status: TerminalStatus };

/** Calls the hook in a later tick of the event loop. Never throws. */
export type OnRunFinished = (run: RunRow, end: RunEnd) => void;

/**
 * Creates a function that calls the host's hook in a later tick and logs an error of it; it does nothing without a hook. `onCall`
 * receives the promise of each call, which never rejects.
 */
export function createRunFinishedHook(
  environment: Environment,
  hook: ((run: FinishedRun) => void | Promise<void>) | undefined,
  onCall: (call: Promise<void>) => void,
): OnRunFinished {
  return (run, { status, ended_at, error }) => {
    if (!hook) return;
    const { run_id, thread_id, assistant_id, graph_id, metadata, attempt, started_at } = run;
    const finished: FinishedRun = {
      run_id,
      thread_id,
      assistant_id,
      graph_id,
      status,
      metadata,
      attempt,
      started_at: formatIsoTime(started_at),
      ended_at: formatIsoTime(ended_at ?? environment.now()),
      ...(error ? { error } : {}),
    };
    onCall(
      // In a later tick, because a hook that blocks must not delay the subscribers of the run.
      waitForNextTick(environment)
        .then(() => hook(finished))
        .catch((thrown: unknown) => {
          environment.log({ level: "error", message: "onRunFinished failed", run_id, thread_id, error: thrown });
        }),
    );
  };
}

/** Runs the retention jobs, which delete or summarize old rows at intervals. */
import { type Environment, waitForNextTick } from "../environment.ts";

interface RetentionJobOptions {
  readonly environment: Environment;
  readonly interval_ms: number;
  /** The log message when the job fails. */
  readonly failure: string;
  /** Runs one batch of the job. It is called again until it returns 0. */
  step(): Promise<number>;
}

export interface RetentionJob {
  /** Resolves when the job has stopped. */
  stop(): Promise<void>;
}

/**
 * Starts a job that calls `step` until it deletes nothing, then again after `interval_ms`, also before the first pass. A failed
 * pass is logged, and the next one does its work. `stop()` waits for the running pass.
 */
export function startRetentionJob({ environment, interval_ms, failure, step }: RetentionJobOptions): RetentionJob {
  let stopped = false;
  let pass: Promise<void> = Promise.resolve();
  let cancel = (): void => {};

  /** Runs steps until one has nothing left, with a tick in between. A failure is logged and ends this pass. */
  async function run(): Promise<void> {
    try {
      while (!stopped && (await step()) > 0) await waitForNextTick(environment);
    } catch (error) {
      environment.log({ level: "error", message: failure, error });
    }
  }
  /** Schedules the next pass, which schedules the one after it, until the job is stopped. */
  function schedule(): void {
    cancel = environment.timer(interval_ms, () => {
      pass = run().then(() => {
        if (!stopped) schedule();
      });
    });
  }
  schedule();

  return {
    async stop() {
      stopped = true;
      cancel();
      await pass;
    },
  };
}

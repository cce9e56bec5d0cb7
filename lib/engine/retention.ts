/** Sweeps again and again: what is over goes, without anybody asking. */
import type { Environment } from "../environment.ts";

export interface SweeperOptions {
  readonly environment: Environment;
  readonly every_ms: number;
  /** What the log says of a sweep that fails. */
  readonly failure: string;
  /** A part of a sweep: it is called again while it gives another number than 0. */
  step(): Promise<number>;
}

export interface Sweeper {
  /** Resolves when nothing of it goes on any more. */
  stop(): Promise<void>;
}

/** Waits before the first sweep, and after each for the next one. A sweep that fails is logged, and the next one does its work. */
export function startSweeper({ environment, every_ms, failure, step }: SweeperOptions): Sweeper {
  let stopped = false;
  let sweeping: Promise<void> = Promise.resolve();
  let cancel = (): void => {};

  async function sweep(): Promise<void> {
    try {
      while (!stopped && (await step()) > 0) await new Promise<void>((resolve) => environment.defer(resolve));
    } catch (error) {
      environment.log({ level: "error", message: failure, error });
    }
  }
  function schedule(): void {
    cancel = environment.timer(every_ms, () => {
      sweeping = sweep().then(() => {
        if (!stopped) schedule();
      });
    });
  }
  schedule();

  return {
    async stop() {
      stopped = true;
      cancel();
      await sweeping;
    },
  };
}

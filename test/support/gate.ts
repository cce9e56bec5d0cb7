/** An agent that waits until the test lets it go on. */
import type { AgentFunction } from "../../lib/mod.ts";

export interface Gate {
  readonly agent: AgentFunction;
  reached(): Promise<void>;
  open(): void;
  reset(): void;
}

export function createGate(): Gate {
  let [reached, opened] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  return {
    async agent({ signal }) {
      reached.resolve();
      await new Promise<void>((resolve, reject) => {
        opened.promise.then(resolve);
        signal.addEventListener("abort", () => reject(signal.reason));
      });
      return "Through";
    },
    reached: () => reached.promise,
    open: () => opened.resolve(),
    reset() {
      [reached, opened] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    },
  };
}

/** Calls of durable functions as one caller may use them. */
import type { Binding } from "../auth/binding.ts";
import type { CallDirectory, Calls } from "./calls.ts";

/** What threads can do with their calls. */
export interface ThreadCalls {
  /** Sends an event to the open call of a thread. Errors: as `Calls.send`. */
  send: Calls["send"];
}

/** What runs can do with their calls. */
export interface RunCalls {
  /** Sends an event to the call of a run. Errors: as `Calls.send`. */
  send: Calls["sendToRun"];
  /** The journal of the call of a run. Errors: not_found. */
  steps: Calls["steps"];
}

export const threadCalls = ({ send }: Pick<Calls, "send">): ThreadCalls => ({ send });

export const runCalls = ({ sendToRun, steps }: Pick<Calls, "sendToRun" | "steps">): RunCalls => ({
  send: sendToRun,
  steps,
});

export function bindCalls(calls: CallDirectory, { authorize }: Binding): Calls {
  return {
    async send(thread_id, name, payload) {
      const { scope } = await authorize("threads:update", { thread_id });
      await calls.send(scope, thread_id, name, payload);
    },
    async sendToRun(thread_id, run_id, name, payload) {
      const { scope } = await authorize("threads:update", { thread_id, run_id });
      await calls.sendToRun(scope, thread_id, run_id, name, payload);
    },
    async steps(thread_id, run_id) {
      const { scope } = await authorize("threads:read", { thread_id, run_id });
      return await calls.steps(scope, thread_id, run_id);
    },
  };
}

import type { ExecutorEvent, Job } from "../../../lib/executor/contract.ts";
import { recordStates } from "../../../lib/executor/state-recorder.ts";
import type { Executor, Frame, Json, JsonObject } from "../../../lib/mod.ts";
import type { Faulty } from "../../support/faulty.ts";

export const ask = (assistant_id: string): { assistant_id: string; input: JsonObject } => ({ assistant_id, input: {} });

export const resumable = { stream_resumable: true, stream_mode: "custom" } as const;

/** Creates an executor of one graph `g` without own checkpoints. */
export function graph(
  execute: (job: Job, signal: AbortSignal) => AsyncIterable<ExecutorEvent>,
  info: { max_attempts?: number; timeout_ms?: number; abandon_ms?: number } = {},
): Executor {
  return { graphs: () => [{ graph_id: "g", ...info }], execute: recordStates(execute) };
}

export const custom = (data: Json): ExecutorEvent => ({ type: "stream", mode: "custom", data });

export const state = (values: Json, next: readonly string[] = []): ExecutorEvent => ({
  type: "state",
  values,
  next,
  tasks: [],
});

export const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve());
  });

export const hasState = async ({ storage }: Faulty, thread_id: string): Promise<boolean> =>
  (await storage.getCheckpoint({ deployment: "default" }, thread_id, { ns: "" })) !== null;

export const toPairs = (frames: readonly Frame[]): unknown[] =>
  frames.map(({ event, data }) => [event, JSON.parse(data)]);

export const ids = (frames: readonly Frame[]): unknown[] => frames.map(({ id }) => id);

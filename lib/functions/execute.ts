/** One attempt of a run on a function. */
import type { Environment } from "../environment.ts";
import type { ExecutorEvent, Job } from "../executor/contract.ts";
import type { AgentFunction } from "./agent.ts";
import { Call, RaisedInterrupt } from "./call.ts";
import { drive } from "./drive.ts";
import { functionJob, initialState, readHead } from "./initial-state.ts";

export async function* execute(
  agent: AgentFunction,
  job: Job,
  signal: AbortSignal,
  { uuid, defer }: Pick<Environment, "uuid" | "defer">,
): AsyncGenerator<ExecutorEvent> {
  const head = await readHead(job);
  signal.throwIfAborted();
  const initial = initialState(job, head, uuid);
  yield* initial.events;
  if (!initial.calls) return;
  const call = new Call(job, initial.values, initial.step, uuid);
  yield* call.begin();
  try {
    // Tokens come fast: the extra turn of the event loop is needed only while a step is held back.
    const turn = (then: () => void): void => (call.hasOpenStep() ? defer(then) : undefined);
    for await (const item of drive(agent, functionJob(job, head, initial.values, signal), signal, turn)) {
      if (item.kind === "custom") yield* call.emit(item.data);
      else if (item.kind === "usage") yield { type: "usage", ...item.usage };
      else if (item.kind === "waiting") yield* call.commitStep();
      else if (item.value instanceof RaisedInterrupt) return yield* call.pause(item.value);
      else if (item.kind === "yielded") yield* call.take(item.value);
      else return yield* call.finish(item.value);
    }
  } catch (error) {
    if (!signal.aborted) yield* call.fail(error);
    throw error;
  }
}

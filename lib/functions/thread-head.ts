/** Reads the state that a function continues from. */
import type { Job, StateEvent, StoredCheckpoint, Task } from "../executor/contract.ts";
import type { EventCoroutine } from "../executor/coroutine.ts";
import { listInterruptIds } from "../executor/job-request.ts";
import { FOREIGN_STATE_MESSAGE, parseRecordedState, readValues } from "../executor/recorded-states.ts";
import { isObject, type JsonObject } from "../json.ts";
import type { FunctionJob } from "./function-job.ts";
import type { DurableOperations } from "./operations.ts";

/** The job of a function before the driver adds its methods. */
export type BaseFunctionJob = Omit<
  FunctionJob,
  "emit" | "interrupt" | "spend" | "span" | "traceparent" | keyof DurableOperations
>;

/** A durable call that continues. `at` limits its journal to that many entries. */
export interface ContinuedCall {
  readonly call_id: string;
  readonly at?: number;
}

export interface ThreadHead {
  readonly values: JsonObject;
  readonly next: readonly string[];
  readonly tasks: readonly Task[];
  /** The step number of this state; −2 without a state, so that the first state gets −1. */
  readonly step: number;
  /** The ids of the interrupts that the run resumes or, without targets, of those that are pending. */
  readonly interrupt_ids: readonly string[];
  /** The tasks whose interrupts the run resumes. Asks are not among them: the journal stores their resume values. */
  readonly resumedTasks: readonly Task[];
  /** The active durable call. */
  readonly call: StateEvent["call"];
  /** The input that the agent continues with. */
  readonly input?: StateEvent["input"];
}

/** Returns the checkpoint from the cache, or reads it; null if there is none. */
function* readCheckpoint(
  { checkpoints }: Job,
  at: { readonly ns: string; readonly checkpoint_id?: string },
): EventCoroutine<StoredCheckpoint | null> {
  const cached = checkpoints.getCached?.(at);
  return cached === undefined ? ((yield checkpoints.get(at)) as StoredCheckpoint | null) : cached;
}

/**
 * Reads the state that a function starts from: the newest of the thread in a retry and without `from`, else `from`. Returns an
 * empty state, with step −2, for a new thread. Throws if `from` does not exist or another kind of graph has put the state.
 */
export function* readHead(job: Job): EventCoroutine<ThreadHead> {
  const { resumed, from } = job;
  // In a later attempt the newest state is this run's own, not the one it forked from.
  const stored = yield* readCheckpoint(job, resumed || !from ? { ns: "" } : from);
  if (!stored) {
    if (from && !resumed) throw new Error(`There is no checkpoint ${from.checkpoint_id}`);
    return { values: {}, next: [], tasks: [], step: -2, interrupt_ids: [], resumedTasks: [], call: undefined };
  }
  const {
    next,
    tasks,
    isSingleValue,
    call,
    input,
    asked: resumedTasks = [],
  } = parseRecordedState(stored) ?? throwForeignStateError();
  const values = readValues(stored, isSingleValue, throwForeignStateError);
  const answeredTasks = resumed ? resumedTasks : tasks.filter(({ interrupts }) => !call && interrupts.length > 0);
  return {
    values: isObject(values) ? values : throwForeignStateError(),
    next,
    tasks,
    step: typeof stored.metadata.step === "number" ? stored.metadata.step : -2,
    call,
    ...(input === undefined ? {} : { input }),
    interrupt_ids:
      (job.resume_targets && listInterruptIds(job.resume_targets)) ??
      tasks.flatMap(({ interrupts }) => interrupts.map(({ id }) => id)),
    resumedTasks: job.resume_targets?.length ? answeredTasks : [],
  };
}

function throwForeignStateError(): never {
  throw new Error(FOREIGN_STATE_MESSAGE);
}

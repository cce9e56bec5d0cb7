/** The state that a function continues from. */
import type { Job, StateEvent, StoredCheckpoint, Task } from "../executor/contract.ts";
import type { Coroutine } from "../executor/coroutine.ts";
import { FOREIGN_STATE, recordedParts, valuesOf } from "../executor/recorded-states.ts";
import { isObject, type JsonObject } from "../json.ts";
import type { FunctionJob } from "./call.ts";
import type { Verbs } from "./verbs.ts";

/** What the driver adds nothing to yet. */
export type DrivenJob = Omit<FunctionJob, "emit" | "interrupt" | "spend" | keyof Verbs>;

/** A call that goes on; `at`: as it was with so many entries. */
export interface ContinuedCall {
  readonly call_id: string;
  readonly at?: number;
}

export interface Head {
  readonly values: JsonObject;
  readonly next: readonly string[];
  readonly tasks: readonly Task[];
  /** The number of this state; −2 without one, so that the first state gets −1. */
  readonly step: number;
  /** The ids of the interrupts that the run answers, or of those that are open. */
  readonly interrupt_ids: readonly string[];
  /** The tasks whose interrupts the run answers, but those of asks: an answer to these is an entry of a journal. */
  readonly asked: readonly Task[];
  /** The open call of a durable function. */
  readonly call: StateEvent["call"];
}

function* checkpointAt(
  { checkpoints }: Job,
  at: { readonly ns: string; readonly checkpoint_id?: string },
): Coroutine<StoredCheckpoint | null> {
  const known = checkpoints.peek?.(at);
  return known === undefined ? ((yield checkpoints.get(at)) as StoredCheckpoint | null) : known;
}

export function* readHead(job: Job): Coroutine<Head> {
  const { resumed, from } = job;
  // In a later attempt the newest state is this run's own, not the one it forked from.
  const stored = yield* checkpointAt(job, resumed || !from ? { ns: "" } : from);
  if (!stored) {
    if (from && !resumed) throw new Error(`There is no checkpoint ${from.checkpoint_id}`);
    return { values: {}, next: [], tasks: [], step: -2, interrupt_ids: [], asked: [], call: undefined };
  }
  const { next, tasks, whole, call, asked = [] } = recordedParts(stored) ?? foreign();
  const values = valuesOf(stored, whole, foreign);
  const answeredTasks = resumed ? asked : tasks.filter(({ interrupts }) => !call && interrupts.length > 0);
  return {
    values: isObject(values) ? values : foreign(),
    next,
    tasks,
    step: typeof stored.metadata.step === "number" ? stored.metadata.step : -2,
    call,
    interrupt_ids:
      job.resume_targets?.flatMap(({ interrupt_id }) => interrupt_id ?? []) ??
      tasks.flatMap(({ interrupts }) => interrupts.map(({ id }) => id)),
    asked: job.resume_targets?.length ? answeredTasks : [],
  };
}

function foreign(): never {
  throw new Error(FOREIGN_STATE);
}

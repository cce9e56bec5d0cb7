/** The state that a function continues from. */
import type { Interrupt, Job, StateEvent, StoredCheckpoint, Task } from "../executor/contract.ts";
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
  /** The interrupts that were open when the run started, in its first attempt. */
  readonly interrupts: readonly Interrupt[];
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
    return { values: {}, next: [], tasks: [], step: -2, interrupts: [], call: undefined };
  }
  let first: StoredCheckpoint | null = stored;
  if (resumed && isObject(job.command?.resume ?? null)) {
    while (first?.run_id === job.run_id)
      first = first.parent_id === null ? null : yield* checkpointAt(job, { ns: "", checkpoint_id: first.parent_id });
  }
  const parts = recordedParts(stored) ?? foreign();
  const { next, tasks, whole, call } = parts;
  const before = first === stored ? parts : first && (recordedParts(first) ?? foreign());
  const values = valuesOf(stored, whole, foreign);
  return {
    values: isObject(values) ? values : foreign(),
    next,
    tasks,
    step: typeof stored.metadata.step === "number" ? stored.metadata.step : -2,
    call,
    interrupts: before ? before.tasks.flatMap((pending) => pending.interrupts) : [],
  };
}

function foreign(): never {
  throw new Error(FOREIGN_STATE);
}

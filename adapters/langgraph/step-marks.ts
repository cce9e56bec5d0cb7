/** Interrupts of `sleep` and `wait`, which the service answers: no client sees them. */
import type { Json, JsonObject } from "../../lib/json.ts";

/** Marks the value of such an interrupt. */
export const STEP = "__greenroom_step__";
/** Where nodes find the steps of their attempt, in `configurable`. */
export const STEPS = "__greenroom_steps";

/** What a node waits for. */
export interface AskedStep {
  readonly kind: "sleep" | "wait";
  readonly name: string;
  /** Milliseconds from the first appearance of a sleep, or of the timeout of a wait. */
  readonly ms?: number;
  /** The end of a sleep, in milliseconds since 1970. */
  readonly at?: number;
  readonly schema?: JsonObject;
  /** Names the wait that `begin` has opened. */
  readonly key?: string;
}

/** What the interrupt returns. */
export interface StepAnswer {
  readonly payload: Json;
}

export interface AskedInterrupt {
  readonly id?: string;
  readonly value?: unknown;
}

/** Null for an interrupt that clients answer. */
export function stepOf({ value }: AskedInterrupt): AskedStep | null {
  if (typeof value !== "object" || value === null) return null;
  return ((value as { readonly [STEP]?: AskedStep })[STEP] ?? null) as AskedStep | null;
}

/** The same list where it has none of them. */
export function omitStepInterrupts<Asked>(asked: readonly Asked[]): readonly Asked[] {
  const shown = asked.filter((one) => stepOf(one as AskedInterrupt) === null);
  return shown.length === asked.length ? asked : shown;
}

interface WithInterrupts {
  readonly interrupts?: readonly unknown[];
  readonly tasks?: readonly WithInterrupts[];
}

/** A task or a checkpoint as clients see it. */
export function shownTask<Given extends object>(given: Given): Given {
  const { interrupts = [], tasks = [] } = given as WithInterrupts;
  const asked = omitStepInterrupts(interrupts);
  const shown = tasks.map(shownTask);
  const isSame = asked === interrupts && shown.every((task, at) => task === tasks[at]);
  if (isSame) return given;
  return {
    ...given,
    ...(asked === interrupts ? {} : { interrupts: asked }),
    ...(tasks.length > 0 ? { tasks: shown } : {}),
  };
}

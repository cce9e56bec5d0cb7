/** Interrupts of `sleep` and `wait`, which the service answers: no client sees them. */
import type { Json, JsonObject } from "../../lib/json.ts";

/** Marks the value of such an interrupt. */
export const WAIT_MARKER = "__greenroom_step__";
/** Where nodes find the steps of their attempt, in `configurable`. */
export const WAITS_KEY = "__greenroom_steps";

/** What a node waits for. */
export interface WaitRequest {
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
export interface WaitResult {
  readonly payload: Json;
}

export interface GraphInterrupt {
  readonly id?: string;
  readonly value?: unknown;
}

/** Null for an interrupt that clients answer. */
export function findWaitRequest({ value }: GraphInterrupt): WaitRequest | null {
  if (typeof value !== "object" || value === null) return null;
  return ((value as { readonly [WAIT_MARKER]?: WaitRequest })[WAIT_MARKER] ?? null) as WaitRequest | null;
}

/** The same list where it has none of them. */
export function omitWaitInterrupts<Item>(interrupts: readonly Item[]): readonly Item[] {
  const visible = interrupts.filter((interrupt) => findWaitRequest(interrupt as GraphInterrupt) === null);
  return visible.length === interrupts.length ? interrupts : visible;
}

interface WithInterrupts {
  readonly interrupts?: readonly unknown[];
  readonly tasks?: readonly WithInterrupts[];
}

/** A task or a checkpoint as clients see it. */
export function omitWaitsOfTask<Visible extends object>(task: Visible): Visible {
  const { interrupts = [], tasks = [] } = task as WithInterrupts;
  const visibleInterrupts = omitWaitInterrupts(interrupts);
  const visibleTasks = tasks.map(omitWaitsOfTask);
  const isSame =
    visibleInterrupts === interrupts && visibleTasks.every((visibleTask, index) => visibleTask === tasks[index]);
  if (isSame) return task;
  return {
    ...task,
    ...(visibleInterrupts === interrupts ? {} : { interrupts: visibleInterrupts }),
    ...(tasks.length > 0 ? { tasks: visibleTasks } : {}),
  };
}

/** Interrupts of `sleep` and `wait`, which the service resumes. No client sees them. */
import type { Json, JsonObject } from "../../lib/json.ts";

/** The member that marks the value of such an interrupt. */
export const WAIT_MARKER = "__greenroom_step__";
/** The member of `configurable` with the waits of the attempt. */
export const WAITS_KEY = "__greenroom_steps";

/** A `sleep` or `wait` of a node. */
export interface WaitRequest {
  readonly kind: "sleep" | "wait";
  readonly name: string;
  /** The milliseconds from the first appearance of a sleep, or of the timeout of a wait. */
  readonly ms?: number;
  /** The end of a sleep, in milliseconds since 1970. */
  readonly at?: number;
  readonly schema?: JsonObject;
  /** The key of the wait that `begin` has opened. */
  readonly key?: string;
}

/** The resume value of the interrupt. */
export interface WaitResult {
  readonly payload: Json;
}

export interface GraphInterrupt {
  readonly id?: string;
  readonly value?: unknown;
}

/** Returns the request of an interrupt of `sleep` or `wait`; null for an interrupt that clients resume. */
export function findWaitRequest({ value }: GraphInterrupt): WaitRequest | null {
  if (typeof value !== "object" || value === null) return null;
  return ((value as { readonly [WAIT_MARKER]?: WaitRequest })[WAIT_MARKER] ?? null) as WaitRequest | null;
}

/**
 * Returns the interrupts without those of `sleep` and `wait`, which clients do not see; the same list if it has none.
 */
export function omitWaitInterrupts<Item>(interrupts: readonly Item[]): readonly Item[] {
  const visible = interrupts.filter((interrupt) => findWaitRequest(interrupt as GraphInterrupt) === null);
  return visible.length === interrupts.length ? interrupts : visible;
}

interface WithInterrupts {
  readonly interrupts?: readonly unknown[];
  readonly tasks?: readonly WithInterrupts[];
}

/**
 * Returns a task or a checkpoint as clients see it, without interrupts of `sleep` and `wait`, also in its tasks. The same object
 * if there are none.
 */
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

/** Applies a client's updates to the state of a graph of one node: its values, its tasks and whether the node is next. */
import { isObject, type Json, type JsonObject } from "../json.ts";
import { type StateUpdate, StateUpdateError, type ThreadState } from "./contract.ts";
import { applyUpdates } from "./messages.ts";

/** The names that graphs reserve for their entry and their exit. */
export const START = "__start__";
export const END = "__end__";
const INPUT = "__input__";
const COPY = "__copy__";

/** The state after the updates of one step, with the `source` of its checkpoint. */
interface ChangedState extends Pick<ThreadState, "next" | "tasks"> {
  readonly values: JsonObject;
  readonly source: "update" | "input" | "fork";
}

/**
 * Returns the state after updates in order; the last one decides `next`. `as_node` with the graph's name finishes the graph,
 * `__start__` and `__input__` make the node next, `__end__` nothing, and `__copy__` copies the state as a fork. Without
 * `as_node`, pending interrupts stay pending. Does not change `before`. Throws `StateUpdateError`.
 */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one pass over the updates, which decide values, next nodes and source together
export function changeState(
  before: Pick<ThreadState, "values" | "next" | "tasks"> | null,
  name: string,
  updates: readonly StateUpdate[],
  uuid: () => string,
): ChangedState {
  if (updates.some(({ as_node }) => as_node === COPY)) return copyState(before, updates);
  const state = before?.values ?? {};
  if (!isObject(state)) throw new StateUpdateError("values: this graph's state is not an object and cannot be changed");
  const changes: (readonly [JsonObject, "human" | "ai"])[] = [];
  let position: Pick<ThreadState, "next" | "tasks"> = before ?? { next: [name], tasks: [] };
  let source: ChangedState["source"] = "update";
  for (const update of updates) {
    const { as_node } = update;
    if (as_node !== undefined && ![name, START, INPUT, END].includes(as_node)) {
      throw new StateUpdateError(
        `as_node: the graph has no node ${JSON.stringify(as_node)}; its only node is ${JSON.stringify(name)}`,
      );
    }
    const isNodeNext =
      as_node === START || as_node === INPUT || (as_node === undefined && position.next.includes(name));
    for (const change of toChanges(update, name)) changes.push([change, isNodeNext ? "human" : "ai"]);
    const next = findNextNodes(update, name);
    if (next) position = { next, tasks: [] };
    if (as_node === INPUT) source = "input";
  }
  return { ...position, values: applyChanges(state, changes, uuid), source };
}

/**
 * Returns the state unchanged as a fork. Throws `StateUpdateError` with other updates, with values, or without a state to copy.
 */
function copyState(
  before: Pick<ThreadState, "values" | "next" | "tasks"> | null,
  updates: readonly StateUpdate[],
): ChangedState {
  if (updates.length > 1) throw new StateUpdateError(`as_node: ${COPY} must be the only update of its step`);
  if (updates[0]?.values) throw new StateUpdateError(`values: must be absent with ${COPY}`);
  if (!before || !isObject(before.values))
    throw new StateUpdateError(`as_node: ${COPY} needs a state to copy, and the thread has none`);
  const { next, tasks, values } = before;
  return { next, tasks, values, source: "fork" };
}

/**
 * Returns the next nodes after an update, or null if it does not change them. Throws `StateUpdateError` for an unknown node in
 * `goto`.
 */
function findNextNodes({ as_node, command }: StateUpdate, name: string): readonly string[] | null {
  const targets = (command?.goto ?? []).map((target) => (typeof target === "string" ? target : target.node));
  const unknownNode = targets.find((target) => target !== name && target !== END);
  if (unknownNode !== undefined) {
    throw new StateUpdateError(`command.goto: the graph has no node ${JSON.stringify(unknownNode)}`);
  }
  if (targets.length > 0) return targets.includes(name) ? [name] : [];
  if (as_node === undefined) return null;
  return as_node === START || as_node === INPUT ? [name] : [];
}

/**
 * Returns the changes of an update as a list of objects: its values, the command's update and the inputs of its `goto`. Throws
 * `StateUpdateError` for a resume value and for other types.
 */
function toChanges({ values, command }: StateUpdate, name: string): JsonObject[] {
  if (command?.resume !== undefined) throw new StateUpdateError("command.resume: only a run can answer an interrupt");
  const gotoInputs = (command?.goto ?? []).flatMap((target) =>
    typeof target === "string" || target.node !== name ? [] : [target.input],
  );
  const update = command?.update ?? null;
  const pairs = Array.isArray(update)
    ? (update as [string, Json][]).map((pair) => Object.fromEntries([pair]))
    : [update];
  const changes = [...(Array.isArray(values) ? values : [values]), ...pairs, ...gotoInputs].filter(
    (change) => change !== null,
  );
  if (changes.every(isObject)) return changes;
  throw new StateUpdateError("values: must be an object, a list of objects or null");
}

/** Returns the state with the changes applied. Throws a StateUpdateError for what cannot be applied. */
function applyChanges(state: JsonObject, changes: Parameters<typeof applyUpdates>[1], uuid: () => string): JsonObject {
  try {
    return applyUpdates(state, changes, uuid);
  } catch (error) {
    throw new StateUpdateError(`values: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}

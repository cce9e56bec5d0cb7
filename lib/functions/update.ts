/** Changes of a function's state that no run makes. */
import { type Send, StateRefused, type StateUpdate, type ThreadState } from "../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import { applyAll } from "./state.ts";

const START = "__start__";
const INPUT = "__input__";
const END = "__end__";
const COPY = "__copy__";

/** A state that updates of one step lead to, and what its checkpoint says of where it comes from. */
export interface Changed extends Pick<ThreadState, "next" | "tasks"> {
  readonly values: JsonObject;
  readonly source: "update" | "input" | "fork";
}

/**
 * What updates make of a state, one after the other; the last one says what is next. As the node they finish the graph, as
 * `__start__` and `__input__` the node is next, as `__end__` nothing. Without a node a question that is open stays open, a
 * state that waits goes on waiting, and where there was no state yet the node is next. Errors: StateRefused.
 */
export function changeState(
  before: Pick<ThreadState, "values" | "next" | "tasks"> | null,
  name: string,
  updates: readonly StateUpdate[],
  uuid: () => string,
): Changed {
  if (updates.some(({ as_node }) => as_node === COPY)) return copied(before, updates);
  const held = before?.values ?? {};
  if (!isObject(held)) throw new StateRefused("values: the state of this graph is not an object and cannot be changed");
  const changes: (readonly [JsonObject, "human" | "ai"])[] = [];
  let place: Pick<ThreadState, "next" | "tasks"> = before ?? { next: [name], tasks: [] };
  let source: Changed["source"] = "update";
  for (const update of updates) {
    const { as_node } = update;
    if (as_node !== undefined && ![name, START, INPUT, END].includes(as_node)) {
      throw new StateRefused(
        `as_node: the graph has no node ${JSON.stringify(as_node)}; its only node is ${JSON.stringify(name)}`,
      );
    }
    const ahead = as_node === START || as_node === INPUT || (as_node === undefined && place.next.includes(name));
    for (const change of changesOf(update, name)) changes.push([change, ahead ? "human" : "ai"]);
    const next = nextOf(update, name);
    if (next) place = { next, tasks: [] };
    if (as_node === INPUT) source = "input";
  }
  return { ...place, values: applied(held, changes, uuid), source };
}

function copied(
  before: Pick<ThreadState, "values" | "next" | "tasks"> | null,
  updates: readonly StateUpdate[],
): Changed {
  if (updates.length > 1) throw new StateRefused(`as_node: ${COPY} stands alone in its step`);
  if (updates[0]?.values) throw new StateRefused(`values: none may be given with ${COPY}`);
  if (!before || !isObject(before.values)) throw new StateRefused(`as_node: there is no state that ${COPY} could copy`);
  const { next, tasks, values } = before;
  return { next, tasks, values, source: "fork" };
}

/** Null: as it was. */
function nextOf({ as_node, command }: StateUpdate, name: string): readonly string[] | null {
  const targets = (command?.goto ?? []).map(nodeOf);
  const stranger = targets.find((target) => target !== name && target !== END);
  if (stranger !== undefined) {
    throw new StateRefused(`command.goto: the graph has no node ${JSON.stringify(stranger)}`);
  }
  if (targets.length > 0) return targets.includes(name) ? [name] : [];
  if (as_node === undefined) return null;
  return as_node === START || as_node === INPUT ? [name] : [];
}

const nodeOf = (target: string | Send): string => (typeof target === "string" ? target : target.node);

function changesOf({ values, command }: StateUpdate, name: string): JsonObject[] {
  if (command?.resume !== undefined) throw new StateRefused("command.resume: only a run answers an interrupt");
  const sent = (command?.goto ?? []).flatMap((target) =>
    typeof target === "string" || target.node !== name ? [] : [target.input],
  );
  const update = command?.update ?? null;
  const pairs = Array.isArray(update)
    ? (update as [string, Json][]).map((pair) => Object.fromEntries([pair]))
    : [update];
  const changes = [...(Array.isArray(values) ? values : [values]), ...pairs, ...sent].filter(
    (change) => change !== null,
  );
  if (changes.every(isObject)) return changes;
  throw new StateRefused("values: must be an object, a list of objects or null");
}

function applied(state: JsonObject, changes: Parameters<typeof applyAll>[1], uuid: () => string): JsonObject {
  try {
    return applyAll(state, changes, uuid);
  } catch (error) {
    throw new StateRefused(`values: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}

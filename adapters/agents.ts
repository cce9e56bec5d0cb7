/** Tells plain functions and LangGraph.js graphs apart. The LangGraph adapter is loaded only for graphs. */
import { type AgentEntry, type AgentFunction, type Executor, fromFunctions } from "../lib/mod.ts";
import type { GraphEntry, GraphLike, LangGraphOptions } from "./langgraph/mod.ts";

/**
 * An agent: a function, or a LangGraph.js graph. `{ agent: function }` and `{ graph }` add settings such as `max_attempts`.
 * A function that makes a graph for each run (a factory) is always given as `{ graph: function }`.
 */
export type Agent = AgentFunction | AgentEntry | GraphLike | GraphEntry;

type Entry = AgentEntry | GraphEntry;

/** The largest value of each setting: what the engine accepts as a count, and as a timer. */
const LARGEST: Readonly<Record<string, number>> = {
  max_attempts: 1e9,
  timeout_ms: 2 ** 31 - 1,
  abandon_ms: 2 ** 31 - 1,
};

/** What is wrong with the settings of an agent, each by its key. Unknown keys are not among them. */
export function problemsOfSettings(
  settings: Readonly<Record<string, unknown>>,
): readonly (readonly [string, string])[] {
  return Object.entries(settings).flatMap(([name, value]): [string, string][] => {
    const largest = LARGEST[name];
    if (value === undefined) return [];
    if (name === "description") {
      return typeof value === "string" && value.isWellFormed() ? [] : [[name, "must be a text"]];
    }
    if (largest === undefined) return [];
    const fits = Number.isInteger(value) && (value as number) >= 1 && (value as number) <= largest;
    return fits ? [] : [[name, `must be a whole number from 1 to ${largest}`]];
  });
}

/** Every setting that may stand beside `agent` or `graph`. */
export const SETTINGS: readonly string[] = ["description", ...Object.keys(LARGEST)];

/** An executor for one agent. Rejects with a message for the user when the value is no agent. */
export async function agentExecutor(graph_id: string, agent: unknown, options?: LangGraphOptions): Promise<Executor> {
  const entry = entryOf(agent);
  if ("agent" in entry) return fromFunctions({ [graph_id]: { ...entry, agent: checked(entry.agent) } });
  const { langgraph } = await import("./langgraph/mod.ts");
  return langgraph({ [graph_id]: entry }, options);
}

/** The agent with its settings. Throws a TypeError for a value that cannot be one. */
export function entryOf(agent: unknown): Entry {
  if (typeof agent === "function") return { agent: agent as AgentFunction };
  if (typeof agent !== "object" || agent === null) throw new TypeError(NO_AGENT);
  const { agent: fn, graph } = agent as { readonly agent?: unknown; readonly graph?: unknown };
  // Compiled graphs and agents of LangChain are class instances. What describes one is a plain object.
  if (!isPlain(agent)) return { graph: agent as GraphLike };
  if (fn !== undefined && graph !== undefined) throw new TypeError("give agent or graph, not both");
  if (typeof fn === "function" || graph !== undefined) return agent as Entry;
  if ("compile" in agent || "lg_is_pregel" in agent) return { graph: agent as GraphLike };
  throw new TypeError(NO_AGENT);
}

const NO_AGENT =
  "is neither a function nor a LangGraph.js graph. Give a function, a graph, { agent: function } or { graph: graph or factory }";

/** True for `{ … }`, also of another realm. */
export function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value) as object | null;
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** A factory that was given as an agent would fail each run with a riddle: this says what to write. */
function checked(agent: AgentFunction): AgentFunction {
  const refuseGraph = (result: unknown): unknown => {
    if (typeof result !== "object" || result === null || !("lg_is_pregel" in result)) return result;
    throw new TypeError(
      'The function returns a LangGraph.js graph: it is a factory. Write { graph: factory }, or "factory": true in greenroom.json',
    );
  };
  return (job) => {
    const result = agent(job);
    return result instanceof Promise ? result.then(refuseGraph) : refuseGraph(result);
  };
}

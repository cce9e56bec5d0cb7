/** Tells plain functions and LangGraph.js graphs apart. The LangGraph adapter is loaded only for graphs. */
import type { AgentSettings, GraphInfo } from "../lib/executor/contract.ts";
import { mergeSettings } from "../lib/functions/agent.ts";
import {
  type AgentDefinition,
  type AgentFunction,
  type AgentWithSettings,
  ConfigError,
  type Executor,
  fromFunctions,
  type ServiceOptions,
  validateOptions,
} from "../lib/mod.ts";
import type { Storage } from "../lib/storage/types.ts";
import { flag, integerBetween, type Section, strictSection, stringEnum, stringMatching } from "../lib/validation.ts";
import type { GraphDefinition, GraphLike, LangGraphOptions } from "./langgraph/mod.ts";

export type {
  CompiledGraph,
  FactoryConfig,
  GraphBuilder,
  GraphDefinition,
  GraphFactory,
  GraphLike,
  LangGraphOptions,
} from "./langgraph/mod.ts";

/**
 * An agent: a function, or a LangGraph.js graph. `{ agent }` and `{ graph }` add settings such as `max_attempts`.
 * A function that makes a graph for each run (a factory) is always given as `{ graph: function }`.
 */
export type AnyAgent = AgentFunction | AgentDefinition | AgentWithSettings | GraphLike | GraphDefinition;

/** Agents by name. */
export type Agents = Readonly<Record<string, AnyAgent>>;

/** An agent or a graph with its settings. */
export type HostedDefinition = AgentDefinition | GraphDefinition;

/** The longest time of a timer. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The settings that may stand beside `agent` or `graph`. */
export const AGENT_SETTINGS: Record<keyof AgentSettings, Section["members"][string]> = {
  description: stringMatching((value) => value.isWellFormed(), "must be a text"),
  max_attempts: integerBetween(1, 1e9),
  timeout_ms: integerBetween(1, MAX_TIMER_MS),
  abandon_ms: integerBetween(1, MAX_TIMER_MS),
  resume: stringEnum(["by_id"]),
  mcp: strictSection({ model_may_answer: flag }),
  a2a: strictSection({ caller_may_approve: flag }),
};

/**
 * Returns the problems that `createService` would report, except for `storage`, which is opened last, and for keys in `knownProblems`.
 * `names` are all agents, also those that cannot be hosted. `rename` replaces the keys of a problem with those of the user.
 */
export function findSettingsProblems(
  settings: Omit<ServiceOptions, "storage">,
  names: readonly string[],
  knownProblems: readonly string[],
  rename: (problem: string) => string,
): readonly string[] {
  const infos = settings.executor.graphs();
  const missing = names.filter((name) => !infos.some(({ graph_id }) => graph_id === name));
  const graphs = (): readonly GraphInfo[] => [...infos, ...missing.map((graph_id): GraphInfo => ({ graph_id }))];
  const toProblemKey = (problem: string): string => problem.replace(/:.*$/s, "");
  const keys = new Set(["storage", ...knownProblems.map(toProblemKey)]);
  try {
    validateOptions({ ...settings, storage: {} as Storage, executor: { ...settings.executor, graphs } });
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.problems.map(rename).filter((problem) => !keys.has(toProblemKey(problem)));
  }
}

/**
 * Creates an executor for one agent. Imports LangGraph only for a graph. A function that turns out to create graphs
 * fails its run. Rejects with a message for the user if the value is no agent.
 */
export async function createAgentExecutor(
  graph_id: string,
  agent: unknown,
  options?: LangGraphOptions,
): Promise<Executor> {
  const definition = toAgentDefinition(agent);
  if ("agent" in definition)
    return fromFunctions({ [graph_id]: { ...definition, agent: rejectFactories(definition.agent) } });
  const { langgraph } = await import("./langgraph/mod.ts");
  return langgraph({ [graph_id]: definition }, options);
}

/**
 * Returns the agent with its settings: an object that has `agent` or `graph` as it is, with the settings of an agent of `agent()`
 * beside its own, a function as `agent`, and a
 * compiled graph, a builder or another class instance as `graph`, without a check. Throws a TypeError for other values.
 */
export function toAgentDefinition(agent: unknown): HostedDefinition {
  if (typeof agent === "function") return { agent: agent as AgentFunction };
  if (typeof agent !== "object" || agent === null) throw new TypeError(NOT_AN_AGENT);
  const { agent: agentFunction, graph } = agent as { readonly agent?: unknown; readonly graph?: unknown };
  // Compiled graphs and agents of LangChain are class instances. What describes one is a plain object.
  if (!isPlainObject(agent)) return { graph: agent as GraphLike };
  if (agentFunction !== undefined && graph !== undefined) throw new TypeError("give agent or graph, not both");
  if (graph !== undefined) return agent as GraphDefinition;
  const definition = mergeSettings(agent as AgentDefinition | AgentWithSettings);
  if (typeof definition.agent === "function") return definition;
  if ("compile" in agent || "lg_is_pregel" in agent) return { graph: agent as GraphLike };
  throw new TypeError(NOT_AN_AGENT);
}

const NOT_AN_AGENT =
  "is neither a function nor a LangGraph.js graph. Give a function, a graph, { agent: function } or { graph: graph or factory }";

/** Returns true for an object that is no class instance, such as `{ … }`, also of another realm. */
function isPlainObject(value: object): boolean {
  const prototype = Object.getPrototypeOf(value) as object | null;
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

const FACTORY_WITHOUT_GRAPH =
  'The function returns a LangGraph.js graph: it is a factory. Write { graph: factory }, or "factory": true in greenroom.json';

/** The end of the code of a function whose last word is a new graph. No agent returns what `compile()` does. */
const RETURNS_GRAPH =
  /(?:\breturn\b|=>)[^;]*?(?:\.compile|\bcreate(?:React)?Agent)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\s*;?\s*\}?$/;

/**
 * Returns a function that calls the agent and refuses a graph as its result, because a factory of graphs was given as
 * an agent. Throws a TypeError at once if the code of the function shows that. Nothing is called to find out.
 */
function rejectFactories(agent: AgentFunction): AgentFunction {
  const isGenerator = /Generator/.test(Object.prototype.toString.call(agent));
  if (!isGenerator && RETURNS_GRAPH.test(Function.prototype.toString.call(agent)))
    throw new TypeError(FACTORY_WITHOUT_GRAPH);
  /** Returns the result as it is. Throws a TypeError for a graph or a builder. */
  const refuseGraph = (result: unknown): unknown => {
    if (typeof result !== "object" || result === null) return result;
    if ("lg_is_pregel" in result || ("compile" in result && "addNode" in result))
      throw new TypeError(FACTORY_WITHOUT_GRAPH);
    return result;
  };
  return (job) => {
    const result = agent(job);
    return result instanceof Promise ? result.then(refuseGraph) : refuseGraph(result);
  };
}

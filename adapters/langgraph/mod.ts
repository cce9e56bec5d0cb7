/**
 * An executor for compiled LangGraph.js graphs. Imports nothing of LangGraph, because the user's copy must be used.
 * @module
 */
import { ConfigError } from "../../lib/errors.ts";
import type { Check, GraphsOf } from "../../lib/executor/agent-types.ts";
import type { Executor, GraphInfo } from "../../lib/executor/contract.ts";
import { findUnknownMembers, findUnknownSettings } from "../../lib/executor/option-names.ts";
import type { Host } from "./attempt.ts";
import type { CallbackManagerClass } from "./callbacks.ts";
import { execute } from "./execute.ts";
import {
  createGraphSource,
  type GraphDefinition,
  type GraphFactory,
  type GraphLike,
  type GraphSource,
  isDefinition,
} from "./graph.ts";
import { findContextSchema } from "./schemas.ts";
import { type MessageClasses, Serde } from "./serde.ts";
import { createGraphState } from "./state.ts";
import { importLangChain, readLangGraphVersion } from "./version.ts";

export type * from "../../lib/executor/mod.ts";
export type { SpanOptions } from "../../lib/functions/function-job.ts";
export type { CompiledGraph, FactoryConfig, GraphBuilder, GraphDefinition, GraphFactory, GraphLike } from "./graph.ts";
export { span } from "./span.ts";
export { type TracedJob, type TraceHandler, traceHandler } from "./trace-handler.ts";

/** The options of the adapter. */
export interface LangGraphOptions {
  /**
   * Imports a module of the LangChain packages that the graphs use: `@langchain/core/messages`, `@langchain/core/callbacks/manager`, and for
   * the version in `GET /info` `@langchain/langgraph/pregel` and `@langchain/langgraph/package.json`. Default: the import of `greenroom/langgraph`
   * itself. Needed if the graphs are in a folder with its own packages.
   */
  readonly resolve?: (specifier: string) => Promise<unknown>;
}

/** The types of hosted graphs. A function is a factory here. */
export type HostedGraphs<Hosted> = GraphsOf<{
  readonly [Name in keyof Hosted]: Hosted[Name] extends (...config: never) => unknown
    ? { readonly graph: Hosted[Name] }
    : Hosted[Name];
}>;

/** Graphs by name, each as it is or with an `AgentError` in its place if it has an unknown setting. */
export type CheckedGraphs<Hosted> = Hosted & {
  readonly [Name in keyof Hosted]: Hosted[Name] extends (...config: never) => unknown
    ? Hosted[Name]
    : Check<Hosted[Name]>;
};

/**
 * Hosts LangGraph.js graphs: compiled graphs, builders, or functions that create one from the run's configuration (called for
 * each run). The service stores their state, whatever saver they were compiled with, and does not change the objects. A graph
 * that was compiled with a store keeps it; every other one gets the service's store. Throws a TypeError for a value that is no
 * graph, and a ConfigError for unknown settings and options. LangChain is imported at the first run: if that fails, the run fails, and the next one tries again.
 * @example
 * ```ts
 * import { langgraph } from "greenroom/langgraph";
 *
 * const executor = langgraph({ support: graph, slow: { graph, timeout_ms: 60_000, max_attempts: 1 } });
 * ```
 */
export function langgraph<Hosted extends Readonly<Record<string, GraphLike | GraphFactory | GraphDefinition>>>(
  graphs: CheckedGraphs<Hosted>,
  options: LangGraphOptions = {},
): Executor<HostedGraphs<Hosted>> {
  const problems = [
    ...Object.entries<unknown>(graphs).flatMap(([graph_id, graph]) =>
      isDefinition(graph) ? findUnknownSettings(graph, ["graph"], `langgraph: ${graph_id}`) : [],
    ),
    ...findUnknownMembers(options, ["resolve"], "langgraph: options"),
  ];
  if (problems.length > 0) throw new ConfigError(problems);
  const load = options.resolve ?? importLangChain;
  const sources = new Map(
    Object.entries<GraphLike | GraphFactory | GraphDefinition>(graphs).map(
      ([graph_id, graph]): [string, GraphSource] => [graph_id, createGraphSource(graph_id, graph)],
    ),
  );
  const infos = [...sources].map(([graph_id, { definition, fixedGraph }]): GraphInfo => {
    const { graph: _graph, ...settings } = definition;
    const context = fixedGraph && findContextSchema(fixedGraph);
    return {
      ...{ ...settings, graph_id, resumes_on_retry: true, protocol_events: true },
      ...(context ? { schemas: { context } } : {}),
    };
  });
  let loading: Promise<readonly [Serde, CallbackManagerClass]> | undefined;
  /**
   * Imports LangChain once, and resolves with the serializer of stored values and the class of callback managers.
   * Rejects if that fails, and then the next call tries again.
   */
  const langchain: Host["langchain"] = () => {
    loading ??= Promise.all([load("@langchain/core/messages"), load("@langchain/core/callbacks/manager")]).then(
      ([messages, manager]) => [
        new Serde(messages as MessageClasses),
        (manager as { readonly CallbackManager: CallbackManagerClass }).CallbackManager,
      ],
      (error: unknown) => {
        loading = undefined;
        throw new Error("Cannot import @langchain/core, which stored messages need. Install it beside the graphs", {
          cause: error,
        });
      },
    );
    return loading;
  };
  const requireSource = (graph_id: string): GraphSource => {
    const graphSource = sources.get(graph_id);
    if (!graphSource) throw new Error(`Graph ${graph_id} not found`);
    return graphSource;
  };
  let version: Promise<string | undefined> | undefined;
  return {
    graphs: () => infos,
    /**
     * Resolves with the version of LangGraph as `langgraph_js_version`; without the member if it is unknown. Reads it
     * once.
     */
    async versions() {
      version ??= readLangGraphVersion(
        [...sources.values()].flatMap(({ fixedGraph }) => fixedGraph ?? []),
        load,
      );
      const langgraph_js_version = await version;
      return langgraph_js_version === undefined ? {} : { langgraph_js_version };
    },
    execute: (job, signal, environment) => execute({ source: requireSource, langchain }, job, signal, environment),
    state: (graph_id) => createGraphState(requireSource(graph_id), async () => (await langchain())[0], load),
  };
}

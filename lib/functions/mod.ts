/** Hosts plain functions as graphs of one node. */
import { ConfigError } from "../errors.ts";
import type { CheckedAgents, GraphsOf } from "../executor/agent-types.ts";
import type { Executor } from "../executor/contract.ts";
import { findUnknownSettings } from "../executor/option-names.ts";
import { createRecordedGraphState } from "../executor/recorded-states.ts";
import { END, START } from "../executor/state-changes.ts";
import { recordCoroutine } from "../executor/state-recorder.ts";
import { type Agent, type AgentDefinition, type AgentWithSettings, mergeSettings } from "./agent.ts";
import type { AgentFunction } from "./function-job.ts";

export * from "./agent.ts";
export type * from "./function-job.ts";
export type * from "./operations.ts";

type Execute = typeof import("./execute.ts").execute;
let execute: Execute | undefined;

/**
 * Creates an executor of plain functions; each is a graph with one node, both named by its key. Throws a ConfigError for a value
 * that is no function, and for a reserved name.
 *
 * - Input that is an object updates the state as a yielded object does, except that a string in `messages` is a `human`
 *   message; any other input becomes the value `input` of the state. Without input and command the function is called on the state as it is.
 * - `command.update` (an object or a list of [key, value]) is applied like input. `goto` takes the function's own name (the
 *   input of a `Send` is applied too) and `__end__`, which ends the run without a call; other names fail the run.
 * - `interrupt_before` stops before the call; a run without input continues from there. `interrupt_after` has no effect: after
 *   the only node the graph has finished.
 * - A later attempt of a run calls the function again from its start, on the state that was stored last.
 *
 * Throws a ConfigError with all problems for a value that is no function, a reserved name and unknown settings.
 *
 * @example
 * ```ts
 * import { fromFunctions } from "greenroom";
 *
 * const executor = fromFunctions({
 *   async *echo({ messages }) {
 *     yield `You said ${messages.at(-1)?.content}`;
 *   },
 *   slow: { agent: async ({ signal }) => fetch("https://example.com", { signal }).then((r) => r.text()), timeout_ms: 5_000 },
 * });
 * ```
 */
export function fromFunctions<
  Hosted extends Readonly<Record<string, AgentFunction | AgentDefinition | AgentWithSettings>>,
>(agents: CheckedAgents<Hosted>): Executor<GraphsOf<Hosted>> {
  const definitions = new Map(
    Object.entries<AgentFunction | AgentDefinition | AgentWithSettings>(agents).map(
      ([name, agent]): [string, AgentDefinition] => [
        name,
        typeof agent === "function" || !agent ? { agent: agent } : mergeSettings(agent),
      ],
    ),
  );
  const problems = [...definitions].flatMap(([name, definition]) => findDefinitionProblems(name, definition));
  if (problems.length > 0) throw new ConfigError(problems);
  return {
    graphs: () =>
      [...definitions].map(([graph_id, { agent: _agent, strict: _strict, "~schemas": schemas, ...settings }]) => ({
        ...settings,
        graph_id,
        ...(schemas ? { schemas } : {}),
      })),
    state: (graph_id) => {
      const schemas = definitions.get(graph_id)?.["~schemas"];
      return schemas ? createRecordedGraphState(schemas) : null;
    },
    execute: (job, signal, environment) => {
      const definition = definitions.get(job.graph_id);
      return recordCoroutine(job, signal, environment, (recordedJob) =>
        (definition && execute ? execute : loadAndExecute)(
          definition as AgentDefinition,
          recordedJob,
          signal,
          environment,
        ),
      );
    },
  };
}

/** Returns what is wrong with an agent, as texts: its name, a value that is no function, unknown settings. */
function findDefinitionProblems(name: string, definition: AgentDefinition | null | undefined): readonly string[] {
  const label = `fromFunctions: ${name}`;
  if (typeof definition?.agent !== "function") return [`${label} must be a function`];
  if (name === START || name === END) return [`${label} is reserved, choose another name`];
  return findUnknownSettings(definition, DEFINITION_NAMES, label);
}

/** The members of an agent that are no settings. */
const DEFINITION_NAMES: readonly (keyof Agent)[] = ["agent", "strict", "~schemas", "~types"];

/**
 * Loads `execute` with the first run, because deployments of graphs do not need it, and keeps it in a module variable. Later runs
 * call it without this generator. Throws if no function has the name of the graph.
 */
const loadAndExecute: Execute = function* (definition, job, signal, environment) {
  if (!definition) throw new Error(`No function is named ${job.graph_id}`);
  execute ??= ((yield import("./execute.ts")) as { readonly execute: Execute }).execute;
  yield* execute(definition, job, signal, environment);
};

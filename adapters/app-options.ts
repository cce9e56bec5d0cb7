/** The options of `createApp` and `testService` that the service itself does not have: database, agents and those of the handler. */
import type { HandlerOptions } from "../lib/http/handler.ts";
import { handlerOptionsSchema } from "../lib/http/options.ts";
import { ConfigError, combine, type Executor, type HttpOptions, type ServiceOptions } from "../lib/mod.ts";
import {
  anything,
  findProblems,
  flag,
  type Schema,
  strictSection,
  stringEnum,
  stringMatching,
} from "../lib/validation.ts";
import {
  AGENT_SETTINGS,
  createAgentExecutor,
  findSettingsProblems,
  type HostedDefinition,
  type LangGraphOptions,
  toAgentDefinition,
} from "./agents.ts";
import { type DatabaseOptions, findUrlProblem } from "./database.ts";

/** The names of the database options in errors. */
export const DATABASE_NAMES = {
  url: "database",
  auth_token: "database.auth_token",
  direct_url: "database.direct_url",
  writer: "database.writer",
};

const WRITERS = ["auto", "inline", "thread"] as const satisfies readonly DatabaseOptions["writer"][];
const textSchema = stringMatching(() => true, "must be a text");
const DATABASE_SCHEMA = strictSection({
  url: textSchema,
  auth_token: textSchema,
  direct_url: textSchema,
  writer: stringEnum(WRITERS),
} satisfies Record<keyof typeof DATABASE_NAMES, Schema>);
const FUNCTION_SCHEMA = strictSection({
  ...AGENT_SETTINGS,
  ...{ agent: anything, strict: flag, "~schemas": anything, "~types": anything },
});
const GRAPH_SCHEMA = strictSection({ ...AGENT_SETTINGS, graph: anything });

/** Returns what is wrong with the option `database`, as texts; empty if nothing is. Does not open it. */
export function findDatabaseProblems(database: unknown): string[] {
  const options: unknown = typeof database === "string" ? { url: database } : database;
  if (typeof options !== "object" || options === null) {
    return ['database: missing. Give a file path such as "agents.db", ":memory:", or a libSQL or postgres: URL'];
  }
  const { url = "" } = options as { readonly url?: unknown };
  const problem = url === "" ? "has no URL. Give a file path, :memory: or a URL" : findUrlProblem(String(url));
  return [
    ...findProblems(DATABASE_SCHEMA, options, "database"),
    ...(problem === undefined ? [] : [`database: ${problem}`]),
  ];
}

/**
 * Returns the options of the handler, and the other ones, which are those of the service. Members that are undefined
 * are left out. A value that is no object is returned as the second, so that the service reports it.
 */
export function splitHttpOptions(
  http: (HttpOptions & HandlerOptions) | undefined = {},
): readonly [HandlerOptions, HttpOptions] {
  if (typeof http !== "object" || http === null) return [{}, http];
  const entries = Object.entries(http).filter(([, value]) => value !== undefined);
  const isHandlerOption = ([key]: readonly [string, unknown]): boolean =>
    Object.hasOwn(handlerOptionsSchema.members, key);
  return [
    Object.fromEntries(entries.filter(isHandlerOption)),
    Object.fromEntries(entries.filter((entry) => !isHandlerOption(entry))),
  ];
}

/**
 * Returns the problems of the service options, under the names of the options of `createApp`, also for agents without
 * an executor. Omits keys that are in `knownProblems`. Empty if nothing is wrong.
 */
export function findServiceProblems(
  agents: unknown,
  settings: Omit<ServiceOptions, "storage">,
  knownProblems: readonly string[],
): readonly string[] {
  const rename = (problem: string): string => problem.replace(/^executor:/, "agents:");
  return findSettingsProblems(settings, Object.keys(agents ?? {}), knownProblems, rename);
}

/**
 * Adds what is wrong with the settings of an agent to `problems`. Returns a copy of the agent without its unknown
 * members, which its executor would refuse again.
 */
export function checkSettings(
  definition: HostedDefinition,
  problems: string[],
  ...loc: readonly string[]
): HostedDefinition {
  const schema = "agent" in definition ? FUNCTION_SCHEMA : GRAPH_SCHEMA;
  problems.push(...findProblems(schema, definition, ...loc));
  const entries = Object.entries<unknown>({ ...definition }).filter(
    ([name, setting]) => Object.hasOwn(schema.members, name) && findProblems(schema, { [name]: setting }).length === 0,
  );
  return Object.fromEntries(entries) as unknown as HostedDefinition;
}

/**
 * Creates an executor of all agents that can be hosted, and adds what is wrong with the others to `problems`. `createOptions` returns
 * the options of a graph, and may reject with a message for the user.
 */
export async function createAgentsExecutor(
  agents: unknown,
  problems: string[],
  createOptions?: (graph: unknown) => Promise<LangGraphOptions>,
): Promise<Executor> {
  const executors: Executor[] = [];
  const agentEntries = typeof agents === "object" && agents !== null ? Object.entries(agents) : [];
  if (agentEntries.length === 0)
    problems.push("agents: missing. Give at least one, for example { echo: async function* (job) { … } }");
  for (const [name, agent] of agentEntries) {
    const key = `agents.${name}`;
    try {
      const definition = checkSettings(toAgentDefinition(agent), problems, "agents", name);
      const options = "graph" in definition ? await createOptions?.(definition.graph) : undefined;
      executors.push(await createAgentExecutor(name, definition, options));
    } catch (error) {
      const texts = error instanceof ConfigError ? error.problems : [(error as Error).message];
      problems.push(...texts.map((text) => `${key}: ${text}`));
    }
  }
  return combine(...executors);
}

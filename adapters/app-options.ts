/** The options of `createApp` and `testService` that the service itself does not have: database, agents and those of the handler. */
import type { HandlerOptions } from "../lib/http/handler.ts";
import { handlerSchema } from "../lib/http/options.ts";
import { ConfigError, combine, type Executor, type HttpOptions, type ServiceOptions } from "../lib/mod.ts";
import { anything, flag, oneOf, problemsIn, type Schema, section, text } from "../lib/validation.ts";
import { agentExecutor, entryOf, problemsOfService, SETTINGS } from "./agents.ts";
import { type DatabaseOptions, problemOfUrl } from "./database.ts";

/** How errors name the options of a database. */
export const DATABASE_NAMES = {
  url: "database",
  auth_token: "database.auth_token",
  direct_url: "database.direct_url",
  writer: "database.writer",
};

const WRITERS = ["auto", "inline", "thread"] as const satisfies readonly DatabaseOptions["writer"][];
const string = text(() => true, "must be a text");
const DATABASE = section({
  url: string,
  auth_token: string,
  direct_url: string,
  writer: oneOf(WRITERS),
} satisfies Record<keyof typeof DATABASE_NAMES, Schema>);
const FUNCTION_ENTRY = section({ ...SETTINGS, agent: anything, strict: flag });
const GRAPH_ENTRY = section({ ...SETTINGS, graph: anything });

export function findDatabaseProblems(database: unknown): string[] {
  const given: unknown = typeof database === "string" ? { url: database } : database;
  if (typeof given !== "object" || given === null) {
    return ['database: missing. Give a file path such as "agents.db", ":memory:", or a libSQL or postgres: URL'];
  }
  const { url = "" } = given as { readonly url?: unknown };
  const problem = url === "" ? "has no URL. Give a file path, :memory: or a URL" : problemOfUrl(String(url));
  return [...problemsIn(DATABASE, given, "database"), ...(problem === undefined ? [] : [`database: ${problem}`])];
}

/** The options of the handler, and those of the HTTP side of the service. */
export function splitHttpOptions(
  http: (HttpOptions & HandlerOptions) | undefined = {},
): readonly [HandlerOptions, HttpOptions] {
  if (typeof http !== "object" || http === null) return [{}, http];
  const entries = Object.entries(http).filter(([, value]) => value !== undefined);
  const isHandler = ([key]: readonly [string, unknown]): boolean => Object.hasOwn(handlerSchema.members, key);
  return [
    Object.fromEntries(entries.filter(isHandler)),
    Object.fromEntries(entries.filter((entry) => !isHandler(entry))),
  ];
}

/** What is wrong with the options of the service, by the names that the user knows. `found`: problems that are known already. */
export function findServiceProblems(
  agents: unknown,
  settings: Omit<ServiceOptions, "storage">,
  found: readonly string[],
): readonly string[] {
  const rename = (problem: string): string => problem.replace(/^executor:/, "agents:");
  return problemsOfService(settings, Object.keys(agents ?? {}), found, rename);
}

/** An executor of all agents that can be hosted; the others are named in `problems`. */
export async function hostAgents(agents: unknown, problems: string[]): Promise<Executor> {
  const executors: Executor[] = [];
  const named = typeof agents === "object" && agents !== null ? Object.entries(agents) : [];
  if (named.length === 0)
    problems.push("agents: missing. Give at least one, for example { echo: async function* (job) { … } }");
  for (const [name, agent] of named) {
    const key = `agents.${name}`;
    try {
      const entry = entryOf(agent);
      const schema = "agent" in entry ? FUNCTION_ENTRY : GRAPH_ENTRY;
      if (entry === agent) problems.push(...problemsIn(schema, entry, "agents", name));
      executors.push(await agentExecutor(name, agent));
    } catch (error) {
      const texts = error instanceof ConfigError ? error.problems : [(error as Error).message];
      problems.push(...texts.map((text) => `${key}: ${text}`));
    }
  }
  return combine(...executors);
}

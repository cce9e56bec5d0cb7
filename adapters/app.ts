/**
 * `createApp`: a service on a database, with its request handler. It chooses the SQLite driver of the runtime, Postgres or libSQL
 * by URL, and hosts plain functions and LangGraph.js graphs alike.
 * @module
 */

import { createHandler, type Handler, type HandlerOptions } from "../lib/http/handler.ts";
import { handlerSchema } from "../lib/http/options.ts";
import {
  ConfigError,
  combine,
  createService,
  type Executor,
  type HttpOptions,
  type Service,
  type ServiceOptions,
} from "../lib/mod.ts";
import { anything, flag, oneOf, problemsIn, type Schema, section, text } from "../lib/validation.ts";
import { type Agent, agentExecutor, entryOf, problemsOfService, SETTINGS } from "./agents.ts";
import { type DatabaseOptions, openDatabase, problemOfUrl } from "./database.ts";

export type { Handler, HandlerOptions } from "../lib/http/handler.ts";
export type { Service, ServiceOptions } from "../lib/mod.ts";
export type { Agent } from "./agents.ts";
export type { DatabaseOptions } from "./database.ts";

/** The options of `createService`, with a database and agents in place of `storage` and `executor`. */
export interface AppOptions extends Omit<ServiceOptions, "storage" | "executor" | "http"> {
  /** A SQLite file, `:memory:`, a libSQL URL or a `postgres:` URL. */
  readonly database: string | DatabaseOptions;
  /** Agents by name. Each name is an assistant that clients can run. */
  readonly agents: Readonly<Record<string, Agent>>;
  /** The options of `createHandler` and of the HTTP side of the service. */
  readonly http?: HttpOptions & HandlerOptions;
}

/** A running service with its request handler. */
export interface App {
  /** Answers a request. It never rejects, and may be passed on without its object. */
  readonly fetch: Handler;
  /** The service, for calls in process. */
  readonly service: Service;
  /** Stops the service, as `service.stop` does, and closes the database. */
  stop(grace_ms?: number): Promise<void>;
}

/**
 * Starts a service: opens and migrates the database, and begins to execute runs. Throws a ConfigError with every problem in the
 * options, or when the database cannot be used.
 *
 * @example
 * ```ts
 * import { createApp } from "greenroom/app";
 * import { serve } from "greenroom/node";
 *
 * const app = await createApp({
 *   database: "agents.db",
 *   agents: {
 *     async *echo({ messages }) {
 *       yield `You said ${messages.at(-1)?.content}`;
 *     },
 *   },
 * });
 * await serve(app.fetch, { port: 3000 });
 * ```
 */
export async function createApp(options: AppOptions): Promise<App> {
  const { database, agents, http, ...rest } = options;
  const [handler, service_http] = split(http);
  const settings = { ...rest, ...(http === undefined ? {} : { http: service_http }) };
  const problems = [...problemsOfDatabase(database), ...problemsIn(handlerSchema, handler, "http")];
  const executor = await executorOf(agents, problems);
  const replaced = Object.entries({ storage: "database", executor: "agents" }).filter(([name]) => name in settings);
  problems.push(...replaced.map(([name, other]) => `${name}: unknown option. Use ${other}`));
  const rename = (problem: string): string => problem.replace(/^executor:/, "agents:");
  problems.push(...problemsOfService({ ...settings, executor }, Object.keys(agents ?? {}), problems, rename));
  if (problems.length > 0) throw new ConfigError(problems);

  const place = typeof database === "string" ? { url: database } : database;
  const storage = await openDatabase(place, NAMES);
  let started: Service | undefined;
  try {
    const service = await createService({ ...settings, storage, executor });
    started = service;
    return { fetch: createHandler(service, handler), service, stop: (grace_ms) => service.stop(grace_ms) };
  } catch (error) {
    await (started ? started.stop(0) : storage.close()).catch(() => {});
    throw error;
  }
}

const NAMES = {
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
} satisfies Record<keyof typeof NAMES, Schema>);
const FUNCTION_ENTRY = section({ ...SETTINGS, agent: anything, strict: flag });
const GRAPH_ENTRY = section({ ...SETTINGS, graph: anything });

function problemsOfDatabase(database: unknown): string[] {
  const given: unknown = typeof database === "string" ? { url: database } : database;
  if (typeof given !== "object" || given === null) {
    return ['database: missing. Give a file path such as "agents.db", ":memory:", or a libSQL or postgres: URL'];
  }
  const { url = "" } = given as { readonly url?: unknown };
  const problem = url === "" ? "has no URL. Give a file path, :memory: or a URL" : problemOfUrl(String(url));
  return [...problemsIn(DATABASE, given, "database"), ...(problem === undefined ? [] : [`database: ${problem}`])];
}

function split(http: AppOptions["http"] = {}): readonly [HandlerOptions, HttpOptions] {
  if (typeof http !== "object" || http === null) return [{}, http];
  const entries = Object.entries(http).filter(([, value]) => value !== undefined);
  const isHandler = ([key]: readonly [string, unknown]): boolean => Object.hasOwn(handlerSchema.members, key);
  return [
    Object.fromEntries(entries.filter(isHandler)),
    Object.fromEntries(entries.filter((entry) => !isHandler(entry))),
  ];
}

/** An executor of all agents that can be hosted; the others are named in `problems`. */
async function executorOf(agents: unknown, problems: string[]): Promise<Executor> {
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

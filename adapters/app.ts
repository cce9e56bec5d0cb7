/**
 * `createApp`: a service on a database, with its request handler. It chooses the SQLite driver of the runtime, Postgres or libSQL
 * by URL, and hosts plain functions and LangGraph.js graphs alike.
 * @module
 */

import type { GraphInfo } from "../lib/executor/contract.ts";
import { createHandler, type Handler, type HandlerOptions } from "../lib/http/handler.ts";
import {
  ConfigError,
  combine,
  createService,
  type Executor,
  type HttpOptions,
  type Service,
  type ServiceOptions,
  validateOptions,
} from "../lib/mod.ts";
import type { Storage } from "../lib/storage/types.ts";
import { type Agent, agentExecutor, entryOf, isPlain, problemsOfSettings, SETTINGS } from "./agents.ts";
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
  const problems = [...problemsOfDatabase(database), ...problemsOfHandler(handler)];
  const executor = await executorOf(agents, problems);
  problems.push(...problemsOfService(settings, executor, agents));
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

const NAMES = { url: "database", auth_token: "database.auth_token", direct_url: "database.direct_url" };

function problemsOfDatabase(database: unknown): string[] {
  const given: unknown = typeof database === "string" ? { url: database } : database;
  if (typeof given !== "object" || given === null) {
    return ['database: missing. Give a file path such as "agents.db", ":memory:", or a libSQL or postgres: URL'];
  }
  const problems: string[] = [];
  for (const [key, value] of Object.entries(given)) {
    if (!Object.hasOwn(NAMES, key)) problems.push(`database.${key}: unknown option`);
    else if (value !== undefined && typeof value !== "string") problems.push(`database.${key}: must be a text`);
  }
  const { url } = given as { readonly url?: unknown };
  if (url === undefined || url === "") problems.push("database: has no URL. Give a file path, :memory: or a URL");
  const scheme = typeof url === "string" ? problemOfUrl(url) : undefined;
  return scheme === undefined ? problems : [...problems, `database: ${scheme}`];
}

type Check = (value: unknown) => string | false;
const fn: Check = (value) => typeof value !== "function" && "must be a function";

/** The options of `createHandler`. All other keys of `http` belong to the service. */
const HANDLER: Readonly<Record<keyof HandlerOptions, Check>> = {
  prefix: (value) =>
    !(typeof value === "string" && /^(?:\/[\w.~-]+)*\/?$/.test(value)) && "must be a path such as /agents",
  hosts: (value) =>
    !(Array.isArray(value) && value.every((host) => typeof host === "string")) && "must be a list of host names",
  open_metrics: (value) => typeof value !== "boolean" && "must be true or false",
  studio: fn,
  app: (value) =>
    typeof value !== "function" &&
    typeof (value as { fetch?: unknown } | null)?.fetch !== "function" &&
    "must be a function, or an object with fetch",
  acts_for: fn,
};

function split(http: AppOptions["http"] = {}): readonly [HandlerOptions, HttpOptions] {
  if (typeof http !== "object" || http === null) return [{}, http];
  const entries = Object.entries(http).filter(([, value]) => value !== undefined);
  const isHandler = ([key]: readonly [string, unknown]): boolean => Object.hasOwn(HANDLER, key);
  return [
    Object.fromEntries(entries.filter(isHandler)),
    Object.fromEntries(entries.filter((entry) => !isHandler(entry))),
  ];
}

const problemsOfHandler = (options: HandlerOptions): string[] =>
  Object.entries(options).flatMap(([key, value]) => {
    const problem = HANDLER[key as keyof HandlerOptions](value);
    return problem ? [`http.${key}: ${problem}`] : [];
  });

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
      const settings = Object.entries(isPlain(entry) && entry === agent ? entry : {}).filter(
        ([setting]) => setting !== "agent" && setting !== "graph",
      );
      const unknown = settings.flatMap(([setting]) => (SETTINGS.includes(setting) ? [] : [setting]));
      problems.push(...unknown.map((setting) => `${key}.${setting}: unknown option`));
      problems.push(...problemsOfSettings(Object.fromEntries(settings)).map(([at, what]) => `${key}.${at}: ${what}`));
      executors.push(await agentExecutor(name, agent));
    } catch (error) {
      const texts = error instanceof ConfigError ? error.problems : [(error as Error).message];
      problems.push(...texts.map((text) => `${key}: ${text}`));
    }
  }
  return combine(...executors);
}

/** The problems that `createService` would report, without those of `storage`, which is not open yet. */
function problemsOfService(
  settings: Omit<ServiceOptions, "storage" | "executor">,
  executor: Executor,
  agents: unknown,
): readonly string[] {
  const infos = executor.graphs();
  const missing = Object.keys(agents ?? {}).filter((name) => !infos.some(({ graph_id }) => graph_id === name));
  // Names of agents that cannot be hosted are checked too.
  const graphs = (): readonly GraphInfo[] => [
    ...infos,
    ...missing.map((graph_id): GraphInfo => ({ graph_id, checkpoints: "worker" })),
  ];
  const replaced = ["storage", "executor"].filter((name) => name in settings);
  const wrong = replaced.map((name) => `${name}: unknown option. Use ${name === "storage" ? "database" : "agents"}`);
  try {
    validateOptions({ ...settings, storage: {} as Storage, executor: { ...executor, graphs } });
    return wrong;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const told = error.problems.filter((problem) => !/^(?:storage:|executor: it hosts no graph)/.test(problem));
    return [...wrong, ...told.map((problem) => problem.replace(/^executor:/, "agents:"))];
  }
}

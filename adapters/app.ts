/**
 * `createApp`: a service on a database, with its request handler. It chooses the SQLite driver of the runtime, Postgres or libSQL
 * by URL, and hosts plain functions and LangGraph.js graphs alike. `defineConfig`: the same for the stand-alone server.
 * @module
 */

import { createHandler, type Handler, type HandlerOptions } from "../lib/http/handler.ts";
import { handlerOptionsSchema } from "../lib/http/options.ts";
import {
  type CheckedAgents,
  ConfigError,
  createService,
  type Graphs,
  type GraphsOf,
  type HttpOptions,
  type Service,
  type ServiceOptions,
  type Untyped,
  type WebhookPayload,
} from "../lib/mod.ts";
import { findProblems } from "../lib/validation.ts";
import type { Agents } from "./agents.ts";
import {
  createAgentsExecutor,
  DATABASE_NAMES,
  findDatabaseProblems,
  findServiceProblems,
  splitHttpOptions,
} from "./app-options.ts";
import { type DatabaseOptions, openDatabase } from "./database.ts";
import type { Config } from "./define-config.ts";

export type {
  App as HostApp,
  AppResponse,
  Handler,
  HandlerHost,
  HandlerOptions,
  HostSocket,
  OpenApi,
  Studio,
} from "../lib/http/handler.ts";
export type * from "../lib/mod.ts";
export type { Agent as TypedAgent } from "../lib/mod.ts";
export type {
  Agents,
  AnyAgent,
  AnyAgent as Agent,
  CompiledGraph,
  FactoryConfig,
  GraphBuilder,
  GraphDefinition,
  GraphFactory,
  GraphLike,
} from "./agents.ts";
export type { DatabaseOptions, SqliteWriter } from "./database.ts";
export { type Config, type ConfigOptions, type ConfigurableOption, defineConfig } from "./define-config.ts";

/** The options of `createService`, with a database and agents in place of `storage` and `executor`. */
export interface AppOptions<Hosted = Agents> extends Omit<ServiceOptions, "storage" | "executor" | "http"> {
  /** A SQLite file, `:memory:`, a libSQL URL or a `postgres:` URL. */
  readonly database: string | DatabaseOptions;
  /** Agents by name. Each name is an assistant that clients can run. */
  readonly agents: CheckedAgents<Hosted>;
  /** The options of `createHandler` and of the HTTP side of the service. */
  readonly http?: HttpOptions & HandlerOptions;
}

/** A running service with its request handler. `typeof app` is the type argument of the client. */
export interface App<Types extends Graphs = Record<string, Untyped>> {
  /** Answers a request. It never rejects, and may be passed on without its object. */
  readonly fetch: Handler;
  /** The service, for calls in process. */
  readonly service: Service<Types>;
  /** Stops the service, as `service.stop` does, and closes the database. */
  stop(grace_ms?: number): Promise<void>;
}

/** The types of the agents of an app, of a configuration or of an object of agents. */
export type TypesOf<Source> =
  Source extends App<infer Types>
    ? Types
    : [keyof Source] extends [keyof Config]
      ? Source extends Config<infer Types>
        ? Types
        : never
      : GraphsOf<Source> extends infer Types extends Graphs
        ? Types
        : never;

/**
 * The body of the webhooks of one agent's runs.
 *
 * @example
 * ```ts
 * import type { PayloadOf } from "greenroom/app";
 * import type { app } from "./server.ts";
 *
 * type RefundPayload = PayloadOf<typeof app, "refund">;
 * ```
 */
export type PayloadOf<Source, Name extends keyof TypesOf<Source>> = WebhookPayload<TypesOf<Source>[Name]>;

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
export async function createApp<Hosted extends Agents>(options: AppOptions<Hosted>): Promise<App<GraphsOf<Hosted>>> {
  const { database, agents, http, ...serviceOptions } = options;
  const [handler, service_http] = splitHttpOptions(http);
  const settings = { ...serviceOptions, ...(http === undefined ? {} : { http: service_http }) };
  const problems = [...findDatabaseProblems(database), ...findProblems(handlerOptionsSchema, handler, "http")];
  const executor = await createAgentsExecutor(agents, problems);
  const misnamedOptions = Object.entries({ storage: "database", executor: "agents" }).filter(
    ([name]) => name in settings,
  );
  problems.push(...misnamedOptions.map(([name, replacement]) => `${name}: unknown option. Use ${replacement}`));
  problems.push(...findServiceProblems(agents, { ...settings, executor }, problems));
  if (problems.length > 0) throw new ConfigError(problems);

  const databaseOptions = typeof database === "string" ? { url: database } : database;
  const storage = await openDatabase(databaseOptions, DATABASE_NAMES);
  let started: Service | undefined;
  try {
    const service = await createService({ ...settings, storage, executor });
    started = service;
    const app: App = { fetch: createHandler(service, handler), service, stop: (grace_ms) => service.stop(grace_ms) };
    return app as App<GraphsOf<Hosted>>;
  } catch (error) {
    await (started ? started.stop(0) : storage.close()).catch(() => {});
    throw error;
  }
}

/** Imports the files that a configuration names: graphs, authentication, embeddings, custom routes. */
import { basename } from "node:path";
import type { App } from "../../lib/http/handler.ts";
import { combine, type Executor, type ServiceOptions } from "../../lib/mod.ts";
import {
  createAgentExecutor,
  type GraphFactory,
  type HostedDefinition,
  type LangGraphOptions,
  toAgentDefinition,
} from "../agents.ts";
import { checkSettings, createAgentsExecutor } from "../app-options.ts";
import type { ConfiguredGraph, ModuleExport } from "./config.ts";
import { importFile } from "./loader.ts";

/**
 * Imports the file of each graph and returns one executor for those that can be served; `problems` has the others by
 * key, so it does not reject for them. LangGraph is imported only for graphs of LangGraph, as their file would find it.
 */
export async function loadGraphs(
  entries: readonly ConfiguredGraph[],
  config: string,
): Promise<{ readonly executor: Executor; readonly problems: readonly string[] }> {
  const executors: Executor[] = [];
  const problems: string[] = [];
  for (const { graph_id, factory, settings, ...moduleExport } of entries) {
    try {
      const value = await loadExport(moduleExport);
      const exported = toExportedDefinition(value, moduleExport.export, factory);
      const definition = { ...checkSettings(exported, problems, "graphs", graph_id), ...settings };
      const options: LangGraphOptions = {};
      if ("graph" in definition) {
        const { createPackageResolver } = await import("./packages.ts");
        Object.assign(options, { resolve: await createPackageResolver(definition.graph, moduleExport.file, config) });
      }
      executors.push(await createAgentExecutor(graph_id, definition, options));
    } catch (error) {
      problems.push(`graphs.${graph_id}: ${(error as Error).message}`);
    }
  }
  return { executor: combine(...executors), problems };
}

/**
 * Returns an export as an agent with settings. With `factory`, a function that is no generator is a factory of graphs.
 * Throws a TypeError that names the export for other values.
 */
function toExportedDefinition(value: unknown, name: string, factory: boolean | undefined): HostedDefinition {
  if (factory && typeof value === "function" && !isGenerator(value)) return { graph: value as GraphFactory };
  try {
    return toAgentDefinition(value);
  } catch (error) {
    throw new TypeError(`${name} ${(error as Error).message}`);
  }
}

/**
 * Creates the executor of the agents of a configuration in code, without those that cannot be served; `problems` has
 * these by key. Packages are found from the folder of the configuration.
 */
export async function loadAgents(
  agents: unknown,
  config: string,
): Promise<{ readonly executor: Executor; readonly problems: readonly string[] }> {
  const problems: string[] = [];
  const executor = await createAgentsExecutor(agents, problems, async (graph) => ({
    resolve: await (await import("./packages.ts")).createPackageResolver(graph, config, config),
  }));
  return { executor, problems };
}

/**
 * Imports a file and resolves with one of its exports, awaited. Rejects with a message for the user if the file fails
 * to load or if the export is missing or undefined.
 */
export async function loadExport({ file, export: name }: ModuleExport): Promise<unknown> {
  const module = await importFile(file).catch(async (error: unknown) => {
    const { formatLoadError: loadError } = await import("./load-error.ts");
    throw new Error(`${basename(file)} cannot be loaded: ${loadError(error)}`, { cause: error });
  });
  const value = await module[name];
  if (value !== undefined) return value;
  throw new Error(`${basename(file)} has no export ${name}; it exports ${Object.keys(module).join(", ") || "nothing"}`);
}

const isGenerator = (value: unknown): boolean =>
  /^(?:Async)?GeneratorFunction$/.test(Object.prototype.toString.call(value).slice(8, -1));

type Custom = NonNullable<NonNullable<ServiceOptions["auth"]>["custom"]>;
type Traces = NonNullable<ServiceOptions["traces"]>;
type Redact = NonNullable<Traces["redact"]>;
type Sink = NonNullable<Traces["sinks"]>[number];
type Embed = NonNullable<NonNullable<ServiceOptions["store"]>["index"]>["embed"];

/** The module exports that a configuration may name, by key. */
interface Modules {
  readonly "auth.path"?: Custom;
  readonly "store.index.embed"?: Embed;
  readonly "http.app"?: App;
  readonly "traces.redact"?: Redact;
}

type ModuleKey = keyof Modules;
type Method = (...args: readonly unknown[]) => unknown;

/** Describes and converts the export for each key. `convert` returns undefined for an unsuitable export. */
const moduleKinds: {
  readonly [Key in ModuleKey]: { readonly description: string; convert(value: unknown): Modules[Key] | undefined };
} = {
  "auth.path": {
    description: "an Auth object, or an object with a function authenticate",
    // What it must have, the service proves.
    convert: (value) => (typeof value === "object" && value !== null ? (value as Custom) : undefined),
  },
  "store.index.embed": {
    description: "a function from texts to vectors, or an object with embedDocuments",
    /**
     * Returns the embedding function, or one that calls `embedDocuments` of LangChain's embeddings; undefined for other
     * values.
     */
    convert(value) {
      if (typeof value === "function") return value as Embed;
      if (findMethod(value, "embedDocuments") === undefined) return undefined;
      const embeddings = value as { embedDocuments(texts: string[]): ReturnType<Embed> };
      return (texts) => embeddings.embedDocuments([...texts]);
    },
  },
  "http.app": {
    description: "a function, or an object with fetch",
    convert: toApp,
  },
  "traces.redact": {
    description: "a function",
    convert: (value) => (typeof value === "function" ? (value as Redact) : undefined),
  },
};

/** Returns the value if it can be routes of the host: a function, or an object with `fetch`. Else returns undefined. */
export function toApp(value: unknown): App | undefined {
  return typeof value === "function" || findMethod(value, "fetch") ? (value as App) : undefined;
}

/** Returns the method, not bound; undefined if there is none. */
function findMethod(value: unknown, name: string): Method | undefined {
  const candidate = typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
  return typeof candidate === "function" ? (candidate as Method) : undefined;
}

/**
 * Imports each file and returns the exports by key, converted to what the option takes. `problems` has, by key, what
 * fails to load or is of the wrong kind, so it does not reject.
 */
export async function loadModules(
  moduleExports: Readonly<Partial<Record<ModuleKey, ModuleExport>>>,
): Promise<{ readonly modules: Modules; readonly problems: readonly string[] }> {
  const problems: string[] = [];
  const modules: [string, unknown][] = [];
  for (const [key, moduleExport] of Object.entries(moduleExports) as [ModuleKey, ModuleExport][]) {
    try {
      const { description, convert } = moduleKinds[key];
      const value = convert(await loadExport(moduleExport));
      if (value === undefined) throw new TypeError(`${moduleExport.export} is not ${description}`);
      modules.push([key, value]);
    } catch (error) {
      problems.push(`${key}: ${(error as Error).message}`);
    }
  }
  return { modules: Object.fromEntries(modules) as Modules, problems };
}

/** Imports the sinks of traces. `problems` names, by key, what cannot be used. */
export async function loadSinks(
  moduleExports: readonly ModuleExport[],
): Promise<{ readonly sinks: readonly Sink[]; readonly problems: readonly string[] }> {
  const problems: string[] = [];
  const sinks: Sink[] = [];
  for (const [index, moduleExport] of moduleExports.entries()) {
    try {
      const sink = await loadExport(moduleExport);
      if (!findMethod(sink, "onSpanStarted") && !findMethod(sink, "onSpanEnded"))
        throw new TypeError(`${moduleExport.export} is not an object with onSpanStarted or onSpanEnded`);
      sinks.push(sink as Sink);
    } catch (error) {
      problems.push(`traces.sinks.${index}: ${(error as Error).message}`);
    }
  }
  return { sinks, problems };
}

/** From the `graphs` of a configuration file to an executor. */
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { type AgentFunction, ConfigError, combine, type Executor, fromFunctions } from "../../lib/mod.ts";
import type { GraphFactory, GraphLike } from "../langgraph/mod.ts";
import type { GraphEntry, Place } from "./config.ts";

/** Imports every graph's file. Throws ConfigError naming all that cannot be served. LangGraph is loaded only for its graphs. */
export async function loadGraphs(entries: readonly GraphEntry[], config: string): Promise<Executor> {
  const agents: [string, AgentFunction][] = [];
  const executors: Executor[] = [];
  const problems: string[] = [];
  for (const { graph_id, factory, ...place } of entries) {
    try {
      const value = await load(place);
      if (typeof value === "function" && (!factory || isGenerator(value)))
        agents.push([graph_id, value as AgentFunction]);
      else if (typeof value === "function" || (typeof value === "object" && value !== null)) {
        const { langgraph } = await import("../langgraph/mod.ts");
        const graph = value as GraphLike | GraphFactory;
        executors.push(langgraph({ [graph_id]: { graph } }, { resolve: (name) => importFrom(config, name) }));
      } else throw new TypeError(`${place.export} is neither a function nor a LangGraph.js graph`);
    } catch (error) {
      problems.push(`graphs.${graph_id}: ${(error as Error).message}`);
    }
  }
  if (problems.length > 0) throw new ConfigError(problems);
  return combine(fromFunctions(Object.fromEntries(agents)), ...executors);
}

/** Imports what a place names. Rejects with a message for the user. */
export async function load({ file, export: name }: Place): Promise<unknown> {
  let module: Readonly<Record<string, unknown>>;
  try {
    module = await import(pathToFileURL(file).href);
  } catch (error) {
    const { code = "", message } = error as { code?: string; message?: string };
    const onNode = !("Bun" in globalThis) && !("Deno" in globalThis);
    const remedy = onNode && /\.[mc]?tsx?$/.test(file) && BEYOND_STRIPPING.has(code) ? `. ${USE_BUN}` : "";
    throw new Error(`${basename(file)} cannot be loaded: ${message ?? String(error)}${remedy}`, { cause: error });
  }
  const value = await module[name];
  if (value !== undefined) return value;
  throw new Error(`${basename(file)} has no export ${name}; it exports ${Object.keys(module).join(", ") || "nothing"}`);
}

const BEYOND_STRIPPING: ReadonlySet<string> = new Set([
  "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX",
  "ERR_INVALID_TYPESCRIPT_SYNTAX",
  "ERR_UNKNOWN_FILE_EXTENSION",
  "ERR_MODULE_NOT_FOUND",
  "ERR_UNSUPPORTED_DIR_IMPORT",
]);
const USE_BUN =
  "Node runs TypeScript without enums, JSX, path aliases or paths without extension; Bun does: bunx --bun greenroom";

/**
 * Imports a package as the files beside the configuration do. Runtimes resolve from another folder only by the rules of
 * `require`, which would load LangChain a second time: its classes would not be those of the user's graph.
 */
async function importFrom(config: string, specifier: string): Promise<unknown> {
  const [, name = "", rest = ""] = /^((?:@[^/]+\/)?[^/]+)(.*)$/.exec(specifier) ?? [];
  for (let folder = dirname(config); ; folder = dirname(folder)) {
    const home = join(folder, "node_modules", name);
    if (existsSync(join(home, "package.json"))) {
      const { exports } = JSON.parse(readFileSync(join(home, "package.json"), "utf8")) as { exports: Conditions };
      const target = imported((exports as Readonly<Record<string, Conditions>>)[`.${rest}`]);
      if (target) return import(pathToFileURL(realpathSync(join(home, target))).href);
    }
    // Not beside the configuration: what Greenroom itself finds.
    if (folder === dirname(folder)) return import(specifier);
  }
}

type Conditions = string | { readonly [condition: string]: Conditions } | undefined;

function imported(target: Conditions): string | undefined {
  if (typeof target !== "object") return target;
  const [, chosen] = Object.entries(target).find(([name]) => ["import", "node", "default"].includes(name)) ?? [];
  return imported(chosen);
}

const isGenerator = (value: unknown): boolean =>
  /^(?:Async)?GeneratorFunction$/.test(Object.prototype.toString.call(value).slice(8, -1));

/** From the `graphs` of a configuration file to an executor. */
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { type AgentFunction, combine, type Executor, fromFunctions } from "../../lib/mod.ts";
import type { GraphFactory, GraphLike } from "../langgraph/mod.ts";
import { importPackage } from "../langgraph/version.ts";
import type { GraphEntry, Place } from "./config.ts";

/** Imports every graph's file. `problems` names, by key, what cannot be served. LangGraph is loaded only for its graphs. */
export async function loadGraphs(
  entries: readonly GraphEntry[],
  config: string,
): Promise<{ readonly executor: Executor; readonly problems: readonly string[] }> {
  const executors: Executor[] = [];
  const problems: string[] = [];
  for (const { graph_id, factory, settings, ...place } of entries) {
    try {
      const value = await load(place);
      if (typeof value === "function" && (!factory || isGenerator(value)))
        executors.push(fromFunctions({ [graph_id]: { ...settings, agent: value as AgentFunction } }));
      else if (typeof value === "function" || (typeof value === "object" && value !== null)) {
        const { langgraph } = await import("../langgraph/mod.ts");
        const entry = { ...settings, graph: value as GraphLike | GraphFactory };
        executors.push(langgraph({ [graph_id]: entry }, { resolve: (name) => importFrom(config, name) }));
      } else throw new TypeError(`${place.export} is neither a function nor a LangGraph.js graph`);
    } catch (error) {
      problems.push(`graphs.${graph_id}: ${(error as Error).message}`);
    }
  }
  return { executor: combine(...executors), problems };
}

/** Imports what a place names. Rejects with a message for the user. */
export async function load({ file, export: name }: Place): Promise<unknown> {
  let module: Readonly<Record<string, unknown>>;
  try {
    module = await import(pathToFileURL(file).href);
  } catch (error) {
    const { code = "", message } = error as { code?: string; message?: string };
    const onNode = !("Bun" in globalThis) && !("Deno" in globalThis);
    const typed = onNode && /\.[mc]?tsx?$/.test(file);
    const untyped = typed && code === "ERR_UNKNOWN_FILE_EXTENSION" && !process.features.typescript;
    const why = untyped ? oldNode("runs no TypeScript") : (message ?? String(error));
    const remedy = typed && !untyped && BEYOND_STRIPPING.has(code) ? `. ${USE_BUN}` : "";
    throw new Error(`${basename(file)} cannot be loaded: ${why}${remedy}`, { cause: error });
  }
  const value = await module[name];
  if (value !== undefined) return value;
  throw new Error(`${basename(file)} has no export ${name}; it exports ${Object.keys(module).join(", ") || "nothing"}`);
}

/** What a Node that is too old is told. */
export const oldNode = (lacks: string): string =>
  `This is Node ${process.versions.node}, which ${lacks}: use Node 22.18 or newer, or Bun (bunx --bun greenroom)`;

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
      if (target?.endsWith(".json")) return { default: JSON.parse(readFileSync(join(home, target), "utf8")) };
      if (target) return import(pathToFileURL(realpathSync(join(home, target))).href);
    }
    // Not beside the configuration: what Greenroom itself finds.
    if (folder === dirname(folder)) return importPackage(specifier);
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

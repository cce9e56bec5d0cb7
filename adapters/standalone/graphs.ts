/** From the `graphs` of a configuration file to an executor. */
import { basename } from "node:path";
import { pathToFileURL } from "node:url";
import { type AgentFunction, combine, ConfigError, type Executor, fromFunctions } from "../../lib/mod.ts";
import type { GraphEntry } from "./config.ts";

/** Imports every graph's file. Throws ConfigError naming all that cannot be served. LangGraph is loaded only for its graphs. */
export async function loadGraphs(entries: readonly GraphEntry[], config: string): Promise<Executor> {
  const agents: [string, AgentFunction][] = [];
  const graphs: [string, unknown][] = [];
  const problems: string[] = [];
  for (const entry of entries) {
    const { graph_id, factory } = entry;
    const found = await load(entry);
    if (typeof found === "string") problems.push(`graphs.${graph_id}: ${found}`);
    else if (isCompiled(found.value)) graphs.push([graph_id, found.value]);
    else if (isBuilder(found.value)) graphs.push([graph_id, found.value.compile()]);
    else if (typeof found.value !== "function") {
      problems.push(`graphs.${graph_id}: ${entry.export} is neither a function nor a LangGraph graph`);
    } else if (factory && !isGenerator(found.value)) graphs.push([graph_id, found.value]);
    else agents.push([graph_id, found.value as AgentFunction]);
  }
  const executors: Executor[] = [];
  if (agents.length > 0) executors.push(fromFunctions(Object.fromEntries(agents)));
  if (graphs.length > 0 && problems.length === 0) {
    const { langgraph } = await import("../langgraph/mod.ts");
    try {
      executors.push(await langgraph(Object.fromEntries(graphs), { resolve: config }));
    } catch (error) {
      problems.push(`graphs.${graphs[0]?.[0]}: ${(error as Error).message}`);
    }
  }
  if (problems.length > 0) throw new ConfigError(problems);
  return combine(...executors);
}

async function load({ file, export: name }: GraphEntry): Promise<{ readonly value: unknown } | string> {
  try {
    const module = (await import(pathToFileURL(file).href)) as Record<string, unknown>;
    const value = await module[name];
    if (value !== undefined) return { value };
    const names = Object.keys(module).join(", ") || "nothing";
    return `${basename(file)} has no export ${name}; it exports ${names}`;
  } catch (error) {
    const { code, message } = error as { code?: string; message?: string };
    const stripped = ["ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX", "ERR_UNKNOWN_FILE_EXTENSION", "ERR_INVALID_TYPESCRIPT_SYNTAX"];
    const unresolved = ["ERR_MODULE_NOT_FOUND", "ERR_PACKAGE_IMPORT_NOT_DEFINED", "ERR_UNSUPPORTED_DIR_IMPORT"];
    const node = "process" in globalThis && !("Bun" in globalThis) && !("Deno" in globalThis);
    const remedy =
      node && code !== undefined && /\.[mc]?tsx?$/.test(file) && [...stripped, ...unresolved].includes(code)
        ? " (Node runs TypeScript by removing types alone, without enums, path aliases or JSX; Bun runs all of it: bunx --bun greenroom)"
        : "";
    return `${basename(file)} cannot be loaded: ${message ?? String(error)}${remedy}`;
  }
}

/** By structure: the user's LangGraph may be another copy than any we could compare with. */
function isCompiled(value: unknown): boolean {
  const graph = value as { lg_is_pregel?: unknown; invoke?: unknown; stream?: unknown } | null;
  return typeof graph === "object" && graph?.lg_is_pregel === true && typeof graph.stream === "function";
}

function isBuilder(value: unknown): value is { compile(): unknown } {
  const graph = value as { addNode?: unknown; compile?: unknown } | null;
  return typeof graph === "object" && typeof graph?.compile === "function" && typeof graph.addNode === "function";
}

const isGenerator = (value: unknown): boolean =>
  /^(?:Async)?GeneratorFunction$/.test(Object.prototype.toString.call(value).slice(8, -1));

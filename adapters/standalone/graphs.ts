/** From the `graphs` of a configuration file to an executor. */
import { basename } from "node:path";
import process from "node:process";
import { type AgentFunction, combine, type Executor, fromFunctions } from "../../lib/mod.ts";
import type { GraphFactory, GraphLike } from "../langgraph/mod.ts";
import type { GraphEntry, Place } from "./config.ts";
import { importFile } from "./loader.ts";
import { packagesOf } from "./packages.ts";

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
        executors.push(langgraph({ [graph_id]: entry }, { resolve: await packagesOf(value, place.file, config) }));
      } else throw new TypeError(`${place.export} is neither a function nor a LangGraph.js graph`);
    } catch (error) {
      problems.push(`graphs.${graph_id}: ${(error as Error).message}`);
    }
  }
  return { executor: combine(...executors), problems };
}

/** Imports what a place names. Rejects with a message for the user. */
export async function load({ file, export: name }: Place): Promise<unknown> {
  const module = await importFile(file).catch((error: unknown) => {
    const { message } = error as { message?: string };
    throw new Error(`${basename(file)} cannot be loaded: ${message ?? String(error)}`, { cause: error });
  });
  const value = await module[name];
  if (value !== undefined) return value;
  throw new Error(`${basename(file)} has no export ${name}; it exports ${Object.keys(module).join(", ") || "nothing"}`);
}

/** What a Node that is too old is told. */
export const oldNode = (lacks: string): string =>
  `This is Node ${process.versions.node}, which ${lacks}: use Node 22.18 or newer, or Bun (bunx --bun greenroom)`;

const isGenerator = (value: unknown): boolean =>
  /^(?:Async)?GeneratorFunction$/.test(Object.prototype.toString.call(value).slice(8, -1));

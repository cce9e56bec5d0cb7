/** From the `graphs` of a configuration file to an executor. */
import { basename } from "node:path";
import { combine, type Executor } from "../../lib/mod.ts";
import { agentExecutor } from "../agents.ts";
import type { GraphEntry, Place } from "./config.ts";
import { loadError } from "./load-error.ts";
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
      const isGraph = typeof value === "object" || (factory && typeof value === "function" && !isGenerator(value));
      if (value === null || (!isGraph && typeof value !== "function"))
        throw new TypeError(`${place.export} is neither a function nor a LangGraph.js graph`);
      const entry = { ...settings, [isGraph ? "graph" : "agent"]: value };
      const options = isGraph ? { resolve: await packagesOf(value, place.file, config) } : {};
      executors.push(await agentExecutor(graph_id, entry, options));
    } catch (error) {
      problems.push(`graphs.${graph_id}: ${(error as Error).message}`);
    }
  }
  return { executor: combine(...executors), problems };
}

/** Imports what a place names. Rejects with a message for the user. */
export async function load({ file, export: name }: Place): Promise<unknown> {
  const module = await importFile(file).catch((error: unknown) => {
    throw new Error(`${basename(file)} cannot be loaded: ${loadError(error)}`, { cause: error });
  });
  const value = await module[name];
  if (value !== undefined) return value;
  throw new Error(`${basename(file)} has no export ${name}; it exports ${Object.keys(module).join(", ") || "nothing"}`);
}

const isGenerator = (value: unknown): boolean =>
  /^(?:Async)?GeneratorFunction$/.test(Object.prototype.toString.call(value).slice(8, -1));

/** Which LangGraph the graphs were built with: it does not say so itself, its package does. */
import type { Graph } from "./graph.ts";

type Load = (specifier: string) => Promise<unknown>;
type Class = abstract new (...args: never) => unknown;

/** Undefined where it cannot be told: a package that cannot be read, or graphs of another copy than the one that is found. */
export async function langgraphVersion(graphs: readonly Graph[], load: Load): Promise<string | undefined> {
  try {
    const found = (await load("@langchain/langgraph/package.json")) as {
      readonly default?: { readonly version?: unknown };
    };
    const { Pregel } = (await load("@langchain/langgraph/pregel")) as { readonly Pregel: Class };
    const version = found.default?.version;
    return typeof version === "string" && graphs.every((graph) => graph instanceof Pregel) ? version : undefined;
  } catch {
    return undefined;
  }
}

/** As files beside this one import packages. */
export const importPackage: Load = (specifier) =>
  specifier.endsWith(".json") ? import(specifier, { with: { type: "json" } }) : import(specifier);

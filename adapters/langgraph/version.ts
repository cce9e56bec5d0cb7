/** Reads the LangGraph version of the graphs. LangGraph has it only in its package.json. */
import type { Graph } from "./graph.ts";

/** Imports a module of the LangChain packages that the graphs use. */
export type LoadModule = (specifier: string) => Promise<unknown>;
type Class = abstract new (...args: never) => unknown;

/** Returns undefined if the package cannot be read, or if the graphs use another copy than the one found here. */
export async function readLangGraphVersion(graphs: readonly Graph[], load: LoadModule): Promise<string | undefined> {
  try {
    const packageJson = (await load("@langchain/langgraph/package.json")) as {
      readonly default?: { readonly version?: unknown };
    };
    const { Pregel } = (await load("@langchain/langgraph/pregel")) as { readonly Pregel: Class };
    const version = packageJson.default?.version;
    return typeof version === "string" && graphs.every((graph) => graph instanceof Pregel) ? version : undefined;
  } catch {
    return undefined;
  }
}

const rethrow = (error: unknown): never => {
  throw error;
};

/**
 * The imports with literal specifiers, so that a bundler includes the copies that the graphs use. `catch` makes
 * bundlers accept a package that is not installed.
 */
const MODULES: Readonly<Record<string, () => Promise<unknown>>> = {
  "@langchain/core/callbacks/manager": () => import("@langchain/core/callbacks/manager").catch(rethrow),
  "@langchain/core/messages": () => import("@langchain/core/messages").catch(rethrow),
  "@langchain/core/utils/json_schema": () => import("@langchain/core/utils/json_schema").catch(rethrow),
  "@langchain/langgraph": () => import("@langchain/langgraph").catch(rethrow),
  "@langchain/langgraph/pregel": () => import("@langchain/langgraph/pregel").catch(rethrow),
  "@langchain/langgraph/package.json": () =>
    import("@langchain/langgraph/package.json", { with: { type: "json" } }).catch(rethrow),
};

/** Imports a package as the files in this folder do. Throws for one that no file imports. */
export async function importLangChain(specifier: string): Promise<unknown> {
  const load = MODULES[specifier];
  if (!load) throw new Error(`${specifier}: is not imported here`);
  return await load();
}

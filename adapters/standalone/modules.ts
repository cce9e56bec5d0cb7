/** From the files that a configuration names to what they export: graphs, authentication, embeddings, custom routes. */
import { basename } from "node:path";
import type { App } from "../../lib/http/handler.ts";
import { combine, type Executor, type ServiceOptions } from "../../lib/mod.ts";
import { agentExecutor } from "../agents.ts";
import type { GraphEntry, ModuleExport } from "./config.ts";
import { importFile } from "./loader.ts";

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
      const options = isGraph
        ? { resolve: await (await import("./packages.ts")).packagesOf(value, place.file, config) }
        : {};
      executors.push(await agentExecutor(graph_id, entry, options));
    } catch (error) {
      problems.push(`graphs.${graph_id}: ${(error as Error).message}`);
    }
  }
  return { executor: combine(...executors), problems };
}

/** Imports what a place names. Rejects with a message for the user. */
async function load({ file, export: name }: ModuleExport): Promise<unknown> {
  const module = await importFile(file).catch(async (error: unknown) => {
    const { loadError } = await import("./load-error.ts");
    throw new Error(`${basename(file)} cannot be loaded: ${loadError(error)}`, { cause: error });
  });
  const value = await module[name];
  if (value !== undefined) return value;
  throw new Error(`${basename(file)} has no export ${name}; it exports ${Object.keys(module).join(", ") || "nothing"}`);
}

const isGenerator = (value: unknown): boolean =>
  /^(?:Async)?GeneratorFunction$/.test(Object.prototype.toString.call(value).slice(8, -1));

type Custom = NonNullable<NonNullable<ServiceOptions["auth"]>["custom"]>;
type Embed = NonNullable<NonNullable<ServiceOptions["store"]>["index"]>["embed"];

/** What a configuration takes from other files, by its key. */
interface Modules {
  readonly "auth.path"?: Custom;
  readonly "store.index.embed"?: Embed;
  readonly "http.app"?: App;
}

type ModuleKey = keyof Modules;
type Member = (...args: readonly unknown[]) => unknown;

/** What the export serves as; undefined when it does not. */
const kinds: {
  readonly [Key in ModuleKey]: { readonly what: string; take(value: unknown): Modules[Key] | undefined };
} = {
  "auth.path": {
    what: "an Auth object, or an object with a function authenticate",
    // What it must have, the service proves.
    take: (value) => (typeof value === "object" && value !== null ? (value as Custom) : undefined),
  },
  "store.index.embed": {
    what: "a function from texts to vectors, or an object with embedDocuments",
    take(value) {
      if (typeof value === "function") return value as Embed;
      if (member(value, "embedDocuments") === undefined) return undefined;
      const embeddings = value as { embedDocuments(texts: string[]): ReturnType<Embed> };
      return (texts) => embeddings.embedDocuments([...texts]);
    },
  },
  "http.app": {
    what: "a function, or an object with fetch",
    take: (value) => (typeof value === "function" || member(value, "fetch") ? (value as App) : undefined),
  },
};

function member(value: unknown, name: string): Member | undefined {
  const found = typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
  return typeof found === "function" ? (found as Member) : undefined;
}

/** Imports each file. `problems` names, by key, what cannot be used. */
export async function loadModules(
  places: Readonly<Partial<Record<ModuleKey, ModuleExport>>>,
): Promise<{ readonly modules: Modules; readonly problems: readonly string[] }> {
  const problems: string[] = [];
  const modules: [string, unknown][] = [];
  for (const [key, place] of Object.entries(places) as [ModuleKey, ModuleExport][]) {
    try {
      const { what, take } = kinds[key];
      const value = take(await load(place));
      if (value === undefined) throw new TypeError(`${place.export} is not ${what}`);
      modules.push([key, value]);
    } catch (error) {
      problems.push(`${key}: ${(error as Error).message}`);
    }
  }
  return { modules: Object.fromEntries(modules) as Modules, problems };
}

/** Finds the LangChain that a graph was made with: as its own file finds it, in the copy that this loaded. */
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { importLangChain } from "../langgraph/version.ts";

const LANGGRAPH = "@langchain/langgraph";
const CORE = "@langchain/core/messages";
type Resolve = (specifier: string) => Promise<unknown>;

/**
 * Returns a function that imports packages as the file of the graph would, else as the configuration or LangGraph
 * would, else Greenroom's own. Rejects with a message for the user if LangGraph or its core is not found, because no
 * run of the graph could start.
 */
export async function createPackageResolver(graph: unknown, file: string, config: string): Promise<Resolve> {
  const importers = [file, config];
  const langgraph = findPackage(LANGGRAPH, importers);
  if (langgraph) importers.push(langgraph.manifest);
  // A file that requires LangGraph has its CommonJS half, whose classes are others.
  const usesCommonJs =
    langgraph?.requiredFile !== undefined && isFromThisCopy(require.cache[langgraph.requiredFile]?.exports, graph);
  /**
   * Imports a package as the project would find it, else Greenroom's own; its CommonJS half if the graph uses that.
   * Rejects if neither has it.
   */
  const resolve: Resolve = async (specifier) => {
    const { importedFile, requiredFile: commonJsFile } = findPackage(specifier, importers) ?? {};
    if (usesCommonJs && commonJsFile) return require(commonJsFile);
    // Not in these folders: what Greenroom itself finds.
    if (!importedFile) return await importLangChain(specifier);
    if (importedFile.endsWith(".json")) return { default: JSON.parse(readFileSync(importedFile, "utf8")) };
    return import(pathToFileURL(importedFile).href);
  };
  for (const name of [LANGGRAPH, CORE]) {
    await resolve(name).catch((cause: unknown) => {
      const root = listParentFolders(file).find((folder) => existsSync(join(folder, "package.json"))) ?? dirname(file);
      const [, missing] = /^(@[^/]+\/[^/]+)/.exec(name) as unknown as [string, string];
      const reason = `${missing} cannot be imported, which its runs need`;
      throw new Error(`${reason} (${(cause as Error).message}); in ${root}: npm install ${missing}`, { cause });
    });
  }
  return resolve;
}

const require: NodeJS.Require = createRequire(import.meta.url);

/**
 * Returns true if the graph, or the graph of an agent of LangChain, is an instance of a class of this copy of
 * LangGraph. For a function that creates graphs, returns true if the copy is loaded at all.
 */
function isFromThisCopy(langgraph: unknown, graph: unknown): boolean {
  if (typeof langgraph !== "object" || langgraph === null) return false;
  if (typeof graph === "function") return true;
  // Agents of LangChain carry their graph.
  const candidates = [graph, (graph as { readonly graph?: unknown }).graph];
  const classes = Object.values(langgraph).filter((value) => typeof value === "function" && value.prototype);
  return candidates.some((value) => classes.some((type) => value instanceof type));
}

interface PackageFiles {
  readonly manifest: string;
  /** The file that `import` means, and the one that `require` means. */
  readonly importedFile?: string;
  readonly requiredFile?: string;
}

/**
 * Returns the files of a package by the rules of `import`, from the first of the importers' `node_modules` folders that
 * has it with such an export; undefined if none has. Runtimes offer these rules only from one's own folder, and those
 * of `require` would load LangChain twice.
 */
function findPackage(specifier: string, importers: readonly string[]): PackageFiles | undefined {
  const [, name = "", subpath = ""] = /^((?:@[^/]+\/)?[^/]+)(.*)$/.exec(specifier) ?? [];
  for (const folder of importers.flatMap(listParentFolders)) {
    const home = join(folder, "node_modules", name);
    if (!existsSync(join(home, "package.json"))) continue;
    const manifest = realpathSync(join(home, "package.json"));
    const { exports = {} } = JSON.parse(readFileSync(manifest, "utf8")) as {
      exports?: Readonly<Record<string, Conditions>>;
    };
    const [importedFile, requiredFile] = ["import", "require"].map((kind) => {
      const target = resolveCondition(exports[`.${subpath}`], [kind, "node", "default"]);
      return target === undefined ? undefined : join(dirname(manifest), target);
    });
    if (importedFile)
      return { manifest, importedFile, ...(requiredFile && requiredFile !== importedFile ? { requiredFile } : {}) };
  }
  return undefined;
}

type Conditions = string | { readonly [condition: string]: Conditions } | undefined;

/**
 * Follows at each depth the first key of the target that is in `conditions`, and returns the path at the end. Does not try later
 * keys if that leads nowhere: the result is then undefined. `default` matches only if it is in `conditions`.
 */
function resolveCondition(target: Conditions, conditions: readonly string[]): string | undefined {
  if (typeof target !== "object") return target;
  const [, inner] = Object.entries(target).find(([name]) => conditions.includes(name)) ?? [];
  return resolveCondition(inner, conditions);
}

/** Returns the folder of a file and those above it, innermost first, up to but not including the root. */
function listParentFolders(file: string): string[] {
  const folder = dirname(file);
  return folder === file ? [] : [folder, ...listParentFolders(folder)];
}

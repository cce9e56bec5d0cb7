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
 * Imports packages as the graph's file does, or else the configuration, or LangGraph itself. Rejects when LangGraph is not found,
 * with a message for the user: no run of the graph could start.
 */
export async function createPackageResolver(graph: unknown, file: string, config: string): Promise<Resolve> {
  const importers = [file, config];
  const langgraph = findPackage(LANGGRAPH, importers);
  if (langgraph) importers.push(langgraph.manifest);
  // A file that requires LangGraph has its CommonJS half, whose classes are others.
  const usesCommonJs =
    langgraph?.requiredFile !== undefined && isFromThisCopy(require.cache[langgraph.requiredFile]?.exports, graph);
  /** Loads a package as the project would find it, else Greenroom's own. Rejects if neither has it. */
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

/** True when the graph is of this copy of LangGraph; of a function that makes graphs, when the copy is loaded at all. */
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
 * By the rules of `import`, which runtimes offer from one's own folder alone: by those of `require` LangChain would be loaded a
 * second time.
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

/** Returns the path of the first condition that matches, at any depth; undefined if none does. */
function resolveCondition(target: Conditions, conditions: readonly string[]): string | undefined {
  if (typeof target !== "object") return target;
  const [, inner] = Object.entries(target).find(([name]) => conditions.includes(name)) ?? [];
  return resolveCondition(inner, conditions);
}

/** The folder of a file, and those above it. */
function listParentFolders(file: string): string[] {
  const folder = dirname(file);
  return folder === file ? [] : [folder, ...listParentFolders(folder)];
}

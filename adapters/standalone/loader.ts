/**
 * Imports the files of a project. Bun and Deno load TypeScript themselves. On Node jiti does, for every file: Node's own
 * stripping stops at enums, JSX, path aliases and paths without extension, and to try it first would run a file twice.
 * Packages and JavaScript that Node can load stay with Node, so that each is there once.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import process from "node:process";
import type { Jiti, JitiOptions, TransformOptions } from "jiti";

type Module = Readonly<Record<string, unknown>>;
type Import = (specifier: string) => Promise<unknown>;
type Require = (specifier: string) => unknown;
type Resolve = (specifier: string) => string;

/**
 * Imports a file by its absolute path; TypeScript is transformed by the runtime or by jiti. Rejects with what its own
 * code threw, or with a message that says why it cannot be loaded.
 */
export async function importFile(file: string): Promise<Module> {
  const { Bun } = globalThis as { readonly Bun?: { pathToFileURL(path: string): { readonly href: string } } };
  if (Bun || ("Deno" in globalThis && !isReloading))
    return await import((Bun ?? getUrlModule()).pathToFileURL(file).href);
  const { createJiti } = await import("jiti");
  transpiler ??= createJiti(import.meta.url, { ...JITI_OPTIONS, tsconfigPaths: false });
  (globalThis as { [HOOK]?: typeof createOrderedImport })[HOOK] = createOrderedImport;
  const options: JitiOptions = { ...JITI_OPTIONS, transform: (options) => ({ code: transform(options) }) };
  let tsconfigWarning = "";
  let jiti: Jiti;
  try {
    jiti = createJiti(file, options);
  } catch (error) {
    // Often it extends one of a package for development, and says nothing of paths.
    tsconfigWarning = ` (tsconfig.json is left out: ${(error as Error).message})`;
    jiti = createJiti(file, { ...options, tsconfigPaths: false });
  }
  evaluateFile = (target) =>
    jiti.evalModule(readFileSync(target, "utf8"), { filename: target, async: true, forceTranspile: true });
  const { load } = createOrderedImport((specifier) => jiti.import(specifier), jiti, jiti.esmResolve, "");
  try {
    return (await load(file)) as Module;
  } catch (error) {
    if (error instanceof Error) error.message = dropRequireStack(error.message) + tsconfigWarning;
    throw error;
  }
}

/** Files are loaded again after `forgetFiles`: Deno and Node load no module twice, so jiti loads what it leaves to them otherwise. */
let isReloading = false;
let evaluateFile: (file: string) => unknown;

/** The files of projects that are loaded. */
export const loadedFiles = (): string[] => Object.keys(require.cache).filter(isProjectFile);

/**
 * Makes the next import of each file of the project load it again, also of files that failed to load, which no list
 * has. Modules that were loaded stay in use where they are held.
 */
export function forgetFiles(failedFiles: readonly string[] = []): void {
  isReloading = true;
  for (const file of [...loadedFiles(), ...failedFiles]) delete require.cache[file];
  evaluations.clear();
  pendingImports.clear();
}

/** Bun has its functions, and starts sooner without the module. */
const getUrlModule = (): typeof import("node:url") => process.getBuiltinModule("node:url");

const require: NodeJS.Require = createRequire(import.meta.url);
/** The folder of this program, whose files Bun lists too. */
const PACKAGE_FOLDER = join(import.meta.dirname, "../../");
/** False for packages, and for the files of this program. */
export const isProjectFile = (file: string): boolean =>
  !/[\\/]node_modules[\\/]/.test(file) &&
  !["lib", "adapters"].some((folder) => file.startsWith(`${PACKAGE_FOLDER}${folder}`));

/** The cache of transformed files would be one of the whole machine. */
const JITI_OPTIONS = {
  fsCache: false,
  interopDefault: false,
  tsconfigPaths: true,
  jsx: { runtime: "automatic" },
} as const;
let transpiler: Jiti | undefined;
const HOOK: unique symbol = Symbol.for("greenroom.loader") as never;

/** The code that precedes each file, on its first line, so that the line numbers of stack traces stay correct. */
const FILE_PREFIX =
  `({load:jitiImport,need:require}=globalThis[Symbol.for(${JSON.stringify(Symbol.keyFor(HOOK))})]` +
  "(jitiImport,require,jitiESMResolve,__filename));";

/** Returns the code of a file for CommonJS, with a prefix that each file of the project gets. */
function transform(options: TransformOptions): string {
  const babel = { ...options.babel, plugins: [replaceImportMetaMain] };
  const code = (transpiler as Jiti).transform({ ...options, babel });
  const insertAt = /^(?:#!.*\n)?(?:"use strict";)?/.exec(code)?.[0].length ?? 0;
  return code.slice(0, insertAt) + FILE_PREFIX + code.slice(insertAt);
}

interface Path {
  matchesPattern(pattern: string): boolean;
  replaceWithSourceString(code: string): void;
}

/**
 * Creates a plugin of Babel that replaces `import.meta.main`, which jiti keeps, by `false`: no graph is the program.
 */
const replaceImportMetaMain = (): object => ({
  // Babel's own name.
  visitor: {
    MemberExpression(path: Path): void {
      if (path.matchesPattern("import.meta.main")) path.replaceWithSourceString("false");
    },
  },
});

/** The exports of each file, resolved after its own top-level `await` and those of its imports. */
const evaluations = new Map<string, Promise<unknown>>();
/** The files for which the imports of a file wait, by importing file. */
const pendingImports = new Map<string, Set<string>>();

/**
 * Creates `import` and `require` of a file. jiti gives a file that imports one under evaluation what that exports so
 * far. Here it waits, as in Node, unless the other file waits for it.
 */
function createOrderedImport(
  importModule: Import,
  requireModule: Require,
  resolve: Resolve,
  importer: string,
): { readonly load: Import; readonly need: Require } {
  /**
   * Imports a module of the project or a package. Files of the project are evaluated once, and not from the cache of
   * Node after a change. An import by a file that the imported one waits for gets what that exports so far, instead of
   * blocking.
   */
  const load: Import = async (specifier) => {
    const target = findTargetFile(resolve, specifier);
    if (target === undefined) return toModuleNamespace(await importModule(specifier));
    const existing = evaluations.get(target);
    if (existing && waitsFor(target, importer)) return importModule(specifier);
    const mustEvaluate = isReloading && /\.m?js$/.test(target) && isProjectFile(target) && !(target in require.cache);
    const evaluation =
      existing ??
      (mustEvaluate ? Promise.resolve(evaluateFile(target)) : importModule(specifier)).then(toModuleNamespace);
    evaluations.set(target, evaluation);
    const targets = pendingImports.get(importer) ?? new Set();
    pendingImports.set(importer, targets.add(target));
    try {
      return await evaluation;
    } finally {
      targets.delete(target);
    }
  };
  /**
   * Requires a module. Packages of LangChain are taken from the copy that `import` finds, so that classes are the same;
   * if that copy cannot be required, from the other one.
   */
  const need: Require = (specifier) => {
    // By `require` it would be LangChain's other copy, whose classes are not those of the files that import it.
    if (!specifier.startsWith("@langchain/")) return requireModule(specifier);
    try {
      return createRequire(importer)(getUrlModule().fileURLToPath(resolve(specifier)));
    } catch (error) {
      if ((error as { code?: unknown }).code !== "ERR_REQUIRE_ESM") throw error;
      return requireModule(specifier);
    }
  };
  return { load, need: new Proxy(requireModule, { apply: (_, __, [specifier]) => need(specifier) }) };
}

/**
 * Returns the file that a specifier means. Undefined for one that is no file, such as `node:fs`, and for one that is
 * not found, whose import then says why.
 */
function findTargetFile(resolve: Resolve, specifier: string): string | undefined {
  try {
    const url = resolve(specifier);
    return url.startsWith("file:") ? getUrlModule().fileURLToPath(url) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Returns true if the evaluation of `file` waits, directly or through other files, for `importer`; also if they are the
 * same file.
 */
function waitsFor(file: string, importer: string, visited: Set<string> = new Set()): boolean {
  if (file === importer) return true;
  visited.add(file);
  return [...(pendingImports.get(file) ?? [])].some((next) => !visited.has(next) && waitsFor(next, importer, visited));
}

/**
 * Returns the exports of a CommonJS module with themselves as the default export, as Node does it. Returns ES modules,
 * values that are no object, and exports with a default as they are.
 */
function toModuleNamespace(module: unknown): unknown {
  const isObject = (typeof module === "object" && module !== null) || typeof module === "function";
  if (
    !isObject ||
    process.getBuiltinModule("node:util").types.isModuleNamespaceObject(module) ||
    "__esModule" in module
  )
    return module;
  return "default" in module ? module : { ...module, default: module };
}

/** Removes the require stack from a message. The files in it are not the user's. */
function dropRequireStack(message: string): string {
  return message.replace(
    /\nRequire stack:\n- ([^\n]+).*$/s,
    (_, file: string) => ` (from ${file.replace(`${process.cwd()}/`, "")})`,
  );
}

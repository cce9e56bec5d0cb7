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

/** Imports a file by its absolute path. Rejects with what its own code threw, or says why it cannot be loaded. */
export async function importFile(file: string): Promise<Module> {
  const { Bun } = globalThis as { readonly Bun?: { pathToFileURL(path: string): { readonly href: string } } };
  if (Bun || ("Deno" in globalThis && !reloads)) return await import((Bun ?? urls()).pathToFileURL(file).href);
  const { createJiti } = await import("jiti");
  plain ??= createJiti(import.meta.url, { ...OPTIONS, tsconfigPaths: false });
  (globalThis as { [HOOK]?: typeof orderly })[HOOK] = orderly;
  const options: JitiOptions = { ...OPTIONS, transform: (options) => ({ code: transform(options) }) };
  let aside = "";
  let jiti: Jiti;
  try {
    jiti = createJiti(file, options);
  } catch (error) {
    // Often it extends one of a package for development, and says nothing of paths.
    aside = ` (tsconfig.json is left out: ${(error as Error).message})`;
    jiti = createJiti(file, { ...options, tsconfigPaths: false });
  }
  evaluate = (target) =>
    jiti.evalModule(readFileSync(target, "utf8"), { filename: target, async: true, forceTranspile: true });
  const { load } = orderly((specifier) => jiti.import(specifier), jiti, jiti.esmResolve, "");
  try {
    return (await load(file)) as Module;
  } catch (error) {
    if (error instanceof Error) error.message = withoutTrail(error.message) + aside;
    throw error;
  }
}

/** Files are loaded again after `forgetFiles`: Deno and Node load no module twice, so jiti loads what it leaves to them otherwise. */
let reloads = false;
let evaluate: (file: string) => unknown;

/** The files of projects that are loaded. */
export const loadedFiles = (): string[] => Object.keys(require.cache).filter(isProjectFile);

/** Files that are imported from now on are loaded again. `more`: files that failed to load, which no list names. */
export function forgetFiles(more: readonly string[] = []): void {
  reloads = true;
  for (const file of [...loadedFiles(), ...more]) delete require.cache[file];
  evaluations.clear();
  waiting.clear();
}

/** Bun has its functions, and starts sooner without the module. */
const urls = (): typeof import("node:url") => process.getBuiltinModule("node:url");

const require: NodeJS.Require = createRequire(import.meta.url);
/** Bun lists this program's own files too. */
const OWN = join(import.meta.dirname, "../../");
/** False for packages, and for the files of this program. */
export const isProjectFile = (file: string): boolean =>
  !/[\\/]node_modules[\\/]/.test(file) && !["lib", "adapters"].some((folder) => file.startsWith(`${OWN}${folder}`));

/** The cache of transformed files would be one of the whole machine. */
const OPTIONS = {
  fsCache: false,
  interopDefault: false,
  tsconfigPaths: true,
  jsx: { runtime: "automatic" },
} as const;
let plain: Jiti | undefined;
const HOOK: unique symbol = Symbol.for("greenroom.loader") as never;

/** In front of each file, on its first line, so that lines stay what they are in stack traces. */
const PREFIX =
  `({load:jitiImport,need:require}=globalThis[Symbol.for(${JSON.stringify(Symbol.keyFor(HOOK))})]` +
  "(jitiImport,require,jitiESMResolve,__filename));";

function transform(options: TransformOptions): string {
  const babel = { ...options.babel, plugins: [withoutMain] };
  const code = (plain as Jiti).transform({ ...options, babel });
  const at = /^(?:#!.*\n)?(?:"use strict";)?/.exec(code)?.[0].length ?? 0;
  return code.slice(0, at) + PREFIX + code.slice(at);
}

interface Path {
  matchesPattern(pattern: string): boolean;
  replaceWithSourceString(code: string): void;
}

/** `import.meta.main`, which jiti leaves alone: no graph is the program. */
const withoutMain = (): object => ({
  // Babel's own name.
  visitor: {
    MemberExpression(path: Path): void {
      if (path.matchesPattern("import.meta.main")) path.replaceWithSourceString("false");
    },
  },
});

/** What each file evaluates to, once its own top-level `await` and those of its imports are over. */
const evaluations = new Map<string, Promise<unknown>>();
/** Which files an import in a file waits for. */
const waiting = new Map<string, Set<string>>();

/**
 * A file's `import` and `require`. jiti gives who imports a file that is being evaluated what that exports so far. Here they wait,
 * as Node has it, unless it is their own import that waits for them.
 */
function orderly(
  imported: Import,
  required: Require,
  resolve: Resolve,
  from: string,
): { readonly load: Import; readonly need: Require } {
  const load: Import = async (specifier) => {
    const target = targetOf(resolve, specifier);
    if (target === undefined) return shaped(await imported(specifier));
    const known = evaluations.get(target);
    if (known && waitsFor(target, from)) return imported(specifier);
    const native = reloads && /\.m?js$/.test(target) && isProjectFile(target) && !(target in require.cache);
    const evaluation = known ?? (native ? Promise.resolve(evaluate(target)) : imported(specifier)).then(shaped);
    evaluations.set(target, evaluation);
    const targets = waiting.get(from) ?? new Set();
    waiting.set(from, targets.add(target));
    try {
      return await evaluation;
    } finally {
      targets.delete(target);
    }
  };
  const need: Require = (specifier) => {
    // By `require` it would be LangChain's other copy, whose classes are not those of the files that import it.
    if (!specifier.startsWith("@langchain/")) return required(specifier);
    try {
      return createRequire(from)(urls().fileURLToPath(resolve(specifier)));
    } catch (error) {
      if ((error as { code?: unknown }).code !== "ERR_REQUIRE_ESM") throw error;
      return required(specifier);
    }
  };
  return { load, need: new Proxy(required, { apply: (_, __, [specifier]) => need(specifier) }) };
}

/** The file that a specifier means; undefined for what is none, or is not found: importing it says why. */
function targetOf(resolve: Resolve, specifier: string): string | undefined {
  try {
    const url = resolve(specifier);
    return url.startsWith("file:") ? urls().fileURLToPath(url) : undefined;
  } catch {
    return undefined;
  }
}

/** True when what evaluates `file` waits, at whatever remove, for `other`. */
function waitsFor(file: string, other: string, seen: Set<string> = new Set()): boolean {
  if (file === other) return true;
  seen.add(file);
  return [...(waiting.get(file) ?? [])].some((next) => !seen.has(next) && waitsFor(next, other, seen));
}

/** `module.exports` as the default export, as Node has it. */
function shaped(module: unknown): unknown {
  const given = (typeof module === "object" && module !== null) || typeof module === "function";
  if (!given || process.getBuiltinModule("node:util").types.isModuleNamespaceObject(module) || "__esModule" in module)
    return module;
  return "default" in module ? module : { ...module, default: module };
}

/** Without the files that led to it, which for a file that a configuration names are none of the user's. */
function withoutTrail(message: string): string {
  return message.replace(
    /\nRequire stack:\n- ([^\n]+).*$/s,
    (_, file: string) => ` (from ${file.replace(`${process.cwd()}/`, "")})`,
  );
}

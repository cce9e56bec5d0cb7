/** Reads the doc comments of the entry points: the `@example` blocks of functions, and the exports that lack one or lack a sentence. */
import { readFileSync } from "node:fs";
import * as ts from "typescript-5";

export interface Example {
  /** The exported function, and the number of its example. */
  readonly name: string;
  readonly code: string;
}

export interface ApiDocs {
  readonly examples: readonly Example[];
  /** Functions without an `@example`, and types without a sentence, each by its entry point. */
  readonly problems: readonly string[];
}

/** The entry points of the package, by name, and their sources. */
function entryPoints(): readonly (readonly [name: string, source: string])[] {
  const { exports } = JSON.parse(readFileSync("jsr.json", "utf8")) as {
    readonly exports: Readonly<Record<string, string>>;
  };
  return Object.entries(exports);
}

/** Returns the code between the fences of an example. */
const extractCode = (text: string): string => /```ts\n([\s\S]*?)```/.exec(text)?.[1] ?? "";

/** Returns the names that a module exports as types alone. `export type *` lists functions too, which importers cannot call. */
function listTypeExports(file: ts.SourceFile, checker: ts.TypeChecker): ReadonlySet<string> {
  const declarations = file.statements.filter((statement) => ts.isExportDeclaration(statement));
  const names = declarations
    .filter(({ isTypeOnly }) => isTypeOnly)
    .map(({ exportClause, moduleSpecifier }) => {
      if (exportClause && ts.isNamedExports(exportClause)) return exportClause.elements.map(({ name }) => name.text);
      const target = moduleSpecifier && checker.getSymbolAtLocation(moduleSpecifier);
      return target ? checker.getExportsOfModule(target).map(({ name }) => name) : [];
    });
  return new Set(names.flat());
}

/** Reads the documentation comments of everything that a program of these entry points exports. */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one walk over the exports of each entry
export function readApiDocs(entries: readonly (readonly [name: string, source: string])[] = entryPoints()): ApiDocs {
  const { config } = ts.readConfigFile("tsconfig.json", ts.sys.readFile) as { config: unknown };
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, ".");
  const sources = entries.map(([, source]) => source);
  // Names and comments need no type of the runtimes.
  const program = ts.createProgram(sources, { ...options, noLib: true, types: [] });
  const checker = program.getTypeChecker();
  const examples = new Map<string, Example>();
  const problems: string[] = [];
  for (const [entry, source] of entries) {
    const file = program.getSourceFile(source);
    const module = file && checker.getSymbolAtLocation(file);
    if (!module) throw new Error(`${source} is no module`);
    const typeExports = listTypeExports(file, checker);
    for (const exported of checker.getExportsOfModule(module)) {
      const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
      if (typeExports.has(exported.name) && !(symbol.flags & ts.SymbolFlags.Type)) continue;
      const name = `${entry}: ${exported.name}`;
      if (symbol.getDocumentationComment(checker).length === 0) problems.push(`${name} has no sentence`);
      if (!(symbol.flags & ts.SymbolFlags.Function)) continue;
      const tags = symbol.getJsDocTags(checker).filter((tag) => tag.name === "example");
      const codes = tags.map(({ text }) => extractCode(ts.displayPartsToString(text))).filter((code) => code !== "");
      if (codes.length === 0) problems.push(`${name} has no @example`);
      for (const [i, code] of codes.entries()) {
        examples.set(`${exported.name}.${i}`, { name: `${exported.name}.${i}`, code });
      }
    }
  }
  return { examples: [...examples.values()], problems };
}

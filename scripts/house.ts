/** Measures a tree: the figures of the table that `scripts/check-house.ts` prints. Reads the sources with TypeScript's compiler API. */
import { globSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import ts from "typescript-5";
import { isDownward } from "../test/core/source-rules.ts";

export type Row =
  | "code"
  | "files_in_lib"
  | "long_files"
  | "long_functions"
  | "long_classes"
  | "circles"
  | "files_in_circles"
  | "upward"
  | "early_uses"
  | "exports"
  | "visibility"
  | "visibility_outside"
  | "feedback_files"
  | "features_in_core"
  | "verbs"
  | "dead_verbs"
  | "readme_lines";

export interface Figure {
  readonly value: number;
  /** What is counted, where a list says more than its length. */
  readonly found: readonly string[];
}

export interface House {
  readonly rows: Readonly<Record<Row, Figure>>;
  /** Lines of code for each folder. */
  readonly folders: ReadonlyMap<string, number>;
}

export const LONGEST_FILE = 450;
export const LONGEST_FUNCTION = 120;
export const LONGEST_CLASS = 250;

export interface Source {
  readonly path: string;
  readonly text: string;
  readonly tree: ts.SourceFile;
}

/** Every TypeScript file of `lib`, `adapters` and `server.ts`, parsed. */
export function sourcesOf(root: string): Source[] {
  return (
    globSync(["lib/**/*.ts", "adapters/**/*.{ts,tsx}", "server.ts"], { cwd: root })
      // Generated.
      .filter((path) => !path.endsWith("assets.ts"))
      .map((path) => path.replaceAll("\\", "/"))
      .sort()
      .map((path) => {
        const text = readFileSync(join(root, path), "utf8");
        return {
          path,
          text,
          tree: ts.createSourceFile(
            path,
            text,
            ts.ScriptTarget.Latest,
            true,
            path.endsWith("x") ? ts.ScriptKind.TSX : undefined,
          ),
        };
      })
  );
}

/** Calls `visit` with a node and everything below it. */
export function walk(node: ts.Node, visit: (node: ts.Node) => void): void {
  visit(node);
  ts.forEachChild(node, (child) => walk(child, visit));
}

const linesIn = (text: string): number => text.split("\n").length - (text.endsWith("\n") ? 1 : 0);

/** Lines that are neither blank nor a comment from their first character to their last. */
function codeIn(text: string): number {
  let inComment = false;
  let count = 0;
  for (const line of text.split("\n").map((part) => part.trim())) {
    if (inComment) inComment = !line.includes("*/");
    else if (line.startsWith("/*")) inComment = !line.includes("*/");
    else if (line !== "" && !line.startsWith("//")) count++;
  }
  return count;
}

/** `lib/http`, `adapters/sql`, or `lib` for a file that lies directly in it. */
function folderOf(path: string): string {
  const parts = path.split("/").slice(0, -1);
  return parts.length === 0 ? path : parts.slice(0, 2).join("/");
}

interface Piece {
  readonly where: string;
  readonly lines: number;
}

/** What stands beside a storage verb (scripts/verbs.ts) does not make its function longer. */
const VERB_NOTES = /\/\*\*(?:(?!\*\/)[\s\S])*?@statements[\s\S]*?\*\//g;

/** Functions with a body, and classes, with the lines from their first token to their last. */
function piecesOf({ path, tree }: Source): { readonly functions: Piece[]; readonly classes: Piece[] } {
  const functions: Piece[] = [];
  const classes: Piece[] = [];
  const lineOf = (at: number): number => tree.getLineAndCharacterOfPosition(at).line + 1;
  walk(tree, (node) => {
    const isFunction = ts.isFunctionLike(node) && "body" in node && node.body !== undefined;
    if (!isFunction && !ts.isClassLike(node)) return;
    const from = lineOf(node.getStart(tree));
    const named = ts.getNameOfDeclaration(node as ts.Declaration) ?? ("name" in node.parent && node.parent.name);
    const name = named ? (named as ts.Node).getText(tree) : "(anonymous)";
    const notes = node.getText(tree).match(VERB_NOTES) ?? [];
    const noted = notes.reduce((sum, note) => sum + linesIn(note), 0);
    const piece = { where: `${path}:${from} ${name}`, lines: lineOf(node.getEnd()) - from + 1 - noted };
    (isFunction ? functions : classes).push(piece);
  });
  return { functions, classes };
}

/** Every module that a file names: imports, types of imports, re-exports and dynamic imports. */
export function modulesNamedIn(tree: ts.SourceFile): string[] {
  const names: string[] = [];
  const add = (node: ts.Node | undefined): void => {
    if (node && ts.isStringLiteralLike(node)) names.push(node.text);
  };
  walk(tree, (node) => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) add(node.moduleSpecifier);
    else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) add(node.arguments[0]);
    else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) add(node.argument.literal);
  });
  return names;
}

/** Groups of files that import each other, directly or by way of others (strongly connected components). */
export function circlesOf(imports: ReadonlyMap<string, readonly string[]>): string[][] {
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const open: string[] = [];
  const circles: string[][] = [];
  const visit = (file: string): number => {
    const index = order.size;
    let low = index;
    order.set(file, index);
    open.push(file);
    for (const target of imports.get(file) ?? []) {
      if (!imports.has(target)) continue;
      if (!order.has(target)) low = Math.min(low, visit(target));
      else if (open.includes(target)) low = Math.min(low, order.get(target) as number);
    }
    lowest.set(file, low);
    if (low === index) {
      const circle = open.splice(open.indexOf(file));
      if (circle.length > 1 || imports.get(file)?.includes(file)) circles.push(circle.sort());
    }
    return low;
  };
  for (const file of imports.keys()) if (!order.has(file)) visit(file);
  return circles;
}

const WIRING = /^lib\/service(?:\/|\.ts$)/;

/** The parameters of a function or the variables of a block. */
function declarationsIn(scope: ts.Node): readonly (ts.ParameterDeclaration | ts.VariableDeclaration)[] {
  if (ts.isFunctionLike(scope)) return scope.parameters;
  if (!ts.isBlock(scope)) return [];
  return scope.statements.flatMap((statement) =>
    ts.isVariableStatement(statement) ? [...statement.declarationList.declarations] : [],
  );
}

/** Whether a function between this node and the block has a parameter or variable of this name: then it means that one. */
function isShadowed(node: ts.Identifier, block: ts.Node): boolean {
  for (let scope: ts.Node = node.parent; scope !== block; scope = scope.parent) {
    const declared = declarationsIn(scope);
    if (declared.some(({ name }) => new RegExp(`\\b${node.text}\\b`).test(name.getText()))) return true;
  }
  return false;
}

/** Uses of a block's constants before their declaration: what is wired so needs a callback to reach what does not exist yet. */
function earlyUsesOf({ path, tree }: Source): string[] {
  const found: string[] = [];
  walk(tree, (block) => {
    if (!ts.isBlock(block)) return;
    const declared = new Map<string, number>();
    for (const { declarationList } of block.statements.filter(ts.isVariableStatement)) {
      for (const { name } of declarationList.declarations) {
        const names = ts.isIdentifier(name) ? [name] : name.elements.flatMap((one) => ("name" in one ? one.name : []));
        for (const one of names) declared.set(one.getText(tree), name.getStart(tree));
      }
    }
    walk(block, (node) => {
      if (!ts.isIdentifier(node) || node.getStart(tree) >= (declared.get(node.text) ?? 0)) return;
      const { parent } = node;
      const isMember =
        (ts.isPropertyAccessExpression(parent) && parent.name === node) ||
        ((ts.isPropertyAssignment(parent) || ts.isMethodDeclaration(parent) || ts.isPropertySignature(parent)) &&
          parent.name === node) ||
        (ts.isBindingElement(parent) && parent.propertyName === node);
      if (isMember || isShadowed(node, block)) return;
      found.push(`${path}:${tree.getLineAndCharacterOfPosition(node.getStart(tree)).line + 1} ${node.text}`);
    });
  });
  return found;
}

/** The names that `import … from "greenroom"` can use, types included. */
function exportsOf(root: string): string[] {
  const manifest = JSON.parse(readFileSync(join(root, "jsr.json"), "utf8")) as {
    readonly exports: { readonly ".": string };
  };
  const entry = join(root, manifest.exports["."]);
  const options: ts.CompilerOptions = {
    allowImportingTsExtensions: true,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    noEmit: true,
    noLib: true,
    types: [],
  };
  const program = ts.createProgram([entry], options);
  const file = program.getSourceFile(entry);
  const checker = program.getTypeChecker();
  const module = file && checker.getSymbolAtLocation(file);
  return module ? checker.getExportsOfModule(module).map(({ name }) => name) : [];
}

const longest = (pieces: readonly Piece[], limit: number): Figure => {
  const long = pieces.filter(({ lines }) => lines > limit).sort((a, b) => b.lines - a.lines);
  return { value: long.length, found: long.map(({ where, lines }) => `${where}: ${lines} lines`) };
};

const STUDIO = /^adapters\/studio\//;
/** The folders that belong to feedback. What the word stands for elsewhere is a feature outside its folder. */
const FEEDBACK = /\/feedback(?:\/|(?:-links)?\.ts$)/;
/** Where runs are created, executed, ended, stopped and swept. Features add to it by their lists and are not named there. */
const CORE_OF_RUNS =
  /^(?:adapters\/sql\/runs\/(?:create|create-statements|end|stop|sweep)|lib\/engine\/attempt[a-z-]*)\.ts$/;
const FEATURES = /feedback|webhook|usage|deliver/i;
/** A type or a call that says how far a caller sees. */
const VISIBILITY = /: Visibility\b|\bwithVisibility\(/g;
const ABOVE_THE_NOUNS = /^lib\/(?:http|protocol)\//;

/** Lines of the sources that have this. */
function linesWith(sources: readonly Source[], pattern: RegExp): Figure {
  const found = sources.flatMap(({ path, text }) =>
    text.split("\n").flatMap((line, index) => (line.match(pattern) ?? []).map(() => `${path}:${index + 1}`)),
  );
  return { value: found.length, found };
}

/** Files that name this, outside the folders of feedback and the studio. */
function naming(sources: readonly Source[], word: RegExp): Figure {
  const found = sources
    .filter(({ path, text }) => !STUDIO.test(path) && !FEEDBACK.test(path) && word.test(text))
    .map(({ path }) => path);
  return { value: found.length, found };
}

/** The verbs of `Storage`, and those that nothing outside the adapters of SQL calls. */
export function verbsOf(sources: readonly Source[]): { readonly verbs: Figure; readonly dead: Figure } {
  const names = sources
    .filter(({ path }) => path.startsWith("lib/storage/"))
    .flatMap(({ tree }) => [...tree.statements])
    .filter(
      (node): node is ts.InterfaceDeclaration =>
        ts.isInterfaceDeclaration(node) && /(?:Storage|IdentityStore)$/.test(node.name.text),
    )
    .flatMap(({ members }) =>
      members.filter(ts.isMethodSignature).map((member) => (member.name as ts.Identifier).text),
    );
  const verbs = [...new Set(names)].sort();
  const callers = sources.filter(({ path }) => !/^(?:adapters\/sql\/|lib\/storage\/bus\.ts$)/.test(path));
  const dead = verbs.filter((name) => !callers.some(({ text }) => new RegExp(`\\.${name}\\b`).test(text)));
  return { verbs: { value: verbs.length, found: verbs }, dead: { value: dead.length, found: dead } };
}

/** Measures the tree in this folder. */
export function measure(root: string): House {
  const sources = sourcesOf(root);
  const files = sources.map(({ path, text }) => ({ where: path, lines: linesIn(text) }));
  const folders = new Map<string, number>();
  const code = sources.map(({ path, text }) => ({ where: path, lines: codeIn(text) }));
  for (const { where, lines } of code) folders.set(folderOf(where), (folders.get(folderOf(where)) ?? 0) + lines);
  const lib = sources.filter(({ path }) => path.startsWith("lib/"));
  const { verbs, dead } = verbsOf(sources);
  const pieces = sources.map(piecesOf);
  const imports = new Map(
    sources.map(({ path, tree }) => [
      path,
      modulesNamedIn(tree)
        .filter((name) => name.startsWith("."))
        .map((name) => posix.join(posix.dirname(path), name)),
    ]),
  );
  const circles = circlesOf(imports);
  const upward = [...imports].flatMap(([path, targets]) =>
    targets
      .filter((to) => path.startsWith("lib/") && to.startsWith("lib/") && !isDownward(path, to))
      .map((to) => `${path} ${to}`),
  );
  const earlyUses = sources.filter(({ path }) => WIRING.test(path)).flatMap(earlyUsesOf);
  const inLib = files.filter(({ where }) => /^lib\/[^/]+$/.test(where)).map(({ where }) => where);
  const names = exportsOf(root);
  return {
    folders,
    rows: {
      code: {
        value: code.filter(({ where }) => !STUDIO.test(where)).reduce((sum, { lines }) => sum + lines, 0),
        found: [],
      },
      files_in_lib: { value: inLib.length, found: inLib },
      long_files: longest(files, LONGEST_FILE),
      long_functions: longest(
        pieces.flatMap(({ functions }) => functions),
        LONGEST_FUNCTION,
      ),
      long_classes: longest(
        pieces.flatMap(({ classes }) => classes),
        LONGEST_CLASS,
      ),
      circles: { value: circles.length, found: circles.map((circle) => circle.join(" - ")) },
      files_in_circles: { value: circles.flat().length, found: [] },
      upward: { value: upward.length, found: upward },
      early_uses: { value: earlyUses.length, found: earlyUses },
      exports: { value: names.length, found: [] },
      visibility: linesWith(lib, VISIBILITY),
      visibility_outside: linesWith(
        lib.filter(({ path }) => ABOVE_THE_NOUNS.test(path)),
        VISIBILITY,
      ),
      feedback_files: naming(sources, /feedback/i),
      features_in_core: naming(
        sources.filter(({ path }) => CORE_OF_RUNS.test(path)),
        FEATURES,
      ),
      verbs,
      dead_verbs: dead,
      readme_lines: { value: linesIn(readFileSync(join(root, "README.md"), "utf8")), found: [] },
    },
  };
}

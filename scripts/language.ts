/** Measures the language of the tree: names that carry no meaning, and doc comments that are not sentences. */
import ts from "typescript-5";
import { type Fragment, findFragment } from "./fragments.ts";
import { countCodeLines, type Source, walk } from "./sources.ts";

const { LAYERS } = (await import(new URL("../.dependency-cruiser.mjs", import.meta.url).href)) as {
  readonly LAYERS: readonly (readonly string[])[];
};

const words = (text: string): ReadonlySet<string> => new Set(text.split(" "));

/** Participles, possessives and pronouns. As whole names they do not say what they name. */
const BARE_NAMES = words(
  "its own given sent seen shown told said asked kept known wanted taken left called found place one other others rest more made held begun gone due",
);
/** Nouns that fit everything, and so do not replace a bare name. */
const GENERIC_NAMES = words("item value data obj tmp val");
/** Methods of the language that end in `Of`. */
const STANDARD_FUNCTIONS = words("indexOf lastIndexOf valueOf");
const SUPERLATIVE = /^(?:MOST|LONGEST|LARGEST|DEEPEST|HIGHEST|GREATEST|FEWEST|SMALLEST|SHORTEST)_/;

export type Kind =
  | "bareNames"
  | "genericNames"
  | Fragment
  | "functionsOf"
  | "superlatives"
  | "privateKeywords"
  | "typesTwice";

export interface Finding {
  readonly kind: Kind;
  readonly path: string;
  readonly line: number;
  readonly text: string;
}

export interface Language {
  readonly findings: readonly Finding[];
  /** The lines of code of each file. */
  readonly lines: ReadonlyMap<string, number>;
  /** The number of doc comments of each file. */
  readonly comments: ReadonlyMap<string, number>;
}

const isTypeDeclaration = (node: ts.Node): node is ts.DeclarationStatement =>
  ts.isInterfaceDeclaration(node) ||
  ts.isTypeAliasDeclaration(node) ||
  ts.isClassDeclaration(node) ||
  ts.isEnumDeclaration(node);

const isDeclaration = (node: ts.Node): node is ts.NamedDeclaration =>
  isTypeDeclaration(node) ||
  ts.isVariableDeclaration(node) ||
  ts.isParameter(node) ||
  ts.isBindingElement(node) ||
  ts.isFunctionDeclaration(node) ||
  ts.isFunctionExpression(node) ||
  ts.isClassElement(node) ||
  ts.isTypeElement(node) ||
  ts.isEnumMember(node);

/** Returns the name that a node declares; undefined for patterns, computed names and all other nodes. */
function findDeclaredName(node: ts.Node): string | undefined {
  // A method of an object literal implements a member that is declared elsewhere, as the properties of the literal do.
  if (!isDeclaration(node) || ts.isObjectLiteralExpression(node.parent)) return undefined;
  const { name } = node;
  return name && (ts.isIdentifier(name) || ts.isPrivateIdentifier(name)) ? name.text.replace(/^[#_]/, "") : undefined;
}

const isFunctionValue = (node: ts.Node | undefined): boolean =>
  node !== undefined && (ts.isArrowFunction(node) || ts.isFunctionExpression(node) || ts.isFunctionTypeNode(node));

/** Returns true for a function, a method, and a variable, parameter or field with the type or the value of a function. */
function declaresFunction(node: ts.Node): boolean {
  if (ts.isVariableStatement(node)) return node.declarationList.declarations.some(declaresFunction);
  if (ts.isVariableDeclaration(node) || ts.isParameter(node) || ts.isPropertyDeclaration(node))
    return isFunctionValue(node.type) || isFunctionValue(node.initializer);
  if (ts.isPropertySignature(node)) return isFunctionValue(node.type);
  return ts.isFunctionDeclaration(node) || ts.isMethodDeclaration(node) || ts.isMethodSignature(node);
}

/** Returns the kinds for which the name of a declaration counts. */
function judgeName(node: ts.Node, name: string): Kind[] {
  const kinds: Kind[] = [];
  if (BARE_NAMES.has(name)) kinds.push("bareNames");
  if (GENERIC_NAMES.has(name)) kinds.push("genericNames");
  if (SUPERLATIVE.test(name)) kinds.push("superlatives");
  if (/[a-z]Of$/.test(name) && declaresFunction(node) && !STANDARD_FUNCTIONS.has(name)) kinds.push("functionsOf");
  return kinds;
}

interface DocComment {
  readonly text: string;
  readonly start: number;
  readonly isOfFunction: boolean;
}

/** Returns the doc comments of a file with text before their first tag, once each. */
function readDocComments({ text, tree }: Source): DocComment[] {
  const byStart = new Map<number, DocComment>();
  walk(tree, (node) => {
    if (node.getStart(tree) - node.getFullStart() < "/***/".length) return;
    const ranges = (ts.getLeadingCommentRanges(text, node.getFullStart()) ?? []).filter(({ pos }) =>
      text.startsWith("/**", pos),
    );
    for (const { pos: start, end } of ranges) {
      const comment = text.slice(start + 3, end - 2);
      if (byStart.has(start) || !/^[\s*]*[^\s*@]/.test(comment)) continue;
      const isOfFunction = start === ranges.at(-1)?.pos && declaresFunction(node);
      byStart.set(start, { text: comment, start, isOfFunction });
    }
  });
  return [...byStart.values()];
}

function measureFile(source: Source, comments: readonly DocComment[]): Finding[] {
  const { path, tree } = source;
  const findings: Finding[] = [];
  const add = (kind: Kind, position: number, text: string): void => {
    findings.push({ kind, path, line: tree.getLineAndCharacterOfPosition(position).line + 1, text });
  };
  walk(tree, (node) => {
    if (node.kind === ts.SyntaxKind.PrivateKeyword)
      add("privateKeywords", node.getStart(tree), node.parent.getText(tree).split("\n")[0] ?? "");
    const name = findDeclaredName(node);
    const position = ((node as ts.NamedDeclaration).name ?? node).getStart(tree);
    if (name !== undefined) for (const kind of judgeName(node, name)) add(kind, position, name);
  });
  for (const { text, start, isOfFunction } of comments) {
    const sentence =
      text
        .split(/^[\s*]*@\w/m, 1)[0]
        ?.replaceAll(/\s*\n\s*\*?\s*/g, " ")
        .trim() ?? "";
    const fragment = findFragment(sentence, isOfFunction);
    if (fragment) add(fragment, start, sentence.slice(0, 120));
  }
  return findings;
}

/** Returns the layer of docs/architecture.md that a file belongs to; undefined for files outside `lib` and `adapters`. */
function findLayer(path: string): string | undefined {
  if (path.startsWith("adapters/studio/page/")) return "the studio's page";
  if (path.startsWith("adapters/")) return "adapters";
  const name = /^lib\/([^/.]+)/.exec(path)?.[1];
  return name && LAYERS.find((layer) => layer.includes(name))?.join(", ");
}

/** Finds exported types with a name that another file of the same layer exports too. */
function findTypesTwice(sources: readonly Source[]): Finding[] {
  const byName = new Map<string, Finding[]>();
  for (const { path, tree } of sources) {
    const layer = findLayer(path);
    if (layer === undefined) continue;
    const exported = tree.statements
      .filter(isTypeDeclaration)
      .filter((node) => ts.getCombinedModifierFlags(node) & ts.ModifierFlags.Export);
    for (const { name } of exported) {
      if (!name) continue;
      const key = `${name.text} in ${layer}`;
      const line = tree.getLineAndCharacterOfPosition(name.getStart(tree)).line + 1;
      byName.set(key, [...(byName.get(key) ?? []), { kind: "typesTwice", path, line, text: key }]);
    }
  }
  return [...byName.values()].filter((findings) => new Set(findings.map(({ path }) => path)).size > 1).flat();
}

/** Measures parsed files. The list of findings is in the order of the files. */
export function measureLanguage(sources: readonly Source[]): Language {
  const comments = new Map(sources.map((source) => [source.path, readDocComments(source)]));
  return {
    findings: [
      ...sources.flatMap((source) => measureFile(source, comments.get(source.path) ?? [])),
      ...findTypesTwice(sources),
    ],
    lines: new Map(sources.map(({ path, text }) => [path, countCodeLines(text)])),
    comments: new Map([...comments].map(([path, list]) => [path, list.length])),
  };
}

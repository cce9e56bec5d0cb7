/** Searches a tree for the names and phrases of scripts/retired-names.ts. */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript-5";
import { RETIRED_NAMES, RETIRED_PHRASES, type Retired } from "./retired-names.ts";
import { type Source, walk } from "./sources.ts";

const isIn = (path: string, places: readonly string[]): boolean =>
  places.some((start) => path === start || path.startsWith(`${start}/`));

/** Returns a line for each identifier with a retired name: its location, and the name to write instead. */
export function findRetiredNames(sources: readonly Source[], retired: readonly Retired[] = RETIRED_NAMES): string[] {
  const byName = new Map(retired.map((entry) => [entry.name, entry]));
  const places: string[] = [];
  for (const { path, tree } of sources)
    walk(tree, (node) => {
      if (!ts.isIdentifier(node) && !ts.isPrivateIdentifier(node)) return;
      const entry = byName.get(node.text.replace(/^#/, ""));
      if (!entry || (entry.only && !isIn(path, entry.only)) || isIn(path, entry.except ?? [])) return;
      const { line } = tree.getLineAndCharacterOfPosition(node.getStart(tree));
      places.push(`${path}:${line + 1} ${entry.name}: use ${entry.use}`);
    });
  return places;
}

const phrases = new RegExp(
  `\\b(?:${RETIRED_PHRASES.map((phrase) => phrase.replaceAll(" ", "\\s+")).join("|")})\\b`,
  "gi",
);

const inText = (text: string, where: (line: number) => string): string[] =>
  [...text.matchAll(phrases)].map(({ 0: phrase, index }) => {
    return `${where(text.slice(0, index).split("\n").length)} ${phrase.replaceAll(/\s+/g, " ")}`;
  });

/** Finds retired phrases in string literals and pieces of templates that have more than one word. */
function findInLiterals({ path, tree }: Source): string[] {
  const places: string[] = [];
  walk(tree, (node) => {
    const isText = ts.isStringLiteralLike(node) || ts.isTemplateHead(node) || ts.isTemplateMiddleOrTemplateTail(node);
    if (!isText || !node.text.trim().includes(" ")) return;
    const { line } = tree.getLineAndCharacterOfPosition(node.getStart(tree));
    places.push(...inText(node.text, (inside) => `${path}:${line + inside}`));
  });
  return places;
}

/** Finds the retired phrases in README, docs and texts of the code. */
export function findRetiredPhrases(root: string, sources: readonly Source[]): string[] {
  const pages = ["README.md", ...globSync("docs/**/*.md", { cwd: root }).sort()];
  const inPages = pages.flatMap((path) =>
    inText(readFileSync(join(root, path), "utf8"), (line) => `${path.replaceAll("\\", "/")}:${line}`),
  );
  return [...inPages, ...sources.flatMap(findInLiterals)];
}

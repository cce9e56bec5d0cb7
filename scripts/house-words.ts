/** Searches a tree for the names and phrases of scripts/retired-names.ts. */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript-5";
import { type Figure, type Source, walk } from "./house.ts";
import { type PhraseSource, RETIRED_NAMES, RETIRED_PHRASES, type Retired } from "./retired-names.ts";

const isIn = (path: string, places: readonly string[]): boolean =>
  places.some((place) => path === place || path.startsWith(`${place}/`));

/** How often each retired name is an identifier, and in which files. */
export function countNames(
  sources: readonly Source[],
  retired: readonly Retired[] = RETIRED_NAMES,
): Map<string, Figure> {
  const found = new Map<string, Map<string, number>>();
  const byName = new Map(retired.map((entry) => [entry.name, entry]));
  for (const { path, tree } of sources)
    walk(tree, (node) => {
      if (!ts.isIdentifier(node) && !ts.isPrivateIdentifier(node)) return;
      const entry = byName.get(node.text.replace(/^#/, ""));
      if (!entry || (entry.only && !isIn(path, entry.only)) || isIn(path, entry.except ?? [])) return;
      const files = found.get(entry.name) ?? new Map<string, number>();
      found.set(entry.name, files.set(path, (files.get(path) ?? 0) + 1));
    });
  return new Map(
    retired.map(({ name }) => {
      const files = [...(found.get(name) ?? [])];
      const value = files.reduce((sum, [, count]) => sum + count, 0);
      return [name, { value, found: files.map(([file, count]) => `${file}: ${count}`) }];
    }),
  );
}

const phrases = new RegExp(
  `\\b(?:${RETIRED_PHRASES.map((phrase) => phrase.replaceAll(" ", "\\s+")).join("|")})\\b`,
  "gi",
);

const inText = (text: string, where: (line: number) => string): string[] =>
  [...text.matchAll(phrases)].map(({ 0: phrase, index }) => {
    return `${where(text.slice(0, index).split("\n").length)} ${phrase.replaceAll(/\s+/g, " ")}`;
  });

/** Sentences in the code: string literals and pieces of templates that have more than one word. */
function inLiterals({ path, tree }: Source): string[] {
  const found: string[] = [];
  walk(tree, (node) => {
    const isText = ts.isStringLiteralLike(node) || ts.isTemplateHead(node) || ts.isTemplateMiddleOrTemplateTail(node);
    if (!isText || !node.text.trim().includes(" ")) return;
    const { line } = tree.getLineAndCharacterOfPosition(node.getStart(tree));
    found.push(...inText(node.text, (inside) => `${path}:${line + inside}`));
  });
  return found;
}

/** Where each retired phrase stands. */
export function countPhrases(root: string, sources: readonly Source[]): Record<PhraseSource, Figure> {
  const page = (path: string): string[] =>
    inText(readFileSync(join(root, path), "utf8"), (line) => `${path.replaceAll("\\", "/")}:${line}`);
  const figure = (found: string[]): Figure => ({ value: found.length, found });
  return {
    "README.md": figure(page("README.md")),
    docs: figure(globSync("docs/**/*.md", { cwd: root }).sort().flatMap(page)),
    texts: figure(sources.flatMap(inLiterals)),
  };
}

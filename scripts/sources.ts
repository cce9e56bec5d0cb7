/** The TypeScript files of the tree, parsed with TypeScript's compiler API. */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript-5";

export interface Source {
  /** The path relative to the root, with slashes. */
  readonly path: string;
  readonly text: string;
  readonly tree: ts.SourceFile;
}

const PUBLISHED = ["lib/**/*.ts", "adapters/**/*.{ts,tsx}", "server.ts"];

/** Returns every file of these patterns except generated ones; by default those of `lib`, `adapters` and `server.ts`. */
export function readSources(root: string, patterns: readonly string[] = PUBLISHED): Source[] {
  return globSync(patterns, { cwd: root })
    .filter((path) => !path.endsWith("assets.ts"))
    .map((path) => path.replaceAll("\\", "/"))
    .sort()
    .map((path) => parseSource(path, readFileSync(join(root, path), "utf8")));
}

const KINDS: Readonly<Record<string, ts.ScriptKind>> = { ".tsx": ts.ScriptKind.TSX, ".mjs": ts.ScriptKind.JS };

export function parseSource(path: string, text: string): Source {
  const kind = KINDS[path.slice(path.lastIndexOf("."))] ?? ts.ScriptKind.TS;
  return { path, text, tree: ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true, kind) };
}

/** Calls `visit` with a node and all nodes below it. */
export function walk(node: ts.Node, visit: (node: ts.Node) => void): void {
  visit(node);
  ts.forEachChild(node, (child) => walk(child, visit));
}

/** Counts the lines that are neither blank nor a comment from their first character to their last. */
export function countCodeLines(text: string): number {
  let inComment = false;
  let count = 0;
  for (const line of text.split("\n").map((part) => part.trim())) {
    if (inComment) inComment = !line.includes("*/");
    else if (line.startsWith("/*")) inComment = !line.includes("*/");
    else if (line !== "" && !line.startsWith("//")) count++;
  }
  return count;
}

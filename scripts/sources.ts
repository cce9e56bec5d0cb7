/** The TypeScript files of the tree, parsed with TypeScript's compiler API. */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript-5";

export interface Source {
  /** Relative to the root, with slashes. */
  readonly path: string;
  readonly text: string;
  readonly tree: ts.SourceFile;
}

/** Returns every TypeScript file of `lib`, `adapters` and `server.ts`, but for generated ones. */
export function readSources(root: string): Source[] {
  return globSync(["lib/**/*.ts", "adapters/**/*.{ts,tsx}", "server.ts"], { cwd: root })
    .filter((path) => !path.endsWith("assets.ts"))
    .map((path) => path.replaceAll("\\", "/"))
    .sort()
    .map((path) => parseSource(path, readFileSync(join(root, path), "utf8")));
}

export function parseSource(path: string, text: string): Source {
  const kind = path.endsWith("x") ? ts.ScriptKind.TSX : ts.ScriptKind.TS;
  return { path, text, tree: ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true, kind) };
}

/** Calls `visit` with a node and everything below it. */
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

/** Rules for the use of globals, SQL and scopes (docs/architecture.md, Import rules). .dependency-cruiser.mjs has those for imports. */
import ts from "typescript-5";
import { parseSource, walk } from "../../scripts/sources.ts";

/** Globals that would escape the clock, the randomness or the runtime that a host or a test chose. */
const GLOBALS = new Set(
  "setTimeout setInterval setImmediate queueMicrotask fetch process Buffer Deno Bun require __dirname".split(" "),
);
const MEMBERS = new Set(["Date.now", "Math.random", "performance.now"]);
const RANDOM = new Set(["randomUUID", "getRandomValues"]);

/** Operations without authorization, and what makes them. */
const UNBOUND =
  /^(?:internalResources|Internal[A-Z]\w*|withFixedScope|create\w*Authorizer|Scope|Visibility|withVisibility|NO_FILTER|createStreamGuards|createRevocationCheck)$/;
/** Files that respond to callers: they use operations that are bound to the caller, and name no scope. */
const BOUND_FILES = /^(?:lib\/http\/|adapters\/studio\/|lib\/protocol\/(?!(?:authorization|commands|mod)\.ts$))/;

/** Returns true if the identifier names a value, rather than a member of an object, a declaration or a type. */
function isReference(node: ts.Identifier): boolean {
  const { parent } = node;
  if (ts.isPropertyAccessExpression(parent)) return parent.expression === node;
  return ts.isExpression(parent) || ts.isExpressionStatement(parent) || ts.isVariableDeclaration(parent)
    ? (parent as { name?: ts.Node }).name !== node
    : ts.isReturnStatement(parent) || ts.isSpreadElement(parent);
}

function usesOutside(node: ts.Node): string | undefined {
  if (ts.isNewExpression(node) && node.expression.getText() === "Date" && !node.arguments?.length) return "new Date()";
  if (ts.isPropertyAccessExpression(node)) {
    if (MEMBERS.has(node.getText())) return node.getText();
    if (node.expression.getText() === "globalThis" && GLOBALS.has(node.name.text)) return node.getText();
  }
  if (!ts.isIdentifier(node)) return undefined;
  if (RANDOM.has(node.text)) return node.text;
  return GLOBALS.has(node.text) && isReference(node) ? node.text : undefined;
}

/** Returns SQL text that is neither a bound value nor a literal; undefined if there is none. */
function usesUncheckedSql(node: ts.Node): string | undefined {
  if (!ts.isPropertyAccessExpression(node) || node.expression.getText() !== "sql") return undefined;
  if (node.name.text === "raw") return "sql.raw";
  if (node.name.text !== "lit") return undefined;
  const argument = ts.isCallExpression(node.parent) ? node.parent.arguments[0] : undefined;
  return argument && ts.isLiteralExpression(argument) ? undefined : "sql.lit with a value";
}

function usesUnboundOperations(node: ts.Node): string | undefined {
  if (ts.isImportSpecifier(node) && UNBOUND.test((node.propertyName ?? node.name).text)) return node.getText();
  return ts.isIdentifier(node) && node.text === "internalResources" ? node.text : undefined;
}

/** Returns what is wrong with one file, in words. `path` is relative to the root, with slashes. */
export function findProblems(path: string, source: string): string[] {
  const checks = [
    ...(path.startsWith("lib/") && path !== "lib/environment.ts" ? [usesOutside] : []),
    ...(/^adapters\/(?:sql|sqlite)\//.test(path) ? [usesUncheckedSql] : []),
    ...(BOUND_FILES.test(path) ? [usesUnboundOperations] : []),
  ];
  if (checks.length === 0) return [];
  const { tree } = parseSource(path, source);
  const problems = new Set<string>();
  walk(tree, (node) => {
    for (const check of checks) {
      const use = check(node);
      if (use === undefined) continue;
      problems.add(`${path}:${tree.getLineAndCharacterOfPosition(node.getStart(tree)).line + 1} uses ${use}`);
    }
  });
  return [...problems];
}

/** Finds what turns the type checker off in programs: casts, `any`, `!` and `@ts-` comments. */
import ts from "typescript-5";
import { readPrograms } from "./doc-blocks.ts";
import { parseSource } from "./sources.ts";

/** A place of a program that turns the type checker off. */
export interface Cast {
  /** The file, or the page of the docs. */
  readonly path: string;
  readonly line: number;
  readonly kind: "as" | "any" | "!" | "@ts- comment";
  /** The code of the expression, type or comment. */
  readonly code: string;
}

/** A cast that stays, because the types of another package are wrong. */
export interface CastException {
  readonly path: string;
  readonly code: string;
  /** The type of another package that is wrong, and how. */
  readonly reason: string;
}

/** A program, or a block of code of a page. */
export interface CodeBlock {
  readonly path: string;
  /** The line of the page where the code begins. */
  readonly line: number;
  readonly language: "ts" | "tsx";
  readonly code: string;
}

/** Returns the blocks of TypeScript and JavaScript of a page in Markdown. */
export function readCodeBlocks(path: string, markdown: string): CodeBlock[] {
  return readPrograms(markdown).map(({ line, info, code }) => ({
    path,
    line: line + 1,
    language: /^[jt]sx\b/.test(info) ? "tsx" : "ts",
    code,
  }));
}

function getKind(node: ts.Node): Cast["kind"] | null {
  if (ts.isAsExpression(node)) return ts.isConstTypeReference(node.type) ? null : "as";
  if (ts.isTypeAssertionExpression(node)) return ts.isConstTypeReference(node.type) ? null : "as";
  if (ts.isNonNullExpression(node)) return "!";
  if ((ts.isVariableDeclaration(node) || ts.isPropertyDeclaration(node)) && node.exclamationToken) return "!";
  return node.kind === ts.SyntaxKind.AnyKeyword ? "any" : null;
}

/** Returns the comments before and behind a token. */
function listComments(text: string, token: ts.Node): readonly ts.CommentRange[] {
  const before = ts.getLeadingCommentRanges(text, token.pos) ?? [];
  return [...before, ...(ts.getTrailingCommentRanges(text, token.end) ?? [])];
}

/** Returns the casts of a program in their order. `as const` is none. */
export function findCasts({ path, line, language, code }: CodeBlock): Cast[] {
  const { tree } = parseSource(`block.${language}`, code);
  const casts: Cast[] = [];
  const comments = new Map<number, ts.CommentRange>();
  const add = (position: number, kind: Cast["kind"], source: string): void => {
    const { line: index } = tree.getLineAndCharacterOfPosition(position);
    casts.push({ path, line: line + index, kind, code: source.replaceAll(/\s+/g, " ") });
  };
  const visit = (node: ts.Node): void => {
    const kind = getKind(node);
    if (kind !== null) add(node.getStart(tree), kind, node.getText(tree));
    const children = node.getChildren(tree);
    for (const child of children) visit(child);
    if (children.length > 0) return;
    for (const comment of listComments(code, node)) comments.set(comment.pos, comment);
  };
  visit(tree);
  for (const { pos, end } of comments.values()) {
    const comment = code.slice(pos, end);
    if (/@ts-(?:ignore|expect-error|nocheck)\b/.test(comment)) add(pos, "@ts- comment", comment);
  }
  return casts.sort((a, b) => a.line - b.line);
}

/** Returns the casts without an exception, and the exceptions without a cast or without a reason, as lines for people. */
export function judgeCasts(casts: readonly Cast[], exceptions: readonly CastException[]): string[] {
  const isAllowed = ({ path, code }: Cast): boolean =>
    exceptions.some((exception) => exception.path === path && exception.code === code);
  const forbidden = casts.filter((cast) => !isAllowed(cast));
  const unused = exceptions.filter(({ path, code }) => !casts.some((cast) => cast.path === path && cast.code === code));
  return [
    ...forbidden.map(({ path, line, kind, code }) => `${path}:${line}: ${kind}: ${code}`),
    ...unused.map(({ path, code }) => `${path}: the exception ${JSON.stringify(code)} is not needed: delete it`),
    ...exceptions.filter(({ reason }) => reason === "").map(({ path, code }) => `${path}: ${code}: has no reason`),
  ];
}

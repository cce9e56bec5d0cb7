/** Finds the comment of the interface member that a function implements, for the reading test. It reads declarations, not types. */
import ts from "typescript-5";
import { type Source, walk } from "./sources.ts";

/** An interface, a class or the alias of a type. */
interface CommentedType {
  readonly path: string;
  /** The doc comments of its members by their names. */
  readonly members: ReadonlyMap<string, string>;
  /** The names of the types that it extends or is made of. */
  readonly bases: readonly string[];
}

/** The types of a tree by their names. Several files may have a type with the same name. */
export type InterfaceComments = ReadonlyMap<string, readonly CommentedType[]>;

/** A member of a type, by their names. */
interface MemberName {
  readonly type: string;
  readonly member: string;
}

/** Returns the text of a doc comment without its asterisks; empty if the node has none. */
export function readDocComment(node: ts.Node, text: string): string {
  const ranges = ts.getLeadingCommentRanges(text, node.getFullStart()) ?? [];
  const range = ranges.findLast(({ pos }) => text.startsWith("/**", pos));
  if (!range) return "";
  const lines = text.slice(range.pos + "/**".length, range.end - "*/".length).split("\n");
  return lines
    .map((line) => line.replace(/^\s*\*? ?/, "").trimEnd())
    .join("\n")
    .trim();
}

/** Returns the names of the types that a type refers to: `Pick<Store, "get">` gives `Pick` and `Store`. */
function listTypeNames(type: ts.Node): string[] {
  const names: string[] = [];
  walk(type, (node) => {
    if (ts.isTypeReferenceNode(node)) names.push(node.typeName.getText());
    if (ts.isExpressionWithTypeArguments(node)) names.push(node.expression.getText());
  });
  return names;
}

type TypeDeclaration = ts.InterfaceDeclaration | ts.ClassDeclaration | ts.TypeAliasDeclaration;

const isTypeDeclaration = (node: ts.Node): node is TypeDeclaration =>
  ts.isInterfaceDeclaration(node) || ts.isClassDeclaration(node) || ts.isTypeAliasDeclaration(node);

/** Returns the members of a declared type, and the nodes that name the types that it extends or is made of. */
function readDeclaration(node: TypeDeclaration) {
  if (!ts.isTypeAliasDeclaration(node)) return { members: node.members, bases: node.heritageClauses ?? [] };
  const literals: ts.TypeLiteralNode[] = [];
  walk(node.type, (part) => ts.isTypeLiteralNode(part) && literals.push(part));
  return { members: literals.flatMap(({ members }) => [...members]), bases: [node.type] };
}

/** Reads the comments of the members of all interfaces, classes and type aliases. */
export function readInterfaceComments(sources: readonly Source[]): InterfaceComments {
  const types = new Map<string, CommentedType[]>();
  for (const { path, text, tree } of sources)
    walk(tree, (node) => {
      if (!isTypeDeclaration(node) || !node.name) return;
      const { members, bases } = readDeclaration(node);
      const comments = [...members].flatMap((member) =>
        member.name ? [[member.name.getText(), readDocComment(member, text)] as const] : [],
      );
      const type = { path, members: new Map(comments), bases: bases.flatMap(listTypeNames) };
      types.set(node.name.text, [...(types.get(node.name.text) ?? []), type]);
    });
  return types;
}

/**
 * Returns the comment of the interface member that a named function implements, behind the name of the member; empty if there is none.
 * `path` is that of the function: a type of this file comes before one with the same name in another.
 */
export function findImplementedComment(named: ts.Node, path: string, comments: InterfaceComments): string {
  for (const { type, member } of listImplementedMembers(named)) {
    const found = findMemberComment({ type, member }, path, comments, new Set());
    if (found !== "") return `${type}.${member}: ${found}`;
  }
  return "";
}

/** Returns the comment of a member from its type, or else from a type that this extends. `visited` prevents endless searches. */
function findMemberComment(
  { type, member }: MemberName,
  path: string,
  comments: InterfaceComments,
  visited: Set<string>,
): string {
  if (visited.has(type)) return "";
  visited.add(type);
  const candidates = [...(comments.get(type) ?? [])].sort((a, b) => Number(b.path === path) - Number(a.path === path));
  for (const candidate of candidates) {
    const comment = candidate.members.get(member);
    if (comment) return comment;
    for (const base of candidate.bases) {
      const inherited = findMemberComment({ type: base, member }, candidate.path, comments, visited);
      if (inherited !== "") return inherited;
    }
  }
  return "";
}

/** Returns the members that a named function can implement, by the types that the code around it names. */
function listImplementedMembers(named: ts.Node): MemberName[] {
  const { parent } = named;
  const name = (named as ts.NamedDeclaration).name?.getText() ?? "";
  const toMembers = (type: ts.Node | undefined, member: string): MemberName[] =>
    type ? listTypeNames(type).map((typeName) => ({ type: typeName, member })) : [];
  if (ts.isClassLike(parent)) return (parent.heritageClauses ?? []).flatMap((clause) => toMembers(clause, name));
  if (ts.isObjectLiteralExpression(parent)) return toMembers(findObjectType(parent), name);
  const indexed = ts.isVariableDeclaration(named) ? named.type : undefined;
  if (indexed && ts.isIndexedAccessTypeNode(indexed))
    return toMembers(indexed.objectType, indexed.indexType.getText().replaceAll(/["']/g, ""));
  return listUses(named, name).flatMap(({ object, member }) => toMembers(findObjectType(object), member));
}

/** Returns the objects in the function around `named` that have it as a member: `{ name }` and `{ member: name }`. */
function listUses(
  named: ts.Node,
  name: string,
): { readonly object: ts.ObjectLiteralExpression; readonly member: string }[] {
  const uses: { readonly object: ts.ObjectLiteralExpression; readonly member: string }[] = [];
  const scope = ts.findAncestor(named.parent, ts.isFunctionLike);
  if (!scope) return uses;
  walk(scope, (node) => {
    const isUse =
      (ts.isShorthandPropertyAssignment(node) && node.name.text === name) ||
      (ts.isPropertyAssignment(node) && ts.isIdentifier(node.initializer) && node.initializer.text === name);
    if (isUse) uses.push({ object: node.parent, member: node.name.getText() });
  });
  return uses;
}

/** Returns true for nodes whose value is that of an object in them: `(…)`, `a && …`, `a ? … : …`, and `{ ...… }`. */
const passesValueOn = (node: ts.Node): boolean =>
  ts.isParenthesizedExpression(node) ||
  ts.isBinaryExpression(node) ||
  ts.isConditionalExpression(node) ||
  ts.isSpreadAssignment(node) ||
  ts.isObjectLiteralExpression(node);

/** Returns the type that the code around an object gives it: that of a variable, of a result, `satisfies` or `as`. */
function findObjectType(object: ts.Node): ts.TypeNode | undefined {
  const { parent } = object;
  if (passesValueOn(parent)) return findObjectType(parent);
  if (ts.isReturnStatement(parent)) return ts.findAncestor(parent, ts.isFunctionLike)?.type;
  const isTyped =
    ts.isSatisfiesExpression(parent) ||
    ts.isAsExpression(parent) ||
    ts.isVariableDeclaration(parent) ||
    ts.isPropertyDeclaration(parent) ||
    ts.isArrowFunction(parent);
  return isTyped ? parent.type : undefined;
}

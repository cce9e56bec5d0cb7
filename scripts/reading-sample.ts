/**
 * Prints functions for the reading test of docs/contributing.md: of each what a reader sees before the body. The same seed gives the
 * same functions of a tree.
 *
 *   node scripts/reading-sample.ts SEED COUNT FOLDER… [--bodies]     with the whole functions, for the judge
 */
import { createHash } from "node:crypto";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import ts from "typescript-5";
import {
  findImplementedComment,
  type InterfaceComments,
  readDocComment,
  readInterfaceComments,
} from "./interface-comments.ts";
import { readSources, type Source, walk } from "./sources.ts";

/** The number of lines from which a function belongs to the test. Shorter ones are read as fast as a comment. */
const MIN_LINES = 4;

/** A function with all that the reader of the test sees of it, and its code for the judge. */
export interface ReadableFunction {
  readonly path: string;
  readonly line: number;
  /** The name of the function, or of the variable or member that holds it. */
  readonly name: string;
  /** The functions, classes, variables and members around it, from the outermost on, joined by dots. Empty at the top of a file. */
  readonly owner: string;
  /** The code before the body. */
  readonly signature: string;
  /** The doc comment; empty without one. */
  readonly comment: string;
  /** The comment of the interface member that the function implements, behind its name; empty without one. */
  readonly interfaceComment: string;
  /** The methods and patterns of the routes that the function handles. */
  readonly routes: readonly string[];
  /** The whole code with the body, without the doc comment. */
  readonly code: string;
}

type FunctionNode = ts.FunctionLikeDeclaration & { readonly body: ts.Node };

const isFunctionWithBody = (node: ts.Node): node is FunctionNode =>
  ts.isFunctionLike(node) && (node as ts.FunctionLikeDeclaration).body !== undefined;

/** Returns the node that gives a function its name: itself, or the variable or member that holds it. Undefined for callbacks. */
function findNamedNode(node: ts.Node): ts.NamedDeclaration | undefined {
  if (!ts.isArrowFunction(node) && !ts.isFunctionExpression(node)) return node as ts.NamedDeclaration;
  const { parent } = node;
  const holds = ts.isVariableDeclaration(parent) || ts.isPropertyAssignment(parent) || ts.isPropertyDeclaration(parent);
  return holds && parent.initializer === node ? parent : undefined;
}

const readName = (node: ts.NamedDeclaration, tree: ts.SourceFile): string =>
  ts.isConstructorDeclaration(node) ? "constructor" : (node.name?.getText(tree) ?? "default");

/** Returns the statement of a variable, where its comment and `export` are; other nodes themselves. */
const findStatement = (node: ts.Node): ts.Node =>
  ts.isVariableDeclaration(node) && ts.isVariableStatement(node.parent.parent) ? node.parent.parent : node;

/** Returns true for what an owner is made of. An arrow function has the name of the variable or member that holds it. */
const isOwner = (node: ts.Node): node is ts.NamedDeclaration =>
  ts.isClassLike(node) ||
  ts.isVariableDeclaration(node) ||
  ts.isPropertyAssignment(node) ||
  ts.isPropertyDeclaration(node) ||
  (isFunctionWithBody(node) && !ts.isArrowFunction(node) && !ts.isFunctionExpression(node));

/** Returns the names of the functions, classes, variables and members around a node, from the outermost on, joined by dots. */
function readOwner(node: ts.Node, tree: ts.SourceFile): string {
  const names: string[] = [];
  for (let outer = node.parent; !ts.isSourceFile(outer); outer = outer.parent)
    if (isOwner(outer)) names.unshift(readName(outer, tree));
  return names.join(".");
}

/** Removes the indentation of the first line, which `column` characters precede, from the lines that follow it. */
const removeIndent = (code: string, column: number): string => code.replaceAll(`\n${" ".repeat(column)}`, "\n");

/** Returns the functions of the files with at least four lines, in the order of the code. Callbacks without a name are left out. */
export function listReadableFunctions(
  sources: readonly Source[],
  comments: InterfaceComments = readInterfaceComments(sources),
): ReadableFunction[] {
  return sources.flatMap((source) => {
    const { path, text, tree } = source;
    const routes = findRoutes(tree);
    const functions: ReadableFunction[] = [];
    walk(tree, (node) => {
      const named = isFunctionWithBody(node) && findNamedNode(node);
      if (!named) return;
      const statement = findStatement(named);
      const start = statement.getStart(tree);
      const { line, character } = tree.getLineAndCharacterOfPosition(start);
      if (tree.getLineAndCharacterOfPosition(node.end).line - line + 1 < MIN_LINES) return;
      const name = readName(named, tree);
      functions.push({
        path,
        line: line + 1,
        name,
        owner: readOwner(named, tree),
        signature: removeIndent(text.slice(start, node.body.getStart(tree)).trim(), character),
        comment: readDocComment(statement, text),
        interfaceComment: findImplementedComment(named, path, comments),
        routes: routes.get(node) ?? [],
        code: removeIndent(text.slice(start, statement.end), character),
      });
    });
    return functions;
  });
}

// --------------------------------------------------------------------- routes

const HTTP_METHODS = new Set(["get", "post", "put", "patch", "delete"]);

type Values = ReadonlyMap<string, ts.Node>;

/** Returns the node itself, or for a name the value that it has at the top of the file; undefined for an unknown name. */
const findValue = (node: ts.Node, values: Values): ts.Node | undefined =>
  ts.isIdentifier(node) ? values.get(node.text) : node;

/** Returns the route that a call defines by a method, a pattern and an object, such as `GET /threads/:id`; undefined for others. */
function findRoute({ arguments: [method, path, members] }: ts.CallExpression, values: Values) {
  if (!method || !path || !members || !ts.isStringLiteral(method) || !HTTP_METHODS.has(method.text)) return undefined;
  const pattern = findValue(path, values);
  if (!pattern || !ts.isStringLiteral(pattern) || !ts.isObjectLiteralExpression(members)) return undefined;
  return { name: `${method.text.toUpperCase()} ${pattern.text}`, members };
}

/** Returns the functions of a file that handle routes, each with its routes. */
function findRoutes(tree: ts.SourceFile): ReadonlyMap<ts.Node, readonly string[]> {
  const routes = new Map<ts.Node, string[]>();
  const values = listTopLevelValues(tree);
  walk(tree, (node) => {
    const route = ts.isCallExpression(node) ? findRoute(node, values) : undefined;
    const handler = route && findHandler(route.members, values);
    if (handler) routes.set(handler, [...(routes.get(handler) ?? []), route.name]);
  });
  return routes;
}

/** Returns the expression without `as` and `satisfies` behind it. */
const removeAssertions = (node: ts.Expression): ts.Expression =>
  ts.isAsExpression(node) || ts.isSatisfiesExpression(node) ? removeAssertions(node.expression) : node;

/** Returns the functions and the values of variables at the top of a file, by their names. */
function listTopLevelValues({ statements }: ts.SourceFile): Values {
  const functions = statements.filter(ts.isFunctionDeclaration).map((node) => [node.name?.text ?? "", node] as const);
  const variables = statements
    .filter(ts.isVariableStatement)
    .flatMap(({ declarationList }) => [...declarationList.declarations])
    .flatMap(({ name, initializer }) =>
      initializer ? [[name.getText(), removeAssertions(initializer)] as const] : [],
    );
  return new Map<string, ts.Node>([...functions, ...variables]);
}

/** Returns the function that is the member `handle` of an object, or of an object that is spread into it. The last one counts. */
const findHandler = (members: ts.ObjectLiteralExpression, values: Values): ts.Node | undefined =>
  members.properties.map((member) => findHandlerInMember(member, values)).findLast((handler) => handler !== undefined);

function findHandlerInMember(member: ts.ObjectLiteralElementLike, values: Values): ts.Node | undefined {
  if (ts.isSpreadAssignment(member)) {
    const spread = findValue(member.expression, values);
    return spread && ts.isObjectLiteralExpression(spread) ? findHandler(spread, values) : undefined;
  }
  if (member.name?.getText() !== "handle") return undefined;
  return ts.isPropertyAssignment(member) ? findValue(member.initializer, values) : member;
}

// --------------------------------------------------------------------- sample

/** Returns a number of functions, chosen by the seed, in a random order. Fewer if there are fewer. */
export function chooseSample(functions: readonly ReadableFunction[], seed: string, count: number): ReadableFunction[] {
  const ranked = functions.map((readable) => {
    const key = JSON.stringify([seed, readable.path, readable.line, readable.owner, readable.name]);
    return { readable, rank: createHash("sha256").update(key).digest("hex") };
  });
  return ranked
    .sort((a, b) => (a.rank < b.rank ? -1 : 1))
    .slice(0, count)
    .map(({ readable }) => readable);
}

/** Formats a function for the reader, or with its code for the judge. */
export function formatFunction(readable: ReadableFunction, number: number, withBody: boolean): string {
  const { path, line, name, owner, signature, comment, interfaceComment, routes, code } = readable;
  return [
    `## ${number}. ${path}:${line} ${name}`,
    ...(owner === "" ? [] : [`Owner: ${owner}`]),
    ...(routes.length === 0 ? [] : [`Route: ${routes.join(", ")}`]),
    ...(comment === "" ? ["No doc comment."] : [`Doc comment: ${comment}`]),
    ...(interfaceComment === "" ? [] : [`Interface: ${interfaceComment}`]),
    "```ts",
    withBody ? code : signature,
    "```",
  ].join("\n");
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: { bodies: { type: "boolean" } } });
  const [seed, countText, ...folders] = positionals;
  const count = Number(countText);
  if (seed === undefined || !Number.isInteger(count) || count < 1 || folders.length === 0) {
    console.error("Usage: node scripts/reading-sample.ts SEED COUNT FOLDER… [--bodies]");
    process.exit(2);
  }
  const root = resolve(".");
  const patterns = folders.map((folder) => (/\.tsx?$/.test(folder) ? folder : `${folder}/**/*.{ts,tsx}`));
  // A function may implement an interface of another folder.
  const comments = readInterfaceComments(readSources(root));
  const functions = listReadableFunctions(readSources(root, patterns), comments);
  const sample = chooseSample(functions, seed, count);
  console.log(`# ${sample.length} of ${functions.length} functions, seed ${seed}`);
  for (const [index, readable] of sample.entries())
    console.log(`\n${formatFunction(readable, index + 1, values.bodies ?? false)}`);
}

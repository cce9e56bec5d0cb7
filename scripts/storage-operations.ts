/**
 * Compares the comment of each storage operation of adapters/sql with the code. The block comment of an operation has
 *
 *   @statements  the statements that it sends, by their names in the code, in their order
 *   @guards      on what they depend, and what the result means; not of operations that only read
 *
 *   node scripts/storage-operations.ts [--print]
 */
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import ts from "typescript-5";
import { readSources, type Source, walk } from "./sources.ts";

export interface OperationNote {
  readonly operation: string;
  readonly path: string;
  readonly statements: readonly string[];
  readonly guards: string;
}

/** Operations of the driver and of the process, which send no statements of their own. */
const WITHOUT_STATEMENTS = new Set(["now", "refresh", "failure", "check", "close"]);

const TAGGED = /@statements\s([^@]*)(?:@guards\s([\s\S]*))?$/;
const joinLines = (text: string): string =>
  text
    .replace(/^\s*\*\/?/gm, " ")
    .replaceAll(/\s+/g, " ")
    .trim();

/** Returns the name of a node that can be an operation of the storage; undefined for other nodes. */
function findOperationName(node: ts.Node): ts.Node | undefined {
  if (ts.isMethodDeclaration(node) || ts.isPropertyAssignment(node) || ts.isFunctionDeclaration(node)) return node.name;
  if (ts.isVariableStatement(node)) return node.declarationList.declarations[0]?.name;
  return ts.isShorthandPropertyAssignment(node) ? node.name : undefined;
}

/** Returns the notes of a file, each with the name that follows it, and the identifiers of the file. */
function readNotes({ path, text, tree }: Source): {
  readonly notes: OperationNote[];
  readonly names: ReadonlySet<string>;
} {
  const notes: OperationNote[] = [];
  const names = new Set<string>();
  walk(tree, (node) => {
    if (ts.isIdentifier(node)) names.add(node.text);
    const named = findOperationName(node);
    if (!named) return;
    const comments = ts.getLeadingCommentRanges(text, node.getFullStart()) ?? [];
    const comment = comments.findLast(({ kind }) => kind === ts.SyntaxKind.MultiLineCommentTrivia);
    const tagged = comment && TAGGED.exec(text.slice(comment.pos + 3, comment.end - 2));
    if (!tagged) return;
    const [, statements = "", guards = ""] = tagged;
    const operation = named.getText(tree);
    notes.push({ operation, path, statements: joinLines(statements).split(" · "), guards: joinLines(guards) });
  });
  return { notes, names };
}

/** Returns the operations of `Storage`, and those that nothing outside the adapters of SQL calls. */
export function listStorageOperations(sources: readonly Source[]): {
  readonly operations: readonly string[];
  readonly unused: readonly string[];
} {
  const names = sources
    .filter(({ path }) => path.startsWith("lib/storage/"))
    .flatMap(({ tree }) => [...tree.statements])
    .filter(ts.isInterfaceDeclaration)
    .filter(({ name }) => /(?:Storage|IdentityStore)$/.test(name.text))
    .flatMap(({ members }) => members.filter(ts.isMethodSignature).map(({ name }) => (name as ts.Identifier).text));
  const operations = [...new Set(names)].sort();
  const callers = sources.filter(({ path }) => !/^(?:adapters\/sql\/|lib\/storage\/event-bus\.ts$)/.test(path));
  const unused = operations.filter((name) => !callers.some(({ text }) => new RegExp(`\\.${name}\\b`).test(text)));
  return { operations, unused };
}

/** Returns the notes of all operations, and a line for each problem. */
export function checkOperationNotes(sources: readonly Source[]): {
  readonly notes: OperationNote[];
  readonly problems: string[];
} {
  const operations = listStorageOperations(sources).operations.filter(
    (operation) => !WITHOUT_STATEMENTS.has(operation),
  );
  const files = sources.filter(({ path }) => path.startsWith("adapters/sql/")).map(readNotes);
  const notes = files.flatMap((file) => file.notes);
  const problems = files.flatMap((file) =>
    file.notes.flatMap(({ operation, path, statements }) =>
      statements
        .filter((name) => !file.names.has(name))
        .map((name) => `${path}: ${operation} names ${name}, which the file has not`),
    ),
  );
  for (const operation of operations) {
    const count = notes.filter((note) => note.operation === operation).length;
    if (count !== 1) problems.push(`${operation}: ${count} comments with @statements in adapters/sql, not 1`);
  }
  for (const { operation, path } of notes)
    if (!operations.includes(operation)) problems.push(`${path}: ${operation} is no operation of Storage`);
  return { notes, problems };
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { print: { type: "boolean" } } });
  const { notes, problems } = checkOperationNotes(readSources(resolve(".")));
  for (const { operation, path, statements, guards } of values.print ? notes : [])
    console.log(`${operation} (${path}): ${statements.join(" · ")}${guards && `\n    ${guards}`}`);
  for (const problem of problems) console.error(problem);
  console.log(`${notes.length} operations with their statements, ${problems.length} problems`);
  process.exitCode = problems.length > 0 ? 1 : 0;
}

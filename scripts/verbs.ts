/**
 * Collects what stands beside each storage verb of adapters/sql and compares it with the code. The block comment of a verb has
 *
 *   @statements  the statements that it sends, by their names in the code, in their order
 *   @guards      on what they depend, and what the outcome means; not of verbs that only read
 *
 *   node scripts/verbs.ts [--print]
 */
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import ts from "typescript-5";
import { readSources, type Source, walk } from "./sources.ts";

export interface VerbNote {
  readonly verb: string;
  readonly path: string;
  readonly statements: readonly string[];
  readonly guards: string;
}

/** Verbs of the driver and of the process, which send no statements of their own. */
const WITHOUT = new Set(["now", "refresh", "failure", "check", "close"]);

const TAGGED = /@statements\s([^@]*)(?:@guards\s([\s\S]*))?$/;
const plain = (text: string): string =>
  text
    .replace(/^\s*\*\/?/gm, " ")
    .replaceAll(/\s+/g, " ")
    .trim();

/** The name of a node that can be an operation of the storage; undefined for other nodes. */
function nameOfDeclaration(node: ts.Node): ts.Node | undefined {
  if (ts.isMethodDeclaration(node) || ts.isPropertyAssignment(node) || ts.isFunctionDeclaration(node)) return node.name;
  if (ts.isVariableStatement(node)) return node.declarationList.declarations[0]?.name;
  return ts.isShorthandPropertyAssignment(node) ? node.name : undefined;
}

/** The notes of a file, each with the name that follows it, and the names that the code of the file has. */
function notesIn({ path, text, tree }: Source): { readonly notes: VerbNote[]; readonly names: ReadonlySet<string> } {
  const notes: VerbNote[] = [];
  const names = new Set<string>();
  walk(tree, (node) => {
    if (ts.isIdentifier(node)) names.add(node.text);
    const named = nameOfDeclaration(node);
    if (!named) return;
    const comments = ts.getLeadingCommentRanges(text, node.getFullStart()) ?? [];
    const comment = comments.findLast(({ kind }) => kind === ts.SyntaxKind.MultiLineCommentTrivia);
    const tagged = comment && TAGGED.exec(text.slice(comment.pos + 3, comment.end - 2));
    if (!tagged) return;
    const [, statements = "", guards = ""] = tagged;
    const verb = named.getText(tree);
    notes.push({ verb, path, statements: plain(statements).split(" · "), guards: plain(guards) });
  });
  return { notes, names };
}

/** The operations of `Storage`, and those that nothing outside the adapters of SQL calls. */
export function verbsOf(sources: readonly Source[]): {
  readonly verbs: readonly string[];
  readonly dead: readonly string[];
} {
  const names = sources
    .filter(({ path }) => path.startsWith("lib/storage/"))
    .flatMap(({ tree }) => [...tree.statements])
    .filter(ts.isInterfaceDeclaration)
    .filter(({ name }) => /(?:Storage|IdentityStore)$/.test(name.text))
    .flatMap(({ members }) => members.filter(ts.isMethodSignature).map(({ name }) => (name as ts.Identifier).text));
  const verbs = [...new Set(names)].sort();
  const callers = sources.filter(({ path }) => !/^(?:adapters\/sql\/|lib\/storage\/event-bus\.ts$)/.test(path));
  const dead = verbs.filter((name) => !callers.some(({ text }) => new RegExp(`\\.${name}\\b`).test(text)));
  return { verbs, dead };
}

/** The notes of all verbs, and what is wrong with them. */
export function verbNotes(sources: readonly Source[]): { readonly notes: VerbNote[]; readonly problems: string[] } {
  const verbs = verbsOf(sources).verbs.filter((verb) => !WITHOUT.has(verb));
  const files = sources.filter(({ path }) => path.startsWith("adapters/sql/")).map(notesIn);
  const notes = files.flatMap((file) => file.notes);
  const problems = files.flatMap((file) =>
    file.notes.flatMap(({ verb, path, statements }) =>
      statements
        .filter((name) => !file.names.has(name))
        .map((name) => `${path}: ${verb} names ${name}, which the file has not`),
    ),
  );
  for (const verb of verbs) {
    const count = notes.filter((note) => note.verb === verb).length;
    if (count !== 1) problems.push(`${verb}: ${count} comments with @statements in adapters/sql, not 1`);
  }
  for (const { verb, path } of notes)
    if (!verbs.includes(verb)) problems.push(`${path}: ${verb} is no verb of Storage`);
  return { notes, problems };
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { print: { type: "boolean" } } });
  const { notes, problems } = verbNotes(readSources(resolve(".")));
  for (const { verb, path, statements, guards } of values.print ? notes : [])
    console.log(`${verb} (${path}): ${statements.join(" · ")}${guards && `\n    ${guards}`}`);
  for (const problem of problems) console.error(problem);
  console.log(`${notes.length} verbs with their statements, ${problems.length} problems`);
  process.exitCode = problems.length > 0 ? 1 : 0;
}

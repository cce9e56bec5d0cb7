/** TypeScript does not check JavaScript files: their imports from the tree must name files and exports that exist. */
import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { it } from "node:test";
import ts from "typescript-5";
import { parseSource, type Source } from "../../scripts/sources.ts";

const read = (path: string): Source => parseSource(path, readFileSync(path, "utf8"));

/** Returns the names that a file exports, with those of the files that it exports whole. */
function listExports({ path, tree }: Source): string[] {
  return tree.statements.flatMap((statement): string[] => {
    if (ts.isExportDeclaration(statement)) {
      const { exportClause: clause, moduleSpecifier: from } = statement;
      if (clause) return ts.isNamedExports(clause) ? clause.elements.map(({ name }) => name.text) : [clause.name.text];
      return from && ts.isStringLiteral(from) ? listExports(read(join(dirname(path), from.text))) : [];
    }
    const modifiers = ts.canHaveModifiers(statement) ? (ts.getModifiers(statement) ?? []) : [];
    if (!modifiers.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)) return [];
    if (!ts.isVariableStatement(statement)) {
      const { name } = statement as unknown as ts.NamedDeclaration;
      return name && ts.isIdentifier(name) ? [name.text] : [];
    }
    return statement.declarationList.declarations.flatMap(({ name }) =>
      ts.isIdentifier(name)
        ? [name.text]
        : name.elements.map((element) => (element as ts.BindingElement).name.getText()),
    );
  });
}

/** Returns a line for each import of a file that names a file or an export that does not exist. */
function findImportProblems({ path, tree }: Source): string[] {
  return tree.statements.filter(ts.isImportDeclaration).flatMap(({ moduleSpecifier, importClause }) => {
    const specifier = (moduleSpecifier as ts.StringLiteral).text;
    if (!/^\.{1,2}\/.*\.(?:ts|mjs)$/.test(specifier)) return [];
    const target = join(dirname(path), specifier);
    if (!existsSync(target)) return [`${path}: ${specifier} does not exist`];
    const bindings = importClause?.namedBindings;
    if (!bindings || !ts.isNamedImports(bindings)) return [];
    const exported = new Set(listExports(read(target)));
    const names = bindings.elements.map(({ name, propertyName }) => (propertyName ?? name).text);
    return names.filter((name) => !exported.has(name)).map((name) => `${path}: ${specifier} does not export ${name}`);
  });
}

it("JavaScript files import existing modules", () => {
  const files = globSync("{bench,scripts,test}/**/*.mjs", { exclude: (path) => path.includes("node_modules") });
  assert.ok(files.length > 20);
  assert.deepEqual(
    files.map((path) => path.replaceAll("\\", "/")).flatMap((path) => findImportProblems(read(path))),
    [],
  );
  const broken = parseSource("bench/a.mjs", 'import { median, gone } from "./load.mjs";\nimport "./gone.mjs";\n');
  assert.deepEqual(findImportProblems(broken), [
    "bench/a.mjs: ./load.mjs does not export gone",
    "bench/a.mjs: ./gone.mjs does not exist",
  ]);
});

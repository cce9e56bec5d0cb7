/** Writes dist: JavaScript and declarations of everything the package exports. */
import { spawnSync } from "node:child_process";
import { chmodSync, globSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";

function rewrite(file: string, change: (text: string) => string): void {
  writeFileSync(file, change(readFileSync(file, "utf8")));
}

/** tsc leaves the endings of the sources in declarations. Deno takes them literally, and dist has no `.ts` files of that name. */
function nameJavaScript(declarations: string): string {
  return declarations.replace(/((?:from |import\()"\.[^"]*)\.ts"/g, '$1.js"');
}

/** Outside node_modules Deno finds the declarations of a JavaScript file by this comment alone. */
function nameDeclarations(file: string): void {
  const comment = `// @ts-self-types="./${basename(file, ".js")}.d.ts"\n`;
  rewrite(file, (text) => text.replace(/^(#!.*\n)?/, (shebang) => shebang + comment));
  // One line more in front of all others, or behind the first, to which no mapping leads.
  rewrite(`${file}.map`, (text) => text.replace('"mappings":"', '"mappings":";'));
}

rmSync("dist", { recursive: true, force: true });
const tsc = join("node_modules", "typescript", "bin", "tsc");
const { status } = spawnSync(process.execPath, [tsc, "-p", "tsconfig.build.json"], { stdio: "inherit" });
if (status === 0) {
  for (const file of globSync("dist/**/*.d.ts")) rewrite(file, nameJavaScript);
  for (const file of globSync("dist/**/*.js")) nameDeclarations(file);
  chmodSync("dist/adapters/standalone/bin.js", 0o755);
}
process.exitCode = status ?? 1;

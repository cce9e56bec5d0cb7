/**
 * Type-checks every ```ts block of README.md and docs/, and every `@example` of an exported function, as a user's program: against
 * the built package, in strict mode, with two module resolutions, and before a release with an older TypeScript. A block may use the names of
 * test/snippets/globals.d.ts; `ts continued` adds the blocks before it. Exports without an example or a sentence are reported.
 * Run after a build.
 */
import { spawnSync } from "node:child_process";
import { cpSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import process from "node:process";
import { readApiDocs } from "./api-docs.ts";
import { userFolder } from "./as-user.ts";
import { readPrograms } from "./doc-blocks.ts";

const NODE = { module: "nodenext", moduleResolution: "nodenext" };
const BUNDLER = { module: "esnext", moduleResolution: "bundler" };
const COMPILATIONS = [
  ["typescript", NODE],
  ["typescript", BUNDLER],
  ...(process.env.GREENROOM_TEST_ALL === "1" ? [["typescript-5", NODE] as const] : []),
] as const;

using user = userFolder();
const folder = user.path;
const root = resolve(".");

/** Writes a module for each block, named by page and line. Returns their number. */
function writeBlocks(): number {
  let count = 0;
  for (const page of ["README.md", ...globSync("docs/**/*.md").sort()]) {
    const text = readFileSync(page, "utf8");
    let before = "";
    for (const { line, indent, info, code } of readPrograms(text)) {
      if (indent !== "" || !/^ts\b/.test(info)) continue;
      const file = join(folder, page.replaceAll("\\", "/").replace(/\.md$/, `.${line}.ts`));
      before = info.includes("continued") ? `${before}\n${code}` : code;
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, `${before}\nexport {};\n`);
      count += 1;
    }
  }
  return count;
}

function compile(compiler: string, resolution: typeof NODE): boolean {
  const options = {
    ...resolution,
    target: "es2023",
    lib: ["es2024", "dom", "dom.iterable", "dom.asynciterable"],
    strict: true,
  };
  const checkOptions = { noEmit: true, skipLibCheck: true, preserveSymlinks: true, allowImportingTsExtensions: true };
  const compilerOptions = { ...options, ...checkOptions, types: ["node", "bun-types"] };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["**/*.ts"] }));
  const tsc = join(root, "node_modules", compiler, "bin", "tsc");
  const { status, stdout } = spawnSync(process.execPath, [tsc, "-p", "."], { cwd: folder, encoding: "utf8" });
  if (status !== 0) console.log(`${compiler}, ${resolution.moduleResolution}:\n${stdout}`);
  return status === 0;
}

cpSync("test/snippets", folder, { recursive: true });
// The page on running imports the example as a file beside it.
cpSync("examples/opentelemetry.ts", join(folder, "docs/operations/opentelemetry.ts"));
const count = writeBlocks();
if (count === 0) throw new Error("README.md and docs/ hold no ```ts block");
const { examples, problems } = readApiDocs();
mkdirSync(join(folder, "api"), { recursive: true });
for (const { name, code } of examples) writeFileSync(join(folder, "api", `${name}.ts`), `${code}\nexport {};\n`);
for (const problem of problems) console.log(problem);
const passed = COMPILATIONS.map(([compiler, resolution]) => compile(compiler, resolution));
console.log(
  `${count} snippets and ${examples.length} examples, ${passed.filter(Boolean).length} of ${passed.length} compilations passed`,
);
process.exitCode = passed.every(Boolean) && problems.length === 0 ? 0 : 1;

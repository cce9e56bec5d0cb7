/**
 * Compiles test/types as programs of a user: `*.right.ts` must compile, and each program of `*.wrong.ts` must not. With the newest
 * TypeScript, with and without `exactOptionalPropertyTypes`, and with TypeScript 5. Ends with a list of what is wrong.
 *
 *   node scripts/check-type-tests.ts            against the built package
 *   node scripts/check-type-tests.ts --source   against the sources
 */
import { spawnSync } from "node:child_process";
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import process from "node:process";
import { userFolder } from "./as-user.ts";
import { judgeTypeErrors, parseTypeErrors } from "./type-errors.ts";
import { findCostProblems, findHoverProblems } from "./type-measures.ts";

const COMPILATIONS = [
  ["typescript", "true"],
  ["typescript", "false"],
  ["typescript-5", "true"],
] as const;

/** Emits the declaration of `app.right.ts`, and returns the packages in it that are not Greenroom. */
function findDeclarationProblems(): readonly string[] {
  const outDir = mkdtempSync(join(tmpdir(), "greenroom-declarations-"));
  try {
    const tsc = resolve("node_modules/typescript/bin/tsc");
    const emit = ["--noEmit", "false", "--declaration", "--emitDeclarationOnly", "--rewriteRelativeImportExtensions"];
    const conditions = againstSource ? ["--customConditions", "greenroom-source"] : ["--preserveSymlinks", "true"];
    const args = [
      tsc,
      "-p",
      ".",
      ...emit,
      ...conditions,
      "--outDir",
      outDir,
      "--rootDir",
      againstSource ? "../.." : ".",
    ];
    spawnSync(process.execPath, args, { cwd: folder });
    const [file] = globSync("**/app.right.d.ts", { cwd: outDir });
    if (file === undefined) return ["app.right.ts: no declaration was emitted"];
    const text = readFileSync(join(outDir, file), "utf8");
    const packages = [...text.matchAll(/(?:from |import\()"([^"]+)"/g)].map(([, name = ""]) => name);
    if (packages.length === 0) return ["app.right.ts: its declaration imports nothing"];
    // The compiler names the sources of this checkout by their paths.
    const foreign = packages.filter((name) => !/^greenroom(?:\/|$)|^\.\.\/\.\.\/(?:lib|adapters)\//.test(name));
    return foreign.map((name) => `app.right.ts: its declaration imports ${name}`);
  } finally {
    rmSync(outDir, { recursive: true });
  }
}

const againstSource = process.argv.includes("--source");
using user = userFolder();
const folder = againstSource ? resolve("test/types") : user.path;
if (!againstSource) cpSync("test/types", folder, { recursive: true });

const problems: string[] = COMPILATIONS.flatMap(([compiler, exact]) => {
  const tsc = resolve("node_modules", compiler, "bin/tsc");
  const options = ["--exactOptionalPropertyTypes", exact, "--pretty", "false"];
  if (againstSource) options.push("--customConditions", "greenroom-source");
  else options.push("--preserveSymlinks", "true");
  const { stdout, stderr } = spawnSync(process.execPath, [tsc, "-p", ".", ...options], {
    cwd: folder,
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });
  const files = globSync("*.ts", { cwd: folder }).sort();
  const sources = new Map(files.map((file) => [basename(file), readFileSync(join(folder, file), "utf8")]));
  const found = judgeTypeErrors(sources, parseTypeErrors(stdout + stderr), { ignoresOtherFiles: againstSource });
  return found.map((problem) => `${compiler}, exactOptionalPropertyTypes ${exact}: ${problem}`);
});
problems.push(...findDeclarationProblems());
// The sources of this checkout would be compiled too, and their paths would be in the texts.
if (!againstSource) problems.push(...findHoverProblems(folder, "hovers.right.ts"), ...findCostProblems(folder));
for (const problem of problems) console.error(problem);
console.log(`${COMPILATIONS.length} compilations, ${problems.length} problems`);
process.exitCode = problems.length > 0 ? 1 : 0;

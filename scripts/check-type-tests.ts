/**
 * Compiles test/types as programs of a user: `*.right.ts` must compile, and each program of `*.wrong.ts` must not. With the newest
 * TypeScript, with and without `exactOptionalPropertyTypes`, and with TypeScript 5. Ends with a list of what is wrong.
 *
 *   node scripts/check-type-tests.ts            against the built package
 *   node scripts/check-type-tests.ts --source   against the sources
 */
import { spawnSync } from "node:child_process";
import { cpSync, globSync, readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import process from "node:process";
import { userFolder } from "./as-user.ts";
import { judgeTypeErrors, parseTypeErrors } from "./type-errors.ts";

const COMPILATIONS = [
  ["typescript", "true"],
  ["typescript", "false"],
  ["typescript-5", "true"],
] as const;

const againstSource = process.argv.includes("--source");
using user = userFolder();
const folder = againstSource ? resolve("test/types") : user.path;
if (!againstSource) cpSync("test/types", folder, { recursive: true });

const problems = COMPILATIONS.flatMap(([compiler, exact]) => {
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
for (const problem of problems) console.error(problem);
console.log(`${COMPILATIONS.length} compilations, ${problems.length} problems`);
process.exitCode = problems.length > 0 ? 1 : 0;

/** Everything that can be said about the tree without running it. Ends with `N passed, N failed`. */
import { exec } from "node:child_process";
import { rmSync } from "node:fs";
import { delimiter, resolve } from "node:path";

const env = {
  ...process.env,
  PATH: `${resolve("node_modules/.bin")}${delimiter}${process.env.PATH}`,
  NO_COLOR: "1",
  DENO_NO_UPDATE_CHECK: "1",
  DENO_CONDITIONS: "greenroom-source",
};

type Check = readonly [name: string, command: string];
/** Those of the tree, and those of what is built of it: side by side, and within each list one after the other. */
const ofTree: readonly Check[] = [
  ["format and lint", "biome ci --colors=off --diagnostic-level=warn --error-on-warnings ."],
  ["types", "tsc -p tsconfig.json"],
  ["types of the core, without any runtime's globals", "tsc -p tsconfig.lib.json"],
  ["types of the examples", "tsc -p examples"],
  ["types on Deno", "deno check lib adapters server.ts test/suite examples/deno.ts"],
  ["size, import circles, retired names and phrases", "node scripts/check-house.ts"],
  ["links of README and docs", "node scripts/check-links.ts"],
  ["import rules and exports", "node --test test/core/imports.test.ts test/core/exports.test.ts"],
];
const ofBuild: readonly Check[] = [
  ["build", "node scripts/build.ts"],
  ["what a release would publish to npm and JSR", "node scripts/release.ts --dry-run"],
  ["manifest", "publint --strict"],
  ["types as an importer sees them", "attw --pack --profile esm-only --quiet"],
  ["snippets of README and docs, TypeScript 5 and 7", "node scripts/check-snippets.ts"],
  ["commands of README and docs", "node scripts/check-commands.ts"],
  ["bundles of a program that embeds it", "node scripts/check-bundles.ts"],
  ["the packed package in a folder of its own", "node scripts/check-package.ts"],
];
/** A table to read even when nothing failed. */
const SHOWN: ReadonlySet<string> = new Set(["size, import circles, retired names and phrases"]);

let passed = 0;
let failed = 0;
async function runAll(checks: readonly Check[]): Promise<void> {
  for (const [name, command] of checks) {
    const [error, output] = await new Promise<[error: unknown, output: string]>((resolve) => {
      exec(command, { env, maxBuffer: 1 << 28 }, (error, stdout, stderr) => resolve([error, stdout + stderr]));
    });
    console.log(`${error ? "FAILED" : "ok    "} ${name}: ${command}`);
    if (error || SHOWN.has(name)) console.log(output);
    if (error) failed += 1;
    else passed += 1;
  }
}
await Promise.all([runAll(ofTree), runAll(ofBuild)]);
rmSync("dist", { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;

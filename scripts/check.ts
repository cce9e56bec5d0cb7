/** Everything that can be said about the tree without running it. Ends with `N passed, N failed`. */
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { delimiter, resolve } from "node:path";

const env = {
  ...process.env,
  PATH: `${resolve("node_modules/.bin")}${delimiter}${process.env.PATH}`,
  NO_COLOR: "1",
  DENO_NO_UPDATE_CHECK: "1",
  DENO_CONDITIONS: "greenroom-source",
};

const checks: readonly (readonly [name: string, command: string])[] = [
  ["format and lint", "biome ci --colors=off --diagnostic-level=warn --error-on-warnings ."],
  ["types", "tsc -p tsconfig.json"],
  ["types of the core, without any runtime's globals", "tsc -p tsconfig.lib.json"],
  ["types of the examples", "tsc -p examples"],
  ["types on Deno", "deno check lib adapters server.ts test/suite examples/deno.ts"],
  ["import rules and exports", "node --test test/core/imports.test.ts test/core/exports.test.ts"],
  ["build", "node scripts/build.ts"],
  ["what a release would publish to npm and JSR", "node scripts/release.ts --dry-run"],
  ["manifest", "publint --strict"],
  ["types as an importer sees them", "attw --pack --profile esm-only --quiet"],
  ["the packed package in a folder of its own", "node scripts/check-package.ts"],
];

let failed = 0;
for (const [name, command] of checks) {
  const { status, stdout, stderr } = spawnSync(command, { env, shell: true, encoding: "utf8", maxBuffer: 1 << 28 });
  console.log(`${status === 0 ? "ok    " : "FAILED"} ${name}: ${command}`);
  if (status !== 0) {
    failed += 1;
    console.log(stdout + stderr);
  }
}
rmSync("dist", { recursive: true, force: true });
console.log(`${checks.length - failed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;

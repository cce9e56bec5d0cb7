/**
 * Checks the tree and what is built from it. Ends with `N passed, N failed`.
 *
 *   node scripts/check.ts [tree | build]     one half: CI runs the first beside the tests
 */
import { exec } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";

/** The folder of the packed package, which all checks share. */
const folder = mkdtempSync(join(tmpdir(), "greenroom-check-"));
const { name, version } = JSON.parse(readFileSync("package.json", "utf8")) as { name: string; version: string };
const tarball = join(folder, `${name}-${version}.tgz`);

const env = {
  ...process.env,
  PATH: `${resolve("node_modules/.bin")}${delimiter}${process.env.PATH}`,
  NO_COLOR: "1",
  DENO_NO_UPDATE_CHECK: "1",
  DENO_CONDITIONS: "greenroom-source",
};

type Check = readonly [name: string, command: string];
/** The checks of the sources. A list runs in order, and beside the lists that it does not depend on. */
const treeChecks: readonly Check[] = [
  ["format and lint", "biome ci --colors=off --diagnostic-level=warn --error-on-warnings ."],
  ["types", "tsc -p tsconfig.json"],
  ["types of the core, without any runtime's globals", "tsc -p tsconfig.lib.json"],
  ["types of the studio page", "tsc -p adapters/studio/page"],
  ["size of the studio page", "node scripts/studio.mjs"],
  ["types of the examples", "tsc -p examples"],
  ["templates, examples and docs without casts", "node scripts/check-casts.ts"],
  ["programs that must and must not compile", "node scripts/check-type-tests.ts --source"],
  ["types on Deno", "deno check lib adapters/*.ts adapters/*/*.ts server.ts test/suite examples/deno.ts"],
  ["imports", "depcruise lib adapters server.ts test/suite"],
  ["unused files and exports", "knip --no-progress --include files,exports,duplicates"],
  ["figures of the tree, retired names and phrases", "node scripts/check-code-limits.ts"],
  ["names and comments", "node scripts/check-language.ts"],
  ["statements and guards of each storage operation", "node scripts/storage-operations.ts"],
  ["JSON Schema of greenroom.json", "node scripts/config-schema.ts --check"],
  ["list of errors in the docs", "node scripts/errors.ts --check"],
  ["OpenAPI document", "node scripts/openapi/mod.ts --check"],
  ["OpenAPI document with the tools of others", "node scripts/check-openapi.ts"],
  ["links of README and docs", "node scripts/check-links.ts"],
];
const buildSteps: readonly Check[] = [
  ["build", "node scripts/build.ts"],
  ["package", `node scripts/manifest.ts trim; npm pack --ignore-scripts --pack-destination ${folder}`],
  ["package.json as it was", "node scripts/manifest.ts restore"],
];
const buildChecks: readonly Check[] = [
  ["what a release would publish to npm and JSR", "node scripts/release.ts --dry-run"],
  ["manifest", `publint run ${tarball} --strict`],
  ["public types of each entry point", "node scripts/api-report.ts --check"],
  ["types as an importer sees them", `attw ${tarball} --profile esm-only --quiet`],
  ["snippets of README and docs", "node scripts/check-snippets.ts"],
  ["programs that must and must not compile, with the package", "node scripts/check-type-tests.ts"],
  ["bundles of a program that embeds it", "node scripts/check-bundles.ts"],
];
/** The checks that wait for a registry and for servers to start. */
const packageChecks: readonly Check[] = [
  ["the packed package in a folder of its own", `node scripts/check-package.ts ${tarball}`],
  ["projects of the templates on each runtime", `node scripts/check-templates.ts ${tarball}`],
  ["commands of README and docs", "node scripts/check-commands.ts"],
];
/** The checks whose output is printed even if they succeed. */
const PRINTED_CHECKS: ReadonlySet<string> = new Set([
  "the packed package in a folder of its own",
  "projects of the templates on each runtime",
  "figures of the tree, retired names and phrases",
  "names and comments",
  "size of the studio page",
  "OpenAPI document with the tools of others",
]);

let passed = 0;
let failed = 0;
async function runAll(checks: readonly Check[]): Promise<void> {
  for (const [name, command] of checks) {
    const started = performance.now();
    const [error, output] = await new Promise<[error: unknown, output: string]>((resolve) => {
      exec(command, { env, maxBuffer: 1 << 28 }, (error, stdout, stderr) => resolve([error, stdout + stderr]));
    });
    const seconds = ((performance.now() - started) / 1000).toFixed(0);
    console.log(`${error ? "FAILED" : "ok    "} ${name} (${seconds} s): ${command}`);
    if (error || PRINTED_CHECKS.has(name)) console.log(output);
    if (error) failed += 1;
    else passed += 1;
  }
}
const part = process.argv[2];
if (part !== undefined && part !== "tree" && part !== "build")
  throw new Error(`Unknown part ${part}: use tree or build`);
await Promise.all([
  part !== "build" && runAll(treeChecks),
  part !== "tree" && runAll(buildSteps).then(() => Promise.all([runAll(buildChecks), runAll(packageChecks)])),
]);
if (part !== "tree") rmSync("dist", { recursive: true, force: true });
rmSync(folder, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;

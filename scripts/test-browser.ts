/**
 * The command behind `npm run test:browser`: the tests that need Chromium, on Node; with `--all` those of older packages and of
 * CopilotKit, too. Fails also if they leave a button or link of the studio unused. Ends with `N passed, N failed`.
 */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { watchPresses } from "../test/browser/presses.ts";
import { countReport, type Outcome } from "./test-outcomes.ts";

if (process.argv.includes("--all")) {
  process.env.GREENROOM_TEST_ALL = "1";
  // CopilotKit is not among the packages of every run.
  const { status } = spawnSync(process.execPath, ["scripts/install.mjs", "all"], { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}
const folder = mkdtempSync(join(tmpdir(), "greenroom-presses-"));
const presses = watchPresses(join(folder, "presses"));

/** The files in one process, with one browser: to start them costs as much as many of the tests. */
async function run(files: readonly string[], lane: number): Promise<Outcome> {
  const report = join(folder, `${lane}.xml`);
  const args = ["--import=./scripts/light-tests.ts", "scripts/test-node.ts", report, ...files];
  const child = spawn(process.execPath, args, { stdio: "inherit" });
  const exit = await new Promise<number | null>((done) => child.on("close", done));
  return countReport(existsSync(report) ? readFileSync(report, "utf8") : "", exit);
}

const files = globSync("test/browser/**/*.test.ts").sort();
// Every other file: of two that are alike, one in each.
const outcomes = await Promise.all(
  [0, 1].map((lane) =>
    run(
      files.filter((_, at) => at % 2 === lane),
      lane,
    ),
  ),
);
const { count, missing } = presses();
rmSync(folder, { recursive: true });
for (const line of missing) console.log(`No test presses ${line}`);
console.log(`${count - missing.length} of ${count} buttons and links of the studio are pressed`);
const sum = (key: keyof Outcome): number => outcomes.reduce((total, outcome) => total + outcome[key], 0);
console.log(`${sum("passed")} passed, ${sum("failed")} failed`);
process.exitCode = sum("failed") + missing.length === 0 ? 0 : 1;

/**
 * The command behind `npm run test:browser`: the tests that need Chromium, on Node; with `--all` those of older packages and of
 * CopilotKit, too. Fails also if they leave a button or link of the studio unused. Ends with `N passed, N failed`.
 */
import { spawnSync } from "node:child_process";
import { globSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { watchPresses } from "../test/browser/presses.ts";

if (process.argv.includes("--all")) {
  process.env.GREENROOM_TEST_ALL = "1";
  // CopilotKit is not among the packages of every run.
  const { status } = spawnSync(process.execPath, ["scripts/install.mjs", "all"], { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}
const counts = { passed: 0, failed: 0 };
const folder = mkdtempSync(join(tmpdir(), "greenroom-presses-"));
const presses = watchPresses(join(folder, "presses"));
const execArgv = ["--import=./scripts/light-tests.ts"];
const tests = run({ files: globSync("test/browser/**/*.test.ts"), concurrency: 2, execArgv });
tests.on("test:summary", (summary) => {
  if (summary.file !== undefined) return;
  counts.passed = summary.counts.passed;
  counts.failed = summary.counts.tests - summary.counts.passed;
});
tests
  .compose(new spec())
  .on("end", () => {
    const { count, missing } = presses();
    rmSync(folder, { recursive: true });
    for (const line of missing) console.log(`No test presses ${line}`);
    console.log(`${count - missing.length} of ${count} buttons and links of the studio are pressed`);
    console.log(`${counts.passed} passed, ${counts.failed} failed`);
    process.exitCode = counts.failed + missing.length === 0 && counts.passed > 0 ? 0 : 1;
  })
  .pipe(process.stdout);

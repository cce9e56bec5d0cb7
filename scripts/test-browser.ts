/** The command behind `npm run test:browser`: the tests that need Chromium, on Node. Ends with `N passed, N failed`. */
import { globSync } from "node:fs";
import { run } from "node:test";
import { spec } from "node:test/reporters";

const counts = { passed: 0, failed: 0 };
const tests = run({ files: globSync("test/browser/**/*.test.ts"), concurrency: 2 });
tests.on("test:summary", (summary) => {
  if (summary.file !== undefined) return;
  counts.passed = summary.counts.passed;
  counts.failed = summary.counts.tests - summary.counts.passed;
});
tests
  .compose(new spec())
  .on("end", () => {
    console.log(`${counts.passed} passed, ${counts.failed} failed`);
    process.exitCode = counts.failed === 0 && counts.passed > 0 ? 0 : 1;
  })
  .pipe(process.stdout);

/**
 * Runs test files in one process, as `node --test --test-isolation=none` does.
 *
 *   node --import ./scripts/light-tests.ts scripts/test-node.ts REPORT FILE...     REPORT: where to write what passed, as JUnit does
 */
import { createWriteStream } from "node:fs";
import process from "node:process";
import { run } from "node:test";
import { junit, spec } from "node:test/reporters";

const [report = "", ...files] = process.argv.slice(2);
const tests = run({ files, isolation: "none" });
// Which test such an error belongs to is not known: where it comes from has to say it.
for (const event of ["uncaughtExceptionMonitor", "unhandledRejection"])
  process.on(event, (error) => console.error(error));
tests.on("test:summary", ({ success }) => {
  if (!success) process.exitCode = 1;
});
tests.compose(junit).pipe(createWriteStream(report));
tests.compose(new spec()).pipe(process.stdout);

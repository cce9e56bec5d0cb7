/** Checks how scripts/test.ts reads the reports of its lanes: no lane that failed or crashed may pass. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { countLine, countReport, formatSlowest } from "../../scripts/test-outcomes.ts";

const PASSED = '<testcase name="a" time="1"/>';
const FAILED = '<testcase name="b"><failure message="no"/></testcase>';

describe("the outcome of a lane", () => {
  it("consists of the counts of its report", () => {
    assert.deepEqual(countReport(PASSED + FAILED, 1), { passed: 1, failed: 1 });
    assert.deepEqual(countReport(PASSED, 0), { passed: 1, failed: 0 });
  });

  it("counts a group beside its tests only if it failed by itself", () => {
    const group = '<testcase name="g"><failure/></testcase>';
    assert.deepEqual(countReport(`${group}<testcase name="g &gt; a"/>`, 1), { passed: 1, failed: 1 });
    assert.deepEqual(countReport(`${group}<testcase name="g &gt; a"><failure/></testcase>`, 1), {
      passed: 0,
      failed: 1,
    });
  });

  it("is the last line of a command without a report", () => {
    assert.deepEqual(countLine("9 passed, 9 failed\nother\n12 passed, 3 failed\n", 1), { passed: 12, failed: 3 });
    assert.deepEqual(countLine("12 passed, 0 failed\n", 0), { passed: 12, failed: 0 });
  });

  it("is a failure when the runner crashed", () => {
    for (const exit of [0, 1, null]) {
      assert.deepEqual(countReport("", exit), { passed: 0, failed: 1 });
      assert.deepEqual(countLine("", exit), { passed: 0, failed: 1 });
    }
    // Such as a button that no test presses.
    assert.deepEqual(countLine("12 passed, 0 failed\n", 1), { passed: 12, failed: 1 });
    assert.deepEqual(countReport(PASSED, null), { passed: 1, failed: 1 });
  });

  it("has the slowest of the groups that stand first in a file", () => {
    const suite = (name: string, time: number, indent = "\t"): string =>
      `${indent}<testsuite name="${name}" time="${time}">\n`;
    assert.equal(formatSlowest(suite("a", 2) + suite("inside", 9, "\t\t") + suite("b", 31, "  ")), "b 31 s, a 2 s");
  });
});

describe("a lane of Node", () => {
  const root = resolve(import.meta.dirname, "../..");
  /** Runs these tests. Returns the exit code, the report and the output of the process. */
  function run(tests: string): { readonly exit: number | null; readonly xml: string; readonly output: string } {
    const folder = mkdtempSync(join(tmpdir(), "greenroom-lane-"));
    try {
      const [file, report] = [join(folder, "a.test.mjs"), join(folder, "report.xml")];
      writeFileSync(file, `import { after, before, describe, it } from "node:test";\n${tests}`);
      const args = ["--import=./scripts/light-tests.ts", "scripts/test-node.ts", report, file];
      const { NODE_TEST_CONTEXT: _, ...env } = process.env;
      const { status, stderr } = spawnSync(process.execPath, args, { cwd: root, env, encoding: "utf8" });
      return { exit: status, xml: readFileSync(report, "utf8"), output: stderr };
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  it("keeps tests and hooks in the suites that declare them", () => {
    const { exit, xml } = run(`
      let open = 0;
      for (const name of ["one", "two"]) describe(name, () => {
        before(async () => { await 1; open += 1; });
        after(() => { open -= 1; });
        it("is alone", async (t) => {
          await 1;
          if (open !== 1) throw new Error("hooks of two suites");
          await t.test("inside", async () => { await 1; });
        });
      });`);
    assert.equal(exit, 0, xml);
    const names = [...xml.matchAll(/<(testsuite|testcase) name="([^"]*)"/g)].map(([, kind, name]) => `${kind} ${name}`);
    const suite = ["testsuite is alone", "testcase inside"];
    assert.deepEqual(names, ["testsuite one", ...suite, "testsuite two", ...suite]);
  });

  it("fails for an error that no test awaits, and names its origin", () => {
    for (const error of ["setTimeout(() => { throw new Error('beside'); })", "Promise.reject(new Error('beside'))"]) {
      const { exit, xml, output } = run(
        `it("passes", async () => { ${error}; await new Promise((r) => setTimeout(r, 20)); });`,
      );
      assert.deepEqual(countReport(xml, exit), { passed: 1, failed: 1 });
      assert.match(output, /Error: beside\n\s+at .*a\.test\.mjs/);
    }
  });
});

describe("npm run test:all", () => {
  it("runs all its parts when one fails, prints how long each took, and sums them", () => {
    const root = resolve(import.meta.dirname, "../..");
    const folder = mkdtempSync(join(tmpdir(), "greenroom-test-all-"));
    const write = (path: string, text: string): void => writeFileSync(join(folder, path), text);
    try {
      for (const name of ["test/lib", "test/browser"]) mkdirSync(join(folder, name), { recursive: true });
      cpSync(join(root, "scripts"), join(folder, "scripts"), { recursive: true });
      symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
      write("package.json", '{ "type": "module" }');
      write("test/lib/one.test.ts", 'import { it } from "node:test"; it("a", () => {}); it("b", () => { throw 1; });');
      write("test/browser/page.test.ts", "");
      write("scripts/test-browser.ts", 'console.log("3 passed, 1 failed"); process.exitCode = 1;');
      const args = [join(folder, "scripts/test.ts"), "--all", "--runtime", "node"];
      // Else Node takes the runs in there for parts of this one.
      const env = { ...process.env, NODE_TEST_CONTEXT: "" };
      const { status, stdout } = spawnSync(process.execPath, args, { cwd: folder, env, encoding: "utf8" });
      assert.equal(status, 1);
      assert.match(stdout, /^node: 1 passed, 1 failed \(1 files, [\d.]+ s\)$/m);
      assert.match(stdout, /^browser: 3 passed, 1 failed \(1 files, [\d.]+ s\)$/m);
      assert.match(stdout, /\n4 passed, 2 failed\n$/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

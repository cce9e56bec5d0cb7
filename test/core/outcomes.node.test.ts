/** What scripts/test.ts makes of the reports of its lanes: no lane that failed or crashed may pass. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { countLine, countReport, slowest } from "../../scripts/outcomes.ts";

const PASSED = '<testcase name="a" time="1"/>';
const FAILED = '<testcase name="b"><failure message="no"/></testcase>';

describe("the outcome of a lane", () => {
  it("is the counts of its report", () => {
    assert.deepEqual(countReport(PASSED + FAILED, 1), { passed: 1, failed: 1 });
    assert.deepEqual(countReport(PASSED, 0), { passed: 1, failed: 0 });
  });

  it("counts a group beside its tests only where it failed by itself", () => {
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

  it("has what took longest, of the groups that stand first in a file", () => {
    const suite = (name: string, time: number, indent = "\t"): string =>
      `${indent}<testsuite name="${name}" time="${time}">\n`;
    assert.equal(slowest(suite("a", 2) + suite("inside", 9, "\t\t") + suite("b", 31, "  ")), "b 31 s, a 2 s");
  });
});

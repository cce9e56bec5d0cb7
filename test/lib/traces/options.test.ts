/** The options of traces: each wrong one is a problem with its key, and defaults fill in the rest. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { ConfigError, fromFunctions, type ServiceOptions, validateOptions } from "../../../lib/mod.ts";
import { resolveTraceSettings } from "../../../lib/traces/options.ts";

/** Returns the problems of `traces`. */
function findProblems(traces: unknown): readonly string[] {
  const storage = nodeSqlite(":memory:");
  const executor = fromFunctions({ echo: () => "" });
  try {
    validateOptions({ storage, executor, traces } as ServiceOptions);
    return [];
  } catch (error) {
    assert.ok(error instanceof ConfigError);
    return error.problems;
  }
}

describe("the options of traces", () => {
  it("are accepted within their limits", () => {
    const sinks = [{ onSpanEnded() {} }];
    const redact = (value: unknown): unknown => value;
    for (const traces of [
      ...[
        {},
        { record: "all" },
        { record: "none" },
        { record: {} },
        { record: { sample: 0, failed: false, slow_ms: 1 } },
      ],
      ...[{ content: "all" }, { max_bytes: 256 }, { retention_ms: null }, { retention_ms: 0 }, { redact }, { sinks }],
      { parent: "link" },
    ])
      assert.deepEqual(findProblems(traces), [], JSON.stringify(traces));
  });

  it("are problems with their keys otherwise", () => {
    const cases: readonly (readonly [object, RegExp])[] = [
      [{ contents: "all" }, /^traces\.contents: unknown option; did you mean content\?/],
      [{ record: "some" }, /^traces\.record: must be all, none or \{/],
      [{ record: { sample: 1.5 } }, /^traces\.record\.sample: must be a number from 0 to 1/],
      [{ record: { sampel: 1 } }, /^traces\.record\.sampel: unknown option; did you mean sample\?/],
      [{ record: { slow_ms: -1 } }, /^traces\.record\.slow_ms: must be a whole number/],
      [{ content: "some" }, /^traces\.content: must be one of none, references, all/],
      [{ max_bytes: 255 }, /^traces\.max_bytes: must be a whole number from 256 to 1048576/],
      [{ retention_ms: -1 }, /^traces\.retention_ms: must be null or a whole number/],
      [{ redact: "./redact.ts" }, /^traces\.redact: must be a function/],
      [{ parent: "follow" }, /^traces\.parent: must be one of continue, link, ignore/],
      [{ sinks: [{}] }, /^traces\.sinks: must be a list of sinks/],
      [{ sinks: {} }, /^traces\.sinks: must be a list of sinks/],
    ];
    for (const [traces, problem] of cases) {
      const problems = findProblems(traces);
      assert.equal(problems.length, 1, JSON.stringify([traces, problems]));
      assert.match(problems[0] as string, problem);
    }
  });

  it("have defaults", () => {
    assert.deepEqual(resolveTraceSettings(), {
      ...{ content: "references", max_bytes: 16_384, retention_ms: 604_800_000, parent: "continue" },
      sampling: { sample: 1, failed: true, slow_ms: Number.POSITIVE_INFINITY },
      ...{ redact: null, sinks: [] },
    });
    assert.equal(resolveTraceSettings({ record: "none" }).sampling, null);
    assert.deepEqual(resolveTraceSettings({ record: { sample: 0.1 }, retention_ms: null }), {
      ...resolveTraceSettings(),
      sampling: { sample: 0.1, failed: true, slow_ms: Number.POSITIVE_INFINITY },
      retention_ms: null,
    });
  });
});

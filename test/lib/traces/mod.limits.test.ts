/** The trace of a run with more spans than a run keeps. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { FunctionJob } from "../../../lib/mod.ts";
import type { RunTrace } from "../../../lib/traces/run-trace.ts";
import { testService } from "../../suite/kit.ts";

const CALLS = 5_000;
/** The spans that are made when a trace is read. */
const DERIVED: ReadonlySet<string> = new Set(["run", "request", "queue"]);

/** How many of the last calls fail, and what is kept of 2,000 spans and 200 failed ones, one of which is the attempt. */
const CASES = [
  { failed: 0, tools: 1_999, errors: 0 },
  { failed: 100, tools: 2_099, errors: 100 },
  { failed: 3_500, tools: 2_199, errors: 699 },
];

describe("a run with 5,000 tool calls", () => {
  for (const { failed, tools, errors } of CASES)
    it(`keeps ${tools} of them if ${failed} fail, and counts the others`, async () => {
      async function agent({ span }: FunctionJob): Promise<string> {
        for (let call = 0; call < CALLS; call++) {
          const work = (): void => {
            if (call >= CALLS - failed) throw new RangeError("no");
          };
          await span(`tool ${call % 100}`, work, { kind: "tool" }).catch(() => {});
        }
        return "done";
      }
      await using test = await testService({ agents: { agent } });
      const { thread_id } = await test.service.threads.create();
      const { run, result } = await test.service.runs.wait(thread_id, { assistant_id: "agent", input: {} });
      await result;
      const response = await test.fetch(`http://greenroom/threads/${thread_id}/runs/${run.run_id}/trace`);
      assert.equal(response.status, 200);
      const { spans, dropped, totals } = (await response.json()) as RunTrace;
      const kept = spans.filter(({ kind }) => !DERIVED.has(kind));
      const calls = kept.filter(({ kind }) => kind === "tool");
      assert.ok(kept.length <= 2_200, `${kept.length} spans`);
      assert.deepEqual([kept.length, calls.length], [tools + 1, tools]);
      assert.equal(calls.filter(({ status }) => status === "error").length, errors);
      assert.deepEqual(dropped, { tool: CALLS - tools });
      assert.deepEqual([totals.tool, totals.errors, totals.spans], [CALLS, failed, spans.length + CALLS - tools]);
    });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { testService } from "../suite/kit.ts";

describe("what an agent has spent", () => {
  it("is summed and kept with the trace of its run, of a failed one too", async () => {
    await using kit = await testService({
      agents: {
        async *writer({ spend }) {
          spend({ tokens_in: 10, tokens_out: 2 });
          yield "hello";
          spend({ tokens_out: 3, cost_usd: 0.25 });
        },
        async *failing({ spend }) {
          spend({ cost_usd: 1 });
          yield "hello";
          throw new Error("no");
        },
      },
    });
    const spent = async (assistant_id: string): Promise<unknown> => {
      const { run, result } = await kit.service.runs.wait(null, { assistant_id, input: {} });
      await result;
      return await kit.service.usage.traceUsage(run.run_id);
    };
    assert.deepEqual(await spent("writer"), { tokens_in: 10, tokens_out: 5, cost_usd: 0.25 });
    assert.deepEqual(await spent("failing"), { tokens_in: 0, tokens_out: 0, cost_usd: 1 });
    assert.equal(await kit.service.usage.traceUsage("00000000-0000-4000-8000-000000000000"), null);
  });

  it("fails the run that reports no number", async () => {
    await using kit = await testService({
      agents: {
        async *writer({ spend }) {
          spend({ tokens_in: -1 });
          yield "hello";
        },
      },
    });
    const { result } = await kit.service.runs.wait(null, { assistant_id: "writer", input: {} });
    const { __error__ } = (await result) as { readonly __error__: { readonly message: string } };
    assert.match(__error__.message, /usage/);
  });
});

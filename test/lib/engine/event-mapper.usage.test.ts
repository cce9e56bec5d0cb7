import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { ConfigError, type FunctionJob } from "../../../lib/mod.ts";
import { testService } from "../../suite/kit.ts";

describe("the model usage of a run", () => {
  it("is summed and stored with the trace, also of failed runs", async () => {
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

  it("is stored of attempts that were rolled back or shut down", async () => {
    const folder = await mkdtemp(join(tmpdir(), "greenroom-spending-"));
    try {
      let started = Promise.withResolvers<void>();
      let waits = true;
      const agents = {
        async *writer({ spend, signal }: FunctionJob) {
          spend({ tokens_in: 10, cost_usd: 1 });
          yield "hello";
          started.resolve();
          if (waits) await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
        },
      };
      const open = (): ReturnType<typeof testService> =>
        testService({ storage: nodeSqlite(join(folder, "runs.db")), agents });
      const first = await open();
      const { thread_id } = await first.service.threads.create();
      const request = { assistant_id: "writer", input: {} };
      const rolledBack = await first.service.runs.create(thread_id, request);
      await started.promise;
      started = Promise.withResolvers();
      const run = await first.service.runs.create(thread_id, { ...request, multitask_strategy: "rollback" });
      await started.promise;
      assert.equal((await first.service.usage.traceUsage(rolledBack.run_id))?.tokens_in, 10);
      await first[Symbol.asyncDispose]();
      waits = false;
      await using second = await open();
      await (await second.service.runs.join(thread_id, run.run_id)).result;
      assert.deepEqual(await second.service.usage.traceUsage(run.run_id), {
        tokens_in: 20,
        tokens_out: 0,
        cost_usd: 2,
      });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  it("gets its cost from the configured price of the model if it has none", async () => {
    await using kit = await testService({
      usage: { prices: { big: { tokens_in: 2, tokens_out: 10 } } },
      agents: {
        async *writer({ spend }) {
          yield "hello";
          spend({ model: "big", tokens_in: 1_000_000, tokens_out: 100_000 });
          spend({ model: "big", tokens_in: 1, cost_usd: 0.5 });
          for (const model of ["small", "constructor", ""]) spend({ model, tokens_in: 1 });
        },
      },
    });
    const { run, result } = await kit.service.runs.wait(null, { assistant_id: "writer", input: {} });
    await result;
    const spent = { tokens_in: 1_000_004, tokens_out: 100_000, cost_usd: 3.5 };
    assert.deepEqual(await kit.service.usage.traceUsage(run.run_id), spent);
    for (const price of [{ tokens_in: 1 }, { tokens_in: -1, tokens_out: 1 }, { tokens_in: "1", tokens_out: 1 }, 3]) {
      const usage = { prices: { big: price as never } };
      await assert.rejects(
        () => testService({ usage, agents: { echo: () => "Hi" } }),
        (error) =>
          error instanceof ConfigError && /^usage.prices: must give each model a price/.test(error.problems[0] ?? ""),
      );
    }
  });

  it("is capped at the maximum of reports", async () => {
    await using kit = await testService({
      usage: { prices: { dear: { tokens_in: 1e308, tokens_out: 1 } } },
      agents: {
        async *writer({ spend }) {
          yield "hello";
          for (let n = 0; n < 2; n += 1) spend({ model: "dear", tokens_in: Number.MAX_SAFE_INTEGER });
        },
      },
    });
    const { run, result } = await kit.service.runs.wait(null, { assistant_id: "writer", input: {} });
    await result;
    const spent = { tokens_in: 1e12, tokens_out: 0, cost_usd: 1e12 };
    assert.deepEqual(await kit.service.usage.traceUsage(run.run_id), spent);
  });

  it("fails the run if it has no number", async () => {
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

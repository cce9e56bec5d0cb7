/** Checks of traces whose agents record what a database can hardly store: names without an end, with U+0000, or that are no text. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { StartedSpan } from "../../../lib/executor/trace.ts";
import type { FunctionJob } from "../../../lib/functions/function-job.ts";
import type { Json } from "../../../lib/json.ts";
import type { Storage } from "../../../lib/storage/mod.ts";
import type { RunTrace } from "../../../lib/traces/run-trace.ts";
import { type TestServiceOptions, testService } from "../../suite/kit.ts";
import { ask, graph, state } from "../engine/attempt.harness.ts";

const ODD_NAMES = ["a\0b", "\ud83d", "\udc00x", '"', "\\", "'; drop table runs; --", "😀".repeat(1_000), "__proto__"];

/** Runs an agent once, and returns its trace. */
async function record(
  storage: Storage,
  options: object,
): Promise<{ readonly trace: RunTrace; search(query: object): Promise<number> } & AsyncDisposable> {
  const test = await testService({ storage, traces: { content: "all" }, ...options } as TestServiceOptions);
  const { thread_id } = await test.service.threads.create();
  const { run, result } = await test.service.runs.wait(thread_id, ask("g"));
  await result.catch(() => {});
  return {
    trace: await test.service.traces.get(thread_id, run.run_id),
    search: async (query) => (await test.service.traces.search(query)).items.length,
    [Symbol.asyncDispose]: () => test[Symbol.asyncDispose](),
  };
}

/** Registers the checks. Each opens a new storage. */
export function registerOddTraceChecks(name: string, open: () => Promise<Storage>): void {
  describe(`odd spans on ${name}`, () => {
    it("of any name are stored, and found by it", async () => {
      const executor = graph(async function* ({ trace }) {
        for (const odd of ODD_NAMES) {
          const details = { name: odd, attributes: { [odd]: odd } } as object;
          trace?.end(trace.start({ kind: "tool", ...details } as StartedSpan), { status: "ok", output: () => odd });
        }
        yield state({ ok: true });
      });
      await using recorded = await record(await open(), { executor });
      const { trace, search } = recorded;
      assert.equal(trace.status, "success");
      const tools = trace.spans.filter(({ kind }) => kind === "tool");
      assert.deepEqual(
        tools.map(({ name: stored }) => stored),
        ODD_NAMES.map((odd) => (odd.length > 200 ? odd.slice(0, 200) : odd)),
      );
      for (const [index, odd] of ODD_NAMES.entries()) {
        assert.equal(await search({ tool: odd }), 1, JSON.stringify(odd));
        assert.equal(await search({ tool: `${odd}x` }), odd.length > 200 ? 1 : 0, JSON.stringify(odd));
        const output = tools[index]?.output;
        assert.equal(output && "value" in output && output.value, odd);
      }
    });

    it("that are many are stored beside the row of their trace", async () => {
      const executor = graph(async function* ({ trace }) {
        for (let count = 0; count < 1_000; count++)
          trace?.end(trace.start({ kind: "tool", name: `tool ${count}` }), { status: "ok" });
        yield state({ ok: true });
      });
      const storage = await open();
      await using recorded = await record(storage, { executor });
      const { trace } = recorded;
      const stored = await storage.getRunTrace({ deployment: "default" }, trace.run_id);
      assert.equal(stored?.spans, "[]", "lists would read a long row");
      assert.ok((stored?.parts.length ?? 0) > 1 && stored?.parts.every(({ json }) => json.length < 64 * 1_024));
      assert.equal(trace.spans.filter(({ kind }) => kind === "tool").length, 1_000);
      assert.deepEqual([trace.totals.tool, trace.status], [1_000, "success"]);
    });

    it("of an error with any name let the run end, which is found by it", async () => {
      const executor = graph(async function* ({ trace }) {
        const error = Object.assign(new Error("no\0\ud83d"), { name: "Odd\0Error" });
        trace?.end(trace.start({ kind: "tool", name: "t" }), { status: "error", error });
        yield state({ ok: true });
        throw error;
      });
      await using recorded = await record(await open(), { executor });
      const { trace, search } = recorded;
      assert.equal(trace.status, "error");
      assert.equal(trace.spans.find(({ kind }) => kind === "tool")?.error?.type, "Odd\0Error");
      assert.equal(await search({ failed: true, error_type: "Odd\ufffdError" }), 1);
    });

    it("with values that are no JSON, or too much of it, are stored without them", async () => {
      const cycle: Record<string, unknown> = {};
      cycle["self"] = cycle;
      let deep: unknown = 1;
      for (let depth = 0; depth < 5_000; depth++) deep = [deep];
      const outputs = [cycle, deep, () => 1, 10n, "x".repeat(5_000_000), Object.create(null), new Map([[1, 2]])];
      const executor = graph(async function* ({ trace }) {
        for (const output of outputs)
          trace?.end(trace.start({ kind: "tool", name: "t" }), { status: "ok", output: () => output });
        yield state({ ok: true });
      });
      await using recorded = await record(await open(), { executor });
      const tools = recorded.trace.spans.filter(({ kind }) => kind === "tool");
      assert.deepEqual(
        tools.map(({ output }) => (output && "bytes" in output ? output.bytes : null)),
        [null, null, null, 4, 5_000_002, 2, 2],
      );
    });

    it("of a step that fails have its message only with copies, as redact leaves it", async () => {
      const g = async ({ step }: FunctionJob): Promise<string> => {
        await step("send", () => Promise.reject(new RangeError("no marker")), { retries: 0 }).catch(() => {});
        return "done";
      };
      const redact = (value: unknown): Json => JSON.parse(JSON.stringify(value).replaceAll("marker", "***"));
      for (const [traces, error] of [
        [{}, { type: "RangeError" }],
        [{ content: "all" }, { type: "RangeError", message: "no marker" }],
        [
          { content: "all", redact },
          { type: "RangeError", message: "no ***" },
        ],
      ] as const) {
        await using recorded = await record(await open(), { agents: { g }, traces });
        const [step] = recorded.trace.spans.filter(({ kind }) => kind === "step");
        assert.deepEqual([step?.status, step?.error], ["error", error]);
      }
    });

    it("with arguments that are wrong throw a TypeError in the agent, and leave no span", async () => {
      const wrong: readonly (readonly unknown[])[] = [
        ...[[], [7, () => 1], ["", () => 1], [Symbol("s"), () => 1], ["n"], ["n", "work"]],
        ...[
          { kind: "node" },
          { kind: null },
          { kinds: "tool" },
          { attributes: [] },
          { attributes: "x" },
          "tool",
          null,
        ].map((options) => ["n", () => 1, options]),
        ...[null, {}, [], 10n, () => 1, Symbol("s"), undefined].map((attribute) => [
          ...["n", () => 1],
          { attributes: { attribute } },
        ]),
      ];
      const errors: unknown[] = [];
      const g = ({ span }: FunctionJob): string => {
        for (const args of wrong) {
          try {
            void (span as (...args: readonly unknown[]) => unknown)(...args);
            errors.push(null);
          } catch (error) {
            errors.push(error);
          }
        }
        return "done";
      };
      await using recorded = await record(await open(), { agents: { g } });
      assert.equal(recorded.trace.status, "success");
      assert.deepEqual(
        errors.map((error) => error instanceof TypeError),
        wrong.map(() => true),
      );
      assert.deepEqual(
        recorded.trace.spans.filter(({ kind }) => kind === "custom" || kind === "tool"),
        [],
      );
    });
  });
}

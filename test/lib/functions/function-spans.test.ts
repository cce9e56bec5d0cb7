/** `job.span()`: what it records, where its spans lie, what `spend()` counts on, and which arguments it refuses. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type AgentFunction, type FunctionJob, fromFunctions } from "../../../lib/mod.ts";
import { testClock, testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";
import { advanceUntil } from "../../support/faulty.ts";
import { recordSpans, type SpanRecording } from "../../support/span-recording.ts";

keepAlive();

/** Runs a function on a service. Returns its spans and the status of its run. */
async function record(agent: AgentFunction): Promise<{ trace: SpanRecording; status: string; tokens: number }> {
  const { executor, attempts } = recordSpans(fromFunctions({ agent: { agent, max_attempts: 1 } }));
  await using kit = await testService({ executor });
  const { thread_id } = await kit.service.threads.create();
  const { run_id } = await kit.service.runs.create(thread_id, { assistant_id: "agent", input: {} });
  await (await kit.service.runs.join(thread_id, run_id)).result.catch(() => {});
  const { status } = await kit.service.runs.get(thread_id, run_id);
  const usage = await kit.service.usage.traceUsage(run_id);
  return { trace: attempts[0] as SpanRecording, status, tokens: usage?.tokens_in ?? 0 };
}

describe("job.span", () => {
  it("returns the result of its work and records it, with kind, attributes and times", async () => {
    const times: number[] = [];
    const { trace } = await record(async ({ span }) => {
      const work = async () => {
        times.push(performance.now());
        await Promise.resolve();
        times.push(performance.now());
        return { found: 2 };
      };
      return await span("search", work, { kind: "retriever", attributes: { top_k: 5, cached: false, index: "a" } });
    });
    const { kind, attributes, params, started, ended = 0, result, outputCopy } = trace.only("search");
    assert.deepEqual(
      { kind, attributes, params, status: result?.status, outputCopy },
      {
        // The number of documents is no content, and kept whatever happens to the attributes.
        params: { top_k: 5 },
        ...{ kind: "retriever", attributes: { top_k: 5, cached: false, index: "a" } },
        status: "ok",
        outputCopy: { found: 2 },
      },
    );
    assert.ok(started <= (times[0] ?? 0) && (times[1] ?? Number.NaN) <= ended);
  });

  it("nests spans by what their work calls, also at the same time and in a generator", async () => {
    const { trace } = await record(async function* ({ span }) {
      await span("first", async () => {
        await Promise.all([
          span("left", async () => span("deep", () => Promise.resolve())),
          span("right", () => Promise.resolve()),
        ]);
      });
      yield "token";
      await span("second", async () => {});
    });
    assert.deepEqual(trace.describe().sort(), [
      "custom first",
      "custom first > custom left",
      "custom first > custom left > custom deep",
      "custom first > custom right",
      "custom second",
    ]);
  });

  it("throws the error of its work, and keeps it", async () => {
    const { trace, status } = await record(async ({ span }) => {
      await span("fails", () => Promise.reject(new RangeError("no")));
    });
    const { status: spanStatus, error } = trace.only("fails").result ?? {};
    assert.deepEqual([status, spanStatus, (error as Error | undefined)?.name], ["error", "error", "RangeError"]);
  });

  it("counts what is spent on the innermost model or custom span, and on the run", async () => {
    const { trace, tokens } = await record(async ({ span, spend }) => {
      spend({ tokens_in: 100 });
      await span("outer", async () => {
        spend({ tokens_in: 10, tokens_out: 1 });
        await span("call", async () => spend({ tokens_in: 2, cost_usd: 0.5, model: "large" }), { kind: "model" });
        await span("lookup", async () => spend({ tokens_in: 3 }), { kind: "tool" });
      });
    });
    const results = trace.spans.map(({ name, result }) => [
      name,
      result?.tokens,
      result?.usage?.map(({ cost_usd }) => cost_usd),
      result?.response_model,
    ]);
    assert.deepEqual(results, [
      ["outer", { in: 13, out: 1 }, [undefined, undefined], undefined],
      ["call", { in: 2, out: 0 }, [0.5], "large"],
      ["lookup", undefined, undefined, undefined],
    ]);
    assert.equal(tokens, 115);
  });

  it("puts no span of a run that the function calls in process under its own", async () => {
    const agents: Record<string, AgentFunction> = {
      agent: async ({ span, thread_id }) => {
        await span("calls", async () => {
          await (await kit.service.runs.wait(null, { assistant_id: "other", input: {} })).result;
          return thread_id;
        });
      },
      other: async ({ span }) => void (await span("inner", async () => {})),
    };
    const { executor, attempts } = recordSpans(fromFunctions(agents));
    await using kit = await testService({ executor });
    await (await kit.service.runs.wait(null, { assistant_id: "agent", input: {} })).result;
    assert.deepEqual(
      attempts.map((trace) => trace.describe()),
      [["custom calls"], ["custom inner"]],
    );
  });

  it("lies under the step that calls it, and counts usage once although the function is called again", async () => {
    const clock = testClock();
    const { executor, attempts } = recordSpans(
      fromFunctions({
        agent: async ({ step, sleep, span, spend }: FunctionJob) => {
          const call = async (): Promise<string> => {
            spend({ tokens_in: 10 });
            return "Hi";
          };
          await step("ask", () => span("call", call, { kind: "model" }));
          await span("after", call);
          await sleep("pause", "1h");
          return "done";
        },
      }),
    );
    await using kit = await testService({ executor, environment: clock });
    const { thread_id } = await kit.service.threads.create();
    const { run_id } = await kit.service.runs.create(thread_id, { assistant_id: "agent", input: {} });
    const getRun = () => kit.service.runs.get(thread_id, run_id);
    await advanceUntil(clock, async () => (await getRun()).waiting_for !== undefined);
    await clock.advance("1h");
    await advanceUntil(clock, async () => (await getRun()).status === "success");
    assert.deepEqual(
      attempts.map((trace) => trace.describe()),
      [["step > model call", "custom after"], ["custom after"]],
    );
    const tokens = attempts.flatMap(({ spans }) => spans.map(({ result }) => result?.tokens?.in ?? 0));
    assert.deepEqual(tokens, [10, 10, 0]);
  });

  it("throws a TypeError for wrong arguments, before it calls its work", async () => {
    const wrong: [unknown[], RegExp][] = [
      [[1, () => {}], /the name must be a text/],
      [["", () => {}], /the name must be a text/],
      [["a", "work"], /second argument must be a function/],
      [["a", assert.fail, null], /third argument must be an object/],
      [["a", assert.fail, { kind: "node" }], /kind must be one of custom, model, tool, retriever/],
      [["a", assert.fail, { tags: {} }], /unknown option tags/],
      [["a", assert.fail, { attributes: [] }], /attributes must be an object/],
      [["a", assert.fail, { attributes: { list: [] } }], /the attribute list must be a text, a number or a boolean/],
      [["a", assert.fail, { attributes: { nothing: null } }], /the attribute nothing must be/],
    ];
    const { trace, status } = await record(async ({ span }) => {
      for (const [args, problem] of wrong)
        assert.throws(
          () => (span as (...args: unknown[]) => unknown)(...args),
          (error) => error instanceof TypeError && problem.test(error.message),
        );
    });
    assert.equal(status, "success");
    assert.deepEqual(trace.describe(), []);
  });

  it("only calls its work if no trace is recorded", async () => {
    const called: string[] = [];
    const agent: AgentFunction = async ({ span }) => await span("work", () => void called.push("work"));
    const executor = fromFunctions({ agent });
    const untraced = {
      ...executor,
      execute: (...[job, ...rest]: Parameters<typeof executor.execute>) => {
        const { trace: _trace, ...jobWithoutTrace } = job;
        return executor.execute(jobWithoutTrace, ...rest);
      },
    };
    await using kit = await testService({ executor: untraced });
    await (await kit.service.runs.wait(null, { assistant_id: "agent", input: {} })).result;
    assert.deepEqual(called, ["work"]);
  });
});

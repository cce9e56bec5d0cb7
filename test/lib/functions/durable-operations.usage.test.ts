/** Code of durable functions that runs again on resume reports no model usage twice. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type AgentFunction, type FunctionJob, fromFunctions } from "../../../lib/mod.ts";
import { type TestClock, type TestService, testClock, testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";
import { advanceUntil, createClockedService, createFaultyStorage } from "../../support/faulty.ts";
import { until } from "../../support/until.ts";

keepAlive();

const request = { assistant_id: "agent", input: {} };
const createUsage = (tokens_in: number, cost_usd = 0): object => ({ tokens_in, tokens_out: 0, cost_usd });

interface Started {
  readonly thread_id: string;
  readonly run_id: string;
}

async function start({ service }: Pick<TestService, "service">): Promise<Started> {
  const { thread_id } = await service.threads.create();
  const { run_id } = await service.runs.create(thread_id, request);
  return { thread_id, run_id };
}

async function advance(clock: TestClock, fact: () => Promise<boolean>): Promise<void> {
  await until(async () => {
    await clock.advance(60);
    return await fact();
  });
}

/** Executes a function to its end, through all of its sleeps, and returns what its run has spent. */
async function spentBy(agent: AgentFunction): Promise<unknown> {
  const clock = testClock();
  await using kit = await testService({ agents: { agent }, environment: clock });
  const { runs, usage } = kit.service;
  const { thread_id, run_id } = await start(kit);
  const status = async (): Promise<string> => (await runs.get(thread_id, run_id)).status;
  for (;;) {
    await advance(clock, async () => {
      const run = await runs.get(thread_id, run_id);
      return run.waiting_for !== undefined || run.status === "success";
    });
    if ((await status()) === "success") return await usage.traceUsage(run_id);
    await clock.advance("1h");
  }
}

describe("the model usage of a durable function that has slept", () => {
  it("is reported once after a step", async () => {
    const spent = await spentBy(async ({ step, sleep, spend }) => {
      await step("model", () => "Hi");
      spend({ tokens_in: 10, cost_usd: 0.5 });
      await sleep("pause", "1h");
      return "done";
    });
    assert.deepEqual(spent, createUsage(10, 0.5));
  });

  it("is reported once before, in, between and after steps and several sleeps", async () => {
    const spent = await spentBy(async function* ({ step, sleep, spend }) {
      spend({ tokens_in: 1 });
      await step("first", () => {
        spend({ tokens_in: 10 });
        return 1;
      });
      spend({ tokens_in: 100 });
      yield "text";
      await sleep("one", "1h");
      spend({ tokens_in: 1_000 });
      await step("second", async () => {
        spend({ tokens_in: 10_000 });
        await null;
        spend({ tokens_in: 10_000 });
      });
      await sleep("two", "1h");
      spend({ tokens_in: 100_000 });
      await sleep("three", "1h");
      spend({ tokens_in: 1_000_000 });
    });
    assert.deepEqual(spent, createUsage(1_121_111));
  });

  it("is reported once for the tokens of a model in a step", async () => {
    const model = (): object => ({
      textStream: (async function* () {
        yield "Hi";
      })(),
      fullStream: (async function* () {
        yield { type: "text-delta", text: "Hi" };
        yield { type: "finish-step", usage: { inputTokens: 7, outputTokens: 0 }, response: {} };
      })(),
    });
    const spent = await spentBy(async ({ step, sleep, spend }) => {
      await step("model", model);
      spend({ tokens_in: 10 });
      await sleep("pause", "1h");
      spend({ tokens_in: 100 });
    });
    assert.deepEqual(spent, createUsage(117));
  });
});

describe("the model usage of a durable function that continues in another run or attempt", () => {
  it("is reported to the run that raised the interrupt, and later usage to the run that resumed", async () => {
    const agent: AgentFunction = async ({ step, ask, spend }) => {
      await step("model", () => "Hi");
      spend({ tokens_in: 10 });
      const answer = await ask("go", "Go on?");
      spend({ tokens_in: 100 });
      return `${answer}`;
    };
    await using kit = await testService({ agents: { agent } });
    const { runs, threads, usage } = kit.service;
    const { thread_id } = await threads.create();
    const asking = await runs.wait(thread_id, request);
    await asking.result;
    const answering = await runs.wait(thread_id, { assistant_id: "agent", command: { resume: "yes" } });
    await answering.result;
    assert.deepEqual(await usage.traceUsage(asking.run.run_id), createUsage(10));
    assert.deepEqual(await usage.traceUsage(answering.run.run_id), createUsage(100));
  });

  for (const [name, leave] of Object.entries({
    "the service stopped": "stop",
    "the process lost its lease": "lease",
  })) {
    it(`is reported once if it came before ${name}, and the usage of a step is kept`, async () => {
      const [clock, later] = [testClock(), testClock()];
      const first = createFaultyStorage();
      const second = first.share();
      first.faults.close = async () => {};
      let isBlocked = false;
      const agent = async ({ step, spend, signal }: FunctionJob): Promise<string> => {
        spend({ tokens_in: 1 });
        await step("model", () => spend({ tokens_in: 10 }));
        spend({ tokens_in: 100 });
        await step("slow", async () => {
          if (isBlocked) return;
          isBlocked = true;
          await new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
        });
        return "done";
      };
      const executor = fromFunctions({ agent });
      const worker = { lease_ms: 10_000 };
      const a = await createClockedService(clock, { storage: first.storage, worker, executor });
      const { thread_id, run_id } = await start(a);
      await advanceUntil(clock, () => isBlocked);
      if (leave === "stop") await a[Symbol.asyncDispose]();
      await later.advance(2 * worker.lease_ms);
      await using b = await createClockedService(later, { storage: second.storage, worker, executor });
      await advanceUntil(later, async () => (await b.service.runs.get(thread_id, run_id)).status === "success");
      if (leave === "lease") {
        await clock.set(later.now());
        await a[Symbol.asyncDispose]();
      }
      assert.deepEqual(await b.service.usage.traceUsage(run_id), createUsage(111));
    });
  }
});

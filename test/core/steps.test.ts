/** Durable functions: steps, sleeps, asks and waits, and what replays do with them. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { testService } from "../suite/kit.ts";

describe("step", () => {
  it("returns the result, and stores it once", async () => {
    let calls = 0;
    await using kit = await testService({
      agents: {
        async *agent({ step }) {
          const one = await step("one", () => ++calls);
          const two = await step(["two", 2], async ({ attempt }) => ({ attempt, one }));
          yield { messages: [`${one} ${JSON.stringify(two)}`] };
        },
      },
    });
    const thread = await kit.service.threads.create();
    const { result } = await kit.service.runs.wait(thread.thread_id, {
      assistant_id: "agent",
      input: { messages: "Hi" },
    });
    const values = (await result) as { messages: { content: string }[] };
    assert.equal(values.messages.at(-1)?.content, '1 {"attempt":1,"one":1}');
    assert.equal(calls, 1);
  });

  it("continues after an ask in the run that answers", async () => {
    const calls: string[] = [];
    await using kit = await testService({
      agents: {
        async *agent({ step, ask, messages }) {
          yield "Looking… ";
          const found = await step("find", () => {
            calls.push("find");
            return messages.length;
          });
          const ok = await ask("approve", { question: `Pay ${found}?` }, { schema: { type: "boolean" } });
          if (!ok) return "Not paid.";
          await step("pay", () => void calls.push("pay"));
          yield "Paid.";
        },
      },
    });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const first = await runs.wait(thread_id, { assistant_id: "agent", input: { messages: "Hi" } });
    const shown = (await first.result) as { __interrupt__: { id: string; value: unknown }[] };
    assert.deepEqual(
      shown.__interrupt__.map(({ value }) => value),
      [{ question: "Pay 1?" }],
    );
    assert.equal((await threads.get(thread_id)).status, "interrupted");
    const second = await runs.wait(thread_id, { assistant_id: "agent", command: { resume: true } });
    const values = (await second.result) as { messages: { content: string }[] };
    assert.deepEqual(
      values.messages.map(({ content }) => content),
      ["Hi", "Looking… ", "Paid."],
    );
    assert.deepEqual(calls, ["find", "pay"]);
  });
});

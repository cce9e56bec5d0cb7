/** Two open asks of a durable function beside a sleep, answered by stock clients. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Client as Client111 } from "langgraph-sdk-1-11";
import { Client as Client115 } from "langgraph-sdk-1-15";
import { Client as Client2 } from "langgraph-sdk-2";
import { type AgentFunction, fromFunctions } from "../../lib/mod.ts";
import { testService } from "../suite/kit.ts";
import { keepAlive } from "../support/alive.ts";
import { until } from "../support/until.ts";
import type { Fetch } from "./sdk/bench.ts";
import { inProcess } from "./sdk/reach.ts";

keepAlive();

/** The sleep never ends in these tests. */
const refund: AgentFunction = async function* ({ step, sleep, ask }) {
  const order = await step("find order", () => "A-1");
  void sleep("cool off", "30d");
  const [first, second] = await Promise.all([ask("first", "First?"), ask("second", "Second?")]);
  yield `${order}: ${first} ${second}`;
};

async function open(Sdk: unknown) {
  const host = await testService({ executor: fromFunctions({ refund }) });
  const reached = await inProcess(host.fetch as Fetch);
  const options = { apiUrl: reached.apiUrl, apiKey: null, callerOptions: { fetch: reached.fetch, maxRetries: 0 } };
  return {
    client: new (Sdk as typeof Client115)(options as never),
    fetch: reached.fetch as typeof fetch,
    async [Symbol.asyncDispose]() {
      await reached.close();
      await host[Symbol.asyncDispose]();
    },
  };
}

interface AskedValues {
  readonly __interrupt__?: readonly { readonly id: string; readonly value: string }[];
  readonly messages: readonly { readonly content: string }[];
}
const readQuestions = (values: unknown): string[] =>
  ((values as AskedValues).__interrupt__ ?? []).map(({ value }) => value);
const readInterruptIds = (values: unknown): string[] =>
  ((values as AskedValues).__interrupt__ ?? []).map(({ id }) => id);
const readLastContent = (values: unknown): string | undefined => (values as AskedValues).messages.at(-1)?.content;
const input = { messages: [{ role: "user", content: "Refund" }] };

for (const [name, Sdk, hasThreadStreams] of [
  ["2.0.0", Client2, false],
  ["1.15.0", Client115, true],
  ["1.11.0", Client111, true],
] as const) {
  describe(`two pending asks and SDK ${name}`, () => {
    it("are answered together by runs.wait with a map", async () => {
      await using at = await open(Sdk);
      const { runs, threads } = at.client;
      const { thread_id } = await threads.create();
      const output = await runs.wait(thread_id, "refund", { input });
      assert.deepEqual(readQuestions(output), ["First?", "Second?"]);
      const [first, second] = readInterruptIds(output) as [string, string];
      const values = await runs.wait(thread_id, "refund", { command: { resume: { [first]: "one", [second]: "two" } } });
      assert.equal(readLastContent(values), "A-1: one two");
      assert.equal((await threads.get(thread_id)).status, "idle");
    });

    it("are answered one by one by runs.stream, in the other order", async () => {
      await using at = await open(Sdk);
      const { runs, threads } = at.client;
      const { thread_id } = await threads.create();
      const output = await runs.wait(thread_id, "refund", { input });
      const [first, second] = readInterruptIds(output) as [string, string];
      const answer = async (resume: unknown): Promise<unknown> => {
        let last: unknown;
        for await (const { event, data } of runs.stream(thread_id, "refund", {
          command: { resume },
          streamMode: "values",
        }))
          if (event === "values") last = data;
          else assert.notEqual(event, "error", JSON.stringify(data));
        return last;
      };
      const then = await answer({ [second]: "two" });
      assert.deepEqual(readInterruptIds(then), [first]);
      assert.equal((await threads.get(thread_id)).status, "interrupted");
      assert.equal(readLastContent(await answer("one")), "A-1: one two");
    });

    // Not in 2.0.0: it has no thread streams.
    if (!hasThreadStreams) return;
    it("are answered by threads.stream, together and one by one", async () => {
      await using at = await open(Sdk);
      for (const order of ["together", "second first"]) {
        const thread = at.client.threads.stream({ assistantId: "refund", transport: "sse", fetch: at.fetch });
        await thread.run.start({ input });
        await thread.output;
        await until(() => thread.interrupts.length === 2);
        const answers = thread.interrupts.map(({ interruptId, namespace, payload }) => ({
          interrupt_id: interruptId,
          namespace,
          response: `${payload}!`,
        }));
        if (order === "together") await thread.input.respond({ responses: answers } as never);
        else {
          await thread.input.respond(answers[1] as never);
          const countRemaining = async () =>
            (await at.client.threads.getState(thread.threadId)).tasks.flatMap((t) => t.interrupts);
          await until(async () => (await at.client.threads.get(thread.threadId)).status === "interrupted");
          await until(async () => (await countRemaining()).length === 1);
          assert.deepEqual(
            (await countRemaining()).map(({ id }) => id),
            [answers[0]?.interrupt_id],
          );
          await thread.input.respond(answers[0] as never);
        }
        await until(async () => (await at.client.threads.get(thread.threadId)).status === "idle");
        const { values } = await at.client.threads.getState(thread.threadId);
        assert.equal(readLastContent(values), "A-1: First?! Second?!", order);
        await thread.close();
      }
    });
  });
}

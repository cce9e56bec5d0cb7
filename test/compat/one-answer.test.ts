/** Concurrent and late answers to an interrupt, by the clients of each protocol: one of them is consumed, by this interrupt alone. */
import assert from "node:assert/strict";
import process from "node:process";
import { after, before, describe, it } from "node:test";
import { type Listener, serve } from "../../adapters/node/mod.ts";
import type { Interrupt } from "../../lib/executor/contract.ts";
import { createHandler } from "../../lib/http/handler.ts";
import { asker, FORMS, TASKS } from "../lib/http/endpoints/mcp/mcp.harness.ts";
import { type TestService, testService } from "../suite/mod.ts";
import { until } from "../support/until.ts";
import { AGENTS, createPayingAgents, FIRST, Payments, SECOND } from "./one-answer/agents.ts";
import { PROTOCOLS, type Reply } from "./one-answer/clients.ts";

const TRIES = 20;
/** With other versions of LangGraph, functions do the same. */
const agents = process.env.GREENROOM_TEST_VERSIONS ? (["graph"] as const) : AGENTS;

describe("a resume value is consumed by one interrupt, and never by a later one", () => {
  const payments = new Payments();
  let test: TestService;
  let server: Listener;

  const { error } = console;

  before(async () => {
    // The client of AG-UI prints each refusal.
    console.error = (...lines: unknown[]) => String(lines[0]).startsWith("Agent execution failed") || error(...lines);
    test = await testService({ executor: createPayingAgents(payments), environment: { log: () => {} } });
    server = await serve(createHandler(test.service), { port: 0, hostname: "127.0.0.1" });
  });
  after(async () => {
    console.error = error;
    await server.close();
    await test.service.stop();
  });

  /** Returns the interrupt that a thread waits for. */
  const pending = async (thread_id: string): Promise<Partial<Interrupt>> => {
    const { interrupts } = await test.service.threads.get(thread_id);
    return (Object.values(interrupts).flat()[0] ?? {}) as Partial<Interrupt>;
  };

  it("MCP, tasks: a resume value that waited for the others of its run does not reach a later interrupt", async () => {
    const ask = asker(fetch, `${server.url}/mcp`);
    const options = { capabilities: { ...FORMS, ...TASKS } };
    await test.service.assistants.update("beside", { metadata: { mcp: { task: "always" } } });
    const { taskId = "" } = (await ask("tools/call", { name: "beside", arguments: {} }, options)).result;
    /** Waits until interrupts with these texts are pending, and returns their keys. */
    const waiting = async (...texts: string[]): Promise<string[]> => {
      let inputsByKey: Record<string, { readonly params: { readonly message: string } }> = {};
      await until(
        async () => {
          const { inputRequests = {} } = (await ask("tasks/get", { taskId }, options)).result;
          inputsByKey = inputRequests as typeof inputsByKey;
          return (
            texts.join() ===
            Object.values(inputsByKey)
              .map(({ params }) => params.message)
              .sort()
              .join()
          );
        },
        texts.join(),
        10_000,
      );
      return texts.map(
        (text) => Object.keys(inputsByKey).find((key) => inputsByKey[key]?.params.message === text) ?? "",
      );
    };
    const update = (key: string, answer: string) =>
      ask("tasks/update", { taskId, inputResponses: { [key]: { action: "accept", content: { answer } } } }, options);
    const [a = ""] = await waiting("a 1", "b");
    await update(a, "yes");
    const [b = ""] = await waiting("b");
    await update(b, "yes");
    const [second = ""] = await waiting("a 2");
    await update(second, "no");
    await until(async () => (await ask("tasks/get", { taskId }, options)).result.status === "completed");
    const { thread_id } = await test.service.runs.get(null, String(taskId));
    const { values } = await test.service.threads.get(thread_id);
    assert.deepEqual(values, { paid: "yes no", other: "yes" });
  });

  for (const protocol of PROTOCOLS) {
    for (const agent of agents) {
      it(`${protocol.name}: ${agent}`, { timeout: 120_000 }, async () => {
        // Before LangGraph 1.5 both interrupts have one id, so an answer that comes too late cannot be told apart.
        let idsRepeat = protocol.names === "nothing";
        for (let time = 0; time < TRIES; time++) {
          const { thread_id, answer } = await protocol.ask({ url: server.url, service: test.service }, agent);
          const gate = payments.gate(thread_id);
          const first = await pending(thread_id);
          const replies: Reply[] = [];
          const answers = ["one", "two"].map(async (name) => {
            replies.push(await answer(`${name} ${time}`));
          });
          try {
            await until(() => payments.consumed(thread_id, FIRST).size > 0, "an answer is consumed", 10_000);
            // Every second time the next interrupt opens while the other answer may be on its way.
            if (protocol.refuses && (idsRepeat || time % 2 === 0)) {
              await until(() => replies.length === 1, "an answer is refused while the other one is consumed", 10_000);
            }
          } finally {
            gate.resolve();
          }
          await Promise.all(answers);
          await until(async () => (await pending(thread_id)).value === SECOND, "the second interrupt is open", 10_000);

          const refused = replies.flatMap(({ refusal }) => refusal ?? []);
          assert.equal(refused.length, protocol.refuses ? 1 : 0, JSON.stringify(replies));
          for (const refusal of refused) assert.match(refusal, protocol.refuses ?? /^$/);
          for (const { text } of replies) if (protocol.outcome) assert.match(text, protocol.outcome);
          if (protocol.names === "id") idsRepeat = first.id === (await pending(thread_id)).id;
          if (!idsRepeat) {
            const late = await answer(`late ${time}`);
            if (protocol.refuses) assert.match(String(late.refusal), protocol.refuses);
          }
          assert.equal((await pending(thread_id)).value, SECOND);
          assert.equal(payments.consumed(thread_id, FIRST).size, 1);
          assert.deepEqual([...payments.consumed(thread_id, SECOND)], []);
          assert.equal((await test.service.runs.list(thread_id)).length, 2, "one run answers");
        }
      });
    }
  }
});

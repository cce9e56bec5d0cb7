/** Answers of agents whose context has required members, in process and over HTTP. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as v from "valibot";
import { client } from "../../../adapters/client.ts";
import { serve } from "../../../adapters/node/mod.ts";
import type { AgentCalls } from "../../../lib/handles/types.ts";
import { createHandler } from "../../../lib/http/handler.ts";
import { agent, type GraphsOf } from "../../../lib/mod.ts";
import { type TestService, testClock, testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";

const context = v.object({ tier: v.picklist(["free", "pro"]) });

const agents = {
  /** Starts again when it is answered. */
  interrupts: agent({ context, resume: v.picklist(["yes", "no"]) }, ({ context: { tier }, command, interrupt }) =>
    command?.resume === undefined ? interrupt("Sure?") : { got: `${command.resume} ${tier}` },
  ),
  /** Continues when it is answered. */
  asks: agent({ context }, async ({ context: { tier }, ask }) => {
    const first = await ask("first", "Sure?", { schema: v.boolean() });
    const second = await ask("second", "Really?", { schema: v.boolean(), timeout: "1d" });
    return { got: `${first} ${second} ${tier}` };
  }),
};

type Calls = AgentCalls<GraphsOf<typeof agents>>;

const PRO = { context: { tier: "pro" } } as const;
const FREE = { context: { tier: "free" } } as const;

type Reach = (kit: TestService<GraphsOf<typeof agents>>) => Promise<{ readonly calls: Calls; close(): Promise<void> }>;

const REACHES: Readonly<Record<string, Reach>> = {
  "in process": async ({ service }) => ({ calls: service, close: async () => {} }),
  "over HTTP": async ({ service }) => {
    const listener = await serve(createHandler(service), { hostname: "127.0.0.1", port: 0 });
    const calls = client<typeof agents>({ apiUrl: `http://127.0.0.1:${listener.port}` });
    return { calls, close: () => listener.close() };
  },
};

describe("the context of an answer", () => {
  keepAlive();

  for (const [reach, open] of Object.entries(REACHES)) {
    it(`is required where the function starts again, and the interrupt stays open without it, ${reach}`, async () => {
      await using kit = await testService({ agents });
      const { calls, close } = await open(kit);
      const interrupts = calls.agent("interrupts");
      const { thread_id, outcome } = await interrupts.start({}, PRO);
      assert.equal((await outcome()).status, "waiting");
      await assert.rejects(interrupts.resume(thread_id, "yes"), /context/);
      await assert.rejects(interrupts.resume(thread_id, "yes", { metadata: { a: 1 } }), /context/);
      assert.equal((await kit.service.runs.list(thread_id)).length, 1);
      assert.equal((await interrupts.state(thread_id)).interrupts.length, 1);
      const answered = await interrupts.resume(thread_id, "yes", FREE);
      assert.equal(answered.status, "success");
      assert.equal(answered.values?.["got"], "yes free");
      await close();
    });

    it(`may be in part that of the assistant, ${reach}`, async () => {
      await using kit = await testService({ agents });
      const { calls, close } = await open(kit);
      const { assistant_id } = await kit.service.assistants.create({ graph_id: "interrupts", ...PRO });
      const interrupts = calls.agent("interrupts");
      const { thread_id, outcome } = await interrupts.start({}, FREE);
      await outcome();
      const answered = await interrupts.resume(thread_id, "no", { assistant_id });
      assert.equal(answered.values?.["got"], "no pro");
      await close();
    });

    it(`is that of the start where the function continues, ${reach}`, async () => {
      await using kit = await testService({ agents });
      const { calls, close } = await open(kit);
      const asks = calls.agent("asks");
      const { thread_id, outcome } = await asks.start({}, PRO);
      assert.equal((await outcome()).status, "waiting");
      assert.equal((await asks.resume(thread_id, true)).status, "waiting");
      const answered = await asks.resume(thread_id, false, FREE);
      assert.equal(answered.status, "success", JSON.stringify(answered));
      assert.equal(answered.values?.["got"], "true false pro");
      await close();
    });
  }

  it("is not needed when a later wait of the function ends by time", async () => {
    const clock = testClock();
    await using kit = await testService({ agents, environment: clock });
    const { thread_id } = await kit.service.agent("asks").start({}, PRO);
    await clock.advance("1s");
    const answered = kit.service.agent("asks").resume(thread_id, true);
    await clock.advance("1s");
    assert.equal((await answered).status, "waiting");
    await clock.advance("2d");
    const { values } = await kit.service.threads.get(thread_id);
    assert.deepEqual(values, { got: "true null pro" });
  });

  it("is required with a goto, which starts a new call", async () => {
    await using kit = await testService({ agents });
    const { thread_id, outcome } = await kit.service.agent("asks").start({}, PRO);
    await outcome();
    const request = { assistant_id: "asks", command: { resume: true, goto: "asks" } };
    await assert.rejects(kit.service.runs.wait(thread_id, request), /context/);
  });
});

/** Answers of agents whose context has required members, in process and over HTTP. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as v from "valibot";
import { client } from "../../../adapters/client.ts";
import { serve } from "../../../adapters/node/mod.ts";
import type { AgentCalls } from "../../../lib/handles/types.ts";
import { createHandler } from "../../../lib/http/handler.ts";
import { agent, type GraphsOf, type JsonObject } from "../../../lib/mod.ts";
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

/** The schema of answers to `interrupt()` accepts none of the first ask, and that ask accepts none of its answers. */
const both = agent({ resume: v.union([v.picklist(["yes", "no"]), v.null()]) }, async ({ ask }) => {
  const [amount, reason] = await Promise.all([
    ask("amount", "How much?", { schema: v.object({ cents: v.number() }) }),
    ask("reason", "Why?"),
  ]);
  return { got: `${amount.cents} ${reason}` };
});

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

describe("the answer to an ask", () => {
  keepAlive();

  it("is validated by the schema of the ask alone, or without one by that of the agent", async () => {
    await using kit = await testService({ agents: { both } });
    const { thread_id, outcome } = await kit.service.agent("both").start({});
    const waitingOutcome = await outcome();
    assert.equal(waitingOutcome.status, "waiting");
    const interrupts = waitingOutcome.status === "waiting" ? waitingOutcome.interrupts : [];
    const findId = (question: string): string => interrupts.find(({ value }) => value === question)?.id ?? "";
    const [amount, reason] = [findId("How much?"), findId("Why?")];
    const url = `http://localhost/threads/${thread_id}/runs/wait`;
    const post = async (resume: unknown): Promise<{ readonly status: number; readonly body: JsonObject }> => {
      const body = JSON.stringify({ assistant_id: "both", command: { resume } });
      const response = await kit.fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body });
      return { status: response.status, body: (await response.json()) as JsonObject };
    };
    const listLocations = ({ body }: { readonly body: JsonObject }): string[] =>
      (body["detail"] as unknown as { loc: string[] }[]).map(({ loc }) => loc.join("."));
    const refusedForAsk = await post({ [amount]: "yes" });
    assert.equal(refusedForAsk.status, 422);
    assert.deepEqual(listLocations(refusedForAsk), [`body.command.resume.${amount}`]);
    const refusedForAgent = await post({ [amount]: { cents: 5 }, [reason]: { cents: 5 } });
    assert.equal(refusedForAgent.status, 422);
    assert.deepEqual(listLocations(refusedForAgent), [`body.command.resume.${reason}`]);
    assert.equal((await kit.service.runs.list(thread_id)).length, 1);
    // One by one: the first by id, and then the only one that is open by a plain value.
    assert.equal((await post({ [reason]: "no" })).status, 200);
    const { status, body } = await post({ cents: 7 });
    assert.equal(status, 200);
    assert.equal(body["got"], "7 no");
  });

  it("reaches the function in process, too", async () => {
    await using kit = await testService({ agents: { both } });
    const { thread_id, outcome } = await kit.service.agent("both").start({});
    const waitingOutcome = await outcome();
    const interrupts = waitingOutcome.status === "waiting" ? waitingOutcome.interrupts : [];
    const answers = Object.fromEntries(
      interrupts.map(({ id, value }) => [id, value === "Why?" ? "yes" : { cents: 3 }]),
    );
    const request = { assistant_id: "both", command: { resume: answers } };
    const { result } = await kit.service.runs.wait(thread_id, request);
    assert.deepEqual(await result, { got: "3 yes" });
  });
});

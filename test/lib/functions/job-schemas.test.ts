/** Values that a function gets, yields and emits, and the schemas of its agent. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type } from "arktype";
import * as v from "valibot";
import { z } from "zod";
import { type Agent, type AgentDefinition, agent, type Json, type JsonObject } from "../../../lib/mod.ts";
import { type TestService, testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";

const STATES = {
  valibot: v.object({ n: v.optional(v.number(), 0), name: v.optional(v.string()) }),
  zod: z.object({ n: z.number().default(0), name: z.string().optional() }),
  arktype: type({ n: "number = 0", "name?": "string" }),
};

interface Outcome {
  readonly result: Json;
  readonly status: string | undefined;
  readonly values: Json;
}

/** Runs an agent on a thread. `input` null continues from its state. */
async function run({ service }: TestService, thread_id: string, request: object = {}): Promise<Outcome> {
  const { run, result } = await service.runs.wait(thread_id, { assistant_id: "agent", input: {}, ...request });
  const ended = await result;
  const { values } = await service.threads.state(thread_id);
  return { result: ended, status: (await service.runs.get(thread_id, run.run_id)).status, values };
}

async function withAgent(
  definition: AgentDefinition | Agent,
  use: (kit: TestService, thread_id: string) => Promise<void>,
): Promise<void> {
  await using kit = await testService({ agents: { agent: definition } });
  const { thread_id } = await kit.service.threads.create();
  await use(kit, thread_id);
}

const readError = ({ result }: Outcome): Json | undefined => (result as JsonObject).__error__;

describe("the state of an agent with a schema", () => {
  keepAlive();

  for (const [library, schema] of Object.entries(STATES)) {
    it(`has the defaults of ${library}, and is stored as the function yields it`, async () => {
      const counter = agent({ state: schema as typeof STATES.zod }, async function* ({ state }) {
        yield { n: state.n + 1 };
        yield "Done.";
      });
      await withAgent(counter, async (kit, thread_id) => {
        await run(kit, thread_id, { input: { messages: "Hi" } });
        const { values } = await run(kit, thread_id);
        const { n, messages } = values as { n: number; messages: { type: string }[] };
        assert.equal(n, 2);
        assert.deepEqual(
          messages.map((message) => message.type),
          ["human", "ai", "ai"],
        );
      });
    });

    it(`refuses an update that does not fit ${library}: the run fails and the update is not stored`, async () => {
      const values: unknown[] = [{ name: "before" }, { n: "secret" }, { name: "after" }];
      const wrong: AgentDefinition = agent({ state: schema as typeof STATES.zod }, async function* () {
        for (const value of values) yield value as { n: number };
      });
      await withAgent(wrong, async (kit, thread_id) => {
        const outcome = await run(kit, thread_id);
        const { error, message } = readError(outcome) as { error: string; message: string };
        assert.equal(error, "InvalidState");
        assert.match(message, /^The state does not fit the agent's schema: n \((?:number|invalid_type|domain)\)$/);
        assert.equal(outcome.status, "error");
        assert.deepEqual(outcome.values, { name: "before" });
      });
      const returned: AgentDefinition = agent({ state: schema as typeof STATES.zod }, () => ({ n: true }) as never);
      await withAgent(returned, async (kit, thread_id) => {
        const outcome = await run(kit, thread_id);
        assert.equal((readError(outcome) as JsonObject).error, "InvalidState");
        assert.deepEqual(outcome.values, {});
      });
    });
  }

  it("keeps members that the schema does not have, unless it is strict", async () => {
    const update = (): never => ({ m: 1 }) as never;
    await withAgent(agent({ state: STATES.zod }, update), async (kit, thread_id) => {
      assert.deepEqual((await run(kit, thread_id)).values, { m: 1 });
    });
    for (const state of [z.strictObject({ n: z.number().optional() }), v.strictObject({ n: v.optional(v.number()) })])
      await withAgent(agent({ state: state as unknown as typeof STATES.zod }, update), async (kit, thread_id) => {
        assert.equal((readError(await run(kit, thread_id)) as JsonObject).error, "InvalidState");
      });
  });

  it("is validated by the members that changed, and not at all with validate_state false", async () => {
    const state = z.object({ n: z.number().optional(), name: z.string().optional() });
    let yielded: object = {};
    const write = (validate_state: boolean): AgentDefinition =>
      agent({ state, validate_state }, () => yielded as never);
    await withAgent(write(false), async (kit, thread_id) => {
      yielded = { n: "1" };
      assert.deepEqual((await run(kit, thread_id)).values, { n: "1" });
      await kit.service.threads.updateState(thread_id, { values: { name: 5 } });
    });
    const required = z.object({ n: z.number(), name: z.string() });
    await using kit = await testService({ agents: { agent: agent({ state: required }, () => "Done.") } });
    const { thread_id } = await kit.service.threads.create({ metadata: { graph_id: "agent" } });
    await assert.rejects(kit.service.threads.updateState(thread_id, { values: { n: "1" } }), { code: "invalid" });
    await kit.service.threads.updateState(thread_id, { values: { n: 1 } });
    const message = "The state does not fit the agent's schema: name (invalid_type)";
    assert.deepEqual(readError(await run(kit, thread_id, { input: null })), { error: "InvalidState", message });
    assert.equal((await run(kit, thread_id, { input: { name: "Ann" } })).status, "success");
  });

  it("is refused when a client updates it, with all issues, and stays as it was", async () => {
    await withAgent(
      agent({ state: STATES.valibot }, () => ({ n: 1 })),
      async (kit, thread_id) => {
        await run(kit, thread_id);
        await assert.rejects(kit.service.threads.updateState(thread_id, { values: { n: "7", name: 5 } }), {
          code: "invalid",
          issues: [
            { loc: ["body", "values", "n"], msg: 'Invalid type: Expected number but received "7"', type: "number" },
            { loc: ["body", "values", "name"], msg: "Invalid type: Expected string but received 5", type: "string" },
          ],
        });
        const response = await kit.fetch(`http://localhost/threads/${thread_id}/state`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ values: { n: "7" } }),
        });
        assert.equal(response.status, 422);
        assert.deepEqual(((await response.json()) as { detail: { loc: string[] }[] }).detail[0]?.loc, [
          "body",
          "values",
          "n",
        ]);
        assert.deepEqual((await kit.service.threads.state(thread_id)).values, { n: 1 });
        await kit.service.threads.updateState(thread_id, { values: { n: 7 } });
        assert.deepEqual((await kit.service.threads.state(thread_id)).values, { n: 7 });
      },
    );
  });
});

describe("arguments of", () => {
  keepAlive();
  const question = {
    valibot: v.object({ q: v.string() }),
    zod: z.object({ q: z.string() }),
    arktype: type({ q: "string" }),
  };
  const isAsync = z.object({ q: z.string() }).refine(async () => true);

  for (const [library, interrupt] of Object.entries({ ...question, asynchronous: isAsync })) {
    it(`interrupt() that do not fit are a TypeError, by ${library}`, async () => {
      let interruptValue: unknown = { q: 7 };
      const asks: AgentDefinition = agent({ interrupt: interrupt as typeof question.zod }, (job) =>
        job.interrupt(interruptValue as { q: string }),
      );
      await withAgent(asks, async (kit, thread_id) => {
        const { error, message } = readError(await run(kit, thread_id)) as { error: string; message: string };
        assert.equal(error, "TypeError");
        assert.match(message, /^interrupt\(\): the argument does not fit the agent's interrupt schema: q: /);
        assert.equal((await kit.service.threads.get(thread_id)).status, "error");
        interruptValue = { q: "Sure?" };
        const { result } = await run(kit, thread_id);
        assert.deepEqual((result as { __interrupt__: { value: Json }[] }).__interrupt__[0]?.value, { q: "Sure?" });
      });
    });

    it(`ask() that do not fit are a TypeError, and no question is stored, by ${library}`, async () => {
      let askValue: unknown = { q: 7 };
      const asks: AgentDefinition = agent({ interrupt: interrupt as typeof question.zod }, async function* ({ ask }) {
        yield `${await ask(["sure", 1], askValue as { q: string }, { schema: { type: "string" } })}`;
      });
      await withAgent(asks, async (kit, thread_id) => {
        const { error, message } = readError(await run(kit, thread_id)) as { error: string; message: string };
        assert.equal(error, "TypeError");
        assert.match(message, /^ask "sure 1": the value does not fit the agent's interrupt schema: q: /);
        assert.deepEqual((await kit.service.threads.get(thread_id)).interrupts, {});
        askValue = { q: "Sure?" };
        const { result } = await run(kit, thread_id);
        assert.deepEqual((result as { __interrupt__: { value: Json }[] }).__interrupt__[0]?.value, { q: "Sure?" });
        // An open ask is not validated again, whatever a later version of the function asks.
        askValue = { q: 7 };
        const answered = await run(kit, thread_id, { input: undefined, command: { resume: "yes" } });
        assert.equal(answered.status, "success", JSON.stringify(answered.result));
      });
    });

    it(`emit() that do not fit are a TypeError, by ${library}`, async () => {
      let emitted: unknown = { q: 7 };
      const emits: AgentDefinition = agent({ custom: interrupt as typeof question.zod }, async function* ({ emit }) {
        emit(emitted as { q: string });
        yield "Done.";
      });
      await withAgent(emits, async (kit, thread_id) => {
        const { error, message } = readError(await run(kit, thread_id)) as { error: string; message: string };
        assert.equal(error, "TypeError");
        assert.match(message, /^emit\(\): the argument does not fit the agent's custom schema: q: /);
        emitted = { q: "Sure?" };
        const { frames } = await kit.service.runs.stream(thread_id, {
          assistant_id: "agent",
          input: {},
          stream_mode: "custom",
        });
        const data: string[] = [];
        for await (const frame of frames) if (frame.event === "custom") data.push(frame.data);
        assert.deepEqual(data, ['{"q":"Sure?"}']);
      });
    });
  }
});

describe("a call of an agent with schemas", () => {
  keepAlive();

  it("gets the output of the schemas, and callers see their input", async () => {
    const order = v.pipe(
      v.string(),
      v.transform((text) => ({ id: text })),
    );
    const shop = agent(
      { input: v.object({ order }), context: v.object({ tier: v.optional(v.string(), "free") }) },
      ({ input, context }) => `${input.order.id} ${context.tier}`,
    );
    await withAgent(shop, async (kit, thread_id) => {
      const { values } = await run(kit, thread_id, { input: { order: "A", messages: "Hi" } });
      const { messages, ...others } = values as { messages: { content: string }[] };
      assert.deepEqual(
        messages.map(({ content }) => content),
        ["Hi", "A free"],
      );
      assert.deepEqual(others, {});
    });
  });

  it("that continues without input gets the input of the interrupted run, until it has ended", async () => {
    const review = agent(
      { input: z.object({ id: z.string() }) },
      async function* ({ input, command, interrupt, state }) {
        if (command?.resume === undefined) {
          yield { begun: input.id };
          yield interrupt("Sure?");
        }
        yield { ended: `${state.begun} ${input.id} ${command?.resume}` };
      },
    );
    await withAgent(review, async (kit, thread_id) => {
      await run(kit, thread_id, { input: { id: "A" } });
      await kit.service.threads.updateState(thread_id, { values: { note: 1 } });
      const { values } = await run(kit, thread_id, { input: undefined, command: { resume: "yes" } });
      assert.deepEqual(values, { begun: "A", note: 1, ended: "A A yes" });
      const again = await run(kit, thread_id, { input: null });
      const message = "The input does not fit the agent's schema: the value (invalid_type)";
      assert.deepEqual(readError(again), { error: "InvalidInput", message });
    });
  });

  it("parses input, context and state anew in each attempt of a durable function", async () => {
    const refund = agent(
      {
        input: v.object({ cents: v.number() }),
        context: v.object({ tier: v.optional(v.string(), "free") }),
        state: v.object({ paid: v.optional(v.number(), 5) }),
      },
      async function* ({ input, context, state, ask }) {
        const ok = await ask("approve", "Sure?", { schema: v.boolean() });
        yield { paid: state.paid + input.cents };
        yield `${ok} ${context.tier}`;
      },
    );
    await withAgent(refund, async (kit, thread_id) => {
      await run(kit, thread_id, { input: { cents: 2 } });
      const { values } = await run(kit, thread_id, { input: undefined, command: { resume: true } });
      const { paid, messages } = values as { paid: number; messages: { content: string }[] };
      assert.equal(paid, 7);
      assert.equal(messages.at(-1)?.content, "true free");
    });
  });

  it("keeps the context of its start when a run without input or an answer continues it", async () => {
    const refund = agent({ context: z.object({ tier: z.enum(["free", "pro"]) }) }, async function* ({ context, ask }) {
      yield `${await ask("approve", "Sure?")} ${context.tier}`;
    });
    await withAgent(refund, async (kit, thread_id) => {
      const refused = { code: "invalid", issues: [{ loc: ["body", "context", "tier"] }] };
      const isRefused = ({ code, issues }: { code?: string; issues?: readonly { loc: readonly string[] }[] }): true => {
        assert.deepEqual({ code, issues: issues?.map(({ loc }) => ({ loc })) }, refused);
        return true;
      };
      await run(kit, thread_id, { context: { tier: "pro" } });
      const noInput = [{ input: null }, { input: undefined, command: { update: { note: 1 } } }];
      for (const request of [...noInput, { input: null, context: { tier: "gold" } }]) {
        const { status } = await run(kit, thread_id, request);
        assert.equal(status, "success");
        assert.equal((await kit.service.threads.get(thread_id)).status, "interrupted");
      }
      // These call the function anew, with a context of their own.
      await assert.rejects(run(kit, thread_id), isRefused);
      const goto = { input: undefined, command: { goto: "agent" } };
      await assert.rejects(run(kit, thread_id, goto), isRefused);
      const { values } = await run(kit, thread_id, { input: undefined, command: { resume: "yes" } });
      assert.equal((values as { messages: { content: string }[] }).messages.at(-1)?.content, "yes pro");
      await assert.rejects(run(kit, thread_id, { input: null }), isRefused);
    });
  });

  it("refuses an answer to ask whose JSON Schema fits and whose validator does not, with a StepError", async () => {
    const even = v.pipe(
      v.number(),
      v.check((n) => n % 2 === 0, "must be even"),
    );
    const caught: unknown[] = [];
    const asks = agent(async function* ({ ask }) {
      try {
        yield `${await ask("count", "How many?", { schema: even })}`;
      } catch (error) {
        caught.push(error);
        throw error;
      }
    });
    await withAgent(asks, async (kit, thread_id) => {
      await run(kit, thread_id);
      const outcome = await run(kit, thread_id, { input: undefined, command: { resume: 3 } });
      const message = "count: the answer does not fit its schema: the value (check)";
      assert.deepEqual(readError(outcome), { error: "StepError", message });
      const error = caught.at(-1) as { issues?: readonly { message: string }[] };
      assert.deepEqual(
        error?.issues?.map((issue) => issue.message),
        ["must be even"],
      );
    });
  });
});

/** Calls of agents by callers without types: what does not compile is refused, in process and over HTTP. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import * as v from "valibot";
import { createApp } from "../../../adapters/app.ts";
import { client } from "../../../adapters/client.ts";
import { serve } from "../../../adapters/node/mod.ts";
import type { AgentHandle } from "../../../lib/handles/types.ts";
import { agent, type Service } from "../../../lib/mod.ts";

const AGENTS = {
  refund: agent(
    {
      input: v.object({ order: v.string(), cents: v.number() }),
      context: v.object({ tier: v.picklist(["free", "pro"]) }),
    },
    ({ input, context }) => ({ text: `${input.order} ${input.cents} ${context.tier}` }),
  ),
  review: agent(
    { interrupt: v.object({ question: v.string() }), resume: v.picklist(["yes", "no"]) },
    ({ command, interrupt }) =>
      command?.resume === undefined ? interrupt({ question: "Sure?" }) : { answer: command.resume },
  ),
};

/** The calls of agents as a program without types sees them. */
interface UntypedCalls {
  agent(name: string): AgentHandle;
}

/** Returns a validator of the error of an invalid request, in process or of the SDK, which names the field. */
const isInvalid = (field: string) => (error: unknown) => {
  const { message, status, code } = error as { message: string; status?: number; code?: string };
  assert.ok(status === 422 || code === "invalid", `${status} ${code} ${message}`);
  assert.match(message, new RegExp(field));
  return true;
};

/** The wrong programs of test/types/calls.wrong.ts, with the field that the refusal names. */
const INVALID_CALLS: readonly (readonly [title: string, input: object, options: object, field: string])[] = [
  ["W9 an input with a number as order", { order: 7, cents: 1 }, { context: { tier: "pro" } }, "order"],
  ["W10 an input without cents", { order: "A" }, { context: { tier: "pro" } }, "cents"],
  ["W11 no context", { order: "A", cents: 1 }, {}, "tier"],
  ["W12 an unknown tier", { order: "A", cents: 1 }, { context: { tier: "gold" } }, "tier"],
  ["W27 an input with a text as cents", { order: "A", cents: "1" }, { context: { tier: "pro" } }, "cents"],
];

for (const reach of ["in process", "over HTTP"]) {
  describe(`Calls of agents by a caller without types, ${reach}`, () => {
    let service: Service;
    let calls: UntypedCalls;
    let close: () => Promise<void>;
    before(async () => {
      const app = await createApp({ database: ":memory:", agents: AGENTS });
      const listener = await serve((request) => app.fetch(request), { hostname: "127.0.0.1", port: 0 });
      service = app.service;
      const remote = client<object>({ apiUrl: `http://127.0.0.1:${listener.port}` });
      calls = (reach === "in process" ? app.service : remote) as unknown as UntypedCalls;
      close = async () => {
        await app.stop(0);
        await listener.close();
      };
    });
    after(() => close());

    for (const [title, input, options, field] of INVALID_CALLS) {
      it(`refuses ${title}, and creates no run and no thread`, async () => {
        const call = (): Promise<unknown> => calls.agent("refund").run(input as never, options);
        await assert.rejects(call, isInvalid(field));
        assert.equal((await service.runs.search()).items.length, 0);
        assert.equal(await service.threads.count(), 0);
      });
    }

    it("runs an agent with a valid input and context", async () => {
      const values = await calls.agent("refund").run({ order: "A", cents: 1 }, { context: { tier: "pro" } });
      assert.equal(values["text"], "A 1 pro");
    });

    it("refuses W15 a wrong answer, and leaves the interrupt open", async () => {
      const { outcome, thread_id } = await calls.agent("review").start({});
      await outcome();
      await assert.rejects(calls.agent("review").resume(thread_id, "maybe"), isInvalid("resume"));
      assert.equal((await calls.agent("review").state(thread_id)).interrupts.length, 1);
      assert.deepEqual((await calls.agent("review").resume(thread_id, "yes")).values, { answer: "yes" });
    });
  });
}

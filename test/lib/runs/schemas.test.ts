/** Runs and crons whose values do not fit the schemas of their agent, over HTTP, with schemas of three libraries. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type } from "arktype";
import * as v from "valibot";
import { z } from "zod";
import { agent, type JsonObject } from "../../../lib/mod.ts";
import { type TestService, testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";

/** Agents that are equal but for the library of their schemas. The run asks for an answer and returns what it got. */
const LIBRARIES = {
  valibot: agent(
    {
      input: v.object({ order: v.string(), cents: v.number() }),
      context: v.object({ tier: v.picklist(["free", "pro"]) }),
      resume: v.picklist(["yes", "no"]),
    },
    ({ input, context, command, interrupt }) =>
      command?.resume === undefined
        ? interrupt("Sure?")
        : { got: `${input.order} ${input.cents} ${context.tier} ${command.resume}` },
  ),
  zod: agent(
    {
      input: z.object({ order: z.string(), cents: z.number() }),
      context: z.object({ tier: z.enum(["free", "pro"]) }),
      resume: z.enum(["yes", "no"]),
    },
    ({ input, context, command, interrupt }) =>
      command?.resume === undefined
        ? interrupt("Sure?")
        : { got: `${input.order} ${input.cents} ${context.tier} ${command.resume}` },
  ),
  arktype: agent(
    {
      input: type({ order: "string", cents: "number" }),
      context: type({ tier: "'free' | 'pro'" }),
      resume: type("'yes' | 'no'"),
    },
    ({ input, context, command, interrupt }) =>
      command?.resume === undefined
        ? interrupt("Sure?")
        : { got: `${input.order} ${input.cents} ${context.tier} ${command.resume}` },
  ),
};

const GOOD = { input: { order: "A", cents: 1 }, context: { tier: "pro" } };
interface Refusal {
  readonly code: string;
  readonly detail: readonly { readonly loc: readonly string[]; readonly msg: string; readonly type: string }[];
}

async function send(kit: TestService, path: string, body: object): Promise<{ status: number; body: JsonObject }> {
  const response = await kit.fetch(`http://localhost${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return { status: response.status, body: (await response.json()) as JsonObject };
}

/** Sends a request that must be refused, and returns the locations of its issues. */
async function listRefusedLocations(kit: TestService, path: string, body: object): Promise<string[]> {
  const answer = await send(kit, path, body);
  assert.equal(answer.status, 422, JSON.stringify(answer.body));
  const { code, detail } = answer.body as unknown as Refusal;
  assert.equal(code, "invalid");
  for (const { msg, type } of detail) {
    assert.ok(msg.length > 0);
    assert.match(type, /^[a-z_]+$/i);
  }
  return detail.map(({ loc }) => loc.join("."));
}

const countRuns = async ({ service }: TestService): Promise<number> =>
  (await service.threads.search({})).items.length + (await service.runs.search({})).items.length;

describe("values that do not fit the schemas of their agent", () => {
  keepAlive();

  for (const [assistant_id, definition] of Object.entries(LIBRARIES)) {
    it(`are refused with all issues before a run or a thread exists, by ${assistant_id}`, async () => {
      await using kit = await testService({ agents: { [assistant_id]: definition } });
      const refused: readonly (readonly [values: object, locations: readonly string[]])[] = [
        [{ ...GOOD, input: { order: 7, cents: 1 } }, ["body.input.order"]],
        [{ ...GOOD, input: { order: "A" } }, ["body.input.cents"]],
        [{ ...GOOD, input: { order: 7, cents: "1" } }, ["body.input.order", "body.input.cents"]],
        [{ ...GOOD, input: "text" }, ["body.input"]],
        [{ context: GOOD.context }, ["body.input"]],
        [{ input: GOOD.input }, ["body.context.tier"]],
        [{ ...GOOD, context: { tier: "gold" } }, ["body.context.tier"]],
        [{ input: {}, context: {} }, ["body.input.order", "body.input.cents", "body.context.tier"]],
      ];
      const newThread = `/threads/${crypto.randomUUID()}`;
      for (const [values, locations] of refused) {
        for (const path of ["/runs/wait", "/runs", "/runs/stream"]) {
          assert.deepEqual(
            (await listRefusedLocations(kit, path, { assistant_id, ...values })).sort(),
            [...locations].sort(),
          );
        }
        const body = { assistant_id, if_not_exists: "create", ...values };
        assert.equal((await listRefusedLocations(kit, `${newThread}/runs`, body)).length, locations.length);
      }
      assert.equal(await countRuns(kit), 0);
      assert.equal((await kit.fetch(`http://localhost${newThread}`)).status, 404);
    });

    it(`are refused as an answer, and the interrupt stays open, by ${assistant_id}`, async () => {
      await using kit = await testService({ agents: { [assistant_id]: definition } });
      const { thread_id } = await kit.service.threads.create();
      const path = `/threads/${thread_id}/runs/wait`;
      const waiting = await send(kit, path, { assistant_id, ...GOOD });
      const [{ id }] = waiting.body.__interrupt__ as unknown as [{ id: string }];
      const answer = (resume: unknown): object => ({ assistant_id, context: GOOD.context, command: { resume } });
      assert.deepEqual(await listRefusedLocations(kit, path, answer("maybe")), ["body.command.resume"]);
      assert.deepEqual(await listRefusedLocations(kit, path, answer({ [id]: 7 })), [`body.command.resume.${id}`]);
      const thread = await kit.service.threads.get(thread_id);
      assert.equal(thread.status, "interrupted");
      assert.equal((await kit.service.runs.list(thread_id)).length, 1);
      // The function gets its input again, although it is not in the state.
      const { body } = await send(kit, path, answer({ [id]: "yes" }));
      assert.deepEqual(body, { got: "A 1 pro yes" });
    });

    it(`are refused when a cron is created or changed, by ${assistant_id}`, async () => {
      await using kit = await testService({ agents: { [assistant_id]: definition } });
      const cron = { assistant_id, schedule: "0 0 1 1 *" };
      const bad = { ...cron, ...GOOD, input: { order: 7 } };
      assert.equal((await listRefusedLocations(kit, "/runs/crons", bad)).length, 2);
      assert.deepEqual(await listRefusedLocations(kit, "/runs/crons", { ...cron, input: GOOD.input }), [
        "body.context.tier",
      ]);
      assert.equal((await kit.service.crons.search({})).items.length, 0);
      const { cron_id } = await kit.service.crons.create(null, { ...cron, ...GOOD });
      await assert.rejects(kit.service.crons.update(cron_id, { input: { order: 7, cents: 1 } }), { code: "invalid" });
    });
  }

  it("are refused in a batch, of which no run is created", async () => {
    await using kit = await testService({ agents: { zod: LIBRARIES.zod } });
    const batch = [
      { assistant_id: "zod", ...GOOD },
      { assistant_id: "zod", ...GOOD, input: { order: 7, cents: 1 } },
    ];
    const { status } = await send(kit, "/runs/batch", batch);
    assert.equal(status, 422);
    assert.equal(await countRuns(kit), 0);
  });

  it("may be in the context of the assistant", async () => {
    await using kit = await testService({ agents: { zod: LIBRARIES.zod } });
    const { assistant_id } = await kit.service.assistants.create({ graph_id: "zod", context: GOOD.context });
    const partial = await kit.service.assistants.create({ graph_id: "zod", context: {} });
    const wait = async (id: string, more: object = {}) =>
      await send(kit, "/runs/wait", { assistant_id: id, input: GOOD.input, ...more });
    assert.equal((await wait(assistant_id)).status, 200);
    assert.equal((await wait(assistant_id, { context: { tier: "gold" } })).status, 422);
    assert.equal((await wait(partial.assistant_id)).status, 422);
    assert.equal((await wait(partial.assistant_id, { context: { tier: "free" } })).status, 200);
  });

  it("are issues without the rejected value beside the message", async () => {
    await using kit = await testService({ agents: { valibot: LIBRARIES.valibot } });
    const body = { assistant_id: "valibot", ...GOOD, input: { order: 7, cents: 1 } };
    const { detail } = (await send(kit, "/runs/wait", body)).body;
    const msg = "Invalid type: Expected string but received 7";
    assert.deepEqual(detail, [{ loc: ["body", "input", "order"], msg, type: "string" }]);
  });

  it("are found by asynchronous schemas", async () => {
    const orderSchema = z.string().refine(async (order) => (await Promise.resolve(order)) === "A", "no such order");
    const find = agent({ input: z.object({ order: orderSchema }) }, async ({ input }) => `Found ${input.order}`);
    await using kit = await testService({ agents: { find } });
    const wait = async (order: string) => await send(kit, "/runs/wait", { assistant_id: "find", input: { order } });
    assert.equal((await wait("A")).status, 200);
    const { status, body } = await wait("B");
    assert.equal(status, 422);
    assert.deepEqual(body.detail, [{ loc: ["body", "input", "order"], msg: "no such order", type: "custom" }]);
  });

  for (const isAsync of [false, true]) {
    it(`are a 500 without details and a log record if the schema ${isAsync ? "rejects" : "throws"}`, async () => {
      const failing = (): never => {
        throw new Error("secret of the validator");
      };
      const validate = isAsync ? async () => failing() : failing;
      const broken = { "~standard": { version: 1, vendor: "test", validate } } as const;
      await using kit = await testService({ agents: { broken: agent({ input: broken }, () => "never") } });
      const { status, body } = await send(kit, "/runs/wait", { assistant_id: "broken", input: {} });
      assert.equal(status, 500);
      assert.deepEqual(body, { detail: "Internal server error", code: "internal" });
      assert.equal(await countRuns(kit), 0);
      const [record] = kit.log.filter(({ level }) => level === "error");
      assert.equal(record?.error instanceof Error && record.error.message, "The schema of the input threw an error");
    });
  }

  it("are a failure of the function, not of the request, without an input schema", async () => {
    const plain = agent({ state: z.object({ n: z.number().default(0) }) }, ({ state }) => ({ n: state.n + 1 }));
    await using kit = await testService({ agents: { plain } });
    const wait = async (input: object) => (await send(kit, "/runs/wait", { assistant_id: "plain", input })).body;
    assert.deepEqual(await wait({ n: 4 }), { n: 5 });
    assert.deepEqual(await wait({}), { n: 1 });
    const message = "The state does not fit the agent's schema: n (invalid_type)";
    assert.deepEqual(await wait({ n: "4" }), { __error__: { error: "InvalidState", message } });
  });
});

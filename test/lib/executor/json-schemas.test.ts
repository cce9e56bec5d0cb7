/** The JSON Schemas of agents, as `/assistants/{id}/schemas` and the tools of MCP have them, with schemas of three libraries. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type } from "arktype";
import * as v from "valibot";
import { z } from "zod";
import { type Agent, agent, type JsonObject } from "../../../lib/mod.ts";
import { type TestService, testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";

/** Agents that are equal but for the library of their schemas. */
const LIBRARIES: Readonly<Record<string, Agent>> = {
  valibot: agent(
    {
      input: v.object({ order: v.string(), cents: v.number(), note: v.optional(v.string()) }),
      state: v.object({ paid: v.optional(v.number(), 0) }),
      context: v.object({ tier: v.picklist(["free", "pro"]) }),
    },
    ({ input, context }) => ({ paid: context.tier === "pro" ? input.cents : 0 }),
  ),
  zod: agent(
    {
      input: z.object({ order: z.string(), cents: z.number(), note: z.string().optional() }),
      state: z.object({ paid: z.number().default(0) }),
      context: z.object({ tier: z.enum(["free", "pro"]) }),
    },
    ({ input, context }) => ({ paid: context.tier === "pro" ? input.cents : 0 }),
  ),
  arktype: agent(
    {
      input: type({ order: "string", cents: "number", "note?": "string" }),
      state: type({ paid: "number = 0" }),
      context: type({ tier: "'free' | 'pro'" }),
    },
    ({ input, context }) => ({ paid: context.tier === "pro" ? input.cents : 0 }),
  ),
};

const DRAFT = "https://json-schema.org/draft/2020-12/schema";

/** The part of a JSON Schema that is the same for all libraries. */
function summarize(schema: unknown): object {
  const { $schema, type, properties, required = [] } = schema as JsonObject;
  const members = Object.entries(properties as Readonly<Record<string, JsonObject>>);
  const types = members.map(([name, member]) => [name, member.enum ?? member.type]);
  return { $schema, type, types: Object.fromEntries(types), required: [...(required as string[])].sort() };
}

async function readJson({ fetch }: TestService, path: string, body?: object): Promise<JsonObject> {
  const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  const init = body ? { method: "POST", headers, body: JSON.stringify(body) } : {};
  const response = await fetch(`http://localhost${path}`, init);
  assert.equal(response.status, 200, path);
  return (await response.json()) as JsonObject;
}

const INPUT = {
  ...{ $schema: DRAFT, type: "object", required: ["cents", "order"] },
  types: { order: "string", cents: "number", note: "string" },
};

describe("the JSON Schemas of an agent", () => {
  keepAlive();

  for (const [library, definition] of Object.entries(LIBRARIES)) {
    it(`are those of its schemas of ${library}, in draft 2020-12, before defaults`, async () => {
      await using kit = await testService({ agents: { refund: definition } });
      const schemas = await readJson(kit, "/assistants/refund/schemas");
      const { graph_id, config_schema, input_schema, state_schema, output_schema, context_schema } = schemas;
      assert.deepEqual([graph_id, config_schema], ["refund", null]);
      assert.deepEqual(summarize(input_schema), INPUT);
      const types = { paid: "number", messages: "array" };
      assert.deepEqual(summarize(state_schema), { $schema: DRAFT, type: "object", types, required: [] });
      assert.deepEqual(output_schema, state_schema);
      const tiers = { tier: ["free", "pro"] };
      assert.deepEqual(summarize(context_schema), { $schema: DRAFT, type: "object", types: tiers, required: ["tier"] });
    });

    it(`are the input schema of its MCP tool, by ${library}, which validates the arguments`, async () => {
      await using kit = await testService({ agents: { refund: definition } });
      await kit.service.assistants.update("refund", { context: { tier: "pro" } });
      const call = async (method: string, params: object): Promise<JsonObject> =>
        (await readJson(kit, "/mcp", { jsonrpc: "2.0", id: 1, method, params })).result as JsonObject;
      const [tool] = (await call("tools/list", {})).tools as unknown as [{ name: string; inputSchema: JsonObject }];
      assert.equal(tool.name, "refund");
      const { properties, ...schema } = tool.inputSchema;
      const { thread_id: _, ...inputProperties } = properties as JsonObject;
      assert.deepEqual(summarize({ ...schema, properties: inputProperties }), INPUT);
      const refused = await call("tools/call", { name: "refund", arguments: { order: 7 } });
      assert.equal(refused.isError, true);
      assert.match(JSON.stringify(refused.content), /order.*cents|cents.*order/s);
      assert.equal((await kit.service.runs.search()).items.length, 0);
      const paid = await call("tools/call", { name: "refund", arguments: { order: "A", cents: 5 } });
      assert.notEqual(paid.isError, true);
      assert.match(JSON.stringify(paid), /\\?"paid\\?":5/);
    });
  }

  it("are null without schemas, and for a schema that has no JSON Schema", async () => {
    const validate = (value: unknown): { value: unknown } => ({ value });
    const opaque = agent({ input: { "~standard": { version: 1, vendor: "own", validate } } }, () => "x");
    await using kit = await testService({ agents: { plain: () => "x", opaque, untyped: agent(() => "x") } });
    for (const name of ["plain", "opaque", "untyped"]) {
      const { graph_id, ...schemas } = await readJson(kit, `/assistants/${name}/schemas`);
      assert.equal(graph_id, name);
      assert.deepEqual([...new Set(Object.values(schemas))], [null]);
    }
  });
});

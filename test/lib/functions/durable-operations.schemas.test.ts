/** Schemas of `ask` and `wait` that would accept any value. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { toStandardJsonSchema } from "@valibot/to-json-schema";
import { type } from "arktype";
import * as v from "valibot";
import { z } from "zod";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { wait as waitInGraph } from "../../../adapters/steps.ts";
import type { JsonObject } from "../../../lib/mod.ts";
import { testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";

keepAlive();

const REFUSED: readonly (readonly [schema: unknown, problem: string])[] = [
  [{ typ: "boolean" }, "schema.typ: unknown keyword; did you mean type?"],
  [{ type: "bool" }, 'schema.type: "bool" is not a type; did you mean boolean?'],
  [{ type: ["string", "nul"] }, 'schema.type: "nul" is not a type; did you mean null?'],
  [{ type: "date" }, 'schema.type: "date" is not a type; types: null, boolean, string, number, integer, array, object'],
  [{ type: [] }, "schema.type: [] is not a type; types: null, boolean, string, number, integer, array, object"],
  [
    { approved: "yes" },
    'schema: has no keyword of JSON Schema, so every value would fit. Give a type, such as { type: "boolean" }',
  ],
  [{ enum: [] }, "schema.enum: must be a list with at least one value"],
  [{ type: "object", required: "code" }, "schema.required: must be a list of names"],
  [{ type: "object", propertys: {} }, "schema.propertys: unknown keyword; did you mean properties?"],
  [{ type: "object", properties: { code: "string" } }, "schema.properties: must be an object of schemas"],
  [
    { type: "object", properties: { code: { type: "text" } } },
    'schema.properties.code.type: "text" is not a type; types: null, boolean, string, number, integer, array, object',
  ],
  [{ type: "array", items: { typ: "string" } }, "schema.items.typ: unknown keyword; did you mean type?"],
  [
    { anyOf: [{ type: "string" }, { type: "int" }] },
    'schema.anyOf.1.type: "int" is not a type; types: null, boolean, string, number, integer, array, object',
  ],
  [{ minimum: "5" }, "schema.minimum: must be a number"],
  ["boolean", 'schema: must be a JSON Schema object such as { type: "boolean" }'],
  [["boolean"], 'schema: must be a JSON Schema object such as { type: "boolean" }'],
  [
    { "~standard": { version: 1, vendor: "other", validate: (value: unknown) => ({ value }) } },
    "the schema has no JSON Schema. Install @valibot/to-json-schema, or wrap the schema in its toStandardJsonSchema; schemas of zod 4 and arktype 2 have one",
  ],
  [z.date(), "the schema cannot be converted to JSON Schema: Date cannot be represented in JSON Schema"],
];

const ACCEPTED: readonly unknown[] = [
  {},
  { type: "boolean" },
  { type: ["string", "null"], description: "A text", "x-widget": "area", note: "ours" },
  { $ref: "#/$defs/a", $defs: { a: { type: "string" } } },
  { const: null },
  { type: "object", properties: { typ: { type: "string" }, bool: true }, required: [], additionalProperties: false },
  z.boolean(),
  v.boolean(),
  toStandardJsonSchema(v.boolean()),
  type("boolean"),
  z.toJSONSchema(
    z.object({ amount: z.number().int().min(1), kind: z.enum(["a", "b"]), more: z.record(z.string(), z.unknown()) }),
  ),
];

type Ends = Readonly<Record<string, unknown>>;

describe("the schema of a durable operation", () => {
  for (const verb of ["ask", "wait"] as const) {
    it(`${verb} is refused if it is invalid or not supported`, async () => {
      let schema: unknown;
      await using kit = await testService({
        agents: {
          async agent(job) {
            const options = { schema: schema as JsonObject, timeout: "0s" };
            await (verb === "ask" ? job.ask("it", "Well?", options) : job.wait("it", options));
          },
        },
      });
      const run = async (tried: unknown): Promise<Ends> => {
        schema = tried;
        const { thread_id } = await kit.service.threads.create();
        return (await (
          await kit.service.runs.wait(thread_id, { assistant_id: "agent", input: {} })
        ).result) as Ends;
      };
      for (const [tried, problem] of REFUSED)
        assert.deepEqual((await run(tried)).__error__, { error: "TypeError", message: `it: ${problem}` });
      for (const tried of ACCEPTED) assert.equal((await run(tried)).__error__, undefined, JSON.stringify(tried));
    });
  }

  it("wait in a graph is refused if it is invalid", async () => {
    const graph = new StateGraph(Annotation.Root({ got: Annotation<unknown> }))
      .addNode("node", async () => ({ got: await waitInGraph("it", { schema: { type: "bool" } }) }))
      .addEdge(START, "node")
      .compile();
    await using kit = await testService({ executor: langgraph({ agent: graph }) });
    const { thread_id } = await kit.service.threads.create();
    const ends = (await (await kit.service.runs.wait(thread_id, { assistant_id: "agent", input: {} })).result) as Ends;
    const message = 'it: schema.type: "bool" is not a type; did you mean boolean?';
    assert.deepEqual(ends.__error__, { error: "TypeError", message });
  });
});

/** `greenroom openapi`: the document with the schemas of a project's agents says what the server of that project accepts. */
import assert from "node:assert/strict";
import { readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { addAgentSchemas, type Document } from "../../../adapters/standalone/agents-openapi.ts";
import type { Json, JsonObject } from "../../../lib/json.ts";
import { createValidator, type Validator } from "../../repo/openapi/validator.ts";
import { createTemporaryFolder, root, start, waitForUrl } from "../../support/programs.ts";

const MODULE = (name: string): string => JSON.stringify(join(root, name));
const CONFIG = `
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import * as v from "valibot";
import { z } from "zod";
import { agent } from ${MODULE("lib/mod.ts")};
import { defineConfig } from ${MODULE("adapters/define-config.ts")};

console.error("loaded");
const Tree = z.object({ name: z.string(), get children() { return z.array(Tree).optional(); } });
const Trip = z.object({ city: z.string() }).meta({ id: "Trip to/from" });
const graph = new StateGraph(Annotation.Root({ topic: Annotation<string>() }))
  .addNode("write", ({ topic }) => ({ topic }))
  .addEdge(START, "write");

export default defineConfig({
  agents: {
    refund: agent(
      {
        input: z.object({ order: z.string(), cents: z.number() }),
        state: z.object({ paid: z.number().default(0) }),
        context: z.object({ tier: z.enum(["free", "pro"]) }),
      },
      ({ state, input }) => ({ paid: state.paid + input.cents }),
    ),
    review: agent(
      { input: v.object({ topic: v.string() }), context: v.object({ tone: v.optional(v.string()) }), resume: v.picklist(["yes", "no"]) },
      ({ command, interrupt }) => (command?.resume === undefined ? interrupt("Sure?") : "Done."),
    ),
    trips: agent({ input: z.object({ first: Trip, others: z.array(Trip) }), resume: Trip }, ({ input }) => input.first.city),
    tree: agent({ input: Tree }, ({ input }) => input.name),
    counter: agent({ state: z.object({ n: z.number().default(0) }) }, ({ state }) => ({ n: state.n + 1 })),
    graph,
    priced: new StateGraph(
      Annotation.Root({ topic: Annotation<string>() }),
      { context: z.object({ tier: z.enum(["free", "pro"]), limit: z.number().default(10) }) },
    )
      .addNode("write", ({ topic }) => ({ topic }))
      .addEdge(START, "write"),
    "two words": () => "Hello",
  },
  database: ":memory:",
  http: { disable_crons: true },
});
`;

const pro = { context: { tier: "pro" } };
/** Requests, and whether server and document accept them. */
const REQUESTS: readonly (readonly [title: string, body: JsonObject, isValid: boolean])[] = [
  ["a full request", { assistant_id: "refund", input: { order: "A", cents: 1 }, ...pro }, true],
  ["a member of another type", { assistant_id: "refund", input: { order: 7, cents: 1 }, ...pro }, false],
  ["a missing member", { assistant_id: "refund", input: { order: "A" }, ...pro }, false],
  ["no input", { assistant_id: "refund", ...pro }, false],
  ["no context", { assistant_id: "refund", input: { order: "A", cents: 1 } }, false],
  ["a wrong context", { assistant_id: "refund", input: { order: "A", cents: 1 }, context: { tier: "gold" } }, false],
  ["a context that may be absent", { assistant_id: "review", input: { topic: "t" } }, true],
  ["a null context that may be absent", { assistant_id: "review", input: { topic: "t" }, context: null }, true],
  [
    "a wrong context that may be absent",
    { assistant_id: "review", input: { topic: "t" }, context: { tone: 5 } },
    false,
  ],
  ["a schema that refers to itself", { assistant_id: "tree", input: { name: "a", children: [{ name: "b" }] } }, true],
  ["a wrong part of it", { assistant_id: "tree", input: { name: "a", children: [{ name: 5 }] } }, false],
  [
    "a wrong part of its part",
    { assistant_id: "tree", input: { name: "a", children: [{ name: "b", children: [5] }] } },
    false,
  ],
  ["definitions", { assistant_id: "trips", input: { first: { city: "a" }, others: [{ city: "b" }] } }, true],
  ["a wrong part of a definition", { assistant_id: "trips", input: { first: { city: 5 }, others: [] } }, false],
  ["no input without a schema of it", { assistant_id: "counter" }, true],
  ["the input of a graph", { assistant_id: "graph", input: { topic: "t" } }, true],
  ["null as input of a graph", { assistant_id: "graph", input: null }, true],
  ["the context of a graph without its default", { assistant_id: "priced", input: { topic: "t" }, ...pro }, true],
  ["no context of a graph", { assistant_id: "priced", input: { topic: "t" } }, false],
  ["a wrong context of a graph", { assistant_id: "priced", input: { topic: "t" }, context: { tier: "gold" } }, false],
  ["any input without schemas", { assistant_id: "two words", input: { messages: "Hi" } }, true],
  ["a field of another type", { assistant_id: "counter", metadata: 5 }, false],
  ["an unknown stream mode", { assistant_id: "counter", stream_mode: "token" }, false],
];

function createProject(config = CONFIG): ReturnType<typeof createTemporaryFolder> {
  const folder = createTemporaryFolder();
  writeFileSync(join(folder.path, "package.json"), '{ "type": "module" }');
  writeFileSync(join(folder.path, "greenroom.config.ts"), config);
  symlinkSync(join(root, "node_modules"), join(folder.path, "node_modules"), "junction");
  return folder;
}

/** Runs the command with the document as a file, and returns it. */
async function readDocument(cwd: string, ...args: readonly string[]): Promise<Document> {
  await using program = start("server.ts", ["openapi", "--output", "openapi.json", ...args], { cwd });
  assert.equal(await program.ended, 0, program.output());
  return JSON.parse(readFileSync(join(cwd, "openapi.json"), "utf8")) as Document;
}

/** The document of the project, and its validator. */
async function describeProject(): Promise<{ readonly document: Document; readonly validator: Validator }> {
  using folder = createProject();
  const document = await readDocument(folder.path, "--agents");
  return { document, validator: createValidator(document) };
}

const BODY = "/requestBody/content/application~1json/schema";
const findSchema = (document: Document, name: string): JsonObject => {
  const schema = document.components.schemas[name];
  assert.ok(schema, `${name} is not in ${Object.keys(document.components.schemas)}`);
  return schema;
};

describe("greenroom openapi", () => {
  const described = describeProject();

  it("prints the document of the package without a project", async () => {
    using folder = createTemporaryFolder();
    await using program = start("server.ts", ["openapi"], { cwd: folder.path });
    assert.equal(await program.ended, 0, program.output());
    assert.deepEqual(
      JSON.parse(program.output()),
      JSON.parse(readFileSync(join(root, "lib/http/openapi.json"), "utf8")),
    );
  });

  it("describes with --agents what the server of the project accepts", async () => {
    using folder = createProject();
    const { validator } = await described;
    await using program = start("server.ts", ["--port", "0", "--log-level", "error"], { cwd: folder.path });
    const url = await waitForUrl(program);
    for (const [title, body, isValid] of REQUESTS) {
      const { status } = await fetch(`${url}/runs`, { method: "POST", body: JSON.stringify(body) });
      assert.equal(status, isValid ? 200 : 422, title);
      const problems = validator.validate(`/paths/~1runs~1wait/post${BODY}`, body);
      assert.equal(problems.length === 0, isValid, `${title}: ${problems}`);
      const batch: Json = [body];
      assert.equal(validator.validate(`/paths/~1runs~1batch/post${BODY}`, batch).length === 0, isValid, title);
    }
  });

  it("types answers, values and assistants by their UUID", async () => {
    const {
      document,
      validator: { validate },
    } = await described;
    const answers = "/components/schemas/RunCreate_review";
    const answer = (resume: Json): JsonObject => ({ assistant_id: "review", command: { resume } });
    assert.deepEqual(validate(answers, answer("yes")), []);
    assert.deepEqual(validate(answers, answer({ "0f0f": "no" })), []);
    assert.notDeepEqual(validate(answers, answer("maybe")), []);
    assert.notDeepEqual(validate(answers, answer({ "0f0f": "maybe" })), []);
    assert.deepEqual(validate("/components/schemas/Values_counter", { n: 1, messages: [] }), []);
    assert.notDeepEqual(validate("/components/schemas/Values_counter", { n: "1" }), []);
    assert.equal(document.components.schemas["Values_two_words"], undefined);
    const uuid = { assistant_id: "0f0f0f0f-1111-4222-8333-444444444444", input: 5 };
    assert.deepEqual(validate("/components/schemas/RunCreate", uuid), []);
    assert.notDeepEqual(validate("/components/schemas/RunCreate", { assistant_id: "refund" }), []);
    assert.equal(findSchema(document, "RunCreate_two_words").description, "A run of the agent two words");
    // Generators of types make any value of an alternative without properties, and no members of an object that lists none.
    assert.equal("anyOf" in findSchema(document, "RunCreate_refund"), false);
    const { messages } = findSchema(document, "Values_counter").properties as { messages: JsonObject };
    assert.deepEqual(messages.items, { type: "object", additionalProperties: true });
    assert.equal(document.paths["/runs/crons"], undefined);
    assert.equal(document.components.schemas["CronCreate"], undefined);
    // Types cannot refer to a definition inside a property.
    assert.doesNotMatch(JSON.stringify(document), /\$defs|"langgraph_type"/);
    assert.equal(findSchema(document, "trips_input_Trip_to_from").type, "object");
    assert.equal(findSchema(document, "trips_resume_Trip_to_from").type, "object");
    assert.ok(document.paths["/threads/{thread_id}/runs"]);
  });

  it("has the requests of each operation that creates runs, and no example that the project refuses", async () => {
    const { document, validator } = await described;
    const creating = Object.entries(document.paths).filter(([, operations]) =>
      JSON.stringify(operations).includes("RunCreate_refund"),
    );
    assert.deepEqual(creating.map(([path]) => path).sort(), [
      "/runs",
      "/runs/batch",
      "/runs/stream",
      "/runs/wait",
      "/threads/{thread_id}/runs",
      "/threads/{thread_id}/runs/stream",
      "/threads/{thread_id}/runs/wait",
    ]);
    const examples = validator.listExamples();
    assert.ok(examples.length > 100, `${examples.length}`);
    const bodies = examples.filter(({ pointer }) => /^\/paths\/[^/]*runs[^/]*\/post\/requestBody/.test(pointer));
    assert.ok(bodies.length > 0);
    for (const { schema, json } of bodies) assert.deepEqual(validator.validate(schema, json), [], schema);
  });

  it("gives agents with similar names different schemas", () => {
    const agents = ["a b", "a/b", "a_b"].map((graph_id) => {
      const none = { input: null, context: null, resume: null, values: null };
      return { ...none, graph_id, validates_input: false, validates_context: false };
    });
    const package_ = JSON.parse(readFileSync(join(root, "lib/http/openapi.json"), "utf8")) as Document;
    const { schemas } = addAgentSchemas(package_, agents).components;
    const names = Object.keys(schemas).filter((name) => name.startsWith("RunCreate_"));
    assert.deepEqual(names, ["RunCreate_a_b", "RunCreate_a_b_2", "RunCreate_a_b_3"]);
  });

  const REFUSED: readonly (readonly [args: readonly string[], problem: RegExp])[] = [
    [["--agnets"], /--agnets: unknown option; did you mean --agents\?/],
    [["--config", "greenroom.config.ts"], /--config: needs --agents/],
    [["--output"], /--output: needs a value/],
    [["agents"], /agents: not expected here/],
    [["--agents", "--output", "nowhere/openapi.json"], /--output: nowhere\/openapi\.json cannot be written/],
    [["--agents"], /greenroom\.config\.ts: agents\.broken: is neither a function nor a LangGraph\.js graph/],
  ];
  for (const [args, problem] of REFUSED) {
    it(`ends with 1 and says what is wrong: openapi ${args.join(" ")}`, async () => {
      const agents = problem.source.includes("broken") ? "{ broken: 5 }" : '{ a: () => "x" }';
      using folder = createProject(`export default { agents: ${agents} };\n`);
      await using program = start("server.ts", ["openapi", ...args], { cwd: folder.path });
      assert.equal(await program.ended, 1, program.output());
      assert.match(program.output(), problem);
      assert.doesNotMatch(program.output(), /^ {4}at /m);
    });
  }

  it("prints its options", async () => {
    for (const args of [
      ["openapi", "--help"],
      ["help", "openapi"],
    ]) {
      await using program = start("server.ts", args, { cwd: root });
      assert.equal(await program.ended, 0);
      assert.match(program.output(), /greenroom openapi \[--agents\] \[--config FILE\] \[--output FILE\]/);
    }
  });
});

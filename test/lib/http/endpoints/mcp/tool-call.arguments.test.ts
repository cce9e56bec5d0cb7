/** Arguments of MCP tools that do not match the schema: the model gets the findings, and no run starts. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { END, START, StateGraph } from "@langchain/langgraph";
import { z } from "zod";
import { langgraph } from "../../../../../adapters/langgraph/mod.ts";
import type { GraphState } from "../../../../../lib/executor/contract.ts";
import type { Json, JsonObject } from "../../../../../lib/json.ts";
import { combine, fromFunctions } from "../../../../../lib/mod.ts";
import { keepAlive } from "../../../../support/alive.ts";
import { AGENTS, call, createRequest, mcpWorld, readText, readThreadId } from "./mcp.harness.ts";

const person = z.object({ name: z.string(), friends: z.array(z.string()).max(1).optional() });
const State = z.object({
  question: z.string().min(2).describe("What to find out"),
  count: z.number().int().min(1).max(9).optional(),
  kind: z.enum(["long", "short"]).optional(),
  code: z
    .string()
    .regex(/^[A-Z]{3}$/)
    .optional(),
  who: z.union([person, z.null()]).optional(),
  pair: z.tuple([z.string(), z.number()]).optional(),
  byName: z.record(z.string(), z.boolean()).optional(),
});

const find = new StateGraph(State)
  .addNode("find", ({ question, count = 1 }) => ({ question: `${question} × ${count}` }))
  .addEdge(START, "find")
  .addEdge("find", END)
  .compile();

const world = () => mcpWorld({ executor: combine(langgraph({ find }), fromFunctions(AGENTS)) });
const ERAS = [{}, { capabilities: {} }];

describe("arguments of an MCP tool", () => {
  keepAlive();

  it("that do not match its schema give a result with all findings, and start no run", async () => {
    await using it = await world();
    const misfits: readonly (readonly [arguments: JsonObject, ...findings: string[]])[] = [
      [{ question: 3 }, "arguments.question must be of type string"],
      [{ question: "x" }, "arguments.question must be at least 2 characters long"],
      [
        { question: "", count: 0, kind: "tall", code: "abc" },
        "arguments.question must be at least 2 characters long",
        "arguments.count must be at least 1",
        'arguments.kind must be one of "long", "short"',
        'arguments.code must match the pattern "^[A-Z]{3}$"',
      ],
      [{ question: "Why", count: 1.5 }, "arguments.count must be of type integer"],
      [{ question: "Why", who: { friends: [] } }, "arguments.who fits none of the allowed forms"],
      [
        { question: "Why", pair: [1, "x"] },
        "arguments.pair[0] must be of type string",
        "arguments.pair[1] must be of type number",
      ],
      [{ question: "Why", byName: { ann: "yes" } }, "arguments.byName.ann must be of type boolean"],
    ];
    for (const options of ERAS) {
      for (const [toolArguments, ...findings] of misfits) {
        const { status, result } = await it.ask("tools/call", { name: "find", arguments: toolArguments }, options);
        const text =
          "The arguments do not fit the schema of find, so nothing was started. Correct them and call find again:\n" +
          findings.map((finding) => `- ${finding}`).join("\n");
        assert.deepEqual([status, result.isError, readText(result)], [200, true, text]);
      }
    }
    assert.deepEqual((await it.service.runs.search({})).items, []);
    assert.deepEqual((await it.service.threads.search({})).items, []);
  });

  it("that match start a run, also with `thread_id`", async () => {
    await using it = await world();
    const callParams: JsonObject = {
      ...{ question: "Why", count: 9, kind: "long", code: "ABC", who: null, pair: ["a", 1], byName: { ann: true } },
    };
    const ask = async (params: JsonObject) =>
      (await it.ask("tools/call", { name: "find", arguments: { ...callParams, ...params } })).result;
    const first = await ask({});
    assert.equal((first.structuredContent as JsonObject).question, "Why × 9");
    const thread_id = readThreadId(first);
    assert.equal(readThreadId(await ask({ thread_id, who: { name: "Ann", friends: ["Bob"] } })), thread_id);
    // A conversation that continues is checked as well.
    assert.equal((await ask({ thread_id, count: 10 })).isError, true);
    assert.equal((await it.service.runs.list(thread_id)).length, 2);
  });

  it("are checked with required members, references and conditions in schemas of other executors", async () => {
    const named = {
      type: "object",
      properties: { name: { type: "string" }, in: { $ref: "#/$defs/named" } },
      required: ["name"],
    };
    const input_schema: JsonObject = {
      $defs: { named },
      properties: { box: { $ref: "#/$defs/named" }, by: { enum: ["air", "road"] }, plate: { type: "string" } },
      required: ["box", "by"],
      additionalProperties: false,
      if: { properties: { by: { const: "road" } } },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { required: ["plate"] },
    };
    const functions = fromFunctions({ ship: () => "Shipped" });
    const schemas = {
      graph_id: "ship",
      output_schema: null,
      state_schema: null,
      config_schema: null,
      context_schema: null,
    };
    const state = { get: async () => null, schemas: async () => ({ ...schemas, input_schema }) };
    await using it = await mcpWorld({ executor: { ...functions, state: () => state as unknown as GraphState } });
    const ask = async (toolArguments: JsonObject) =>
      readText((await it.ask("tools/call", { name: "ship", arguments: toolArguments })).result)
        .split("\n")
        .slice(1);
    assert.deepEqual(await ask({}), [
      "- arguments.box is missing",
      "- arguments.by is missing",
      "- arguments.plate is missing",
    ]);
    assert.deepEqual(await ask({ box: { name: "a" }, by: "road", other: 1 }), [
      "- arguments.other is not allowed",
      "- arguments.plate is missing",
    ]);
    assert.deepEqual(await ask({ box: { name: "a", in: { in: {} } }, by: "air" }), [
      "- arguments.box.in.name is missing",
      "- arguments.box.in.in.name is missing",
    ]);
    assert.deepEqual(await ask({ box: { name: "a", in: { name: "b" } }, by: "road", plate: "X" }), []);
    assert.equal((await it.service.runs.search({})).items.length, 1);
  });

  it("of a function are its message", async () => {
    await using it = await world();
    const { result } = await it.ask("tools/call", { name: "echo", arguments: { message: 3, messages: "Hi" } });
    assert.deepEqual(readText(result).split("\n").slice(1), [
      "- arguments.message must be of type string",
      "- arguments.messages must be of type array",
    ]);
    assert.equal(readText((await it.ask("tools/call", call("echo"))).result), "You said Hi");
  });

  it("are reported up to a limit, and large ones are checked in a short time", async () => {
    await using it = await world();
    const byName: JsonObject = Object.fromEntries(Array.from({ length: 15_000 }, (_, i) => [`n${i}`, i]));
    const { result } = await it.ask("tools/call", { name: "find", arguments: { question: "Why", byName } });
    const lines = readText(result).split("\n");
    assert.deepEqual([lines.length, lines.at(-1)], [22, "- and more"]);
  });

  it("give a protocol error if the request is malformed or names no tool", async () => {
    await using it = await world();
    const malformed: readonly JsonObject[] = [
      { name: "nobody", arguments: {} },
      { name: 3, arguments: {} },
      { arguments: {} },
      ...[[], "x", 3, null].map((toolArguments: Json): JsonObject => ({ name: "find", arguments: toolArguments })),
    ];
    for (const options of ERAS) {
      for (const params of malformed) {
        const response = await it.test.fetch(createRequest("http://h/mcp", "tools/call", params, options));
        const { error } = (await response.json()) as { error: JsonObject };
        assert.equal(error.code, -32602, JSON.stringify(params));
      }
    }
    assert.deepEqual((await it.service.runs.search({})).items, []);
  });
});

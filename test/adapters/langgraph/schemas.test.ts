/** What graphs say of their state, whatever it was described with. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HumanMessage } from "@langchain/core/messages";
import {
  Annotation,
  MessagesAnnotation,
  MessagesValue,
  MessagesZodMeta,
  MessagesZodState,
  messagesStateReducer,
  ReducedValue,
  START,
  StateGraph,
  StateSchema,
  UntrackedValue,
} from "@langchain/langgraph";
import { registry, withLangGraph } from "@langchain/langgraph/zod";
import { z } from "zod";
import { z as zod3 } from "zod/v3";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import type { GraphSchemas, GraphState } from "../../../lib/executor/contract.ts";
import type { JsonObject } from "../../../lib/json.ts";

type Init = ConstructorParameters<typeof StateGraph>;

const buildGraph = (...init: readonly unknown[]): { compile(): object } =>
  new StateGraph(...(init as unknown as Init))
    .addNode("only_node", () => ({}))
    .addEdge(START, "only_node") as unknown as { compile(): object };

const createStates = (graph: object): GraphState => langgraph({ graph: graph as never }).state?.("graph") as GraphState;
const readSchemas = (...init: readonly unknown[]): Promise<GraphSchemas> =>
  createStates(buildGraph(...init).compile()).schemas("graph");

const readProperties = (schema: JsonObject | null): JsonObject => schema?.properties as JsonObject;
const MESSAGES = { type: "array", items: { type: "object" }, langgraph_type: "messages" };

describe("the schemas of a graph", () => {
  it("have each channel of an Annotation, its default, and messages as messages", async () => {
    const State = Annotation.Root({
      ...MessagesAnnotation.spec,
      log: Annotation<HumanMessage[]>({ reducer: messagesStateReducer as never, default: () => [] }),
      count: Annotation<number>({ reducer: (a, b) => a + b, default: () => 2 }),
      asked: Annotation<HumanMessage>({ reducer: (_, b) => b, default: () => new HumanMessage("hi") }),
      fails: Annotation<unknown>,
    });
    const { state_schema, input_schema, output_schema, config_schema, context_schema } = await readSchemas(State);
    const { asked, ...otherProperties } = readProperties(state_schema);
    assert.deepEqual(otherProperties, { messages: MESSAGES, log: MESSAGES, count: { default: 2 }, fails: {} });
    assert.equal(((asked as JsonObject).default as JsonObject).content, "hi");
    assert.equal(state_schema?.type, "object");
    assert.deepEqual([input_schema, output_schema], [state_schema, state_schema]);
    assert.deepEqual([config_schema, context_schema], [null, null]);
  });

  it("are those of the input and the output if these differ", async () => {
    const Input = Annotation.Root({ question: Annotation<string> });
    const Output = Annotation.Root({ answer: Annotation<string> });
    const both = Annotation.Root({ ...Input.spec, ...Output.spec });
    const zod = z.object({ question: z.string(), answer: z.string() });
    for (const state of [both, zod]) {
      const { state_schema, input_schema, output_schema } = await readSchemas({ state, input: Input, output: Output });
      assert.deepEqual(Object.keys(readProperties(state_schema)), ["question", "answer"]);
      assert.deepEqual(readProperties(input_schema), { question: {} });
      assert.deepEqual(readProperties(output_schema), { answer: {} });
    }
  });

  it("have each channel of a plain state, in both of its forms", async () => {
    const channels = {
      messages: { value: (a: unknown[], b: unknown[]) => [...a, ...b], default: () => [] },
      note: null,
    };
    const old = await readSchemas({ channels });
    assert.deepEqual(readProperties(old.state_schema), { messages: MESSAGES, note: {} });
    const reducer = (a: unknown[], b: unknown[]): unknown[] => [...a, ...b];
    const collected = await readSchemas({ messages: Annotation<unknown[]>({ reducer }) });
    assert.deepEqual(readProperties(collected.state_schema), { messages: MESSAGES });
    const { state_schema } = await readSchemas({ messages: Annotation<string>, note: Annotation<string> });
    // No declaration marks this one as a list.
    assert.deepEqual(readProperties(state_schema), { messages: {}, note: {} });
  });

  it("are those of zod, with LangGraph's own metadata", async () => {
    const State = z.object({
      messages: withLangGraph(z.custom<HumanMessage[]>(), MessagesZodMeta),
      log: z.array(z.custom<HumanMessage>()).register(registry, MessagesZodMeta as never),
      total: withLangGraph(z.number().default(3).describe("the sum") as never, {
        reducer: { fn: (a: number, b: string) => a + Number(b), schema: z.string() },
        jsonSchemaExtra: { title: "Total" } as never,
      }),
      day: z.date().optional(),
    });
    const { state_schema, input_schema, output_schema } = await readSchemas(State);
    const stateProperties = readProperties(state_schema);
    assert.equal((stateProperties.messages as JsonObject).langgraph_type, "messages");
    assert.deepEqual(stateProperties.log, { type: "array", items: {}, langgraph_type: "messages" });
    assert.deepEqual(stateProperties.total, { type: "number", default: 3, description: "the sum", title: "Total" });
    assert.deepEqual(stateProperties.day, {});
    assert.deepEqual(output_schema, state_schema);
    assert.equal((readProperties(input_schema).total as JsonObject).type, "string");
    assert.equal(input_schema?.required, undefined);
  });

  it("work with zod 3 and with the states of LangGraph", async () => {
    const State = zod3.object({
      messages: withLangGraph(zod3.custom<HumanMessage[]>(), MessagesZodMeta as never),
      count: zod3.number().default(1),
    });
    for (const { state_schema, input_schema } of [await readSchemas(State), await readSchemas(MessagesZodState)]) {
      for (const schema of [state_schema, input_schema]) {
        assert.deepEqual(readProperties(schema).messages, { langgraph_type: "messages" });
      }
    }
    assert.deepEqual(readProperties((await readSchemas(State)).state_schema).count, { type: "number", default: 1 });
  });

  it("are those of LangGraph, with every member", async () => {
    const State = new StateSchema({
      messages: MessagesValue,
      said: z.string(),
      day: z.date(),
      old: zod3.string(),
      kept: new UntrackedValue<string>(),
      sum: new ReducedValue(z.number().default(0), {
        inputSchema: z.string(),
        reducer: (a: number, b: string) => a + Number(b),
      }),
    } as never);
    const { state_schema, input_schema } = await readSchemas(State);
    const stateProperties = readProperties(state_schema);
    assert.deepEqual(Object.keys(stateProperties).sort(), ["day", "kept", "messages", "old", "said", "sum"]);
    assert.equal((stateProperties.messages as JsonObject).langgraph_type, "messages");
    assert.deepEqual(
      [stateProperties.said, stateProperties.old, stateProperties.sum].map((property) => (property as JsonObject).type),
      ["string", "string", "number"],
    );
    assert.equal((readProperties(input_schema).sum as JsonObject).type, "string");
  });

  it("have the context, under both of its names", async () => {
    const context = z.object({ tone: z.string().default("kind"), model: z.custom<object>() });
    const { config_schema, context_schema } = await readSchemas({ state: MessagesAnnotation, context });
    assert.deepEqual(readProperties(context_schema), { tone: { type: "string", default: "kind" }, model: {} });
    assert.deepEqual(config_schema, context_schema);
  });

  it("exist for subgraphs", async () => {
    const child = buildGraph(Annotation.Root({ log: Annotation<string[]> })).compile();
    const graph = new StateGraph(Annotation.Root({ log: Annotation<string[]> }))
      .addNode("child", child as never)
      .addEdge(START, "child")
      .compile();
    const subgraphs = await createStates(graph).subgraphs("graph", null, false);
    assert.deepEqual(readProperties(subgraphs.child?.state_schema ?? null), { log: {} });
    assert.deepEqual(Object.keys(subgraphs), ["child"]);
  });
});

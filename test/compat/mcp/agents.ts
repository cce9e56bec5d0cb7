/** The tools that the MCP conformance suite calls, as agents. */
import { setTimeout as wait } from "node:timers/promises";
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { type GraphLike, langgraph } from "../../../adapters/langgraph/mod.ts";
import { type AgentFunction, combine, type Executor, fromFunctions, type JsonObject } from "../../../lib/mod.ts";
import type { Service } from "../../../lib/service.ts";

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

const says = (...content: JsonObject[]): JsonObject => ({ messages: [{ type: "ai", content }] });
const text = (value: string): JsonObject => ({ type: "text", text: value });
const image: JsonObject = { type: "image", data: PNG, mime_type: "image/png" };

const form = (properties: JsonObject): JsonObject => ({
  type: "object",
  properties,
  required: Object.keys(properties),
});
const elicit = (key: string, message: string, properties: JsonObject): JsonObject => ({
  ...{ key, message },
  requestedSchema: form(properties),
});
const NAME = elicit("user_name", "What is your name?", { name: { type: "string" } });
const sample = (key: string, prompt: string): JsonObject => ({
  ...{ key, method: "sampling/createMessage" },
  params: { messages: [{ role: "user", content: text(prompt) }], maxTokens: 100 },
});
const ROOTS: JsonObject = { key: "client_roots", method: "roots/list", params: {} };

const titled = (value: string, title: string): JsonObject[] =>
  ["First", "Second", "Third"].map((ordinal, at) => ({ const: `${value}${at + 1}`, title: `${ordinal} ${title}` }));

/** Creates an agent that interrupts, and then returns the resume value. */
const createAsker =
  (question: JsonObject | ((state: JsonObject) => JsonObject), reply: (answer: JsonObject) => string): AgentFunction =>
  ({ command, interrupt: ask, state }) => {
    const answer = command?.resume;
    if (answer === undefined) return ask(typeof question === "function" ? question(state) : question);
    return reply(answer as JsonObject);
  };
const format = (answer: JsonObject): string => JSON.stringify(answer);

const functions: Record<string, AgentFunction> = {
  test_simple_text: () => "This is a simple text response for testing.",
  test_image_content: () => says(image),
  test_audio_content: () => says({ type: "audio", data: WAV, mime_type: "audio/wav" }),
  test_embedded_resource: () =>
    says({
      type: "resource",
      resource: {
        uri: "test://embedded-resource",
        mimeType: "text/plain",
        text: "This is an embedded resource content.",
      },
    }),
  test_multiple_content_types: () =>
    says(text("Multiple content types test:"), image, {
      type: "resource",
      resource: {
        uri: "test://mixed-content-resource",
        mimeType: "application/json",
        text: JSON.stringify({ test: "data", value: 123 }),
      },
    }),
  test_error_handling() {
    throw new Error("This tool intentionally returns an error for testing");
  },
  async *test_tool_with_progress({ emit }) {
    for (const progress of [1, 50, 100]) {
      emit({ progress, total: 100, message: `Completed step ${progress} of 100` });
      yield { progress };
      await wait(300);
    }
    yield "Done";
  },
  test_elicitation: createAsker(
    (state) => ({
      message: state.message ?? "",
      requestedSchema: form({ username: { type: "string" }, email: { type: "string" } }),
    }),
    (answer) => `User response: ${format(answer)}`,
  ),
  test_sampling: createAsker(
    (state) => sample("sample", String(state.prompt)),
    ({ content }) => `LLM response: ${(content as JsonObject).text}`,
  ),
  test_elicitation_sep1034_defaults: createAsker(
    {
      message: "Please confirm",
      requestedSchema: form({
        name: { type: "string", default: "John Doe" },
        age: { type: "integer", default: 30 },
        score: { type: "number", default: 95.5 },
        status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
        verified: { type: "boolean", default: true },
      }),
    },
    (answer) => `Elicitation completed: action=accept, content=${format(answer)}`,
  ),
  test_elicitation_sep1330_enums: createAsker(
    {
      message: "Please choose",
      requestedSchema: form({
        untitledSingle: { type: "string", enum: ["option1", "option2", "option3"] },
        titledSingle: { type: "string", oneOf: titled("value", "Option") },
        legacyEnum: {
          type: "string",
          enum: ["opt1", "opt2", "opt3"],
          enumNames: ["Option One", "Option Two", "Option Three"],
        },
        untitledMulti: { type: "array", items: { type: "string", enum: ["option1", "option2", "option3"] } },
        titledMulti: { type: "array", items: { anyOf: titled("value", "Choice") } },
      }),
    },
    (answer) => `Elicitation completed: action=accept, content=${format(answer)}`,
  ),
  test_input_required_result_elicitation: createAsker(NAME, ({ name }) => `Hello, ${name}!`),
  test_input_required_result_sampling: createAsker(
    sample("capital_question", "What is the capital of France?"),
    format,
  ),
  test_input_required_result_list_roots: createAsker(ROOTS, format),
  test_input_required_result_request_state: createAsker(
    elicit("confirm", "Please confirm", { ok: { type: "boolean" } }),
    () => "state-ok",
  ),
  test_input_required_result_tampered_state: createAsker(
    elicit("confirm", "Please confirm", { ok: { type: "boolean" } }),
    () => "state-ok",
  ),
  async *test_input_required_result_multi_round({ command, interrupt: ask, state }) {
    const answer = command?.resume as JsonObject | undefined;
    if (answer === undefined) {
      yield ask(elicit("step1", "Step 1: What is your name?", { name: { type: "string" } }));
    } else if (state.name === undefined) {
      yield { name: answer.name ?? "" };
      yield ask(elicit("step2", "Step 2: What is your favorite color?", { color: { type: "string" } }));
    } else yield `${state.name} likes ${answer.color}`;
  },
  test_input_required_result_capabilities: createAsker(
    sample("capital_question", "What is the capital of France?"),
    format,
  ),
  test_missing_capability: () => "ok",
  test_streaming_elicitation: createAsker(NAME, ({ name }) => `Hello, ${name}!`),
  test_logging_tool: () => "ok",
  greet: ({ state }) => `Hello, ${state.name}!`,
  async slow_compute({ state, signal }) {
    await wait(Number(state.seconds) * 1000, undefined, { signal });
    return `Computed ${state.label ?? ""}`;
  },
  async failing_job() {
    await wait(1000);
    throw new Error("The job failed");
  },
  confirm_delete: createAsker(
    (state) => elicit("confirm", `Delete ${state.filename ?? "it"}?`, { confirm: { type: "boolean" } }),
    ({ confirm }) => (confirm ? "Deleted" : "Kept"),
  ),
  async test_tool_with_task({ command, interrupt: ask }) {
    if (command?.resume === undefined) return ask(NAME);
    await wait(800);
    return `Hello, ${(command.resume as JsonObject).name}!`;
  },
  json_schema_2020_12_tool: () => "ok",
  test_custom_header: ({ state }) => `Region ${state.region}`,
};

/** Creates a graph whose nodes ask at the same time. */
export function createParallelGraph(questions: readonly JsonObject[]): GraphLike {
  const State = Annotation.Root({
    answers: Annotation<JsonObject[]>({ reducer: (current, update) => [...current, ...update], default: () => [] }),
  });
  const graph = new StateGraph(State) as StateGraph<typeof State.spec, typeof State.State, typeof State.Update, string>;
  questions.forEach((question, index) => {
    const name = `ask${index}`;
    graph.addNode(name, () => ({ answers: [interrupt(question) as JsonObject] }));
    graph.addEdge(START, name);
    graph.addEdge(name, END);
  });
  return graph.compile();
}

const graphs = {
  test_input_required_result_multiple_inputs: createParallelGraph([
    NAME,
    sample("greeting", "Generate a greeting"),
    ROOTS,
  ]),
  multi_input: createParallelGraph([
    elicit("first", "The first?", { name: { type: "string" } }),
    elicit("second", "The second?", { name: { type: "string" } }),
  ]),
};

/** Schemas of functions, which have none. */
const SCHEMAS: Readonly<Record<string, JsonObject>> = {
  json_schema_2020_12_tool: {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    type: "object",
    $defs: {
      address: {
        $anchor: "addressDef",
        type: "object",
        properties: { street: { type: "string" }, city: { type: "string" } },
      },
    },
    properties: {
      name: { type: "string" },
      address: { $ref: "#/$defs/address" },
      contactMethod: { type: "string", enum: ["phone", "email"] },
      phone: { type: "string" },
      email: { type: "string" },
    },
    allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
    if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema.
    then: { required: ["phone"] },
    else: { required: ["email"] },
    additionalProperties: false,
  },
  test_custom_header: {
    type: "object",
    properties: { region: { type: "string", "x-mcp-header": "Region" } },
    required: ["region"],
  },
};

export function createConformanceExecutor(): Executor {
  const timed: Record<string, { agent: AgentFunction; timeout_ms: number }> = {
    protocol_error_job: { agent: ({ signal }) => wait(60_000, "", { signal }), timeout_ms: 1000 },
  };
  const executor = combine(fromFunctions({ ...functions, ...timed }), langgraph(graphs));
  return {
    ...executor,
    state(graph_id) {
      const state = executor.state?.(graph_id) ?? null;
      const input_schema = SCHEMAS[graph_id];
      if (!input_schema) return state;
      const none = { output_schema: null, state_schema: null, config_schema: null, context_schema: null };
      return { ...(state as NonNullable<typeof state>), schemas: async () => ({ graph_id, input_schema, ...none }) };
    },
  };
}

/** The settings that the suite expects for some of its tools. */
const SETTINGS: Readonly<Record<string, JsonObject>> = {
  confirm_delete: { task: "always" },
  multi_input: { task: "always" },
  failing_job: { task: "required" },
  test_tool_with_task: { task: "required" },
  test_missing_capability: { requires: { sampling: {} } },
};

export async function prepareTools(service: Service): Promise<void> {
  for (const [name, mcp] of Object.entries(SETTINGS)) {
    await service.assistants.update(name, { metadata: { mcp } });
  }
}

/** The schemas of graphs as JSON Schema: input, output, state, configuration and context. */
import type { GraphSchemas } from "../../lib/executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import type { Graph } from "./graph.ts";
import { type Channels, type Definition, type Effects, type Registry, readDefinitions } from "./langgraph-internals.ts";
import { serializeMetadata, serializeValue } from "./serialize.ts";
import type { Load } from "./version.ts";

/** A schema class of LangGraph. */
interface StateSchema {
  readonly fields?: Readonly<Record<string, { readonly valueSchema?: unknown; readonly inputSchema?: unknown }>>;
  getJsonSchema(): unknown;
  getInputJsonSchema(): unknown;
}

interface Channel {
  readonly operator?: unknown;
  readonly reducer?: unknown;
  readonly initialValueFactory?: () => unknown;
}

/** The parts of the user's LangGraph that are needed. */
interface Tools {
  toJsonSchema(schema: unknown, options: object): unknown;
  readonly registry: Registry | undefined;
  /** Reducers of channels with messages. */
  readonly ofMessages: ReadonlySet<unknown>;
}

type Side = "state" | "input";

const MESSAGES: JsonObject = { type: "array", items: { type: "object" }, langgraph_type: "messages" };
const EXTRAS = "lg:";
/** Types that JSON Schema cannot express, such as classes, accept any value. */
const LENIENT = { unrepresentable: "any" };

export async function schemasOf(graph_id: string, graph: Graph, load: Load): Promise<GraphSchemas> {
  const { state, input, output, context: contextSchema, registry } = readDefinitions(graph);
  const tools = await toolsOf(registry, load);
  // LangGraph also puts the state's own schema, or a mark for it, where channels without a schema were given.
  const schemaIn = ({ schema, channels }: Definition): unknown => {
    if (typeof schema === "object" && schema !== state.schema) return schema;
    return sameNames(channels, state.channels) ? state.schema : undefined;
  };
  const context = schemaOf(contextSchema, undefined, "state", tools);
  return {
    graph_id,
    input_schema: schemaOf(schemaIn(input), input.channels, "input", tools),
    output_schema: schemaOf(schemaIn(output), output.channels, "state", tools),
    state_schema: schemaOf(state.schema, state.channels, "state", tools),
    config_schema: context,
    context_schema: context,
  };
}

async function toolsOf(registry: Registry | undefined, load: Load): Promise<Tools> {
  const [core, langgraph] = await Promise.all(
    ["@langchain/core/utils/json_schema", "@langchain/langgraph"].map((name) => load(name).catch(() => ({}))),
  );
  const { toJsonSchema = () => null } = core as Partial<Tools>;
  const { messagesStateReducer, addMessages, messagesDeltaReducer } = langgraph as Record<string, unknown>;
  const reducers = [messagesStateReducer, addMessages, messagesDeltaReducer];
  return { toJsonSchema, registry, ofMessages: new Set(reducers.filter((reducer) => reducer !== undefined)) };
}

/** Null if neither a schema nor channels are known. */
function schemaOf(schema: unknown, channels: Channels | undefined, side: Side, tools: Tools): JsonObject | null {
  return written(schema, side, tools) ?? (channels ? ofChannels(channels, tools) : null);
}

/** The JSON Schema of a schema of zod, another library or LangGraph; null for other values. */
function written(schema: unknown, side: Side, tools: Tools): JsonObject | null {
  if (typeof schema !== "object" || schema === null) return null;
  try {
    if (isStateSchema(schema)) return ofStateSchema(schema, side, tools);
    if (!("_def" in schema) && !("_zod" in schema) && !("~standard" in schema)) return null;
    const effects: Effects =
      side === "input"
        ? { withReducerSchema: true, withJsonSchemaExtrasAsDescription: true, asPartial: true }
        : { withJsonSchemaExtrasAsDescription: true };
    const extended = tools.registry?.getExtendedChannelSchemas(schema, effects) ?? schema;
    const json = withExtras(serializeMetadata(tools.toJsonSchema(extended, LENIENT)));
    return isObject(json) ? json : null;
  } catch {
    // JSON Schema cannot express it at all.
    return null;
  }
}

const isStateSchema = (schema: object): schema is StateSchema =>
  "getJsonSchema" in schema && typeof schema.getJsonSchema === "function" && "getInputJsonSchema" in schema;

/** LangGraph omits members without a schema. */
function ofStateSchema(schema: StateSchema, side: Side, tools: Tools): JsonObject | null {
  const json = serializeMetadata(side === "input" ? schema.getInputJsonSchema() : schema.getJsonSchema());
  if (!isObject(json)) return null;
  const properties = isObject(json["properties"] ?? null) ? (json["properties"] as JsonObject) : {};
  const absent = Object.entries(schema.fields ?? {}).filter(([name]) => !Object.hasOwn(properties, name));
  const added = absent.map(([name, field]): [string, Json] => {
    const inner = (side === "input" ? field.inputSchema : undefined) ?? field.valueSchema ?? field;
    return [name, written(inner, "state", { ...tools, registry: undefined }) ?? {}];
  });
  return { ...json, properties: { ...properties, ...Object.fromEntries(added) } };
}

/** Adds the members that LangGraph put into descriptions. */
function withExtras(json: Json): Json {
  if (Array.isArray(json)) return json.map(withExtras);
  if (!isObject(json)) return json;
  const copy = Object.fromEntries(Object.entries(json).map(([name, value]) => [name, withExtras(value)]));
  const { description } = copy;
  if (typeof description !== "string" || !description.startsWith(EXTRAS)) return copy;
  const { description: _, ...rest } = copy;
  return { ...rest, ...(JSON.parse(description.slice(EXTRAS.length)) as JsonObject) };
}

/** One property per channel. Only the default is known, and whether the channel has messages. */
function ofChannels(channels: Channels, { ofMessages }: Tools): JsonObject {
  const properties = Object.entries(channels).map(([name, given]): [string, Json] => {
    try {
      const channel = (typeof given === "function" ? given() : given) as Channel | null | undefined;
      const value = channel?.initialValueFactory?.();
      const reducer = channel?.operator ?? channel?.reducer;
      // Without types, chat clients expect a collecting channel of this name to be messages.
      const collects = value === undefined ? reducer !== undefined : Array.isArray(value);
      if (ofMessages.has(reducer) || (name === "messages" && collects)) return [name, MESSAGES];
      return [name, value === undefined ? {} : { default: serializeValue(value) }];
    } catch {
      return [name, {}];
    }
  });
  return { type: "object", properties: Object.fromEntries(properties) };
}

function sameNames(one: Channels = {}, other: Channels = {}): boolean {
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => Object.hasOwn(other, name));
}

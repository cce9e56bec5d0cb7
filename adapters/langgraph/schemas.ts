/** The schemas of graphs as JSON Schema: input, output, state, configuration and context. */
import type { Schema } from "../../lib/executor/agent-types.ts";
import type { GraphSchemas } from "../../lib/executor/contract.ts";
import { isStandardSchema } from "../../lib/executor/option-names.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import type { Graph } from "./graph.ts";
import {
  type Channels,
  type Effects,
  type Registry,
  readDefinitions,
  type SchemaDefinition,
} from "./langgraph-internals.ts";
import { serializeMetadata, serializeValue } from "./serialize.ts";
import type { LoadModule } from "./version.ts";

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

/** The functions of the user's LangGraph that the conversion needs. */
interface SchemaTools {
  toJsonSchema(schema: unknown, options: object): unknown;
  readonly registry: Registry | undefined;
  /** The reducers of channels with messages. */
  readonly messageReducers: ReadonlySet<unknown>;
}

type Side = "state" | "input";

const MESSAGES: JsonObject = { type: "array", items: { type: "object" }, langgraph_type: "messages" };
const EXTRAS = "lg:";
/** The option with which types that JSON Schema cannot express, such as classes, accept any value. */
const LENIENT = { unrepresentable: "any" };

/**
 * Returns the JSON Schemas of a graph; null for each that cannot be found or expressed. Without LangChain installed, only the
 * channels are described.
 */
export async function createGraphSchemas(graph_id: string, graph: Graph, load: LoadModule): Promise<GraphSchemas> {
  const { state, input, output, context: contextSchema, registry } = readDefinitions(graph);
  const tools = await loadSchemaTools(registry, load);
  // LangGraph also puts the state's own schema, or a mark for it, where channels without a schema were given.
  const findSchema = ({ schema, channels }: SchemaDefinition): unknown => {
    if (typeof schema === "object" && schema !== state.schema) return schema;
    return haveSameNames(channels, state.channels) ? state.schema : undefined;
  };
  const context = createJsonSchema(contextSchema, undefined, "state", tools);
  return {
    graph_id,
    input_schema: createJsonSchema(findSchema(input), input.channels, "input", tools),
    output_schema: createJsonSchema(findSchema(output), output.channels, "state", tools),
    state_schema: createJsonSchema(state.schema, state.channels, "state", tools),
    config_schema: context,
    context_schema: context,
  };
}

/**
 * Loads what converts schemas. Packages that cannot be loaded do not throw: then schemas convert to null and no channel counts as
 * messages.
 */
async function loadSchemaTools(registry: Registry | undefined, load: LoadModule): Promise<SchemaTools> {
  const [core, langgraph] = await Promise.all(
    ["@langchain/core/utils/json_schema", "@langchain/langgraph"].map((name) => load(name).catch(() => ({}))),
  );
  const { toJsonSchema = () => null } = core as Partial<SchemaTools>;
  const { messagesStateReducer, addMessages, messagesDeltaReducer } = langgraph as Record<string, unknown>;
  const reducers = [messagesStateReducer, addMessages, messagesDeltaReducer];
  return { toJsonSchema, registry, messageReducers: new Set(reducers.filter((reducer) => reducer !== undefined)) };
}

/**
 * Returns the schema by which LangGraph validates the context of each run. Undefined for a graph without one, because LangGraph keeps
 * those of zod only.
 */
export function findContextSchema(graph: Graph): Schema | undefined {
  const { context } = readDefinitions(graph);
  return isStandardSchema(context) ? context : undefined;
}

/** Returns null if neither a schema nor channels are known. */
function createJsonSchema(
  schema: unknown,
  channels: Channels | undefined,
  side: Side,
  tools: SchemaTools,
): JsonObject | null {
  return convertSchema(schema, side, tools) ?? (channels ? convertChannels(channels, tools) : null);
}

/**
 * Converts a schema of zod, another library or LangGraph. Returns null for other values and for a schema that JSON Schema cannot
 * express. Does not throw.
 */
function convertSchema(schema: unknown, side: Side, tools: SchemaTools): JsonObject | null {
  if (typeof schema !== "object" || schema === null) return null;
  try {
    if (isStateSchema(schema)) return convertStateSchema(schema, side, tools);
    if (!("_def" in schema) && !("_zod" in schema) && !("~standard" in schema)) return null;
    const effects: Effects =
      side === "input"
        ? { withReducerSchema: true, withJsonSchemaExtrasAsDescription: true, asPartial: true }
        : { withJsonSchemaExtrasAsDescription: true };
    const extended = tools.registry?.getExtendedChannelSchemas(schema, effects) ?? schema;
    const json = addExtras(serializeMetadata(tools.toJsonSchema(extended, LENIENT)));
    return isObject(json) ? json : null;
  } catch {
    // JSON Schema cannot express it at all.
    return null;
  }
}

const isStateSchema = (schema: object): schema is StateSchema =>
  "getJsonSchema" in schema && typeof schema.getJsonSchema === "function" && "getInputJsonSchema" in schema;

/**
 * Returns the JSON Schema of one side of a `StateSchema`. Members that LangGraph omits are converted one by one, to `{}` if that fails.
 * Returns null if LangGraph returns no object. Throws what LangGraph throws.
 */
function convertStateSchema(schema: StateSchema, side: Side, tools: SchemaTools): JsonObject | null {
  const json = serializeMetadata(side === "input" ? schema.getInputJsonSchema() : schema.getJsonSchema());
  if (!isObject(json)) return null;
  const properties = isObject(json["properties"] ?? null) ? (json["properties"] as JsonObject) : {};
  const absent = Object.entries(schema.fields ?? {}).filter(([name]) => !Object.hasOwn(properties, name));
  const addedMembers = absent.map(([name, field]): [string, Json] => {
    const inner = (side === "input" ? field.inputSchema : undefined) ?? field.valueSchema ?? field;
    return [name, convertSchema(inner, "state", { ...tools, registry: undefined }) ?? {}];
  });
  return { ...json, properties: { ...properties, ...Object.fromEntries(addedMembers) } };
}

/**
 * Returns a copy in which, at every depth, a description that LangGraph has filled with JSON is replaced by the members
 * of that JSON, which may contain a description. Throws a SyntaxError if it is not JSON.
 */
function addExtras(json: Json): Json {
  if (Array.isArray(json)) return json.map(addExtras);
  if (!isObject(json)) return json;
  const copy = Object.fromEntries(Object.entries(json).map(([name, value]) => [name, addExtras(value)]));
  const { description } = copy;
  if (typeof description !== "string" || !description.startsWith(EXTRAS)) return copy;
  const { description: _, ...otherMembers } = copy;
  return { ...otherMembers, ...(JSON.parse(description.slice(EXTRAS.length)) as JsonObject) };
}

/**
 * Returns an object schema with one property per channel. Only the default is known, and whether the channel has messages; `{}`
 * for a channel that throws.
 */
function convertChannels(channels: Channels, { messageReducers }: SchemaTools): JsonObject {
  const properties = Object.entries(channels).map(([name, channelOrFactory]): [string, Json] => {
    try {
      const channel = (typeof channelOrFactory === "function" ? channelOrFactory() : channelOrFactory) as
        | Channel
        | null
        | undefined;
      const value = channel?.initialValueFactory?.();
      const reducer = channel?.operator ?? channel?.reducer;
      // Without types, chat clients expect a collecting channel of this name to be messages.
      const collects = value === undefined ? reducer !== undefined : Array.isArray(value);
      if (messageReducers.has(reducer) || (name === "messages" && collects)) return [name, MESSAGES];
      return [name, value === undefined ? {} : { default: serializeValue(value) }];
    } catch {
      return [name, {}];
    }
  });
  return { type: "object", properties: Object.fromEntries(properties) };
}

function haveSameNames(first: Channels = {}, second: Channels = {}): boolean {
  const names = Object.keys(first);
  return names.length === Object.keys(second).length && names.every((name) => Object.hasOwn(second, name));
}

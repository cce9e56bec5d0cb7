/** Converts Standard Schemas to JSON Schema. */
import type { JsonObject } from "../json.ts";
import type { AgentSchemas } from "./agent-schemas.ts";
import type { Schema } from "./agent-types.ts";
import type { GraphSchemas } from "./contract.ts";

const TARGET = "draft-2020-12";

/** The members of a Standard Schema that Standard JSON Schema adds. */
interface JsonSchemaConverter {
  readonly jsonSchema?: { input(options: { readonly target: string }): object };
}

interface ValibotConverter {
  toJsonSchema(schema: object, options: object): object;
}

/** Loads the converter of valibot. Resolves to null if it is not installed. */
async function loadValibotConverter(): Promise<ValibotConverter | null> {
  // Bundlers must not resolve an optional package.
  const name = "@valibot/to-json-schema";
  try {
    return (await import(/* webpackIgnore: true */ /* @vite-ignore */ name)) as ValibotConverter;
  } catch {
    return null;
  }
}

/**
 * Returns the JSON Schema of what a schema accepts, as far as it has one. Rejects with a `TypeError` that says what to do if the schema
 * has none; its text begins with `label`.
 */
export async function toJsonSchema(schema: Schema, label: string): Promise<JsonObject> {
  const { jsonSchema, vendor } = schema["~standard"] as Schema["~standard"] & JsonSchemaConverter;
  const converter = !jsonSchema && vendor === "valibot" ? await loadValibotConverter() : null;
  if (!jsonSchema && !converter) throw new TypeError(`${label}: ${NO_JSON_SCHEMA}`);
  try {
    // What JSON Schema cannot express is left to the validator.
    const options = { target: TARGET, typeMode: "input", errorMode: "ignore" };
    const converted = jsonSchema ? jsonSchema.input({ target: TARGET }) : converter?.toJsonSchema(schema, options);
    return JSON.parse(JSON.stringify(converted)) as JsonObject;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new TypeError(`${label}: the schema cannot be converted to JSON Schema: ${reason}`, { cause });
  }
}

const NO_JSON_SCHEMA =
  "the schema has no JSON Schema. Install @valibot/to-json-schema, or wrap the schema in its toStandardJsonSchema; schemas of zod 4 and arktype 2 have one";

const convertedSchemas = new WeakMap<Schema, Promise<JsonObject | null>>();

/**
 * Resolves with the JSON Schema of a schema; null for none, and for one that has no JSON Schema. Never rejects. Each schema is
 * converted once, and the result is kept as long as the schema.
 */
function findJsonSchema(schema: Schema | undefined): Promise<JsonObject | null> {
  if (!schema) return Promise.resolve(null);
  const converted = convertedSchemas.get(schema) ?? toJsonSchema(schema, "schema").catch(() => null);
  convertedSchemas.set(schema, converted);
  return converted;
}

const MESSAGES: JsonObject = { type: "array", items: { type: "object" } };

/**
 * Returns a copy of the schema of a state with the property `messages`, because the schema declares only the other values.
 * Returns null and a schema of another type than `object` as they are.
 */
function addMessages(schema: JsonObject | null): JsonObject | null {
  if (schema?.type !== "object") return schema;
  return { ...schema, properties: { ...(schema.properties as JsonObject | undefined), messages: MESSAGES } };
}

/**
 * Resolves with the JSON Schemas of an agent, each null without a schema. That of the state, with `messages`, is also that of the
 * output; that of the configuration is always null.
 */
export async function toGraphSchemas(graph_id: string, schemas: AgentSchemas): Promise<GraphSchemas> {
  const [input_schema, declaredState, context_schema] = await Promise.all([
    findJsonSchema(schemas.input),
    findJsonSchema(schemas.state),
    findJsonSchema(schemas.context),
  ]);
  const state_schema = addMessages(declaredState);
  return { graph_id, input_schema, output_schema: state_schema, state_schema, config_schema: null, context_schema };
}

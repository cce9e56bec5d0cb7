/** Adds the schemas of a project's own agents to the OpenAPI document of the API. */
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";

/** The JSON Schemas of an agent. Null where it declares none. */
export interface AgentJsonSchemas {
  readonly graph_id: string;
  readonly input: JsonObject | null;
  readonly context: JsonObject | null;
  readonly resume: JsonObject | null;
  readonly values: JsonObject | null;
  /** True if the server refuses runs whose input does not fit. The schema of a LangGraph.js graph only describes it. */
  readonly validates_input: boolean;
  /** True if the server refuses runs whose context does not fit. */
  readonly validates_context: boolean;
}

/** An OpenAPI document. */
export interface Document extends JsonObject {
  readonly paths: JsonObject;
  readonly components: JsonObject & { readonly schemas: Readonly<Record<string, JsonObject>> };
}

const RUN_CREATE = "#/components/schemas/RunCreate";
const NULL: JsonObject = { type: "null" };
/** The keywords whose values are JSON and no schemas. */
const VALUE_KEYWORDS: readonly string[] = ["const", "enum", "default", "examples"];

/**
 * Returns the document with a schema `RunCreate_<agent>` for each agent, and `Values_<agent>` for those that declare their values. Their
 * definitions are schemas of the document, too. The operations that create runs take one of these, or a `RunCreate` for an assistant by
 * its UUID. Their examples are removed, because they name agents that the project does not have.
 */
export function addAgentSchemas(document: Document, agents: readonly AgentJsonSchemas[]): Document {
  const { RunCreate: base, ...schemas } = document.components.schemas;
  if (!base) throw new Error("The OpenAPI document has no RunCreate");
  const names = nameAgents(agents);
  const added: Record<string, JsonObject> = {};
  for (const [index, agent] of agents.entries()) {
    const name = names[index] as string;
    added[`RunCreate_${name}`] = createRunSchema(base, agent, name, added);
    if (agent.values)
      added[`Values_${name}`] = relocate(agent.values, `/components/schemas/Values_${name}`, `${name}_values`, added);
  }
  const choices = [...names.map((name) => `${RUN_CREATE}_${name}`), RUN_CREATE].map(($ref) => ({ $ref }));
  return {
    ...document,
    paths: replaceRunCreate(document.paths, choices) as JsonObject,
    components: { ...document.components, schemas: { ...schemas, RunCreate: createUuidSchema(base), ...added } },
  };
}

/**
 * Returns the names of the agents for schemas, in their order: other characters become `_`, and a name that is taken
 * gets a number.
 */
function nameAgents(agents: readonly AgentJsonSchemas[]): readonly string[] {
  const names: string[] = [];
  for (const { graph_id } of agents) {
    const name = graph_id.replace(/[^A-Za-z0-9._-]/g, "_");
    let unique = name;
    for (let number = 2; names.includes(unique); number += 1) unique = `${name}_${number}`;
    names.push(unique);
  }
  return names;
}

/** Returns the schema of requests for an assistant by its UUID, whose graph the document cannot know. */
const createUuidSchema = (base: JsonObject): JsonObject => ({
  ...base,
  description: "A run of an assistant by its UUID. Each graph id has another schema",
  properties: { ...(base["properties"] as JsonObject), assistant_id: { type: "string", format: "uuid" } },
});

/**
 * Returns the schema of requests for the default assistant of an agent, with the agent's input, context and resume
 * values. Input and a context with required members are required only if the agent validates them. Adds the definitions of these
 * schemas to `added`.
 */
function createRunSchema(
  base: JsonObject,
  agent: AgentJsonSchemas,
  name: string,
  added: Record<string, JsonObject>,
): JsonObject {
  const { graph_id, validates_input, validates_context } = agent;
  const { required = [] } = base as { readonly required?: readonly string[] };
  const properties = base["properties"] as JsonObject;
  const place = (part: JsonObject, path: string, kind: string): JsonObject =>
    relocate(part, `/components/schemas/RunCreate_${name}/properties/${path}`, `${name}_${kind}`, added);
  const requiredContext = agent.context?.["required"];
  const isContextRequired = validates_context && Array.isArray(requiredContext) && requiredContext.length > 0;
  const input = agent.input && place(agent.input, validates_input ? "input" : "input/anyOf/0", "input");
  const context = agent.context && place(agent.context, isContextRequired ? "context" : "context/anyOf/0", "context");
  return {
    ...base,
    description: `A run of the agent ${graph_id}`,
    properties: {
      ...properties,
      assistant_id: { type: "string", const: graph_id },
      ...(input ? { input: validates_input ? input : { anyOf: [input, NULL] } } : {}),
      ...(context ? { context: isContextRequired ? context : { anyOf: [omitRequired(context), NULL] } } : {}),
      ...(agent.resume
        ? { command: createCommandSchema(properties["command"] as JsonObject, agent.resume, place) }
        : {}),
    },
    required: [...required, ...(isContextRequired ? ["context"] : [])],
    // A run that answers needs no input. Generators of types take `anyOf` beside properties for any value, and ignore this.
    ...(validates_input && input
      ? {
          if: { properties: { command: {} }, required: ["command"] },
          else: { properties: { input: {} }, required: ["input"] },
        }
      : {}),
  };
}

/** Returns the schema of a context that the assistant may have a part of. */
const omitRequired = ({ required: _, ...schema }: JsonObject): JsonObject => schema;

/**
 * Returns a copy of the schema of `command` in which `resume` is a value that the agent accepts, an object of such
 * values by interrupt id, or null. `place` puts a schema at a path in the request.
 */
function createCommandSchema(
  command: JsonObject,
  resume: JsonObject,
  place: (part: JsonObject, path: string, kind: string) => JsonObject,
): JsonObject {
  const [fields, ...alternatives] = command["anyOf"] as unknown as readonly JsonObject[];
  const placeAnswer = (path: string): JsonObject =>
    place(resume, `command/anyOf/0/properties/resume/anyOf/${path}`, "resume");
  const schema = {
    anyOf: [placeAnswer("0"), { type: "object", additionalProperties: placeAnswer("1/additionalProperties") }, NULL],
  };
  return {
    ...command,
    anyOf: [{ ...fields, properties: { ...(fields?.["properties"] as JsonObject), resume: schema } }, ...alternatives],
  };
}

/** Returns the name of a definition in the document, whose schemas have names without other characters. */
const nameDefinition = (prefix: string, name: string): string => `${prefix}_${name.replace(/[^A-Za-z0-9._-]/g, "_")}`;

/**
 * Returns a JSON Schema for a place in the document: references to its own parts point there, and it has no address of its own. Its
 * definitions become schemas of the document: adds them to `added`, their names behind `prefix`, because generators of types cannot
 * refer to definitions inside a property. Objects without listed members get `additionalProperties: true`, because generators allow
 * no member otherwise.
 */
function relocate(
  { $schema: _, $id: __, $defs = {}, definitions = {}, ...schema }: JsonObject,
  pointer: string,
  prefix: string,
  added: Record<string, JsonObject>,
): JsonObject {
  const relocateReference = (reference: string): string => {
    const [, name, rest = ""] = /^#\/(?:\$defs|definitions)\/([^/]+)(.*)$/.exec(reference) ?? [];
    if (name !== undefined)
      return `#/components/schemas/${nameDefinition(prefix, name.replaceAll("~1", "/").replaceAll("~0", "~"))}${rest}`;
    return /^#(?:\/|$)/.test(reference) ? `#${pointer}${reference.slice(1)}` : reference;
  };
  /**
   * Returns a copy of a part of the schema. `keyword` is the member that the part belongs to; empty for the elements of
   * lists and of maps of schemas. Values such as examples are returned as they are.
   */
  const visit = (part: Json, keyword = ""): Json => {
    if (VALUE_KEYWORDS.includes(keyword)) return part;
    if (Array.isArray(part)) return part.map((element) => visit(element));
    if (!isObject(part)) return part;
    // The names of properties and definitions are no keywords.
    const isMap = ["properties", "$defs", "definitions", "patternProperties"].includes(keyword);
    const isOpen =
      !isMap && part["type"] === "object" && !["properties", "additionalProperties"].some((key) => key in part);
    return Object.fromEntries(
      Object.entries(isOpen ? { ...part, additionalProperties: true } : part).map(([name, value]) => {
        if (!isMap && name === "$ref" && typeof value === "string") return [name, relocateReference(value)];
        // OpenAPI allows unknown keywords with this prefix only.
        return [!isMap && name === "langgraph_type" ? `x-${name}` : name, visit(value, isMap ? "" : name)];
      }),
    );
  };
  for (const [name, definition] of Object.entries({ ...($defs as JsonObject), ...(definitions as JsonObject) }))
    added[nameDefinition(prefix, name)] = visit(definition) as JsonObject;
  return visit(schema) as JsonObject;
}

/** Returns a part of the document with `choices` in place of each reference to RunCreate, without the examples beside it. */
function replaceRunCreate(part: Json, choices: Json): Json {
  if (Array.isArray(part)) return part.map((element) => replaceRunCreate(element, choices));
  if (!isObject(part)) return part;
  if (part["$ref"] === RUN_CREATE) return { anyOf: choices };
  const { example, ...rest } = part;
  const hasReference = "schema" in rest && JSON.stringify(rest["schema"]).includes(`"${RUN_CREATE}"`);
  const members = example === undefined || hasReference ? rest : part;
  return Object.fromEntries(Object.entries(members).map(([name, member]) => [name, replaceRunCreate(member, choices)]));
}

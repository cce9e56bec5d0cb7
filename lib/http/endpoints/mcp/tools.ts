/** The agents as tools: their names and arguments. */
import type { Assistant } from "../../../assistants/mod.ts";
import { nullIfNotFound } from "../../../errors.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { RequestResources } from "../../../service/resources.ts";

/** The settings in an assistant's `metadata.mcp`. */
export interface ToolSettings {
  readonly task: "auto" | "always" | "never" | "required";
  /** Capabilities that a client must have, such as `{sampling: {}}`. */
  readonly requires: JsonObject;
}

/** An agent as a tool. */
export interface Tool {
  readonly name: string;
  readonly assistant: Assistant;
  readonly settings: ToolSettings;
}

/** The arguments of a tool, and how they become the run's input. */
export interface ToolSignature {
  readonly inputSchema: JsonObject;
  /** The names of the two arguments that every tool has. */
  readonly thread_id: string;
  readonly resume: string;
  /** If true, `message` alone stands for `messages`. */
  readonly takesMessage: boolean;
  /** The members of the output that the graph declares; null if it declares none. */
  readonly output: ReadonlySet<string> | null;
}

type AssistantResources = Pick<RequestResources, "assistants">;

const getMcpMetadata = ({ metadata }: Assistant): JsonObject => (isObject(metadata.mcp) ? metadata.mcp : {});

const pickAllowed = <Value extends string>(
  value: Json | undefined,
  allowedValues: readonly Value[],
  fallback: Value,
): Value => allowedValues.find((allowed) => allowed === value) ?? fallback;

/**
 * Reads the settings of a tool from the metadata of its assistant. By default it requires no capabilities and `task` is
 * `auto`.
 */
const readToolSettings = (assistant: Assistant): ToolSettings => {
  const { task, requires = null } = getMcpMetadata(assistant);
  return {
    requires: isObject(requires) ? requires : {},
    task: pickAllowed(task, ["auto", "always", "never", "required"], "auto"),
  };
};

const MAX_NAME_CHARS = 128;
/** The assistants of one search, and the maximum number of tools. */
const SEARCH_PAGE_SIZE = 1000;
const MAX_TOOLS = 10_000;

const toToolName = (name: string): string => name.replace(/[^A-Za-z0-9_.-]/gu, "_").slice(0, MAX_NAME_CHARS) || "_";

/**
 * Lists the default assistants of the graphs, then at most `MAX_TOOLS` others that are marked as tools, oldest first.
 */
async function listToolAssistants({ assistants }: AssistantResources, graphs: readonly string[]): Promise<Assistant[]> {
  const defaults: Assistant[] = [];
  for (const graph of graphs) {
    const assistant = await assistants.get(graph).catch(nullIfNotFound);
    if (assistant) defaults.push(assistant);
  }
  const markedAssistants: Assistant[] = [];
  for (let offset = 0; offset < MAX_TOOLS; offset += SEARCH_PAGE_SIZE) {
    const query = { metadata: { mcp: { tool: true } }, sort_by: "created_at", sort_order: "asc" } as const;
    const { items, next } = await assistants.search({ ...query, limit: SEARCH_PAGE_SIZE, offset });
    markedAssistants.push(...items);
    if (next === null) break;
  }
  const defaultIds = new Set(defaults.map(({ assistant_id }) => assistant_id));
  return [...defaults, ...markedAssistants.filter(({ assistant_id }) => !defaultIds.has(assistant_id))];
}

/** Lists of tools by active request: the messages of a batch share one. */
const toolLists = new WeakMap<AssistantResources, Promise<Tool[]>>();

/**
 * Returns all tools that the caller may read, by name. Reads them on the first call for these resources, and caches the
 * promise.
 */
export function listTools(resources: AssistantResources, graphs: readonly string[]): Promise<Tool[]> {
  const tools = toolLists.get(resources) ?? readTools(resources, graphs);
  toolLists.set(resources, tools);
  return tools;
}

/**
 * Returns the tools of the assistants of these graphs, sorted by their unique names. A name that is taken gets a
 * suffix; an assistant is omitted if that is taken, too, or its metadata say so.
 */
async function readTools(resources: AssistantResources, graphs: readonly string[]): Promise<Tool[]> {
  const usedNames = new Set<string>();
  const tools: Tool[] = [];
  for (const assistant of await listToolAssistants(resources, graphs)) {
    if (getMcpMetadata(assistant).tool === false || !graphs.includes(assistant.graph_id)) continue;
    const plain = toToolName(assistant.name);
    const suffix = `_${assistant.assistant_id.slice(0, 8)}`;
    const name = usedNames.has(plain) ? plain.slice(0, MAX_NAME_CHARS - suffix.length) + suffix : plain;
    if (usedNames.has(name)) continue;
    usedNames.add(name);
    tools.push({ name, assistant, settings: readToolSettings(assistant) });
  }
  return tools.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/**
 * Returns the tool with this name, or null for one that is absent or that the caller may not use. Reads all tools only
 * if the name is not that of one graph.
 */
export async function findTool(
  resources: AssistantResources,
  graphs: readonly string[],
  name: string,
): Promise<Tool | null> {
  if (graphs.includes(name)) {
    // Default assistants have the first choice of names, so most calls need no list.
    const assistant = await resources.assistants.get(name).catch(nullIfNotFound);
    const isTool =
      assistant && assistant.name === name && toToolName(name) === name && getMcpMetadata(assistant).tool !== false;
    const rivals = graphs.filter((graph) => toToolName(graph) === name);
    if (isTool && rivals.length === 1) return { name, assistant, settings: readToolSettings(assistant) };
  }
  return (await listTools(resources, graphs)).find((tool) => tool.name === name) ?? null;
}

const MESSAGE: JsonObject = { type: "string", description: "The text for the agent" };
const THREAD: JsonObject = { type: "string", description: "Continue this conversation" };
const RESUME: JsonObject = { description: "Answer to the question that the last call asked" };

/** Returns the names of the members of a schema; null without a schema or members, which means that any are allowed. */
function readMemberNames(schema: JsonObject | null): ReadonlySet<string> | null {
  const names = schema && isObject(schema.properties) ? Object.keys(schema.properties) : [];
  return names.length > 0 ? new Set(names) : null;
}

/** Returns the members of the output that an assistant's graph declares; null if it declares none. Throws `not_found`. */
export const readOutputMembers = async (
  { assistants }: AssistantResources,
  assistant_id: string,
): Promise<ReadonlySet<string> | null> => readMemberNames((await assistants.schemas(assistant_id)).output_schema);

/**
 * Reads the arguments and the output members of a tool from the schemas of its graph. A tool that only needs messages
 * also takes a text `message`. The arguments `thread_id` and `resume` are renamed if the graph has members of these
 * names, and are not in the schema. Throws `not_found`.
 */
export async function readToolSignature(
  { assistants }: AssistantResources,
  { assistant }: Tool,
): Promise<ToolSignature> {
  const { input_schema, output_schema } = await assistants.schemas(assistant.assistant_id);
  const output = readMemberNames(output_schema);
  const properties = input_schema && isObject(input_schema.properties) ? input_schema.properties : {};
  const toUnusedName = (name: string): string => (Object.hasOwn(properties, name) ? `greenroom_${name}` : name);
  const names = { thread_id: toUnusedName("thread_id"), resume: toUnusedName("resume") };
  if (!input_schema || Object.keys(properties).length === 0) {
    const defaultSchema: JsonObject = { properties: { message: MESSAGE, messages: { type: "array", items: {} } } };
    return {
      inputSchema: { ...(input_schema ?? defaultSchema), type: "object" },
      ...names,
      takesMessage: true,
      output,
    };
  }
  const required = Array.isArray(input_schema.required) ? input_schema.required : [];
  const requiredNames = required.length > 0 ? required : Object.keys(properties);
  const takesMessage =
    requiredNames.length === 1 && requiredNames[0] === "messages" && !Object.hasOwn(properties, "message");
  const { required: _, ...rest } = input_schema;
  const inputSchema = takesMessage
    ? { ...rest, type: "object", properties: { message: MESSAGE, ...properties } }
    : { ...input_schema, type: "object" };
  return { inputSchema, ...names, takesMessage, output };
}

/** Converts a tool to the JSON of a list. `extra` selects which of the two arguments of every tool its schema has. */
export function toToolJson(
  { name, assistant }: Tool,
  { inputSchema, thread_id, resume }: ToolSignature,
  extra: { readonly thread_id: boolean; readonly resume: boolean },
): JsonObject {
  const properties = {
    ...(isObject(inputSchema.properties) ? inputSchema.properties : {}),
    ...(extra.thread_id ? { [thread_id]: THREAD } : {}),
    ...(extra.resume ? { [resume]: RESUME } : {}),
  };
  const schema = extra.thread_id || extra.resume ? { ...inputSchema, properties } : inputSchema;
  const { annotations } = getMcpMetadata(assistant);
  return {
    name,
    title: assistant.name,
    description: assistant.description || `Agent \`${assistant.name}\``,
    inputSchema: schema,
    ...(isObject(annotations) ? { annotations } : {}),
  };
}

/**
 * Splits the arguments into the run's input, the conversation to continue and the resume value. A `message` becomes a
 * human message if the tool takes one and there are no `messages`. A conversation of null counts as absent.
 */
export function readArguments(
  { thread_id: threadName, resume: resumeName, takesMessage }: ToolSignature,
  args: JsonObject,
): { readonly input: JsonObject; readonly thread_id: Json | undefined; readonly resume: Json | undefined } {
  const { [threadName]: thread_id, [resumeName]: resume, ...input } = args;
  const { message, ...rest } = input;
  const isShort = takesMessage && typeof message === "string" && rest.messages === undefined;
  return {
    input: isShort ? { ...rest, messages: [{ type: "human", content: message }] } : input,
    thread_id: thread_id ?? undefined,
    resume,
  };
}

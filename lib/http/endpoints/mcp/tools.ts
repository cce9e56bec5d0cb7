/** The agents as tools: which, by which names, and with which arguments. */
import type { Assistant } from "../../../assistants/mod.ts";
import { nullIfNotFound } from "../../../errors.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { RequestNouns } from "../../../service/nouns.ts";

/** What `metadata.mcp` of an assistant says. */
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

/** The tool's own schema, and how its arguments become the run's input. */
export interface ToolArguments {
  readonly inputSchema: JsonObject;
  /** The names of the two arguments of every tool. */
  readonly thread_id: string;
  readonly resume: string;
  /** `message` alone stands for `messages`. */
  readonly takesMessage: boolean;
  /** The members of the output that the graph declares; null if it declares none. */
  readonly output: ReadonlySet<string> | null;
}

type Assistants = Pick<RequestNouns, "assistants">;

const mcpOf = ({ metadata }: Assistant): JsonObject => (isObject(metadata.mcp) ? metadata.mcp : {});

const oneOf = <Value extends string>(value: Json | undefined, values: readonly Value[], fallback: Value): Value =>
  values.find((one) => one === value) ?? fallback;

const settingsOf = (assistant: Assistant): ToolSettings => {
  const { task, requires = null } = mcpOf(assistant);
  return {
    requires: isObject(requires) ? requires : {},
    task: oneOf(task, ["auto", "always", "never", "required"], "auto"),
  };
};

const LONGEST_NAME = 128;
/** Assistants of one search, and the most tools of a server. */
const PAGE = 1000;
const MOST_TOOLS = 10_000;

const nameOf = (name: string): string => name.replace(/[^A-Za-z0-9_.-]/gu, "_").slice(0, LONGEST_NAME) || "_";

/** The default assistants of the graphs, then those that are made tools, in an order that never changes. */
async function assistantsOf({ assistants }: Assistants, graphs: readonly string[]): Promise<Assistant[]> {
  const defaults: Assistant[] = [];
  for (const graph of graphs) {
    const found = await assistants.get(graph).catch(nullIfNotFound);
    if (found) defaults.push(found);
  }
  const made: Assistant[] = [];
  for (let offset = 0; offset < MOST_TOOLS; offset += PAGE) {
    const query = { metadata: { mcp: { tool: true } }, sort_by: "created_at", sort_order: "asc" } as const;
    const { items, next } = await assistants.search({ ...query, limit: PAGE, offset });
    made.push(...items);
    if (next === null) break;
  }
  const known = new Set(defaults.map(({ assistant_id }) => assistant_id));
  return [...defaults, ...made.filter(({ assistant_id }) => !known.has(assistant_id))];
}

/** The lists of open requests: the messages of a batch share one. */
const toolLists = new WeakMap<Assistants, Promise<Tool[]>>();

/** Returns all tools that the caller may read, by name. Reads them once for one request. */
export function listTools(nouns: Assistants, graphs: readonly string[]): Promise<Tool[]> {
  const tools = toolLists.get(nouns) ?? readTools(nouns, graphs);
  toolLists.set(nouns, tools);
  return tools;
}

async function readTools(nouns: Assistants, graphs: readonly string[]): Promise<Tool[]> {
  const taken = new Set<string>();
  const tools: Tool[] = [];
  for (const assistant of await assistantsOf(nouns, graphs)) {
    if (mcpOf(assistant).tool === false || !graphs.includes(assistant.graph_id)) continue;
    const plain = nameOf(assistant.name);
    const suffix = `_${assistant.assistant_id.slice(0, 8)}`;
    const name = taken.has(plain) ? plain.slice(0, LONGEST_NAME - suffix.length) + suffix : plain;
    if (taken.has(name)) continue;
    taken.add(name);
    tools.push({ name, assistant, settings: settingsOf(assistant) });
  }
  return tools.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The tool with this name; null for one that the caller may not use. */
export async function findTool(nouns: Assistants, graphs: readonly string[], name: string): Promise<Tool | null> {
  if (graphs.includes(name)) {
    // Default assistants have the first choice of names, so most calls need no list.
    const assistant = await nouns.assistants.get(name).catch(nullIfNotFound);
    const isTool = assistant && assistant.name === name && nameOf(name) === name && mcpOf(assistant).tool !== false;
    const rivals = graphs.filter((graph) => nameOf(graph) === name);
    if (isTool && rivals.length === 1) return { name, assistant, settings: settingsOf(assistant) };
  }
  return (await listTools(nouns, graphs)).find((tool) => tool.name === name) ?? null;
}

const MESSAGE: JsonObject = { type: "string", description: "The text for the agent" };
const THREAD: JsonObject = { type: "string", description: "Continue this conversation" };
const RESUME: JsonObject = { description: "Answer to the question that the last call asked" };

function membersOf(schema: JsonObject | null): ReadonlySet<string> | null {
  const names = schema && isObject(schema.properties) ? Object.keys(schema.properties) : [];
  return names.length > 0 ? new Set(names) : null;
}

/** The members of the output that an assistant's graph declares; null if it declares none. Errors: not_found. */
export const outputOf = async ({ assistants }: Assistants, assistant_id: string): Promise<ReadonlySet<string> | null> =>
  membersOf((await assistants.schemas(assistant_id)).output_schema);

/** Reads the schemas of an agent. Errors: not_found. */
export async function argumentsOf({ assistants }: Assistants, { assistant }: Tool): Promise<ToolArguments> {
  const { input_schema, output_schema } = await assistants.schemas(assistant.assistant_id);
  const output = membersOf(output_schema);
  const own = input_schema && isObject(input_schema.properties) ? input_schema.properties : {};
  const named = (name: string): string => (Object.hasOwn(own, name) ? `greenroom_${name}` : name);
  const names = { thread_id: named("thread_id"), resume: named("resume") };
  if (!input_schema || Object.keys(own).length === 0) {
    const open: JsonObject = { properties: { message: MESSAGE, messages: { type: "array", items: {} } } };
    return { inputSchema: { ...(input_schema ?? open), type: "object" }, ...names, takesMessage: true, output };
  }
  const required = Array.isArray(input_schema.required) ? input_schema.required : [];
  const needs = required.length > 0 ? required : Object.keys(own);
  const takesMessage = needs.length === 1 && needs[0] === "messages" && !Object.hasOwn(own, "message");
  const { required: _, ...rest } = input_schema;
  const inputSchema = takesMessage
    ? { ...rest, type: "object", properties: { message: MESSAGE, ...own } }
    : { ...input_schema, type: "object" };
  return { inputSchema, ...names, takesMessage, output };
}

/** The tool as a list shows it. `extra`: which of the two arguments of every tool its schema has. */
export function shownTool(
  { name, assistant }: Tool,
  { inputSchema, thread_id, resume }: ToolArguments,
  extra: { readonly thread_id: boolean; readonly resume: boolean },
): JsonObject {
  const properties = {
    ...(isObject(inputSchema.properties) ? inputSchema.properties : {}),
    ...(extra.thread_id ? { [thread_id]: THREAD } : {}),
    ...(extra.resume ? { [resume]: RESUME } : {}),
  };
  const schema = extra.thread_id || extra.resume ? { ...inputSchema, properties } : inputSchema;
  const { annotations } = mcpOf(assistant);
  return {
    name,
    title: assistant.name,
    description: assistant.description || `Agent \`${assistant.name}\``,
    inputSchema: schema,
    ...(isObject(annotations) ? { annotations } : {}),
  };
}

/** The run's input, and the conversation that the arguments continue. */
export function readArguments(
  { thread_id: threadName, resume: resumeName, takesMessage }: ToolArguments,
  given: JsonObject,
): { readonly input: JsonObject; readonly thread_id: Json | undefined; readonly resume: Json | undefined } {
  const { [threadName]: thread_id, [resumeName]: resume, ...input } = given;
  const { message, ...rest } = input;
  const isShort = takesMessage && typeof message === "string" && rest.messages === undefined;
  return {
    input: isShort ? { ...rest, messages: [{ type: "human", content: message }] } : input,
    thread_id: thread_id ?? undefined,
    resume,
  };
}

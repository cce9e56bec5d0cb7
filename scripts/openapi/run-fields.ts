/** Writes docs/reference/run-requests.md: every field of a run request, from the schemas of the OpenAPI document. */
import { CRON_RUN_OPTIONS } from "../../lib/crons/cron-run.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";

/** What the page says of a field beside its schema. */
export interface FieldText {
  /** Absent: the description of the schema says it. */
  readonly meaning?: string;
  readonly default?: string;
  /** What a run without a thread does with the field. Default: it uses it. */
  readonly stateless?: "refuses" | "ignores";
  /** True if only runs without a thread use the field. */
  readonly needs_stateless?: true;
  /** True if every request ignores the field. */
  readonly has_no_effect?: true;
  /** True if functions ignore the field, because it is about nodes, subgraphs or supersteps of a graph. */
  readonly graphs_only?: true;
  /** A value that the server accepts, for the test of this page. */
  readonly example: Json;
}

const CHECKPOINT = "1f0f0f0f-1111-6222-8333-444444444444";

/** The texts by the path of the field. A field without a text, and a text without a field, stop the script. */
export const FIELD_TEXTS: Readonly<Record<string, FieldText>> = {
  assistant_id: {
    meaning: "The assistant: its UUID, or a graph id for the default assistant of an agent. Required",
    example: "echo",
  },
  assistant_version: {
    meaning:
      "The [version](../guides/agents.md#versions) of the assistant whose graph, config, context and metadata the run gets. SDKs send it as `config.assistant_version`",
    default: "the active one",
    example: 1,
  },
  input: {
    meaning:
      "What the agent gets: an update of its state such as `{messages: […]}`, or the argument that the schema `input` of a [typed agent](../guides/typed-agents.md) describes. Ignored beside `command.resume`, `update` and `goto`",
    example: { messages: [{ role: "user", content: "Hi" }] },
  },
  "command.resume": {
    meaning:
      "The [answer](../guides/human-in-the-loop.md#answer) to an open interrupt, or an object of interrupt ids and answers",
    stateless: "refuses",
    example: "yes",
  },
  "command.update": {
    meaning: "Changes the state before the run: an object, or a list of [channel, value] pairs",
    example: { note: "x" },
  },
  "command.expected_answers": { stateless: "ignores", example: { "0f0f": 0 } },
  "command.goto": {
    meaning:
      "The node to run next, a `Send` (`{node, input}`), or a list of at most 100 of these. A function has one node, with the name of the agent; `__end__` ends the run without a call",
    example: "echo",
  },
  "config.tags": { meaning: "Tags of the run, which the agent finds in its `config`", example: ["nightly"] },
  "config.recursion_limit": {
    meaning: "The maximum number of supersteps of the graph",
    default: "LangGraph's",
    graphs_only: true,
    example: 10,
  },
  "config.configurable": {
    meaning:
      "Values for the agent, merged with those of [assistant, thread and headers](configuration.md#config-and-context). Values that are also in `context` must be the same",
    example: { tone: "kind" },
  },
  context: {
    meaning: "Values for the agent, merged with the context of the assistant member by member",
    example: { tone: "kind" },
  },
  metadata: {
    meaning: "Metadata of the run, by which searches find it. Merged with those of assistant and thread",
    example: { source: "docs" },
  },
  "checkpoint.checkpoint_id": {
    meaning: "The run starts from this checkpoint of the thread in place of the newest one",
    default: "the newest",
    stateless: "refuses",
    example: CHECKPOINT,
  },
  "checkpoint.checkpoint_ns": {
    meaning: "The namespace of the checkpoint: that of a subgraph, or empty for the graph",
    default: "empty",
    stateless: "ignores",
    graphs_only: true,
    example: "",
  },
  "checkpoint.checkpoint_map": {
    meaning: "Accepted for clients that send a checkpoint as they got it, and has no effect",
    has_no_effect: true,
    example: {},
  },
  checkpoint_id: {
    meaning: "Short for `checkpoint.checkpoint_id`, which takes precedence",
    stateless: "refuses",
    example: CHECKPOINT,
  },
  stream_mode: {
    meaning: "The [events](../guides/streaming.md#stream-modes) that the run records for its streams",
    default: "`values`",
    example: ["values", "custom"],
  },
  stream_subgraphs: {
    meaning: "Streams the events of subgraphs too, with their namespace",
    default: "`false`",
    graphs_only: true,
    example: true,
  },
  stream_resumable: { default: "`false`", example: true },
  multitask_strategy: { default: "`enqueue`", stateless: "ignores", example: "reject" },
  if_not_exists: {
    meaning: "What to do if the thread does not exist: answer 404, or create it",
    default: "`reject`",
    stateless: "ignores",
    example: "create",
  },
  on_disconnect: {
    meaning:
      "What happens to the run when the client that waits or streams disconnects. Requests that start a run in the background ignore it",
    default: "`continue`",
    example: "cancel",
  },
  on_completion: {
    meaning:
      "`delete` removes the run and its state one minute after its end, `keep` keeps both. Any other value counts as absent",
    default: "`delete`",
    needs_stateless: true,
    example: "keep",
  },
  after_seconds: { default: "`0`", example: 0 },
  interrupt_before: {
    meaning: "Stops before these [nodes](../guides/human-in-the-loop.md#breakpoints); `*` for all",
    default: "none",
    example: "*",
  },
  interrupt_after: {
    meaning: "Stops after these nodes; `*` for all. The run of a function is over after its only node",
    default: "none",
    graphs_only: true,
    example: ["echo"],
  },
  strict_resume: { default: "`false`", stateless: "ignores", example: true },
  durability: {
    meaning:
      "When checkpoints are stored: before the run goes on (`sync`), while it goes on (`async`), or at its end (`exit`). A stateless run that waits or is retried needs `sync` or `async` to continue where it was",
    default: "`async`; `exit` for a stateless run",
    example: "sync",
  },
  checkpoint_during: {
    meaning: "The older form of `durability`, which takes precedence: true is `async`, false is `exit`",
    example: true,
  },
  webhook: { example: "https://hooks.example/run" },
  feedback_keys: { example: ["helpful"] },
};

/** A field of a run request: its path, and its schema without null. */
interface Field {
  readonly path: string;
  readonly schema: JsonObject;
}

const isNull = (schema: Json): boolean => isObject(schema) && schema.type === "null";

/** Returns the alternatives of a schema, without null. */
const listAlternatives = (schema: JsonObject): readonly JsonObject[] =>
  Array.isArray(schema.anyOf) ? (schema.anyOf.filter((part) => !isNull(part)) as JsonObject[]) : [schema];

/** Returns the fields of a request. The members of `command`, `config` and `checkpoint` take the place of these. */
function listFields({ properties }: JsonObject): readonly Field[] {
  return Object.entries(properties as Readonly<Record<string, JsonObject>>).flatMap(([path, schema]): Field[] => {
    const [part] = listAlternatives(schema);
    if (!["command", "config", "checkpoint"].includes(path) || !part) return [{ path, schema }];
    const members = Object.entries(part.properties as Readonly<Record<string, JsonObject>>);
    return members.map(([name, member]) => ({ path: `${path}.${name}`, schema: member }));
  });
}

/** Returns the types of a schema in words, in the plural. */
const formatPlural = (schema: JsonObject): string =>
  listAlternatives(schema)
    .map((alternative) => `${formatType(alternative)}s`)
    .join(" or ");

/** Returns the type of a schema in words. */
function formatType(schema: JsonObject): string {
  const alternatives = listAlternatives(schema);
  const [first, second] = alternatives;
  if (alternatives.length === 2 && JSON.stringify(second?.items) === JSON.stringify(first))
    return `${formatType(first as JsonObject)}, or a list of these`;
  if (alternatives.length > 1) return [...new Set(alternatives.map(formatType))].join(" or ");
  const { type, enum: choices, items, const: constant, additionalProperties } = first as JsonObject;
  if (constant !== undefined) return `\`${constant}\``;
  if (Array.isArray(choices)) return choices.map((choice) => `\`${choice}\``).join(", ");
  if (type === "array") return isObject(items) ? `list of ${formatPlural(items)}` : "list";
  if (type === "object" && isObject(additionalProperties)) return `object of ${formatPlural(additionalProperties)}`;
  if (type === "string") return "text";
  if (type === "integer") return "whole number";
  if (type === "boolean") return "true or false";
  return typeof type === "string" ? type : "any JSON";
}

const INTRO = `# Run requests

\`\`\`sh
curl -s http://127.0.0.1:2024/runs/wait -d '{"assistant_id": "writer", "input": {"messages": "Hi"}, "metadata": {"source": "docs"}}'
\`\`\`

These requests start a run with the fields below:

- **on a thread**: \`POST /threads/{thread_id}/runs\`, \`…/runs/stream\` and \`…/runs/wait\`;
- **stateless**: \`POST /runs\`, \`/runs/stream\`, \`/runs/wait\` and \`/runs/batch\`, which takes a list;
- **crons**: \`POST /runs/crons\`, \`POST /threads/{thread_id}/runs/crons\` and \`PATCH /runs/crons/{cron_id}\`, for the runs that they start.

\`service.runs\` takes the same fields [in process](../guides/in-process.md). The SDKs name some of them in camel case. Null counts as
absent. Unknown fields are ignored; \`greenroom dev\` logs them. A field of another type is 422.

- **Thread**, **Stateless**, **Cron**: ✓ the request takes the field; – it ignores it; 400 it is refused.
- **Functions**: ✓ if the field has an effect for functions, too: plain functions, streams of the AI SDK, and
  [durable functions](../guides/durable-functions.md), for which all is alike. LangGraph.js graphs use every field that the
  request takes.

The header \`Idempotency-Key\` makes a request [safe to repeat](../guides/double-texting.md#idempotent-requests).

| Field | Type | Default | Thread | Stateless | Cron | Functions | Meaning |
|---|---|---|---|---|---|---|---|
`;

/** Returns the row of a field. Throws if the field has no text or no meaning. */
function formatRow({ path, schema }: Field, cronFields: object): string {
  const text = FIELD_TEXTS[path];
  const meaning = text?.meaning ?? schema.description;
  if (!text || typeof meaning !== "string") throw new Error(`Describe ${path} in scripts/openapi/run-fields.ts`);
  const [name = ""] = path.split(".");
  const mark = (isUsed: boolean): string => (isUsed && !text.has_no_effect ? "✓" : "–");
  const cells = [
    `\`${path}\``,
    formatType(schema).replaceAll("|", "\\|"),
    text.default ?? "–",
    mark(!text.needs_stateless),
    text.stateless === "refuses" ? "400" : mark(text.stateless !== "ignores"),
    mark(Object.hasOwn(cronFields, name)),
    mark(!text.graphs_only),
    meaning.replace(/\.$/, ""),
  ];
  return `| ${cells.join(" | ")} |`;
}

/** Returns the page of the fields of \`RunCreate\`. Throws if a field has no text or meaning, or a text no field. */
export function runFieldsPage({ components }: JsonObject): string {
  const schemas = (components as JsonObject).schemas as Readonly<Record<string, JsonObject>>;
  const fields = listFields(schemas.RunCreate as JsonObject);
  const cronFields = (schemas.CronCreate as { readonly properties: object }).properties;
  const unknown = Object.keys(FIELD_TEXTS).filter((path) => !fields.some((field) => field.path === path));
  if (unknown.length > 0)
    throw new Error(`scripts/openapi/run-fields.ts describes fields that do not exist: ${unknown}`);
  const notInSchema = CRON_RUN_OPTIONS.filter((name) => !Object.hasOwn(cronFields, name));
  if (notInSchema.length > 0) throw new Error(`CronCreate does not have ${notInSchema}`);
  const rows = fields.map((field) => formatRow(field, cronFields));
  const note = "<!-- Written by `node scripts/openapi/mod.ts`. Do not edit. -->";
  return `${note}\n\n${INTRO}${rows.join("\n")}\n`;
}

/** Writes lib/http/openapi.json: the built routes, their request schemas as the server checks them, and their answers. */
import { readFileSync, writeFileSync } from "node:fs";
import { toJsonSchema } from "@valibot/to-json-schema";
import * as parse from "../lib/http/parse.ts";
import type { JsonObject } from "../lib/json.ts";

type Schema = parse.Fields<unknown>;

interface Operation {
  readonly tag: string;
  readonly summary: string;
  readonly body?: Schema;
  readonly query?: Schema;
  readonly header?: Readonly<Record<string, string>>;
  /** Response headers by name. */
  readonly answers?: readonly string[];
  /** The schema of the 200 answer; absent: 204. */
  readonly ok?: JsonObject | "stream";
  readonly also204?: string;
  readonly errors: readonly number[];
}

// ------------------------------------------------------------------ answers

const ref = (name: string): JsonObject => ({ $ref: `#/components/schemas/${name}` });
const list = (items: JsonObject): JsonObject => ({ type: "array", items });
const nullable = (schema: JsonObject): JsonObject => ({ anyOf: [schema, { type: "null" }] });
const string: JsonObject = { type: "string" };
const uuid: JsonObject = { type: "string", format: "uuid" };
const time: JsonObject = { type: "string", format: "date-time" };
const object: JsonObject = { type: "object" };
const any: JsonObject = {};
const count: JsonObject = { type: "integer", minimum: 0 };

function record(properties: JsonObject, optional: readonly string[] = []): JsonObject {
  return { type: "object", properties, required: Object.keys(properties).filter((key) => !optional.includes(key)) };
}

const assistant: JsonObject = {
  assistant_id: uuid,
  graph_id: string,
  name: string,
  description: nullable(string),
  config: object,
  context: object,
  metadata: object,
  version: { type: "integer", minimum: 1 },
  created_at: time,
};

const schemas: JsonObject = {
  Assistant: record({ ...assistant, updated_at: time }),
  AssistantVersion: record(assistant),
  Thread: record({
    thread_id: uuid,
    created_at: time,
    updated_at: time,
    state_updated_at: time,
    metadata: object,
    status: { type: "string", enum: ["idle", "busy", "interrupted", "error"] },
    config: object,
    values: any,
    interrupts: { type: "object", additionalProperties: list(ref("Interrupt")) },
    error: any,
  }),
  Run: record({
    run_id: uuid,
    thread_id: uuid,
    assistant_id: uuid,
    created_at: time,
    updated_at: time,
    status: { type: "string", enum: ["pending", "running", "success", "error", "timeout", "interrupted"] },
    metadata: object,
    kwargs: object,
    multitask_strategy: { type: "string", enum: ["reject", "enqueue", "interrupt", "rollback"] },
  }),
  ThreadState: record({
    values: any,
    next: list(string),
    tasks: list(ref("Task")),
    metadata: nullable(object),
    created_at: nullable(time),
    checkpoint: nullable(ref("Checkpoint")),
    parent_checkpoint: nullable(ref("Checkpoint")),
    interrupts: list(ref("Interrupt")),
  }),
  Task: record(
    {
      id: string,
      name: string,
      path: any,
      error: any,
      interrupts: list(ref("Interrupt")),
      checkpoint: any,
      state: nullable(ref("ThreadState")),
      result: any,
    },
    ["path"],
  ),
  Checkpoint: record({
    thread_id: uuid,
    checkpoint_ns: string,
    checkpoint_id: string,
    checkpoint_map: nullable(object),
  }),
  Interrupt: record({ id: string, value: any }),
  DrawnGraph: record({
    nodes: list(record({ id: string, type: string, data: any, metadata: any }, ["type", "data", "metadata"])),
    edges: list(
      record({ source: string, target: string, data: string, conditional: { type: "boolean" } }, [
        "data",
        "conditional",
      ]),
    ),
  }),
  GraphSchemas: record({
    graph_id: string,
    input_schema: nullable(object),
    output_schema: nullable(object),
    state_schema: nullable(object),
    config_schema: nullable(object),
    context_schema: nullable(object),
  }),
  Result: {
    description:
      "The final values of the run, `{__interrupt__: […]}` or `{__error__: {error, message}}`. White space comes before it while the run goes on.",
  },
  Error: record({ detail: string }),
};

const ERRORS: Readonly<Record<number, string>> = {
  400: "The body is not valid JSON, or its fields contradict each other",
  404: "Not found",
  409: "Conflict: the id exists, or the thread is busy",
  413: "The body is larger than 10 MiB",
  422: "A field is not what it must be; `detail` names it",
  501: "Asks for something this version does not serve",
  503: "No run can be executed any more",
};

const HEADERS: Readonly<Record<string, JsonObject>> = {
  "Content-Location": { description: "The path of the run, relative to the mount", schema: string },
  Location: { description: "The path to read on from, relative to the mount", schema: string },
  "X-Pagination-Total": { description: "How many match in all", schema: count },
  "X-Pagination-Next": { description: "The next offset; absent on the last page", schema: count },
};
const PAGES = ["X-Pagination-Total", "X-Pagination-Next"];

// --------------------------------------------------------------- operations

const newRun = { tag: "Runs", body: parse.runCreate, errors: [400, 404, 409, 413, 422, 501] };
const LAST_EVENT = { "Last-Event-ID": "The last event seen; `-1` for all that are kept" };

const OPERATIONS: Readonly<Record<string, Operation>> = {
  "post /assistants": {
    tag: "Assistants",
    summary: "Create an assistant",
    body: parse.assistantCreate,
    ok: ref("Assistant"),
    errors: [400, 404, 409, 413, 422],
  },
  "post /assistants/search": {
    tag: "Assistants",
    summary: "Search assistants",
    body: parse.assistantSearch,
    ok: list(ref("Assistant")),
    answers: PAGES,
    errors: [400, 413, 422],
  },
  "post /assistants/count": {
    tag: "Assistants",
    summary: "Count assistants",
    body: parse.assistantCount,
    ok: count,
    errors: [400, 413, 422],
  },
  "get /assistants/{assistant_id}": {
    tag: "Assistants",
    summary: "Get an assistant",
    ok: ref("Assistant"),
    errors: [404, 422],
  },
  "patch /assistants/{assistant_id}": {
    tag: "Assistants",
    summary: "Make a new version of an assistant and activate it",
    body: parse.assistantPatch,
    ok: ref("Assistant"),
    errors: [400, 404, 413, 422],
  },
  "delete /assistants/{assistant_id}": {
    tag: "Assistants",
    summary: "Delete an assistant with all its versions",
    query: parse.assistantDeletion,
    errors: [404, 409, 422],
  },
  "post /assistants/{assistant_id}/versions": {
    tag: "Assistants",
    summary: "List the versions of an assistant, newest first",
    body: parse.versionSearch,
    ok: list(ref("AssistantVersion")),
    errors: [400, 404, 413, 422],
  },
  "post /assistants/{assistant_id}/latest": {
    tag: "Assistants",
    summary: "Activate a version, named in the body or in the query",
    body: parse.latest,
    query: parse.latest,
    ok: ref("Assistant"),
    errors: [400, 404, 413, 422],
  },
  "get /assistants/{assistant_id}/graph": {
    tag: "Assistants",
    summary: "Get the nodes and edges of the graph",
    query: parse.drawing,
    ok: ref("DrawnGraph"),
    errors: [404, 422],
  },
  "get /assistants/{assistant_id}/schemas": {
    tag: "Assistants",
    summary: "Get the schemas of the graph",
    ok: ref("GraphSchemas"),
    errors: [404, 422],
  },
  "get /assistants/{assistant_id}/subgraphs": {
    tag: "Assistants",
    summary: "Get the schemas of the subgraphs",
    query: parse.subgraphSearch,
    ok: { type: "object", additionalProperties: ref("GraphSchemas") },
    errors: [404, 422],
  },
  "get /assistants/{assistant_id}/subgraphs/{namespace}": {
    tag: "Assistants",
    summary: "Get the schemas of one subgraph",
    query: parse.subgraphSearch,
    ok: { type: "object", additionalProperties: ref("GraphSchemas") },
    errors: [404, 422],
  },
  "post /threads": {
    tag: "Threads",
    summary: "Create a thread",
    body: parse.threadCreate,
    ok: ref("Thread"),
    errors: [400, 409, 413, 422, 501],
  },
  "post /threads/search": {
    tag: "Threads",
    summary: "Search threads",
    body: parse.threadSearch,
    ok: list(ref("Thread")),
    answers: PAGES,
    errors: [400, 413, 422, 501],
  },
  "post /threads/count": {
    tag: "Threads",
    summary: "Count threads",
    body: parse.threadCount,
    ok: count,
    errors: [400, 413, 422],
  },
  "get /threads/{thread_id}": { tag: "Threads", summary: "Get a thread", ok: ref("Thread"), errors: [404, 422] },
  "patch /threads/{thread_id}": {
    tag: "Threads",
    summary: "Merge metadata into a thread",
    body: parse.threadPatch,
    header: { Prefer: "`return=minimal` for an answer without a body" },
    ok: ref("Thread"),
    also204: "Changed, as `Prefer: return=minimal` asked",
    errors: [400, 404, 413, 422, 501],
  },
  "delete /threads/{thread_id}": {
    tag: "Threads",
    summary: "Delete a thread with its runs and checkpoints",
    errors: [404, 422],
  },
  "get /threads/{thread_id}/state": {
    tag: "Threads",
    summary: "Get the state of a thread",
    query: parse.stateQuery,
    ok: ref("ThreadState"),
    errors: [404, 422],
  },
  "get /threads/{thread_id}/state/{checkpoint_id}": {
    tag: "Threads",
    summary: "Get the state of a thread at a checkpoint",
    query: parse.stateQuery,
    ok: ref("ThreadState"),
    errors: [404, 422],
  },
  "post /threads/{thread_id}/state/checkpoint": {
    tag: "Threads",
    summary: "Get the state of a thread at a checkpoint, also one of a subgraph",
    body: parse.stateAt,
    ok: ref("ThreadState"),
    errors: [400, 404, 413, 422],
  },
  "get /threads/{thread_id}/history": {
    tag: "Threads",
    summary: "List the states of a thread, newest first",
    query: parse.historyQuery,
    ok: list(ref("ThreadState")),
    errors: [404, 422],
  },
  "post /threads/{thread_id}/history": {
    tag: "Threads",
    summary: "List the states of a thread, newest first, filtered",
    body: parse.historySearch,
    ok: list(ref("ThreadState")),
    errors: [400, 404, 413, 422],
  },
  "post /threads/{thread_id}/runs": {
    ...newRun,
    summary: "Create a run on a thread",
    ok: ref("Run"),
    answers: ["Content-Location"],
  },
  "post /threads/{thread_id}/runs/stream": {
    ...newRun,
    summary: "Create a run on a thread and stream its events",
    ok: "stream",
    answers: ["Content-Location", "Location"],
  },
  "post /threads/{thread_id}/runs/wait": {
    ...newRun,
    summary: "Create a run on a thread and wait for its result",
    ok: ref("Result"),
    answers: ["Content-Location", "Location"],
  },
  "get /threads/{thread_id}/runs": {
    tag: "Runs",
    summary: "List the runs of a thread, newest first",
    query: parse.runSearch,
    ok: list(ref("Run")),
    errors: [404, 422],
  },
  "get /threads/{thread_id}/runs/{run_id}": { tag: "Runs", summary: "Get a run", ok: ref("Run"), errors: [404, 422] },
  "delete /threads/{thread_id}/runs/{run_id}": {
    tag: "Runs",
    summary: "Delete a run that is not running",
    errors: [404, 409, 422],
  },
  "get /threads/{thread_id}/runs/{run_id}/join": {
    tag: "Runs",
    summary: "Wait for the result of a run",
    query: parse.joinQuery,
    ok: ref("Result"),
    errors: [404, 422],
  },
  "get /threads/{thread_id}/runs/{run_id}/stream": {
    tag: "Runs",
    summary: "Stream the events of a run",
    query: parse.joinStreamQuery,
    header: LAST_EVENT,
    ok: "stream",
    answers: ["Location"],
    errors: [404, 422],
  },
  "post /runs": { ...newRun, summary: "Create a stateless run", ok: ref("Run"), answers: ["Content-Location"] },
  "post /runs/stream": {
    ...newRun,
    summary: "Create a stateless run and stream its events",
    ok: "stream",
    answers: ["Content-Location", "Location"],
  },
  "post /runs/wait": {
    ...newRun,
    summary: "Create a stateless run and wait for its result",
    ok: ref("Result"),
    answers: ["Content-Location"],
  },
  "get /runs/{run_id}/stream": {
    tag: "Runs",
    summary: "Stream the events of a stateless run",
    query: parse.joinStreamQuery,
    header: LAST_EVENT,
    ok: "stream",
    answers: ["Location"],
    errors: [404, 422],
  },
  "get /ok": {
    tag: "Server",
    summary: "Whether runs can be executed",
    ok: record({ ok: { type: "boolean", const: true } }),
    errors: [503],
  },
  "get /info": {
    tag: "Server",
    summary: "Versions and what is offered",
    ok: record({
      version: string,
      api_version: string,
      flags: { type: "object", additionalProperties: { type: "boolean" } },
    }),
    errors: [],
  },
  "get /openapi.json": { tag: "Server", summary: "This description", ok: object, errors: [] },
};

// ------------------------------------------------------------------ writing

/** The JSON Schema of what a client may send. In a body, null stands for an absent field. */
function requestSchema(schema: Schema, place: "body" | "query"): JsonObject {
  const { $schema, ...rest } = toJsonSchema(schema, {
    target: "draft-2020-12",
    typeMode: "input",
    errorMode: "ignore",
    overrideSchema: ({ valibotSchema, jsonSchema }) => {
      const open = Object.keys(jsonSchema).length === 0;
      if (place === "query" || open || valibotSchema.type !== "optional") return undefined;
      const { default: standard, ...present } = jsonSchema;
      return {
        anyOf: [...(present.anyOf ?? [present]), { type: "null" }],
        ...(standard === undefined ? {} : { default: standard }),
      };
    },
  });
  return JSON.parse(JSON.stringify(rest, withoutEmpty)) as JsonObject;
}

function withoutEmpty(key: string, value: unknown): unknown {
  const empty = typeof value === "object" && value !== null && Object.keys(value).length === 0;
  return empty && (key === "required" || key === "properties") ? undefined : value;
}

function parameters(path: string, operation: Operation): JsonObject[] {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name: name as string,
    in: "path",
    required: true,
    schema: name === "thread_id" || name === "run_id" ? uuid : string,
    ...(name === "assistant_id" ? { description: "A UUID, or a graph id for its default assistant" } : {}),
  }));
  const query = operation.query ? (requestSchema(operation.query, "query").properties as JsonObject) : {};
  const inQuery = Object.entries(query).map(([name, schema]) => ({ name, in: "query", required: false, schema }));
  const inHeader = Object.entries(operation.header ?? {}).map(([name, description]) => ({
    name,
    in: "header",
    required: false,
    description,
    schema: string,
  }));
  return [...inPath, ...inQuery, ...inHeader];
}

function responses(operation: Operation): JsonObject {
  const headers = Object.fromEntries((operation.answers ?? []).map((name) => [name, HEADERS[name] as JsonObject]));
  const { ok } = operation;
  const success: JsonObject = {};
  if (ok === undefined) success["204"] = { description: "Done" };
  else {
    const content: JsonObject =
      ok === "stream"
        ? { "text/event-stream": { schema: { type: "string", description: "Frames of `id`, `event` and `data`" } } }
        : { "application/json": { schema: ok } };
    success["200"] = { description: "Success", ...(operation.answers ? { headers } : {}), content };
  }
  if (operation.also204) success["204"] = { description: operation.also204 };
  const failures = operation.errors.map((status) => [
    String(status),
    { description: ERRORS[status] as string, content: { "application/json": { schema: ref("Error") } } },
  ]);
  return { ...success, ...Object.fromEntries(failures) };
}

function requestBody(schema: Schema, names: Map<Schema, string>): JsonObject {
  const name = names.get(schema);
  const required = Object.values(schema.entries).some((entry) => entry.type !== "optional");
  return { required, content: { "application/json": { schema: ref(name as string) } } };
}

/** The OpenAPI description of every built route. */
export function openapi(version: string): JsonObject {
  const names = new Map<Schema, string>([
    [parse.assistantCreate, "AssistantCreate"],
    [parse.assistantPatch, "AssistantPatch"],
    [parse.assistantSearch, "AssistantSearch"],
    [parse.assistantCount, "AssistantCount"],
    [parse.versionSearch, "VersionSearch"],
    [parse.latest, "Latest"],
    [parse.threadCreate, "ThreadCreate"],
    [parse.threadPatch, "ThreadPatch"],
    [parse.threadSearch, "ThreadSearch"],
    [parse.threadCount, "ThreadCount"],
    [parse.stateAt, "StateAt"],
    [parse.historySearch, "HistorySearch"],
    [parse.runCreate, "RunCreate"],
  ] as [Schema, string][]);
  const paths: Record<string, JsonObject> = {};
  for (const [key, operation] of Object.entries(OPERATIONS)) {
    const [method, path] = key.split(" ") as [string, string];
    const described: JsonObject = {
      tags: [operation.tag],
      summary: operation.summary,
      parameters: parameters(path, operation),
      ...(operation.body ? { requestBody: requestBody(operation.body, names) } : {}),
      responses: responses(operation),
    };
    paths[path] = { ...paths[path], [method]: described };
  }
  const requests = [...names].map(([schema, name]) => [name, requestSchema(schema, "body")]);
  return {
    openapi: "3.1.0",
    info: { title: "Greenroom", version, description: "Agents, threads and runs behind one handler." },
    paths,
    components: { schemas: { ...schemas, ...Object.fromEntries(requests) } },
  };
}

if (import.meta.main) {
  const root = new URL("../", import.meta.url);
  const { version } = JSON.parse(readFileSync(new URL("package.json", root), "utf8")) as { version: string };
  writeFileSync(new URL("lib/http/openapi.json", root), `${JSON.stringify(openapi(version), null, 1)}\n`);
}

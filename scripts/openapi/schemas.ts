/** Schemas of the answers. */
import { REASONS, STATUS } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";

export const ref = (name: string): JsonObject => ({ $ref: `#/components/schemas/${name}` });
export const list = (items: JsonObject): JsonObject => ({ type: "array", items });
export const nullable = (schema: JsonObject): JsonObject => ({ anyOf: [schema, { type: "null" }] });
export const string: JsonObject = { type: "string" };
export const uuid: JsonObject = { type: "string", format: "uuid" };
export const time: JsonObject = { type: "string", format: "date-time" };
export const object: JsonObject = { type: "object" };
export const any: JsonObject = {};
export const count: JsonObject = { type: "integer", minimum: 0 };
/** The codes of errors. Later releases add some. */
const errorCode: JsonObject = {
  type: "string",
  enum: [...Object.keys(STATUS), ...Object.keys(REASONS)].sort(),
  description: "Stable. Later releases can add codes",
};

export function record(properties: JsonObject, optional: readonly string[] = []): JsonObject {
  return { type: "object", properties, required: Object.keys(properties).filter((key) => !optional.includes(key)) };
}

const stored = record({ count, bytes: count });

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

export const schemas: JsonObject = {
  Assistant: record({ ...assistant, updated_at: time }),
  AssistantVersion: record(assistant),
  Thread: record(
    {
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
      ttl: {
        ...nullable(record({ strategy: string, ttl_minutes: { type: "number" }, expires_at: time })),
        description: "Present with `include=ttl`",
      },
      extracted: { ...object, description: "Present in searches with `extract`" },
    },
    ["ttl", "extracted"],
  ),
  Run: record(
    {
      run_id: uuid,
      thread_id: uuid,
      assistant_id: uuid,
      assistant_version: {
        ...nullable(count),
        description: "The version of the assistant that it executes; null for a run of an older release",
      },
      created_at: time,
      updated_at: time,
      status: { type: "string", enum: ["pending", "running", "success", "error", "timeout", "interrupted"] },
      metadata: object,
      kwargs: { ...object, description: "The request, without credentials and without the query of its webhook" },
      multitask_strategy: { type: "string", enum: ["reject", "enqueue", "interrupt", "rollback"] },
      cancel_reason: { ...nullable(string), description: "The `reason` of the call that cancelled it" },
      waiting_for: {
        ...list(record({ kind: string, name: string, until: nullable(time) })),
        description: "What a suspended run of a durable function waits for",
      },
    },
    ["waiting_for"],
  ),
  ThreadStorage: record({
    thread_id: uuid,
    total_bytes: count,
    checkpoints: stored,
    channel_values: record({
      count,
      bytes: count,
      by_channel: { type: "object", additionalProperties: record({ versions: count, bytes: count }) },
    }),
    pending_writes: stored,
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
  CheckpointAddress: record({ thread_id: uuid, checkpoint_ns: string, checkpoint_id: string }),
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
      "The final values of the run, `{__interrupt__: […]}` or `{__error__: {error, message}}`; with the links of its `feedback_keys` in `__feedback__`. White space comes before it while the run goes on.",
  },
  McpMessage: {
    description:
      "A JSON-RPC message of the Model Context Protocol, also where it is an error; a list for a batch. A call with a progress token gets server-sent events. White space comes before the answer of a call while it goes on.",
  },
  A2aMessage: {
    description:
      "A JSON-RPC answer of the Agent2Agent protocol, also where it is an error; server-sent events for a stream. White space comes before the answer while a run goes on.",
  },
  AgentCard: { description: "The card of an agent, as version 1.0 or 0.3 of the Agent2Agent protocol writes it" },
  ProtectedResource: record(
    {
      resource: string,
      authorization_servers: list(string),
      scopes_supported: list(string),
      bearer_methods_supported: list(string),
    },
    ["scopes_supported"],
  ),
  CommandAnswer: {
    description: "What the command got wrong is an answer of type `error`, with status 200",
    anyOf: [
      record({
        type: { type: "string", const: "success" },
        id: count,
        result: object,
        meta: record({ thread_id: string, applied_through_seq: count }),
      }),
      record({
        type: { type: "string", const: "error" },
        id: count,
        error: string,
        message: string,
        meta: record({ thread_id: string }),
      }),
    ],
  },
  Issue: record({
    loc: {
      ...list({ anyOf: [string, { type: "integer" }] }),
      description: "Where: `body` or `query`, names and indexes",
    },
    msg: string,
    type: { ...string, description: "A code such as `missing` or `value_error`" },
  }),
  Error: record(
    {
      detail: {
        anyOf: [
          { ...string, description: "What is wrong" },
          { ...list(ref("Issue")), description: "422: all problems" },
        ],
      },
      code: errorCode,
      message: { ...string, description: "The same text as `detail`, on routes whose clients read it" },
      run_id: { ...uuid, description: "Of `interrupt_already_answered`: the run that answers it" },
    },
    ["message", "run_id"],
  ),
  RpcRequest: record(
    {
      jsonrpc: { type: "string", const: "2.0" },
      id: { anyOf: [string, { type: "number" }, { type: "null" }], description: "Absent in notifications" },
      method: string,
      params: object,
    },
    ["id", "params", "method"],
  ),
  RpcError: record({
    jsonrpc: { type: "string", const: "2.0" },
    id: { anyOf: [string, { type: "number" }, { type: "null" }] },
    error: record({ code: { type: "integer" }, message: string }),
  }),
  Unhealthy: record({
    ok: { type: "boolean", const: false },
    detail: string,
    services: record({ worker: record({ ok: { type: "boolean" } }), database: record({ ok: { type: "boolean" } }) }),
  }),
  NotReady: record({ ok: { type: "boolean", const: false }, detail: string }),
};

/** Answers that are no component of their own, by the name that the route table gives them. */
const INLINE: Readonly<Record<string, JsonObject>> = {
  any,
  count,
  object,
  SubgraphSchemas: { type: "object", additionalProperties: ref("GraphSchemas") },
  PrunedThreads: record({ pruned_count: count }),
  UpdatedState: record({ checkpoint: ref("CheckpointAddress"), configurable: ref("CheckpointAddress") }),
  OptionalStoreItem: nullable(ref("StoreItem")),
  StoreItems: record({ items: list(ref("StoreItem")) }),
  StoreNamespaces: record({ namespaces: list(list(string)) }),
  FeedbackTokens: { anyOf: [ref("FeedbackToken"), list(ref("FeedbackToken"))] },
  FeedbackStats: { type: "object", additionalProperties: ref("FeedbackNumbers") },
  Health: record({
    ok: { type: "boolean", const: true },
    services: record({ worker: record({ ok: { type: "boolean" } }), database: record({ ok: { type: "boolean" } }) }),
  }),
  Readiness: record({ ok: { type: "boolean", const: true } }),
  Info: record(
    {
      version: string,
      api_version: string,
      langgraph_js_version: string,
      flags: { type: "object", additionalProperties: { type: "boolean" } },
    },
    ["langgraph_js_version"],
  ),
  PlatformInfo: record({
    version: string,
    license_expiration_time: { type: "null" },
    instance_flags: object,
    batch_ingest_config: record({
      use_multipart_endpoint: { type: "boolean", const: false },
      size_limit: count,
      size_limit_bytes: count,
      scale_up_nthreads_limit: count,
      scale_up_qsize_trigger: count,
      scale_down_nempty_trigger: count,
    }),
  }),
};

/** The content of a 200 answer, by the name that the route table gives it; `Name[]` is a list. */
export function toContent(answer: string): JsonObject {
  const frames = { type: "string", description: "Frames of `id`, `event` and `data`" };
  if (answer === "stream") return { "text/event-stream": { schema: frames } };
  if (answer === "html") return { "text/html": { schema: string } };
  if (answer === "text") return { "text/plain": { schema: string }, "application/json": { schema: object } };
  if (answer === "csv") return { "text/csv": { schema: string } };
  const name = answer.replace(/\[\]$/, "");
  const schema = INLINE[name] ?? ref(name);
  return { "application/json": { schema: name === answer ? schema : list(schema) } };
}

export const ERRORS: Readonly<Record<number, string>> = {
  400: "The body is not valid JSON, or its fields contradict each other",
  401: "No valid credential was sent",
  403: "The credential does not permit this request",
  404: "Not found",
  405: "The path does not take this method",
  406: "The client does not accept what the route sends",
  408: "The body did not arrive in time (`http.body_timeout_ms`)",
  409: "Conflict: the id exists, the thread is busy, too many runs are pending, or an Idempotency-Key was used for something else or for a run that is gone",
  410: "The link has expired",
  413: "The body is larger than `http.max_body_bytes` or holds more values than `http.max_body_values`",
  415: "The body is not declared as JSON",
  422: "A field is invalid; `detail` names it",
  426: "The request is no WebSocket handshake",
  429: "Too many submissions to one link",
  501: "The host cannot open WebSockets",
  503: "The server is stopping, its worker hangs, or the database cannot be reached",
  507: "The disk is full; nothing was stored",
};

export const HEADERS: Readonly<Record<string, JsonObject>> = {
  ETag: { description: "The version of the card, for `If-None-Match`", schema: string },
  "Content-Location": { description: "The path of the run, relative to the mount", schema: string },
  Location: { description: "The path to continue reading from, relative to the mount", schema: string },
  "x-vercel-ai-ui-message-stream": { description: "`v1`: the chunks are those of the AI SDK", schema: string },
  "X-Pagination-Total": { description: "The number of all matches", schema: count },
  "X-Pagination-Next": { description: "The next offset; absent on the last page", schema: count },
};

/** Schemas of the routes under `/api/v1`, and the requests that routes read by hand. */
import { MAX_WORKSPACES_PER_PAGE } from "../../lib/http/routes/platform.ts";
import type { JsonObject } from "../../lib/json.ts";
import { list, nullable, object, record, ref, string, time, uuid } from "./schemas.ts";

const number: JsonObject = { type: "number" };
const boolean: JsonObject = { type: "boolean" };
const count: JsonObject = { type: "integer", minimum: 0 };
const enumeration = (...values: readonly string[]): JsonObject => ({ type: "string", enum: [...values] });
const source = enumeration("api", "model", "app", "auto_eval");
const moment: JsonObject = {
  type: "string",
  description: "RFC 3339; UTC where no offset is given; a date alone is its start",
};

const score = nullable({ anyOf: [number, boolean] });
const value = nullable({ anyOf: [number, boolean, string, object] });
const comment = nullable({ type: "string", maxLength: 20_000 });
const correction = nullable({ anyOf: [object, string] });
const feedbackFields: JsonObject = { score, value, comment, correction };

/** The schemas of the requests and responses. */
export const platformSchemas: JsonObject = {
  FeedbackToken: record({
    id: uuid,
    url: { type: "string", description: "Empty for keys without `feedback:create`" },
    expires_at: { ...nullable(time), description: "Null while the run it was made with has not ended" },
    feedback_key: string,
  }),
  Submitted: record({ feedback_id: uuid, message: string }),
  Feedback: record({
    id: uuid,
    run_id: nullable(uuid),
    trace_id: nullable(uuid),
    session_id: uuid,
    key: string,
    ...feedbackFields,
    created_at: time,
    modified_at: time,
    start_time: nullable(time),
    feedback_source: record({
      type: source,
      metadata: nullable(object),
      user_id: nullable(uuid),
      user_name: { type: "null" },
    }),
    comparative_experiment_id: { type: "null" },
    feedback_group_id: { type: "null" },
    feedback_thread_id: nullable(uuid),
    extra: nullable(object),
    is_root: { type: "boolean", const: true },
  }),
  FeedbackNumbers: record({
    n: count,
    avg: nullable(number),
    min: nullable(number),
    max: nullable(number),
    values: { type: "object", additionalProperties: count },
  }),
  Workspace: record({ id: uuid, display_name: string, organization_id: uuid }),
  Usage: record({
    stride: record({ days: count, hours: count }),
    usage: list(
      record(
        {
          time_bucket: time,
          dimensions: {
            anyOf: [
              record({ workspace_id: nullable(uuid), workspace_name: nullable(string) }),
              record({ project_id: nullable(uuid), project_name: nullable(string) }),
              record({ user_id: nullable(uuid), user_email: nullable(string) }),
              record({ api_key_short_key: nullable(string) }),
            ],
          },
          traces: { type: "integer", minimum: 1 },
          tokens_in: count,
          tokens_out: count,
          cost_usd: number,
        },
        ["tokens_in", "tokens_out", "cost_usd"],
      ),
    ),
  }),
};

const query = (name: string, schema: JsonObject, required = false): JsonObject => ({
  name,
  in: "query",
  required,
  schema,
});
const page = [
  query("limit", { type: "integer", minimum: 1, maximum: 100, default: 100 }),
  query("offset", { ...count, default: 0 }),
];
const filter = [
  query("run", list(uuid)),
  query("session", list(uuid)),
  query("key", list(string)),
  query("source", list(source)),
  query("user", list(uuid)),
  query("has_comment", boolean),
  query("has_score", boolean),
  query("min_created_at", moment),
  query("max_created_at", moment),
  query("level", enumeration("run", "session")),
];
const report = [
  query("start_time", moment, true),
  query("end_time", moment, true),
  {
    ...query("workspace_ids", { ...list(uuid), minItems: 1, maxItems: 1000 }, true),
    description: "Repeated; a single one may be a list with commas",
  },
  query("group_by", { ...enumeration("workspace", "project", "user", "api_key"), default: "workspace" }),
  {
    ...query("include", enumeration("tokens")),
    description: "Adds tokens and cost to each record, or as last columns",
  },
];

/** A query and a body that a route reads by hand: without a schema of its own. */
export interface HandRead {
  readonly query?: readonly JsonObject[];
  readonly body?: JsonObject;
  /** True: the body is a message of JSON-RPC, whose errors are answers with status 200. */
  readonly is_rpc?: boolean;
}

/** The schema of the event that a route reads by hand. */
const anyEvent: JsonObject = { description: "Any JSON but null, at most 256 KiB" };

export const HAND_READ: Readonly<Record<string, HandRead>> = {
  "post /threads/:thread_id/events/:name": { body: anyEvent },
  "post /greenroom/events/:address": { body: anyEvent },
  "post /mcp": { body: { anyOf: [ref("RpcRequest"), list(ref("RpcRequest"))] }, is_rpc: true },
  "post /a2a/:assistant_id": { body: ref("RpcRequest"), is_rpc: true },
  "get /.well-known/agent-card.json": {
    query: [{ ...query("assistant_id", string), description: "Needed where the server has several agents" }],
  },
  "get /ai/:assistant_id/chat/:chat_id/stream": {
    query: [
      { ...query("ai_sdk", { type: "integer", enum: [5, 6, 7], default: 7 }), description: "The version of `ai`" },
    ],
  },
  "get /store/items": {
    query: [
      { ...query("namespace", string, true), description: "Labels, joined by dots" },
      query("key", string, true),
      query("refresh_ttl", boolean),
    ],
  },
  "get /api/v1/workspaces": {
    query: [
      query("limit", { type: "integer", minimum: 1, maximum: MAX_WORKSPACES_PER_PAGE, default: 100 }),
      ...page.slice(1),
    ],
  },
  "post /api/v1/feedback/tokens/:token+": { body: ref("Submission") },
  "get /api/v1/feedback/tokens/:token+": {
    query: [
      query("score", string),
      query("value", string),
      query("comment", string),
      { ...query("correction", string), description: "JSON: an object or a string" },
    ],
  },
  "post /api/v1/feedback/tokens": {
    body: { anyOf: [ref("FeedbackTokenCreate"), { ...list(ref("FeedbackTokenCreate")), maxItems: 100 }] },
  },
  "get /api/v1/feedback/tokens": { query: [query("run_id", uuid, true), ...page] },
  "get /api/v1/feedback/stats": { query: filter },
  "get /api/v1/feedback": { query: [...filter, ...page] },
  "post /api/v1/feedback": { body: ref("FeedbackCreate") },
  "patch /api/v1/feedback/:id": { body: ref("FeedbackPatch") },
  "get /api/v1/orgs/current/billing/granular-usage": { query: report },
  "get /api/v1/orgs/current/billing/granular-usage/export": {
    query: [...report, query("quote", { ...enumeration("needed", "text"), default: "needed" })],
  },
};

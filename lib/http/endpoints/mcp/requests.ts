/** The schemas of MCP's messages. The handlers receive their output. */
import * as v from "valibot";
import { isObject, type JsonObject } from "../../../json.ts";
import { UUID } from "../../../storage/identity.ts";
import type { TraceContext } from "../../../traces/ids.ts";
import { anyJson, anyObject } from "../../parse.ts";
import { type InputSchema, lenient, withDefault } from "../fields.ts";

/** The prefix of the members of `_meta` and of the protocol's extensions. */
export const META_PREFIX = "io.modelcontextprotocol/";

/** The id of a request, and the token of its progress. */
export type McpRequestId = string | number;

const rpcId = v.union([v.string(), v.number()]);

/** The members of `_meta` that describe the client. */
export interface RequestMeta {
  readonly progressToken: McpRequestId | undefined;
  /** Undefined if it is absent, as before 2026. Null if it is no text. */
  readonly protocolVersion: string | null | undefined;
  readonly capabilities: JsonObject | undefined;
  readonly trace: TraceContext;
}

const meta: InputSchema<RequestMeta> = v.pipe(
  v.object({
    progressToken: lenient(rpcId),
    [`${META_PREFIX}protocolVersion`]: v.optional(v.fallback(v.nullable(v.string()), null)),
    [`${META_PREFIX}clientCapabilities`]: lenient(anyObject),
    traceparent: lenient(v.string()),
    tracestate: lenient(v.string()),
  }),
  v.transform((input) => ({
    progressToken: input.progressToken,
    protocolVersion: input[`${META_PREFIX}protocolVersion`],
    capabilities: input[`${META_PREFIX}clientCapabilities`],
    trace: { traceparent: input.traceparent, tracestate: input.tracestate },
  })),
);

/** A message of a client. `notice` is one that the server ignores. */
export type McpMessage =
  | {
      readonly kind: "request";
      readonly id: McpRequestId;
      readonly method: string;
      readonly params: JsonObject;
      readonly meta: RequestMeta | undefined;
    }
  | { readonly kind: "cancel"; readonly id: McpRequestId }
  | { readonly kind: "reply"; readonly id: string; readonly result: JsonObject | null }
  | { readonly kind: "notice" };

const NOTICE: McpMessage = { kind: "notice" };
const version = v.literal("2.0");

const request = v.pipe(
  v.object({
    jsonrpc: version,
    id: v.union([v.string(), v.pipe(v.number(), v.safeInteger())]),
    method: v.string(),
    params: withDefault(anyObject, {}),
  }),
  v.transform(({ id, method, params }): McpMessage => {
    const { _meta } = v.parse(withMeta, params);
    return { kind: "request", id, method, params, meta: _meta };
  }),
);
const withMeta = v.object({ _meta: lenient(meta) });

/** A message without an id. */
const notification = v.pipe(
  v.object({
    jsonrpc: version,
    id: v.optional(v.never()),
    method: v.string(),
    params: withDefault(anyObject, {}),
  }),
  v.transform(({ method, params }): McpMessage => {
    if (method !== "notifications/cancelled") return NOTICE;
    const { requestId } = v.parse(cancelledParams, params);
    return requestId === undefined ? NOTICE : { kind: "cancel", id: requestId };
  }),
);
const cancelledParams = v.object({ requestId: lenient(rpcId) });

const reply = v.pipe(
  v.object({
    jsonrpc: version,
    id: lenient(v.string()),
    method: v.optional(v.never()),
    result: v.optional(anyJson),
    error: v.optional(anyJson),
  }),
  v.check((message) => "result" in message || "error" in message),
  v.transform(({ id, result = null }): McpMessage => {
    return id === undefined ? NOTICE : { kind: "reply", id, result: isObject(result) ? result : null };
  }),
);

/** A message of JSON-RPC. */
export const mcpMessage: InputSchema<McpMessage> = v.union([request, notification, reply]);

/** The header of a message that can be malformed. */
export const messageHeader: InputSchema<{ readonly id: McpRequestId | null; readonly method: string }> = v.object({
  id: v.fallback(v.nullable(rpcId), null),
  method: v.fallback(v.string(), ""),
});

/** Responses by the key of their request. */
export type InputResponses = Readonly<Record<string, JsonObject>>;

const inputResponses = v.pipe(
  anyObject,
  v.check((input) => Object.values(input).every(isObject), "must be an object of objects"),
) as unknown as InputSchema<InputResponses>;

/** The parameters of each method. */
export interface McpParams {
  readonly initialize: { readonly protocolVersion: string | undefined; readonly capabilities: JsonObject | undefined };
  readonly ping: object;
  readonly "server/discover": object;
  readonly "tools/list": { readonly cursor: number };
  readonly "tools/call": {
    readonly name: string;
    readonly arguments: JsonObject;
    readonly inputResponses: InputResponses;
    readonly requestState?: string | undefined;
  };
  readonly "tasks/get": TaskParams;
  readonly "tasks/update": TaskParams & { readonly inputResponses: InputResponses };
  readonly "tasks/cancel": TaskParams;
  readonly "subscriptions/listen": {
    readonly notifications: { readonly taskIds?: readonly string[] | undefined };
  };
}

export interface TaskParams {
  /** Undefined: it is no text, so there is no such task. */
  readonly taskId: string | undefined;
}

export type McpMethod = keyof McpParams;

/** The elicitation modes of a client: the ways to get input from its user. */
const modes = v.pipe(
  v.object({ form: v.optional(anyJson), url: v.optional(anyJson) }),
  v.transform((input): JsonObject => Object.fromEntries(Object.keys(input).map((mode) => [mode, {}]))),
);

/** The capabilities that the server uses. The id of the session contains them. */
const sessionCapabilities: InputSchema<JsonObject> = v.pipe(
  v.object({ elicitation: lenient(modes), sampling: lenient(modes), roots: lenient(modes) }),
  v.transform((input) => {
    const entries = Object.entries(input).filter((entry): entry is [string, JsonObject] => entry[1] !== undefined);
    return Object.fromEntries(entries);
  }),
);

/** The content of a session's id. */
export const sessionToken: InputSchema<readonly [nonce: string, capabilities: JsonObject]> = v.tuple([
  v.pipe(v.string(), v.regex(UUID)),
  sessionCapabilities,
]);

const UNKNOWN_CURSOR_TEXT = "is unknown";
const noParams: InputSchema<object> = v.object({});
const taskId = lenient(v.string());
const task: InputSchema<TaskParams> = v.object({ taskId });
/** The maximum number of tasks in a subscription. */
const MAX_SUBSCRIBED_TASKS = 50;
const TASK_IDS_TEXT = `must be a list of at most ${MAX_SUBSCRIBED_TASKS} ids`;

export const mcpParams: { readonly [Method in McpMethod]: InputSchema<McpParams[Method]> } = {
  initialize: v.object({
    protocolVersion: lenient(v.string()),
    capabilities: lenient(sessionCapabilities),
  }),
  ping: noParams,
  "server/discover": noParams,
  "tools/list": v.object({
    cursor: v.optional(
      v.pipe(
        v.union([v.string(), v.number()], UNKNOWN_CURSOR_TEXT),
        v.transform(String),
        v.regex(/^\d{1,6}$/, UNKNOWN_CURSOR_TEXT),
        v.transform(Number),
      ),
      0,
    ),
  }),
  "tools/call": v.object({
    name: v.string("must be a text"),
    arguments: withDefault(anyObject, {}),
    inputResponses: withDefault(inputResponses, {}),
    // A state that is no text cannot be of this server.
    requestState: v.optional(v.fallback(v.string(), "")),
  }),
  "tasks/get": task,
  "tasks/update": v.object({ taskId, inputResponses: withDefault(inputResponses, {}) }),
  "tasks/cancel": task,
  "subscriptions/listen": v.object({
    notifications: v.object(
      {
        taskIds: v.optional(
          v.pipe(v.array(v.string(), TASK_IDS_TEXT), v.maxLength(MAX_SUBSCRIBED_TASKS, TASK_IDS_TEXT)),
        ),
      },
      "must be an object",
    ),
  }),
};

/** The response of a user to a form or a page. */
export type ElicitResult =
  | { readonly action: "cancel" }
  | { readonly action: "decline" }
  | { readonly action: "accept"; readonly content: JsonObject };

export const elicitResult: InputSchema<ElicitResult> = v.variant("action", [
  v.object({ action: v.literal("cancel") }),
  v.object({ action: v.literal("decline") }),
  v.object({ action: v.literal("accept"), content: withDefault(anyObject, {}) }),
]);

/** The routes of MCP: agents as tools, for both generations of the protocol. */
import { ServiceError } from "../../../errors.ts";
import type { Json, JsonObject } from "../../../json.ts";
import type { ServiceOptions } from "../../../options.ts";
import { ClientDisconnectedError } from "../../byte-budget.ts";
import { acceptedResponse, type HeaderValues, jsonResponse } from "../../respond.ts";
import { createRouteGroup, type RequestContext, type Route } from "../../route.ts";
import { createEventStreamResponse } from "../../sse.ts";
import { createWaitResponse } from "../../wait-response.ts";
import { tryParseInput } from "../fields.ts";
import { canModelAnswer } from "../permissions.ts";
import { handleNotification } from "./elicitation.ts";
import { subscribeToTasks } from "./listen.ts";
import { createToolCallMessages } from "./progress.ts";
import {
  checkRequest,
  checkTransport,
  LEGACY_VERSIONS,
  McpError,
  type McpRequest,
  type McpRequestHeader,
  MODERN_VERSION,
  parseBody,
  readBatch,
  readMessage,
  SERVER_INFO,
  SSE_HEADERS,
  TASKS_EXTENSION,
  toErrorMessage,
  toErrorResponse,
  toResultMessage,
} from "./protocol.ts";
import { messageHeader } from "./requests.ts";
import { encodeSessionId, SESSION_HEADER } from "./session.ts";
import { cancelTask, getTask, updateTask } from "./tasks.ts";
import { callTool, listGraphIds, type PendingToolCall } from "./tool-call.ts";
import { listTools, readToolSignature, type Tool, toToolJson } from "./tools.ts";

const PAGE_SIZE = 100;
/** The name of requests that list tools, under which the server tracks their size. */
const LIST_READ_NAME = "MCP tools/list";
const LIST_TTL_MS = 60_000;

const createCacheMembers = ({ isModern }: McpRequestHeader, ttlMs: number, isPublic = false): JsonObject =>
  isModern ? { ttlMs, cacheScope: isPublic ? "public" : "private" } : {};

/** Returns true if lists do not depend on the caller. */
const isPublicServer = ({ service: { options } }: RequestContext): boolean =>
  (options.auth?.mode ?? "none") === "none" && options.auth?.custom === undefined;

/** Pages of tools by offset, for each active request: the messages of a batch share them. */
const toolPages = new WeakMap<RequestContext, Map<number, Promise<JsonObject[]>>>();

/**
 * Returns the JSON of the tools. Reads the schemas of each of them, one after another. Members that continue a
 * conversation are omitted if the options disable them.
 */
async function readPage(context: RequestContext, tools: readonly Tool[]): Promise<JsonObject[]> {
  const { resume_arguments = true } = context.service.options.http?.mcp ?? {};
  const toolsJson: JsonObject[] = [];
  for (const tool of tools) {
    const resume = resume_arguments && canModelAnswer(context, tool.assistant);
    toolsJson.push(
      toToolJson(tool, await readToolSignature(context.resources, tool), { thread_id: resume_arguments, resume }),
    );
  }
  return toolsJson;
}

/**
 * Returns the page of the tools that begins at the cursor, with the cursor of the next one if there are more. Pages are
 * read once for a request, so that a batch with several lists shares them.
 */
async function listToolsPage(context: RequestContext, request: McpRequest<"tools/list">): Promise<JsonObject> {
  const { cursor: from } = request.params;
  const tools = await listTools(context.resources, listGraphIds(context));
  const pages = toolPages.get(context) ?? new Map<number, Promise<JsonObject[]>>();
  toolPages.set(context, pages);
  const page = pages.get(from) ?? readPage(context, tools.slice(from, from + PAGE_SIZE));
  pages.set(from, page);
  const result: JsonObject = {
    tools: await page,
    ...createCacheMembers(request, LIST_TTL_MS, isPublicServer(context)),
  };
  if (from + PAGE_SIZE < tools.length) result.nextCursor = String(from + PAGE_SIZE);
  return toResultMessage(request, result);
}

/**
 * Returns the result of `initialize`, with the requested version, or the newest legacy one if it is not supported. Keeps no
 * session.
 */
function initialize(request: McpRequest<"initialize">): JsonObject {
  const { protocolVersion: requestedVersion } = request.params;
  const protocolVersion =
    LEGACY_VERSIONS.find((version) => version === requestedVersion) ?? (LEGACY_VERSIONS[0] as string);
  return toResultMessage(request, { protocolVersion, capabilities: { tools: {} }, serverInfo: SERVER_INFO });
}

const createSessionHeader = (
  { service: { environment } }: RequestContext,
  { params }: McpRequest<"initialize">,
): HeaderValues => ({ [SESSION_HEADER]: encodeSessionId(environment.uuid(), params.capabilities ?? {}) });

/** Creates the message with the supported version and capabilities, with a cache time of 0. */
const createDiscoverResult = (request: McpRequestHeader): JsonObject =>
  toResultMessage(request, {
    supportedVersions: [MODERN_VERSION],
    capabilities: { tools: {}, extensions: { [TASKS_EXTENSION]: {} } },
    ...createCacheMembers(request, 0),
  });

/**
 * Executes one request. Returns the message of its result, or a tool call that is still pending. Throws McpError and
 * the errors of the resources.
 */
async function dispatch(
  context: RequestContext,
  request: Exclude<McpRequest, McpRequest<"subscriptions/listen">>,
): Promise<JsonObject | PendingToolCall> {
  switch (request.method) {
    case "initialize":
      return initialize(request);
    case "ping":
      return toResultMessage(request, {});
    case "server/discover":
      return createDiscoverResult(request);
    case "tools/list":
      return await listToolsPage(context, request);
    case "tasks/get":
      return await getTask(context, request);
    case "tasks/update":
      return await updateTask(context, request);
    case "tasks/cancel":
      return await cancelTask(context, request);
    case "tools/call":
      return await callTool(context, request);
  }
}

const isPendingToolCall = (result: JsonObject | PendingToolCall): result is PendingToolCall =>
  "leave" in result && typeof result.leave === "function";

/**
 * Creates the response to an McpError, or to an unknown error, which it logs and whose text it hides. Rethrows errors
 * that concern the HTTP request, which have the same response on all routes.
 */
function toFailureResponse(context: RequestContext, error: unknown, id: Json): Response {
  if (error instanceof McpError) return toErrorResponse(error, id);
  if (error instanceof ServiceError || error instanceof ClientDisconnectedError) throw error;
  const { request_id, service } = context;
  service.environment.log({ level: "error", message: "A request of MCP failed", request_id, error });
  return toErrorResponse(new McpError("internal", "Internal error"), id);
}

/** Creates the response of a pending call: an event stream if it reports progress or elicits input, else one JSON text. */
function createToolCallResponse(
  context: RequestContext,
  request: McpRequestHeader,
  toolCall: PendingToolCall,
): Response {
  const { run, response, leave } = toolCall;
  if (request.progressToken === undefined && !toolCall.streamingResult)
    return createWaitResponse(context, { run, result: response, leave }, {});
  const frames = createToolCallMessages(context, request.progressToken, toolCall);
  const { run_id, thread_id } = run;
  return createEventStreamResponse(context, frames, { ids: { run_id, thread_id }, headers: SSE_HEADERS });
}

/** Reads the id of a message that can be malformed. */
const readMessageId = (message: unknown): Json => tryParseInput(messageHeader, message)?.id ?? null;

/** Returns true for requests that change nothing. */
const isReadOnly = (message: unknown): boolean =>
  ["tools/list", "ping", "initialize", "server/discover"].includes(tryParseInput(messageHeader, message)?.method ?? "");

/**
 * Handles a message of a batch. Returns its result or error message, a pending call, or null for a message without a
 * response. A client of a batch cannot be elicited. Throws errors that concern the HTTP request.
 */
async function handleBatchMessage(
  context: RequestContext,
  input: unknown,
): Promise<JsonObject | PendingToolCall | null> {
  try {
    const message = readMessage(input);
    if (message.kind !== "request") {
      await handleNotification(context, message);
      return null;
    }
    const request = checkRequest(message, context.request.headers);
    if (request.method === "subscriptions/listen") throw new McpError("method", "Method not found");
    // The response of a batch is one text, so the client cannot be elicited.
    return await dispatch(context, { ...request, capabilities: {} });
  } catch (error) {
    return (await toFailureResponse(context, error, readMessageId(input)).json()) as JsonObject;
  }
}

/**
 * Handles the messages of a batch one after another and responds with the list of their responses, once pending calls have ended;
 * 202 without any. Throws errors that concern the HTTP request, after leaving the pending calls.
 */
async function handleBatch(context: RequestContext, batch: readonly unknown[]): Promise<Response> {
  const pendingCalls: PendingToolCall[] = [];
  const responses: Promise<JsonObject>[] = [];
  const leave = (): void => {
    for (const call of pendingCalls) call.leave();
  };
  try {
    for (const message of batch) {
      // Other requests run between the messages.
      await context.waitForNextTick();
      if (context.bodyBudget.isRequestEnded()) throw new ClientDisconnectedError();
      const response = await handleBatchMessage(context, message);
      if (!response) continue;
      if (isPendingToolCall(response)) pendingCalls.push(response);
      responses.push(isPendingToolCall(response) ? response.response : Promise.resolve(response));
    }
  } catch (error) {
    leave();
    throw error;
  }
  const [first] = pendingCalls;
  if (responses.length === 0) return acceptedResponse();
  const result = Promise.all(responses);
  if (!first) return jsonResponse(await result);
  return createWaitResponse(context, { run: first.run, result, leave }, {});
}

/**
 * Handles a message or a batch. Responds at once to a request without a pending call, with 202 to a notification, else
 * as the call goes on. The response to `initialize` has a session id. An McpError becomes a JSON-RPC response; errors
 * that concern the HTTP request are thrown.
 */
async function post(context: RequestContext): Promise<Response> {
  const { headers } = context.request;
  let id: Json = null;
  try {
    checkTransport(headers);
    const body = parseBody(await context.bytes());
    const batch = readBatch(body, headers, context.service.options.http?.mcp?.max_batch);
    if (batch) {
      const handleAll = (): Promise<Response> => handleBatch(context, batch);
      return await (batch.every(isReadOnly)
        ? context.bodyBudget.respondToRead(LIST_READ_NAME, handleAll)
        : handleAll());
    }
    id = readMessageId(body);
    const message = readMessage(body);
    if (message.kind !== "request") {
      await handleNotification(context, message);
      return acceptedResponse();
    }
    const request = checkRequest(message, headers);
    if (request.method === "subscriptions/listen") return await subscribeToTasks(context, request);
    if (request.method === "tools/list") {
      return await context.bodyBudget.respondToRead(LIST_READ_NAME, async () =>
        jsonResponse(await listToolsPage(context, request)),
      );
    }
    const result = await dispatch(context, request);
    if (isPendingToolCall(result)) return createToolCallResponse(context, request, result);
    const session = request.method === "initialize" ? createSessionHeader(context, request) : {};
    return jsonResponse(result, session);
  } catch (error) {
    return toFailureResponse(context, error, id);
  }
}

const rejectMethod = (): Response =>
  jsonResponse(toErrorMessage(new McpError("refused", "Method not allowed.", { id: null })), { allow: "POST" }, 405);

const RESOURCE_METADATA_PATH = "/.well-known/oauth-protected-resource";

/**
 * Returns the `www-authenticate` header of an error: for `unauthenticated` with the URL of the resource metadata, for
 * `forbidden` also with the scopes. Returns undefined for other errors, without scopes for `forbidden`, and if it is
 * not configured.
 */
function challenge({ http }: ServiceOptions, base_url: string, error: ServiceError): string | undefined {
  const { scopes_supported: scopes = [] } = http?.mcp?.protected_resource ?? {};
  if (!http?.mcp?.protected_resource) return undefined;
  const metadata = `resource_metadata="${base_url}${RESOURCE_METADATA_PATH}/mcp"`;
  if (error.code === "unauthenticated") return `Bearer ${metadata}`;
  if (error.code !== "forbidden" || scopes.length === 0) return undefined;
  return `Bearer error="insufficient_scope", scope="${scopes.join(" ")}", ${metadata}`;
}

const route = createRouteGroup({ tag: "MCP", group: "mcp" });
const routeDefaults = { access: "run", challenge } as const;

export const MCP_ROUTES: readonly Route[] = [
  route("post", "/mcp", {
    ...routeDefaults,
    summary: "Call agents as tools, by the Model Context Protocol",
    response: "McpMessage",
    accepted: "A notification or a response: it has no answer",
    errors: [406, 415],
    handle: post,
  }),
  ...(["get", "delete"] as const).map((method) =>
    route(method, "/mcp", {
      ...routeDefaults,
      summary: "Not allowed: sessions are not stored",
      errors: [405],
      handle: rejectMethod,
    }),
  ),
];

/** Both paths that clients use. */
export const MCP_RESOURCE_ROUTES: readonly Route[] = (
  [RESOURCE_METADATA_PATH, `${RESOURCE_METADATA_PATH}/mcp`] as const
).map((path) =>
  route("get", path, {
    access: "open",
    summary: "Where clients of `/mcp` get their tokens (RFC 9728)",
    response: "ProtectedResource",
    isDisabled: ({ mcp }) => mcp?.protected_resource === undefined,
    handle: ({ service: { options } }) =>
      jsonResponse({ ...options.http?.mcp?.protected_resource, bearer_methods_supported: ["header"] }),
  }),
);

/** MCP: the agents as tools, for both eras of the protocol. */
import { ServiceError } from "../../../errors.ts";
import type { Json, JsonObject } from "../../../json.ts";
import type { ServiceOptions } from "../../../options.ts";
import { ClientGone } from "../../byte-budget.ts";
import { accepted, type HeaderValues, json } from "../../respond.ts";
import { waitResponse } from "../../result-body.ts";
import { type RequestContext, type Route, routesOf } from "../../route.ts";
import { eventStream } from "../../sse.ts";
import { tryRead } from "../fields.ts";
import { mayModelAnswer } from "../permissions.ts";
import { callTool, graphsOf, type OpenCall } from "./call.ts";
import { takeNotice } from "./elicit.ts";
import { listen } from "./listen.ts";
import { createMessages } from "./progress.ts";
import {
  batchOf,
  checkRequest,
  checkTransport,
  errorAnswer,
  errorMessage,
  LEGACY,
  MODERN,
  parseBody,
  type RequestHead,
  RpcError,
  type RpcRequest,
  readMessage,
  resultOf,
  SERVER_INFO,
  SSE_HEADERS,
  TASKS,
} from "./protocol.ts";
import { rpcHead } from "./requests.ts";
import { SESSION_HEADER, sessionId } from "./session.ts";
import { cancelTask, getTask, updateTask } from "./tasks.ts";
import { argumentsOf, listTools, shownTool, type Tool } from "./tools.ts";

const PAGE = 100;
/** The name of requests that list tools, by which the server remembers their size. */
const READ = "MCP tools/list";
const LIST_TTL_MS = 60_000;

const cached = ({ isModern }: RequestHead, ttlMs: number, isPublic = false): JsonObject =>
  isModern ? { ttlMs, cacheScope: isPublic ? "public" : "private" } : {};

/** Nothing depends on the caller. */
const isPublic = ({ service: { options } }: RequestContext): boolean =>
  (options.auth?.mode ?? "none") === "none" && options.auth?.custom === undefined;

/** The pages of open requests by their first tool: the messages of a batch share them. */
const toolPages = new WeakMap<RequestContext, Map<number, Promise<JsonObject[]>>>();

async function readPage(context: RequestContext, tools: readonly Tool[]): Promise<JsonObject[]> {
  const { resume_arguments = true } = context.service.options.http?.mcp ?? {};
  const shown: JsonObject[] = [];
  for (const tool of tools) {
    const resume = resume_arguments && mayModelAnswer(context, tool.assistant);
    shown.push(shownTool(tool, await argumentsOf(context.nouns, tool), { thread_id: resume_arguments, resume }));
  }
  return shown;
}

async function list(context: RequestContext, request: RpcRequest<"tools/list">): Promise<JsonObject> {
  const { cursor: from } = request.params;
  const tools = await listTools(context.nouns, graphsOf(context));
  const pages = toolPages.get(context) ?? new Map<number, Promise<JsonObject[]>>();
  toolPages.set(context, pages);
  const page = pages.get(from) ?? readPage(context, tools.slice(from, from + PAGE));
  pages.set(from, page);
  const result: JsonObject = { tools: await page, ...cached(request, LIST_TTL_MS, isPublic(context)) };
  if (from + PAGE < tools.length) result.nextCursor = String(from + PAGE);
  return resultOf(request, result);
}

function initialize(request: RpcRequest<"initialize">): JsonObject {
  const { protocolVersion: asked } = request.params;
  const protocolVersion = LEGACY.find((one) => one === asked) ?? (LEGACY[0] as string);
  return resultOf(request, { protocolVersion, capabilities: { tools: {} }, serverInfo: SERVER_INFO });
}

/** The header with the id of a new session. */
const newSession = (
  { service: { environment } }: RequestContext,
  { params }: RpcRequest<"initialize">,
): HeaderValues => ({ [SESSION_HEADER]: sessionId(environment.uuid(), params.capabilities ?? {}) });

const discovered = (request: RequestHead): JsonObject =>
  resultOf(request, {
    supportedVersions: [MODERN],
    capabilities: { tools: {}, extensions: { [TASKS]: {} } },
    ...cached(request, 0),
  });

/** Answers one request. Errors: RpcError, and those of the nouns. */
async function dispatch(
  context: RequestContext,
  request: Exclude<RpcRequest, RpcRequest<"subscriptions/listen">>,
): Promise<JsonObject | OpenCall> {
  switch (request.method) {
    case "initialize":
      return initialize(request);
    case "ping":
      return resultOf(request, {});
    case "server/discover":
      return discovered(request);
    case "tools/list":
      return await list(context, request);
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

const isOpen = (answer: JsonObject | OpenCall): answer is OpenCall =>
  "leave" in answer && typeof answer.leave === "function";

/** The answer to a failed request. Errors that concern the HTTP request stay what they are on all routes. */
function failed(context: RequestContext, error: unknown, id: Json): Response {
  if (error instanceof RpcError) return errorAnswer(error, id);
  if (error instanceof ServiceError || error instanceof ClientGone) throw error;
  const { request_id, service } = context;
  service.environment.log({ level: "error", message: "A request of MCP failed", request_id, error });
  return errorAnswer(new RpcError("internal", "Internal error"), id);
}

/** The answer of a call that is not known yet: events if it reports its progress or asks its client, else one JSON text. */
function answerOf(context: RequestContext, request: RequestHead, call: OpenCall): Response {
  const { run, answer, leave } = call;
  if (request.progressToken === undefined && !call.open)
    return waitResponse(context, { run, result: answer, leave }, {});
  const frames = createMessages(context, request.progressToken, call);
  const { run_id, thread_id } = run;
  return eventStream(context, frames, { ids: { run_id, thread_id }, headers: SSE_HEADERS });
}

/** The id for the answer to a message, which may be malformed. */
const idOf = (message: unknown): Json => tryRead(rpcHead, message)?.id ?? null;

/** The request changes nothing. */
const isRead = (message: unknown): boolean =>
  ["tools/list", "ping", "initialize", "server/discover"].includes(tryRead(rpcHead, message)?.method ?? "");

/** Answers a message of a batch; null for one that gets no answer. Errors: those that concern the HTTP request. */
async function answerMessage(context: RequestContext, sent: unknown): Promise<JsonObject | OpenCall | null> {
  try {
    const message = readMessage(sent);
    if (message.kind !== "request") {
      await takeNotice(context, message);
      return null;
    }
    const request = checkRequest(message, context.request.headers);
    if (request.method === "subscriptions/listen") throw new RpcError("method", "Method not found");
    // The answer of a batch is one text, in which nothing can be asked.
    return await dispatch(context, { ...request, capabilities: {} });
  } catch (error) {
    return (await failed(context, error, idOf(sent)).json()) as JsonObject;
  }
}

async function answerBatch(context: RequestContext, batch: readonly unknown[]): Promise<Response> {
  const open: OpenCall[] = [];
  const answers: Promise<JsonObject>[] = [];
  const leave = (): void => {
    for (const call of open) call.leave();
  };
  try {
    for (const message of batch) {
      // Other requests run between the messages.
      await context.tick();
      if (context.large.isGone()) throw new ClientGone();
      const answer = await answerMessage(context, message);
      if (!answer) continue;
      if (isOpen(answer)) open.push(answer);
      answers.push(isOpen(answer) ? answer.answer : Promise.resolve(answer));
    }
  } catch (error) {
    leave();
    throw error;
  }
  const [first] = open;
  if (answers.length === 0) return accepted();
  const result = Promise.all(answers);
  if (!first) return json(await result);
  return waitResponse(context, { run: first.run, result, leave }, {});
}

async function post(context: RequestContext): Promise<Response> {
  const { headers } = context.request;
  let id: Json = null;
  try {
    checkTransport(headers);
    const body = parseBody(await context.bytes());
    const batch = batchOf(body, headers, context.service.options.http?.mcp?.max_batch);
    if (batch) {
      const answerAll = (): Promise<Response> => answerBatch(context, batch);
      return await (batch.every(isRead) ? context.large.answerRead(READ, answerAll) : answerAll());
    }
    id = idOf(body);
    const message = readMessage(body);
    if (message.kind !== "request") {
      await takeNotice(context, message);
      return accepted();
    }
    const request = checkRequest(message, headers);
    if (request.method === "subscriptions/listen") return await listen(context, request);
    if (request.method === "tools/list") {
      return await context.large.answerRead(READ, async () => json(await list(context, request)));
    }
    const answer = await dispatch(context, request);
    if (isOpen(answer)) return answerOf(context, request, answer);
    const session = request.method === "initialize" ? newSession(context, request) : {};
    return json(answer, session);
  } catch (error) {
    return failed(context, error, id);
  }
}

const refused = (): Response =>
  json(errorMessage(new RpcError("refused", "Method not allowed.", { id: null })), { allow: "POST" }, 405);

const RESOURCE = "/.well-known/oauth-protected-resource";

/** Tells clients where to get a token, and which scopes it needs. */
function challenge({ http }: ServiceOptions, base_url: string, error: ServiceError): string | undefined {
  const { scopes_supported: scopes = [] } = http?.mcp?.protected_resource ?? {};
  if (!http?.mcp?.protected_resource) return undefined;
  const metadata = `resource_metadata="${base_url}${RESOURCE}/mcp"`;
  if (error.code === "unauthenticated") return `Bearer ${metadata}`;
  if (error.code !== "forbidden" || scopes.length === 0) return undefined;
  return `Bearer error="insufficient_scope", scope="${scopes.join(" ")}", ${metadata}`;
}

const route = routesOf({ tag: "MCP", group: "mcp" });
const own = { access: "run", challenge } as const;

export const MCP_ROUTES: readonly Route[] = [
  route("post", "/mcp", {
    ...own,
    summary: "Call agents as tools, by the Model Context Protocol",
    answer: "McpMessage",
    accepted: "A notification or a response: it has no answer",
    errors: [406, 415],
    handle: post,
  }),
  ...(["get", "delete"] as const).map((method) =>
    route(method, "/mcp", { ...own, summary: "Not allowed: sessions are not stored", errors: [405], handle: refused }),
  ),
];

/** Paths as clients of both forms ask for them. */
export const MCP_RESOURCE_ROUTES: readonly Route[] = ([RESOURCE, `${RESOURCE}/mcp`] as const).map((path) =>
  route("get", path, {
    access: "open",
    summary: "Where clients of `/mcp` get their tokens (RFC 9728)",
    answer: "ProtectedResource",
    isLeftOut: ({ mcp }) => mcp?.protected_resource === undefined,
    handle: ({ service: { options } }) =>
      json({ ...options.http?.mcp?.protected_resource, bearer_methods_supported: ["header"] }),
  }),
);

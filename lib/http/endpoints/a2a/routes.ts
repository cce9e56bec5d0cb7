/** The routes of A2A: each assistant is an agent, in versions 1.0 and 0.3 of the protocol. */
import { ServiceError } from "../../../errors.ts";
import type { Json } from "../../../json.ts";
import { ClientDisconnectedError } from "../../byte-budget.ts";
import { parseAssistantId } from "../../parse.ts";
import { jsonResponse } from "../../respond.ts";
import { createRouteGroup, type RequestContext, type Route, readAssistantId } from "../../route.ts";
import { createCardResponse } from "./card.ts";
import { findMessageProblem } from "./message-input.ts";
import { cancelTask, getTask, listTasks, subscribeToTask } from "./methods.ts";
import { createExtensionHeaders } from "./options.ts";
import {
  A2aError,
  type A2aRequestContext,
  type A2aRequestHeader,
  parseBody,
  readRequest,
  readRequestHeader,
  readVersion,
  toErrorMessage,
  toResultMessage,
  UNKNOWN_HEADER,
} from "./protocol.ts";
import { handlePushMethod } from "./push.ts";
import { sendMessage } from "./send.ts";

/**
 * Executes one request. Returns the result of the method as JSON, or a complete response, such as a stream. Throws
 * A2aError and the errors of the resources.
 */
async function dispatch({ request, ...requestContext }: A2aRequestContext): Promise<Json | Response> {
  switch (request.method) {
    case "SendMessage":
    case "SendStreamingMessage":
      return await sendMessage({ ...requestContext, request });
    case "GetTask":
      return await getTask({ ...requestContext, request });
    case "ListTasks":
      return await listTasks({ ...requestContext, request });
    case "CancelTask":
      return await cancelTask({ ...requestContext, request });
    case "SubscribeToTask":
      return await subscribeToTask({ ...requestContext, request });
    case "GetExtendedAgentCard":
      throw new A2aError("card", "There is no extended agent card");
    default:
      return await handlePushMethod({ ...requestContext, request });
  }
}

/** The errors that become JSON-RPC errors. Others concern the HTTP request and have the same response on all routes. */
const ERROR_KINDS: Readonly<Record<string, "params" | "internal">> = {
  bad_request: "params",
  invalid: "params",
  conflict: "internal",
};

/**
 * Returns the JSON-RPC response to an error, with status 200 unless an A2aError has another one. Logs an unknown error
 * and hides its text. Rethrows ClientDisconnectedError and ServiceErrors that have no JSON-RPC form, such as a refused
 * authentication.
 */
function toFailureResponse(
  { service, request_id }: RequestContext,
  header: A2aRequestHeader,
  error: unknown,
): Response {
  if (error instanceof ClientDisconnectedError) throw error;
  if (error instanceof A2aError) return jsonResponse(toErrorMessage(header, error), {}, error.status);
  if (error instanceof ServiceError) {
    const kind = ERROR_KINDS[error.code];
    if (kind === undefined) throw error;
    return jsonResponse(toErrorMessage(header, new A2aError(kind, error.message)));
  }
  service.environment.log({ level: "error", message: "A request of A2A failed", request_id, error });
  return jsonResponse(toErrorMessage(header, new A2aError("internal", "Internal error")));
}

/** The methods that change nothing. */
const READ_METHODS: ReadonlySet<string> = new Set(["GetTask", "ListTasks"]);

/** Handles a JSON-RPC request. Errors of the method become JSON-RPC responses; an unknown assistant is thrown. */
async function post(context: RequestContext): Promise<Response> {
  const { headers } = context.request;
  const assistant = await context.resources.assistants.get(readAssistantId(context));
  let header = UNKNOWN_HEADER;
  try {
    const body = parseBody(headers, await context.bytes());
    header = readRequestHeader(body);
    const request = readRequest(body, headers);
    const { assistant_id, graph_id } = assistant;
    const problem = await findMessageProblem(context.resources, assistant_id);
    if (problem !== null) throw new A2aError("params", problem);
    /** Executes the request, and returns its response, or its result as a JSON-RPC response. */
    const respond = async (): Promise<Response> => {
      const result = await dispatch({ context, request, assistant_id, graph_id });
      return result instanceof Response
        ? result
        : jsonResponse(toResultMessage(request, result), createExtensionHeaders(headers));
    };
    if (!READ_METHODS.has(request.method)) return await respond();
    const name = `A2A ${request.method} ${JSON.stringify(request.params)}`;
    return await context.bodyBudget.respondToRead(name, respond);
  } catch (error) {
    return toFailureResponse(context, header, error);
  }
}

/** Returns the agent card of an assistant. Throws `bad_request` for an unsupported version, `invalid` or `not_found`. */
async function getCard(context: RequestContext): Promise<Response> {
  try {
    const version = readVersion(context.request.headers);
    return await createCardResponse(
      context,
      await context.resources.assistants.get(readRequestedAssistant(context)),
      version,
    );
  } catch (error) {
    if (error instanceof A2aError) throw new ServiceError("bad_request", error.message);
    throw error;
  }
}

/** Reads the assistant from the path or the query. Defaults to that of the only graph. Throws `invalid` if there are several graphs. */
function readRequestedAssistant({ params, rawQuery, service }: RequestContext): string {
  const requestedId = params.assistant_id ?? rawQuery.assistant_id;
  if (requestedId !== undefined)
    return parseAssistantId(typeof requestedId === "string" ? requestedId : requestedId.at(-1));
  const [only, second] = service.options.executor.graphs();
  if (only && !second) return only.graph_id;
  throw new ServiceError("invalid", "assistant_id: is required, because there are several agents");
}

const route = createRouteGroup({ tag: "A2A", group: "a2a" });
const CARD_PATH = "/.well-known/agent-card.json";

export const A2A_ROUTES: readonly Route[] = [
  route("post", "/a2a/:assistant_id", {
    access: "run",
    events: ["assistants:read"],
    summary: "Talk to an agent, by the Agent2Agent protocol",
    response: "A2aMessage",
    errors: [400, 404],
    handle: post,
  }),
  route("get", `/a2a/:assistant_id${CARD_PATH}`, {
    summary: "The card of an agent",
    events: ["assistants:read"],
    response: "AgentCard",
    response_headers: ["ETag"],
    errors: [400, 404],
    handle: getCard,
  }),
];

export const A2A_CARD_ROUTES: readonly Route[] = [
  route("get", CARD_PATH, {
    summary: "The card of the agent `assistant_id`, or of the only one",
    events: ["assistants:read"],
    response: "AgentCard",
    response_headers: ["ETag"],
    errors: [400, 404],
    handle: getCard,
  }),
];

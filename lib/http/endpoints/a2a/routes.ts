/** A2A: each assistant as an agent that other agents talk to, in versions 1.0 and 0.3 of the protocol. */
import type { Assistant } from "../../../assistants/mod.ts";
import { ServiceError } from "../../../errors.ts";
import { isObject, type Json } from "../../../json.ts";
import { ClientGone } from "../../byte-budget.ts";
import { readAssistantId } from "../../parse.ts";
import { json } from "../../respond.ts";
import { assistantId, type RequestContext, type Route, routesOf } from "../../route.ts";
import { cardAnswer } from "./card.ts";
import { cancelTask, getTask, listTasks, subscribe } from "./methods.ts";
import { extensionHeaders } from "./options.ts";
import {
  type Called,
  checkVersion,
  errorMessage,
  headOf,
  parseBody,
  type RequestHead,
  RpcError,
  readRequest,
  resultMessage,
  UNKNOWN,
} from "./protocol.ts";
import { pushMethod } from "./push.ts";
import { sendMessage } from "./send.ts";

/** Answers one request. Errors: RpcError, and those of the nouns. */
async function dispatch({ request, ...call }: Called): Promise<Json | Response> {
  switch (request.method) {
    case "SendMessage":
    case "SendStreamingMessage":
      return await sendMessage({ ...call, request });
    case "GetTask":
      return await getTask({ ...call, request });
    case "ListTasks":
      return await listTasks({ ...call, request });
    case "CancelTask":
      return await cancelTask({ ...call, request });
    case "SubscribeToTask":
      return await subscribe({ ...call, request });
    case "GetExtendedAgentCard":
      throw new RpcError("card", "There is no extended agent card");
    default:
      return await pushMethod({ ...call, request });
  }
}

/** What the client can change about its request; other errors concern the HTTP request, and stay what they are on all routes. */
const KINDS: Readonly<Record<string, "params" | "internal">> = {
  bad_request: "params",
  invalid: "params",
  conflict: "internal",
};

function failed({ service, request_id }: RequestContext, head: RequestHead, error: unknown): Response {
  if (error instanceof ClientGone) throw error;
  if (error instanceof RpcError) return json(errorMessage(head, error), {}, error.status);
  if (error instanceof ServiceError) {
    const kind = KINDS[error.code];
    if (kind === undefined) throw error;
    return json(errorMessage(head, new RpcError(kind, error.message)));
  }
  service.environment.log({ level: "error", message: "A request of A2A failed", request_id, error });
  return json(errorMessage(head, new RpcError("internal", "Internal error")));
}

/** Errors: an agent that takes no messages. */
async function checkInput({ nouns }: RequestContext, { assistant_id }: Assistant): Promise<void> {
  const { input_schema } = await nouns.assistants.schemas(assistant_id);
  const members = input_schema && isObject(input_schema.properties) ? Object.keys(input_schema.properties) : [];
  if (members.length === 0 || members.includes("messages")) return;
  const found = members.slice(0, 10).join(", ");
  throw new RpcError("params", `The agent takes no messages: its input has ${found}, and A2A needs a member messages`);
}

/** The methods that change nothing. */
const READS: ReadonlySet<string> = new Set(["GetTask", "ListTasks"]);

async function post(context: RequestContext): Promise<Response> {
  const { headers } = context.request;
  const assistant = await context.nouns.assistants.get(assistantId(context));
  let head = UNKNOWN;
  try {
    const body = parseBody(headers, await context.bytes());
    head = headOf(body);
    const request = readRequest(body, headers);
    await checkInput(context, assistant);
    const { assistant_id, graph_id } = assistant;
    const respond = async (): Promise<Response> => {
      const answer = await dispatch({ context, request, assistant_id, graph_id });
      return answer instanceof Response ? answer : json(resultMessage(request, answer), extensionHeaders(headers));
    };
    if (!READS.has(request.method)) return await respond();
    const name = `A2A ${request.method} ${JSON.stringify(request.params)}`;
    return await context.large.answerRead(name, respond);
  } catch (error) {
    return failed(context, head, error);
  }
}

async function card(context: RequestContext): Promise<Response> {
  try {
    const version = checkVersion(context.request.headers);
    return await cardAnswer(context, await context.nouns.assistants.get(askedAssistant(context)), version);
  } catch (error) {
    if (error instanceof RpcError) throw new ServiceError("bad_request", error.message);
    throw error;
  }
}

/** The assistant in the path or the query; without one, that of the only graph. */
function askedAssistant({ params, parameters, service }: RequestContext): string {
  const sent = params.assistant_id ?? parameters.assistant_id;
  if (sent !== undefined) return readAssistantId(typeof sent === "string" ? sent : sent.at(-1));
  const [only, second] = service.options.executor.graphs();
  if (only && !second) return only.graph_id;
  throw new ServiceError("invalid", "assistant_id: is required, because there are several agents");
}

const route = routesOf({ tag: "A2A", group: "a2a" });
const CARD = "/.well-known/agent-card.json";

export const A2A_ROUTES: readonly Route[] = [
  route("post", "/a2a/:assistant_id", {
    access: "run",
    events: ["assistants:read"],
    summary: "Talk to an agent, by the Agent2Agent protocol",
    answer: "A2aMessage",
    errors: [400, 404],
    handle: post,
  }),
  route("get", `/a2a/:assistant_id${CARD}`, {
    summary: "The card of an agent",
    events: ["assistants:read"],
    answer: "AgentCard",
    answer_headers: ["ETag"],
    errors: [400, 404],
    handle: card,
  }),
];

export const A2A_CARD_ROUTES: readonly Route[] = [
  route("get", CARD, {
    summary: "The card of the agent `assistant_id`, or of the only one",
    events: ["assistants:read"],
    answer: "AgentCard",
    answer_headers: ["ETag"],
    errors: [400, 404],
    handle: card,
  }),
];

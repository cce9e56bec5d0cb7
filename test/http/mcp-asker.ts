/** Requests of MCP clients, in both eras of the protocol. */
import { isObject, type JsonObject } from "../../lib/json.ts";
import type { AgentFunction } from "../../lib/mod.ts";
import { type TestService, type TestServiceOptions, testService } from "../suite/mod.ts";

export const TASKS: JsonObject = { extensions: { "io.modelcontextprotocol/tasks": {} } };
export const FORMS: JsonObject = { elicitation: {} };

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The message, where it is one. */
  readonly message: JsonObject;
  /** Its result or its error, without what the era adds. */
  readonly result: JsonObject;
  readonly error: JsonObject;
}

export interface AskOptions {
  /** Legacy without it. */
  readonly capabilities?: JsonObject;
  readonly headers?: Readonly<Record<string, string | null>>;
  readonly meta?: JsonObject;
  readonly signal?: AbortSignal;
}

export type Fetch = (request: Request) => Promise<Response>;

const ACCEPT = "application/json, text/event-stream";
const encoded = (name: string): string =>
  /^[\x21-\x7e]+$/.test(name) ? name : `=?base64?${Buffer.from(name).toString("base64")}?=`;

/** The request of a call. */
export function requestOf(url: string, method: string, params: JsonObject = {}, options: AskOptions = {}): Request {
  const { capabilities, headers: more = {}, meta = {}, signal } = options;
  const named = params.name ?? params.taskId;
  const headers: Record<string, string | null> = {
    "content-type": "application/json",
    accept: ACCEPT,
    ...(capabilities && { "mcp-protocol-version": "2026-07-28", "mcp-method": method }),
    ...(capabilities && typeof named === "string" ? { "mcp-name": encoded(named) } : {}),
    ...more,
  };
  const _meta = capabilities
    ? {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        ...meta,
      }
    : meta;
  const body = {
    jsonrpc: "2.0",
    id: 1,
    method,
    params: { ...params, ...(Object.keys(_meta).length > 0 && { _meta }) },
  };
  const given = Object.entries(headers).filter((entry): entry is [string, string] => entry[1] !== null);
  return new Request(url, {
    method: "POST",
    headers: given,
    body: JSON.stringify(body),
    ...(signal ? { signal } : {}),
  });
}

export async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text();
  const isEvents = response.headers.get("content-type") === "text/event-stream";
  const last = isEvents
    ? text
        .trim()
        .split("\n")
        .at(-1)
        ?.replace(/^data: /, "")
    : text;
  let message: unknown = {};
  try {
    message = JSON.parse(last ?? "");
  } catch {
    // Some answers are empty.
  }
  const { result, error } = isObject(message) ? message : {};
  return {
    ...{ status: response.status, headers: response.headers, text },
    message: message as JsonObject,
    result: (result ?? {}) as JsonObject,
    error: (error ?? {}) as JsonObject,
  };
}

/** Asks one server. */
export type Ask = (method: string, params?: JsonObject, options?: AskOptions) => Promise<Answer>;

export const asker =
  (fetch: Fetch, url = "http://127.0.0.1/mcp"): Ask =>
  async (method, params = {}, options = {}) =>
    await answerOf(await fetch(requestOf(url, method, params, options)));

export const textOf = ({ content }: JsonObject): string =>
  (content as { text: string }[]).map(({ text }) => text).join("\n");
export const threadOf = ({ _meta }: JsonObject): string => (_meta as JsonObject)["greenroom/thread_id"] as string;
export const runOf = ({ _meta }: JsonObject): string => (_meta as JsonObject)["greenroom/run_id"] as string;

/** The state and answers with which a client repeats a call. */
export function answered(asked: JsonObject, content: JsonObject, action = "accept"): JsonObject {
  const answer = action === "accept" ? { action, content } : { action };
  const keys = Object.keys(asked.inputRequests as JsonObject);
  return {
    requestState: asked.requestState as string,
    inputResponses: Object.fromEntries(keys.map((key): [string, JsonObject] => [key, answer as JsonObject])),
  };
}

/** Asks a question in its first run, and says what the answer was. */
export const asks =
  (question: JsonObject | string): AgentFunction =>
  ({ command, interrupt }) =>
    command?.resume === undefined ? interrupt(question) : `Got ${JSON.stringify(command.resume)}`;

const APPROVAL: JsonObject = {
  actionRequests: [{ name: "refund", args: { amount: 30 }, description: "Refund 30 euros?" }],
  reviewConfigs: [{ actionName: "refund", allowedDecisions: ["approve", "reject", "edit"] }],
};

export const AGENTS: Readonly<Record<string, AgentFunction>> = {
  echo: ({ messages }) => `You said ${messages.at(-1)?.content}`,
  answers: () => ({ answer: 42 }),
  fails() {
    throw new Error("It broke");
  },
  refund: asks("Refund 30 euros?"),
  approves: asks(APPROVAL),
};

interface World extends AsyncDisposable {
  readonly test: TestService;
  readonly service: TestService["service"];
  readonly ask: Ask;
}

export async function mcpWorld(options: Partial<TestServiceOptions> = {}): Promise<World> {
  const test = await testService({ agents: AGENTS, environment: { log: () => {} }, ...options });
  const { service } = test;
  return { test, service, ask: asker(test.fetch), [Symbol.asyncDispose]: () => test[Symbol.asyncDispose]() };
}

/** The parameters of a call that says "Hi". */
export const call = (name: string, more: JsonObject = {}): JsonObject => ({
  name,
  arguments: { message: "Hi" },
  ...more,
});

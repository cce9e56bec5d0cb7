/** Requests of MCP clients, in both protocol versions. */
import { isObject, type JsonObject } from "../../../../../lib/json.ts";
import { type AgentDefinition, type AgentFunction, type Executor, fromFunctions } from "../../../../../lib/mod.ts";
import { type TestService, type TestServiceOptions, testService } from "../../../../suite/mod.ts";

export const TASKS: JsonObject = { extensions: { "io.modelcontextprotocol/tasks": {} } };
export const FORMS: JsonObject = { elicitation: {} };

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The message, if the body is one. */
  readonly message: JsonObject;
  /** Its result or its error, without members of the protocol version. */
  readonly result: JsonObject;
  readonly error: JsonObject;
}

export interface AskOptions {
  /** The client capabilities of 2026-07-28. Without them the request has the older version. */
  readonly capabilities?: JsonObject;
  readonly headers?: Readonly<Record<string, string | null>>;
  readonly meta?: JsonObject;
  readonly signal?: AbortSignal;
}

export type Fetch = (request: Request) => Promise<Response>;

const ACCEPT = "application/json, text/event-stream";
const encoded = (name: string): string =>
  /^[\x21-\x7e]+$/.test(name) ? name : `=?base64?${Buffer.from(name).toString("base64")}?=`;

/** Creates a JSON-RPC request. */
export function createRequest(url: string, method: string, params: JsonObject = {}, options: AskOptions = {}): Request {
  const { capabilities, headers: extraHeaders = {}, meta = {}, signal } = options;
  const named = params.name ?? params.taskId;
  const headers: Record<string, string | null> = {
    "content-type": "application/json",
    accept: ACCEPT,
    ...(capabilities && { "mcp-protocol-version": "2026-07-28", "mcp-method": method }),
    ...(capabilities && typeof named === "string" ? { "mcp-name": encoded(named) } : {}),
    ...extraHeaders,
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
  const presentHeaders = Object.entries(headers).filter((entry): entry is [string, string] => entry[1] !== null);
  return new Request(url, {
    method: "POST",
    headers: presentHeaders,
    body: JSON.stringify(body),
    ...(signal ? { signal } : {}),
  });
}

export async function readAnswer(response: Response): Promise<Answer> {
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
    // Some responses have no body.
  }
  const { result, error } = isObject(message) ? message : {};
  return {
    ...{ status: response.status, headers: response.headers, text },
    message: message as JsonObject,
    result: (result ?? {}) as JsonObject,
    error: (error ?? {}) as JsonObject,
  };
}

/** Sends a request to one server. */
export type Ask = (method: string, params?: JsonObject, options?: AskOptions) => Promise<Answer>;

export const asker =
  (fetch: Fetch, url = "http://127.0.0.1/mcp"): Ask =>
  async (method, params = {}, options = {}) =>
    await readAnswer(await fetch(createRequest(url, method, params, options)));

export const readText = ({ content }: JsonObject): string =>
  (content as { text: string }[]).map(({ text }) => text).join("\n");
export const readThreadId = ({ _meta }: JsonObject): string => (_meta as JsonObject)["greenroom/thread_id"] as string;
export const readRunId = ({ _meta }: JsonObject): string => (_meta as JsonObject)["greenroom/run_id"] as string;

/** Creates the state and input responses with which a client repeats a call. */
export function answered(inputRequest: JsonObject, content: JsonObject, action = "accept"): JsonObject {
  const answer = action === "accept" ? { action, content } : { action };
  const keys = Object.keys(inputRequest.inputRequests as JsonObject);
  return {
    requestState: inputRequest.requestState as string,
    inputResponses: Object.fromEntries(keys.map((key): [string, JsonObject] => [key, answer as JsonObject])),
  };
}

/** Creates an agent that interrupts in its first run, and returns the resume value as text. */
export const asks =
  (question: JsonObject | string): AgentFunction =>
  ({ command, interrupt }) =>
    command?.resume === undefined ? interrupt(question) : `Got ${JSON.stringify(command.resume)}`;

/** Creates an agent that interrupts twice, and returns both resume values. */
export const asksTwice = (question: JsonObject | string): AgentFunction =>
  async function* ({ command, interrupt, state }) {
    if (command?.resume === undefined) yield interrupt(question);
    else if (state.first === undefined) {
      yield { first: command.resume };
      yield interrupt(question);
    } else yield `${state.first} ${command.resume}`;
  };

/** Creates functions whose interrupts the client's model may answer. */
export const answerable = (agents: Readonly<Record<string, AgentFunction>>): Executor =>
  fromFunctions(
    Object.fromEntries(
      Object.entries(agents).map(([name, agent]): [string, AgentDefinition] => [
        name,
        { agent, mcp: { model_may_answer: true } },
      ]),
    ),
  );

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
  const agents = options.executor ? {} : { agents: AGENTS };
  const test = await testService({ ...agents, environment: { log: () => {} }, ...options });
  const { service } = test;
  return { test, service, ask: asker(test.fetch), [Symbol.asyncDispose]: () => test[Symbol.asyncDispose]() };
}

/** Creates the parameters of a call with the message "Hi". */
export const call = (name: string, params: JsonObject = {}): JsonObject => ({
  name,
  arguments: { message: "Hi" },
  ...params,
});

/** Yields the messages of a streamed response as they arrive. */
export async function* messagesIn({ body }: Response): AsyncGenerator<JsonObject, void> {
  let buffered = "";
  const decoder = new TextDecoder();
  for await (const chunk of body as unknown as AsyncIterable<Uint8Array>) {
    const events = (buffered + decoder.decode(chunk, { stream: true })).split("\n\n");
    buffered = events.pop() ?? "";
    for (const event of events) {
      const [, data] = /^data: (.*)$/m.exec(event) ?? [];
      if (data !== undefined) yield JSON.parse(data) as JsonObject;
    }
  }
}

/** A client of 2025-11-25. */
export interface Session {
  readonly id: string;
  /** Sends a request whose response may be streamed. */
  open(method: string, params?: JsonObject, id?: number | string): Promise<Response>;
  /** Sends a notification or a reply. Returns the status. */
  send(message: JsonObject): Promise<number>;
  /** Starts a call and reads its elicitations. */
  callWithQuestions(params: JsonObject, questions?: number): Promise<PendingCall>;
}

interface PendingCall {
  readonly questions: readonly JsonObject[];
  /** The result of the call. */
  readonly result: Promise<JsonObject>;
}

/** Creates a client's reply to an elicitation. */
export const replyTo = ({ id }: JsonObject, content: JsonObject | null, action = "accept"): JsonObject => ({
  jsonrpc: "2.0",
  id: id ?? null,
  result: content ? { action, content } : { action },
});

export async function session(
  fetch: Fetch,
  {
    capabilities = FORMS,
    headers = {},
    id: sessionId,
    url = "http://127.0.0.1/mcp",
  }: { capabilities?: JsonObject; headers?: Record<string, string>; id?: string; url?: string } = {},
): Promise<Session> {
  const send = (message: JsonObject, sessionHeaders: Record<string, string>): Promise<Response> =>
    fetch(
      new Request(url, {
        method: "POST",
        headers: { "content-type": "application/json", accept: ACCEPT, ...headers, ...sessionHeaders },
        body: JSON.stringify({ jsonrpc: "2.0", ...message }),
      }),
    );
  const hello = { protocolVersion: "2025-11-25", capabilities, clientInfo: { name: "test", version: "1" } };
  const initialization = await send({ id: 0, method: "initialize", params: hello }, {});
  await initialization.text();
  const id = sessionId ?? initialization.headers.get("mcp-session-id") ?? "";
  const ownHeaders = { "mcp-session-id": id, "mcp-protocol-version": "2025-11-25" };
  let last = 0;
  const self: Session = {
    id,
    open: (method, params = {}, request = ++last) => send({ id: request, method, params }, ownHeaders),
    async send(message) {
      const response = await send(message, ownHeaders);
      await response.text();
      return response.status;
    },
    async callWithQuestions(params, count = 1) {
      const messages = messagesIn(await self.open("tools/call", params));
      const questions: JsonObject[] = [];
      while (questions.length < count) questions.push((await messages.next()).value as JsonObject);
      // The body is read at once, because a body without a reader stalls.
      const result = (async () => {
        for (;;) {
          const { value } = await messages.next();
          if (!value) throw new Error("The answer broke off");
          if (value.result) return value.result as JsonObject;
          if (value.error) throw new Error(JSON.stringify(value.error));
        }
      })();
      result.catch(() => {});
      return { questions, result };
    },
  };
  return self;
}

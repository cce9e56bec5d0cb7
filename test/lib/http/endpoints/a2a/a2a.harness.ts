/** Requests of A2A clients. */
import { isObject, type Json, type JsonObject } from "../../../../../lib/json.ts";
import type { AgentFunction } from "../../../../../lib/mod.ts";
import { type TestService, type TestServiceOptions, testService } from "../../../../suite/mod.ts";

export type Fetch = (request: Request) => Promise<Response>;
export type Headed = Readonly<Record<string, string>>;

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly result: JsonObject;
  readonly error: JsonObject;
  /** The results of a stream. */
  readonly events: readonly JsonObject[];
}

export async function readAnswer(response: Response): Promise<Answer> {
  const text = await response.text();
  const isStream = response.headers.get("content-type") === "text/event-stream";
  const lines = isStream ? text.split("\n").filter((line) => line.startsWith("data: ")) : [];
  const events = lines.map((line) => (JSON.parse(line.slice(6)) as JsonObject).result as JsonObject);
  const body: unknown = isStream ? {} : JSON.parse(text);
  const { result = {}, error = {} } = isObject(body) ? body : {};
  const { status, headers } = response;
  return { status, headers, events, result: result as JsonObject, error: error as JsonObject };
}

export const createRequest = (url: string, method: string, params: JsonObject, headers: Headed = {}): Request =>
  new Request(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ jsonrpc: "2.0", id: "1", method, params }),
  });

/** Sends a request to an agent. */
export type Ask = (agent: string, method: string, params?: JsonObject, headers?: Headed) => Promise<Answer>;

export const asker =
  (fetch: Fetch, url = "http://127.0.0.1"): Ask =>
  async (agent, method, params = {}, headers = {}) =>
    await readAnswer(await fetch(createRequest(`${url}/a2a/${agent}`, method, params, headers)));

let messageCount = 0;

/** Creates the parameters of a message of A2A 1.0. */
export const say = (
  text: string | readonly JsonObject[],
  messageFields: JsonObject = {},
  requestFields: JsonObject = {},
): JsonObject => ({
  message: {
    ...{ messageId: `m${++messageCount}`, role: "ROLE_USER" },
    parts: typeof text === "string" ? [{ text }] : [...text],
    ...messageFields,
  },
  ...requestFields,
});

/** The members of a task that tests read. */
export interface ShownTask {
  readonly id: string;
  readonly contextId: string;
  readonly status: { readonly state: string; readonly message?: { readonly parts: JsonObject[] } };
  readonly artifacts?: readonly { readonly parts: JsonObject[] }[];
  readonly history?: readonly { readonly role: string; readonly messageId: string; readonly parts: JsonObject[] }[];
}

/** Reads the task from the response to a message of A2A 1.0. */
export const readTask = ({ result }: Answer): ShownTask => result.task as unknown as ShownTask;
export const plain = ({ result }: Answer): ShownTask => result as unknown as ShownTask;
export const readState = (task: ShownTask): string => task.status.state.replace("TASK_STATE_", "");
export const joinTexts = (parts: readonly JsonObject[] = []): string => parts.map(({ text }) => text ?? "").join("");
export const answerText = (task: ShownTask): string => joinTexts(task.artifacts?.[0]?.parts);

/** Creates an agent that interrupts in its first run, and returns the resume value as text. */
export const asks =
  (question: Json): AgentFunction =>
  ({ command, interrupt }) =>
    command?.resume === undefined ? interrupt(question) : `Got ${JSON.stringify(command.resume)}`;

export const AGENTS: Readonly<Record<string, AgentFunction>> = {
  echo: ({ messages }) => `You said ${messages.at(-1)?.content}`,
  fails() {
    throw new Error("It broke");
  },
  asks: asks("Which city?"),
  approves: asks({ actionRequests: [{ name: "refund", args: { amount: 30 } }] }),
};

interface World extends AsyncDisposable {
  readonly test: TestService;
  readonly service: TestService["service"];
  readonly ask: Ask;
}

export async function a2aWorld(options: Partial<TestServiceOptions> = {}): Promise<World> {
  const agents = options.executor ? {} : { agents: AGENTS };
  const test = await testService({ ...agents, environment: { log: () => {} }, ...options });
  const { service } = test;
  return { test, service, ask: asker(test.fetch), [Symbol.asyncDispose]: () => test[Symbol.asyncDispose]() };
}

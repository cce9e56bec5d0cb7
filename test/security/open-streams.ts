/** Readers of open streams of each kind, and agents that stream on a thread what a test passes to them. */
import assert from "node:assert/strict";
import type { AgentFunction } from "../../lib/functions/mod.ts";
import { createHandler } from "../../lib/http/handler.ts";
import type { JsonObject } from "../../lib/json.ts";
import { createRequest as a2aRequest, say } from "../lib/http/endpoints/a2a/a2a.harness.ts";
import { createRequest as mcpRequest } from "../lib/http/endpoints/mcp/mcp.harness.ts";
import type { TestService } from "../suite/kit.ts";

export type Headers = Readonly<Record<string, string>>;

/** Streams to the run of a room what the test passes. A run without a room ends at once. */
export class Rooms {
  readonly #waiting = new Map<string, { texts: string[]; wake: () => void }>();

  say(room: string, text: string): void {
    const open = this.#waiting.get(room) ?? { texts: [], wake: () => {} };
    this.#waiting.set(room, open);
    open.texts.push(text);
    open.wake();
  }

  readonly agent: AgentFunction = async function* (this: Rooms, { input, signal }: Parameters<AgentFunction>[0]) {
    const { room } = input as { room: string };
    const open = this.#waiting.get(room) ?? { texts: [], wake: () => {} };
    this.#waiting.set(room, open);
    signal.addEventListener("abort", () => open.wake());
    while (!signal.aborted) {
      const text = open.texts.shift();
      if (text === "bye") return;
      if (text !== undefined) yield { said: text };
      else
        await new Promise<void>((resolve) => {
          open.wake = resolve;
        });
    }
  }.bind(this) as AgentFunction;

  /** Says the same as the message of an agent, and as the progress of a tool. */
  readonly speaker: AgentFunction = async function* (this: Rooms, job: Parameters<AgentFunction>[0]) {
    let progress = 0;
    for await (const { said } of this.agent({ ...job, input: { room: PLATFORM } }) as AsyncIterable<{ said: string }>) {
      job.emit({ progress: ++progress, message: said });
      yield said;
    }
  }.bind(this) as AgentFunction;
}

/** A stream that a caller has opened. */
export interface OpenStream {
  readonly status: number;
  readonly text: () => string;
  readonly ended: () => boolean;
  /** The close code of a socket. */
  readonly code: () => number | undefined;
  /** Sends a command on a socket; other streams ignore it. */
  command(method: string): void;
  close(): Promise<void>;
}

export interface ThreadAndRun {
  readonly thread_id: string;
  readonly run_id: string;
}

type Open = (service: TestService, headers: Headers, run: ThreadAndRun) => Promise<OpenStream>;

/** A body that is read from now on. */
export async function reading(response: Response): Promise<OpenStream> {
  let text = "";
  let ended = false;
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  const done = (async () => {
    for (let next = await reader.read(); !next.done; next = await reader.read()) text += decoder.decode(next.value);
  })()
    .catch(() => {})
    .then(() => {
      ended = true;
    });
  return {
    status: response.status,
    text: () => text,
    ended: () => ended,
    code: () => undefined,
    command: () => {},
    async close() {
      await reader.cancel().catch(() => {});
      await done;
    },
  };
}

const url = (path: string): string => `http://greenroom${path}`;
const json = { "content-type": "application/json" };
const CHANNELS = { channels: ["values", "lifecycle"] };

/** A WebSocket of a host in this process. */
async function openSocket(
  { service }: TestService,
  headers: Headers,
  { thread_id }: ThreadAndRun,
): Promise<OpenStream> {
  const listeners: Record<string, (event: { readonly data?: string }) => void> = {};
  let text = "";
  let code: number | undefined;
  const socket = {
    bufferedAmount: 0,
    send: (message: string) => {
      text += `${message}\n`;
    },
    close: (closeCode: number) => {
      code ??= closeCode;
    },
    addEventListener: (type: string, listener: (event: never) => void) => {
      listeners[type] = listener as never;
    },
  };
  const request = new Request(url(`/threads/${thread_id}/stream/events`), {
    headers: { ...headers, upgrade: "websocket" },
  });
  const { status } = await createHandler(service)(request, { upgradeWebSocket: () => ({ socket: socket as never }) });
  let id = 0;
  const command = (method: string, params: JsonObject = {}): void =>
    listeners.message?.({ data: JSON.stringify({ id: ++id, method, params }) });
  command("subscription.subscribe", CHANNELS);
  return {
    status: status === 101 ? 200 : status,
    text: () => text,
    ended: () => code !== undefined,
    code: () => code,
    command,
    async close() {
      listeners.close?.({});
    },
  };
}

const posting = (headers: Headers, body: object): RequestInit => ({
  method: "POST",
  headers: { ...headers, ...json },
  body: JSON.stringify(body),
});

const runIn = (room: string): object => ({ assistant_id: "agent", input: { room }, stream_mode: ["values"] });

/** The ways to read what a run says when it ends, or while it says it, by the call that makes or joins it. */
export const CALLS: Readonly<Record<string, (thread_id: string, run_id: string) => readonly [string, object | null]>> =
  {
    "a run that is made and streamed": (thread_id) => [`/threads/${thread_id}/runs/stream`, runIn(thread_id)],
    "a run that is made and waited for": (thread_id) => [`/threads/${thread_id}/runs/wait`, runIn(thread_id)],
    "a run that is joined": (thread_id, run_id) => [`/threads/${thread_id}/runs/${run_id}/join`, null],
  };

export async function openCall(
  { fetch }: TestService,
  headers: Headers,
  [path, body]: readonly [string, object | null],
): Promise<OpenStream> {
  return await reading(await fetch(url(path), body ? posting(headers, body) : { headers }));
}

/** The ways to read what a run says while it says it. */
export const KINDS: Readonly<Record<string, Open>> = {
  "a v1 run stream": async ({ fetch }, headers, { thread_id, run_id }) =>
    await reading(await fetch(url(`/threads/${thread_id}/runs/${run_id}/stream`), { headers })),
  "a v1 stream of a run by its id": async ({ fetch }, headers, { run_id }) =>
    await reading(await fetch(url(`/runs/${run_id}/stream`), { headers })),
  "a v1 thread stream": async ({ fetch }, headers, { thread_id }) =>
    await reading(await fetch(url(`/threads/${thread_id}/stream`), { headers: { ...headers, "last-event-id": "-" } })),
  "v2 server-sent events": async ({ fetch }, headers, { thread_id }) =>
    await reading(await fetch(url(`/threads/${thread_id}/stream/events`), posting(headers, CHANNELS))),
  "a WebSocket": openSocket,
};

/** The room of `Rooms.speaker`. */
export const PLATFORM = "platform";

/** The ways of the agent protocols to start a run, and to read what it says while it says it. */
export const PROTOCOLS: Readonly<Record<string, (headers: Headers) => Request>> = {
  "a chat of the AI SDK": (headers) =>
    new Request(
      url("/ai/speaker/chat"),
      posting(headers, {
        ...{ id: crypto.randomUUID(), trigger: "submit-message" },
        messages: [{ id: "u1", role: "user", parts: [{ type: "text", text: "Hi" }] }],
      }),
    ),
  "an AG-UI run": (headers) =>
    new Request(
      url("/ag-ui/speaker"),
      posting(headers, {
        ...{ threadId: crypto.randomUUID(), runId: "r1", tools: [], context: [], state: {}, forwardedProps: {} },
        messages: [{ id: "u1", role: "user", content: "Hi" }],
      }),
    ),
  "an A2A task": (headers) => a2aRequest(url("/a2a/speaker"), "SendStreamingMessage", say("Hi"), headers),
  "an MCP tool call": (headers) =>
    mcpRequest(
      url("/mcp"),
      "tools/call",
      { name: "speaker", arguments: { message: "Hi" } },
      { capabilities: {}, meta: { progressToken: "p" }, headers },
    ),
};

export async function post({ fetch }: TestService, headers: Headers, path: string, body: object): Promise<JsonObject> {
  const response = await fetch(url(path), posting(headers, body));
  assert.equal(response.status, 200, path);
  return (await response.json()) as JsonObject;
}

/** Starts a run on the thread that waits in a room with the name of the thread. */
export async function runOn(at: TestService, headers: Headers, thread_id: string): Promise<ThreadAndRun> {
  const { run_id } = (await post(at, headers, `/threads/${thread_id}/runs`, runIn(thread_id))) as { run_id: string };
  return { thread_id, run_id };
}

/** Creates a thread of the caller and starts a run on it. */
export async function startRun(at: TestService, headers: Headers, threadFields: object = {}): Promise<ThreadAndRun> {
  const { thread_id } = (await post(at, headers, "/threads", threadFields)) as { thread_id: string };
  return await runOn(at, headers, thread_id);
}

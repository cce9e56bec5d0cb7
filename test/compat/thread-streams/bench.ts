/** A service, and clients of its thread streams. */
import assert from "node:assert/strict";
import { Client as Client1 } from "langgraph-sdk-1";
import { Client as Client19 } from "langgraph-sdk-1-9";
import { Client as Client111 } from "langgraph-sdk-1-11";
import { Client } from "langgraph-sdk-1-15";
import { createHandler } from "../../../lib/http/handler.ts";
import type { Json, JsonObject } from "../../../lib/json.ts";
import { testService } from "../../suite/kit.ts";
import { createGates, type Gates } from "../../support/graphs.ts";
import type { Fetch, TestApi } from "../sdk/bench.ts";
import { inProcess, listen } from "../sdk/reach.ts";
import { streamExecutor } from "./agents.ts";

export { until } from "../../support/until.ts";

// Their declarations differ in places that the tests do not use.
export const SDKS: Readonly<Record<"1.9.15" | "1.11.0" | "1.12.4" | "1.15.0", typeof Client>> = {
  "1.9.15": Client19 as unknown as typeof Client,
  "1.11.0": Client111 as unknown as typeof Client,
  "1.12.4": Client1 as unknown as typeof Client,
  "1.15.0": Client,
};

/** The subject of the tests. */
export interface Subject {
  readonly sdk: keyof typeof SDKS;
  readonly transport: "SSE in process" | "SSE over a socket" | "WebSocket";
}

export type ThreadStream = ReturnType<Client["threads"]["stream"]>;

export interface Bench extends AsyncDisposable {
  readonly client: Client;
  readonly gates: Gates;
  /** Opens a stream of a thread; of a new one without an id. It is closed with the bench. */
  stream(assistantId: string, threadId?: string, reconnect_ms?: number): ThreadStream;
  /** Breaks every connection that is open. */
  cut(): void;
  /** Sends a request without the SDK. */
  send(method: string, path: string): Promise<Response>;
}

/** The runner, the subject, and a new service for each test. */
export interface Suite extends TestApi {
  readonly subject: Subject;
  bench(): Promise<Bench>;
}

/** Some of the graphs fail. */
const EXPECTED: ReadonlySet<string> = new Set(["a run failed"]);

export async function openBench({ sdk, transport }: Subject): Promise<Bench> {
  const gates = createGates();
  const host = await testService({ executor: streamExecutor(gates), worker: { concurrency: 100 } });
  const local = transport === "SSE in process";
  const reached = local ? await inProcess(host.fetch as Fetch) : await listen(createHandler(host.service));
  const { apiUrl, cut } = reached;
  // In process the SDK gets a fetch function, over sockets it has its own.
  const callerOptions = local ? { fetch: reached.fetch as typeof fetch, maxRetries: 0 } : { maxRetries: 0 };
  const client = new SDKS[sdk]({ apiUrl, apiKey: null, callerOptions });
  const streams: ThreadStream[] = [];
  return {
    client,
    gates,
    cut,
    send: (method, path) => reached.fetch(`${apiUrl}${path}`, { method }),
    stream(assistantId, threadId, reconnect_ms = 1) {
      const options = {
        assistantId,
        transport: transport === "WebSocket" ? "websocket" : "sse",
        reconnectDelayMs: () => reconnect_ms,
        ...(local ? { fetch: reached.fetch as typeof fetch } : {}),
      } as const;
      const thread = threadId === undefined ? client.threads.stream(options) : client.threads.stream(threadId, options);
      streams.push(thread);
      return thread;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(streams.map((stream) => stream.close()));
      await reached.close();
      await host[Symbol.asyncDispose]();
      assert.deepEqual(
        host.log.filter(({ level, message }) => level !== "info" && !EXPECTED.has(message)),
        [],
        "nothing went wrong unseen",
      );
    },
  };
}

/** A raw event. */
export interface Event {
  readonly event_id: string;
  readonly seq: number;
  readonly method: string;
  readonly params: {
    readonly namespace: readonly string[];
    readonly timestamp: number;
    readonly node?: string;
    readonly data: JsonObject;
  };
}

/** Raw events of a thread, read until `count` runs have ended; `each` sees them as they come. */
export async function follow(
  stream: ThreadStream,
  channels: readonly string[],
  count = 1,
  each?: (event: Event) => unknown,
): Promise<Event[]> {
  const events: Event[] = [];
  // The SDK pauses subscriptions at the end of each run.
  const handle = await stream.subscribe({ channels: ["lifecycle", ...channels] as never });
  let ended = 0;
  while (ended < count) {
    for await (const event of handle as unknown as AsyncIterable<Event>) {
      events.push(event);
      await each?.(event);
      if (isEnd(event) && ++ended === count) break;
    }
    if (ended === count) break;
    if (!handle.isPaused) throw new Error("The subscription has closed");
    handle.resume();
  }
  return events;
}

export const isEnd = ({ method, params }: Event): boolean =>
  method === "lifecycle" &&
  params.namespace.length === 0 &&
  ["completed", "failed", "interrupted"].includes(params.data.event as string);

export const createHumanInput = (content: string): { messages: { type: string; content: string }[] } => ({
  messages: [{ type: "human", content }],
});

/** The contents of the messages of a state; messages are instances of LangChain's classes, or plain. */
export const readContents = (values: unknown): unknown[] =>
  ((values as { messages?: { content: unknown }[] })?.messages ?? []).map(({ content }) => content);

export const listIds = (values: unknown): unknown[] =>
  ((values as { messages?: { id: unknown }[] })?.messages ?? []).map(({ id }) => id);

export async function collectAll<T>(iterable: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of iterable) items.push(item);
  return items;
}

export const filterData = (events: readonly Event[], method: string): JsonObject[] =>
  events.filter((event) => event.method === method).map(({ params }) => params.data);

export const filterRootEvents = (events: readonly Event[]): Json[] =>
  events
    .filter(({ method, params }) => method === "lifecycle" && params.namespace.length === 0)
    .map(({ params }) => params.data.event as Json);

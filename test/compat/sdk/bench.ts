/** A service and a stock client of it, and what tests of clients read in its answers. */
import assert from "node:assert/strict";
import type { Client } from "langgraph-sdk-2";
import { createHandler } from "../../../lib/http/handler.ts";
import type { Json, JsonObject } from "../../../lib/json.ts";
import type { ServiceOptions } from "../../../lib/service.ts";
import { testService } from "../../suite/kit.ts";
import { createGates, type Gates, testExecutor } from "../../support/graphs.ts";

export { until } from "../../support/until.ts";

/** Some of the graphs fail, or name what is not there. */
const EXPECTED: ReadonlySet<string> = new Set(["a run failed", "a route was called that is not built yet"]);

/** The test runner's two functions. */
export interface TestApi {
  describe(name: string, body: () => void): unknown;
  it(name: string, body: () => Promise<void>): unknown;
}

export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/** The address at which a client finds the service. */
export interface Opened {
  readonly apiUrl: string;
  readonly fetch: Fetch;
  /** Breaks every connection that is open. */
  cut(): void;
  close(): Promise<void>;
}

export interface Bench extends AsyncDisposable {
  readonly client: Client;
  readonly gates: Gates;
  /** Method and path, below the mount, of each request the client has sent. */
  readonly requests: string[];
  /** Breaks every connection that the client has. */
  cut(): void;
  /** One request without the SDK. */
  readonly send: (path: string, init?: RequestInit) => Promise<Response>;
}

export interface Frame {
  readonly id?: string;
  readonly event: string;
  readonly data: Json;
}

export interface Message extends JsonObject {
  readonly type: string;
  readonly content: string;
  readonly id: string;
}

export const UUID: RegExp = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
export const ABSENT = "00000000-0000-4000-8000-00000000dead";
export const createHumanInput = (content: string): { messages: { role: string; content: string }[] } => ({
  messages: [{ role: "user", content }],
});

/** The two families of agents that do the same: a function and a LangGraph graph, each of one node. */
export const FAMILIES = [
  { kind: "function", graph: "tokens", node: "tokens", wait: "wait", half: "half", fail: "fail", tell: "tell" },
  {
    kind: "LangGraph",
    graph: "chat",
    node: "model",
    wait: "waiting",
    half: "halfway",
    fail: "failing",
    tell: "informed",
  },
] as const;

export const ALL_MODES = [
  "values",
  "updates",
  "messages",
  "messages-tuple",
  "events",
  "tasks",
  "checkpoints",
  "debug",
  "custom",
] as const;

export const getMessages = (values: unknown): Message[] => (values as { messages: Message[] }).messages;
export const readContents = (values: unknown): string[] => getMessages(values).map((message) => message.content);
export const listEventNames = (frames: readonly Frame[]): string[] => frames.map((frame) => frame.event);
export const filterData = (frames: readonly Frame[], event: string): JsonObject[] =>
  frames.filter((frame) => frame.event === event).map((frame) => frame.data as JsonObject);
export const filterTuples = (frames: readonly Frame[]): [Message, JsonObject][] =>
  frames.filter((frame) => frame.event === "messages").map((frame) => frame.data as [Message, JsonObject]);
export const getInterrupts = (values: unknown): { id: string; value: Json }[] =>
  (values as { __interrupt__: { id: string; value: Json }[] }).__interrupt__;

export async function collect(stream: AsyncIterable<unknown>, each?: (frame: Frame) => unknown): Promise<Frame[]> {
  const frames: Frame[] = [];
  for await (const frame of stream as AsyncIterable<Frame>) {
    frames.push(frame);
    await each?.(frame);
  }
  return frames;
}

/** Checks that the call rejects with the SDK's HTTPError: its status, and the detail in its text. */
export async function assertRefused(call: Promise<unknown>, status: number, detail: RegExp): Promise<void> {
  await assert.rejects(call, (error: Error & { status?: number; text?: string }) => {
    assert.equal(error.status, status, error.message);
    assert.equal(error.message, `HTTP ${status}: ${error.text}`);
    const body = JSON.parse(error.text ?? "") as JsonObject;
    assert.deepEqual(Object.keys(body), ["detail", "code"]);
    assert.match(String(body.detail), detail);
    return true;
  });
}

/** A state from before the first input has no messages at all. */
export const readMessagesOrNone = (values: unknown): Message[] =>
  (values as { messages?: Message[] } | null)?.messages ?? [];
export const readContentsOrNone = (values: unknown): string[] =>
  readMessagesOrNone(values).map((message) => message.content);

/** The runner of the tests, the prefix of their titles, and a new service for each. */
export interface Suite extends TestApi {
  readonly name: string;
  bench(): Promise<Bench>;
}

/** The subject of the tests. */
export interface Subject {
  readonly Sdk: typeof Client;
  /** Opens the connection of the client to the service. */
  readonly open: (fetch: Fetch) => Promise<Opened>;
  /** Returns a storage, and a deployment that has nothing in it yet. The service before it has been stopped. */
  readonly createStorageOptions: () => Pick<ServiceOptions, "storage" | "deployment">;
  /** The path at which the handler is mounted; default: the root. */
  readonly prefix?: string;
}

/** Makes a service with these agents and nothing else in it, and a client of it. */
export async function openBench(
  { Sdk, open, createStorageOptions, prefix }: Subject,
  agents: readonly string[],
): Promise<Bench> {
  const gates = createGates();
  const executor = testExecutor(gates);
  const host = await testService({
    ...createStorageOptions(),
    executor: { ...executor, graphs: () => executor.graphs().filter(({ graph_id }) => agents.includes(graph_id)) },
    worker: { concurrency: 100 },
  });
  const mounted = prefix === undefined ? null : createHandler(host.service, { prefix });
  const reached = await open(mounted ? (input, init) => mounted(new Request(input, init)) : host.fetch);
  const { fetch, cut, close } = reached;
  const apiUrl = `${reached.apiUrl}${prefix ?? ""}`;
  const below = new URL(apiUrl).pathname.replace(/\/$/, "").length;
  const requests: string[] = [];
  const counted: Fetch = (input, init) => {
    requests.push(`${init?.method ?? "GET"} ${new URL(String(input)).pathname.slice(below)}`);
    return fetch(input, init);
  };
  const client = new Sdk({ apiUrl, apiKey: null, callerOptions: { fetch: counted, maxRetries: 0 } });
  return {
    client,
    gates,
    requests,
    cut,
    send: (path, init) => fetch(`${apiUrl.replace(/\/$/, "")}${path}`, init),
    async [Symbol.asyncDispose]() {
      await close();
      await host[Symbol.asyncDispose]();
      assert.deepEqual(
        host.log.filter(({ level, message }) => level !== "info" && !EXPECTED.has(message)),
        [],
        "nothing went wrong unseen",
      );
    },
  };
}

export const createThread = async (client: Client): Promise<string> => (await client.threads.create()).thread_id;

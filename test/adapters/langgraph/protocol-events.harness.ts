import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessageChunk, type BaseMessage } from "@langchain/core/messages";
import { ChatGenerationChunk, type ChatResult } from "@langchain/core/outputs";
import { Annotation, type LangGraphRunnableConfig, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { systemEnvironment } from "../../../lib/environment.ts";
import type { ExecutorEvent } from "../../../lib/executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../../lib/json.ts";
import { createJob, createThread, type JobChanges } from "./executor.harness.ts";

export type Graph = Parameters<typeof langgraph>[0][string];

export type ProtocolEvent = Extract<ExecutorEvent, { type: "event" }>;

export interface Shown {
  readonly events: readonly ProtocolEvent[];
  readonly frames: readonly ExecutorEvent[];
  readonly error?: unknown;
}

/** A thread, and runs of a graph on it; what they show is kept also where they fail. */
export function createHost(graph: Graph) {
  const executor = langgraph({ graph });
  const thread = createThread();
  return async (
    changes: JobChanges,
    onEvent?: (event: ProtocolEvent) => void,
    stop = new AbortController(),
  ): Promise<Shown> => {
    const events: ProtocolEvent[] = [];
    const frames: ExecutorEvent[] = [];
    try {
      for await (const event of executor.execute(
        createJob(thread, "graph", { events: "all", ...changes }),
        stop.signal,
        systemEnvironment(),
      )) {
        if (event.type !== "event") frames.push(event);
        else {
          events.push(event);
          onEvent?.(event);
        }
      }
      return { events, frames };
    } catch (error) {
      return { events, frames, error };
    }
  };
}

export const getEventData = (event?: ProtocolEvent): JsonObject => (event?.data ?? {}) as JsonObject;

/** Names of tasks in the order they are met: their ids are a matter of chance. */
export function createNamer(): (namespace: readonly string[]) => string {
  const ids: string[] = [];
  return (namespace) =>
    namespace
      .join("|")
      .replace(/[0-9a-f-]{36}/g, (id) =>
        String.fromCharCode(65 + (ids.includes(id) ? ids.indexOf(id) : ids.push(id) - 1)),
      );
}

/** Formats each event as one line: its method, its namespace, and the members that distinguish it. A series of deltas is one line. */
export function formatEvents(events: readonly ProtocolEvent[], methods?: readonly string[]): string[] {
  const name = createNamer();
  const all = events.map(({ method, namespace, node, data }) => {
    const at = `${method} [${name(namespace)}]${node === undefined ? "" : ` ${node}`}`;
    return { method, line: `${at} ${describeData(method, data as JsonObject)}`.trimEnd() };
  });
  const selected = all.filter(({ method }) => methods?.includes(method) ?? true).map(({ line }) => line);
  return selected.filter((line, at) => !line.includes("delta") || line !== selected[at - 1]);
}

export function describeData(method: string, payload: JsonObject): string {
  switch (method) {
    case "checkpoints":
      return `step ${payload.step} ${payload.source}`;
    case "values":
      if (payload === null) return "of the checkpoint";
      return Object.entries(payload)
        .map(([key, value]) => `${key} ${Array.isArray(value) ? value.length : JSON.stringify(value)}`)
        .join(" ");
    case "tasks":
      return `${"input" in payload ? "start" : "end"} ${payload.name}${(payload.interrupts as Json[])?.length ? " interrupted" : ""}`;
    case "updates":
      return Object.keys(payload.values as JsonObject).join(" ");
    case "lifecycle": {
      const { event, ...eventData } = payload;
      return `${event} ${JSON.stringify(eventData)}`;
    }
    case "messages": {
      const { event, index, content, id, reason } = payload;
      const what = isObject(content) ? JSON.stringify(content) : (reason ?? (event === "message-start" ? "" : id));
      return [event, index, event === "content-block-finish" ? what : reason]
        .filter((part) => part !== undefined)
        .join(" ");
    }
    case "tools":
      return [payload.event, payload.tool_call_id, payload.tool_name, payload.input, payload.message]
        .filter(Boolean)
        .join(" ");
    default:
      return JSON.stringify(payload.payload === undefined ? payload : { name: payload.name, payload: payload.payload });
  }
}

/** A model that streams these chunks, and then fails if there is an error. */
export class Streams extends BaseChatModel {
  readonly #pieces: readonly AIMessageChunk[];
  readonly #error: Error | undefined;
  readonly #onPiece: (() => unknown) | undefined;

  constructor(pieces: readonly (AIMessageChunk | string)[], error?: Error, onPiece?: () => unknown) {
    super({ maxRetries: 0 });
    this.#pieces = pieces.map((piece) => (typeof piece === "string" ? new AIMessageChunk({ content: piece }) : piece));
    this.#error = error;
    this.#onPiece = onPiece;
  }

  override _llmType(): string {
    return "streams";
  }

  override async *_streamResponseChunks(
    _messages: BaseMessage[],
    _options: this["ParsedCallOptions"],
    runManager?: Parameters<BaseChatModel["_streamResponseChunks"]>[2],
  ): AsyncGenerator<ChatGenerationChunk> {
    for (const message of this.#pieces) {
      const chunk = new ChatGenerationChunk({ text: message.text, message });
      yield chunk;
      await runManager?.handleLLMNewToken(message.text, undefined, undefined, undefined, undefined, { chunk });
      await this.#onPiece?.();
      // LangGraph drops what is not read yet when it fails.
      await new Promise((resolve) => setTimeout(resolve));
    }
    if (this.#error) throw this.#error;
  }

  override async _generate(messages: BaseMessage[], options: this["ParsedCallOptions"]): Promise<ChatResult> {
    const chunks: ChatGenerationChunk[] = [];
    for await (const chunk of this._streamResponseChunks(messages, options)) chunks.push(chunk);
    return { generations: [chunks.reduce((whole, chunk) => whole.concat(chunk))] };
  }
}

export const Log = Annotation.Root({
  log: Annotation<string[]>({ reducer: (current, update) => [...current, ...update], default: () => [] }),
});

export type State = typeof MessagesAnnotation.State;

/** Creates a node that calls a model. */
export const createCallingNode =
  (...pieces: readonly (AIMessageChunk | string)[]) =>
  async (_state: State, config: LangGraphRunnableConfig): Promise<{ messages: BaseMessage[] }> => ({
    messages: [await new Streams(pieces).invoke("x", config)],
  });

/** Creates a graph of one node, or of several in parallel. */
export function createParallelGraph(
  nodes: Readonly<Record<string, unknown>>,
  schema: unknown = MessagesAnnotation,
  options = {},
) {
  const graph = new StateGraph(schema as typeof MessagesAnnotation) as unknown as {
    addNode(name: string, body: unknown): void;
    addEdge(from: string, to: string): void;
    compile(options: object): {
      readonly nodes: object;
      readonly channels: object;
      stream(): never;
      invoke(...parts: unknown[]): Promise<unknown>;
    };
  };
  for (const [name, body] of Object.entries(nodes)) {
    graph.addNode(name, body);
    graph.addEdge(START, name);
  }
  return graph.compile(options);
}

export const hello = { messages: [{ type: "human", content: "hello", id: "u1" }] };

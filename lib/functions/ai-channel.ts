/**
 * Records what the AI SDK announces on its channel of `node:diagnostics_channel`: calls of models, embeddings and rerankings, and
 * executions of tools. Only calls inside of a traced attempt are recorded. Runtimes and versions without the channel announce nothing.
 */
import { selectModelParams } from "../executor/model-params.ts";
import type { EndedSpan, StartedSpan } from "../executor/trace.ts";
import { readModelResult } from "./open-streams.ts";
import { type ContextStorage, importBuiltin, type SpanContext } from "./span-context.ts";

/** One operation, which the channel passes to each of its handlers. */
interface Operation {
  readonly type?: unknown;
  readonly event?: Readonly<Record<string, unknown>>;
  readonly result?: unknown;
  readonly error?: unknown;
}

/** An operation that has started in a context. */
interface StartedOperation {
  readonly context: SpanContext;
  readonly span_id: string;
}

type Members = Readonly<Record<string, unknown>>;

const CHANNEL = "ai:telemetry";
const OPERATIONS: Readonly<Record<string, StartedSpan["operation"]>> = {
  languageModelCall: "chat",
  embed: "embeddings",
  embedMany: "embeddings",
  rerank: "rerank",
};

const toText = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);

/**
 * Returns the span of a tool, model, embedding or reranking; null for other operations, which contain these. The input is left
 * out with `recordInputs: false`.
 */
function toSpan(type: unknown, event: Members): StartedSpan | null {
  const isHidden = event.recordInputs === false;
  if (type === "executeTool") {
    const { toolName, toolCallId, input } = (event.toolCall ?? {}) as Members;
    return {
      kind: "tool",
      name: toText(toolName) ?? "tool",
      ...(typeof toolCallId === "string" ? { tool_call_id: toolCallId } : {}),
      ...(isHidden ? {} : { input: () => input }),
    };
  }
  const operation = typeof type === "string" && Object.hasOwn(OPERATIONS, type) ? OPERATIONS[type] : undefined;
  if (!operation) return null;
  const model = toText(event.modelId);
  // The AI SDK names the interface of the provider too: "openai.responses".
  const provider = toText(event.provider)?.split(".")[0];
  const params = selectModelParams(event);
  const { instructions, messages, value, query, documents } = event;
  return {
    ...{ kind: "model", operation, name: model ?? "model" },
    ...(model === undefined ? {} : { model }),
    ...(provider === undefined ? {} : { provider }),
    ...(params ? { params } : {}),
    ...(isHidden ? {} : { input: () => ({ instructions, messages, value, query, documents }) }),
  };
}

/**
 * Returns how an operation has ended: with an error, `interrupted` if the attempt was stopped. The failure of a tool is a result
 * for the AI SDK, and an error here. The output is left out with `recordOutputs: false`.
 */
function toEnd(type: unknown, { result, error, event = {} }: Operation, isStopped: boolean): EndedSpan {
  const { output } = (result ?? {}) as { readonly output?: Members };
  const toolError = type === "executeTool" && output?.type === "tool-error" ? output : null;
  const cause = error ?? toolError?.error;
  if (error !== undefined || toolError)
    return isStopped ? { status: "interrupted" } : { status: "error", error: cause };
  const isHidden = event.recordOutputs === false;
  const value = type === "executeTool" ? output?.output : (result as Members | undefined)?.content;
  return {
    status: "ok",
    ...(type === "executeTool" ? {} : readModelResult(result, toText(event.modelId))),
    ...(isHidden ? {} : { output: () => value }),
  };
}

/** Creates the handlers of the channel. They never throw into the calls that they observe: the channel catches what they throw. */
function createHandlers(storage: ContextStorage<SpanContext>): object {
  const started = new WeakMap<object, StartedOperation>();
  const stepContexts = new WeakMap<object, SpanContext>();

  /**
   * Starts the span of an operation in the innermost span of the running code, and notes streams and their steps. Does nothing
   * outside of a traced attempt.
   */
  function start(operation: Operation): void {
    const { type, event = {} } = operation;
    const context = storage.getStore();
    if (!context) return;
    if (type === "streamText") context.streams.callIds.add(event.callId);
    if (type === "step") stepContexts.set(operation, context);
    const span = toSpan(type, event);
    if (!span) return;
    const parent_id = context.findSpan();
    const span_id = context.trace.start({ ...span, ...(parent_id === undefined ? {} : { parent_id }) });
    started.set(operation, { context, span_id });
  }

  /**
   * Ends the span of an operation. The call of a model that streams has only begun: it is kept open for the end of its step, or
   * for the parts that are read. Does nothing for an operation without a span.
   */
  function end(operation: Operation): void {
    const { type, event = {}, error } = operation;
    if (type === "step") endStreamedCall(operation);
    const entry = started.get(operation);
    if (!entry) return;
    const { context, span_id } = entry;
    const isStream = type === "languageModelCall" && error === undefined && context.streams.callIds.has(event.callId);
    if (isStream) context.streams.calls.push({ span_id, call_id: event.callId });
    else context.trace.end(span_id, toEnd(type, operation, context.isStopped()));
  }

  /** Ends the open calls of a streamed step with `ok`, unless the stream is read as the result of a function or a step. */
  function endStreamedCall(step: Operation): void {
    const context = stepContexts.get(step);
    if (!context || context.streams.isRead) return;
    for (const { span_id, call_id } of context.streams.calls)
      if (call_id === step.event?.callId) context.trace.end(span_id, { status: "ok" });
  }

  const ignore = (): void => {};
  return { start, end: ignore, asyncStart: ignore, asyncEnd: end, error: ignore };
}

interface DiagnosticsChannel {
  readonly tracingChannel?: (name: string) => TracingChannel;
}

interface TracingChannel {
  subscribe(handlers: object): void;
}

let isSubscribed = false;
/** The channel, which Bun would free with its subscribers otherwise. */
const channels: TracingChannel[] = [];

/**
 * Subscribes to the channel, once per process and for good. Does nothing without a storage and on runtimes without it. Never
 * rejects.
 */
export async function subscribeToAiCalls(storage: ContextStorage<SpanContext> | null): Promise<void> {
  if (!storage || isSubscribed) return;
  isSubscribed = true;
  const diagnostics = await importBuiltin<DiagnosticsChannel>("node:diagnostics_channel").catch(() => null);
  const channel = diagnostics?.tracingChannel?.(CHANNEL);
  if (!channel) return;
  channels.push(channel);
  channel.subscribe(createHandlers(storage));
}

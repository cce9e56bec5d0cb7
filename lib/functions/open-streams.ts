/** The streams of the AI SDK that code of an agent has opened, and the spans of their model calls. */
import type { EndedSpan, SpanTokens, TraceRecorder } from "../executor/trace.ts";
/** A part of `fullStream`. */
export type StreamPart = Readonly<Record<string, unknown>> & { readonly type?: unknown };

/** The model call of one step of a stream. */
export interface StreamedCall {
  readonly span_id: string;
  readonly call_id: unknown;
}

/** Records the parts of a stream that a function or a step has returned. */
export interface PartRecorder {
  /** Starts, notes or ends the spans that a part of the stream stands for. Ignores other parts. */
  record(part: StreamPart): void;
  /** Ends all open spans of the stream, with this failure. Default: `interrupted`, because nobody reads the stream further. */
  close(failure?: EndedSpan): void;
}

/** The streams of one function or step. */
export class OpenStreams {
  /** The calls of `streamText` that the channel of the AI SDK has announced. */
  readonly callIds: Set<unknown> = new Set();
  /** The calls of models that no reader has taken, in their order. */
  readonly calls: StreamedCall[] = [];
  /** True while a returned stream is read: its parts end the calls. */
  isRead = false;
}

type Usage = Readonly<Record<string, unknown>>;

const toCount = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;

/**
 * Returns the tokens of a call; undefined if it has none that are whole numbers from 0. Parts of streams have numbers with
 * details beside them, results of models have objects, embeddings `tokens`. Details that are 0 are left out.
 */
function readTokens(usage: unknown): SpanTokens | undefined {
  if (typeof usage !== "object" || usage === null) return undefined;
  const {
    inputTokens,
    outputTokens,
    inputTokenDetails,
    outputTokenDetails,
    cachedInputTokens,
    reasoningTokens,
    tokens,
  } = usage as Usage;
  const input = { total: inputTokens ?? tokens, ...(inputTokens as object), ...(inputTokenDetails as object) } as Usage;
  const output = { total: outputTokens, ...(outputTokens as object), ...(outputTokenDetails as object) } as Usage;
  const counts = {
    in: toCount(input.total),
    out: toCount(output.total),
    cache_read: toCount(input.cacheReadTokens ?? input.cacheRead ?? cachedInputTokens) || undefined,
    cache_write: toCount(input.cacheWriteTokens ?? input.cacheWrite) || undefined,
    reasoning: toCount(output.reasoningTokens ?? output.reasoning ?? reasoningTokens) || undefined,
  };
  const known = Object.entries(counts).filter(([, count]) => count !== undefined);
  return known.length > 0 ? Object.fromEntries(known) : undefined;
}

/** What a model call says at its end. */
type ModelResult = Pick<EndedSpan, "tokens" | "usage" | "finish_reasons" | "response_id" | "response_model">;

/** Returns what a model call says at its end. `requestedModel` gives the price if the response names no model. */
export function readModelResult(result: unknown, requestedModel?: string): ModelResult {
  const { usage, finishReason, response } = (result ?? {}) as Usage;
  const { id, modelId } = (response ?? {}) as Usage;
  const tokens = readTokens(usage);
  const reason = typeof finishReason === "string" ? finishReason : (finishReason as Usage | undefined)?.unified;
  const model = typeof modelId === "string" ? modelId : requestedModel;
  return {
    ...(tokens
      ? {
          tokens,
          usage: [
            { tokens_in: tokens.in ?? 0, tokens_out: tokens.out ?? 0, ...(model === undefined ? {} : { model }) },
          ],
        }
      : {}),
    ...(typeof reason === "string" ? { finish_reasons: [reason] } : {}),
    ...(typeof id === "string" ? { response_id: id } : {}),
    ...(typeof modelId === "string" ? { response_model: modelId } : {}),
  };
}

/**
 * Returns duration and time to the first token of a step in milliseconds, which the AI SDK measures since version 7; empty
 * without them.
 */
function readTimes({ performance }: StreamPart): Pick<EndedSpan, "duration_ms" | "first_token_ms"> {
  const { responseTimeMs, timeToFirstOutputMs } = (performance ?? {}) as Usage;
  return {
    ...(typeof responseTimeMs === "number" ? { duration_ms: responseTimeMs } : {}),
    ...(typeof timeToFirstOutputMs === "number" ? { first_token_ms: timeToFirstOutputMs } : {}),
  };
}

/** The parts that a model has written first. */
const OUTPUT_PARTS: readonly unknown[] = [
  "text-delta",
  "reasoning-delta",
  "reasoning",
  "tool-input-start",
  "tool-call",
];

/**
 * Creates a recorder of a returned stream, and marks `streams` as read until it is closed. If the channel of the AI SDK has
 * announced calls, it has started the spans, and the parts only end those of models; else the parts start and end the spans of
 * models and tools, under `parent_id` or the attempt.
 */
export function createPartRecorder(
  trace: TraceRecorder,
  streams: OpenStreams,
  parent_id: string | undefined,
): PartRecorder {
  const parent = parent_id === undefined ? {} : { parent_id };
  const tools = new Map<unknown, string>();
  let model: string | undefined;
  streams.isRead = true;
  const hasChannel = (): boolean => streams.callIds.size > 0;
  /** Starts the span of a model call, unless one is open. */
  const startModel = (): void => {
    model ??= trace.start({ kind: "model", name: "model", operation: "chat", ...parent });
  };
  /** Makes the next call that the channel has announced the open one; none if there is no further call. */
  const takeModel = (): void => {
    model = streams.calls.shift()?.span_id;
  };
  /**
   * Starts the span of a tool call. Does nothing for a tool that the provider executes, or if the channel of the AI SDK records the
   * stream: then the channel has started the span.
   */
  const startTool = ({ toolCallId, toolName, input, providerExecuted }: StreamPart): void => {
    if (hasChannel() || providerExecuted === true) return;
    const details = { name: String(toolName), tool_call_id: String(toolCallId), input: () => input };
    tools.set(toolCallId, trace.start({ kind: "tool", ...details, ...parent }));
  };
  /** Ends the span of a tool call, once. Does nothing if it was not started here. */
  const endTool = ({ toolCallId }: StreamPart, result: EndedSpan): void => {
    const span_id = tools.get(toolCallId);
    if (span_id !== undefined) trace.end(span_id, result);
    tools.delete(toolCallId);
  };
  const handlers: Readonly<Record<string, (part: StreamPart) => void>> = {
    start: () => (hasChannel() ? undefined : startModel()),
    "start-step": () => (hasChannel() ? takeModel() : startModel()),
    "tool-call": startTool,
    "tool-error": (part) => endTool(part, { status: "error", error: part.error }),
    "tool-result": (part) => {
      if (part.preliminary !== true) endTool(part, { status: "ok", output: () => part.output });
    },
    "finish-step": (part) => {
      if (model !== undefined) trace.end(model, { status: "ok", ...readModelResult(part), ...readTimes(part) });
      model = undefined;
    },
  };
  return {
    record(part) {
      const { type } = part;
      if (model !== undefined && OUTPUT_PARTS.includes(type)) trace.noteFirstToken(model);
      if (typeof type === "string" && Object.hasOwn(handlers, type)) handlers[type]?.(part);
    },
    close(failure = { status: "interrupted" }) {
      streams.isRead = false;
      const calls = streams.calls.splice(0).map(({ span_id }) => span_id);
      for (const span_id of [...(model === undefined ? [] : [model]), ...calls, ...tools.values()])
        trace.end(span_id, failure);
    },
  };
}

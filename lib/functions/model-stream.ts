/** Converts the parts of the AI SDK's `streamText` to messages. Loaded when a function first returns such a stream. */
import type { EndedSpan, ModelUsage } from "../executor/contract.ts";
import type { Json, JsonObject } from "../json.ts";
import type { PartRecorder, StreamPart } from "./open-streams.ts";

/** Creates an addition to the open message: the chunk that subscribers get, and members of the whole message. */
export type CreateMessageDelta = (chunk: JsonObject | null, members: JsonObject) => unknown;

/**
 * Yields strings for texts, deltas for tool calls and, at the end of each step, `{}`, which ends the message, and then its tool
 * results as an update in the order of the calls. `textDelta` is the text of `streamObject`. Reports the usage of each step,
 * and the parts to the recorder. Throws the model's error.
 */
export async function* readModelStream(
  parts: AsyncIterable<StreamPart>,
  reportUsage: (usage: ModelUsage) => void,
  createDelta: CreateMessageDelta,
  recorder?: PartRecorder,
): AsyncGenerator<unknown> {
  if (!recorder) return yield* readParts(parts, reportUsage, createDelta);
  let failure: EndedSpan | undefined;
  try {
    yield* readParts(parts, reportUsage, createDelta, (part) => recorder.record(part));
  } catch (error) {
    failure = { status: "error", error };
    throw error;
  } finally {
    recorder.close(failure);
  }
}

// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one branch for each type of part
async function* readParts(
  parts: AsyncIterable<StreamPart>,
  reportUsage: (usage: ModelUsage) => void,
  createDelta: CreateMessageDelta,
  recordPart?: (part: StreamPart) => void,
): AsyncGenerator<unknown> {
  let toolCalls: JsonObject[] = [];
  let results: JsonObject[] = [];
  let isMessageOpen = false;
  for await (const part of parts) {
    recordPart?.(part);
    const { type, toolCallId, toolName, preliminary } = part;
    const toolMembers = { tool_call_id: String(toolCallId), name: String(toolName) };
    if (type === "text-delta" || type === "tool-call") isMessageOpen = true;
    if (type === "error") throw part.error;
    if (type === "text-delta") yield part.text ?? part.textDelta;
    else if (type === "tool-call") {
      const [id, name, args] = [toolCallId as string, toolName as string, (part.input ?? {}) as Json];
      const index = toolCalls.length;
      toolCalls = [...toolCalls, { type: "tool_call", id, name, args }];
      const chunk: JsonObject = { type: "tool_call_chunk", id, name, args: JSON.stringify(args), index };
      yield createDelta({ tool_call_chunks: [chunk] }, { tool_calls: toolCalls });
    } else if (type === "tool-result" && preliminary !== true) {
      const { output } = part;
      const content = typeof output === "string" ? output : JSON.stringify(output ?? null);
      results.push({ type: "tool", content, status: "success", ...toolMembers });
    } else if (type === "tool-error") {
      const { error } = part;
      const content = error instanceof Error ? error.message : String(error);
      results.push({ type: "tool", content, status: "error", ...toolMembers });
    } else if (type === "finish-step") {
      const members = reportStepUsage(part, reportUsage);
      if (isMessageOpen) yield createDelta(null, members);
      // The message precedes its tool results, which follow the order of the calls, whichever tool was faster.
      if (isMessageOpen) yield {};
      const ids = toolCalls.map(({ id }) => id);
      results.sort((first, second) => ids.indexOf(first.tool_call_id) - ids.indexOf(second.tool_call_id));
      if (results.length > 0) yield { messages: results };
      toolCalls = [];
      results = [];
      isMessageOpen = false;
    }
  }
}

/**
 * Reports the tokens of a model step, and returns them as the `usage_metadata` of its message. Does nothing and returns `{}`
 * without tokens.
 */
function reportStepUsage({ usage, response }: StreamPart, reportUsage: (usage: ModelUsage) => void): JsonObject {
  const { inputTokens, outputTokens } = (usage ?? {}) as {
    readonly inputTokens?: number;
    readonly outputTokens?: number;
  };
  if (inputTokens === undefined && outputTokens === undefined) return {};
  const { modelId } = (response ?? {}) as { readonly modelId?: unknown };
  const [tokens_in, tokens_out] = [inputTokens ?? 0, outputTokens ?? 0];
  reportUsage({ tokens_in, tokens_out, ...(typeof modelId === "string" ? { model: modelId } : {}) });
  return {
    usage_metadata: { input_tokens: tokens_in, output_tokens: tokens_out, total_tokens: tokens_in + tokens_out },
  };
}

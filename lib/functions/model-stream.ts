/** The parts of the AI SDK's `streamText` as messages. Loaded by the first function that returns one. */
import type { Spending } from "../executor/contract.ts";
import type { Json, JsonObject } from "../json.ts";

/** A part of `fullStream`. */
export type Part = Readonly<Record<string, unknown>> & { readonly type?: unknown };

/** Makes a part of the message that is being written: what its readers see, and members of the whole message. */
export type MakePiece = (chunk: JsonObject | null, more: JsonObject) => unknown;

/** Texts, calls and results of an AI SDK stream (`textDelta` is that of `streamObject`). Throws the model's error. */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one branch for each type of part
export async function* messagesIn(
  parts: AsyncIterable<Part>,
  spend: (usage: Spending) => void,
  piece: MakePiece,
): AsyncGenerator<unknown> {
  let calls: JsonObject[] = [];
  let results: JsonObject[] = [];
  let isOpen = false;
  for await (const part of parts) {
    const { type, toolCallId, toolName, preliminary } = part;
    const about = { tool_call_id: String(toolCallId), name: String(toolName) };
    if (type === "text-delta" || type === "tool-call") isOpen = true;
    if (type === "error") throw part.error;
    if (type === "text-delta") yield part.text ?? part.textDelta;
    else if (type === "tool-call") {
      const [id, name, args] = [toolCallId as string, toolName as string, (part.input ?? {}) as Json];
      const index = calls.length;
      calls = [...calls, { type: "tool_call", id, name, args }];
      const chunk: JsonObject = { type: "tool_call_chunk", id, name, args: JSON.stringify(args), index };
      yield piece({ tool_call_chunks: [chunk] }, { tool_calls: calls });
    } else if (type === "tool-result" && preliminary !== true) {
      const { output } = part;
      const content = typeof output === "string" ? output : JSON.stringify(output ?? null);
      results.push({ type: "tool", content, status: "success", ...about });
    } else if (type === "tool-error") {
      const { error } = part;
      const content = error instanceof Error ? error.message : String(error);
      results.push({ type: "tool", content, status: "error", ...about });
    } else if (type === "finish-step") {
      const more = spent(part, spend);
      if (isOpen) yield piece(null, more);
      // The message first, and the results in the order of its calls, whichever tool was faster.
      if (isOpen) yield {};
      const ids = calls.map(({ id }) => id);
      results.sort((one, other) => ids.indexOf(one.tool_call_id) - ids.indexOf(other.tool_call_id));
      if (results.length > 0) yield { messages: results };
      calls = [];
      results = [];
      isOpen = false;
    }
  }
}

/** Counts the tokens of a step. Returns them for its message. */
function spent({ usage, response }: Part, spend: (usage: Spending) => void): JsonObject {
  const { inputTokens, outputTokens } = (usage ?? {}) as {
    readonly inputTokens?: number;
    readonly outputTokens?: number;
  };
  if (inputTokens === undefined && outputTokens === undefined) return {};
  const { modelId } = (response ?? {}) as { readonly modelId?: unknown };
  const [tokens_in, tokens_out] = [inputTokens ?? 0, outputTokens ?? 0];
  spend({ tokens_in, tokens_out, ...(typeof modelId === "string" ? { model: modelId } : {}) });
  return {
    usage_metadata: { input_tokens: tokens_in, output_tokens: tokens_out, total_tokens: tokens_in + tokens_out },
  };
}

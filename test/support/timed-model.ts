/** A chat model for tests of traces: it notes when each of its calls runs, and reports tokens. */
import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, AIMessageChunk, type BaseMessage } from "@langchain/core/messages";
import { ChatGenerationChunk, type ChatResult } from "@langchain/core/outputs";

/** The tokens that each call reports. */
export const CALL_TOKENS = { in: 10, out: 2, cache_read: 3 };
const usage_metadata = {
  ...{ input_tokens: CALL_TOKENS.in, output_tokens: CALL_TOKENS.out, total_tokens: 12 },
  input_token_details: { cache_read: CALL_TOKENS.cache_read },
};

/** What a model answers: a text, and calls of tools by id. */
export interface TimedReply {
  readonly text?: string;
  readonly calls?: Readonly<Record<string, { readonly name: string; readonly args: Record<string, unknown> }>>;
}

/** The times of one call, of `performance.now()`. */
export interface TimedCall {
  readonly model: string;
  readonly started: number;
  ended: number;
}

type TimedReplies = (messages: readonly BaseMessage[]) => TimedReply | Promise<TimedReply>;

/** Answers with what `reply` makes of the conversation. Adds its calls to `calls`. */
export class TimedModel extends BaseChatModel {
  readonly #name: string;
  readonly #reply: TimedReplies;
  readonly #calls: TimedCall[];
  #tools: readonly { readonly name: string }[] = [];

  constructor(name: string, calls: TimedCall[], reply: TimedReplies) {
    super({});
    this.#name = name;
    this.#calls = calls;
    this.#reply = reply;
  }

  _llmType(): string {
    return "timed";
  }

  override bindTools(tools: object[]): this {
    const model = new TimedModel(this.#name, this.#calls, this.#reply);
    model.#tools = tools as { readonly name: string }[];
    return model as this;
  }

  override invocationParams(): { [name: string]: unknown } {
    const tools = this.#tools.map(({ name }) => ({ type: "function", function: { name, description: "Not kept" } }));
    return { model: this.#name, temperature: 0.2, api_key: "not kept", user: "not kept", tools };
  }

  override getLsParams(): { ls_model_type: "chat"; ls_provider: string; ls_model_name: string } {
    return { ls_model_type: "chat", ls_provider: "openai", ls_model_name: this.#name };
  }

  async #answer(messages: readonly BaseMessage[]): Promise<TimedReply> {
    const call = { model: this.#name, started: performance.now(), ended: 0 };
    this.#calls.push(call);
    try {
      return await this.#reply(messages);
    } finally {
      call.ended = performance.now();
    }
  }

  async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const { text = "", calls = {} } = await this.#answer(messages);
    const tool_calls = Object.entries(calls).map(([id, call]) => ({ ...call, id, type: "tool_call" as const }));
    const response_metadata = {
      model_name: `${this.#name}-1`,
      finish_reason: tool_calls.length > 0 ? "tool_calls" : "stop",
    };
    const message = new AIMessage({ content: text, tool_calls, usage_metadata, response_metadata });
    return { generations: [{ text, message }] };
  }

  override async *_streamResponseChunks(
    messages: BaseMessage[],
    _options: this["ParsedCallOptions"],
    run?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    const { text = "", calls = {} } = await this.#answer(messages);
    for (const word of text.split(/(?<= )/)) {
      const chunk = new ChatGenerationChunk({ text: word, message: new AIMessageChunk({ content: word }) });
      yield chunk;
      await run?.handleLLMNewToken(word, undefined, undefined, undefined, undefined, { chunk });
    }
    const tool_call_chunks = Object.entries(calls).map(([id, { name, args }], index) => ({
      ...{ id, name, index, args: JSON.stringify(args), type: "tool_call_chunk" as const },
    }));
    const response_metadata = { finish_reason: tool_call_chunks.length > 0 ? "tool_calls" : "stop" };
    const message = new AIMessageChunk({ content: "", tool_call_chunks, usage_metadata, response_metadata });
    yield new ChatGenerationChunk({ text: "", message });
  }
}

/** Returns true once the conversation has a result of a tool. */
export const hasToolResult = (messages: readonly BaseMessage[]): boolean =>
  messages.some((message) => message.getType() === "tool");

/** Reads what a span keeps of a model call that LangChain reports. */
import type { EndedSpan, SpanResult, SpanTokens } from "../../lib/executor/contract.ts";
import { selectModelParams } from "../../lib/executor/model-params.ts";
import type { Json } from "../../lib/json.ts";
import type { Metadata } from "./callbacks.ts";
import { type CountedMessage, type ModelMessage, type ModelOutput, toTokenCount } from "./model-usage.ts";

/** The details of a model call at its start. */
export interface ModelStartDetails {
  readonly name: string;
  readonly provider?: string;
  readonly model?: string;
  readonly params?: { readonly [name: string]: Json };
}

/** Returns the text if it is one and not empty. */
const toText = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);

/** Returns the details of a call. Of its options, only permitted parameters are read. */
export function readModelStart(
  serialized: unknown,
  extra: unknown,
  metadata: Metadata = {},
  runName?: string,
): ModelStartDetails {
  const { invocation_params } = (extra ?? {}) as { readonly invocation_params?: Readonly<Record<string, unknown>> };
  const { id } = (serialized ?? {}) as { readonly id?: unknown };
  const { ls_provider, ls_model_name, ls_temperature, ls_max_tokens, ls_stop } = metadata;
  const provider = toText(ls_provider);
  const model = toText(ls_model_name) ?? toText(invocation_params?.model) ?? toText(invocation_params?.model_name);
  const params = selectModelParams(invocation_params, {
    temperature: ls_temperature,
    max_tokens: ls_max_tokens,
    stop: ls_stop,
  });
  return {
    name: model ?? toText(runName) ?? (Array.isArray(id) ? toText(id.at(-1)) : undefined) ?? "model",
    ...(provider === undefined ? {} : { provider }),
    ...(model === undefined ? {} : { model }),
    ...(params ? { params } : {}),
  };
}

/** Returns the names of the model, of the response and of the reasons why it ended. */
export function readModelEnd({ generations = [] }: ModelOutput): SpanResult {
  const list = generations.flat();
  const { id, response_metadata = {} } = list[0]?.message ?? {};
  const response_model = toText(response_metadata.model_name) ?? toText(response_metadata.model);
  // LangChain names messages without an id by their run.
  const response_id = toText(response_metadata.id) ?? (id?.startsWith("run-") ? undefined : toText(id));
  const reasons = list.flatMap((generation) => toText(findFinishReason(generation)) ?? []);
  return {
    ...(response_model === undefined ? {} : { response_model }),
    ...(response_id === undefined ? {} : { response_id }),
    ...(reasons.length > 0 ? { finish_reasons: [...new Set(reasons)] } : {}),
  };
}

/** Returns why a generation ended, as its provider says it. */
function findFinishReason(generation: NonNullable<ModelOutput["generations"]>[number][number]): unknown {
  const { message, generationInfo } = generation as {
    readonly message?: ModelMessage;
    readonly generationInfo?: Readonly<Record<string, unknown>>;
  };
  for (const source of [message?.response_metadata, generationInfo]) {
    const reason = source?.finish_reason ?? source?.stop_reason ?? source?.finishReason ?? source?.done_reason;
    if (reason !== undefined && reason !== null) return reason;
  }
  return undefined;
}

/** Returns the sum of the tokens of messages, and the usage that gives their cost; empty without messages. */
export function sumUsage(messages: readonly CountedMessage[]): Pick<EndedSpan, "tokens" | "usage"> {
  if (messages.length === 0) return {};
  const tokens: { -readonly [Name in keyof SpanTokens]: number } = {};
  const add = (name: keyof SpanTokens, count: number): void => {
    tokens[name] = (tokens[name] ?? 0) + count;
  };
  for (const { message, usage } of messages) {
    const { tokens_in = 0, tokens_out = 0 } = usage;
    const { input_token_details = {}, output_token_details = {} } = message.usage_metadata ?? {};
    add("in", tokens_in);
    add("out", tokens_out);
    const details = { cache_read: input_token_details.cache_read, cache_write: input_token_details.cache_creation };
    for (const [name, count] of Object.entries({ ...details, reasoning: output_token_details.reasoning })) {
      if (toTokenCount(count) > 0) add(name as keyof SpanTokens, toTokenCount(count));
    }
  }
  return { tokens: tokens as SpanTokens, usage: messages.map(({ usage }) => usage) };
}

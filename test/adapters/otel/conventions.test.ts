/** The names of semantic-conventions-genai v0.1.0. A change here is a breaking change of the exporter. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  ATTRIBUTES,
  EVALUATION_EVENT,
  METRICS,
  OPERATIONS,
  toProviderName,
} from "../../../adapters/otel/conventions.ts";

describe("the pinned names", () => {
  it("has the attributes of requests, responses, usage, tools, content and evaluations", () => {
    const names = Object.values(ATTRIBUTES).filter((name) => name.startsWith("gen_ai."));
    assert.deepEqual(names.sort(), [
      "gen_ai.agent.name",
      "gen_ai.conversation.id",
      "gen_ai.evaluation.explanation",
      "gen_ai.evaluation.name",
      "gen_ai.evaluation.score.label",
      "gen_ai.evaluation.score.value",
      "gen_ai.input.messages",
      "gen_ai.operation.name",
      "gen_ai.output.messages",
      "gen_ai.output.type",
      "gen_ai.provider.name",
      "gen_ai.request.frequency_penalty",
      "gen_ai.request.max_tokens",
      "gen_ai.request.model",
      "gen_ai.request.presence_penalty",
      "gen_ai.request.reasoning.level",
      "gen_ai.request.seed",
      "gen_ai.request.stop_sequences",
      "gen_ai.request.stream",
      "gen_ai.request.temperature",
      "gen_ai.request.top_k",
      "gen_ai.request.top_p",
      "gen_ai.response.finish_reasons",
      "gen_ai.response.id",
      "gen_ai.response.model",
      "gen_ai.response.time_to_first_chunk",
      "gen_ai.retrieval.top_k",
      "gen_ai.system_instructions",
      "gen_ai.tool.call.arguments",
      "gen_ai.tool.call.id",
      "gen_ai.tool.call.result",
      "gen_ai.tool.definitions",
      "gen_ai.tool.name",
      "gen_ai.tool.type",
      "gen_ai.usage.cache_read.input_tokens",
      "gen_ai.usage.cache_write.input_tokens",
      "gen_ai.usage.input_tokens",
      "gen_ai.usage.output_tokens",
      "gen_ai.usage.reasoning.output_tokens",
    ]);
  });

  it("has the metrics, operations and the event", () => {
    assert.deepEqual(
      Object.values(METRICS).map(({ name, unit }) => `${name} ${unit}`),
      [
        "greenroom.queue.duration s",
        "gen_ai.invoke_agent.duration s",
        "gen_ai.client.inference.duration s",
        "gen_ai.client.inference.time_to_first_chunk s",
        "gen_ai.client.inference.operation.input_tokens {token}",
        "gen_ai.client.inference.operation.output_tokens {token}",
        "gen_ai.execute_tool.duration s",
        "greenroom.commit.duration s",
      ],
    );
    assert.deepEqual(Object.values(OPERATIONS), [
      ...["chat", "text_completion", "embeddings", "rerank"],
      ...["execute_tool", "retrieval", "invoke_agent", "invoke_workflow"],
    ]);
    assert.equal(EVALUATION_EVENT, "gen_ai.evaluation.result");
  });

  it("names providers as the conventions do", () => {
    const names = [
      "openai",
      "openai.chat",
      "google_genai",
      "google",
      "amazon_bedrock",
      "azure-openai.chat",
      "mistralai",
    ];
    assert.deepEqual(names.map(toProviderName), [
      ...["openai", "openai", "gcp.gemini", "gcp.gen_ai", "aws.bedrock", "azure.ai.openai", "mistral_ai"],
    ]);
    assert.equal(toProviderName(undefined), "unknown");
  });
});

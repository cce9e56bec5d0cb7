/**
 * The names of OpenTelemetry that spans, metrics and events are exported with. Those of `gen_ai` are pinned to semantic-conventions-genai
 * v0.1.0 (status Development, on semantic-conventions v1.45.0). Another pin is a breaking change of the exporter. The pinned release
 * names no schema URL, so the exporter sends none.
 */

/** The name of the instrumentation scope. */
export const SCOPE_NAME = "greenroom";

/** The values of `gen_ai.operation.name`. `rerank` is Greenroom's own, for a call that the conventions do not describe. */
export const OPERATIONS = {
  chat: "chat",
  text: "text_completion",
  embeddings: "embeddings",
  rerank: "rerank",
  tool: "execute_tool",
  retriever: "retrieval",
  agent: "invoke_agent",
  workflow: "invoke_workflow",
} as const;

/** The attributes of the conventions. */
export const ATTRIBUTES = {
  operation: "gen_ai.operation.name",
  provider: "gen_ai.provider.name",
  agent: "gen_ai.agent.name",
  conversation: "gen_ai.conversation.id",
  output_type: "gen_ai.output.type",
  request_model: "gen_ai.request.model",
  temperature: "gen_ai.request.temperature",
  top_p: "gen_ai.request.top_p",
  top_k: "gen_ai.request.top_k",
  max_tokens: "gen_ai.request.max_tokens",
  stop: "gen_ai.request.stop_sequences",
  seed: "gen_ai.request.seed",
  frequency_penalty: "gen_ai.request.frequency_penalty",
  presence_penalty: "gen_ai.request.presence_penalty",
  reasoning_effort: "gen_ai.request.reasoning.level",
  stream: "gen_ai.request.stream",
  response_model: "gen_ai.response.model",
  response_id: "gen_ai.response.id",
  finish_reasons: "gen_ai.response.finish_reasons",
  time_to_first_chunk: "gen_ai.response.time_to_first_chunk",
  tokens_in: "gen_ai.usage.input_tokens",
  tokens_out: "gen_ai.usage.output_tokens",
  tokens_cache_read: "gen_ai.usage.cache_read.input_tokens",
  tokens_cache_write: "gen_ai.usage.cache_write.input_tokens",
  tokens_reasoning: "gen_ai.usage.reasoning.output_tokens",
  tool: "gen_ai.tool.name",
  tool_type: "gen_ai.tool.type",
  tool_call_id: "gen_ai.tool.call.id",
  tool_arguments: "gen_ai.tool.call.arguments",
  tool_result: "gen_ai.tool.call.result",
  tool_definitions: "gen_ai.tool.definitions",
  retrieval_top_k: "gen_ai.retrieval.top_k",
  input_messages: "gen_ai.input.messages",
  output_messages: "gen_ai.output.messages",
  system_instructions: "gen_ai.system_instructions",
  evaluation: "gen_ai.evaluation.name",
  evaluation_score: "gen_ai.evaluation.score.value",
  evaluation_label: "gen_ai.evaluation.score.label",
  evaluation_explanation: "gen_ai.evaluation.explanation",
  error_type: "error.type",
  http_method: "http.request.method",
  http_route: "http.route",
  mcp_method: "mcp.method.name",
} as const;

/** Greenroom's own attributes. */
export const OWN_ATTRIBUTES = {
  run_id: "greenroom.run_id",
  graph_id: "greenroom.graph_id",
  attempt: "greenroom.attempt",
  claim: "greenroom.claim",
  namespace: "greenroom.namespace",
  node: "greenroom.node",
  step: "greenroom.step",
  try: "greenroom.try",
  task_id: "greenroom.task_id",
  cost_usd: "greenroom.cost_usd",
  kind: "greenroom.kind",
  status: "greenroom.status",
  source: "greenroom.source",
  request_id: "greenroom.request_id",
  queued_ms: "greenroom.queued_ms",
  counted: "greenroom.counted",
  commits: "greenroom.commits",
  link: "greenroom.link",
  link_run_id: "greenroom.link.run_id",
} as const;

/** The prefix of attributes that code gives to `span()`. */
export const CUSTOM_PREFIX = "greenroom.attributes.";

/** The event that feedback becomes. */
export const EVALUATION_EVENT = "gen_ai.evaluation.result";

/** The metrics, with their units. */
export const METRICS = {
  queue: { name: "greenroom.queue.duration", unit: "s" },
  attempt: { name: "gen_ai.invoke_agent.duration", unit: "s" },
  model: { name: "gen_ai.client.inference.duration", unit: "s" },
  first_token: { name: "gen_ai.client.inference.time_to_first_chunk", unit: "s" },
  tokens_in: { name: "gen_ai.client.inference.operation.input_tokens", unit: "{token}" },
  tokens_out: { name: "gen_ai.client.inference.operation.output_tokens", unit: "{token}" },
  tool: { name: "gen_ai.execute_tool.duration", unit: "s" },
  commit: { name: "greenroom.commit.duration", unit: "s" },
} as const;

/** The providers that the conventions name otherwise than LangChain and the AI SDK, by the start of their names there. */
const PROVIDERS: readonly (readonly [start: string, name: string])[] = [
  ["google_vertexai", "gcp.vertex_ai"],
  ["google.vertex", "gcp.vertex_ai"],
  ["google_genai", "gcp.gemini"],
  ["google.generative-ai", "gcp.gemini"],
  ["google-genai", "gcp.gemini"],
  ["google", "gcp.gen_ai"],
  ["amazon_bedrock", "aws.bedrock"],
  ["amazon-bedrock", "aws.bedrock"],
  ["bedrock", "aws.bedrock"],
  ["azure", "azure.ai.openai"],
  ["mistral", "mistral_ai"],
  ["moonshot", "moonshot_ai"],
  ["xai", "x_ai"],
  ["ibm", "ibm.watsonx.ai"],
  ["watsonx", "ibm.watsonx.ai"],
];

/**
 * Returns the value of `gen_ai.provider.name`: the name in the conventions, else the part before the first dot, because the AI
 * SDK adds the interface, as in `openai.chat`. `unknown` without a provider.
 */
export function toProviderName(provider: string | undefined): string {
  if (!provider) return "unknown";
  const renamed = PROVIDERS.find(([start]) => provider.startsWith(start));
  return renamed ? renamed[1] : (provider.split(".")[0] ?? provider);
}

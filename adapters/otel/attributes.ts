/** The name, kind and attributes of the OpenTelemetry span for a span of a run. */
import { type Attributes, type AttributeValue, SpanKind } from "@opentelemetry/api";
import type { Json } from "../../lib/json.ts";
import type { TraceUsage } from "../../lib/storage/mod.ts";
import type { Span } from "../../lib/storage/spans.ts";
import type { TracedAttempt } from "../../lib/traces/sinks.ts";
import { ATTRIBUTES, CUSTOM_PREFIX, OPERATIONS, OWN_ATTRIBUTES, toProviderName } from "./conventions.ts";
import { readCopy, toModelInput, toModelOutput } from "./messages.ts";

/** The name and kind of an exported span. */
export interface SpanShape {
  readonly name: string;
  readonly kind: SpanKind;
}

/** Whether an agent span is that of a plain subgraph, which has no name of its own. */
export interface AgentShape {
  readonly isWorkflow: boolean;
}

const SECOND_MS = 1_000;

/** Returns the value of `gen_ai.operation.name`; undefined for spans that are no operation of a model or agent. */
function toOperation({ kind, operation = "chat" }: Span, { isWorkflow }: AgentShape): string | undefined {
  if (kind === "attempt") return OPERATIONS.agent;
  if (kind === "agent") return isWorkflow ? OPERATIONS.workflow : OPERATIONS.agent;
  if (kind === "model") return OPERATIONS[operation];
  return kind === "tool" || kind === "retriever" ? OPERATIONS[kind] : undefined;
}

/**
 * Returns the name and the kind of the exported span. The name is the operation, or the kind without one, and the model or name.
 * Models, retrievers and webhooks are clients.
 */
export function toShape(span: Span, agent: AgentShape): SpanShape {
  const { kind, name, model } = span;
  const operation = toOperation(span, agent);
  if (kind === "model") return { name: `${operation} ${model ?? name}`, kind: SpanKind.CLIENT };
  const isClient = kind === "retriever" || kind === "webhook";
  return { name: `${operation ?? kind} ${name}`, kind: isClient ? SpanKind.CLIENT : SpanKind.INTERNAL };
}

/** Returns the attributes without those that are undefined. */
const pickDefined = (members: Readonly<Record<string, AttributeValue | undefined>>): Attributes =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));

const toNumber = (value: Json | undefined): number | undefined => (typeof value === "number" ? value : undefined);
const toText = (value: Json | undefined): string | undefined => (typeof value === "string" ? value : undefined);
const isText = (value: Json): value is string => typeof value === "string";

/** Returns the attributes of the parameters of a model call. Those that are absent or of another type are left out. */
function toRequestAttributes({ params = {} }: Span): Attributes {
  const { stream, response_format } = params;
  const format = toText(response_format);
  return pickDefined({
    [ATTRIBUTES.temperature]: toNumber(params["temperature"]),
    [ATTRIBUTES.top_p]: toNumber(params["top_p"]),
    [ATTRIBUTES.top_k]: toNumber(params["top_k"]),
    [ATTRIBUTES.max_tokens]: toNumber(params["max_tokens"]),
    [ATTRIBUTES.seed]: toNumber(params["seed"]),
    [ATTRIBUTES.frequency_penalty]: toNumber(params["frequency_penalty"]),
    [ATTRIBUTES.presence_penalty]: toNumber(params["presence_penalty"]),
    [ATTRIBUTES.reasoning_effort]: toText(params["reasoning_effort"]),
    [ATTRIBUTES.stream]: typeof stream === "boolean" ? stream : undefined,
    [ATTRIBUTES.output_type]: format && (format === "text" ? "text" : "json"),
  });
}

/** Returns the attributes of the conventions that a span of this kind has when it starts. */
function toKindAttributes(span: Span, { thread_id }: TracedAttempt): Attributes {
  const { kind, name, model = name, provider, tool_call_id, params = {} } = span;
  const conversation = { [ATTRIBUTES.conversation]: thread_id ?? undefined };
  switch (kind) {
    case "attempt":
    case "agent":
      return pickDefined({ [ATTRIBUTES.agent]: name, ...conversation });
    case "model":
      return pickDefined({
        ...conversation,
        [ATTRIBUTES.provider]: toProviderName(provider),
        [ATTRIBUTES.request_model]: model,
        ...toRequestAttributes(span),
      });
    case "tool":
      return pickDefined({
        [ATTRIBUTES.tool]: name,
        [ATTRIBUTES.tool_type]: "function",
        [ATTRIBUTES.tool_call_id]: tool_call_id,
      });
    case "retriever":
      return pickDefined({ [ATTRIBUTES.retrieval_top_k]: toNumber(params["top_k"]) });
    default:
      return {};
  }
}

/** Returns the attributes of an attempt that its other spans do not have. */
const toAttemptAttributes = ({ claim, queued_ms, origin }: TracedAttempt): Attributes =>
  pickDefined({
    // Later claims do not know since when the run was due.
    [OWN_ATTRIBUTES.queued_ms]: claim === 1 ? queued_ms : undefined,
    [OWN_ATTRIBUTES.source]: origin.source ?? "in_process",
    [OWN_ATTRIBUTES.request_id]: origin.request_id,
  });

/** Returns the attributes that a span has when it starts. */
export function toStartAttributes(span: Span, attempt: TracedAttempt, agent: AgentShape): Attributes {
  const { kind, name, namespace } = span;
  return pickDefined({
    [ATTRIBUTES.operation]: toOperation(span, agent),
    ...toKindAttributes(span, attempt),
    [OWN_ATTRIBUTES.run_id]: attempt.run_id,
    [OWN_ATTRIBUTES.graph_id]: attempt.graph_id,
    [OWN_ATTRIBUTES.attempt]: attempt.attempt,
    [OWN_ATTRIBUTES.claim]: attempt.claim,
    [OWN_ATTRIBUTES.kind]: kind,
    [OWN_ATTRIBUTES.namespace]: namespace && [...namespace],
    [OWN_ATTRIBUTES.node]: span.node ?? (kind === "node" ? name : undefined),
    [OWN_ATTRIBUTES.step]: span.step,
    [OWN_ATTRIBUTES.try]: span.try,
    [OWN_ATTRIBUTES.task_id]: span.task_id,
    ...(kind === "attempt" ? toAttemptAttributes(attempt) : {}),
  });
}

/**
 * Returns the attributes that a span has when it has ended. `usage` is what an attempt has reported; tokens and cost of the span
 * go before.
 */
export function toEndAttributes(span: Span, usage: TraceUsage | null): Attributes {
  const { kind, tokens, cost_usd, first_token_ms, finish_reasons, commits } = span;
  return pickDefined({
    [ATTRIBUTES.response_model]: span.response_model,
    [ATTRIBUTES.response_id]: span.response_id,
    [ATTRIBUTES.finish_reasons]: finish_reasons ? [...finish_reasons] : undefined,
    [ATTRIBUTES.time_to_first_chunk]: first_token_ms === undefined ? undefined : first_token_ms / SECOND_MS,
    [ATTRIBUTES.tokens_in]: tokens?.in ?? usage?.tokens_in,
    [ATTRIBUTES.tokens_out]: tokens?.out ?? usage?.tokens_out,
    [ATTRIBUTES.tokens_cache_read]: tokens?.cache_read,
    [ATTRIBUTES.tokens_cache_write]: tokens?.cache_write,
    [ATTRIBUTES.tokens_reasoning]: tokens?.reasoning,
    [OWN_ATTRIBUTES.cost_usd]: cost_usd ?? usage?.cost_usd,
    [OWN_ATTRIBUTES.status]: span.status,
    [OWN_ATTRIBUTES.counted]: kind === "attempt" ? span.counted : undefined,
    [OWN_ATTRIBUTES.commits]: commits?.count,
    [ATTRIBUTES.error_type]: toErrorType(span),
  });
}

/**
 * Returns the value of `error.type`: the type of the error, `_OTHER` without one, or `timeout` or `lost`; undefined for other
 * statuses.
 */
export function toErrorType({ status, error }: Span): string | undefined {
  if (status === "error") return error?.type ?? "_OTHER";
  return status === "timeout" || status === "lost" ? status : undefined;
}

/** Returns a text as it is, and any other value as JSON; undefined for undefined. */
function toJsonText(value: Json | undefined): string | undefined {
  if (value === undefined || typeof value === "string") return value;
  return JSON.stringify(value);
}

const toListText = (list: readonly Json[]): string | undefined => (list.length > 0 ? JSON.stringify(list) : undefined);

/**
 * Returns the attributes that a span has only in exporters that send content: its custom ones, the arguments and result of a
 * tool, the messages, tools and stop sequences of a model. Values without a copy are left out.
 */
export function toContentAttributes(span: Span): Attributes {
  const { kind, params, attributes = {}, finish_reasons } = span;
  const input = readCopy(span.input);
  const output = readCopy(span.output);
  const custom = Object.fromEntries(Object.entries(attributes).map(([name, value]) => [CUSTOM_PREFIX + name, value]));
  if (kind === "tool")
    return pickDefined({
      ...custom,
      [ATTRIBUTES.tool_arguments]: toJsonText(input),
      [ATTRIBUTES.tool_result]: toJsonText(output),
    });
  if (kind !== "model") return custom;
  const { instructions, messages } = input === undefined ? { instructions: [], messages: [] } : toModelInput(input);
  const { stop, tools: toolNames } = params ?? {};
  const tools = Array.isArray(toolNames) ? toolNames.filter(isText) : [];
  return pickDefined({
    ...custom,
    [ATTRIBUTES.stop]: stop === undefined ? undefined : [stop].flat().filter(isText),
    [ATTRIBUTES.system_instructions]: toListText(instructions),
    [ATTRIBUTES.input_messages]: toListText(messages),
    [ATTRIBUTES.output_messages]: output === undefined ? undefined : toListText(toModelOutput(output, finish_reasons)),
    [ATTRIBUTES.tool_definitions]: toListText(tools.map((name) => ({ type: "function", name }))),
  });
}

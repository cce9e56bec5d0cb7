/** Collects the tokens and cost of an attempt: of model calls, and of messages that nodes write without one. */
import type { ExecutorEvent, ModelUsage } from "../../lib/executor/contract.ts";
import { type ChainStart, type ChatModelStart, HANDLER_NAME } from "./callbacks.ts";
import { isMessage } from "./json.ts";

type UsageEvent = Extract<ExecutorEvent, { type: "usage" }>;

/** A message of a model with its usage metadata. LangSmith defines the costs. */
export interface ModelMessage {
  readonly id?: string;
  readonly usage_metadata?: {
    readonly input_tokens?: unknown;
    readonly output_tokens?: unknown;
    readonly total_cost?: unknown;
    readonly input_cost?: unknown;
    readonly output_cost?: unknown;
    readonly input_token_details?: { readonly cache_read?: unknown; readonly cache_creation?: unknown };
    readonly output_token_details?: { readonly reasoning?: unknown };
  };
  readonly response_metadata?: Readonly<Record<string, unknown>>;
}

/** A message that was counted, with the usage that it was counted as. */
export interface CountedMessage {
  readonly message: ModelMessage;
  readonly usage: ModelUsage;
}

/** The output of a model, as callbacks get it. */
export interface ModelOutput {
  readonly generations?: readonly (readonly { readonly message?: ModelMessage }[])[];
}

/**
 * Counts each message once: when its model ends, or when a node has written it that did not get it as input. It is a
 * callback handler of what runs inside nodes.
 */
export class ModelUsageCollector {
  readonly name: string = HANDLER_NAME;
  readonly awaitHandlers = true;
  /** The counted messages, and those that nodes got as input. Contains objects and ids, which reducers add later. */
  readonly #countedMessages = new Set<string | ModelMessage>();
  readonly #inputMessages = new Set<string | ModelMessage>();
  readonly #modelByRun = new Map<string, string>();
  readonly #innerNodeRuns = new Set<string>();
  #events: UsageEvent[] = [];

  /** Called by LangChain: notes the requested model of the call. */
  handleChatModelStart(...[, , run_id, , , , metadata]: ChatModelStart): void {
    const ls_model_name = metadata?.ls_model_name;
    if (typeof ls_model_name === "string") this.#modelByRun.set(run_id, ls_model_name);
  }

  /** Called by LangChain: counts the messages of a model call, and forgets the call. Returns the messages that were not counted before. */
  handleLLMEnd({ generations = [] }: ModelOutput, run_id: string): readonly CountedMessage[] {
    const model = this.#modelByRun.get(run_id);
    this.#modelByRun.delete(run_id);
    return generations.flat().flatMap(({ message }) => (message && this.#count(message, model)) ?? []);
  }

  handleLLMError(_error: unknown, run_id: string): void {
    this.#modelByRun.delete(run_id);
  }

  /** Records the start of a node in a graph that a node calls. */
  handleChainStart(...[, input, run_id, , , metadata, , name]: ChainStart): void {
    if (name === undefined || name !== metadata?.langgraph_node) return;
    this.#innerNodeRuns.add(run_id);
    this.onNodeStart(input);
  }

  handleChainEnd(output: unknown, run_id: string): readonly CountedMessage[] {
    return this.#innerNodeRuns.delete(run_id) ? this.onNodeEnd(output) : NO_MESSAGES;
  }

  handleChainError(_error: unknown, run_id: string): void {
    this.#innerNodeRuns.delete(run_id);
  }

  /** Records the input of a node. Called directly, because callbacks cost time in every run. */
  onNodeStart(input: unknown): void {
    forEachMessage(input, 2, (message) => {
      if (message.usage_metadata) addMessage(this.#inputMessages, message);
    });
  }

  /** Counts the messages that a node has returned. Returns those that were not counted before. */
  onNodeEnd(output: unknown): readonly CountedMessage[] {
    let list = NO_MESSAGES;
    forEachMessage(output, 3, (message) => {
      const counted = hasMessage(this.#inputMessages, message) ? undefined : this.#count(message);
      if (counted) list = [...list, counted];
    });
    return list;
  }

  /** Removes and returns the events since the last call. */
  drain(): readonly UsageEvent[] {
    if (this.#events.length === 0) return NO_EVENTS;
    const events = this.#events;
    this.#events = [];
    return events;
  }

  /**
   * Adds a usage event for a message of a model, once per object and per id. Returns undefined for later calls with the same message,
   * and for messages without `usage_metadata`, which it ignores. Counts that are no counts become 0. The requested model has
   * precedence over that of the response, and the total cost over the sum of its parts. The event has no model or no cost if none
   * is known.
   */
  #count(message: ModelMessage, requestedModel?: string): CountedMessage | undefined {
    if (!message.usage_metadata || hasMessage(this.#countedMessages, message)) return undefined;
    addMessage(this.#countedMessages, message);
    const { model_name, model: fallbackModel } = message.response_metadata ?? {};
    const model = [requestedModel, model_name, fallbackModel].find((name) => typeof name === "string") as
      | string
      | undefined;
    const usage: ModelUsage = { ...readUsage(message), ...(model === undefined ? {} : { model }) };
    this.#events.push({ type: "usage", ...usage });
    return { message, usage };
  }
}

const NO_MESSAGES: readonly CountedMessage[] = [];

/** Returns the tokens of a message and, if it names a cost, that too. */
function readUsage({ usage_metadata = {} }: ModelMessage): {
  readonly tokens_in: number;
  readonly tokens_out: number;
  readonly cost_usd?: number;
} {
  const { input_tokens, output_tokens, total_cost, input_cost, output_cost } = usage_metadata;
  const costs = isCost(total_cost) ? [total_cost] : [input_cost, output_cost].filter(isCost);
  return {
    tokens_in: toTokenCount(input_tokens),
    tokens_out: toTokenCount(output_tokens),
    ...(costs.length > 0 ? { cost_usd: costs.reduce((sum, cost) => sum + cost, 0) } : {}),
  };
}

function addMessage(messages: Set<string | ModelMessage>, message: ModelMessage): void {
  messages.add(message);
  if (message.id !== undefined) messages.add(message.id);
}

const hasMessage = (messages: ReadonlySet<string | ModelMessage>, message: ModelMessage): boolean =>
  messages.has(message) || (message.id !== undefined && messages.has(message.id));

const NO_EVENTS: readonly UsageEvent[] = [];

/** Returns 0 for an invalid count, because a model that counts wrongly must not fail its run. */
export const toTokenCount = (value: unknown): number =>
  Number.isSafeInteger(value) && (value as number) >= 0 ? Number(value) : 0;
const isCost = (value: unknown): value is number =>
  typeof value === "number" && value >= 0 && value < Number.POSITIVE_INFINITY;

/** Visits the messages in a state, an update or a command, at most `depth` levels down. Does not look into messages. */
function forEachMessage(value: unknown, depth: number, visit: (message: ModelMessage) => void): void {
  if (typeof value !== "object" || value === null) return;
  if (isMessage(value)) visit(value as ModelMessage);
  else if (depth > 0 && !ArrayBuffer.isView(value)) {
    for (const inner of Array.isArray(value) ? value : Object.values(value)) forEachMessage(inner, depth - 1, visit);
  }
}

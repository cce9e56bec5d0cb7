/** Tokens and cost of an attempt: of calls of models, and of messages that nodes write without one. */
import type { ExecutorEvent } from "../../lib/executor/contract.ts";
import { type ChainStart, type ChatModelStart, NAME } from "./callbacks.ts";
import { isMessage } from "./json.ts";

type UsageEvent = Extract<ExecutorEvent, { type: "usage" }>;

/** A message of a model, with what it says about its use. LangSmith defines the costs. */
interface ModelMessage {
  readonly id?: string;
  readonly usage_metadata?: {
    readonly input_tokens?: unknown;
    readonly output_tokens?: unknown;
    readonly total_cost?: unknown;
    readonly input_cost?: unknown;
    readonly output_cost?: unknown;
  };
  readonly response_metadata?: { readonly model_name?: unknown; readonly model?: unknown };
}

interface ModelOutput {
  readonly generations?: readonly (readonly { readonly message?: ModelMessage }[])[];
}

/**
 * Counts each message once: when its model ends, or when a node has written it that did not get it as input. It is a handler of what
 * runs inside nodes.
 */
export class ModelUsageCollector {
  readonly name: string = NAME;
  readonly awaitHandlers = true;
  /** Messages of which the tokens are counted, and those that nodes got as input: objects and ids, which reducers add later. */
  private readonly counted = new Set<string | ModelMessage>();
  private readonly given = new Set<string | ModelMessage>();
  private readonly models = new Map<string, string>();
  private readonly inner = new Set<string>();
  private events: UsageEvent[] = [];

  handleChatModelStart(...[, , run_id, , , , metadata]: ChatModelStart): void {
    const ls_model_name = metadata?.ls_model_name;
    if (typeof ls_model_name === "string") this.models.set(run_id, ls_model_name);
  }

  handleLLMEnd({ generations = [] }: ModelOutput, run_id: string): void {
    const model = this.models.get(run_id);
    this.models.delete(run_id);
    for (const { message } of generations.flat()) if (message) this.count(message, model);
  }

  handleLLMError(_error: unknown, run_id: string): void {
    this.models.delete(run_id);
  }

  /** The nodes of graphs that nodes call. */
  handleChainStart(...[, input, run_id, , , metadata, , name]: ChainStart): void {
    if (name === undefined || name !== metadata?.langgraph_node) return;
    this.inner.add(run_id);
    this.onNodeStart(input);
  }

  handleChainEnd(output: unknown, run_id: string): void {
    if (this.inner.delete(run_id)) this.onNodeEnd(output);
  }

  handleChainError(_error: unknown, run_id: string): void {
    this.inner.delete(run_id);
  }

  /** A node starts. Not a callback: those cost time in every run. */
  onNodeStart(input: unknown): void {
    eachMessage(input, 2, (message) => {
      if (message.usage_metadata) add(this.given, message);
    });
  }

  /** A node has returned this. */
  onNodeEnd(output: unknown): void {
    eachMessage(output, 3, (message) => {
      if (!has(this.given, message)) this.count(message);
    });
  }

  /** What has been counted since the last call. */
  take(): readonly UsageEvent[] {
    if (this.events.length === 0) return NONE;
    const events = this.events;
    this.events = [];
    return events;
  }

  private count(message: ModelMessage, requested?: string): void {
    if (!message.usage_metadata || has(this.counted, message)) return;
    add(this.counted, message);
    const { input_tokens, output_tokens, total_cost, input_cost, output_cost } = message.usage_metadata;
    const { model_name, model: other } = message.response_metadata ?? {};
    const model = [requested, model_name, other].find((name) => typeof name === "string") as string | undefined;
    const costs = isCost(total_cost) ? [total_cost] : [input_cost, output_cost].filter(isCost);
    this.events.push({
      type: "usage",
      tokens_in: tokens(input_tokens),
      tokens_out: tokens(output_tokens),
      ...(costs.length > 0 ? { cost_usd: costs.reduce((sum, cost) => sum + cost, 0) } : {}),
      ...(model === undefined ? {} : { model }),
    });
  }
}

function add(known: Set<string | ModelMessage>, message: ModelMessage): void {
  known.add(message);
  if (message.id !== undefined) known.add(message.id);
}

const has = (known: ReadonlySet<string | ModelMessage>, message: ModelMessage): boolean =>
  known.has(message) || (message.id !== undefined && known.has(message.id));

const NONE: readonly UsageEvent[] = [];

/** A model that counts wrongly must not fail its run. */
const tokens = (value: unknown): number => (Number.isSafeInteger(value) && (value as number) >= 0 ? Number(value) : 0);
const isCost = (value: unknown): value is number =>
  typeof value === "number" && value >= 0 && value < Number.POSITIVE_INFINITY;

/** The messages in a state, an update or a command, at most `depth` levels down. */
function eachMessage(value: unknown, depth: number, take: (message: ModelMessage) => void): void {
  if (typeof value !== "object" || value === null) return;
  if (isMessage(value)) take(value as ModelMessage);
  else if (depth > 0 && !ArrayBuffer.isView(value)) {
    for (const inner of Array.isArray(value) ? value : Object.values(value)) eachMessage(inner, depth - 1, take);
  }
}

/** A message that streams: its blocks grow by the `messages` events of the protocol. */
import type { Block, Message, ToolCall } from "./messages.ts";

export interface MessageData {
  readonly event: string;
  readonly id?: string;
  readonly role?: string;
  readonly tool_call_id?: string;
  readonly metadata?: { readonly model?: string };
  readonly index?: number;
  readonly content?: Block;
  readonly delta?: { readonly type: string; readonly fields?: Readonly<Record<string, unknown>> } & Readonly<
    Record<string, unknown>
  >;
  readonly usage?: Message["usage_metadata"];
  /** The same in all events of a message. */
  readonly run_id?: string;
}

/** Delta → the member of a block that it is added to. */
const GROWS: Readonly<Record<string, string>> = {
  "text-delta": "text",
  "reasoning-delta": "reasoning",
  "data-delta": "data",
  "tool-call-delta": "args",
};

function parsed(args: unknown): unknown {
  if (typeof args !== "string") return args ?? {};
  try {
    return JSON.parse(args);
  } catch {
    return args;
  }
}

const isCall = ({ type }: Block): boolean => /^(?:invalid_)?tool_call/.test(type);

export class Piece {
  readonly id: string;
  readonly #start: MessageData;
  readonly #blocks: Block[] = [];
  #usage: Message["usage_metadata"];
  #built: Message | null = null;

  constructor(start: MessageData) {
    this.#start = start;
    this.id = start.id ?? start.run_id ?? "";
  }

  take({ event, index = 0, content, delta, usage }: MessageData): void {
    this.#built = null;
    if (event === "message-finish") this.#usage = usage;
    if (content) this.#blocks[index] = content;
    const before = this.#blocks[index];
    if (!delta || !before) return;
    const member = GROWS[delta.type];
    const change = member ? { [member]: `${before[member] ?? ""}${delta[member] ?? ""}` } : delta.fields;
    this.#blocks[index] = { ...before, ...change };
  }

  /** The same object until the next event of this message. */
  get message(): Message {
    this.#built ??= this.#build();
    return this.#built;
  }

  #build(): Message {
    const { role = "ai", metadata, tool_call_id } = this.#start;
    const blocks = this.#blocks.filter(Boolean);
    const calls = blocks.filter(isCall).map(
      ({ id, name, args }): ToolCall => ({
        ...(typeof id === "string" ? { id } : {}),
        name: String(name ?? ""),
        args: parsed(args),
      }),
    );
    return {
      type: role,
      id: this.id,
      content: blocks.filter((block) => !isCall(block)),
      ...(calls.length > 0 ? { tool_calls: calls } : {}),
      ...(tool_call_id ? { tool_call_id } : {}),
      ...(metadata?.model ? { response_metadata: { model_name: metadata.model } } : {}),
      ...(this.#usage ? { usage_metadata: this.#usage } : {}),
    };
  }
}

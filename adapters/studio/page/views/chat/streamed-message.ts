/** Builds a message from the `messages` events of the protocol while it streams. */
import type { ChatMessage, ContentBlock, ToolCall } from "./messages.ts";

export interface MessageEvent {
  readonly event: string;
  readonly id?: string;
  readonly role?: string;
  readonly tool_call_id?: string;
  readonly metadata?: { readonly model?: string };
  readonly index?: number;
  readonly content?: ContentBlock;
  readonly delta?: { readonly type: string; readonly fields?: Readonly<Record<string, unknown>> } & Readonly<
    Record<string, unknown>
  >;
  readonly usage?: ChatMessage["usage_metadata"];
  /** The id of the model call, equal in all events of a message. */
  readonly run_id?: string;
}

/** The member of a block that each kind of delta is appended to. */
const DELTA_MEMBERS: Readonly<Record<string, string>> = {
  "text-delta": "text",
  "reasoning-delta": "reasoning",
  "data-delta": "data",
  "tool-call-delta": "args",
};

/** Returns the parsed arguments, or the text while it is no complete JSON; `{}` for none. */
function parseArgs(args: unknown): unknown {
  if (typeof args !== "string") return args ?? {};
  try {
    return JSON.parse(args);
  } catch {
    return args;
  }
}

const isCall = ({ type }: ContentBlock): boolean => /^(?:invalid_)?tool_call/.test(type);

export class StreamedMessage {
  readonly id: string;
  readonly #start: MessageEvent;
  readonly #blocks: ContentBlock[] = [];
  #usage: ChatMessage["usage_metadata"];
  #built: ChatMessage | null = null;

  constructor(start: MessageEvent) {
    this.#start = start;
    this.id = start.id ?? start.run_id ?? "";
  }

  /**
   * Adds a part to the block at `index`: text is appended, other members are replaced. `content` replaces the block,
   * and a delta without a block is ignored. The end sets the usage. The next message that is built is a new object.
   */
  handleEvent({ event, index = 0, content, delta, usage }: MessageEvent): void {
    this.#built = null;
    if (event === "message-finish") this.#usage = usage;
    if (content) this.#blocks[index] = content;
    const before = this.#blocks[index];
    if (!delta || !before) return;
    const member = DELTA_MEMBERS[delta.type];
    const change = member ? { [member]: `${before[member] ?? ""}${delta[member] ?? ""}` } : delta.fields;
    this.#blocks[index] = { ...before, ...change };
  }

  /** The message so far. It is one object until the next event of this message. */
  get message(): ChatMessage {
    this.#built ??= this.#build();
    return this.#built;
  }

  /** Returns a new message of the parts so far, with tool calls as a member of their own instead of content blocks. */
  #build(): ChatMessage {
    const { role = "ai", metadata, tool_call_id } = this.#start;
    const blocks = this.#blocks.filter(Boolean);
    const calls = blocks.filter(isCall).map(
      ({ id, name, args }): ToolCall => ({
        ...(typeof id === "string" ? { id } : {}),
        name: String(name ?? ""),
        args: parseArgs(args),
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

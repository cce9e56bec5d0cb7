/** Messages as the API shows them. */
export interface ToolCall {
  readonly id?: string;
  readonly name: string;
  readonly args: unknown;
}

export interface Block {
  readonly type: string;
  readonly [key: string]: unknown;
}

export interface Message {
  readonly type: string;
  readonly id?: string;
  readonly name?: string;
  readonly content: string | readonly (Block | string)[];
  readonly tool_calls?: readonly ToolCall[];
  readonly tool_call_id?: string;
  readonly status?: string;
  readonly additional_kwargs?: Readonly<Record<string, unknown>>;
  readonly response_metadata?: Readonly<Record<string, unknown>>;
  readonly usage_metadata?: {
    readonly input_tokens?: number;
    readonly output_tokens?: number;
    readonly total_tokens?: number;
  };
}

const isMessage = (value: unknown): value is Message =>
  typeof value === "object" && value !== null && "content" in value && ("type" in value || "role" in value);

const ROLES: Readonly<Record<string, string>> = { user: "human", assistant: "ai" };

function normal(message: Message): Message {
  const type = message.type ?? (message as unknown as { readonly role: string }).role;
  const short = type.replace(/MessageChunk$/, "").toLowerCase();
  return { ...message, type: ROLES[short] ?? short };
}

/** The messages of a state; null where it has none. */
export function messagesOf(values: unknown): readonly Message[] | null {
  const { messages } = (typeof values === "object" && values !== null ? values : {}) as { readonly messages?: unknown };
  return Array.isArray(messages) && messages.every(isMessage) ? messages.map(normal) : null;
}

/** Messages without the results of tools, and these by the ids of their calls: the card of a call shows its result. */
export function withResults(messages: readonly Message[]) {
  const called = new Set(messages.flatMap(({ tool_calls = [] }) => tool_calls.map(({ id }) => id)));
  const isResult = ({ type, tool_call_id }: Message): boolean => type === "tool" && called.has(tool_call_id);
  return {
    shown: messages.filter((one) => !isResult(one)),
    results: new Map(messages.filter(isResult).map((one) => [one.tool_call_id ?? "", one])),
  };
}

const blocksOf = ({ content }: Message): readonly Block[] =>
  (typeof content === "string" ? [content] : content).map((part) =>
    typeof part === "string" ? { type: "text", text: part } : part,
  );

/** The text that a reader sees. */
export const textOf = (message: Message): string =>
  blocksOf(message)
    .filter(({ type }) => type === "text")
    .map(({ text }) => String(text ?? ""))
    .join("");

/** What a model thought before it answered, in the forms of the providers. */
export function reasoningOf(message: Message): string {
  const { reasoning_content } = (message.additional_kwargs ?? {}) as { readonly reasoning_content?: unknown };
  const inBlocks = blocksOf(message)
    .filter(({ type }) => type === "reasoning" || type === "thinking")
    .map((block) => String(block["reasoning"] ?? block["thinking"] ?? block["text"] ?? ""));
  return [typeof reasoning_content === "string" ? reasoning_content : "", ...inBlocks].filter(Boolean).join("\n\n");
}

/** Images and files of a message. */
export const attachmentsOf = (message: Message): readonly Block[] =>
  blocksOf(message).filter(({ type }) => /^(?:image|image_url|file|input_file|audio|video|document)$/.test(type));

/** The address of an image, if it may be shown: data alone, since another host would learn who looks. */
export function imageOf(block: Block): string | null {
  const { image_url, url, data, mime_type, source } = block as Record<string, unknown>;
  const nested = image_url as string | { readonly url?: string } | undefined;
  const inner = source as { readonly data?: string; readonly media_type?: string } | undefined;
  const address = typeof nested === "string" ? nested : (nested?.url ?? (url as string | undefined));
  if (typeof address === "string") return /^data:image\//.test(address) ? address : null;
  const bytes = typeof data === "string" ? data : inner?.data;
  const type = (mime_type as string | undefined) ?? inner?.media_type ?? "image/png";
  return bytes && block.type === "image" ? `data:${type};base64,${bytes}` : null;
}

/** Messages as the API shows them, and the tokens that they are made of while a run streams. */
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
  readonly tool_call_chunks?: readonly ToolChunk[];
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

interface ToolChunk {
  readonly index?: number;
  readonly id?: string;
  readonly name?: string;
  readonly args?: string;
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

function joined(before: Message["content"], after: Message["content"]): Message["content"] {
  if (typeof before === "string" && typeof after === "string") return before + after;
  const blocks: (Block | string)[] =
    typeof before === "string" ? (before ? [{ type: "text", text: before }] : []) : [...before];
  for (const part of typeof after === "string" ? (after ? [{ type: "text", text: after }] : []) : after) {
    const block: Block = typeof part === "string" ? { type: "text", text: part } : part;
    const at = blocks.findIndex(
      (one) =>
        typeof one !== "string" && one.type === block.type && (one["index"] ?? null) === (block["index"] ?? null),
    );
    const known = blocks[at] as Block | undefined;
    if (!known || !["text", "reasoning", "thinking"].includes(block.type)) {
      blocks.push(block);
      continue;
    }
    const merged: Record<string, unknown> = { ...known };
    for (const key of ["text", "reasoning", "thinking"]) {
      if (typeof block[key] === "string") merged[key] = `${(known[key] as string | undefined) ?? ""}${block[key]}`;
    }
    blocks[at] = merged as Block;
  }
  return blocks;
}

function joinedChunks(before: readonly ToolChunk[], after: readonly ToolChunk[]): ToolChunk[] {
  const chunks = [...before];
  for (const chunk of after) {
    const at = chunks.findIndex(({ index, id }) =>
      chunk.index === undefined ? id === chunk.id : index === chunk.index,
    );
    const known = chunks[at];
    if (!known) chunks.push(chunk);
    else chunks[at] = { ...known, args: (known.args ?? "") + (chunk.args ?? "") };
  }
  return chunks;
}

function parsed(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? "");
  } catch {
    return text ?? "";
  }
}

/** A message with the next piece of it; a piece that is no chunk replaces what was there. */
export function withPiece(before: Message | undefined, piece: Message): Message {
  if (!before || !/Chunk$/.test(piece.type)) return normal(piece);
  const chunks = joinedChunks(before.tool_call_chunks ?? [], piece.tool_call_chunks ?? []);
  const usage_metadata = piece.usage_metadata ?? before.usage_metadata;
  return {
    ...before,
    content: joined(before.content, piece.content),
    tool_call_chunks: chunks,
    tool_calls: chunks.map(({ id, name = "", args }) => ({ ...(id ? { id } : {}), name, args: parsed(args) })),
    additional_kwargs: { ...before.additional_kwargs, ...piece.additional_kwargs },
    response_metadata: { ...before.response_metadata, ...piece.response_metadata },
    ...(usage_metadata ? { usage_metadata } : {}),
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

/** Makes `messages` events of the thread event protocol from chunks of messages and from whole messages, whatever provider they come from. */
import { isObject, type Json, type JsonObject } from "../json.ts";
import { addNumbers, mergePart } from "./message-merge.ts";
import { parseArguments, plainType } from "./messages.ts";

/** One `messages` event. */
export interface MessageEvent {
  /** Of the task that the message comes from. */
  readonly namespace: readonly string[];
  readonly node?: string;
  readonly data: JsonObject;
  /** Of a `content-block-finish`: the arguments of the call as the model wrote them. */
  readonly args?: string;
}

/**
 * Converts the messages of one attempt. Each message that starts is ended once: by its whole form or by `close`. It is not shown
 * again.
 *
 * @example
 * ```ts
 * const blocks = new ContentBlocks();
 * const chunk = { type: "AIMessageChunk", id: "m1", content: "Hi" };
 * const events = blocks.chunk(chunk, { langgraph_node: "agent" }); // message-start, content-block-start, content-block-delta
 * events.push(...blocks.close([])); // content-block-finish, message-finish
 * ```
 */
export class ContentBlocks {
  readonly #growing = new Map<string, GrowingMessage>();
  readonly #ended = new Set<string>();

  /** Some messages have not ended. */
  get open(): boolean {
    return this.#growing.size > 0;
  }

  /** Takes one tuple: a chunk (`…MessageChunk`), or a whole message. Messages without an id are ignored. */
  chunk(message: JsonObject, metadata: JsonObject): MessageEvent[] {
    const { id, type } = message;
    if (typeof id !== "string" || typeof type !== "string" || type === "remove" || this.#ended.has(id)) return [];
    const isWhole = !type.endsWith("Chunk");
    const known = this.#growing.get(id);
    if (known && isWhole) return this.#end(id, known.finish(message));
    const grown = known ?? new GrowingMessage(message, metadata);
    this.#growing.set(id, grown);
    const events = grown.add(message);
    if (!known) events.unshift(grown.start());
    return isWhole ? [...events, ...this.#end(id, grown.finish())] : events;
  }

  /** Takes a list of whole messages, and ends those that have started. */
  finish(messages: Json | undefined): MessageEvent[] {
    if (!this.open || !Array.isArray(messages)) return [];
    return messages.flatMap((message) => {
      if (!isObject(message) || typeof message.id !== "string") return [];
      const known = this.#growing.get(message.id);
      return known ? this.#end(message.id, known.finish(message)) : [];
    });
  }

  /** Ends the messages of a task, and of what it has called. With an error if they have failed. */
  close(namespace: readonly string[], error?: string): MessageEvent[] {
    const isInside = ({ namespace: at }: GrowingMessage): boolean => namespace.every((one, depth) => at[depth] === one);
    const inside = [...this.#growing].filter(([, message]) => isInside(message));
    return inside.flatMap(([id, message]) =>
      this.#end(id, error === undefined ? message.finish() : [message.fail(error)]),
    );
  }

  #end(id: string, events: MessageEvent[]): MessageEvent[] {
    this.#growing.delete(id);
    this.#ended.add(id);
    return events;
  }
}

interface Block {
  readonly index: number;
  content: JsonObject;
  /** How long the arguments were that subscribers have seen. */
  shown: number;
  open: boolean;
}

/** The member of a block that grows by deltas. */
const GROWING: Readonly<Record<string, string>> = {
  text: "text",
  reasoning: "reasoning",
  tool_call_chunk: "args",
  image: "data",
  audio: "data",
  video: "data",
  file: "data",
};

const ROLES: ReadonlySet<string> = new Set(["human", "system", "tool"]);

/** A message that has started, and not ended. */
class GrowingMessage {
  readonly namespace: readonly string[];
  private readonly id: string;
  private readonly run_id: string;
  private readonly node: string | undefined;
  private readonly first: JsonObject;
  private readonly metadata: JsonObject;
  private readonly blocks: Block[] = [];
  private usage: Json = null;
  private response: Json = null;

  constructor(message: JsonObject, metadata: JsonObject) {
    const ns = metadata.langgraph_checkpoint_ns ?? metadata.checkpoint_ns;
    this.namespace = typeof ns === "string" && ns !== "" ? ns.split("|") : [];
    this.id = message.id as string;
    this.run_id = this.id.replace(/^run-/, "");
    this.node = typeof metadata.langgraph_node === "string" ? metadata.langgraph_node : undefined;
    this.first = message;
    this.metadata = metadata;
  }

  start(): MessageEvent {
    const type = plainType(this.first.type as string);
    const otherRole = type === "function" ? "tool" : "ai";
    const role = ROLES.has(type) ? type : otherRole;
    const response = isObject(this.first.response_metadata ?? null) ? (this.first.response_metadata as JsonObject) : {};
    const { ls_provider, ls_model_name } = this.metadata;
    const [provider, model] = [response.model_provider ?? ls_provider, response.model_name ?? ls_model_name];
    const about = { ...(provider ? { provider } : {}), ...(model ? { model } : {}) };
    const { tool_call_id } = this.first;
    return this.event("message-start", {
      id: this.id,
      role,
      ...(role === "tool" && tool_call_id ? { tool_call_id } : {}),
      ...(role === "ai" && Object.keys(about).length > 0 ? { metadata: about } : {}),
    });
  }

  /** Takes the content of a chunk, or of the whole message. */
  add(chunk: JsonObject): MessageEvent[] {
    if (chunk.usage_metadata) this.usage = addNumbers(this.usage, chunk.usage_metadata);
    if (isObject(chunk.response_metadata ?? null)) {
      this.response = { ...(this.response as JsonObject | null), ...(chunk.response_metadata as JsonObject) };
    }
    return standardBlocks(chunk).flatMap((piece) => this.addPiece(piece));
  }

  /** `whole`: the final form of the message, whose usage counts. */
  finish(whole: JsonObject = {}): MessageEvent[] {
    const usage = whole.usage_metadata ?? this.usage;
    const response = {
      ...(this.response as JsonObject | null),
      ...(whole.response_metadata as JsonObject | undefined),
    };
    const called = this.blocks.some(({ content }) => /^(?:tool_call|invalid_tool_call)/.test(String(content.type)));
    const data: JsonObject = { reason: reasonOf(response, called), ...(usage ? { usage } : {}) };
    if (Object.keys(response).length > 0) data.metadata = response;
    return [...this.finishBlocks(), this.event("message-finish", data)];
  }

  fail(message: string): MessageEvent {
    return this.event("error", { message });
  }

  private addPiece(piece: JsonObject): MessageEvent[] {
    const known = this.find(piece);
    if (known) {
      known.content = merged(known.content, piece);
      known.open = true;
      return this.delta(known, piece);
    }
    const { index: _place, ...content } = piece;
    const grows = GROWING[String(piece.type)];
    // Providers begin with a text of no length, and end with one.
    if ((grows === "text" || grows === "reasoning") && !content[grows] && Object.keys(content).length <= 2) return [];
    const events = this.finishBlocks();
    const block: Block = { index: this.blocks.length, content: piece, shown: 0, open: true };
    this.blocks.push(block);
    events.push(this.event("content-block-start", { index: block.index, content: startOf(content) }));
    return [...events, ...this.delta(block, content)];
  }

  /** The block that a piece continues. */
  private find(piece: JsonObject): Block | undefined {
    const { type, index = null, id = null } = piece;
    const last = this.blocks.at(-1);
    if (type === "tool_call" || type === "invalid_tool_call") {
      return this.blocks.find(({ content }) => content.type === type && id !== null && content.id === id);
    }
    if (index !== null) {
      // Some providers give all calls of a message the same index.
      const renamed = (content: JsonObject): boolean =>
        type === "tool_call_chunk" && id !== null && Boolean(content.id) && content.id !== id;
      return this.blocks.findLast(
        ({ content }) => content.type === type && content.index === index && !renamed(content),
      );
    }
    if (type === "tool_call_chunk") {
      const calls = this.blocks.filter(({ content }) => content.type === type);
      return id === null ? calls.at(-1) : calls.find(({ content }) => content.id === id);
    }
    const continues = type === "text" || type === "reasoning";
    return continues && last?.content.type === type && (last.content.index ?? null) === null ? last : undefined;
  }

  private delta(block: Block, piece: JsonObject): MessageEvent[] {
    const { index, content } = block;
    const { type } = content;
    const grows = GROWING[String(type)];
    const added = grows === undefined ? undefined : piece[grows];
    const show = (delta: JsonObject): MessageEvent[] => [this.event("content-block-delta", { index, delta })];
    if (type === "tool_call_chunk") return this.toolDelta(block);
    if (type === "tool_call" || type === "invalid_tool_call") {
      const { id = null, name = null, args = {} } = content;
      const text = typeof args === "string" ? args : JSON.stringify(args);
      return show({ type: "block-delta", fields: { type: "tool_call_chunk", id, name, args: text } });
    }
    if (typeof added !== "string" || added === "") return [];
    if (type === "text") return show({ type: "text-delta", text: added });
    if (type === "reasoning") return show({ type: "reasoning-delta", reasoning: added });
    return show({ type: "data-delta", data: added, encoding: "base64" });
  }

  /** Snapshots, which all clients read. Long arguments are shown less often, because each snapshot repeats them. */
  private toolDelta(block: Block): MessageEvent[] {
    const { id = null, name = null, args } = block.content;
    const text = typeof args === "string" ? args : "";
    if (text.length <= block.shown + (text.length > 2048 ? block.shown / 16 : 0)) return [];
    block.shown = text.length;
    const fields = { type: "tool_call_chunk", id, name, args: text };
    return [this.event("content-block-delta", { index: block.index, delta: { type: "block-delta", fields } })];
  }

  private finishBlocks(): MessageEvent[] {
    const open = this.blocks.filter((block) => block.open);
    return open.map((block) => {
      block.open = false;
      const finish = this.event("content-block-finish", { index: block.index, content: finalOf(block.content) });
      const { args } = block.content;
      return args === undefined ? finish : { ...finish, args: typeof args === "string" ? args : JSON.stringify(args) };
    });
  }

  private event(event: string, data: JsonObject): MessageEvent {
    const { namespace, node, run_id } = this;
    return { namespace, ...(node === undefined ? {} : { node }), data: { event, ...data, run_id } };
  }
}

/** A block and its continuation. Strings concatenate, but names and addresses are repeated. */
function merged(known: JsonObject, piece: JsonObject): JsonObject {
  const { type = null } = known;
  const grows = GROWING[String(type)] ?? "";
  const [before, added] = [known[grows], piece[grows]];
  // Most pieces are nothing but text.
  const isText = Object.keys(piece).length === ("index" in piece ? 3 : 2);
  if (isText && typeof before === "string" && typeof added === "string") {
    return { ...known, [grows]: before + added };
  }
  const { mime_type, url, file_id } = { ...known, ...piece };
  const fixed = Object.entries({ mime_type, url, file_id }).filter((entry): entry is [string, Json] =>
    Boolean(entry[1]),
  );
  return { ...(mergePart(known, piece) as JsonObject), ...Object.fromEntries(fixed), type };
}

/** A block before its first delta. */
function startOf(content: JsonObject): JsonObject {
  const { type } = content;
  if (type === "text") return { type, text: "" };
  if (type === "reasoning") return { type, reasoning: "" };
  if (type === "tool_call_chunk" || type === "tool_call" || type === "invalid_tool_call") {
    const { id = null, name = null } = content;
    return { type: "tool_call_chunk", id, name, args: "" };
  }
  if (GROWING[String(type)] === undefined) return content;
  const { data: _data, ...start } = content;
  return start;
}

/** The whole block. Arguments of tool calls are parsed. */
function finalOf({ index: _index, ...content }: JsonObject): JsonObject {
  const { type, id = null, name = null, args = "" } = content;
  if (type === "tool_call") return { type, id, name, args };
  if (type === "invalid_tool_call") {
    return { type, id, name, args, error: content.error ?? "The arguments are not a JSON object" };
  }
  if (type !== "tool_call_chunk") return content;
  // Calls without arguments have no text.
  const parsed = typeof args === "string" ? parseArguments(args.trim() || "{}") : null;
  if (parsed) return { type: "tool_call", id, name, args: parsed };
  return { type: "invalid_tool_call", id, name, args, error: "The arguments are not a JSON object" };
}

const REASONS: readonly (readonly [reason: string, said: RegExp])[] = [
  ["length", /length|max_tokens/i],
  ["tool_use", /tool|function_call/i],
  ["content_filter", /filter|safety|refusal|prohibited|blocklist/i],
];

/** Why the model has stopped, in the words of the protocol. */
function reasonOf(response: JsonObject, called: boolean): string {
  const said = response.finish_reason ?? response.finishReason ?? response.stop_reason ?? response.stopReason;
  const known = typeof said === "string" ? REASONS.find(([, pattern]) => pattern.test(said)) : undefined;
  return known?.[0] ?? (called ? "tool_use" : "stop");
}

/**
 * The content of a message or of one chunk of it: blocks of type `text`, `reasoning`, `tool_call`, `tool_call_chunk`,
 * `invalid_tool_call`, `image`, `audio`, `video` or `file`. Others keep the provider's form. In chunks, `index` says which block continues.
 */
function standardBlocks(message: JsonObject): JsonObject[] {
  const { content = "" } = message;
  const kwargs = isObject(message.additional_kwargs) ? message.additional_kwargs : {};
  const calls = toolCalls(message);
  // Most chunks are nothing but text.
  if (typeof content === "string" && calls.length === 0 && Object.keys(kwargs).length === 0) {
    return [{ type: "text", text: content }];
  }
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : objects(content);
  const shown = calls.length > 0 ? parts.filter((part) => !isToolPart(part)) : parts;
  const blocks = shown.map(standardBlock);
  const reasoned = blocks.some(({ type }) => type === "reasoning");
  return [...(reasoned ? [] : reasoningIn(kwargs)), ...blocks, ...calls, ...mediaIn(kwargs)];
}

const objects = (value: Json | undefined): JsonObject[] => (Array.isArray(value) ? value.filter(isObject) : []);

/** Chunks have their calls twice: read so far, and as text. Providers repeat them in the content. */
function toolCalls(message: JsonObject): JsonObject[] {
  const chunks = objects(message.tool_call_chunks);
  if (chunks.length > 0) return chunks.map((chunk) => ({ ...chunk, type: "tool_call_chunk" }));
  return [
    ...objects(message.tool_calls).map((call) => ({ ...call, type: "tool_call" })),
    ...objects(message.invalid_tool_calls).map((call) => ({ ...call, type: "invalid_tool_call" })),
  ];
}

const TOOL_PARTS: ReadonlySet<Json | undefined> = new Set([
  "tool_use",
  "input_json_delta",
  "tool_call",
  "tool_call_chunk",
  "invalid_tool_call",
  "functionCall",
  "function_call",
]);

const isToolPart = ({ type }: JsonObject): boolean => TOOL_PARTS.has(type);

function standardBlock(part: JsonObject): JsonObject {
  switch (part.type) {
    case "text":
      return part.thought === true ? reasoning(part.text, part) : part;
    case "output_text":
      return { ...part, type: "text" };
    case "reasoning":
      return typeof part.reasoning === "string" ? part : reasoning(summaryOf(part), part);
    case "thinking":
      return reasoning(part.thinking ?? part.text, part);
    case "reasoning_content":
      return reasoning(isObject(part.reasoningText) ? part.reasoningText.text : part.reasoningText, part);
    case "tool_use": {
      const { id = null, name = null, input = {} } = part;
      return { type: "tool_call", id, name, args: input };
    }
    default:
      return media(part) ?? part;
  }
}

function reasoning(text: Json | undefined, part: JsonObject): JsonObject {
  const { index, id, signature } = isObject(part.reasoningText) ? { ...part, ...part.reasoningText } : part;
  const named = Object.entries({ index, id, signature }).filter(([, value]) => value !== undefined);
  return { type: "reasoning", reasoning: typeof text === "string" ? text : "", ...Object.fromEntries(named) };
}

const summaryOf = ({ summary }: JsonObject): string =>
  objects(summary)
    .map(({ text }) => (typeof text === "string" ? text : ""))
    .join("");

/** DeepSeek and others give a text, Groq too, OpenAI's Responses a list of summaries. */
function reasoningIn({ reasoning_content, reasoning: given }: JsonObject): JsonObject[] {
  const text = isObject(given) ? summaryOf(given) : (given ?? reasoning_content);
  if (typeof text !== "string" || text === "") return [];
  return [reasoning(text, isObject(given) && typeof given.id === "string" ? { id: given.id } : {})];
}

const MEDIA: Readonly<Record<string, string>> = {
  image: "image",
  image_url: "image",
  audio: "audio",
  input_audio: "audio",
  video: "video",
  file: "file",
  document: "file",
  inlineData: "",
  fileData: "",
};

/** Null for other blocks. What it holds is beside its type, or in a member of that name or `source`. */
function media(part: JsonObject): JsonObject | null {
  const type = String(part.type);
  if (!Object.hasOwn(MEDIA, type)) return null;
  const inner = [part[type], part.source].find((value) => value !== undefined && isObject(value)) as JsonObject;
  const from: JsonObject = { ...part, ...inner };
  const format = typeof from.format === "string" ? `${MEDIA[type]}/${from.format}` : undefined;
  const mime = from.mime_type ?? from.mimeType ?? from.media_type ?? format;
  const url = typeof part[type] === "string" ? part[type] : from.url;
  const [, inlined, base64] = (typeof url === "string" && /^data:([^;,]+);base64,(.*)$/s.exec(url)) || [];
  const file_id = from.file_id ?? from.fileId ?? from.fileUri ?? (part.source_type === "id" ? part.id : undefined);
  const data = base64 ?? from.data ?? from.file_data ?? from.bytes;
  const where = { data, url: base64 === undefined ? url : undefined, file_id };
  if (Object.values(where).every((value) => typeof value !== "string")) return null;
  const kind = MEDIA[type] || /^(?:image|audio|video)(?=\/)/.exec(String(mime))?.[0] || "file";
  const members = { index: part.index, id: part.id, mime_type: inlined ?? mime, ...where };
  return {
    type: kind,
    ...Object.fromEntries(Object.entries(members).filter((entry): entry is [string, Json] => entry[1] !== undefined)),
  };
}

/** OpenAI's spoken answers and generated images. */
function mediaIn({ audio, tool_outputs }: JsonObject): JsonObject[] {
  const blocks = objects(tool_outputs)
    .filter(({ type, result }) => type === "image_generation_call" && typeof result === "string")
    .map(({ id = null, result = null, output_format = "png" }) => ({
      type: "image",
      id,
      mime_type: `image/${output_format}`,
      data: result,
    }));
  if (!audio || !isObject(audio)) return blocks;
  const { id, data, transcript, format = "wav" } = audio;
  if (typeof data !== "string" && typeof transcript !== "string") return blocks;
  const mime_type = format === "pcm16" ? "audio/pcm" : `audio/${format}`;
  const named = Object.entries({ id, data, transcript }).filter((entry): entry is [string, Json] => Boolean(entry[1]));
  return [...blocks, { type: "audio", index: "audio", mime_type, ...Object.fromEntries(named) }];
}

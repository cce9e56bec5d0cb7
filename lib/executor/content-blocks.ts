/** Creates `messages` events of the thread event protocol from chunks of messages and from whole messages of any provider. */
import { isObject, type Json, type JsonObject } from "../json.ts";
import { addNumbers, mergePart } from "./message-merge.ts";
import { parseArguments, toMessageType } from "./messages.ts";

/** A `messages` event. */
export interface MessageEvent {
  /** The namespace of the task that the message comes from. */
  readonly namespace: readonly string[];
  readonly node?: string;
  readonly data: JsonObject;
  /** The arguments of the call as the model wrote them. Only in `content-block-finish`. */
  readonly args?: string;
}

/**
 * Converts the messages of one attempt. Each message that starts is ended once, by its whole form or by `close`, and emits no events after
 * that.
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
  readonly #openMessages = new Map<string, OpenMessage>();
  readonly #endedIds = new Set<string>();

  get hasOpenMessages(): boolean {
    return this.#openMessages.size > 0;
  }

  /**
   * Adds a chunk (`…MessageChunk`) or a whole message, and returns its events. A whole message also ends, and then only its usage
   * and metadata count if chunks came before. Ignores messages without an id, removals, and messages that have ended.
   */
  addMessage(message: JsonObject, metadata: JsonObject): MessageEvent[] {
    const { id, type } = message;
    if (typeof id !== "string" || typeof type !== "string" || type === "remove" || this.#endedIds.has(id)) return [];
    const isWhole = !type.endsWith("Chunk");
    const existing = this.#openMessages.get(id);
    if (existing && isWhole) return this.#end(id, existing.finish(message));
    const openMessage = existing ?? new OpenMessage(message, metadata);
    this.#openMessages.set(id, openMessage);
    const events = openMessage.add(message);
    if (!existing) events.unshift(openMessage.start());
    return isWhole ? [...events, ...this.#end(id, openMessage.finish())] : events;
  }

  /** Ends the messages of the list that have started, and returns their events. */
  finish(messages: Json | undefined): MessageEvent[] {
    if (!this.hasOpenMessages || !Array.isArray(messages)) return [];
    return messages.flatMap((message) => {
      if (!isObject(message) || typeof message.id !== "string") return [];
      const openMessage = this.#openMessages.get(message.id);
      return openMessage ? this.#end(message.id, openMessage.finish(message)) : [];
    });
  }

  /**
   * Ends the open messages of a namespace and of its subgraphs, all for `[]`, and returns their events. With `error` they end as
   * failed, without the ends of their blocks.
   */
  close(namespace: readonly string[], error?: string): MessageEvent[] {
    const isInside = ({ namespace: messageNamespace }: OpenMessage): boolean =>
      namespace.every((segment, depth) => messageNamespace[depth] === segment);
    const messages = [...this.#openMessages].filter(([, message]) => isInside(message));
    return messages.flatMap(([id, message]) =>
      this.#end(id, error === undefined ? message.finish() : [message.fail(error)]),
    );
  }

  /** Closes a message, so that later parts of it are ignored. Returns the events. */
  #end(id: string, events: MessageEvent[]): MessageEvent[] {
    this.#openMessages.delete(id);
    this.#endedIds.add(id);
    return events;
  }
}

interface Block {
  readonly index: number;
  content: JsonObject;
  /** The length of the arguments in the last snapshot that was emitted. */
  emittedChars: number;
  isOpen: boolean;
}

/** The member of each block type to which deltas append. */
const DELTA_MEMBERS: Readonly<Record<string, string>> = {
  text: "text",
  reasoning: "reasoning",
  tool_call_chunk: "args",
  image: "data",
  audio: "data",
  video: "data",
  file: "data",
};

const ROLES: ReadonlySet<string> = new Set(["human", "system", "tool"]);

/** A message that has started and not ended. */
class OpenMessage {
  readonly namespace: readonly string[];
  readonly #id: string;
  readonly #run_id: string;
  readonly #node: string | undefined;
  readonly #initialMessage: JsonObject;
  readonly #metadata: JsonObject;
  readonly #blocks: Block[] = [];
  #usage: Json = null;
  #response: Json = null;

  constructor(message: JsonObject, metadata: JsonObject) {
    const ns = metadata.langgraph_checkpoint_ns ?? metadata.checkpoint_ns;
    this.namespace = typeof ns === "string" && ns !== "" ? ns.split("|") : [];
    this.#id = message.id as string;
    this.#run_id = this.#id.replace(/^run-/, "");
    this.#node = typeof metadata.langgraph_node === "string" ? metadata.langgraph_node : undefined;
    this.#initialMessage = message;
    this.#metadata = metadata;
  }

  /**
   * Creates the `message-start` event: id, role, tool call id, and provider and model of AI messages, of the response rather than
   * of the metadata. The type `function` gets the role `tool`, unknown types get `ai`.
   */
  start(): MessageEvent {
    const type = toMessageType(this.#initialMessage.type as string);
    const otherRole = type === "function" ? "tool" : "ai";
    const role = ROLES.has(type) ? type : otherRole;
    const response = isObject(this.#initialMessage.response_metadata ?? null)
      ? (this.#initialMessage.response_metadata as JsonObject)
      : {};
    const { ls_provider, ls_model_name } = this.#metadata;
    const [provider, model] = [response.model_provider ?? ls_provider, response.model_name ?? ls_model_name];
    const modelInfo = { ...(provider ? { provider } : {}), ...(model ? { model } : {}) };
    const { tool_call_id } = this.#initialMessage;
    return this.#createEvent("message-start", {
      id: this.#id,
      role,
      ...(role === "tool" && tool_call_id ? { tool_call_id } : {}),
      ...(role === "ai" && Object.keys(modelInfo).length > 0 ? { metadata: modelInfo } : {}),
    });
  }

  /**
   * Adds the content of a chunk or of a whole message, and returns its events. Sums up usage and keeps response metadata for the
   * end.
   */
  add(chunk: JsonObject): MessageEvent[] {
    if (chunk.usage_metadata) this.#usage = addNumbers(this.#usage, chunk.usage_metadata);
    if (isObject(chunk.response_metadata ?? null)) {
      this.#response = { ...(this.#response as JsonObject | null), ...(chunk.response_metadata as JsonObject) };
    }
    return toStandardBlocks(chunk).flatMap((part) => this.#addPart(part));
  }

  /**
   * Returns the ends of open blocks and of the message. `whole` is its final form: its usage replaces that of the chunks, its
   * response metadata are merged over theirs, and its content is ignored.
   */
  finish(whole: JsonObject = {}): MessageEvent[] {
    const usage = whole.usage_metadata ?? this.#usage;
    const response = {
      ...(this.#response as JsonObject | null),
      ...(whole.response_metadata as JsonObject | undefined),
    };
    const hasToolCalls = this.#blocks.some(({ content }) =>
      /^(?:tool_call|invalid_tool_call)/.test(String(content.type)),
    );
    const data: JsonObject = { reason: toFinishReason(response, hasToolCalls), ...(usage ? { usage } : {}) };
    if (Object.keys(response).length > 0) data.metadata = response;
    return [...this.#finishBlocks(), this.#createEvent("message-finish", data)];
  }

  fail(message: string): MessageEvent {
    return this.#createEvent("error", { message });
  }

  /**
   * Adds a part to the block that it continues, which is open again if it had ended; otherwise ends the open blocks and starts a
   * new one. Returns the events; none for a text or reasoning that is empty and has no other members.
   */
  #addPart(part: JsonObject): MessageEvent[] {
    const continued = this.#findContinuedBlock(part);
    if (continued) {
      continued.content = mergeBlock(continued.content, part);
      continued.isOpen = true;
      return this.#createDeltas(continued, part);
    }
    const { index: _index, ...content } = part;
    const deltaMember = DELTA_MEMBERS[String(part.type)];
    // Providers begin with an empty text, and end with one.
    if (
      (deltaMember === "text" || deltaMember === "reasoning") &&
      !content[deltaMember] &&
      Object.keys(content).length <= 2
    )
      return [];
    const events = this.#finishBlocks();
    const block: Block = { index: this.#blocks.length, content: part, emittedChars: 0, isOpen: true };
    this.#blocks.push(block);
    events.push(this.#createEvent("content-block-start", { index: block.index, content: toOpeningBlock(content) }));
    return [...events, ...this.#createDeltas(block, content)];
  }

  /**
   * Returns the block of the same type that a part continues; undefined if it starts a new one. A whole tool call is found by its
   * id alone; any other part with an `index` by that, newest first, but not a call with another id. Without an index, a chunk of
   * a call is found by its id, or is the last call, and text and reasoning continue only the very last block, if that has no
   * index.
   */
  #findContinuedBlock(part: JsonObject): Block | undefined {
    const { type, index = null, id = null } = part;
    const last = this.#blocks.at(-1);
    if (type === "tool_call" || type === "invalid_tool_call") {
      return this.#blocks.find(({ content }) => content.type === type && id !== null && content.id === id);
    }
    if (index !== null) {
      // Some providers give all calls of a message the same index.
      const hasOtherId = (content: JsonObject): boolean =>
        type === "tool_call_chunk" && id !== null && Boolean(content.id) && content.id !== id;
      return this.#blocks.findLast(
        ({ content }) => content.type === type && content.index === index && !hasOtherId(content),
      );
    }
    if (type === "tool_call_chunk") {
      const calls = this.#blocks.filter(({ content }) => content.type === type);
      return id === null ? calls.at(-1) : calls.find(({ content }) => content.id === id);
    }
    const continues = type === "text" || type === "reasoning";
    return continues && last?.content.type === type && (last.content.index ?? null) === null ? last : undefined;
  }

  /**
   * Returns the delta event of a part; an empty list if the part adds no text or data. For a block of a tool call the part is
   * ignored: the delta repeats all arguments of the block, and the list is empty if too few have been added to a chunk.
   */
  #createDeltas(block: Block, part: JsonObject): MessageEvent[] {
    const { index, content } = block;
    const { type } = content;
    const deltaMember = DELTA_MEMBERS[String(type)];
    const addedText = deltaMember === undefined ? undefined : part[deltaMember];
    const createDelta = (delta: JsonObject): MessageEvent[] => [
      this.#createEvent("content-block-delta", { index, delta }),
    ];
    if (type === "tool_call_chunk") return this.#createToolDeltas(block);
    if (type === "tool_call" || type === "invalid_tool_call") {
      const { id = null, name = null, args = {} } = content;
      const text = typeof args === "string" ? args : JSON.stringify(args);
      return createDelta({ type: "block-delta", fields: { type: "tool_call_chunk", id, name, args: text } });
    }
    if (typeof addedText !== "string" || addedText === "") return [];
    if (type === "text") return createDelta({ type: "text-delta", text: addedText });
    if (type === "reasoning") return createDelta({ type: "reasoning-delta", reasoning: addedText });
    return createDelta({ type: "data-delta", data: addedText, encoding: "base64" });
  }

  /**
   * Creates a snapshot of the arguments, which all clients can read, and notes its length; an empty list if too little was added.
   * Above 2,048 characters the arguments must have grown by a sixteenth, because each snapshot repeats all of them.
   */
  #createToolDeltas(block: Block): MessageEvent[] {
    const { id = null, name = null, args } = block.content;
    const text = typeof args === "string" ? args : "";
    if (text.length <= block.emittedChars + (text.length > 2048 ? block.emittedChars / 16 : 0)) return [];
    block.emittedChars = text.length;
    const fields = { type: "tool_call_chunk", id, name, args: text };
    return [this.#createEvent("content-block-delta", { index: block.index, delta: { type: "block-delta", fields } })];
  }

  /**
   * Closes the open blocks and returns their `content-block-finish` events, those of tool calls with the arguments as text, too.
   */
  #finishBlocks(): MessageEvent[] {
    const openBlocks = this.#blocks.filter((block) => block.isOpen);
    return openBlocks.map((block) => {
      block.isOpen = false;
      const finish = this.#createEvent("content-block-finish", {
        index: block.index,
        content: toFinalBlock(block.content),
      });
      const { args } = block.content;
      return args === undefined ? finish : { ...finish, args: typeof args === "string" ? args : JSON.stringify(args) };
    });
  }

  /** Returns an event of this message, with its namespace, its node and its `run_id`. */
  #createEvent(event: string, data: JsonObject): MessageEvent {
    const node = this.#node === undefined ? {} : { node: this.#node };
    return { namespace: this.namespace, ...node, data: { event, ...data, run_id: this.#run_id } };
  }
}

/**
 * Returns a new block with a part appended; the type stays. Strings are concatenated, except the id, the name, the MIME type and
 * addresses, which providers repeat: these are replaced unless they are empty.
 */
function mergeBlock(block: JsonObject, part: JsonObject): JsonObject {
  const { type = null } = block;
  const deltaMember = DELTA_MEMBERS[String(type)] ?? "";
  const [before, addedText] = [block[deltaMember], part[deltaMember]];
  // Most parts have only text.
  const isText = Object.keys(part).length === ("index" in part ? 3 : 2);
  if (isText && typeof before === "string" && typeof addedText === "string") {
    return { ...block, [deltaMember]: before + addedText };
  }
  const { mime_type, url, file_id } = { ...block, ...part };
  const fixed = Object.entries({ mime_type, url, file_id }).filter((entry): entry is [string, Json] =>
    Boolean(entry[1]),
  );
  return { ...(mergePart(block, part) as JsonObject), ...Object.fromEntries(fixed), type };
}

/**
 * Returns the block as it is before its first delta: without text, data or arguments. Tool calls of any type become chunks,
 * unknown blocks stay.
 */
function toOpeningBlock(content: JsonObject): JsonObject {
  const { type } = content;
  if (type === "text") return { type, text: "" };
  if (type === "reasoning") return { type, reasoning: "" };
  if (type === "tool_call_chunk" || type === "tool_call" || type === "invalid_tool_call") {
    const { id = null, name = null } = content;
    return { type: "tool_call_chunk", id, name, args: "" };
  }
  if (DELTA_MEMBERS[String(type)] === undefined) return content;
  const { data: _data, ...start } = content;
  return start;
}

/**
 * Returns the whole block without `index`. Chunks of a tool call become a call with parsed arguments, `{}` for an empty text, or
 * `invalid_tool_call` with an error if these are not a JSON object.
 */
function toFinalBlock({ index: _index, ...content }: JsonObject): JsonObject {
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

const REASONS: readonly (readonly [reason: string, pattern: RegExp])[] = [
  ["length", /length|max_tokens/i],
  ["tool_use", /tool|function_call/i],
  ["content_filter", /filter|safety|refusal|prohibited|blocklist/i],
];

/**
 * Returns the reason of the model's end as the protocol names it: `length`, `tool_use` or `content_filter` by the provider's
 * word, else `tool_use` for a message with tool calls, else `stop`.
 */
function toFinishReason(response: JsonObject, hasToolCalls: boolean): string {
  const reason = response.finish_reason ?? response.finishReason ?? response.stop_reason ?? response.stopReason;
  const match = typeof reason === "string" ? REASONS.find(([, pattern]) => pattern.test(reason)) : undefined;
  return match?.[0] ?? (hasToolCalls ? "tool_use" : "stop");
}

/**
 * Converts the content of a message or chunk to blocks of type `text`, `reasoning`, `tool_call`, `tool_call_chunk`,
 * `invalid_tool_call`, `image`, `audio`, `video` or `file`; other blocks keep the provider's form. Reasoning outside the content
 * comes first, only if the content has none, then the content, tool calls, and generated media. Tool parts of the content are
 * left out if the message has tool calls. In chunks, `index` identifies the block to continue.
 */
function toStandardBlocks(message: JsonObject): JsonObject[] {
  const { content = "" } = message;
  const kwargs = isObject(message.additional_kwargs) ? message.additional_kwargs : {};
  const calls = listToolCalls(message);
  // Most chunks have only text.
  if (typeof content === "string" && calls.length === 0 && Object.keys(kwargs).length === 0) {
    return [{ type: "text", text: content }];
  }
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : filterObjects(content);
  const contentParts = calls.length > 0 ? parts.filter((part) => !isToolPart(part)) : parts;
  const blocks = contentParts.map(toStandardBlock);
  const hasReasoning = blocks.some(({ type }) => type === "reasoning");
  return [...(hasReasoning ? [] : readReasoning(kwargs)), ...blocks, ...calls, ...readGeneratedMedia(kwargs)];
}

const filterObjects = (value: Json | undefined): JsonObject[] => (Array.isArray(value) ? value.filter(isObject) : []);

/**
 * Returns the tool calls of a message as blocks: its chunks if it has any, which also stand parsed in the message, else calls and
 * invalid calls.
 */
function listToolCalls(message: JsonObject): JsonObject[] {
  const chunks = filterObjects(message.tool_call_chunks);
  if (chunks.length > 0) return chunks.map((chunk) => ({ ...chunk, type: "tool_call_chunk" }));
  return [
    ...filterObjects(message.tool_calls).map((call) => ({ ...call, type: "tool_call" })),
    ...filterObjects(message.invalid_tool_calls).map((call) => ({ ...call, type: "invalid_tool_call" })),
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

/** Converts one content block of a provider to the standard form. Returns unknown blocks unchanged. */
function toStandardBlock(part: JsonObject): JsonObject {
  switch (part.type) {
    case "text":
      return part.thought === true ? createReasoningBlock(part.text, part) : part;
    case "output_text":
      return { ...part, type: "text" };
    case "reasoning":
      return typeof part.reasoning === "string" ? part : createReasoningBlock(joinSummary(part), part);
    case "thinking":
      return createReasoningBlock(part.thinking ?? part.text, part);
    case "reasoning_content":
      return createReasoningBlock(isObject(part.reasoningText) ? part.reasoningText.text : part.reasoningText, part);
    case "tool_use": {
      const { id = null, name = null, input = {} } = part;
      return { type: "tool_call", id, name, args: input };
    }
    default:
      return toMediaBlock(part) ?? part;
  }
}

/**
 * Returns a reasoning block, with an empty text unless `text` is one. It takes index, id and signature from `part.reasoningText`
 * if that has them, else from `part`.
 */
function createReasoningBlock(text: Json | undefined, part: JsonObject): JsonObject {
  const { index, id, signature } = isObject(part.reasoningText) ? { ...part, ...part.reasoningText } : part;
  const members = Object.entries({ index, id, signature }).filter(([, value]) => value !== undefined);
  return { type: "reasoning", reasoning: typeof text === "string" ? text : "", ...Object.fromEntries(members) };
}

/** Returns the texts of a list of summaries as one text; empty for any other value. */
const joinSummary = ({ summary }: JsonObject): string =>
  filterObjects(summary)
    .map(({ text }) => (typeof text === "string" ? text : ""))
    .join("");

/**
 * Reads reasoning outside the content: the list of summaries of OpenAI's Responses API or a text in `reasoning`, or, if that is
 * missing, a text in `reasoning_content`, as of DeepSeek and Groq. Returns one block; an empty list for an empty text and other
 * values.
 */
function readReasoning({ reasoning_content, reasoning: reasoningMember }: JsonObject): JsonObject[] {
  const text = isObject(reasoningMember) ? joinSummary(reasoningMember) : (reasoningMember ?? reasoning_content);
  if (typeof text !== "string" || text === "") return [];
  return [
    createReasoningBlock(
      text,
      isObject(reasoningMember) && typeof reasoningMember.id === "string" ? { id: reasoningMember.id } : {},
    ),
  ];
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

/**
 * Converts a media block of any provider to its type, MIME type and data, URL or file id; a data URL in base64 becomes data. The
 * content is in the block, or in a member named like its type or `source`. Without a type of its own it has that of its MIME
 * type, else `file`. Returns null for other blocks and without content.
 */
function toMediaBlock(part: JsonObject): JsonObject | null {
  const type = String(part.type);
  if (!Object.hasOwn(MEDIA, type)) return null;
  const inner = [part[type], part.source].find((value) => value !== undefined && isObject(value)) as JsonObject;
  const source: JsonObject = { ...part, ...inner };
  const format = typeof source.format === "string" ? `${MEDIA[type]}/${source.format}` : undefined;
  const mime = source.mime_type ?? source.mimeType ?? source.media_type ?? format;
  const url = typeof part[type] === "string" ? part[type] : source.url;
  const [, inlined, base64] = (typeof url === "string" && /^data:([^;,]+);base64,(.*)$/s.exec(url)) || [];
  const file_id =
    source.file_id ?? source.fileId ?? source.fileUri ?? (part.source_type === "id" ? part.id : undefined);
  const data = base64 ?? source.data ?? source.file_data ?? source.bytes;
  const location = { data, url: base64 === undefined ? url : undefined, file_id };
  if (Object.values(location).every((value) => typeof value !== "string")) return null;
  const kind = MEDIA[type] || /^(?:image|audio|video)(?=\/)/.exec(String(mime))?.[0] || "file";
  const members = { index: part.index, id: part.id, mime_type: inlined ?? mime, ...location };
  return {
    type: kind,
    ...Object.fromEntries(Object.entries(members).filter((entry): entry is [string, Json] => entry[1] !== undefined)),
  };
}

/**
 * Returns generated images and then the spoken answer of OpenAI as blocks; an empty list without these. The answer has the index
 * `audio`, so that its chunks form one block.
 */
function readGeneratedMedia({ audio, tool_outputs }: JsonObject): JsonObject[] {
  const blocks = filterObjects(tool_outputs)
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
  const members = Object.entries({ id, data, transcript }).filter((entry): entry is [string, Json] =>
    Boolean(entry[1]),
  );
  return [...blocks, { type: "audio", index: "audio", mime_type, ...Object.fromEntries(members) }];
}

/** Makes `messages` events of the thread event protocol from chunks of messages and from whole messages. */
import { isObject, type Json, type JsonObject } from "../json.ts";
import { grow, plainType, sum } from "./messages.ts";
import { standardBlocks } from "./standard-blocks.ts";

/** One `messages` event. */
export interface MessageEvent {
  /** Of the task that the message comes from. */
  readonly namespace: readonly string[];
  readonly node?: string;
  readonly data: JsonObject;
}

/** Converts the messages of one attempt. Each message that starts is ended once: by its whole form or by `close`. It is not shown again. */
export interface ContentBlocks {
  /** Some messages have not ended. */
  readonly open: boolean;
  /** Takes one tuple: a chunk (`…MessageChunk`), or a whole message. Messages without an id are ignored. */
  chunk(message: JsonObject, metadata: JsonObject): MessageEvent[];
  /** Takes a list of whole messages, and ends those that have started. */
  finish(messages: Json | undefined): MessageEvent[];
  /** Ends the messages of a task, and of what it has called. With an error if they have failed. */
  close(namespace: readonly string[], error?: string): MessageEvent[];
}

/**
 * A converter for one attempt.
 *
 * @example
 * ```ts
 * const blocks = createContentBlocks();
 * const chunk = { type: "AIMessageChunk", id: "m1", content: "Hi" };
 * const events = blocks.chunk(chunk, { langgraph_node: "agent" }); // message-start, content-block-start, content-block-delta
 * events.push(...blocks.close([])); // content-block-finish, message-finish
 * ```
 */
export function createContentBlocks(): ContentBlocks {
  const growing = new Map<string, GrowingMessage>();
  const ended = new Set<string>();

  function end(id: string, message: GrowingMessage, whole?: JsonObject): MessageEvent[] {
    growing.delete(id);
    ended.add(id);
    return message.finish(whole);
  }

  return {
    get open() {
      return growing.size > 0;
    },
    chunk(message, metadata) {
      const { id, type } = message;
      if (typeof id !== "string" || typeof type !== "string" || type === "remove" || ended.has(id)) return [];
      const isWhole = !type.endsWith("Chunk");
      const known = growing.get(id);
      if (known && isWhole) return end(id, known, message);
      const grown = known ?? new GrowingMessage(message, metadata);
      growing.set(id, grown);
      const events = grown.add(message);
      if (!known) events.unshift(grown.start());
      return isWhole ? [...events, ...end(id, grown)] : events;
    },
    finish(messages) {
      if (growing.size === 0 || !Array.isArray(messages)) return [];
      return messages.flatMap((message) => {
        if (!isObject(message) || typeof message.id !== "string") return [];
        const known = growing.get(message.id);
        return known ? end(message.id, known, message) : [];
      });
    },
    close(namespace, error) {
      const inside = [...growing].filter(([, { namespace: at }]) => namespace.every((one, depth) => at[depth] === one));
      return inside.flatMap(([id, message]) => {
        if (error === undefined) return end(id, message);
        growing.delete(id);
        ended.add(id);
        return [message.fail(error)];
      });
    },
  };
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
    const role = ROLES.has(type) ? type : type === "function" ? "tool" : "ai";
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
    if (chunk.usage_metadata) this.usage = sum(this.usage, chunk.usage_metadata);
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
      return this.event("content-block-finish", { index: block.index, content: finalOf(block.content) });
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
  return { ...(grow(known, piece) as JsonObject), ...Object.fromEntries(fixed), type };
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
  const parsed = parsedArgs(args);
  if (parsed) return { type: "tool_call", id, name, args: parsed };
  return { type: "invalid_tool_call", id, name, args, error: "The arguments are not a JSON object" };
}

/** Null for anything but a JSON object. Calls without arguments have no text. */
function parsedArgs(args: Json): JsonObject | null {
  if (typeof args !== "string") return null;
  try {
    const value = JSON.parse(args.trim() || "{}") as Json;
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
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

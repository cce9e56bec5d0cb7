/** Maps the frames of a run to events for chat protocols: open, delta and close of texts, reasoning and tool calls, and interrupts. */
import { ContentBlocks, type MessageEvent } from "../../executor/content-blocks.ts";
import type { StreamMode } from "../../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../json.ts";
import { decodeFrame, type Frame } from "../../streams/frames.ts";
import { createReader, type Reader } from "../../streams/log.ts";

/** The stream modes that `RunEventMapper` reads. It needs `stream_subgraphs` too. */
export const RUN_EVENT_MODES: readonly StreamMode[] = ["messages-tuple", "updates", "custom"];

/** The members of a run whose frames `RunEventMapper` reads from the first one. */
export const RUN_EVENT_OPTIONS: {
  readonly stream_mode: readonly StreamMode[];
  readonly stream_subgraphs: true;
  readonly stream_resumable: true;
} = { stream_mode: RUN_EVENT_MODES, stream_subgraphs: true, stream_resumable: true };

/**
 * Creates the error for frames that stop before the end of their run, as when the service stops. Break the connection: an end would look
 * complete.
 */
export const incompleteStreamError = (): Error => new Error("The frames stopped before the end of the run");

/** The graph node that an event comes from. */
interface EventOrigin {
  /** `<node>:<task id>` of each level; empty for the root graph. */
  readonly namespace: readonly string[];
  readonly node?: string;
}

/** A part of a message. */
interface MessagePart extends EventOrigin {
  readonly message_id: string;
  /** `<message id>:<index>`: the same in every replay. */
  readonly id: string;
}

/**
 * An event of a run. A part is opened once, grows by deltas and is closed once. All parts of a message come between its `message-open`
 * and `message-close`, and nothing is open at `error` and `end`.
 */
export type RunEvent =
  /** An attempt has started. If `attempt` is above 1, the attempt that emitted the parts so far was lost. */
  | { readonly type: "start"; readonly run_id: string; readonly attempt: number }
  | (EventOrigin & {
      readonly type: "message-open";
      readonly message_id: string;
      readonly role: "ai" | "human" | "system";
    })
  | (EventOrigin & {
      readonly type: "message-close";
      readonly message_id: string;
      /** Why the model has stopped: `stop`, `tool_use`, `length` or `content_filter`. */
      readonly reason: string;
      readonly usage: JsonObject | null;
    })
  | (MessagePart & { readonly type: "text-open" | "reasoning-open" })
  | (MessagePart & { readonly type: "text-delta" | "reasoning-delta"; readonly delta: string })
  | (MessagePart & { readonly type: "text-close" | "reasoning-close"; readonly block: JsonObject })
  | (MessagePart & { readonly type: "tool-call-open"; readonly tool_call_id: string; readonly name: string })
  | (MessagePart & { readonly type: "tool-call-delta"; readonly tool_call_id: string; readonly delta: string })
  /** `error` is set if the arguments are no JSON object; `args` is their text then. */
  | (MessagePart & {
      readonly type: "tool-call-close";
      readonly tool_call_id: string;
      readonly name: string;
      readonly args: Json;
      readonly error: string | null;
    })
  /** An image, audio, video or file of a message, whole. */
  | (MessagePart & { readonly type: "file"; readonly block: JsonObject })
  | (EventOrigin & {
      readonly type: "tool-result";
      readonly message_id: string;
      readonly tool_call_id: string;
      readonly name: string | null;
      readonly content: Json;
      readonly is_error: boolean;
    })
  /** A pending interrupt. */
  | (EventOrigin & { readonly type: "interrupt"; readonly id: string; readonly value: Json })
  | (EventOrigin & { readonly type: "custom"; readonly data: Json })
  /** A node has ended. */
  | (EventOrigin & { readonly type: "update"; readonly node: string; readonly values: Json })
  /** The state of the root graph, if the run streams `values`. */
  | { readonly type: "values"; readonly values: Json }
  | { readonly type: "error"; readonly error: string; readonly message: string }
  /** The last event. `status` is that of the run, or `rollback`. */
  | { readonly type: "end"; readonly status: string }
  /** Any other frame, such as those of `tasks`. */
  | (EventOrigin & { readonly type: "frame"; readonly event: string; readonly data: Json });

/** The events of one frame. */
export interface FrameEvents {
  /** The number of the frame in its run. */
  readonly frame_id: number;
  readonly events: readonly RunEvent[];
}

/** Reads the events of a run from its frames, which must start with the first one. Omits frames that are not part of its log. */
export function readRunEvents(frames: Reader<Frame>): Reader<FrameEvents> {
  const mapper = new RunEventMapper();
  const toEvents = (frame: Frame): FrameEvents[] =>
    frame.id === null ? [] : [{ frame_id: Number(frame.id), events: mapper.map(frame) }];
  return createReader(async () => {
    for (;;) {
      const batch = await frames.next();
      const events = batch.flatMap(toEvents);
      if (batch.length === 0 || events.length > 0) return events;
    }
  }, frames.leave);
}

/** Returns whether the events are those of the last frame. */
export const endsRun = ({ events }: FrameEvents): boolean => events.at(-1)?.type === "end";

type PartOrigin = Omit<MessagePart, "message_id" | "id">;

/** An open message. */
interface OpenMessage {
  readonly message_id: string;
  /** The parts that are open, by index. */
  readonly parts: Map<Json, { tool_call_id: string; name: string; emittedChars: number; type: string }>;
}

/** Returns the id of a tool call. For providers without ids, it is derived from the part, so that it is the same in every replay. */
const getToolCallId = (content: JsonObject, id: string): string =>
  typeof content.id === "string" && content.id !== "" ? content.id : id;

const toText = (value: Json | undefined): string => (typeof value === "string" ? value : "");

/**
 * Maps the frames of one run, in their order from the first one. A replay of the frames gives the same events.
 *
 * @example
 * ```ts
 * const mapper = new RunEventMapper();
 * for await (const frame of frames) {
 *   for (const event of mapper.map(frame)) if (event.type === "text-delta") console.log(event.delta);
 * }
 * ```
 */
export class RunEventMapper {
  #blocks = new ContentBlocks();
  /** Open messages by the `run_id` of their blocks, which is the message's id without `run-`. */
  readonly #openMessages = new Map<string, OpenMessage>();
  readonly #interruptIds = new Set<Json>();
  readonly #toolMessageIds = new Set<Json>();

  /** Maps one frame. Returns an empty list if it adds nothing. The end or an error of the run also closes open messages. */
  map(frame: Pick<Frame, "event" | "data">): RunEvent[] {
    const { event, namespace, data } = decodeFrame(frame);
    switch (event) {
      case "messages":
        return Array.isArray(data) ? this.#mapMessage(data) : [];
      case "metadata":
        return this.#startAttempt(isObject(data) ? data : {});
      case "updates":
        return isObject(data) ? this.#mapUpdate(namespace, data) : [];
      case "values":
        return isObject(data) ? this.#mapValues(namespace, data) : [];
      case "custom":
        return [{ type: "custom", namespace, data }];
      case "error": {
        const { error = "Error", message = "" } = isObject(data) ? data : {};
        return [
          ...this.#closeMessages(String(message)),
          { type: "error", error: String(error), message: String(message) },
        ];
      }
      case "end":
        return [...this.#closeMessages(), { type: "end", status: isObject(data) ? String(data.status) : "success" }];
      default:
        return [{ type: "frame", event, namespace, data }];
    }
  }

  /** Maps a message of the state as if the run had emitted it whole. */
  mapWholeMessage(message: Json): RunEvent[] {
    return this.#mapMessage([message]);
  }

  /** Maps the start of an attempt: closes open messages and starts over. None for other `metadata` frames. */
  #startAttempt({ run_id, attempt = 1 }: JsonObject): RunEvent[] {
    // Gaps of the stream and waiting notices are `metadata` frames too.
    if (typeof run_id !== "string" || typeof attempt !== "number") return [];
    const closingEvents = this.#closeMessages();
    // A repeated attempt may use the same message ids.
    this.#blocks = new ContentBlocks();
    return [...closingEvents, { type: "start", run_id, attempt }];
  }

  /** Returns the events of a message or a part of one; none for other JSON and for parts of tool messages. */
  #mapMessage([message = null, metadata = null]: readonly Json[]): RunEvent[] {
    if (!isObject(message)) return [];
    const messageMetadata = isObject(metadata) ? metadata : {};
    const type = toText(message.type);
    if (/^(?:tool|function)/i.test(type))
      return type.endsWith("Chunk") ? [] : this.#mapToolMessage(message, messageMetadata);
    return this.#blocks
      .addMessage(message, messageMetadata)
      .flatMap((messageEvent) => this.#mapMessageEvent(messageEvent));
  }

  /**
   * Maps a tool message to its result. Returns no event for a message whose id was mapped before, and for one without
   * an id or a call.
   */
  #mapToolMessage(message: JsonObject, metadata: JsonObject): RunEvent[] {
    const { id, tool_call_id = null, name = null, content = "", status } = message;
    if (typeof id !== "string" || typeof tool_call_id !== "string" || this.#toolMessageIds.has(id)) return [];
    this.#toolMessageIds.add(id);
    const ns = toText(metadata.langgraph_checkpoint_ns ?? metadata.checkpoint_ns);
    return [
      {
        type: "tool-result",
        namespace: ns === "" ? [] : ns.split("|"),
        ...(typeof metadata.langgraph_node === "string" ? { node: metadata.langgraph_node } : {}),
        message_id: id,
        tool_call_id,
        name: typeof name === "string" ? name : null,
        content,
        is_error: status === "error",
      },
    ];
  }

  /** Maps an update: its interrupts, and for each node the ends of its messages, then the update itself. */
  #mapUpdate(namespace: readonly string[], { __interrupt__: interrupts, ...nodes }: JsonObject): RunEvent[] {
    const events = this.#mapInterrupts(namespace, interrupts);
    for (const [node, values] of Object.entries(nodes)) {
      const lists = isObject(values) ? Object.values(values) : [];
      for (const list of lists)
        events.push(...this.#blocks.finish(list).flatMap((messageEvent) => this.#mapMessageEvent(messageEvent)));
      events.push({ type: "update", namespace, node, values });
    }
    return events;
  }

  /**
   * Returns the events of a state: its interrupts, and the values if it is one of the root graph. A frame that has only
   * interrupts is no state.
   */
  #mapValues(namespace: readonly string[], { __interrupt__: interrupts, ...values }: JsonObject): RunEvent[] {
    const events = this.#mapInterrupts(namespace, interrupts);
    // A frame that contains only an interrupt is no state.
    const isState = interrupts === undefined || Object.keys(values).length > 0;
    if (isState && namespace.length === 0) events.push({ type: "values", values });
    return events;
  }

  /** Maps interrupts, each once. Ignores those without an id. */
  #mapInterrupts(namespace: readonly string[], interrupts: Json | undefined): RunEvent[] {
    const list = Array.isArray(interrupts) ? interrupts.filter(isObject) : [];
    return list.flatMap(({ id, value = null }): RunEvent[] => {
      if (typeof id !== "string" || this.#interruptIds.has(id)) return [];
      this.#interruptIds.add(id);
      return [{ type: "interrupt", namespace, id, value }];
    });
  }

  /** Closes open messages: the run has ended, or starts again. */
  #closeMessages(error?: string): RunEvent[] {
    return this.#blocks.close([], error).flatMap((messageEvent) => this.#mapMessageEvent(messageEvent));
  }

  /**
   * Maps a part of a message to events. The end of a message also closes its open parts. Ignores parts of messages that are not
   * open.
   */
  #mapMessageEvent({ namespace, node, data, args = "" }: MessageEvent): RunEvent[] {
    const origin: PartOrigin = { namespace, ...(node === undefined ? {} : { node }) };
    const key = String(data.run_id);
    if (data.event === "message-start") {
      const message_id = String(data.id);
      this.#openMessages.set(key, { message_id, parts: new Map() });
      return [{ ...origin, type: "message-open", message_id, role: data.role as "ai" }];
    }
    const open = this.#openMessages.get(key);
    if (!open) return [];
    const { message_id } = open;
    const { index = 0 } = data;
    const part: MessagePart = { ...origin, message_id, id: `${message_id}:${index}` };
    const content = isObject(data.content) ? data.content : {};
    switch (data.event) {
      case "content-block-start":
        return this.#openPart(open, index, part, content);
      case "content-block-delta":
        return isObject(data.delta) ? this.#mapDelta(open, index, part, data.delta) : [];
      case "content-block-finish":
        return this.#closePart(open, index, part, { content, args });
      default: {
        // The end of the message, or its failure.
        this.#openMessages.delete(key);
        const closedParts = [...open.parts.keys()].flatMap((openIndex) =>
          this.#closePart(open, openIndex, { ...part, id: `${message_id}:${openIndex}` }, { content: {}, args: "" }),
        );
        const usage = isObject(data.usage) ? data.usage : null;
        return [
          ...closedParts,
          { ...origin, type: "message-close", message_id, reason: toText(data.reason) || "stop", usage },
        ];
      }
    }
  }

  /** Opens a part of a message. Returns its event for text, reasoning and tool calls; others are complete at their end. */
  #openPart({ parts }: OpenMessage, index: Json, part: MessagePart, content: JsonObject): RunEvent[] {
    const type = toText(content.type);
    const openPart = { tool_call_id: "", name: "", emittedChars: 0, type };
    parts.set(index, openPart);
    if (type === "text" || type === "reasoning") return [{ ...part, type: `${type}-open` }];
    if (type !== "tool_call_chunk") return [];
    return this.#openToolCall(openPart, part, content);
  }

  /**
   * Sets the id and the name of a tool call in `openPart` once the name is known, which some providers send after the
   * id. Returns its event, or an empty list if it has no name yet or is open already.
   */
  #openToolCall(
    openPart: { tool_call_id: string; name: string },
    part: MessagePart,
    { name = null, ...content }: JsonObject,
  ): RunEvent[] {
    if (openPart.name !== "" || typeof name !== "string" || name === "") return [];
    openPart.tool_call_id = getToolCallId(content, part.id);
    openPart.name = name;
    return [{ ...part, type: "tool-call-open", tool_call_id: openPart.tool_call_id, name }];
  }

  /**
   * Maps a delta to the text that is new. A tool call repeats its arguments so far, of which only the new end is
   * returned; it opens once its name is known. Returns no event for a part that is not open.
   */
  #mapDelta({ parts }: OpenMessage, index: Json, part: MessagePart, delta: JsonObject): RunEvent[] {
    const openPart = parts.get(index);
    if (!openPart) return [];
    if (delta.type === "text-delta") return [{ ...part, type: "text-delta", delta: toText(delta.text) }];
    if (delta.type === "reasoning-delta") {
      return [{ ...part, type: "reasoning-delta", delta: toText(delta.reasoning) }];
    }
    if (!isObject(delta.fields)) return [];
    const events = this.#openToolCall(openPart, part, delta.fields);
    const { tool_call_id } = openPart;
    // The field holds all arguments so far. Emits only the new part.
    const args = toText(delta.fields.args);
    if (tool_call_id === "" || args.length <= openPart.emittedChars) return events;
    events.push({ ...part, type: "tool-call-delta", tool_call_id, delta: args.slice(openPart.emittedChars) });
    openPart.emittedChars = args.length;
    return events;
  }

  /**
   * Closes a part and returns its last events; none for an unknown part. A part that is no text, reasoning or tool call
   * gives a file. `args` is the text of a tool call's arguments; empty if it was cut off, which gives an error. A tool
   * call whose name never came gives no event.
   */
  #closePart(
    { parts }: OpenMessage,
    index: Json,
    part: MessagePart,
    { content, args: text }: { readonly content: JsonObject; readonly args: string },
  ): RunEvent[] {
    const openPart = parts.get(index);
    if (!openPart) return [];
    parts.delete(index);
    const { type } = openPart;
    if (type === "text" || type === "reasoning") return [{ ...part, type: `${type}-close`, block: content }];
    if (type !== "tool_call_chunk")
      return Object.keys(content).length > 0 ? [{ ...part, type: "file", block: content }] : [];
    const events = this.#openToolCall(openPart, part, content);
    const { tool_call_id, name } = openPart;
    if (tool_call_id === "") return events;
    // Deltas of long arguments omit the end, so the rest is emitted here.
    const delta = text.slice(openPart.emittedChars);
    if (delta !== "") events.push({ ...part, type: "tool-call-delta", tool_call_id, delta });
    const { args } = content;
    const invalid = typeof content.error === "string" ? content.error : null;
    const error = args === undefined ? "The call was cut off" : invalid;
    return [...events, { ...part, type: "tool-call-close", tool_call_id, name, args: args ?? "", error }];
  }
}

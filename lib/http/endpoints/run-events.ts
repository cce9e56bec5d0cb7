/** What a run does, as open, delta and close of texts, reasoning and tool calls, and as questions: a projection of its frames for protocols of chats. */
import { ContentBlocks, type MessageEvent } from "../../executor/content-blocks.ts";
import type { StreamMode } from "../../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../json.ts";
import { decodeFrame, type Frame } from "../../streams/frames.ts";
import { createReader, type Reader } from "../../streams/log.ts";

/** The modes of a run whose frames `RunEventMapper` reads. It needs `stream_subgraphs` too. */
export const RUN_EVENT_MODES: readonly StreamMode[] = ["messages-tuple", "updates", "custom"];

/** The members of a run whose frames `RunEventMapper` reads from the first one. */
export const EVENT_RUN: {
  readonly stream_mode: readonly StreamMode[];
  readonly stream_subgraphs: true;
  readonly stream_resumable: true;
} = { stream_mode: RUN_EVENT_MODES, stream_subgraphs: true, stream_resumable: true };

/** The error for frames that stop before the end of their run, as when the service stops. Break the connection: an end would look complete. */
export const stopped = (): Error => new Error("The frames stopped before the end of the run");

/** Where an event comes from. */
interface Source {
  /** `<node>:<task id>` of each level; empty for the root graph. */
  readonly namespace: readonly string[];
  readonly node?: string;
}

/** A part of a message. */
interface Part extends Source {
  readonly message_id: string;
  /** `<message id>:<index>`: the same in every replay. */
  readonly id: string;
}

/**
 * One event of a run. A part is opened once, grows by deltas and is closed once. All parts of a message come between its
 * `message-open` and `message-close`, and nothing is open at `error` and `end`.
 */
export type RunEvent =
  /** A worker has started it; `attempt` above 1 says that the parts so far come from an attempt that was lost. */
  | { readonly type: "start"; readonly run_id: string; readonly attempt: number }
  | (Source & { readonly type: "message-open"; readonly message_id: string; readonly role: "ai" | "human" | "system" })
  | (Source & {
      readonly type: "message-close";
      readonly message_id: string;
      /** Why the model has stopped: `stop`, `tool_use`, `length` or `content_filter`. */
      readonly reason: string;
      readonly usage: JsonObject | null;
    })
  | (Part & { readonly type: "text-open" | "reasoning-open" })
  | (Part & { readonly type: "text-delta" | "reasoning-delta"; readonly delta: string })
  | (Part & { readonly type: "text-close" | "reasoning-close"; readonly block: JsonObject })
  | (Part & { readonly type: "tool-call-open"; readonly tool_call_id: string; readonly name: string })
  | (Part & { readonly type: "tool-call-delta"; readonly tool_call_id: string; readonly delta: string })
  /** `error`: the arguments are no JSON object; `args` is their text then. */
  | (Part & {
      readonly type: "tool-call-close";
      readonly tool_call_id: string;
      readonly name: string;
      readonly args: Json;
      readonly error: string | null;
    })
  /** An image, audio, video or file of a message, whole. */
  | (Part & { readonly type: "file"; readonly block: JsonObject })
  | (Source & {
      readonly type: "tool-result";
      readonly message_id: string;
      readonly tool_call_id: string;
      readonly name: string | null;
      readonly content: Json;
      readonly is_error: boolean;
    })
  /** An interrupt that waits for an answer. */
  | (Source & { readonly type: "question"; readonly id: string; readonly value: Json })
  | (Source & { readonly type: "custom"; readonly data: Json })
  /** A node has ended. */
  | (Source & { readonly type: "update"; readonly node: string; readonly values: Json })
  /** The state of the root graph, if the run streams `values`. */
  | { readonly type: "values"; readonly values: Json }
  | { readonly type: "error"; readonly error: string; readonly message: string }
  /** The last event. `status` is that of the run, or `rollback`. */
  | { readonly type: "end"; readonly status: string }
  /** Any other frame, such as those of `tasks`. */
  | (Source & { readonly type: "frame"; readonly event: string; readonly data: Json });

/** The events of one frame. */
export interface FrameEvents {
  /** The number of the frame in its run. */
  readonly frame_id: number;
  readonly events: readonly RunEvent[];
}

/** Reads the events of a run from its frames, which must begin with the first one. Omits frames that are not part of its log. */
export function readRunEvents(frames: Reader<Frame>): Reader<FrameEvents> {
  const mapper = new RunEventMapper();
  const toEvents = (frame: Frame): FrameEvents[] =>
    frame.id === null ? [] : [{ frame_id: Number(frame.id), events: mapper.take(frame) }];
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

type NewPart = Omit<Part, "message_id" | "id">;

/** A message that is open. */
interface Open {
  readonly message_id: string;
  /** Only parts that are open. */
  readonly parts: Map<Json, { tool_call_id: string; name: string; shown: number; type: string }>;
}

/** The call's id; providers that give none get one that is the same in every replay. */
const callId = (content: JsonObject, id: string): string =>
  typeof content.id === "string" && content.id !== "" ? content.id : id;

const textOf = (value: Json | undefined): string => (typeof value === "string" ? value : "");

/**
 * Maps the frames of one run, in their order from its first one. Frames of a stream that is read again give the same events.
 *
 * @example
 * ```ts
 * const mapper = new RunEventMapper();
 * for await (const frame of frames) {
 *   for (const event of mapper.take(frame)) if (event.type === "text-delta") console.log(event.delta);
 * }
 * ```
 */
export class RunEventMapper {
  #blocks = new ContentBlocks();
  /** By the `run_id` of the blocks, which is the message's id without `run-`. */
  readonly #open = new Map<string, Open>();
  readonly #asked = new Set<Json>();
  readonly #results = new Set<Json>();

  /** The events of one frame; none for frames that say nothing new. */
  take(frame: Pick<Frame, "event" | "data">): RunEvent[] {
    const { event, namespace, data } = decodeFrame(frame);
    switch (event) {
      case "messages":
        return Array.isArray(data) ? this.#message(data) : [];
      case "metadata":
        return this.#started(isObject(data) ? data : {});
      case "updates":
        return isObject(data) ? this.#update(namespace, data) : [];
      case "values":
        return isObject(data) ? this.#values(namespace, data) : [];
      case "custom":
        return [{ type: "custom", namespace, data }];
      case "error": {
        const { error = "Error", message = "" } = isObject(data) ? data : {};
        return [...this.#close(String(message)), { type: "error", error: String(error), message: String(message) }];
      }
      case "end":
        return [...this.#close(), { type: "end", status: isObject(data) ? String(data.status) : "success" }];
      default:
        return [{ type: "frame", event, namespace, data }];
    }
  }

  /** The events of a message of the state, as if the run showed it whole. */
  whole(message: Json): RunEvent[] {
    return this.#message([message]);
  }

  #started({ run_id, attempt = 1 }: JsonObject): RunEvent[] {
    // A gap of the stream and a waiting note are `metadata` too.
    if (typeof run_id !== "string" || typeof attempt !== "number") return [];
    const closed = this.#close();
    // A repeated attempt may use the same message ids.
    this.#blocks = new ContentBlocks();
    return [...closed, { type: "start", run_id, attempt }];
  }

  #message([message = null, metadata = null]: readonly Json[]): RunEvent[] {
    if (!isObject(message)) return [];
    const about = isObject(metadata) ? metadata : {};
    const type = textOf(message.type);
    if (/^(?:tool|function)/i.test(type)) return type.endsWith("Chunk") ? [] : this.#result(message, about);
    return this.#blocks.chunk(message, about).flatMap((one) => this.#block(one));
  }

  #result(message: JsonObject, metadata: JsonObject): RunEvent[] {
    const { id, tool_call_id = null, name = null, content = "", status } = message;
    if (typeof id !== "string" || typeof tool_call_id !== "string" || this.#results.has(id)) return [];
    this.#results.add(id);
    const ns = textOf(metadata.langgraph_checkpoint_ns ?? metadata.checkpoint_ns);
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

  #update(namespace: readonly string[], { __interrupt__: asked, ...nodes }: JsonObject): RunEvent[] {
    const events = this.#questions(namespace, asked);
    for (const [node, values] of Object.entries(nodes)) {
      const lists = isObject(values) ? Object.values(values) : [];
      for (const list of lists) events.push(...this.#blocks.finish(list).flatMap((one) => this.#block(one)));
      events.push({ type: "update", namespace, node, values });
    }
    return events;
  }

  #values(namespace: readonly string[], { __interrupt__: asked, ...values }: JsonObject): RunEvent[] {
    const events = this.#questions(namespace, asked);
    // A frame that only shows an interrupt is no state.
    const isState = asked === undefined || Object.keys(values).length > 0;
    if (isState && namespace.length === 0) events.push({ type: "values", values });
    return events;
  }

  #questions(namespace: readonly string[], asked: Json | undefined): RunEvent[] {
    const list = Array.isArray(asked) ? asked.filter(isObject) : [];
    return list.flatMap(({ id, value = null }): RunEvent[] => {
      if (typeof id !== "string" || this.#asked.has(id)) return [];
      this.#asked.add(id);
      return [{ type: "question", namespace, id, value }];
    });
  }

  /** Ends the messages that have no end: the run has ended, or starts again. */
  #close(error?: string): RunEvent[] {
    return this.#blocks.close([], error).flatMap((one) => this.#block(one));
  }

  #block({ namespace, node, data, args = "" }: MessageEvent): RunEvent[] {
    const source: NewPart = { namespace, ...(node === undefined ? {} : { node }) };
    const key = String(data.run_id);
    if (data.event === "message-start") {
      const message_id = String(data.id);
      this.#open.set(key, { message_id, parts: new Map() });
      return [{ ...source, type: "message-open", message_id, role: data.role as "ai" }];
    }
    const open = this.#open.get(key);
    if (!open) return [];
    const { message_id } = open;
    const { index = 0 } = data;
    const part: Part = { ...source, message_id, id: `${message_id}:${index}` };
    const content = isObject(data.content) ? data.content : {};
    switch (data.event) {
      case "content-block-start":
        return this.#openPart(open, index, part, content);
      case "content-block-delta":
        return isObject(data.delta) ? this.#delta(open, index, part, data.delta) : [];
      case "content-block-finish":
        return this.#closePart(open, index, part, { content, args });
      default: {
        // The end of the message, or its failure.
        this.#open.delete(key);
        const left = [...open.parts.keys()].flatMap((at) =>
          this.#closePart(open, at, { ...part, id: `${message_id}:${at}` }, { content: {}, args: "" }),
        );
        const usage = isObject(data.usage) ? data.usage : null;
        return [
          ...left,
          { ...source, type: "message-close", message_id, reason: textOf(data.reason) || "stop", usage },
        ];
      }
    }
  }

  #openPart({ parts }: Open, index: Json, part: Part, content: JsonObject): RunEvent[] {
    const type = textOf(content.type);
    const opened = { tool_call_id: "", name: "", shown: 0, type };
    parts.set(index, opened);
    if (type === "text" || type === "reasoning") return [{ ...part, type: `${type}-open` }];
    if (type !== "tool_call_chunk") return [];
    return this.#openCall(opened, part, content);
  }

  /** A call is opened with its name, which some providers send after its id. */
  #openCall(
    opened: { tool_call_id: string; name: string },
    part: Part,
    { name = null, ...content }: JsonObject,
  ): RunEvent[] {
    if (opened.name !== "" || typeof name !== "string" || name === "") return [];
    opened.tool_call_id = callId(content, part.id);
    opened.name = name;
    return [{ ...part, type: "tool-call-open", tool_call_id: opened.tool_call_id, name }];
  }

  #delta({ parts }: Open, index: Json, part: Part, delta: JsonObject): RunEvent[] {
    const opened = parts.get(index);
    if (!opened) return [];
    if (delta.type === "text-delta") return [{ ...part, type: "text-delta", delta: textOf(delta.text) }];
    if (delta.type === "reasoning-delta") {
      return [{ ...part, type: "reasoning-delta", delta: textOf(delta.reasoning) }];
    }
    if (!isObject(delta.fields)) return [];
    const events = this.#openCall(opened, part, delta.fields);
    const { tool_call_id } = opened;
    // Snapshots of the arguments: what is new in them.
    const args = textOf(delta.fields.args);
    if (tool_call_id === "" || args.length <= opened.shown) return events;
    events.push({ ...part, type: "tool-call-delta", tool_call_id, delta: args.slice(opened.shown) });
    opened.shown = args.length;
    return events;
  }

  /** `args`: the arguments of a call as text; empty where it was cut off. */
  #closePart(
    { parts }: Open,
    index: Json,
    part: Part,
    { content, args: text }: { readonly content: JsonObject; readonly args: string },
  ): RunEvent[] {
    const opened = parts.get(index);
    if (!opened) return [];
    parts.delete(index);
    const { type } = opened;
    if (type === "text" || type === "reasoning") return [{ ...part, type: `${type}-close`, block: content }];
    if (type !== "tool_call_chunk")
      return Object.keys(content).length > 0 ? [{ ...part, type: "file", block: content }] : [];
    const events = this.#openCall(opened, part, content);
    const { tool_call_id, name } = opened;
    if (tool_call_id === "") return events;
    // The snapshots of long arguments leave out the last ones.
    const delta = text.slice(opened.shown);
    if (delta !== "") events.push({ ...part, type: "tool-call-delta", tool_call_id, delta });
    const { args } = content;
    const invalid = typeof content.error === "string" ? content.error : null;
    const error = args === undefined ? "The call was cut off" : invalid;
    return [...events, { ...part, type: "tool-call-close", tool_call_id, name, args: args ?? "", error }];
  }
}

/**
 * The frames of runs, as values and as text. A frame is encoded once, when it is emitted: the store and all subscribers share its text.
 * The text is also a copy that its agent cannot change later, so what needs the value again decodes it.
 */
import { isObject, type Json, stringifyShared } from "../json.ts";
import type { NewFrame } from "../storage/mod.ts";
import { LARGE_TEXT_CHARS } from "./weak-text-cache.ts";

/** An event of a stream. */
export interface Frame {
  /** The id, which increases within the run; null for frames outside the log. A string only in the stream of a thread. */
  readonly id: number | string | null;
  /** The name: `metadata`, `values`, `updates`, `messages`, `updates|<namespace>`, `error`, `end` … */
  readonly event: string;
  /** The JSON text of the content. */
  readonly data: string;
  /** Set if nothing follows this frame although it is no `end`. */
  readonly last?: true;
  /** The frame whose `data` this one shares. It stays alive with this one, so that other readers can share its text. */
  readonly sharedFrom?: Frame;
}

/** The decoded content of a frame. */
export interface FrameContent {
  /** The event name without the namespace. */
  readonly event: string;
  /** The segments `<node>:<task id>` of each level; empty for the root graph. */
  readonly namespace: readonly string[];
  readonly data: Json;
}

/** The texts of the metadata of messages, because each token of a message has the same metadata. */
const metadataTexts = new WeakMap<object, string>();

/** The values of large frames, while a reader holds them. */
const decodedValues = new WeakMap<object, WeakRef<object>>();

/** Returns the frame with its data as JSON and with its namespace in the name, as in `updates|a:1|b:2`. */
export function encodeFrame({ event, namespace, data }: FrameContent): NewFrame {
  const name = namespace.length > 0 ? `${event}|${namespace.join("|")}` : event;
  return { event: name, data: encodeData(event, namespace, data) };
}

/** Returns the data of a frame as JSON; undefined becomes `null`. Shares the text of root values and of metadata of messages. */
function encodeData(event: string, namespace: readonly string[], data: Json): string {
  // The last values are often the result too.
  if (event === "values" && namespace.length === 0) return stringifyShared(data).json ?? "null";
  const [message, metadata] = Array.isArray(data) && data.length === 2 ? data : [];
  const isMessage = event === "messages" && message !== undefined && isObject(metadata);
  return isMessage ? `[${JSON.stringify(message)},${stringifyMetadata(metadata)}]` : (JSON.stringify(data) ?? "null");
}

/** Returns the JSON of the metadata. Caches it by object, so the object must not change later. */
function stringifyMetadata(metadata: object): string {
  const text = metadataTexts.get(metadata) ?? JSON.stringify(metadata);
  metadataTexts.set(metadata, text);
  return text;
}

/** Decodes a frame. The readers of a large frame share its value, so they must not change it. */
export function decodeFrame(frame: Pick<Frame, "event" | "data">): FrameContent {
  const [event = "", ...namespace] = frame.event.split("|");
  return { event, namespace, data: decodeData(frame) };
}

/**
 * Parses the data of a frame. A large object is cached while something uses it, so callers must not change it. Throws for invalid
 * JSON.
 */
function decodeData(frame: Pick<Frame, "data">): Json {
  if (frame.data.length < LARGE_TEXT_CHARS) return JSON.parse(frame.data) as Json;
  const cached = decodedValues.get(frame)?.deref();
  if (cached) return cached as Json;
  const value = JSON.parse(frame.data) as Json;
  if (typeof value === "object" && value !== null) decodedValues.set(frame, new WeakRef(value));
  return value;
}

/** The frames of runs: their text, and the value that it contains. */
import type { Json } from "../json.ts";
import { LARGE } from "./shared-texts.ts";

/** One event of a stream. */
export interface Frame {
  /** Increases within the run; null for frames outside the log. A string only in the stream of a thread. */
  readonly id: number | string | null;
  /** `metadata`, `values`, `updates`, `messages`, `updates|<namespace>`, `error`, `end` … */
  readonly event: string;
  /** One JSON text. */
  readonly data: string;
  /** Nothing follows it, although it is no `end`. */
  readonly last?: true;
  /** The frame that has the same `data`: readers share large texts of frames that are held. */
  readonly of?: Frame;
}

/** What a frame contains, as a value. */
export interface FrameContent {
  /** The name without the namespace. */
  readonly event: string;
  /** `<node>:<task id>` of each level; empty for the root graph. */
  readonly namespace: readonly string[];
  readonly data: Json;
}

/** The values of large frames, while a reader has them. */
const decodedValues = new WeakMap<object, WeakRef<object>>();

/** Returns what a frame contains. The readers of a large frame share its value, so they must not change it. */
export function decodeFrame(frame: Pick<Frame, "event" | "data">): FrameContent {
  const [event = "", ...namespace] = frame.event.split("|");
  return { event, namespace, data: decodeData(frame) };
}

function decodeData(frame: Pick<Frame, "data">): Json {
  if (frame.data.length < LARGE) return JSON.parse(frame.data) as Json;
  const known = decodedValues.get(frame)?.deref();
  if (known) return known as Json;
  const value = JSON.parse(frame.data) as Json;
  if (typeof value === "object" && value !== null) decodedValues.set(frame, new WeakRef(value));
  return value;
}

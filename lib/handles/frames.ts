/** Converts the frames of a run to those of the calls of agents. */
import type { StreamMode } from "../executor/contract.ts";
import { isObject, type Json } from "../json.ts";
import type { ReceivedFrame } from "./transport.ts";

/** A frame without the types of its agent. */
export interface ParsedFrame {
  readonly mode: StreamMode;
  readonly id: number | null;
  readonly namespace: readonly string[];
  readonly data: Json;
}

/** Events that are no mode. `run` and `outcome` of the frames have what they say. */
const OTHER_EVENTS = ["metadata", "feedback", "error", "end", "messages/metadata"];

/**
 * Returns the frame with its mode and namespace, without interrupts in its values or updates. Returns null for a frame that
 * belongs to no mode, or that has only interrupts.
 */
export function parseFrame({ id, event, data }: ReceivedFrame): ParsedFrame | null {
  const [name = "", ...namespace] = event.split("|");
  if (OTHER_EVENTS.includes(name)) return null;
  const mode = toMode(name);
  if ((mode !== "values" && mode !== "updates") || !isObject(data)) return { mode, id, namespace, data };
  const { __interrupt__: interrupts, ...content } = data;
  if (interrupts === undefined) return { mode, id, namespace, data };
  return Object.keys(content).length > 0 ? { mode, id, namespace, data: content } : null;
}

/**
 * Returns the stream mode of an event: `messages/…` belongs to `messages`, and `messages` to `messages-tuple`. Other names are
 * returned unchecked.
 */
function toMode(name: string): StreamMode {
  if (name.startsWith("messages/")) return "messages";
  return name === "messages" ? "messages-tuple" : (name as StreamMode);
}

/** Filters the frames of a run by stream mode and namespace. */
import type { StreamMode } from "../executor/contract.ts";
import type { Frame, RunEvents } from "./hub.ts";
import { createReader, type Reader } from "./reader.ts";

/** Events that pass every filter. */
const ALWAYS = new Set(["metadata", "error", "feedback", "end"]);

/** Whether a namespace is one of these or a subgraph in one of them. Subagents (`tools:…` segments) do not count. */
function isWithin(namespace: string, namespaces: readonly string[]): boolean {
  return namespaces.some((wanted) => {
    if (namespace === wanted) return true;
    const inside = wanted === "" ? namespace : namespace.slice(wanted.length + 1);
    if (wanted !== "" && !namespace.startsWith(`${wanted}|`)) return false;
    return !inside.split("|").some((segment) => segment.startsWith("tools:"));
  });
}

/** An empty or missing list lets all modes or namespaces pass. */
export interface FrameFilter {
  readonly modes?: readonly StreamMode[];
  readonly namespaces?: readonly string[];
}

/** The matching frames, and always an `end`: clients treat an empty stream as a broken one. */
export function filterFrames(
  frames: Reader<Frame>,
  runEvents: RunEvents,
  run_id: string,
  { modes = [], namespaces = [] }: FrameFilter,
): Reader<Frame> {
  let ended = false;
  const passes = ({ event }: Frame): boolean => {
    ended ||= event === "end";
    const bar = event.indexOf("|");
    const name = bar < 0 ? event : event.slice(0, bar);
    if (bar < 0 && ALWAYS.has(name)) return true;
    if (namespaces.length > 0 && !isWithin(bar < 0 ? "" : event.slice(bar + 1), namespaces)) return false;
    if (modes.length === 0 || ALWAYS.has(name)) return true;
    if (name.startsWith("messages/")) return modes.includes("messages");
    return modes.includes(name === "messages" ? "messages-tuple" : (name as StreamMode));
  };
  return createReader(async () => {
    while (true) {
      const batch = await frames.next();
      const passing = batch.filter(passes);
      if (passing.length > 0) return passing;
      if (batch.length > 0) continue;
      const status = ended ? "gone" : (runEvents.outcome?.status ?? "gone");
      if (status === "gone") return [];
      ended = true;
      return [{ id: null, event: "end", data: JSON.stringify({ run_id, status }) }];
    }
  }, frames.leave);
}

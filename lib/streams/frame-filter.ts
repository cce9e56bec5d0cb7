/** Filters the frames of a run by stream mode and namespace. */
import type { StreamMode } from "../executor/contract.ts";
import type { Frame, FrameReader, RunEvents } from "./hub.ts";

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

/**
 * The matching frames, and always an `end`: clients treat an empty stream as a broken one. Not a generator, because `return` of
 * a generator waits for the next frame.
 */
export function filterFrames(
  frames: FrameReader,
  runEvents: RunEvents,
  run_id: string,
  { modes = [], namespaces = [] }: FrameFilter,
): FrameReader {
  const source = frames[Symbol.asyncIterator]();
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
  return {
    take: () => frames.take().filter(passes),
    [Symbol.asyncIterator]: () => ({
      async next() {
        while (true) {
          const { done, value } = await source.next();
          if (!done && !passes(value)) continue;
          if (!done) return { done, value };
          const status = ended ? "gone" : (runEvents.outcome?.status ?? "gone");
          if (status === "gone") return { done, value: undefined };
          ended = true;
          return { done: false, value: { id: null, event: "end", data: JSON.stringify({ run_id, status }) } };
        }
      },
      async return() {
        await source.return?.();
        return { done: true, value: undefined };
      },
    }),
  };
}

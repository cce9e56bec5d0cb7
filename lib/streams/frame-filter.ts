/** The frames of a run that a subscriber asks for: those of some stream modes, or of some namespaces. */
import type { StreamMode } from "../executor/contract.ts";
import type { RunFeatures } from "../features/mod.ts";
import { encodeFrame, type Frame } from "./frames.ts";
import type { RunEvents } from "./hub.ts";
import { createReader, type Reader } from "./log.ts";

/** An empty or missing list lets all modes or namespaces pass. */
interface FrameFilter {
  readonly modes?: readonly StreamMode[];
  readonly namespaces?: readonly string[];
}

/** Events that pass every filter, beside those of features. */
const UNFILTERED: ReadonlySet<string> = new Set(["metadata", "error", "end"]);

/** Reads the matching frames, and always an `end`: clients treat an empty stream as a broken one. */
export function filterFrames(
  frames: Reader<Frame>,
  runEvents: RunEvents,
  { isTail }: Pick<RunFeatures, "isTail">,
  { modes = [], namespaces = [] }: FrameFilter,
): Reader<Frame> {
  let hasEnded = false;

  function passes({ event }: Frame): boolean {
    const [name, namespace] = splitName(event);
    const isUnfiltered = UNFILTERED.has(name) || isTail(name);
    if (isUnfiltered && namespace === null) return true;
    if (namespaces.length > 0 && !isWithin(namespace ?? "", namespaces)) return false;
    return isUnfiltered || modes.length === 0 || modes.includes(modeOf(name));
  }

  /** Returns the end of a run that was over before the first frame of this reader. */
  function missingEnd(): readonly Frame[] {
    const status = hasEnded ? undefined : runEvents.outcome?.status;
    if (status === undefined || status === "gone") return [];
    hasEnded = true;
    const data = { run_id: runEvents.run_id, status };
    return [{ id: null, ...encodeFrame({ event: "end", namespace: [], data }) }];
  }

  return createReader(async () => {
    for (;;) {
      const batch = await frames.next();
      if (batch.length === 0) return missingEnd();
      hasEnded ||= batch.some(({ event }) => event === "end");
      const passing = batch.filter(passes);
      if (passing.length > 0) return passing;
    }
  }, frames.leave);
}

/** Returns the namespace as text; null for a frame without one. */
function splitName(event: string): readonly [name: string, namespace: string | null] {
  const bar = event.indexOf("|");
  return bar < 0 ? [event, null] : [event.slice(0, bar), event.slice(bar + 1)];
}

function modeOf(name: string): StreamMode {
  if (name.startsWith("messages/")) return "messages";
  return name === "messages" ? "messages-tuple" : (name as StreamMode);
}

/** Returns whether a namespace is one of these or a subgraph in one of them. Subagents (`tools:…` segments) do not count. */
function isWithin(namespace: string, namespaces: readonly string[]): boolean {
  return namespaces.some((wanted) => {
    if (namespace === wanted) return true;
    const inside = wanted === "" ? namespace : namespace.slice(wanted.length + 1);
    if (wanted !== "" && !namespace.startsWith(`${wanted}|`)) return false;
    return !inside.split("|").some((segment) => segment.startsWith("tools:"));
  });
}

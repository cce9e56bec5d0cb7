/** Filters the frames of a run by stream modes and namespaces. */
import type { StreamMode } from "../executor/contract.ts";
import type { CombinedFeatures } from "../features/mod.ts";
import { encodeFrame, type Frame } from "./frames.ts";
import type { RunLog } from "./hub.ts";
import { createReader, type Reader } from "./log.ts";

/** The filter of a subscriber. An empty or missing list includes all modes or namespaces. */
interface FrameFilter {
  readonly modes?: readonly StreamMode[];
  readonly namespaces?: readonly string[];
}

/** The events that every filter includes, beside those of features. */
const UNFILTERED: ReadonlySet<string> = new Set(["metadata", "error", "end"]);

/**
 * Reads the frames that pass the modes and namespaces: an empty list lets all pass, and a namespace includes the subgraphs in it.
 * Metadata, errors, trailers and `end` pass any modes, and those without a namespace pass always. Adds an `end` if the run has
 * ended and the reader got none, because clients treat an empty stream as a broken one; not if the log ended as `gone`.
 */
export function filterFrames(
  frames: Reader<Frame>,
  runLog: RunLog,
  { isTrailer }: Pick<CombinedFeatures, "isTrailer">,
  { modes = [], namespaces = [] }: FrameFilter,
): Reader<Frame> {
  let hasEnded = false;

  /**
   * Returns true if the reader gets the frame: if its namespace and its mode pass the filter. Metadata, errors, ends and trailers
   * pass any modes, and those without a namespace pass always.
   */
  function isIncluded({ event }: Frame): boolean {
    const [name, namespace] = splitName(event);
    const isUnfiltered = UNFILTERED.has(name) || isTrailer(name);
    if (isUnfiltered && namespace === null) return true;
    if (namespaces.length > 0 && !isWithin(namespace ?? "", namespaces)) return false;
    return isUnfiltered || modes.length === 0 || modes.includes(toMode(name));
  }

  /**
   * Returns an `end` frame without an id, once, if the run has ended and this reader has received no `end`. Returns none for a
   * log that ended as `gone`.
   */
  function createMissingEnd(): readonly Frame[] {
    const status = hasEnded ? undefined : runLog.completion?.status;
    if (status === undefined || status === "gone") return [];
    hasEnded = true;
    const data = { run_id: runLog.run_id, status };
    return [{ id: null, ...encodeFrame({ event: "end", namespace: [], data }) }];
  }

  return createReader(async () => {
    for (;;) {
      const batch = await frames.next();
      if (batch.length === 0) return createMissingEnd();
      hasEnded ||= batch.some(({ event }) => event === "end");
      const included = batch.filter(isIncluded);
      if (included.length > 0) return included;
    }
  }, frames.leave);
}

/** Splits an event name. The namespace is null for a frame without one. */
function splitName(event: string): readonly [name: string, namespace: string | null] {
  const bar = event.indexOf("|");
  return bar < 0 ? [event, null] : [event.slice(0, bar), event.slice(bar + 1)];
}

/**
 * Returns the stream mode of a frame's name: `messages` for `messages/…`, `messages-tuple` for `messages`, else the name itself.
 */
function toMode(name: string): StreamMode {
  if (name.startsWith("messages/")) return "messages";
  return name === "messages" ? "messages-tuple" : (name as StreamMode);
}

/**
 * Returns true if a namespace is one of these or a subgraph in one of them. Subagents do not count: a `tools:…` segment after the
 * prefix excludes the namespace.
 */
function isWithin(namespace: string, namespaces: readonly string[]): boolean {
  return namespaces.some((prefix) => {
    if (namespace === prefix) return true;
    const inside = prefix === "" ? namespace : namespace.slice(prefix.length + 1);
    if (prefix !== "" && !namespace.startsWith(`${prefix}|`)) return false;
    return !inside.split("|").some((segment) => segment.startsWith("tools:"));
  });
}

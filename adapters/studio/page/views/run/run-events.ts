/** Reads the bars of nodes, model calls and tool calls from the events of a run. */
import { useEffect, useState } from "preact/hooks";
import { SEQS_PER_CLAIM, threadEvents } from "../../api/events.ts";
import type { RunDetail } from "../../api/types.ts";
import type { Bar } from "./bars.ts";

interface EventData {
  readonly event?: string;
  /** The id of a model call. */
  readonly run_id?: string;
  readonly metadata?: { readonly model?: string };
  readonly tool_call_id?: string;
  readonly tool_name?: string;
  /** The id of a task, which is one execution of a node. */
  readonly id?: string;
  readonly name?: string;
  readonly error?: unknown;
  readonly interrupts?: readonly unknown[];
}

type OpenBar = Omit<Bar, "to">;

/** Returns the kind and label of the bar that an event starts; null for all other events. */
function findStart(method: string, namespace: readonly string[], data: EventData): Pick<Bar, "kind" | "label"> | null {
  const { event, metadata, tool_name, name = "" } = data;
  if (event === "message-start") return { kind: "model", label: metadata?.model ?? "model call" };
  if (event === "tool-started") return { kind: "tool", label: tool_name ?? "tool" };
  if (method !== "tasks" || name.startsWith("__") || "result" in data || "error" in data) return null;
  const outer = namespace.map((part) => part.split(":")[0]);
  return { kind: "step", label: [...outer, name].join(" › ") };
}

/** Returns true for the result or error of a task, and for the end of a message or of a tool. */
const isEndEvent = (method: string, data: EventData): boolean =>
  method === "tasks"
    ? "result" in data || "error" in data
    : /^(?:message-finish|tool-(?:finished|error))$/.test(data.event ?? "");

/**
 * Reads the events of a run and calls `onBars` with a copy of all ended bars whenever one ends, and at the end. What is
 * open when an attempt or the run ends, ends with it. Resolves at the end of the run; rejects if the stream fails.
 */
async function readBars(
  { thread_id, turn, claims }: RunDetail,
  signal: AbortSignal,
  onBars: (bars: Bar[]) => void,
): Promise<void> {
  const open = new Map<string, OpenBar>();
  const bars: Bar[] = [];
  /** Ends an open bar and adds it to the result. */
  const add = (key: string, bar: OpenBar, to: number, failed: boolean, label = bar.label): void => {
    open.delete(key);
    bars.push({ ...bar, label, to, failed });
  };
  // A run that was claimed several times has events of earlier turns, too.
  const first = Math.max(0, turn - claims + 1);
  const filter = {
    channels: ["lifecycle", "messages", "tools", "tasks"],
    since: Math.max(0, first * SEQS_PER_CLAIM - 1),
  };
  let [turnNow, last] = [0, 0];
  const closeOpenBars = (failed: boolean): void => {
    for (const [key, bar] of open) add(key, bar, last, failed);
  };
  for await (const { seq, method, params } of threadEvents(thread_id, filter, signal)) {
    const { namespace, timestamp: time } = params;
    const data = params.data as EventData;
    // What an earlier attempt has left open ended with it.
    if (Math.floor(seq / SEQS_PER_CLAIM) !== turnNow) closeOpenBars(false);
    if (seq >= (turn + 1) * SEQS_PER_CLAIM) break;
    turnNow = Math.floor(seq / SEQS_PER_CLAIM);
    last = time;
    const key = (method === "tasks" ? data.id : (data.tool_call_id ?? data.run_id)) ?? namespace.join("|");
    const openBar = open.get(key);
    const start = findStart(method, namespace, data);
    if (start) open.set(key, { ...start, from: time, ...(method === "tasks" ? { task_id: key } : {}) });
    else if (openBar && isEndEvent(method, data)) {
      const failed = data.event === "tool-error" || data.error != null;
      add(key, openBar, time, failed, data.interrupts?.length ? `${openBar.label} ◐` : openBar.label);
      onBars([...bars]);
    }
    if (method !== "lifecycle" || namespace.length > 0 || /^(?:running|started)$/.test(data.event ?? "")) continue;
    closeOpenBars(data.event === "failed");
    if (turnNow === turn) break;
  }
  closeOpenBars(false);
  onBars([...bars]);
}

/**
 * Returns the bars of a run from its events, as they come. Empty for a temporary run, one that has not started, and one
 * whose events nobody followed, because these are not stored. Errors are ignored.
 */
export function useRunEvents(run: RunDetail): readonly Bar[] {
  const [bars, setBars] = useState<readonly Bar[]>([]);
  useEffect(() => {
    if (run.temporary || run.started_at === null) return;
    const abort = new AbortController();
    // Without the events, the steps say what they can.
    readBars(run, abort.signal, setBars).catch(() => {});
    return () => abort.abort();
  }, [run.run_id, run.turn, run.started_at === null]);
  return bars;
}

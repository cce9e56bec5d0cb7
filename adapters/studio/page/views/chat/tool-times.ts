/** Reads the durations of tools in runs that this page has not followed, for example after a reload. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { call } from "../../api/client.ts";
import { SEQS_PER_CLAIM, threadEvents } from "../../api/events.ts";
import type { RunDetail, RunSummary } from "../../api/types.ts";
import { Conversation, isRunEnd } from "./conversation.ts";
import type { ChatState } from "./source.ts";

/** The number of turns whose events are read. */
const TURNS = 20;
/** The time after which a silent stream has no more events, in milliseconds. A run without events has none. */
const SILENCE_MS = 1000;

/**
 * Replays the events of the last turns and resolves with the milliseconds that each tool call took, by its id. Ends
 * with the run, when `abort` aborts, or when no event comes for a while, which aborts it; then the times are
 * incomplete.
 */
async function readTimes(
  thread_id: string,
  run_id: string,
  abort: AbortController,
): Promise<ReadonlyMap<string, number>> {
  const { turn } = await call<RunDetail>("GET", `/greenroom/runs/${run_id}`, { signal: abort.signal });
  const conversation = new Conversation();
  const stop = (): void => abort.abort();
  let timer = setTimeout(stop, SILENCE_MS);
  try {
    const filter = { channels: ["lifecycle", "tools"], since: Math.max(0, turn - TURNS + 1) * SEQS_PER_CLAIM };
    for await (const event of threadEvents(thread_id, filter, abort.signal)) {
      clearTimeout(timer);
      timer = setTimeout(stop, SILENCE_MS);
      conversation.handleEvent(event);
      if (isRunEnd(event) && event.seq >= turn * SEQS_PER_CLAIM) break;
    }
  } catch (error) {
    if (!abort.signal.aborted) throw error;
  } finally {
    clearTimeout(timer);
  }
  return conversation.times;
}

/**
 * Returns the durations of tool calls by their ids, in milliseconds. Those of received events have precedence; stored
 * events are read when the thread is idle and a tool message has no time. A failed read leaves them out.
 */
export function useToolTimes(
  thread_id: string,
  { phase, messages, times }: ChatState,
  newest: RunSummary | undefined,
): ReadonlyMap<string, number> {
  const [storedTimes, setStoredTimes] = useState<ReadonlyMap<string, number>>(new Map());
  const isUnknown = (id = ""): boolean => !times.has(id) && !storedTimes.has(id);
  const isMissing = messages?.some(({ type, tool_call_id }) => type === "tool" && isUnknown(tool_call_id)) ?? false;
  const run_id = phase === "idle" && isMissing ? newest?.run_id : undefined;
  useEffect(() => {
    if (run_id === undefined) return;
    const abort = new AbortController();
    let isOver = false;
    readTimes(thread_id, run_id, abort).then(
      (readTimesById) => {
        if (!isOver) setStoredTimes(readTimesById);
      },
      // They are not shown then.
      () => {},
    );
    return () => {
      isOver = true;
      abort.abort();
    };
  }, [thread_id, run_id]);
  return useMemo(() => new Map([...storedTimes, ...times]), [storedTimes, times]);
}

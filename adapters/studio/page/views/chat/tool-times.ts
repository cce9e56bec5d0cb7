/** How long tools took in runs that this page has not followed: after a reload, for example. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { call } from "../../api/client.ts";
import { TURN, threadEvents } from "../../api/events.ts";
import type { RunDetail, RunSummary } from "../../api/types.ts";
import { Conversation, isEnd } from "./conversation.ts";
import type { ChatState } from "./source.ts";

/** Turns whose events are read. */
const TURNS = 20;
/** Runs that were followed by no events have none: the stream stays silent. */
const SILENCE_MS = 1000;

async function readTimes(thread_id: string, run_id: string, abort: AbortController) {
  const { turn } = await call<RunDetail>("GET", `/greenroom/runs/${run_id}`, { signal: abort.signal });
  const conversation = new Conversation();
  const stop = (): void => abort.abort();
  let timer = setTimeout(stop, SILENCE_MS);
  try {
    const filter = { channels: ["lifecycle", "tools"], since: Math.max(0, turn - TURNS + 1) * TURN };
    for await (const event of threadEvents(thread_id, filter, abort.signal)) {
      clearTimeout(timer);
      timer = setTimeout(stop, SILENCE_MS);
      conversation.take(event);
      if (isEnd(event) && event.seq >= turn * TURN) break;
    }
  } catch (error) {
    if (!abort.signal.aborted) throw error;
  } finally {
    clearTimeout(timer);
  }
  return conversation.times;
}

/** Milliseconds by the ids of calls: those of the events that this page has seen, and of kept ones. `newest`: the last run. */
export function useToolTimes(
  thread_id: string,
  { phase, messages, times }: ChatState,
  newest: RunSummary | undefined,
): ReadonlyMap<string, number> {
  const [kept, setKept] = useState<ReadonlyMap<string, number>>(new Map());
  const isUnknown = (id = ""): boolean => !times.has(id) && !kept.has(id);
  const isMissing = messages?.some(({ type, tool_call_id }) => type === "tool" && isUnknown(tool_call_id)) ?? false;
  const run_id = phase === "idle" && isMissing ? newest?.run_id : undefined;
  useEffect(() => {
    if (run_id === undefined) return;
    const abort = new AbortController();
    let isOver = false;
    readTimes(thread_id, run_id, abort).then(
      (found) => {
        if (!isOver) setKept(found);
      },
      // They are not shown then.
      () => {},
    );
    return () => {
      isOver = true;
      abort.abort();
    };
  }, [thread_id, run_id]);
  return useMemo(() => new Map([...kept, ...times]), [kept, times]);
}

/** Reads the trace of a run: at once when the run has ended, and as its spans come while it is active. */
import { useEffect, useRef, useState } from "preact/hooks";
import { call, requestRoute } from "../../api/client.ts";
import { readFrames } from "../../api/events.ts";
import { Failure, isMissing } from "../../api/failure.ts";
import type { RunDetail, RunTrace, Span } from "../../api/types.ts";
import { useResource } from "../../store/resource.ts";

/** A trace, and what time it was for the server. */
export interface ReadTrace {
  readonly trace: RunTrace;
  /** In milliseconds after the creation of the run, at `read_at` of `performance.now()`. */
  readonly now_ms: number;
  readonly read_at: number;
}

const RETRY_MS = 2000;
/** Spans come in groups: changes so close to each other are shown together. */
const COLLECT_MS = 50;

/** Returns the time of the server, in milliseconds after the creation of the run. */
export const getNow = ({ now_ms, read_at }: ReadTrace): number => now_ms + performance.now() - read_at;

const getEnd = ({ start_ms, duration_ms = 0 }: Pick<Span, "start_ms" | "duration_ms">): number =>
  start_ms + duration_ms;

/** Returns a trace that was read just now. The last segment of an active run ends now. */
export function toReadTrace(trace: RunTrace): ReadTrace {
  const last = trace.segments.at(-1);
  return { trace, now_ms: last ? getEnd(last) : 0, read_at: performance.now() };
}

/** Returns the trace with a span that has started or changed. The span tells how late it is at least. */
function withSpan(read: ReadTrace, spans: Map<string, Span>, span: Span): ReadTrace {
  spans.set(span.span_id, span);
  const now_ms = span.kind === "webhook" ? 0 : getEnd(span);
  return now_ms > getNow(read) ? { ...read, now_ms, read_at: performance.now() } : read;
}

/**
 * Follows a trace and calls `onChange` with it whenever it changes. Resolves with true at its end, and with false if the stream
 * breaks. Rejects if the server refuses it.
 */
async function followTrace(path: string, signal: AbortSignal, onChange: (trace: ReadTrace) => void): Promise<boolean> {
  const { body } = await requestRoute("GET", `${path}/stream`, { signal, headers: { accept: "text/event-stream" } });
  let spans = new Map<string, Span>();
  let read: ReadTrace | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  /** Shows the trace as it is now. */
  const show = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (read && !signal.aborted) onChange({ ...read, trace: { ...read.trace, spans: [...spans.values()] } });
  };
  try {
    for await (const { event, data } of body ? readFrames(body) : []) {
      if (event === "trace") {
        read = toReadTrace(JSON.parse(data) as RunTrace);
        spans = new Map(read.trace.spans.map((span) => [span.span_id, span]));
        show();
      } else if (event === "span" && read) {
        read = withSpan(read, spans, JSON.parse(data) as Span);
        timer ??= setTimeout(show, COLLECT_MS);
      } else if (event === "end") {
        read = toReadTrace(JSON.parse(data) as RunTrace);
        return true;
      }
    }
    return false;
  } finally {
    show();
  }
}

/** Follows a trace until its end, again after each time that the stream breaks. Rejects if the server refuses it. */
async function keepFollowing(path: string, signal: AbortSignal, onChange: (trace: ReadTrace) => void): Promise<void> {
  while (!signal.aborted) {
    try {
      if (await followTrace(path, signal, onChange)) return;
    } catch (error) {
      if (signal.aborted || (error instanceof Failure && error.status >= 400 && error.status < 500)) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

export interface TraceState {
  /** Undefined before the first read, and if there is none. */
  readonly data: ReadTrace | undefined;
  /** Why there is no trace. */
  readonly error: unknown;
}

/**
 * Returns the trace of a run, and reads it again once the run has ended or its webhook was tried. Keeps the last one while another is
 * read. The stream ends when the component goes.
 */
export function useTrace({ run_id, thread_id, temporary, ended_at, delivery }: RunDetail): TraceState {
  // The thread of a stateless run may be gone.
  const path = temporary ? `/greenroom/traces/${run_id}` : `/threads/${thread_id}/runs/${run_id}/trace`;
  const isActive = ended_at === null;
  const [followed, setFollowed] = useState<ReadTrace>();
  const [refusal, setRefusal] = useState<unknown>();
  useEffect(() => {
    if (!isActive) return;
    const abort = new AbortController();
    keepFollowing(path, abort.signal, setFollowed).catch((error: unknown) => {
      if (!abort.signal.aborted) setRefusal(error);
    });
    return () => abort.abort();
  }, [path, isActive]);
  const key = isActive ? null : `run-trace/${run_id}/${delivery?.attempt_list.length ?? 0}`;
  const stored = useResource<ReadTrace>(key, async (signal) =>
    toReadTrace(await call<RunTrace>("GET", path, { signal })),
  );
  const last = useRef<ReadTrace | undefined>(undefined);
  last.current = stored.data ?? (isActive ? followed : undefined) ?? last.current ?? followed;
  const error = stored.error ?? (stored.data ? undefined : refusal);
  return { data: isMissing(error) ? undefined : last.current, error };
}

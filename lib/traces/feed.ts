/** The spans of the runs that this process executes, for readers that follow them. */
import type { Span } from "../storage/mod.ts";

/** Gets each span when it starts and when it ends; null when the attempt has ended. */
export type SpanListener = (span: Span | null) => void;

export interface TraceFeed {
  /** Returns the spans in memory: those that are open, and those that no save has taken. Null if the run does not execute here. */
  list(run_id: string): readonly Span[] | null;
  /** Subscribes to the spans of a run, also of one that starts later. Returns a function that unsubscribes. */
  subscribe(run_id: string, listener: SpanListener): () => void;
}

/** The side of the feed that attempts use. */
export interface TraceFeedWriter extends TraceFeed {
  /** Makes `list` the source of the run's spans, in place of that of an earlier attempt. Tells no listener. */
  open(run_id: string, list: () => readonly Span[]): void;
  /** Calls the listeners of the run with the span. */
  publish(run_id: string, span: Span): void;
  /** Removes `list` and tells the listeners, who stay, by null. Has no effect if a later attempt has opened the feed of the run. */
  close(run_id: string, list: () => readonly Span[]): void;
}

/** Creates a feed in memory, without runs and listeners. */
export function createTraceFeed(): TraceFeedWriter {
  const attempts = new Map<string, () => readonly Span[]>();
  const listeners = new Map<string, Set<SpanListener>>();
  const notify = (run_id: string, span: Span | null): void => {
    const subscribed = listeners.get(run_id);
    if (subscribed) for (const listener of [...subscribed]) listener(span);
  };
  return {
    open: (run_id, list) => void attempts.set(run_id, list),
    publish: (run_id, span) => {
      if (listeners.size > 0) notify(run_id, span);
    },
    close(run_id, list) {
      if (attempts.get(run_id) !== list) return;
      attempts.delete(run_id);
      notify(run_id, null);
    },
    list: (run_id) => attempts.get(run_id)?.() ?? null,
    subscribe(run_id, listener) {
      const subscribed = listeners.get(run_id) ?? new Set();
      listeners.set(run_id, subscribed.add(listener));
      return () => {
        subscribed.delete(listener);
        if (subscribed.size === 0 && listeners.get(run_id) === subscribed) listeners.delete(run_id);
      };
    },
  };
}

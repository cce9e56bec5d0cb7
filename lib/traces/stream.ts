/** Streams a trace while its run is active: spans from memory where the run executes here, and from the storage elsewhere. */
import type { Environment } from "../environment.ts";
import type { Span } from "../storage/mod.ts";
import type { Frame } from "../streams/frames.ts";
import { createReader, type Reader } from "../streams/log.ts";
import type { TraceFeed } from "./feed.ts";
import type { RunTrace } from "./run-trace.ts";

/** A trace and whether it changes no more. */
export interface TraceState {
  readonly trace: RunTrace;
  /** True once the run has ended and its webhooks are settled. */
  readonly isSettled: boolean;
}

interface TraceStreamOptions {
  readonly environment: Pick<Environment, "timer">;
  readonly feed: TraceFeed;
  readonly run_id: string;
  /** Reads the trace. */
  read(): Promise<TraceState>;
}

/** Spans from memory are sent after so many milliseconds, so that many go together. */
const COLLECT_MS = 100;
/** The interval of reads, which find the spans of other processes and those that are derived. */
const READ_INTERVAL_MS = 1_000;

const toFrame = (event: string, data: object | string): Frame => ({
  id: null,
  event,
  data: typeof data === "string" ? data : JSON.stringify(data),
});

/**
 * Reads the trace and returns its stream: `trace`, then `span` for each change, from memory at once and from a read each second,
 * then `end` once it is settled. Subscribes to the feed until then, or until the reader leaves. Rejects if the trace cannot be
 * read; the reader rejects if that happens later.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export async function streamTrace({ environment, feed, run_id, read }: TraceStreamOptions): Promise<Reader<Frame>> {
  const sentTexts = new Map<string, string>();
  const collected = new Map<string, string>();
  let wake = (): void => {};
  let mustRead = false;
  let hasLeft = false;
  let isEnded = false;
  let cancelTimers: (() => void)[] = [];

  /** Adds a span from memory, as it is now. */
  const unsubscribe = feed.subscribe(run_id, (span) => {
    if (span) collected.set(span.span_id, JSON.stringify(span));
    else mustRead = true;
    wake();
  });
  /** Ends the subscription and the timers, and lets a waiting `next` return nothing. */
  const leave = (): void => {
    hasLeft = true;
    unsubscribe();
    for (const cancel of cancelTimers) cancel();
    wake();
  };
  const first = await read().catch((error: unknown) => {
    leave();
    throw error;
  });
  for (const span of first.trace.spans) sentTexts.set(span.span_id, JSON.stringify(span));
  let pending: Frame[] = [toFrame("trace", first.trace), ...endIfSettled(first)];

  /** Returns the `end` frame, without spans, and notes that the stream has ended; none while the trace may still change. */
  function endIfSettled({ trace: { spans: _, ...trace }, isSettled }: TraceState): Frame[] {
    if (!isSettled) return [];
    isEnded = true;
    return [toFrame("end", trace)];
  }

  /**
   * Returns a frame for a span that differs from what was sent, and notes it as sent; none for an open one that was sent as
   * ended.
   */
  function toSpanFrame(span_id: string, json: string): Frame[] {
    const earlier = sentTexts.get(span_id);
    if (earlier === json) return [];
    if (earlier !== undefined && isOpen(json) && !isOpen(earlier)) return [];
    sentTexts.set(span_id, json);
    return [toFrame("span", json)];
  }

  /** Waits for a change, and then 100 ms more for further ones; or until the next read is due or the reader leaves. */
  async function waitForChange(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    wake = resolve;
    cancelTimers = [
      environment.timer(READ_INTERVAL_MS, () => {
        mustRead = true;
        resolve();
      }),
    ];
    if (collected.size === 0 && !mustRead && !hasLeft) await promise;
    for (const cancel of cancelTimers) cancel();
    if (hasLeft || mustRead) return;
    // Spans come in groups.
    await new Promise<void>((collect) => {
      wake = () => hasLeft && collect();
      cancelTimers = [environment.timer(COLLECT_MS, collect)];
    });
  }

  /** Waits for frames and returns them; none after the end or once the reader has left. Rejects if the trace cannot be read. */
  async function next(): Promise<readonly Frame[]> {
    while (pending.length === 0 && !isEnded && !hasLeft) {
      await waitForChange();
      if (hasLeft) break;
      pending.push(...[...collected].flatMap(([span_id, json]) => toSpanFrame(span_id, json)));
      collected.clear();
      if (!mustRead) continue;
      mustRead = false;
      const state = await read();
      pending.push(...state.trace.spans.flatMap((span) => toSpanFrame(span.span_id, JSON.stringify(span))));
      pending.push(...endIfSettled(state));
    }
    const frames = hasLeft ? [] : pending;
    pending = [];
    if (isEnded) leave();
    return frames;
  }

  return createReader(next, leave);
}

const isOpen = (json: string): boolean => (JSON.parse(json) as Span).status === "open";

/** The recorders of a process, loaded by services that record traces. */
import type { Environment } from "../environment.ts";
import type { AttemptSpans, RecordedAttempt } from "../features/mod.ts";
import type { JsonObject } from "../json.ts";
import type { Storage, TraceOrigin } from "../storage/mod.ts";
import { MAX_WAIT_MS, RunSpans } from "./attempt-spans.ts";
import type { TraceFeedWriter } from "./feed.ts";
import { parseTraceParent, type TraceParent } from "./ids.ts";
import type { TraceSettings } from "./options.ts";
import { createSinkGroup, type TraceCounters } from "./sinks.ts";

interface RecordingContext {
  readonly storage: Storage;
  readonly environment: Environment;
  readonly deployment: string;
  readonly settings: TraceSettings;
  readonly lease_ms: number;
  readonly counters: TraceCounters;
  readonly feed: TraceFeedWriter;
}

/** What runs of this process record. */
export interface TraceRecording {
  /** Creates the recorder of an attempt, and opens the feed of its run. */
  createSpans(attempt: RecordedAttempt): AttemptSpans;
  /** Waits for the sinks. */
  flush(): Promise<void>;
}

/** The interval at which attempts with unsaved spans are looked at: the time above `MAX_WAIT_MS` at most. */
const CHECK_INTERVAL_MS = MAX_WAIT_MS / 10;

/** Creates the recording. One timer for all attempts saves the spans that have waited long enough. */
export function createTraceRecording({ feed, ...context }: RecordingContext): TraceRecording {
  const { environment, settings, counters } = context;
  const sinks = createSinkGroup(settings.sinks, environment, counters);
  const waiting = new Set<RunSpans>();
  let isScheduled = false;

  /** Saves the spans that have waited long enough, and looks again while there are others. */
  function check(): void {
    isScheduled = false;
    for (const spans of [...waiting]) if (spans.hasUnsaved()) spans.saveSoon();
    schedule();
  }

  function schedule(): void {
    if (isScheduled || waiting.size === 0) return;
    isScheduled = true;
    environment.timer(CHECK_INTERVAL_MS, check);
  }

  const shared = {
    ...{ ...context, sinks },
    onSpan: feed.publish,
    setWaiting(spans: RunSpans, isWaiting: boolean) {
      if (!isWaiting) waiting.delete(spans);
      else {
        waiting.add(spans);
        schedule();
      }
    },
  };

  return {
    createSpans(attempt) {
      const list = () => spans.recorder.list();
      const spans: RunSpans = new RunSpans(
        {
          ...shared,
          onClosed() {
            waiting.delete(spans);
            feed.close(spans.run_id, list);
          },
        },
        attempt,
      );
      feed.open(spans.run_id, list);
      return spans;
    },
    flush: () => sinks.flush(),
  };
}

const MAX_TRACESTATE_CHARS = 512;

/** The members of `RunOrigin` that describe how a run is created. */
export interface CreationOrigin {
  readonly trace?: TraceOrigin & { readonly may_continue?: boolean };
  readonly cron_id?: string;
}

/** The members of a run request whose `traceparent` counts if the call itself has none. */
export interface MetadataOfRequest {
  readonly metadata?: JsonObject | null;
  readonly config?: { readonly metadata?: unknown } | null;
}

interface IncomingContext {
  readonly traceparent?: unknown;
  readonly tracestate?: unknown;
}

/** Returns the first trace context that is well-formed: of the call, of the run, or of its configuration; null for none. */
function findIncoming(
  trace: IncomingContext,
  { metadata, config }: MetadataOfRequest,
): { readonly parent: TraceParent; readonly traceparent: string; readonly tracestate: string } | null {
  for (const context of [trace, metadata, config?.metadata] as readonly (IncomingContext | null | undefined)[]) {
    const { traceparent, tracestate } = context ?? {};
    if (typeof traceparent !== "string") continue;
    const parent = parseTraceParent(traceparent);
    if (parent) return { parent, traceparent, tracestate: isTraceState(tracestate) ? tracestate : "" };
  }
  return null;
}

const isTraceState = (value: unknown): value is string =>
  typeof value === "string" &&
  value.length <= MAX_TRACESTATE_CHARS &&
  value.split(",").every((member) => /^\s*(?:[a-z0-9][a-z0-9_\-*/@]*=[\x20-\x7e]+)?\s*$/.test(member));

/** Returns the stored origin of a run. A `traceparent` that it may not continue becomes a link; a malformed one is dropped. */
export function createTraceOrigin(
  { trace = {}, cron_id }: CreationOrigin,
  mode: TraceSettings["parent"],
  request: MetadataOfRequest = {},
): TraceOrigin {
  const { may_continue = true, traceparent: _, tracestate: _state, links = [], ...origin } = trace;
  // A cron fires by itself: its metadata belongs to no call.
  const incoming = mode === "ignore" || cron_id !== undefined ? null : findIncoming(trace, request);
  const continues = incoming !== null && mode === "continue" && may_continue;
  const allLinks = incoming && !continues ? [...links, { kind: "called_by" as const, ...incoming.parent }] : links;
  return {
    source: cron_id === undefined ? "in_process" : "cron",
    ...origin,
    ...(continues ? { traceparent: incoming.traceparent } : {}),
    ...(continues && incoming.tracestate !== "" ? { tracestate: incoming.tracestate } : {}),
    ...(allLinks.length > 0 ? { links: allLinks } : {}),
  };
}

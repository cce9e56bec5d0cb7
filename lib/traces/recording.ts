/** The recorders of a process, loaded by services that record traces. */
import type { Environment } from "../environment.ts";
import type { Prices } from "../executor/model-usage.ts";
import type { AttemptSpans, RecordedAttempt } from "../features/mod.ts";
import type { JsonObject } from "../json.ts";
import type { DeliveryRow, Storage, TraceOrigin } from "../storage/mod.ts";
import { MAX_WAIT_MS, RunSpans } from "./attempt-spans.ts";
import type { TraceFeedWriter } from "./feed.ts";
import { type HistogramFamily, RunHistograms } from "./histograms.ts";
import {
  findTraceContext,
  findTraceId,
  formatTraceParent,
  hasSampledFlag,
  parseTraceParent,
  type TraceContext,
  type TraceParent,
  toAttemptId,
  toWebhookSpanId,
} from "./ids.ts";
import type { TraceSettings } from "./options.ts";
import { createSinkGroup, type SinkGroup, type TraceCounters, type TracedFeedback } from "./sinks.ts";

interface RecordingContext {
  readonly storage: Storage;
  readonly environment: Environment;
  readonly deployment: string;
  readonly settings: TraceSettings;
  readonly lease_ms: number;
  readonly prices: Prices;
  readonly counters: TraceCounters;
  readonly feed: TraceFeedWriter;
}

/** Feedback on a run, as it is stored. */
export type RunFeedback = Omit<TracedFeedback, "trace_id" | "attempt_id">;

/** What runs of this process record. */
export interface TraceRecording {
  /** Creates the recorder of an attempt, and opens the feed of its run. */
  createSpans(attempt: RecordedAttempt): AttemptSpans;
  /** Returns the stored origin of a run. */
  createOrigin(origin: CreationOrigin, request: MetadataOfRequest): TraceOrigin;
  /** Tells the sinks about stored feedback. Reads the run first. Does nothing without sinks or for an unknown run; never rejects. */
  reportFeedback(feedback: RunFeedback): Promise<void>;
  /** Returns the `traceparent` of an attempt of a delivery that was counted. */
  formatTraceParent(delivery: DeliveryRow): string;
  /** Returns the histograms of this process. */
  readHistograms(): readonly HistogramFamily[];
  /** Waits for the sinks. */
  flush(): Promise<void>;
}

/** The interval at which attempts with unsaved spans are looked at: the time above `MAX_WAIT_MS` at most. */
const CHECK_INTERVAL_MS = MAX_WAIT_MS / 10;

/**
 * Returns the origin with the `traceparent` of the span in which the caller creates the run, without a `tracestate`. Returns it
 * unchanged with the mode `ignore`, without an active span, and if the run continues another trace.
 */
function continueActiveSpan(created: TraceOrigin, mode: TraceSettings["parent"], sinks: SinkGroup): TraceOrigin {
  const traceparent = mode === "ignore" ? undefined : sinks.findActiveTraceParent();
  const active = parseTraceParent(traceparent);
  const incoming = parseTraceParent(created.traceparent);
  // A caller's trace is continued, also where the HTTP server does not know of it.
  if (traceparent === undefined || !active || (incoming && incoming.trace_id !== active.trace_id)) return created;
  // An instrumented HTTP server continues a trace that the run may only link.
  if (created.links?.some(({ kind, trace_id }) => kind === "called_by" && trace_id === active.trace_id)) return created;
  const { tracestate: _, ...members } = created;
  return { ...members, traceparent, has_request_span: true };
}

/**
 * Tells the sinks about feedback, with the ids of its run, which it reads first. Does nothing without sinks or run. Never
 * rejects: logs.
 */
async function reportFeedback(
  { run_id, key, score, value, comment, created_at }: RunFeedback,
  { storage, deployment, environment }: Pick<RecordingContext, "storage" | "deployment" | "environment">,
  sinks: SinkGroup,
): Promise<void> {
  if (sinks.isEmpty) return;
  try {
    const run = await storage.getRun({ deployment }, run_id);
    if (!run) return;
    const trace_id = findTraceId(run.run_id, run.trace_origin);
    const attempt_id = run.claims > 0 ? toAttemptId(run.run_id, run.claims) : null;
    sinks.feedback({ run_id: run.run_id, trace_id, attempt_id, key, score, value, comment, created_at });
  } catch (error) {
    environment.log({ level: "warn", message: "feedback did not reach the trace sinks", run_id, error });
  }
}

/** Returns the `traceparent` of the present attempt of a delivery, in the trace of its run. Its span is derived when the trace is read. */
function formatDeliveryTraceParent({ delivery_id, attempts, run }: DeliveryRow): string {
  const { traceparent } = run.trace_origin ?? {};
  const trace_id = findTraceId(run.run_id, run.trace_origin);
  const isRecorded = traceparent === undefined || hasSampledFlag(traceparent);
  return formatTraceParent({ trace_id, span_id: toWebhookSpanId(delivery_id, attempts) }, isRecorded);
}

/** Creates the recording. One timer for all attempts, which runs while one waits, saves the spans that have waited long enough. */
export function createTraceRecording({ feed, ...context }: RecordingContext): TraceRecording {
  const { environment, settings, counters } = context;
  const sinks = createSinkGroup(settings.sinks, environment, counters);
  const histograms = new RunHistograms();
  const waiting = new Set<RunSpans>();
  let isScheduled = false;

  /** Saves the spans that have waited long enough, and looks again while there are others. */
  function check(): void {
    isScheduled = false;
    for (const spans of [...waiting]) if (spans.hasUnsaved()) spans.saveSoon();
    schedule();
  }

  /** Starts the timer of the next check, unless it runs or no attempt waits. */
  function schedule(): void {
    if (isScheduled || waiting.size === 0) return;
    isScheduled = true;
    environment.timer(CHECK_INTERVAL_MS, check);
  }

  const shared = {
    ...{ ...context, sinks, histograms },
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
    createOrigin: (origin, request) =>
      continueActiveSpan(createTraceOrigin(origin, settings.parent, request), settings.parent, sinks),
    reportFeedback: (feedback) => reportFeedback(feedback, context, sinks),
    formatTraceParent: formatDeliveryTraceParent,
    readHistograms: () => histograms.read(),
    flush: () => sinks.flush(),
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
  readonly config?: { readonly metadata?: unknown; readonly configurable?: unknown } | null;
}

/**
 * Returns the first well-formed trace context: of the call, else of the metadata of the run, else of those of its configuration,
 * else of its `configurable`, where a `RemoteGraph` in a node has it; null for none. A malformed `tracestate` becomes empty.
 */
function findIncoming(
  trace: TraceContext,
  { metadata, config }: MetadataOfRequest,
): { readonly parent: TraceParent; readonly traceparent: string; readonly tracestate: string } | null {
  const { metadata: configMetadata, configurable } = config ?? {};
  const found = findTraceContext([trace, metadata, configMetadata as TraceContext, configurable as TraceContext]);
  return found && { ...found, tracestate: isTraceState(found.tracestate) ? found.tracestate : "" };
}

/** Returns true for a `tracestate` of the W3C's form that is not too long; an empty one counts. */
const isTraceState = (value: unknown): value is string =>
  typeof value === "string" &&
  value.length <= MAX_TRACESTATE_CHARS &&
  value.split(",").every((member) => /^\s*(?:[a-z0-9][a-z0-9_\-*/@]*=[\x20-\x7e]+)?\s*$/.test(member));

/**
 * Returns the stored origin of a run. A `traceparent` that the mode `link` or `may_continue: false` does not let it continue
 * becomes a link `called_by`; a malformed one, one of a cron, and any with the mode `ignore` are dropped. The source is `cron` or
 * `in_process` without one.
 */
function createTraceOrigin(
  { trace = {}, cron_id }: CreationOrigin,
  mode: TraceSettings["parent"],
  request: MetadataOfRequest = {},
): TraceOrigin {
  const { may_continue = true, traceparent: _, tracestate: _state, links = [], ...origin } = trace;
  // A cron fires by itself, and a run that is made again has the metadata of the run before: they belong to no call.
  const isOwnRequest = cron_id === undefined && !links.some(({ kind }) => kind === "again");
  const incoming = mode === "ignore" ? null : findIncoming(trace, isOwnRequest ? request : {});
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

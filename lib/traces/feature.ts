/** The feature of run traces: recorders of attempts, what they store, and the age of traces. */
import { createLazyModule } from "../environment.ts";
import type { Prices } from "../executor/model-usage.ts";
import type { FeatureContext, FeatureOf } from "../features/mod.ts";
import type { DeliveryRow } from "../storage/mod.ts";
import { createTraceFeed, type TraceFeed } from "./feed.ts";
import type { HistogramFamily } from "./histograms.ts";
import type { TracesOptions } from "./mod.ts";
import { resolveTraceSettings, type TraceOptions, type TraceSettings } from "./options.ts";
import type { CreationOrigin, MetadataOfRequest, RunFeedback, TraceRecording } from "./recording.ts";
import type { TraceCounters } from "./sinks.ts";
import type { InternalTraces } from "./traces.ts";

interface TracesContext extends FeatureContext {
  readonly options: { readonly traces?: TraceOptions };
  readonly settings: { readonly worker: { readonly lease_ms: number }; readonly usage: { readonly prices: Prices } };
}

/** The parts of the feature that the service uses. */
export interface TraceParts {
  readonly traces: InternalTraces;
  readonly traceFeed: TraceFeed;
  readonly traceCounters: Readonly<TraceCounters>;
  readonly traceSettings: TraceSettings;
  /** Waits for the sinks. */
  flushTraces(): Promise<void>;
  /** Returns the histograms of this process; none before it has started. */
  readHistograms(): readonly HistogramFamily[];
  /** Returns the `traceparent` of the next attempt of a delivery; undefined if no traces are recorded. */
  formatTraceParent(delivery: DeliveryRow): string | undefined;
  /** Tells the sinks about stored feedback. Never rejects. */
  reportFeedback(feedback: RunFeedback): Promise<void>;
}

/** Older than every trace. */
const KEPT_MS = 4_320_000_000_000_000;

/**
 * Creates the feature. Its code is loaded when the service starts. With `record: "none"` nothing is stored, but spans are recorded in
 * memory, because metrics need them.
 */
export function tracesFeature(context: TracesContext): FeatureOf<"traces"> & { readonly resources: TraceParts } {
  const settings = resolveTraceSettings(context.options.traces);
  const counters: TraceCounters = { spans: 0, dropped: 0, bytes: 0, redact_failed: 0, sink_failed: 0 };
  const feed = createTraceFeed();
  const hasTraces = settings.sampling !== null || settings.sinks.length > 0;
  let recording: TraceRecording | undefined;
  let findAssistantId: TracesOptions["findAssistantId"];
  const traces = createLazyModule<InternalTraces>({ get: true, stream: true, search: true, delete: true }, async () => {
    const { createTraces } = await import("./mod.ts");
    const { lease_ms } = context.settings.worker;
    return createTraces({
      ...context,
      settings,
      counters,
      feed,
      lease_ms,
      findAssistantId: (id) => findAssistantId(id),
    });
  });
  return {
    resources: {
      ...{ traces, traceFeed: feed, traceCounters: counters, traceSettings: settings },
      flushTraces: async () => await recording?.flush(),
      readHistograms: () => recording?.readHistograms() ?? [],
      formatTraceParent: (delivery) => (hasTraces ? recording?.formatTraceParent(delivery) : undefined),
      reportFeedback: async (feedback) => await recording?.reportFeedback(feedback),
    },
    connect(parts) {
      const { assistants } = parts as { readonly assistants: { findId: TracesOptions["findAssistantId"] } };
      findAssistantId = assistants.findId;
    },
    async load() {
      const code = await import("./recording.ts");
      const { worker, usage } = context.settings;
      const { deployment } = context.scope;
      const shared = { lease_ms: worker.lease_ms, prices: usage.prices, deployment };
      recording = code.createTraceRecording({ ...context, ...shared, settings, counters, feed });
    },
    spans: (attempt) => recording?.createSpans(attempt),
    prepare(request: MetadataOfRequest, origin: CreationOrigin) {
      return recording && hasTraces ? { trace_origin: recording.createOrigin(origin, request) } : {};
    },
    keep_ms: settings.retention_ms ?? KEPT_MS,
  };
}

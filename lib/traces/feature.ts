/** The feature of run traces: recorders of attempts, what they store, and the age of traces. */
import { createLazyModule } from "../environment.ts";
import type { FeatureContext, FeatureOf } from "../features/mod.ts";
import { createTraceFeed, type TraceFeed } from "./feed.ts";
import type { TracesOptions } from "./mod.ts";
import { resolveTraceSettings, type TraceOptions, type TraceSettings } from "./options.ts";
import type { CreationOrigin, createTraceOrigin, MetadataOfRequest, TraceRecording } from "./recording.ts";
import type { TraceCounters } from "./sinks.ts";
import type { InternalTraces } from "./traces.ts";

interface TracesContext extends FeatureContext {
  readonly options: { readonly traces?: TraceOptions };
  readonly settings: { readonly worker: { readonly lease_ms: number } };
}

/** The parts of the feature that the service uses. */
export interface TraceParts {
  readonly traces: InternalTraces;
  readonly traceFeed: TraceFeed;
  readonly traceCounters: Readonly<TraceCounters>;
  readonly traceSettings: TraceSettings;
  /** Waits for the sinks. */
  flushTraces(): Promise<void>;
}

/** Older than every trace. */
const KEPT_MS = 4_320_000_000_000_000;

/**
 * Creates the feature. Its code is loaded when the service starts, unless nothing is recorded: with `record: "none"` and without sinks,
 * runs have no recorder.
 */
export function tracesFeature(context: TracesContext): FeatureOf<"traces"> & { readonly resources: TraceParts } {
  const settings = resolveTraceSettings(context.options.traces);
  const counters: TraceCounters = { spans: 0, dropped: 0, bytes: 0, redact_failed: 0, sink_failed: 0 };
  const feed = createTraceFeed();
  const isOff = settings.sampling === null && settings.sinks.length === 0;
  let recording: TraceRecording | undefined;
  let createOrigin: typeof createTraceOrigin | undefined;
  let findAssistantId: TracesOptions["findAssistantId"];
  const traces = createLazyModule<InternalTraces>({ get: true, stream: true, search: true, delete: true }, async () => {
    const { createTraces } = await import("./mod.ts");
    const { lease_ms } = context.settings.worker;
    return createTraces({ ...context, settings, feed, lease_ms, findAssistantId: (id) => findAssistantId(id) });
  });
  return {
    resources: {
      ...{ traces, traceFeed: feed, traceCounters: counters, traceSettings: settings },
      flushTraces: async () => await recording?.flush(),
    },
    connect(parts) {
      const { assistants } = parts as { readonly assistants: { findId: TracesOptions["findAssistantId"] } };
      findAssistantId = assistants.findId;
    },
    async load() {
      if (isOff) return;
      const code = await import("./recording.ts");
      const { lease_ms } = context.settings.worker;
      const { deployment } = context.scope;
      recording = code.createTraceRecording({ ...context, settings, lease_ms, deployment, counters, feed });
      createOrigin = code.createTraceOrigin;
    },
    spans: (attempt) => recording?.createSpans(attempt),
    prepare(request: MetadataOfRequest, origin: CreationOrigin) {
      return createOrigin ? { trace_origin: createOrigin(origin, settings.parent, request) } : {};
    },
    keep_ms: settings.retention_ms ?? KEPT_MS,
  };
}

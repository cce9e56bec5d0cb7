/** The feature of run traces: recorders of attempts, what they store, and the age of traces. */
import type { AttemptSpans, FeatureContext, FeatureOf, RecordedAttempt } from "../features/mod.ts";
import type { NewRun, TraceOrigin } from "../storage/mod.ts";
import { MAX_WAIT_MS, RunSpans } from "./attempt-spans.ts";
import { createTraceFeed, type TraceFeed } from "./feed.ts";
import { parseTraceParent } from "./ids.ts";
import { resolveTraceSettings, type TraceOptions, type TraceSettings } from "./options.ts";
import { createSinkGroup, createTraceCounters, type TraceCounters } from "./sinks.ts";

interface TracesContext extends FeatureContext {
  readonly options: { readonly traces?: TraceOptions };
  readonly settings: { readonly worker: { readonly lease_ms: number } };
}

/** The parts of the feature that the service uses. */
export interface TraceParts {
  readonly traceFeed: TraceFeed;
  readonly traceCounters: Readonly<TraceCounters>;
  readonly traceSettings: TraceSettings;
  /** Waits for the sinks. */
  flushTraces(): Promise<void>;
}

/** The interval at which attempts with unsaved spans are looked at. Two of them are the time above `MAX_WAIT_MS` at most. */
const CHECK_INTERVAL_MS = MAX_WAIT_MS / 10;
/** Older than every trace. */
const KEPT_MS = 8_640_000_000_000_000 / 2;
const MAX_TRACESTATE_CHARS = 512;

/** The members of `RunOrigin` that the feature reads. */
interface CreationOrigin {
  readonly trace?: TraceOrigin & { readonly may_continue?: boolean };
  readonly cron_id?: string;
}

/** Creates the feature. With `record: "none"` and without sinks, runs have no recorder and store nothing. */
export function tracesFeature(context: TracesContext): FeatureOf<"traces"> & { readonly resources: TraceParts } {
  const { storage, scope, environment, options } = context;
  const settings = resolveTraceSettings(options.traces);
  const counters = createTraceCounters();
  const sinks = createSinkGroup(settings.sinks, environment, counters);
  const feed = createTraceFeed();
  const isOff = settings.sampling === null && sinks.isEmpty;
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
    ...{ storage, environment, settings, counters, sinks },
    deployment: scope.deployment,
    lease_ms: context.settings.worker.lease_ms,
    onSpan: feed.publish,
    setWaiting(spans: RunSpans, isWaiting: boolean) {
      if (!isWaiting) waiting.delete(spans);
      else {
        waiting.add(spans);
        schedule();
      }
    },
  };

  /** Creates the recorder of an attempt, and opens the feed of its run. */
  function createSpans(attempt: RecordedAttempt): AttemptSpans {
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
  }

  return {
    resources: {
      ...{ traceFeed: feed, traceCounters: counters, traceSettings: settings },
      flushTraces: () => sinks.flush(),
    },
    ...(isOff ? {} : { spans: createSpans }),
    prepare: (_request, origin: CreationOrigin): Pick<NewRun, "trace_origin"> =>
      isOff ? {} : { trace_origin: createTraceOrigin(origin, settings) },
    keep_ms: settings.retention_ms ?? KEPT_MS,
  };
}

/** Returns the stored origin of a run. A `traceparent` that it may not continue becomes a link; a malformed one is dropped. */
function createTraceOrigin({ trace = {}, cron_id }: CreationOrigin, { parent }: TraceSettings): TraceOrigin {
  const { may_continue = true, traceparent, tracestate = "", links = [], ...origin } = trace;
  const incoming = parent === "ignore" ? null : parseTraceParent(traceparent);
  const continues = incoming !== null && parent === "continue" && may_continue;
  const allLinks = incoming && !continues ? [...links, { kind: "called_by" as const, ...incoming }] : links;
  return {
    source: cron_id === undefined ? "in_process" : "cron",
    ...origin,
    ...(continues && traceparent !== undefined ? { traceparent } : {}),
    ...(continues && tracestate !== "" && tracestate.length <= MAX_TRACESTATE_CHARS ? { tracestate } : {}),
    ...(allLinks.length > 0 ? { links: allLinks } : {}),
  };
}

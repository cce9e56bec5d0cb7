/** The spans of one attempt, and what the saves of the attempt store of them. */
import type { Environment } from "../environment.ts";
import type { Prices } from "../executor/model-usage.ts";
import type { EndedSpan, StartedStep, TraceRecorder } from "../executor/trace.ts";
import type { AttemptSpans, RecordedAttempt, SpansEnd } from "../features/mod.ts";
import type {
  Progress,
  Span,
  SpanStatus,
  Storage,
  TraceEnd,
  TraceHead,
  TraceOrigin,
  TracePart,
  TraceProgress,
  TraceTotals,
  TraceUpdate,
  TraceUsage,
} from "../storage/mod.ts";
import { ContentKeeper } from "./content.ts";
import type { RunHistograms } from "./histograms.ts";
import {
  findTraceId,
  formatTraceParent,
  hasSampledFlag,
  isSampled,
  listOriginLinks,
  toAttemptId,
  toClaimPrefix,
  toRunSpanId,
  toTraceId,
} from "./ids.ts";
import type { TraceSettings } from "./options.ts";
import { roundMs } from "./round-ms.ts";
import type { SinkGroup, TraceCounters, TracedAttempt } from "./sinks.ts";
import { SpanRecorder } from "./span-recorder.ts";

/** Spans that have waited so long make a save. */
export const MAX_WAIT_MS = 5_000;
/** Spans that have waited so long go with a save that is made anyway. Earlier ones would double the statements of runs that stream. */
const SHARED_SAVE_MS = 1_000;
const SLOW_COMMIT_MS = 50;
const MAX_PART_CHARS = 60 * 1024;
/** More spans than these are stored in parts: SQLite reads the whole row of each trace that a list tests. */
const MAX_ROW_CHARS = 32 * 1024;
/** The numbers of the parts of a claim start at its number times this. */
const PARTS_PER_CLAIM = 2 ** 16;
const MAX_NAMES = 64;

/** What the attempts of a process share. */
export interface SpansContext {
  readonly storage: Pick<Storage, "getTraceProgress">;
  readonly deployment: string;
  readonly environment: Environment;
  readonly settings: TraceSettings;
  readonly lease_ms: number;
  readonly prices: Prices;
  readonly counters: TraceCounters;
  readonly sinks: SinkGroup;
  readonly histograms: RunHistograms;
  /** Called when a span of the run starts or ends. */
  onSpan(run_id: string, span: Span): void;
  /** Called when the attempt has unsaved spans, and when it has none any more. */
  setWaiting(spans: RunSpans, isWaiting: boolean): void;
  onClosed(spans: RunSpans): void;
}

const NO_TOTALS: TraceTotals = {
  ...{ spans: 0, model: 0, tool: 0, errors: 0, tokens_in: 0, tokens_out: 0, cost_usd: 0 },
};

export class RunSpans implements AttemptSpans {
  readonly run_id: string;
  readonly recorder: SpanRecorder;
  readonly #context: SpansContext;
  readonly #attempt: RecordedAttempt;
  readonly #keeper: ContentKeeper;
  readonly #traced: TracedAttempt;
  readonly #isSampled: boolean;
  /** Milliseconds after the run's `created_at` at the monotonic time 0. */
  readonly #zero_ms: number;
  readonly #commits = { count: 0, total_ms: 0, max_ms: 0 };
  #earlier: { totals: TraceTotals; names: readonly string[]; dropped: TraceHead["dropped"]; active_ms: number } = {
    ...{ totals: NO_TOTALS, names: [], dropped: {}, active_ms: 0 },
  };
  /** Ends the tries of steps that are open. */
  readonly #stepEnds = new Set<(status: SpanStatus) => void>();
  #part = 0;
  /** Since when spans wait for a save, by the monotonic clock; null if none does. */
  #waitingSince: number | null = null;
  #isEnded = false;
  /** How the run has ended; null unless this attempt has ended it. */
  #endStatus: SpansEnd["status"] | null = null;
  #usage: TraceUsage | null = null;

  constructor(context: SpansContext, attempt: RecordedAttempt) {
    const { environment, settings, counters } = context;
    const { run } = attempt.claimed;
    this.run_id = run.run_id;
    this.#context = context;
    this.#attempt = attempt;
    const now = environment.now();
    this.#zero_ms = now - run.created_at - this.#monotonic();
    this.#keeper = new ContentKeeper({ ...settings, counters });
    this.#isSampled = settings.sampling !== null && isSampled(run.run_id, settings.sampling.sample);
    this.#traced = toTracedAttempt(attempt);
    const { claims: claim, attempt: number } = run;
    this.recorder = new SpanRecorder(
      {
        ...{ claim, attempt: number, prefix: toClaimPrefix(run.run_id, claim), keeper: this.#keeper },
        prices: context.prices,
        now: () => this.#now(),
        onChange: (span) => this.#onChange(span),
        members: this.#createRecorderMembers(),
      },
      // The claim was made before this process noticed it.
      {
        parent_id: toRunSpanId(run.run_id),
        name: run.graph_id,
        start_ms: Math.min(run.updated_at, now) - run.created_at,
      },
    );
    // Later claims do not know since when the run was due.
    if (claim === 1) context.histograms.onClaimed(run.graph_id, this.#traced.queued_ms);
    if (!context.sinks.isEmpty) context.sinks.start(this.recorder.attemptSpan, this.#traced);
    context.onSpan(run.run_id, this.recorder.attemptSpan);
  }

  /**
   * Reads what earlier attempts have stored, and adds the spans of those that were lost. Their sums count for the run. Does
   * nothing if traces are not stored; rejects if they cannot be read.
   */
  async load(): Promise<void> {
    const { storage, deployment, settings } = this.#context;
    if (settings.sampling === null) return;
    const progress = await storage.getTraceProgress({ deployment }, this.run_id);
    const { head, names } = progress;
    const lost = this.#addLostAttempts(progress);
    const before = head?.closed === false ? head.active_before_ms : progress.active_ms;
    this.#earlier = {
      totals: head?.totals ?? NO_TOTALS,
      dropped: head?.dropped ?? {},
      names,
      active_ms: before + lost.reduce((sum, { duration_ms = 0 }) => sum + duration_ms, 0),
    };
    this.recorder.kept += head?.kept ?? 0;
    this.#keeper.addEarlierBytes(head?.content_bytes ?? 0);
  }

  hasUnsaved(): boolean {
    return this.#isSampled && this.#waitingSince !== null && this.#monotonic() - this.#waitingSince >= MAX_WAIT_MS;
  }

  drain(): Pick<Progress, "spans"> {
    const since = this.#waitingSince;
    if (!this.#isSampled || this.#isEnded || since === null || this.#monotonic() - since < SHARED_SAVE_MS) return {};
    this.#setWaiting(false);
    this.recorder.attemptSpan.commits = this.#roundCommits();
    this.recorder.touchAttempt();
    return { spans: { ...this.#createUpdate(false), parts: this.#createParts(), contents: this.#keeper.drain() } };
  }

  onCommit(duration_ms: number): void {
    this.#context.histograms.onCommit(duration_ms);
    this.#context.sinks.commit(duration_ms);
    const commits = this.#commits;
    commits.count++;
    commits.total_ms += duration_ms;
    commits.max_ms = Math.max(commits.max_ms, duration_ms);
    if (duration_ms <= SLOW_COMMIT_MS || this.#isEnded) return;
    const start_ms = roundMs(this.#now() - duration_ms);
    const { claims: claim, attempt } = this.#attempt.claimed.run;
    const ids = { parent_id: this.recorder.attempt_id, claim, attempt };
    this.recorder.addEnded({
      ...{ ...ids, kind: "commit", name: "commit", start_ms },
      ...{ duration_ms: roundMs(duration_ms), status: "ok" },
    });
  }

  end(outcome: SpansEnd): TraceEnd | undefined {
    this.#endSpans(outcome);
    this.#endStatus = outcome.status;
    const { sampling } = this.#context.settings;
    if (sampling === null) return undefined;
    const isFailed = outcome.status === "error" || outcome.status === "timeout";
    const isSlow = this.#activeMs() >= sampling.slow_ms;
    const keeps = this.#isSampled || (isFailed && sampling.failed) || isSlow;
    const list = keeps ? this.#serialize() : [];
    const spans = `[${list.join()}]`;
    const contents = keeps ? this.#keeper.drain() : [];
    if (spans.length > MAX_ROW_CHARS)
      return { ...this.#createUpdate(true), parts: this.#createParts(list), contents, spans: "[]" };
    this.#context.counters.bytes += spans.length;
    return { ...this.#createUpdate(true), parts: [], contents, spans };
  }

  release(outcome: SpansEnd): TraceUpdate | undefined {
    this.#endSpans(outcome);
    if (this.#context.settings.sampling === null) return undefined;
    const update = this.#createUpdate(true);
    if (!this.#isSampled) return { ...update, parts: [], contents: [] };
    return { ...update, parts: this.#createParts(), contents: this.#keeper.drain() };
  }

  onEndStored(): void {
    const { graph_id } = this.#traced;
    if (this.#endStatus) this.#context.histograms.onRunEnded(graph_id, this.#endStatus, this.#activeMs());
  }

  close(): void {
    if (!this.#isEnded) this.#endSpans({ status: "lost", isWaiting: false, counted: true, usage: null });
    this.#context.onClosed(this);
  }

  /** Saves soon. Called once spans have waited long enough. */
  saveSoon(): void {
    this.#attempt.onDue();
  }

  /** Returns what the recorder has only if something is stored, or for sinks. */
  #createRecorderMembers(): Pick<TraceRecorder, "runIn" | "startStep" | "formatTraceParent"> {
    const { sinks, settings } = this.#context;
    const { trace_id, origin } = this.#traced;
    if (settings.sampling === null && sinks.isEmpty) return {};
    // An incoming flag is handed on; a trace of its own is recorded here.
    const isRecorded =
      origin.traceparent === undefined ? this.#isSampled || !sinks.isEmpty : hasSampledFlag(origin.traceparent);
    return {
      formatTraceParent: (span_id = this.recorder.attempt_id) => formatTraceParent({ trace_id, span_id }, isRecorded),
      ...(sinks.isEmpty ? {} : { startStep: (step) => this.#startStep(step) }),
      ...(sinks.hasContext
        ? { runIn: (id, work, findSpan) => sinks.runIn({ span_id: id, attempt: this.#traced, findSpan }, work) }
        : {}),
    };
  }

  /** Tells the sinks about a try of a step. Nothing is stored: the journal has the step. */
  #startStep({ span_id, name, try: number }: StartedStep): (result: EndedSpan) => void {
    const { sinks } = this.#context;
    const { claims: claim, attempt } = this.#attempt.claimed.run;
    const start_ms = roundMs(this.#now());
    const span: Span = {
      ...{ span_id, parent_id: this.recorder.attempt_id, kind: "step", name, start_ms, status: "open" },
      ...{ claim, attempt, try: number },
    };
    const end = (status: SpanStatus, error?: unknown): void => {
      if (!this.#stepEnds.delete(end)) return;
      const errorField = error === undefined ? {} : { error: this.#keeper.keepError(error, span) };
      sinks.end({ ...span, status, duration_ms: roundMs(this.#now() - start_ms), ...errorField }, this.#traced, null);
    };
    this.#stepEnds.add(end);
    sinks.start(span, this.#traced);
    return ({ status, error }) => end(status, error);
  }

  /** Returns milliseconds of a clock that is never set; of the wall clock on runtimes without one. */
  #monotonic(): number {
    const { environment } = this.#context;
    return environment.monotonic?.() ?? environment.now();
  }

  /** Returns the present time in milliseconds after the run's `created_at`. */
  #now(): number {
    return this.#zero_ms + this.#monotonic();
  }

  /**
   * Hands a span that has started or ended to counters, metrics, sinks and the feed. From the first span on, the attempt waits
   * for a save; its own span and commits make none. A commit is handed on when it ends, as a start and an end.
   */
  #onChange(span: Span): void {
    const { counters, sinks, onSpan } = this.#context;
    const isStart = span.status === "open";
    if (isStart || span.kind === "commit") counters.spans++;
    const waits = span.kind !== "attempt" && span.kind !== "commit" && !this.#isEnded;
    if (waits && this.#waitingSince === null) this.#setWaiting(true);
    if (!isStart) this.#context.histograms.onSpanEnded(span);
    if (!sinks.isEmpty) {
      if (isStart || span.kind === "commit") sinks.start(span, this.#traced);
      if (!isStart) sinks.end(span, this.#traced, span.kind === "attempt" ? this.#usage : null);
    }
    onSpan(this.run_id, span);
  }

  /** Notes since when spans wait, or that none does; tells the recording for a sampled run only. */
  #setWaiting(isWaiting: boolean): void {
    this.#waitingSince = isWaiting ? this.#monotonic() : null;
    if (this.#isSampled) this.#context.setWaiting(this, isWaiting);
  }

  /**
   * Ends the open spans and that of the attempt, keeps the reported usage, and counts dropped spans. The span of an attempt that
   * succeeded and waits is `interrupted`; only one with the status `error` gets the error. Works once.
   */
  #endSpans({ status, isWaiting, counted, usage, error }: SpansEnd): void {
    if (this.#isEnded) return;
    this.#usage = usage;
    this.recorder.closeAll(OPEN_SPAN_STATUS[status]);
    for (const end of [...this.#stepEnds]) end(OPEN_SPAN_STATUS[status]);
    this.recorder.attemptSpan.commits = this.#roundCommits();
    const attemptStatus = status === "success" && isWaiting ? "interrupted" : ATTEMPT_STATUS[status];
    const errorField = error === undefined ? {} : { error: this.#keeper.keepError(error, this.recorder.attemptSpan) };
    this.recorder.endAttempt({ status: attemptStatus, counted, ...(attemptStatus === "error" ? errorField : {}) });
    this.#isEnded = true;
    this.#context.counters.dropped += Object.values(this.recorder.dropped).reduce((sum, count) => sum + count, 0);
    this.#setWaiting(false);
  }

  /** Returns the number of saves so far and their times, in rounded milliseconds. */
  #roundCommits(): NonNullable<Span["commits"]> {
    const { count, total_ms, max_ms } = this.#commits;
    return { count, total_ms: roundMs(total_ms), max_ms: roundMs(max_ms) };
  }

  /** Returns the active time of the run so far in milliseconds, over all its attempts. An open attempt counts until now. */
  #activeMs(): number {
    const { start_ms, duration_ms = this.#now() - start_ms } = this.recorder.attemptSpan;
    return roundMs(this.#earlier.active_ms + Math.max(0, duration_ms));
  }

  /**
   * Returns the state of the trace with this attempt: sums over all attempts, at most 64 names, and the active time. With `closed`,
   * tokens and cost of this attempt are those that it has reported, 0 without a report; else those of its spans.
   */
  #createUpdate(closed: boolean): Omit<TraceUpdate, "parts" | "contents"> {
    const { settings } = this.#context;
    const { totals: earlier, names, dropped, active_ms } = this.#earlier;
    const { totals, kept } = this.recorder;
    const { origin, trace_id } = this.#traced;
    const links = listOriginLinks(origin);
    const reported = closed ? (this.#usage ?? { tokens_in: 0, tokens_out: 0, cost_usd: 0 }) : totals;
    const head: TraceHead = {
      ...(trace_id === toTraceId(this.run_id) ? {} : { trace_id }),
      ...{ content: settings.content, kept, sampled: this.#isSampled },
      totals: addTotals(earlier, { ...totals, ...pickUsage(reported) }),
      dropped: addCounts(dropped, this.recorder.dropped),
      ...(links.length > 0 ? { links } : {}),
      ...{ content_bytes: this.#keeper.bytes, at_ms: roundMs(this.#now()), claim: this.#traced.claim, closed },
      active_before_ms: roundMs(active_ms),
    };
    return {
      source: origin.source ?? "in_process",
      head,
      names: [...new Set([...names, ...this.recorder.names])].slice(0, MAX_NAMES),
      active_ms: this.#activeMs(),
    };
  }

  /** Removes the unsaved spans and returns them as JSON, with references to their contents. */
  #serialize(): readonly string[] {
    return this.recorder.drain().map((span) => JSON.stringify(this.#toStored(span)));
  }

  /** Returns a span with its copied values in their stored form; the same object for a span without values. */
  #toStored(span: Span): object {
    const { input, output } = span;
    if (!input && !output) return span;
    return {
      ...span,
      ...(input ? { input: this.#keeper.toStored(input) } : {}),
      ...(output ? { output: this.#keeper.toStored(output) } : {}),
    };
  }

  /**
   * Returns these spans, by default the unsaved ones, which it removes, as JSON lists of about 60 KiB, numbered on in the claim.
   */
  #createParts(spans = this.#serialize()): readonly TracePart[] {
    const parts: TracePart[] = [];
    let list: string[] = [];
    let size = 0;
    const flush = (): void => {
      if (list.length === 0) return;
      const part = this.#traced.claim * PARTS_PER_CLAIM + this.#part++;
      parts.push({ part, json: `[${list.join()}]` });
      this.#context.counters.bytes += size;
      list = [];
      size = 0;
    };
    for (const json of spans) {
      if (size + json.length > MAX_PART_CHARS) flush();
      list.push(json);
      size += json.length;
    }
    flush();
    return parts;
  }

  /**
   * Adds a span for each earlier attempt that was lost and whose end is not stored, which ends at its last save or the last
   * renewal of its lease. Returns these spans, the newest first.
   */
  #addLostAttempts({ head, claims }: TraceProgress): readonly Span[] {
    const { lease_ms } = this.#context;
    const { run, cancelled, exhausted } = this.#attempt.claimed;
    const lost: Span[] = [];
    // This claim counts unless the run is only to be ended.
    let attempt = cancelled || exhausted ? run.attempt : run.attempt - 1;
    for (const { claim, at, lost_lease_until } of [...claims].reverse()) {
      if (claim >= run.claims || lost_lease_until === null) continue;
      const isStored = head !== null && (claim < head.claim || (claim === head.claim && head.closed));
      if (isStored) break;
      const saved_ms = head?.claim === claim ? head.at_ms : 0;
      const start_ms = at - run.created_at;
      const end_ms = Math.max(lost_lease_until - lease_ms - run.created_at, saved_ms, start_ms);
      lost.push({
        ...{ span_id: toAttemptId(this.run_id, claim), parent_id: toRunSpanId(this.run_id) },
        ...{ kind: "attempt", name: run.graph_id, start_ms, duration_ms: roundMs(end_ms - start_ms), status: "lost" },
        ...{ claim, attempt: Math.max(1, attempt--), counted: true },
      });
    }
    this.#recordLost(lost.toReversed(), head);
    return lost;
  }

  /** Adds the spans of lost attempts. One that has stored its open span has counted it. */
  #recordLost(lost: readonly Span[], head: TraceHead | null): void {
    for (const span of lost)
      if (span.claim === head?.claim) this.recorder.addLater(span);
      else this.recorder.addEnded(span);
  }
}

/** The status of spans that are open when their attempt ends. */
const OPEN_SPAN_STATUS: Readonly<Record<SpansEnd["status"], SpanStatus>> = {
  ...{ success: "lost", error: "lost", timeout: "timeout", interrupted: "interrupted" },
  ...{ suspended: "waiting", requeued: "interrupted", lost: "lost" },
};

const ATTEMPT_STATUS: Readonly<Record<SpansEnd["status"], SpanStatus>> = {
  ...{ success: "ok", error: "error", timeout: "timeout", interrupted: "interrupted" },
  ...{ suspended: "waiting", requeued: "interrupted", lost: "lost" },
};

const pickUsage = ({ tokens_in, tokens_out, cost_usd }: TraceUsage): TraceUsage => ({
  tokens_in,
  tokens_out,
  cost_usd,
});

const addTotals = (a: TraceTotals, b: TraceTotals): TraceTotals => ({
  spans: a.spans + b.spans,
  model: a.model + b.model,
  tool: a.tool + b.tool,
  errors: a.errors + b.errors,
  tokens_in: a.tokens_in + b.tokens_in,
  tokens_out: a.tokens_out + b.tokens_out,
  cost_usd: a.cost_usd + b.cost_usd,
});

/** Returns the sums of both counts by kind, in a new object. */
const addCounts = (a: TraceHead["dropped"], b: TraceHead["dropped"]): TraceHead["dropped"] => {
  const sums: Record<string, number> = { ...a };
  for (const [kind, count] of Object.entries(b)) sums[kind] = (sums[kind] ?? 0) + count;
  return sums;
};

/** Returns what sinks learn about an attempt. */
function toTracedAttempt({ claimed: { run } }: RecordedAttempt): TracedAttempt {
  const origin: TraceOrigin = run.trace_origin ?? {};
  const { run_id, created_at, claims: claim } = run;
  return {
    ...{ run_id, created_at, claim, attempt: run.attempt, graph_id: run.graph_id, assistant_id: run.assistant_id },
    thread_id: run.stateless ? null : run.thread_id,
    trace_id: findTraceId(run_id, origin),
    previous_attempt_id: claim > 1 ? toAttemptId(run_id, claim - 1) : null,
    queued_ms: Math.max(0, (claim === 1 ? run.updated_at : 0) - (claim === 1 ? created_at : 0)),
    links: origin.links ?? [],
    origin,
  };
}

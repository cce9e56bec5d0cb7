/** Records the spans of one attempt in memory: their ids, times and sums, within the limits of a run. */
import { findCost, type Prices } from "../executor/model-usage.ts";
import type { EndedSpan, StartedSpan, TraceRecorder } from "../executor/trace.ts";
import { copyStart, type JsonObject } from "../json.ts";
import type { Span, SpanKind, SpanStatus, TraceTotals } from "../storage/mod.ts";
import { MAX_TRACE_NAME_CHARS, toTraceName } from "../storage/traces.ts";
import type { ContentKeeper } from "./content.ts";
import { toSpanId } from "./ids.ts";
import { roundMs } from "./round-ms.ts";

/** A run keeps so many spans, then only failed ones up to the second number. */
export const MAX_SPANS = 2_000;
export const MAX_SPANS_WITH_FAILED = 2_200;
const MAX_NAMES = 64;
/** The lists of a span, such as its namespace, have at most so many items. */
const MAX_ITEMS = 64;

/** The parameters of model calls that are recorded. */
const PARAM_NAMES = [
  ...["temperature", "top_p", "top_k", "max_tokens", "stop", "seed", "frequency_penalty", "presence_penalty"],
  ...["repetition_penalty", "reasoning_effort", "tool_choice", "response_format", "tools", "stream"],
];

export type MutableSpan = { -readonly [Member in keyof Span]: Span[Member] };

interface RecorderOptions {
  readonly claim: number;
  readonly attempt: number;
  /** The first 8 digits of all ids. */
  readonly prefix: string;
  readonly keeper: ContentKeeper;
  readonly prices: Prices;
  /** Milliseconds after the run's `created_at`, by a clock that is never set. */
  now(): number;
  /** Called when a span starts or ends, also for spans that are not kept. */
  onChange(span: Span): void;
  /** The members of the recorder that it has for some services only. */
  readonly members?: Pick<TraceRecorder, "runIn" | "startStep" | "formatTraceParent">;
}

type Sums = { -readonly [Name in keyof TraceTotals]: number };

export class SpanRecorder implements TraceRecorder {
  readonly #options: RecorderOptions;
  readonly #open = new Map<string, MutableSpan>();
  /** The open spans above the limit, which are kept only if they fail. */
  readonly #spare = new Set<string>();
  #unsaved = new Set<MutableSpan>();
  #count = 0;
  readonly attempt_id: string;
  readonly runIn?: TraceRecorder["runIn"];
  readonly startStep?: TraceRecorder["startStep"];
  readonly formatTraceParent?: TraceRecorder["formatTraceParent"];
  /** The span of the attempt. Not among the open spans, because sources cannot end it. */
  readonly attemptSpan: MutableSpan;
  kept = 0;
  readonly totals: Sums = { spans: 0, model: 0, tool: 0, errors: 0, tokens_in: 0, tokens_out: 0, cost_usd: 0 };
  readonly dropped: Partial<Record<SpanKind, number>> = {};
  readonly names: Set<string> = new Set();

  /** Creates the recorder with the open span of the attempt. Calls no `onChange` for it. */
  constructor(options: RecorderOptions, attempt: Pick<Span, "name" | "start_ms"> & { readonly parent_id: string }) {
    this.#options = options;
    this.attempt_id = this.#nextId();
    Object.assign(this, options.members);
    this.attemptSpan = {
      span_id: this.attempt_id,
      parent_id: attempt.parent_id,
      kind: "attempt",
      name: toName(attempt.name),
      start_ms: roundMs(attempt.start_ms),
      status: "open",
      claim: options.claim,
      attempt: options.attempt,
    };
    this.#add(this.attemptSpan);
  }

  get hasOpenSpans(): boolean {
    return this.#open.size > 0;
  }

  start(started: StartedSpan): string {
    const { claim, attempt, keeper, onChange } = this.#options;
    const { kind, parent_id = this.attempt_id, name, input, params, attributes, ...details } = started;
    const span: MutableSpan = {
      span_id: this.#nextId(),
      parent_id,
      kind,
      name: toName(name),
      start_ms: roundMs(this.#options.now()),
      status: "open",
      claim,
      attempt,
      ...limitTexts(details),
    };
    const keptParams = params && keeper.keepParams(pickParams(params), span);
    if (keptParams) span.params = keptParams;
    const keptAttributes = attributes && keeper.keepAttributes(attributes, span);
    if (keptAttributes) span.attributes = keptAttributes as NonNullable<Span["attributes"]>;
    const keptInput = input && keeper.keepValue(input, span, "input");
    if (keptInput) span.input = keptInput;
    this.#open.set(span.span_id, span);
    this.#addName(span);
    this.#add(span);
    onChange(span);
    return span.span_id;
  }

  end(span_id: string, { status, error, output, usage, ...result }: EndedSpan): void {
    const span = this.#open.get(span_id);
    if (!span) return;
    const { keeper, prices } = this.#options;
    const costs = (usage ?? []).map((reported) => findCost(reported, prices)).filter((cost) => cost !== undefined);
    const sums = costs.length > 0 ? { ...result, cost_usd: costs.reduce((sum, cost) => sum + cost, 0) } : result;
    Object.assign(span, limitTexts(toKnownSums(sums)));
    if (error !== undefined && status === "error") span.error = keeper.keepError(error, span);
    const keptOutput = output && keeper.keepValue(output, span, "output");
    if (keptOutput) span.output = keptOutput;
    this.#sum(span);
    this.#close(span, status, result.duration_ms);
  }

  noteFirstToken(span_id: string): void {
    const span = this.#open.get(span_id);
    if (!span || span.first_token_ms !== undefined) return;
    span.first_token_ms = roundMs(this.#options.now() - span.start_ms);
  }

  /**
   * Adds a span that has ended, such as a slow commit or the attempt of an earlier claim, and calls `onChange`. Makes an id
   * without one.
   */
  addEnded(span: Omit<MutableSpan, "span_id"> & { readonly span_id?: string }): void {
    const added = { ...span, span_id: span.span_id ?? this.#nextId() };
    this.#add(added);
    this.#options.onChange(added);
  }

  /** Adds a later record of a span that an earlier attempt has stored and counted. */
  addLater(span: MutableSpan): void {
    this.#unsaved.add(span);
    this.#options.onChange(span);
  }

  /** Ends all open spans with this status, the inner ones first. */
  closeAll(status: SpanStatus): void {
    for (const span of [...this.#open.values()].reverse()) this.#close(span, status);
  }

  /** Ends the span of the attempt now with these members, keeps it for the next save and calls `onChange`. Ends no other span. */
  endAttempt(members: Pick<Span, "status" | "counted" | "error">): void {
    const span = this.attemptSpan;
    Object.assign(span, members);
    span.duration_ms = roundMs(Math.max(0, this.#options.now() - span.start_ms));
    this.#unsaved.add(span);
    this.#options.onChange(span);
  }

  /** Adds the span of the attempt to the next save. */
  touchAttempt(): void {
    this.#unsaved.add(this.attemptSpan);
  }

  /** The spans of the next save. */
  listUnsaved(): readonly Span[] {
    return [...this.#unsaved];
  }

  /** Removes and returns the changed spans that are kept, for the next save. Those that are open come again when they end. */
  drain(): readonly Span[] {
    const spans = this.#unsaved;
    this.#unsaved = new Set();
    return [...spans];
  }

  /** The spans in memory: those that are open, and those that no save has taken. */
  list(): readonly Span[] {
    return [...new Set<Span>([this.attemptSpan, ...this.#unsaved, ...this.#open.values()])];
  }

  #nextId(): string {
    return toSpanId(this.#options.prefix, ++this.#count);
  }

  /**
   * Counts a span, and keeps it for the next save if the run has room (2,000 spans) or it is an attempt. Above that an open span
   * waits for its end, and an ended one is dropped.
   */
  #add(span: MutableSpan): void {
    const { totals } = this;
    totals.spans++;
    if (span.kind === "model") totals.model++;
    if (span.kind === "tool") totals.tool++;
    if (this.kept < MAX_SPANS || span.kind === "attempt") {
      this.kept++;
      this.#unsaved.add(span);
    } else if (span.status === "open") this.#spare.add(span.span_id);
    else this.#drop(span);
  }

  /**
   * Ends a span with its known duration, else the time since its start, and calls `onChange`. One above the limit is kept if it
   * failed and the run has fewer than 2,200; else it is dropped.
   */
  #close(span: MutableSpan, status: SpanStatus, known_ms?: number): void {
    const duration_ms = Number.isFinite(known_ms) ? (known_ms as number) : this.#options.now() - span.start_ms;
    span.status = status;
    span.duration_ms = roundMs(Math.max(0, duration_ms));
    if (status === "error") this.totals.errors++;
    this.#open.delete(span.span_id);
    if (!this.#spare.delete(span.span_id)) this.#unsaved.add(span);
    else if (status === "error" && this.kept < MAX_SPANS_WITH_FAILED) {
      this.kept++;
      this.#unsaved.add(span);
    } else this.#drop(span);
    this.#options.onChange(span);
  }

  #drop({ kind }: Span): void {
    this.dropped[kind] = (this.dropped[kind] ?? 0) + 1;
  }

  /** Adds tokens and cost of a span to the sums. */
  #sum({ tokens, cost_usd }: Span): void {
    const { totals } = this;
    totals.tokens_in += tokens?.in ?? 0;
    totals.tokens_out += tokens?.out ?? 0;
    totals.cost_usd += cost_usd ?? 0;
  }

  /** Adds the name of a node, tool or model, at most 64 in all, to those that lists find. */
  #addName({ kind, name, model }: Span): void {
    if (this.names.size >= MAX_NAMES) return;
    if (kind === "node" || kind === "tool") this.names.add(toTraceName(kind, name));
    else if (kind === "model") this.names.add(toTraceName(kind, model ?? name));
  }
}

/** Returns the parameters that are recorded, in their order. */
const pickParams = (params: JsonObject | NonNullable<Span["params"]>): JsonObject =>
  Object.fromEntries(PARAM_NAMES.flatMap((name) => (params[name] === undefined ? [] : [[name, params[name]]])));

/**
 * Returns a name as text, cut to 200 characters; `unknown` if it cannot be a text. Never throws, whatever a graph uses as a name.
 */
function toName(name: unknown): string {
  try {
    return copyStart(String(name), MAX_TRACE_NAME_CHARS);
  } catch {
    return "unknown";
  }
}

const isTooLong = (value: unknown): boolean =>
  Array.isArray(value)
    ? value.length > MAX_ITEMS || value.some(isTooLong)
    : typeof value === "string" && value.length > MAX_TRACE_NAME_CHARS;

/** Called for each span: a loop costs a quarter of what a list of the members does. */
function hasLongText(members: object): boolean {
  for (const name in members) if (isTooLong((members as Readonly<Record<string, unknown>>)[name])) return true;
  return false;
}

/** Returns the members with their texts cut, also those in lists, because models and clients choose some of them. */
function limitTexts<Members extends object>(members: Members): Members {
  if (!hasLongText(members)) return members;
  const limit = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.slice(0, MAX_ITEMS).map(limit);
    return typeof value === "string" ? copyStart(value, MAX_TRACE_NAME_CHARS) : value;
  };
  return Object.fromEntries(Object.entries(members).map(([name, value]) => [name, limit(value)])) as Members;
}

type Sources = Omit<EndedSpan, "status" | "error" | "output">;

/** Returns the result of a span without tokens and costs that are no sums: they would make those of the run useless. */
function toKnownSums(sources: Sources): Sources {
  if (sources.tokens === undefined && sources.cost_usd === undefined) return sources;
  const { tokens, cost_usd, ...result } = sources;
  const counts = Object.entries(tokens ?? {}).filter(([, count]) => Number.isSafeInteger(count) && count >= 0);
  return {
    ...result,
    ...(counts.length > 0 ? { tokens: Object.fromEntries(counts) } : {}),
    ...(cost_usd !== undefined && Number.isFinite(cost_usd) && cost_usd >= 0 ? { cost_usd } : {}),
  };
}

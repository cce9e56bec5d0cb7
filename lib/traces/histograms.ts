/** Histograms of one process, as `/metrics` shows them. They do not depend on what traces keep. */
import type { Span } from "../storage/spans.ts";

export const SECONDS_BUCKETS: readonly number[] = [
  ...[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  ...[30, 60, 300, 1_800, 3_600],
];
export const COMMIT_BUCKETS: readonly number[] = [
  ...[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
];
export const TOKENS_BUCKETS: readonly number[] = Array.from({ length: 12 }, (_, power) => 4 ** power);

/** A family has at most so many sets of labels, one of which is `other`. */
const MAX_LABEL_SETS = 100;
const OTHER = "other";
const MAX_LABEL_CHARS = 200;

const SECOND_MS = 1_000;

/** The values of one set of labels. */
export interface HistogramSample {
  readonly labels: Readonly<Record<string, string>>;
  /** The number of values up to each bound, by rising bound. The values above the last bound are only in `count`. */
  readonly buckets: readonly { readonly le: number; readonly count: number }[];
  readonly sum: number;
  readonly count: number;
}

/** A family of histograms. */
export interface HistogramFamily {
  /** The name without the prefix `greenroom_`. */
  readonly name: string;
  readonly help: string;
  readonly samples: readonly HistogramSample[];
}

interface LabelSet {
  readonly labels: Readonly<Record<string, string>>;
  /** The number of values in each bucket, then that of larger values. */
  readonly counts: number[];
  sum: number;
}

/** A family that counts. */
class Histogram {
  readonly #name: string;
  readonly #help: string;
  readonly #labelNames: readonly string[];
  readonly #bounds: readonly number[];
  readonly #sets = new Map<string, LabelSet>();

  constructor(name: string, help: string, bounds: readonly number[], labelNames: readonly string[] = []) {
    this.#name = name;
    this.#help = help;
    this.#bounds = bounds;
    this.#labelNames = labelNames;
  }

  /**
   * Adds a value under these labels; under `other` if the family has 100 sets. Labels are cut to 200 characters. Ignores NaN and
   * infinities.
   */
  observe(value: number, ...labels: readonly string[]): void {
    if (!Number.isFinite(value)) return;
    const set = this.#findSet(labels);
    const bucket = this.#bounds.findIndex((bound) => value <= bound);
    const index = bucket < 0 ? this.#bounds.length : bucket;
    set.counts[index] = (set.counts[index] ?? 0) + 1;
    set.sum += value;
  }

  /**
   * Returns what was counted: a sample for each set of labels, whose buckets count all values up to their bound. Changes nothing.
   */
  read(): HistogramFamily {
    const samples = [...this.#sets.values()].map(({ labels, counts, sum }): HistogramSample => {
      let count = 0;
      const buckets = this.#bounds.map((bound, index) => {
        count += counts[index] ?? 0;
        return { le: bound, count };
      });
      return { labels, buckets, sum, count: count + (counts[this.#bounds.length] ?? 0) };
    });
    return { name: this.#name, help: this.#help, samples };
  }

  /**
   * Returns the values of these labels, and creates them if they are new. Labels are cut to 200 characters of well-formed text; a
   * set beyond the maximum becomes `other`.
   */
  #findSet(labels: readonly string[]): LabelSet {
    const key = JSON.stringify(labels);
    const knownSet = this.#sets.get(key);
    if (knownSet) return knownSet;
    // Names that are sent as the same text must not make two series.
    const sent = labels.map((label) => label.slice(0, MAX_LABEL_CHARS).toWellFormed());
    if (sent.some((label, index) => label !== labels[index])) return this.#findSet(sent);
    const isFull = this.#sets.size >= MAX_LABEL_SETS - 1 && labels.some((label) => label !== OTHER);
    if (isFull) return this.#findSet(labels.map(() => OTHER));
    const values = this.#labelNames.map((name, index) => [name, labels[index] ?? ""]);
    const set: LabelSet = { labels: Object.fromEntries(values), counts: [], sum: 0 };
    this.#sets.set(key, set);
    return set;
  }
}

/** The histograms of runs, models, tools and commits. */
export class RunHistograms {
  readonly #queueWait = new Histogram(
    "queue_wait_seconds",
    "Time from when a run is due to its claim",
    SECONDS_BUCKETS,
    ["graph"],
  );
  readonly #runActive = new Histogram(
    "run_active_seconds",
    "Time that runs executed, over all their attempts",
    SECONDS_BUCKETS,
    ["graph", "status"],
  );
  readonly #modelDuration = new Histogram("model_duration_seconds", "Time of calls of models", SECONDS_BUCKETS, [
    "provider",
    "model",
  ]);
  readonly #firstToken = new Histogram(
    "model_first_token_seconds",
    "Time to the first token of streamed calls of models",
    SECONDS_BUCKETS,
    ["provider", "model"],
  );
  readonly #inputTokens = new Histogram("model_input_tokens", "Input tokens of calls of models", TOKENS_BUCKETS, [
    "provider",
    "model",
  ]);
  readonly #outputTokens = new Histogram("model_output_tokens", "Output tokens of calls of models", TOKENS_BUCKETS, [
    "provider",
    "model",
  ]);
  readonly #toolDuration = new Histogram("tool_duration_seconds", "Time of executions of tools", SECONDS_BUCKETS, [
    "tool",
    "outcome",
  ]);
  readonly #commit = new Histogram("commit_seconds", "Time of saves of attempts", COMMIT_BUCKETS);

  /** Notes a claim, with the time that the run has waited since it was due. */
  onClaimed(graph_id: string, queued_ms: number): void {
    this.#queueWait.observe(queued_ms / SECOND_MS, graph_id);
  }

  /** Notes the end of a run. */
  onRunEnded(graph_id: string, status: string, active_ms: number): void {
    this.#runActive.observe(active_ms / SECOND_MS, graph_id, status);
  }

  /** Notes the end of a span. Only models and tools count; a model without a name of its own counts by the name of its span. */
  onSpanEnded({ kind, name, provider = "unknown", model = name, status, duration_ms = 0, ...span }: Span): void {
    if (kind === "tool") this.#toolDuration.observe(duration_ms / SECOND_MS, name, status);
    if (kind !== "model") return;
    this.#modelDuration.observe(duration_ms / SECOND_MS, provider, model);
    if (span.first_token_ms !== undefined) this.#firstToken.observe(span.first_token_ms / SECOND_MS, provider, model);
    if (span.tokens?.in !== undefined) this.#inputTokens.observe(span.tokens.in, provider, model);
    if (span.tokens?.out !== undefined) this.#outputTokens.observe(span.tokens.out, provider, model);
  }

  /** Notes a save of an attempt. */
  onCommit(duration_ms: number): void {
    this.#commit.observe(duration_ms / SECOND_MS);
  }

  /** Returns all families, also those without samples. */
  read(): readonly HistogramFamily[] {
    return [
      ...[this.#queueWait, this.#runActive, this.#modelDuration, this.#firstToken],
      ...[this.#inputTokens, this.#outputTokens, this.#toolDuration, this.#commit],
    ].map((histogram) => histogram.read());
  }
}

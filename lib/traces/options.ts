/** The options of run traces, and their validation. */
import type { Json } from "../json.ts";
import type { SpanKind } from "../storage/spans.ts";
import {
  callable,
  findProblems,
  flag,
  integerBetween,
  isIntegerBetween,
  type Section,
  strictSection,
  stringEnum,
  valueMatching,
} from "../validation.ts";
import type { TraceSink } from "./sinks.ts";

/** Which runs keep their spans. */
export interface TraceSampling {
  /** The share of runs whose spans are kept, from 0 to 1. It is decided by the run id, so all processes agree. Default 1. */
  readonly sample?: number;
  /** Keeps the spans of other runs, too, if they fail: those of the attempt that fails. Default true. */
  readonly failed?: boolean;
  /** Keeps the spans of other runs, too, if their active time reaches this. Default: not for slowness. */
  readonly slow_ms?: number;
}

/** The value that `redact` gets belongs to this span. */
export interface RedactedSpan {
  readonly kind: SpanKind;
  readonly name: string;
  /** The member of the span that has the value. */
  readonly member: "input" | "output" | "error.message" | "attributes" | "params";
}

/** Replaces a value before it is stored or sent to a sink. Undefined omits it. */
export type Redact = (value: Json, span: RedactedSpan) => Json | undefined;

/** The effect of an incoming `traceparent` on a run. */
export type TraceParentMode = "continue" | "link" | "ignore";

/** What runs keep about their execution, and for how long. */
export interface TraceOptions {
  /**
   * `all` keeps the spans of all runs, `none` stores nothing. An object keeps those of some runs, and of all runs what lists show.
   * Default `all`.
   */
  readonly record?: "all" | "none" | TraceSampling;
  /**
   * `none`: names, times, tokens and short parameters of models. `references`: also pointers to checkpoints. `all`: also copies of
   * prompts, answers, arguments, results, error messages and the attributes of `span()`. Default `references`; `greenroom dev` uses
   * `all`.
   */
  readonly content?: "none" | "references" | "all";
  /** The size of one copied value in bytes; longer ones are cut. A run keeps 64 times as much. Default 16,384. */
  readonly max_bytes?: number;
  /** The time for which traces are kept after the end of their run. Null keeps them as long as the run. Default 604,800,000: seven days. */
  readonly retention_ms?: number | null;
  /**
   * Replaces or omits each value before it is kept. It must be synchronous; a value for which it throws or returns no JSON is omitted.
   * Default: keeps all.
   */
  readonly redact?: Redact;
  /**
   * What an incoming `traceparent` does: `continue` makes the run part of that trace, `link` names it, `ignore` drops it. Callers with
   * a row filter get `link` at most. Default `continue`.
   */
  readonly parent?: TraceParentMode;
  /** Get the spans of all runs, whatever `record` says. Default: none. */
  readonly sinks?: readonly TraceSink[];
}

/** The options with their defaults. */
export interface TraceSettings extends Required<Omit<TraceOptions, "record" | "redact" | "sinks">> {
  /** Null if nothing is stored. */
  readonly sampling: { readonly sample: number; readonly failed: boolean; readonly slow_ms: number } | null;
  readonly redact: Redact | null;
  readonly sinks: readonly TraceSink[];
}

const DAY_MS = 86_400_000;
const MAX_SAFE = Number.MAX_SAFE_INTEGER;

/** Returns the options with their defaults. An undefined member counts as absent. */
export function resolveTraceSettings({ record = "all", ...options }: TraceOptions = {}): TraceSettings {
  const { sample = 1, failed = true, slow_ms = Number.POSITIVE_INFINITY } = typeof record === "object" ? record : {};
  const { content = "references", max_bytes = 16_384, retention_ms = 7 * DAY_MS, parent = "continue" } = options;
  return {
    ...{ content, max_bytes, retention_ms, parent },
    sampling: record === "none" ? null : { sample, failed, slow_ms },
    redact: options.redact ?? null,
    sinks: options.sinks ?? [],
  };
}

const samplingSection = strictSection({
  sample: valueMatching(
    (value) => typeof value === "number" && value >= 0 && value <= 1,
    "must be a number from 0 to 1",
  ),
  failed: flag,
  slow_ms: integerBetween(0, MAX_SAFE),
});

/** Returns true for an object with a method `onSpanStarted` or `onSpanEnded`. */
const isSink = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  ["onSpanStarted", "onSpanEnded"].some((name) => typeof (value as Record<string, unknown>)[name] === "function");

/** The schema of the options of traces. `findSamplingProblems` names what is wrong inside `record`. */
export const traceSection: Section = strictSection({
  record: valueMatching(
    (value) => value === "all" || value === "none" || (typeof value === "object" && value !== null),
    "must be all, none or { sample, failed, slow_ms }",
  ),
  content: stringEnum(["none", "references", "all"]),
  max_bytes: integerBetween(256, 1_048_576),
  retention_ms: valueMatching(
    (value) => value === null || isIntegerBetween(value, 0, MAX_SAFE),
    `must be null or a whole number from 0 to ${MAX_SAFE}`,
  ),
  redact: callable,
  parent: stringEnum(["continue", "link", "ignore"]),
  sinks: valueMatching(
    (value) => Array.isArray(value) && value.every(isSink),
    "must be a list of sinks, for example [otel()]",
  ),
});

/** Returns what is wrong inside `traces.record`, each as one line with its key. */
export const findSamplingProblems = (record: unknown): readonly string[] =>
  typeof record === "object" && record !== null ? findProblems(samplingSection, record, "traces", "record") : [];

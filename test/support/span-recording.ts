/** A recorder of spans for tests of their sources. It keeps all spans of one attempt with their times, and refuses wrong calls. */
import assert from "node:assert/strict";
import type { EndedSpan, Executor, StartedSpan, TraceRecorder } from "../../lib/executor/contract.ts";

/** A span as its source has recorded it. Times are of `performance.now()`. */
export interface RecordedSpan extends StartedSpan {
  readonly span_id: string;
  readonly started: number;
  ended?: number;
  firstToken?: number;
  result?: EndedSpan;
  /** What a trace with copies would keep. */
  readonly inputCopy?: unknown;
  outputCopy?: unknown;
}

/** The id of the attempt, the parent of spans without one. */
export const ATTEMPT_ID = "attempt";

const STEP_ID = /^[0-9a-f]{16}$/;

export class SpanRecording implements TraceRecorder {
  readonly attempt_id = ATTEMPT_ID;
  readonly spans: RecordedSpan[] = [];

  start(span: StartedSpan): string {
    const { parent_id } = span;
    // Spans of steps are derived from the journal.
    const isKnown = parent_id === undefined || parent_id === ATTEMPT_ID || STEP_ID.test(parent_id);
    assert.ok(isKnown || this.#find(parent_id), `parent of ${span.name}`);
    const span_id = String(this.spans.length + 1);
    const inputCopy = copy(span.input);
    this.spans.push({
      ...span,
      span_id,
      started: performance.now(),
      ...(inputCopy === undefined ? {} : { inputCopy }),
    });
    return span_id;
  }

  end(span_id: string, result: EndedSpan): void {
    const span = this.#find(span_id);
    if (!span || span.ended !== undefined) return;
    span.ended = result.duration_ms === undefined ? performance.now() : span.started + result.duration_ms;
    span.result = result;
    const outputCopy = copy(result.output);
    if (outputCopy !== undefined) span.outputCopy = outputCopy;
  }

  noteFirstToken(span_id: string): void {
    const span = this.#find(span_id);
    if (span) span.firstToken ??= performance.now();
  }

  /** Returns the spans of a kind, or with a name. */
  list(kindOrName: string): RecordedSpan[] {
    return this.spans.filter(({ kind, name }) => kind === kindOrName || name === kindOrName);
  }

  /** Returns the only span with a name. Fails if there is not exactly one. */
  only(name: string): RecordedSpan {
    const spans = this.list(name);
    assert.equal(spans.length, 1, `spans named ${name}: ${this.describe().join("\n")}`);
    return spans[0] as RecordedSpan;
  }

  /** Returns the kinds and names from the attempt to a span. */
  path(span: RecordedSpan): string[] {
    const parent = span.parent_id === undefined ? undefined : this.#find(span.parent_id);
    const isStep = parent === undefined && STEP_ID.test(span.parent_id ?? "");
    return [...(parent ? this.path(parent) : isStep ? ["step"] : []), `${span.kind} ${span.name}`];
  }

  /** Returns one line for each span: its path, its try if it is not the first, and its status if it is not "ok". */
  describe(): string[] {
    return this.spans.map((span) => {
      const status = span.result?.status ?? "open";
      const notes = [
        ...(span.try === undefined || span.try === 1 ? [] : [`try ${span.try}`]),
        ...(status === "ok" ? [] : [status]),
      ];
      return [this.path(span).join(" > "), ...notes].join(", ");
    });
  }

  #find(id: string): RecordedSpan | undefined {
    return this.spans.find(({ span_id }) => span_id === id);
  }
}

/** Returns what the source would copy, as JSON. Fails if it is no JSON. */
function copy(value: StartedSpan["input"]): unknown {
  const create = typeof value === "function" ? value : value?.copy;
  if (!create) return undefined;
  const created = create();
  return created === undefined ? undefined : JSON.parse(JSON.stringify(created));
}

/** Returns the executor with a recorder for each of its attempts, which `attempts` lists. */
export function recordSpans(executor: Executor): { readonly executor: Executor; readonly attempts: SpanRecording[] } {
  const attempts: SpanRecording[] = [];
  const execute: Executor["execute"] = (job, signal, environment) => {
    const trace = new SpanRecording();
    attempts.push(trace);
    return executor.execute({ ...job, trace }, signal, environment);
  };
  return { executor: { ...executor, execute }, attempts };
}

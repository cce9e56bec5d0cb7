/** The spans of a function: those that it names by `span()`, and where the others lie. Loaded if the attempt has a recorder. */
import type { ModelUsage } from "../executor/contract.ts";
import type { EndedSpan, StartedStep, TraceRecorder } from "../executor/trace.ts";
import type { SpanOptions } from "./function-job.ts";
import { createPartRecorder, OpenStreams, type PartRecorder } from "./open-streams.ts";
import type { ContextStorage, SpanContext } from "./span-context.ts";

/** The tokens and the cost that were spent in a span. */
class SpentUsage {
  readonly #list: ModelUsage[] = [];

  add(usage: ModelUsage): void {
    this.#list.push(usage);
  }

  toResult(): Pick<EndedSpan, "tokens" | "usage" | "response_model"> {
    const usage = this.#list;
    if (usage.length === 0) return {};
    const sum = (name: "tokens_in" | "tokens_out"): number =>
      usage.reduce((total, { [name]: tokens = 0 }) => total + tokens, 0);
    const model = usage.find(({ model }) => model !== undefined)?.model;
    return {
      tokens: { in: sum("tokens_in"), out: sum("tokens_out") },
      usage,
      ...(model === undefined ? {} : { response_model: model }),
    };
  }
}

interface FunctionSpanContext extends SpanContext {
  /** The usage that `spend()` adds to; null outside of model and custom spans. */
  readonly usage: SpentUsage | null;
}

/** Returns the digits of the id of a step's span, which the journal has. */
export const toStepSpanId = (key: string): string => key.replaceAll("-", "").slice(0, 16);

/** A function or a step, whose spans lie in one place. */
export interface SpanScope {
  run<Result>(work: () => Result): Result;
  /** Tells the sinks that the step begins. Returns the function that tells them its end. */
  start(): (result: EndedSpan) => void;
  /** Returns a recorder of the stream that it has returned. */
  createPartRecorder(): PartRecorder;
}

export class FunctionSpans {
  readonly trace: TraceRecorder;
  readonly #storage: ContextStorage<SpanContext> | null;
  readonly #signal: AbortSignal;
  readonly #root: SpanScope;

  /** Creates the spans of one attempt. Without a storage all of them lie under the attempt. */
  constructor(trace: TraceRecorder, storage: ContextStorage<SpanContext> | null, signal: AbortSignal) {
    this.trace = trace;
    this.#storage = storage;
    this.#signal = signal;
    this.#root = this.#createScope(undefined);
  }

  /** Calls a part of the function, whose spans lie under the attempt. */
  run<Result>(work: () => Result): Result {
    return this.#root.run(work);
  }

  /** Returns a recorder of the stream that the function has returned. */
  createPartRecorder(): PartRecorder {
    return this.#root.createPartRecorder();
  }

  /** Returns the scope of one try of a step, whose spans lie under that of the step. */
  createStepScope(key: string, name: string, number: number): SpanScope {
    return this.#createScope({ span_id: toStepSpanId(key), name, try: number });
  }

  #createScope(step: StartedStep | undefined): SpanScope {
    const streams = new OpenStreams();
    const span_id = step?.span_id;
    const context = { ...this.#createContext(span_id), streams };
    return {
      run: (work) => this.#runIn(context, work),
      start: () => (step && this.trace.startStep?.(step)) ?? (() => {}),
      createPartRecorder: () => createPartRecorder(this.trace, streams, span_id),
    };
  }

  /**
   * Calls `work` in a span, under the innermost span of the running code. Resolves to its result, or rejects with its error, and
   * ends the span with it. Model and custom spans get the usage that is added in them.
   */
  readonly span = async (
    name: string,
    work: () => unknown,
    { kind = "custom", attributes }: SpanOptions,
  ): Promise<unknown> => {
    const outer = this.#findContext();
    const usage = kind === "model" || kind === "custom" ? new SpentUsage() : (outer?.usage ?? null);
    const parent_id = outer?.findSpan();
    const span_id = this.trace.start({
      ...{ kind, name },
      ...(parent_id === undefined ? {} : { parent_id }),
      ...(attributes ? { attributes } : {}),
      // Attributes are content; this one is a parameter of the conventions for retrievals.
      ...(kind === "retriever" && typeof attributes?.top_k === "number" ? { params: { top_k: attributes.top_k } } : {}),
    });
    const spent = (): ReturnType<SpentUsage["toResult"]> =>
      kind === "model" || kind === "custom" ? (usage?.toResult() ?? {}) : {};
    try {
      const result = await this.#runIn(
        { ...this.#createContext(span_id), usage, streams: outer?.streams ?? new OpenStreams() },
        work,
      );
      this.trace.end(span_id, { status: "ok", ...spent(), output: () => result });
      return result;
    } catch (error) {
      this.trace.end(span_id, { ...this.toFailure(error), ...spent() });
      throw error;
    }
  };

  /**
   * Returns the end of a span whose work has thrown: `interrupted` if the attempt was stopped before, else `error` with the
   * error.
   */
  toFailure(error: unknown): EndedSpan {
    return this.#signal.aborted ? { status: "interrupted" } : { status: "error", error };
  }

  /** Adds usage to the innermost model or custom span of the running code. Does nothing outside of them and without a storage. */
  addUsage(usage: ModelUsage): void {
    this.#findContext()?.usage?.add(usage);
  }

  /** Adds the member `traceparent` to a job: a getter, because its value depends on the span in which it is read. */
  addTraceParent(job: object): void {
    const get = (): string | undefined => this.trace.formatTraceParent?.(this.findSpan());
    Object.defineProperty(job, "traceparent", { get, enumerable: true });
  }

  /** Returns the id of the innermost span of the running code; undefined for the attempt. */
  readonly findSpan = (): string | undefined => this.#findContext()?.findSpan();

  /** Returns the context of the running code. That of another run, which has called this one in process, does not count. */
  #findContext(): FunctionSpanContext | undefined {
    const context = this.#storage?.getStore() as FunctionSpanContext | undefined;
    return context?.trace === this.trace ? context : undefined;
  }

  #createContext(span_id: string | undefined): Omit<FunctionSpanContext, "streams"> {
    const { trace, span } = this;
    return { trace, span, usage: null, findSpan: () => span_id, isStopped: () => this.#signal.aborted };
  }

  /** Calls `work` in a context, and in its span for sinks. Returns or throws what it does. */
  #runIn<Result>(context: FunctionSpanContext, work: () => Result): Result {
    const { trace } = this;
    const span_id = context.findSpan() ?? trace.attempt_id;
    const runWork = (): Result => (trace.runIn ? trace.runIn(span_id, work) : work());
    return this.#storage ? this.#storage.run(context, runWork) : runWork();
  }
}

/** The part of a function's job that `traceHandler` needs. */
export interface FunctionTrace {
  readonly spans: FunctionSpans | null;
  readonly signal: AbortSignal;
  /** Reports usage, without adding it to a span. */
  reportUsage(usage: ModelUsage): void;
}

/** Where code of a node runs in a trace, for what it calls beside LangChain, and the spans that it names by `span()`. */
import type { EndedSpan, TraceRecorder } from "../../lib/executor/contract.ts";
import type { SpanOptions } from "../../lib/functions/function-job.ts";
import { OpenStreams } from "../../lib/functions/open-streams.ts";
import type { ContextStorage, SpanContext } from "../../lib/functions/span-context.ts";
import { serializeMetadata } from "./serialize.ts";

interface NodeContextsOptions {
  readonly trace: TraceRecorder;
  /** The storage of the span that code runs in; null on runtimes without one. */
  readonly storage: ContextStorage<SpanContext> | null;
  /** Returns the span of LangChain's run that the caller is in; undefined if that is unknown. */
  findRunSpan(): string | undefined;
  isStopped(): boolean;
  /** Returns the end of a span whose work has thrown. */
  toFailure(error: unknown): EndedSpan;
}

/** The span of a node, or one that code in it has named. */
interface CodeLocation {
  readonly span_id: string;
  /** The span of the run of LangChain around it. What that run calls lies in `span_id`. */
  readonly run_span_id: string;
}

/** The contexts of the nodes of an attempt. */
export class NodeContexts {
  readonly #options: NodeContextsOptions;
  readonly #locations = new WeakMap<SpanContext, CodeLocation>();

  constructor(options: NodeContextsOptions) {
    this.#options = options;
  }

  /** Calls the work of a node in its span. */
  runNode<Result>(span_id: string, work: () => Result): Result {
    return this.#run({ span_id, run_span_id: span_id }, new OpenStreams(), work);
  }

  /** Returns the parent of what LangChain runs under a span: a span that the caller has named in it, else the span itself. */
  findParent(span_id: string | undefined): string | undefined {
    const location = this.findLocation();
    return location?.run_span_id === span_id ? location?.span_id : span_id;
  }

  /** Returns the innermost location of the caller; undefined outside of the nodes of the attempt. */
  findLocation(): CodeLocation | undefined {
    const context = this.#options.storage?.getStore();
    return context && this.#locations.get(context);
  }

  #run<Result>(location: CodeLocation, streams: OpenStreams, work: () => Result): Result {
    const { trace, storage, isStopped } = this.#options;
    const findSpan = (): string => this.#findSpan(location);
    const runWork = (): Result => (trace.runIn ? trace.runIn(location.span_id, work, findSpan) : work());
    if (!storage) return runWork();
    const context: SpanContext = {
      ...{ trace, findSpan, isStopped, streams },
      span: (name, namedWork, options) => this.#span(location, streams, { name, work: namedWork, options }),
    };
    this.#locations.set(context, location);
    return storage.run(context, runWork);
  }

  /** Returns the innermost span of the caller, which runs in this location: that of a tool, for example. */
  #findSpan({ span_id, run_span_id }: CodeLocation): string {
    const runSpan = this.#options.findRunSpan() ?? run_span_id;
    return runSpan === run_span_id ? span_id : runSpan;
  }

  /** Calls `work` in a span. Returns its result, or throws its error. */
  async #span(
    outer: CodeLocation,
    streams: OpenStreams,
    {
      name,
      work,
      options: { kind = "custom", attributes },
    }: { readonly name: string; readonly work: () => unknown; readonly options: SpanOptions },
  ): Promise<unknown> {
    const { trace, findRunSpan, toFailure } = this.#options;
    const parent_id = this.#findSpan(outer);
    const top_k = kind === "retriever" ? attributes?.top_k : undefined;
    const span_id = trace.start({
      ...{ kind, name, parent_id },
      ...(attributes ? { attributes } : {}),
      // Attributes are content; this one is a parameter of the conventions for retrievals.
      ...(typeof top_k === "number" ? { params: { top_k } } : {}),
    });
    try {
      const run_span_id = findRunSpan() ?? outer.run_span_id;
      const result = await this.#run({ span_id, run_span_id }, streams, work);
      trace.end(span_id, { status: "ok", output: () => serializeMetadata(result) });
      return result;
    } catch (error) {
      trace.end(span_id, toFailure(error));
      throw error;
    }
  }
}

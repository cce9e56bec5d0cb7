/** The span that code of an agent runs in. Shared by the sources of spans that LangGraph and functions do not call. */
import type { TraceRecorder } from "../executor/trace.ts";
import type { SpanOptions } from "./function-job.ts";
import type { OpenStreams } from "./open-streams.ts";

/** An AsyncLocalStorage. */
export interface ContextStorage<Context> {
  run<Result>(context: Context, work: () => Result): Result;
  getStore(): Context | undefined;
}

/** The place of running code in a trace. */
export interface SpanContext {
  readonly trace: TraceRecorder;
  /** Returns the innermost span; undefined for the attempt itself. */
  findSpan(): string | undefined;
  /** Calls `work` in a span that lies in the innermost one. Returns its result, or throws its error. */
  span(name: string, work: () => unknown, options: SpanOptions): Promise<unknown>;
  /** Returns true once the run was stopped, so that errors are no failures. */
  isStopped(): boolean;
  /** The streams of the AI SDK that the function or step has opened. */
  readonly streams: OpenStreams;
}

/** Imports a module of the runtime. The comments keep bundlers from resolving it. */
export const importBuiltin = <Module>(name: string): Promise<Module> =>
  import(/* webpackIgnore: true */ /* @vite-ignore */ name) as Promise<Module>;

/** Creates a storage. Resolves to null on runtimes without AsyncLocalStorage. */
export const createContextStorage = <Context>(): Promise<ContextStorage<Context> | null> =>
  importBuiltin<{ readonly AsyncLocalStorage: new () => ContextStorage<Context> }>("node:async_hooks").then(
    ({ AsyncLocalStorage }) => new AsyncLocalStorage(),
    () => null,
  );

/** The method `span` of jobs, which checks its arguments, and what belongs to it. */
import type { FunctionJob, SpanOptions } from "./function-job.ts";
import type { FunctionTrace } from "./function-spans.ts";

const KINDS: readonly unknown[] = ["custom", "model", "tool", "retriever"];
const OPTION_NAMES: readonly string[] = ["kind", "attributes"];

/** Throws a TypeError for arguments of `span()` that are wrong, also for an unknown option and an attribute of another type. */
export function requireSpanArguments(name: unknown, work: unknown, options: unknown): void {
  if (typeof name !== "string" || name === "") throw new TypeError("span: the name must be a text");
  const refuse = (problem: string): never => {
    throw new TypeError(`span ${name}: ${problem}`);
  };
  if (typeof work !== "function") refuse("the second argument must be a function");
  if (typeof options !== "object" || options === null) refuse("the third argument must be an object");
  const { kind, attributes = {} } = options as { readonly kind?: unknown; readonly attributes?: unknown };
  const unknown = Object.keys(options as object).find((option) => !OPTION_NAMES.includes(option));
  if (unknown !== undefined) refuse(`unknown option ${unknown}. Known: ${OPTION_NAMES.join(", ")}`);
  if (kind !== undefined && !KINDS.includes(kind)) refuse(`kind must be one of ${KINDS.join(", ")}`);
  if (typeof attributes !== "object" || attributes === null || Array.isArray(attributes))
    refuse("attributes must be an object");
  for (const [attribute, value] of Object.entries(attributes as object))
    if (!["string", "number", "boolean"].includes(typeof value))
      refuse(`the attribute ${attribute} must be a text, a number or a boolean`);
}

/** The traces of jobs, by their method `span`: so copies of a job have it too. */
const traces = new WeakMap<object, FunctionTrace>();

/** Returns the trace of a job; undefined for an object that is no job of a function. */
export const findFunctionTrace = (job: { readonly span: object }): FunctionTrace | undefined => traces.get(job.span);

/**
 * Creates the method `span` of a job, and keeps the trace for `findFunctionTrace`. The method throws for wrong arguments, and
 * what `requireNoInterrupt` throws (the function has dropped an interrupt); otherwise it resolves or rejects as the work does.
 * Without a recorder it only calls the work. A rejection that is not awaited ends no process.
 */
export function createSpanMethod(trace: FunctionTrace, requireNoInterrupt: () => void): FunctionJob["span"] {
  const span = (name: string, work: () => unknown, options: SpanOptions = {}): Promise<unknown> => {
    requireNoInterrupt();
    requireSpanArguments(name, work, options);
    const promise = trace.spans ? trace.spans.span(name, work, options) : (async () => work())();
    // The function may be stopped while it does not await this promise.
    promise.catch(() => {});
    return promise;
  };
  traces.set(span, trace);
  return span as FunctionJob["span"];
}

/** Spans that code of a graph names. */
import type { SpanOptions } from "../../lib/functions/function-job.ts";
import { requireSpanArguments } from "../../lib/functions/span-method.ts";
import { findSpanContext } from "../../lib/functions/span-storage.ts";

/**
 * Calls `work` and records it as a span in the trace of the run, as `job.span` does for functions: with its times and its error. It is for
 * nodes, tasks and tools of a graph. Models, tools and spans that `work` calls lie in the span. Returns the result of `work`, or throws its
 * error. Outside of a run, on runtimes without `AsyncLocalStorage`, and if no traces are recorded, `work` is only called. Throws a TypeError
 * for wrong arguments.
 *
 * @example
 * ```ts
 * import { span } from "greenroom/langgraph";
 *
 * export async function search({ query }: { query: string }) {
 *   const load = () => fetch(`https://example.com/search?q=${encodeURIComponent(query)}`);
 *   const response = await span("search", load, { kind: "retriever", attributes: { top_k: 5 } });
 *   return { answer: await response.text() };
 * }
 * ```
 */
export function span<Returned>(
  name: string,
  work: () => Returned,
  options: SpanOptions = {},
): Promise<Awaited<Returned>> {
  requireSpanArguments(name, work, options);
  const result: Promise<unknown> = findSpanContext()?.span(name, work, options) ?? (async () => await work())();
  return result as Promise<Awaited<Returned>>;
}

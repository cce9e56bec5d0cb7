/** A callback handler that records what LangChain runs in a function. */
import { findFunctionTrace } from "../../lib/functions/span-method.ts";
import { bindMethods, combineHandlers } from "./callbacks.ts";
import { GraphSpans } from "./graph-spans.ts";
import { type ModelOutput, ModelUsageCollector } from "./model-usage.ts";

/** What a trace handler needs of the job that a function receives. */
export interface TracedJob {
  /** Records work as a span of the run. */
  span(name: string, work: () => unknown): Promise<unknown>;
}

/** A callback handler of LangChain. */
export interface TraceHandler {
  readonly name: string;
  readonly awaitHandlers: boolean;
  readonly ignoreChain: boolean;
  handleLLMEnd(output: object, run_id: string): void;
}

/**
 * Creates a callback handler that records the models, tools, retrievers and graphs of LangChain that a function calls as spans of its run,
 * and reports their tokens as usage: so do not `spend` these. Pass it as one of the `callbacks` of the outermost call. Throws a TypeError
 * for an object that is no job of a function.
 *
 * @example
 * ```ts
 * import type { BaseChatModel } from "@langchain/core/language_models/chat_models";
 * import type { FunctionJob } from "greenroom";
 * import { traceHandler } from "greenroom/langgraph";
 *
 * declare const chatModel: BaseChatModel;
 *
 * export const summarize = async (job: FunctionJob) => {
 *   const reply = await chatModel.invoke("Sum it up", { callbacks: [traceHandler(job)], signal: job.signal });
 *   return reply.text;
 * };
 * ```
 */
export function traceHandler(job: TracedJob): TraceHandler {
  const functionTrace = findFunctionTrace(job);
  if (!functionTrace) throw new TypeError("traceHandler: the argument is no job of a function");
  const { spans, signal, reportUsage } = functionTrace;
  const usage = new ModelUsageCollector();
  const handler = spans
    ? new GraphSpans({
        trace: spans.trace,
        usage,
        stopped: signal,
        hasCheckpoints: false,
        findOuterSpan: spans.findSpan,
      })
    : usage;
  const report = (): void => {
    for (const { type: _type, ...counted } of usage.drain()) reportUsage(counted);
  };
  const handlers = [bindMethods(handler), { handleLLMEnd: (_output: ModelOutput) => report(), handleChainEnd: report }];
  return combineHandlers(handlers) as TraceHandler;
}

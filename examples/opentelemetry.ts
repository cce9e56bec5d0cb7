// A span for every run that ends, by any tracer of the shape of @opentelemetry/api's: see docs/operations/running.md.
import type { FinishedRun } from "greenroom";

/** What is used of a tracer: `trace.getTracer("greenroom")` is one. */
export interface Tracer {
  startSpan(name: string, options: SpanOptions): Span;
}
interface SpanOptions {
  readonly kind: number;
  readonly startTime: Date;
  readonly attributes: Readonly<Record<string, string | number>>;
  readonly links: { context: { traceId: string; spanId: string; traceFlags: number; isRemote: boolean } }[];
}
type Span = { setStatus(status: { code: number; message?: string }): unknown; end(time: Date): void };
const [SERVER, ERROR] = [1, 2];

/** For `createService({ onRunFinished: traceRuns(tracer) })`. A `traceparent` in a run's metadata becomes a link to its caller. */
export function traceRuns(tracer: Tracer): (run: FinishedRun) => void {
  return ({ started_at, ended_at, metadata, error, ...run }) => {
    const parent = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/.exec(String(metadata.traceparent));
    const [, traceId = "", spanId = "", flags = ""] = parent ?? [];
    const context = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
    const attributes = {
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.agent.name": run.graph_id,
      "gen_ai.conversation.id": run.thread_id,
      "greenroom.run_id": run.run_id,
      "greenroom.status": run.status,
      "greenroom.attempt": run.attempt,
    };
    const options = { kind: SERVER, startTime: new Date(started_at ?? ended_at), attributes };
    const span = tracer.startSpan(`invoke_agent ${run.graph_id}`, { ...options, links: parent ? [{ context }] : [] });
    if (error) span.setStatus({ code: ERROR, message: String(error.message) });
    span.end(new Date(ended_at));
  };
}

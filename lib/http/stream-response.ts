/** Responses that stay open until a run or its reader ends. */
import type { Frame, Reader, RunWait } from "../runs/mod.ts";
import type { RequestContext } from "./context.ts";
import type { HeaderValues } from "./respond.ts";
import { type StreamOptions, sseBody, waitBody } from "./sse.ts";

/** Frames as a stream of server-sent events. `ids` are part of every log record of the stream. */
export function eventStream(
  { handler, principal, request_id }: RequestContext,
  frames: Reader<Frame>,
  ids: Readonly<Record<string, string>>,
  headers: HeaderValues,
  options?: StreamOptions,
): Response {
  return new Response(sseBody(frames, handler.bodies, { ...ids, request_id }, principal.isStillValid, options), {
    headers: {
      "content-type": "text/event-stream",
      "cache-control": "no-cache",
      "x-accel-buffering": "no",
      ...headers,
    },
  });
}

/** The result of a run as JSON, once it has ended. */
export function waitResponse(
  { handler, principal, request_id }: RequestContext,
  wait: RunWait,
  headers: HeaderValues,
): Response {
  const { run_id, thread_id } = wait.run;
  return new Response(waitBody(wait, handler.bodies, { run_id, thread_id, request_id }, principal.isStillValid), {
    headers: { "content-type": "application/json", ...headers },
  });
}

/** The route for AG-UI's clients. */
import { ServiceError } from "../../../errors.ts";
import type { Frame } from "../../../runs/mod.ts";
import { createReader } from "../../../streams/log.ts";
import { readJson, validateFields } from "../../parse.ts";
import { errorResponse } from "../../respond.ts";
import { createRouteGroup, type Route, readAssistantId, yieldAfterLargeBody } from "../../route.ts";
import { readRunOriginFromHeaders, runCreate } from "../../run-request.ts";
import { createEventStreamResponse } from "../../sse.ts";
import { parseAguiRequest, runAgentInput } from "./requests.ts";
import { isLast, startRun } from "./run.ts";

const route = createRouteGroup({ tag: "AG-UI", group: "ag_ui", error_message: true });

const acceptsEvents = (accept: string | null): boolean =>
  accept === null || /\*\/\*|text\/(?:\*|event-stream)/i.test(accept);

export const AG_UI_ROUTES: readonly Route[] = [
  route("post", "/ag-ui/:assistant_id", {
    summary: "Run an agent as AG-UI's clients do, and stream its events",
    access: "run",
    events: ["threads:create_run", "threads:read", "assistants:read"],
    body: runAgentInput,
    response: "stream",
    errors: [404, 406, 409, 503, 507],
    /** Starts or joins the run of a request and streams its events. Responds 406 unless the client accepts event streams. */
    async handle(context) {
      if (!acceptsEvents(context.request.headers.get("accept"))) {
        const message = "Only text/event-stream can be sent: accept it";
        return errorResponse(new ServiceError("bad_request", message), {}, { error_message: true }, 406);
      }
      const bytes = await context.bytes();
      const request = parseAguiRequest(readJson(bytes));
      await yieldAfterLargeBody(context, bytes);
      const { run, events } = await startRun(context.resources, request, {
        ...context.service.options.http?.ag_ui,
        assistant_id: readAssistantId(context),
        origin: readRunOriginFromHeaders(context, "ag-ui"),
        check: (runRequest) => validateFields(runRequest, runCreate),
      });
      const frames = createReader<Frame>(async () => {
        const ready = await events.next();
        return ready.map((event) => ({
          ...{ id: null, event: "", data: JSON.stringify(event) },
          ...(isLast(event) ? { last: true } : {}),
        }));
      }, events.leave);
      return createEventStreamResponse(context, frames, { ids: { run_id: run.run_id, thread_id: run.thread_id } });
    },
  }),
];

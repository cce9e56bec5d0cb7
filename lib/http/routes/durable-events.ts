/** Defines the route that accepts an event at the address of a `wait`. It needs no key, because the address is secret. */
import type { Json } from "../../json.ts";
import { MAX_EVENT_BYTES } from "../../steps/calls.ts";
import { readJson } from "../parse.ts";
import { jsonResponse } from "../respond.ts";
import { createRouteGroup, type Route } from "../route.ts";
import { RECEIVED_RESPONSE } from "./runs.ts";

const defineRoute = createRouteGroup({ tag: "Runs", group: "runs", access: "open", strict_query: true });

export const EVENT_ROUTES: readonly Route[] = [
  defineRoute("post", "/greenroom/events/:address", {
    summary: "Send the event of a `wait` to its address; the body is any JSON but null",
    max_body_bytes: MAX_EVENT_BYTES,
    response: "Received",
    errors: [404, 409, 410, 422, 507],
    /**
     * Sends the JSON body to the durable call that waits at the address, and responds with `RECEIVED_RESPONSE`, also for the same
     * body again. Responds 404 for an unknown address, 409 if another body came before, 410 if the call has ended, and 422 for null
     * or a body that does not fit the schema of the wait.
     */
    async handle({ service, params, bytes }) {
      await service.calls.deliver(params.address ?? "", readJson(await bytes()) as Json);
      return jsonResponse(RECEIVED_RESPONSE);
    },
  }),
];

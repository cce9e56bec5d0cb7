/** Defines the route that accepts an event at the address of a `wait`. It needs no key, because the address is secret. */
import type { Json } from "../../json.ts";
import { MAX_EVENT_BYTES } from "../../steps/calls.ts";
import { readJson } from "../parse.ts";
import { jsonResponse } from "../respond.ts";
import { createRouteGroup, type Route } from "../route.ts";
import { RECEIVED_RESPONSE } from "./runs.ts";

const defineRoute = createRouteGroup({ tag: "Runs", group: "runs", access: "open" });

export const EVENT_ROUTES: readonly Route[] = [
  defineRoute("post", "/greenroom/events/:address", {
    summary: "Send the event of a `wait` to its address; the body is any JSON but null",
    max_body_bytes: MAX_EVENT_BYTES,
    response: "Received",
    errors: [404, 409, 410, 422, 507],
    /** Delivers the JSON body to the durable call that waits at the address, and responds with a fixed text. */
    async handle({ service, params, bytes }) {
      await service.calls.deliver(params.address ?? "", readJson(await bytes()) as Json);
      return jsonResponse(RECEIVED_RESPONSE);
    },
  }),
];

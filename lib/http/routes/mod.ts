/** The route table: every path the handler serves, with all that routing, authorization and the OpenAPI document need. */

import type { Route } from "../route.ts";
import { ASSISTANT_ROUTES } from "./assistants.ts";
import { CRON_ROUTES } from "./crons.ts";
import { FEEDBACK_ROUTES } from "./feedback.ts";
import { FEEDBACK_LINK_ROUTES } from "./feedback-links.ts";
import { OPERATION_ROUTES } from "./operations.ts";
import { PLATFORM_ROUTES } from "./platform.ts";
import { PROTOCOL_ROUTES } from "./protocol.ts";
import { RUN_ROUTES } from "./runs.ts";
import { SERVER_ROUTES } from "./server.ts";
import { STORE_ROUTES } from "./store.ts";
import { THREAD_ROUTES } from "./threads.ts";

/** Routes of the API that this version does not serve. */
const NOT_BUILT: readonly Route[] = [
  { method: "post", path: "/ui/:assistant_id", tag: "Server", group: "ui", summary: "Generative UI" },
  { method: "all", path: "/mcp/*", tag: "Server", group: "mcp", summary: "MCP" },
  { method: "all", path: "/a2a/*", tag: "Server", group: "a2a", summary: "A2A" },
];

/** The first row that matches wins, so fixed words come before the ids they could be taken for. */
export const ROUTES: readonly Route[] = [
  ...NOT_BUILT,
  ...ASSISTANT_ROUTES,
  ...THREAD_ROUTES,
  ...PROTOCOL_ROUTES,
  ...CRON_ROUTES,
  ...RUN_ROUTES,
  ...STORE_ROUTES,
  ...OPERATION_ROUTES,
  ...SERVER_ROUTES,
  ...PLATFORM_ROUTES,
  ...FEEDBACK_LINK_ROUTES,
  ...FEEDBACK_ROUTES,
];

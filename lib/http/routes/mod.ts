/** The route table: every path the handler serves, with all that routing, authorization and the OpenAPI document need. */

import { ENDPOINTS } from "../endpoints/list.ts";
import type { LazyRoutes, Route } from "../route.ts";
import { CRON_ROUTES } from "./crons.ts";
import { PROTOCOL_ROUTES } from "./protocol.ts";
import { RUN_ROUTES } from "./runs.ts";
import { SERVER_ROUTES } from "./server.ts";
import { THREAD_ROUTES } from "./threads.ts";

/** Routes of the API that this version does not serve. */
const NOT_BUILT: readonly Route[] = [
  { method: "post", path: "/ui/:assistant_id", tag: "Server", group: "ui", summary: "Generative UI" },
];

/** The rows of the agent server API. The first row that matches wins, so fixed words come before the ids they could be taken for. */
export const ROUTES: readonly Route[] = [
  ...NOT_BUILT,
  ...THREAD_ROUTES,
  ...PROTOCOL_ROUTES,
  ...CRON_ROUTES,
  ...RUN_ROUTES,
  ...SERVER_ROUTES,
];

export const LAZY_ROUTES: readonly LazyRoutes[] = [
  { path: "/assistants", load: async () => (await import("./assistants.ts")).ASSISTANT_ROUTES },
  { path: "/store/", load: async () => (await import("./store.ts")).STORE_ROUTES },
  {
    path: "/greenroom/",
    async load() {
      const [{ EVENT_ROUTES }, { OPERATION_ROUTES }] = await Promise.all([
        import("./events.ts"),
        import("./operations.ts"),
      ]);
      return [...EVENT_ROUTES, ...OPERATION_ROUTES];
    },
  },
  {
    path: "/api/v1/",
    async load() {
      const [{ PLATFORM_ROUTES }, { FEEDBACK_LINK_ROUTES }, { FEEDBACK_ROUTES }] = await Promise.all([
        import("./platform.ts"),
        import("./feedback-links.ts"),
        import("./feedback.ts"),
      ]);
      return [...PLATFORM_ROUTES, ...FEEDBACK_LINK_ROUTES, ...FEEDBACK_ROUTES];
    },
  },
  ...ENDPOINTS,
];

/** Every row, in the order in which they match. */
export const allRoutes = async (): Promise<readonly Route[]> => [
  ...ROUTES,
  ...(await Promise.all(LAZY_ROUTES.map(({ load }) => load()))).flat(),
];

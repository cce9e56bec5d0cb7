/** The route table: every path the handler serves, with all that routing, authorization and the OpenAPI document need. */
import { ENDPOINTS } from "../endpoints/list.ts";
import type { LazyRoutes, Route } from "../route.ts";
import { SERVER_ROUTES } from "./server.ts";

/** Routes of the API that this version does not serve. */
const NOT_BUILT: readonly Route[] = [
  { method: "post", path: "/ui/:assistant_id", tag: "Server", group: "ui", summary: "Generative UI" },
];

/** The rows that every server needs at once. */
export const ROUTES: readonly Route[] = [...NOT_BUILT, ...SERVER_ROUTES];

/** The rows of threads and runs. The first row that matches wins, so fixed words come before the ids they could be taken for. */
async function agentRoutes(): Promise<readonly Route[]> {
  const [{ THREAD_ROUTES }, { PROTOCOL_ROUTES }, { CRON_ROUTES }, { RUN_ROUTES }] = await Promise.all([
    import("./threads.ts"),
    import("./protocol.ts"),
    import("./crons.ts"),
    import("./runs.ts"),
  ]);
  return [...THREAD_ROUTES, ...PROTOCOL_ROUTES, ...CRON_ROUTES, ...RUN_ROUTES];
}

const below = (start: Route["path"]): LazyRoutes => ({
  path: start,
  load: async () => (await agentRoutes()).filter(({ path }) => path.startsWith(start)),
});

/** Rows that few deployments call. */
const SELDOM: readonly LazyRoutes[] = [
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

export const LAZY_ROUTES: readonly LazyRoutes[] = [below("/threads"), below("/runs"), ...SELDOM];

/** Every row, in the order in which they match. */
export const allRoutes = async (): Promise<readonly Route[]> => [
  ...NOT_BUILT,
  ...(await agentRoutes()),
  ...SERVER_ROUTES,
  ...(await Promise.all(SELDOM.map(({ load }) => load()))).flat(),
];

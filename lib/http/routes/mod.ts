/** The route table: every path the handler serves, with all that routing, authorization and the OpenAPI document need. */
import { ENDPOINTS } from "../endpoints/list.ts";
import type { LazyRoutes, Route } from "../route.ts";
import { SERVER_ROUTES } from "./server.ts";

/** Routes of the API that this version does not serve. */
const UNSUPPORTED_ROUTES: readonly Route[] = [
  { method: "post", path: "/ui/:assistant_id", tag: "Server", group: "ui", summary: "Generative UI" },
];

/** The rows that every server needs at once. */
export const ROUTES: readonly Route[] = [...UNSUPPORTED_ROUTES, ...SERVER_ROUTES];

/** The rows of threads and runs. The first row that matches wins, so fixed words come before the ids they could be taken for. */
async function loadAgentRoutes(): Promise<readonly Route[]> {
  const [{ THREAD_ROUTES }, { PROTOCOL_ROUTES }, { CRON_ROUTES }, { RUN_ROUTES }] = await Promise.all([
    import("./threads.ts"),
    import("./protocol.ts"),
    import("./crons.ts"),
    import("./runs.ts"),
  ]);
  return [...THREAD_ROUTES, ...PROTOCOL_ROUTES, ...CRON_ROUTES, ...RUN_ROUTES];
}

const createLazyAgentRoutes = (pathPrefix: Route["path"]): LazyRoutes => ({
  path: pathPrefix,
  load: async () => (await loadAgentRoutes()).filter(({ path }) => path.startsWith(pathPrefix)),
});

/** Rows that few deployments call. */
const LAZY_GROUPS: readonly LazyRoutes[] = [
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

export const LAZY_ROUTES: readonly LazyRoutes[] = [
  createLazyAgentRoutes("/threads"),
  createLazyAgentRoutes("/runs"),
  ...LAZY_GROUPS,
];

/** Every row, in the order in which they match. */
export const loadAllRoutes = async (): Promise<readonly Route[]> => [
  ...UNSUPPORTED_ROUTES,
  ...(await loadAgentRoutes()),
  ...SERVER_ROUTES,
  ...(await Promise.all(LAZY_GROUPS.map(({ load }) => load()))).flat(),
];

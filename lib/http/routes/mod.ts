/** Lists all routes, with the data for routing, authorization and the OpenAPI document. */
import { ENDPOINTS } from "../endpoints/list.ts";
import type { LazyRoutes, Route } from "../route.ts";
import { SERVER_ROUTES } from "./server.ts";

/** The routes of the API that this version does not serve. */
const UNSUPPORTED_ROUTES: readonly Route[] = [
  { method: "post", path: "/ui/:assistant_id", tag: "Server", group: "ui", summary: "Generative UI" },
];

/** The routes that are loaded with the handler. */
export const ROUTES: readonly Route[] = [...UNSUPPORTED_ROUTES, ...SERVER_ROUTES];

/** Loads the routes of threads and runs. The first match wins, so a fixed segment precedes a parameter at the same position. */
async function loadAgentRoutes(): Promise<readonly Route[]> {
  const [{ THREAD_ROUTES }, { PROTOCOL_ROUTES }, { CRON_ROUTES }, { RUN_ROUTES }, { RUN_TRACE_ROUTES }] =
    await Promise.all([
      import("./threads.ts"),
      import("./protocol.ts"),
      import("./crons.ts"),
      import("./runs.ts"),
      import("./traces.ts"),
    ]);
  return [...THREAD_ROUTES, ...PROTOCOL_ROUTES, ...CRON_ROUTES, ...RUN_ROUTES, ...RUN_TRACE_ROUTES];
}

/**
 * Returns a group of routes that is imported for paths with this prefix. It has those routes of threads and runs that
 * begin with the prefix.
 */
const createLazyAgentRoutes = (pathPrefix: Route["path"]): LazyRoutes => ({
  path: pathPrefix,
  load: async () => (await loadAgentRoutes()).filter(({ path }) => path.startsWith(pathPrefix)),
});

/** The routes that few deployments need. */
const LAZY_GROUPS: readonly LazyRoutes[] = [
  { path: "/assistants", load: async () => (await import("./assistants.ts")).ASSISTANT_ROUTES },
  { path: "/store/", load: async () => (await import("./store.ts")).STORE_ROUTES },
  {
    path: "/greenroom/",
    /** Imports the routes of durable events, of operations and of traces. */
    async load() {
      const [{ EVENT_ROUTES }, { OPERATION_ROUTES }, { TRACE_ROUTES }] = await Promise.all([
        import("./durable-events.ts"),
        import("./operations.ts"),
        import("./traces.ts"),
      ]);
      return [...EVENT_ROUTES, ...OPERATION_ROUTES, ...TRACE_ROUTES];
    },
  },
  {
    path: "/api/v1/",
    /** Imports the routes of the platform, of feedback links and of feedback. */
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

/** Loads all routes, in the order in which they match. */
export const loadAllRoutes = async (): Promise<readonly Route[]> => [
  ...UNSUPPORTED_ROUTES,
  ...(await loadAgentRoutes()),
  ...SERVER_ROUTES,
  ...(await Promise.all(LAZY_GROUPS.map(({ load }) => load()))).flat(),
];

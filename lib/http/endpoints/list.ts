/**
 * The endpoints for clients of other protocols. Each is a folder here, a line in this list, and a route group that `http.disable_…`
 * hides.
 */
import type { LazyRoutes } from "../route.ts";

export const ENDPOINTS: readonly LazyRoutes[] = [
  { path: "/ai/", load: async () => (await import("./ai/routes.ts")).AI_ROUTES },
  { path: "/ag-ui/", load: async () => (await import("./ag-ui/routes.ts")).AG_UI_ROUTES },
  { path: "/mcp", load: async () => (await import("./mcp/routes.ts")).MCP_ROUTES },
  {
    path: "/.well-known/oauth-protected-resource",
    load: async () => (await import("./mcp/routes.ts")).MCP_RESOURCE_ROUTES,
  },
  { path: "/a2a/", load: async () => (await import("./a2a/routes.ts")).A2A_ROUTES },
  { path: "/.well-known/agent-card.json", load: async () => (await import("./a2a/routes.ts")).A2A_CARD_ROUTES },
];

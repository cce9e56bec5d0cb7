/** Writes the list of routes for docs/reference/http-routes.md from the route table. */
import { defaultUse } from "../../lib/http/access.ts";
import type { Route } from "../../lib/http/route.ts";

const INTRO = `# HTTP routes

\`\`\`sh
curl -s http://127.0.0.1:2024/ok
\`\`\`

\`\`\`json
{ "ok": true, "services": { "worker": { "ok": true }, "database": { "ok": true } } }
\`\`\`

Paths are relative to the mount: with \`createHandler(service, { prefix: "/agents" })\`, \`/ok\` becomes \`/agents/ok\`.
\`GET /openapi.json\` describes all routes with their request and response schemas.

- Request bodies are JSON, whatever \`Content-Type\` says. \`HEAD\` works wherever \`GET\` does.
- **Permission** is what an [API key](../guides/accounts.md#permissions) needs. Routes with "none" never require a key. The
  handler of a route with "account" checks the permissions of its area, such as \`feedback:create\`. \`join\` and \`stream\` need
  \`runs:create\` with \`cancel_on_disconnect\`. With [custom authentication](../guides/auth.md) your handlers decide instead.
- Without keys and custom authentication, no route requires a credential.
- An \`assistant_id\` is a UUID, or a graph id, which names the default assistant of that graph.
- [Errors](errors.md) lists statuses and bodies. [SDK methods](sdk.md) lists the routes that answer 501.

`;

const PERMISSIONS = {
  read: "`runs:read`",
  run: "`runs:create`",
  change: "`runs:create`",
  open: "none",
  account: "account",
} as const;

function permissionOf({ method, access = defaultUse(method.toUpperCase()) }: Route): string {
  // It depends on the query: a subscriber that can stop the run needs more.
  if (typeof access === "function") return `${PERMISSIONS.read}, ${PERMISSIONS.run}`;
  return PERMISSIONS[access];
}

/** The page: one table for each tag, in the order of the route table. */
export function routesPage(routes: readonly Route[]): string {
  const built = routes.filter(({ handle }) => handle);
  const tables = [...Map.groupBy(built, ({ tag }) => tag)].map(([tag, rows]) => {
    const lines = rows.map((route) => {
      const path = route.path.replace(/:(\w+)\+?/g, "{$1}");
      return `| \`${route.method.toUpperCase()}\` | \`${path}\` | ${route.summary} | ${permissionOf(route)} |`;
    });
    return [`## ${tag}`, "", "| Method | Path | Summary | Permission |", "|---|---|---|---|", ...lines].join("\n");
  });
  const note = "<!-- Written by `node scripts/openapi/mod.ts`. Do not edit. -->";
  return `${note}\n\n${INTRO}${tables.join("\n\n")}\n`;
}

/** Writes the list of routes for docs/reference/http-routes.md from the route table. */
import { getDefaultAccessLevel } from "../../lib/http/access.ts";
import type { Route } from "../../lib/http/route.ts";
import type { JsonObject } from "../../lib/json.ts";

const INTRO = `# HTTP routes

\`\`\`sh
curl -s http://127.0.0.1:2024/ok
\`\`\`

\`\`\`json
{ "ok": true, "services": { "worker": { "ok": true }, "database": { "ok": true } } }
\`\`\`

Paths are relative to the mount: with \`createHandler(service, { prefix: "/agents" })\`, \`/ok\` becomes \`/agents/ok\`.
\`GET /openapi.json\` describes all routes with their schemas, an example of each request and response, and the codes of
their errors. A test sends every example. Types of openapi-typescript compile; the ids of operations never change:

\`\`\`sh elsewhere
npx openapi-typescript@7 http://127.0.0.1:2024/openapi.json -o openapi.d.ts
\`\`\`

- Request bodies are JSON, whatever \`Content-Type\` says. \`HEAD\` works wherever \`GET\` does.
- **Permission** is what an [API key](../guides/accounts.md#permissions) needs. Routes with "none" never require a key. The
  handler of a route with "account" checks the permissions of its area, such as \`feedback:create\`. \`join\` and \`stream\` need
  \`runs:create\` with \`cancel_on_disconnect\`. With [custom authentication](../guides/auth.md) your handlers decide instead.
- Without keys and custom authentication, no route requires a credential.
- An \`assistant_id\` is a UUID, or a graph id, which names the default assistant of that graph.
- [Errors](errors.md) lists statuses and bodies. [SDK methods](sdk.md) lists the routes that return 501.

`;

const PERMISSIONS = {
  read: "`runs:read`",
  run: "`runs:create`",
  change: "`runs:create`",
  open: "none",
  account: "account",
} as const;

function formatPermission({ method, access = getDefaultAccessLevel(method.toUpperCase()) }: Route): string {
  // It depends on the query: a subscriber that can stop the run needs more.
  if (typeof access === "function") return `${PERMISSIONS.read}, ${PERMISSIONS.run}`;
  return PERMISSIONS[access];
}

const PAGES = `## Page sizes

A list returns at most \`limit\` items, and \`offset\` skips items. Searches for assistants, threads and crons also return the number of
matches in \`X-Pagination-Total\` and the next offset in \`X-Pagination-Next\`. The lists under \`/greenroom\` return \`next\`: send it as
\`cursor\`. For the next page of a history, send the id of its last checkpoint as \`before\`.

| Default | At most | Routes |
|---|---|---|
`;

/** The parts of an OpenAPI document that say how many items a list returns. */
interface Schema {
  readonly $ref?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly anyOf?: readonly Schema[];
  readonly default?: number;
  readonly maximum?: number;
}
interface Operation {
  readonly parameters?: readonly { readonly name?: string; readonly schema?: Schema }[];
  readonly requestBody?: { readonly content?: { readonly "application/json"?: { readonly schema?: Schema } } };
}

/** Returns the rows of the default and the highest `limit` of the lists. */
function pageSizes({ paths, components }: JsonObject): string {
  const { schemas } = components as unknown as { readonly schemas: Readonly<Record<string, Schema>> };
  const operations = Object.entries(paths as unknown as Readonly<Record<string, Readonly<Record<string, Operation>>>>);
  const sizes = operations.flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { parameters, requestBody }]) => {
      const body = requestBody?.content?.["application/json"]?.schema;
      const { properties } = body?.$ref ? (schemas[body.$ref.split("/").at(-1) as string] ?? {}) : (body ?? {});
      const limit = parameters?.find(({ name }) => name === "limit")?.schema ?? properties?.limit;
      if (!limit) return [];
      const most = limit.maximum ?? limit.anyOf?.find(({ maximum }) => maximum !== undefined)?.maximum;
      return [{ size: `| ${limit.default} | ${most} |`, route: `\`${method.toUpperCase()} ${path}\`` }];
    }),
  );
  return [...Map.groupBy(sizes, ({ size }) => size)]
    .map(([size, rows]) => `${size} ${rows.map(({ route }) => route).join(", ")} |`)
    .join("\n");
}

/** Returns the page: a table for each tag, in the order of the route table, and the page sizes of the OpenAPI document. */
export function routesPage(routes: readonly Route[], document: JsonObject): string {
  const built = routes.filter(({ handle }) => handle);
  const tables = [...Map.groupBy(built, ({ tag }) => tag)].map(([tag, rows]) => {
    const lines = rows.map((route) => {
      const path = route.path.replace(/:(\w+)\+?/g, "{$1}");
      return `| \`${route.method.toUpperCase()}\` | \`${path}\` | ${route.summary} | ${formatPermission(route)} |`;
    });
    return [`## ${tag}`, "", "| Method | Path | Summary | Permission |", "|---|---|---|---|", ...lines].join("\n");
  });
  const note = "<!-- Written by `node scripts/openapi/mod.ts`. Do not edit. -->";
  return `${note}\n\n${INTRO}${tables.join("\n\n")}\n\n${PAGES}${pageSizes(document)}\n`;
}

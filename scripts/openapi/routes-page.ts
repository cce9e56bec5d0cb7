/** Writes the list of routes for docs/reference/http-routes.md from the OpenAPI document. */
import type { JsonObject } from "../../lib/json.ts";

interface Described {
  readonly tags: readonly string[];
  readonly summary: string;
  readonly security?: readonly [];
}

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
- Routes marked *open* never require a key. The others require one if the service has [authentication](../guides/auth.md) or
  [API keys](../guides/accounts.md).
- A key needs the permission \`runs:read\` for \`GET\`, and for \`POST\` to \`…/search\`, \`…/count\`, \`…/history\`, \`…/versions\`,
  \`…/namespaces\` and \`…/state/checkpoint\`. Other routes need \`runs:create\`. Routes under \`/api/v1\` have
  [permissions](../guides/accounts.md#permissions) of their area.
- An \`assistant_id\` is a UUID, or a graph id, which names the default assistant of that graph.
- [Errors](errors.md) lists statuses and bodies. [SDK methods](sdk.md) lists the routes that answer 501.

`;

type Paths = Readonly<Record<string, Readonly<Record<string, Described>>>>;

/** The page: one table for each tag, in the order of the document. */
export function routesPage(document: JsonObject): string {
  const byTag = new Map<string, string[]>();
  for (const [path, methods] of Object.entries(document.paths as unknown as Paths)) {
    for (const [method, { tags, summary, security }] of Object.entries(methods)) {
      const [tag = ""] = tags;
      const open = security === undefined ? "" : " *(open)*";
      const row = `| \`${method.toUpperCase()}\` | \`${path}\` | ${summary}${open} |`;
      byTag.set(tag, [...(byTag.get(tag) ?? []), row]);
    }
  }
  const tables = [...byTag].map(([tag, rows]) =>
    [`## ${tag}`, "", "| Method | Path | Summary |", "|---|---|---|", ...rows].join("\n"),
  );
  const note = "<!-- Written by `node scripts/openapi/mod.ts`. Do not edit. -->";
  return `${note}\n\n${INTRO}${tables.join("\n\n")}\n`;
}

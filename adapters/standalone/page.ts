/** The page at `/`: what this is, which graphs it serves, and something to try. */
import type { AuthMode } from "../../lib/mod.ts";

const escaped = (text: string): string => text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);

const ASKS: Readonly<Record<AuthMode, string>> = {
  none: "It has no authentication and answers on this machine only.",
  api_key: "Requests need an API key.",
  agent_builder: "Requests need an API key.",
  custom: "It has custom authentication.",
};

/** One plain HTML document without scripts or links to other hosts. */
export function page(url: string, graphs: readonly string[], mode: AuthMode): string {
  const keyed = mode === "api_key" || mode === "agent_builder";
  const graph = graphs[0] ?? "GRAPH";
  const body = JSON.stringify({
    assistant_id: graph,
    input: { messages: [{ role: "user", content: "Hello" }] },
    stream_mode: ["updates"],
  });
  const curl = `curl -N ${url}/runs/stream -H 'content-type: application/json'${keyed ? ' -H "X-API-Key: $KEY"' : ""} -d '${body.replaceAll("'", "'\\''")}'`;
  const sdk = `import { Client } from "@langchain/langgraph-sdk";\nconst client = new Client({ apiUrl: "${url}"${keyed ? ", apiKey: KEY" : ""} });`;
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Greenroom</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 3rem auto; padding: 0 1rem; color-scheme: light dark }
pre { padding: 1rem; overflow-x: auto; border: 1px solid #8888; border-radius: 6px }
</style>
<h1>Greenroom</h1>
<p>This server hosts agents behind the assistants, threads and runs API. ${ASKS[mode]}</p>
<h2>Graphs</h2>
<ul>${graphs.map((name) => `<li><code>${escaped(name)}</code></li>`).join("")}</ul>
<h2>Try one</h2>
<pre>${escaped(curl)}</pre>
<p>Or point the SDK here:</p>
<pre>${escaped(sdk)}</pre>
<p><a href="docs">API reference</a> · <a href="openapi.json">openapi.json</a> · <a href="info">info</a> · <a href="ok">ok</a></p>
</html>
`;
}

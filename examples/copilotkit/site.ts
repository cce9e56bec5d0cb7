// CopilotKit's runtime and page for the agent of server.ts. docs/guides/ag-ui.md says what to install, and how to start it.
import process from "node:process";
import { HttpAgent } from "@ag-ui/client";
import { CopilotRuntime, createCopilotRuntimeHandler, InMemoryAgentRunner } from "@copilotkit/runtime/v2";
import { build } from "esbuild";
import { serve } from "greenroom/node";

// HttpAgent rejects twice when its connection breaks. The second time nothing catches it, and Node would exit.
process.on("unhandledRejection", (error) => console.error(error));

const runtime = new CopilotRuntime({
  agents: { default: new HttpAgent({ url: "http://127.0.0.1:2024/ag-ui/support" }) },
  runner: new InMemoryAgentRunner(),
});
const copilotkit = createCopilotRuntimeHandler({ runtime, basePath: "/copilotkit" });

const { outputFiles } = await build({
  entryPoints: ["page.tsx"],
  bundle: true,
  minify: true,
  write: false,
  outdir: "public",
  jsx: "automatic",
  loader: { ".woff": "empty", ".woff2": "empty", ".ttf": "empty" },
});
const files = new Map(outputFiles.map(({ path, text }) => [path.replace(/.*[/\\]/, "/"), text]));
const html = '<link rel="stylesheet" href="/page.css"><div id="root"></div><script src="/page.js"></script>';

async function answer(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  if (pathname.startsWith("/copilotkit")) return await copilotkit(request);
  const type = pathname.endsWith(".js") ? "text/javascript" : pathname.endsWith(".css") ? "text/css" : "text/html";
  return new Response(files.get(pathname) ?? html, { headers: { "content-type": type } });
}
const site = await serve(answer, { hostname: "127.0.0.1", port: 3000 });
console.log(`Listening on ${site.url}`);

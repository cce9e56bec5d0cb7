// A page with thumbs for what an agent answers, after npm run build. Bun: npx bun examples/feedback.ts; Deno: npx deno serve
// -A --host 127.0.0.1 --port 3000 examples/feedback.ts; on Node hand `fetch` to a server as node.ts does.
import { readFile } from "node:fs/promises";
import process from "node:process";
import { createService, fromFunctions } from "greenroom";
import { nodeSqlite } from "greenroom/node-sqlite";
import { createHandler } from "greenroom/server";

const service = await createService({
  storage: nodeSqlite("agents.db"),
  executor: fromFunctions({
    async *guide({ messages }) {
      for (const word of `You asked ${messages.length} question, here is one answer.`.split(/(?<= )/)) yield word;
    },
  }),
  // Links leave the process, in events and mails: what they start with is said here, and is not guessed from a request.
  public_base_url: `${process.env.PUBLIC_BASE_URL ?? "http://127.0.0.1:3000"}/agents`,
});
const agents = createHandler(service, { prefix: "/agents" });
const page = await readFile(new URL("feedback.html", import.meta.url));

export default {
  port: Number(process.env.PORT ?? 3000),
  hostname: "127.0.0.1",
  idleTimeout: 0,
  fetch: (request: Request): Response | Promise<Response> =>
    new URL(request.url).pathname === "/"
      ? new Response(page, { headers: { "content-type": "text/html; charset=utf-8" } })
      : agents(request),
};

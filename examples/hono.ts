// Agents beside the routes of a Hono application, after npm run build. Bun: npx bun examples/hono.ts; Deno: npx deno serve
// -A --host 127.0.0.1 --port 3000 examples/hono.ts; on Node hand `fetch` to `serve` of @hono/node-server.
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { createService, fromFunctions } from "greenroom";
import { nodeSqlite } from "greenroom/node-sqlite";
import { createHandler } from "greenroom/server";
import { Hono } from "hono";

const service = await createService({
  storage: nodeSqlite("agents.db"),
  executor: fromFunctions({
    async *counter({ messages, signal }) {
      for (let n = 1; n <= Number(messages.at(-1)?.content); n++) {
        yield `${n} `;
        await sleep(20, undefined, { signal });
      }
    },
  }),
});
const agents = createHandler(service, { prefix: "/api/agents" });

const app = new Hono();
app.get("/", (c) => c.text("The application's own page"));
app.use("/api/agents/*", async (c, next) => {
  // The application decides who gets in.
  if (c.req.header("authorization") !== "Bearer let-me-in") return c.json({ detail: "Log in first" }, 401);
  await next();
});
// The request as it came: nothing before this may read its body.
app.all("/api/agents/*", (c) => agents(c.req.raw));

process.once("SIGTERM", async () => {
  await service.stop();
  process.exit(0);
});
export default { port: Number(process.env.PORT ?? 3000), hostname: "127.0.0.1", idleTimeout: 0, fetch: app.fetch };

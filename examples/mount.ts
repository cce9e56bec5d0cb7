// Greenroom inside an application of your own: npm run build && npx bun examples/mount.ts
import { createService, fromFunctions } from "greenroom";
import { bunSqlite } from "greenroom/bun-sqlite";
import { createHandler } from "greenroom/server";

const service = await createService({
  storage: bunSqlite("app.db"),
  executor: fromFunctions({
    async *greeter({ messages }) {
      yield `You have written ${messages.length} messages so far.`;
    },
  }),
});
const agents = createHandler(service, { prefix: "/agents" });

const server = Bun.serve({
  hostname: "127.0.0.1",
  idleTimeout: 0,
  routes: {
    "/": () => new Response("The application's own page"),
    // The application decides who gets in; clients use apiUrl: "https://…/agents".
    "/agents/*": (request) =>
      request.headers.get("authorization") === "Bearer let-me-in"
        ? agents(request)
        : new Response(null, { status: 401 }),
  },
});
console.log(`Listening on ${server.url.origin}`);
process.on("SIGTERM", async () => {
  await service.stop();
  process.exit(0);
});

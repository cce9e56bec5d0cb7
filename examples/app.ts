// The smallest service, on Node, Bun and Deno: npm run build && npx node examples/app.ts
import process from "node:process";
import { createApp } from "greenroom/app";
import { serve } from "greenroom/node";

const app = await createApp({
  database: "agents.db",
  agents: {
    async *echo({ messages }) {
      yield `You said ${messages.at(-1)?.content}`;
    },
  },
});
const server = await serve(app.fetch, { port: Number(process.env.PORT ?? 3000) });
console.log(`Listening on ${server.url}`);
process.once("SIGTERM", () => void app.stop().then(() => process.exit(0)));

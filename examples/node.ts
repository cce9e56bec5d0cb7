// The same on Node (22.18 or newer), whose own server speaks no Request and Response:
// npm run build && npx node examples/node.ts
import { createService, fromFunctions } from "greenroom";
import { serve } from "greenroom/node";
import { nodeSqlite } from "greenroom/node-sqlite";
import { createHandler } from "greenroom/server";

const service = await createService({
  storage: nodeSqlite("agents.db"),
  executor: fromFunctions({
    async *echo({ input }) {
      yield { messages: [`You sent ${JSON.stringify(input)}`] };
    },
  }),
});

const server = await serve(createHandler(service), { port: Number(process.env.PORT ?? 3000) });
console.log(`Listening on ${server.url}`);
process.once("SIGTERM", () => void service.stop().then(() => process.exit(0)));

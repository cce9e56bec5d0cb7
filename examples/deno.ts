// The same on Deno: npm run build && npx deno run -A examples/deno.ts
import { createService, fromFunctions } from "greenroom";
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
Deno.serve({
  hostname: "127.0.0.1",
  port: Number(Deno.env.get("PORT") ?? 3000),
  handler: createHandler(service),
  onListen: ({ port }) => console.log(`Listening on http://127.0.0.1:${port}`),
});

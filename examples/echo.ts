// The smallest service, on Bun: npm run build && npx bun examples/echo.ts
import { createService, fromFunctions } from "greenroom";
import { bunSqlite } from "greenroom/bun-sqlite";
import { createHandler } from "greenroom/server";

const service = await createService({
  storage: bunSqlite("agents.db"),
  executor: fromFunctions({
    async *echo({ input }) {
      yield { messages: [`You sent ${JSON.stringify(input)}`] };
    },
  }),
});
const server = Bun.serve({ hostname: "127.0.0.1", idleTimeout: 0, fetch: createHandler(service) });
console.log(`Listening on ${server.url.origin}`);

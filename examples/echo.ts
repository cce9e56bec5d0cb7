// The smallest service, on Bun: bun examples/echo.ts
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
const server = Bun.serve({ fetch: createHandler(service), idleTimeout: 0 });
console.log(`Listening on ${server.url.origin}`);

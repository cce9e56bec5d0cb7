// Agents beside the routes of an Express application: npm run build && npx node examples/express.ts
import express from "express";
import { createService, fromFunctions } from "greenroom";
import { toNodeHandler } from "greenroom/node";
import { nodeSqlite } from "greenroom/node-sqlite";
import { createHandler } from "greenroom/server";

const service = await createService({
  storage: nodeSqlite("agents.db"),
  executor: fromFunctions({
    async *greeter({ messages }) {
      yield `You have written ${messages.length} messages so far.`;
    },
  }),
});
const app = express();

// Before express.json(): the handler reads the bodies of these requests itself.
app.use("/api/agents", toNodeHandler(createHandler(service, { prefix: "/api/agents" })));
app.use(express.json());
app.post("/orders", ({ body }, outgoing) => void outgoing.json({ ordered: body.item }));

const server = app.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", () => {
  const address = server.address();
  if (address && typeof address === "object") console.log(`Listening on http://127.0.0.1:${address.port}`);
});
process.once("SIGTERM", () => void service.stop().then(() => process.exit(0)));

// Agents beside the routes of an Express application: npm run build && npx node examples/express.ts
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream } from "node:stream/web";
import express from "express";
import { createService, fromFunctions } from "greenroom";
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
const agents = createHandler(service, { prefix: "/api/agents" });
const app = express();

// Before express.json(): the bodies of these requests are read by the handler, as they came.
app.use("/api/agents", async (incoming, outgoing) => {
  const { method, originalUrl, headers } = incoming;
  const body = method === "GET" || method === "HEAD" ? null : Readable.toWeb(incoming);
  const init = { method, headers, body, duplex: "half" } as unknown as RequestInit;
  const response = await agents(new Request(`http://localhost${originalUrl}`, init));
  outgoing.writeHead(response.status, Object.fromEntries(response.headers)).flushHeaders();
  const bytes = (response.body ?? new Blob().stream()) as unknown as ReadableStream;
  // A client that goes away ends the pipeline, which cancels the response's body.
  await pipeline(Readable.fromWeb(bytes), outgoing).catch(() => {});
});
app.use(express.json());
app.post("/orders", ({ body }, outgoing) => void outgoing.json({ ordered: body.item }));

const server = app.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", () => {
  const address = server.address();
  if (address && typeof address === "object") console.log(`Listening on http://127.0.0.1:${address.port}`);
});
process.once("SIGTERM", () => void service.stop().then(() => process.exit(0)));

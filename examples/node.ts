// The same on Node (22.18 or newer), whose own server speaks no Request and Response: node examples/node.ts
import { createServer } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
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
const handler = createHandler(service);

const server = createServer(async (incoming, outgoing) => {
  const { method = "GET", url, headers } = incoming;
  const body = method === "GET" || method === "HEAD" ? null : Readable.toWeb(incoming);
  const request = { method, headers, body, duplex: "half" } as unknown as RequestInit;
  const response = await handler(new Request(`http://${headers.host}${url}`, request));
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  // A client that goes away ends the pipeline, which cancels the response's body.
  await pipeline(response.body ?? [], outgoing).catch(() => {});
});
server.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", () => {
  const address = server.address();
  if (address && typeof address === "object") console.log(`Listening on http://127.0.0.1:${address.port}`);
});

// The same on Node (22.18 or newer), whose own server speaks no Request and Response:
// npm run build && npx node examples/node.ts
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream } from "node:stream/web";
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

async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const { method = "GET", url, headers } = incoming;
  const body = method === "GET" || method === "HEAD" ? null : Readable.toWeb(incoming);
  const request = { method, headers, body, duplex: "half" } as unknown as RequestInit;
  const response = await handler(new Request(`http://${headers.host}${url}`, request));
  outgoing.writeHead(response.status, Object.fromEntries(response.headers)).flushHeaders();
  const bytes = (response.body ?? new Blob().stream()) as unknown as ReadableStream;
  // A client that goes away ends the pipeline, which cancels the response's body.
  await pipeline(Readable.fromWeb(bytes), outgoing);
}
const server = createServer((incoming, outgoing) => {
  answer(incoming, outgoing).catch(() => outgoing.destroy());
});
server.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", () => {
  const address = server.address();
  if (address && typeof address === "object") console.log(`Listening on http://127.0.0.1:${address.port}`);
});
process.once("SIGTERM", () => void service.stop().then(() => process.exit(0)));

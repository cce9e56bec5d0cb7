// The smallest HTTP server that answers /ok and streams one event: what the runtime and HTTP cost alone.
//   bun|node bench/plain-server.mjs
import http from "node:http";

const event = "event: metadata\ndata: {}\n\n";

function listenOnBun() {
  const encoder = new TextEncoder();
  const fetch = async (request) => {
    const { pathname } = new URL(request.url);
    if (pathname === "/ok") return Response.json({ ok: true });
    await request.json();
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(encoder.encode(event));
        controller.close();
      },
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  };
  return Bun.serve({ port: 0, hostname: "127.0.0.1", fetch }).port;
}

async function listenOnNode() {
  const server = http.createServer(async (request, response) => {
    if (request.url === "/ok") return response.end('{"ok":true}');
    for await (const _ of request);
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(event);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server.address().port;
}

console.log(`listening on http://127.0.0.1:${globalThis.Bun ? listenOnBun() : await listenOnNode()}`);

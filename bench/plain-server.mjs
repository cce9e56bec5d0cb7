// The smallest HTTP server that answers what the load asks for, without doing anything: what HTTP itself costs.
// With "langgraph" as argument it loads the graphs first: what loading LangGraph costs.
import http from "node:http";

if (process.argv[2] === "langgraph") await import("./peers/graphs.mjs");
const event = "event: metadata\ndata: {}\n\n";

function listenOnBun() {
  const stream = () => {
    const encoder = new TextEncoder();
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(encoder.encode(event));
        controller.close();
      },
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  };
  const fetch = async (request) => {
    const { pathname } = new URL(request.url);
    if (pathname === "/ok") return Response.json({ ok: true });
    const body = await request.json();
    return pathname === "/runs/stream" ? stream() : Response.json(body);
  };
  return Bun.serve({ port: 0, hostname: "127.0.0.1", fetch }).port;
}

async function listenOnNode() {
  const server = http.createServer(async (request, response) => {
    if (request.url === "/ok") return response.end('{"ok":true}');
    const parts = [];
    for await (const part of request) parts.push(part);
    const body = JSON.parse(Buffer.concat(parts).toString());
    if (request.url !== "/runs/stream") return response.end(JSON.stringify(body));
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(event);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server.address().port;
}

console.log(`listening on http://127.0.0.1:${globalThis.Bun ? listenOnBun() : await listenOnNode()}`);

/** A reverse proxy as people put before a server: it takes a prefix away, says who asked, and holds nothing back. */
import { createServer, request as send } from "node:http";
import type { AddressInfo, Socket } from "node:net";

export interface StrippingProxy extends AsyncDisposable {
  /** The address of the server, with the prefix. */
  readonly url: string;
  /** Paths that were passed on, without the prefix. */
  readonly passed: string[];
}

export async function openStrippingProxy(port: number, prefix: string): Promise<StrippingProxy> {
  const passed: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((incoming, outgoing) => {
    const { url = "/", method = "GET", headers, socket } = incoming;
    incoming.on("error", () => {});
    outgoing.on("error", () => {});
    if (!url.startsWith(`${prefix}/`)) {
      outgoing.writeHead(404).end("the proxy knows nothing there");
      return;
    }
    const path = url.slice(prefix.length);
    passed.push(`${method} ${path}`);
    const forwarded = {
      "x-forwarded-for": socket.remoteAddress ?? "",
      "x-forwarded-host": "evil.example",
      "x-forwarded-proto": "https",
      "x-forwarded-prefix": "/elsewhere",
      forwarded: "host=evil.example;proto=https",
    };
    const upstream = send(
      { host: "127.0.0.1", port, method, path, agent: false, headers: { ...headers, ...forwarded } },
      (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        outgoing.flushHeaders();
        answer.on("error", () => outgoing.destroy());
        answer.pipe(outgoing);
      },
    );
    upstream.on("error", () => outgoing.destroy());
    // Whoever goes away is gone for the server too.
    outgoing.on("close", () => upstream.destroy());
    incoming.pipe(upstream);
  });
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${prefix}`,
    passed,
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

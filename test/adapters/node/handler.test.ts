/** `greenroom/node`: fetch handlers behind `node:http` and Express, whatever those do to a request first. */
import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { describe, it } from "node:test";
import express from "express";
import { type FetchHandler, serve, toNodeHandler } from "../../../adapters/node/mod.ts";
import { runtime } from "../../support/programs.ts";

/** Answers with what it was sent. */
const echo: FetchHandler = async (request) => {
  const { pathname, search } = new URL(request.url);
  return Response.json({ method: request.method, path: pathname + search, body: await request.text() });
};

async function startListening(server: Server): Promise<{ readonly url: string } & AsyncDisposable> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Sends text on one connection; `until` resolves with all that came, once it has a match. */
function dial(port: number): { send(text: string): void; until(pattern: RegExp): Promise<string> } & Disposable {
  let came = "";
  let look = (): void => {};
  const socket = connect(port, "127.0.0.1");
  socket.on("data", (bytes) => {
    came += bytes;
    look();
  });
  socket.on("error", () => {});
  return {
    send: (text) => void socket.write(text),
    until: (pattern) =>
      new Promise((resolve, reject) => {
        look = () => pattern.test(came) && resolve(came);
        socket.once("close", () => reject(new Error(`closed before ${pattern}:\n${came}`)));
        look();
      }),
    [Symbol.dispose]: () => void socket.destroy(),
  };
}

describe(`greenroom/node on ${runtime}`, () => {
  it("serves on a port, and closes", async () => {
    const server = await serve(echo, { port: 0 });
    assert.equal(server.url, `http://127.0.0.1:${server.port}`);
    const answer = await fetch(`${server.url}/a?b=c`, { method: "POST", body: "text" });
    assert.deepEqual(await answer.json(), { method: "POST", path: "/a?b=c", body: "text" });
    const errorCode = await serve(echo, { port: server.port }).catch((error: { code?: string }) => error.code);
    assert.equal(errorCode, "EADDRINUSE");
    await server.close();
    await assert.rejects(fetch(server.url));
  });

  it("is a request listener of node:http, which responds before the body of the request has ended", async () => {
    const upper: FetchHandler = ({ body }) =>
      new Response(
        body?.pipeThrough(
          new TransformStream<Uint8Array, Uint8Array>({
            transform: (bytes, controller) =>
              controller.enqueue(new TextEncoder().encode(new TextDecoder().decode(bytes).toUpperCase())),
          }),
        ) ?? null,
      );
    await using server = await startListening(createServer(toNodeHandler(upper)));
    using client = dial(Number(new URL(server.url).port));
    client.send("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n");
    await client.until(/ONE/);
    client.send("3\r\ntwo\r\n0\r\n\r\n");
    await client.until(/TWO[\s\S]*0\r\n\r\n/);
  });

  it("receives Express's whole path, and the body that came while a middleware waited", async () => {
    const app = express();
    app.use(async (_incoming, _outgoing, next) => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      next();
    });
    app.use("/agents", toNodeHandler(echo));
    await using server = await startListening(createServer(app));
    const answer = await fetch(`${server.url}/agents/runs?wait=1`, { method: "POST", body: "early" });
    assert.deepEqual(await answer.json(), { method: "POST", path: "/agents/runs?wait=1", body: "early" });
  });

  it("reports a body that a body parser has read", async () => {
    const app = express();
    app.use(express.json(), toNodeHandler(echo));
    await using server = await startListening(createServer(app));
    const headers = { "content-type": "application/json" };
    const answer = await fetch(server.url, { method: "POST", headers, body: "{}" });
    assert.equal(answer.status, 500);
    assert.match(((await answer.json()) as { detail: string }).detail, /before it, as before express\.json\(\)/);
    // Nothing was there to be read.
    assert.equal((await fetch(server.url, { method: "POST", headers })).status, 200);
  });

  if (runtime === "node") {
    it("keeps a connection whose unread body arrived, and closes one whose did not", async (t) => {
      t.mock.timers.enable({ apis: ["setTimeout"] });
      const [arrived, handlerStarted] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const server = await serve(
        async (request) => {
          if (request.method === "POST") return new Response("refused", { status: 401 });
          arrived.resolve();
          await handlerStarted.promise;
          return new Response("served");
        },
        { port: 0 },
      );
      await using _closed = { [Symbol.asyncDispose]: () => server.close() };
      const unread = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 200000\r\n\r\n";
      using connection = dial(server.port);
      connection.send(unread);
      await connection.until(/refused/);
      connection.send("x".repeat(200_000));
      connection.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
      using ended = dial(server.port);
      ended.send(unread);
      await ended.until(/refused/);
      await arrived.promise;
      t.mock.timers.tick(10_000);
      await assert.rejects(ended.until(/never/), /closed before/);
      handlerStarted.resolve();
      await connection.until(/served/);
    });
  }
});

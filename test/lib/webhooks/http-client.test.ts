/** Webhook requests on real sockets. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from "node:net";
import { join, relative } from "node:path";
import { describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import { type OutboundRequest, SendError, type SendRequest } from "../../../lib/webhooks/http-client.ts";
import { createSystemTransport } from "../../../lib/webhooks/system-transport.ts";
import { createTemporaryFolder, root, start } from "../../support/programs.ts";

const never = new AbortController().signal;

interface Receiver extends AsyncDisposable {
  readonly port: number;
  /** Resolves when the first connection is closed. */
  readonly closed: Promise<void>;
}

async function on(server: Server, hostname = "127.0.0.1"): Promise<Receiver> {
  const sockets = new Set<Socket>();
  const closed = new Promise<void>((resolve) =>
    server.on("connection", (socket: Socket) => {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => resolve());
    }),
  );
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, hostname, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    closed,
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

const receiving = (handler: RequestListener, hostname?: string): Promise<Receiver> =>
  on(createServer(handler), hostname);

async function transport() {
  const system = await createSystemTransport();
  assert.ok(system);
  return system;
}

function aRequest(port: number, requestFields: Partial<OutboundRequest> = {}): OutboundRequest {
  return {
    url: `http://pinned.example:${port}/in?key=1&b=%20`,
    method: "POST",
    headers: [["content-type", "application/json; charset=utf-8"]],
    body: '{"a":"é😀"}',
    timeout_ms: 30_000,
    connect_timeout_ms: 20_000,
    ...requestFields,
  };
}

async function readErrorCode(response: ReturnType<SendRequest>): Promise<string> {
  const error = await response.then(
    () => assert.fail("it was answered"),
    (cause: unknown) => cause,
  );
  assert.ok(error instanceof SendError, String(error));
  return error.code;
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of request) chunks.push(chunk as Uint8Array);
  return new TextDecoder().decode(new Uint8Array(chunks.flatMap((chunk) => [...chunk])));
}

describe("sendHttpRequest", () => {
  it("connects to the given address, whatever the name resolves to, and keeps the name in Host", async () => {
    const requests: unknown[] = [];
    await using receiver = await receiving(async (request, response) => {
      const { method, url, headers } = request;
      requests.push({
        method,
        url,
        host: headers.host,
        "content-type": headers["content-type"],
        custom: headers["x-custom"],
      });
      requests.push(headers["content-length"], headers["transfer-encoding"], await readBody(request));
      response.writeHead(202, { "Retry-After": "7" }).end("taken");
    });
    const { send } = await transport();
    const headers = [...aRequest(0).headers, ["X-Custom", "Bearer ÿ"] as const];
    const answer = await send(aRequest(receiver.port, { headers }), ["127.0.0.1"], never);
    const body = new TextEncoder().encode("taken");
    assert.deepEqual(answer, { status: 202, retry_after: "7", address: "127.0.0.1", body });
    assert.deepEqual(requests, [
      {
        method: "POST",
        url: "/in?key=1&b=%20",
        host: `pinned.example:${receiver.port}`,
        "content-type": "application/json; charset=utf-8",
        custom: "Bearer ÿ",
      },
      "14",
      undefined,
      '{"a":"é😀"}',
    ]);
  });

  it("tries the given addresses until one connects", async () => {
    await using receiver = await receiving((_request, response) => void response.end());
    const { send } = await transport();
    const answer = await send(aRequest(receiver.port), ["127.0.0.2", "127.0.0.1"], never);
    assert.equal(answer.status, 200);
  });

  it("ignores proxies of the environment", async () => {
    const proxied: unknown[] = [];
    await using proxy = await receiving((request, response) => {
      proxied.push(request.url);
      response.end();
    });
    await using receiver = await receiving((_request, response) => void response.writeHead(201).end());
    using folder = createTemporaryFolder();
    const program = join(folder.path, "send.ts");
    const source = pathToFileURL(join(root, "lib/webhooks/system-transport.ts")).href;
    const request = JSON.stringify(aRequest(receiver.port));
    await writeFile(
      program,
      `import { createSystemTransport } from ${JSON.stringify(source)};
      const { send } = await createSystemTransport();
      console.log("status", (await send(${request}, ["127.0.0.1"], new AbortController().signal)).status);`,
    );
    const http_proxy = `http://127.0.0.1:${proxy.port}`;
    // Proxy variables apply from the start of a process.
    await using sender = start(relative(root, program), [], {
      cwd: folder.path,
      env: { NODE_USE_ENV_PROXY: "1", HTTP_PROXY: http_proxy, http_proxy, NO_PROXY: "", no_proxy: "" },
    });
    assert.equal((await sender.printed(/status (\d+)/))[1], "201");
    assert.deepEqual(proxied, []);
  });

  it("opens a connection for each request", async () => {
    const ports = new Set<number | undefined>();
    await using receiver = await receiving((request, response) => {
      ports.add(request.socket.remotePort);
      response.end();
    });
    const { send } = await transport();
    for (let i = 0; i < 3; i++) await send(aRequest(receiver.port), ["127.0.0.1"], never);
    assert.equal(ports.size, 3);
  });

  it("does not follow redirects", async () => {
    let requests = 0;
    await using receiver = await receiving((request, response) => {
      requests++;
      response.writeHead(307, { Location: `http://127.0.0.1:${request.socket.localPort}/elsewhere` }).end();
    });
    const { send } = await transport();
    assert.equal((await send(aRequest(receiver.port), ["127.0.0.1"], never)).status, 307);
    assert.equal(requests, 1);
  });

  it("times out if the receiver does not respond, and if it does not finish", async () => {
    await using silent = await receiving(() => {});
    await using slow = await receiving((_request, response) => void response.writeHead(200).write("."));
    const { send } = await transport();
    for (const receiver of [silent, slow]) {
      assert.equal(
        await readErrorCode(send(aRequest(receiver.port, { timeout_ms: 300 }), ["127.0.0.1"], never)),
        "timeout",
      );
      await receiver.closed;
    }
  });

  it("times out early while it connects, and not while the response is slow", async () => {
    // It accepts connections and never completes the TLS handshake.
    await using mute = await on(createTcpServer(() => {}));
    const ticks: (() => void)[] = [];
    await using slow = await receiving((_request, response) => {
      // The connect timeout has passed only now and must not apply any more.
      for (const tick of ticks) tick();
      response.end();
    });
    const { send } = await transport();
    const url = `https://pinned.example:${mute.port}/`;
    const request = aRequest(mute.port, { url, connect_timeout_ms: 300 });
    assert.equal(await readErrorCode(send(request, ["127.0.0.1"], never)), "timeout");
    const system = await createSystemTransport({
      timer(ms, fn) {
        if (ms !== 777) return () => {};
        ticks.push(fn);
        return () => void ticks.pop();
      },
    });
    assert.ok(system);
    const answered = system.send(aRequest(slow.port, { connect_timeout_ms: 777 }), ["127.0.0.1"], never);
    assert.equal((await answered).status, 200);
  });

  it("reads no more of a response than it needs", async () => {
    await using receiver = await receiving((_request, response) => {
      response.writeHead(200);
      const pour = (): void => {
        while (!response.destroyed && response.write("x".repeat(4096)));
      };
      response.on("drain", pour);
      pour();
    });
    const { send } = await transport();
    assert.equal((await send(aRequest(receiver.port), ["127.0.0.1"], never)).status, 200);
    await receiver.closed;
  });

  it("fails if nobody listens, if the connection breaks and if the response is empty", async () => {
    const goneReceiver = await receiving(() => {});
    await goneReceiver[Symbol.asyncDispose]();
    await using breaking = await receiving((request) => void request.socket.destroy());
    await using odd = await on(createTcpServer((socket) => void socket.end("SSH-2.0-none\r\n\r\n")));
    await using huge = await on(
      createTcpServer((socket) => void socket.end(`HTTP/1.1 200 OK\r\n${"x: y\r\n".repeat(100_000)}\r\n`)),
    );
    const { send } = await transport();
    for (const { port } of [goneReceiver, breaking, odd]) {
      assert.equal(await readErrorCode(send(aRequest(port), ["127.0.0.1"], never)), "network_error");
    }
    await send(aRequest(huge.port), ["127.0.0.1"], never).catch((error) => assert.ok(error instanceof SendError));
  });

  it("is aborted by its signal", async () => {
    const stop = new AbortController();
    await using receiver = await receiving(() => stop.abort());
    const { send } = await transport();
    assert.equal(await readErrorCode(send(aRequest(receiver.port), ["127.0.0.1"], stop.signal)), "aborted");
    await receiver.closed;
    assert.equal(await readErrorCode(send(aRequest(receiver.port), ["127.0.0.1"], stop.signal)), "aborted");
  });

  it("connects to IPv6 addresses if the machine has them", async () => {
    const receiver = await receiving((request, response) => {
      response.writeHead(request.headers.host?.startsWith("[::1]:") ? 201 : 200).end();
    }, "::1").catch(() => null);
    if (!receiver) return;
    await using _ = receiver;
    const { send } = await transport();
    const named = await send(aRequest(receiver.port), ["::1"], never);
    assert.deepEqual([named.status, named.address], [200, "::1"]);
    const literal = await send(aRequest(0, { url: `http://[::1]:${receiver.port}/` }), ["::1"], never);
    assert.equal(literal.status, 201);
  });
});

describe("the DNS look-up of a webhook's host", () => {
  it("returns addresses, also those of the hosts file", async () => {
    const { resolve } = await transport();
    const addresses = await resolve("localhost");
    assert.ok(addresses.length > 0);
    for (const address of addresses) assert.match(address, /^(?:127\.0\.0\.1|::1)$/);
  });

  it("rejects for an invalid name", async () => {
    const { resolve } = await transport();
    await assert.rejects(resolve("nowhere.invalid"));
  });
});

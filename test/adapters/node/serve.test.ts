import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { describe, it } from "node:test";
import { type Listener, PortTaken, serve } from "../../../adapters/node/mod.ts";
import { createHandler } from "../../../lib/http/handler.ts";
import { testService } from "../../suite/kit.ts";
import { runtime } from "../../support/programs.ts";

type Handler = Parameters<typeof serve>[0];

async function withServer(
  handler: Handler,
  options: Parameters<typeof serve>[1] = {},
): Promise<Listener & { readonly url: string } & AsyncDisposable> {
  const listener = await serve(handler, { hostname: "127.0.0.1", port: 0, ...options });
  return { ...listener, url: `http://127.0.0.1:${listener.port}`, [Symbol.asyncDispose]: () => listener.close() };
}

/** Sends `text` to the server. Returns its whole response, or the response up to the first match of `until`. */
const sendRaw = (port: number, text: string, until?: RegExp): Promise<string> =>
  new Promise((resolve) => {
    let answer = "";
    const socket = connect(port, "127.0.0.1", () => socket.write(text));
    socket.on("data", (bytes) => {
      answer += bytes;
      if (until?.test(answer)) socket.destroy();
    });
    // The server may close while the rest is still being sent.
    socket.on("error", () => {});
    socket.on("close", () => resolve(answer));
  });

const encode = (text: string): Uint8Array => new TextEncoder().encode(text);

describe("serve", () => {
  it("closes the connections that it answers after `close`", { timeout: 20_000 }, async () => {
    const [reached, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const server = await withServer(async () => {
      reached.resolve();
      await gate.promise;
      return new Response("answered");
    });
    const answer = sendRaw(server.port, "GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    await reached.promise;
    const closed = server.close();
    gate.resolve();
    assert.match(await answer, /answered/);
    await closed;
  });

  it("passes method, path, query, headers and body on unchanged", async () => {
    await using server = await withServer(async (request) =>
      Response.json({
        method: request.method,
        url: request.url,
        header: request.headers.get("x-test"),
        body: await request.text(),
      }),
    );
    const path = "/a%2Fb//c?x=1&x=2";
    const answer = await fetch(`${server.url}${path}`, {
      method: "PATCH",
      headers: { "x-test": "1, 2" },
      body: "räksmörgås",
    });
    assert.deepEqual(await answer.json(), {
      method: "PATCH",
      url: `${server.url}${path}`,
      header: "1, 2",
      body: "räksmörgås",
    });
  });

  it("responds with status and cookies unchanged, also without a body", async () => {
    await using server = await withServer(() => {
      const headers = new Headers({ "x-one": "1" });
      headers.append("set-cookie", "a=1");
      headers.append("set-cookie", "b=2");
      return new Response(null, { status: 204, headers });
    });
    const answer = await fetch(server.url);
    assert.deepEqual([answer.status, answer.headers.get("x-one"), await answer.text()], [204, "1", ""]);
    assert.deepEqual(answer.headers.getSetCookie(), ["a=1", "b=2"]);
  });

  it("answers a complete request that it could not read while it was busy", { timeout: 20_000 }, async () => {
    const early = Promise.withResolvers<Socket>();
    await using server = await withServer(
      async (request) => {
        if (!request.url.endsWith("/busy")) return new Response("answered");
        (await early.promise).write("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        const until = Date.now() + 1_000;
        while (Date.now() < until);
        return new Response("busy");
      },
      { headers_timeout_ms: 100 },
    );
    let answer = "";
    const closed = new Promise<void>((resolve) => {
      const socket = connect(server.port, "127.0.0.1", () => early.resolve(socket));
      socket.on("data", (bytes) => {
        answer += bytes;
      });
      socket.on("error", () => {}).on("close", () => resolve());
    });
    const busy = await fetch(`http://127.0.0.1:${server.port}/busy`);
    assert.equal(await busy.text(), "busy");
    await closed;
    assert.match(answer, /^HTTP\/1\.1 200 [\s\S]*answered/);
  });

  // The other runtimes close such a connection by limits of their own.
  if (runtime === "node") {
    it("responds with 408 to a head that does not arrive", { timeout: 20_000 }, async () => {
      await using server = await withServer(() => new Response("answered"), { headers_timeout_ms: 100 });
      assert.match(await sendRaw(server.port, "GET / HTTP/1.1\r\nhost: x\r\n"), /^HTTP\/1\.1 408 /);
    });
  }

  it("responds with 400 to an invalid head, and with 431 to one that is too long", async () => {
    await using server = await withServer(() => new Response("answered"));
    if (runtime === "node") {
      assert.match(await sendRaw(server.port, "nonsense\r\n\r\n"), /^HTTP\/1\.1 400 /);
      const long = `GET / HTTP/1.1\r\nhost: x\r\nx-long: ${"x".repeat(20_000)}\r\n\r\n`;
      assert.match(await sendRaw(server.port, long), /^HTTP\/1\.1 431 /);
    }
  });

  it("sends each chunk of a streamed response once it exists", async () => {
    let go: () => void = () => {};
    const requestReceived = new Promise<void>((resolve) => {
      go = resolve;
    });
    await using server = await withServer(
      () =>
        new Response(
          new ReadableStream({
            async start(controller) {
              controller.enqueue(encode("first"));
              await requestReceived;
              controller.enqueue(encode("second"));
              controller.close();
            },
          }),
        ),
    );
    const reader = (await fetch(server.url)).body?.getReader();
    assert.equal(new TextDecoder().decode((await reader?.read())?.value), "first");
    go();
    assert.equal(new TextDecoder().decode((await reader?.read())?.value), "second");
    assert.equal((await reader?.read())?.done, true);
  });

  it("cancels the body of the response when the client disconnects", async () => {
    let cancelled: () => void = () => {};
    const requestReceived = new Promise<void>((resolve) => {
      cancelled = resolve;
    });
    await using server = await withServer(
      () =>
        new Response(
          new ReadableStream({
            start: (controller) => controller.enqueue(encode("first")),
            cancel: () => cancelled(),
          }),
        ),
    );
    const leaving = new AbortController();
    const reader = (await fetch(server.url, { signal: leaving.signal })).body?.getReader();
    await reader?.read();
    leaving.abort();
    await requestReceived;
  });

  it("does not pull more than the client reads", async () => {
    let pulled = 0;
    const piece = new Uint8Array(1 << 20);
    let cancelled: () => void = () => {};
    const requestReceived = new Promise<void>((resolve) => {
      cancelled = resolve;
    });
    await using server = await withServer(
      () =>
        new Response(
          new ReadableStream(
            {
              async pull(controller) {
                pulled += 1;
                // Lets the socket take what it can before the next piece.
                await new Promise((resolve) => setTimeout(resolve, 0));
                if (pulled > 200) controller.close();
                else controller.enqueue(piece);
              },
              cancel: () => cancelled(),
            },
            { highWaterMark: 0 },
          ),
        ),
    );
    const socket = connect(server.port, "127.0.0.1", () => socket.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    // The first bytes arrive; then the client reads nothing any more.
    await new Promise<void>((resolve) => socket.once("data", () => resolve()));
    socket.pause();
    let before = -1;
    while (before !== pulled) {
      before = pulled;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    assert.ok(pulled < 100, `${pulled} MiB were pulled`);
    socket.destroy();
    await requestReceived;
  });

  // Bun ends such a connection after its idle time-out, Deno when the client goes away.
  if (runtime === "node") {
    it("closes the connection when a body fails, also if the client does not read", async () => {
      const server = await withServer(
        () =>
          new Response(
            new ReadableStream(
              {
                async pull(controller) {
                  await new Promise((resolve) => setTimeout(resolve, 0));
                  controller.enqueue(new Uint8Array(1 << 20));
                  pulled(controller);
                },
              },
              { highWaterMark: 0 },
            ),
          ),
      );
      let breakOff: () => void = () => {};
      let cancel: ReturnType<typeof setTimeout> | undefined;
      const stalled = new Promise<void>((resolve) => {
        breakOff = resolve;
      });
      // No pull for a while: the socket takes no more.
      const pulled = (controller: ReadableStreamDefaultController): void => {
        clearTimeout(cancel);
        cancel = setTimeout(() => {
          controller.error(new Error("stalled"));
          breakOff();
        }, 200);
      };
      const socket = connect(server.port, "127.0.0.1", () => socket.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
      socket.on("error", () => {});
      socket.pause();
      await stalled;
      await server.close();
      socket.destroy();
    });
  }

  it("lets a handler respond without reading a large body", async () => {
    await using server = await withServer(async (request) => {
      const reader = request.body?.getReader();
      await reader?.read();
      await reader?.cancel();
      return new Response("too much", { status: 413 });
    });
    const head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4194304\r\n\r\n";
    const answer = await sendRaw(server.port, `${head}${"x".repeat(4_194_304)}`, /too much/);
    assert.match(answer, /^HTTP\/1\.1 413 [\s\S]*too much/);
  });

  it("responds to HEAD without a body", async () => {
    await using server = await withServer((request) => new Response(request.method === "HEAD" ? null : "text"));
    const answer = await sendRaw(server.port, "HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert.match(answer, /^HTTP\/1\.1 200 /);
    assert.match(answer, /\r\n\r\n$/);
  });

  it("rejects a malformed Host header", async () => {
    await using kit = await testService({ agents: { echo: () => "ok" } });
    await using server = await withServer(createHandler(kit.service));
    for (const host of ["a b", "a:b:c", "[::1", "a:99999", "%zz", "<x>"]) {
      const answer = await sendRaw(server.port, `GET /ok HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
      assert.match(answer, /^HTTP\/1\.1 400 .*"detail":/s, host);
    }
    assert.match(
      await sendRaw(server.port, "GET /ok HTTP/1.1\r\nHost: a:1\r\nConnection: close\r\n\r\n"),
      /^HTTP\/1\.1 200 /,
    );
  });

  it("rejects requests that are not HTTP", async () => {
    await using server = await withServer(() => new Response("reached"));
    assert.doesNotMatch(await sendRaw(server.port, "GARBAGE\r\n\r\n"), /reached/);
  });

  it("keeps serving after a handler throws and after a body fails", async () => {
    await using server = await withServer((request) => {
      const { pathname } = new URL(request.url);
      if (pathname === "/body") {
        return new Response(
          new ReadableStream({
            start: (controller) => controller.enqueue(encode("first")),
            pull: (controller) => controller.error(new Error("no more")),
          }),
        );
      }
      return new Response("fine");
    });
    await assert.rejects(fetch(`${server.url}/body`).then((answer) => answer.text()));
    assert.equal(await (await fetch(server.url)).text(), "fine");
  });

  it("reports a port that is in use", async () => {
    await using server = await withServer(() => new Response());
    await assert.rejects(
      serve(() => new Response(), { hostname: "127.0.0.1", port: server.port }),
      PortTaken,
    );
  });
});

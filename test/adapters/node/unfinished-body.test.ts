/** Requests whose body never ends, on the server of each runtime: their connections close. */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { describe, it } from "node:test";
import { serve } from "../../../adapters/node/mod.ts";
import { fake } from "../../lib/http/fake-service.ts";
import { runtime } from "../../support/programs.ts";

type Handler = Parameters<typeof serve>[0];

/** Sends a request with a body that goes on byte by byte; resolves with what came when the server closes the connection. */
async function openTrickle(
  handler: Handler,
  path: string,
  head = "content-length: 100000",
  first = "",
): Promise<string> {
  const server = await serve(handler, { port: 0 });
  const socket = connect(server.port, "127.0.0.1");
  let answer = "";
  const closed = new Promise<void>((resolve) => socket.on("error", () => {}).on("close", () => resolve()));
  socket.on("data", (bytes) => {
    answer += bytes;
  });
  socket.write(`POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n${head}\r\n\r\n${first}`);
  const chunk = head.startsWith("content") ? "x" : "1\r\nx\r\n";
  const trickling = setInterval(() => socket.writable && socket.write(chunk), 50);
  await closed;
  clearInterval(trickling);
  await server.close();
  return answer;
}

describe("a request whose body never ends", { timeout: 60_000 }, () => {
  it("gets 408, and its connection closes", async () => {
    const service = fake({ http: { body_timeout_ms: 200 } });
    const answer = openTrickle(service.handler, "/threads");
    const timer = setInterval(() => service.elapse(200), 50);
    assert.match(await answer, /^HTTP\/1\.1 408 [\s\S]*did not arrive within 200 ms/);
    clearInterval(timer);
  });

  it("closes its connection if the body was not read", async () => {
    const answer = await openTrickle(() => new Response("unread", { status: 404 }), "/");
    assert.match(answer, /^HTTP\/1\.1 404 [\s\S]*unread/);
  });

  it("closes its connection if the body was too large", async () => {
    const service = fake({ http: { max_body_bytes: 100 } });
    const first = `65\r\n${"x".repeat(101)}\r\n`;
    assert.match(
      await openTrickle(service.handler, "/threads", "transfer-encoding: chunked", first),
      /^HTTP\/1\.1 413 /,
    );
  });

  it("does not delay a response whose request body has arrived, and keeps its connection", async () => {
    const server = await serve(() => new Response("unread", { status: 404 }), { port: 0 });
    const socket = connect(server.port, "127.0.0.1");
    const request = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}";
    for (let count = 0; count < 3; count++) {
      socket.write(request);
      const answer = await new Promise<Buffer>((resolve, reject) => {
        socket.once("data", resolve).once("close", () => reject(new Error("closed")));
      });
      assert.match(String(answer), /^HTTP\/1\.1 404 [\s\S]*unread/);
      assert.doesNotMatch(String(answer), /connection: close/i);
    }
    socket.destroy();
    await server.close();
  });
});

describe("a WebSocket message", () => {
  // Deno buffers up to 64 MiB and has no option for it.
  if (runtime !== "bun") return;
  it("is rejected by Bun if it is longer than max_message_bytes", async () => {
    const service = fake();
    const server = await serve(service.handler, { port: 0, max_message_bytes: 2_000 });
    const path = "/threads/11111111-1111-4111-8111-111111111111/stream/events";
    const socket = new WebSocket(`ws://127.0.0.1:${server.port}${path}`);
    await new Promise((resolve) => socket.addEventListener("open", resolve));
    const closed = new Promise<CloseEvent>((resolve) => socket.addEventListener("close", resolve));
    socket.send("x".repeat(3_000));
    const { code } = await closed;
    assert.ok(code === 1006 || code === 1009, String(code));
    await server.close();
  });
});

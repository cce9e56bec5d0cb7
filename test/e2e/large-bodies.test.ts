/** Readers of large responses that take nothing, take little, or leave, by real sockets on the server of each runtime. */
import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { describe, it } from "node:test";
import { type Listener, serve } from "../../adapters/node/mod.ts";
import { createHandler } from "../../lib/http/handler.ts";
import { type TestService, testService } from "../suite/kit.ts";
import { until } from "../support/until.ts";

// More than the buffers of both sockets hold.
const STATE_CHARS = 24 * 1024 * 1024;

interface World extends AsyncDisposable {
  readonly listener: Listener;
  readonly path: string;
}

/** A server on which one caller may hold one state. */
async function createWorld(large_bodies: { readonly wait_ms: number; readonly stalled_ms: number }): Promise<World> {
  const at: TestService = await testService({
    agents: { echo: ({ input }) => input as object },
    http: { max_body_bytes: 2 * STATE_CHARS, large_bodies: { budget_bytes: 4 * 1024 * 1024, ...large_bodies } },
  });
  const { thread_id } = await at.service.threads.create({ metadata: { graph_id: "echo" } });
  await at.service.threads.updateState(thread_id, { values: { data: "x".repeat(STATE_CHARS) }, as_node: "echo" });
  const listener = await serve(createHandler(at.service), { port: 0 });
  return {
    listener,
    path: `/threads/${thread_id}/state`,
    async [Symbol.asyncDispose]() {
      await listener.close();
      await at[Symbol.asyncDispose]();
    },
  };
}

interface RawReader {
  readonly socket: Socket;
  readonly closed: Promise<void>;
  readonly received: { bytes: number };
}

/** Sends a GET, and takes the first bytes of the response. */
async function open({ listener, path }: World): Promise<RawReader> {
  const socket = connect(listener.port, "127.0.0.1");
  const received = { bytes: 0 };
  const closed = new Promise<void>((resolve) => socket.on("error", () => {}).on("close", () => resolve()));
  const first = new Promise<void>((resolve) => socket.once("data", () => resolve()));
  socket.on("data", (bytes) => {
    received.bytes += bytes.length;
  });
  socket.write(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n`);
  await first;
  socket.pause();
  return { socket, closed, received };
}

const read = async ({ listener, path }: World): Promise<{ readonly status: number; readonly length: number }> => {
  const response = await fetch(`${listener.url}${path}`);
  return { status: response.status, length: (await response.text()).length };
};

describe("a reader of a large response", { timeout: 60_000 }, () => {
  it("that stalls is disconnected after the limit, and the next one is served", async () => {
    await using world = await createWorld({ wait_ms: 30_000, stalled_ms: 300 });
    const stalled = await open(world);
    const { status, length } = await read(world);
    assert.equal(status, 200);
    assert.ok(length > STATE_CHARS);
    stalled.socket.resume();
    await stalled.closed;
    assert.ok(stalled.received.bytes < STATE_CHARS, `${stalled.received.bytes} bytes`);
  });

  it("that disconnects makes room for the next one", async () => {
    await using world = await createWorld({ wait_ms: 30_000, stalled_ms: 30_000 });
    const leaving = await open(world);
    const next = read(world);
    leaving.socket.destroy();
    assert.equal((await next).status, 200);
  });

  it("that reads slowly gets all of it", async () => {
    await using world = await createWorld({ wait_ms: 30_000, stalled_ms: 1_000 });
    const { socket, closed, received } = await open(world);
    let isClosed = false;
    void closed.then(() => {
      isClosed = true;
    });
    await until(() => {
      if (socket.isPaused()) socket.resume();
      else socket.pause();
      return isClosed;
    });
    assert.ok(received.bytes > STATE_CHARS, `${received.bytes} bytes`);
  });

  it("that disconnects while it waits is not served", async () => {
    await using world = await createWorld({ wait_ms: 30_000, stalled_ms: 30_000 });
    const openUpload = await open(world);
    const waiting = Array.from({ length: 20 }, () => {
      const socket = connect(world.listener.port, "127.0.0.1").on("error", () => {});
      socket.write(`GET ${world.path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`);
      return socket;
    });
    await Promise.all(waiting.map((socket) => new Promise((resolve) => socket.once("connect", resolve))));
    for (const socket of waiting) socket.destroy();
    openUpload.socket.destroy();
    assert.equal((await read(world)).status, 200);
  });
});

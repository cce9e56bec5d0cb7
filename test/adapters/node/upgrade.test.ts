/** WebSockets on the server of each runtime, by real sockets. */
import assert from "node:assert/strict";
import { connect } from "node:net";
import process from "node:process";
import { describe, it } from "node:test";
import { serve } from "../../../adapters/node/mod.ts";
import { anonymousPrincipal, type Principal } from "../../../lib/auth/principal.ts";
import { ServiceError } from "../../../lib/errors.ts";
import { type Fake, type FakeOptions, fake, THREAD } from "../../lib/http/fake-service.ts";
import { event, MemoryEvents } from "../../lib/protocol/protocol.harness.ts";
import { runtime } from "../../support/programs.ts";
import { until } from "../../support/until.ts";

const PATH = `/threads/${THREAD}/stream/events`;

interface Harness extends AsyncDisposable {
  readonly events: MemoryEvents;
  readonly port: number;
  readonly fake: Fake;
  open(): Promise<Client>;
}

interface Client {
  readonly socket: WebSocket;
  readonly got: { readonly [key: string]: unknown }[];
  readonly closed: Promise<CloseEvent>;
}

async function createHarness(options: FakeOptions = {}): Promise<Harness> {
  const events = new MemoryEvents();
  const service = fake({
    ...options,
    answers: {
      "protocol.subscribe": (thread_id, filter) => events.subscribe({}, thread_id as string, filter as never),
      "protocol.readStored": (thread_id, filter) => events.readStored({}, thread_id as string, filter as never),
      "protocol.count": (thread_id, filters) => events.count({}, thread_id as string, filters as never),
      "protocol.command": (_thread_id, command) => ({ type: "success", ...(command as object), result: {} }),
    },
  });
  const server = await serve(service.handler, { port: 0 });
  const sockets: WebSocket[] = [];
  return {
    ...{ events, port: server.port, fake: service },
    async open() {
      const socket = new WebSocket(`ws://127.0.0.1:${server.port}${PATH}`);
      sockets.push(socket);
      const got: Client["got"] = [];
      socket.addEventListener("message", ({ data }) => got.push(JSON.parse(data as string)));
      const closed = new Promise<CloseEvent>((resolve) => socket.addEventListener("close", resolve));
      await new Promise((resolve, reject) => {
        socket.addEventListener("open", resolve);
        socket.addEventListener("error", reject);
      });
      return { socket, got, closed };
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.close();
      events.end();
      await server.close();
    },
  };
}

/** Sends a request without changes. Returns the response of the server. */
const sendRaw = (port: number, lines: readonly string[], body = ""): Promise<string> =>
  new Promise((resolve) => {
    let answer = "";
    const socket = connect(port, "127.0.0.1", () => {
      socket.write(`${[...lines, `host: 127.0.0.1:${port}`].join("\r\n")}\r\n\r\n${body}`);
    });
    socket.on("data", (bytes) => {
      answer += bytes;
      const [head = "", remainder = ""] = answer.split("\r\n\r\n");
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? Number.NaN);
      const isWhole =
        remainder.length >= length || (/\nTransfer-Encoding: chunked/i.test(head) && answer.endsWith("0\r\n\r\n"));
      if (head.startsWith("HTTP/1.1 101") || isWhole) socket.destroy();
    });
    socket.on("error", () => {});
    socket.on("close", () => resolve(answer));
  });

const HANDSHAKE = [
  `GET ${PATH} HTTP/1.1`,
  "connection: Upgrade",
  "upgrade: websocket",
  "sec-websocket-version: 13",
  "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
];

describe("WebSockets", () => {
  it("carry commands and events", async () => {
    await using at = await createHarness();
    const { socket, got } = await at.open();
    socket.send('{"id":1,"method":"subscription.subscribe","params":{"channels":["values"]}}');
    await until(() => got.length === 1);
    assert.equal(got[0]?.id, 1);
    at.events.add(event(1, "messages"), event(2, "values", { data: { text: "ä".repeat(100_000) } }));
    await until(() => {
      // The wait for other subscriptions.
      at.fake.elapse(10);
      return got.length === 2;
    });
    assert.deepEqual(got[1], JSON.parse(at.events.all[1]?.data ?? ""));
    socket.send('{"id":2,"method":"run.start"}');
    await until(() => got.length === 3);
    assert.equal(got[2]?.id, 2);
    socket.close();
    await until(() => at.events.open === 0, "the reader is left");
  });

  it("close with 1001 when the service stops, and with the code of a limit", async () => {
    await using at = await createHarness({ http: { max_body_bytes: 1_000 } });
    const [first, second] = [await at.open(), await at.open()];
    first.socket.send("x".repeat(1_001));
    assert.equal((await first.closed).code, 1009);
    at.events.end();
    assert.equal((await second.closed).code, 1001);
  });

  it("close with the status of a new request when their permission is lost, and answer no command from then on", async () => {
    let lost: "unauthenticated" | "forbidden" | "not_found" | null = null;
    const principal: Principal = {
      ...anonymousPrincipal,
      refresh: async () => {
        if (lost) throw new ServiceError(lost, "lost");
        return principal;
      },
    };
    await using at = await createHarness({ principal });
    for (const [code, closed] of [
      ["unauthenticated", 4401],
      ["forbidden", 4403],
      ["not_found", 4404],
    ] as const) {
      lost = null;
      const [idle, busy] = [await at.open(), await at.open()];
      busy.socket.send('{"id":1,"method":"run.start"}');
      await until(() => busy.got.length === 1);
      lost = code;
      busy.socket.send('{"id":2,"method":"run.start"}');
      assert.equal((await busy.closed).code, closed);
      at.fake.elapse(2_000);
      assert.equal((await idle.closed).code, closed);
      assert.deepEqual([busy.got.length, idle.got.length], [1, 0]);
    }
  });

  it("are rejected with a response", async () => {
    await using at = await createHarness({ hosts: ["127.0.0.1"] });
    const foreign = await sendRaw(at.port, [...HANDSHAKE, "origin: https://evil.example"]);
    assert.match(foreign, /^HTTP\/1\.1 403 /);
    assert.match(foreign, /"message":"Origin https:\/\/evil\.example may not call this server/);
    assert.match(await sendRaw(at.port, HANDSHAKE), /^HTTP\/1\.1 101 /);
    assert.match(await sendRaw(at.port, [...HANDSHAKE, `origin: http://127.0.0.1:${at.port}`]), /^HTTP\/1\.1 101 /);
    const otherHandshake = HANDSHAKE.map((line) => line.replace("/stream/events", "/state"));
    assert.match(await sendRaw(at.port, otherHandshake), /^HTTP\/1\.1 200 /);
    assert.match(await sendRaw(at.port, [HANDSHAKE[0] as string]), /^HTTP\/1\.1 426 /);
  });

  it("are not opened if the response is a stream, whose failure closes the connection only", async () => {
    const disconnected = Promise.withResolvers<void>();
    const bodies: ReadableStreamDefaultController<Uint8Array>[] = [];
    const handler = (): Response =>
      new Response(
        new ReadableStream<Uint8Array>({
          start(controller) {
            bodies.push(controller);
            controller.enqueue(new TextEncoder().encode("one"));
          },
          cancel: () => disconnected.resolve(),
        }),
      );
    const server = await serve(handler, { port: 0 });
    /** Resolves when the first bytes of the body are there. */
    const open = async () => {
      const socket = connect(server.port, "127.0.0.1");
      const closed = new Promise((resolve) => socket.on("error", () => {}).on("close", resolve));
      let came = "";
      socket.write(`${[...HANDSHAKE, "host: x"].join("\r\n")}\r\n\r\n`);
      socket.on("data", (bytes) => {
        came += bytes;
      });
      await until(() => came.includes("one"));
      assert.match(came, /^HTTP\/1\.1 200 /);
      return { socket, closed };
    };
    const failing = await open();
    bodies[0]?.error(new Error("The body has failed"));
    await failing.closed;
    (await open()).socket.destroy();
    await disconnected.promise;
    await server.close();
  });

  it("are opened by GET only: the body of another request is read", async () => {
    // Deno's server answers 400 by itself to an offer with a body.
    if (runtime === "deno") return;
    await using at = await createHarness();
    const body = '{"metadata":{"a":1}}';
    const created = ["POST /threads HTTP/1.1", `content-length: ${body.length}`, ...HANDSHAKE.slice(1)];
    assert.match(await sendRaw(at.port, created, body), /^HTTP\/1\.1 200 /);
    assert.deepEqual(at.fake.calls.find(([name]) => name === "threads.create")?.[1], { metadata: { a: 1 } });
  });

  it("ignore requests for another protocol", async () => {
    await using at = await createHarness();
    const offer = ["connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABkAAQAAP__"];
    const answer = await sendRaw(at.port, ["GET /ok HTTP/1.1", ...offer]);
    assert.match(answer, /^HTTP\/1\.1 200 /);
    // Deno's server answers 400 by itself to such an offer with a body.
    if (runtime === "deno") return;
    const body = '{"metadata":{"a":1}}';
    const created = ["POST /threads HTTP/1.1", `content-length: ${body.length}`, ...offer];
    assert.match(await sendRaw(at.port, created, body), /^HTTP\/1\.1 200 /);
    const [call, createInput] = at.fake.calls.find(([name]) => name === "threads.create") ?? [];
    assert.deepEqual([call, createInput], ["threads.create", { metadata: { a: 1 } }]);
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on("warning", onWarning);
    const socket = connect(at.port, "127.0.0.1");
    for (let count = 0; count < 20; count++) {
      socket.write(`${["GET /ok HTTP/1.1", "host: x", ...offer].join("\r\n")}\r\n\r\n`);
      await new Promise((resolve) => socket.once("data", resolve));
    }
    socket.destroy();
    process.off("warning", onWarning);
    assert.deepEqual(warnings, [], "a connection gathers nothing");
  });
});

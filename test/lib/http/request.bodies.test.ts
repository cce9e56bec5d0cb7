/** Request bodies have a time limit. */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { describe, it } from "node:test";
import { serve } from "../../../adapters/node/mod.ts";
import { createHandler } from "../../../lib/http/handler.ts";
import { testService } from "../../suite/mod.ts";
import { fake } from "./fake-service.ts";

/** Creates a request whose body the test sends in parts. */
function slow(headers: Record<string, string> = {}): {
  readonly request: Request;
  send(text: string): void;
  end(): void;
  readonly cancelled: Promise<void>;
} {
  const cancelled = Promise.withResolvers<void>();
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array>({
    start(streamController) {
      controller = streamController;
    },
    cancel: () => cancelled.resolve(),
  });
  return {
    request: new Request("http://x/threads", { method: "POST", body, headers, duplex: "half" } as RequestInit),
    send: (text) => controller?.enqueue(new TextEncoder().encode(text)),
    end: () => controller?.close(),
    cancelled: cancelled.promise,
  };
}

/** Waits until ready work has run. */
const tick = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

describe("an incomplete request body", () => {
  for (const [what, headers] of [
    ["without a length", {}],
    ["with a small length", { "content-length": "20" }],
  ] as const) {
    it(`is answered with 408 after 30 s, ${what}`, async () => {
      const { handler, elapse, timers, calls } = fake();
      const { request, send, cancelled } = slow(headers);
      const answer = handler(request);
      send('{"metadata":');
      await tick();
      elapse(29_999);
      await tick();
      assert.equal(timers(), 1);
      elapse(30_000);
      // The time is extended by the bytes that arrived.
      elapse(1_000);
      const response = await answer;
      assert.equal(response.status, 408);
      assert.match(
        ((await response.json()) as { detail: string }).detail,
        /^The body did not arrive within 30000 ms\. /,
      );
      assert.deepEqual([timers(), calls], [0, []]);
      if (!("content-length" in headers)) await cancelled;
    });
  }

  it("has the time limit of http.body_timeout_ms", async () => {
    const { handler, elapse } = fake({ http: { body_timeout_ms: 5 } });
    const answer = handler(slow().request);
    await tick();
    elapse(5);
    assert.equal((await answer).status, 408);
  });

  it("has no time limit while it arrives at a sufficient rate", async () => {
    const { handler, elapse, timers } = fake();
    const { request, send, end } = slow();
    const answer = handler(request);
    send(`{"metadata":{"a":"${"x".repeat(40_960)}`);
    await tick();
    elapse(30_000);
    await tick();
    assert.equal(timers(), 1, "it has 40 s more");
    send('"}}');
    end();
    assert.equal((await answer).status, 200);
    assert.equal(timers(), 0);
  });

  it("is answered over a socket, after the key was checked", async () => {
    await using test = await testService({
      agents: { idle: async () => ({}) },
      auth: { mode: "api_key" },
      http: { body_timeout_ms: 20 },
    });
    const { key } = await test.service.accounts.createKey({ kind: "sk" });
    const listener = await serve(createHandler(test.service), { hostname: "127.0.0.1", port: 0 });
    const answerTo = (length: string, header: string): Promise<string> =>
      new Promise((resolve, reject) => {
        let text = "";
        const head = `POST /threads HTTP/1.1\r\nHost: x\r\n${length}\r\n${header}\r\n\r\n`;
        const socket = connect(listener.port, "127.0.0.1", () => socket.write(head));
        socket.on("data", (bytes) => {
          text += bytes;
          if (!/\}/.test(text)) return;
          resolve(text);
          socket.destroy();
        });
        socket.on("error", reject);
        socket.on("close", () => reject(new Error(`closed after ${text}`)));
      });
    for (const length of ["Content-Length: 20", "Content-Length: 200000", "Transfer-Encoding: chunked"]) {
      assert.match(await answerTo(length, `X-Api-Key: ${key}`), /^HTTP\/1\.1 408 [\s\S]*\{"detail":"The body did not/);
      assert.match(await answerTo(length, "X-Api-Key: unknown"), /^HTTP\/1\.1 401 /);
    }
    await listener.close();
  });
});

/** Open bodies over a socket: `serve` takes them without the web stream around them. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type FetchHandler, serve } from "../../../adapters/node/mod.ts";
import { type Fake, fake, THREAD } from "../../lib/http/fake-service.ts";

const request = { method: "POST", body: JSON.stringify({ assistant_id: "g" }) };

async function withServedBody(
  use: (service: Fake, url: string) => Promise<void>,
  wrapHandler?: (handler: FetchHandler) => FetchHandler,
) {
  const service = fake();
  const server = await serve(wrapHandler ? wrapHandler(service.handler) : service.handler, { port: 0 });
  try {
    await use(service, `${server.url}/threads/${THREAD}/runs`);
  } finally {
    await server.close();
  }
}

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await new Promise((resolve) => setTimeout(resolve, 5));
}

const end = { id: 2, event: "end", data: "{}" };

describe("a streaming body over a socket", () => {
  it("is whole if the result exists at once, and if it comes later", async () => {
    await withServedBody(async (service, url) => {
      const early = fetch(`${url}/wait`, request);
      await until(() => service.timers() > 0);
      service.result.resolve({ a: "é".repeat(10_000) });
      for (const answer of [await early, await fetch(`${url}/wait`, request)]) {
        assert.equal(answer.headers.get("content-type"), "application/json");
        assert.deepEqual(await answer.json(), { a: "é".repeat(10_000) });
      }
      assert.deepEqual([service.timers(), service.leaves()], [0, 0]);
    });
  });

  it("is left once if its client disconnects, before the first chunk and after it", async () => {
    await withServedBody(async (service, url) => {
      const disconnect = new AbortController();
      const wait = fetch(`${url}/wait`, { ...request, signal: disconnect.signal }).then((answer) => answer.text());
      await until(() => service.timers() > 0);
      disconnect.abort();
      await assert.rejects(wait);
      await until(() => service.leaves() > 0);
      assert.deepEqual([service.timers(), service.leaves()], [0, 1]);
      service.runLog.add({ id: 1, event: "values", data: "1" });
      const later = new AbortController();
      const stream = await fetch(`${url}/stream`, { ...request, signal: later.signal });
      await stream.body?.getReader().read();
      later.abort();
      await until(() => service.runLog.leaveCount > 0);
      assert.deepEqual([service.timers(), service.runLog.leaveCount], [0, 1]);
    });
  });

  it("breaks off when its frames fail, also right after the first of them", async () => {
    for (const pause of [false, true]) {
      await withServedBody(async (service, url) => {
        service.runLog.add({ id: 1, event: "values", data: "1" });
        const stream = fetch(`${url}/stream`, request).then((answer) => answer.text());
        if (pause) await until(() => service.timers() > 0);
        service.runLog.stop();
        await assert.rejects(stream);
        assert.equal(service.timers(), 0);
      });
    }
  });

  it("is sent once if a copy of it was read", async () => {
    let copy = Promise.resolve("");
    const wrapHandler = (handler: FetchHandler) => async (incoming: Request, host?: object) => {
      const answer = await handler(incoming, host);
      copy = answer.clone().text();
      return answer;
    };
    await withServedBody(async (service, url) => {
      service.runLog.add({ id: 1, event: "values", data: "1" }, end);
      const text = await (await fetch(`${url}/stream`, request)).text();
      assert.equal(text, "id: 1\nevent: values\ndata: 1\n\nid: 2\nevent: end\ndata: {}\n\n");
      assert.equal(await copy, text);
    }, wrapHandler);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type Fake, fake, RUN, THREAD } from "./fake.ts";

const STREAM = `/threads/${THREAD}/runs/stream`;
const WAIT = `/threads/${THREAD}/runs/wait`;
const request = { assistant_id: "g" };

interface Reader {
  /** The next chunk as text; undefined at the end. */
  next(): Promise<string | undefined>;
  cancel(): Promise<void>;
}

async function open({ send }: Fake, path: string): Promise<Reader> {
  const response = await send("POST", path, request);
  assert.equal(response.status, 200);
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  return {
    async next() {
      const { value } = await reader.read();
      return value && new TextDecoder().decode(value);
    },
    cancel: () => reader.cancel(),
  };
}

describe("a stream", () => {
  it("has the headers clients and proxies need", async () => {
    const response = await fake().send("POST", STREAM, request);
    assert.equal(response.headers.get("content-type"), "text/event-stream");
    assert.equal(response.headers.get("cache-control"), "no-cache");
    assert.equal(response.headers.get("x-accel-buffering"), "no");
    await response.body?.cancel();
  });

  it("frames each event with one data line, and ends with end", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    service.tape.add({ id: 0, event: "metadata", data: '{"run_id":"r"}' });
    assert.equal(await reader.next(), 'id: 0\nevent: metadata\ndata: {"run_id":"r"}\n\n');
    service.tape.add({ id: 7, event: "updates|child:1", data: "[]" }, { id: null, event: "end", data: "null" });
    assert.equal(await reader.next(), "id: 7\nevent: updates|child:1\ndata: []\n\nevent: end\ndata: null\n\n");
    assert.equal(await reader.next(), undefined);
    assert.equal(service.timers(), 0);
  });

  it("sends what is ready as one chunk", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    for (let id = 1; id <= 100; id++) service.tape.add({ id, event: "messages", data: "[]" });
    assert.equal((await reader.next())?.match(/^id: /gm)?.length, 100);
    await reader.cancel();
  });

  it("lets no line break into an event's name", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    service.tape.add({ id: 1, event: "custom|a\r\ndata: forged\n\n", data: "1" });
    assert.equal(await reader.next(), "id: 1\nevent: custom|adata: forged\ndata: 1\n\n");
    await reader.cancel();
  });

  it("beats every 5 s with a comment and no blank line, busy or not", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    const beat = reader.next();
    service.elapse(4_999);
    service.elapse(5_000);
    assert.equal(await beat, ": heartbeat\n");
    const second = reader.next();
    service.elapse(5_000);
    assert.equal(await second, ": heartbeat\n");
    service.elapse(5_000);
    service.elapse(5_000);
    service.tape.add({ id: 1, event: "values", data: "{}" });
    assert.match((await reader.next()) ?? "", /^: heartbeat\n(id: 1\nevent: values\ndata: \{\}\n\n)?$/);
    await reader.cancel();
    assert.equal(service.timers(), 0);
  });

  it("keeps what comes after a beat until it is asked for", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    const beat = reader.next();
    service.elapse(5_000);
    assert.equal(await beat, ": heartbeat\n");
    service.tape.add({ id: 1, event: "values", data: "1" });
    // The wait that began before the beat has taken the first frame by now.
    await new Promise((resolve) => setTimeout(resolve, 0));
    service.tape.add({ id: 2, event: "values", data: "2" });
    assert.equal(await reader.next(), "id: 1\nevent: values\ndata: 1\n\nid: 2\nevent: values\ndata: 2\n\n");
    await reader.cancel();
    assert.equal(service.timers(), 0);
  });

  it("breaks off when its frames stop before the end, so that clients reconnect", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    service.tape.add({ id: 1, event: "values", data: "1" });
    assert.equal(await reader.next(), "id: 1\nevent: values\ndata: 1\n\n");
    const chunk = reader.next();
    service.tape.stop();
    await assert.rejects(chunk);
    assert.deepEqual([service.timers(), service.log.length], [0, 0]);
  });

  it("breaks off when its reader takes nothing for 30 s", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    service.tape.add({ id: 1, event: "values", data: "1" });
    assert.equal(await reader.next(), "id: 1\nevent: values\ndata: 1\n\n");
    service.tape.add({ id: 2, event: "values", data: "2" });
    for (let beats = 0; beats < 5; beats++) service.elapse(5_000);
    assert.equal(await reader.next(), ": heartbeat\nid: 2\nevent: values\ndata: 2\n\n");
    for (let beats = 0; beats < 6; beats++) service.elapse(5_000);
    assert.deepEqual([service.tape.left, service.timers()], [1, 0]);
    await assert.rejects(reader.next());
    const text = await (await service.send("GET", "/metrics")).text();
    assert.match(text, /^greenroom_open_streams 0$/m);
  });

  it("waits for a reader that asks while nothing happens", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    for (let beats = 0; beats < 20; beats++) {
      const chunk = reader.next();
      service.elapse(5_000);
      assert.equal(await chunk, ": heartbeat\n");
    }
    assert.equal(service.tape.left, 0);
    await reader.cancel();
  });

  it("tells the service once when its reader leaves", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    service.tape.add({ id: 1, event: "values", data: "{}" });
    await reader.next();
    const pending = reader.next();
    await reader.cancel();
    assert.equal(await pending, undefined);
    assert.equal(service.tape.left, 1);
    assert.equal(service.timers(), 0);
  });

  it("breaks off when it cannot go on, so that clients reconnect, and says why in the log alone", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    const chunk = reader.next();
    service.tape.fail(new Error("disk of host x"));
    await assert.rejects(chunk, (error: Error) => !error.message.includes("disk"));
    assert.equal(service.log[0]?.run_id, RUN);
    assert.equal((service.log[0]!.error as Error).message, "disk of host x");
    assert.equal(service.timers(), 0);
  });
});

describe("a wait", () => {
  it("gives the result as JSON", async () => {
    const service = fake();
    const response = await service.send("POST", WAIT, request);
    assert.equal(response.headers.get("content-type"), "application/json");
    service.result.resolve({ messages: [] });
    assert.deepEqual(await response.json(), { messages: [] });
    assert.deepEqual([service.timers(), service.leaves()], [0, 0]);
  });

  it("keeps the connection alive with white space", async () => {
    const service = fake();
    const reader = await open(service, WAIT);
    for (let beats = 0; beats < 2; beats++) {
      const chunk = reader.next();
      service.elapse(5_000);
      assert.equal(await chunk, "\n");
    }
    service.result.resolve({ a: 1 });
    assert.equal(await reader.next(), '{"a":1}');
    assert.equal(await reader.next(), undefined);
  });

  it("never gives null", async () => {
    const service = fake();
    service.result.resolve(null);
    const response = await service.send("POST", WAIT, request);
    assert.equal(await response.text(), "{}");
  });

  it("tells the service when its reader leaves", async () => {
    const service = fake();
    const reader = await open(service, WAIT);
    const pending = reader.next();
    await reader.cancel();
    assert.equal(await pending, undefined);
    assert.deepEqual([service.leaves(), service.timers()], [1, 0]);
  });

  it("answers a failure of the server as __error__, without its text", async () => {
    const service = fake();
    const response = await service.send("POST", WAIT, request);
    service.result.reject(new Error("disk of host x"));
    assert.deepEqual(await response.json(), {
      __error__: { error: "InternalServerError", message: "Internal server error" },
    });
    assert.equal((service.log[0]!.error as Error).message, "disk of host x");
  });
});

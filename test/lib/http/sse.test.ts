import assert from "node:assert/strict";
import process from "node:process";
import { after, before, describe, it } from "node:test";
import type { Frame } from "../../../lib/runs/mod.ts";
import { type Fake, fake, RUN, THREAD } from "./fake-service.ts";

const STREAM = `/threads/${THREAD}/runs/stream`;
const WAIT = `/threads/${THREAD}/runs/wait`;
const request = { assistant_id: "g" };

interface Reader {
  /** Reads the next chunk as text. Undefined at the end. */
  next(): Promise<string | undefined>;
  bytes(): Promise<Uint8Array | undefined>;
  cancel(): Promise<void>;
}

/** Waits for one timer, so that all ready work completes. */
async function settled(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 0));
}

/** Reads the rest of a body. Returns its text and the sizes of its chunks in bytes. */
async function drain(reader: Reader): Promise<{ readonly text: string; readonly sizes: readonly number[] }> {
  const chunks: Uint8Array[] = [];
  for (let chunk = await reader.bytes(); chunk; chunk = await reader.bytes()) chunks.push(chunk);
  const text = await new Blob(chunks as Uint8Array<ArrayBuffer>[]).text();
  return { text, sizes: chunks.map(({ length }) => length) };
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
    bytes: async () => (await reader.read()).value,
    cancel: () => reader.cancel(),
  };
}

describe("an event stream", () => {
  it("has the headers that clients and proxies need", async () => {
    const response = await fake().send("POST", STREAM, request);
    assert.equal(response.headers.get("content-type"), "text/event-stream");
    assert.equal(response.headers.get("cache-control"), "no-cache");
    assert.equal(response.headers.get("x-accel-buffering"), "no");
    await response.body?.cancel();
  });

  it("has one data line per event, and ends with the event `end`", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    service.runLog.add({ id: 0, event: "metadata", data: '{"run_id":"r"}' });
    assert.equal(await reader.next(), 'id: 0\nevent: metadata\ndata: {"run_id":"r"}\n\n');
    service.runLog.add({ id: 7, event: "updates|child:1", data: "[]" }, { id: null, event: "end", data: "null" });
    assert.equal(await reader.next(), "id: 7\nevent: updates|child:1\ndata: []\n\nevent: end\ndata: null\n\n");
    assert.equal(await reader.next(), undefined);
    assert.equal(service.timers(), 0);
    assert.equal(service.runLog.leaveCount, 1, "the log of the run does not stay for a reader that has all of it");
  });

  it("sends ready frames as one chunk", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    for (let id = 1; id <= 100; id++) service.runLog.add({ id, event: "messages", data: "[]" });
    assert.equal((await reader.next())?.match(/^id: /gm)?.length, 100);
    await reader.cancel();
  });

  it("removes line breaks from event names", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    service.runLog.add({ id: 1, event: "custom|a\r\ndata: forged\n\n", data: "1" });
    assert.equal(await reader.next(), "id: 1\nevent: custom|adata: forged\ndata: 1\n\n");
    await reader.cancel();
  });

  it("sends a heartbeat comment without a blank line every 5 s, also while it sends frames", async () => {
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
    service.runLog.add({ id: 1, event: "values", data: "{}" });
    assert.match((await reader.next()) ?? "", /^: heartbeat\n(id: 1\nevent: values\ndata: \{\}\n\n)?$/);
    await reader.cancel();
    assert.equal(service.timers(), 0);
  });

  it("begins with a heartbeat if it has nothing to send, because some hosts delay the headers", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    const first = reader.next();
    service.elapse(1_000);
    assert.equal(await first, ": heartbeat\n");
    const second = reader.next();
    service.elapse(5_000);
    assert.equal(await second, ": heartbeat\n");
    await reader.cancel();

    assert.equal(service.timers(), 0);
  });

  it("begins with ready frames, without a heartbeat right after them", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    service.runLog.add({ id: 1, event: "values", data: "1" });
    assert.equal(await reader.next(), "id: 1\nevent: values\ndata: 1\n\n");
    const next = reader.next();
    service.elapse(1_000);
    service.runLog.add({ id: 2, event: "values", data: "2" });
    assert.equal(await next, "id: 2\nevent: values\ndata: 2\n\n");
    await reader.cancel();
    assert.equal(service.timers(), 0);
  });

  it("holds frames after a heartbeat until the reader pulls", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    const beat = reader.next();
    service.elapse(5_000);
    assert.equal(await beat, ": heartbeat\n");
    service.runLog.add({ id: 1, event: "values", data: "1" });
    // The read that began before the heartbeat has taken the first frame by now.
    await new Promise((resolve) => setTimeout(resolve, 0));
    service.runLog.add({ id: 2, event: "values", data: "2" });
    assert.equal(await reader.next(), "id: 1\nevent: values\ndata: 1\n\n");
    assert.equal(await reader.next(), "id: 2\nevent: values\ndata: 2\n\n");
    await reader.cancel();
    assert.equal(service.timers(), 0);
  });

  it("aborts when its frames stop before the end, so that clients reconnect", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    service.runLog.add({ id: 1, event: "values", data: "1" });
    assert.equal(await reader.next(), "id: 1\nevent: values\ndata: 1\n\n");
    const chunk = reader.next();
    service.runLog.stop();
    await assert.rejects(chunk);
    assert.deepEqual([service.timers(), service.log.length], [0, 0]);
  });

  it("aborts after its reader has stalled for 30 s", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    service.runLog.add({ id: 1, event: "values", data: "1" });
    assert.equal(await reader.next(), "id: 1\nevent: values\ndata: 1\n\n");
    service.runLog.add({ id: 2, event: "values", data: "2" });
    for (let beats = 0; beats < 5; beats++) service.elapse(5_000);
    assert.equal(await reader.next(), ": heartbeat\n");
    assert.equal(await reader.next(), "id: 2\nevent: values\ndata: 2\n\n");
    for (let beats = 0; beats < 6; beats++) service.elapse(5_000);
    assert.deepEqual([service.runLog.leaveCount, service.timers()], [1, 0]);
    await assert.rejects(reader.next());
    const text = await (await service.send("GET", "/metrics")).text();
    assert.match(text, /^greenroom_open_streams 0$/m);
  });

  it("waits for new frames when the reader pulls", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    for (let beats = 0; beats < 20; beats++) {
      const chunk = reader.next();
      service.elapse(5_000);
      assert.equal(await chunk, ": heartbeat\n");
    }
    assert.equal(service.runLog.leaveCount, 0);
    await reader.cancel();
  });

  it("reports a disconnected reader once", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    service.runLog.add({ id: 1, event: "values", data: "{}" });
    await reader.next();
    const pending = reader.next();
    await reader.cancel();
    assert.equal(await pending, undefined);
    assert.equal(service.runLog.leaveCount, 1);
    assert.equal(service.timers(), 0);
  });

  it("aborts when it cannot continue, so that clients reconnect, and logs the reason only", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    const chunk = reader.next();
    service.runLog.fail(new Error("disk of host x"));
    await assert.rejects(chunk, (error: Error) => !error.message.includes("disk"));
    assert.equal(service.log[0]?.run_id, RUN);
    assert.equal((service.log[0]!.error as Error).message, "disk of host x");
    assert.equal(service.timers(), 0);
  });
});

/** Opens a stream that is cancelled during its first pull, as servers do when the client has just disconnected. */
async function openLeaving(service: Fake): Promise<Reader> {
  const { ReadableStream: Real } = globalThis;
  let leave: () => unknown = () => {};
  globalThis.ReadableStream = new Proxy(Real, {
    construct: (_, [source, strategy]: [UnderlyingDefaultSource<Uint8Array>, QueuingStrategy<Uint8Array>]) =>
      new Real(
        {
          ...source,
          // The source may be an instance of a class, so a spread would lose its methods.
          cancel: (reason) => source.cancel?.(reason),
          pull: (controller) =>
            source.pull?.({
              desiredSize: null,
              enqueue(chunk) {
                controller.enqueue(chunk);
                leave();
              },
              close: () => controller.close(),
              error: (reason) => controller.error(reason),
            }),
        },
        strategy,
      ),
  });
  const reader = await open(service, STREAM).finally(() => {
    globalThis.ReadableStream = Real;
  });
  leave = () => void reader.cancel();
  return reader;
}

describe("an event stream that is cancelled during a pull", () => {
  const end = { id: 1, event: "end", data: "{}" };
  const unheard: unknown[] = [];
  const hear = (reason: unknown): unknown => unheard.push(reason);
  before(() => void process.on("unhandledRejection", hear));
  after(() => void process.off("unhandledRejection", hear));

  it("closes if the pull waited for its end", async () => {
    const service = fake();
    const reader = await openLeaving(service);
    const chunk = reader.next();
    await settled();
    service.runLog.add(end);
    await chunk;
    await settled();
    assert.deepEqual([unheard, service.log.length, service.timers()], [[], 0, 0]);
  });

  it("closes if its end was ready", async () => {
    const service = fake();
    service.runLog.add(end);
    const reader = await openLeaving(service);
    await reader.next();
    await settled();
    assert.deepEqual([unheard, service.log.length, service.timers()], [[], 0, 0]);
  });

  it("leaves its source at a heartbeat", async () => {
    const service = fake();
    const reader = await openLeaving(service);
    const chunk = reader.next();
    service.elapse(5_000);
    await chunk;
    await settled();
    assert.deepEqual([unheard, service.log.length, service.timers(), service.runLog.leaveCount], [[], 0, 0, 1]);
  });

  it("leaves its source if it is cancelled before the chunk is created", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    const { frames } = service.runLog;
    const chunk = reader.next();
    await settled();
    // The frame after the one that was awaited is taken while the first is being sent.
    frames.splice = () => {
      void reader.cancel();
      return [end];
    };
    service.runLog.add({ id: 0, event: "values", data: "{}" });
    await chunk;
    await settled();
    assert.deepEqual([unheard, service.log.length, service.timers(), service.runLog.leaveCount], [[], 0, 0, 1]);
  });

  it("aborts if its frames cannot be taken", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    const chunk = reader.next();
    await settled();
    service.runLog.frames.splice = () => {
      throw new Error("no frame");
    };
    service.elapse(5_000);
    assert.equal(await chunk, ": heartbeat\n");
    const rejected = assert.rejects(reader.next());
    service.runLog.add({ id: 0, event: "values", data: "{}" });
    await rejected;
    assert.deepEqual([unheard, service.log.length, service.timers(), service.runLog.leaveCount], [[], 1, 0, 1]);
  });
});

describe("an event stream with large frames", () => {
  const CHUNK = 4 * 1024;
  const large = (id: number, data: string): Frame => ({ id, event: "values", data: JSON.stringify(data) });
  const wire = ({ id, event, data }: Frame): string => `id: ${id}\nevent: ${event}\ndata: ${data}\n\n`;

  it("sends small chunks, and cuts no character", async () => {
    const service = fake();
    const frames = [
      large(1, "x".repeat(100_000)),
      large(2, `${"\u{1f600}".repeat(20_000)}x${"\u{1f680}".repeat(20_000)}`),
      large(3, "é\u{1f600}".repeat(CHUNK)),
      ...Array.from({ length: 1_000 }, (_, i) => large(4 + i, "\u{1f600}y".repeat(i % 50))),
      { id: 2_000, event: "end", data: "{}" },
    ];
    service.runLog.add(...frames);
    const { text, sizes } = await drain(await open(service, STREAM));
    assert.equal(text, frames.map(wire).join(""));
    // A character takes up to three bytes, and a pair four.
    assert.ok(Math.max(...sizes) <= 3 * CHUNK + 4, String(Math.max(...sizes)));
    assert.equal(service.timers(), 0);
  });

  it("lets other work proceed while its reader pulls without a pause", async () => {
    const service = fake();
    service.runLog.add(large(1, "x".repeat(2_000_000)), { id: 2, event: "end", data: "{}" });
    const reader = await open(service, STREAM);
    let ticks = 0;
    let next = setImmediate(function tick() {
      ticks += 1;
      next = setImmediate(tick);
    });
    const { sizes } = await drain(reader);
    clearImmediate(next);
    assert.ok(ticks >= Math.floor(sizes.length / 64), `${ticks} ticks for ${sizes.length} chunks`);
  });

  it("takes a frame only when the one before is nearly sent", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    service.runLog.frames.push(large(1, "x".repeat(4 * CHUNK)));
    await reader.bytes();
    service.runLog.add(large(2, "y"), { id: 3, event: "end", data: "{}" });
    await reader.bytes();
    assert.equal(service.runLog.frames.length, 2);
    assert.match(
      (await drain(reader)).text,
      /^x+"\n\nid: 2\nevent: values\ndata: "y"\n\nid: 3\nevent: end\ndata: \{\}\n\n$/,
    );
  });

  it("sends heartbeats between frames only", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    const first = large(1, "x".repeat(2 * CHUNK));
    const end = { id: 2, event: "end", data: "{}" };
    service.runLog.add(first);
    let text = (await reader.next()) ?? "";
    service.elapse(5_000);
    service.runLog.add(end);
    text += (await drain(reader)).text;
    assert.equal(text, `${wire(first)}: heartbeat\n${wire(end)}`);
  });

  it("ends after everything was sent, and not if its reader stalls", async () => {
    const service = fake();
    const reader = await open(service, STREAM);
    service.runLog.add({ id: 1, event: "end", data: JSON.stringify("x".repeat(4 * CHUNK)) });
    await reader.bytes();
    for (let beats = 0; beats < 6; beats++) service.elapse(5_000);
    await assert.rejects(reader.bytes());
    assert.equal(service.timers(), 0);
  });
});

describe("a wait response", () => {
  it("cuts no character of a large result, and inserts nothing into it", async () => {
    const service = fake();
    const reader = await open(service, WAIT);
    const result = { text: "x\u{1f600}".repeat(30_000) };
    service.result.resolve(result);
    let text = (await reader.next()) ?? "";
    service.elapse(5_000);
    text += (await drain(reader)).text;
    assert.deepEqual(JSON.parse(text), result);
    assert.deepEqual([service.timers(), service.leaves()], [0, 0]);
  });

  it("returns the result as JSON", async () => {
    const service = fake();
    const response = await service.send("POST", WAIT, request);
    assert.equal(response.headers.get("content-type"), "application/json");
    service.result.resolve({ messages: [] });
    assert.deepEqual(await response.json(), { messages: [] });
    assert.deepEqual([service.timers(), service.leaves()], [0, 0]);
  });

  it("keeps the connection open with white space", async () => {
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

  it("never returns null", async () => {
    const service = fake();
    service.result.resolve(null);
    const response = await service.send("POST", WAIT, request);
    assert.equal(await response.text(), "{}");
  });

  it("reports a disconnected reader", async () => {
    const service = fake();
    const reader = await open(service, WAIT);
    const pending = reader.next();
    await reader.cancel();
    assert.equal(await pending, undefined);
    assert.deepEqual([service.leaves(), service.timers()], [1, 0]);
  });

  it("returns an error of the server as __error__ without its text", async () => {
    const service = fake();
    const response = await service.send("POST", WAIT, request);
    service.result.reject(new Error("disk of host x"));
    assert.deepEqual(await response.json(), {
      __error__: { error: "InternalServerError", message: "Internal server error" },
    });
    assert.equal((service.log[0]!.error as Error).message, "disk of host x");
  });
});

/** A large answer that many clients of an agent protocol have begun to read shares memory. */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { it } from "node:test";
import { testService } from "../../../suite/mod.ts";
import { measureHeap } from "../../../support/heap.ts";

const SIZE = 4 * 1024 * 1024;
const READERS = 12;

const user = { id: randomUUID(), role: "user" };
const BODIES: Readonly<Record<string, object>> = {
  "/ai/large/chat": {
    ...{ id: randomUUID(), trigger: "submit-message" },
    messages: [{ ...user, parts: [{ type: "text", text: "Hi" }] }],
  },
  "/ag-ui/large": {
    ...{ threadId: randomUUID(), runId: randomUUID(), tools: [], context: [], state: {}, forwardedProps: {} },
    messages: [{ ...user, content: "Hi" }],
  },
};

for (const [path, body] of Object.entries(BODIES)) {
  it(`the large answer of ${path} is one text for all readers`, async () => {
    await using kit = await testService({ agents: { large: () => "m".repeat(SIZE) } });
    const readers: ReadableStreamDefaultReader<Uint8Array>[] = [];
    const open = async (): Promise<void> => {
      const headers = { "content-type": "application/json" };
      const request = { method: "POST", headers, body: JSON.stringify(body) };
      const response = await kit.fetch(`http://localhost${path}`, request);
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      // The reader has received the start of the text, and reads no more.
      for (let size = 0; size < 64 * 1024; ) {
        const { value } = await reader.read();
        assert.ok(value);
        size += value.length;
      }
      readers.push(reader);
    };
    await open();
    const before = await measureHeap();
    for (let count = 0; count < READERS; count++) await open();
    const each = ((await measureHeap()) - before) / READERS;
    assert.ok(each < 1.5 * SIZE, `${Math.round(each)} bytes for each reader`);
    for (const reader of readers) await reader.cancel();
  });
}

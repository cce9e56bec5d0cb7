import assert from "node:assert/strict";
import { test } from "node:test";
import { createApp } from "greenroom/app";
import { agent } from "./agent.ts";

test("the agent answers, and remembers the thread", async () => {
  const app = await createApp({ database: ":memory:", agents: { agent } });
  try {
    const { thread_id } = await app.service.threads.create({});
    for (const content of ["Hello", "Still there?"]) {
      const input = { messages: [{ role: "user", content }] };
      const { result } = await app.service.runs.wait(thread_id, { assistant_id: "agent", input });
      await result;
    }
    const { values } = await app.service.threads.state(thread_id);
    const { messages } = values as { messages: { content: string }[] };
    assert.equal(messages.length, 4);
    assert.equal(messages.at(-1)?.content, 'Message 3: you said "Still there?".');
  } finally {
    await app.stop();
  }
});

test("a refund asks first, and goes on with the answer", async () => {
  const app = await createApp({ database: ":memory:", agents: { agent } });
  try {
    const { threads, runs } = app.service;
    const { thread_id } = await threads.create({});
    const input = { messages: [{ role: "user", content: "A refund, please" }] };
    await (await runs.wait(thread_id, { assistant_id: "agent", input })).result;
    assert.equal((await threads.get(thread_id)).status, "interrupted");
    const { result } = await runs.wait(thread_id, { assistant_id: "agent", command: { resume: true } });
    const { messages } = (await result) as { messages: { content: string }[] };
    assert.equal(messages.at(-1)?.content, "It is refunded.");
  } finally {
    await app.stop();
  }
});

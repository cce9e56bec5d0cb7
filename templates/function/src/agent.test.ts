import assert from "node:assert/strict";
import { test } from "node:test";
import { createApp } from "greenroom/app";
import { agent } from "./agent.ts";

test("the agent answers, and remembers the thread", async () => {
  const { service, stop } = await createApp({ database: ":memory:", agents: { agent } });
  try {
    const { thread_id } = await service.threads.create();
    await service.runs.run("agent", { messages: "Hello" }, { thread_id });
    const { messages = [] } = await service.runs.run("agent", { messages: "Still there?" }, { thread_id });
    assert.equal(messages.length, 4);
    assert.equal(messages.at(-1)?.content, 'Message 3: you said "Still there?".');
  } finally {
    await stop();
  }
});

test("a refund asks first, and goes on with the answer", async () => {
  const { service, stop } = await createApp({ database: ":memory:", agents: { agent } });
  try {
    const calls = service.agent("agent");
    const run = await calls.start({ messages: "A refund, please" });
    const asked = await run.outcome();
    assert.equal(asked.status, "waiting");
    const answered = await calls.resume(run.thread_id, true);
    assert.equal(answered.status, "success");
    assert.equal(answered.values.messages?.at(-1)?.content, "It is refunded.");
  } finally {
    await stop();
  }
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { createApp } from "greenroom/app";
import { agent } from "./agent.ts";

test("the agent streams the reply of the model", async () => {
  const { service, stop } = await createApp({ database: ":memory:", agents: { agent } });
  try {
    const { thread_id } = await service.threads.create();
    await service.runs.run("agent", { messages: "Hello" }, { thread_id });
    const { messages = [] } = await service.runs.run("agent", { messages: "Still there?" }, { thread_id });
    assert.equal(messages.length, 4);
    assert.equal(messages.at(-1)?.content, 'You said "Still there?".');
  } finally {
    await stop();
  }
});

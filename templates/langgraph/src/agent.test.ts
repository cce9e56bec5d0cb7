import assert from "node:assert/strict";
import { test } from "node:test";
import { createApp } from "greenroom/app";
import { agent } from "./agent.ts";

test("the agent answers, and asks before it deletes", async () => {
  const { service, stop } = await createApp({ database: ":memory:", agents: { agent } });
  try {
    const calls = service.agent("agent");
    const { messages } = await calls.run({ messages: "Hello" });
    assert.equal(messages.at(-1)?.content, 'You said "Hello".');
    const run = await calls.start({ messages: "Delete it" });
    const asked = await run.outcome();
    assert.equal(asked.status, "waiting");
    const answered = await calls.resume(run.thread_id, "no");
    assert.equal(answered.status, "success");
    assert.equal(answered.values.messages.at(-1)?.content, "Nothing was deleted.");
  } finally {
    await stop();
  }
});

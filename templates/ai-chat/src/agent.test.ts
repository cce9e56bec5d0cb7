import assert from "node:assert/strict";
import { test } from "node:test";
import { createApp } from "greenroom/app";
import { agent } from "./agent.ts";

test("the agent streams the reply of the model", async () => {
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
    assert.equal(messages.at(-1)?.content, 'You said "Still there?".');
  } finally {
    await app.stop();
  }
});

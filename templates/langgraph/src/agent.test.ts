import assert from "node:assert/strict";
import { test } from "node:test";
import { createApp } from "greenroom/app";
import { agent } from "./agent.ts";

test("the agent answers, and asks before it deletes", async () => {
  const app = await createApp({ database: ":memory:", agents: { agent } });
  try {
    const { thread_id } = await app.service.threads.create({});
    const run = async (request: object): Promise<string | undefined> => {
      const { result } = await app.service.runs.wait(thread_id, { assistant_id: "agent", ...request });
      await result;
      const { values } = await app.service.threads.state(thread_id);
      return (values as { messages: { content: string }[] }).messages.at(-1)?.content;
    };
    const say = (content: string) => run({ input: { messages: [{ role: "user", content }] } });
    assert.equal(await say("Hello"), 'You said "Hello".');
    await say("Delete it");
    assert.equal((await app.service.threads.get(thread_id)).status, "interrupted");
    assert.equal(await run({ command: { resume: "no" } }), "Nothing was deleted.");
  } finally {
    await app.stop();
  }
});

// Tests an agent without a socket and without a file. After npm run build: npx bun test, npx node --test
// (Node 24 or newer, for `await using`) or npx deno test -A (also needs @types/node), and then examples/agent.test.ts.
import assert from "node:assert/strict";
import { it } from "node:test";
import { testService } from "greenroom/testing";

it("remembers what was said before", async () => {
  await using test = await testService({
    agents: {
      async *counter({ messages }) {
        yield `This is message ${messages.length}.`;
      },
    },
  });
  const { threads, runs } = test.service;
  const { thread_id } = await threads.create();
  await runs.run("counter", { messages: "Hello" }, { thread_id });
  const { messages } = await runs.run("counter", { messages: "Are you still there?" }, { thread_id });
  assert.deepEqual(
    messages?.map(({ type, content }) => [type, content]),
    [
      ["human", "Hello"],
      ["ai", "This is message 1."],
      ["human", "Are you still there?"],
      ["ai", "This is message 3."],
    ],
  );
});

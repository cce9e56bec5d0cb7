// Tests an agent with the stock SDK, without a socket and without a file. After npm run build: npx bun test, npx node --test
// (Node 24 or newer, for `await using`) or npx deno test -A (also needs @types/node), and then examples/agent.test.ts.
import assert from "node:assert/strict";
import { it } from "node:test";
import { Client } from "@langchain/langgraph-sdk";
import { testService } from "greenroom/testing";

it("remembers what was said before", async () => {
  await using test = await testService({
    agents: {
      async *counter({ messages }) {
        yield `This is message ${messages.length}.`;
      },
    },
  });
  const client = new Client({ apiUrl: "http://greenroom", callerOptions: { fetch: test.fetch } });
  const { thread_id } = await client.threads.create();
  const say = (content: string) =>
    client.runs.wait(thread_id, "counter", { input: { messages: [{ role: "user", content }] } });

  await say("Hello");
  const { messages } = (await say("Are you still there?")) as { messages: { type: string; content: string }[] };
  assert.deepEqual(
    messages.map(({ type, content }) => [type, content]),
    [
      ["human", "Hello"],
      ["ai", "This is message 1."],
      ["human", "Are you still there?"],
      ["ai", "This is message 3."],
    ],
  );
});
